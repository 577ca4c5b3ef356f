//! What somebody meets who has just begun: `init` in all kinds of folders, and a wiki in which nothing is yet.

use std::fs;

use crate::wiki::{Ran, Wiki};

fn init(wiki: &Wiki, args: &[&str]) -> Ran {
    wiki.ws(&[&["init"], args].concat()).code(0)
}

fn settings(wiki: &Wiki) -> String {
    fs::read_to_string(wiki.root().join("wiki-sync.toml")).unwrap()
}

fn has_state(wiki: &Wiki) -> bool {
    wiki.root().join(".wiki-sync").exists()
}

#[test]
fn a_wiki_without_pages_is_told_as_one() {
    let wiki = Wiki::with(&[("docs/readme.txt", "no page")]);
    init(&wiki, &["--set", "wiki.pages=docs"]);
    let none = "there are no pages below docs/ yet";
    let drained = wiki.ws(&["drain"]).code(0);
    assert!(drained.out.contains(none), "{}", drained.out);
    for args in [
        &["search", "a"][..],
        &["graph", "hubs"],
        &["graph", "broken"],
    ] {
        let asked = wiki.ws(args).code(0);
        assert!(asked.err.contains(none), "{args:?}: {}", asked.err);
        assert!(!asked.err.contains("drain"), "{args:?}: {}", asked.err);
    }
    wiki.write("docs/a.md", "# A\n");
    let asked = wiki.ws(&["search", "a"]).code(0);
    assert!(asked.err.contains("`wiki-sync drain`"), "{}", asked.err);
    let drained = wiki.ws(&["drain"]).code(0);
    assert!(!drained.out.contains(none), "{}", drained.out);
}

#[test]
fn whoever_only_asks_makes_no_state() {
    let wiki = Wiki::small();
    for (args, code) in [
        (&["status"][..], 0),
        (&["search", "alpha"], 0),
        (&["graph", "hubs"], 0),
        (&["graph", "broken", "--json"], 0),
        (&["verify"], 3),
        (&["verify", "--fast"], 3),
        (&["dlq", "list"], 0),
        (&["config"], 0),
        (&["hooks", "status"], 0),
    ] {
        let asked = wiki.ws(args).code(code);
        assert!(!has_state(&wiki), "{args:?}: {}{}", asked.out, asked.err);
    }
    let status = wiki.json(0, &["status"]);
    assert_eq!(
        (&status["fresh"], &status["pages"], &status["unannounced"]),
        (&false.into(), &3.into(), &3.into()),
        "{status}"
    );
    // A state that is there is asked, and stays.
    wiki.drain();
    assert_eq!(wiki.json(0, &["status"])["fresh"], true);
    wiki.assert_in_sync();
}

#[test]
fn init_tells_where_markdown_stands_and_takes_it_when_told_to() {
    let wiki = Wiki::with(&[
        ("docs/a.md", "# A\n"),
        ("docs/deep/b.md", "# B\n"),
        ("notes/c.md", "# C\n"),
        ("build/d.md", "# D\n"),
        ("node_modules/x/e.md", "# E\n"),
        (".hidden/f.md", "# F\n"),
        ("src/main.rs", ""),
        (".gitignore", "build/\n"),
        ("README.md", "# Read me\n"),
    ]);
    let told = init(&wiki, &[]);
    let hints: Vec<_> = told.err.lines().collect();
    assert_eq!(
        hints,
        [
            "note: 2 Markdown files stand in docs/: `wiki-sync init --set wiki.pages=docs` takes those",
            "note: 1 Markdown file stands in notes/: `wiki-sync init --set wiki.pages=notes` takes those",
            "note: one folder is the wiki: to have more than one of them in it, move them into it, as by `mv -- docs notes wiki-output/`",
        ]
    );
    // The hint is true, also after the settings were written.
    let told = init(&wiki, &["--set", "wiki.pages=docs"]);
    assert_eq!(told.err, "");
    assert!(settings(&wiki).contains("\npages = \"docs\"\n"));
    assert_eq!(wiki.drain()["processed"], 2);
    // Said once: where the pages are is settled.
    assert_eq!(init(&wiki, &[]).err, "");
}

