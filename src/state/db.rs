//! Opening `wiki.db` and `outbox.db`: pragmas on every connection, forward migrations, errors by kind.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::model::{Failure, FailureKind};

/// What a file of ours is.
pub(super) struct Kind {
    /// The file's name.
    pub(super) name: &'static str,
    /// The file's `application_id`.
    id: i32,
    /// Each takes the schema one version up; `user_version` counts those applied.
    migrations: &'static [&'static str],
    /// What becomes of it when it is moved away.
    without: &'static str,
}

/// `wiki.db`: "wsyn" in ASCII.
pub(super) const WIKI: Kind = Kind {
    name: "wiki.db",
    id: 0x7773_796e,
    migrations: &[
        concat!(
            include_str!("schema/001_state.sql"),
            include_str!("schema/001_graph.sql"),
            include_str!("schema/001_alerts.sql"),
            include_str!("schema/001_embeddings.sql"),
        ),
        include_str!("schema/002_views.sql"),
    ],
    without: "the next drain rebuilds it from the files",
};

/// `outbox.db`: "wsyo". A file of its own, so that whoever enqueues waits for no graph that is being written.
pub(super) const OUTBOX: Kind = Kind {
    name: "outbox.db",
    id: 0x7773_796f,
    migrations: &[include_str!("schema/001_outbox.sql")],
    without: "the next drain finds every page that waits; dead letters in it are gone",
};

impl Kind {
    /// The version that all migrations together make.
    #[allow(clippy::cast_possible_truncation)] // A handful.
    pub(super) fn latest(&self) -> u32 {
        self.migrations.len() as u32
    }

    /// Makes the refusal of a file, with the way out.
    pub(super) fn refused(&self, path: &Path, why: &str) -> Failure {
        Failure::new(FailureKind::Refused, format!("{} {why}", path.display())).hint(format!(
            "move {}* away: {}",
            path.display(),
            self.without
        ))
    }
}

/// How long a statement waits for another process's write lock. Longer than any transaction of ours.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// Sleeps between two looks at another's lock and says whether to look again; `looks` were in vain.
///
/// SQLite's own way sleeps longer each time, up to 100 ms, and so misses the moments between two transactions of a
/// busy neighbour.
pub(super) fn wait_for_turn(looks: i32) -> bool {
    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_millis(10);
    /// As many short sleeps as make a second; then as many long ones as make the rest of [`BUSY_TIMEOUT`].
    const SHORT_ONES: i32 = 1_000;
    const LONG_ONES: i32 = 1_400;
    std::thread::sleep(if looks < SHORT_ONES { SHORT } else { LONG });
    looks < SHORT_ONES + LONG_ONES
}

/// Opens `wiki.db`, creating and migrating it as needed.
///
/// WAL with `synchronous = FULL`: what was committed holds after a power cut.
///
/// # Errors
/// `Busy` when it is locked for longer than 15 s, `Refused` when it is not ours, newer than this program
/// or damaged, `Down` otherwise (disk full, no permission).
pub fn open_db(path: &Path) -> Result<Connection, Failure> {
    open(path, &WIKI)
}

