//! Everything here runs on a real Edge shard in a temporary folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::engine::Engine;
use super::*;
use crate::model::{Labels, PagePath};

const LABELS: [&str; 2] = ["", ""];

fn state(root: &TempDir) -> StateDir {
    StateDir::of(root.path())
}

fn settings(wiki: &str) -> VectorSettings {
    VectorSettings {
        wait: Duration::from_secs(20),
        ..VectorSettings::embedded(wiki, "demo")
    }
}

fn store(root: &TempDir) -> VectorStore {
    store_of(root, "wiki-1")
}

fn store_of(root: &TempDir, wiki: &str) -> VectorStore {
    VectorStore::open(settings(wiki), &state(root)).expect("a store")
}

fn path(text: &str) -> PagePath {
    PagePath::parse(text).expect("a path")
}

fn page(at: &str, text: &str) -> Page {
    labelled(at, text, LABELS)
}

fn labelled(at: &str, text: &str, [repo, commit]: [&str; 2]) -> Page {
    let labels = Labels {
        repo: repo.into(),
        commit_sha: commit.into(),
    };
    Page::new(path(at), text.into(), labels)
}

fn put(store: &mut VectorStore, epoch: i64, pages: Vec<Page>) -> Vec<bool> {
    let changes: Vec<_> = pages
        .into_iter()
        .map(|p| Change::Put(Arc::new(p)))
        .collect();
    apply(store, epoch, &changes)
}

fn apply(store: &mut VectorStore, epoch: i64, changes: &[Change]) -> Vec<bool> {
    let outcomes = store.apply(changes, epoch).expect("applied");
    outcomes
        .into_iter()
        .map(|outcome| outcome.expect("page applied").changed)
        .collect()
}

/// Something that happens to a point behind our back.
type Damage = fn(&mut Point);

/// A page with so many sections, each saying `word`.
fn sections(count: usize, word: &str) -> String {
    (0..count).fold(String::new(), |text, n| {
        text + &format!("# Part {n}\n\n{word} number{n}\n\n")
    })
}

/// All points of the store's wiki, by path.
fn points(store: &mut VectorStore) -> BTreeMap<String, Vec<Point>> {
    let mut all = BTreeMap::<String, Vec<Point>>::new();
    let wiki = store.settings.wiki_id.clone();
    if store.engine.ready(false).expect("ready") {
        store
            .engine
            .scroll(&wiki, &mut |point| {
                all.entry(point.text("path").into())
                    .or_default()
                    .push(point);
            })
            .expect("scrolled");
    }
    all
}

fn count(store: &mut VectorStore, path: &str) -> usize {
    points(store).get(path).map_or(0, Vec::len)
}

fn assert_holds(store: &mut VectorStore, pages: &[Page]) {
    let mut expected: Vec<Holding> = pages
        .iter()
        .map(|page| Holding {
            path: page.path.as_str().into(),
            digest: store.expected(page).expect("derived").expect("held"),
        })
        .collect();
    expected.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(store.inventory().expect("inventory"), expected);
}

#[test]
fn three_edits_of_a_page_leave_as_many_points_as_sections() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    for (epoch, word) in (1..).zip(["one", "two", "three"]) {
        assert_eq!(
            put(&mut store, epoch, vec![page("w/a.md", &sections(3, word))]),
            [true]
        );
    }
    assert_eq!(count(&mut store, "w/a.md"), 3);
    assert_holds(&mut store, &[page("w/a.md", &sections(3, "three"))]);
    assert!(store.search("two", 5).expect("searched").is_empty());
}

#[test]
fn a_page_that_loses_a_section_loses_its_point() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    put(
        &mut store,
        1,
        vec![
            page("w/a.md", &sections(3, "x")),
            page("w/b.md", &sections(3, "x")),
        ],
    );
    put(&mut store, 2, vec![page("w/a.md", &sections(2, "x"))]);
    assert_eq!(
        (count(&mut store, "w/a.md"), count(&mut store, "w/b.md")),
        (2, 3)
    );
}

