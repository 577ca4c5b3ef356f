//! What is found.

use std::fmt::Write as _;

use super::*;

pub(super) fn a_page_without_text_is_found_by_its_title(place: &Place) {
    let mut store = store(place);
    let pages = || [page("w/lonely.md", ""), page("w/!!!.md", "")];
    put(&mut store, 1, pages().into());
    assert_holds(&mut store, &pages());
    assert_eq!(
        store.search("lonely", 5).expect("searched")[0].path,
        "w/lonely.md"
    );
}

pub(super) fn a_korean_query_finds_the_korean_page_in_another_inflection(place: &Place) {
    let mut store = store(place);
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

pub(super) fn a_page_is_found_once_with_its_best_section(place: &Place) {
    let mut store = store(place);
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

pub(super) fn equal_scores_come_in_the_order_of_the_paths(place: &Place) {
    let mut store = store(place);
    let pages = (0..200)
        .rev()
        .map(|n| page(&format!("w/{n:03}.md"), "---\ntitle: T\n---\nsame"));
    put(&mut store, 1, pages.collect());
    let hits = store.search("same", 3).expect("searched");
    let found: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(found, ["w/000.md", "w/001.md", "w/002.md"]);
}

pub(super) fn a_query_without_words_finds_nothing(place: &Place) {
    let mut store = store(place);
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    for query in ["", "  ", "?!"] {
        assert!(
            store.search(query, 5).expect("searched").is_empty(),
            "{query:?}"
        );
    }
    assert!(store.search("x", 0).expect("searched").is_empty());
}

pub(super) fn the_best_of_named_pages_are_told_also_where_no_word_is_found(place: &Place) {
    let mut store = store(place);
    let other = "---\ntags: [red]\n---\n# Other\n\nfirst\n\n# More\n\nsecond\n";
    put(
        &mut store,
        1,
        vec![
            page("w/a.md", "# A\n\nneedle in a long text of other words"),
            page("w/b.md", "# B\n\nneedle needle"),
            page("w/c.md", other),
            page("w/d.md", other),
            page("w/e.md", "# Needle\n\nneedle"),
        ],
    );
    let named = ["w/d.md", "w/c.md", "w/a.md", "w/gone.md", "w/b.md"].map(String::from);
    let whole = store.search("needle", 9).expect("searched");
    let best = |store: &mut VectorStore, text: &str, limit: usize, tag: Option<&str>| {
        let question = Question {
            only: Only {
                tags: tag.map(String::from).into_iter().collect(),
                ..Only::default()
            },
            ..Question::words(text, limit)
        };
        store.best_of(&question, &named).expect("searched")
    };
    let found = best(&mut store, "needle", 9, None);
    let paths = |hits: &[Hit]| -> Vec<String> { hits.iter().map(|hit| hit.path.clone()).collect() };
    assert_eq!(paths(&found), ["w/b.md", "w/a.md", "w/d.md", "w/c.md"]);
    assert_eq!(found[2].text, "first");
    for hit in &found {
        let as_ever = whole.iter().find(|one| one.path == hit.path);
        let score = as_ever.map_or(0.0, |one| one.score);
        assert!((hit.score - score).abs() < 1e-6, "{hit:?}");
    }
    assert_eq!(
        paths(&best(&mut store, "needle", 3, None)),
        ["w/b.md", "w/a.md", "w/d.md"]
    );
    assert_eq!(paths(&best(&mut store, "?", 1, Some("red"))), ["w/d.md"]);
    assert!(best(&mut store, "?", 9, Some("blue")).is_empty());
}

#[test]
#[ignore = "five thousand sections: for scripts/test --long"]
fn a_warm_query_over_five_thousand_sections_takes_less_than_twenty_milliseconds() {
    let place = Place::edge();
    let shape = Shape {
        dense: Some(Dense {
            dimension: 384,
            model: "A".into(),
        }),
    };
    let settings = VectorSettings {
        shape,
        ..place.settings("wiki-1")
    };
    let mut store = VectorStore::open(settings, &state(&place), None).expect("a store");
    store.identity().expect("ready");
    let mut seed = 7_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u16::try_from(seed >> 49).expect("fifteen bits")
    };
    for n in 0..50 {
        let mut sections = String::new();
        for part in 0..100 {
            write!(sections, "# Part {part}\n\nstorm").expect("a string");
            for _ in 0..120 {
                write!(sections, " term{}", random() % 20_000).expect("a string");
            }
            sections.push_str("\n\n");
        }
        let mut points = store.points_of(&page(&format!("w/{n}.md"), &sections));
        for point in &mut points {
            let dense: Vec<f32> = (0..384).map(|_| f32::from(random()) - 16_384.0).collect();
            let length = dense.iter().map(|n| n * n).sum::<f32>().sqrt();
            point.dense = Some(dense.iter().map(|n| n / length).collect());
        }
        assert!(store.engine.upsert(points).expect("written").is_empty());
    }
    store.engine.flush().expect("flushed");
    let meaning = [0.051_031_036; 384];
    for meaning in [None, Some(&meaning[..])] {
        let mut times: Vec<_> = (0..50)
            .map(|n| {
                let text = format!("storm term{n} term{}", n * 7);
                let question = Question {
                    meaning,
                    ..Question::words(&text, 10)
                };
                let started = std::time::Instant::now();
                assert_eq!(store.ask(&question).expect("searched").hits.len(), 10);
                started.elapsed()
            })
            .collect();
        times.sort();
        // The best of fifty, which a busy machine leaves alone.
        assert!(times[0] < Duration::from_millis(20), "{:?}", times[0]);
    }
}
