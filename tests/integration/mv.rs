//! `wiki-sync mv`: a page moved with the links to it, in one stroke.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::wiki::Wiki;

/// Steps of a move after which the process may be killed.
const POINTS: &[&str] = &[
    "mv.journal",
    "mv.renamed",
    "page.flushed#1",
    "page.flushed#2",
    "mv.written#1",
    "mv.written#2",
    "mv.written#3",
    "drain.voided",
    "graph.after_commit",
    "vectors.after_upsert",
    "git.objects",
    "git.linked",
    "git.ref_moved",
    "git.index_renamed",
    "drain.receipts",
    "mv.applied",
    "mv.journal_removed",
];

/// Pages that link to `old.md` in every way, and `old.md` with links of its own.
fn linked() -> Wiki {
    let wiki = Wiki::with(&[
        (
            "wiki-output/old.md",
            "# Old\n\n[b](b.md) [c](./sub/c.md#h) ![p](img/p.png) [[b]] [[#Old]]\n\nOf this page more stays than changes, so that git knows it again by its content at the new place.\n",
        ),
        (
            "wiki-output/b.md",
            "---\nrelated: \"[[old]]\"\n---\r\n# B\r\n\r\n[[old]] ![[old]] [[old#h|label]] `[[old]]`\r\n\r\n| x | y |\r\n|---|---|\r\n| [[old\\|l]] | [[old]] |\r\n\r\n```\r\n[[old]]\r\n```\r\nno newline at the end [x](old.md?q#h)",
        ),
        (
            "wiki-output/sub/c.md",
            "[o](../old.md \"t\") [<>](<../old.md>) [r][def] ![r2][def]\n\n[def]: ../old.md 'title'\n",
        ),
        (
            "wiki-output/한글.md",
            "[%](%6Fld.md) [[Old|제목으로]] [[old.md]]\n",
        ),
    ]);
    wiki.write("wiki-output/img/p.png", "png");
    wiki.git(&["add", "wiki-output/img"]);
    wiki.git(&["commit", "-qm", "picture"]);
    wiki.drain();
    wiki
}

fn backlinks(wiki: &Wiki, page: &str) -> Vec<String> {
    let rows = wiki.json(0, &["graph", "backlinks", page]);
    let row = |row: &Value| format!("{}:{}", row["path"].as_str().unwrap(), row["line"]);
    rows.as_array().unwrap().iter().map(row).collect()
}

fn broken(wiki: &Wiki) -> usize {
    wiki.json(0, &["graph", "broken"]).as_array().unwrap().len()
}

fn read(wiki: &Wiki, path: &str) -> String {
    fs::read_to_string(wiki.root().join(path)).unwrap()
}

fn commits(wiki: &Wiki) -> usize {
    wiki.git(&["rev-list", "HEAD"]).lines().count()
}

#[test]
fn a_page_moves_with_every_link_to_it_in_one_commit() {
    let wiki = linked();
    let (links, before) = (backlinks(&wiki, "old").len(), commits(&wiki));
    let moved = wiki.json(
        0,
        &["mv", "wiki-output/old.md", "wiki-output/sub/새 이름.md"],
    );
    assert_eq!(moved["moved"][0]["to"], "wiki-output/sub/새 이름.md");
    assert_eq!(commits(&wiki), before + 1);
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]).trim(), moved["commit"]);
    assert_eq!(
        read(&wiki, "wiki-output/sub/새 이름.md"),
        "# Old\n\n[b](../b.md) [c](./c.md#h) ![p](../img/p.png) [[b]] [[#Old]]\n\nOf this page more stays than changes, so that git knows it again by its content at the new place.\n"
    );
    assert_eq!(
        read(&wiki, "wiki-output/b.md"),
        "---\nrelated: \"[[old]]\"\n---\r\n# B\r\n\r\n[[새 이름|old]] ![[새 이름]] [[새 이름#h|label]] `[[old]]`\r\n\r\n| x | y |\r\n|---|---|\r\n| [[새 이름\\|l]] | [[새 이름\\|old]] |\r\n\r\n```\r\n[[old]]\r\n```\r\nno newline at the end [x](sub/새%20이름.md?q#h)"
    );
    assert_eq!(
        read(&wiki, "wiki-output/sub/c.md"),
        "[o](새%20이름.md \"t\") [<>](<새 이름.md>) [r][def] ![r2][def]\n\n[def]: 새%20이름.md 'title'\n"
    );
    assert_eq!(
        read(&wiki, "wiki-output/한글.md"),
        "[%](sub/새%20이름.md) [[새 이름|제목으로]] [[새 이름.md|old.md]]\n"
    );
    wiki.assert_in_sync();
    assert_eq!(
        (backlinks(&wiki, "새 이름").len(), broken(&wiki)),
        (links, 0)
    );
    let follow = [
        "log",
        "--follow",
        "--format=%h",
        "--",
        "wiki-output/sub/새 이름.md",
    ];
    assert_eq!(wiki.git(&follow).lines().count(), 2);
    let hits = wiki.json(0, &["search", "knows it again"]);
    assert_eq!(hits[0]["path"], "wiki-output/sub/새 이름.md");
}

