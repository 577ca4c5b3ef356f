//! What every engine must do, run for each of them. Against the server that `WIKI_SYNC_TEST_QDRANT_URL` names too, if it
//! does, in collections of their own.

use super::*;

/// Runs each of the tests on a place of its own, once for each engine.
macro_rules! contract {
    ($($module:ident { $($name:ident,)* })*) => {
        mod edge {
            use super::super::*;
            $($(
                #[test]
                fn $name() {
                    $module::$name(&Place::edge());
                }
            )*)*
        }

        #[cfg(feature = "server")]
        mod server {
            use super::super::*;
            $($(
                #[test]
                fn $name() {
                    $module::$name(&Place::server());
                }
            )*)*
        }
    };
}

contract! {
    contract {
        three_edits_of_a_page_leave_as_many_points_as_sections,
        a_page_that_loses_a_section_loses_its_point,
        a_removed_page_leaves_no_point_and_removing_it_again_changes_nothing,
        a_page_that_is_held_already_is_not_written_again,
        changed_labels_give_the_points_new_keys_and_leave_none_behind,
        two_pages_with_the_same_labels_do_not_take_each_others_points,
        points_of_another_wiki_in_the_same_place_are_left_alone_and_not_found,
        points_deleted_or_damaged_behind_our_back_show_in_the_inventory_and_are_healed_by_a_put,
        a_store_opened_again_holds_the_same_points_and_identity,
        a_renewed_store_has_another_id_and_holds_what_it_held,
        asking_what_is_held_and_searching_create_nothing,
        a_search_looks_only_at_the_pages_that_are_wanted,
        more_points_than_go_into_a_request_are_held_and_read,
        points_of_a_newer_program_are_refused,
    }
    search {
        a_page_without_text_is_found_by_its_title,
        a_korean_query_finds_the_korean_page_in_another_inflection,
        a_page_is_found_once_with_its_best_section,
        equal_scores_come_in_the_order_of_the_paths,
        a_query_without_words_finds_nothing,
        the_best_of_named_pages_are_told_also_where_no_word_is_found,
    }
    meaning {
        a_page_is_found_by_its_meaning_and_the_answer_says_so,
        words_and_meaning_are_fused_and_weighed,
        another_dimension_is_refused_though_it_is_empty_and_nothing_is_deleted,
        another_model_of_the_same_dimension_is_refused_and_nothing_is_deleted,
        dense_vectors_are_added_to_a_store_of_words,
        a_page_whose_meaning_is_unknown_for_now_loses_its_old_one,
        without_a_provider_dense_vectors_that_are_there_are_in_nobodys_way,
        each_section_is_embedded_once_and_none_to_compare_a_page_with_what_is_held,
        a_page_goes_in_with_its_words_while_the_provider_is_away_and_is_owed_the_rest,
        a_provider_that_uses_up_the_time_and_gives_nothing_is_away,
        another_model_is_refused_also_while_it_is_not_known_how_long_its_vectors_are,
    }
}

