//! What a commit holds, and what of the user's it leaves alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::fixture::{NOTHING, Repo};
use crate::model::{FailureKind, PagePath};
use crate::stores::Store as _;
use crate::stores::git::GitStore;

#[test]
fn the_commit_holds_the_page_and_nothing_the_user_staged_or_left_dirty() {
    let repo = Repo::with_pages();
    repo.write("staged.txt", "mine\n");
    repo.git(&["add", "staged.txt"]);
    repo.write("other.txt", "dirty\n");
    for i in 0..400 {
        repo.write(&format!("junk/{i}"), "x");
    }
    let before = repo.entries_but(&["wiki-output/a.md"]);
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    assert_eq!(repo.changed_by_head(), ["M wiki-output/a.md"]);
    assert_eq!(repo.entries_but(&["wiki-output/a.md"]), before);
    let status = repo.status();
    assert_eq!(status[..2], [" M other.txt", "A  staged.txt"]);
    assert!(status[2..].iter().all(|line| line.starts_with("?? junk/")));
    repo.git(&["commit", "-qm", "the user's own"]);
    assert_eq!(
        repo.git(&["show", "HEAD:wiki-output/a.md"]),
        "# A, second\n"
    );
    repo.is_sound();
}

#[test]
fn the_first_commit_is_made_on_an_unborn_branch() {
    let repo = Repo::empty();
    assert_eq!(repo.store().witness(), Ok(Some(vec![])));
    repo.write("wiki-output/sub/새 페이지.md", "# 하나\n");
    repo.write("mine.txt", "staged\n");
    repo.git(&["add", "mine.txt"]);
    repo.commits("wiki-output/sub/새 페이지.md");
    assert_eq!(repo.changed_by_head(), ["A wiki-output/sub/새 페이지.md"]);
    assert_eq!(repo.status(), ["A  mine.txt"]);
    assert_eq!(
        repo.git(&["log", "--format=%an %ae|%cn|%s"]),
        "Someone someone@example.com|Someone|wiki: add wiki-output/sub/새 페이지.md\n"
    );
    assert!(
        repo.git(&["reflog"])
            .contains("commit (initial): wiki: add")
    );
    repo.is_sound();
}

#[test]
fn a_second_apply_changes_nothing() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    let (head, entries) = (repo.head(), repo.entries());
    let again = repo.apply_one("wiki-output/a.md").expect("fine");
    assert!(!again.changed);
    assert_eq!(
        again.mark.as_deref(),
        Some(repo.git(&["rev-parse", "HEAD:wiki-output/a.md"]).trim_end())
    );
    assert_eq!((repo.head(), repo.entries()), (head, entries));
    assert_eq!(repo.apply_one("wiki-output/never.md"), Ok(NOTHING));
}

#[test]
fn witness_and_inventory_name_the_pages_of_head_in_byte_order() {
    let repo = Repo::empty();
    for path in ["a/x.md", "a.md", "a-b.md", "a/y.txt", "z.mdx", "é.md"] {
        repo.write(&format!("wiki-output/{path}"), path);
    }
    symlink("a.md", repo.root.join("wiki-output/link.md")).expect("a link");
    repo.write("outside.md", "no page");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "all"]);
    let witness = repo
        .store()
        .witness()
        .expect("usable")
        .expect("git has one");
    let names: Vec<_> = witness.iter().map(|(path, _)| path.as_str()).collect();
    let expected =
        ["a-b.md", "a.md", "a/x.md", "z.mdx", "é.md"].map(|p| format!("wiki-output/{p}"));
    assert_eq!(names, expected);
    assert!(witness.is_sorted());
    for (path, mark) in &witness {
        let blob = repo.git(&["rev-parse", &format!("HEAD:{path}")]);
        assert_eq!(mark, blob.trim_end());
    }
    let holdings = repo.store().inventory().expect("usable");
    assert_eq!(
        holdings
            .into_iter()
            .map(|h| (h.path, h.digest))
            .collect::<Vec<_>>(),
        witness
            .into_iter()
            .map(|(p, m)| (p.as_str().to_owned(), m))
            .collect::<Vec<_>>()
    );
}

#[test]
fn many_changes_are_one_commit_listing_them() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/new.md", "# New\n");
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.delete("wiki-output/b.md");
    let outcomes = repo
        .apply(&["wiki-output/new.md", "wiki-output/b.md", "wiki-output/a.md"])
        .expect("usable");
    assert!(outcomes.iter().all(|o| o.as_ref().is_ok_and(|a| a.changed)));
    assert_eq!(
        repo.git(&["log", "-1", "--format=%B"]).trim_end(),
        "wiki: add 1, update 1, remove 1 page\n\nM wiki-output/a.md\nD wiki-output/b.md\nA wiki-output/new.md"
    );
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2\n");
    assert_eq!(repo.status(), [""; 0]);
    repo.is_sound();
}

#[test]
fn what_the_user_staged_as_it_is_on_disk_is_committed() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# A, staged\n");
    repo.git(&["add", "wiki-output/a.md"]);
    repo.git(&["mv", "wiki-output/b.md", "wiki-output/c.md"]);
    repo.write("wiki-output/ita.md", "# meant\n");
    repo.git(&["add", "-N", "wiki-output/ita.md"]);
    let paths = ["a", "b", "c", "ita"].map(|p| format!("wiki-output/{p}.md"));
    let outcomes = repo
        .apply(&paths.each_ref().map(String::as_str))
        .expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(repo.status(), [""; 0]);
    assert_eq!(
        repo.git(&["log", "--follow", "--format=%s", "wiki-output/c.md"])
            .lines()
            .count(),
        2
    );
    repo.is_sound();
}

