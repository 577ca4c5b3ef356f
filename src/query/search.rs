//! Search as it is told: pages that are called what was asked for first, each hit with a snippet and compared with the
//! page as it is on disk now; and why nothing was found.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

use super::graph;
use crate::model::{Failure, PagePath, StoreName};
use crate::outbox::DeadLetter;
use crate::stores::vectors::{self, Channel, Only, Question, VectorStore};
use crate::wiki::{Reading, Wiki};

/// Characters of a hit's text that are shown.
pub const SNIPPET: usize = 200;

/// The most pages that are put first for their name. Of more, the name says little.
const CALLED: usize = 200;

/// How many pages elsewhere are asked for their labels.
const ELSEWHERE: usize = 20;

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
    /// Why nothing was found in the pages that were looked at, for people; empty where something was, and where nothing is
    /// known.
    pub why_nothing: Vec<String>,
    /// Why it was not searched by meaning although a provider is set.
    pub no_meaning: Option<Failure>,
}

/// Says of which pages, as a person names them, is asked: each tag in all spellings that pages have.
///
/// # Errors
/// As [`graph::spellings`].
pub fn meant(db: &Connection, only: &Only) -> Result<Only, Failure> {
    let mut tags = Vec::new();
    for tag in &only.tags {
        tags.extend(graph::spellings(db, tag)?);
    }
    Ok(Only {
        tags,
        ..only.clone()
    })
}

/// Returns what `answer` found with the pages first that are called what was asked for by title, alias or file name: in
/// the order of their scores, whatever those are. The others stay as they are, in score and order.
///
/// More is better within one answer, so the scores of the first are raised by that of the best other, where one of them is
/// not above it anyway.
///
/// # Errors
/// As [`VectorStore::best_of`].
pub fn called_first(
    db: &Connection,
    store: &mut VectorStore,
    question: &Question<'_>,
    answer: Vec<vectors::Hit>,
) -> Result<Vec<vectors::Hit>, Failure> {
    // Without names, in a graph that is damaged, it is a search as any other.
    let called = graph::called(db, question.text, CALLED).unwrap_or_default();
    if called.is_empty() {
        return Ok(answer);
    }
    let first = store.best_of(question, &called)?;
    Ok(put_first(first, answer, question.limit))
}

fn put_first(
    mut first: Vec<vectors::Hit>,
    mut others: Vec<vectors::Hit>,
    limit: usize,
) -> Vec<vectors::Hit> {
    let called: HashSet<&str> = first.iter().map(|hit| hit.path.as_str()).collect();
    others.retain(|hit| !called.contains(hit.path.as_str()));
    let best = others.first().map_or(0.0, |hit| hit.score);
    if first.last().is_some_and(|hit| hit.score <= best) {
        for hit in &mut first {
            hit.score += best;
        }
    }
    first.extend(others);
    first.truncate(limit);
    first
}

/// Says why nothing is in the pages that were looked at: what is asked of them that no page has, else that it is in others.
/// `meant` is what [`meant`] made of `only`.
///
/// # Errors
/// As those of the parts.
pub fn why_nothing(
    db: &Connection,
    store: &mut VectorStore,
    question: &Question<'_>,
    only: &Only,
) -> Result<Vec<String>, Failure> {
    let mut why = Vec::new();
    for tag in &only.tags {
        let spellings = graph::spellings(db, tag)?;
        why.extend(graph::no_such_tag(db, graph::bare(tag), &spellings)?);
    }
    if let Some(prefix) = &only.prefix
        && !graph::any_begins(db, prefix)?
    {
        why.push(format!("no page's path begins with {prefix:?}"));
    }
    if !why.is_empty() {
        return Ok(why);
    }
    let elsewhere = Question {
        only: Only::default(),
        limit: ELSEWHERE,
        ..question.clone()
    };
    let found = store.ask(&elsewhere)?.hits;
    let elsewhere = called_first(db, store, &elsewhere, found)?;
    if elsewhere.is_empty() {
        return Ok(why);
    }
    let labels = [
        ("repo", &only.repo, labels(&elsewhere, |hit| &hit.repo)),
        ("lang", &only.lang, labels(&elsewhere, |hit| &hit.lang)),
    ];
    for (name, wanted, there) in labels {
        if let Some(wanted) = wanted
            && !there.contains(wanted.as_str())
        {
            let there: Vec<&str> = there.into_iter().take(5).collect();
            let there = match there.as_slice() {
                [] => String::new(),
                there => format!("; they have {}", there.join(", ")),
            };
            why.push(format!(
                "the best pages for it have no {name} {wanted:?}{there}"
            ));
        }
    }
    if why.is_empty() {
        let tags = only.tags.iter().map(|tag| graph::bare(tag));
        let limits: Vec<String> = (only.prefix.iter().map(|prefix| ("path", prefix.as_str())))
            .chain(tags.map(|tag| ("tag", tag)))
            .chain(only.repo.iter().map(|repo| ("repo", repo.as_str())))
            .chain(only.lang.iter().map(|lang| ("lang", lang.as_str())))
            .map(|(name, value)| format!("{name} {value:?}"))
            .collect();
        let limits = limits.join(" and ");
        why.push(format!("it is in other pages, not in those with {limits}"));
    }
    Ok(why)
}

