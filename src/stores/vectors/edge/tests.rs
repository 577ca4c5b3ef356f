//! A shard of one's own, moved away, panicking, and of an earlier form.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use qdrant_edge::{PayloadSchemaType, PointStruct, Vector, Vectors};
use serde_json::Value;

use super::*;
use crate::model::{Change, Labels, Page, PagePath};
use crate::stores::Store as _;
use crate::stores::vectors::{Only, Question, VectorSettings, VectorStore, examine};

#[test]
fn a_shard_whose_folder_was_replaced_writes_nothing_into_the_new_one() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    let mut edge = Edge::new(&state, Duration::from_secs(5), Shape::default());
    assert!(edge.ready(true).expect("ready"));
    let meta = |wiki: &str| Meta {
        wiki: wiki.into(),
        id: "id".into(),
        epoch: 7,
        ..Meta::default()
    };
    edge.upsert(vec![meta("old").to_point("f")])
        .expect("written");
    fs::remove_dir_all(state.path()).expect("removed");
    // Its turn went with the folder, so another process gets its own there.
    let mut other = Edge::new(&state, Duration::from_secs(5), Shape::default());
    assert!(other.ready(true).expect("made anew"));
    let before = note::read(&state.vectors(), "old");
    let failure = edge.flush().expect_err("not its folder");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(failure.reason.contains("removed meanwhile"), "{failure}");
    assert!(edge.open.is_none(), "and it is closed");
    drop(edge);
    assert_eq!(note::read(&state.vectors(), "old"), before);
    let new = meta("new");
    other.upsert(vec![new.to_point("f")]).expect("written");
    other.flush().expect("flushed");
    drop(other);
    let mut later = Edge::new(&state, Duration::from_secs(5), Shape::default());
    assert!(later.ready(false).expect("there"));
    let mut wikis = Vec::new();
    later
        .metas(&mut |point| wikis.push(point.text("wiki").to_owned()))
        .expect("read");
    assert_eq!(wikis, ["new"]);
}

#[test]
fn a_panic_in_the_engine_is_down_and_the_next_call_opens_it_anew() {
    let root = tempfile::TempDir::new().expect("a folder");
    let mut edge = Edge::new(
        &StateDir::of(root.path()),
        Duration::from_secs(5),
        Shape::default(),
    );
    assert!(edge.ready(true).expect("ready"));
    let failure = edge
        .call("flush", |_| -> Result<(), OperationError> {
            panic!("WAL flushed: no space left")
        })
        .expect_err("down");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(failure.reason.contains("no space left"), "{failure}");
    assert_eq!(edge.flush().expect_err("closed").kind, FailureKind::Down);
    assert!(edge.ready(false).expect("ready"));
    edge.flush().expect("flushed");
}

/// What an earlier wiki-sync indexed.
const BEFORE: [&str; 3] = ["folders", "path", "tags"];

fn page(path: &str, text: &str) -> Page {
    let path = PagePath::parse(path).expect("a path");
    Page::new(path, text.into(), Labels::default())
}

