//! Attributes and configuration that change what git makes of a page although no page changes.

use std::fs;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;
use crate::stores::git::commit::Step;

/// Makes the pages' repository deaf to what whoever runs the tests has configured.
fn repo() -> Repo {
    let repo = Repo::with_pages();
    repo.set("core.autocrlf", "false");
    repo.set("core.eol", "native");
    repo.set("core.attributesFile", "/nowhere/attributes");
    repo.write("wiki-output/sub/deep/d.md", "# D\r\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "deep"]);
    repo
}

#[test]
fn the_fingerprint_changes_with_everything_that_decides_a_pages_blob() {
    let repo = repo();
    let store = repo.store();
    let plain = store.fingerprint();
    assert_eq!(plain, "git");
    for path in [
        ".gitattributes",
        "wiki-output/.gitattributes",
        "wiki-output/sub/.gitattributes",
        "wiki-output/sub/deep/.gitattributes",
        ".git/info/attributes",
    ] {
        repo.write(path, "*.md text\n");
        let text = store.fingerprint();
        assert!(
            text.starts_with("git:") && text.len() == 12,
            "{path}: {text}"
        );
        assert_eq!(repo.store().fingerprint(), text, "{path}: of another store");
        repo.write(path, "*.md -text\n");
        let binary = store.fingerprint();
        assert!(binary != text && binary != plain, "{path}: {binary}");
        if path.starts_with(".git/") {
            repo.delete(path);
        } else {
            repo.git(&["add", path]);
            assert_eq!(store.fingerprint(), binary, "{path}: tracked");
            repo.delete(path);
            assert_eq!(store.fingerprint(), binary, "{path}: only in the index");
            repo.git(&["rm", "-q", "--cached", path]);
        }
        assert_eq!(store.fingerprint(), plain, "{path}: gone");
    }
    let file = repo.root.join("mine");
    fs::write(&file, "*.md text\n").expect("written");
    for (key, value, back) in [
        (
            "core.attributesFile",
            file.to_str().expect("UTF-8"),
            "/nowhere",
        ),
        ("core.autocrlf", "input", "false"),
        ("core.autocrlf", "true", "no"),
        ("core.eol", "crlf", "native"),
    ] {
        repo.set(key, value);
        assert_ne!(store.fingerprint(), plain, "{key} = {value}");
        repo.set(key, back);
        assert_eq!(store.fingerprint(), plain, "{key} = {back}");
    }
}

#[test]
fn the_fingerprint_stays_while_pages_come_and_go_and_where_no_repository_is() {
    let repo = repo();
    repo.write(".gitattributes", "*.md text\n");
    let mut store = repo.store();
    let before = store.fingerprint();
    repo.write("wiki-output/new/n.md", "# N\n");
    repo.delete("wiki-output/b.md");
    let put = repo.put("wiki-output/new/n.md");
    let gone = super::fixture::remove("wiki-output/b.md");
    let outcomes = store.apply(&[put, gone], 1).expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(store.fingerprint(), before);
    assert_eq!(store.fingerprint(), before);
    assert_eq!(repo.store().fingerprint(), before);
    assert_eq!(Repo::bare_folder().store().fingerprint(), "git");
}

#[test]
fn the_same_pages_applied_under_new_attributes_commit_the_converted_blobs() {
    let repo = repo();
    let paths = ["wiki-output/a.md", "wiki-output/sub/deep/d.md"];
    repo.write(paths[0], "# A\r\nsecond\r\n");
    repo.commits(paths[0]);
    let before = repo.store().fingerprint();
    repo.write(".gitattributes", "*.md text eol=lf\n");
    repo.git(&["add", ".gitattributes"]);
    repo.git(&["commit", "-qm", "attributes"]);
    assert_ne!(repo.store().fingerprint(), before);
    let outcomes = repo.apply(&paths).expect("usable");
    for outcome in &outcomes {
        assert!(outcome.as_ref().is_ok_and(|applied| applied.changed));
    }
    assert_eq!(
        repo.git(&["show", "HEAD:wiki-output/a.md"]),
        "# A\nsecond\n"
    );
    assert_eq!(
        repo.git(&["show", "HEAD:wiki-output/sub/deep/d.md"]),
        "# D\n"
    );
    assert_eq!(repo.read(paths[0]), "# A\r\nsecond\r\n");
    assert_eq!(repo.status(), [""; 0]);
    for outcome in repo.apply(&paths).expect("usable") {
        assert!(outcome.is_ok_and(|applied| !applied.changed));
    }
    repo.is_sound();
}

#[test]
fn attributes_that_change_while_a_batch_is_brought_are_seen_at_the_next_look() {
    let repo = repo();
    let mut store = repo.store();
    let before = store.fingerprint();
    let file = repo.root.join(".gitattributes");
    store.watch = Box::new(move |step| {
        if step == Step::Objects {
            fs::write(&file, "*.md text\n").expect("written");
        }
        true
    });
    repo.write("wiki-output/a.md", "# A\r\n");
    let outcomes = store.apply(&[repo.put("wiki-output/a.md")], 1);
    assert!(outcomes.expect("usable")[0].is_ok());
    // What its receipts stand under.
    assert_eq!(store.fingerprint(), before);
    assert_ne!(store.fingerprint(), before);
}

#[test]
fn a_page_whose_program_fails_has_no_expected_blob_and_the_others_have() {
    let repo = repo();
    let mut store = repo.store();
    repo.set("filter.up.clean", "false");
    for attribute in ["filter=up", "working-tree-encoding=UTF-16"] {
        repo.write(".gitattributes", &format!("a.md {attribute}\n"));
        let mut expected = |path: &str| {
            let crate::model::Change::Put(page) = repo.put(path) else {
                unreachable!("a put")
            };
            store.expected(&page)
        };
        let failure = expected("wiki-output/a.md").expect_err("no blob");
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
        assert!(failure.reason.contains("\"wiki-output/a.md\""), "{failure}");
        assert!(expected("wiki-output/b.md").is_ok_and(|blob| blob.is_some()));
        let applied = repo.fails("wiki-output/a.md", FailureKind::Refused);
        assert_eq!(applied, failure);
    }
}

#[test]
fn another_program_behind_a_filter_is_another_fingerprint() {
    let repo = repo();
    repo.set("filter.up.clean", "tr a-z A-Z");
    assert_eq!(repo.store().fingerprint(), "git", "no attribute names it");
    repo.write(".gitattributes", "*.md filter=up\n");
    let upper = repo.store().fingerprint();
    repo.set("filter.up.clean", "cat");
    let plain = repo.store().fingerprint();
    assert_ne!(plain, upper);
    repo.set("filter.up.smudge", "cat");
    assert_eq!(
        repo.store().fingerprint(),
        plain,
        "the way out decides no blob"
    );
}

#[test]
fn a_store_that_lives_on_heeds_attributes_that_come_and_go_between_its_batches() {
    let repo = repo();
    let mut store = repo.store();
    let mut number = 0;
    let mut brings = |path: &str| {
        number += 1;
        repo.write(path, &format!("# {number}\r\n"));
        let outcomes = store.apply(&[repo.put(path)], number).expect("usable");
        assert!(outcomes[0].is_ok(), "{path}: {outcomes:?}");
        let blob = repo.git(&["show", &format!("HEAD:{path}")]);
        let status = repo.status();
        assert!(
            !status.iter().any(|line| line.ends_with(path)),
            "{path}: {status:?}"
        );
        (blob.ends_with("\r\n"), store.fingerprint())
    };
    let page = "wiki-output/sub/deep/d.md";
    let plain = (true, "git".to_owned());
    assert_eq!(brings(page), plain);
    let rules = [
        ".gitattributes",
        "wiki-output/.gitattributes",
        "wiki-output/sub/deep/.gitattributes",
        ".git/info/attributes",
    ];
    for rule in rules {
        repo.write(".git/info/exclude", ".gitattributes\n");
        repo.write(rule, "*.md text\n");
        let (raw, fingerprint) = brings(page);
        assert!(!raw && fingerprint != plain.1, "{rule}: {fingerprint}");
        assert_eq!(repo.store().fingerprint(), fingerprint, "{rule}");
        repo.write(rule, "*.md -text\n");
        let (raw, other) = brings(page);
        assert!(raw && other != fingerprint && other != plain.1, "{rule}");
        repo.delete(rule);
        assert_eq!(brings(page), plain, "{rule}: gone");
    }
    repo.set("core.autocrlf", "input");
    let (raw, fingerprint) = brings("wiki-output/sub/deep/other.md");
    assert!(!raw && fingerprint != plain.1);
    repo.set("core.autocrlf", "false");
    // The index knows nothing of the folder yet.
    repo.write("wiki-output/new/.gitattributes", "*.md text\n");
    let (raw, fingerprint) = brings("wiki-output/new/n.md");
    assert!(!raw && fingerprint != plain.1);
    repo.is_sound();
}

#[test]
fn attributes_that_do_not_reach_a_batch_are_seen_at_the_next_look_at_all() {
    let repo = repo();
    let mut store = repo.store();
    let before = store.fingerprint();
    repo.write("wiki-output/sub/deep/.gitattributes", "*.md text\n");
    repo.write("wiki-output/a.md", "# A, second\r\n");
    let outcomes = store.apply(&[repo.put("wiki-output/a.md")], 1);
    assert!(outcomes.expect("usable")[0].is_ok());
    assert_eq!(store.fingerprint(), before, "of the batch");
    assert_ne!(store.fingerprint(), before, "of all");
    assert_eq!(
        repo.git(&["show", "HEAD:wiki-output/a.md"]),
        "# A, second\r\n"
    );
}
