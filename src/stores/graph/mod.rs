//! The graph store: who links to whom, in SQLite.
//!
//! The tables and their meaning stand in `state/schema/001_graph.sql`. Links are stored as written *and* as
//! resolved. What a link resolves to depends on other pages, so it waits under keys (`graph_link_keys`), and
//! a page that comes, goes or is renamed has only the links under its own keys resolved again. Whatever the
//! order in which pages arrive, the end is the same as when all arrive at once.
//!
//! | file | holds |
//! |---|---|
//! | `find.rs` | the page that a person means by a name |
//! | `links.rs` | links written and resolved again |
//! | `names.rs` | the names by which a page can be found |
//! | `plan.rs` | what a target may mean: the places to look, best first, and the keys to wait under |
//! | `resolve.rs` | the look-up of these places in the database |
//! | `rows.rs` | a page as rows, and the digest over them |
//! | `what_if.rs` | where links would lead if pages changed |

mod find;
mod links;
mod names;
mod plan;
mod resolve;
mod rows;
#[cfg(test)]
mod tests;
mod what_if;

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Transaction};

pub(crate) use self::find::{find_addressed, find_pages, leads, placeholder_key};
use self::links::{Links, StoredLink, wrongly_resolved};
use self::names::{Root, place_keys};
use self::rows::Derived;
pub use self::what_if::{By, Leads, Moved, WhatIf};
use super::{Applied, Deriver, Holding, Identity, Outcome, Store};
use crate::model::markdown::PARSER_VERSION;
use crate::model::{Change, Failure, Page, StoreName, Within};
use crate::state::{db_failure, with_write};

/// Changes when the same page would become other rows, or its links resolve otherwise.
const GRAPH_VERSION: &str = "1";

/// Statements kept prepared; more than the store has.
const STATEMENTS: usize = 64;

/// The graph store of one checkout, in its `wiki.db`.
#[derive(Debug)]
pub struct GraphStore {
    db: Connection,
    root: Root,
}

impl GraphStore {
    /// Opens the graph in a database opened by [`crate::state::open_db`]. `pages_dir` is the wiki's folder in the
    /// repository, to which paths in links are relative.
    #[must_use]
    pub fn open(db: Connection, pages_dir: &str) -> Self {
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        Self {
            db,
            root: Root::new(pages_dir),
        }
    }

    /// Resolves every link anew and returns the pages with a link that is stored otherwise, sorted: damage,
    /// since [`Store::apply`] leaves none.
    ///
    /// # Errors
    /// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
    pub fn check_resolution(&mut self) -> Result<Vec<String>, Failure> {
        let check = || {
            let tx = self.db.unchecked_transaction()?;
            wrongly_resolved(&tx, &self.root, &Within::everything())
        };
        check().map_err(|e| db_failure("cannot check the graph", &e))
    }

    fn derive<'p>(&self, page: &'p Page) -> Derived<'p> {
        Derived::of(page, &self.root, &self.fingerprint())
    }
}

impl Store for GraphStore {
    fn name(&self) -> StoreName {
        StoreName::Graph
    }

    /// The wiki's folder is part of it: another one gives pages other names.
    fn fingerprint(&self) -> String {
        format!("g{GRAPH_VERSION}.{PARSER_VERSION}:{}", self.root.as_str())
    }

    fn otherwise(&self, before: &str) -> String {
        if before
            .split_once(':')
            .is_some_and(|(_, root)| root != self.root.as_str())
        {
            return "the pages' folder has another name than it had".into();
        }
        "another wiki-sync read them, which found links in another way".into()
    }

    fn identity(&mut self) -> Result<Identity, Failure> {
        if let Some(found) = self.find_identity(true)? {
            return Ok(found);
        }
        with_write(&mut self.db, IDENTITY, |tx| {
            // Another process may have made it meanwhile.
            if let Some(found) = identity(tx)? {
                return Ok(found);
            }
            let id = uuid::Uuid::new_v4().to_string();
            set_meta(tx, "id", &id)?;
            Ok(Identity { id, epoch: 0 })
        })
    }

    fn find_identity(&mut self, _inside: bool) -> Result<Option<Identity>, Failure> {
        identity(&self.db).map_err(|e| db_failure(IDENTITY, &e))
    }

    fn renew(&mut self) -> Result<Identity, Failure> {
        let id = uuid::Uuid::new_v4().to_string();
        with_write(&mut self.db, "cannot give the graph a new id", |tx| {
            set_meta(tx, "id", &id)?;
            set_meta(tx, "epoch", "0")
        })?;
        Ok(Identity { id, epoch: 0 })
    }