fn put(store: &mut VectorStore, page: Page) {
    let change = [Change::Put(Arc::new(page))];
    let outcomes = store.apply(&change, 1).expect("applied");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Makes the shard, and the note, as they were before there were keys.
fn as_before(state: &StateDir, points: Vec<Point>, meta: &Meta) {
    let dir = state.vectors();
    fs::create_dir_all(&dir).expect("made");
    let shard = EdgeShard::new(&dir, config(None)).expect("new");
    for field in BEFORE {
        let index = CreateIndex {
            field_name: field.parse().expect("a name"),
            field_schema: Some(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
        };
        let index = FieldIndexOperations::CreateIndex(index);
        shard
            .update(UpdateOperation::FieldIndexOperation(index))
            .expect("indexed");
    }
    let point = |point: Point| {
        let bm25 = point.bm25.map(|words| (BM25, Vector::from(sparse(words))));
        let vectors = Vectors::new_named(bm25);
        PointStruct::new(edge_id(point.id), vectors, Value::Object(point.payload)).into()
    };
    let points = points.into_iter().chain([meta.to_point("")]).map(point);
    shard
        .update(UpdateOperation::PointOperation(
            PointOperations::UpsertPoints(PointInsertOperations::PointsList(points.collect())),
        ))
        .expect("written");
    shard.flush();
    drop(shard);
    let mut note = serde_json::to_value(meta).expect("serialises");
    note["segments"] = folder_id(&dir).into();
    fs::write(dir.join("wiki-sync.json"), note.to_string()).expect("noted");
}

#[test]
fn a_shard_without_keys_is_told_by_readers_and_built_anew_by_the_next_writer() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    state.create().expect("created");
    let settings = VectorSettings::embedded("wiki-1", "demo");
    let open = || VectorStore::open(settings.clone(), &state, None).expect("a store");
    let pages = [page("w/a.md", "oldest"), page("w/gone.md", "oldest")];
    let points = pages.iter().flat_map(|page| open().points_of(page));
    let meta = Meta {
        wiki: "wiki-1".into(),
        id: "before".into(),
        epoch: 7,
        ..Meta::default()
    };
    as_before(&state, points.collect(), &meta);

    let mut reader = open();
    assert!(reader.search("oldest", 9).expect("searched").is_empty());
    assert!(!reader.is_there().expect("asked"));
    assert_eq!(reader.find_identity(false).expect("asked"), None);
    assert!(reader.inventory().expect("read").is_empty());
    drop(reader);
    let findings = examine(settings.clone(), &state, None);
    let said = format!("{findings:?}");
    assert!(said.contains("an earlier wiki-sync wrote them"), "{said}");
    let segments = fs::read_dir(state.vectors().join("segments")).expect("still there");
    assert_eq!(segments.count(), 1, "a reader removes nothing");

    let mut writer = open();
    let now = writer.identity().expect("identity");
    assert!(now.id != "before" && now.epoch == 0, "{now:?}");
    put(&mut writer, page("w/a.md", "newest"));
    assert!(writer.search("oldest", 9).expect("searched").is_empty());
    assert_eq!(writer.search("newest", 9).expect("searched").len(), 1);
    let held = writer.inventory().expect("read");
    assert_eq!(held.len(), 1);
    drop(writer);
    assert!(!state.path().join("vectors.old").exists());
    let mut later = open();
    assert_eq!(later.identity().expect("identity").id, now.id);
    assert_eq!(later.inventory().expect("read"), held);
}

#[test]
fn what_is_left_of_a_shard_that_was_being_removed_goes_before_a_new_one_is_made() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    let left = state.path().join("vectors.old");
    fs::create_dir_all(left.join("segments/half")).expect("made");
    let mut edge = Edge::new(&state, Duration::from_secs(5), Shape::default());
    assert!(!edge.ready(false).expect("asked"));
    assert!(left.exists(), "a reader removes nothing");
    assert!(edge.ready(true).expect("ready"));
    assert!(!left.exists());
}

#[test]
fn a_path_a_folder_and_a_tag_of_one_spelling_are_three_keys() {
    let root = tempfile::TempDir::new().expect("a folder");
    let settings = VectorSettings::embedded("wiki-1", "demo");
    let state = StateDir::of(root.path());
    let mut store = VectorStore::open(settings, &state, None).expect("a store");
    let tagged = |path: &str, tags: &str| page(path, &format!("---\ntags: [{tags}]\n---\nword"));
    put(&mut store, tagged("x/a.md", "\"folder:x\", y"));
    put(&mut store, tagged("y/x", "x"));
    put(&mut store, tagged("x", "z"));
    let mut found = |only: Only| {
        let question = Question {
            only,
            ..Question::words("word", 9)
        };
        let answer = store.ask(&question).expect("answered");
        let mut paths: Vec<_> = answer.hits.into_iter().map(|hit| hit.path).collect();
        paths.sort();
        paths
    };
    let only = |prefix: Option<&str>, tags: &[&str], pages: &[&str]| Only {
        prefix: prefix.map(Into::into),
        tags: tags.iter().map(ToString::to_string).collect(),
        pages: pages.iter().map(ToString::to_string).collect(),
        ..Only::default()
    };
    assert_eq!(found(only(Some("x/"), &[], &[])), ["x/a.md"]);
    assert_eq!(found(only(None, &["x"], &[])), ["y/x"]);
    assert_eq!(found(only(None, &[], &["x"])), ["x"]);
    assert_eq!(found(only(None, &["y", "z"], &[])), ["x", "x/a.md"]);
    assert_eq!(found(only(None, &["y", "z"], &["x", "y/x"])), ["x"]);
    assert!(found(only(Some("y/"), &["y", "z"], &[])).is_empty());
}

/// A shard of so many pages of five sections, flushed, and the pages: large enough to be optimised.
fn large(state: &StateDir) -> (Edge, Vec<Page>) {
    let words = (0..150).fold(String::new(), |text, n| text + &format!("w{n} "));
    let section = |page: u32, n: u32| format!("# Part {n}\n\nold page{page} {words}\n\n");
    let text = |n| (0..5).map(|part| section(n, part)).collect::<String>();
    let pages: Vec<_> = (0..300)
        .map(|n| page(&format!("w/{n}.md"), &text(n)))
        .collect();
    let mut edge = Edge::new(state, Duration::from_secs(5), Shape::default());
    assert!(edge.ready(true).expect("ready"));
    edge.upsert(points_of(state, &pages)).expect("written");
    edge.flush().expect("flushed");
    (edge, pages)
}

fn points_of(state: &StateDir, pages: &[Page]) -> Vec<Point> {
    let store = VectorStore::open(VectorSettings::embedded("wiki-1", "demo"), state, None);
    let store = store.expect("a store");
    pages
        .iter()
        .flat_map(|page| store.points_of(page))
        .collect()
}

