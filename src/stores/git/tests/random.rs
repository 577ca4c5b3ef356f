//! Random work of the user's, interleaved with applies.

use std::collections::BTreeSet;
use std::fs;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;

/// A small generator: the same seed gives the same story.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

const FILES: [&str; 7] = [
    "wiki-output/a.md",
    "wiki-output/b.md",
    "wiki-output/sub/c.md",
    "wiki-output/sub/d.md",
    "wiki-output/sub-e.md",
    "other.txt",
    "src/more.txt",
];

/// Does one thing that a user may do; commands may fail, as users' do.
fn act(repo: &Repo, dice: &mut Dice, round: usize) -> String {
    let file = FILES[dice.below(FILES.len())];
    let there = repo.root.join(file).exists();
    let branch = format!("b{}", dice.below(3));
    let what = dice.below(18);
    let said: Vec<&str> = match what {
        0..=4 => {
            repo.write(file, &format!("{} {}\n", file, round % 7));
            return format!("write {file}");
        }
        5 if there => {
            repo.delete(file);
            return format!("delete {file}");
        }
        6 | 7 => vec!["add", "-A", file],
        8 => vec!["reset", "-q", "--", file],
        9 => vec!["commit", "-qm", "user"],
        10 => vec!["commit", "-qam", "user"],
        11 => vec!["commit", "-q", "--amend", "--no-edit"],
        12 => vec!["checkout", "-q", "-b", &branch],
        13 => vec!["checkout", "-q", &branch],
        14 => vec!["reset", "-q", "--mixed", "HEAD~1"],
        15 if dice.below(3) == 0 => vec!["reset", "-q", "--hard", "HEAD~1"],
        16 => vec!["stash", "-q", "-u", "--", "wiki-output", "other.txt"],
        17 => vec!["stash", "pop", "-q"],
        _ => vec!["rm", "-q", "--cached", "--ignore-unmatch", file],
    };
    let done = repo.try_git(&said);
    format!("git {said:?}: {done}")
}

/// Returns the paths that differ between HEAD and the index, or are in conflict.
fn staged(repo: &Repo) -> BTreeSet<String> {
    let out = repo.git(&["diff", "--cached", "--name-only", "--no-renames"]);
    out.lines().map(str::to_owned).collect()
}

#[test]
#[allow(clippy::too_many_lines)] // one story, told in order
fn whatever_the_user_does_his_work_stays_and_the_pages_arrive() {
    for seed in 1..=12 {
        let repo = Repo::with_pages();
        repo.write(".gitignore", ".wiki-sync\n");
        repo.git(&["add", ".gitignore"]);
        repo.git(&["commit", "-qm", "ignore"]);
        let mut dice = Dice(seed);
        let mut log = Vec::new();
        let mut store = repo.store();
        for round in 0..40 {
            for _ in 0..=dice.below(4) {
                log.push(act(&repo, &mut dice, round));
            }
            log.push("apply".into());
            let tail = || format!("seed {seed}: {:#?}", &log[log.len().saturating_sub(12)..]);
            let pages: Vec<_> = FILES
                .iter()
                .copied()
                .filter(|p| p.starts_with("wiki-output/"))
                .collect();
            let changes: Vec<_> = pages
                .iter()
                .map(|path| {
                    if repo.root.join(path).exists() {
                        repo.put(path)
                    } else {
                        super::fixture::remove(path)
                    }
                })
                .collect();
            let (before, was_staged, parent) = (repo.entries(), staged(&repo), repo.head());
            let files = FILES.map(|f| fs::read(repo.root.join(f)).ok());
            let outcomes = store
                .apply(&changes, 1)
                .unwrap_or_else(|f| panic!("{f:?} {}", tail()));
            assert_eq!(
                files,
                FILES.map(|f| fs::read(repo.root.join(f)).ok()),
                "{}",
                tail()
            );
            let mut committed = Vec::new();
            for (path, outcome) in pages.iter().zip(&outcomes) {
                match outcome {
                    Ok(applied) => {
                        if applied.changed {
                            committed.push(*path);
                        }
                        let object = format!("HEAD:{path}");
                        let held = repo.try_git(&["cat-file", "-e", &object]);
                        assert_eq!(held, repo.root.join(path).exists(), "{path} {}", tail());
                        if held {
                            assert_eq!(repo.git(&["show", &object]), repo.read(path), "{}", tail());
                        }
                    }
                    Err(failure) => {
                        assert_eq!(failure.kind, FailureKind::Waiting, "{failure:?} {}", tail());
                        let conflict = failure.reason.contains("conflict");
                        assert!(
                            conflict || was_staged.contains(*path),
                            "{failure:?} {}",
                            tail()
                        );
                    }
                }
            }
            // Every other entry is what it was; so the user's staged work is, and only that.
            let others = |mut entries: Vec<String>| {
                entries.retain(|e| {
                    !committed
                        .iter()
                        .any(|path| e.contains(&format!("\t{path} ")))
                });
                entries
            };
            assert_eq!(others(repo.entries()), others(before), "{}", tail());
            let now_staged = staged(&repo);
            assert!(
                committed.iter().all(|path| !now_staged.contains(*path)),
                "{}",
                tail()
            );
            assert!(
                now_staged.is_subset(&was_staged),
                "{now_staged:?} {}",
                tail()
            );
            if parent == repo.head() {
                assert!(committed.is_empty(), "{}", tail());
            } else {
                let lines = repo.changed_by_head();
                let names: BTreeSet<_> = lines.iter().map(|line| &line[2..]).collect();
                assert_eq!(names, committed.iter().copied().collect(), "{}", tail());
            }
            if round % 10 == 9 {
                repo.is_sound();
            }
        }
    }
}
