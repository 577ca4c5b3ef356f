//! Pages that cannot be applied as they are: named once, with the reason, and the others go through.

use std::fs;
use std::os::unix::fs::symlink;

use wiki_sync::testing::RedisServer;

use crate::redis::on_redis;
use crate::wiki::Wiki;

#[test]
fn what_is_no_good_page_is_told_and_stops_nobody() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/latin1.md", b"# caf\xe9\n");
    wiki.write("wiki-output/nul.md", b"# a\n\0b\n");
    wiki.write("wiki-output/huge.md", "x".repeat(2000));
    wiki.write("wiki-sync.toml", "[wiki]\nmax_page = \"1 KiB\"\n");
    symlink("/etc/passwd", wiki.root().join("wiki-output/out.md")).unwrap();
    symlink("nowhere", wiki.root().join("wiki-output/dangling.md")).unwrap();
    symlink("/etc", wiki.root().join("wiki-output/etc")).unwrap();
    symlink(".", wiki.root().join("wiki-output/loop")).unwrap();
    fs::create_dir_all(wiki.root().join("wiki-output/folder.md")).unwrap();
    wiki.write("wiki-output/folder.md/inside.md", "# Inside\n");

    let drained = wiki.json(3, &["drain"]);
    assert_eq!(
        (&drained["processed"], &drained["dlq"]),
        (&4.into(), &3.into()),
        "{drained}"
    );
    let dead = wiki.json(0, &["dlq", "list"]);
    let of = |path: &str| {
        dead.as_array()
            .unwrap()
            .iter()
            .find(|letter| letter["path"] == path)
            .unwrap_or_else(|| panic!("{path} is dead: {dead}"))["reason"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let latin1 = of("wiki-output/latin1.md");
    assert!(latin1.contains("not UTF-8 in line 1"), "{latin1}");
    assert!(
        latin1.contains("if it is in CP949 (Korean): `iconv -f cp949 -t utf-8"),
        "the way out: {latin1}"
    );
    assert!(of("wiki-output/nul.md").contains("NUL byte in line 2"));
    assert!(of("wiki-output/huge.md").contains("max_page"));

    for command in ["status", "verify"] {
        let told = wiki.ws(&[command, "--json"]).json();
        for path in [
            "out.md",
            "dangling.md",
            "folder.md",
            "latin1.md",
            "nul.md",
            "huge.md",
        ] {
            let path = format!("wiki-output/{path}");
            assert!(
                told["skipped"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|one| one["path"] == path.as_str()),
                "{command} tells {path}: {told}"
            );
        }
    }
    let verify = wiki.json(3, &["verify"]);
    assert_eq!(
        (&verify["dead"], verify["drift"].as_array().unwrap().len()),
        (&3.into(), 0),
        "{verify}"
    );
    let head = wiki.head_pages();
    assert_eq!(
        head,
        [
            "wiki-output/a.md",
            "wiki-output/b.md",
            "wiki-output/folder.md/inside.md",
            "wiki-output/sub/c.md"
        ]
    );

    // They rest: no further attempt, no further commit.
    let again = wiki.json(3, &["drain"]);
    assert_eq!(
        (&again["dlq"], &again["processed"], &again["enqueued"]),
        (&0.into(), &0.into(), &0.into()),
        "{again}"
    );
}

#[test]
fn a_dead_page_lives_again_when_it_is_mended_or_gone() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"# caf\xe9\n");
    wiki.write("wiki-output/gone.md", b"# caf\xe9\n");
    wiki.json(3, &["drain"]);
    wiki.write("wiki-output/bad.md", "# café\n");
    wiki.remove("wiki-output/gone.md");
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["dlq", "list"]), serde_json::json!([]));
}

#[test]
fn a_good_page_gone_bad_and_back_again_leaves_no_dead_letter() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/b.md", b"\xff\n");
    wiki.json(3, &["drain"]);
    wiki.write("wiki-output/b.md", "# Beta\n\nBack to [Alpha](a.md).\n");
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn dead_letters_are_shown_retried_and_dropped() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"\xff\n");
    wiki.json(3, &["drain"]);
    let id = wiki.json(0, &["dlq", "list"])[0]["id"].to_string();
    let shown = wiki.ws(&["dlq", "show", &id]).code(0);
    assert!(
        shown.out.contains("not UTF-8") && shown.out.contains("wiki-output/bad.md"),
        "{}",
        shown.out
    );
    wiki.ws(&["dlq", "retry", &id]).code(0);
    assert_eq!(
        wiki.json(3, &["drain"])["dlq"],
        1,
        "tried again, and dead again"
    );
    let dropped =
        |args: &[&str]| wiki.json(0, &[&["dlq", "drop"], args].concat())["dropped"].clone();
    for fits_none in [
        ["--reason", "too large"],
        ["--path", "wiki-output/other.md"],
    ] {
        let ran = wiki
            .ws(&[&["dlq", "drop"], &fits_none[..]].concat())
            .code(1);
        assert!(ran.err.contains("no dead letter fits"), "{}", ran.err);
    }
    wiki.ws(&["dlq", "drop", "--reason", ""]).code(2);
    assert_eq!(dropped(&["--path", "wiki-output/bad.md"]), 1);
    wiki.json(3, &["drain"]);
    assert_eq!(dropped(&["--reason", "not UTF-8"]), 1);
    wiki.json(3, &["drain"]);
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    assert_eq!(wiki.json(0, &["dlq", "list"]), serde_json::json!([]));
}