    fn apply(&mut self, changes: &[Change], epoch: i64) -> Result<Vec<Outcome>, Failure> {
        // Parsed before the transaction, so that other writers wait for SQLite's work only.
        let steps: Vec<(&str, Option<Derived<'_>>)> = changes
            .iter()
            .map(|change| match change {
                Change::Put(page) => (page.path.as_str(), Some(self.derive(page))),
                Change::Remove(path) => (path.as_str(), None),
            })
            .collect();
        let root = &self.root;
        let written = with_write(&mut self.db, "cannot write the graph", |tx| {
            let written = apply_batch(tx, root, &steps, &mut |_| ())?;
            set_meta(tx, "epoch", &epoch.to_string())?;
            fail::fail_point!("graph.before_commit");
            Ok(written)
        })?;
        fail::fail_point!("graph.after_commit");
        Ok(written
            .into_iter()
            .map(|changed| {
                Ok(Applied {
                    changed,
                    mark: None,
                })
            })
            .collect())
    }

    /// A page with a link that is stored as resolved to something else than it does has a digest that is no
    /// page's.
    fn holdings(&mut self, within: &Within) -> Result<Vec<Holding>, Failure> {
        let read = || {
            let tx = self.db.unchecked_transaction()?;
            let wrong = wrongly_resolved(&tx, &self.root, within)?;
            let wrong: HashSet<String> = wrong.into_iter().collect();
            let mut holdings = Vec::new();
            for (path, mut digest) in rows::held_digests(&tx, within)? {
                if wrong.contains(&path) {
                    digest.push_str("!links");
                }
                holdings.push(Holding { path, digest });
            }
            Ok(holdings)
        };
        read().map_err(|e| db_failure("cannot read the graph", &e))
    }

    fn is_there(&mut self) -> Result<bool, Failure> {
        let there =
            "SELECT EXISTS (SELECT 1 FROM graph_meta) OR EXISTS (SELECT 1 FROM graph_pages)";
        self.db
            .query_row(there, [], |row| row.get(0))
            .map_err(|e| db_failure(IDENTITY, &e))
    }

    fn purge(&mut self, names: &[&str]) -> Result<(), Failure> {
        let steps: Vec<_> = names.iter().map(|&name| (name, None)).collect();
        let root = &self.root;
        with_write(&mut self.db, "cannot remove rows of no page", |tx| {
            apply_batch(tx, root, &steps, &mut |_| ())?;
            Ok(())
        })
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        Ok(Some(self.derive(page).digest()))
    }

    fn deriver(&self) -> Option<Deriver> {
        let (root, fingerprint) = (self.root.clone(), self.fingerprint());
        Some(Box::new(move |page| {
            Derived::of(page, &root, &fingerprint).digest()
        }))
    }
}

const IDENTITY: &str = "cannot read the graph's identity";

/// Returns the graph's identity, `None` where it has none yet.
fn identity(db: &Connection) -> rusqlite::Result<Option<Identity>> {
    let Some(id) = meta(db, "id")? else {
        return Ok(None);
    };
    let epoch = meta(db, "epoch")?;
    let epoch = epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Ok(Some(Identity { id, epoch }))
}

fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT value FROM graph_meta WHERE key = ?")?
        .query_row([key], |row| row.get(0))
        .optional()
}

fn set_meta(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO graph_meta (key, value) VALUES (?, ?)")?
        .execute([key, value])?;
    Ok(())
}

/// Puts and removes pages, then resolves their links and those that wait for a name that came or went.
/// Returns for each step whether it changed anything; `moved` hears of each other page's link that now leads elsewhere, as
/// it stood before.
fn apply_batch(
    tx: &Transaction<'_>,
    root: &Root,
    steps: &[(&str, Option<Derived<'_>>)],
    moved: &mut dyn FnMut(StoredLink),
) -> rusqlite::Result<Vec<bool>> {
    let mut keys = BTreeSet::new();
    let mut changed = Vec::with_capacity(steps.len());
    for (path, derived) in steps {
        changed.push(write_page(tx, root, path, derived.as_ref(), &mut keys)?);
    }
    // From here on no name changes, so that answers may be remembered.
    let mut links = Links::new(tx);
    let mut fresh = HashSet::new();
    for ((path, derived), changed) in steps.iter().zip(&changed) {
        if *changed {
            fresh.insert(*path);
            if let Some(derived) = derived {
                links.insert(root, path, derived)?;
            }
        }
    }
    for (path, ordinal) in waiting(tx, &keys)? {
        if !fresh.contains(path.as_str()) {
            let kept = StoredLink::one(tx, &path, ordinal)?;
            if let Some(kept) = kept
                && links.again(root, &kept)?
            {
                moved(kept);
            }
        }
    }
    // A page put again just as it is held may still have a damaged link.
    for ((path, derived), changed) in steps.iter().zip(&mut changed) {
        if !*changed && derived.is_some() {
            for kept in StoredLink::of_page(tx, path)? {
                *changed |= links.again(root, &kept)?;
            }
        }
    }
    Ok(changed)
}

/// Replaces or deletes the rows of a page, unless they are as they should be, and adds the keys of the names
/// that came or went. Its links are left to be inserted.
fn write_page(
    tx: &Transaction<'_>,
    root: &Root,
    path: &str,
    derived: Option<&Derived<'_>>,
    keys: &mut BTreeSet<String>,
) -> rusqlite::Result<bool> {
    let held = rows::held_digest(tx, path)?;
    if held == derived.map(Derived::digest) {
        return Ok(false);
    }
    let mut select =
        tx.prepare_cached("SELECT kind, name, key, ext, depth FROM graph_names WHERE path = ?")?;
    let names = |rows: &mut rusqlite::Statement<'_>| {
        rows.query_map([path], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })?
        .collect::<rusqlite::Result<BTreeSet<_>>>()
    };
    let old = names(&mut select)?;
    rows::delete(tx, path)?;
    if let Some(derived) = derived {
        derived.insert(tx)?;
    }
    let new = names(&mut select)?;
    // An alias that becomes the title finds the page in another way, so the kind counts too.
    for (kind, _, key, _, _) in old.symmetric_difference(&new) {
        if kind == "path" {
            keys.extend(place_keys(root, path));
        }
        keys.insert(key.clone());
    }
    Ok(true)
}

/// Returns the links that wait under any of the keys.
fn waiting(db: &Connection, keys: &BTreeSet<String>) -> rusqlite::Result<BTreeSet<(String, i64)>> {
    let mut select =
        db.prepare_cached("SELECT path, ordinal FROM graph_link_keys WHERE key = ?")?;
    let mut links = BTreeSet::new();
    for key in keys {
        let mut rows = select.query([key])?;
        while let Some(row) = rows.next()? {
            links.insert((row.get(0)?, row.get(1)?));
        }
    }
    Ok(links)
}
