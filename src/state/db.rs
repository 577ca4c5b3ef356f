//! Opening `wiki.db`: pragmas on every connection, forward migrations, errors by kind.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::model::{Failure, FailureKind};

/// `application_id` of our databases: "wsyn" in ASCII.
const APPLICATION_ID: i32 = 0x7773_796e;

/// Each migration takes the schema one version up; `user_version` counts those applied.
const MIGRATIONS: &[&str] = &[concat!(
    include_str!("schema/001_state.sql"),
    include_str!("schema/001_outbox.sql"),
    include_str!("schema/001_graph.sql"),
    include_str!("schema/001_alerts.sql"),
    include_str!("schema/001_embeddings.sql"),
)];

/// The version that all of them together make.
#[allow(clippy::cast_possible_truncation)] // A handful.
const LATEST: u32 = MIGRATIONS.len() as u32;

/// How long a statement waits for another process's write lock. Longer than any transaction of ours.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens `wiki.db`, creating and migrating it as needed.
///
/// WAL with `synchronous = FULL`: what was committed holds after a power cut.
///
/// # Errors
/// `Busy` when it is locked for longer than 15 s, `Refused` when it is not ours, newer than this program
/// or damaged, `Down` otherwise (disk full, no permission).
pub fn open_db(path: &Path) -> Result<Connection, Failure> {
    let doing = format!("cannot open {}", path.display());
    let failed = |e: rusqlite::Error| db_failure(&doing, &e);
    let mut db = Connection::open(path).map_err(failed)?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Else SQLite plans a statement anew at most bindings of its parameters, which costs more than running it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failed)?;
    let version: u32 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed)?;
    if version > LATEST {
        return Err(Failure::new(
            FailureKind::Refused,
            format!(
                "{} was written by a newer wiki-sync (schema {version}; this one knows {LATEST})",
                path.display()
            ),
        )
        .hint("upgrade wiki-sync, or move .wiki-sync away: the next drain rebuilds it"));
    }
    db.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(failed)?;
    if version < LATEST {
        switch_to_wal(&db).map_err(failed)?;
        migrate(&mut db).map_err(failed)?;
    }
    Ok(db)
}

/// Switches to WAL. Two that do so at once are told that it is busy, whatever the timeout says: so it is asked again.
fn switch_to_wal(db: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        match db.pragma_update(None, "journal_mode", "WAL") {
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

fn migrate(db: &mut Connection) -> rusqlite::Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated while this one waited for the lock.
    let version: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (done, sql) in (1_u32..).zip(MIGRATIONS) {
        if done > version {
            tx.execute_batch(sql)?;
            tx.pragma_update(None, "user_version", done)?;
        }
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

/// Runs `work` in one writing transaction (`BEGIN IMMEDIATE`, so that it waits its turn instead of
/// failing half way) and commits it.
///
/// # Errors
/// As [`db_failure`] sorts them.
pub fn with_write<T>(
    db: &mut Connection,
    doing: &str,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, Failure> {
    let run = || {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&tx)?;
        tx.commit()?;
        Ok(value)
    };
    run().map_err(|e| db_failure(doing, &e))
}

/// Sorts an SQLite error into its kind. None of them judges a page.
#[must_use]
pub fn db_failure(doing: &str, error: &rusqlite::Error) -> Failure {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FailureKind::Busy,
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationInterrupted
            | ErrorCode::NoLargeFileSupport,
        ) => FailureKind::Down,
        // Damaged, another program's, or not as we made it: a missing table, a value of the wrong type.
        Some(_) | None => {
            return Failure::from_error(FailureKind::Refused, doing, error)
                .hint("move .wiki-sync away: the next drain rebuilds it from the files");
        }
    };
    Failure::from_error(kind, doing, error)
}
