//! Every command that lists pages speaks JSON and lists them in one order: the same on each run, and whatever the order
//! in which the pages came.

use serde_json::Value;

use crate::wiki::Wiki;

const NAMES: [&str; 9] = [
    "z", "sub.x", "sub/a", "sub-y", "k", "한글", "b", "a", "Sub/a",
];

/// A wiki with something of everything to list: links, conflicts, twins, bad pages, files that are none. The pages come in
/// this order or in the opposite one.
fn wiki(is_turned: bool) -> Wiki {
    let wiki = Wiki::with(&[]);
    let mut names = NAMES.to_vec();
    if is_turned {
        names.reverse();
    }
    for name in names {
        let text = "# Twin\n\nsame words [[a]] [[none]] [[b]] #t\n";
        wiki.write(&format!("wiki-output/{name}.md"), text);
        wiki.write(&format!("wiki-output/{name}.bad.md"), b"\xff\n");
        let link = wiki.root().join(format!("wiki-output/{name}.link.md"));
        std::os::unix::fs::symlink("nowhere", link).unwrap();
        if is_turned {
            wiki.ws(&["enqueue", &format!("wiki-output/{name}.md")])
                .code(0);
        }
    }
    wiki
}

/// Every command that only looks, with how it ends.
const LOOKS: &[(i32, &[&str])] = &[
    (0, &["status"]),
    (3, &["verify"]),
    (0, &["dlq", "list"]),
    (0, &["search", "same words"]),
    (0, &["search", "same", "--limit", "4"]),
    (0, &["graph", "backlinks", "wiki-output/a.md"]),
    (
        0,
        &[
            "graph",
            "neighbors",
            "wiki-output/a.md",
            "--depth",
            "3",
            "--tags",
        ],
    ),
    (
        0,
        &["graph", "path", "wiki-output/z.md", "wiki-output/b.md"],
    ),
    (0, &["graph", "hubs"]),
    (0, &["graph", "components"]),
    (0, &["graph", "export"]),
    (0, &["graph", "broken"]),
    (0, &["graph", "orphans"]),
    (0, &["graph", "conflicts"]),
    (
        0,
        &["mv", "wiki-output/a.md", "wiki-output/q.md", "--dry-run"],
    ),
    (0, &["hooks", "status"]),
    (0, &["hooks", "install", "--dry-run"]),
    (0, &["config"]),
];

/// The values of `path` in the order in which they stand.
fn paths(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Array(list) => list.iter().for_each(|part| paths(part, found)),
        Value::Object(parts) => {
            if let Some(Value::String(path)) = parts.get("path") {
                found.push(path.clone());
            }
            parts.values().for_each(|part| paths(part, found));
        }
        _ => {}
    }
}

fn paths_of(of: &Value) -> Vec<String> {
    let mut found = Vec::new();
    paths(of, &mut found);
    found
}

#[test]
fn every_list_stands_in_the_same_order_on_each_run_and_however_the_pages_came() {
    let wikis = [wiki(false), wiki(true)];
    let drained = wikis.each_ref().map(|wiki| wiki.json(3, &["drain"]));
    assert_eq!(drained[0]["skipped"], drained[1]["skipped"]);
    let skipped = paths_of(&drained[0]["skipped"]);
    assert_eq!(skipped.len(), NAMES.len());
    assert!(skipped.is_sorted(), "{skipped:?}");
    assert!(paths_of(&drained[0]["trouble"]).is_sorted(), "{drained:?}");
    // Something for verify to name.
    for wiki in &wikis {
        let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync/wiki.db")).unwrap();
        db.execute_batch(
            "DELETE FROM graph_tags; INSERT INTO graph_pages VALUES
                ('wiki-output/y.md', 'y', 'y', '', NULL, '{}', ''), ('wiki-output/c.md', 'c', 'c', '', NULL, '{}', '')",
        )
        .unwrap();
    }
    for (code, args) in LOOKS {
        let said = wikis.each_ref().map(|wiki| {
            let mut args = args.to_vec();
            args.push("--json");
            let runs = [(); 2].map(|()| wiki.ws(&args).code(*code).out);
            assert_eq!(runs[0], runs[1], "{args:?}: on each run");
            serde_json::from_str::<Value>(&runs[0]).unwrap()
        });
        let [one, other] = said.each_ref().map(paths_of);
        assert_eq!(one, other, "{args:?}: however the pages came");
        // What has no order of its own is in that of the paths.
        for list in ["drift", "skipped", "held", "unread"] {
            let listed = paths_of(&said[0][list]);
            assert!(listed.is_sorted(), "{args:?} {list}: {listed:?}");
        }
        if matches!(args, ["graph", "broken" | "orphans" | "backlinks", ..]) {
            assert!(one.is_sorted() && !one.is_empty(), "{args:?}: {one:?}");
        }
    }
    let drift = wikis[0].json(3, &["verify"]);
    assert_eq!(drift["drift"].as_array().unwrap().len(), NAMES.len() + 2);
    // Equal ranks stand by their paths.
    let hits = paths_of(&wikis[0].json(0, &["search", "same words"]));
    assert!(hits.is_sorted() && hits.len() == NAMES.len(), "{hits:?}");
}

#[test]
fn what_is_held_and_what_is_dead_is_listed_oldest_first() {
    let server = wiki_sync::testing::RedisServer::start();
    for is_redis in [false, true] {
        let mut wiki = Wiki::small();
        if is_redis {
            wiki = crate::redis::on_redis(&server, wiki);
        }
        wiki.drain();
        // Staged otherwise than on disk, each page waits for the user.
        let order = ["sub/c", "a", "b"].map(|name| format!("wiki-output/{name}.md"));
        for path in &order {
            wiki.write(path, "# Staged\n");
            wiki.git(&["add", path]);
            wiki.write(path, "# Later\n");
            wiki.ws(&["enqueue", path]).code(0);
        }
        wiki.json(75, &["drain", "--no-scan", "--no-wait"]);
        let status = [(); 2].map(|()| wiki.json(0, &["status"]));
        assert_eq!(paths_of(&status[0]["held"]), order);
        assert_eq!(status[0], status[1], "also in what times it tells");
        for path in &order {
            wiki.write(path, b"\xff\n");
            wiki.ws(&["enqueue", path]).code(0);
            wiki.json(3, &["drain", "--no-scan", "--no-wait"]);
        }
        assert_eq!(paths_of(&wiki.json(0, &["dlq", "list"])), order);
    }
}
