//! Receipts: what was applied to which store, written ahead.
//!
//! The protocol that keeps a receipt from lying: [`Receipts::begin`] durably voids the batch's receipts for a
//! store and notes the epoch that the batch will leave in it; then the store is touched; then
//! [`Receipts::write`] notes what holds. Killed in between, the page has no receipt and is applied again.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::db::{db_failure, open_db, open_db_to_read, with_write};
use crate::model::{ContentSha, Failure, Identity, PagePath, StoreName};
use crate::wiki::FileStat;

/// What was seen of a file when it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSeen {
    /// Its stat then.
    pub stat: FileStat,
    /// The clock before it was read, nanoseconds since the epoch.
    pub seen_at: i64,
    /// The SHA of its bytes.
    pub sha: ContentSha,
}

/// How much older than our look at it a file's times must be to prove that it was not changed in the same
/// tick of the clock afterwards ("racily clean"). Kernels stamp files by a clock that ticks each 1 to 10 ms.
const RACY_NS: i64 = 20_000_000;
/// The same on file systems that keep whole seconds (FAT: two).
const RACY_COARSE_NS: i64 = 2_000_000_000;

impl FileSeen {
    /// Says whether a file with this stat surely has the content seen, without reading it.
    #[must_use]
    pub fn proves(&self, stat: &FileStat) -> bool {
        let newest = self.stat.mtime.max(self.stat.ctime);
        let coarse = self.stat.mtime % 1_000_000_000 == 0 && self.stat.ctime % 1_000_000_000 == 0;
        let margin = if coarse { RACY_COARSE_NS } else { RACY_NS };
        *stat == self.stat && newest < self.seen_at.saturating_sub(margin)
    }
}

/// What was applied to a store of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The content applied; `None` when voided: the store may hold anything of the page.
    pub sha: Option<ContentSha>,
    /// The store's fingerprint then.
    pub fingerprint: String,
    /// What the store itself says it holds, where it has a witness.
    pub mark: Option<String>,
}

/// A receipt to be written.
#[derive(Debug, Clone)]
pub enum Entry {
    /// The store holds this content of the page.
    Holds {
        /// The page.
        path: PagePath,
        /// Its content.
        sha: ContentSha,
        /// The store's own mark.
        mark: Option<String>,
    },
    /// The store holds nothing of the page.
    Gone(PagePath),
}

const COMPARING: &str = "cannot compare a store with its receipts";

/// Which store receipts speak of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epochs {
    id: String,
    epoch: i64,
    /// That of a batch which was begun and may not have ended.
    pending: i64,
}

impl Epochs {
    /// Says whether they are of this store as it is now.
    #[must_use]
    pub fn are_of(&self, found: &Identity) -> bool {
        self.id == found.id && (found.epoch == self.epoch || found.epoch == self.pending)
    }
}

/// Makes a receipt say that the store may hold anything of the page.
const VOID: &str = "INSERT INTO receipts (path, store) VALUES (?1, ?2)
     ON CONFLICT (path, store) DO UPDATE SET sha = NULL";

/// The receipts, what was seen of each file, labels and epochs.
#[derive(Debug)]
pub struct Receipts {
    pub(super) db: Connection,
}

