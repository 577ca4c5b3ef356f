//! What is waited for, and said.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::fixture::{NOTHING, Repo, page, remove};
use crate::model::FailureKind;
use crate::stores::Store as _;

#[test]
fn a_page_staged_with_other_content_waits_and_the_others_go_through() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/b.md", "# staged\n");
    repo.git(&["add", "wiki-output/b.md"]);
    repo.write("wiki-output/b.md", "# on disk\n");
    repo.write("wiki-output/a.md", "# A, second\n");
    let before = repo.entries_but(&["wiki-output/a.md"]);
    let outcomes = repo
        .apply(&["wiki-output/b.md", "wiki-output/a.md"])
        .expect("usable");
    let failure = outcomes[0].clone().expect_err("it waits");
    assert_eq!(failure.kind, FailureKind::Waiting);
    assert!(
        failure.reason.contains("staged with other content"),
        "{failure}"
    );
    assert!(outcomes[1].as_ref().is_ok_and(|a| a.changed));
    assert_eq!(repo.entries_but(&["wiki-output/a.md"]), before);
    assert_eq!(repo.changed_by_head(), ["M wiki-output/a.md"]);
}

#[test]
fn a_removal_that_only_the_index_has_staged_is_not_undone() {
    let repo = Repo::with_pages();
    repo.git(&["rm", "-q", "--cached", "wiki-output/a.md"]);
    repo.write("wiki-output/a.md", "# still written\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
    assert!(failure.reason.contains("staged for removal"), "{failure}");
}

#[test]
fn a_page_that_moved_on_is_left_for_its_next_job() {
    let repo = Repo::with_pages();
    let stale = page("wiki-output/a.md", "# as it was read\n");
    repo.write("wiki-output/a.md", "# as it is now\n");
    let head = repo.head();
    let outcomes = repo
        .store()
        .apply(
            &[
                stale,
                remove("wiki-output/b.md"),
                page("wiki-output/gone.md", "x"),
            ],
            1,
        )
        .expect("usable");
    for outcome in outcomes {
        assert_eq!(outcome.expect_err("moved on").kind, FailureKind::Busy);
    }
    assert_eq!(repo.head(), head);
}

#[test]
fn sparse_entries_stay_and_unwatched_ones_wait() {
    let repo = Repo::with_pages();
    repo.git(&["update-index", "--skip-worktree", "wiki-output/a.md"]);
    repo.git(&["update-index", "--assume-unchanged", "wiki-output/b.md"]);
    repo.write("wiki-output/c.md", "# C\n");
    let before = repo.entries();
    repo.commits("wiki-output/c.md");
    assert_eq!(
        repo.entries_but(&["wiki-output/c.md"]),
        before,
        "flags are kept"
    );
    let head = repo.head();
    repo.delete("wiki-output/a.md");
    let outcome = repo.apply_one("wiki-output/a.md").expect("left alone");
    assert!(!outcome.changed);
    assert_eq!(
        repo.head(),
        head,
        "outside a sparse checkout it stays in HEAD"
    );
    repo.write("wiki-output/a.md", "# written all the same\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
    assert!(failure.reason.contains("skip-worktree"), "{failure}");
    repo.write("wiki-output/b.md", "# B, second\n");
    let failure = repo.fails("wiki-output/b.md", FailureKind::Waiting);
    assert!(failure.reason.contains("assume-unchanged"), "{failure}");
}

#[test]
fn a_page_in_conflict_after_a_stash_pop_waits_until_it_is_resolved() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# stashed\n");
    repo.git(&["stash", "-q"]);
    repo.write("wiki-output/a.md", "# committed\n");
    repo.commits("wiki-output/a.md");
    assert!(!repo.try_git(&["stash", "pop"]));
    assert!(repo.read("wiki-output/a.md").contains("<<<<<<<"));
    let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
    assert!(failure.reason.contains("conflict"), "{failure}");
    // Another page goes through, and the conflict stays one.
    let before = repo.entries_but(&["wiki-output/b.md"]);
    repo.write("wiki-output/b.md", "# B, second\n");
    repo.commits("wiki-output/b.md");
    assert_eq!(repo.entries_but(&["wiki-output/b.md"]), before);
    repo.write("wiki-output/a.md", "# resolved\n");
    repo.git(&["add", "wiki-output/a.md"]);
    repo.commits("wiki-output/a.md");
    assert_eq!(repo.status(), [""; 0]);
}

#[test]
fn nothing_is_committed_while_git_is_in_the_middle_of_something() {
    let base = || {
        let repo = Repo::with_pages();
        repo.git(&["checkout", "-qb", "side"]);
        repo.write("other.txt", "side\n");
        repo.git(&["commit", "-qam", "side"]);
        repo.git(&["checkout", "-q", "main"]);
        repo.write("other.txt", "main\n");
        repo.git(&["commit", "-qam", "main"]);
        repo
    };
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("a merge", &["merge", "side"], &["merge", "--abort"]),
        ("a rebase", &["rebase", "side"], &["rebase", "--abort"]),
        (
            "a rebase",
            &["rebase", "--apply", "side"],
            &["rebase", "--abort"],
        ),
        (
            "a cherry-pick",
            &["cherry-pick", "side"],
            &["cherry-pick", "--abort"],
        ),
        (
            "a revert",
            &["revert", "--no-commit", "HEAD"],
            &["revert", "--abort"],
        ),
        ("a bisect", &["bisect", "start"], &["bisect", "reset"]),
    ];
    for (name, begin, abort) in cases {
        let repo = base();
        repo.try_git(begin);
        repo.write("wiki-output/a.md", "# meanwhile\n");
        let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
        assert!(failure.reason.starts_with(name), "{begin:?}: {failure}");
        let notes = repo.store().notes();
        assert!(notes[0].reason.starts_with(name), "{begin:?}: {notes:?}");
        repo.git(abort);
        repo.write("wiki-output/a.md", "# meanwhile\n");
        repo.commits("wiki-output/a.md");
    }
}

