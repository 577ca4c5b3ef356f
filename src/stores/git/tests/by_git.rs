//! Indexes that only git reads and writes.

use std::fs;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;
use crate::stores::git::commit::Step;

type Shape = fn(&Repo);

/// Each kind, and how it is made.
const KINDS: [(&str, Shape); 3] = [
    ("split", |r| {
        r.git(&["update-index", "--split-index"]);
    }),
    ("split by its setting", |r| {
        r.set("core.splitIndex", "true");
        r.git(&["update-index", "--force-write-index"]);
    }),
    ("sparse", sparse),
];

fn sparse(repo: &Repo) {
    repo.git(&[
        "sparse-checkout",
        "set",
        "--cone",
        "--sparse-index",
        "wiki-output",
        "mine",
    ]);
}

/// Makes a repository with an index of the kind, and something of the user's staged and dirty in it.
fn repo(shape: Shape) -> Repo {
    let repo = Repo::with_pages();
    for at in 0..40 {
        repo.write(&format!("far/away/{at}.txt"), "x");
    }
    for path in ["mine/skipped.txt", "mine/dirty.txt", "wiki-output/sub/c.md"] {
        repo.write(path, "x\n");
    }
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "more"]);
    shape(&repo);
    repo.git(&["update-index", "--skip-worktree", "mine/skipped.txt"]);
    repo.write("mine/staged.txt", "staged\n");
    repo.git(&["add", "mine/staged.txt"]);
    repo.write("mine/dirty.txt", "y\n");
    repo
}

/// Returns the extensions by which the index is known for what it is.
fn marks(repo: &Repo) -> (bool, bool) {
    let bytes = fs::read(repo.root.join(".git/index")).expect("an index");
    let has = |name: &[u8]| bytes.windows(4).any(|four| four == name);
    (has(b"link"), has(b"sdir"))
}

#[test]
fn a_split_or_sparse_index_stays_what_it_is_and_moves_with_the_commit() {
    for (kind, shape) in KINDS {
        let repo = repo(shape);
        let marks_before = marks(&repo);
        assert_ne!(marks_before, (false, false), "{kind}");
        let paths = [
            "wiki-output/a.md",
            "wiki-output/b.md",
            "wiki-output/new/n.md",
        ];
        repo.write(paths[0], "# A, second\n");
        repo.delete(paths[1]);
        repo.write(paths[2], "# N\n");
        let before = repo.entries_but(&paths);
        let outcomes = repo.apply(&paths).expect(kind);
        assert!(outcomes.iter().all(Result::is_ok), "{kind}: {outcomes:?}");
        assert_eq!(marks(&repo), marks_before, "{kind}");
        assert_eq!(repo.entries_but(&paths), before, "{kind}");
        assert_eq!(
            repo.changed_by_head(),
            [
                "M wiki-output/a.md",
                "D wiki-output/b.md",
                "A wiki-output/new/n.md"
            ],
            "{kind}"
        );
        assert_eq!(
            repo.status(),
            [" M mine/dirty.txt", "A  mine/staged.txt"],
            "{kind}"
        );
        let again = repo.apply(&paths).expect(kind);
        assert!(
            again.iter().all(|o| o.as_ref().is_ok_and(|a| !a.changed)),
            "{kind}"
        );
        repo.git(&["commit", "-qm", "the user's own"]);
        assert_eq!(repo.changed_by_head(), ["A mine/staged.txt"], "{kind}");
        repo.is_sound();
    }
}

#[test]
fn what_the_user_staged_in_such_an_index_is_respected() {
    for (kind, shape) in KINDS {
        let repo = repo(shape);
        repo.write("wiki-output/a.md", "# staged\n");
        repo.git(&["add", "wiki-output/a.md"]);
        repo.write("wiki-output/a.md", "# on disk\n");
        let failure = repo.fails("wiki-output/a.md", FailureKind::Waiting);
        assert!(
            failure.reason.contains("staged with other content"),
            "{kind}: {failure}"
        );
        // Attributes that stand in the index alone are found there.
        repo.write("wiki-output/.gitattributes", "*.md text\n");
        repo.git(&["add", "wiki-output/.gitattributes"]);
        repo.delete("wiki-output/.gitattributes");
        repo.write("wiki-output/b.md", "# B\r\nsecond\r\n");
        repo.commits("wiki-output/b.md");
        assert_eq!(
            repo.git(&["cat-file", "blob", "HEAD:wiki-output/b.md"]),
            "# B\nsecond\n",
            "{kind}"
        );
    }
}

#[test]
fn a_commit_cut_short_over_such_an_index_is_finished_or_undone() {
    for (kind, shape) in KINDS {
        for step in [
            Step::Objects,
            Step::NextIndex,
            Step::Journal,
            Step::Linked,
            Step::Checked,
            Step::RefMoved,
            Step::IndexPlaced,
        ] {
            for removes_lock in [false, true] {
                let case = format!("{kind}, {step:?}, {removes_lock}");
                let repo = repo(shape);
                let before = repo.entries_but(&["wiki-output/a.md"]);
                repo.write("wiki-output/a.md", "# A, second\n");
                let mut store = repo.store();
                store.watch = Box::new(move |at| at != step);
                store
                    .apply(&repo.changes(&["wiki-output/a.md"]), 1)
                    .expect_err(&case);
                if removes_lock {
                    let _ = fs::remove_file(repo.lock());
                }
                let outcome = repo.apply_one("wiki-output/a.md");
                assert!(outcome.is_ok(), "{case}: {outcome:?}");
                assert_eq!(repo.entries_but(&["wiki-output/a.md"]), before, "{case}");
                assert_eq!(repo.changed_by_head(), ["M wiki-output/a.md"], "{case}");
                assert_eq!(
                    repo.status(),
                    [" M mine/dirty.txt", "A  mine/staged.txt"],
                    "{case}"
                );
                repo.is_sound();
            }
        }
    }
}

#[test]
fn an_edit_in_the_second_of_the_commit_shows_in_such_an_index_too() {
    for (kind, shape) in KINDS {
        let repo = repo(shape);
        repo.write("mine/dirty.txt", "aaaa\n");
        repo.git(&["add", "mine/dirty.txt"]);
        repo.write("mine/dirty.txt", "bbbb\n");
        repo.write("wiki-output/a.md", "# aaaa\n");
        repo.commits("wiki-output/a.md");
        repo.write("wiki-output/a.md", "# bbbb\n");
        assert_eq!(
            repo.status(),
            [
                "MM mine/dirty.txt",
                "A  mine/staged.txt",
                " M wiki-output/a.md"
            ],
            "{kind}"
        );
    }
}
