//! Search as it is told: hits with a snippet, each compared with the page as it is on disk now.

use std::time::Duration;

use serde::Serialize;

use crate::model::{Failure, PagePath};
use crate::stores::vectors::{self, Channel, Only};
use crate::wiki::{Reading, Wiki};

/// Characters of a hit's text that are shown.
pub const SNIPPET: usize = 200;

/// What is asked of the vectors store.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The words, as they were typed.
    pub query: &'a str,
    /// The most pages that are wanted.
    pub limit: usize,
    /// Which pages are looked at.
    pub only: Only,
    /// How long to wait for one's turn with the embedded vectors; `None`: as long as any command.
    pub turn: Option<Duration>,
}

/// What it found.
#[derive(Debug)]
pub struct Found {
    /// The pages, best first.
    pub hits: Vec<vectors::Hit>,
    /// What was searched.
    pub channels: Vec<Channel>,
    /// Nothing was found, and something would be in all pages.
    pub is_elsewhere: bool,
    /// Why it was not searched by meaning although a provider is set.
    pub no_meaning: Option<Failure>,
}

/// A hit as it is told.
#[derive(Debug, Serialize)]
pub struct Hit {
    /// The page.
    pub path: String,
    /// Its title.
    pub title: String,
    /// The headings above the section that was found, outermost first, joined by ` > `.
    pub heading: String,
    /// More is better, and only within one answer.
    pub score: f32,
    /// The section's text around the first word found.
    pub snippet: String,
    /// The page is no longer what was indexed.
    pub stale: bool,
    /// The page is gone.
    pub deleted: bool,
    /// The id of the section's point.
    pub point_id: String,
    /// What was searched: `words`, `meaning`.
    pub channels: Vec<&'static str>,
}

/// Returns the hits as they are told, each compared with the page as it is on disk now, with about `most` characters of its
/// text.
#[must_use]
pub fn told(wiki: &Wiki, query: &str, found: Found, most: usize) -> Vec<Hit> {
    let channels: Vec<_> = found.channels.iter().map(|one| one.as_str()).collect();
    let told = |hit: vectors::Hit| {
        let now = sha_now(wiki, &hit.path);
        Hit {
            stale: now.as_ref() != Some(&hit.page_sha),
            deleted: now.is_none(),
            heading: hit.heading.join(" > "),
            snippet: snippet(&hit.text, query, most),
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
