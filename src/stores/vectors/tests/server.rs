//! What is true of a server alone: its limits, its failures, and who shares it.

use std::time::Instant;

use tonic::Code;

use super::super::server::Server;
use super::*;
use crate::testing::qdrant_server::{Act, Fault, QdrantServer, SharedServer, Strict};

impl Place {
    /// A collection on the server that is set, else on one of the test's own.
    pub(super) fn server() -> Self {
        let Some(shared) = SharedServer::set() else {
            return Self::test_server();
        };
        let mut place = Self::edge();
        place.url.clone_from(&shared.url);
        place.collection.clone_from(&shared.collection);
        place.shared = Some(shared);
        place
    }

    /// A collection on a server that fails as it is told.
    fn test_server() -> Self {
        let server = QdrantServer::start();
        let mut place = Self::edge();
        place.url = server.url();
        place.collection = "wiki-sync".into();
        place.server = Some(server);
        place
    }

    fn running(&self) -> &QdrantServer {
        self.server.as_ref().expect("a server of our own")
    }

    fn engine(&self) -> Server {
        let settings = self.settings("wiki-1");
        Server::new(&settings.url, &settings.server, settings.shape).expect("an engine")
    }

    fn drop_collection(&self) {
        self.engine().drop_collection().expect("dropped");
    }
}

/// A store whose server has little time.
fn hasty(place: &Place) -> VectorStore {
    let mut settings = place.settings("wiki-1");
    settings.server.timeout = Duration::from_millis(700);
    VectorStore::open(settings, &state(place), None).expect("a store")
}

fn put_fails(store: &mut VectorStore, epoch: i64, pages: Vec<Page>) -> Failure {
    let changes: Vec<_> = pages
        .into_iter()
        .map(|p| Change::Put(Arc::new(p)))
        .collect();
    store.apply(&changes, epoch).expect_err("a failure")
}

#[test]
fn every_status_is_told_by_its_kind() {
    let place = Place::test_server();
    let mut store = store(&place);
    store.identity().expect("ready");
    for (code, kind) in [
        (Code::Cancelled, FailureKind::Down),
        (Code::Unknown, FailureKind::Down),
        (Code::InvalidArgument, FailureKind::Refused),
        (Code::DeadlineExceeded, FailureKind::Down),
        (Code::NotFound, FailureKind::Down),
        (Code::AlreadyExists, FailureKind::Down),
        (Code::PermissionDenied, FailureKind::Refused),
        (Code::FailedPrecondition, FailureKind::Down),
        (Code::Aborted, FailureKind::Down),
        (Code::OutOfRange, FailureKind::Refused),
        (Code::Unimplemented, FailureKind::Refused),
        (Code::Internal, FailureKind::Down),
        (Code::Unavailable, FailureKind::Down),
        (Code::DataLoss, FailureKind::Down),
        (Code::Unauthenticated, FailureKind::Refused),
    ] {
        let server = place.running();
        server.fault(Fault::always("scroll", Act::Refuse(code.into())));
        let failure = put_fails(&mut store, 1, vec![page("w/a.md", "x")]);
        assert_eq!(failure.kind, kind, "{code:?}: {failure:?}");
        assert!(failure.reason.contains("planned failure"), "{failure}");
        assert!(failure.hint.is_some(), "{code:?}");
        server.calm();
    }
    put(&mut store, 2, vec![page("w/a.md", "x")]);
    assert_holds(&mut store, &[page("w/a.md", "x")]);
}

#[test]
fn a_server_that_is_not_there_is_down() {
    let mut place = Place::test_server();
    place.server.as_mut().expect("a server").down();
    let failure = store(&place).identity().expect_err("down");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(failure.reason.contains("refused"), "{failure}");
}

#[test]
fn a_server_that_hangs_is_down_after_a_bounded_time() {
    let place = Place::test_server();
    store(&place).identity().expect("ready");
    place.running().fault(Fault::always("", Act::Hang));
    let started = Instant::now();
    let failure = hasty(&place).identity().expect_err("down");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(started.elapsed() >= Duration::from_millis(700));
}