#[test]
fn init_says_what_stands_in_the_settings_file_and_never_writes_in_one_of_the_users() {
    let line = |ran: &Ran| {
        let line = ran.out.lines().find(|line| line.contains("wiki-sync.toml"));
        line.unwrap().trim().to_owned()
    };
    let plain = "settings; every line shows a default and is commented out";
    let wiki = Wiki::small();
    let told = init(&wiki, &[]);
    assert_eq!(line(&told), format!("made  wiki-sync.toml   {plain}"));
    let told = init(&wiki, &[]);
    assert_eq!(line(&told), "kept  wiki-sync.toml   settings");

    let wiki = Wiki::small();
    let told = init(&wiki, &["--set", "git.commit=off"]);
    assert!(
        line(&told).contains("those given with --set"),
        "{}",
        told.out
    );
    assert!(settings(&wiki).contains("\ncommit = \"off\"\n"));

    let wiki = Wiki::small();
    wiki.write("wiki-sync.toml", "# mine\n");
    let told = init(&wiki, &["--set", "git.commit=off"]);
    assert_eq!(settings(&wiki), "# mine\n");
    assert!(
        told.err.contains("git.commit = \"off\""),
        "what it did not write it tells: {}",
        told.err
    );
}

#[test]
fn the_root_itself_is_no_wiki_and_init_says_so() {
    for root in [".", "./", ""] {
        let wiki = Wiki::with(&[("a.md", "# A\n")]);
        let told = wiki
            .ws(&["init", "--set", &format!("wiki.pages={root}")])
            .code(2);
        assert!(
            told.err
                .contains("the repository's root itself cannot be the wiki"),
            "{root:?}: {}",
            told.err
        );
        assert!(!wiki.root().join("wiki-sync.toml").exists());
    }
}

#[test]
fn init_without_git_says_how_the_hooks_come_later() {
    let wiki = Wiki::bare_folder();
    let told = init(&wiki, &[]);
    assert!(
        told.err.contains("`git init`, then `wiki-sync init` again"),
        "{}",
        told.err
    );
    wiki.git(&["init", "-q"]);
    assert!(init(&wiki, &[]).out.contains("made  git hooks"));
}

#[test]
fn a_folder_is_announced_with_all_pages_below_it_those_that_are_gone_too() {
    let wiki = Wiki::with(&[
        ("wiki-output/a.md", "# A\n"),
        ("wiki-output/guides/b.md", "# B\n"),
        ("wiki-output/guides/deep/c.md", "# C\n"),
        ("wiki-output/guides/.hidden/h.md", "# H\n"),
        ("wiki-output/guides0.md", "# No guide\n"),
        ("wiki-output/old/d.md", "# D\n"),
        ("wiki-output/empty/x.txt", ""),
    ]);
    let enqueue = |args: &[&str]| wiki.json(0, &[&["enqueue"], args].concat());
    let done = enqueue(&["guides"]);
    assert_eq!(
        (&done["enqueued"], &done["paths"][0]),
        (&2.into(), &"wiki-output/guides".into()),
        "{done}"
    );
    assert_eq!(enqueue(&["wiki-output/", "a.md"])["enqueued"], 3);
    wiki.drain();
    wiki.remove("wiki-output/guides/b.md");
    fs::remove_dir_all(wiki.root().join("wiki-output/old")).unwrap();
    assert_eq!(enqueue(&["guides"])["enqueued"], 2, "one of them is gone");
    assert_eq!(enqueue(&["old"])["enqueued"], 1, "the folder is gone");
    let none = wiki.ws(&["enqueue", "empty"]).code(0);
    assert!(none.err.contains("no pages below wiki-output/empty/"));
    // All or none: what is a slip is found before anything is announced.
    let before = wiki.json(0, &["status"])["outbox"]["waiting"].clone();
    wiki.ws(&["enqueue", "wiki-output", "no-such-folder"])
        .code(1);
    wiki.ws(&["enqueue", "wiki-output", "guides/.hidden"])
        .code(1);
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], before);
    wiki.drain();
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn more_pages_than_are_announced_at_a_time_are_all_announced() {
    let wiki = Wiki::with(&[("wiki-output/a.md", "# A\n")]);
    for n in 0..2_003 {
        wiki.write(&format!("wiki-output/many/{n}.md"), "# N\n");
    }
    assert_eq!(wiki.json(0, &["enqueue", "many"])["enqueued"], 2_003);
}