#[test]
fn a_removed_page_leaves_no_point_and_removing_it_again_changes_nothing() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    put(
        &mut store,
        1,
        vec![page("w/a.md", &sections(3, "x")), page("w/b.md", "kept")],
    );
    let remove = [
        Change::Remove(path("w/a.md")),
        Change::Remove(path("w/never.md")),
    ];
    assert_eq!(apply(&mut store, 2, &remove), [true, false]);
    assert_eq!(apply(&mut store, 3, &remove), [false, false]);
    assert_holds(&mut store, &[page("w/b.md", "kept")]);
}

#[test]
fn a_page_that_is_held_already_is_not_written_again() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let text = sections(3, "x");
    assert_eq!(put(&mut store, 1, vec![page("w/a.md", &text)]), [true]);
    let again = vec![page("w/a.md", &text), page("w/b.md", "new")];
    assert_eq!(put(&mut store, 2, again), [false, true]);
}

#[test]
fn changed_labels_give_the_points_new_keys_and_leave_none_behind() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let text = sections(2, "x");
    put(&mut store, 1, vec![labelled("w/a.md", &text, ["r", "c1"])]);
    let before = points(&mut store).remove("w/a.md").expect("held");
    assert_eq!(
        put(&mut store, 2, vec![labelled("w/a.md", &text, ["r", "c2"])]),
        [true]
    );
    let after = points(&mut store).remove("w/a.md").expect("held");
    assert_eq!(after.len(), 2);
    for point in &after {
        assert_eq!(point.text("point_key"), "r@c2::md::w/a");
        assert!(
            before.iter().all(|old| old.id != point.id),
            "a new key is a new id"
        );
    }
}

#[test]
fn labels_come_from_front_matter_then_from_the_job_then_from_the_defaults() {
    let root = TempDir::new().expect("a folder");
    let store = store(&root);
    let none = "0".repeat(40);
    for (text, labels, expected) in [
        ("x", ["", ""], format!("demo@{none}::md::w/a.b")),
        ("x", ["r", "c"], "r@c::md::w/a.b".into()),
        ("x", ["r", ""], format!("r@{none}::md::w/a.b")),
        (
            "---\nrepo: R\ncommit: C\nlang: rust\nsymbol: m::f\n---\nx",
            ["r", "c"],
            "R@C::rust::m::f".into(),
        ),
        ("---\nlang: py\n---\nx", ["r", "c"], "r@c::py::w/a.b".into()),
    ] {
        let points = store.points_of(&labelled("w/a.b.md", text, labels));
        assert_eq!(points[0].text("point_key"), expected, "{text:?} {labels:?}");
    }
}

#[test]
fn two_pages_with_the_same_labels_do_not_take_each_others_points() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let same = "---\nrepo: R\ncommit: C\nsymbol: f\n---\n";
    let pages = || ["w/a.md", "w/b.md"].map(|at| page(at, &format!("{same}text of {at}")));
    put(&mut store, 1, pages().into());
    assert_holds(&mut store, &pages());
    apply(&mut store, 2, &[Change::Remove(path("w/a.md"))]);
    assert_eq!(count(&mut store, "w/b.md"), 1);
}

#[test]
fn points_of_another_wiki_in_the_same_place_are_left_alone_and_not_found() {
    let root = TempDir::new().expect("a folder");
    let mut other = store_of(&root, "wiki-2");
    put(&mut other, 7, vec![page("w/a.md", &sections(3, "alien"))]);
    drop(other);
    let mut ours = store(&root);
    put(&mut ours, 1, vec![page("w/a.md", &sections(2, "ours"))]);
    assert_eq!(count(&mut ours, "w/a.md"), 2);
    apply(&mut ours, 2, &[Change::Remove(path("w/a.md"))]);
    assert!(ours.inventory().expect("inventory").is_empty());
    assert!(ours.search("alien", 5).expect("searched").is_empty());
    drop(ours);
    let mut other = store_of(&root, "wiki-2");
    assert_eq!(other.identity().expect("identity").epoch, 7);
    assert_holds(&mut other, &[page("w/a.md", &sections(3, "alien"))]);
}

#[test]
fn a_store_opened_again_holds_the_same_points_and_identity() {
    let root = TempDir::new().expect("a folder");
    let text = sections(4, "x");
    let mut first = store(&root);
    let id = first.identity().expect("identity").id;
    put(&mut first, 41, vec![page("w/a.md", &text)]);
    let before = points(&mut first);
    drop(first);
    let mut again = store(&root);
    assert_eq!(
        again.identity().expect("identity"),
        Identity { id, epoch: 41 }
    );
    assert_eq!(points(&mut again), before);
    assert_eq!(put(&mut again, 42, vec![page("w/a.md", &text)]), [false]);
}