#[test]
fn a_server_started_again_is_used_again_without_a_failure() {
    let mut place = Place::test_server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    let server = place.server.as_mut().expect("a server");
    server.down();
    server.up();
    put(&mut store, 2, vec![page("w/a.md", "y")]);
    assert_holds(&mut store, &[page("w/a.md", "y")]);
}

#[test]
fn a_large_load_goes_in_requests_of_bounded_count_and_size() {
    let place = Place::test_server();
    let shape = Shape {
        dense: Some(Dense {
            dimension: 1536,
            model: "large".into(),
        }),
    };
    let settings = VectorSettings {
        shape,
        ..place.settings("wiki-1")
    };
    let mut store = VectorStore::open(settings, &state(&place), None).expect("a store");
    store.identity().expect("ready");
    let long = "long text ".repeat(10_000);
    let points: Vec<Point> = (0..2_000_u16)
        .map(|n| {
            let mut dense = vec![0.0; 1536];
            dense[usize::from(n) % 1536] = 1.0;
            let payload =
                serde_json::json!({"wiki": "wiki-1", "path": format!("w/{n}.md"), "text": long});
            Point {
                id: Uuid::new_v4(),
                payload: payload.as_object().expect("an object").clone(),
                bm25: None,
                dense: Some(dense),
            }
        })
        .collect();
    assert!(store.engine.upsert(points).expect("written").is_empty());
    let mut held = 0;
    store
        .engine
        .scroll("wiki-1", &mut |_| held += 1)
        .expect("read");
    assert_eq!(held, 2_000);
    let seen = place.running().seen();
    let upserts: Vec<_> = seen.iter().filter(|seen| seen.method == "upsert").collect();
    assert!(upserts.iter().all(|seen| seen.points <= 256));
    assert!(upserts.iter().all(|seen| seen.bytes <= (16 << 20) + 1024));
    assert!(upserts.len() > 12, "{}", upserts.len());
}

#[test]
fn a_page_with_a_section_too_large_for_a_request_fails_alone() {
    let place = Place::test_server();
    let mut engine = place.engine();
    engine.limit_points_to(3_000);
    let mut store = VectorStore::over(Box::new(engine), place.settings("wiki-1"), None);
    put(
        &mut store,
        1,
        vec![page("w/large.md", "small at first"), page("w/b.md", "old")],
    );
    let large = filler(250).replace('w', "한");
    let changes = [
        Change::Put(Arc::new(page("w/large.md", &large))),
        Change::Put(Arc::new(page("w/b.md", "new"))),
        Change::Put(Arc::new(page("w/c.md", "new"))),
    ];
    let outcomes = store.apply(&changes, 2).expect("applied");
    let failure = outcomes[0].as_ref().expect_err("too large");
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.reason.contains("w/large.md"), "{failure}");
    assert!(outcomes[1].is_ok() && outcomes[2].is_ok());
    assert_holds(
        &mut store,
        &[
            page("w/b.md", "new"),
            page("w/c.md", "new"),
            page("w/large.md", "small at first"),
        ],
    );
}

#[test]
fn a_point_that_the_server_finds_fault_with_costs_its_own_page_only() {
    let place = Place::test_server();
    let mut store = store(&place);
    store.identity().expect("ready");
    let pages: Vec<Page> = (0..40)
        .map(|n| page(&format!("w/{n:02}.md"), "x"))
        .collect();
    let mut points: Vec<Point> = pages
        .iter()
        .flat_map(|page| store.points_of(page))
        .collect();
    // Two weights at one index are an error of the request.
    let bad = points[17].id;
    points[17].bm25 = Some(crate::embed::Sparse {
        indices: vec![3, 3],
        values: vec![1.0, 1.0],
    });
    let unfit = store.engine.upsert(points).expect("written");
    assert_eq!(unfit.len(), 1);
    assert_eq!(
        (unfit[0].id, unfit[0].why.kind),
        (bad, FailureKind::Rejected)
    );
    assert_eq!(points_held(&mut store), 39);
    // Of many that are all at fault it is the collection.
    let mut wrong: Vec<Point> = pages
        .iter()
        .flat_map(|page| store.points_of(page))
        .collect();
    for point in &mut wrong {
        point.dense = Some(vec![1.0]);
    }
    let failure = store.engine.upsert(wrong).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.reason.contains("dense"), "{failure}");
}

