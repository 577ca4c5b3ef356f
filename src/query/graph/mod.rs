//! Questions to the graph: who links here, what is broken, what hangs together.
//!
//! | file | what |
//! |---|---|
//! | here | questions that SQLite answers by an index |
//! | `conflicts.rs` | paths that differ only by case or Unicode form |
//! | `names.rs` | what a name or a tag may have meant |
//! | `near.rs` | what is around a page, step by step |
//! | `net.rs` | the graph in memory, for questions that walk |
//! | `export.rs` | the whole graph for other programs |
//! | `map.rs` | the graph as it is drawn |
//!
//! Every row has `path`, `title`, `kind`, `label` and `anchor`, and every list the same order on every run.

mod conflicts;
pub mod export;
pub mod map;
mod names;
mod near;
mod net;

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde::Serialize;

pub use self::conflicts::{DifferBy, Form, conflicts, told as conflict_told};
pub use self::names::{
    Near, any_begins, bare, called, did_you_mean, near_names, no_such_tag, spellings,
};
pub use self::near::near;
pub use self::net::{Direction, Net, Through};

use crate::model::markdown::LinkKind;
use crate::model::{Failure, PagePath};
use crate::state::db_failure;
use crate::stores;
use crate::stores::graph::{Leads, find_addressed, find_pages, placeholder_key};

/// Candidates that an error names at most.
const CANDIDATES: usize = 20;

/// One row of an answer: a page, or a link with the page that it stands in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The page; of another node its name with the kind in front (`tag:rust`, `placeholder:new page`).
    pub path: String,
    /// Its title.
    pub title: String,
    /// Of a link `wikilink`, `markdown`, `embed`, `tag` or `symbol`; of a node `page`, `placeholder`, `tag` or
    /// `symbol`; `conflict` of a page in conflict with others.
    pub kind: String,
    /// The link's visible text, where it is not the target itself.
    pub label: Option<String>,
    /// The link's part after `#`.
    pub anchor: Option<String>,
    /// What this question adds.
    #[serde(flatten)]
    pub more: More,
}

/// What a question adds to its rows; in JSON its fields stand among the row's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum More {
    /// Nothing.
    Nothing {},
    /// A link.
    Link {
        /// The target as written.
        target: String,
        /// Line in the file, from 1.
        line: i64,
    },
    /// A link that leads to no page, or could lead to several.
    Broken {
        /// The target as written.
        target: String,
        /// Line in the file, from 1.
        line: i64,
        /// Whether several pages are equally good; else there is none.
        ambiguous: bool,
        /// The page that an ambiguous link was decided to lead to.
        leads_to: Option<String>,
    },
    /// A page whose path differs from others' only by case or Unicode normal form.
    Conflict {
        /// The others' paths, in the order of their bytes.
        with: Vec<String>,
        /// What they differ by.
        differ_by: DifferBy,
        /// The form of its path, then of the others'.
        forms: Vec<Form>,
    },
    /// A node near another one.
    Near {
        /// Steps to it.
        distance: u32,
        /// The node by which it was reached first.
        through: String,
    },
    /// A node on a way; the row's link leads on to the next node, that of the last row is none.
    Step {
        /// Steps from the start.
        distance: u32,
        /// Whether the link to the next node is walked against its direction.
        against: bool,
    },
    /// A page with its number of links.
    Hub {
        /// Other pages that link to it.
        links_in: u32,
        /// Other pages that it links to.
        links_out: u32,
    },
    /// A page of a component.
    Member {
        /// The component's number, from 1, the largest first.
        component: u32,
        /// How many pages it has.
        size: u32,
    },
}

/// Why a name is not one page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No page has this path, name, alias or title.
    #[error("no page {name:?} in the graph")]
    None {
        /// The name.
        name: String,
        /// Pages that may have been meant.
        near: Vec<Near>,
    },
    /// Several pages are equally good.
    #[error("{name:?} names several pages: {}", .candidates.join(", "))]
    Several {
        /// The name.
        name: String,
        /// Their paths, best first, at most 20.
        candidates: Vec<String>,
    },
    /// The graph could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Row {
    /// Returns the row of a node by itself.
    fn node(path: String, title: String, kind: &str, more: More) -> Self {
        Self {
            path,
            title,
            kind: kind.into(),
            label: None,
            anchor: None,
            more,
        }
    }
}