#[test]
fn a_rebase_stopped_for_an_edit_is_waited_for_though_git_would_commit() {
    let repo = Repo::with_pages();
    for text in ["one\n", "two\n"] {
        repo.write("other.txt", text);
        repo.git(&["commit", "-qam", "more"]);
    }
    repo.git(&[
        "-c",
        "sequence.editor=sed -i 1s/pick/edit/",
        "rebase",
        "-q",
        "-i",
        "HEAD~2",
    ]);
    repo.write("wiki-output/a.md", "# meanwhile\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
    assert!(failure.reason.starts_with("a rebase"), "{failure}");
    // So would git: it is no question of what is possible.
    assert!(repo.try_git(&["commit", "-q", "--allow-empty", "-m", "in between"]));
    repo.fails("wiki-output/a.md", FailureKind::Waiting);
    repo.git(&["stash", "-q"]);
    repo.git(&["rebase", "--continue"]);
    repo.git(&["stash", "pop", "-q"]);
    repo.commits("wiki-output/a.md");
    repo.is_sound();
}

#[test]
fn a_lock_on_head_or_its_branch_is_waited_for_and_named() {
    for lock in ["HEAD.lock", "refs/heads/main.lock"] {
        let repo = Repo::with_pages();
        let path = repo.root.join(".git").join(lock);
        fs::write(&path, "").expect("a lock");
        let notes = repo.store().notes();
        assert!(notes[0].reason.contains(lock), "{notes:?}");
        assert!(
            notes[0]
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains(lock))
        );
        assert!(path.exists());
        if lock == "HEAD.lock" {
            continue; // it keeps nobody from moving the branch
        }
        repo.write("wiki-output/a.md", "# A, second\n");
        let failure = repo.fails("wiki-output/a.md", FailureKind::Busy);
        assert!(
            failure
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains(lock)),
            "{failure:?}"
        );
        assert!(path.exists());
        fs::remove_file(&path).expect("still there");
        repo.commits("wiki-output/a.md");
    }
}

