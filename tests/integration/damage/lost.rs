//! Damage behind our back: verify names it exactly, repair and a drain heal it, and nothing else changes.

use serde_json::Value;

use crate::wiki::Wiki;

fn sqlite(wiki: &Wiki, sql: &str) {
    let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync/wiki.db")).unwrap();
    db.execute_batch(sql).unwrap();
}

/// Each damage with the drift that verify must name, all in the store's own terms.
#[test]
fn damage_to_the_graph_is_named_exactly_and_healed() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        (
            "DELETE FROM graph_pages WHERE path = 'wiki-output/b.md'",
            &[("wiki-output/b.md", "stale")],
        ),
        (
            "UPDATE graph_pages SET title = 'Wrong' WHERE path = 'wiki-output/b.md'",
            &[("wiki-output/b.md", "stale")],
        ),
        (
            "DELETE FROM graph_links WHERE path = 'wiki-output/b.md'",
            &[("wiki-output/b.md", "stale")],
        ),
        (
            "UPDATE graph_links SET dst = 'wiki-output/sub/c.md' WHERE path = 'wiki-output/b.md'",
            &[("wiki-output/b.md", "stale")],
        ),
    ];
    for (sql, expected) in cases {
        let wiki = Wiki::small();
        wiki.drain();
        let head = wiki.git(&["rev-parse", "HEAD"]);
        sqlite(&wiki, sql);
        let verify = wiki.json(3, &["verify"]);
        let drift = verify["drift"].as_array().unwrap();
        for (path, kind) in *expected {
            assert!(
                drift.iter().any(|one| one["path"] == *path
                    && one["kind"] == *kind
                    && one["store"] == "graph"),
                "{sql}: {verify}"
            );
        }
        assert!(
            drift.iter().all(|one| one["store"] == "graph"),
            "{sql}: {verify}"
        );
        let repaired = wiki.json(3, &["verify", "--repair"]);
        assert!(
            repaired["repaired"].as_u64() >= Some(1),
            "{sql}: {repaired}"
        );
        let drained: Value = wiki.drain();
        assert_eq!(drained["commit"], Value::Null, "{sql}: {drained}");
        wiki.assert_in_sync();
        assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head, "{sql}");
    }
}

#[test]
fn receipts_that_are_lost_cost_work_and_no_truth() {
    for sql in [
        "DELETE FROM receipts",
        "DELETE FROM files",
        "UPDATE receipts SET sha = NULL",
        "DELETE FROM store_epochs",
    ] {
        let wiki = Wiki::small();
        wiki.drain();
        sqlite(&wiki, sql);
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn a_page_committed_away_behind_our_back_is_named_and_healed() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["rm", "-q", "--cached", "wiki-output/b.md"]);
    wiki.git(&["commit", "-qm", "no longer tracked"]);
    let verify = wiki.json(3, &["verify"]);
    assert_eq!(
        verify["drift"],
        serde_json::json!([{"path": "wiki-output/b.md", "store": "git", "kind": "missing"}])
    );
    wiki.drain();
    wiki.assert_in_sync();
}
