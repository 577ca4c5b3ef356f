//! The shard on disk: whose turn, lost, damaged, opened again.

use std::fs;
use std::time::Instant;

use super::*;

#[test]
fn a_lost_or_emptied_folder_is_another_store_even_while_it_is_open() {
    let root = Place::edge();
    let mut store = store(&root);
    let first = store.identity().expect("identity").id;
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    fs::remove_dir_all(state(&root).vectors()).expect("removed");
    let second = store.identity().expect("identity");
    assert!(second.id != first && second.epoch == 0);
    assert!(store.inventory().expect("inventory").is_empty());
    for entry in fs::read_dir(state(&root).vectors()).expect("a folder") {
        let entry = entry.expect("an entry").path();
        if entry.is_dir() {
            fs::remove_dir_all(entry).expect("removed");
        } else {
            fs::remove_file(entry).expect("removed");
        }
    }
    assert_ne!(store.identity().expect("identity").id, second.id);
}

#[test]
fn the_wikis_id_can_be_read_back_when_the_rest_of_the_state_is_lost() {
    let root = Place::edge();
    store_of(&root, "old").identity().expect("identity");
    put(&mut store(&root), 3, vec![page("w/a.md", "x")]);
    let adopted = adopted_wiki_id(&settings(""), &state(&root)).expect("asked");
    assert_eq!(adopted.as_deref(), Some("wiki-1"));
}

#[test]
fn a_damaged_shard_is_refused_with_the_way_out_and_never_deleted() {
    let root = Place::edge();
    put(&mut store(&root), 1, vec![page("w/a.md", "x")]);
    let segments = state(&root).vectors().join("segments");
    let mut damaged = 0;
    for entry in fs::read_dir(&segments).expect("segments") {
        let file = entry.expect("a segment").path().join("segment.json");
        fs::write(file, "{").expect("damaged");
        damaged += 1;
    }
    assert!(damaged > 0);
    let mut store = store(&root);
    let change = [Change::Put(Arc::new(page("w/a.md", "y")))];
    let failure = store.apply(&change, 2).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    let hint = failure.hint.expect("a hint");
    assert!(hint.contains("rebuild vectors") && hint.contains("away"));
    assert_eq!(
        store.inventory().expect_err("refused").kind,
        FailureKind::Refused
    );
    assert!(segments.exists());
}

#[test]
fn a_reader_waits_for_its_turn_only_so_long() {
    let root = Place::edge();
    let mut drain = store(&root);
    put(&mut drain, 1, vec![page("w/a.md", "x")]);
    let hasty = VectorSettings {
        wait: Duration::from_millis(60),
        ..settings("wiki-1")
    };
    let mut reader = VectorStore::open(hasty, &state(&root), None).expect("a store");
    let failure = reader.search("x", 1).expect_err("busy");
    assert_eq!(failure.kind, FailureKind::Busy);
    assert!(
        failure.reason.contains(&std::process::id().to_string()),
        "{failure}"
    );
    drop(drain);
    assert_eq!(reader.search("x", 1).expect("searched").len(), 1);
}

#[test]
fn the_drain_gives_way_between_batches_and_goes_on_after() {
    let root = Place::edge();
    let mut drain = store(&root);
    put(&mut drain, 1, vec![page("w/a.md", "x")]);
    drain.yield_turn();
    let reader_state = state(&root);
    let reader = std::thread::spawn(move || {
        let mut reader =
            VectorStore::open(settings("wiki-1"), &reader_state, None).expect("a store");
        reader.search("x", 1).expect("searched").len()
    });
    let end = Instant::now() + Duration::from_secs(20);
    let mut epoch = 1;
    while !reader.is_finished() && Instant::now() < end {
        epoch += 1;
        put(
            &mut drain,
            epoch,
            vec![page("w/a.md", &format!("x {epoch}"))],
        );
        drain.yield_turn();
    }
    assert_eq!(reader.join().expect("answered"), 1);
    assert_eq!(drain.identity().expect("identity").epoch, epoch);
}

#[test]
fn a_lock_file_left_by_the_dead_is_in_nobodys_way() {
    let root = Place::edge();
    state(&root).create().expect("created");
    fs::write(state(&root).path().join("vectors.lock"), "999999\n").expect("written");
    assert_eq!(put(&mut store(&root), 1, vec![page("w/a.md", "x")]), [true]);
}

#[test]
fn the_wal_keeps_one_closed_file_over_an_opening_and_no_later_write_is_lost() {
    let root = Place::edge();
    let wal = state(&root).vectors().join("wal");
    let closed = || {
        let names = fs::read_dir(&wal).expect("a folder");
        let closed = |name: &str| name.starts_with("closed-");
        names
            .filter(|entry| {
                closed(
                    &entry
                        .as_ref()
                        .expect("an entry")
                        .file_name()
                        .to_string_lossy(),
                )
            })
            .count()
    };
    let mut store = store(&root);
    store.engine.ready(true).expect("ready");
    // Each operation is larger than a file of the WAL.
    let large = |n: usize| Point {
        payload: serde_json::Map::from_iter([(
            "text".to_owned(),
            Value::from("x".repeat(1 << 20)),
        )]),
        ..Meta {
            wiki: format!("large-{n}"),
            ..Meta::default()
        }
        .to_point("")
    };
    for round in 0..4 {
        let points = (0..5).map(|n| large(round * 5 + n)).collect();
        store.engine.upsert(points).expect("written");
    }
    put(&mut store, 0, vec![page("w/a.md", "oldest")]);
    drop(store);
    assert!(closed() >= 3, "or the test shows nothing");
    let mut store = self::store(&root);
    put(&mut store, 1, vec![page("w/a.md", "old")]);
    // The one that is kept, and the one that was full and was closed since.
    assert!(closed() <= 2, "{}", closed());
    put(&mut store, 2, vec![page("w/a.md", "new")]);
    drop(store);
    assert_holds(&mut self::store(&root), &[page("w/a.md", "new")]);
}

#[test]
fn a_shard_that_ignores_writes_is_refused_instead_of_believed() {
    let root = Place::edge();
    let mut first = store(&root);
    for epoch in 1..=3 {
        put(
            &mut first,
            epoch,
            vec![page("w/a.md", &format!("text {epoch}"))],
        );
    }
    drop(first);
    let wal = state(&root).vectors().join("wal");
    for entry in fs::read_dir(&wal).expect("a folder") {
        fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    let change = [Change::Put(Arc::new(page("w/a.md", "text 4")))];
    let failure = store(&root).apply(&change, 4).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
}