/// Opens `wiki.db` to be read: makes none, and takes up none of an older program.
///
/// # Errors
/// `Waiting` when there is none, or an older one: a drain makes it. Else as [`open_db`].
pub fn open_db_to_read(path: &Path) -> Result<Connection, Failure> {
    const DRAIN: &str = "run `wiki-sync drain`";
    let waiting = |why: &str| Failure::new(FailureKind::Waiting, why).hint(DRAIN);
    if !path.exists() {
        return Err(waiting("nothing is indexed here yet"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let (db, found) = opened(path, &WIKI, flags)?;
    if found.version < WIKI.latest() {
        return Err(waiting("what is indexed here is of an older wiki-sync"));
    }
    db.pragma_update(None, "query_only", true)
        .map_err(|e| db_failure("cannot open wiki.db", &e))?;
    Ok(db)
}

/// Opens `outbox.db`, as [`open_db`] does.
///
/// # Errors
/// As [`open_db`].
pub(super) fn open_as_outbox(path: &Path) -> Result<Connection, Failure> {
    open(path, &OUTBOX)
}

fn open(path: &Path, kind: &Kind) -> Result<Connection, Failure> {
    let (mut db, found) = opened(path, kind, OpenFlags::default())?;
    if found.version < kind.latest() {
        let failed = |e| db_failure(&format!("cannot open {}", path.display()), &e);
        switch_to_wal(&db).map_err(failed)?;
        migrate(&mut db, kind).map_err(failed)?;
    }
    Ok(db)
}

/// Opens a database as every connection of ours is, once it is known to be ours.
fn opened(path: &Path, kind: &Kind, flags: OpenFlags) -> Result<(Connection, Found), Failure> {
    let doing = format!("cannot open {}", path.display());
    let failed = |e: Error| match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => kind.refused(path, "is no database"),
        Some(ErrorCode::DatabaseCorrupt) => kind.refused(path, "is damaged"),
        Some(_) | None => db_failure(&doing, &e),
    };
    super::disk::refuse_remote(path)?;
    let mut db = Connection::open_with_flags(path, flags).map_err(failed)?;
    db.busy_handler(Some(wait_for_turn)).map_err(failed)?;
    // Else SQLite plans a statement anew at most bindings of its parameters, which costs more than running it.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(failed)?;
    let found = Found::read(&mut db).map_err(failed)?;
    found.check(path, kind)?;
    db.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )
    .map_err(failed)?;
    Ok((db, found))
}

/// What a file says of itself.
pub(super) struct Found {
    application: i32,
    version: u32,
    /// Whether there is anything in it.
    is_empty: bool,
}

impl Found {
    /// Reads it in one snapshot: a neighbour may be making the file at this moment.
    pub(super) fn read(db: &mut Connection) -> rusqlite::Result<Self> {
        let tx = db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let is_empty = !tx.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| {
            row.get::<_, bool>(0)
        })?;
        Ok(Self {
            is_empty,
            application: tx.pragma_query_value(None, "application_id", |row| row.get(0))?,
            version: tx.pragma_query_value(None, "user_version", |row| row.get(0))?,
        })
    }

    /// Checks that the file is ours and none of a newer program.
    ///
    /// # Errors
    /// `Refused`, with the way out.
    pub(super) fn check(&self, path: &Path, kind: &Kind) -> Result<(), Failure> {
        if self.is_foreign(kind) {
            return Err(kind.refused(path, "was not made by wiki-sync as what it is here"));
        }
        if self.version > kind.latest() {
            let newer = format!(
                "was written by a newer wiki-sync (schema {}; this one knows {})",
                self.version,
                kind.latest()
            );
            let refused = kind.refused(path, &newer);
            let hint = format!(
                "upgrade wiki-sync, or {}",
                refused.hint.as_deref().unwrap_or_default()
            );
            return Err(refused.hint(hint));
        }
        Ok(())
    }

    /// Whether it holds something that no migration of ours made.
    fn is_foreign(&self, kind: &Kind) -> bool {
        let is_new = self.is_empty && self.version == 0 && self.application == 0;
        !is_new && self.application != kind.id
    }
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

fn migrate(db: &mut Connection, kind: &Kind) -> rusqlite::Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated while this one waited for the lock.
    let version: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (done, sql) in (1_u32..).zip(kind.migrations) {
        if done > version {
            tx.execute_batch(sql)?;
            tx.pragma_update(None, "user_version", done)?;
        }
    }
    tx.pragma_update(None, "application_id", kind.id)?;
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
    let done = run();
    done.map_err(|e| match db.path() {
        Some(path) if path.ends_with(OUTBOX.name) => outbox_failure(doing, &e),
        Some(_) | None => db_failure(doing, &e),
    })
}

