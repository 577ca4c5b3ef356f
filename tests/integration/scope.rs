//! Settings that change which files are pages.

use crate::wiki::Wiki;

fn paths(hits: &serde_json::Value) -> Vec<&str> {
    hits.as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["path"].as_str().unwrap())
        .collect()
}

#[test]
fn pages_that_leave_the_scope_are_forgotten_and_left_to_git() {
    let wiki = Wiki::with(&[
        ("wiki-output/p.md", "# Page zebra\n"),
        ("wiki-output/drafts/d.md", "# Draft zebra\n"),
    ]);
    wiki.drain();
    wiki.write("wiki-sync.toml", "[wiki]\nignore = [\"drafts/**\"]\n");
    wiki.drain();
    assert_eq!(
        paths(&wiki.json(0, &["search", "zebra"])),
        ["wiki-output/p.md"]
    );
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
    assert_eq!(wiki.head_pages().len(), 2, "in git it stays");
    wiki.remove("wiki-sync.toml");
    wiki.drain();
    assert_eq!(
        wiki.json(0, &["search", "zebra"]).as_array().unwrap().len(),
        2
    );
    wiki.assert_in_sync();
}

#[test]
fn hidden_files_and_folders_are_no_pages_whatever_the_settings_say() {
    let wiki = Wiki::with(&[
        ("wiki-output/p.md", "# Page zebra\n"),
        ("wiki-output/dot.in.name.md", "# Dots zebra\n"),
        ("wiki-output/.obsidian/o.md", "# Obsidian zebra\n"),
        ("wiki-output/sub/.trash/deep/t.md", "# Trash zebra\n"),
        ("wiki-output/.h.md", "# Hidden zebra\n"),
    ]);
    wiki.write(
        "wiki-sync.toml",
        "[wiki]\nignore = [\"drafts/**\"]\ninclude = [\"**/*.md\", \"**/.*\", \".obsidian/**\"]\n",
    );
    let pages = ["wiki-output/dot.in.name.md", "wiki-output/p.md"];
    wiki.drain();
    assert_eq!(wiki.head_pages(), pages);
    for path in [
        ".obsidian/o.md",
        "wiki-output/sub/.trash/deep/t.md",
        ".h.md",
        ".obsidian",
    ] {
        let refused = wiki.ws(&["enqueue", path]).code(1);
        assert!(refused.err.contains("hidden"), "{path}: {}", refused.err);
    }
    wiki.ws(&["put", ".new.md"]).code(1);
    // A commit of the user's that holds them wakes nobody.
    wiki.ws(&["hooks", "install"]).code(0);
    wiki.git(&["add", "wiki-output"]);
    wiki.git(&["commit", "-qm", "with all that is hidden"]);
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], 0);
    assert_eq!(wiki.drain()["processed"], 0);
    let mut found = paths(&wiki.json(0, &["search", "zebra"]))
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, pages);
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn hidden_pages_that_the_stores_hold_are_forgotten_and_left_to_git() {
    let wiki = Wiki::with(&[
        ("wiki-output/p.md", "# Page zebra\n"),
        ("wiki-output/.trash/t.md", "# Trash zebra\n"),
    ]);
    // As if they had been pages.
    wiki.json(0, &["drain", "--set", "wiki.pages=wiki-output/.trash"]);
    let drained = wiki.drain();
    assert_eq!(drained["forgotten"], 1, "{drained}");
    assert_eq!(
        wiki.head_pages(),
        ["wiki-output/.trash/t.md", "wiki-output/p.md"],
        "in git it stays"
    );
    assert_eq!(
        paths(&wiki.json(0, &["search", "zebra"])),
        ["wiki-output/p.md"]
    );
    wiki.assert_in_sync();
}

#[test]
fn a_wiki_that_moves_to_another_folder_is_followed() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["mv", "wiki-output", "docs"]);
    wiki.git(&["commit", "-qm", "moved"]);
    wiki.write("wiki-sync.toml", "[wiki]\npages = \"docs\"\n");
    wiki.drain();
    assert_eq!(
        paths(&wiki.json(0, &["search", "Redis outbox"])),
        ["docs/a.md"]
    );
    let verify = wiki.json(0, &["verify"]);
    assert_eq!(
        (&verify["in_sync"], &verify["pages"]),
        (&true.into(), &3.into())
    );
}

#[test]
fn a_pages_folder_that_is_not_there_is_an_error_and_forgets_nothing() {
    let wiki = Wiki::small();
    wiki.drain();
    let ran = wiki.ws(&["drain", "--set", "wiki.pages=docs"]).code(1);
    assert!(
        ran.err.contains("docs") && ran.err.contains("hint:"),
        "{}",
        ran.err
    );
    assert_eq!(wiki.drain()["processed"], 0);
    wiki.assert_in_sync();
}

#[test]
fn an_answer_says_that_nothing_is_indexed_yet() {
    let wiki = Wiki::small();
    for args in [
        &["search", "alpha"][..],
        &["graph", "broken"],
        &["graph", "orphans"],
    ] {
        let ran = wiki.ws(args).code(0);
        assert!(
            ran.err.contains("no page is indexed yet"),
            "{args:?}: {}",
            ran.err
        );
    }
}

#[test]
fn status_says_that_a_store_is_lost() {
    let wiki = Wiki::small();
    wiki.drain();
    std::fs::remove_dir_all(wiki.root().join(".wiki-sync/vectors")).unwrap();
    let status = wiki.json(0, &["status"]);
    assert_eq!(
        (&status["fresh"], &status["stores"]["vectors"]["state"]),
        (&false.into(), &"down".into()),
        "{status}"
    );
}
