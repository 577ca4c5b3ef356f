//! `wiki-sync search`

use serde::Serialize;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Style, clean, count};
use crate::cli::paths;
use crate::model::{Failure, PagePath, StoreName};
use crate::stores::vectors::{self, Channel, Only};
use crate::wiki::{Reading, Wiki};

/// Characters of a hit's text that are shown.
const SNIPPET: usize = 200;

/// Find pages by words, and by meaning where an embedding provider is set
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// Show at most this many pages
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    limit: usize,
    /// Only pages whose path begins so: as it is shown, or from the current or the pages' folder
    #[arg(long, value_name = "PREFIX")]
    path_prefix: Option<String>,
    /// Only pages with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only pages with this label `repo`
    #[arg(long, value_name = "REPO")]
    repo: Option<String>,
    /// Only pages with this label `lang`
    #[arg(long, value_name = "LANG")]
    lang: Option<String>,
}

/// Reads a number that is not zero.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("nothing would be shown".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a number".into()),
    }
}

/// What is asked of the vectors store.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) query: &'a str,
    pub(crate) limit: usize,
    pub(crate) only: Only,
}

/// What it found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) hits: Vec<vectors::Hit>,
    /// What was searched.
    pub(crate) channels: Vec<Channel>,
    /// Nothing was found, and something would be in all pages.
    pub(crate) is_elsewhere: bool,
    /// Why it was not searched by meaning although a provider is set.
    pub(crate) no_meaning: Option<Failure>,
}

/// A hit as it is told.
#[derive(Debug, Serialize)]
pub(super) struct Hit {
    pub(super) path: String,
    title: String,
    heading: String,
    score: f32,
    snippet: String,
    /// The page is no longer what was indexed.
    pub(super) stale: bool,
    /// The page is gone.
    deleted: bool,
    point_id: String,
    /// What was searched: `words`, `meaning`.
    channels: Vec<&'static str>,
}

pub(super) fn run(args: &SearchArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return Err(CommandError::new("the query is empty").exit(Exit::Usage));
    }
    let prefix = args.path_prefix.as_deref();
    let prefix = prefix.map(|typed| paths::prefix(&ws.wiki, &ws.start, typed));
    let asked = Asked {
        query: &query,
        limit: args.limit,
        only: Only {
            prefix: prefix.clone(),
            tag: args.tag.clone(),
            repo: args.repo.clone(),
            lang: args.lang.clone(),
        },
    };
    let found = open::search(&ws, &asked)?;
    if let Some(why) = &found.no_meaning {
        let way_out = why.hint.as_deref().map(|hint| format!("; {hint}"));
        cx.out.note(format_args!(
            "searched by words alone: {}{}",
            why.reason,
            way_out.unwrap_or_default()
        ));
    }
    let channels: Vec<_> = found.channels.iter().map(|one| one.as_str()).collect();
    let channels = channels.join(" and ");
    let is_elsewhere = found.is_elsewhere;
    let hits = told(&ws, &query, found);
    if is_elsewhere {
        let prefix = prefix.iter().map(|prefix| ("--path-prefix", prefix));
        let others = [
            ("--tag", &args.tag),
            ("--repo", &args.repo),
            ("--lang", &args.lang),
        ];
        let others = others
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let limits: Vec<_> = prefix
            .chain(others)
            .map(|(flag, value)| format!("{flag} {value:?}"))
            .collect();
        cx.out.note(format_args!(
            "no page with {} has it, and others have",
            limits.join(", ")
        ));
    }
    if let Some(lack) = ws.lack(StoreName::Vectors)? {
        cx.out.note(lack);
    }
    let nothing = match channels.as_str() {
        "" => "nothing found".into(),
        channels => format!("nothing found, by {channels}"),
    };
    if cx.out.is_json() {
        // An empty list does not say how it was searched.
        if hits.is_empty() {
            cx.out.note(nothing);
        }
        cx.out.json(&hits);
        return Ok(Exit::Ok);
    }
    for hit in &hits {
        let path = cx.out.paint(Style::Bold, clean(&hit.path)).into_owned();
        let heading = if hit.heading.is_empty() || hit.heading == hit.title {
            clean(&hit.title).into_owned()
        } else if hit.heading.starts_with(&hit.title) {
            clean(&hit.heading).into_owned()
        } else {
            format!("{} > {}", clean(&hit.title), clean(&hit.heading))
        };
        cx.out
            .line(format_args!("{path}  {heading}  {:.2}", hit.score));
        if !hit.snippet.is_empty() {
            cx.out.line(format_args!("    {}", clean(&hit.snippet)));
        }
        let mark = match (hit.deleted, hit.stale) {
            (true, _) => "deleted since it was indexed",
            (false, true) => "changed since it was indexed",
            (false, false) => continue,
        };
        let mark = cx.out.paint(Style::Warn, mark).into_owned();
        cx.out
            .line(format_args!("    {mark}: `wiki-sync drain` follows"));
    }
    if hits.is_empty() {
        cx.out.say(nothing);
    } else {
        let pages = count(hits.len() as u64, "page");
        cx.out.say(format_args!("{pages}, by {channels}"));
    }
    Ok(Exit::Ok)
}

