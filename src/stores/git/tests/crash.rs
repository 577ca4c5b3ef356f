//! Killed between any two steps, with the user at work before the next start, and at work beside it.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::git::GitStore;
use crate::stores::git::commit::Step;
use crate::stores::{Outcome, Store as _};

const STEPS: [Step; 8] = [
    Step::Objects,
    Step::NextIndex,
    Step::Journal,
    Step::Linked,
    Step::Checked,
    Step::RefMoved,
    Step::IndexPlaced,
    Step::Done,
];

const PAGES: [&str; 3] = ["wiki-output/a.md", "wiki-output/b.md", "wiki-output/n.md"];

/// What the user does; each begins by removing `index.lock`, as git tells him to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Nothing,
    RemovesTheLock,
    Stages,
    Commits,
    StagesThePage,
    Resets,
    HardResets,
    SwitchesBranch,
}

const USERS: [User; 8] = [
    User::Nothing,
    User::RemovesTheLock,
    User::Stages,
    User::Commits,
    User::StagesThePage,
    User::Resets,
    User::HardResets,
    User::SwitchesBranch,
];

impl User {
    fn act(self, repo: &Repo) {
        if self == Self::Nothing {
            return;
        }
        let _ = fs::remove_file(repo.root.join(".git/index.lock"));
        match self {
            Self::Nothing | Self::RemovesTheLock => {}
            Self::Stages => {
                repo.write("user.txt", "staged\n");
                repo.git(&["add", "user.txt"]);
            }
            Self::Commits => {
                repo.write("user.txt", "committed\n");
                repo.git(&["add", "user.txt"]);
                repo.git(&["commit", "-qm", "the user's"]);
            }
            Self::StagesThePage => {
                repo.write("wiki-output/a.md", "# A, the user's\n");
                repo.git(&["add", "wiki-output/a.md"]);
            }
            Self::Resets => drop(repo.git(&["reset", "-q", "HEAD"])),
            Self::HardResets => {
                // His own staged file is his to lose here.
                repo.git(&["reset", "-q", "--hard", "HEAD"]);
            }
            Self::SwitchesBranch => drop(repo.git(&["checkout", "-q", "-b", "elsewhere"])),
        }
    }
}

/// A repository with a change, a new page, a removal, and staged work of the user's.
fn prepared() -> Repo {
    let repo = Repo::with_pages();
    repo.write("mine.txt", "staged before\n");
    repo.git(&["add", "mine.txt"]);
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.write("wiki-output/n.md", "# N\n");
    repo.delete("wiki-output/b.md");
    repo
}

/// Applies with the watch set; returns what came of it.
fn apply_watched(
    repo: &Repo,
    watch: impl Fn(Step) -> bool + Send + 'static,
) -> Result<Vec<Outcome>, crate::model::Failure> {
    let mut store = repo.store();
    store.watch = Box::new(watch);
    apply_with(repo, &mut store)
}

/// As [`apply_watched`], with time for another try however slow the git commands in the watch are.
fn apply_patiently(
    repo: &Repo,
    watch: impl Fn(Step) -> bool + Send + 'static,
) -> Result<Vec<Outcome>, crate::model::Failure> {
    let mut store = repo.store_waiting(Duration::from_mins(1));
    store.watch = Box::new(watch);
    apply_with(repo, &mut store)
}

fn apply_with(repo: &Repo, store: &mut GitStore) -> Result<Vec<Outcome>, crate::model::Failure> {
    let changes = PAGES.map(|path| {
        if repo.root.join(path).exists() {
            repo.put(path)
        } else {
            super::fixture::remove(path)
        }
    });
    store.apply(&changes, 1)
}

