//! Dead letters: raw lines on the wire's list, and beside them how each died.
//!
//! The raw lines are as long as whoever wrote them liked, so only their beginnings are kept beside them, and nothing
//! here reads a line from the list except to show, drop or adopt it.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::adopt::{Known, KnownLetter};
use super::change::{Batch, Room};
use super::keys::Key;
use super::lines::{HEAD, Line, mark, size_of};
use super::settings::Offset;
use super::text::Text as _;
use super::{PIECE, RedisOutbox, distinct};
use crate::model::{Failure, FailureKind, Job, PagePath, Timestamp};
use crate::outbox::entry::Entry;
use crate::outbox::story::{Step, Story};
use crate::outbox::{DeadLetter, Death, Which, clip, excerpt};

/// How often the list may move while a line is looked for.
const MOST_LOOKS: u32 = 100;

/// How a letter died. Times are the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Letter {
    pub(super) id: i64,
    /// The raw line of a page's letter; of a line that named no page only its [`mark`] is kept here.
    pub(super) line: String,
    /// The beginning of a line that named no page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) head: String,
    /// The stores that it stands for.
    pub(super) store: Option<String>,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) version: String,
    pub(super) fingerprint: String,
    pub(super) dead_at: i64,
}

impl Letter {
    /// Lays a job to rest.
    pub(super) fn of_job(id: i64, entry: &Entry, death: &Death, now: i64) -> Self {
        Self {
            id,
            line: entry.line(death.attempts),
            head: String::new(),
            store: death.stores_text(),
            reason: clip(&death.reason).to_owned(),
            attempts: death.attempts,
            version: death.version.clone(),
            fingerprint: death.fingerprint.clone(),
            dead_at: now,
        }
    }

    /// Keeps a line that is no job.
    pub(super) fn of_junk(id: i64, line: &Line, reason: &str, now: i64) -> Self {
        Self {
            id,
            line: line.mark(),
            head: excerpt(&line.text),
            store: None,
            reason: clip(reason).to_owned(),
            attempts: 0,
            version: String::new(),
            fingerprint: String::new(),
            dead_at: now,
        }
    }

    /// Returns what its line is known by.
    pub(super) fn mark(&self) -> String {
        mark(self.line.len(), self.line.as_bytes())
    }

    fn told(self, path: Option<PagePath>, is_junk: bool, offset: Offset) -> DeadLetter {
        let (size, head) = if is_junk {
            (size_of(&self.line), self.head)
        } else {
            (self.line.len() as u64, excerpt(self.line.as_bytes()))
        };
        DeadLetter {
            id: self.id,
            path,
            death: Death {
                stores: Death::stores_of(self.store.as_deref()),
                reason: self.reason,
                attempts: self.attempts,
                version: self.version,
                fingerprint: self.fingerprint,
            },
            dead_at: offset.date(self.dead_at),
            size,
            head,
        }
    }
}

/// Which letters are meant.
struct Meant(Option<HashSet<i64>>);

impl Meant {
    fn of(which: &Which) -> Self {
        match which {
            Which::All => Self(None),
            Which::Ids(ids) => Self(Some(ids.iter().copied().collect())),
        }
    }

    fn means(&self, id: i64) -> bool {
        self.0.as_ref().is_none_or(|ids| ids.contains(&id))
    }
}

impl RedisOutbox {
    /// Returns the letters, oldest first.
    pub(super) fn letters(&mut self) -> Result<Vec<DeadLetter>, Failure> {
        let doing = "cannot list the dead letters";
        let offset = self.last_offset(doing)?;
        self.heal_dead(doing)?;
        // By number: a piecewise reading may bring one twice.
        let mut letters = BTreeMap::new();
        for key in [Key::Letters, Key::Junk] {
            let is_junk = key == Key::Junk;
            self.scan(doing, key, |field, text| {
                let Ok(field) = String::from_utf8(field) else {
                    return;
                };
                if let Some(letter) = Letter::read(&field, &text) {
                    let path = PagePath::parse(&field).ok().filter(|_| !is_junk);
                    letters.insert(letter.id, letter.told(path, is_junk, offset));
                }
            })?;
        }
        Ok(letters.into_values().collect())
    }

