//! Which dead letters were told: the letters there are against those that were.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Transaction, params};

use super::book::{Book, DOING, READING, tell};
use super::text;
use crate::model::{ContentSha, Failure, Timestamp};
use crate::outbox::DeadLetter;
use crate::state::{db_failure, with_write};

/// Messages about dead letters in one minute; what dies beyond that waits for the next drain's digest, else a
/// stream of bad pages would be a stream of messages.
const MOST_A_MINUTE: i64 = 5;
const MINUTE_MS: i64 = 60_000;
/// How long it is remembered that a letter was told which was dropped to keep the bound: 90 days.
const TRIMMED_MS: i64 = 90 * 24 * 60 * MINUTE_MS;

impl Book {
    /// Says whether any dead letter was told and is not over.
    pub(super) fn has_dead(&self) -> Result<bool, Failure> {
        self.is("SELECT EXISTS (SELECT 1 FROM incidents WHERE kind = 'dead')")
    }

    /// Compares the letters, as they were at `seen`, with those that were told: tells the new ones in one message,
    /// and forgets those that are gone. A page that died again of the same content is not new.
    pub(super) fn note_letters(
        &mut self,
        letters: &[DeadLetter],
        seen: Timestamp,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let known = told(&self.db).map_err(|e| db_failure(READING, &e))?;
        if Difference::of(letters, &known, seen).is_none() {
            return Ok(());
        }
        let Self { db, wiki, channels } = self;
        with_write(db, DOING, |tx| {
            let known = told(tx)?;
            let difference = Difference::of(letters, &known, seen);
            let mut forget =
                tx.prepare_cached("DELETE FROM incidents WHERE kind = 'dead' AND subject = ?1")?;
            for subject in &difference.over {
                forget.execute([subject])?;
            }
            let mut again = tx.prepare_cached(
                "UPDATE incidents SET trimmed_at = NULL WHERE kind = 'dead' AND subject = ?1",
            )?;
            for subject in &difference.again {
                again.execute([subject])?;
            }
            if difference.new.is_empty() || is_too_much(tx, now)? {
                return Ok(());
            }
            let mut open = tx.prepare_cached(
                "INSERT OR REPLACE INTO incidents (kind, subject, version, opened_at, told_at)
                 VALUES ('dead', ?1, ?2, ?3, ?3)",
            )?;
            for letter in &difference.new {
                open.execute(params![subject_of(letter), letter.death.version, now.0])?;
            }
            tell(tx, channels, &text::of_letters(wiki, &difference.new, now))
        })
    }

    /// Notes that these letters are dropped to keep the bound: their pages still are what they were.
    pub(super) fn note_trimmed(
        &mut self,
        letters: &[&DeadLetter],
        now: Timestamp,
    ) -> Result<(), Failure> {
        with_write(&mut self.db, DOING, |tx| {
            let mut trim = tx.prepare_cached(
                "UPDATE incidents SET trimmed_at = ?2 WHERE kind = 'dead' AND subject = ?1",
            )?;
            for letter in letters {
                trim.execute(params![subject_of(letter), now.0])?;
            }
            Ok(())
        })
    }
}

fn is_too_much(tx: &Transaction<'_>, now: Timestamp) -> rusqlite::Result<bool> {
    let lately: i64 = tx.query_row(
        "SELECT COUNT(*) FROM alerts WHERE kind = 'dead_letter' AND at > ?1 AND at <= ?2",
        [now.0.saturating_sub(MINUTE_MS), now.0],
        |row| row.get(0),
    )?;
    Ok(lately >= MOST_A_MINUTE)
}

/// What a letter is known by: its page, or for a line that names none the line itself; of a long one length and beginning.
fn subject_of(letter: &DeadLetter) -> String {
    match &letter.path {
        Some(path) => path.to_string(),
        // No page's path holds a NUL byte.
        None if letter.is_whole() => format!("\0{}", ContentSha::of(letter.head.as_bytes())),
        None => format!(
            "\0{} {}",
            letter.size,
            ContentSha::of(letter.head.as_bytes())
        ),
    }
}

/// A dead letter that was told.
struct Told {
    version: String,
    opened_at: i64,
    trimmed_at: Option<i64>,
}

fn told(db: &Connection) -> rusqlite::Result<HashMap<String, Told>> {
    db.prepare_cached(
        "SELECT subject, version, opened_at, trimmed_at FROM incidents WHERE kind = 'dead'",
    )?
    .query_map([], |row| {
        Ok((
            row.get(0)?,
            Told {
                version: row.get(1)?,
                opened_at: row.get(2)?,
                trimmed_at: row.get(3)?,
            },
        ))
    })?
    .collect()
}

/// How the letters differ from what was told.
struct Difference<'a> {
    /// Not told yet.
    new: Vec<&'a DeadLetter>,
    /// Told, trimmed, and there again.
    again: Vec<String>,
    /// Told, and gone.
    over: Vec<String>,
}

impl<'a> Difference<'a> {
    fn of(letters: &'a [DeadLetter], known: &HashMap<String, Told>, seen: Timestamp) -> Self {
        let mut there = HashSet::new();
        let mut new = Vec::new();
        let mut again = Vec::new();
        for letter in letters {
            let subject = subject_of(letter);
            match known.get(&subject) {
                Some(told) if told.version == letter.death.version => {
                    if told.trimmed_at.is_some() {
                        again.push(subject.clone());
                    }
                }
                Some(_) | None if !there.contains(&subject) => new.push(letter),
                Some(_) | None => {}
            }
            there.insert(subject);
        }
        // What was opened after the letters were looked at is not gone: it came.
        let over = known
            .iter()
            .filter(|(subject, told)| {
                let is_past = told
                    .trimmed_at
                    .is_none_or(|at| at.saturating_add(TRIMMED_MS) < seen.0);
                is_past && told.opened_at < seen.0 && !there.contains(subject.as_str())
            })
            .map(|(subject, _)| subject.clone())
            .collect();
        Self { new, again, over }
    }

    fn is_none(&self) -> bool {
        self.new.is_empty() && self.again.is_empty() && self.over.is_empty()
    }
}
