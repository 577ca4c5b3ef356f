//! Looking at a database without changing a byte of it, nor of the files beside it.
//!
//! SQLite writes even where it only reads: a database in WAL mode gets its `-wal` and `-shm` files when it is opened. So one
//! without a log is opened as a file that nobody changes, and one with a log through its memory as it is, read only.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, OptionalExtension as _};

use super::db::{Found, Kind, OUTBOX, WIKI, failure};
use crate::model::{Failure, FailureKind};

/// A database of ours that is looked at.
pub struct Look {
    db: Connection,
    path: PathBuf,
    kind: &'static Kind,
    /// It had no log when it was opened.
    is_still: bool,
}

/// How the schema of a database stands to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The one that this program writes.
    Ours(u32),
    /// An older one: the next use takes it up to ours.
    Older(u32),
}

/// What a check of a database's pages came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// Nothing is wrong.
    Sound,
    /// Nothing was found so far, and the time is up.
    Unfinished,
}

/// Looks at a database of ours (by its file's name, `wiki.db` or `outbox.db`); `None` where there is none.
///
/// # Errors
/// `Busy` when it cannot be read at this moment, `Refused` when it is not ours, newer or damaged, `Down` otherwise.
pub fn look(path: &Path) -> Result<Option<Look>, Failure> {
    let kind = if path.ends_with(OUTBOX.name) {
        &OUTBOX
    } else {
        &WIKI
    };
    if fs::metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    super::disk::refuse_remote(path)?;
    let is_still = log_size(path).is_none();
    let how = if is_still {
        "immutable=1"
    } else {
        "readonly_shm=1"
    };
    let mut address = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'?' | b'#' | b'%' | 0x80.. => {
                write!(address, "%{byte:02x}").expect("writing to a string cannot fail");
            }
            plain => address.push(plain.into()),
        }
    }
    address.push('?');
    address.push_str(how);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let wrong = |e: &Error| wrong(path, kind, e);
    let mut db = Connection::open_with_flags(address, flags).map_err(|e| wrong(&e))?;
    db.busy_timeout(Duration::from_secs(1))
        .map_err(|e| wrong(&e))?;
    let found = Found::read(&mut db).map_err(|e| wrong(&e))?;
    found.check(path, kind)?;
    Ok(Some(Look {
        db,
        path: path.into(),
        kind,
        is_still,
    }))
}

fn wrong(path: &Path, kind: &'static Kind, error: &Error) -> Failure {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => kind.refused(path, "is no database"),
        Some(ErrorCode::DatabaseCorrupt) => kind.refused(path, "is damaged"),
        // The log is there and the memory that goes with it is not, or somebody is just making it anew.
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) if log_size(path).is_some() => {
            Failure::new(
                FailureKind::Busy,
                format!(
                    "{} cannot be read at this moment without changing it",
                    path.display()
                ),
            )
            .hint("look again when no other wiki-sync is at work; `wiki-sync drain` brings its log into it")
        }
        Some(_) | None => failure(&format!("cannot read {}", path.display()), error, kind),
    }
}

/// Returns how many bytes the log beside a database has; `None` where there is none.
#[must_use]
pub(super) fn log_size(path: &Path) -> Option<u64> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).ok().map(|meta| meta.len())
}

impl Look {
    /// Returns how its schema stands to this program.
    ///
    /// # Errors
    /// As [`look`].
    pub fn version(&self) -> Result<Version, Failure> {
        let version = self
            .db
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(|e| wrong(&self.path, self.kind, &e))?;
        Ok(if version < self.kind.latest() {
            Version::Older(version)
        } else {
            Version::Ours(version)
        })
    }

    /// Returns how many bytes the log beside it has.
    #[must_use]
    pub fn log_size(&self) -> u64 {
        log_size(&self.path).unwrap_or_default()
    }

