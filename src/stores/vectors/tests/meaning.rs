//! Dense vectors. What makes them is not needed here: any of length 1 will do.

use super::*;
use crate::embed::{EmbeddingSettings, open as open_provider};
use crate::model::FailureKind;
use crate::testing::{EmbeddingServer, Fault, MODEL};

fn shape(dimension: usize, model: &str) -> Shape {
    Shape {
        dense: Some(Dense {
            dimension,
            model: model.into(),
        }),
    }
}

fn store_with(place: &Place, shape: Shape) -> VectorStore {
    let settings = VectorSettings {
        shape,
        ..place.settings("wiki-1")
    };
    VectorStore::open(settings, &state(place), None).expect("a store")
}

/// Puts a page of one section in, with a meaning.
fn put_meaning(store: &mut VectorStore, page: &Page, meaning: Option<[f32; 4]>) {
    store.identity().expect("ready");
    let mut points = store.points_of(page);
    assert_eq!(points.len(), 1);
    if let Some(meaning) = meaning {
        points[0].dense = Some(meaning.into());
        points[0].payload.insert("model".into(), Value::from("A"));
    }
    let path = page.path.as_str();
    let gathered = vec![Gathered {
        path,
        points,
        is_owed: true,
    }];
    let outcomes = store.write(gathered).expect("written");
    assert!(outcomes.iter().all(Result::is_ok));
    store.engine.flush().expect("flushed");
}

fn ask(store: &mut VectorStore, text: &str, meaning: [f32; 4], weights: [f32; 2]) -> Answer {
    let question = Question {
        meaning: Some(&meaning),
        weights,
        ..Question::words(text, 5)
    };
    store.ask(&question).expect("searched")
}

fn paths(answer: &Answer) -> Vec<&str> {
    answer.hits.iter().map(|hit| hit.path.as_str()).collect()
}

const EVEN: [f32; 2] = [1.0, 1.0];

pub(super) fn a_page_is_found_by_its_meaning_and_the_answer_says_so(place: &Place) {
    let mut store = store_with(place, shape(4, "A"));
    put_meaning(
        &mut store,
        &page("w/sea.md", "waves"),
        Some([0.0, 1.0, 0.0, 0.0]),
    );
    put_meaning(
        &mut store,
        &page("w/hill.md", "slopes"),
        Some([1.0, 0.0, 0.0, 0.0]),
    );
    let answer = ask(&mut store, "", [0.6, 0.8, 0.0, 0.0], EVEN);
    assert_eq!(paths(&answer), ["w/sea.md", "w/hill.md"]);
    assert_eq!(answer.channels, [Channel::Meaning]);
    assert!((answer.hits[0].score - 0.8).abs() < 1e-6, "{answer:?}");
    let answer = ask(&mut store, "slopes", [0.6, 0.8, 0.0, 0.0], EVEN);
    assert_eq!(answer.channels, [Channel::Words, Channel::Meaning]);
    let words = store.ask(&Question::words("slopes", 5)).expect("searched");
    assert_eq!(words.channels, [Channel::Words]);
    assert_eq!(paths(&words), ["w/hill.md"]);
}

pub(super) fn words_and_meaning_are_fused_and_weighed(place: &Place) {
    let mut store = store_with(place, shape(4, "A"));
    let meanings = [
        ("w/words.md", "needle needle", [0.0, 0.0, 0.0, 1.0]),
        ("w/both.md", "needle and hay", [0.8, 0.6, 0.0, 0.0]),
        ("w/meaning.md", "other", [1.0, 0.0, 0.0, 0.0]),
    ];
    for (path, text, meaning) in meanings {
        put_meaning(&mut store, &page(path, text), Some(meaning));
    }
    let query = [1.0, 0.0, 0.0, 0.0];
    // Ranks by words: words, both. By meaning: meaning, both, words.
    let answer = ask(&mut store, "needle", query, EVEN);
    assert_eq!(paths(&answer).len(), 3);
    let score = |path: &str, answer: &Answer| {
        let hit = answer.hits.iter().find(|hit| hit.path == path);
        hit.expect("found").score
    };
    assert!(
        (score("w/words.md", &answer) - (1.0 / 2.0 + 1.0 / 4.0)).abs() < 1e-6,
        "{answer:?}"
    );
    assert!(
        (score("w/both.md", &answer) - (1.0 / 3.0 + 1.0 / 3.0)).abs() < 1e-6,
        "{answer:?}"
    );
    assert!(
        (score("w/meaning.md", &answer) - 1.0 / 2.0).abs() < 1e-6,
        "{answer:?}"
    );
    let answer = ask(&mut store, "needle", query, [0.1, 5.0]);
    assert_eq!(paths(&answer)[0], "w/meaning.md");
    let answer = ask(&mut store, "needle", query, [5.0, 0.1]);
    assert_eq!(paths(&answer)[0], "w/words.md");
}