#[test]
fn an_ignored_page_is_exempt_unless_it_is_tracked() {
    let repo = Repo::with_pages();
    repo.write(".gitignore", "secret*.md\n");
    repo.write("wiki-output/secret.md", "# S\n");
    repo.write("wiki-output/secret-tracked.md", "# T\n");
    repo.git(&["add", "-f", "wiki-output/secret-tracked.md"]);
    assert_eq!(repo.apply_one("wiki-output/secret.md"), Ok(NOTHING));
    repo.commits("wiki-output/secret-tracked.md");
    let mut store = repo.store();
    let exempt = |store: &mut GitStore, path: &str| {
        store
            .exempt(&PagePath::parse(path).expect("ok"))
            .expect("usable")
    };
    assert_eq!(
        exempt(&mut store, "wiki-output/secret.md").as_deref(),
        Some("ignored by git")
    );
    assert_eq!(exempt(&mut store, "wiki-output/secret-tracked.md"), None);
    assert_eq!(exempt(&mut store, "wiki-output/a.md"), None);
}

#[test]
fn a_page_and_a_folder_change_places_in_one_commit() {
    let repo = Repo::with_pages();
    repo.delete("wiki-output/a.md");
    repo.write("wiki-output/a.md/x.md", "# in a folder\n");
    let outcomes = repo
        .apply(&["wiki-output/a.md/x.md", "wiki-output/a.md"])
        .expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(
        repo.changed_by_head(),
        ["D wiki-output/a.md", "A wiki-output/a.md/x.md"]
    );
    assert_eq!(repo.status(), [""; 0]);
    fs::remove_dir_all(repo.root.join("wiki-output/a.md")).expect("gone");
    repo.write("wiki-output/a.md", "# a page again\n");
    // Alone it would take the folder's place unasked.
    repo.fails("wiki-output/a.md", FailureKind::Busy);
    let outcomes = repo
        .apply(&["wiki-output/a.md", "wiki-output/a.md/x.md"])
        .expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(
        repo.changed_by_head(),
        ["A wiki-output/a.md", "D wiki-output/a.md/x.md"]
    );
    assert_eq!(repo.status(), [""; 0]);
    repo.is_sound();
}

#[test]
fn the_last_page_takes_its_folder_along() {
    let repo = Repo::empty();
    repo.write("wiki-output/deep/er/a.md", "# A\n");
    repo.commits("wiki-output/deep/er/a.md");
    fs::remove_dir_all(repo.root.join("wiki-output")).expect("gone");
    repo.commits("wiki-output/deep/er/a.md");
    assert_eq!(repo.git(&["ls-tree", "-r", "HEAD"]), "");
    assert_eq!(repo.git(&["ls-files"]), "");
    repo.is_sound();
}

#[test]
fn a_rename_that_changes_only_case_is_two_changes() {
    let repo = Repo::with_pages();
    fs::rename(
        repo.root.join("wiki-output/a.md"),
        repo.root.join("wiki-output/A.md"),
    )
    .expect("renamed");
    let outcomes = repo
        .apply(&["wiki-output/A.md", "wiki-output/a.md"])
        .expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(
        repo.git(&["ls-tree", "--name-only", "HEAD", "wiki-output/"]),
        "wiki-output/A.md\nwiki-output/b.md\n"
    );
    assert_eq!(repo.status(), [""; 0]);
}

#[test]
fn file_modes_are_kept() {
    let repo = Repo::with_pages();
    repo.git(&["update-index", "--chmod=+x", "wiki-output/a.md"]);
    repo.git(&["commit", "-qm", "executable"]);
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.write("wiki-output/x.md", "# X\n");
    fs::set_permissions(
        repo.root.join("wiki-output/x.md"),
        fs::Permissions::from_mode(0o755),
    )
    .expect("set");
    repo.write("wiki-output/y.md", "# Y\n");
    repo.apply(&["wiki-output/a.md", "wiki-output/x.md", "wiki-output/y.md"])
        .expect("usable");
    let modes = repo.git(&[
        "ls-tree",
        "--format=%(objectmode) %(path)",
        "HEAD",
        "wiki-output/",
    ]);
    assert_eq!(
        modes,
        "100755 wiki-output/a.md\n100644 wiki-output/b.md\n100755 wiki-output/x.md\n100644 wiki-output/y.md\n"
    );
}

#[test]
fn a_linked_work_tree_has_its_own_head_and_index() {
    let repo = Repo::with_pages();
    let side = repo.root.with_file_name("side");
    repo.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        side.to_str().expect("UTF-8"),
    ]);
    let side = repo.at(side);
    let (head, entries) = (repo.head(), repo.entries());
    side.write("wiki-output/a.md", "# on the side\n");
    side.commits("wiki-output/a.md");
    assert_eq!(side.status(), [""; 0]);
    assert_eq!((repo.head(), repo.entries()), (head, entries));
    assert_eq!(repo.status(), [""; 0]);
    // One repository, one identity.
    assert_eq!(side.store().identity(), repo.store().identity());
    // An operation in one work tree is none in the other.
    repo.git(&["bisect", "start"]);
    side.write("wiki-output/a.md", "# again\n");
    side.commits("wiki-output/a.md");
    side.is_sound();
}

#[test]
fn hooks_do_not_run() {
    let repo = Repo::with_pages();
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
    ] {
        let path = repo.root.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(
            &path,
            "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/ran\"; exit 1\n",
        )
        .expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    assert!(!repo.root.join("ran").exists());
}