#[test]
fn a_lost_or_emptied_folder_is_another_store_even_while_it_is_open() {
    let root = TempDir::new().expect("a folder");
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
fn asking_what_is_held_and_searching_create_nothing() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    assert!(store.inventory().expect("inventory").is_empty());
    assert!(store.search("x", 5).expect("searched").is_empty());
    let adopted = adopted_wiki_id(EDGE_URL, &state(&root), Duration::ZERO).expect("asked");
    assert_eq!(adopted, None);
    assert!(!state(&root).path().exists());
}

#[test]
fn the_wikis_id_can_be_read_back_when_the_rest_of_the_state_is_lost() {
    let root = TempDir::new().expect("a folder");
    store_of(&root, "old").identity().expect("identity");
    put(&mut store(&root), 3, vec![page("w/a.md", "x")]);
    let adopted = adopted_wiki_id(EDGE_URL, &state(&root), Duration::from_secs(5)).expect("asked");
    assert_eq!(adopted.as_deref(), Some("wiki-1"));
}

#[test]
fn a_damaged_shard_is_refused_with_the_way_out_and_never_deleted() {
    let root = TempDir::new().expect("a folder");
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
    let failure = store.identity().expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    assert!(failure.hint.expect("a hint").contains("away"));
    assert_eq!(
        store.inventory().expect_err("refused").kind,
        FailureKind::Refused
    );
    assert!(segments.exists());
}

#[test]
fn an_unknown_url_is_refused() {
    let root = TempDir::new().expect("a folder");
    let settings = VectorSettings {
        url: "ftp://x".into(),
        ..settings("w")
    };
    let failure = VectorStore::open(settings, &state(&root)).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
}

#[test]
fn a_page_without_text_is_found_by_its_title() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let pages = || [page("w/lonely.md", ""), page("w/!!!.md", "")];
    put(&mut store, 1, pages().into());
    assert_holds(&mut store, &pages());
    assert_eq!(
        store.search("lonely", 5).expect("searched")[0].path,
        "w/lonely.md"
    );
}

#[test]
fn a_korean_query_finds_the_korean_page_in_another_inflection() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    put(
        &mut store,
        1,
        vec![
            page(
                "w/대기열.md",
                "# 대기열\n\n작업은 대기열에서 가져와 저장소마다 적용한다.",
            ),
            page("w/날씨.md", "# 날씨\n\n오늘은 비가 오고 바람이 분다."),
            page("w/queue.md", "# Queue\n\nA job waits in the outbox."),
        ],
    );
    let hits = store.search("대기열의 작업을 적용", 5).expect("searched");
    assert_eq!(hits[0].path, "w/대기열.md");
    assert_eq!(hits[0].heading, ["대기열"]);
    assert!(hits.iter().all(|hit| hit.path != "w/queue.md"));
}

#[test]
fn a_page_is_found_once_with_its_best_section() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let many = sections(300, "shared");
    let other = page(
        "w/b.md",
        "# Only\n\nshared once, with many other words around it to weigh less",
    );
    let sha = page("w/a.md", &many).sha;
    put(&mut store, 1, vec![page("w/a.md", &many), other]);
    let hits = store.search("shared number7", 5).expect("searched");
    let found: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(
        found,
        ["w/a.md", "w/b.md"],
        "300 sections of one page do not crowd out the other"
    );
    assert_eq!(
        (hits[0].section, hits[0].heading.as_slice()),
        (7, &["Part 7".to_owned()][..])
    );
    assert_eq!(hits[0].page_sha, sha.to_string());
}

#[test]
fn equal_scores_come_in_the_order_of_the_paths() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let pages = (0..200)
        .rev()
        .map(|n| page(&format!("w/{n:03}.md"), "---\ntitle: T\n---\nsame"));
    put(&mut store, 1, pages.collect());
    let hits = store.search("same", 3).expect("searched");
    let found: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(found, ["w/000.md", "w/001.md", "w/002.md"]);
}

