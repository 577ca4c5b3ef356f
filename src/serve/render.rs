//! Markdown → HTML that does no harm: links lead where the graph says, nothing is loaded from elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{CowStr, Event, HeadingLevel, OffsetIter, Parser, Tag, TagEnd, html};

use super::breaks;
use super::raw::Raw;
use super::shell::{encoded, page_url};
use crate::model::markdown::{LinkKind, Readable, WIKILINK, options, target_of};

/// Pieces of a page that are shown: paragraphs, headings, cells, links, marks, and spans of text between them. Chromium lays
/// out this many in half a second; a long page of prose has some thousands.
pub(super) const MOST_PIECES: usize = 40_000;
/// Targets of one page that are looked up.
pub(super) const MOST_TARGETS: usize = 2_000;
/// Headings that stand in the outline.
const OUTLINE: usize = 200;
/// Bytes of an image that stands in the page itself.
const INLINE_IMAGE: usize = 64 << 10;

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lead {
    /// To a page; several may be as good.
    Page { path: String, ambiguous: bool },
    /// To a file of the wiki that is shown as it is.
    File(String),
    /// To something that we do not show.
    Other,
    /// To no page yet.
    Missing,
}

/// A link's way of writing and its target.
pub(super) type Wanted = (LinkKind, String);

/// A page as it is shown.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) html: String,
    /// Level, text and id of the headings.
    pub(super) outline: Vec<(u8, String, String)>,
    /// The end is left out.
    pub(super) is_cut: bool,
}

/// Renders a page's body. The first heading is left out where it says what the title does; `lead` looks up where the targets lead.
pub(super) fn render(
    ready: &Readable,
    title: &str,
    lead: impl FnOnce(&BTreeSet<Wanted>) -> HashMap<Wanted, Lead>,
) -> Rendered {
    let (events, is_cut) = bounded(Reader::of(&ready.text));
    let headings = Headings::of(&events);
    let writer = Writer {
        ready,
        leads: lead(&wanted(ready, &events)),
        raw: Raw::default(),
    };
    let (first, outline) = headings.outline(title);
    let events = writer.write(events, headings.ids, first);
    let mut unsafe_html = String::with_capacity(ready.text.len() * 3 / 2);
    html::push_html(&mut unsafe_html, events.into_iter());
    // The policy of our pages allows no styles in tags.
    for side in ["left", "center", "right"] {
        let style = format!(" style=\"text-align: {side}\"");
        unsafe_html = unsafe_html.replace(&style, &format!(" align=\"{side}\""));
    }
    Rendered {
        html: breaks::html(&clean(&unsafe_html)),
        outline,
        is_cut,
    }
}

