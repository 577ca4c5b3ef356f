//! Moves, and absence that looks like an accident.

use std::fs;

use crate::wiki::Wiki;

fn many(count: usize) -> Wiki {
    let wiki = Wiki::with(&[]);
    for n in 0..count {
        wiki.write(
            &format!("wiki-output/p{n:03}.md"),
            format!("# Page {n}\n\ntext {n}\n"),
        );
    }
    wiki
}

#[test]
fn a_page_moved_with_git_mv_stands_once_at_its_new_place() {
    let wiki = Wiki::small();
    wiki.drain();
    fs::create_dir(wiki.root().join("wiki-output/moved")).unwrap();
    wiki.git(&["mv", "wiki-output/sub/c.md", "wiki-output/moved/c.md"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["verify"])["pages"], 3);
    assert_eq!(
        wiki.head_pages(),
        [
            "wiki-output/a.md",
            "wiki-output/b.md",
            "wiki-output/moved/c.md"
        ]
    );
    assert_eq!(
        wiki.git(&[
            "log",
            "--follow",
            "--format=%h",
            "--",
            "wiki-output/moved/c.md"
        ])
        .lines()
        .count(),
        2
    );
}

#[test]
fn a_rename_that_differs_only_by_case_leaves_one_page() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["mv", "wiki-output/b.md", "wiki-output/B.md"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(
        wiki.head_pages(),
        [
            "wiki-output/B.md",
            "wiki-output/a.md",
            "wiki-output/sub/c.md"
        ]
    );
    assert_eq!(
        wiki.json(0, &["graph", "backlinks", "wiki-output/B.md"])[0]["path"],
        "wiki-output/a.md"
    );
}

#[test]
fn many_pages_gone_at_once_are_held_until_it_is_said_to_be_meant() {
    let wiki = many(60);
    wiki.drain();
    for n in 0..30 {
        wiki.remove(&format!("wiki-output/p{n:03}.md"));
    }
    let held = wiki.json(75, &["drain"]);
    assert_eq!(held["held"], 30, "{held}");
    assert_eq!(wiki.head_pages().len(), 60, "nothing was removed");
    assert!(wiki.json(0, &["search", "Page 5"])[0]["path"].is_string());
    wiki.json(0, &["drain", "--allow-mass-delete"]);
    wiki.assert_in_sync();
    assert_eq!(wiki.head_pages().len(), 30);
}

#[test]
fn an_emptied_wiki_is_held_and_comes_back_unharmed() {
    let wiki = Wiki::small();
    wiki.drain();
    let folder = wiki.root().join("wiki-output");
    let aside = wiki.root().join("aside");
    fs::rename(&folder, &aside).unwrap();
    assert_eq!(wiki.json(75, &["drain"])["held"], 3);
    fs::rename(&aside, &folder).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_folder_of_many_pages_may_move() {
    let wiki = many(60);
    wiki.drain();
    fs::create_dir(wiki.root().join("wiki-output/new")).unwrap();
    for n in 0..50 {
        let name = format!("p{n:03}.md");
        fs::rename(
            wiki.root().join("wiki-output").join(&name),
            wiki.root().join("wiki-output/new").join(&name),
        )
        .unwrap();
    }
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["verify"])["pages"], 60);
}

#[test]
fn pages_that_head_dropped_too_are_gone_on_purpose() {
    let wiki = many(40);
    wiki.drain();
    wiki.git(&["rm", "-rq", "wiki-output"]);
    wiki.git(&["commit", "-qm", "all gone"]);
    wiki.drain();
    let verify = wiki.json(0, &["verify"]);
    assert_eq!(
        (&verify["in_sync"], &verify["pages"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn removals_that_nobody_scanned_for_are_guarded_too() {
    let wiki = many(60);
    wiki.drain();
    let mut args = vec!["enqueue".to_owned()];
    for n in 0..40 {
        let path = format!("wiki-output/p{n:03}.md");
        wiki.remove(&path);
        args.push(path);
    }
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    wiki.ws(&args).code(0);
    assert_eq!(wiki.json(75, &["drain", "--no-scan"])["held"], 40);
    assert_eq!(wiki.head_pages().len(), 60);
}
