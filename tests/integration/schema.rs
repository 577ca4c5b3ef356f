//! `wiki.db` as it is documented for those who open it themselves.

use std::collections::BTreeMap;

use rusqlite::{Connection, OpenFlags};

use crate::wiki::Wiki;

const README: &str = include_str!("../../README.md");

/// The part of the README that is about it.
fn section() -> &'static str {
    let (_, rest) = README.split_once("### The graph in SQLite").unwrap();
    rest.split_once("\n### ").unwrap().0
}

fn wiki() -> Wiki {
    let wiki = Wiki::with(&[
        (
            "wiki-output/a.md",
            "---\ntitle: Alpha\ntags: [queue, t]\naliases: [First]\nowner: me\n---\n[[b#Part|on]] [[New]] [[new]]\n",
        ),
        ("wiki-output/b.md", "# Beta\n\n[[a]] ![p](p.png) #queue\n"),
        ("wiki-output/c.md", "# Gamma\n\n[[b]] [[c]]\n"),
    ]);
    wiki.drain();
    wiki
}

/// Opens it as a reader does who can change nothing.
fn read_only(wiki: &Wiki) -> Connection {
    let path = wiki.root().join(".wiki-sync/wiki.db");
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// Runs a query and returns its rows, with `|` between the columns.
fn ask(db: &Connection, sql: &str) -> Vec<String> {
    let mut select = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = select.column_count();
    let mut rows = select.query([]).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cell = |at| match row.get_ref(at).unwrap() {
            rusqlite::types::ValueRef::Null => String::new(),
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            other => other.as_str().unwrap().to_owned(),
        };
        found.push((0..columns).map(cell).collect::<Vec<_>>().join("|"));
    }
    found
}

#[test]
fn the_views_have_the_columns_that_the_readme_says() {
    let wiki = wiki();
    let db = read_only(&wiki);
    let said: BTreeMap<String, String> = section()
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| {
            let (view, rest) = line.split_once("` | ").unwrap();
            let columns: Vec<_> = rest.split_once(" |").unwrap().0.split(", ").collect();
            (view.to_owned(), columns.join(", ").replace('`', ""))
        })
        .collect();
    let views = ask(
        &db,
        "SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB '*_v[0-9]*' ORDER BY name",
    );
    assert_eq!(said.keys().cloned().collect::<Vec<_>>(), views);
    for (view, columns) in said {
        let found = db.prepare(&format!("SELECT * FROM {view}")).unwrap();
        assert_eq!(
            found.column_names().collect::<Vec<_>>().join(", "),
            columns,
            "{view}"
        );
    }
}

#[test]
fn the_queries_of_the_readme_answer_whoever_opens_the_database_to_read() {
    let wiki = wiki();
    let db = read_only(&wiki);
    let (_, block) = section().split_once("```sql\n").unwrap();
    let queries = block.split_once("\n```").unwrap().0.split(';');
    let queries: Vec<_> = queries.map(str::trim).filter(|q| !q.is_empty()).collect();
    let answers: Vec<Vec<String>> = queries.iter().map(|query| ask(&db, query)).collect();
    assert_eq!(
        answers,
        [
            vec![
                "wiki-output/a.md|7|on".to_owned(),
                "wiki-output/c.md|3|".to_owned()
            ],
            vec!["New|2|wiki-output/a.md".to_owned(),],
            vec!["queue|2".to_owned(), "t|1".to_owned()],
            vec!["wiki-output/c.md|Gamma".to_owned()],
            vec!["wiki-output/a.md|Alpha".to_owned()],
        ],
        "{queries:#?}"
    );
    let refused = db.execute("DELETE FROM graph_pages", []).unwrap_err();
    assert!(refused.to_string().contains("readonly"), "{refused}");
}

#[test]
fn each_kind_of_link_says_where_it_leads() {
    let wiki = wiki();
    let db = read_only(&wiki);
    assert_eq!(
        ask(
            &db,
            "SELECT source, target, leads_to, page, found_by, ambiguous FROM links_v1 ORDER BY source, line, target"
        ),
        [
            "wiki-output/a.md|New|placeholder|||0",
            "wiki-output/a.md|b|page|wiki-output/b.md|folder|0",
            "wiki-output/a.md|new|placeholder|||0",
            "wiki-output/b.md|a|page|wiki-output/a.md|folder|0",
            "wiki-output/b.md|p.png|file|||0",
            "wiki-output/c.md|b|page|wiki-output/b.md|folder|0",
            "wiki-output/c.md|c|page|wiki-output/c.md|folder|0",
        ]
    );
    assert_eq!(
        ask(&db, "SELECT path, alias FROM aliases_v1"),
        ["wiki-output/a.md|First"]
    );
}

#[test]
fn a_reader_in_the_midst_of_his_query_holds_up_no_drain() {
    let wiki = wiki();
    let db = read_only(&wiki);
    let mut select = db
        .prepare("SELECT path FROM pages_v1 ORDER BY path")
        .unwrap();
    let mut rows = select.query([]).unwrap();
    rows.next().unwrap().unwrap();
    wiki.remove("wiki-output/b.md");
    wiki.drain();
    wiki.assert_in_sync();
    // He reads on in what was there when he began.
    let next: String = rows.next().unwrap().unwrap().get(0).unwrap();
    assert_eq!(next, "wiki-output/b.md");
}
