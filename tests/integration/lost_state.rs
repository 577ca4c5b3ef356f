//! Whatever is lost, the next drain rebuilds from the files.

use std::fs;

use crate::wiki::Wiki;

#[test]
fn lost_vectors_are_named_by_verify_and_rebuilt_by_a_drain() {
    let wiki = Wiki::small();
    wiki.drain();
    fs::remove_dir_all(wiki.root().join(".wiki-sync/vectors")).unwrap();
    let verify = wiki.json(3, &["verify"]);
    let drift = verify["drift"].as_array().unwrap();
    assert_eq!(drift.len(), 3, "{verify}");
    assert!(
        drift
            .iter()
            .all(|one| one["store"] == "vectors" && one["kind"] == "missing"),
        "{verify}"
    );
    assert_eq!(wiki.drain()["stores"]["vectors"]["applied"], 3);
    wiki.assert_in_sync();
}

/// Removes a database of the state folder with its log.
fn lose(wiki: &Wiki, name: &str) {
    for rest in ["", "-wal", "-shm"] {
        let path = wiki.root().join(format!(".wiki-sync/{name}{rest}"));
        match fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("{name}{rest}: {e}"),
            Ok(()) | Err(_) => {}
        }
    }
}

#[test]
fn lost_databases_leave_no_orphan_of_pages_deleted_meanwhile() {
    for lost in [&["wiki.db", "outbox.db"][..], &["wiki.db"], &["outbox.db"]] {
        let wiki = Wiki::small();
        wiki.drain();
        for name in lost {
            lose(&wiki, name);
        }
        wiki.remove("wiki-output/b.md");
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!(
            wiki.head_pages(),
            ["wiki-output/a.md", "wiki-output/sub/c.md"],
            "{lost:?}"
        );
    }
}

#[test]
fn jobs_survive_the_loss_of_wiki_db_and_dead_letters_rest_on() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"\xff\n");
    wiki.json(3, &["drain"]);
    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.ws(&["enqueue", "wiki-output/b.md"]).code(0);
    lose(&wiki, "wiki.db");
    let told = wiki.json(3, &["drain"]);
    assert_eq!(
        (&told["processed"], &told["dlq"], &told["dead"]),
        (&3.into(), &0.into(), &1.into()),
        "{told}"
    );
    let verify = wiki.json(3, &["verify"]);
    assert_eq!(verify["drift"], serde_json::json!([]), "{verify}");
}

#[test]
fn what_waited_in_a_lost_outbox_is_found_by_the_scan_and_a_broken_page_dies_again() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"\xff\n");
    wiki.json(3, &["drain"]);
    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.ws(&["enqueue", "wiki-output/b.md"]).code(0);
    lose(&wiki, "outbox.db");
    let told = wiki.json(3, &["drain"]);
    assert_eq!(
        (&told["processed"], &told["dlq"], &told["dead"]),
        (&1.into(), &1.into(), &1.into()),
        "{told}"
    );
    let verify = wiki.json(3, &["verify"]);
    assert_eq!(verify["drift"], serde_json::json!([]), "{verify}");
}

#[test]
fn lost_state_is_rebuilt_whole() {
    let wiki = Wiki::small();
    wiki.drain();
    let head = wiki.git(&["rev-parse", "HEAD"]);
    fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    let drained = wiki.drain();
    assert_eq!(drained["processed"], 3);
    assert_eq!(
        wiki.git(&["rev-parse", "HEAD"]),
        head,
        "HEAD held the pages already"
    );
    wiki.assert_in_sync();
}

#[test]
fn reset_hard_and_mixed_are_healed() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    wiki.write("wiki-output/e.md", "# Added\n");
    wiki.drain();
    wiki.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(wiki.json(3, &["verify"])["in_sync"], false);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["verify"])["pages"], 3);

    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.drain();
    wiki.git(&["reset", "-q", "--mixed", "HEAD~1"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.git(&["show", "HEAD:wiki-output/b.md"]), "# Beta two\n");
}

#[test]
fn an_older_copy_of_the_vectors_is_noticed() {
    let wiki = Wiki::small();
    wiki.drain();
    let vectors = wiki.root().join(".wiki-sync/vectors");
    let copy = wiki.root().join("copy-of-vectors");
    let cp = |from: &std::path::Path, to: &std::path::Path| {
        let status = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status()
            .unwrap();
        assert!(status.success());
    };
    cp(&vectors, &copy);
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    wiki.write("wiki-output/e.md", "# Added\n");
    wiki.drain();
    fs::remove_dir_all(&vectors).unwrap();
    cp(&copy, &vectors);
    fs::remove_dir_all(&copy).unwrap();
    let drained = wiki.drain();
    assert!(
        drained["stores"]["vectors"]["applied"].as_u64() >= Some(2),
        "{drained}"
    );
    wiki.assert_in_sync();
}

fn damage_vectors(wiki: &Wiki) {
    for segment in fs::read_dir(wiki.root().join(".wiki-sync/vectors/segments")).unwrap() {
        let state = segment.unwrap().path().join("segment.json");
        fs::write(&state, "broken").unwrap();
    }
}

#[test]
fn damaged_vectors_are_refused_and_rebuilt_by_the_command_that_the_refusal_names() {
    let wiki = Wiki::small();
    wiki.drain();
    damage_vectors(&wiki);
    wiki.write("wiki-output/new.md", "# New\n\n[[a]]\n");
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(ran.out.contains("wiki-sync rebuild vectors"), "{}", ran.out);
    assert_eq!(wiki.json(0, &["rebuild", "vectors"])["pages"], 4);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn vectors_that_cannot_be_read_after_the_database_was_lost_stop_no_other_store() {
    let wiki = Wiki::small();
    wiki.drain();
    lose(&wiki, "wiki.db");
    damage_vectors(&wiki);
    wiki.write("wiki-output/new.md", "# New\n\n[[a]]\n");
    let told = wiki.json(4, &["drain"]);
    assert_eq!(
        (&told["stores"]["graph"]["applied"], &told["commits"]),
        (&4.into(), &1.into()),
        "{told}"
    );
    let trouble = &told["trouble"][0];
    assert_eq!(
        (&trouble["store"], &trouble["kind"]),
        (&"vectors".into(), &"refused".into()),
        "{told}"
    );
    assert!(wiki.head_pages().contains(&"wiki-output/new.md".into()));
    fs::remove_dir_all(wiki.root().join(".wiki-sync/vectors")).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
}
