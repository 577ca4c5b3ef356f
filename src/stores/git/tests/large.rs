//! What a commit costs beside a hundred thousand other files.

use std::fs;
use std::time::{Duration, Instant};

use super::fixture::Repo;
use crate::stores::Store as _;

/// Makes a repository of `count` files in folders of a hundred, and the two pages.
fn of_size(count: usize) -> Repo {
    let repo = Repo::with_pages();
    for at in 0..count {
        let path = repo
            .root
            .join(format!("src/{}/{}", at / 10_000, at / 100 % 100));
        if at % 100 == 0 {
            fs::create_dir_all(&path).expect("folders");
        }
        fs::write(path.join(format!("file-number-{at}.txt")), at.to_string()).expect("a file");
    }
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "many"]);
    repo
}

fn shortest(of: usize, mut run: impl FnMut(usize) -> Duration) -> Duration {
    (0..of).map(&mut run).min().expect("at least one")
}

#[test]
#[ignore = "makes 100,000 files: for scripts/test --long"]
fn a_commit_among_100_000_files_takes_at_most_three_times_git_commit_only() {
    let repo = of_size(100_000);
    let ours = shortest(5, |round| {
        repo.write("wiki-output/a.md", &format!("# ours {round}\n"));
        let change = repo.put("wiki-output/a.md");
        let begun = Instant::now();
        let outcomes = repo.store().apply(&[change], 1).expect("usable");
        let took = begun.elapsed();
        assert!(outcomes[0].as_ref().is_ok_and(|applied| applied.changed));
        took
    });
    let theirs = shortest(5, |round| {
        repo.write("wiki-output/b.md", &format!("# theirs {round}\n"));
        let begun = Instant::now();
        repo.git(&["commit", "-qm", "only", "--only", "wiki-output/b.md"]);
        begun.elapsed()
    });
    let status = shortest(3, |_| {
        let begun = Instant::now();
        assert_eq!(repo.status(), [""; 0]);
        begun.elapsed()
    });
    assert!(
        ours <= theirs * 3,
        "ours {ours:?}, git commit --only {theirs:?}, git status {status:?}"
    );
    // Shown with --nocapture by whoever wants the figures.
    std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!("ours {ours:?}, git commit --only {theirs:?}, git status {status:?}\n"),
    )
    .expect("stderr");
}

#[test]
#[ignore = "a first sync of 1,600 pages: for scripts/test --long"]
fn a_first_sync_is_one_commit_and_the_witness_is_cheap() {
    let repo = Repo::with_pages();
    let paths: Vec<_> = (0..1600)
        .map(|at| format!("wiki-output/{}/page {at}.md", at / 100))
        .collect();
    for path in &paths {
        repo.write(path, &format!("# {path}\n{}\n", "text ".repeat(400)));
    }
    let changes: Vec<_> = paths.iter().map(|path| repo.put(path)).collect();
    let mut store = repo.store();
    let time = |what: &str, begun: Instant| {
        std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{what}: {:?}\n", begun.elapsed()),
        )
        .expect("stderr");
    };
    let begun = Instant::now();
    let outcomes = store.apply(&changes, 1).expect("usable");
    time("first sync", begun);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2\n");
    let begun = Instant::now();
    store.apply(&changes, 2).expect("usable");
    time("again", begun);
    let begun = Instant::now();
    assert_eq!(
        store.witness().expect("usable").expect("git has one").len(),
        1602
    );
    time("witness", begun);
    let begun = Instant::now();
    for change in &changes {
        let crate::model::Change::Put(page) = change else {
            unreachable!("puts")
        };
        assert!(store.expected(page).expect("usable").is_some());
    }
    time("expected", begun);
    repo.is_sound();
}
