//! What is remembered beside the receipts: a page's labels, the deaths under its mark, lasting values.

use rusqlite::{OptionalExtension as _, params};

use super::db::{db_failure, with_light_write, with_write};
use super::receipts::Receipts;
use crate::model::{Failure, Labels, PagePath, StoreName};

impl Receipts {
    /// Returns the labels of the last job that carried any for this page.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn labels(&self, path: &PagePath) -> Result<Labels, Failure> {
        let read = || {
            self.db
                .prepare_cached("SELECT repo, commit_sha FROM labels WHERE path = ?1")?
                .query_row([path.as_str()], |row| {
                    Ok(Labels {
                        repo: row.get(0)?,
                        commit_sha: row.get(1)?,
                    })
                })
                .optional()
        };
        Ok(read()
            .map_err(|e| db_failure("cannot read labels", &e))?
            .unwrap_or_default())
    }

    /// Notes the labels that jobs carried. Where they differ from those noted before, the page's receipt of the
    /// vector store is voided in the same step, since its points are keyed by them.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn note_labels(&mut self, labels: &[(PagePath, Labels)]) -> Result<(), Failure> {
        if labels.is_empty() {
            return Ok(());
        }
        with_write(&mut self.db, "cannot note labels", |tx| {
            for (path, labels) in labels {
                let changed = tx
                    .prepare_cached(
                        "INSERT INTO labels (path, repo, commit_sha) VALUES (?1, ?2, ?3)
                         ON CONFLICT (path) DO UPDATE SET repo = excluded.repo, commit_sha = excluded.commit_sha
                         WHERE repo <> excluded.repo OR commit_sha <> excluded.commit_sha",
                    )?
                    .execute(params![path.as_str(), labels.repo, labels.commit_sha])?;
                if changed > 0 {
                    tx.prepare_cached(
                        "UPDATE receipts SET sha = NULL WHERE path = ?1 AND store = ?2",
                    )?
                    .execute(params![path.as_str(), StoreName::Vectors.as_str()])?;
                }
            }
            Ok(())
        })
    }

    /// Counts a worker that died under a page's mark. Another content starts anew.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn count_death(&mut self, path: &str, version: &str) -> Result<(), Failure> {
        with_write(&mut self.db, "cannot count a death", |tx| {
            tx.execute(
                "INSERT INTO working (path, version, deaths) VALUES (?1, ?2, 1)
                 ON CONFLICT (path) DO UPDATE SET version = excluded.version,
                   deaths = CASE WHEN version = excluded.version THEN deaths + 1 ELSE 1 END",
                params![path, version],
            )?;
            Ok(())
        })
    }

    /// Forgets the deaths under a page's mark.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn forget_deaths(&mut self, path: &PagePath) -> Result<(), Failure> {
        // Mostly there are none, and then nothing is written.
        let any = self
            .db
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM working WHERE path = ?1)")
            .and_then(|mut any| any.query_row([path.as_str()], |row| row.get::<_, bool>(0)))
            .map_err(|e| db_failure("cannot read deaths", &e))?;
        if !any {
            return Ok(());
        }
        with_write(&mut self.db, "cannot forget deaths", |tx| {
            tx.execute("DELETE FROM working WHERE path = ?1", [path.as_str()])?;
            Ok(())
        })
    }

    /// Returns how many workers died under this page's mark with this content.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn deaths(&self, path: &PagePath, version: &str) -> Result<u32, Failure> {
        self.db
            .query_row(
                "SELECT deaths FROM working WHERE path = ?1 AND version = ?2",
                params![path.as_str(), version],
                |row| row.get(0),
            )
            .optional()
            .map(Option::unwrap_or_default)
            .map_err(|e| db_failure("cannot read deaths", &e))
    }

    /// Returns a lasting value by its key, if it has been made.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn known_meta(&self, key: &str) -> Result<Option<String>, Failure> {
        self.db
            .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
                row.get(0)
            })
            .optional()
            .map_err(|e| db_failure("cannot read wiki.db", &e))
    }

    /// Sets a lasting value; writes nothing when it is that already.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn set_meta(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        if self.known_meta(key)?.as_deref() == Some(value) {
            return Ok(());
        }
        with_write(&mut self.db, "cannot write wiki.db", |tx| {
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                params![key, value],
            )?;
            Ok(())
        })
    }

    /// Sets a value where it still is what the caller has read (`None`: not made yet); says whether it was. For what may as
    /// well be lost or left: it waits neither for the disk nor for a neighbour who writes.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them; `Busy` at once.
    pub fn replace_meta(
        &mut self,
        key: &str,
        read: Option<&str>,
        value: &str,
    ) -> Result<bool, Failure> {
        with_light_write(&mut self.db, "cannot write wiki.db", |tx| {
            let changed = match read {
                Some(read) => tx.execute(
                    "UPDATE meta SET value = ?3 WHERE key = ?1 AND value = ?2",
                    params![key, read, value],
                )?,
                None => tx.execute(
                    "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    params![key, value],
                )?,
            };
            Ok(changed > 0)
        })
    }

    /// Returns a lasting value by its key, making it with `make` at the first call.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them.
    pub fn meta(&mut self, key: &str, make: impl FnOnce() -> String) -> Result<String, Failure> {
        if let Some(value) = self.known_meta(key)? {
            return Ok(value);
        }
        with_write(&mut self.db, "cannot write wiki.db", |tx| {
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![key, make()],
            )?;
            tx.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
                row.get(0)
            })
        })
    }
}