    /// Looks through the pages of the database for damage, for so long at most.
    ///
    /// # Errors
    /// `Refused` when it is damaged, saying where; as [`look`].
    pub fn check(&self, within: Duration) -> Result<Checked, Failure> {
        let interrupt = self.db.get_interrupt_handle();
        let (done, wait) = channel::<()>();
        let timer = std::thread::spawn(move || {
            if wait.recv_timeout(within) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let said = self
            .db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        drop(done);
        let _ = timer.join();
        // Somebody began to write to what was opened as a file that nobody changes.
        let is_torn = self.is_still && log_size(&self.path).is_some();
        match said {
            Ok(said) if said == "ok" => Ok(Checked::Sound),
            Ok(_) | Err(_) if is_torn => Ok(Checked::Unfinished),
            Ok(said) => {
                let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
                Err(self
                    .kind
                    .refused(&self.path, &format!("is damaged: {said}")))
            }
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Ok(Checked::Unfinished)
            }
            Err(e) => Err(wrong(&self.path, self.kind, &e)),
        }
    }

    /// Returns a lasting value of `wiki.db`.
    ///
    /// # Errors
    /// As [`look`].
    pub fn meta(&self, key: &str) -> Result<Option<String>, Failure> {
        self.ask("SELECT value FROM meta WHERE key = ?1", key)
    }

    /// Returns how many numbers the vectors have that were made in this way, as far as any are kept.
    ///
    /// # Errors
    /// As [`look`].
    pub fn dimension(&self, fingerprint: &str) -> Result<Option<u32>, Failure> {
        let sql = "SELECT dimension FROM embedding_models WHERE fingerprint = ?1";
        self.ask(sql, fingerprint)
    }

    /// Returns when a page's file was last looked at, in milliseconds since the epoch.
    ///
    /// # Errors
    /// As [`look`].
    pub fn last_seen(&self) -> Result<Option<i64>, Failure> {
        let sql = "SELECT MAX(seen_at) / 1000000 FROM files WHERE ?1 = ''";
        self.ask::<Option<i64>>(sql, "").map(Option::flatten)
    }

    /// Returns how many dead letters rest in `outbox.db`.
    ///
    /// # Errors
    /// As [`look`].
    pub fn dead_letters(&self) -> Result<u64, Failure> {
        let sql = "SELECT COUNT(*) FROM dead_letters WHERE ?1 = ''";
        let number: Option<i64> = self.ask(sql, "")?;
        Ok(number.unwrap_or_default().unsigned_abs())
    }

    fn ask<T: rusqlite::types::FromSql>(&self, sql: &str, of: &str) -> Result<Option<T>, Failure> {
        self.db
            .query_row(sql, [of], |row| row.get(0))
            .optional()
            .map_err(|e| wrong(&self.path, self.kind, &e))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::config::DbConfig;

    use super::*;
    use crate::state::{Receipts, StateDir};

    /// All files of a folder with their bytes.
    fn bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all: Vec<_> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| (path.clone(), fs::read(path).expect("a file")))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_database_is_read_without_a_byte_being_changed_with_a_log_and_without() {
        let root = tempfile::Builder::new()
            .prefix("wiki 100% #1? 한글")
            .tempdir()
            .expect("a folder");
        let state = StateDir::of(root.path());
        state.create().expect("created");
        let path = state.database();
        assert!(look(&path).expect("no error").is_none(), "none yet");
        let mut receipts = Receipts::open(&path).expect("opened");
        receipts.set_meta("key", "value").expect("set");
        let saw = || {
            let before = bytes(state.path());
            let found = look(&path).expect("readable").expect("there");
            assert_eq!(found.meta("key").expect("read").as_deref(), Some("value"));
            assert_eq!(found.meta("none").expect("read"), None);
            let version = found.version().expect("read");
            assert_eq!(version, Version::Ours(WIKI.latest()));
            assert_eq!(found.last_seen().expect("read"), None);
            let checked = found.check(Duration::from_secs(20));
            assert_eq!(checked, Ok(Checked::Sound));
            drop(found);
            assert!(before == bytes(state.path()), "not a byte is changed");
        };
        // As whoever enqueues leaves it, and a killed process. Not while this process has it open: then both share memory.
        let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        receipts.db.set_db_config(keep, true).expect("set");
        drop(receipts);
        assert!(log_size(&path).is_some_and(|bytes| bytes > 0), "a log");
        saw();
        drop(Receipts::open(&path).expect("opened"));
        assert!(log_size(&path).is_none(), "none any more");
        saw();
    }

    #[test]
    fn what_is_damaged_or_none_of_ours_is_told_with_the_way_out() {
        let root = tempfile::tempdir().expect("a folder");
        let state = StateDir::of(root.path());
        state.create().expect("created");
        let path = state.database();
        fs::write(&path, "x".repeat(5000)).expect("written");
        let failure = look(&path).err().expect("no database");
        assert!(failure.reason.contains("is no database"), "{failure}");
        fs::remove_file(&path).expect("removed");
        drop(Receipts::open(&path).expect("opened"));
        let mut bytes = fs::read(&path).expect("read");
        // The first page holds the header and the schema's root.
        for byte in &mut bytes[4096..] {
            *byte = 0x55;
        }
        fs::write(&path, bytes).expect("written");
        let failure = look(&path)
            .and_then(|found| {
                found
                    .expect("there")
                    .check(Duration::from_secs(20))
                    .map(drop)
            })
            .expect_err("damaged");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.reason.contains("is damaged"), "{failure}");
        assert!(failure.hint.expect("a hint").contains("away"));
    }
}
