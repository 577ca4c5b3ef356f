//! Lines that another program, or somebody's hand, laid among the dead letters or took away from there.
//!
//! A line and its letter come and go in one step, so as long as there are as many letters as lines nobody else was
//! there, and nothing is read.

use std::collections::HashMap;

use super::change::Room;
use super::keys::Key;
use super::letters::Letter;
use super::lines::{HEAD, LONGEST_JOB, Line};
use super::link::Link;
use super::text::Text as _;
use super::{PIECE, RedisOutbox, distinct};
use crate::model::{Failure, Job};

/// Why a line is a letter that another program laid on the list.
const FOREIGN: &str = "laid among the dead letters by another program";

/// A letter, as much as is needed to find its line.
#[derive(Clone)]
pub(super) struct KnownLetter {
    pub(super) key: Key,
    /// Its field there.
    pub(super) field: Vec<u8>,
    pub(super) id: i64,
}

impl KnownLetter {
    /// Returns the page whose letter it is, if it is one's.
    pub(super) fn page(&self) -> Option<&str> {
        if self.key == Key::Letters {
            str::from_utf8(&self.field).ok()
        } else {
            None
        }
    }
}

/// The letters by what their lines are known by. Of equal lines the older lies before the younger.
pub(super) struct Known {
    by_mark: HashMap<String, Vec<KnownLetter>>,
    /// Fields that cannot be read.
    damaged: Vec<(Key, Vec<u8>)>,
}

impl Known {
    /// Returns the letter of the next line that is known by this, if there is one.
    pub(super) fn take(&mut self, mark: &str) -> Option<KnownLetter> {
        self.by_mark.get_mut(mark)?.pop()
    }

    /// Returns all that were not taken.
    pub(super) fn letters(&self) -> impl Iterator<Item = &KnownLetter> {
        self.by_mark.values().flatten()
    }
}

impl RedisOutbox {
    /// Reads the letters of these keys.
    pub(super) fn known(&mut self, doing: &str, keys: &[Key]) -> Result<Known, Failure> {
        let mut known = Known {
            by_mark: HashMap::new(),
            damaged: Vec::new(),
        };
        for &key in keys {
            self.scan(doing, key, |field, text| {
                let letter = str::from_utf8(&field)
                    .ok()
                    .and_then(|field| Letter::read(field, &text));
                let Some(letter) = letter else {
                    known.damaged.push((key, field));
                    return;
                };
                let mark = if key == Key::Junk {
                    letter.line.clone()
                } else {
                    letter.mark()
                };
                let id = letter.id;
                let same = known.by_mark.entry(mark).or_default();
                same.push(KnownLetter { key, field, id });
            })?;
        }
        for same in known.by_mark.values_mut() {
            same.sort_by_key(|known| -known.id);
            // A piecewise reading may bring one twice.
            same.dedup_by_key(|known| known.id);
        }
        Ok(known)
    }

    /// Makes sure that every line has its letter and every letter its line: a line that another program laid there gets
    /// one, a letter whose line somebody took away goes.
    pub(super) fn heal_dead(&mut self, doing: &str) -> Result<(), Failure> {
        let [lines, letters, junk] = self.dead_sizes(doing)?;
        if lines == letters + junk {
            return Ok(());
        }
        // First what is gone: a page's new line must not be taken for a second one.
        let mut known = self.known(doing, &[Key::Letters, Key::Junk])?;
        let mut from = 0;
        loop {
            let lines = self.peek(doing, Key::DeadList, from, PIECE, HEAD)?;
            if lines.is_empty() {
                break;
            }
            from += lines.len();
            for line in &lines {
                known.take(&line.mark());
            }
        }
        if self.dead_sizes(doing)? != [lines, letters, junk] || from != lines {
            // A line that was taken away moves those behind it, so some may have been missed; a later look will tell.
            return Ok(());
        }
        self.forget(doing, known)?;
        self.adopt(doing)
    }

