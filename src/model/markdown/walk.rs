//! One walk over the Markdown parser's events: headings, Markdown links, and where text is no text.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use super::destination;
use super::spans::Spans;
use super::{Link, LinkKind};

/// Most characters of a link's label that are kept.
const MAX_LABEL_CHARS: usize = 500;

/// What a walk over a body finds; offsets are the body's.
#[derive(Debug, Default)]
pub(super) struct Walk<'a> {
    /// Headings in order.
    pub(super) headings: Vec<FoundHeading<'a>>,
    /// Markdown links and images in order of their start; of those that lead out of the wiki only the place.
    pub(super) links: Vec<FoundLink>,
    /// Code, HTML, mathematics, reference definitions and the destinations of links: no wikilink and no tag
    /// stands there.
    pub(super) masks: Spans,
    /// What stands between tags of HTML in a line and is no prose, as `<code>#fff</code>`: no tag of ours stands there.
    pub(super) raw: Spans,
    /// Tables: a `|` in them is written `\|`.
    pub(super) tables: Vec<Range<usize>>,
}

/// A heading, with its text in pieces since wikilinks in it are found later.
#[derive(Debug)]
pub(super) struct FoundHeading<'a> {
    /// 1 to 6.
    pub(super) level: u8,
    /// The heading's lines.
    pub(super) range: Range<usize>,
    /// Whether it stands in no list, quotation or the like.
    pub(super) outermost: bool,
    /// Its text without markup, piece by piece, each with its offset.
    pub(super) pieces: Vec<(usize, pulldown_cmark::CowStr<'a>)>,
}

/// A Markdown link or image.
#[derive(Debug)]
pub(super) struct FoundLink {
    /// The whole link.
    pub(super) range: Range<usize>,
    /// Whether it is an image.
    pub(super) image: bool,
    /// Where its text ends, or a little before.
    pub(super) text_end: usize,
    /// The definition that tells where it leads, of a link by reference.
    pub(super) definition: Option<Range<usize>>,
    /// The link, where it leads into the wiki. Its line is yet to be told.
    pub(super) link: Option<Link>,
}

/// A link whose end is yet to come.
struct Open {
    index: usize,
    destination: String,
    label: String,
    text_end: usize,
    range: Range<usize>,
}

/// Elements of HTML whose content is code.
const CODE: [&str; 4] = ["code", "kbd", "pre", "samp"];
/// Those whose content no reader sees; without their end they go on.
const UNSEEN: [&str; 2] = ["script", "style"];

/// Finds what stands between the tags of such an element in a line: their content is text to a Markdown parser.
#[derive(Default)]
struct Raw {
    /// The element whose end is yet to come, and where its content begins.
    open: Option<(&'static str, usize)>,
    spans: Vec<Range<usize>>,
}

impl Raw {
    /// Takes in an event: `range` is where it stands.
    fn take(&mut self, event: &Event<'_>, range: &Range<usize>) {
        match event {
            Event::InlineHtml(html) => self.tag(html, range),
            Event::Start(tag) if !is_inline(tag.to_end()) => self.end(range.start),
            Event::End(tag) if !is_inline(*tag) => self.end(range.end),
            _ => {}
        }
    }

    fn tag(&mut self, html: &str, range: &Range<usize>) {
        let after = html.trim_start_matches(['<', '/']);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let name = &after[..end.unwrap_or(after.len())];
        match self.open {
            Some((open, start)) => {
                if html.starts_with("</") && open.eq_ignore_ascii_case(name) {
                    self.spans.push(start..range.start);
                    self.open = None;
                }
            }
            None if html.starts_with("</") || html.ends_with("/>") => {}
            None => {
                let mut known = CODE.into_iter().chain(UNSEEN);
                let known = known.find(|known| known.eq_ignore_ascii_case(name));
                self.open = known.map(|name| (name, range.end));
            }
        }
    }

    /// Ends with its block what has no end of its own.
    fn end(&mut self, at: usize) {
        if let Some((name, start)) = self.open.take()
            && UNSEEN.contains(&name)
        {
            self.spans.push(start..at.max(start));
        }
    }
}

/// Says whether it stands in a line, with text before and after it.
fn is_inline(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image
    )
}

/// What is Markdown to us beside `CommonMark`.
pub(super) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_MATH);