fn texts_of(edge: &mut Edge, path: &str) -> Vec<String> {
    let mut texts = Vec::new();
    edge.of_pages("wiki-1", &[path], &mut |point| {
        texts.push(point.text("text").trim().to_owned());
    })
    .expect("read");
    texts.sort();
    texts
}

#[test]
fn what_is_written_beside_an_optimisation_is_held_and_what_it_replaces_is_gone() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    let (mut edge, mut pages) = large(&state);
    edge.optimize_beside().expect("begun");
    // From the moment on at which new points go into a segment of their own.
    let end = Instant::now() + Duration::from_mins(1);
    while edge
        .open
        .as_ref()
        .expect("open")
        .shard()
        .info()
        .segments_count
        < 2
    {
        assert!(Instant::now() < end, "it does not begin");
        thread::yield_now();
    }
    // Of another text, shorter, new, and removed.
    pages[0] = page("w/0.md", &"# Part\n\nnew\n\n".repeat(5));
    pages[1] = page("w/1.md", "new");
    pages.push(page("w/new.md", "new"));
    let now: Vec<_> = [0, 1, 300]
        .map(|at| points_of(&state, &pages[at..=at]))
        .into();
    edge.upsert(now.concat()).expect("written beside");
    assert_eq!(texts_of(&mut edge, "w/0.md"), ["new"; 5]);
    assert_eq!(
        texts_of(&mut edge, "w/1.md").len(),
        5,
        "four of them are old"
    );
    let keep: Vec<_> = now[1].iter().map(|point| point.id).collect();
    edge.delete_except("wiki-1", &["w/1.md", "w/2.md"], &keep)
        .expect("deleted");
    pages.remove(2);
    edge.flush().expect("flushed");
    let segments = || fs::read_dir(state.vectors().join("segments")).expect("a folder");
    assert!(segments().count() >= 2, "it was optimised");
    for _ in 0..2 {
        assert_eq!(texts_of(&mut edge, "w/0.md"), ["new"; 5]);
        assert_eq!(texts_of(&mut edge, "w/1.md"), ["new"]);
        assert!(texts_of(&mut edge, "w/2.md").is_empty());
        assert_eq!(texts_of(&mut edge, "w/3.md").len(), 5);
        let mut held: Vec<_> = Vec::new();
        edge.scroll("wiki-1", &mut |point| held.push(point.hash()))
            .expect("read");
        let mut expected: Vec<_> = points_of(&state, &pages).iter().map(Point::hash).collect();
        held.sort_unstable();
        expected.sort_unstable();
        assert!(held == expected, "{} {}", held.len(), expected.len());
        drop(edge);
        edge = Edge::new(&state, Duration::from_secs(5), Shape::default());
        assert!(edge.ready(false).expect("there"));
    }
}

#[test]
fn an_optimisation_that_fails_beside_the_writes_is_told_before_anything_is_promised() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    let (mut edge, pages) = large(&state);
    let _armed = armed(|| panic!("no space left"));
    edge.optimize_beside().expect("begun");
    let new = points_of(&state, &[page("w/new.md", "new")]);
    edge.upsert(new).expect("written beside");
    let failure = edge.flush().expect_err("not promised");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(
        failure.reason.contains("cannot optimise") && failure.reason.contains("no space left"),
        "{failure}"
    );
    assert!(edge.open.is_none(), "and it is closed");
    assert!(edge.ready(false).expect("there"));
    let last = pages.last().expect("a page").path.as_str();
    assert_eq!(texts_of(&mut edge, last).len(), 5);
}

#[test]
fn an_optimisation_ends_with_the_shard_and_leaves_nothing_in_the_place_of_a_removed_one() {
    let root = tempfile::TempDir::new().expect("a folder");
    let state = StateDir::of(root.path());
    let (mut edge, _) = large(&state);
    let (vectors, ended) = (state.vectors(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&ended);
    let _armed = armed(move || {
        while vectors.exists() {
            thread::yield_now();
        }
        ends.store(true, Ordering::SeqCst);
    });
    edge.optimize_beside().expect("begun");
    fs::remove_dir_all(state.path()).expect("removed");
    let failure = edge.flush().expect_err("not its folder");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(edge.open.is_none() && ended.load(Ordering::SeqCst));
    assert!(
        !edge.ready(false).expect("asked"),
        "what it made in its place is no shard"
    );
}

/// Does something where an optimisation begins, until it is dropped.
fn armed(what: impl Fn() + Send + Sync + 'static) -> impl Drop {
    struct Armed;
    impl Drop for Armed {
        fn drop(&mut self) {
            fail::remove("vectors.optimise");
        }
    }
    fail::cfg_callback("vectors.optimise", what).expect("armed");
    Armed
}