fn points_held(store: &mut VectorStore) -> usize {
    points(store).values().map(Vec::len).sum()
}

#[test]
fn a_server_that_stalls_at_large_requests_gets_smaller_ones() {
    let place = Place::test_server();
    store(&place).identity().expect("ready");
    place
        .running()
        .fault(Fault::always("upsert", Act::HangAbove(64)));
    let mut store = hasty(&place);
    put(&mut store, 1, vec![page("w/a.md", &sections(300, "many"))]);
    assert_eq!(count(&mut store, "w/a.md"), 300);
    let seen = place.running().seen();
    let sizes: Vec<usize> = seen
        .iter()
        .filter(|seen| seen.method == "upsert" && seen.points > 1)
        .map(|seen| seen.points)
        .collect();
    assert_eq!(sizes[..3], [256, 128, 64]);
}

#[test]
fn a_busy_server_is_asked_again_and_one_that_stays_busy_is_down() {
    let place = Place::test_server();
    let mut patient = store(&place);
    patient.identity().expect("ready");
    let exhausted = Act::Refuse(Code::ResourceExhausted.into());
    place.running().fault(Fault::once("upsert", exhausted));
    put(&mut patient, 1, vec![page("w/a.md", "x")]);
    place.running().fault(Fault::always("upsert", exhausted));
    let failure = put_fails(&mut hasty(&place), 2, vec![page("w/a.md", "y")]);
    assert_eq!(failure.kind, FailureKind::Down);
}

#[test]
fn requests_are_no_larger_than_strict_mode_allows() {
    let place = Place::test_server();
    place.running().limit(Strict {
        answer: Some(7),
        values: Some(3),
        upsert: Some(5),
        ..Strict::default()
    });
    let mut store = store(&place);
    let pages = |sections: usize, word: &str| -> Vec<Page> {
        (0..9)
            .map(|n| page(&format!("w/{n}.md"), &self::sections(sections, word)))
            .collect()
    };
    put(&mut store, 1, pages(6, "old"));
    put(&mut store, 2, pages(4, "new"));
    assert_holds(&mut store, &pages(4, "new"));
    let changes: Vec<_> = (0..5)
        .map(|n| Change::Remove(path(&format!("w/{n}.md"))))
        .collect();
    assert_eq!(apply(&mut store, 3, &changes), [true; 5]);
    assert_holds(&mut store, &pages(4, "new")[5..]);
    let found = store.search("new", 4).expect("searched");
    assert!(!found.is_empty(), "as many as are allowed");
    let paths: Vec<_> = (0..9).map(|n| path(&format!("w/{n}.md"))).collect();
    let some = store.holdings(&Within::of(paths)).expect("read");
    assert_eq!(some.len(), 4);
    let seen = place.running().seen();
    let upserts = seen.iter().filter(|seen| seen.method == "upsert");
    let most = upserts.map(|seen| seen.points).max();
    assert_eq!(most, Some(5), "none was tried in vain");
}

#[test]
fn more_than_a_server_takes_in_a_minute_goes_in_parts_at_once() {
    let place = Place::test_server();
    let mut store = store(&place);
    store.identity().expect("ready");
    place.running().limit(Strict {
        rate: Some(9),
        ..Strict::default()
    });
    put(&mut store, 1, vec![page("w/a.md", &sections(300, "many"))]);
    let seen = place.running().seen();
    let sizes: Vec<usize> = seen
        .iter()
        .filter(|seen| seen.method == "upsert" && seen.points > 1)
        .map(|seen| seen.points)
        .collect();
    assert_eq!(sizes[..6], [256, 128, 64, 32, 16, 8]);
    assert_eq!(count(&mut store, "w/a.md"), 300);
}