/// Returns what a reader of a piece of Markdown reads, in one line.
#[must_use]
pub fn plain(text: &str) -> String {
    // A line of dashes at its beginning is no metadata: those are of a page.
    let ready = Readable::of(&format!("\n{text}"));
    let mut plain = String::with_capacity(ready.text.len());
    for event in Reader::of(&ready.text) {
        match event {
            Event::Text(text)
            | Event::Code(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => plain.push_str(&text),
            Event::InlineHtml(_) | Event::Html(_) | Event::TaskListMarker(_) => {}
            Event::Start(tag) if is_inline(tag.to_end()) => {}
            Event::End(tag) if is_inline(tag) => {}
            _ => plain.push(' '),
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_inline(tag: TagEnd) -> bool {
    use TagEnd::{Emphasis, Image, Link, Strikethrough, Strong};
    matches!(tag, Emphasis | Strong | Strikethrough | Link | Image)
}

/// The parser's events, but that one tilde strikes nothing out: in `~5 s … ~6 s` it means "about".
struct Reader<'t> {
    text: &'t str,
    events: OffsetIter<'t>,
}

impl<'t> Reader<'t> {
    fn of(text: &'t str) -> Self {
        let events = Parser::new_ext(text, options()).into_offset_iter();
        Self { text, events }
    }
}

impl<'t> Iterator for Reader<'t> {
    type Item = Event<'t>;

    fn next(&mut self) -> Option<Event<'t>> {
        let (event, range) = self.events.next()?;
        let strikes = matches!(
            event,
            Event::Start(Tag::Strikethrough) | Event::End(TagEnd::Strikethrough)
        );
        if strikes && !self.text[range].starts_with("~~") {
            return Some(Event::Text("~".into()));
        }
        Some(event)
    }
}

/// Takes as many events as are shown, and says whether there are more. What is open at the end is closed by the sanitiser.
fn bounded(mut events: Reader<'_>) -> (Vec<Event<'_>>, bool) {
    let mut taken = Vec::new();
    let mut pieces = 0;
    while pieces < MOST_PIECES {
        let Some(event) = events.next() else {
            return (taken, false);
        };
        pieces += usize::from(!matches!(event, Event::End(_)));
        taken.push(event);
    }
    (taken, events.any(|event| !matches!(event, Event::End(_))))
}

/// Returns the targets to be looked up, as many as we look up.
fn wanted(ready: &Readable, events: &[Event<'_>]) -> BTreeSet<Wanted> {
    let mut wanted = BTreeSet::new();
    let mut add = |kind, target: String| {
        if wanted.len() < MOST_TARGETS {
            wanted.insert((kind, target));
        }
    };
    for event in events {
        let (kind, destination) = match event {
            Event::Start(Tag::Link { dest_url, .. }) => (LinkKind::Markdown, dest_url),
            Event::Start(Tag::Image { dest_url, .. }) => (LinkKind::Embed, dest_url),
            Event::Html(html) | Event::InlineHtml(html) => {
                Raw::default().plain(html, &mut |source, _| {
                    if let Some((target, _)) = target_of(source) {
                        add(LinkKind::Embed, target);
                    }
                    String::new()
                });
                continue;
            }
            _ => continue,
        };
        if let Some((kind, target, _)) = meant(ready, kind, destination) {
            add(kind, target);
        }
    }
    wanted
}

/// Returns what a destination means within the wiki: kind, target and anchor.
fn meant(
    ready: &Readable,
    kind: LinkKind,
    destination: &str,
) -> Option<(LinkKind, String, Option<String>)> {
    if let Some(written) = wikilink(ready, destination) {
        let link = written.link.as_ref()?;
        return Some((link.kind, link.target.clone(), link.anchor.clone()));
    }
    let (target, anchor) = target_of(destination)?;
    Some((kind, target, anchor))
}

fn wikilink<'r>(
    ready: &'r Readable,
    destination: &str,
) -> Option<&'r crate::model::markdown::Written> {
    let number = destination.strip_prefix(WIKILINK)?;
    ready.wikilinks.get(number.parse::<usize>().ok()?)
}

/// The headings of a page, each with an id of its own.
struct Headings {
    /// Level and text, in order.
    all: Vec<(u8, String)>,
    ids: Vec<String>,
}

impl Headings {
    fn of(events: &[Event<'_>]) -> Self {
        let mut all: Vec<(u8, String)> = Vec::new();
        let mut is_inside = false;
        for event in events {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    is_inside = true;
                    all.push((*level as u8, String::new()));
                }
                Event::End(TagEnd::Heading(_)) => is_inside = false,
                Event::Text(text) | Event::Code(text) if is_inside => {
                    if let Some((_, heading)) = all.last_mut() {
                        heading.push_str(text);
                    }
                }
                _ => {}
            }
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        let ids = all.iter().map(|(_, text)| {
            let id = slug(text);
            let number = seen.entry(id.clone()).or_default();
            *number += 1;
            match *number {
                1 => id,
                number => format!("{id}-{}", number - 1),
            }
        });
        let ids = ids.collect();
        Self { all, ids }
    }

    /// Returns whether the first heading is the title, and the outline without it.
    fn outline(&self, title: &str) -> (bool, Vec<(u8, String, String)>) {
        let is_title = |(level, text): &(u8, String)| *level == 1 && text.trim() == title.trim();
        let first = self.all.first().is_some_and(is_title);
        let outline = self.all.iter().zip(&self.ids).skip(usize::from(first));
        let outline = outline
            .filter(|((level, text), _)| *level <= 4 && !text.trim().is_empty())
            .map(|((level, text), id)| (*level, text.chars().take(120).collect(), id.clone()));
        (first, outline.take(OUTLINE).collect())
    }
}

/// Returns a heading's id, as sites make it of its text.
fn slug(text: &str) -> String {
    let mut slug = String::from("h-");
    for char in text.trim().chars().take(120) {
        match char {
            ' ' | '-' => slug.push('-'),
            '_' => slug.push('_'),
            char if char.is_alphanumeric() => slug.extend(char.to_lowercase()),
            _ => {}
        }
    }
    slug
}

struct Writer<'r> {
    ready: &'r Readable,
    leads: HashMap<Wanted, Lead>,
    raw: Raw,
}