    /// Counts lines, letters of pages, and letters of lines that name none.
    pub(super) fn dead_sizes(&mut self, doing: &str) -> Result<[usize; 3], Failure> {
        let keys = self.link.keys.clone();
        self.link.ask(doing, |c| {
            let mut pipe = redis::pipe();
            pipe.cmd("LLEN").arg(keys.name(Key::DeadList));
            pipe.cmd("HLEN").arg(keys.name(Key::Letters));
            pipe.cmd("HLEN").arg(keys.name(Key::Junk));
            Link::at_once(c, &pipe)
        })
    }

    /// Forgets letters that have no line.
    fn forget(&mut self, doing: &str, gone: Known) -> Result<(), Failure> {
        let Known { by_mark, damaged } = gone;
        let gone = by_mark.into_values().flatten();
        let (pages, junk): (Vec<_>, Vec<_>) = gone.partition(|known| known.key == Key::Letters);
        for some in pages.chunks(PIECE) {
            let paths = distinct(some.iter().filter_map(KnownLetter::page));
            self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                for (page, known) in batch.pages.iter_mut().zip(some) {
                    // Not one that was laid since.
                    page.letter.now.take_if(|letter| letter.id == known.id);
                }
            })?;
        }
        let mut fields: Vec<(Key, Vec<u8>)> = junk
            .into_iter()
            .map(|junk| (junk.key, junk.field))
            .collect();
        fields.extend(damaged);
        for some in fields.chunks(PIECE) {
            self.transact(doing, &[], (0, 0), Room::Any, |batch| {
                for (key, field) in some {
                    batch.forget_field(*key, field.clone());
                }
            })?;
        }
        Ok(())
    }

    /// Gives lines of other programs their letters. Of several lines of a page one stays.
    fn adopt(&mut self, doing: &str) -> Result<(), Failure> {
        let mut known = self.known(doing, &[Key::Letters, Key::Junk])?;
        let mut from = 0;
        loop {
            let lines = self.peek(doing, Key::DeadList, from, PIECE, LONGEST_JOB)?;
            if lines.is_empty() {
                return Ok(());
            }
            let foreign: Vec<(usize, &Line)> = (from..)
                .zip(&lines)
                .filter(|(_, line)| known.take(&line.mark()).is_none())
                .collect();
            from += lines.len();
            if foreign.is_empty() {
                continue;
            }
            match self.adopt_some(doing, &foreign)? {
                Some(doubles) => from -= doubles,
                // The list moved; a later look goes on.
                None => return Ok(()),
            }
        }
    }

    /// Gives some lines their letters and returns how many were taken away; `None` when they lie there no more.
    fn adopt_some(
        &mut self,
        doing: &str,
        foreign: &[(usize, &Line)],
    ) -> Result<Option<usize>, Failure> {
        let now = self.judged_at;
        // A letter keeps its page's line whole, so that must not be long.
        let is_short = |line: &&Line| line.size == line.text.len();
        let job = |line: &Line| Some(line).filter(is_short).and_then(|line| line.job().ok());
        let jobs: Vec<Option<Job>> = foreign.iter().map(|(_, line)| job(line)).collect();
        let paths = distinct(jobs.iter().flatten().map(|job| job.path.as_str()));
        self.transact_once(doing, &paths, (0, foreign.len()), Room::Any, |batch| {
            let mut doubles = Vec::new();
            for ((place, line), job) in foreign.iter().zip(&jobs) {
                batch.expect_line(Key::DeadList, *place, line);
                let id = batch.letter_id();
                let mut letter = Letter::of_junk(id, line, FOREIGN, now);
                let page = job.as_ref().and_then(|job| batch.page(job.path.as_str()));
                match (job, page) {
                    (Some(job), Some(page)) if page.letter.now.is_none() => {
                        letter.line = String::from_utf8_lossy(&line.text).into_owned();
                        letter.head = String::new();
                        letter.attempts = job.retry;
                        page.letter.now = Some(letter);
                        page.line_is_there = true;
                    }
                    // The page has one.
                    (Some(_), Some(_)) => doubles.push(*place),
                    (None, _) | (_, None) => batch.note_junk(&letter),
                }
            }
            batch.take_lines_away(&doubles);
            doubles.len()
        })
    }
}