#[test]
fn a_collection_that_is_full_costs_no_page_an_attempt() {
    let place = Place::test_server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", &sections(8, "old"))]);
    // Full in the middle of the next batch, and from its beginning on.
    for points in [12, 9] {
        place.running().limit(Strict {
            points: Some(points),
            upsert: Some(3),
            ..Strict::default()
        });
        let pages = (0..9).map(|n| page(&format!("w/b{n}.md"), "new")).collect();
        let failure = put_fails(&mut store, 2, pages);
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.reason.contains("Max points count"), "{failure}");
    }
    // What is removed makes room.
    apply(&mut store, 3, &[Change::Remove(path("w/a.md"))]);
    place.running().limit(Strict::default());
    put(&mut store, 4, vec![page("w/b0.md", "new")]);
    assert_eq!(count(&mut store, "w/b0.md"), 1);
}

#[test]
fn requests_become_large_again_once_many_went_well() {
    let place = Place::test_server();
    store(&place).identity().expect("ready");
    let mut store = hasty(&place);
    let stalls = Act::HangAbove(64);
    place.running().fault(Fault::always("upsert", stalls));
    put(&mut store, 1, vec![page("w/a.md", &sections(300, "many"))]);
    place.running().calm();
    for n in 0..40 {
        let text = format!("edit {n}");
        put(&mut store, 2 + n, vec![page("w/b.md", &text)]);
    }
    let before = place.running().seen().len();
    put(&mut store, 99, vec![page("w/a.md", &sections(301, "more"))]);
    let seen = place.running().seen();
    let sizes = seen[before..].iter().map(|seen| seen.points).max();
    assert_eq!(sizes, Some(256));
}