pub(super) fn three_edits_of_a_page_leave_as_many_points_as_sections(place: &Place) {
    let mut store = store(place);
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

pub(super) fn a_page_that_loses_a_section_loses_its_point(place: &Place) {
    let mut store = store(place);
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

pub(super) fn a_removed_page_leaves_no_point_and_removing_it_again_changes_nothing(place: &Place) {
    let mut store = store(place);
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

pub(super) fn a_page_that_is_held_already_is_not_written_again(place: &Place) {
    let mut store = store(place);
    let text = sections(3, "x");
    assert_eq!(put(&mut store, 1, vec![page("w/a.md", &text)]), [true]);
    let again = vec![page("w/a.md", &text), page("w/b.md", "new")];
    assert_eq!(put(&mut store, 2, again), [false, true]);
}

pub(super) fn changed_labels_give_the_points_new_keys_and_leave_none_behind(place: &Place) {
    let mut store = store(place);
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

pub(super) fn two_pages_with_the_same_labels_do_not_take_each_others_points(place: &Place) {
    let mut store = store(place);
    let same = "---\nrepo: R\ncommit: C\nsymbol: f\n---\n";
    let pages = || ["w/a.md", "w/b.md"].map(|at| page(at, &format!("{same}text of {at}")));
    put(&mut store, 1, pages().into());
    assert_holds(&mut store, &pages());
    apply(&mut store, 2, &[Change::Remove(path("w/a.md"))]);
    assert_eq!(count(&mut store, "w/b.md"), 1);
}

pub(super) fn points_of_another_wiki_in_the_same_place_are_left_alone_and_not_found(place: &Place) {
    let mut other = store_of(place, "wiki-2");
    put(&mut other, 7, vec![page("w/a.md", &sections(3, "alien"))]);
    drop(other);
    let mut ours = store(place);
    put(&mut ours, 1, vec![page("w/a.md", &sections(2, "ours"))]);
    assert_eq!(count(&mut ours, "w/a.md"), 2);
    apply(&mut ours, 2, &[Change::Remove(path("w/a.md"))]);
    assert!(ours.inventory().expect("inventory").is_empty());
    assert!(ours.search("alien", 5).expect("searched").is_empty());
    drop(ours);
    let mut other = store_of(place, "wiki-2");
    assert_eq!(other.identity().expect("identity").epoch, 7);
    assert_holds(&mut other, &[page("w/a.md", &sections(3, "alien"))]);
}

pub(super) fn points_deleted_or_damaged_behind_our_back_show_in_the_inventory_and_are_healed_by_a_put(
    place: &Place,
) {
    let mut store = store(place);
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

pub(super) fn a_store_opened_again_holds_the_same_points_and_identity(place: &Place) {
    let text = sections(4, "x");
    let mut first = store(place);
    let id = first.identity().expect("identity").id;
    put(&mut first, 41, vec![page("w/a.md", &text)]);
    let before = points(&mut first);
    drop(first);
    let mut again = store(place);
    assert_eq!(
        again.identity().expect("identity"),
        Identity { id, epoch: 41 }
    );
    assert_eq!(points(&mut again), before);
    assert_eq!(put(&mut again, 42, vec![page("w/a.md", &text)]), [false]);
}

pub(super) fn a_renewed_store_has_another_id_and_holds_what_it_held(place: &Place) {
    let mut store = store(place);
    put(&mut store, 7, vec![page("w/a.md", "x")]);
    let before = store.identity().expect("identity");
    let after = store.renew().expect("renewed");
    assert!(after.id != before.id && after.epoch == 0);
    assert_eq!(store.identity().expect("identity"), after);
    assert_holds(&mut store, &[page("w/a.md", "x")]);
}

pub(super) fn asking_what_is_held_and_searching_create_nothing(place: &Place) {
    let mut store = store(place);
    assert!(store.inventory().expect("inventory").is_empty());
    assert!(store.search("x", 5).expect("searched").is_empty());
    let adopted = adopted_wiki_id(&place.settings(""), &state(place)).expect("asked");
    assert_eq!(adopted, None);
    assert!(!state(place).path().exists());
    assert!(!store.is_there().expect("asked"));
}

pub(super) fn a_search_looks_only_at_the_pages_that_are_wanted(place: &Place) {
    let mut store = store(place);
    let matter =
        |tag: &str, lang: &str| format!("---\ntags: [{tag}, all]\nlang: {lang}\n---\nword");
    let pages = vec![
        labelled("w/a/one.md", &matter("red", "ko"), ["r1", ""]),
        labelled("w/a/two.md", &matter("blue", "en"), ["r1", ""]),
        labelled("w/ab.md", &matter("red", "en"), ["r2", ""]),
    ];
    put(&mut store, 1, pages);
    let some = |text: &str| Some(text.to_owned());
    let none = Only::default;
    for (only, expected) in [
        (none(), &["w/a/one.md", "w/a/two.md", "w/ab.md"][..]),
        (
            Only {
                prefix: some("w/a/"),
                ..none()
            },
            &["w/a/one.md", "w/a/two.md"],
        ),
        (
            Only {
                prefix: some("w/a/t"),
                ..none()
            },
            &["w/a/two.md"],
        ),
        (
            Only {
                prefix: some("w/a"),
                ..none()
            },
            &["w/a/one.md", "w/a/two.md", "w/ab.md"],
        ),
        (
            Only {
                tags: vec!["red".into()],
                ..none()
            },
            &["w/a/one.md", "w/ab.md"],
        ),
        (
            Only {
                lang: some("en"),
                ..none()
            },
            &["w/a/two.md", "w/ab.md"],
        ),
        (
            Only {
                repo: some("r2"),
                ..none()
            },
            &["w/ab.md"],
        ),
        (
            Only {
                tags: vec!["red".into()],
                lang: some("ko"),
                ..none()
            },
            &["w/a/one.md"],
        ),
        (
            Only {
                tags: vec!["blue".into(), "none".into(), "red".into()],
                pages: vec!["w/ab.md".into(), "w/a/two.md".into(), "w/none.md".into()],
                ..none()
            },
            &["w/a/two.md", "w/ab.md"],
        ),
        (
            Only {
                prefix: some("w/ab"),
                pages: vec!["w/a/two.md".into()],
                ..none()
            },
            &[],
        ),
        (
            Only {
                tags: vec!["re".into()],
                ..none()
            },
            &[],
        ),
    ] {
        let question = Question {
            only: only.clone(),
            ..Question::words("word", 5)
        };
        let answer = store.ask(&question).expect("searched");
        let mut found: Vec<_> = answer.hits.iter().map(|hit| hit.path.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{only:?}");
    }
}

pub(super) fn more_points_than_go_into_a_request_are_held_and_read(place: &Place) {
    let mut store = store(place);
    let pages = || {
        vec![
            page("w/a.md", &sections(700, "many")),
            page("w/b.md", "few"),
        ]
    };
    put(&mut store, 1, pages());
    assert_holds(&mut store, &pages());
    assert_eq!(put(&mut store, 2, pages()), [false, false]);
    assert_eq!(
        put(&mut store, 3, vec![page("w/a.md", &sections(2, "many"))]),
        [true]
    );
    assert_eq!(count(&mut store, "w/a.md"), 2);
}

pub(super) fn points_of_a_newer_program_are_refused(place: &Place) {
    let mut store = store(place);
    put(&mut store, 1, vec![page("w/a.md", "x")]);
    let mut meta = store.meta().expect("read").expect("there");
    meta.schema += 1;
    store.write_meta(&meta).expect("written");
    store.engine.note(&meta).expect("noted");
    let failure = store.identity().expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    let change = [Change::Put(Arc::new(page("w/a.md", "y")))];
    let failure = store.apply(&change, 2).expect_err("refused");
    assert!(failure.reason.contains("newer wiki-sync"), "{failure}");
}