/// Asserts that after one more apply HEAD and index hold the pages as they are on disk, and what the user
/// did is as he left it.
#[track_caller]
fn settles(repo: &Repo, user: User, case: &str) {
    let outcomes = repo
        .apply(&PAGES)
        .unwrap_or_else(|f| panic!("{case}: {f:?}"));
    for outcome in outcomes {
        outcome.unwrap_or_else(|f| panic!("{case}: {f:?}"));
    }
    for path in PAGES {
        let held = repo.try_git(&["cat-file", "-e", &format!("HEAD:{path}")]);
        assert_eq!(held, repo.root.join(path).exists(), "{case}: {path}");
        if held {
            let text = repo.git(&["show", &format!("HEAD:{path}")]);
            assert_eq!(text, repo.read(path), "{case}");
        }
    }
    let of_the_user: &[&str] = match user {
        User::Stages => &["A  mine.txt", "A  user.txt"],
        User::Commits | User::HardResets => &[],
        User::Resets => &["?? mine.txt"],
        _ => &["A  mine.txt"],
    };
    assert_eq!(repo.status(), of_the_user, "{case}");
    if user == User::Commits {
        assert_eq!(
            repo.git(&["show", "HEAD:user.txt"]),
            "committed\n",
            "{case}"
        );
        assert_eq!(
            repo.git(&["show", "HEAD:mine.txt"]),
            "staged before\n",
            "{case}"
        );
    }
    assert!(!repo.lock().exists(), "{case}: a lock was left");
    repo.is_sound();
    // And it goes on.
    repo.write("wiki-output/n.md", "# N, later\n");
    repo.commits("wiki-output/n.md");
    assert_eq!(repo.changed_by_head(), ["M wiki-output/n.md"], "{case}");
    assert_eq!(repo.status(), of_the_user, "{case}");
}

#[test]
fn killed_after_any_step_the_next_start_finishes_or_undoes_it() {
    for step in STEPS {
        for user in USERS {
            let case = format!("killed after {step:?}, {user:?}");
            let repo = prepared();
            apply_watched(&repo, move |at| at != step).expect_err(&case);
            user.act(&repo);
            settles(&repo, user, &case);
        }
    }
}

#[test]
fn recover_alone_frees_the_lock_and_moves_the_index() {
    for step in STEPS {
        let repo = prepared();
        apply_watched(&repo, move |at| at != step).expect_err("killed");
        repo.store().recover().expect("recovers");
        repo.store().recover().expect("again");
        assert!(!repo.lock().exists(), "{step:?}");
        repo.is_sound();
        let moved = STEPS.iter().position(|s| *s == step)
            >= STEPS.iter().position(|s| *s == Step::RefMoved);
        assert_eq!(
            repo.git(&["rev-list", "--count", "HEAD"]),
            if moved { "2\n" } else { "1\n" }
        );
        let staged = repo.git(&["diff", "--cached", "--name-only"]);
        assert_eq!(staged, "mine.txt\n", "{step:?}");
    }
}

#[test]
fn the_next_look_recovers_too() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::Linked).expect_err("killed");
    assert!(repo.lock().exists());
    let notes = repo.store().notes();
    assert!(notes[0].reason.contains("cut short"), "{notes:?}");
    repo.store().witness().expect("usable");
    assert!(!repo.lock().exists());
}

#[test]
fn killed_again_while_recovering() {
    for again in [Step::NextIndex, Step::Journal, Step::Linked, Step::Checked] {
        for user in USERS {
            let case = format!("killed after RefMoved and after {again:?}, {user:?}");
            let repo = prepared();
            apply_watched(&repo, |at| at != Step::RefMoved).expect_err(&case);
            fs::remove_file(repo.lock()).expect("it was ours");
            apply_watched(&repo, move |at| at != again).expect_err(&case);
            user.act(&repo);
            settles(&repo, user, &case);
        }
    }
}

#[test]
fn the_user_at_work_beside_any_step() {
    for step in STEPS {
        for user in USERS {
            let case = format!("beside {step:?}, {user:?}");
            let repo = prepared();
            let beside = repo.at(repo.root.clone());
            let done = Cell::new(false);
            let outcome = apply_watched(&repo, move |at| {
                if at == step && !done.replace(true) {
                    user.act(&beside);
                }
                true
            });
            if let Err(failure) = outcome {
                assert_eq!(failure.kind, FailureKind::Busy, "{case}: {failure:?}");
            }
            settles(&repo, user, &case);
        }
    }
}