impl Receipts {
    /// Opens the receipts in `wiki.db`, creating them as needed.
    ///
    /// # Errors
    /// As [`open_db`].
    pub fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self { db: open_db(path)? })
    }

    /// Opens the receipts to be read; makes none.
    ///
    /// # Errors
    /// As [`open_db_to_read`].
    pub fn open_to_read(path: &Path) -> Result<Self, Failure> {
        let db = open_db_to_read(path)?;
        Ok(Self { db })
    }

    /// Returns one receipt, `None` when the store was never given the page.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them; so for every method here.
    pub fn get(&self, store: StoreName, path: &PagePath) -> Result<Option<Receipt>, Failure> {
        let read = || {
            self.db
                .prepare_cached(
                    "SELECT sha, fingerprint, mark FROM receipts WHERE path = ?1 AND store = ?2",
                )?
                .query_row(params![path.as_str(), store.as_str()], |row| {
                    receipt_of(row, 0)
                })
                .optional()
        };
        read().map_err(|e| db_failure("cannot read a receipt", &e))
    }

    /// Returns what was seen of a file.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn file(&self, path: &PagePath) -> Result<Option<FileSeen>, Failure> {
        let read = || {
            self.db
                .prepare_cached(
                    "SELECT size, mtime, ctime, inode, seen_at, sha FROM files WHERE path = ?1",
                )?
                .query_row([path.as_str()], |row| file_seen(row, 0))
                .optional()
        };
        Ok(read()
            .map_err(|e| db_failure("cannot read what was seen of a file", &e))?
            .flatten())
    }

    /// Returns what is remembered of the next paths after `after`, in the order of their bytes, at most `limit` of
    /// them: the cursor side of the scan's merge. Empty at the end.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn known_after(&self, after: &str, limit: usize) -> Result<Vec<Known>, Failure> {
        // Nothing lies between a path and the same with a NUL after it, and nothing after the last character.
        self.known_between(&format!("{after}\0"), "\u{10ffff}", limit)
    }

    /// Returns what is remembered of the paths from `from`, included, to `to`, excluded: the first of them in the order
    /// of their bytes, at most `limit`.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn known_between(&self, from: &str, to: &str, limit: usize) -> Result<Vec<Known>, Failure> {
        let read = || {
            let mut files = self.db.prepare_cached(
                "SELECT path, size, mtime, ctime, inode, seen_at, sha FROM files
                 WHERE path >= ?1 AND path < ?2 ORDER BY path",
            )?;
            let mut receipts = self.db.prepare_cached(
                "SELECT path, store, sha, fingerprint, mark FROM receipts
                 WHERE path >= ?1 AND path < ?2 ORDER BY path, store",
            )?;
            let mut files = files.query([from, to])?;
            let mut receipts = receipts.query([from, to])?;
            let mut file = files.next()?;
            let mut receipt = receipts.next()?;
            let mut known = Vec::with_capacity(limit.min(1_000));
            while known.len() < limit {
                let of_file = file.map(path_of).transpose()?;
                let of_receipt = receipt.map(path_of).transpose()?;
                let Some(path) = of_file.into_iter().chain(of_receipt).min() else {
                    break;
                };
                let mut one = Known {
                    path: path.to_owned(),
                    file: None,
                    receipts: Vec::new(),
                };
                if let Some(row) = file
                    && path_of(row)? == one.path
                {
                    one.file = file_seen(row, 1)?;
                    file = files.next()?;
                }
                while let Some(row) = receipt
                    && path_of(row)? == one.path
                {
                    if let Ok(store) = row.get_ref(1)?.as_str()?.parse() {
                        one.receipts.push((store, receipt_of(row, 2)?));
                    }
                    receipt = receipts.next()?;
                }
                known.push(one);
            }
            Ok(known)
        };
        read().map_err(|e| db_failure("cannot read the receipts", &e))
    }

    /// Notes what was seen of files.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn note_files(&mut self, files: &[(PagePath, FileSeen)]) -> Result<(), Failure> {
        if files.is_empty() {
            return Ok(());
        }
        with_write(&mut self.db, "cannot note what was seen of files", |tx| {
            put_files(tx, files)
        })
    }

    /// Says whether the receipts speak of this store as it is: the same id, at the epoch noted or at that of a batch
    /// which was begun and may not have ended. The latter is noted, so that the next batch can be told from it.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn recognise(&mut self, store: StoreName, found: &Identity) -> Result<bool, Failure> {
        let known = self.epochs(store)?;
        if !known.as_ref().is_some_and(|known| known.are_of(found)) {
            return Ok(false);
        }
        if known.is_some_and(|known| known.epoch != found.epoch) {
            with_write(&mut self.db, COMPARING, |tx| {
                tx.execute(
                    "UPDATE store_epochs SET epoch = ?2 WHERE store = ?1",
                    params![store.as_str(), found.epoch],
                )?;
                Ok(())
            })?;
        }
        Ok(true)
    }

    /// Returns which store the receipts speak of; `None` before the first batch, and after [`Receipts::disown`].
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn epochs(&self, store: StoreName) -> Result<Option<Epochs>, Failure> {
        self.db
            .prepare_cached("SELECT id, epoch, pending FROM store_epochs WHERE store = ?1")
            .and_then(|mut known| {
                known
                    .query_row([store.as_str()], |row| {
                        Ok(Epochs {
                            id: row.get(0)?,
                            epoch: row.get(1)?,
                            pending: row.get(2)?,
                        })
                    })
                    .optional()
            })
            .map_err(|e| db_failure(COMPARING, &e))
    }

    /// Makes the receipts speak of no store of that name, so that the next drain begins anew with the one that is there.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn disown(&mut self, store: StoreName) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot disown a store", |tx| {
            tx.execute(
                "DELETE FROM store_epochs WHERE store = ?1",
                [store.as_str()],
            )?;
            Ok(())
        })
    }

    /// Begins anew with a store that was not recognised: voids all of its receipts, notes that it may hold something
    /// of each page in `held`, so that those gone meanwhile are removed from it, and that the receipts speak of it
    /// from now on. One step.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn adopt(
        &mut self,
        store: StoreName,
        found: &Identity,
        held: &[PagePath],
    ) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot adopt what a store holds", |tx| {
            tx.execute(
                "UPDATE receipts SET sha = NULL WHERE store = ?1",
                [store.as_str()],
            )?;
            let mut void = tx.prepare_cached(VOID)?;
            for path in held {
                void.execute(params![path.as_str(), store.as_str()])?;
            }
            tx.execute(
                "INSERT INTO store_epochs (store, id, epoch, pending) VALUES (?1, ?2, ?3, ?3)
                 ON CONFLICT (store) DO UPDATE
                 SET id = excluded.id, epoch = excluded.epoch, pending = excluded.pending",
                params![store.as_str(), found.id, found.epoch],
            )?;
            Ok(())
        })
    }

    /// Voids receipts that were found not to be true, so that the next drain applies the pages again.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn distrust(&mut self, found: &[(StoreName, PagePath)]) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot void receipts", |tx| {
            let mut void = tx.prepare_cached(VOID)?;
            for (store, path) in found {
                void.execute(params![path.as_str(), store.as_str()])?;
            }
            Ok(())
        })
    }

    /// Forgets the receipts under names that are no pages' paths: nobody ever asks for them.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn forget(&mut self, names: &[&str]) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot forget receipts", |tx| {
            let mut remove = tx.prepare_cached("DELETE FROM receipts WHERE path = ?1")?;
            for name in names {
                remove.execute([name])?;
            }
            Ok(())
        })
    }

    /// Durably voids the receipts of a batch for each store before any of them is touched, and notes the epoch that
    /// each store will have afterwards. Returns those epochs, in the order of `batches`.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn begin(&mut self, batches: &[(StoreName, Vec<PagePath>)]) -> Result<Vec<i64>, Failure> {
        with_write(&mut self.db, "cannot void receipts", |tx| {
            let mut void = tx.prepare_cached(VOID)?;
            // Past both numbers, so that no two batches ever leave the same epoch.
            let mut raise = tx.prepare_cached(
                "UPDATE store_epochs SET pending = MAX(epoch, pending) + 1 WHERE store = ?1 RETURNING pending",
            )?;
            let mut epochs = Vec::with_capacity(batches.len());
            for (store, paths) in batches {
                for path in paths {
                    void.execute(params![path.as_str(), store.as_str()])?;
                }
                let epoch = raise
                    .query_row([store.as_str()], |row| row.get(0))
                    .optional()?;
                epochs.push(epoch.unwrap_or(1));
            }
            Ok(epochs)
        })
    }

    /// Writes the receipts of a batch that holds, the store's epoch with them, and what was seen of the files.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn write(
        &mut self,
        batches: &[(StoreName, i64, String, Vec<Entry>)],
        files: &[(PagePath, FileSeen)],
        gone: &[PagePath],
    ) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot write receipts", |tx| {
            let mut put = tx.prepare_cached(
                "INSERT INTO receipts (path, store, sha, fingerprint, mark) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (path, store) DO UPDATE
                 SET sha = excluded.sha, fingerprint = excluded.fingerprint, mark = excluded.mark",
            )?;
            let mut remove =
                tx.prepare_cached("DELETE FROM receipts WHERE path = ?1 AND store = ?2")?;
            let mut raise =
                tx.prepare_cached("UPDATE store_epochs SET epoch = ?2 WHERE store = ?1")?;
            for (store, epoch, fingerprint, entries) in batches {
                for entry in entries {
                    match entry {
                        Entry::Holds { path, sha, mark } => {
                            put.execute(params![
                                path.as_str(),
                                store.as_str(),
                                sha.to_string(),
                                fingerprint,
                                mark
                            ])?;
                        }
                        Entry::Gone(path) => {
                            remove.execute(params![path.as_str(), store.as_str()])?;
                        }
                    }
                }
                raise.execute(params![store.as_str(), epoch])?;
            }
            put_files(tx, files)?;
            for table in ["files", "labels", "working", "receipts"] {
                let mut forget =
                    tx.prepare_cached(&format!("DELETE FROM {table} WHERE path = ?1"))?;
                for path in gone {
                    forget.execute([path.as_str()])?;
                }
            }
            Ok(())
        })
    }

    /// Counts the pages that a store has a valid receipt for.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn count(&self, store: StoreName) -> Result<u64, Failure> {
        self.db
            .query_row(
                "SELECT COUNT(*) FROM receipts
                 WHERE store = ?1 AND sha IS NOT NULL AND (store <> 'git' OR mark IS NOT NULL)",
                [store.as_str()],
                |row| row.get::<_, i64>(0),
            )
            .map(i64::cast_unsigned)
            .map_err(|e| db_failure("cannot count receipts", &e))
    }
}

