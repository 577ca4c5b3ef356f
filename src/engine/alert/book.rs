//! The tables behind the alerts: what goes on, what is to be told, what was not delivered yet.
//!
//! An incident and the message about it are written in one step, so whoever is killed tells it neither twice nor
//! never. The rows decide, not anybody's memory: several processes may work on them.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::settings::DeliveryPolicy;
use super::text::{self, Message};
use super::{Event, Subject};
use crate::model::{ContentSha, Failure, Timestamp};
use crate::outbox::DeadLetter;
use crate::state::{db_failure, open_db, with_write};

/// Messages about dead letters in one minute; what dies beyond that waits for the next drain's digest, else a
/// stream of bad pages would be a stream of messages.
const MOST_A_MINUTE: i64 = 5;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// How long it is remembered that a letter was told which was dropped to keep the bound.
const TRIMMED_MS: i64 = 90 * DAY_MS;

const DOING: &str = "cannot note an alert";
const READING: &str = "cannot read the alerts";

/// The tables.
#[derive(Debug)]
pub(super) struct Book {
    db: Connection,
    wiki: String,
    channels: Vec<&'static str>,
}

/// A message on its way by one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) alert: i64,
    pub(super) channel: &'static str,
    /// Attempts, this one included.
    pub(super) attempts: u32,
    pub(super) message: Message,
}

/// What one channel still owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) channel: String,
    pub(super) alerts: u64,
    /// Why the last one that failed was not delivered.
    pub(super) error: Option<String>,
}

