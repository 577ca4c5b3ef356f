//! A page's body made ready for a renderer, so that a reader sees the links that the graph has.

use std::fmt::Write as _;

use super::wikilinks::FoundWikilink;
use super::{Link, destination, front_matter, nesting, parse, walk, wikilinks};

/// What the destination of a wikilink begins with in [`Readable::text`]; its number follows.
pub const WIKILINK: &str = "wikilink:";

/// A body for a Markdown parser with [`options`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readable {
    /// The body without its metadata block. Each wikilink is a Markdown link, each embed an image, to [`WIKILINK`] and its
    /// number; what nests too deep for a parser's patience is plain text.
    pub text: String,
    /// The wikilinks, by number.
    pub wikilinks: Vec<Written>,
}

/// A wikilink as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The link; `None` where it leads to this page itself or out of the wiki.
    pub link: Option<Link>,
    /// What a reader sees.
    pub shown: String,
}

/// Returns what a Markdown parser must know to see what we see.
#[must_use]
pub fn options() -> pulldown_cmark::Options {
    walk::OPTIONS
}

/// Splits the destination of a Markdown link into target and anchor; `None` where it leads out of the wiki or to this page.
#[must_use]
pub fn target_of(destination: &str) -> Option<(String, Option<String>)> {
    destination::of_markdown(destination)
}

impl Readable {
    /// Makes a page's text ready. Linear in its length.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let text = &*parse::with_common_line_ends(text);
        let (_, start) = front_matter::read(text, &mut Vec::new());
        let body = nesting::bounded(&text[start..]);
        let walked = walk::walk(&body);
        let found = wikilinks::find(&body, &walked.masks);
        let mut ready = Self::default();
        let mut at = 0;
        for found in parse::counted(&walked.links, found) {
            let FoundWikilink { range, shown, link } = found;
            // Brackets of one within another's label.
            if range.start < at {
                continue;
            }
            ready.text.push_str(&body[at..range.start]);
            if body[range.start..].starts_with('!') {
                ready.text.push('!');
            }
            ready.text.push('[');
            for char in shown.chars() {
                if char.is_ascii_punctuation() {
                    ready.text.push('\\');
                }
                ready.text.push(char);
            }
            let number = ready.wikilinks.len();
            write!(ready.text, "](<{WIKILINK}{number}>)").expect("writing to a string cannot fail");
            at = range.end;
            ready.wikilinks.push(Written { link, shown });
        }
        ready.text.push_str(&body[at..]);
        ready
    }
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Parser, Tag};

    use super::*;
    use crate::model::PagePath;
    use crate::model::markdown::Document;

    /// The destinations of the links and images that a parser sees.
    fn seen(ready: &Readable) -> Vec<String> {
        let events = Parser::new_ext(&ready.text, options());
        let destinations = events.filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        });
        destinations.collect()
    }

    #[test]
    fn a_parser_sees_every_link_of_the_graph_and_no_other() {
        for text in [
            "[[Page]] [[a|b]] ![[img.png|400]] [t](x.md) [[a*b*|_c_ `d`]]",
            "---\ntitle: T\n---\n# See [[Page]]\n\n| a | b |\n|---|---|\n| [[page\\|label]] | [[x|y]] |\n",
            "`[[no]]` \\![[Page]] [[1]](page.md) **[[bold]]** [[a]][[b]]",
            "[see [[Page]] here](url.md) [![[img.png]]](page.md)",
            "> - [[in]]\n\n```\n[[no]]\n```\n[[한글 문서|글]]",
        ] {
            let ready = Readable::of(text);
            let path = PagePath::parse("w/a.md").expect("a path");
            let mut expected: Vec<_> = Document::parse(&path, text)
                .links
                .into_iter()
                .map(|link| link.target)
                .collect();
            let mut found: Vec<_> = seen(&ready)
                .into_iter()
                .filter_map(|to| match to.strip_prefix(WIKILINK) {
                    Some(number) => {
                        let number: usize = number.parse().expect("a number");
                        let link = ready.wikilinks[number].link.as_ref();
                        link.map(|link| link.target.clone())
                    }
                    None => target_of(&to).map(|(target, _)| target),
                })
                .collect();
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{text}\n{}", ready.text);
        }
    }

    #[test]
    fn a_link_to_this_page_or_out_of_the_wiki_is_one_too() {
        let ready = Readable::of("[[#Part|here]] [[https://x.example/|there]]");
        let shown: Vec<_> = ready.wikilinks.iter().map(|one| &*one.shown).collect();
        assert_eq!(shown, ["here", "there"]);
        assert!(ready.wikilinks.iter().all(|one| one.link.is_none()));
        assert_eq!(seen(&ready), ["wikilink:0", "wikilink:1"]);
    }
}
