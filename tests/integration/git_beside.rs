//! Long git commands of the user's with drains running hot beside them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::wiki::Wiki;

/// A topic branch of `count` commits beside a main that has moved on, and a wiki that is drained.
fn branches(count: usize) -> Wiki {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["checkout", "-qb", "topic"]);
    for at in 0..count {
        wiki.write("topic.txt", format!("{at}\n"));
        wiki.git(&["add", "topic.txt"]);
        wiki.git(&["commit", "-qm", "topic"]);
    }
    wiki.git(&["checkout", "-q", "main"]);
    wiki.write("main.txt", "main\n");
    wiki.git(&["add", "main.txt"]);
    wiki.git(&["commit", "-qm", "main"]);
    wiki.git(&["checkout", "-q", "topic"]);
    wiki
}

/// Waits for a process, at most two minutes.
#[track_caller]
fn end_of(mut child: Child) -> std::process::Output {
    let end = Instant::now() + Duration::from_mins(2);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Rebases while drains of changed pages run one after the other; returns how often one met the rebase.
fn rebase_beside_drains(count: usize, backend: &str) -> usize {
    let wiki = branches(count);
    let mut user = wiki.git_command(&["rebase", backend, "main"]);
    let mut user = user
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut met = 0;
    let mut round = 0;
    while user.try_wait().unwrap().is_none() {
        wiki.write("wiki-output/hot.md", format!("# Hot {round}\n"));
        let drained = wiki.ws(&["drain", "--no-wait", "--json"]);
        assert!(
            matches!(drained.code, Some(0 | 75)),
            "{backend}: {:?} {}",
            drained.code,
            drained.err
        );
        met += usize::from(drained.code == Some(75));
        round += 1;
    }
    let said = end_of(user);
    assert!(
        said.status.success(),
        "{backend}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    let topics = wiki.git(&["log", "--format=%s", "--grep=^topic$"]);
    assert_eq!(topics.lines().count(), count, "{backend}");
    wiki.drain();
    wiki.assert_in_sync();
    met
}

#[test]
fn a_rebase_of_either_kind_does_not_fail_beside_hot_drains() {
    let met: usize = ["--merge", "--apply"]
        .map(|backend| rebase_beside_drains(20, backend))
        .iter()
        .sum();
    assert!(met > 0, "no drain met the rebase");
}

#[test]
#[ignore = "ten rebases of fifty commits: for scripts/test --long"]
fn ten_rebases_of_fifty_commits_do_not_fail_beside_hot_drains() {
    for backend in ["--merge", "--apply"] {
        for _ in 0..5 {
            assert!(
                rebase_beside_drains(50, backend) > 0,
                "no drain met the rebase"
            );
        }
    }
}

#[test]
fn commits_of_the_users_go_through_beside_hot_drains() {
    let wiki = Wiki::small();
    wiki.drain();
    let stop = wiki.root().join(".git/stop");
    let mut done = 0;
    std::thread::scope(|scope| {
        let drains = scope.spawn(|| {
            let mut round = 0;
            while !stop.exists() {
                wiki.write("wiki-output/hot.md", format!("# Hot {round}\n"));
                let drained = wiki.ws(&["drain", "--no-wait", "--json"]);
                assert!(matches!(drained.code, Some(0 | 75)), "{}", drained.err);
                round += 1;
            }
            round
        });
        for at in 0..25 {
            wiki.write("mine.txt", format!("{at}\n"));
            // A lock that is held for a moment, and a HEAD that moved, are told by git; then he tries again.
            for args in [
                &["add", "mine.txt"][..],
                &["commit", "-qm", "mine", "--", "mine.txt"],
            ] {
                let end = Instant::now() + Duration::from_mins(1);
                while wiki.try_git(args).code != Some(0) {
                    assert!(Instant::now() < end, "git {args:?} never succeeds");
                }
            }
            done += 1;
        }
        fs::write(&stop, "").unwrap();
        assert!(drains.join().unwrap() > 0);
    });
    fs::remove_file(&stop).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.git(&["show", "HEAD:mine.txt"]), "24\n");
    let mine = wiki.git(&["log", "--format=%s", "--grep=^mine$"]);
    assert_eq!(mine.lines().count(), done);
    let touched = wiki.git(&["log", "--format=", "--name-only", "--grep=^mine$"]);
    let touched: std::collections::BTreeSet<_> =
        touched.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(touched, ["mine.txt"].into());
}

#[test]
fn a_move_whose_two_jobs_come_in_different_batches_ends_as_one_page() {
    for first in ["wiki-output/sub/c.md", "wiki-output/moved.md"] {
        let wiki = Wiki::small();
        wiki.drain();
        let from = wiki.root().join("wiki-output/sub/c.md");
        fs::rename(from, wiki.root().join("wiki-output/moved.md")).unwrap();
        wiki.ws(&["enqueue", first]).code(0);
        wiki.ws(&["drain", "--no-scan", "--max-jobs", "1"]).code(0);
        let between = wiki.head_pages().len();
        assert_eq!(
            between,
            if first.ends_with("moved.md") { 4 } else { 2 },
            "{first}"
        );
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!(
            wiki.head_pages(),
            [
                "wiki-output/a.md",
                "wiki-output/b.md",
                "wiki-output/moved.md"
            ],
            "{first}"
        );
        assert_eq!(wiki.json(0, &["verify"])["pages"], 3);
    }
}

#[test]
fn a_page_that_the_user_moves_with_git_mv_keeps_its_mode_and_history() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["update-index", "--chmod=+x", "wiki-output/b.md"]);
    wiki.git(&["commit", "-qm", "mode"]);
    wiki.git(&["checkout", "-q", "--", "wiki-output/b.md"]);
    wiki.git(&["mv", "wiki-output/b.md", "wiki-output/BB.md"]);
    wiki.drain();
    wiki.assert_in_sync();
    let held = wiki.git(&["ls-tree", "HEAD", "wiki-output/BB.md"]);
    assert!(held.starts_with("100755"), "{held}");
    let renamed = wiki.git(&["show", "--format=", "--name-status", "-M", "HEAD"]);
    assert_eq!(renamed, "R100\twiki-output/b.md\twiki-output/BB.md\n");
    let follow = wiki.git(&["log", "--follow", "--format=%h", "--", "wiki-output/BB.md"]);
    assert_eq!(follow.lines().count(), 3);
}

