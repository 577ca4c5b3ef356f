mod damage;
mod links;
mod order;

use std::sync::Arc;

use rusqlite::types::Value;

use super::*;
use crate::model::{Labels, PagePath};
use crate::state::open_db;

const DIR: &str = "wiki-output";

fn store() -> (tempfile::TempDir, GraphStore) {
    let dir = tempfile::tempdir().expect("a folder");
    let db = open_db(&dir.path().join("wiki.db")).expect("a database");
    (dir, GraphStore::open(db, DIR))
}

/// A store in memory, for the tests that open many.
fn memory_store() -> GraphStore {
    GraphStore::open(
        open_db(std::path::Path::new(":memory:")).expect("a database"),
        DIR,
    )
}

fn page(path: &str, text: &str) -> Arc<Page> {
    let path = PagePath::parse(&format!("{DIR}/{path}")).expect("a page's path");
    Arc::new(Page::new(path, text.into(), Labels::default()))
}

fn put(path: &str, text: &str) -> Change {
    Change::Put(page(path, text))
}

fn remove(path: &str) -> Change {
    Change::Remove(PagePath::parse(&format!("{DIR}/{path}")).expect("a page's path"))
}

fn apply(store: &mut GraphStore, changes: &[Change]) -> Vec<bool> {
    store
        .apply(changes, 1)
        .expect("the store is there")
        .into_iter()
        .map(|outcome| outcome.expect("the graph rejects no page").changed)
        .collect()
}

/// Every row of every table, so that nothing can differ unseen.
fn dump(store: &GraphStore) -> Vec<String> {
    let mut lines = Vec::new();
    for table in [
        "graph_pages",
        "graph_names",
        "graph_tags",
        "graph_links",
        "graph_link_keys",
    ] {
        let mut select = store
            .db
            .prepare(&format!("SELECT * FROM {table}"))
            .expect("a table");
        let columns = select.column_count();
        let rows = select
            .query_map([], |row| {
                let values: Vec<Value> = (0..columns)
                    .map(|i| row.get(i))
                    .collect::<rusqlite::Result<_>>()?;
                Ok(format!("{table} {values:?}"))
            })
            .expect("rows");
        lines.extend(rows.map(|row| row.expect("a row")));
    }
    lines.sort();
    lines
}

/// The links of a page as `target → page (how)`, in order.
fn links_of(store: &GraphStore, path: &str) -> Vec<String> {
    let mut select = store
        .db
        .prepare(
            "SELECT target || ' → ' || coalesce(replace(dst, 'wiki-output/', '') || ' (' || how || ')', leads_to)
                 || iif(ambiguous, ' ambiguous', '')
             FROM graph_links WHERE path = ? ORDER BY ordinal",
        )
        .expect("the table");
    select
        .query_map([format!("{DIR}/{path}")], |row| row.get(0))
        .expect("rows")
        .collect::<rusqlite::Result<_>>()
        .expect("texts")
}

fn inventory(store: &mut GraphStore) -> Vec<(String, String)> {
    let held = store.inventory().expect("readable");
    assert!(held.is_sorted_by(|a, b| a.path < b.path));
    held.into_iter()
        .map(|page| (page.path, page.digest))
        .collect()
}

fn expected(store: &mut GraphStore, pages: &[Arc<Page>]) -> Vec<(String, String)> {
    let mut expected: Vec<_> = pages
        .iter()
        .map(|page| {
            let digest = store.expected(page).expect("derivable").expect("held");
            (page.path.to_string(), digest)
        })
        .collect();
    expected.sort();
    expected
}

#[test]
fn the_second_of_two_equal_calls_changes_nothing() {
    let (_dir, mut store) = store();
    let changes = [
        put("a.md", "# A\n[[b]] #tag"),
        put("b.md", "---\naliases: [c]\nsymbol: s\n---\n[[a]]"),
    ];
    assert_eq!(apply(&mut store, &changes), [true, true]);
    let before = dump(&store);
    assert_eq!(apply(&mut store, &changes), [false, false]);
    assert_eq!(apply(&mut store, &[remove("z.md")]), [false]);
    assert_eq!(dump(&store), before);
    assert_eq!(apply(&mut store, &[remove("a.md")]), [true]);
    assert_eq!(
        apply(&mut store, &[remove("a.md"), remove("b.md")]),
        [false, true]
    );
    assert!(dump(&store).is_empty());
}

#[test]
fn identity_stays_and_the_epoch_moves_with_the_batch() {
    let (dir, mut store) = store();
    let first = store.identity().expect("an identity");
    assert_eq!(first.epoch, 0);
    store.apply(&[put("a.md", "")], 7).expect("applied");
    drop(store);
    let db = open_db(&dir.path().join("wiki.db")).expect("a database");
    let again = GraphStore::open(db, DIR).identity().expect("an identity");
    assert_eq!((again.id, again.epoch), (first.id.clone(), 7));
    let other = memory_store().identity().expect("an identity");
    assert_ne!(other.id, first.id);
}

#[test]
fn an_edit_writes_as_much_in_a_large_wiki_as_in_a_small_one() {
    let writes = |pages: usize| {
        let mut store = memory_store();
        let others: Vec<Change> = (0..pages)
            .map(|i| {
                put(
                    &format!("d{i}/index.md"),
                    &format!("[t](../d{}/) [[x{i}]]", i + 1),
                )
            })
            .collect();
        apply(&mut store, &others);
        let before = store.db.total_changes();
        apply(
            &mut store,
            &[put("d3/index.md", "# New\n[t](../d4/) [[x3]] [[x4]]")],
        );
        apply(&mut store, &[put("d3/new.md", "[t](../d4/)")]);
        apply(&mut store, &[remove("d3/new.md")]);
        store.db.total_changes() - before
    };
    assert_eq!(writes(10), writes(300));
}

#[test]
fn a_statement_is_planned_once_and_not_at_each_binding() {
    let mut store = memory_store();
    let pages: Vec<Change> = (0..9)
        .map(|i| put(&format!("p{i}.md"), &format!("[[p{}]]", i + 1)))
        .collect();
    apply(&mut store, &pages);
    let sql = "SELECT path, ordinal FROM graph_link_keys WHERE key = ?";
    for sql in [sql, resolve::NEXT_SPELLING] {
        let select = store.db.prepare_cached(sql).expect("a statement");
        assert!(
            select.get_status(rusqlite::StatementStatus::Run) > 9,
            "{sql}"
        );
        assert_eq!(
            select.get_status(rusqlite::StatementStatus::RePrepare),
            0,
            "{sql}"
        );
    }
}
