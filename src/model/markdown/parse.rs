//! Puts together what the other files find.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::sections::Cut;
use super::spans::Spans;
use super::walk::{FoundHeading, FoundLink};
use super::wikilinks::FoundWikilink;
use super::{
    Document, FrontMatter, Heading, Link, LinkKind, Section, Warning, fold_key, front_matter,
    lines, nesting, sections, tags, walk, wikilinks,
};
use crate::model::PagePath;

/// Most links that are taken from one page, the first ones. Larger lists are data.
pub const MAX_LINKS: usize = 100_000;

/// Most headings that are taken from one page, the first ones.
pub const MAX_HEADINGS: usize = 100_000;

/// Most tags that are taken from one page, the first ones.
pub const MAX_TAGS: usize = 10_000;

/// Longest title, in characters: it stands in every point of its page.
pub const MAX_TITLE_CHARS: usize = 500;

impl Document {
    /// Parses a page. `path` gives the title of a page that has none. A text without any words gives one
    /// section with the title, so that every page can be found.
    #[must_use]
    pub fn parse(path: &PagePath, text: &str) -> Self {
        let text = &*with_common_line_ends(text);
        let mut warnings = Vec::new();
        let (front_matter, start) = front_matter::read(text, &mut warnings);
        let body = &text[start..];
        let bounded = nesting::bounded(body);
        let walked = walk::walk(&bounded);
        let wikilinks = wikilinks::find(body, &walked.masks);

        let mut headings: Vec<Heading> = Vec::new();
        let mut cuts: Vec<(usize, &FoundHeading<'_>)> = Vec::new();
        let mut line_of = lines::Lines::of(text);
        for (found, text) in with_texts(&walked.headings, &wikilinks) {
            if headings.len() == MAX_HEADINGS {
                warnings.push(Warning {
                    line: line_of.at(start + found.range.start),
                    message: format!("more than {MAX_HEADINGS} headings, the rest is plain text"),
                });
                break;
            }
            if found.outermost {
                cuts.push((headings.len(), found));
            }
            headings.push(Heading {
                level: found.level,
                text,
                line: line_of.at(start + found.range.start),
            });
        }
        let cuts: Vec<Cut<'_>> = cuts
            .into_iter()
            .map(|(index, found)| Cut {
                level: found.level,
                text: &headings[index].text,
                start: start + found.range.start,
                end: start + found.range.end,
            })
            .collect();

        let title = title(path, &front_matter, &headings);
        let mut sections = sections::sections(text, start, &cuts);
        if sections.is_empty() {
            sections.push(Section {
                trail: Vec::new(),
                text: title.clone(),
                line: 1,
            });
        }
        let tags = all_tags(&front_matter, body, &walked, &wikilinks);
        let mut links = merged(walked.links, wikilinks);
        if links.len() > MAX_LINKS {
            warnings.push(Warning {
                line: lines::Lines::of(text).at(start + links[MAX_LINKS].range.start),
                message: format!("more than {MAX_LINKS} links, the rest is left out"),
            });
            links.truncate(MAX_LINKS);
        }
        let mut line_of = lines::Lines::of(text);
        for link in &mut links {
            link.range = start + link.range.start..start + link.range.end;
            link.line = line_of.at(link.range.start);
        }
        Self {
            title,
            front_matter,
            links,
            tags,
            headings,
            sections,
            warnings,
        }
    }
}

/// Makes each lone `\r` a `\n`, which Markdown says it is and which moves no offset.
pub(super) fn with_common_line_ends(text: &str) -> Cow<'_, str> {
    let mut rest = text;
    let lone = |text: &str| -> Option<usize> {
        text.match_indices('\r')
            .map(|(at, _)| at)
            .find(|at| text.as_bytes().get(at + 1) != Some(&b'\n'))
    };
    let mut changed = String::new();
    while let Some(at) = lone(rest) {
        changed.push_str(&rest[..at]);
        changed.push('\n');
        rest = &rest[at + 1..];
    }
    if changed.is_empty() {
        return Cow::Borrowed(text);
    }
    changed.push_str(rest);
    Cow::Owned(changed)
}

