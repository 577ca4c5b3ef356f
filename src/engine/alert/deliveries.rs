//! What is to be delivered, and what became of it.

use rusqlite::{OptionalExtension as _, Row, params};

use super::book::{Book, DOING, READING};
use super::settings::DeliveryPolicy;
use super::text::Message;
use crate::model::{Failure, Timestamp};
use crate::state::{db_failure, with_write};

const DAY_MS: i64 = 24 * 60 * 60_000;

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
    /// Drops what is too old to be delivered or belongs to a channel that is no more, and returns what was dropped
    /// undelivered: title, channel, last error. Forgets old messages.
    pub(super) fn tidy(
        &mut self,
        policy: &DeliveryPolicy,
        now: Timestamp,
    ) -> Result<Vec<(String, String, Option<String>)>, Failure> {
        let give_up = i64::try_from(policy.give_up.as_millis()).unwrap_or(DAY_MS);
        let any: bool = self
            .db
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM deliveries) OR EXISTS
                 (SELECT 1 FROM alerts WHERE at < ?1 AND id < (SELECT MAX(id) FROM alerts))",
                [now.0.saturating_sub(DAY_MS)],
                |row| row.get(0),
            )
            .map_err(|e| db_failure(READING, &e))?;
        if !any {
            return Ok(Vec::new());
        }
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

    /// Returns the last message, and whether every channel has it.
    pub(super) fn last(&self) -> Result<Option<(Message, bool)>, Failure> {
        self.db
            .prepare_cached(
                "SELECT kind, store, title, text, count, at,
                        NOT EXISTS (SELECT 1 FROM deliveries WHERE alert = alerts.id)
                 FROM alerts ORDER BY id DESC LIMIT 1",
            )
            .and_then(|mut last| {
                let read = |row: &Row<'_>| Ok((message(row, 0)?, row.get(6)?));
                last.query_row([], read).optional()
            })
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
