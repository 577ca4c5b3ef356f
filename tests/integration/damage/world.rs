//! All that there is of each page, anywhere: so that "nothing else changed" is a comparison.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::types::Value;

use super::hands::Shard;
use crate::wiki::Wiki;

/// By place and page.
pub(super) type World = BTreeMap<(&'static str, String), Vec<String>>;

/// The tables, each with the columns that say something: not when it was, nor of which batch.
const TABLES: [(&str, &str); 7] = [
    ("graph_pages", "*"),
    ("graph_names", "*"),
    ("graph_tags", "*"),
    ("graph_links", "*"),
    ("graph_link_keys", "*"),
    ("receipts", "*"),
    ("files", "path, size, sha"),
];

pub(super) fn look(wiki: &Wiki) -> World {
    let mut world = World::new();
    let mut put = |place, page: &str, text: String| {
        let all = world.entry((place, page.to_owned())).or_default();
        all.push(text);
        all.sort_unstable();
    };
    let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync/wiki.db")).unwrap();
    for (table, columns) in TABLES {
        let mut select = db
            .prepare(&format!("SELECT path, {columns} FROM {table}"))
            .unwrap();
        let count = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<Value> = (1..count).map(|at| row.get(at).unwrap()).collect();
            put(
                table,
                &row.get::<_, String>(0).unwrap(),
                format!("{values:?}"),
            );
        }
    }
    for point in Shard::open(wiki).points() {
        if point.payload.contains_key("kind") {
            continue;
        }
        let page = point.payload["path"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let text = format!("{:?} {:?} {:?}", point.id, point.payload, point.words);
        put("points", &page, text);
    }
    for (place, args) in [
        ("HEAD", &["ls-tree", "-r", "HEAD", "wiki-output"]),
        ("index", &["ls-files", "-s", "--", "wiki-output"]),
    ] {
        for line in wiki.git(args).lines() {
            let (what, page) = line.split_once('\t').unwrap();
            put(place, page, what.to_owned());
            if place == "HEAD" {
                let text = fs::read_to_string(wiki.root().join(page)).unwrap_or_default();
                put("disk", page, text);
            }
        }
    }
    world
}

/// Names what differs between two worlds, some pages left out.
pub(super) fn differences(before: &World, after: &World, but: &[&str]) -> Vec<String> {
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    all.into_iter()
        .filter(|key| !but.contains(&key.1.as_str()) && before.get(*key) != after.get(*key))
        .map(|key| format!("{key:?}: {:?} became {:?}", before.get(key), after.get(key)))
        .collect()
}