#[test]
fn a_wiki_behind_a_link_is_refused() {
    let wiki = Wiki::with(&[]);
    fs::remove_dir(wiki.root().join("wiki-output")).unwrap();
    fs::create_dir(wiki.root().join("real")).unwrap();
    symlink("real", wiki.root().join("wiki-output")).unwrap();
    wiki.write("real/a.md", "# A\n");
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(
        ran.err.contains("symbolic link") && ran.err.contains("hint:"),
        "{}",
        ran.err
    );
}

#[test]
fn odd_names_are_pages_like_any_other() {
    let wiki = Wiki::with(&[
        ("wiki-output/people/홍길동.md", "# 홍길동\n\n[[김철수]]\n"),
        ("wiki-output/people/김철수.md", "# 김철수\n"),
        ("wiki-output/공지사항.md", "# 공지\n\n[[홍길동]]\n"),
        ("wiki-output/a b'\"$(touch x);c.md", "# Odd\n"),
        ("wiki-output/-n.md", "# Dash\n"),
        ("wiki-output/basic memory bug.md", "# One\n"),
        ("wiki-output/basic-memory-bug.md", "# Two\n"),
    ]);
    assert_eq!(wiki.drain()["processed"], 7);
    wiki.assert_in_sync();
    let backlinks = wiki.json(0, &["graph", "backlinks", "홍길동"]);
    assert_eq!(
        backlinks[0]["path"], "wiki-output/공지사항.md",
        "{backlinks}"
    );
}

#[test]
fn links_that_came_with_a_clone_into_the_state_folder_are_refused() {
    let wiki = Wiki::small();
    let victim = wiki.root().join("victim");
    fs::write(&victim, "precious\n").unwrap();
    for name in [
        "drain.lock",
        "git.lock",
        ".gitignore",
        "wiki.db",
        "outbox.db",
        "vectors",
    ] {
        fs::create_dir_all(wiki.root().join(".wiki-sync")).unwrap();
        let link = wiki.root().join(".wiki-sync").join(name);
        symlink(&victim, &link).unwrap();
        let ran = wiki.ws(&["drain"]).code(4);
        assert!(
            ran.err.contains("symbolic link") && ran.err.contains("hint:"),
            "{name}: {}",
            ran.err
        );
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n", "{name}");
        fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    }
}

#[test]
fn a_page_that_kills_its_worker_again_and_again_is_poison_and_the_rest_goes_on() {
    let wiki = Wiki::small();
    // The mark is set around the look at each suspect; the first one dies under it each time.
    for _ in 0..4 {
        assert!(
            wiki.killed_at("drain.claimed", &["drain"])
                || wiki.killed_at("drain.suspect", &["drain"])
        );
    }
    let mut kills = 0;
    while wiki.killed_at("drain.suspect", &["drain"]) {
        kills += 1;
        assert!(kills < 20, "it ends");
    }
    let dead = wiki.json(0, &["dlq", "list"]);
    assert!(
        dead.to_string().contains("killed its worker 3 times"),
        "{dead}"
    );
}

#[test]
fn the_page_under_whose_mark_three_workers_died_is_dead_and_the_hundred_beside_it_are_done() {
    let server = RedisServer::start();
    for wiki in [Wiki::with(&[]), on_redis(&server, Wiki::with(&[]))] {
        // What was found in dead hands is looked at alone, the eldest first: it is the one that kills.
        wiki.write("wiki-output/poison.md", "# Poison\n");
        wiki.ws(&["enqueue", "wiki-output/poison.md"]).code(0);
        for n in 0..100 {
            wiki.write(&format!("wiki-output/{n}.md"), format!("# {n}\n"));
        }
        assert!(wiki.killed_at("drain.claimed", &["drain"]));
        for _ in 0..3 {
            assert!(wiki.killed_at("drain.suspect", &["drain"]));
        }
        let report = wiki.json(3, &["drain"]);
        assert_eq!((&report["dlq"], &report["dead"]), (&1.into(), &1.into()));
        let letter = &wiki.json(0, &["dlq", "list"])[0];
        assert_eq!(letter["path"], "wiki-output/poison.md");
        let reason = letter["reason"].to_string();
        assert!(reason.contains("killed its worker 3 times"), "{reason}");
        assert_eq!(wiki.head_pages().len(), 100);
        wiki.ws(&["dlq", "retry", "--all"]).code(0);
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn metadata_that_is_not_understood_is_told_with_file_and_line_and_costs_no_page() {
    let wiki = Wiki::with(&[
        ("wiki-output/good.md", "# Good\n"),
        ("wiki-output/rule.md", "---\n\nonly a rule\n"),
        (
            "wiki-output/open.md",
            "---\ntitle: T\nkey: [1, 2\n---\nbody\n",
        ),
        ("wiki-output/tab.md", "---\n\tkey: `C:\\agent`\n---\nbody\n"),
    ]);
    let drained = wiki.drain();
    assert_eq!(drained["processed"], 4);
    let warnings = drained["warnings"].as_array().unwrap();
    let places: Vec<_> = warnings
        .iter()
        .map(|one| (one["path"].as_str().unwrap(), one["line"].as_u64().unwrap()))
        .collect();
    assert!(places.contains(&("wiki-output/open.md", 3)), "{drained}");
    assert!(places.is_sorted(), "{drained}");
    assert!(
        places
            .iter()
            .all(|(path, _)| *path != "wiki-output/good.md"),
        "{drained}"
    );
    wiki.assert_in_sync();
    // Told when it is brought in, and to people too.
    assert_eq!(wiki.drain()["warnings"], serde_json::json!([]));
    wiki.write("wiki-output/open.md", "---\nkey: [1, 2\n---\nother\n");
    let told = wiki.ws(&["drain"]).code(0).out;
    assert!(told.contains("wiki-output/open.md:2: "), "{told}");
}