#[test]
fn a_dry_run_prints_each_line_that_would_change_and_changes_nothing() {
    let wiki = linked();
    let before = (
        wiki.git(&["rev-parse", "HEAD"]),
        read(&wiki, "wiki-output/b.md"),
    );
    let told = wiki
        .ws(&["mv", "old.md", "new.md", "--dry-run"])
        .code(0)
        .out;
    assert!(
        told.contains(
            "wiki-output/sub/c.md:3\n  - [def]: ../old.md 'title'\n  + [def]: ../new.md 'title'\n"
        ),
        "{told}"
    );
    let report = wiki.json(0, &["mv", "old.md", "new.md", "--dry-run"]);
    assert_eq!(
        (&report["dry_run"], &report["commit"]),
        (&true.into(), &Value::Null)
    );
    let after = (
        wiki.git(&["rev-parse", "HEAD"]),
        read(&wiki, "wiki-output/b.md"),
    );
    assert_eq!(before, after);
    assert!(wiki.root().join("wiki-output/old.md").exists());
    let done = wiki.json(0, &["mv", "old.md", "new.md"]);
    assert_eq!(
        (&done["changes"], &done["moved"]),
        (&report["changes"], &report["moved"])
    );
    // What it would change is not known while pages have changed.
    wiki.write("wiki-output/late.md", "[[new]]\n");
    let late = wiki.ws(&["mv", "new.md", "newer.md", "--dry-run"]).code(75);
    assert!(late.err.contains("wiki-sync drain"), "{}", late.err);
    // The move itself drains first.
    wiki.json(0, &["mv", "new.md", "newer.md"]);
    assert_eq!(read(&wiki, "wiki-output/late.md"), "[[newer|new]]\n");
    wiki.assert_in_sync();
}

#[test]
fn names_that_differ_only_by_case_or_form_can_be_given_and_not_collide() {
    let wiki = linked();
    wiki.json(0, &["mv", "old.md", "OLD.md"]);
    wiki.assert_in_sync();
    assert!(wiki.head_pages().contains(&"wiki-output/OLD.md".to_owned()));
    assert!(!wiki.head_pages().contains(&"wiki-output/old.md".to_owned()));
    assert_eq!(broken(&wiki), 0);
    for taken in ["B.md", "b.md", "SUB/x.md", "b.md/x.md"] {
        let before = wiki.git(&["rev-parse", "HEAD"]);
        let refused = wiki.ws(&["mv", "OLD.md", taken]).code(1);
        assert!(
            refused.err.starts_with("error: "),
            "{taken}: {}",
            refused.err
        );
        assert_eq!(wiki.git(&["rev-parse", "HEAD"]), before, "{taken}");
    }
    wiki.assert_in_sync();
}