/// Reads the first five columns: path, title, kind, label, anchor.
fn link_row(row: &rusqlite::Row<'_>, more: More) -> rusqlite::Result<Row> {
    Ok(Row {
        path: row.get(0)?,
        title: row.get(1)?,
        kind: row.get(2)?,
        label: row.get(3)?,
        anchor: row.get(4)?,
        more,
    })
}

fn failed(error: &rusqlite::Error) -> Failure {
    db_failure("cannot read the graph", error)
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    params: impl rusqlite::Params,
) -> Result<Vec<T>, Failure> {
    let run = || -> rusqlite::Result<Vec<T>> {
        db.prepare_cached(sql)?.query_map(params, read)?.collect()
    };
    run().map_err(|e| failed(&e))
}

/// Returns the one page that a user means: by its path, with or without the wiki's folder in front and the
/// extension behind, by a name that a link could use, or by an address as it stands in a Markdown link.
///
/// # Errors
/// [`FindError`].
pub fn find_page(db: &Connection, pages_dir: &str, name: &str) -> Result<String, FindError> {
    match one_page(find_pages, db, pages_dir, name)? {
        Some(page) => Ok(page),
        None => one_page(find_addressed, db, pages_dir, name)?.map_or_else(|| none(db, name), Ok),
    }
}

/// How pages are found by a name: at most so many.
type Find = fn(&Connection, &str, &str, usize) -> rusqlite::Result<Vec<String>>;

fn one_page(
    find: Find,
    db: &Connection,
    pages_dir: &str,
    name: &str,
) -> Result<Option<String>, FindError> {
    let mut found = find(db, pages_dir, name, CANDIDATES).map_err(|e| failed(&e))?;
    if found.len() > 1 {
        return Err(FindError::Several {
            name: name.into(),
            candidates: found,
        });
    }
    Ok(found.pop())
}

fn none<T>(db: &Connection, name: &str) -> Result<T, FindError> {
    Err(FindError::None {
        name: name.into(),
        near: near_names(db, name)?,
    })
}

/// Returns the SHA of the page that the graph took in, in hex; `None` where it holds no such page.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn sha_of(db: &Connection, path: &str) -> Result<Option<String>, Failure> {
    let read = || {
        db.prepare_cached("SELECT sha FROM graph_pages WHERE path = ?1")?
            .query_row([path], |row| row.get(0))
            .optional()
    };
    read().map_err(|e| failed(&e))
}

/// Selects links as [`link_to`] reads them.
const LINKS: &str = "SELECT l.path, p.title, l.kind, l.label, l.anchor, l.target, l.line
     FROM graph_links AS l JOIN graph_pages AS p ON p.path = l.path";

fn link_to(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let (target, line) = (row.get(5)?, row.get(6)?);
    link_row(row, More::Link { target, line })
}

/// Returns the links to a page, by linking page and place in it. `path_or_name` is as for [`find_page`]; where it
/// is no page's name but links to it exist all the same, those are returned.
///
/// # Errors
/// [`FindError`].
pub fn backlinks(
    db: &Connection,
    pages_dir: &str,
    path_or_name: &str,
) -> Result<Vec<Row>, FindError> {
    let (leads, to) = leading_to(db, pages_dir, path_or_name)?;
    Ok(some_links(db, leads, &to, usize::MAX)?)
}

