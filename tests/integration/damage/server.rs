//! The same on a Qdrant server: its points and its collection, and those of another wiki beside them.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use wiki_sync::testing::qdrant_server::QdrantServer;

use super::hands::{GHOST, Shard, Stored, some_id};
use super::{STILL, small_on};
use crate::wiki::Wiki;

/// What is done to a point, or with a copy of it.
type Hurt = fn(&Shard, Stored);

fn on(server: &QdrantServer) -> Wiki {
    let variables = [
        ("WIKI_SYNC_VECTORS_URL", server.url()),
        ("WIKI_SYNC_RETRY_PROBES", "0.2, 0.2, 0.2".into()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    small_on(variables.into())
}

/// Opens the collection beside the server, which is down meanwhile.
fn beside<T>(server: &mut QdrantServer, work: impl FnOnce(&Shard) -> T) -> T {
    server.down();
    let done = work(&Shard::at(&server.collections().join("wiki-sync-v1/shard")));
    server.up();
    done
}

/// All points but the metas, whose epochs rise.
fn points(server: &mut QdrantServer) -> BTreeMap<String, String> {
    let points = beside(server, Shard::points).into_iter();
    points
        .filter(|point| !point.payload.contains_key("kind"))
        .map(|point| {
            let mut words = point.words;
            words.sort_unstable_by_key(|&(index, _)| index);
            {
                // A server keeps fields in an order of its own.
                let fields: BTreeMap<_, _> = point.payload.into_iter().collect();
                (format!("{:?}", point.id), format!("{fields:?} {words:?}"))
            }
        })
        .collect()
}

fn ours(shard: &Shard, wiki: &Value) -> Stored {
    let mut points = shard.points().into_iter();
    points
        .find(|point| {
            point.payload.get("path") == Some(&json!(STILL)) && point.payload["wiki"] == *wiki
        })
        .unwrap()
}

#[test]
fn damage_to_the_points_of_a_server_is_named_exactly_and_healed_and_another_wiki_keeps_its_own() {
    let mut server = QdrantServer::start();
    let wiki = on(&server);
    // The same pages in another checkout, in the same collection.
    let other = on(&server);
    let found = wiki.json(0, &["search", "Delta"]);
    let id = found[0]["point_id"].as_str().unwrap().to_owned();
    let mine = beside(&mut server, |shard| {
        let mut points = shard.points().into_iter();
        let mine = points.find(|point| format!("{:?}", point.id).contains(&id));
        mine.unwrap().payload["wiki"].clone()
    });
    let damages: [(&str, Hurt, &str, &str); 5] = [
        (
            "missing",
            |shard, point| shard.delete(point.id),
            STILL,
            "stale",
        ),
        (
            "altered",
            |shard, mut point| {
                point.payload.insert("page_sha".into(), json!("0"));
                shard.put(&point);
            },
            STILL,
            "stale",
        ),
        (
            "extra",
            |shard, point| {
                shard.put(&Stored {
                    id: some_id(),
                    ..point
                });
            },
            STILL,
            "stale",
        ),
        // Points with a number for an id are Edge's cell: this server knows none.
        (
            "extra, of no page",
            |shard, mut point| {
                point.payload.insert("path".into(), json!(GHOST));
                shard.put(&Stored {
                    id: some_id(),
                    ..point
                });
            },
            GHOST,
            "orphan",
        ),
        (
            "extra, without a path",
            |shard, mut point| {
                point.payload.remove("path");
                shard.put(&Stored {
                    id: some_id(),
                    ..point
                });
            },
            "",
            "orphan",
        ),
    ];
    for (name, hurt, path, kind) in damages {
        let before = points(&mut server);
        beside(&mut server, |shard| hurt(shard, ours(shard, &mine)));
        let report = wiki.json(3, &["verify", "--repair"]);
        let drift = json!([{"path": path, "store": "vectors", "kind": kind}]);
        assert_eq!(report["drift"], drift, "{name}");
        wiki.json(0, &["drain", "--no-scan"]);
        wiki.assert_in_sync();
        other.assert_in_sync();
        assert_eq!(points(&mut server), before, "{name}");
    }
    server.down();
    fs::remove_dir_all(server.collections().join("wiki-sync-v1")).unwrap();
    server.up();
    for wiki in [wiki, other] {
        let report = wiki.json(3, &["verify", "--repair"]);
        assert_eq!(report["repaired"], 5, "{report}");
        wiki.json(0, &["drain", "--no-scan"]);
        wiki.assert_in_sync();
    }
}