impl Book {
    pub(super) fn open(
        path: &Path,
        wiki: &str,
        channels: Vec<&'static str>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            db: open_db(path)?,
            wiki: wiki.into(),
            channels,
        })
    }

    /// Returns the names of those that are away, each with whether it was told.
    pub(super) fn away(&self) -> Result<HashMap<String, bool>, Failure> {
        let read = || {
            self.db
                .prepare_cached("SELECT subject, told_at FROM incidents WHERE kind = 'away'")?
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.is_some()))
                })?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(|e| db_failure(READING, &e))
    }

    /// Notes that something is away, and tells it once it has been so for `patience`; returns whether it is told.
    pub(super) fn note_away(
        &mut self,
        subject: Subject,
        failure: &Failure,
        patience: std::time::Duration,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let Self { db, wiki, channels } = self;
        with_write(db, DOING, |tx| {
            open_incident(tx, "away", subject.as_str(), now)?;
            let (opened, told): (i64, Option<i64>) = tx.query_row(
                "SELECT opened_at, told_at FROM incidents WHERE kind = 'away' AND subject = ?1",
                [subject.as_str()],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let opened = Timestamp(opened);
            if told.is_some() || opened.until(now) < patience {
                return Ok(told.is_some());
            }
            tx.execute(
                "UPDATE incidents SET told_at = ?2 WHERE kind = 'away' AND subject = ?1",
                params![subject.as_str(), now.0],
            )?;
            let event = Event::Away {
                subject,
                failure: failure.clone(),
            };
            tell(tx, channels, &text::of_event(wiki, &event, opened, now))?;
            Ok(true)
        })
    }

    /// Notes that something is back, and tells it if it was told to be away.
    pub(super) fn note_back(&mut self, subject: Subject, now: Timestamp) -> Result<(), Failure> {
        let Self { db, wiki, channels } = self;
        with_write(db, DOING, |tx| {
            let was: Option<(i64, Option<i64>)> = tx
                .query_row(
                    "DELETE FROM incidents WHERE kind = 'away' AND subject = ?1
                     RETURNING opened_at, told_at",
                    [subject.as_str()],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            if let Some((opened, Some(_))) = was {
                let event = Event::Back { subject };
                let message = text::of_event(wiki, &event, Timestamp(opened), now);
                tell(tx, channels, &message)?;
            }
            Ok(())
        })
    }

    /// Tells an event of the dead letters' bounds, unless the first of `subjects` was told and goes on; the others
    /// need not be told any more.
    pub(super) fn note_bounds(
        &mut self,
        subjects: &[&str],
        event: &Event,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Self { db, wiki, channels } = self;
        with_write(db, DOING, |tx| {
            let mut opened = Vec::new();
            for subject in subjects {
                opened.push(open_incident(tx, "bounds", subject, now)?);
            }
            if opened.first() == Some(&true) {
                tell(tx, channels, &text::of_event(wiki, event, now, now))?;
            }
            Ok(())
        })
    }

    /// Notes that the dead letters are well within their bounds.
    pub(super) fn end_bounds(&mut self) -> Result<(), Failure> {
        let any = "SELECT EXISTS (SELECT 1 FROM incidents WHERE kind = 'bounds')";
        if !self.is(any)? {
            return Ok(());
        }
        with_write(&mut self.db, DOING, |tx| {
            tx.execute("DELETE FROM incidents WHERE kind = 'bounds'", [])
                .map(drop)
        })
    }

    /// Says whether any dead letter was told and is not over.
    pub(super) fn has_dead(&self) -> Result<bool, Failure> {
        self.is("SELECT EXISTS (SELECT 1 FROM incidents WHERE kind = 'dead')")
    }

    fn is(&self, query: &str) -> Result<bool, Failure> {
        let found = self.db.query_row(query, [], |row| row.get(0));
        found.map_err(|e| db_failure(READING, &e))
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

    /// Drops what is too old to be delivered or belongs to a channel that is no more, and returns what was dropped
    /// undelivered: title, channel, last error. Forgets old messages.
    pub(super) fn tidy(
        &mut self,
        policy: &DeliveryPolicy,
        now: Timestamp,
    ) -> Result<Vec<(String, String, Option<String>)>, Failure> {
        let give_up = i64::try_from(policy.give_up.as_millis()).unwrap_or(DAY_MS);
        let Self { db, channels, .. } = self;
        with_write(db, DOING, |tx| {
            let mut dropped = Vec::new();
            let mut drop_it =
                tx.prepare_cached("DELETE FROM deliveries WHERE alert = ?1 AND channel = ?2")?;
            let mut owed = tx.prepare_cached(
                "SELECT alert, channel, error, title, at FROM deliveries JOIN alerts ON id = alert",
            )?;
            let rows: Vec<(i64, String, Option<String>, String, i64)> = owed
                .query_map([], |row| {
                    Ok((
                        row.get(0)?,
                        row.get(1)?,
                        row.get(2)?,
                        row.get(3)?,
                        row.get(4)?,
                    ))
                })?
                .collect::<rusqlite::Result<_>>()?;
            for (alert, channel, error, title, at) in rows {
                let is_old = at.saturating_add(give_up) <= now.0;
                if is_old || !channels.contains(&channel.as_str()) {
                    drop_it.execute(params![alert, channel])?;
                }
                if is_old {
                    dropped.push((title, channel, error));
                }
            }
            tx.execute(
                "DELETE FROM alerts WHERE at < ?1 AND id NOT IN (SELECT alert FROM deliveries)
                 AND id < (SELECT MAX(id) FROM alerts)",
                [now.0.saturating_sub(DAY_MS)],
            )?;
            Ok(dropped)
        })
    }

    /// Takes up to `most` messages that are due by a channel, oldest first. Their attempt is counted and the next
    /// one put off before anybody sends them, so that no two processes send the same.
    pub(super) fn take(
        &mut self,
        channel: &'static str,
        most: usize,
        policy: &DeliveryPolicy,
        now: Timestamp,
    ) -> Result<Vec<Parcel>, Failure> {
        // Further ahead than any wait: the clock was set back.
        let horizon = now.plus(policy.give_up).0;
        let due = "channel = ?1 AND (due_at <= ?2 OR due_at > ?3)";
        let any: bool = self
            .db
            .prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM deliveries WHERE {due})"
            ))
            .and_then(|mut any| any.query_row(params![channel, now.0, horizon], |row| row.get(0)))
            .map_err(|e| db_failure(READING, &e))?;
        if !any || most == 0 {
            return Ok(Vec::new());
        }
        with_write(&mut self.db, DOING, |tx| {
            let mut parcels = tx
                .prepare_cached(&format!(
                    "SELECT id, attempts, kind, store, title, text, count, at
                     FROM deliveries JOIN alerts ON id = alert WHERE {due} ORDER BY id LIMIT ?4"
                ))?
                .query_map(
                    params![
                        channel,
                        now.0,
                        horizon,
                        i64::try_from(most).unwrap_or(i64::MAX)
                    ],
                    |row| {
                        Ok(Parcel {
                            alert: row.get(0)?,
                            channel,
                            attempts: row.get(1)?,
                            message: message(row, 2)?,
                        })
                    },
                )?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut put_off = tx.prepare_cached(
                "UPDATE deliveries SET attempts = attempts + 1, due_at = ?3
                 WHERE alert = ?1 AND channel = ?2",
            )?;
            for parcel in &mut parcels {
                let next = now.plus(policy.wait(parcel.attempts as usize));
                put_off.execute(params![parcel.alert, channel, next.0])?;
                parcel.attempts += 1;
            }
            Ok(parcels)
        })
    }

    /// Notes that a message was delivered.
    pub(super) fn delivered(&mut self, alert: i64, channel: &str) -> Result<(), Failure> {
        with_write(&mut self.db, DOING, |tx| {
            tx.execute(
                "DELETE FROM deliveries WHERE alert = ?1 AND channel = ?2",
                params![alert, channel],
            )
            .map(drop)
        })
    }

    /// Notes why a message was not delivered; it is tried again no sooner than `not_before`.
    pub(super) fn failed(
        &mut self,
        alert: i64,
        channel: &str,
        reason: &str,
        not_before: Timestamp,
    ) -> Result<(), Failure> {
        with_write(&mut self.db, DOING, |tx| {
            tx.execute(
                "UPDATE deliveries SET error = ?3, due_at = MAX(due_at, ?4)
                 WHERE alert = ?1 AND channel = ?2",
                params![alert, channel, reason, not_before.0],
            )
            .map(drop)
        })
    }

    /// Returns what each channel still owes.
    pub(super) fn owed(&self) -> Result<Vec<Owed>, Failure> {
        let read = || {
            // With MAX, the other columns come from the row that holds it.
            self.db
                .prepare_cached(
                    "SELECT channel, COUNT(*), error, MAX(CASE WHEN error IS NULL THEN -1 ELSE alert END)
                     FROM deliveries GROUP BY channel ORDER BY channel",
                )?
                .query_map([], |row| {
                    Ok(Owed {
                        channel: row.get(0)?,
                        alerts: row.get::<_, i64>(1)?.cast_unsigned(),
                        error: row.get(2)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(|e| db_failure(READING, &e))
    }

    /// Returns the last message.
    pub(super) fn last(&self) -> Result<Option<Message>, Failure> {
        self.db
            .prepare_cached(
                "SELECT kind, store, title, text, count, at FROM alerts ORDER BY id DESC LIMIT 1",
            )
            .and_then(|mut last| last.query_row([], |row| message(row, 0)).optional())
            .map_err(|e| db_failure(READING, &e))
    }
}

fn message(row: &Row<'_>, at: usize) -> rusqlite::Result<Message> {
    Ok(Message {
        kind: row.get(at)?,
        store: row.get(at + 1)?,
        title: row.get(at + 2)?,
        text: row.get(at + 3)?,
        count: row.get::<_, i64>(at + 4)?.cast_unsigned(),
        at: Timestamp(row.get(at + 5)?),
    })
}

/// Opens an incident, and says whether it was not open before.
fn open_incident(
    tx: &Transaction<'_>,
    kind: &str,
    subject: &str,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let opened = tx.execute(
        "INSERT INTO incidents (kind, subject, opened_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![kind, subject, now.0],
    )?;
    Ok(opened > 0)
}

/// Puts a message in, to be delivered by every channel.
fn tell(tx: &Transaction<'_>, channels: &[&str], message: &Message) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO alerts (kind, store, title, text, count, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            message.kind,
            message.store,
            message.title,
            message.text,
            message.count.cast_signed(),
            message.at.0
        ],
    )?;
    let alert = tx.last_insert_rowid();
    let mut owe =
        tx.prepare_cached("INSERT INTO deliveries (alert, channel, due_at) VALUES (?1, ?2, ?3)")?;
    for channel in channels {
        owe.execute(params![alert, channel, message.at.0])?;
    }
    Ok(())
}

fn is_too_much(tx: &Transaction<'_>, now: Timestamp) -> rusqlite::Result<bool> {
    let lately: i64 = tx.query_row(
        "SELECT COUNT(*) FROM alerts WHERE kind = 'dead_letter' AND at > ?1 AND at <= ?2",
        [now.0.saturating_sub(MINUTE_MS), now.0],
        |row| row.get(0),
    )?;
    Ok(lately >= MOST_A_MINUTE)
}

/// What a letter is known by: its page, or for a line that names none the line itself.
fn subject_of(letter: &DeadLetter) -> String {
    match &letter.path {
        Some(path) => path.to_string(),
        // No page's path holds a NUL byte.
        None => format!("\0{}", ContentSha::of(&letter.raw)),
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