/// Returns the first links to a page, at most `most`, and how many there are in all; else as [`backlinks`]. Reads no more
/// than it returns, but for the count.
///
/// # Errors
/// [`FindError`].
pub fn first_backlinks(
    db: &mut Connection,
    pages_dir: &str,
    path_or_name: &str,
    most: usize,
) -> Result<(Vec<Row>, usize), FindError> {
    let snapshot = db
        .transaction_with_behavior(TransactionBehavior::Deferred)
        .map_err(|e| failed(&e))?;
    let (leads, to) = leading_to(&snapshot, pages_dir, path_or_name)?;
    let links = some_links(&snapshot, leads, &to, most)?;
    let count = format!("SELECT count(*) FROM graph_links AS l WHERE {leads}");
    let total: Vec<u32> = rows(&snapshot, &count, |row| row.get(0), [to])?;
    Ok((links, total.first().map_or(0, |&total| total as usize)))
}

/// Returns the page whose links [`backlinks`] returns; `None` where they lead to none.
///
/// # Errors
/// [`FindError`].
pub fn linked_page(
    db: &Connection,
    pages_dir: &str,
    path_or_name: &str,
) -> Result<Option<String>, FindError> {
    let (leads, to) = leading_to(db, pages_dir, path_or_name)?;
    Ok((leads == TO_PAGE).then_some(to))
}

const TO_PAGE: &str = "l.dst = ?1";
const TO_PLACEHOLDER: &str = "l.leads_to = 'placeholder' AND l.wants = ?1";

/// Returns which links lead to what is named, and what `?1` is in that.
fn leading_to(
    db: &Connection,
    pages_dir: &str,
    name: &str,
) -> Result<(&'static str, String), FindError> {
    if let Some(page) = one_page(find_pages, db, pages_dir, name)? {
        return Ok((TO_PAGE, page));
    }
    // A link of this name that leads nowhere is more than a folder that is called so.
    let wants = placeholder_key(pages_dir, name);
    if !some_links(db, TO_PLACEHOLDER, &wants, 1)?.is_empty() {
        return Ok((TO_PLACEHOLDER, wants));
    }
    match one_page(find_addressed, db, pages_dir, name)? {
        Some(page) => Ok((TO_PAGE, page)),
        None => none(db, name),
    }
}

fn some_links(db: &Connection, leads: &str, to: &str, most: usize) -> Result<Vec<Row>, Failure> {
    let sql = format!("{LINKS} WHERE {leads} ORDER BY l.path, l.ordinal LIMIT ?2");
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    rows(db, &sql, link_to, params![to, most])
}

/// Returns links to the page of this very path, by linking page and place in it, at most `most`.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn links_to(db: &Connection, path: &str, most: usize) -> Result<Vec<Row>, Failure> {
    some_links(db, TO_PAGE, path, most)
}

/// Returns where a link of the page `from` to each of the targets leads, by the names as they stand now.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn leads<'t>(
    db: &Connection,
    pages_dir: &str,
    from: &PagePath,
    kind: LinkKind,
    targets: impl IntoIterator<Item = &'t str>,
) -> Result<HashMap<&'t str, Leads>, Failure> {
    stores::graph::leads(db, pages_dir, from, kind, targets).map_err(|e| failed(&e))
}

/// Returns the links that lead to no page, and those that could lead to several, by page and place in it. Links
/// to files that are no pages are not among them.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn broken(db: &Connection) -> Result<Vec<Row>, Failure> {
    rows(
        db,
        "SELECT l.path, p.title, l.kind, l.label, l.anchor, l.target, l.line, l.ambiguous, l.dst, l.ordinal
         FROM graph_links AS l JOIN graph_pages AS p ON p.path = l.path
         WHERE l.leads_to = 'placeholder' OR l.ambiguous <> 0
         ORDER BY l.path, l.ordinal",
        |row| {
            let more = More::Broken {
                target: row.get(5)?,
                line: row.get(6)?,
                ambiguous: row.get(7)?,
                leads_to: row.get(8)?,
            };
            link_row(row, more)
        },
        params![],
    )
}

/// Returns tags of pages, the first ones by their bytes, at most `most`.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn some_tags(db: &Connection, most: usize) -> Result<Vec<String>, Failure> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let sql = "SELECT DISTINCT tag FROM graph_tags ORDER BY tag LIMIT ?1";
    rows(db, sql, |row| row.get(0), [most])
}

