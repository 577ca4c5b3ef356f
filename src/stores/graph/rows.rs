//! A page as rows: what is written, what is read back, and the digest over both.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use sha2::{Digest, Sha256};

use super::names::{Root, names_of, split_extension};
use super::plan::plan;
use crate::model::markdown::{Link, LinkKind, fold_key};
use crate::model::{Page, Within};

/// The columns of each table that a page alone decides, in the order of its primary key; the page's path is
/// always the first. How links are resolved is not among them: other pages have a say in that.
const TABLES: [(&str, &str, &str); TABLE_COUNT] = [
    (
        "graph_pages",
        "path, key, title, sha, symbol, metadata, derived_by",
        "path",
    ),
    (
        "graph_names",
        "path, kind, name, key, ext, depth, length",
        "path, kind, name",
    ),
    ("graph_tags", "path, ordinal, tag", "path, ordinal"),
    (
        "graph_links",
        "path, ordinal, kind, target, anchor, label, line, wants",
        "path, ordinal",
    ),
    (
        "graph_link_keys",
        "path, ordinal, key",
        "path, ordinal, key",
    ),
];
const TABLE_COUNT: usize = 5;
const LINKS: usize = 3;

pub(super) type Row = Vec<Value>;

/// A page's rows as they should be.
pub(super) struct Derived<'p> {
    rows: [Vec<Row>; TABLE_COUNT],
    written: &'p [Link],
}

/// The rows' kinds of link.
pub(super) fn kind_text(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Wikilink => "wikilink",
        LinkKind::Markdown => "markdown",
        LinkKind::Embed => "embed",
    }
}