impl Known {
    /// Returns the receipt of a store.
    #[must_use]
    pub fn receipt(&self, store: StoreName) -> Option<&Receipt> {
        let mut receipts = self.receipts.iter();
        receipts
            .find(|(of, _)| *of == store)
            .map(|(_, receipt)| receipt)
    }
}

/// All that is remembered of one path.
#[derive(Debug, Clone)]
pub struct Known {
    /// The path.
    pub path: String,
    /// What was seen of the file.
    pub file: Option<FileSeen>,
    /// Its receipts, by store.
    pub receipts: Vec<(StoreName, Receipt)>,
}

fn put_files(tx: &Connection, files: &[(PagePath, FileSeen)]) -> rusqlite::Result<()> {
    let mut put = tx.prepare_cached(
        "INSERT OR REPLACE INTO files (path, size, mtime, ctime, inode, seen_at, sha)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (path, seen) in files {
        let FileStat {
            size,
            mtime,
            ctime,
            inode,
        } = seen.stat;
        put.execute(params![
            path.as_str(),
            size,
            mtime,
            ctime,
            inode,
            seen.seen_at,
            seen.sha.to_string()
        ])?;
    }
    Ok(())
}

fn path_of<'r>(row: &'r Row<'_>) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(0)?.as_str()?)
}

/// A row that was damaged by hand reads as "nothing seen", so that the file is read again.
fn file_seen(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<FileSeen>> {
    let stat = FileStat {
        size: row.get(at)?,
        mtime: row.get(at + 1)?,
        ctime: row.get(at + 2)?,
        inode: row.get(at + 3)?,
    };
    let seen_at = row.get(at + 4)?;
    let sha = row.get_ref(at + 5)?.as_str()?.parse().ok();
    Ok(sha.map(|sha| FileSeen { stat, seen_at, sha }))
}

/// A SHA that was damaged by hand reads as a voided receipt.
fn receipt_of(row: &Row<'_>, at: usize) -> rusqlite::Result<Receipt> {
    let sha = row.get_ref(at)?.as_str_or_null()?;
    Ok(Receipt {
        sha: sha.and_then(|sha| sha.parse().ok()),
        fingerprint: row.get(at + 1)?,
        mark: row.get(at + 2)?,
    })
}
