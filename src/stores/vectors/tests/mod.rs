//! Everything here runs on a real Edge shard in a temporary folder.

mod kill;
mod search;
mod shard;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
    let endless = format!("---\nrepo: {}\n---\nx", "r".repeat(1001));
    for (text, labels, expected) in [
        ("x", ["", ""], format!("demo@{none}::md::w/a.b")),
        ("x", ["r", "c"], "r@c::md::w/a.b".into()),
        (endless.as_str(), ["r", "c"], "r@c::md::w/a.b".into()),
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

/// A store whose points all lie in a segment that an optimisation made read-only.
fn optimised(root: &TempDir, pages: &[Page]) -> VectorStore {
    let mut edge = super::edge::Edge::new(&state(root), Duration::from_secs(20), Shape::default());
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
