//! Links in the database: written with what they resolve to, and resolved again.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::names::Root;
use super::plan::{How, plan};
use super::resolve::{Resolution, Resolver};
use super::rows::{self, Derived};
use crate::model::Within;

/// A link as it stands in the database.
pub(super) struct StoredLink {
    pub(super) path: String,
    pub(super) ordinal: i64,
    pub(super) kind: String,
    pub(super) target: String,
    pub(super) leads_to: String,
    pub(super) dst: Option<String>,
    pub(super) how: Option<String>,
    pub(super) ambiguous: i64,
}

const STORED_LINK: &str =
    "SELECT path, ordinal, kind, target, leads_to, dst, how, ambiguous FROM graph_links";

impl StoredLink {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            path: row.get(0)?,
            ordinal: row.get(1)?,
            kind: row.get(2)?,
            target: row.get(3)?,
            leads_to: row.get(4)?,
            dst: row.get(5)?,
            how: row.get(6)?,
            ambiguous: row.get(7)?,
        })
    }

    pub(super) fn one(db: &Connection, path: &str, ordinal: i64) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(&format!("{STORED_LINK} WHERE path = ?1 AND ordinal = ?2"))?
            .query_row(params![path, ordinal], Self::read)
            .optional()
    }

    pub(super) fn of_page(db: &Connection, path: &str) -> rusqlite::Result<Vec<Self>> {
        db.prepare_cached(&format!("{STORED_LINK} WHERE path = ?1 ORDER BY ordinal"))?
            .query_map([path], Self::read)?
            .collect()
    }

    fn resolves_to(&self, to: &Resolution) -> bool {
        self.leads_to == to.leads_to
            && self.dst == to.dst
            && self.how.as_deref() == to.how.map(How::as_str)
            && self.ambiguous == i64::from(to.ambiguous)
    }
}

/// Resolves and writes links.
pub(super) struct Links<'db> {
    db: &'db Connection,
    resolver: Resolver<'db>,
}

impl<'db> Links<'db> {
    /// Use it only while no name changes.
    pub(super) fn new(db: &'db Connection) -> Self {
        Self {
            db,
            resolver: Resolver::new(db),
        }
    }

    /// Writes the links of a page that was just put.
    pub(super) fn insert(
        &mut self,
        root: &Root,
        path: &str,
        page: &Derived<'_>,
    ) -> rusqlite::Result<()> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO graph_links
             (path, ordinal, kind, target, anchor, label, line, wants, leads_to, dst, how, ambiguous)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        for (link, written) in page.links() {
            let to = self
                .resolver
                .resolve(&plan(root, path, link.kind, &link.target))?;
            let resolved = [
                Value::Text(to.leads_to.into()),
                to.dst.map_or(Value::Null, Value::Text),
                to.how
                    .map_or(Value::Null, |how| Value::Text(how.as_str().into())),
                Value::Integer(i64::from(to.ambiguous)),
            ];
            insert.execute(params_from_iter(written.iter().chain(&resolved)))?;
        }
        Ok(())
    }

    /// Resolves a stored link again; says whether it had to be changed.
    pub(super) fn again(&mut self, root: &Root, link: &StoredLink) -> rusqlite::Result<bool> {
        let Some(to) = resolve_stored(&mut self.resolver, root, link)? else {
            return Ok(false);
        };
        if link.resolves_to(&to) {
            return Ok(false);
        }
        self.db
            .prepare_cached(
                "UPDATE graph_links SET leads_to = ?3, dst = ?4, how = ?5, ambiguous = ?6
                 WHERE path = ?1 AND ordinal = ?2",
            )?
            .execute(params![
                link.path,
                link.ordinal,
                to.leads_to,
                to.dst,
                to.how.map(How::as_str),
                to.ambiguous,
            ])?;
        Ok(true)
    }
}

/// Resolves a stored link; `None` when its kind is none of ours, which the page's digest shows.
fn resolve_stored(
    resolver: &mut Resolver<'_>,
    root: &Root,
    link: &StoredLink,
) -> rusqlite::Result<Option<Resolution>> {
    match rows::kind_of(&link.kind) {
        Some(kind) => resolver
            .resolve(&plan(root, &link.path, kind, &link.target))
            .map(Some),
        None => Ok(None),
    }
}

/// Returns the pages with a link that is stored as resolved to something else than it does, sorted.
pub(super) fn wrongly_resolved(
    db: &Connection,
    root: &Root,
    within: &Within,
) -> rusqlite::Result<Vec<String>> {
    let mut resolver = Resolver::new(db);
    let mut wrong: Vec<String> = Vec::new();
    let mut select = db.prepare_cached(&format!(
        "{STORED_LINK} WHERE path >= ?1 AND path < ?2 ORDER BY path, ordinal"
    ))?;
    for (from, to) in within.ranges() {
        let mut rows = select.query([from, to])?;
        while let Some(row) = rows.next()? {
            let link = StoredLink::read(row)?;
            if wrong.last() == Some(&link.path) {
                continue;
            }
            if let Some(to) = resolve_stored(&mut resolver, root, &link)?
                && !link.resolves_to(&to)
            {
                wrong.push(link.path);
            }
        }
    }
    Ok(wrong)
}
