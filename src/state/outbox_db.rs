//! `outbox.db`, whose commits are brought to the disk only after its lock is let go.
//!
//! Whoever enqueues must not wait while a neighbour waits for the disk. With `synchronous = FULL` SQLite brings the log to
//! the disk within the transaction, so that all others wait for a disk which a first sync keeps busy. So the level here is
//! `NORMAL`, which commits without waiting, and [`OutboxDb::write`] brings the log to the disk itself once SQLite has let
//! go of the lock, and before it returns. That what it returned holds after a power cut rests on how SQLite keeps its log
//! (<https://sqlite.org/walformat.html>, <https://sqlite.org/wal.html>):
//!
//! - A commit is its frames at the end of the log, and recovery takes every frame up to the last commit whose salts and
//!   running checksum fit. Once the file is on the disk, so is our commit with all before it that its checksum rests on.
//! - The log may have been begun anew in between. It is begun anew only when a checkpoint brought all of it into the
//!   database, and under `NORMAL` a checkpoint brings first the log and then the database to the disk. The new
//!   header, with other salts, is brought there before any frame that follows it, so that old frames never pass for new ones.
//! - The log's name must be in its folder on the disk too. The log is deleted only by the last connection that closes, so while
//!   ours is open it stays the same file; and nobody writes to one that he found empty before he has brought
//!   the folder to the disk, so in a log that is not empty somebody has.
//! - SQLite's locks lie on `outbox.db` and `outbox.db-shm`. Opening and closing the log takes none of them away, as it would there.
//! - An error that the disk had since our file was opened is told to us, also when SQLite's own was told before.
//!
//! Only the data is asked for, not the file's times: a log that is written over, as it is most of the time, needs nothing
//! from the file system's own journal, which would wait for what everybody else writes.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction};

use super::db::{open_as_outbox, outbox_failure, wait_for_turn, with_write};
use crate::model::{Failure, FailureKind};

/// Pages in the log, 2 MB, at which whoever drains brings it into the database and begins it anew.
const CHECKPOINT: u32 = 500;

/// The log's length in bytes from which on anybody does so: far more than beside a drain, where nobody who enqueues has to.
///
/// SQLite's own way would not do. Whoever comes alone to a log recovers it, and does not know then that it is in the
/// database already: so he would go on at its end, and bring all of it in again, each time.
const LONGEST_LOG: u64 = 4 << 20;

/// `outbox.db`, open: a connection of one's own.
#[derive(Debug)]
pub struct OutboxDb {
    db: Connection,
    /// The log, to be brought to the disk; `None` when SQLite does so itself.
    log: Option<File>,
    /// Whether this connection brings the log into the database.
    tidies: bool,
}

/// Opens `outbox.db`, as [`super::open_db`] does. Closed as the last connection it leaves its log (some MB) to the next, which
/// brings it into the database: that waits for the disk several times, and an `enqueue` need not. A drain [tidies](OutboxDb::tidy).
///
/// # Errors
/// As [`super::open_db`].
pub fn open_outbox_db(path: &Path) -> Result<OutboxDb, Failure> {
    let db = open_as_outbox(path)?;
    let failed = |e: rusqlite::Error| outbox_failure("cannot set up the outbox", &e);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(failed)?;
    let log = open_log(path).map_err(|e| {
        let doing = format!("cannot use the log of {}", path.display());
        Failure::from_error(FailureKind::Down, &doing, &e)
    })?;
    if log.is_some() {
        let set = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;";
        db.execute_batch(set).map_err(failed)?;
    }
    Ok(OutboxDb {
        db,
        log,
        tidies: false,
    })
}

/// Opens the log of a database that has been read; `None` where it keeps none (another journal mode, which somebody set).
fn open_log(path: &Path) -> io::Result<Option<File>> {
    let mut log = OsString::from(path);
    log.push("-wal");
    let log = match File::open(&log) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if log.metadata()?.len() == 0
        && let Some(folder) = path.parent()
    {
        File::open(folder)?.sync_all()?;
    }
    Ok(Some(log))
}

impl OutboxDb {
    /// Returns the connection, to be read from.
    #[must_use]
    pub fn reader(&self) -> &Connection {
        &self.db
    }

    /// Runs `work` in one writing transaction. When it returns, what was written holds after a power cut.
    ///
    /// # Errors
    /// As [`with_write`]; `Down` when the disk fails after the commit. Then it is written, and may hold.
    pub fn write<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let before = self.db.total_changes();
        let value = self.write_ahead(doing, work)?;
        if self.db.total_changes() != before {
            self.sync(doing)?;
            self.shorten();
        }
        Ok(value)
    }

    /// As [`Self::write`], without waiting for the disk: what was written holds after a power cut with the next [`Self::sync`].
    ///
    /// # Errors
    /// As [`with_write`].
    pub fn write_ahead<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        with_write(&mut self.db, doing, work)
    }

    /// Waits until all that was written by this connection is on the disk. Holds no lock meanwhile.
    ///
    /// # Errors
    /// `Down` when the disk fails.
    pub fn sync(&self, doing: &str) -> Result<(), Failure> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        fail::fail_point!("outbox.before_sync");
        log.sync_data()
            .map_err(|e| Failure::from_error(FailureKind::Down, doing, &e))
    }

    /// Empties a log that has become long, where nobody is in the way: then the next one does it. It is as durable before.
    fn shorten(&mut self) {
        let length = self.log.as_ref().and_then(|log| log.metadata().ok());
        if self.tidies || length.is_none_or(|log| log.len() <= LONGEST_LOG) {
            return;
        }
        if self.db.busy_handler(None::<fn(i32) -> bool>).is_ok() {
            let _ = (self.db).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        let _ = self.db.busy_handler(Some(wait_for_turn));
    }

    /// From now on this connection brings the log into the database: between its transactions, and when it closes as the last one.
    ///
    /// # Errors
    /// As [`outbox_failure`] sorts them.
    pub fn tidy(&mut self, doing: &str) -> Result<(), Failure> {
        if self.tidies {
            return Ok(());
        }
        let set = || {
            self.db
                .pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
            self.db
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        };
        set().map_err(|e| outbox_failure(doing, &e))?;
        self.tidies = true;
        Ok(())
    }

    /// No longer waits for the disk at all, for tests that show something else.
    #[cfg(test)]
    pub(crate) fn careless(mut self) -> Self {
        self.log = None;
        self.db
            .pragma_update(None, "synchronous", "OFF")
            .expect("sets");
        self
    }
}
