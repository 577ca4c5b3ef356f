//! Beside git commands that take their time.

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use super::super::Step;
use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;

/// An editor that says that it is open, waits until the file `go` is there, and writes a message.
const EDITOR: &str =
    r#"sh -c 'touch .git/open; until [ -e .git/go ]; do sleep 0.02; done; echo message > "$1"' --"#;

/// Waits for a condition, at most a minute.
#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < end, "{what} took more than a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_commit_in_the_editor_is_waited_for_and_succeeds() {
    for args in [
        // Holds `index.lock` all the while.
        &["commit", "-q", "-a"][..],
        // Hold no lock, but fail when HEAD moves.
        &["commit", "-q"],
        &["commit", "-q", "--amend"],
    ] {
        let repo = Repo::with_pages();
        repo.write("other.txt", "the user's\n");
        repo.git(&["add", "other.txt"]);
        let mut user = repo.spawn(args, EDITOR);
        until("the editor", || repo.root.join(".git/open").exists());
        let lock = repo.lock();
        if lock.exists() {
            let old = SystemTime::now() - Duration::from_hours(1);
            let file = File::options().append(true).open(&lock);
            file.and_then(|file| file.set_modified(old))
                .expect("set back");
        }
        repo.write("wiki-output/n.md", "# N\n");
        let outcome = repo.apply(&["wiki-output/n.md"]);
        assert_eq!(lock.exists(), args.contains(&"-a"), "{args:?}");
        fs::write(repo.root.join(".git/go"), "").expect("written");
        assert!(user.wait().expect("it ends").success(), "{args:?}");
        let failure = outcome.expect_err("it waits");
        assert_eq!(failure.kind, FailureKind::Waiting, "{args:?}: {failure:?}");
        repo.commits("wiki-output/n.md");
        assert_eq!(repo.status(), [""; 0]);
        repo.is_sound();
    }
}

#[test]
fn a_commit_given_up_in_the_editor_is_not_waited_for() {
    let repo = Repo::with_pages();
    repo.write("other.txt", "the user's\n");
    repo.git(&["add", "other.txt"]);
    assert!(
        !repo
            .spawn(&["commit", "-q"], "false")
            .wait()
            .expect("it ends")
            .success()
    );
    repo.write("wiki-output/n.md", "# N\n");
    repo.commits("wiki-output/n.md");
}

#[test]
fn a_rebase_of_fifty_commits_does_not_fail_beside_a_hot_drain() {
    let repo = Repo::with_pages();
    repo.git(&["checkout", "-qb", "topic"]);
    for at in 0..50 {
        repo.write("topic.txt", &format!("{at}\n"));
        repo.git(&["add", "topic.txt"]);
        repo.git(&["commit", "-qm", "topic"]);
    }
    repo.git(&["checkout", "-q", "main"]);
    repo.write("other.txt", "main\n");
    repo.git(&["commit", "-qam", "main"]);
    repo.git(&["checkout", "-q", "topic"]);
    let mut user = repo.spawn(&["rebase", "-q", "main"], "true");
    until("the rebase's start", || {
        repo.root.join(".git/rebase-merge").exists() || user_is_done(&repo)
    });
    let mut store = repo.store();
    let mut waited = 0;
    let status = loop {
        repo.write("wiki-output/n.md", &format!("# N {waited}\n"));
        match store.apply(&[repo.put("wiki-output/n.md")], 1) {
            Ok(_) => {}
            Err(failure) if failure.kind == FailureKind::Waiting => waited += 1,
            Err(failure) => assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}"),
        }
        if let Some(status) = user.try_wait().expect("it can be asked") {
            break status;
        }
    };
    assert!(status.success());
    assert_eq!(
        repo.git(&["log", "--format=%s", "--grep=^topic$"])
            .lines()
            .count(),
        50
    );
    repo.apply(&["wiki-output/n.md"]).expect("usable");
    assert_eq!(repo.status(), [""; 0]);
    assert!(waited > 0, "the drain never met the rebase");
    repo.is_sound();
}

fn user_is_done(repo: &Repo) -> bool {
    fs::read_to_string(repo.root.join(".git/logs/HEAD")).is_ok_and(|log| log.contains("(finish)"))
}

#[test]
fn a_prune_that_takes_what_was_just_written_costs_a_round_and_no_page() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.write("wiki-output/new.md", "# New\n");
    for step in [Step::Objects, Step::Journal, Step::Checked] {
        repo.write("wiki-output/a.md", &format!("# A at {step:?}\n"));
        let mut store = repo.store_waiting(Duration::from_mins(1));
        let root = repo.root.clone();
        let pruned = std::cell::Cell::new(false);
        store.watch = Box::new(move |at| {
            if at == step && !pruned.replace(true) {
                let prune = std::process::Command::new("git")
                    .args(["prune", "--expire=now"])
                    .current_dir(&root)
                    .status();
                assert!(prune.is_ok_and(|status| status.success()), "pruned");
            }
            true
        });
        let changes = ["wiki-output/a.md", "wiki-output/new.md"].map(|path| repo.put(path));
        let outcomes = store.apply(&changes, 0).expect("applied");
        assert!(outcomes.iter().all(Result::is_ok), "{step:?}: {outcomes:?}");
        repo.is_sound();
        assert_eq!(repo.status(), Vec::<String>::new(), "{step:?}");
    }
}