pub(super) fn another_dimension_is_refused_though_it_is_empty_and_nothing_is_deleted(
    place: &Place,
) {
    let mut first = store_with(place, shape(4, "A"));
    let id = first.identity().expect("identity").id;
    drop(first);
    let mut other = store_with(place, shape(8, "B"));
    let change = [Change::Put(Arc::new(page("w/a.md", "x")))];
    for failure in [
        other.identity().expect_err("refused"),
        other.apply(&change, 1).expect_err("refused"),
        other.inventory().expect_err("refused"),
    ] {
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(
            failure.reason.contains("4 dimensions") && failure.reason.contains("vectors of 8"),
            "{failure}"
        );
        assert!(failure.hint.is_some_and(|hint| hint.contains("rebuild")));
    }
    drop(other);
    let mut again = store_with(place, shape(4, "A"));
    assert_eq!(again.identity().expect("identity").id, id);
}

pub(super) fn another_model_of_the_same_dimension_is_refused_and_nothing_is_deleted(place: &Place) {
    let mut first = store_with(place, shape(4, "A"));
    put_meaning(&mut first, &page("w/a.md", "x"), Some([1.0, 0.0, 0.0, 0.0]));
    drop(first);
    let mut other = store_with(place, shape(4, "B"));
    let question = Question {
        meaning: Some(&[1.0, 0.0, 0.0, 0.0]),
        ..Question::words("x", 5)
    };
    for failure in [
        other.identity().expect_err("refused"),
        other.ask(&question).expect_err("refused"),
    ] {
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(
            failure.reason.contains("made with A") && failure.reason.contains("name B"),
            "{failure}"
        );
        assert!(failure.hint.is_some_and(|hint| hint.contains("rebuild")));
    }
    drop(other);
    // Also when the first was killed before it had written a page.
    let settings = VectorSettings {
        shape: shape(4, "A"),
        ..place.settings("wiki-2")
    };
    put(&mut store_of(place, "wiki-2"), 1, vec![page("w/a.md", "x")]);
    let mut killed = VectorStore::open(settings, &state(place), None).expect("a store");
    killed.meta_or_new().expect("ready");
    let model = killed.meta().expect("read").expect("there").model;
    assert_eq!(model.as_deref(), Some("A"));
    drop(killed);
    // Nor by way of no provider at all, after which A's vectors may still be there.
    put(
        &mut store_with(place, Shape::default()),
        2,
        vec![page("w/a.md", "y")],
    );
    let failure = store_with(place, shape(4, "B"))
        .identity()
        .expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(count(&mut store_with(place, shape(4, "A")), "w/a.md"), 1);
}

pub(super) fn dense_vectors_are_added_to_a_store_of_words(place: &Place) {
    let mut words = store(place);
    put(
        &mut words,
        1,
        vec![page("w/a.md", "waves"), page("w/b.md", "slopes")],
    );
    let id = words.identity().expect("identity").id;
    drop(words);
    let mut store = store_with(place, shape(4, "A"));
    assert_eq!(store.identity().expect("identity").id, id);
    assert_eq!(count(&mut store, "w/a.md"), 1);
    assert!(store.fingerprint().contains("dense A"));
    put_meaning(
        &mut store,
        &page("w/a.md", "waves"),
        Some([1.0, 0.0, 0.0, 0.0]),
    );
    drop(store);
    let mut store = store_with(place, shape(4, "A"));
    let answer = ask(&mut store, "", [1.0, 0.0, 0.0, 0.0], EVEN);
    assert_eq!(paths(&answer), ["w/a.md"]);
}