pub(super) fn kind_of(text: &str) -> Option<LinkKind> {
    [LinkKind::Wikilink, LinkKind::Markdown, LinkKind::Embed]
        .into_iter()
        .find(|kind| kind_text(*kind) == text)
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn optional(value: Option<&String>) -> Value {
    value.cloned().map_or(Value::Null, Value::Text)
}

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

impl<'p> Derived<'p> {
    pub(super) fn of(page: &'p Page, root: &Root, derived_by: &str) -> Self {
        let document = page.document();
        let path = page.path.as_str();
        let metadata = serde_json::to_string(&document.front_matter.values)
            .expect("a map of JSON values always serialises");
        let pages = vec![vec![
            text(path),
            text(fold_key(path)),
            text(&document.title),
            text(page.sha.to_string()),
            optional(document.front_matter.symbol.as_ref()),
            text(metadata),
            text(derived_by),
        ]];
        let (_, ext) = split_extension(path);
        let names = names_of(
            root,
            &page.path,
            &document.title,
            &document.front_matter.aliases,
        )
        .into_iter()
        .map(|name| {
            let of_path = name.depth > 0;
            vec![
                text(path),
                text(name.kind.as_str()),
                text(name.text),
                text(name.key),
                text(if of_path { ext } else { "" }),
                number(name.depth),
                number(path.len()),
            ]
        })
        .collect();
        let tags = (0..)
            .zip(&document.tags)
            .map(|(i, tag)| vec![text(path), number(i), text(tag)])
            .collect();
        let mut links = Vec::with_capacity(document.links.len());
        let mut keys = Vec::new();
        for (i, link) in (0..).zip(&document.links) {
            let plan = plan(root, path, link.kind, &link.target);
            links.push(vec![
                text(path),
                number(i),
                text(kind_text(link.kind)),
                text(&link.target),
                optional(link.anchor.as_ref()),
                optional(link.label.as_ref()),
                number(link.line),
                text(&plan.wants),
            ]);
            keys.extend(
                plan.keys()
                    .into_iter()
                    .map(|key| vec![text(path), number(i), text(key)]),
            );
        }
        Self {
            rows: [pages, names, tags, links, keys],
            written: &document.links,
        }
    }

    /// Returns the digest that the page's rows must have.
    pub(super) fn digest(&self) -> String {
        let mut sections = [[0; 32]; TABLE_COUNT];
        for (section, rows) in sections.iter_mut().zip(&self.rows) {
            let mut hash = Sha256::new();
            for row in rows {
                feed(&mut hash, row.iter().map(ValueRef::from));
            }
            *section = hash.finalize().into();
        }
        combine(&sections)
    }

    /// Writes all rows but the links, which are written with what they resolve to.
    pub(super) fn insert(&self, db: &Connection) -> rusqlite::Result<()> {
        for (table, ((name, columns, _), rows)) in TABLES.iter().zip(&self.rows).enumerate() {
            if table == LINKS || rows.is_empty() {
                continue;
            }
            let marks = vec!["?"; columns.split(',').count()].join(", ");
            let mut insert =
                db.prepare_cached(&format!("INSERT INTO {name} ({columns}) VALUES ({marks})"))?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
        }
        Ok(())
    }

    /// Returns the links with their rows, which lack what they resolve to.
    pub(super) fn links(&self) -> impl Iterator<Item = (&'p Link, &Row)> {
        self.written.iter().zip(&self.rows[LINKS])
    }
}

/// Deletes every row of a page.
pub(super) fn delete(db: &Connection, path: &str) -> rusqlite::Result<()> {
    for (name, _, _) in TABLES {
        db.prepare_cached(&format!("DELETE FROM {name} WHERE path = ?"))?
            .execute([path])?;
    }
    Ok(())
}

/// Returns the digest over the rows of a page as they stand; `None` when there is no row.
pub(super) fn held_digest(db: &Connection, path: &str) -> rusqlite::Result<Option<String>> {
    let mut sections = [[0; 32]; TABLE_COUNT];
    let mut any = false;
    for (section, (name, columns, order)) in sections.iter_mut().zip(TABLES) {
        let mut select = db.prepare_cached(&format!(
            "SELECT {columns} FROM {name} WHERE path = ? ORDER BY {order}"
        ))?;
        let mut rows = select.query([path])?;
        let mut hash = Sha256::new();
        while let Some(row) = rows.next()? {
            any = true;
            feed_row(&mut hash, row)?;
        }
        *section = hash.finalize().into();
    }
    Ok(any.then(|| combine(&sections)))
}

/// Returns the digest of each of these pages of which there is any row, in the order of the paths' bytes.
pub(super) fn held_digests(
    db: &Connection,
    within: &Within,
) -> rusqlite::Result<Vec<(String, String)>> {
    let nothing: [u8; 32] = Sha256::new().finalize().into();
    let mut pages = std::collections::BTreeMap::<String, [[u8; 32]; TABLE_COUNT]>::new();
    for (table, (name, columns, order)) in TABLES.into_iter().enumerate() {
        let mut select = db.prepare_cached(&format!(
            "SELECT {columns} FROM {name} WHERE path >= ?1 AND path < ?2 ORDER BY {order}"
        ))?;
        let mut current: Option<(String, Sha256)> = None;
        let mut close = |current: Option<(String, Sha256)>| {
            if let Some((path, hash)) = current {
                pages.entry(path).or_insert([nothing; TABLE_COUNT])[table] = hash.finalize().into();
            }
        };
        for (from, to) in within.ranges() {
            let mut rows = select.query([from, to])?;
            while let Some(row) = rows.next()? {
                let path = row.get_ref(0)?.as_str()?;
                if current.as_ref().is_none_or(|(held, _)| held != path) {
                    close(current.replace((path.to_owned(), Sha256::new())));
                }
                if let Some((_, hash)) = &mut current {
                    feed_row(hash, row)?;
                }
            }
        }
        close(current);
    }
    Ok(pages
        .into_iter()
        .map(|(path, sections)| (path, combine(&sections)))
        .collect())
}

fn feed_row(hash: &mut Sha256, row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
    let columns = row.as_ref().column_count();
    let values: Vec<ValueRef<'_>> = (0..columns)
        .map(|i| row.get_ref(i))
        .collect::<rusqlite::Result<_>>()?;
    feed(hash, values.into_iter());
    Ok(())
}

/// Feeds a row so that no two different rows, or runs of rows, feed the same bytes.
fn feed<'v>(hash: &mut Sha256, row: impl Iterator<Item = ValueRef<'v>>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        hash.update([tag]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for value in row {
        match value {
            ValueRef::Null => put(0, &[]),
            ValueRef::Integer(number) => put(1, &number.to_le_bytes()),
            ValueRef::Real(number) => put(2, &number.to_le_bytes()),
            ValueRef::Text(text) => put(3, text),
            ValueRef::Blob(bytes) => put(4, bytes),
        }
    }
    put(5, &[]);
}

/// Returns the first 128 bits of the digest over the tables' digests, in hex: enough to tell damage apart.
fn combine(sections: &[[u8; 32]; TABLE_COUNT]) -> String {
    use std::fmt::Write as _;
    let all = Sha256::digest(sections.concat());
    let mut hex = String::with_capacity(32);
    for byte in &all[..16] {
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
    }
    hex
}