    /// Returns the letters of these pages.
    pub(super) fn letters_of(&mut self, paths: &[PagePath]) -> Result<Vec<DeadLetter>, Failure> {
        let doing = "cannot look for dead letters";
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let offset = self.last_offset(doing)?;
        let name = self.link.keys.name(Key::Letters).to_owned();
        let mut letters = Vec::new();
        for some in paths.chunks(PIECE) {
            let texts: Vec<Option<Vec<u8>>> = self.link.ask(doing, |c| {
                let mut read = redis::cmd("HMGET");
                read.arg(&name);
                for path in some {
                    read.arg(path.as_str());
                }
                read.query(c)
            })?;
            for (path, text) in some.iter().zip(texts) {
                let letter = text.and_then(|text| Letter::read(path.as_str(), &text));
                letters.extend(letter.map(|letter| letter.told(Some(path.clone()), false, offset)));
            }
        }
        Ok(letters)
    }

    /// Returns a letter's raw line, whole.
    pub(super) fn letter_line(&mut self, id: i64) -> Result<Option<Vec<u8>>, Failure> {
        let doing = "cannot read a dead letter";
        self.last_offset(doing)?;
        self.heal_dead(doing)?;
        let mut of_page = None;
        self.scan(doing, Key::Letters, |path, text| {
            let letter = str::from_utf8(&path)
                .ok()
                .and_then(|path| Letter::read(path, &text));
            if let Some(letter) = letter.filter(|letter| letter.id == id) {
                of_page = Some(letter.line.into_bytes());
            }
        })?;
        if of_page.is_some() {
            return Ok(of_page);
        }
        let name = self.link.keys.name(Key::DeadList).to_owned();
        for _ in 0..MOST_LOOKS {
            let Some((place, sought)) = self.place_of(doing, id)? else {
                return Ok(None);
            };
            let line: Option<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("LINDEX").arg(&name).arg(place).query(c)
            })?;
            // Else the list moved.
            if let Some(line) = line.filter(|line| mark(line.len(), line) == sought) {
                return Ok(Some(line));
            }
        }
        Err(moves(doing))
    }

    /// Returns where the line that names no page and has this number lies, and what it is known by.
    fn place_of(&mut self, doing: &str, id: i64) -> Result<Option<(usize, String)>, Failure> {
        let mut known = self.known(doing, &[Key::Junk])?;
        let mut from = 0;
        loop {
            let lines = self.peek(doing, Key::DeadList, from, PIECE, HEAD)?;
            if lines.is_empty() {
                return Ok(None);
            }
            for (place, line) in (from..).zip(&lines) {
                let mark = line.mark();
                if known.take(&mark).is_some_and(|known| known.id == id) {
                    return Ok(Some((place, mark)));
                }
            }
            from += lines.len();
        }
    }

    /// Puts letters of pages back as fresh jobs.
    pub(super) fn put_back_letters(
        &mut self,
        which: &Which,
        now: Timestamp,
    ) -> Result<u64, Failure> {
        let doing = "cannot retry dead letters";
        let now = self.offset(doing, now)?.server(now);
        self.end_letters(doing, which, Some(now))
    }

    /// Drops letters for good.
    pub(super) fn drop_letters(&mut self, which: &Which) -> Result<u64, Failure> {
        let doing = "cannot drop dead letters";
        self.last_offset(doing)?;
        self.end_letters(doing, which, None)
    }

    /// Takes letters away with their lines, and puts their jobs back where a time is given: then those of pages only.
    fn end_letters(
        &mut self,
        doing: &str,
        which: &Which,
        put_back: Option<Timestamp>,
    ) -> Result<u64, Failure> {
        self.heal_dead(doing)?;
        let which = Meant::of(which);
        let is_meant = |known: &KnownLetter| {
            which.means(known.id) && (put_back.is_none() || known.key == Key::Letters)
        };
        let mut ended = 0;
        for _ in 0..MOST_LOOKS {
            let mut known = self.known(doing, &[Key::Letters, Key::Junk])?;
            if !known.letters().any(is_meant)
                || self.end_known(doing, &mut known, is_meant, put_back, &mut ended)?
            {
                return Ok(ended);
            }
        }
        Err(moves(doing))
    }

    /// Goes through the list and ends what is meant, each by its line's place: to look for each line anew would take the
    /// longer the more there are. Says whether it came to the end without the list's moving meanwhile.
    fn end_known(
        &mut self,
        doing: &str,
        known: &mut Known,
        is_meant: impl Fn(&KnownLetter) -> bool,
        put_back: Option<Timestamp>,
        ended: &mut u64,
    ) -> Result<bool, Failure> {
        let room = match put_back {
            Some(_) => Room::Needed,
            None => Room::Any,
        };
        let mut from = 0;
        loop {
            let lines = self.peek(doing, Key::DeadList, from, PIECE, HEAD)?;
            if lines.is_empty() {
                return Ok(true);
            }
            let meant: Vec<(usize, &Line, KnownLetter)> = (from..)
                .zip(&lines)
                .filter_map(|(place, line)| {
                    let letter = known.take(&line.mark()).filter(&is_meant)?;
                    Some((place, line, letter))
                })
                .collect();
            from += lines.len();
            if meant.is_empty() {
                continue;
            }
            let paths = distinct(meant.iter().filter_map(|(_, _, letter)| letter.page()));
            let jobs = put_back.map_or(0, |_| paths.len());
            let mut story = Story::begin();
            let gone = self.transact_once(doing, &paths, (jobs, 0), room, |batch| {
                let mut places = Vec::new();
                for (place, line, letter) in &meant {
                    let is_gone = if let Some(page) = letter.page() {
                        end_page(batch, page, letter.id, put_back, &mut story)
                    } else {
                        batch.forget_field(Key::Junk, letter.field.clone());
                        true
                    };
                    if is_gone {
                        batch.expect_line(Key::DeadList, *place, line);
                        places.push(*place);
                    }
                }
                batch.take_lines_away(&places);
                places.len()
            })?;
            let Some(gone) = gone else {
                return Ok(false);
            };
            story.tell();
            from -= gone;
            *ended += gone as u64;
        }
    }
}

