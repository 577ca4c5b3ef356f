//! The tables behind the alerts; here what is away, and the bounds. `letters.rs` has the dead letters, `deliveries.rs` what
//! was not delivered yet.
//!
//! An incident and the message about it are written in one step, so whoever is killed tells it neither twice nor
//! never. The rows decide, not anybody's memory: several processes may work on them.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::text::{self, Message};
use super::{Event, Subject};
use crate::model::{Failure, Timestamp};
use crate::state::{db_failure, open_db, with_write};

pub(super) const DOING: &str = "cannot note an alert";
pub(super) const READING: &str = "cannot read the alerts";

/// The tables.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) db: Connection,
    pub(super) wiki: String,
    pub(super) channels: Vec<&'static str>,
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

    pub(super) fn is(&self, query: &str) -> Result<bool, Failure> {
        let found = self.db.query_row(query, [], |row| row.get(0));
        found.map_err(|e| db_failure(READING, &e))
    }
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
pub(super) fn tell(
    tx: &Transaction<'_>,
    channels: &[&str],
    message: &Message,
) -> rusqlite::Result<()> {
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
