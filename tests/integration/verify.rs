//! `verify`: its fast mode, and looking at some stores and some pages only.

use std::fs;

use serde_json::{Value, json};

use crate::damage::hands::{Shard, commit_other, other_store, outbox, sqlite};
use crate::wiki::Wiki;

const A: &str = "wiki-output/a.md";
const B: &str = "wiki-output/b.md";
const C: &str = "wiki-output/sub/c.md";

fn drained() -> Wiki {
    let wiki = Wiki::small();
    wiki.drain();
    wiki
}

fn damage_the_graph(wiki: &Wiki, page: &str) {
    sqlite(
        wiki,
        "UPDATE graph_pages SET title = 'x' WHERE path = ?1",
        page,
    );
}

fn damage_the_vectors(wiki: &Wiki, page: &str) {
    let shard = Shard::open(wiki);
    shard.delete(shard.of(page).id);
}

fn drift(path: &str, store: &str, kind: &str) -> Value {
    json!({"path": path, "store": store, "kind": kind})
}

#[test]
fn the_fast_mode_says_which_it_is_and_what_it_cannot_see() {
    let wiki = drained();
    let report = wiki.json(0, &["verify", "--fast"]);
    assert_eq!(
        (&report["mode"], &report["pages"]),
        (&json!("fast"), &json!(3))
    );
    assert_eq!(report["unseen"].as_array().unwrap().len(), 2, "{report}");
    let told = wiki.ws(&["verify", "--fast"]).code(0).out;
    assert!(
        told.contains("by the receipts of graph, vectors, git"),
        "{told}"
    );
    assert!(
        told.contains("Not seen:\n  what graph and vectors really hold"),
        "{told}"
    );
    // It believes the receipts; the full one does not.
    damage_the_graph(&wiki, A);
    wiki.json(0, &["verify", "--fast"]);
    let full = wiki.json(3, &["verify"]);
    assert_eq!(full["drift"], json!([drift(A, "graph", "stale")]));
    assert_eq!(
        (&full["mode"], &full["unseen"]),
        (&json!("full"), &json!([]))
    );
}

#[test]
fn the_fast_mode_says_the_worst_that_is_known_of_each_page() {
    let wiki = drained();
    wiki.write(A, "# Another\n");
    wiki.remove(B);
    wiki.write("wiki-output/new.md", "# New\n");
    commit_other(&wiki, C);
    let report = wiki.json(3, &["verify", "--fast"]);
    let mut expected = Vec::new();
    for (path, kind) in [
        (A, "stale"),
        (B, "orphan"),
        ("wiki-output/new.md", "missing"),
    ] {
        expected.extend(["git", "graph", "vectors"].map(|store| drift(path, store, kind)));
    }
    // Of what somebody else committed the tree alone does not say whether it is the page.
    expected.push(drift(C, "git", "unproven"));
    assert_eq!(report["drift"], json!(expected));
    let repaired = wiki.json(3, &["verify", "--fast", "--repair"]);
    assert_eq!(repaired["repaired"], 4);
    let waiting = wiki.json(75, &["verify", "--fast"]);
    assert_eq!(
        (&waiting["waiting"], &waiting["drift"]),
        (&json!(4), &json!([]))
    );
    wiki.json(0, &["drain", "--no-scan"]);
    wiki.json(0, &["verify", "--fast"]);
    wiki.assert_in_sync();
}