#[test]
fn a_lock_that_took_the_place_of_ours_is_left_alone() {
    for step in STEPS {
        let case = format!("killed after {step:?}");
        let repo = prepared();
        apply_watched(&repo, move |at| at != step).expect_err(&case);
        let lock = repo.lock();
        let _ = fs::remove_file(&lock);
        fs::write(&lock, "another's").expect("a lock");
        let _ = repo.apply(&PAGES);
        assert_eq!(
            fs::read(&lock).expect("still there"),
            b"another's",
            "{case}"
        );
        let before = repo.head();
        repo.write("wiki-output/n.md", "# N, again\n");
        let failure = repo.apply(&PAGES).expect_err(&case);
        assert_eq!(failure.kind, FailureKind::Busy, "{case}");
        assert_eq!(repo.head(), before, "{case}");
        fs::remove_file(&lock).expect("still there");
        settles(&repo, User::Nothing, &case);
    }
}

#[test]
fn a_revert_that_the_user_stages_after_the_kill_is_not_taken_from_him() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::IndexPlaced).expect_err("killed");
    fs::remove_file(repo.lock()).expect("ours");
    // The very entry that the index held before.
    repo.git(&["reset", "-q", "HEAD~1", "--", "wiki-output/a.md"]);
    let entries = repo.entries();
    repo.store().recover().expect("recovers");
    assert_eq!(repo.entries(), entries);
}

#[test]
fn the_ref_lock_of_a_killed_process_is_known_by_its_content() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::Checked).expect_err("killed");
    let journal = fs::read_to_string(repo.root.join(".git/wiki-sync-journal")).expect("there");
    let journal: serde_json::Value = serde_json::from_str(&journal).expect("JSON");
    let commit = journal["commit"].as_str().expect("an id");
    let lock = repo.root.join(".git/refs/heads/main.lock");
    fs::write(&lock, "another's").expect("a lock");
    repo.store().recover().expect("recovers");
    assert!(lock.exists(), "it is not provably ours");
    fs::remove_file(&lock).expect("there");
    apply_watched(&repo, |at| at != Step::Checked).expect_err("killed");
    // The commit of the same second has the same id.
    let journal = fs::read_to_string(repo.root.join(".git/wiki-sync-journal")).expect("there");
    let journal: serde_json::Value = serde_json::from_str(&journal).expect("JSON");
    let commit = journal["commit"].as_str().unwrap_or(commit);
    fs::write(&lock, format!("{commit}\n")).expect("a lock");
    settles(&repo, User::Nothing, "a ref's lock");
}

#[test]
fn two_processes_take_turns() {
    let repo = prepared();
    let beside = repo.at(repo.root.clone());
    let state = crate::state::StateDir::of(&repo.root);
    let lock = state.path().join("git.lock");
    apply_watched(&repo, move |at| {
        if at == Step::Linked {
            // While it is at work, a second one neither commits nor "recovers" the first one's lock.
            let failure = beside.apply(&PAGES).expect_err("not its turn");
            assert_eq!(failure.kind, FailureKind::Busy);
            assert!(beside.store().witness().is_ok());
            assert!(beside.lock().exists());
        }
        true
    })
    .expect("committed");
    assert!(lock.exists());
    repo.is_sound();
}

#[test]
fn a_lost_journal_loses_no_work() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::Linked).expect_err("killed");
    fs::write(repo.root.join(".git/wiki-sync-journal"), "{\"torn").expect("damaged");
    settles(&repo, User::Nothing, "a damaged journal");
}

#[test]
fn a_full_minute_of_waiting_is_not_needed_for_a_lock_of_our_own() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::Checked).expect_err("killed");
    let mut store = repo.store_waiting(Duration::from_mins(1));
    let begun = std::time::Instant::now();
    apply_with(&repo, &mut store).expect("committed");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_the_user_staged_after_the_kill_is_not_overwritten_by_recovering() {
    let repo = prepared();
    apply_watched(&repo, |at| at != Step::RefMoved).expect_err("killed");
    fs::remove_file(repo.lock()).expect("ours");
    repo.write("wiki-output/a.md", "# A, staged by the user\n");
    repo.git(&["add", "wiki-output/a.md"]);
    repo.write("wiki-output/a.md", "# A, on disk\n");
    repo.store().recover().expect("recovers");
    assert_eq!(
        repo.git(&["cat-file", "blob", ":wiki-output/a.md"]),
        "# A, staged by the user\n"
    );
    repo.is_sound();
}

