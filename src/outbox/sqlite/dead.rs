//! The dead letters' table.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::entry::Entry;
use crate::model::{Job, PagePath, PathError, StoreName, StoreSet, Timestamp};
use crate::outbox::story::{Step, Story};
use crate::outbox::{DeadLetter, Death, Junk, LONGEST_HEAD, Which, clip, excerpt};

/// Lays a job to rest and returns its letter's id; an earlier dead letter of its page goes.
pub(super) fn lay(
    db: &Connection,
    entry: &Entry,
    death: &Death,
    now: Timestamp,
) -> rusqlite::Result<i64> {
    insert(
        db,
        Some(&entry.path),
        entry.line(death.attempts).as_bytes(),
        death,
        now,
    )
}

/// Keeps a line that is no job and returns its letter's id.
pub(super) fn bury(db: &Connection, junk: &Junk, now: Timestamp) -> rusqlite::Result<i64> {
    insert(db, None, &junk.raw, &nameless(junk.reason.clone()), now)
}

/// Keeps an entry whose path is no page's path.
pub(super) fn bury_entry(
    db: &Connection,
    entry: &Entry,
    error: &PathError,
    now: Timestamp,
    story: &mut Story,
) -> rusqlite::Result<()> {
    let death = nameless(format!("job names no page: {error}"));
    let letter = insert(db, None, entry.line(entry.attempts).as_bytes(), &death, now)?;
    story.note(|| Step::buried_entry(entry, letter, death.reason));
    Ok(())
}

fn nameless(reason: String) -> Death {
    Death {
        stores: StoreSet::NONE,
        reason,
        attempts: 0,
        version: String::new(),
        fingerprint: String::new(),
    }
}

fn insert(
    db: &Connection,
    path: Option<&str>,
    raw: &[u8],
    death: &Death,
    now: Timestamp,
) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO dead_letters
             (path, raw, store, reason, attempts, version, fingerprint, dead_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        path,
        raw,
        death.stores_text(),
        clip(&death.reason),
        death.attempts,
        death.version,
        death.fingerprint,
        now.0
    ])?;
    Ok(db.last_insert_rowid())
}

/// Takes away a page's dead letter: every store holds the page now.
pub(super) fn supersede(db: &Connection, path: &str) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM dead_letters WHERE path = ?1")?
        .execute([path])?;
    Ok(())
}

/// The columns of a letter, of its line only the length and one byte more than is shown.
const COLUMNS: &str = "id, path, length(raw), substr(raw, 1, 1025), store, reason, attempts, version, fingerprint, dead_at";
const _: () = assert!(LONGEST_HEAD == 1024, "COLUMNS says so too");

/// Returns all letters, oldest first. A path or store that this program does not know is left out; the
/// raw line still shows it.
pub(super) fn list(db: &Connection) -> rusqlite::Result<Vec<DeadLetter>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM dead_letters ORDER BY id"))?
        .query_map([], read)?
        .collect()
}

/// Returns the letters of these pages.
pub(super) fn of_pages(db: &Connection, paths: &[PagePath]) -> rusqlite::Result<Vec<DeadLetter>> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM dead_letters WHERE path = ?1"
    ))?;
    let mut letters = Vec::new();
    for path in paths {
        letters.extend(statement.query_row([path.as_str()], read).optional()?);
    }
    Ok(letters)
}

/// Returns a letter's raw line.
pub(super) fn line(db: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    db.prepare_cached("SELECT raw FROM dead_letters WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let path: Option<String> = row.get(1)?;
    Ok(DeadLetter {
        id: row.get(0)?,
        path: path.and_then(|path| PagePath::parse(&path).ok()),
        size: row.get::<_, i64>(2)?.unsigned_abs(),
        head: excerpt(row.get_ref(3)?.as_blob()?),
        death: Death {
            stores: Death::stores_of(row.get::<_, Option<String>>(4)?.as_deref()),
            reason: row.get(5)?,
            attempts: row.get(6)?,
            version: row.get(7)?,
            fingerprint: row.get(8)?,
        },
        dead_at: Timestamp(row.get(9)?),
    })
}

/// Reads a store's name; one that this program does not know is none.
pub(super) fn store(name: Option<String>) -> Option<StoreName> {
    name.and_then(|name| name.parse().ok())
}

/// Puts letters that name a page back as fresh jobs and returns how many.
pub(super) fn retry(
    db: &Connection,
    which: &Which,
    now: Timestamp,
    story: &mut Story,
) -> rusqlite::Result<u64> {
    let mut put_back = 0;
    let mut select = db.prepare_cached(
        "SELECT id, path, raw FROM dead_letters WHERE path IS NOT NULL AND id >= ?1 AND id <= ?2
         ORDER BY id",
    )?;
    for (first, last) in ranges(which) {
        let letters = select
            .query_map([first, last], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<rusqlite::Result<Vec<(i64, String, Vec<u8>)>>>()?;
        for (id, path, raw) in letters {
            let Ok(path) = PagePath::parse(&path) else {
                continue;
            };
            let told = str::from_utf8(&raw)
                .ok()
                .and_then(|line| Job::from_line(line).ok());
            let mut job = told.unwrap_or_else(|| Job::for_page(path.clone(), None));
            job.path = path;
            job.retry = 0;
            let job_id = if let Some(mut waiting) = Entry::waiting(db, job.path.as_str())? {
                waiting.swallow_dead(&job, now);
                waiting.save(db)?;
                waiting.id
            } else {
                Entry::insert(db, &job, now)?
            };
            story.note(|| Step::retried(job_id, job.path.as_str(), id));
            delete(db, &Which::Ids(vec![id]))?;
            put_back += 1;
        }
    }
    Ok(put_back)
}

/// Deletes letters and returns how many.
pub(super) fn delete(db: &Connection, which: &Which) -> rusqlite::Result<u64> {
    let mut statement =
        db.prepare_cached("DELETE FROM dead_letters WHERE id >= ?1 AND id <= ?2")?;
    let mut deleted = 0;
    for (first, last) in ranges(which) {
        deleted += statement.execute([first, last])? as u64;
    }
    Ok(deleted)
}

/// Returns the ids that are meant, as ranges from first to last.
fn ranges(which: &Which) -> Vec<(i64, i64)> {
    match which {
        Which::All => vec![(i64::MIN, i64::MAX)],
        Which::Ids(ids) => ids.iter().map(|&id| (id, id)).collect(),
    }
}
