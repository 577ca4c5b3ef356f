//! What is refused, with the reason and the way out.

use std::fs;
use std::os::unix::fs::symlink;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::state::StateDir;
use crate::stores::Store as _;
use crate::stores::git::{GitSettings, GitStore};

#[test]
fn an_unusable_repository_is_refused_with_the_way_out() {
    type Spoil = fn(&Repo);
    let cases: [(&str, Spoil, &str, &str); 5] = [
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
            "signing, perhaps",
            |r| r.set("commit.gpgsign", "maybe"),
            "neither yes nor no",
            "git config commit.gpgsign",
        ),
    ];
    for (name, spoil, reason, hint) in cases {
        let repo = Repo::with_pages();
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
        repo.set("user.name", "Someone");
        repo.set("user.email", "someone@example.com");
        repo.write("wiki-output/a.md", "# A\n");
        repo.git(&["add", "wiki-output/a.md"]);
        repo.git(&["commit", "-qm", "first", "--no-gpg-sign"]);
        repo.write("wiki-output/a.md", "# A, second\n");
        let index = || fs::read(repo.root.join(".git/index")).expect("an index");
        let before = (repo.head(), index());
        let failure = repo.apply(&["wiki-output/a.md"]).expect_err("refused");
        assert_eq!((repo.head(), index()), before);
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