/// Walks over a body.
pub(super) fn walk(body: &str) -> Walk<'_> {
    let mut events = Parser::new_ext(body, OPTIONS).into_offset_iter();
    let definitions = events.reference_definitions().iter();
    let mut masks: Vec<Range<usize>> = definitions.map(|(_, link)| link.span.clone()).collect();
    let mut found = Walk::default();
    let mut open: Vec<Open> = Vec::new();
    let mut in_heading = false;
    let mut depth = 0_usize;
    let mut raw = Raw::default();
    while let Some((event, range)) = events.next() {
        raw.take(&event, &range);
        let closes = matches!(event, Event::End(TagEnd::Link | TagEnd::Image));
        if let Some(open) = open.last_mut().filter(|_| !closes) {
            open.text_end = open.text_end.max(range.end);
        }
        let text = match event {
            Event::Start(Tag::Heading { level, .. }) => {
                in_heading = true;
                found.headings.push(FoundHeading {
                    level: level as u8,
                    range,
                    outermost: depth == 0,
                    pieces: Vec::new(),
                });
                continue;
            }
            Event::End(TagEnd::Heading(_)) => {
                in_heading = false;
                continue;
            }
            Event::Start(
                ref tag @ (Tag::Link {
                    link_type,
                    ref dest_url,
                    ref id,
                    ..
                }
                | Tag::Image {
                    link_type,
                    ref dest_url,
                    ref id,
                    ..
                }),
            ) => {
                if matches!(link_type, LinkType::Autolink | LinkType::Email) {
                    masks.push(range.clone());
                }
                let image = matches!(tag, Tag::Image { .. });
                let definition = by_reference(link_type, id)
                    .and_then(|id| events.reference_definitions().get(id))
                    .map(|definition| definition.span.clone());
                let links = &mut found.links;
                begin(&mut open, links, image, dest_url, (range, definition));
                continue;
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let Some(ended) = open.pop() else { continue };
                // Not the `]` itself: in `[[Page]]` it may be a wikilink's too.
                masks.push(ended.range.end.min(ended.text_end + 1)..ended.range.end);
                if let Some(outer) = open.last_mut() {
                    append(&mut outer.label, &ended.label);
                }
                close(&mut found.links, ended);
                continue;
            }
            Event::Text(text) => text,
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                masks.push(range.clone());
                text
            }
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::MetadataBlock(_))
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_) => {
                masks.push(range);
                continue;
            }
            Event::Start(tag) => {
                found
                    .tables
                    .extend(matches!(tag, Tag::Table(_)).then_some(range));
                depth += usize::from(is_container(tag.to_end()));
                continue;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(usize::from(is_container(tag)));
                continue;
            }
            Event::SoftBreak | Event::HardBreak => " ".into(),
            Event::Html(_) | Event::Rule | Event::TaskListMarker(_) => continue,
        };
        if let Some(open) = open.last_mut() {
            append(&mut open.label, &text);
        }
        if in_heading && let Some(heading) = found.headings.last_mut() {
            heading.pieces.push((range.start, text));
        }
    }
    found.masks = Spans::of(masks);
    found.raw = Spans::of(raw.spans);
    found
}

/// Says whether blocks stand inside this one.
fn is_container(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item | TagEnd::FootnoteDefinition
    )
}

/// Appends to a label as far as it may grow, so that images in images in … stay linear.
fn append(label: &mut String, text: &str) {
    if label.len() < MAX_LABEL_CHARS {
        label.extend(text.chars().take(MAX_LABEL_CHARS));
    }
}

/// Returns the name of the definition that a link refers to.
fn by_reference(kind: LinkType, id: &str) -> Option<&str> {
    use LinkType::{Collapsed, Reference, Shortcut};
    matches!(kind, Reference | Collapsed | Shortcut).then_some(id)
}

fn begin(
    open: &mut Vec<Open>,
    links: &mut Vec<FoundLink>,
    image: bool,
    destination: &str,
    (range, definition): (Range<usize>, Option<Range<usize>>),
) {
    open.push(Open {
        index: links.len(),
        destination: destination.to_owned(),
        label: String::new(),
        text_end: range.start + 1,
        range: range.clone(),
    });
    links.push(FoundLink {
        range,
        image,
        text_end: 0,
        definition,
        link: None,
    });
}

fn close(links: &mut [FoundLink], closed: Open) {
    links[closed.index].text_end = closed.text_end;
    let Some((target, anchor)) = destination::of_markdown(&closed.destination) else {
        return;
    };
    let found = &mut links[closed.index];
    let label = closed.label.trim();
    let told = !label.is_empty() && label != target && label != closed.destination;
    found.link = Some(Link {
        kind: if found.image {
            LinkKind::Embed
        } else {
            LinkKind::Markdown
        },
        target,
        anchor,
        label: told.then(|| label.to_owned()),
        line: 0,
        range: closed.range,
    });
}