/// Gives each heading that has any its text, with wikilinks in it as a reader sees them.
fn with_texts<'a>(
    headings: &'a [FoundHeading<'a>],
    wikilinks: &'a [FoundWikilink],
) -> impl Iterator<Item = (&'a FoundHeading<'a>, String)> {
    headings.iter().filter_map(|heading| {
        let mut text = String::new();
        let mut shown = None;
        for (at, piece) in &heading.pieces {
            let index = wikilinks.partition_point(|link| link.range.end <= *at);
            match wikilinks.get(index) {
                Some(link) if link.range.start <= *at => {
                    if shown.replace(index) != Some(index) {
                        text.push_str(&link.shown);
                    }
                }
                _ => text.push_str(piece),
            }
        }
        // `## Text {#id}`, as some site generators have it.
        let text = match text.rfind('{') {
            Some(at) if text.ends_with('}') && text[at + 1..].starts_with(['#', '.']) => {
                &text[..at]
            }
            _ => &text,
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then_some((heading, text))
    })
}

fn title(path: &PagePath, front_matter: &FrontMatter, headings: &[Heading]) -> String {
    let heading = headings.iter().find(|heading| heading.level == 1);
    let title = front_matter
        .title
        .as_deref()
        .or(heading.map(|heading| &*heading.text))
        .unwrap_or(path.stem());
    title.chars().take(MAX_TITLE_CHARS).collect()
}

/// Returns the metadata's and the body's tags, each key once.
fn all_tags(
    front_matter: &FrontMatter,
    body: &str,
    walked: &walk::Walk<'_>,
    wikilinks: &[FoundWikilink],
) -> Vec<String> {
    let mut seen = HashSet::new();
    let masks = walked
        .masks
        .iter()
        .chain(walked.raw.iter())
        .chain(walked.links.iter().map(|link| &link.range))
        .chain(wikilinks.iter().map(|link| &link.range));
    let masks = Spans::of(masks.cloned().collect());
    let inline = tags::find(body, &masks);
    let tags = front_matter.tags.iter().map(String::as_str).chain(inline);
    tags.filter(|tag| seen.insert(fold_key(tag)))
        .take(MAX_TAGS)
        .map(str::to_owned)
        .collect()
}

/// Puts both kinds of links in one order. Where they overlap, the outer one counts: `[[1]](page.md)` is a
/// Markdown link, `[[Page]]` is a wikilink even where a reference `[page]: …` is defined. An embed in a
/// link's text counts too.
fn merged(links: Vec<FoundLink>, wikilinks: Vec<FoundWikilink>) -> Vec<Link> {
    let counted = counted(&links, wikilinks);
    let brackets = Spans::of(counted.iter().map(|found| found.range.clone()).collect());
    let mut merged: Vec<Link> = links
        .into_iter()
        .filter(|found| !inside(&found.range, &brackets))
        .filter_map(|found| found.link)
        .chain(counted.into_iter().filter_map(|found| found.link))
        .collect();
    merged.sort_by_key(|link| link.range.start);
    merged
}

/// Returns the wikilinks that are no part of a Markdown link.
pub(super) fn counted(links: &[FoundLink], wikilinks: Vec<FoundWikilink>) -> Vec<FoundWikilink> {
    let places = |image: bool| {
        let found = links.iter().filter(|found| found.image || !image);
        Spans::of(found.map(|found| found.range.clone()).collect())
    };
    let (all, images) = (places(false), places(true));
    wikilinks
        .into_iter()
        .filter(|found| {
            let embed = found.link.as_ref().map(|link| link.kind) == Some(LinkKind::Embed);
            !inside(&found.range, if embed { &images } else { &all })
        })
        .collect()
}

fn inside(range: &Range<usize>, spans: &Spans) -> bool {
    let around = spans.around(range.start);
    around.is_some_and(|span| range.end <= span.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(&PagePath::parse("wiki/page.md").expect("valid"), text)
    }

    /// `kind target # anchor | label`, one per link.
    fn links(text: &str) -> Vec<String> {
        let document = parse(text);
        for link in &document.links {
            let written = &text[link.range.clone()];
            let line = text[..link.range.start].matches('\n').count() + 1;
            assert_eq!(link.line, line, "{written}");
            let wiki = link.kind == LinkKind::Wikilink;
            assert!(!wiki || written.starts_with("[[") && written.ends_with("]]"));
            assert!(link.kind != LinkKind::Embed || written.starts_with('!'));
        }
        let shown = |link: &Link| {
            let kind = match link.kind {
                LinkKind::Wikilink => 'w',
                LinkKind::Markdown => 'm',
                LinkKind::Embed => 'e',
            };
            let anchor = link.anchor.as_ref().map(|a| format!(" # {a}"));
            let label = link.label.as_ref().map(|l| format!(" | {l}"));
            format!(
                "{kind} {}{}{}",
                link.target,
                anchor.unwrap_or_default(),
                label.unwrap_or_default()
            )
        };
        document.links.iter().map(shown).collect()
    }

    #[test]
    fn links_of_every_spelling() {
        for (text, expected) in [
            ("[[Page]]", vec!["w Page"]),
            ("[[Page#Heading|label]]", vec!["w Page # Heading | label"]),
            ("[[Page#^block]]", vec!["w Page # ^block"]),
            (
                "[[ sub/Page.md | a [b] c ]]",
                vec!["w sub/Page.md | a [b] c"],
            ),
            ("[[Page|Page]] [[Page|]]", vec!["w Page", "w Page"]),
            (
                "![[embed]] ![[img.png|400]]",
                vec!["e embed", "e img.png | 400"],
            ),
            ("\\![[Page]]", vec!["w Page"]),
            ("[[한글]] [[a]][[b]]", vec!["w 한글", "w a", "w b"]),
            ("[[[Page]]] [[a [[b]]", vec!["w Page", "w b"]),
            ("[[A &amp; B]]", vec!["w A & B"]),
            ("[[P|`code` label]]", vec!["w P | `code` label"]),
            ("# See [[Page]]\n\nx\n===\n", vec!["w Page"]),
            ("- [ ] [[todo]]\n- [x] [[done]]", vec!["w todo", "w done"]),
            ("> [!info] [[Page]]\n> [[b]]", vec!["w Page", "w b"]),
            ("x[^1]\n\n[^1]: see [[Note]]", vec!["w Note"]),
            (
                "[text](rel/path.md#frag)",
                vec!["m rel/path.md # frag | text"],
            ),
            (
                "[t](<path with spaces.md>)",
                vec!["m path with spaces.md | t"],
            ),
            ("[t](a%20b.md \"title\")", vec!["m a b.md | t"]),
            ("[a.md](a.md)", vec!["m a.md"]),
            ("[*a* `b` &amp;\nc](x.md)", vec!["m x.md | a b & c"]),
            (
                "[t](a&amp;b.md) [u](a\\_b.md)",
                vec!["m a&b.md | t", "m a_b.md | u"],
            ),
            (
                "[t][r] [r][] [r]\n\n[r]: x.md",
                vec!["m x.md | t", "m x.md | r", "m x.md | r"],
            ),
            (
                "![alt](img.png) ![][r]\n\n[r]: i.svg",
                vec!["e img.png | alt", "e i.svg"],
            ),
            (
                "[![alt](img.png)](page.md)",
                vec!["m page.md | alt", "e img.png | alt"],
            ),
            (
                "[![[img.png]]](page.md)",
                vec!["m page.md | ![[img.png]]", "e img.png"],
            ),
            ("[[1]](page.md)", vec!["m page.md | [1]"]),
            (
                "[see [[Page]] here](url.md)",
                vec!["m url.md | see [[Page]] here"],
            ),
            ("[[todo]]\n\n[todo]: todo.md \"Todo\"", vec!["w todo"]),
            ("[a](/abs/x.md)", vec!["m /abs/x.md | a"]),
            ("<div>\n\n[[in]]\n\n</div>", vec!["w in"]),
        ] {
            assert_eq!(links(text), expected, "{text}");
        }
    }

    #[test]
    fn pipes_in_tables_belong_to_the_wikilink() {
        let text = "| a | b |\n|---|---|\n| [[page\\|label]] | ![[img.png\\|400]] |\n| [[page]] | [[page|label]] |\n| [t](x.md) | `[[code\\|x]]` |\n";
        assert_eq!(
            links(text),
            [
                "w page | label",
                "e img.png | 400",
                "w page",
                "w page | label",
                "m x.md | t"
            ]
        );
        assert_eq!(links("[[page\\|label]]"), ["w page | label"]);
    }

    #[test]
    fn what_is_no_link() {
        for text in [
            "`[[x]]` and ``[a](b.md) ` [[y]]``",
            "```\n[[x]]\n[a](b.md)\n```\n",
            "~~~md\n[[x]]",
            "text\n\n    [[x]]\n",
            "<!-- [[x]] [a](b.md) -->",
            "text <!-- [[x]] --> text",
            "<!--\n\n[[x]]\n\n-->",
            "<div>\n[[x]]\n</div>",
            "<a title=\"[[x]]\">",
            "---\nrelated: \"[[x]]\"\nsee: [a](b.md)\n---\n",
            "$[[x]]$ and $$\n[[y]]\n$$",
            "\\[\\[x]] \\[[x]] \\\\\\[[x]]",
            "[[]] [[ ]] [[|label]] [[x] ] [ [x]]",
            "[[two\nlines]]",
            "[[#Heading]] [[#^block|here]] [a](#frag) [b]()",
            "[a](http://x.org/y.md) [b](mailto:a@b.org) <https://x.org/#a> [c](//host/x)",
            "[[https://x.org|there]] ![i](data:image/png;base64,AA)",
            "> [!info] Title\n> text\n\n- [ ] task\n- [x] done\n",
            "[r]: unused.md\n",
            "[r]: x.md \"[[y]]\"\n",
            "see [[a](http://b.org)]]",
            "[t](http://b.org \"[[x]] ![[y]]\") <http://b.org/[[x]]![[y]]>",
        ] {
            assert_eq!(links(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn lines_and_ranges_are_those_of_the_file() {
        for newline in ["\n", "\r\n", "\r"] {
            let text =
                "\u{FEFF}---\ntitle: 한글\n---\n# H\n\n[[a]]\n\n> q\n> [b](b.md)\n## Z\nend [[c]]";
            let text = text.replace('\n', newline);
            let document = parse(&text);
            let lines: Vec<usize> = document.links.iter().map(|link| link.line).collect();
            let written: Vec<&str> = document
                .links
                .iter()
                .map(|link| &text[link.range.clone()])
                .collect();
            assert_eq!(lines, [6, 9, 11], "{newline:?}");
            assert_eq!(written, ["[[a]]", "[b](b.md)", "[[c]]"], "{newline:?}");
            let headings: Vec<(&str, usize)> = document
                .headings
                .iter()
                .map(|heading| (&*heading.text, heading.line))
                .collect();
            assert_eq!(headings, [("H", 4), ("Z", 10)], "{newline:?}");
            let sections: Vec<(&str, usize)> = document
                .sections
                .iter()
                .map(|section| (&*section.text, section.line))
                .collect();
            assert_eq!(
                sections,
                [("[[a]]\n\n> q\n> [b](b.md)", 6), ("end [[c]]", 11)],
                "{newline:?}"
            );
            assert_eq!(document.title, "한글");
        }
    }

    #[test]
    fn title_from_metadata_else_first_heading_else_name() {
        for (text, expected) in [
            ("---\ntitle: T\n---\n# H\n", "T"),
            (
                "---\ntitle:\n---\ntext\n\n## S\n\n# H `c` *e* [[p|l]]\n",
                "H c e l",
            ),
            ("Setext\n===\n", "Setext"),
            ("# \n## S\n", "page"),
            ("```\n# no\n```\n", "page"),
            ("", "page"),
        ] {
            assert_eq!(parse(text).title, expected, "{text}");
        }
    }

    #[test]
    fn headings_are_what_a_reader_sees() {
        let text = "# A &amp; `b` [[p|shown]] [t](u.md) {#id}\n\n## `[[code]]` [[x]]\n\nUnder\n---\n\n> ### Q\n\n#### {#only}\n";
        let headings: Vec<(u8, String)> = parse(text)
            .headings
            .into_iter()
            .map(|heading| (heading.level, heading.text))
            .collect();
        let expected = [
            (1, "A & b shown t"),
            (2, "[[code]] x"),
            (2, "Under"),
            (3, "Q"),
        ];
        assert_eq!(headings, expected.map(|(level, text)| (level, text.into())));
    }

    #[test]
    fn no_tag_stands_in_styles_scripts_and_code_of_html() {
        for (text, expected) in [
            (
                "<style>\n.a { color: #f4f4f4 }\n\n#b { c: #face }\n</style>\n\n#t",
                "t",
            ),
            (
                "x\n    <style>\n      #top { color: #f4f4f4 }\n    </style> #t",
                "t",
            ),
            ("x <STYLE media=a>#no *#no* </style> #t", "t"),
            ("x <style> #no\n\n#t", "t"),
            ("- x <script>#no\n  - #t\n", "t"),
            ("x <code>#no</code> <code >'#no' <b>#no</b></code> #t", "t"),
            ("| a | b |\n|---|---|\n| <code>#no</code> | #t |\n", "t"),
            // Not what only looks like such an element, nor what is never ended.
            ("<b>#t</b> <codes>#u</codes> <code/>#v <code>#w", "t u v w"),
            ("x <code>[[page]]</code> <style> </style>#t", "t"),
        ] {
            assert_eq!(parse(text).tags.join(" "), expected, "{text}");
        }
        assert_eq!(links("x <code>[[page]]</code>"), ["w page"]);
    }

    #[test]
    fn tags_of_metadata_and_body_once_each_in_order() {
        let text = "---\ntags: [b, '#a', 2024]\n---\n# T #h {#id}\n\n#B #c `#no` [x](#no) [#no](y.md) [[P#no]] <b id=\"#no\"> #é\n\n```\n#no\n```\n#E\u{301}";
        assert_eq!(parse(text).tags, ["b", "a", "2024", "h", "c", "é"]);
    }
}