pub(super) fn a_page_whose_meaning_is_unknown_for_now_loses_its_old_one(place: &Place) {
    let mut store = store_with(place, shape(4, "A"));
    put_meaning(
        &mut store,
        &page("w/a.md", "waves"),
        Some([1.0, 0.0, 0.0, 0.0]),
    );
    put_meaning(&mut store, &page("w/a.md", "slopes"), None);
    let answer = ask(&mut store, "", [1.0, 0.0, 0.0, 0.0], EVEN);
    assert!(answer.hits.is_empty(), "{answer:?}");
    let held = points(&mut store).remove("w/a.md").expect("held");
    assert_eq!((held.len(), &held[0].dense), (1, &None));
    assert_holds(&mut store, &[page("w/a.md", "slopes")]);
}

pub(super) fn without_a_provider_dense_vectors_that_are_there_are_in_nobodys_way(place: &Place) {
    let mut first = store_with(place, shape(4, "A"));
    put_meaning(
        &mut first,
        &page("w/a.md", "waves"),
        Some([1.0, 0.0, 0.0, 0.0]),
    );
    drop(first);
    let mut words = store(place);
    put(
        &mut words,
        2,
        vec![page("w/a.md", "slopes"), page("w/b.md", "new")],
    );
    assert_holds(
        &mut words,
        &[page("w/a.md", "slopes"), page("w/b.md", "new")],
    );
    assert_eq!(words.search("slopes", 5).expect("searched").len(), 1);
}

fn provided(place: &Place, server: &EmbeddingServer, prefix: &str) -> VectorStore {
    provided_with(place, server, |settings| {
        settings.passage_prefix = prefix.into();
    })
}

fn provided_with(
    place: &Place,
    server: &EmbeddingServer,
    change: impl FnOnce(&mut EmbeddingSettings),
) -> VectorStore {
    let mut settings = EmbeddingSettings {
        is_on: true,
        url: server.url(),
        model: MODEL.into(),
        concurrency: 1,
        ..EmbeddingSettings::default()
    };
    change(&mut settings);
    let database = place.path().join("wiki.db");
    let embeddings = open_provider(&settings, Ok(None), &database).expect("opened");
    VectorStore::open(place.settings("wiki-1"), &state(place), embeddings).expect("a store")
}

fn embedded(server: &EmbeddingServer) -> usize {
    server.asked().iter().map(|asked| asked.texts.len()).sum()
}

fn assert_meant(store: &mut VectorStore, path: &str) {
    for point in points(store).remove(path).expect("held") {
        let meant = EmbeddingServer::vector(&point.passage());
        let held = point.dense.as_ref().expect("a meaning");
        let off = held.iter().zip(&meant).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1e-5, "{held:?} {meant:?}");
    }
}

pub(super) fn each_section_is_embedded_once_and_none_to_compare_a_page_with_what_is_held(
    place: &Place,
) {
    let server = EmbeddingServer::start();
    let mut store = provided(place, &server, "");
    let pages = |word| vec![page("w/a.md", &sections(3, word)), page("w/b.md", "other")];
    assert_eq!(put(&mut store, 1, pages("one")), [true, true]);
    assert_eq!(embedded(&server), 4);
    assert_meant(&mut store, "w/a.md");
    assert_holds(&mut store, &pages("one"));
    assert_eq!(put(&mut store, 2, pages("one")), [false, false]);
    drop(store);
    let mut store = provided(place, &server, "");
    assert_eq!(put(&mut store, 3, pages("one")), [false, false]);
    assert_eq!(embedded(&server), 0);
    let edited = sections(3, "one").replace("number1", "edited");
    assert_eq!(put(&mut store, 4, vec![page("w/a.md", &edited)]), [true]);
    assert_eq!((embedded(&server), count(&mut store, "w/a.md")), (1, 3));
    assert_meant(&mut store, "w/a.md");
    let tally = store.tally();
    assert_eq!((tally.embedded, tally.cached), (Some(1), Some(2)));
}