/// Returns the hits, best first, each compared with the page as it is on disk now.
pub(super) fn hits(ws: &Workspace, query: &str, limit: usize) -> Result<Vec<Hit>, Failure> {
    let asked = Asked {
        query,
        limit,
        only: Only::default(),
    };
    Ok(told(ws, query, open::search(ws, &asked)?))
}

fn told(ws: &Workspace, query: &str, found: Found) -> Vec<Hit> {
    let channels: Vec<_> = found.channels.iter().map(|one| one.as_str()).collect();
    let told = |hit: vectors::Hit| {
        let now = sha_now(&ws.wiki, &hit.path);
        Hit {
            stale: now.as_ref() != Some(&hit.page_sha),
            deleted: now.is_none(),
            heading: hit.heading.join(" > "),
            snippet: snippet(&hit.text, query, SNIPPET),
            path: hit.path,
            title: hit.title,
            score: hit.score,
            point_id: hit.point_id,
            channels: channels.clone(),
        }
    };
    found.hits.into_iter().map(told).collect()
}

/// Returns the SHA of the page as it is now; empty when it cannot be read, `None` when it is gone.
fn sha_now(wiki: &Wiki, path: &str) -> Option<String> {
    match wiki.read(&PagePath::parse(path).ok()?) {
        Reading::Page { sha, .. } => Some(sha.to_string()),
        Reading::Absent => None,
        Reading::Bad { .. } => Some(String::new()),
    }
}

/// Returns about `most` characters of the text around the first word of the query that stands in it, in
/// one line. A word with an ending that the text does not have is looked for by its beginning.
fn snippet(text: &str, query: &str, most: usize) -> String {
    let text: Vec<char> = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .collect();
    let lower: Vec<char> = text.iter().map(|&c| lower(c)).collect();
    let first = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .filter_map(|word| position(&lower, word))
        .min()
        .map_or(0, |(_, at)| at);
    // A third of the room before the word, the rest after it.
    let begin = first.saturating_sub(most / 3);
    let begin = if text.len() - begin.min(text.len()) < most {
        text.len().saturating_sub(most)
    } else {
        begin
    };
    let end = (begin + most).min(text.len());
    // Whole words at both ends, where a space is near.
    let near = most / 8;
    let begin = match begin {
        0 => 0,
        _ => (begin..(begin + near).min(first.max(begin)))
            .find(|&at| text[at] == ' ')
            .map_or(begin, |at| at + 1),
    };
    let end = if end == text.len() {
        end
    } else {
        (end.saturating_sub(near).max(first)..end)
            .rev()
            .find(|&at| text[at] == ' ')
            .unwrap_or(end)
    };
    let mut shown: String = text[begin.min(end)..end].iter().collect();
    if begin > 0 {
        shown.insert(0, '…');
    }
    if end < text.len() {
        shown.push('…');
    }
    shown
}

/// One character for one, so that places in both texts are the same.
fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// Returns how many characters of the word's end the text does not have, and where the rest stands.
fn position(text: &[char], word: &str) -> Option<(usize, usize)> {
    let word: Vec<char> = word.chars().map(lower).collect();
    // Two characters say something in Hangul and Han, in letters it takes three.
    let least = if word[0].is_ascii() { 3 } else { 2 }.min(word.len());
    (least..=word.len()).rev().find_map(|length| {
        let at = text.windows(length).position(|at| *at == word[..length]);
        at.map(|at| (word.len() - length, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snippet_shows_the_first_word_found_in_whole_words() {
        let text = format!(
            "{} The outbox keeps jobs. {}",
            "one two ".repeat(50),
            "x ".repeat(200)
        );
        let shown = snippet(&text, "OUTBOX", 60);
        assert!(shown.contains("The outbox keeps jobs."), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.chars().count() <= 62, "{shown}");
    }

    #[test]
    fn a_korean_word_is_found_whatever_its_particle() {
        let text = format!("{}아웃박스 패턴은 저장소를 맞춘다.", "가나다 ".repeat(100));
        assert!(snippet(&text, "아웃박스를", 60).contains("아웃박스 패턴은"));
    }

    #[test]
    fn a_whole_word_goes_before_the_beginning_of_another() {
        let text = format!("collect {} queue here", "x ".repeat(200));
        assert!(snippet(&text, "collections queue", 60).contains("queue here"));
    }

    #[test]
    fn short_texts_are_shown_whole_and_odd_ones_do_no_harm() {
        assert_eq!(snippet("a\n\n b", "zzz", 60), "a b");
        assert_eq!(snippet("", "a", 60), "");
        assert_eq!(snippet("abc", "", 60), "abc");
        let long = "긴".repeat(1000);
        assert_eq!(snippet(&long, "긴", 60).chars().count(), 61);
        assert_eq!(snippet(&"İ".repeat(300), "i", 60).chars().count(), 61);
        for most in [1, 2, 9] {
            snippet("one two three", "three", most);
        }
    }
}