impl Writer<'_> {
    /// Puts our own HTML in the place of headings, links, images and the page's HTML.
    fn write<'e>(
        mut self,
        events: Vec<Event<'e>>,
        ids: Vec<String>,
        first_is_title: bool,
    ) -> Vec<Event<'e>> {
        let mut out: Vec<Event<'e>> = Vec::with_capacity(events.len());
        let mut ids = ids.into_iter().enumerate();
        let mut links: Vec<&'static str> = Vec::new();
        let mut images: Vec<(CowStr<'e>, String)> = Vec::new();
        let mut block: Option<String> = None;
        let mut skips = false;
        for event in events {
            if skips {
                skips = !matches!(event, Event::End(TagEnd::Heading(_)));
                continue;
            }
            if !images.is_empty() {
                self.in_image(event, &mut images, &mut out);
                continue;
            }
            let written = match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    let (number, id) = ids.next().unwrap_or_default();
                    if number == 0 && first_is_title {
                        skips = true;
                        continue;
                    }
                    format!("<{} id=\"{id}\">", below(level))
                }
                Event::End(TagEnd::Heading(level)) => format!("</{}>", below(level)),
                Event::Start(Tag::Link { dest_url, .. }) => {
                    let (open, close) = self.link(&dest_url);
                    links.push(close);
                    open
                }
                Event::End(TagEnd::Link) => links.pop().unwrap_or_default().to_owned(),
                Event::Start(Tag::Image { dest_url, .. }) => {
                    images.push((dest_url, String::new()));
                    continue;
                }
                Event::Start(Tag::HtmlBlock) => {
                    block = Some(String::new());
                    continue;
                }
                Event::End(TagEnd::HtmlBlock) => {
                    let html = block.take().unwrap_or_default();
                    self.plain(&html)
                }
                Event::Html(html) | Event::InlineHtml(html) => match &mut block {
                    Some(block) => {
                        block.push_str(&html);
                        continue;
                    }
                    None => self.plain(&html),
                },
                Event::TaskListMarker(done) => if done { "☑ " } else { "☐ " }.to_owned(),
                Event::InlineMath(text) | Event::DisplayMath(text) => {
                    out.push(Event::Code(text));
                    continue;
                }
                Event::FootnoteReference(label) => format!("<sup>{}</sup>", escaped(&label)),
                Event::Start(Tag::FootnoteDefinition(label)) => {
                    format!("<div><sup>{}</sup> ", escaped(&label))
                }
                Event::End(TagEnd::FootnoteDefinition) => "</div>".into(),
                other => {
                    out.push(other);
                    continue;
                }
            };
            out.push(Event::InlineHtml(written.into()));
        }
        out
    }

    /// Collects what stands for an image until it ends.
    fn in_image<'e>(
        &mut self,
        event: Event<'e>,
        images: &mut Vec<(CowStr<'e>, String)>,
        out: &mut Vec<Event<'e>>,
    ) {
        match event {
            Event::Start(Tag::Image { dest_url, .. }) => images.push((dest_url, String::new())),
            Event::End(TagEnd::Image) => {
                let Some((destination, alt)) = images.pop() else {
                    return;
                };
                match images.last_mut() {
                    Some((_, outer)) => outer.push_str(&alt),
                    None => out.push(Event::InlineHtml(self.image(&destination, &alt).into())),
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, alt)) = images.last_mut() {
                    alt.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, alt)) = images.last_mut() {
                    alt.push(' ');
                }
            }
            _ => {}
        }
    }

    fn plain(&mut self, html: &str) -> String {
        let mut raw = std::mem::take(&mut self.raw);
        let left = raw.plain(html, &mut |src, alt| self.image(src, alt));
        self.raw = raw;
        left
    }

    fn lead(&self, kind: LinkKind, destination: &str) -> Option<(Lead, Option<String>)> {
        let (kind, target, anchor) = meant(self.ready, kind, destination)?;
        let lead = self.leads.get(&(kind, target));
        Some((lead.cloned().unwrap_or(Lead::Other), anchor))
    }

    /// Returns the tags around a link's text.
    fn link(&self, destination: &str) -> (String, &'static str) {
        let a = |href: &str, class: &str| {
            let class = if class.is_empty() {
                String::new()
            } else {
                format!(" class=\"{class}\"")
            };
            (format!("<a href=\"{}\"{class}>", escaped(href)), "</a>")
        };
        let span = |class: &str| (format!("<span class=\"{class}\">"), "</span>");
        if let Some((lead, anchor)) = self.lead(LinkKind::Markdown, destination) {
            return match lead {
                Lead::Page { path, ambiguous } => {
                    let fragment = anchor.map(|anchor| format!("#{}", encoded(&slug(&anchor))));
                    let href = page_url(&path) + &fragment.unwrap_or_default();
                    a(&href, if ambiguous { "ambiguous" } else { "" })
                }
                Lead::File(path) => a(&file_url(&path), ""),
                Lead::Missing => span("broken"),
                Lead::Other => span("elsewhere"),
            };
        }
        // To this page or out of the wiki.
        let raw = match wikilink(self.ready, destination) {
            Some(written) => Cow::Borrowed(written.shown.as_str()),
            None => Cow::Borrowed(destination),
        };
        if let Some(anchor) = raw.strip_prefix('#') {
            return a(&format!("#{}", encoded(&slug(anchor))), "");
        }
        if is_outside(&raw) {
            return a(&raw, "outside");
        }
        span("elsewhere")
    }

    fn image(&self, destination: &str, alt: &str) -> String {
        let alt_text = escaped(alt);
        let picture = |src: &str| format!("<img src=\"{}\" alt=\"{alt_text}\">", escaped(src));
        let named = |alt: &str| if alt.is_empty() { "image" } else { alt }.to_owned();
        match self.lead(LinkKind::Embed, destination) {
            Some((Lead::File(path), _)) => picture(&file_url(&path)),
            Some((Lead::Page { path, .. }, _)) => format!(
                "<a href=\"{}\" class=\"embed\">{}</a>",
                escaped(&page_url(&path)),
                escaped(&named(alt))
            ),
            Some((Lead::Missing | Lead::Other, _)) => {
                format!("<span class=\"broken\">{}</span>", escaped(&named(alt)))
            }
            None if is_inline_image(destination) => picture(destination),
            None if is_outside(destination) => format!(
                "<a href=\"{}\" class=\"outside\">{}</a>",
                escaped(destination),
                escaped(&named(alt))
            ),
            None => escaped(&named(alt)),
        }
    }
}

