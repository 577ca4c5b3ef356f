//! What every answer has: a structure, a text for reading, and how fresh it is; and what is told instead of one.

use std::fmt;

use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::Place;
use crate::model::{Failure, PagePath, Timestamp};
use crate::query::graph::sha_of;
use crate::query::status::watch_status;
use crate::wiki::Reading;

/// Bytes of a title, a heading, a label or another short text that are told.
pub(super) const SHORT: usize = 300;
/// Bytes of a reason that are told.
pub(super) const REASON: usize = 1_000;
/// The most pages of an answer that are compared with their files.
const COMPARED: usize = 100;

/// Bytes of a list that are told, so that no answer is longer than a page in full.
const ROOM: usize = 128 << 10;

/// What is left of an answer's length.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(ROOM)
    }
}

impl Room {
    /// Returns as many as there is room for, one at least, and whether there are more.
    pub(super) fn fit<T: Serialize>(&mut self, all: impl IntoIterator<Item = T>) -> (Vec<T>, bool) {
        let mut fit = Vec::new();
        for one in all {
            let size = serde_json::to_vec(&one).map_or(0, |json| json.len());
            if size > self.0 && !fit.is_empty() {
                return (fit, true);
            }
            self.0 = self.0.saturating_sub(size);
            fit.push(one);
        }
        (fit, false)
    }
}

/// An answer of a tool.
pub(super) trait Answer: Serialize {
    /// Returns it as text, for a client that shows no structure.
    fn text(&self) -> String;
}

/// Why there is no answer, and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    what: String,
    hints: Vec<String>,
}

impl Trouble {
    /// Makes a trouble of what is wrong.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hints: Vec::new(),
        }
    }

    /// Returns the trouble with a way out added.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", clip(&self.what, REASON))?;
        for hint in &self.hints {
            write!(f, "\nhint: {}", clip(hint, REASON))?;
        }
        Ok(())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self {
            what: failure.reason,
            hints: failure.hint.into_iter().collect(),
        }
    }
}

/// How far the answer can be relied upon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
pub(super) struct Freshness {
    /// true: the index holds the pages as they are on disk. false: it lags behind, see behind and stale. null: nothing is
    /// known to be missing, but nobody watches, so an edit may have gone unnoticed (the tool status finds out).
    fresh: Option<bool>,
    /// How many jobs to index a page are not done yet. null: it could not be asked.
    behind: Option<u64>,
    /// How many pages in this answer have changed or gone on disk since they were indexed.
    stale: u64,
    /// When this was looked at.
    as_of: String,
    /// What keeps the index fresh: `running`, `ailing` (running, and something is wrong with it), `only_enqueues` (another
    /// process must index), or `none` (the index is as old as the last run of wiki-sync drain).
    watch: &'static str,
    /// The same in words.
    pub(super) note: String,
}

impl Freshness {
    /// Looks how fresh an answer is in which so many pages are stale.
    pub(super) fn look(place: &dyn Place, stale: u64) -> Self {
        let watch = Self::watch(place);
        let mut notes = Vec::new();
        if stale > 0 {
            notes.push(format!(
                "Pages in this answer that have changed since they were indexed: {stale}; read_page shows them as they are."
            ));
        }
        let is_known = place
            .receipts()
            .map_err(|failure| format!("Nothing can be said of the index: {}.", told(&failure)));
        let counts = is_known.and_then(|_| {
            place.counts().map_err(|failure| {
                let why = told(&failure);
                format!("How many edits wait to be indexed is not known: {why}.")
            })
        });
        let counts = match counts {
            Ok(counts) => counts,
            Err(why) => {
                notes.push(why);
                return Self {
                    note: notes.join(" "),
                    ..Self::of((stale > 0).then_some(false), None, stale, watch)
                };
            }
        };
        let kept = place
            .state()
            .kept_jobs()
            .map_or(0, |jobs| jobs.len() as u64);
        let hints = place.state().hints().unwrap_or(0);
        let jobs = counts.waiting + counts.delayed + counts.in_flight + counts.held;
        let behind = jobs + kept + hints;
        let fresh = match watch {
            _ if behind + stale + counts.dead > 0 => Some(false),
            "running" => Some(true),
            _ => None,
        };
        if behind > 0 {
            notes.push(format!(
                "Jobs to index a page that are not done: {behind}, so search and links may lack the latest edits."
            ));
        }
        if counts.dead > 0 {
            notes.push(format!(
                "Pages that could not be indexed: {}; status says why.",
                counts.dead
            ));
        }
        if notes.is_empty() {
            notes.push("Nothing is known to be missing from the index.".into());
        }
        notes.push(
            match watch {
                "running" => "A watch indexes edits within seconds.",
                "ailing" => "The watch that indexes edits is not well; status says why.",
                "only_enqueues" => {
                    "A watch notices edits; another process must run `wiki-sync drain` to index them."
                }
                _ => "No watch runs: edits since the last `wiki-sync drain` are not indexed.",
            }
            .into(),
        );
        Self {
            note: notes.join(" "),
            ..Self::of(fresh, Some(behind), stale, watch)
        }
    }