#[test]
fn a_wait_that_no_clock_can_hold_is_not_waited_for() {
    let place = Place::test_server();
    let mut store = store(&place);
    store.identity().expect("ready");
    for seconds in [u64::MAX, 3600] {
        let busy = Act::Busy(seconds);
        place.running().fault(Fault::always("scroll", busy));
        let failure = put_fails(&mut store, 1, vec![page("w/a.md", "x")]);
        assert_eq!(failure.kind, FailureKind::Down);
        place.running().calm();
    }
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again_and_nothing_is_held_twice() {
    let place = Place::test_server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", &sections(3, "x"))]);
    let server = place.running();
    server.fault(Fault::once("upsert", Act::DropAfter));
    server.fault(Fault::once("delete_points", Act::DropAfter));
    put(&mut store, 2, vec![page("w/a.md", &sections(2, "y"))]);
    assert_holds(&mut store, &[page("w/a.md", &sections(2, "y"))]);
}

#[test]
fn a_write_that_is_only_taken_in_is_not_believed() {
    let place = Place::test_server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    let later = Act::Later(Duration::from_millis(50));
    for method in ["upsert", "delete_points"] {
        place.running().fault(Fault::once(method, later));
        let failure = put_fails(&mut store, 2, vec![labelled("w/a.md", "y", ["r", method])]);
        assert_eq!(failure.kind, FailureKind::Down, "{method}");
        assert!(failure.reason.contains("did not apply"), "{failure}");
    }
}

#[test]
fn a_failed_delete_leaves_the_new_points_and_the_next_put_takes_the_old_ones_away() {
    let place = Place::test_server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", &sections(3, "x"))]);
    place.running().fault(Fault::once(
        "delete_points",
        Act::Refuse(Code::Internal.into()),
    ));
    let failure = put_fails(&mut store, 2, vec![page("w/a.md", &sections(2, "y"))]);
    assert_eq!(failure.kind, FailureKind::Down);
    assert_eq!(
        count(&mut store, "w/a.md"),
        3,
        "found too often, never not at all"
    );
    assert_eq!(store.identity().expect("identity").epoch, 1);
    put(&mut store, 3, vec![page("w/a.md", &sections(2, "y"))]);
    assert_holds(&mut store, &[page("w/a.md", &sections(2, "y"))]);
}

#[test]
fn a_collection_dropped_behind_our_back_is_another_store() {
    let place = Place::server();
    let mut store = store(&place);
    put(&mut store, 5, vec![page("w/a.md", "x")]);
    let before = store.identity().expect("identity");
    place.drop_collection();
    assert!(!store.is_there().expect("asked"));
    let after = store.identity().expect("identity");
    assert!(after.id != before.id && after.epoch == 0);
    assert!(store.inventory().expect("inventory").is_empty());
    put(&mut store, 6, vec![page("w/a.md", "x")]);
    assert_holds(&mut store, &[page("w/a.md", "x")]);
}

/// Builds the vectors of these pages beside, as far as to be put in place.
fn beside(place: &Place, pages: Vec<Page>) -> Beside {
    let mut beside = Beside::open(place.settings("wiki-1"), &state(place), None).expect("begun");
    put(&mut beside.store, 1, pages);
    beside.store.renew().expect("renewed");
    beside
}

#[test]
fn a_version_built_beside_takes_the_place_of_the_one_in_use_which_goes() {
    let place = Place::server();
    let mut store = store(&place);
    put(&mut store, 1, vec![page("w/a.md", "old")]);
    let before = store.identity().expect("identity").id;
    let beside = beside(&place, vec![page("w/a.md", "new")]);
    assert_holds(&mut store, &[page("w/a.md", "old")]);
    let placed = beside.put_in_place().expect("placed");
    assert_eq!(placed, Placed::default());
    assert_holds(&mut store, &[page("w/a.md", "new")]);
    assert_ne!(store.identity().expect("identity").id, before);
    assert_eq!(place.engine().versions(), ["v2"]);
}

#[test]
fn a_rebuild_goes_on_with_its_own_version_and_with_nobody_elses() {
    let place = Place::server();
    put(&mut store(&place), 1, vec![page("w/a.md", "x")]);
    // Another wiki's, under the name that would come next.
    let settings = place.settings("wiki-2");
    let mut other = VectorStore::over(Box::new(place.engine().version(2)), settings, None);
    put(&mut other, 1, vec![page("w/b.md", "theirs")]);
    drop(beside(&place, vec![page("w/gone.md", "x")]));
    assert_eq!(place.engine().versions(), ["v1", "v2", "v3"]);
    let mut again = Beside::open(place.settings("wiki-1"), &state(&place), None).expect("begun");
    assert_holds(&mut again.store, &[page("w/gone.md", "x")]);
    again.put_in_place().expect("placed");
    assert_eq!(place.engine().versions(), ["v2", "v3"]);
    assert_eq!(count(&mut other, "w/b.md"), 1);
}

#[test]
fn what_others_have_points_in_is_not_exchanged_and_what_a_person_made_is_not_removed() {
    let place = Place::server();
    let open = || Beside::open(place.settings("wiki-1"), &state(&place), None);
    put(&mut store(&place), 1, vec![page("w/a.md", "x")]);
    // They come after it was begun.
    let begun = beside(&place, vec![page("w/a.md", "x")]);
    put(
        &mut store_of(&place, "wiki-2"),
        1,
        vec![page("w/b.md", "y")],
    );
    for failure in [
        begun.put_in_place().expect_err("refused"),
        open().expect_err("refused"),
    ] {
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.reason.contains("others"), "{failure}");
        assert!(failure.hint.expect("a hint").contains("vectors.collection"));
    }
    assert_eq!(count(&mut store_of(&place, "wiki-2"), "w/b.md"), 1);
    place.drop_collection();
    // One without an alias cannot be exchanged while it is read.
    let mut plain = VectorStore::over(
        Box::new(place.engine().plain()),
        place.settings("wiki-1"),
        None,
    );
    put(&mut plain, 1, vec![page("w/a.md", "x")]);
    assert_eq!(count(&mut store(&place), "w/a.md"), 1, "it is used");
    let failure = open().expect_err("refused");
    assert!(failure.reason.contains("no alias"), "{failure}");
    drop(plain);
    // One that a person made and gave the alias.
    place.drop_collection();
    place.engine().made_by_a_person().expect("made");
    put(&mut store(&place), 1, vec![page("w/a.md", "x")]);
    let placed = beside(&place, vec![page("w/a.md", "x")]).put_in_place();
    let left = placed.expect("placed").left.expect("left");
    assert!(left.ends_with("-mine"), "{left}");
    assert_eq!(place.engine().versions(), ["mine", "v1"]);
}

