//! `search`: which pages are about something?

use std::fmt::Write as _;

use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use super::answer::{Answer, Freshness, Room, SHORT, Trouble, clip, told};
use super::number::{Number, Numbers};
use crate::query::search::{Asked, told as compared};
use crate::stores::vectors::Only;

/// Pages that are returned when nothing is said.
const LIMIT: usize = 10;
/// The most pages that are returned.
const MOST: u64 = 50;
/// The longest query, in characters.
const QUERY: usize = 2_000;
/// Characters of a hit's text that are told.
const SNIPPET: usize = 400;

/// What is looked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// What to look for: some telling words, in the language of the pages; at most 2,000 characters.
    query: String,
    /// The most pages to return: 1 to 50, 10 by default.
    #[serde(default)]
    #[schemars(extend("default" = LIMIT))]
    limit: Number<1, MOST>,
    /// Only pages whose path begins so, for example "wiki-output/guides/".
    path_prefix: Option<String>,
    /// Only pages with this tag.
    tag: Option<String>,
    /// Only pages with this label repo (the source repository that a page describes).
    repo: Option<String>,
    /// Only pages with this label lang.
    lang: Option<String>,
}

impl Numbers for Args {
    fn adjusted(&self) -> Vec<String> {
        self.limit.adjusted("limit").into_iter().collect()
    }
}

/// A page that was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Hit {
    /// The page, as `read_page` takes it.
    path: String,
    /// Its title.
    title: String,
    /// The headings above what was found, outermost first, joined by " > "; `read_page` takes it as heading. Empty at the
    /// page's beginning.
    heading: String,
    /// What was found, in part.
    snippet: String,
    /// More is better, and only within this answer.
    score: f32,
    /// The page has changed on disk since it was indexed, or is gone: read it before you rely on the snippet.
    stale: bool,
    /// The page is gone.
    deleted: bool,
    /// The page as it is now was rejected, so that it is not indexed before somebody mends it: `status` says why.
    rejected: bool,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Results {
    /// The pages, best first.
    pages: Vec<Hit>,
    /// Whether some were left out so that the answer is not too long.
    cut: bool,
    /// What was searched by: "words", "meaning".
    channels: Vec<&'static str>,
    /// Why nothing was found, where it is for what was asked of the pages: no page has such a tag, for example.
    why_nothing: Vec<String>,
    /// Why it was searched by words alone, where it was to be searched by meaning too.
    lack: Option<String>,
    /// How far this can be relied upon.
    freshness: Freshness,
}

pub(super) fn run(place: &dyn Place, args: &Args) -> Result<Results, Trouble> {
    let query = args.query.trim();
    if query.is_empty() {
        return Err(Trouble::new("the query is empty").hint("give some words to look for"));
    }
    if query.chars().nth(QUERY).is_some() {
        let why = format!("the query has more than {QUERY} characters");
        return Err(Trouble::new(why).hint("a few telling words find more"));
    }
    let pages_dir = place.wiki().pages_dir();
    let asked = Asked {
        query,
        limit: args.limit.or(LIMIT),
        only: Only {
            prefix: args
                .path_prefix
                .as_deref()
                .map(|prefix| from_root(pages_dir, prefix)),
            tags: args.tag.iter().cloned().collect(),
            repo: args.repo.clone(),
            lang: args.lang.clone(),
            ..Only::default()
        },
        turn: None,
    };
    let mut found = place.search(&asked)?;
    let lack = found.no_meaning.as_ref().map(told);
    let channels = found.channels.iter().map(|channel| channel.as_str());
    let channels = channels.collect();
    let why_nothing = std::mem::take(&mut found.why_nothing);
    let hits = compared(place.wiki(), query, found, SNIPPET, |of| place.dead_of(of));
    let stale = hits.iter().filter(|hit| hit.stale).count() as u64;
    let pages = hits.into_iter().map(|hit| Hit {
        title: clip(&hit.title, SHORT),
        heading: clip(&hit.heading, 2 * SHORT),
        snippet: hit.snippet,
        score: hit.score,
        stale: hit.stale,
        deleted: hit.deleted,
        rejected: hit.rejected,
        path: hit.path,
    });
    let (pages, cut) = Room::default().fit(pages);
    Ok(Results {
        pages,
        cut,
        channels,
        why_nothing,
        lack,
        freshness: Freshness::look(place, stale),
    })
}

/// Returns a prefix of paths as they are told: from the repository's root. One that does not begin with the pages' folder
/// is meant below it.
pub(super) fn from_root(pages_dir: &str, prefix: &str) -> String {
    let prefix = prefix.trim_start_matches("./").trim_start_matches('/');
    let is_whole = match prefix.strip_prefix(pages_dir) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => prefix.is_empty(),
    };
    if is_whole {
        prefix.into()
    } else {
        format!("{pages_dir}/{prefix}")
    }
}

impl Answer for Results {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.pages.is_empty() {
            text.push_str("Nothing found.\n");
        }
        for why in &self.why_nothing {
            let _ = writeln!(text, "({why})");
        }
        for (number, hit) in (1..).zip(&self.pages) {
            let heading = match hit.heading.as_str() {
                "" => String::new(),
                heading => format!(" — {heading}"),
            };
            let mark = if hit.deleted {
                " [deleted since it was indexed]"
            } else if hit.rejected {
                " [changed since it was indexed, and rejected as it is now: status says why]"
            } else if hit.stale {
                " [changed since it was indexed]"
            } else {
                ""
            };
            let (path, title, snippet) = (&hit.path, &hit.title, &hit.snippet);
            let _ = writeln!(
                text,
                "{number}. {path}: {title}{heading}{mark}\n   {snippet}"
            );
        }
        if self.cut {
            text.push_str("(More were found than fit into an answer.)\n");
        }
        if let Some(lack) = &self.lack {
            let _ = writeln!(text, "(Searched by words alone: {lack})");
        }
        text + &self.freshness.line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_meant_from_the_root_or_from_the_pages_folder() {
        for (typed, meant) in [
            ("", ""),
            ("w", "w"),
            ("w/", "w/"),
            ("w/sub/", "w/sub/"),
            ("./w/sub", "w/sub"),
            ("sub/", "w/sub/"),
            ("/sub/", "w/sub/"),
            ("wiki/", "w/wiki/"),
        ] {
            assert_eq!(from_root("w", typed), meant, "{typed}");
        }
    }
}