/// As [`with_write`], for what may as well be lost or left: it waits neither for the disk nor for a neighbour who writes.
///
/// # Errors
/// As [`db_failure`] sorts them; `Busy` at once.
pub(super) fn with_light_write<T>(
    db: &mut Connection,
    doing: &str,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, Failure> {
    let set = |db: &mut Connection, level, handler| {
        db.busy_handler(handler)?;
        db.pragma_update(None, "synchronous", level)
    };
    set(db, "NORMAL", None).map_err(|e| db_failure(doing, &e))?;
    let done = with_write(db, doing, work);
    set(db, "FULL", Some(wait_for_turn)).map_err(|e| db_failure(doing, &e))?;
    done
}

/// Sorts an SQLite error of `wiki.db` into its kind. None of them judges a page.
#[must_use]
pub fn db_failure(doing: &str, error: &Error) -> Failure {
    failure(doing, error, &WIKI)
}

/// As [`db_failure`], of `outbox.db`.
#[must_use]
pub fn outbox_failure(doing: &str, error: &Error) -> Failure {
    failure(doing, error, &OUTBOX)
}

pub(super) fn failure(doing: &str, error: &Error, of: &Kind) -> Failure {
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
        Some(_) | None => FailureKind::Refused,
    };
    let failure = match error {
        // Its text holds the statement, which tells a person nothing.
        Error::SqlInputError { msg, .. } => Failure::new(kind, format!("{doing}: {msg}")),
        other => Failure::from_error(kind, doing, other),
    };
    if kind == FailureKind::Refused {
        let (name, without) = (of.name, of.without);
        return failure.hint(format!("move .wiki-sync/{name}* away: {without}"));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => failure.hint("free some space"),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => failure.hint(
            "look whether .wiki-sync can be written: its permissions, or a file system that is mounted read-only",
        ),
        Some(ErrorCode::SystemIoFailure) => {
            failure.hint("look for free space there, and at the disk")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let name = of.name;
            failure.hint(format!(
                "try again; if it stays so, `fuser .wiki-sync/{name}` names the program that keeps it locked"
            ))
        }
        Some(_) | None => failure,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    /// Rows as the first version of the schema held them.
    const FIRST: &str = "
        INSERT INTO graph_pages VALUES
            ('w/a.md', 'w/a.md', 'A', 'sha', 's', '{\"k\":1}', 'd'), ('w/b.md', 'w/b.md', 'B', 'sha', NULL, '{}', 'd');
        INSERT INTO graph_names VALUES ('w/a.md', 'alias', 'First', 'first', '', 0, 6);
        INSERT INTO graph_tags VALUES ('w/a.md', 0, 't'), ('w/a.md', 1, 't');
        INSERT INTO graph_links VALUES
            ('w/a.md', 0, 'wikilink', 'b', 'h', 'l', 3, 'b', 'page', 'w/b.md', 'exact', 1),
            ('w/a.md', 1, 'embed', 'New', NULL, NULL, 4, 'new', 'placeholder', NULL, NULL, 0);
        INSERT INTO receipts VALUES ('w/a.md', 'graph', 'sha', 'f', NULL);";

    /// What each view for others gives of them.
    const VIEWS: &[(&str, &str)] = &[
        (
            "pages_v1",
            r#"["w/a.md","A","sha","s","{\"k\":1}"] ["w/b.md","B","sha",null,"{}"]"#,
        ),
        ("tags_v1", r#"["w/a.md","t"]"#),
        ("aliases_v1", r#"["w/a.md","First"]"#),
        (
            "links_v1",
            r#"["w/a.md",3,"wikilink","b","h","l","page","w/b.md","exact",1] ["w/a.md",4,"embed","New",null,null,"placeholder",null,null,0]"#,
        ),
        (
            "backlinks_v1",
            r#"["w/b.md","w/a.md",3,"wikilink","b","h","l"]"#,
        ),
        (
            "broken_links_v1",
            r#"["w/a.md",4,"embed","New",null,null,"new"]"#,
        ),
        ("orphans_v1", r#"["w/a.md","A"]"#),
    ];

    fn rows(db: &Connection, view: &str) -> String {
        let mut select = db
            .prepare(&format!("SELECT * FROM {view} ORDER BY 1, 2"))
            .expect(view);
        let columns = select.column_count();
        let mut found = Vec::new();
        let mut rows = select.query([]).expect(view);
        while let Some(row) = rows.next().expect(view) {
            let cell = |at| match row.get_ref(at).expect(view) {
                rusqlite::types::ValueRef::Null => serde_json::Value::Null,
                rusqlite::types::ValueRef::Integer(number) => number.into(),
                other => other.as_str().expect("text").into(),
            };
            let cells: Vec<_> = (0..columns).map(cell).collect();
            found.push(serde_json::Value::from(cells).to_string());
        }
        found.join(" ")
    }

    #[test]
    fn a_database_of_any_earlier_version_is_brought_forward_with_its_rows_and_the_views_for_others()
    {
        for version in 1..=WIKI.latest() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(WIKI.name);
            let mut db = Connection::open(&path).expect("a file");
            let first = Kind {
                migrations: &WIKI.migrations[..1],
                ..WIKI
            };
            migrate(&mut db, &first).expect("made");
            db.execute_batch(FIRST).expect("filled");
            let as_of = Kind {
                migrations: &WIKI.migrations[..version as usize],
                ..WIKI
            };
            migrate(&mut db, &as_of).expect("brought to that version");
            drop(db);
            let db = open_db(&path).expect("brought forward");
            let now: u32 = db
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .expect("a number");
            assert_eq!(now, WIKI.latest());
            for (view, expected) in VIEWS {
                assert_eq!(rows(&db, view), *expected, "{view}, from version {version}");
            }
            assert_eq!(
                rows(&db, "receipts"),
                r#"["w/a.md","graph","sha","f",null]"#
            );
        }
    }

    #[test]
    fn what_is_damaged_in_use_is_named_by_its_file_and_a_full_disk_says_so() {
        let error = |code| Error::SqliteFailure(ffi::Error::new(code), None);
        let damaged = error(ffi::SQLITE_CORRUPT);
        for (failure, file) in [
            (db_failure("x", &damaged), "move .wiki-sync/wiki.db* away"),
            (
                outbox_failure("x", &damaged),
                "move .wiki-sync/outbox.db* away",
            ),
        ] {
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(failure.hint.expect("a hint").starts_with(file));
        }
        let full = db_failure("x", &error(ffi::SQLITE_FULL));
        assert_eq!(full.kind, FailureKind::Down);
        assert_eq!(full.hint.as_deref(), Some("free some space"));
    }
}
