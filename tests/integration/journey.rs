//! The main job: pages go into all three stores and stay equal to them.

use std::fs;

use crate::wiki::Wiki;

#[test]
fn three_pages_are_applied_once_and_then_nothing_is_done() {
    let wiki = Wiki::small();
    let first = wiki.drain();
    assert_eq!(
        (&first["processed"], &first["scanned"]),
        (&3.into(), &3.into()),
        "{first}"
    );
    assert_eq!(
        wiki.git(&["show", "--name-only", "--format=", "HEAD"])
            .lines()
            .count(),
        3
    );
    wiki.assert_in_sync();
    // The shape is a contract: every field is there, also when there is nothing to tell.
    for field in ["merged", "retried", "dlq", "held", "commit", "seconds"] {
        assert!(first.get(field).is_some(), "{field}: {first}");
    }
    for field in ["applied", "removed", "embedded", "cached"] {
        assert!(
            first["stores"]["vectors"].get(field).is_some(),
            "{field}: {first}"
        );
    }
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let second = wiki.drain();
    assert_eq!(
        (&second["processed"], &second["enqueued"]),
        (&0.into(), &0.into()),
        "{second}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_delete_and_a_rename_reach_every_store() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.remove("wiki-output/b.md");
    fs::rename(
        wiki.root().join("wiki-output/sub/c.md"),
        wiki.root().join("wiki-output/d.md"),
    )
    .unwrap();
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.head_pages(), ["wiki-output/a.md", "wiki-output/d.md"]);
    let hits = wiki.json(0, &["search", "아웃박스 저장소"]);
    assert_eq!(hits[0]["path"], "wiki-output/d.md", "{hits}");
}

#[test]
fn backlinks_broken_links_and_orphans_are_told() {
    let wiki = Wiki::small();
    wiki.drain();
    let backlinks = wiki.json(0, &["graph", "backlinks", "wiki-output/a.md"]);
    assert_eq!(backlinks[0]["path"], "wiki-output/b.md", "{backlinks}");
    let broken = wiki.json(0, &["graph", "broken"]);
    assert_eq!(
        (&broken[0]["path"], &broken[0]["target"]),
        (&"wiki-output/sub/c.md".into(), &"없는 페이지".into())
    );
    assert_eq!(wiki.json(0, &["graph", "orphans"]), serde_json::json!([]));
}

#[test]
fn search_says_when_a_page_has_changed_since() {
    let wiki = Wiki::small();
    wiki.drain();
    let fresh = wiki.json(0, &["search", "Redis outbox"]);
    assert_eq!(
        (&fresh[0]["path"], &fresh[0]["stale"]),
        (&"wiki-output/a.md".into(), &false.into()),
        "{fresh}"
    );
    wiki.write("wiki-output/a.md", "# Something else\n");
    assert_eq!(wiki.json(0, &["search", "Redis outbox"])[0]["stale"], true);
    wiki.remove("wiki-output/a.md");
    let gone = wiki.json(0, &["search", "Redis outbox"]);
    assert!(
        gone.as_array()
            .unwrap()
            .iter()
            .all(|hit| hit["stale"] == true || hit["path"] != "wiki-output/a.md")
    );
}

#[test]
fn put_writes_a_page_and_announces_it() {
    use std::io::Write as _;
    use std::process::Stdio;
    let wiki = Wiki::small();
    wiki.drain();
    let mut child = wiki
        .binary()
        .args(["put", "wiki-output/new/page.md"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"# New\n\nput here\n")
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], 1);
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["processed"], 1);
    wiki.assert_in_sync();
    assert_eq!(
        fs::read(wiki.root().join("wiki-output/new/page.md")).unwrap(),
        b"# New\n\nput here\n"
    );
}

#[test]
fn the_tool_never_changes_a_page() {
    let wiki = Wiki::with(&[
        (
            "wiki-output/crlf.md",
            "---\r\ntitle: x\r\n---\r\n# A\r\n\r\ntext",
        ),
        ("wiki-output/bom.md", "\u{feff}# B\n"),
        ("wiki-output/empty.md", ""),
        ("wiki-output/broken.md", "---\ntitle: A: B: [\n---\nbody\n"),
    ]);
    let read = |name: &str| fs::read(wiki.root().join("wiki-output").join(name)).unwrap();
    let names = ["crlf.md", "bom.md", "empty.md", "broken.md"];
    let before: Vec<_> = names.iter().map(|name| read(name)).collect();
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(
        names.iter().map(|name| read(name)).collect::<Vec<_>>(),
        before
    );
}

#[test]
fn an_edit_is_one_commit_of_one_page_and_leaves_staged_work_alone() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("user.txt", "mine\n");
    wiki.git(&["add", "user.txt"]);
    wiki.write("junk.md", "not a page\n");
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    wiki.drain();
    assert_eq!(
        wiki.git(&["show", "--name-only", "--format=", "HEAD"]),
        "wiki-output/a.md\n"
    );
    assert_eq!(
        wiki.git(&["status", "--porcelain"]),
        "A  user.txt\n?? junk.md\n"
    );
    wiki.git(&["commit", "-qm", "the user's own"]);
    assert_eq!(
        wiki.git(&["show", "HEAD:wiki-output/a.md"]),
        "# Alpha two\n"
    );
}

#[test]
fn the_demo_runs_the_whole_journey() {
    let mut wiki = Wiki::bare_folder();
    let temp = wiki.root();
    wiki.env.insert("TMPDIR".into(), temp.display().to_string());
    let ran = wiki.ws(&["demo"]).code(0);
    assert!(ran.out.contains("in sync"), "{}", ran.out);
    assert_eq!(fs::read_dir(&temp).unwrap().count(), 0, "it cleans up");
}

#[test]
fn put_never_lands_on_a_page_of_another_folder() {
    use std::io::Write as _;
    use std::process::Stdio;
    let wiki = Wiki::with(&[
        ("wiki-output/index.md", "# Precious\n"),
        ("wiki-output/sub/x.md", "# X\n"),
    ]);
    let mut child = wiki
        .binary()
        .current_dir(wiki.root().join("wiki-output/sub"))
        .args(["put", "index.md"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"# Sub\n").unwrap();
    assert!(child.wait().unwrap().success());
    let read = |path: &str| fs::read_to_string(wiki.root().join(path)).unwrap();
    assert_eq!(read("wiki-output/index.md"), "# Precious\n");
    assert_eq!(read("wiki-output/sub/index.md"), "# Sub\n");
}

#[test]
fn a_drain_that_is_bounded_says_what_it_left() {
    let wiki = Wiki::small();
    let ran = wiki.ws(&["drain", "--max-jobs", "1"]).code(0);
    assert!(
        ran.out.contains("2 jobs left") && !ran.out.contains("nothing is owed"),
        "{}",
        ran.out
    );
    wiki.drain();
    wiki.assert_in_sync();
}