/// Returns the pages that no other page links to, by path.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
pub fn orphans(db: &Connection) -> Result<Vec<Row>, Failure> {
    rows(
        db,
        "SELECT path, title FROM orphans_v1 ORDER BY path",
        |row| {
            let (path, title) = (row.get(0)?, row.get(1)?);
            Ok(Row::node(path, title, "page", More::Nothing {}))
        },
        params![],
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Change, Labels, Page, PagePath};
    use crate::state::open_db;
    use crate::stores::Store as _;
    use crate::stores::graph::GraphStore;

    /// A graph of pages, on disk, seen by a second connection as the command line sees it.
    pub(super) fn graph(pages: &[(&str, &str)]) -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wiki.db");
        let changes: Vec<Change> = pages
            .iter()
            .map(|(path, text)| {
                let path = PagePath::parse(path).expect("a page's path");
                Change::Put(Arc::new(Page::new(path, (*text).into(), Labels::default())))
            })
            .collect();
        GraphStore::open(open_db(&path).expect("a database"), "w")
            .apply(&changes, 1)
            .expect("applied");
        let db = open_db(&path).expect("a database");
        (dir, db)
    }

    pub(super) fn paths(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|row| row.path.as_str()).collect()
    }

    #[test]
    fn backlinks_name_each_link_to_a_page_or_to_a_placeholder() {
        let (_dir, mut db) = graph(&[
            ("w/a.md", "# A\n\n[[b#Heading|label]] [again](b.md)\n"),
            ("w/b.md", "# B\n\n![[New Page]]\n"),
            ("w/c.md", "[[new page.md]]\n"),
        ]);
        let links = backlinks(&db, "w", "w/b.md").expect("a page");
        assert_eq!(
            serde_json::to_value(&links).expect("JSON"),
            serde_json::json!([
                {"path": "w/a.md", "title": "A", "kind": "wikilink", "label": "label", "anchor": "Heading",
                 "target": "b", "line": 3},
                {"path": "w/a.md", "title": "A", "kind": "markdown", "label": "again", "anchor": null,
                 "target": "b.md", "line": 3},
            ])
        );
        for name in ["b", "B", "b.md", "/b", "./w/b.md", "w/b"] {
            assert_eq!(backlinks(&db, "w", name).expect(name), links, "{name}");
        }
        let missing = backlinks(&db, "w", "New Page").expect("a placeholder");
        assert_eq!(paths(&missing), ["w/b.md", "w/c.md"]);
        let none = || FindError::None {
            name: "nothing".into(),
            near: Vec::new(),
        };
        assert_eq!(backlinks(&db, "w", "nothing"), Err(none()));
        for (name, all) in [("w/b.md", &links), ("New Page", &missing)] {
            let first = first_backlinks(&mut db, "w", name, 1).expect(name);
            assert_eq!(first, (all[..1].to_vec(), 2), "{name}");
        }
        assert_eq!(first_backlinks(&mut db, "w", "nothing", 1), Err(none()));
    }

    #[test]
    fn a_name_of_several_pages_lists_them_all() {
        let (_dir, db) = graph(&[
            ("w/e/x.md", ""),
            ("w/d/x.md", ""),
            ("w/f/x.md", ""),
            ("w/f/g/x.md", ""),
        ]);
        let candidates = ["w/d/x.md", "w/e/x.md", "w/f/x.md"]
            .map(String::from)
            .to_vec();
        assert_eq!(find_page(&db, "w", "w/f/x.md"), Ok("w/f/x.md".into()));
        assert_eq!(find_page(&db, "w", "g/x"), Ok("w/f/g/x.md".into()));
        let error = find_page(&db, "w", "x").expect_err("several");
        assert_eq!(
            error,
            FindError::Several {
                name: "x".into(),
                candidates
            }
        );
        assert_eq!(
            error.to_string(),
            r#""x" names several pages: w/d/x.md, w/e/x.md, w/f/x.md"#
        );
    }

    #[test]
    fn broken_lists_missing_and_ambiguous_targets_but_no_files() {
        let (_dir, db) = graph(&[
            (
                "w/a.md",
                "[[d]] [[missing]]\n\n[p](p.pdf) ![[i.png]] [[x]]\n",
            ),
            ("w/d.md", "[t](gone.md#h)\n"),
            ("w/1/x.md", ""),
            ("w/2/x.md", ""),
        ]);
        let rows: Vec<_> = broken(&db)
            .expect("readable")
            .into_iter()
            .map(|row| match row.more {
                More::Broken {
                    target,
                    line,
                    ambiguous,
                    leads_to,
                } => (row.path, target, line, ambiguous, leads_to),
                other => panic!("{other:?}"),
            })
            .collect();
        let row = |path: &str, target: &str, line, leads_to: Option<&str>| {
            (
                path.to_owned(),
                target.to_owned(),
                line,
                leads_to.is_some(),
                leads_to.map(String::from),
            )
        };
        assert_eq!(
            rows,
            [
                row("w/a.md", "missing", 1, None),
                row("w/a.md", "x", 3, Some("w/1/x.md")),
                row("w/d.md", "gone.md", 1, None),
            ]
        );
    }

    #[test]
    fn a_page_that_only_links_to_itself_is_an_orphan() {
        let (_dir, db) = graph(&[("w/a.md", "[[b]]"), ("w/b.md", ""), ("w/c.md", "[[c]]")]);
        let rows = orphans(&db).expect("readable");
        assert_eq!(paths(&rows), ["w/a.md", "w/c.md"]);
    }

    #[test]
    fn a_page_is_found_by_an_address_as_it_stands_in_links() {
        let (_dir, db) = graph(&[
            ("w/guides/images.mdx", ""),
            ("w/guides/deploy/index.md", ""),
            ("w/a.md", "[[deploy]]"),
        ]);
        for (name, page) in [
            ("/ko/guides/images/", "w/guides/images.mdx"),
            ("/guides/images/#part", "w/guides/images.mdx"),
            ("guides/im%61ges", "w/guides/images.mdx"),
            ("guides/deploy", "w/guides/deploy/index.md"),
            ("guides/deploy/", "w/guides/deploy/index.md"),
            ("w/guides/deploy", "w/guides/deploy/index.md"),
        ] {
            assert_eq!(find_page(&db, "w", name), Ok(page.into()), "{name}");
            assert_eq!(backlinks(&db, "w", name), Ok(Vec::new()), "{name}");
            assert_eq!(linked_page(&db, "w", name), Ok(Some(page.into())), "{name}");
        }
        // Links of a page that is not there go before a folder of its name.
        assert_eq!(
            paths(&backlinks(&db, "w", "deploy").expect("links")),
            ["w/a.md"]
        );
        assert_eq!(linked_page(&db, "w", "deploy"), Ok(None));
        for name in [
            "/ko/guides/nothing/",
            "https://example.com/guides/images/",
            "/",
            "#x",
        ] {
            assert!(
                matches!(find_page(&db, "w", name), Err(FindError::None { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn nodes_and_edges_are_pages_and_what_they_have_in_common() {
        let (_dir, db) = graph(&[
            (
                "w/a.md",
                "---\ntags: [t]\nsymbol: crate::f\n---\n[[b]] [[New]] [[new]]\n",
            ),
            ("w/b.md", "#t"),
        ]);
        let list = |sql: &str| -> Vec<String> {
            let mut select = db.prepare(sql).expect("a view");
            let rows = select.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<rusqlite::Result<_>>().expect("texts")
        };
        assert_eq!(
            list("SELECT node FROM graph_nodes ORDER BY node"),
            [
                "placeholder:new",
                "symbol:crate::f",
                "tag:t",
                "w/a.md",
                "w/b.md"
            ]
        );
        assert_eq!(
            list("SELECT source || ' ' || target FROM graph_edges ORDER BY 1"),
            [
                "w/a.md placeholder:new",
                "w/a.md placeholder:new",
                "w/a.md symbol:crate::f",
                "w/a.md tag:t",
                "w/a.md w/b.md",
                "w/b.md tag:t"
            ]
        );
    }
}