#[test]
fn what_is_no_page_or_no_place_for_one_is_refused() {
    let wiki = linked();
    symlink("b.md", wiki.root().join("wiki-output/link.md")).unwrap();
    fs::create_dir(wiki.root().join("elsewhere")).unwrap();
    symlink("../elsewhere", wiki.root().join("wiki-output/out")).unwrap();
    for (old, new) in [
        ("old.md", "../README.md"),
        ("old.md", "wiki-output/old.txt"),
        ("old.md", "noending"),
        ("old.md", "wiki-output/.hidden.md"),
        ("old.md", "out/x.md"),
        ("old.md", "old.md"),
        ("link.md", "link2.md"),
        ("README", "x.md"),
        ("nowhere.md", "x.md"),
        ("wiki-output", "x"),
        ("sub", "sub/deeper"),
    ] {
        let refused = wiki.ws(&["mv", old, new]).code(1);
        assert!(
            refused.err.starts_with("error: "),
            "{old} {new}: {}",
            refused.err
        );
    }
    assert_eq!(
        fs::read_dir(wiki.root().join("elsewhere")).unwrap().count(),
        0
    );
    assert!(wiki.root().join("wiki-output/old.md").exists());
    fs::remove_file(wiki.root().join("wiki-output/link.md")).unwrap();
    fs::remove_file(wiki.root().join("wiki-output/out")).unwrap();
    fs::remove_dir(wiki.root().join("elsewhere")).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_name_that_several_pages_have_is_refused() {
    let wiki = Wiki::with(&[
        ("wiki-output/x/a.md", "one\n"),
        ("wiki-output/y/a.md", "two\n"),
    ]);
    wiki.drain();
    let refused = wiki.ws(&["mv", "a", "b.md"]).code(1);
    assert!(
        refused.err.contains("x/a.md") && refused.err.contains("y/a.md"),
        "{}",
        refused.err
    );
    // By a name that only one has it goes.
    wiki.json(0, &["mv", "x/a", "b.md"]);
    assert_eq!(
        wiki.head_pages(),
        ["wiki-output/b.md", "wiki-output/y/a.md"]
    );
}

#[test]
fn what_the_user_staged_or_is_in_the_middle_of_refuses_the_move_before_anything_changes() {
    // A page that links, staged with other content than is on disk.
    let wiki = linked();
    let text = read(&wiki, "wiki-output/sub/c.md");
    wiki.write("wiki-output/sub/c.md", "staged\n");
    wiki.git(&["add", "wiki-output/sub/c.md"]);
    wiki.write("wiki-output/sub/c.md", &text);
    let refused = wiki.ws(&["mv", "old.md", "new.md"]).code(75);
    assert!(refused.err.contains("staged"), "{}", refused.err);
    assert_eq!(
        wiki.git(&["diff", "--cached", "--name-only"]),
        "wiki-output/sub/c.md\n"
    );
    assert!(!wiki.root().join("wiki-output/new.md").exists());
    wiki.git(&["restore", "--staged", "wiki-output/sub/c.md"]);
    // A merge under way.
    let head = wiki.git(&["rev-parse", "HEAD"]);
    fs::write(wiki.root().join(".git/MERGE_HEAD"), &head).unwrap();
    let refused = wiki.ws(&["mv", "old.md", "new.md"]).code(75);
    assert!(refused.err.contains("merge"), "{}", refused.err);
    fs::remove_file(wiki.root().join(".git/MERGE_HEAD")).unwrap();
    // Ignored at its new place it would be lost to git.
    wiki.write(".gitignore", "private/\n");
    wiki.git(&["add", ".gitignore"]);
    wiki.git(&["commit", "-qm", "ignore"]);
    wiki.ws(&["mv", "old.md", "private/old.md"]).code(1);
    assert!(wiki.root().join("wiki-output/old.md").exists());
    assert!(!wiki.root().join(".wiki-sync/move.json").exists());
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn the_users_other_work_is_neither_taken_nor_touched() {
    let wiki = linked();
    wiki.write("code.rs", "staged\n");
    wiki.git(&["add", "code.rs"]);
    wiki.write("README", "dirty\n");
    wiki.json(0, &["mv", "old.md", "new.md"]);
    assert_eq!(
        wiki.git(&["status", "--porcelain"]),
        " M README\nA  code.rs\n"
    );
    let touched = wiki.git(&["show", "--name-only", "--format=", "HEAD"]);
    assert!(
        touched
            .lines()
            .all(|path| path.starts_with("wiki-output/") || path.starts_with('"')),
        "{touched}"
    );
}

#[test]
fn a_folder_moves_with_its_pages_and_leaves_what_is_no_page() {
    let wiki = linked();
    wiki.write(
        "wiki-output/sub/deep/d.md",
        "[c](../c.md) [b](../../b.md) ![p](../pic.png) [to come](./later.md)\n",
    );
    wiki.write("wiki-output/sub/pic.png", "png");
    wiki.git(&["add", "wiki-output/sub/pic.png"]);
    wiki.git(&["commit", "-qm", "picture"]);
    wiki.drain();
    let gone_before = broken(&wiki);
    wiki.json(0, &["mv", "sub", "moved/here"]);
    assert_eq!(
        read(&wiki, "wiki-output/moved/here/deep/d.md"),
        "[c](../c.md) [b](../../../b.md) ![p](../../../sub/pic.png) [to come](./later.md)\n"
    );
    assert_eq!(
        read(&wiki, "wiki-output/old.md").lines().nth(2).unwrap(),
        "[b](b.md) [c](./moved/here/c.md#h) ![p](img/p.png) [[b]] [[#Old]]"
    );
    assert!(wiki.root().join("wiki-output/sub/pic.png").exists());
    assert!(!wiki.root().join("wiki-output/sub/deep").exists());
    assert_eq!(broken(&wiki), gone_before);
    wiki.assert_in_sync();
}

#[test]
fn labels_and_the_files_mode_go_along() {
    let wiki = linked();
    fs::set_permissions(
        wiki.root().join("wiki-output/old.md"),
        PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    fs::set_permissions(
        wiki.root().join("wiki-output/b.md"),
        PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    wiki.git(&["add", "wiki-output/old.md"]);
    wiki.git(&["commit", "-qm", "mode"]);
    wiki.ws(&[
        "enqueue",
        "--repo",
        "origin",
        "--commit",
        "c0ffee",
        "wiki-output/old.md",
    ])
    .code(0);
    wiki.drain();
    let point = |page: &str| {
        let hits = wiki.json(0, &["search", "Old"]);
        let mut hits = hits.as_array().unwrap().iter();
        let hit = hits.find(|hit| hit["path"] == page).unwrap();
        hit["point_id"].clone()
    };
    let before = point("wiki-output/old.md");
    wiki.json(0, &["mv", "old.md", "new.md"]);
    assert_ne!(point("wiki-output/new.md"), before);
    let labels = [
        "enqueue",
        "--repo",
        "origin",
        "--commit",
        "c0ffee",
        "wiki-output/new.md",
    ];
    wiki.ws(&labels).code(0);
    let drained = wiki.drain();
    assert_eq!(
        drained["unchanged"], 1,
        "the same labels change nothing: {drained}"
    );
    let mode = |page: &str| {
        let meta = fs::metadata(wiki.root().join(page)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("wiki-output/new.md"), mode("wiki-output/b.md")),
        (0o755, 0o600)
    );
    let entry = wiki.git(&["ls-tree", "HEAD", "wiki-output/new.md"]);
    assert!(entry.starts_with("100755"), "{entry}");
}

#[test]
fn killed_after_any_step_the_same_command_finishes_it() {
    for point in POINTS {
        let wiki = linked();
        let before = commits(&wiki);
        let args = ["mv", "old.md", "sub/new.md"];
        assert!(wiki.killed_at(point, &args), "{point} is passed");
        // The user's `git add -A` finds pages only.
        let untracked = wiki.git(&["ls-files", "--others", "--exclude-standard"]);
        assert!(!untracked.contains(".tmp"), "{point}: {untracked}");
        if *point == "mv.journal_removed" {
            wiki.ws(&args).code(1);
        } else {
            let report = wiki.json(0, &args);
            assert_eq!(
                report["moved"][0]["to"], "wiki-output/sub/new.md",
                "{point}"
            );
        }
        assert!(
            !wiki.root().join(".wiki-sync/move.json").exists(),
            "{point}"
        );
        // The next one that writes removes what the killed one was writing.
        if point.starts_with("page.flushed") {
            let left = fs::read_dir(wiki.root().join(".wiki-sync/tmp")).unwrap();
            assert_eq!(left.count(), 0, "{point}");
        }
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!((broken(&wiki), commits(&wiki)), (0, before + 1), "{point}");
        assert!(
            read(&wiki, "wiki-output/b.md").contains("[[new#h|label]]"),
            "{point}"
        );
    }
}

#[test]
fn killed_and_a_page_edited_since_all_that_can_be_is_taken_back_and_the_rest_named() {
    for point in ["mv.renamed", "mv.written#2"] {
        for page in ["wiki-output/b.md", "wiki-output/한글.md"] {
            let wiki = linked();
            let pages = [
                "wiki-output/b.md",
                "wiki-output/sub/c.md",
                "wiki-output/한글.md",
            ];
            let texts = pages.map(|page| read(&wiki, page));
            assert!(wiki.killed_at(point, &["mv", "old.md", "sub/new.md"]));
            let edited = format!("{}\nmore\n", read(&wiki, page));
            wiki.write(page, &edited);
            let again = wiki.ws(&["mv", "old.md", "sub/new.md"]);
            assert!(read(&wiki, page).contains("more"), "{point} {page}");
            match again.code {
                // Taken back whole, then moved anew with the edited page.
                Some(0) => {
                    wiki.assert_in_sync();
                    assert!(!wiki.root().join("wiki-output/old.md").exists());
                }
                Some(1) => {
                    assert!(again.err.contains(page), "{point} {page}: {}", again.err);
                    for (other, text) in pages
                        .iter()
                        .zip(&texts)
                        .filter(|(other, _)| **other != page)
                    {
                        assert_eq!(read(&wiki, other), *text, "{point} {page}");
                    }
                    assert!(wiki.root().join("wiki-output/old.md").exists());
                    // And then it goes.
                    wiki.json(0, &["mv", "old.md", "sub/new.md"]);
                    wiki.assert_in_sync();
                }
                code => panic!("{point} {page}: {code:?} {}", again.err),
            }
        }
    }
}

#[test]
fn an_interrupted_move_is_told_by_the_next_one_before_it_starts() {
    let wiki = linked();
    assert!(wiki.killed_at("mv.renamed", &["mv", "old.md", "sub/new.md"]));
    let drained = wiki.json(0, &["drain"]);
    let told = drained["trouble"][0]["reason"].as_str().unwrap();
    assert!(told.contains("cut short"), "{drained}");
    let dry = wiki.ws(&["mv", "b.md", "bb.md", "--dry-run"]).code(1);
    assert!(dry.err.contains("cut short"), "{}", dry.err);
    let other = wiki.ws(&["mv", "b.md", "bb.md"]).code(0);
    assert!(other.err.contains("is finished"), "{}", other.err);
    wiki.assert_in_sync();
    let pages = wiki.head_pages();
    assert!(
        pages.contains(&"wiki-output/bb.md".into())
            && pages.contains(&"wiki-output/sub/new.md".into())
    );
    assert_eq!(broken(&wiki), 0);
}

#[test]
fn without_commits_or_a_repository_the_files_and_the_other_stores_move() {
    let mut wiki = linked();
    wiki.env.insert("WIKI_SYNC_GIT_COMMIT".into(), "off".into());
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let report = wiki.json(0, &["mv", "old.md", "new.md"]);
    assert_eq!(report["commit"], Value::Null);
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
    assert_eq!(broken(&wiki), 0);
}

#[test]
fn a_link_that_the_new_name_would_catch_keeps_its_page() {
    let wiki = Wiki::with(&[
        ("wiki-output/x/b.md", "# The one that is meant\n"),
        ("wiki-output/a.md", "[[b]] and [[moving]]\n"),
        ("wiki-output/moving.md", "text\n"),
    ]);
    wiki.drain();
    wiki.json(0, &["mv", "moving.md", "b.md"]);
    assert_eq!(
        read(&wiki, "wiki-output/a.md"),
        "[[x/b|b]] and [[b|moving]]\n"
    );
    wiki.assert_in_sync();
    assert_eq!(broken(&wiki), 0);
}

/// Pages of a site in a language that stands in its addresses and in no path.
fn site() -> Wiki {
    let wiki = Wiki::with(&[
        (
            "wiki-output/basics/c.mdx",
            "---\ntitle: C\n---\n[시작](/ko/guides/start/#머리) [홈](/ko/guides/) [자신](/ko/basics/c)\n",
        ),
        (
            "wiki-output/guides/index.mdx",
            "[c](/ko/basics/c/) [시작](/ko/guides/start/?v=1#a \"제목\") [곁](./start/) [정의][r]\n\n[r]: /ko/guides/deep/x/\n",
        ),
        (
            "wiki-output/guides/start.mdx",
            "[c](/ko/basics/c/#h)과 [깊이](/ko/guides/deep/x/) [en](/en/guides/start/) ![그림](/images/a.png)\n",
        ),
        (
            "wiki-output/guides/deep/x.mdx",
            "[위로](../../start/) [시작](/ko/guides/start) <a href=\"/ko/guides/start/\">x</a>\n",
        ),
    ]);
    wiki.drain();
    wiki
}

#[test]
fn a_sites_address_keeps_what_stands_before_the_parts_that_change() {
    let wiki = site();
    let pages = wiki.head_pages();
    let texts =
        |wiki: &Wiki| -> Vec<String> { pages.iter().map(|page| read(wiki, page)).collect() };
    let (before, gone) = (texts(&wiki), broken(&wiki));
    wiki.json(0, &["mv", "basics/c.mdx", "basics/d.mdx"]);
    assert!(
        read(&wiki, "wiki-output/guides/start.mdx").starts_with("[c](/ko/basics/d/#h)과 [깊이]"),
        "{}",
        read(&wiki, "wiki-output/guides/start.mdx")
    );
    wiki.json(0, &["mv", "guides", "안내서"]);
    assert_eq!(
        read(&wiki, "wiki-output/basics/d.mdx")
            .lines()
            .last()
            .unwrap(),
        "[시작](/ko/안내서/start/#머리) [홈](/ko/안내서/) [자신](/ko/basics/d)"
    );
    assert_eq!(broken(&wiki), gone);
    wiki.assert_in_sync();
    wiki.json(0, &["mv", "안내서", "guides"]);
    wiki.json(0, &["mv", "basics/d.mdx", "basics/c.mdx"]);
    assert_eq!(texts(&wiki), before);
    wiki.assert_in_sync();
}

#[test]
fn a_move_is_taken_back_by_a_move() {
    let wiki = Wiki::with(&[
        (
            "wiki-output/a.md",
            "[[b]] [[b#h]] [[s/b]] [[가]] [x](b.md)\n",
        ),
        ("wiki-output/b.md", "# B\n"),
        ("wiki-output/가.md", "# 가\n"),
        ("wiki-output/s/a.md", "[[../b.md]] [[d|../b.md]]\n"),
        ("wiki-output/d.md", "# D\n"),
    ]);
    wiki.drain();
    let texts = || {
        (
            read(&wiki, "wiki-output/a.md"),
            read(&wiki, "wiki-output/s/a.md"),
        )
    };
    let before = texts();
    for (old, new) in [
        ("b.md", "c.md"),
        ("가.md", "다.md"),
        ("다.md", "가.md"),
        ("c.md", "b.md"),
    ] {
        wiki.json(0, &["mv", old, new]);
    }
    assert_eq!(texts(), before);
    // A label of the user's that is the new name shows the same without being written.
    wiki.json(0, &["mv", "d.md", "s/b.md"]);
    wiki.write("wiki-output/s/a.md", "[[s/b|x/b]] [[s/b#h|b]]\n");
    wiki.json(0, &["mv", "s/b.md", "x/b.md"]);
    assert_eq!(read(&wiki, "wiki-output/s/a.md"), "[[x/b]] [[x/b#h|b]]\n");
    wiki.assert_in_sync();
}