    /// Says what `status` has found out.
    pub(super) fn found(fresh: bool, behind: u64, stale: u64, place: &dyn Place) -> Self {
        let note = if fresh {
            "Every page was compared: the index holds all of them as they are."
        } else {
            "Every page was compared: the index lacks something, as told here."
        };
        Self {
            note: note.into(),
            ..Self::of(Some(fresh), Some(behind), stale, Self::watch(place))
        }
    }

    fn of(fresh: Option<bool>, behind: Option<u64>, stale: u64, watch: &'static str) -> Self {
        Self {
            fresh,
            behind,
            stale,
            as_of: Timestamp::now().utc(),
            watch,
            note: String::new(),
        }
    }

    fn watch(place: &dyn Place) -> &'static str {
        let now = Timestamp::now();
        match watch_status(place.state(), now) {
            Ok(watch) if !watch.running => "none",
            Ok(watch) if watch.trouble(now).is_some() => "ailing",
            Ok(watch) if watch.enqueue_only => "only_enqueues",
            Ok(_) => "running",
            Err(_) => "none",
        }
    }

    /// Returns the line that ends an answer's text.
    pub(super) fn line(&self) -> String {
        format!("(Freshness, {}: {})", self.as_of, self.note)
    }
}

/// Returns how many of these pages have changed or gone on disk since the graph took them in. Of a very long list only the
/// first hundred are looked at.
pub(super) fn stale<'a>(place: &dyn Place, paths: impl IntoIterator<Item = &'a str>) -> u64 {
    let (Ok(db), Ok(receipts)) = (place.graph(), place.receipts()) else {
        return 0;
    };
    let is_stale = |path: &&str| {
        let Ok(page) = PagePath::parse(path) else {
            return false;
        };
        let Ok(Some(indexed)) = sha_of(&db, path) else {
            return false;
        };
        if let (Ok(Some(seen)), Ok(Some(stat))) = (receipts.file(&page), place.wiki().stat(&page))
            && seen.proves(&stat)
        {
            return seen.sha.to_string() != indexed;
        }
        match place.wiki().read(&page) {
            Reading::Page { sha, .. } => sha.to_string() != indexed,
            Reading::Absent | Reading::Bad { .. } => true,
        }
    };
    let paths = paths.into_iter().take(COMPARED);
    paths.filter(is_stale).count() as u64
}

/// Returns a failure with its way out, in one line.
pub(super) fn told(failure: &Failure) -> String {
    let reason = clip(&failure.reason, REASON);
    match &failure.hint {
        Some(hint) => format!("{reason} ({})", clip(hint, REASON)),
        None => reason,
    }
}

/// Returns a text of at most so many bytes, with a mark where it was cut.
pub(super) fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.into();
    }
    let end = text.floor_char_boundary(most);
    format!("{}…", &text[..end])
}