fn labels(hits: &[vectors::Hit], label: impl Fn(&vectors::Hit) -> &String) -> BTreeSet<&str> {
    let labels = hits.iter().map(|hit| label(hit).as_str());
    labels.filter(|label| !label.is_empty()).collect()
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
    /// The page as it is now was rejected: its dead letter rests, and no drain takes it before it is changed.
    pub rejected: bool,
    /// The id of the section's point.
    pub point_id: String,
    /// What was searched: `words`, `meaning`.
    pub channels: Vec<&'static str>,
}

/// Returns the hits as they are told, each compared with the page as it is on disk now, with about `most` characters of its
/// text. `letters` gives the dead letters of pages; it is asked only for those that changed.
#[must_use]
pub fn told(
    wiki: &Wiki,
    query: &str,
    found: Found,
    most: usize,
    letters: impl FnOnce(&[PagePath]) -> Result<Vec<DeadLetter>, Failure>,
) -> Vec<Hit> {
    let channels: Vec<_> = found.channels.iter().map(|one| one.as_str()).collect();
    let told = |hit: vectors::Hit| {
        let now = version_now(wiki, &hit.path);
        let told = Hit {
            stale: now.as_ref() != Some(&hit.page_sha),
            deleted: now.is_none(),
            rejected: false,
            heading: hit.heading.join(" > "),
            snippet: snippet(&hit.text, query, most),
            path: hit.path,
            title: hit.title,
            score: hit.score,
            point_id: hit.point_id,
            channels: channels.clone(),
        };
        (told, now)
    };
    let mut hits: Vec<_> = found.hits.into_iter().map(told).collect();
    let changed = hits.iter().filter(|(hit, _)| hit.stale && !hit.deleted);
    let changed: Vec<_> = changed
        .filter_map(|(hit, _)| PagePath::parse(&hit.path).ok())
        .collect();
    if !changed.is_empty() {
        // A search is no worse for an outbox that cannot be asked.
        for letter in letters(&changed).unwrap_or_default() {
            let of = letter.path.as_ref().map(PagePath::as_str);
            for (hit, now) in &mut hits {
                hit.rejected |= of == Some(&hit.path)
                    && letter.stands_for(StoreName::Vectors)
                    && now.as_ref() == Some(&letter.death.version);
            }
        }
    }
    hits.into_iter().map(|(hit, _)| hit).collect()
}

/// Returns what the page is now: its SHA, or what stands for it where it cannot be read; `None` when it is gone.
fn version_now(wiki: &Wiki, path: &str) -> Option<String> {
    match wiki.read(&PagePath::parse(path).ok()?) {
        Reading::Page { sha, .. } => Some(sha.to_string()),
        Reading::Absent => None,
        Reading::Bad { version, .. } => Some(version),
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

    fn hits(found: &[(&str, f32)]) -> Vec<vectors::Hit> {
        let hit = |&(path, score): &(&str, f32)| vectors::Hit {
            path: path.into(),
            title: String::new(),
            heading: Vec::new(),
            score,
            text: String::new(),
            page_sha: String::new(),
            point_id: String::new(),
            section: 0,
            repo: String::new(),
            lang: String::new(),
        };
        found.iter().map(hit).collect()
    }

    #[test]
    fn pages_that_are_called_so_come_first_once_and_no_score_is_below_one_behind_it() {
        let others = || hits(&[("a", 9.0), ("b", 7.0), ("c", 1.0)]);
        for (first, limit, expected) in [
            (&[][..], 3, &[("a", 9.0), ("b", 7.0), ("c", 1.0)][..]),
            (&[("c", 1.0)], 3, &[("c", 10.0), ("a", 9.0), ("b", 7.0)]),
            (
                &[("d", 2.0), ("e", 0.0)],
                3,
                &[("d", 11.0), ("e", 9.0), ("a", 9.0)],
            ),
            (&[("a", 9.0)], 2, &[("a", 9.0), ("b", 7.0)]),
            (
                &[("b", 7.0), ("c", 1.0)],
                9,
                &[("b", 16.0), ("c", 10.0), ("a", 9.0)],
            ),
            (&[("d", 2.0), ("b", 1.0)], 1, &[("d", 11.0)]),
        ] {
            let told = put_first(hits(first), others(), limit);
            assert_eq!(told, hits(expected), "{first:?}");
        }
        assert_eq!(
            put_first(hits(&[("x", 0.0)]), Vec::new(), 5),
            hits(&[("x", 0.0)])
        );
    }

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