pub(super) fn a_page_goes_in_with_its_words_while_the_provider_is_away_and_is_owed_the_rest(
    place: &Place,
) {
    let mut server = EmbeddingServer::start();
    server.down();
    let mut store = provided(place, &server, "");
    let change = [
        Change::Put(Arc::new(page("w/a.md", &sections(3, "needle")))),
        Change::Remove(path("w/gone.md")),
    ];
    let outcomes = store.apply(&change, 1).expect("words go in");
    let failure = outcomes[0].as_ref().expect_err("owed");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(outcomes[1].is_ok(), "a removal needs no provider");
    let lack = store.lack().expect("it is away");
    assert!(
        failure.reason.starts_with("found by words only") && failure.reason.ends_with(&lack.reason),
        "{failure}"
    );
    assert_eq!(store.search("needle", 5).expect("searched").len(), 1);
    let expected = store.expected(&page("w/a.md", &sections(3, "needle")));
    let held = store.inventory().expect("read");
    assert_ne!(Some(&held[0].digest), expected.expect("derived").as_ref());
    assert_eq!(
        store.probe_lack().expect_err("away").kind,
        FailureKind::Down
    );
    server.up();
    // It is left alone until it is asked for.
    let outcomes = store.apply(&change, 2).expect("applied");
    assert!(outcomes[0].is_err() && server.asked().is_empty());
    store.probe_lack().expect("back");
    let _ = server.asked();
    assert!(store.apply(&change, 3).expect("applied")[0].is_ok());
    assert_eq!((embedded(&server), store.lack()), (3, None));
    assert_holds(&mut store, &[page("w/a.md", &sections(3, "needle"))]);
    assert_meant(&mut store, "w/a.md");
    let query = EmbeddingServer::vector("needle");
    let question = Question {
        meaning: Some(&query),
        ..Question::words("needle", 5)
    };
    let answer = store.ask(&question).expect("searched");
    assert_eq!(answer.channels, [Channel::Words, Channel::Meaning]);
}

pub(super) fn a_provider_that_uses_up_the_time_and_gives_nothing_is_away(place: &Place) {
    for (word, fault, words) in [
        // An innocent text is answered meanwhile.
        ("needle", Fault::Hang, "did not answer within 0.4 s"),
        ("pin", Fault::After(429, "2"), "answered 429"),
    ] {
        let server = EmbeddingServer::start();
        server.poison(word, fault);
        let mut store = provided_with(place, &server, |settings| {
            settings.timeout = Duration::from_millis(400);
        });
        let soon = Duration::from_millis(100);
        store.meaning.as_mut().expect("a provider").patience = soon;
        let change = [Change::Put(Arc::new(page("w/a.md", &sections(3, word))))];
        let outcomes = store.apply(&change, 1).expect("words go in");
        let failure = outcomes[0].as_ref().expect_err("owed");
        assert_eq!(failure.kind, FailureKind::Down);
        assert!(failure.reason.contains(words), "{failure}");
        assert_eq!(store.lack().expect("it is away").kind, FailureKind::Down);
        assert_eq!(store.search(word, 5).expect("searched").len(), 1);
        server.cure();
        let long = Duration::from_mins(1);
        store.meaning.as_mut().expect("a provider").patience = long;
        store.probe_lack().expect("back");
        assert!(store.apply(&change, 2).expect("applied")[0].is_ok());
        assert_eq!(store.lack(), None);
        put(&mut store, 3, vec![page("w/a.md", "other")]);
    }
}

pub(super) fn another_model_is_refused_also_while_it_is_not_known_how_long_its_vectors_are(
    place: &Place,
) {
    let server = EmbeddingServer::start();
    put(
        &mut provided(place, &server, ""),
        1,
        vec![page("w/a.md", "x")],
    );
    let _ = server.asked();
    let failure = provided(place, &server, "other: ")
        .identity()
        .expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.reason.contains("other: "), "{failure}");
    assert!(failure.hint.is_some_and(|hint| hint.contains("rebuild")));
    assert_eq!(embedded(&server), 0);
    put(
        &mut provided(place, &server, ""),
        2,
        vec![page("w/a.md", "y")],
    );
}
