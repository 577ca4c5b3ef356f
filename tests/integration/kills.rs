//! kill -9 between any two steps: one drain later everything is in sync.

use crate::wiki::Wiki;

/// Every failpoint that a drain of puts and removals passes.
const POINTS: &[&str] = &[
    "outbox.enqueued",
    "outbox.claimed",
    "drain.claimed",
    "drain.voided",
    "graph.before_commit",
    "graph.after_commit",
    "drain.applied#1",
    "vectors.before_upsert",
    "vectors.after_upsert",
    "vectors.after_delete",
    "vectors.flushed",
    "vectors.epoch",
    "drain.applied#2",
    "git.objects",
    "git.temp_index",
    "git.journal",
    "git.linked",
    "git.checked",
    "git.ref_moved",
    "git.index_renamed",
    "git.journal_removed",
    "drain.applied#3",
    "drain.before_receipts",
    "drain.receipts",
    "drain.before_settle",
    "outbox.before_settle",
    "outbox.settled",
    "drain.settled",
];

fn edited() -> Wiki {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/a.md", "# Alpha two\n\nsee [[new]]\n");
    wiki.write("wiki-output/new.md", "# New\n");
    wiki.remove("wiki-output/b.md");
    wiki
}

#[test]
fn killed_between_any_two_steps_one_drain_heals() {
    for point in POINTS {
        let wiki = edited();
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!(
            wiki.head_pages(),
            [
                "wiki-output/a.md",
                "wiki-output/new.md",
                "wiki-output/sub/c.md"
            ],
            "{point}"
        );
    }
}

#[test]
fn killed_at_any_step_and_the_page_back_at_its_first_text_everything_holds_that() {
    let first = "# Beta\n\nBack to [Alpha](a.md).\n";
    for point in POINTS {
        let wiki = Wiki::small();
        wiki.drain();
        wiki.write("wiki-output/b.md", "# Beta two\n\nzebra words\n");
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        wiki.write("wiki-output/b.md", first);
        wiki.drain();
        wiki.assert_in_sync();
        let hits = wiki.json(0, &["search", "zebra"]);
        assert_eq!(
            hits,
            serde_json::json!([]),
            "{point}: nothing of the second text is left"
        );
    }
}

#[test]
fn killed_in_the_very_first_drain_the_next_one_completes_it() {
    for point in POINTS.iter().step_by(3) {
        let wiki = Wiki::small();
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn killed_again_and_again_no_innocent_page_is_dead_lettered() {
    let wiki = edited();
    for _ in 0..6 {
        assert!(wiki.killed_at("git.linked", &["drain"]));
    }
    wiki.drain();
    wiki.assert_in_sync();
}

/// So many pages go to the stores side by side, so that a kill finds each of them anywhere.
#[test]
fn killed_while_all_stores_are_at_work_one_drain_heals() {
    let wiki = Wiki::with(&[]);
    let write_all = |text: &str| {
        for n in 0..100 {
            wiki.write(
                &format!("wiki-output/p{n}.md"),
                format!("# Page {n}\n\n{text} [[p{}]]\n", (n * 7) % 110),
            );
        }
    };
    for point in POINTS.iter().skip(3) {
        write_all(point);
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        // What was under way is not what the next drain finds.
        wiki.write("wiki-output/p7.md", format!("# Page 7 after {point}\n"));
        wiki.drain();
        wiki.assert_in_sync();
    }
}

/// From 100 new pages on, git's objects are a pack.
#[test]
fn killed_while_a_pack_is_written_git_is_sound_and_one_drain_heals() {
    for (point, left) in [
        ("git.pack_written", "tmp_pack_"),
        ("git.pack_named", ".pack"),
        ("git.packed", ".keep"),
        ("git.checked", ".keep"),
        ("git.ref_moved", ".keep"),
    ] {
        let wiki = Wiki::with(&[]);
        for n in 0..120 {
            wiki.write(&format!("wiki-output/p{n}.md"), format!("# Page {n}\n"));
        }
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        let packs = || {
            let entries = std::fs::read_dir(wiki.root().join(".git/objects/pack")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        };
        assert!(packs().iter().any(|name| name.contains(left)), "{point}");
        wiki.git(&["fsck", "--strict"]);
        wiki.git(&["gc", "-q", "--prune=now"]);
        wiki.git(&["fsck", "--strict"]);
        // Other pages are new by then, so the pack of the dead is nobody's.
        for n in 0..120 {
            wiki.write(
                &format!("wiki-output/p{n}.md"),
                format!("# Page {n}, again\n"),
            );
        }
        wiki.drain();
        wiki.assert_in_sync();
        wiki.git(&["gc", "-q", "--prune=now"]);
        let left = packs();
        let count = |ending: &str| left.iter().filter(|name| name.ends_with(ending)).count();
        assert_eq!((count(".pack"), count(".idx")), (1, 1), "{point}: {left:?}");
        assert_eq!(count(".keep"), 0, "{point}: {left:?}");
        assert!(
            !left.iter().any(|name| name.starts_with("tmp_")),
            "{left:?}"
        );
    }
}