#[test]
fn what_is_under_way_while_the_versions_are_exchanged_falls_on_one_of_them_and_is_owed_again() {
    let place = Place::test_server();
    let mut writer = store_of(&place, "wiki-1");
    put(&mut writer, 1, vec![page("w/a.md", "x")]);
    let before = writer.identity().expect("identity").id;
    drop(beside(&place, vec![page("w/a.md", "x")]));
    let seen = place.running().seen().len();
    place.running().fault(Fault::once(
        "upsert",
        Act::Slow(Duration::from_millis(1500)),
    ));
    let writing = std::thread::spawn(move || {
        put(&mut writer, 2, vec![page("w/a.md", "late")]);
        writer
    });
    let end = Instant::now() + Duration::from_secs(20);
    while !place.running().seen()[seen..]
        .iter()
        .any(|seen| seen.method == "upsert")
    {
        assert!(Instant::now() < end, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    place.engine().lead_to(2).expect("exchanged");
    let mut writer = writing.join().expect("written");
    assert_ne!(writer.identity().expect("identity").id, before);
    assert_holds(&mut writer, &[page("w/a.md", "x")]);
}

#[test]
fn what_was_exchanged_in_the_middle_of_a_batch_is_not_vouched_for() {
    let place = Place::test_server();
    let mut writer = store_of(&place, "wiki-1");
    put(&mut writer, 1, vec![page("w/a.md", "x")]);
    drop(beside(&place, vec![page("w/a.md", "x")]));
    // As if the alias led elsewhere from the second look on.
    let mut settings = place.settings("wiki-1");
    settings.server.collection = format!("{}-v2", place.collection);
    let elsewhere =
        Server::new(&settings.url, &settings.server, settings.shape).expect("an engine");
    let meta = writer.meta_or_new().expect("ready");
    writer.engine = Box::new(elsewhere);
    let failure = writer.vouch(meta, 2).expect_err("not vouched for");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(failure.reason.contains("exchanged"), "{failure}");
}

#[test]
fn dense_vectors_that_another_added_at_the_same_moment_are_used_where_they_fit() {
    let place = Place::test_server();
    let with = |dimension| {
        let mut settings = place.settings("wiki-1");
        settings.shape.dense = Some(Dense {
            dimension,
            model: "A".into(),
        });
        VectorStore::open(settings, &state(&place), None).expect("a store")
    };
    put(&mut store(&place), 1, vec![page("w/a.md", "x")]);
    // They are there when the answer is lost, and when it is asked for again.
    let fault = Fault::once("create_vector_name", Act::DropAfter);
    place.running().fault(fault);
    with(4).identity().expect("ready");
    // As if they were not there yet when it was looked.
    let mut server = place.engine();
    assert!(server.ready(false).expect("there"));
    for (dimension, fits) in [(4, true), (5, false)] {
        let model = "A".to_owned();
        let added = server.add_dense(&Dense { dimension, model });
        assert_eq!(added.is_ok(), fits);
        let refused = added.err().map_or_else(String::new, |why| why.to_string());
        assert_eq!(refused.contains("4 dimensions"), !fits, "{refused}");
    }
}

#[test]
fn a_search_that_finds_its_version_gone_looks_again() {
    let place = Place::test_server();
    let open = || {
        let mut settings = place.settings("wiki-1");
        settings.shape.dense = Some(Dense {
            dimension: 4,
            model: "A".into(),
        });
        VectorStore::open(settings, &state(&place), None).expect("a store")
    };
    put(&mut open(), 1, vec![page("w/a.md", "x")]);
    for method in ["query", "get_points"] {
        let gone = Act::Refuse(Code::NotFound.into());
        place.running().fault(Fault::once(method, gone));
        let mut reader = open();
        let question = Question {
            meaning: Some(&[1.0, 0.0, 0.0, 0.0]),
            ..Question::words("x", 5)
        };
        let answer = reader.ask(&question).expect("searched");
        assert_eq!(answer.hits.len(), 1, "{method}");
    }
}

#[test]
fn a_key_that_may_not_list_aliases_still_reads() {
    let place = Place::test_server();
    put(&mut store(&place), 1, vec![page("w/a.md", "x")]);
    let denied = Act::Refuse(Code::PermissionDenied.into());
    place.running().fault(Fault::always("list_aliases", denied));
    assert_eq!(store(&place).search("x", 5).expect("searched").len(), 1);
}

#[test]
fn a_collection_that_goes_while_we_write_is_down_until_it_is_made_anew() {
    let place = Place::test_server();
    let mut store = store(&place);
    store.identity().expect("ready");
    place
        .running()
        .fault(Fault::once("upsert", Act::Refuse(Code::NotFound.into())));
    let failure = put_fails(&mut store, 1, vec![page("w/a.md", "x")]);
    assert_eq!(failure.kind, FailureKind::Down);
    put(&mut store, 2, vec![page("w/a.md", "x")]);
}

#[test]
fn another_programs_collection_is_refused_and_left_alone() {
    let place = Place::server();
    place.engine().make_foreign().expect("made");
    let failure = store(&place).identity().expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    for words in ["another program", "of 3 dimensions (Cosine)", "\"bm25\""] {
        assert!(failure.reason.contains(words), "{failure}");
    }
    assert!(failure.hint.expect("a hint").contains("vectors.collection"));
}

#[test]
fn a_key_that_is_wanted_is_given_and_a_wrong_one_is_told_without_being_shown() {
    let place = Place::test_server();
    place.running().want_key("right-key");
    let with = |key: Option<&str>| {
        let mut settings = place.settings("wiki-1");
        settings.server.api_key = key.map(Secret::new);
        VectorStore::open(settings, &state(&place), None).expect("a store")
    };
    with(Some("right-key")).identity().expect("let in");
    for key in [None, Some("wrong-key")] {
        let failure = with(key).identity().expect_err("refused");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(!format!("{failure:?}").contains("wrong-key"));
        assert!(
            failure
                .hint
                .expect("a hint")
                .contains("WIKI_SYNC_VECTORS_API_KEY")
        );
    }
    let mut settings = place.settings("wiki-1");
    settings.server.api_key = Some(Secret::new("line\nbreak"));
    let failure = VectorStore::open(settings, &state(&place), None).expect_err("no key");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(!format!("{failure:?}").contains("break"));
}

#[test]
fn the_wiki_of_this_checkout_is_found_again_among_others_when_its_state_is_lost() {
    let place = Place::server();
    let of = |wiki: &str, belongs: &str| {
        let mut settings = place.settings(wiki);
        settings.belongs = belongs.into();
        settings
    };
    let adopted = |belongs: &str| adopted_wiki_id(&of("", belongs), &state(&place)).expect("asked");
    assert_eq!(adopted("here"), None);
    for (epoch, wiki, belongs) in [
        (1, "old", "here"),
        (3, "mine", "here"),
        (9, "theirs", "there"),
    ] {
        let mut store =
            VectorStore::open(of(wiki, belongs), &state(&place), None).expect("a store");
        put(&mut store, epoch, vec![page("w/a.md", "x")]);
    }
    assert_eq!(adopted("here").as_deref(), Some("mine"));
    assert_eq!(adopted("there").as_deref(), Some("theirs"));
    assert_eq!(adopted("nowhere"), None);
    // Moved, with its state.
    let mut moved = VectorStore::open(of("mine", "moved"), &state(&place), None).expect("a store");
    moved.identity().expect("ready");
    assert_eq!(adopted("moved").as_deref(), Some("mine"));
    assert_eq!(adopted("here").as_deref(), Some("old"));
}

#[test]
fn a_reader_makes_no_index_and_a_writer_makes_those_that_are_missing() {
    let place = Place::test_server();
    let mut writer = store(&place);
    put(&mut writer, 1, vec![page("w/a.md", "x")]);
    let made = |place: &Place| {
        let seen = place.running().seen();
        seen.iter()
            .filter(|seen| seen.method == "create_field_index")
            .count()
    };
    assert_eq!(made(&place), point::INDEXED.len());
    put(&mut writer, 2, vec![page("w/a.md", "y")]);
    assert_eq!(made(&place), point::INDEXED.len());
}