/// A page's headings stand below its title.
fn below(level: HeadingLevel) -> String {
    format!("h{}", (level as u8 + 1).min(6))
}

/// Returns the address at which a file of the wiki is shown.
pub(super) fn file_url(path: &str) -> String {
    format!("/file?path={}", encoded(path))
}

fn starts_with(text: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| {
        let start = text.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

fn is_outside(url: &str) -> bool {
    starts_with(url, &["http://", "https://", "mailto:"])
}

fn is_inline_image(url: &str) -> bool {
    const KINDS: &[&str] = &[
        "data:image/png;base64,",
        "data:image/jpeg;base64,",
        "data:image/gif;base64,",
        "data:image/webp;base64,",
    ];
    url.len() <= INLINE_IMAGE && starts_with(url, KINDS)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Lets through what we wrote and nothing else.
fn clean(html: &str) -> String {
    let is_ours = |url: &str| starts_with(url, &["/page?path=", "/file?path=", "#h-"]);
    let mut builder = Builder::default();
    builder
        .rm_tags([
            "map", "area", "link", "style", "base", "form", "input", "wbr",
        ])
        .add_url_schemes(["data"])
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("noopener noreferrer nofollow"))
        .rm_generic_attributes(["lang", "title"])
        .add_tag_attributes("h2", ["id"])
        .add_tag_attributes("h3", ["id"])
        .add_tag_attributes("h4", ["id"])
        .add_tag_attributes("h5", ["id"])
        .add_tag_attributes("h6", ["id"])
        .add_allowed_classes("a", ["ambiguous", "outside", "embed"])
        .add_allowed_classes("span", ["broken", "elsewhere"])
        .attribute_filter(move |element, attribute, value| {
            let is_good = match (element, attribute) {
                ("a", "href") => is_ours(value) || is_outside(value),
                ("img", "src") => starts_with(value, &["/file?path="]) || is_inline_image(value),
                (_, "href" | "src" | "cite" | "action" | "background" | "style") => false,
                (_, "id") => value.starts_with("h-"),
                _ => true,
            };
            is_good.then_some(Cow::Borrowed(value))
        });
    builder.clean(html).to_string()
}

#[cfg(test)]
mod tests;