#[test]
fn git_am_that_stopped_is_waited_for() {
    let repo = Repo::with_pages();
    repo.git(&["checkout", "-qb", "side"]);
    repo.write("other.txt", "side\n");
    repo.git(&["commit", "-qam", "side"]);
    repo.git(&["format-patch", "-q", "-1", "-o", ".git/patches"]);
    repo.git(&["checkout", "-q", "main"]);
    repo.write("other.txt", "main\n");
    repo.git(&["commit", "-qam", "main"]);
    assert!(!repo.try_git(&["am", ".git/patches/0001-side.patch"]));
    repo.write("wiki-output/a.md", "# meanwhile\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
    assert!(failure.reason.starts_with("git am"), "{failure}");
}

#[test]
fn a_foreign_lock_is_waited_for_and_never_removed_by_its_age() {
    let repo = Repo::with_pages();
    let lock = repo.lock();
    fs::write(&lock, "").expect("a lock");
    let old = SystemTime::now() - Duration::from_hours(11 * 24);
    fs::File::options()
        .write(true)
        .open(&lock)
        .and_then(|file| file.set_modified(old))
        .expect("old");
    repo.write("wiki-output/a.md", "# A, second\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Busy);
    assert!(failure.reason.contains("index.lock"), "{failure}");
    assert!(lock.exists());
    let notes = repo.store().notes();
    assert!(notes[0].reason.contains("for 11 days"), "{notes:?}");
    let hint = notes[0].hint.as_ref().expect("a way out");
    assert!(hint.contains("no git command") && hint.contains("index.lock"));
    // Let go of while we wait.
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        fs::remove_file(lock).expect("still there");
    });
    let outcomes = repo
        .store_waiting(Duration::from_mins(1))
        .apply(&[repo.put("wiki-output/a.md")], 1)
        .expect("committed");
    letting_go.join().expect("it ran");
    assert!(outcomes[0].as_ref().is_ok_and(|a| a.changed));
    repo.is_sound();
}

#[test]
fn a_page_replaced_by_no_file_waits_until_the_user_has_committed_it() {
    type Make = fn(&Path);
    let makes: [(&str, Make); 3] = [
        ("a link", |at| symlink("b.md", at).expect("a link")),
        ("a broken link", |at| {
            symlink("nowhere.md", at).expect("a link");
        }),
        ("a pipe", |at| {
            let made = Command::new("mkfifo").arg(at).status();
            assert!(made.expect("mkfifo runs").success());
        }),
    ];
    for (name, make) in makes {
        let repo = Repo::with_pages();
        repo.delete("wiki-output/a.md");
        make(&repo.root.join("wiki-output/a.md"));
        let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
        assert!(
            failure
                .reason
                .contains("something that is no file stands in the place of page"),
            "{name}: {failure}"
        );
        // Git keeps links; a pipe it can only forget.
        if name == "a pipe" {
            repo.git(&["rm", "-q", "--cached", "wiki-output/a.md"]);
        } else {
            repo.git(&["add", "wiki-output/a.md"]);
        }
        repo.git(&["commit", "-qm", "mine"]);
        assert_eq!(repo.apply_one("wiki-output/a.md"), Ok(NOTHING), "{name}");
    }
}

#[test]
fn a_page_that_stopped_being_a_file_since_it_was_read_is_left_for_its_next_job() {
    type Make = fn(&Path);
    let makes: [Make; 4] = [
        // The content would be the same.
        |at| symlink("b.md", at).expect("a link"),
        |at| symlink("nowhere.md", at).expect("a link"),
        |at| fs::create_dir(at).expect("a folder"),
        |at| {
            let made = Command::new("mkfifo").arg(at).status();
            assert!(made.expect("mkfifo runs").success());
        },
    ];
    for (which, make) in makes.into_iter().enumerate() {
        let repo = Repo::with_pages();
        let head = repo.head();
        let read = page("wiki-output/a.md", "# B\n");
        repo.delete("wiki-output/a.md");
        make(&repo.root.join("wiki-output/a.md"));
        let outcomes = repo.store().apply(&[read], 1).expect("usable");
        let failure = outcomes[0].as_ref().expect_err("put off");
        assert_eq!(failure.kind, FailureKind::Busy, "{which}: {failure}");
        assert!(failure.reason.contains("changed since"), "{failure}");
        assert_eq!(repo.head(), head, "{which}");
    }
}

#[test]
fn a_wiki_that_became_a_link_loses_no_page() {
    let repo = Repo::with_pages();
    fs::rename(repo.root.join("wiki-output"), repo.root.join("real")).expect("moved");
    symlink("real", repo.root.join("wiki-output")).expect("a link");
    repo.fails("wiki-output/a.md", FailureKind::Rejected);
    let outcomes = repo
        .store()
        .apply(&[remove("wiki-output/b.md")], 1)
        .expect("usable");
    assert_eq!(
        outcomes[0].as_ref().expect_err("kept").kind,
        FailureKind::Waiting
    );
}