#[test]
fn the_index_is_not_replaced_under_another_process_s_lock() {
    for step in [Step::Linked, Step::Checked, Step::RefMoved] {
        let repo = prepared();
        let (lock, index) = (repo.lock(), repo.root.join(".git/index"));
        let before = fs::read(&index).expect("readable");
        let theirs = lock.clone();
        let outcome = apply_watched(&repo, move |at| {
            if at == step {
                fs::remove_file(&theirs).expect("ours");
                fs::write(&theirs, "another's").expect("a lock");
            }
            true
        });
        assert_eq!(outcome.expect_err("it waits").kind, FailureKind::Busy);
        assert_eq!(fs::read(&index).expect("readable"), before, "{step:?}");
        assert_eq!(
            fs::read(&lock).expect("still there"),
            b"another's",
            "{step:?}"
        );
        fs::remove_file(&lock).expect("still there");
        settles(&repo, User::Nothing, "after another's lock");
    }
}

#[test]
fn what_the_user_stages_or_checks_out_before_the_lock_counts() {
    // He stages another content of the page while we prepare: it waits, as if he had done so before.
    let repo = prepared();
    let beside = repo.at(repo.root.clone());
    let outcomes = apply_patiently(&repo, move |at| {
        if at == Step::Journal
            && !beside
                .git(&["diff", "--cached", "--name-only"])
                .contains("a.md")
        {
            let other = beside.git(&["hash-object", "-w", "other.txt"]);
            let entry = format!("100644,{},wiki-output/a.md", other.trim_end());
            beside.git(&["update-index", "--cacheinfo", &entry]);
        }
        true
    })
    .expect("usable");
    assert_eq!(
        outcomes[0].as_ref().expect_err("waits").kind,
        FailureKind::Waiting
    );
    assert_eq!(repo.git(&["show", "HEAD:wiki-output/a.md"]), "# A\n");
    // He switches to another branch: the one he left does not move.
    let repo = prepared();
    let beside = repo.at(repo.root.clone());
    let main = repo.head();
    apply_patiently(&repo, move |at| {
        if at == Step::Journal {
            beside.git(&["symbolic-ref", "HEAD", "refs/heads/elsewhere"]);
            beside.git(&["update-ref", "refs/heads/elsewhere", "main"]);
        }
        true
    })
    .expect("usable");
    assert_eq!(repo.git(&["rev-parse", "main"]), main);
    assert_ne!(repo.head(), main);
}

#[test]
fn an_edit_that_the_times_cannot_show_is_found_by_git() {
    let repo = Repo::with_pages();
    repo.set("core.trustctime", "false");
    // So that no other entry is as young as the index.
    for path in ["wiki-output/b.md", "other.txt"] {
        let file = fs::File::options().append(true).open(repo.root.join(path));
        let old = std::time::SystemTime::now() - Duration::from_mins(10);
        file.and_then(|file| file.set_modified(old)).expect("set");
    }
    repo.delete("wiki-output/a.md");
    repo.git(&["add", "-A", "wiki-output", "other.txt"]);
    repo.git(&["commit", "-qm", "settled"]);
    repo.write("wiki-output/a.md", "# aaaa\n");
    let beside = repo.at(repo.root.clone());
    let mut store = repo.store();
    store.watch = Box::new(move |at| {
        if at == Step::Objects {
            // Edited in the second of the compared edit, and the index is written in a later one.
            let path = beside.root.join("wiki-output/a.md");
            let then = fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .expect("known");
            beside.write("wiki-output/a.md", "# bbbb\n");
            let file = fs::File::options().append(true).open(&path);
            file.and_then(|file| file.set_modified(then)).expect("set");
            while then.elapsed().expect("past") < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        true
    });
    store
        .apply(&[repo.put("wiki-output/a.md")], 1)
        .expect("usable");
    assert_eq!(repo.git(&["show", "HEAD:wiki-output/a.md"]), "# aaaa\n");
    assert_eq!(repo.status(), [" M wiki-output/a.md"]);
}