/// Takes a page's letter away, unless it is another one by now; its line goes by its place.
fn end_page(
    batch: &mut Batch,
    path: &str,
    id: i64,
    put_back: Option<Timestamp>,
    story: &mut Story,
) -> bool {
    let Batch { pages, numbers, .. } = batch;
    let Some(page) = pages.iter_mut().find(|page| page.path == path) else {
        return false;
    };
    let told = PagePath::parse(path);
    if put_back.is_some() && told.is_err() {
        return false;
    }
    let Some(letter) = page.letter.now.take_if(|letter| letter.id == id) else {
        return false;
    };
    page.old_line = None;
    if let (Some(now), Ok(path)) = (put_back, told) {
        let told = Job::from_line(&letter.line).ok();
        let mut job = told.unwrap_or_else(|| Job::for_page(path.clone(), None));
        job.path = path;
        job.retry = 0;
        match &mut page.waiting.now {
            Some(waiting) => waiting.swallow_dead(&job, now),
            none => *none = Some(Entry::fresh(numbers.job(), &job, now)),
        }
        if let Some(waiting) = &page.waiting.now {
            story.note(|| Step::retried(waiting.id, &waiting.path, id));
        }
    }
    true
}

/// Returns the failure of whoever was never alone with the list.
fn moves(doing: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("{doing}: others change the list of the dead letters all the time"),
    )
}
