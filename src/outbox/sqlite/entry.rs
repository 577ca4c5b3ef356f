//! One row of `jobs`: how an entry is read and written.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::model::{Job, Labels, Timestamp};
use crate::outbox::Worker;
use crate::outbox::entry::sha_text;
pub(super) use crate::outbox::entry::{Entry, State};

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "ready" => Ok(Self::Ready),
            "delayed" => Ok(Self::Delayed),
            "held" => Ok(Self::Held),
            "in_flight" => Ok(Self::InFlight),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

impl ToSql for State {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

macro_rules! select_jobs {
    ($rest:literal) => {
        concat!(
            "SELECT id, path, state, sha, repo, commit_sha, attempts, version, recoveries, reason, \
             held_for, enqueued_at, due_at FROM jobs ",
            $rest
        )
    };
}

// The indices are named so that the plan is the same with and without ANALYZE: a statement that could
// not use them would not even prepare.

/// Those that may be claimed: of one state, due after ?2 and not after ?3, in order, at most ?4. Costs as
/// much as it returns, plus the pages in flight that it passes over.
pub(super) const CLAIMABLE: &str = select_jobs!(
    "INDEXED BY jobs_by_due
     WHERE state = ?1 AND due_at > ?2 AND due_at <= ?3
       AND NOT EXISTS (SELECT 1 FROM jobs AS other INDEXED BY jobs_page_in_flight
                       WHERE other.path = jobs.path AND other.state = 'in_flight')
     ORDER BY due_at, id LIMIT ?4"
);
/// The one of a page that is not in flight.
pub(super) const WAITING: &str =
    select_jobs!("INDEXED BY jobs_waiting_page WHERE path = ?1 AND state <> 'in_flight'");
/// The one that is in the hands of whoever holds the token.
pub(super) const CLAIMED: &str =
    select_jobs!("WHERE id = ?1 AND state = 'in_flight' AND token = ?2");
/// Those in flight: all when ?1, else those whose lease ended before ?2 or cannot be true (after ?3).
pub(super) const LOST: &str = select_jobs!(
    "INDEXED BY jobs_by_due
     WHERE state = 'in_flight' AND (?1 OR lease_until < ?2 OR lease_until > ?3) ORDER BY due_at, id"
);

impl Entry {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            path: row.get(1)?,
            state: row.get(2)?,
            sha: row.get(3)?,
            labels: Labels {
                repo: row.get(4)?,
                commit_sha: row.get(5)?,
            },
            attempts: row.get(6)?,
            version: row.get(7)?,
            recoveries: row.get(8)?,
            reason: row.get(9)?,
            held_for: row.get(10)?,
            enqueued_at: row.get(11)?,
            due_at: row.get(12)?,
        })
    }

    /// Returns the page's entry that is not in flight.
    pub(super) fn waiting(db: &Connection, path: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(WAITING)?
            .query_row([path], Self::read)
            .optional()
    }

    /// Returns the entry claimed under this id and token.
    pub(super) fn claimed(db: &Connection, id: i64, token: i64) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(CLAIMED)?
            .query_row([id, token], Self::read)
            .optional()
    }

    /// Adds a fresh entry, ready at `now`, and returns its id.
    pub(super) fn insert(db: &Connection, job: &Job, now: Timestamp) -> rusqlite::Result<i64> {
        db.prepare_cached(
            "INSERT INTO jobs (path, state, sha, repo, commit_sha, attempts, enqueued_at, due_at)
             VALUES (?1, 'ready', ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .execute(params![
            job.path.as_str(),
            sha_text(job),
            job.labels.repo,
            job.labels.commit_sha,
            job.retry,
            now.0
        ])?;
        Ok(db.last_insert_rowid())
    }

    /// Writes an entry that is in no worker's hands.
    pub(super) fn save(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached(
            "UPDATE jobs SET state = ?2, sha = ?3, repo = ?4, commit_sha = ?5, attempts = ?6,
                 version = ?7, recoveries = ?8, reason = ?9, held_for = ?10, enqueued_at = ?11,
                 due_at = ?12, token = NULL, lease_until = NULL, worker = NULL, claimed_at = NULL
             WHERE id = ?1",
        )?
        .execute(params![
            self.id,
            self.state,
            self.sha,
            self.labels.repo,
            self.labels.commit_sha,
            self.attempts,
            self.version,
            self.recoveries,
            self.reason,
            self.held_for,
            self.enqueued_at,
            self.due_at
        ])?;
        Ok(())
    }

    /// Writes that an entry is claimed by this process.
    pub(super) fn lend(
        &self,
        db: &Connection,
        token: i64,
        now: Timestamp,
        until: Timestamp,
    ) -> rusqlite::Result<()> {
        db.prepare_cached(
            "UPDATE jobs SET state = 'in_flight', held_for = NULL, token = ?2, lease_until = ?3,
                 worker = ?4, claimed_at = ?5
             WHERE id = ?1",
        )?
        .execute(params![
            self.id,
            token,
            until.0,
            Worker::this().to_string(),
            now.0
        ])?;
        Ok(())
    }

    /// Takes an entry out of the table.
    pub(super) fn delete(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached("DELETE FROM jobs WHERE id = ?1")?
            .execute([self.id])?;
        Ok(())
    }
}