#[test]
fn a_query_without_words_finds_nothing() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    for query in ["", "  ", "?!"] {
        assert!(
            store.search(query, 5).expect("searched").is_empty(),
            "{query:?}"
        );
    }
    assert!(store.search("x", 0).expect("searched").is_empty());
}

#[test]
fn a_reader_waits_for_its_turn_only_so_long() {
    let root = TempDir::new().expect("a folder");
    let mut drain = store(&root);
    put(&mut drain, 1, vec![page("w/a.md", "x")]);
    let hasty = VectorSettings {
        wait: Duration::from_millis(60),
        ..settings("wiki-1")
    };
    let mut reader = VectorStore::open(hasty, &state(&root)).expect("a store");
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
    let root = TempDir::new().expect("a folder");
    let mut drain = store(&root);
    put(&mut drain, 1, vec![page("w/a.md", "x")]);
    drain.yield_turn();
    let reader_state = state(&root);
    let reader = std::thread::spawn(move || {
        let mut reader = VectorStore::open(settings("wiki-1"), &reader_state).expect("a store");
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
    let root = TempDir::new().expect("a folder");
    state(&root).create().expect("created");
    fs::write(state(&root).path().join("vectors.lock"), "999999\n").expect("written");
    assert_eq!(put(&mut store(&root), 1, vec![page("w/a.md", "x")]), [true]);
}

#[test]
fn points_deleted_or_damaged_behind_our_back_show_in_the_inventory_and_are_healed_by_a_put() {
    let root = TempDir::new().expect("a folder");
    let mut store = store(&root);
    let page = || page("w/a.md", &sections(3, "x"));
    put(&mut store, 1, vec![page()]);
    let mut held = points(&mut store).remove("w/a.md").expect("held");
    let expected = store.expected(&page()).expect("derived").expect("held");
    let damages: [Damage; 3] = [
        |point| point.bm25 = None,
        |point| {
            point.payload.insert("text".into(), Value::from("other"));
        },
        |point| point.bm25.as_mut().expect("a vector").values[0] += 0.5,
    ];
    for damage in damages {
        let mut point = held[0].clone();
        damage(&mut point);
        // Deleted first: an upsert leaves the vectors alone that it does not name.
        let others = [held[1].id, held[2].id];
        store
            .engine
            .delete_except("wiki-1", &["w/a.md"], &others)
            .expect("deleted");
        store.engine.upsert(vec![point]).expect("damaged");
        assert_ne!(store.inventory().expect("inventory")[0].digest, expected);
        assert_eq!(put(&mut store, 2, vec![page()]), [true]);
        assert_holds(&mut store, &[page()]);
    }
    held.truncate(0);
    store
        .engine
        .delete_except("wiki-1", &["w/a.md"], &[])
        .expect("deleted");
    assert!(store.inventory().expect("inventory").is_empty());
    assert_eq!(put(&mut store, 3, vec![page()]), [true]);
    assert_holds(&mut store, &[page()]);
}

#[test]
fn the_wal_keeps_one_closed_file_over_an_opening_and_no_later_write_is_lost() {
    let root = TempDir::new().expect("a folder");
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
            id: String::new(),
            epoch: 0,
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
    let root = TempDir::new().expect("a folder");
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

/// A store whose points all lie in a segment that an optimisation made read-only.
fn optimised(root: &TempDir, pages: &[Page]) -> VectorStore {
    let mut edge = super::edge::Edge::new(&state(root), Duration::from_secs(20));
    assert!(edge.ready(true).expect("ready"));
    let deriving = store(root);
    let points = pages.iter().flat_map(|page| deriving.points_of(page));
    edge.upsert(points.collect()).expect("written");
    edge.flush().expect("flushed");
    assert!(
        edge.optimize().expect("optimised"),
        "there is enough for it"
    );
    VectorStore::over(Box::new(edge), settings("wiki-1"))
}

/// So many distinct words: a large vector.
fn filler(words: u32) -> String {
    (0..words).fold(String::new(), |text, n| text + &format!("w{n} "))
}

#[test]
fn what_is_true_of_new_points_is_true_of_optimised_ones() {
    let root = TempDir::new().expect("a folder");
    let filler = filler(150);
    let many = || -> Vec<Page> {
        let one = |n| {
            page(
                &format!("w/{n}.md"),
                &sections(10, &format!("{filler} page{n}")),
            )
        };
        (0..150).map(one).chain([page("w/!.md", "word")]).collect()
    };
    let mut store = optimised(&root, &many());
    assert_holds(&mut store, &many());
    assert_eq!(put(&mut store, 2, vec![many().remove(3)]), [false]);
    assert_eq!(
        store.search("page7", 3).expect("searched")[0].path,
        "w/7.md"
    );
    let mut now = many();
    now[0] = page("w/0.md", &sections(4, "fewer"));
    // Without tokens: the old vector must go with the old text.
    now[150] = page("w/!.md", "?");
    now.remove(1);
    let changes = [
        Change::Put(Arc::new(page("w/0.md", &sections(4, "fewer")))),
        Change::Put(Arc::new(page("w/!.md", "?"))),
        Change::Remove(path("w/1.md")),
    ];
    assert_eq!(apply(&mut store, 3, &changes), [true; 3]);
    assert_holds(&mut store, &now);
    assert!(store.search("word", 3).expect("searched").is_empty());
    drop(store);
    let mut again = self::store(&root);
    assert_holds(&mut again, &now);
    assert_eq!(again.search("fewer", 3).expect("searched").len(), 1);
}

const KILL_DIR: &str = "WIKI_SYNC_TEST_KILL_DIR";

/// The pages of one round: what a killed writer was at work with. Large enough to be optimised.
fn round(number: i64) -> Vec<Page> {
    let filler = filler(150);
    (0..200)
        .map(|n| {
            let count = usize::try_from((number + n) % 9 + 1).expect("small");
            page(
                &format!("w/{n}.md"),
                &sections(count, &format!("round{number} {filler}")),
            )
        })
        .collect()
}

#[test]
#[ignore = "runs only as the child of kill_at_any_moment_leaves_a_shard_that_opens_and_heals"]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(KILL_DIR) else {
        return;
    };
    let state = StateDir::of(Path::new(&dir));
    let mut store = VectorStore::open(settings("wiki-1"), &state).expect("a store");
    let first = store.identity().expect("identity").epoch + 1;
    fs::write(Path::new(&dir).join("started"), "").expect("said so");
    for epoch in first.. {
        put(&mut store, epoch, round(epoch));
        if epoch % 2 == 0 {
            // Moments like any other to be killed in: closing, opening, optimising.
            drop(store);
            let mut edge = super::edge::Edge::new(&state, Duration::from_secs(20));
            assert!(edge.ready(false).expect("ready"));
            edge.optimize().expect("optimised");
            store = VectorStore::over(Box::new(edge), settings("wiki-1"));
        }
    }
}

#[test]
fn kill_at_any_moment_leaves_a_shard_that_opens_and_heals() {
    let root = TempDir::new().expect("a folder");
    let started = root.path().join("started");
    let mut reached = 0;
    for after in [1, 7, 31, 90, 170, 260, 400, 560, 800, 1100] {
        // By this name the child is this very program, even where a build has replaced its file.
        let itself = Path::new("/proc/self/exe");
        let program = if itself.exists() {
            itself.to_owned()
        } else {
            std::env::current_exe().expect("this test")
        };
        let mut child = Command::new(program)
            .args(["--exact", "--ignored", "--nocapture"])
            .arg("stores::vectors::tests::child_that_writes_until_it_is_killed")
            .env(KILL_DIR, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let end = Instant::now() + Duration::from_secs(30);
        while !started.exists() {
            assert!(Instant::now() < end, "the child did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Spread over a few batches; which step each of them meets is left to chance.
        std::thread::sleep(Duration::from_millis(after));
        child.kill().expect("killed");
        child.wait().expect("gone");
        fs::remove_file(&started).expect("removed");

        let mut store = store(&root);
        let epoch = store.identity().expect("the shard opens").epoch;
        assert!(epoch >= reached, "a flushed epoch is never lost");
        reached = epoch + 1;
        let pages = || round(reached % 5);
        put(&mut store, reached, pages());
        assert_holds(&mut store, &pages());
        assert_eq!(store.search("number0", 3).expect("searched").len(), 3);
    }
}