/// Writes a hook of the user's.
fn hook(wiki: &Wiki, name: &str, text: &str) {
    let path = wiki.root().join(".git/hooks").join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_drain_while_a_slow_hook_of_a_commit_runs_waits_and_the_commit_succeeds() {
    let wiki = Wiki::small();
    wiki.drain();
    hook(
        &wiki,
        "pre-commit",
        "touch .git/slow; until test -e .git/go || test ! -e .git/slow; do sleep 0.02; done",
    );
    for args in [
        &["commit", "-qm", "slow"][..],
        &["commit", "-qm", "slow", "--amend"],
    ] {
        wiki.write("mine.txt", format!("{args:?}\n"));
        wiki.git(&["add", "mine.txt"]);
        let mut user = wiki.git_command(args);
        let user = user.stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + Duration::from_mins(1);
        while !wiki.root().join(".git/slow").exists() {
            assert!(Instant::now() < end, "the hook does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = wiki.git(&["rev-parse", "HEAD"]);
        wiki.write("wiki-output/a.md", format!("# {args:?}\n"));
        let drained = wiki.ws(&["drain", "--no-wait", "--json"]).code(75);
        assert!(
            drained.out.contains("a git commit is under way"),
            "{}",
            drained.out
        );
        assert_eq!(wiki.git(&["rev-parse", "HEAD"]), before);
        fs::write(wiki.root().join(".git/go"), "").unwrap();
        let said = end_of(user);
        let words = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{args:?}: {words}");
        for name in ["slow", "go"] {
            fs::remove_file(wiki.root().join(".git").join(name)).unwrap();
        }
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn a_drain_in_a_hook_after_the_commit_does_not_wait_for_that_commit() {
    let wiki = Wiki::small();
    wiki.drain();
    let ours = env!("CARGO_BIN_EXE_wiki-sync");
    hook(
        &wiki,
        "post-commit",
        &format!("'{ours}' drain --no-wait --json >.git/drained; echo $? >.git/code"),
    );
    wiki.write("mine.txt", "mine\n");
    wiki.git(&["add", "mine.txt"]);
    wiki.write("wiki-output/a.md", "# In the hook\n");
    wiki.git(&["commit", "-qm", "mine"]);
    let read = |name: &str| fs::read_to_string(wiki.root().join(".git").join(name)).unwrap();
    assert_eq!(read("code"), "0\n", "{}", read("drained"));
    assert_eq!(
        wiki.git(&["show", "HEAD:wiki-output/a.md"]),
        "# In the hook\n"
    );
    wiki.assert_in_sync();
}