#[test]
fn neither_mode_changes_anything() {
    let wiki = Wiki::small();
    for mode in [&["verify", "--fast"][..], &["verify"]] {
        let report = wiki.json(3, mode);
        assert_eq!(report["drift"].as_array().unwrap().len(), 9, "{report}");
        assert!(!wiki.root().join(".wiki-sync/vectors").exists());
    }
    wiki.drain();
    wiki.write(A, "# Another\n");
    assert!(wiki.killed_at("git.journal", &["drain"]));
    let journal = wiki.root().join(".git/wiki-sync-journal");
    for mode in [&["verify", "--fast"][..], &["verify"]] {
        let report = wiki.json(75, mode);
        assert_eq!(report["waiting"], 1, "{report}");
        assert!(
            journal.exists(),
            "what was cut short is the drain's to finish"
        );
    }
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn only_the_stores_asked_for_are_read_and_repaired() {
    let wiki = drained();
    damage_the_graph(&wiki, A);
    damage_the_vectors(&wiki, B);
    let graph = wiki.json(3, &["verify", "--store", "graph", "--repair"]);
    assert_eq!(graph["drift"], json!([drift(A, "graph", "stale")]));
    assert_eq!(
        (&graph["stores"], &graph["repaired"]),
        (&json!(["graph"]), &json!(1))
    );
    wiki.json(0, &["drain", "--no-scan"]);
    wiki.json(0, &["verify", "--store", "graph", "--store", "git"]);
    let left = wiki.json(3, &["verify"]);
    assert_eq!(left["drift"], json!([drift(B, "vectors", "missing")]));
    // What is not asked for need not even be readable.
    fs::write(
        wiki.root().join(".wiki-sync/vectors/edge_config.json"),
        "no",
    )
    .unwrap();
    wiki.json(0, &["verify", "--store", "git"]);
    let told = wiki.ws(&["verify", "--store", "files"]).code(2).err;
    assert!(
        told.contains("[possible values: graph, vectors, git]"),
        "{told}"
    );
    let off = wiki.ws(&["verify", "--store", "git", "--set", "git.commit=off"]);
    assert!(off.code(1).err.contains("no store git"));
}

#[test]
fn what_waits_for_another_store_does_not_count_unless_this_one_owes_it_too() {
    let mut wiki = Wiki::small();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_URL".into(), "http://127.0.0.1:9".into());
    wiki.json(75, &["drain", "--no-wait"]);
    let all = wiki.json(75, &["verify"]);
    assert_eq!(
        (&all["waiting"], &all["unread"][0]["store"]),
        (&json!(3), &json!("vectors"))
    );
    for mode in ["--store=graph", "--fast"] {
        let others = wiki.json(0, &["verify", "--store=git", "--store=graph", mode]);
        assert_eq!(
            (&others["waiting"], &others["held"]),
            (&json!(0), &json!([]))
        );
    }
    wiki.write(A, "# Another\n");
    let owed = wiki.json(75, &["verify", "--store", "graph"]);
    assert_eq!((&owed["waiting"], &owed["drift"]), (&json!(1), &json!([])));
}

#[test]
fn only_the_pages_asked_for_are_read_and_repaired() {
    let wiki = drained();
    for page in [A, C] {
        damage_the_graph(&wiki, page);
        damage_the_vectors(&wiki, page);
    }
    let both = |path: &str| {
        // The second has a single section, and so a single point.
        let points = if path == A { "stale" } else { "missing" };
        json!([
            drift(path, "graph", "stale"),
            drift(path, "vectors", points)
        ])
    };
    let page = wiki.json(3, &["verify", "--path", "a.md"]);
    assert_eq!((&page["drift"], &page["pages"]), (&both(A), &json!(1)));
    assert_eq!(page["paths"], json!([A]));
    let folder = wiki.json(3, &["verify", "--path", "sub", "b.md", "--repair"]);
    assert_eq!((&folder["drift"], &folder["pages"]), (&both(C), &json!(2)));
    wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(wiki.json(3, &["verify"])["drift"], both(A));
    wiki.json(0, &["verify", "--path", "sub"]);
    for mode in ["--quiet", "--fast"] {
        // What is gone is still asked for by its name, as long as anything holds it.
        wiki.remove(B);
        let gone = wiki.json(3, &["verify", mode, "--path", "b.md"]);
        let orphan = ["git", "graph", "vectors"].map(|store| drift(B, store, "orphan"));
        assert_eq!(gone["drift"], json!(orphan));
        wiki.git(&["checkout", "--", B]);
        for (path, why) in [
            ("typo.md", "neither on disk nor in a store"),
            ("README", "neither on disk nor in a store"),
            ("../elsewhere", "outside the wiki"),
            ("/etc", "outside the wiki"),
            ("wiki-output/a\nb.md", "it holds a control character"),
        ] {
            let told = wiki.ws(&["verify", mode, "--path", "a.md", path]).code(1);
            assert!(told.err.contains(why), "{path}: {}", told.err);
            assert!(told.err.contains("hint: "), "{path}: {}", told.err);
        }
    }
}

#[test]
fn dead_letters_and_skipped_pages_count_where_they_are_asked_for() {
    let wiki = drained();
    wiki.write("wiki-output/sub/bad.md", [0xff, 0xfe]);
    std::os::unix::fs::symlink(wiki.root().join(A), wiki.root().join("wiki-output/link.md"))
        .unwrap();
    wiki.json(3, &["drain"]);
    for mode in [&["verify"][..], &["verify", "--fast"]] {
        let counted = |code: i32, more: &[&str]| {
            let report = wiki.json(code, &[mode, more].concat());
            let skipped = report["skipped"].as_array().unwrap().len();
            (
                report["dead"].as_u64().unwrap(),
                skipped,
                report["drift"].clone(),
            )
        };
        // The fast mode does not read what has died already.
        let bad = usize::from(mode.len() == 1);
        assert_eq!(counted(3, &[]), (1, 1 + bad, json!([])));
        assert_eq!(counted(3, &["--path", "sub"]), (1, bad, json!([])));
        assert_eq!(counted(0, &["--path", "a.md"]), (0, 0, json!([])));
        assert_eq!(
            counted(0, &["--path", "link.md", "b.md"]),
            (0, 1, json!([]))
        );
        assert_eq!(counted(3, &["--store", "git"]).0, 1);
    }
}

#[test]
fn a_page_that_cannot_be_brought_in_differs_until_it_is_a_dead_letter() {
    let wiki = drained();
    wiki.write(A, [0xff, 0xfe]);
    wiki.write("wiki-output/new.md", "a\0b");
    let mut expected: Vec<_> = ["git", "graph", "vectors"]
        .map(|store| drift(A, store, "stale"))
        .into();
    expected.extend(
        ["git", "graph", "vectors"].map(|store| drift("wiki-output/new.md", store, "missing")),
    );
    for mode in [&["verify"][..], &["verify", "--fast"]] {
        assert_eq!(wiki.json(3, mode)["drift"], json!(expected), "{mode:?}");
    }
    assert_eq!(wiki.json(3, &["verify", "--repair"])["repaired"], 2);
    wiki.json(3, &["drain", "--no-scan"]);
    for mode in [&["verify"][..], &["verify", "--fast"]] {
        let report = wiki.json(3, mode);
        assert_eq!((&report["drift"], &report["dead"]), (&json!([]), &json!(2)));
    }
}

#[test]
fn a_receipt_under_a_name_that_is_no_pages_path_is_named_and_removed_by_repair() {
    let wiki = drained();
    sqlite(
        &wiki,
        "INSERT INTO receipts SELECT '../' || path, store, sha, fingerprint, mark FROM receipts
         WHERE path = ?1 AND store = 'graph'",
        A,
    );
    let report = wiki.json(3, &["verify", "--repair"]);
    assert_eq!(
        report["drift"],
        json!([drift(&format!("../{A}"), "graph", "unproven")])
    );
    assert_eq!(wiki.json(0, &["verify"])["drift"], json!([]));
}

#[test]
fn a_job_that_is_held_for_a_store_of_a_newer_program_goes_on() {
    let wiki = drained();
    wiki.ws(&["enqueue", A]).code(0);
    outbox(
        &wiki,
        "UPDATE jobs SET state = 'held', held_for = 'moon', due_at = NULL WHERE path = ?1",
        A,
    );
    wiki.json(75, &["verify"]);
    wiki.json(0, &["drain"]);
    wiki.assert_in_sync();
}

#[test]
fn a_drain_that_could_not_ask_git_says_try_later_though_nothing_waits() {
    let wiki = drained();
    let head = wiki.root().join(".git/HEAD");
    let before = fs::read(&head).unwrap();
    fs::write(&head, "garbage").unwrap();
    let report = wiki.json(75, &["drain", "--no-wait"]);
    assert_eq!(
        (&report["away"], &report["held"]),
        (&json!(["git"]), &json!(0))
    );
    fs::write(&head, before).unwrap();
    assert_eq!(wiki.json(0, &["drain"])["away"], json!([]));
}

#[test]
fn damage_that_a_read_of_the_vectors_meets_is_no_outage_but_asks_for_a_rebuild() {
    let wiki = drained();
    let mut folders = vec![wiki.root().join(".wiki-sync/vectors/segments")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains("/payload_storage/page_") {
                let size = fs::metadata(&path).unwrap().len();
                fs::write(&path, []).unwrap();
                fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(size)
                    .unwrap();
            }
        }
    }
    let report = wiki.json(4, &["verify"]);
    let unread = &report["unread"][0];
    assert_eq!(
        (&unread["store"], &unread["kind"]),
        (&json!("vectors"), &json!("refused"))
    );
    assert!(
        unread["hint"].as_str().unwrap().contains("rebuild vectors"),
        "{report}"
    );
    wiki.json(0, &["rebuild", "vectors"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_file_in_the_place_of_the_vectors_is_told_and_left() {
    let wiki = Wiki::small();
    let place = wiki.root().join(".wiki-sync/vectors");
    fs::create_dir(wiki.root().join(".wiki-sync")).unwrap();
    fs::write(&place, "mine").unwrap();
    let report = wiki.json(75, &["drain", "--no-wait"]);
    let told = report["trouble"][0].to_string();
    assert!(told.contains("something else stands there"), "{report}");
    assert_eq!(fs::read(&place).unwrap(), b"mine");
    fs::remove_file(&place).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_store_that_the_next_drain_looks_through_by_itself_is_told_apart_from_one_that_takes_a_repair()
{
    let wiki = drained();
    let built = wiki.ws(&["rebuild", "vectors"]).code(0).out;
    let advice = "the next `wiki-sync drain` looks through them once\n";
    assert!(built.ends_with(advice), "{built}");
    let told = wiki.ws(&["verify"]).code(0).out;
    assert!(told.contains("in sync: 3 pages"), "{told}");
    assert!(
        told.contains(advice) && !told.contains("--repair"),
        "{told}"
    );
    assert_eq!(wiki.ws(&["verify", "--quiet"]).code(0).err, "");
    wiki.drain();
    let told = wiki.ws(&["verify"]).code(0).out;
    assert!(!told.contains(advice), "{told}");
    // Its note says that it is the one: no drain would look into it.
    other_store(&wiki);
    let told = wiki.ws(&["verify"]).code(0).out;
    assert!(
        told.contains("vectors; `wiki-sync verify --repair` has"),
        "{told}"
    );
    let told = wiki.ws(&["verify", "--repair"]).code(0).out;
    assert!(told.contains(advice), "{told}");
    wiki.drain();
    let told = wiki.ws(&["verify"]).code(0).out;
    assert!(!told.contains("the next"), "{told}");
}
