//! What a commit holds, and what of the user's it leaves alone.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::fixture::{NOTHING, Repo, page, remove};
use crate::model::{FailureKind, PagePath};
use crate::state::StateDir;
use crate::stores::Store as _;
use crate::stores::git::{GitSettings, GitStore};

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
        "wiki: sync 3 pages\n\nM wiki-output/a.md\nD wiki-output/b.md\nA wiki-output/new.md"
    );
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2\n");
    assert_eq!(repo.status(), [""; 0]);
    repo.is_sound();
}

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
        assert!(repo.store().status_note()[0].starts_with(name), "{begin:?}");
        repo.git(abort);
        repo.write("wiki-output/a.md", "# meanwhile\n");
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
    let notes = repo.store().status_note();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("950400 s") || note.contains("950401 s")),
        "{notes:?}"
    );
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
fn an_unusable_repository_is_refused_with_the_way_out() {
    type Spoil = fn(&Repo);
    let cases: [(&str, Spoil, &str, &str); 7] = [
        (
            "no repository",
            |r| fs::remove_dir_all(r.root.join(".git")).expect("gone"),
            "no git repository",
            "git init",
        ),
        ("bare", |r| r.set("core.bare", "true"), "bare", "clone"),
        (
            "detached",
            |r| drop(r.git(&["checkout", "-q", "--detach"])),
            "detached",
            "git switch",
        ),
        (
            "nobody",
            |r| {
                r.set("user.name", "");
                r.set("user.email", "");
                r.set("user.useConfigOnly", "true");
            },
            "who commits",
            "git config user.email",
        ),
        (
            "signing",
            |r| r.set("commit.gpgsign", "true"),
            "gpgsign",
            "git.commit",
        ),
        (
            "split index",
            |r| drop(r.git(&["update-index", "--split-index"])),
            "split index",
            "--no-split-index",
        ),
        (
            "sparse index",
            |r| {
                drop(r.git(&[
                    "sparse-checkout",
                    "set",
                    "--cone",
                    "--sparse-index",
                    "wiki-output",
                ]));
            },
            "sparse index",
            "--no-sparse-index",
        ),
    ];
    for (name, spoil, reason, hint) in cases {
        let repo = Repo::with_pages();
        repo.write("far/away/x.txt", "x");
        repo.git(&["add", "far"]);
        repo.git(&["commit", "-qm", "far"]);
        spoil(&repo);
        repo.write("wiki-output/a.md", "# A, second\n");
        let failure = repo.apply(&["wiki-output/a.md"]).expect_err(name);
        // A global identity of whoever runs the test would stand in for the missing one.
        if name == "nobody" && failure.reason.is_empty() {
            continue;
        }
        assert_eq!(failure.kind, FailureKind::Refused, "{name}: {failure:?}");
        assert!(failure.reason.contains(reason), "{name}: {failure:?}");
        assert!(
            failure.hint.as_ref().is_some_and(|h| h.contains(hint)),
            "{name}: {failure:?}"
        );
        assert!(!repo.root.join(".git/index.lock").exists());
    }
}

#[test]
fn formats_that_libgit2_cannot_read_are_named() {
    for (args, reason) in [
        (["init", "-q", "--object-format=sha256"], "sha256"),
        (["init", "-q", "--ref-format=reftable"], "reftable"),
    ] {
        let repo = Repo::bare_folder();
        repo.git(&args);
        repo.write("wiki-output/a.md", "# A\n");
        let failure = repo.apply(&["wiki-output/a.md"]).expect_err("refused");
        assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
        assert!(failure.reason.contains(reason), "{failure:?}");
        assert!(failure.hint.is_some());
    }
}

#[test]
fn a_repository_of_another_user_is_refused_and_no_configuration_is_changed() {
    let repo = Repo::with_pages();
    let owned = |uid| {
        let mut all = vec![repo.root.clone(), repo.root.join(".git")];
        all.push(repo.root.join(".git/config"));
        all.iter()
            .all(|path| std::os::unix::fs::chown(path, Some(uid), None).is_ok())
    };
    if !owned(4711) {
        return; // only root may give files away
    }
    let config = fs::read(repo.root.join(".git/config")).expect("readable");
    let failure = repo.store().witness().expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    assert!(failure.hint.is_some_and(|h| h.contains("safe.directory")));
    assert_eq!(
        fs::read(repo.root.join(".git/config")).expect("readable"),
        config
    );
}

#[test]
fn a_detached_head_is_committed_on_when_allowed() {
    let repo = Repo::with_pages();
    repo.git(&["checkout", "-q", "--detach"]);
    repo.write("wiki-output/a.md", "# A, second\n");
    let settings = GitSettings {
        allow_detached: true,
        ..GitSettings::default()
    };
    let mut store = GitStore::open(&repo.root, &StateDir::of(&repo.root), settings).expect("opens");
    let outcomes = store
        .apply(&[repo.put("wiki-output/a.md")], 1)
        .expect("usable");
    assert!(outcomes[0].is_ok());
    assert_eq!(
        store.tally().commit.as_deref(),
        Some(repo.head().trim_end())
    );
    assert_eq!(repo.git(&["rev-list", "--count", "main..HEAD"]), "1\n");
    assert!(
        !repo.try_git(&["symbolic-ref", "-q", "HEAD"]),
        "still detached"
    );
    assert_eq!(repo.status(), [""; 0]);
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
fn nothing_beyond_a_link_a_submodule_or_a_nested_repository_is_committed() {
    let repo = Repo::with_pages();
    repo.write("real/page.md", "# real\n");
    symlink("../real", repo.root.join("wiki-output/link")).expect("a link");
    repo.write("wiki-output/nested/page.md", "# nested\n");
    repo.git(&["init", "-q", "wiki-output/nested"]);
    for path in ["wiki-output/link/page.md", "wiki-output/nested/page.md"] {
        let failure = repo.fails(path, FailureKind::Rejected);
        assert!(failure.reason.contains("its path"), "{failure}");
    }
    // A submodule known to git whose folder is empty.
    let head = repo.head();
    repo.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{},wiki-output/sub", head.trim_end()),
    ]);
    repo.write("wiki-output/sub/page.md", "# in it\n");
    let failure = repo.fails("wiki-output/sub/page.md", FailureKind::Rejected);
    assert!(failure.reason.contains("submodule"), "{failure}");
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
