//! Everything here runs on real Edge shards in temporary folders, behind a server too.

mod contract;
mod kill;
mod meaning;
mod search;
#[cfg(feature = "server")]
mod server;
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

/// Where the stores of a test are: a folder, or a collection of their own on a server.
struct Place {
    root: TempDir,
    url: String,
    collection: String,
    #[cfg(feature = "server")]
    server: Option<crate::testing::qdrant_server::QdrantServer>,
    /// The name on somebody else's server.
    #[cfg(feature = "server")]
    shared: Option<crate::testing::qdrant_server::SharedServer>,
}

impl Place {
    fn edge() -> Self {
        Self {
            root: TempDir::new().expect("a folder"),
            url: EDGE_URL.into(),
            collection: String::new(),
            #[cfg(feature = "server")]
            server: None,
            #[cfg(feature = "server")]
            shared: None,
        }
    }

    fn path(&self) -> &std::path::Path {
        self.root.path()
    }

    fn settings(&self, wiki: &str) -> VectorSettings {
        VectorSettings {
            url: self.url.clone(),
            server: ServerSettings {
                collection: self.collection.clone(),
                api_key: std::env::var("WIKI_SYNC_TEST_QDRANT_API_KEY")
                    .ok()
                    .map(|key| Secret::new(&key)),
                ..ServerSettings::default()
            },
            ..settings(wiki)
        }
    }
}

fn state(place: &Place) -> StateDir {
    StateDir::of(place.path())
}

/// The settings of an embedded store.
fn settings(wiki: &str) -> VectorSettings {
    VectorSettings {
        wait: Duration::from_secs(20),
        ..VectorSettings::embedded(wiki, "demo")
    }
}

fn store(place: &Place) -> VectorStore {
    store_of(place, "wiki-1")
}

fn store_of(place: &Place, wiki: &str) -> VectorStore {
    VectorStore::open(place.settings(wiki), &state(place), None).expect("a store")
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
fn labels_come_from_front_matter_then_from_the_job_then_from_the_defaults() {
    let root = Place::edge();
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
fn told_to_stop_it_leaves_what_it_has_not_begun_and_counts_what_it_has_brought() {
    let place = Place::edge();
    let pages = || (0..3).map(|at| page(&format!("wiki-output/{at}.md"), "# A\n"));
    let changes: Vec<_> = pages().map(|page| Change::Put(Arc::new(page))).collect();
    let mut store = store(&place);
    let stop = Stop::default();
    store.heed(&stop);
    stop.wish();
    let outcomes = store.apply(&changes, 1).expect("usable");
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        assert_eq!(outcome.expect_err("left").kind, FailureKind::Busy);
    }
    assert_eq!(store.brought().so_far(), 0);
    store.heed(&Stop::default());
    assert_eq!(apply(&mut store, 2, &changes), [true; 3]);
    assert_eq!(store.brought().so_far(), 3);
}

#[test]
fn an_unknown_url_is_refused() {
    let root = Place::edge();
    let settings = VectorSettings {
        url: "ftp://x".into(),
        ..settings("w")
    };
    let failure = VectorStore::open(settings, &state(&root), None).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
}

/// A store whose points all lie in a segment that an optimisation made read-only.
fn optimised(place: &Place, pages: &[Page]) -> VectorStore {
    let mut edge = super::edge::Edge::new(&state(place), Duration::from_secs(20), Shape::default());
    assert!(edge.ready(true).expect("ready"));
    let deriving = store(place);
    let points = pages.iter().flat_map(|page| deriving.points_of(page));
    edge.upsert(points.collect()).expect("written");
    edge.flush().expect("flushed");
    assert!(
        edge.optimize().expect("optimised"),
        "there is enough for it"
    );
    VectorStore::over(Box::new(edge), settings("wiki-1"), None)
}

/// So many distinct words: a large vector.
fn filler(words: u32) -> String {
    (0..words).fold(String::new(), |text, n| text + &format!("w{n} "))
}

#[test]
fn what_is_true_of_new_points_is_true_of_optimised_ones() {
    let root = Place::edge();
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
