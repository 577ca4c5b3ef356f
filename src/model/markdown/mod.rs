//! Markdown → title, front matter, links and bounded sections. Pure.
//!
//! ```text
//! front_matter (yaml)  the metadata block, leniently
//! walk                 the Markdown parser's events: headings, Markdown links, where text is no text
//! wikilinks, tags      found in the source, outside of what walk masks
//! sections             the source, cut at headings
//! rewrite, spell       links given other targets, for `mv`
//! readable             the body for a renderer
//! ```
//!
//! The time is linear in the text's length, and the memory bounded by it, whatever the text is.

mod destination;
mod fold_key;
mod front_matter;
#[cfg(test)]
mod hostile;
mod lines;
mod nesting;
mod parse;
mod readable;
mod rewrite;
mod sections;
mod spans;
mod spell;
mod tags;
mod walk;
mod wikilinks;
mod yaml;

use std::collections::BTreeMap;
use std::ops::Range;

pub use fold_key::fold_key;
pub use parse::{MAX_HEADINGS, MAX_LINKS, MAX_TAGS, MAX_TITLE_CHARS};
pub use readable::{Readable, WIKILINK, Written, options, target_of};
pub use rewrite::{Destinations, Edit, Unwritable, edited, inverse};
pub use sections::{MAX_SECTION_CHARS, MAX_TRAIL_CHARS};

/// Changes when a page would be parsed to something else than before: part of the fingerprints of graph
/// and vectors.
pub const PARSER_VERSION: &str = "2";

/// A page, parsed. Never fails: what cannot be understood becomes a warning, the body is kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// Front matter's `title`, else the first level-1 heading, else the file's name without extension.
    pub title: String,
    /// The metadata block, as far as it could be read.
    pub front_matter: FrontMatter,
    /// Links in the order in which they stand; nothing inside code, comments or front matter.
    pub links: Vec<Link>,
    /// Tags: of front matter and `#tag` in the body; without `#`, in order, each [`fold_key()`] once.
    pub tags: Vec<String>,
    /// Headings with text in order, also those in lists and quotations.
    pub headings: Vec<Heading>,
    /// The page cut at its headings into bounded pieces, each with text. At least one: a page without any
    /// words has its title as the only section, so that every page can be found.
    pub sections: Vec<Section>,
    /// What could not be understood.
    pub warnings: Vec<Warning>,
}

/// A page's YAML metadata, leniently read: numbers, dates and booleans where text is wanted are taken as
/// they are written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FrontMatter {
    /// `title`.
    pub title: Option<String>,
    /// `aliases` or `alias`: a list or one text.
    pub aliases: Vec<String>,
    /// `tags` or `tag`: a list, or one text with commas or spaces.
    pub tags: Vec<String>,
    /// `repo`: the source repository of the point key.
    pub repo: Option<String>,
    /// `commit` or `commit_sha`.
    pub commit: Option<String>,
    /// `lang`.
    pub lang: Option<String>,
    /// `symbol` or `symbol_path`.
    pub symbol: Option<String>,
    /// Every key with its typed value.
    pub values: BTreeMap<String, serde_json::Value>,
}

/// How a link is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// `[[Page]]`
    Wikilink,
    /// `[text](page.md)`, also by reference.
    Markdown,
    /// `![[Page]]` or `![text](image.png)`.
    Embed,
}

/// A link to somewhere inside the wiki. Left out are links with a scheme, `//host`, to this page itself
/// (`#fragment`), and what a site generator fills in (`{{ … }}`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// How it is written.
    pub kind: LinkKind,
    /// Its target as written (a leading `/` and `.md` too), without anchor, label and query, entities and
    /// backslash escapes resolved, `\|` of tables undone, trimmed. `%20` and its like are decoded in Markdown
    /// links only: a wikilink names a page, and a name may hold `%`. Never empty.
    pub target: String,
    /// The part after `#`, without it.
    pub anchor: Option<String>,
    /// The visible text, where it is not the target itself; of an embed also its size (`400`).
    pub label: Option<String>,
    /// Line in the file, from 1.
    pub line: usize,
    /// Bytes of the whole link in the file.
    pub range: Range<usize>,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Its text without markup.
    pub text: String,
    /// Line in the file, from 1.
    pub line: usize,
}

/// A piece of a page: what one point in the vector store is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The headings above it, outermost first, its own last; empty before the first heading. At most
    /// [`MAX_TRAIL_CHARS`] of each. Headings in lists and quotations cut nothing.
    pub trail: Vec<String>,
    /// Its text: source Markdown without its own heading line, trimmed, with `\n` as line end, at most
    /// [`MAX_SECTION_CHARS`]. A heading with neither text nor deeper headings below has its own words here.
    pub text: String,
    /// Line in the file where its text begins, from 1.
    pub line: usize,
}

/// Something in a page that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Line in the file, from 1.
    pub line: usize,
    /// What it is.
    pub message: String,
}
