//! Filters, signatures, and how commits are made, through the built binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::wiki::Wiki;

/// Makes a wiki whose page `a.md` goes through the filter `up`.
fn filtered(clean: &str) -> Wiki {
    let wiki = Wiki::small();
    wiki.git(&["config", "filter.up.clean", clean]);
    wiki.write(".gitattributes", "a.md filter=up\n");
    wiki.git(&["add", ".gitattributes"]);
    wiki.git(&["commit", "-qm", "attributes"]);
    wiki
}

/// Drains with a path on which no program is; returns the exit code and the report.
fn drain_without_git(wiki: &Wiki) -> (Option<i32>, Value) {
    let mut drain = wiki.binary();
    let ran = drain
        .args(["drain", "--json"])
        .env("PATH", "/nowhere")
        .output();
    let ran = ran.unwrap();
    (
        ran.status.code(),
        serde_json::from_slice(&ran.stdout).unwrap(),
    )
}

#[test]
fn a_filtered_page_is_committed_as_its_filter_makes_it_and_verify_agrees() {
    let wiki = filtered("tr a-z A-Z");
    wiki.drain();
    assert!(
        wiki.git(&["show", "HEAD:wiki-output/a.md"])
            .contains("REDIS LIST AS OUTBOX")
    );
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
    assert_eq!(wiki.git(&["status", "--porcelain"]), "");
    assert_eq!(wiki.drain()["processed"], 0);
    // Another filter makes another blob of the same page.
    wiki.git(&["config", "filter.up.clean", "tr a-z b-za"]);
    wiki.drain();
    assert!(
        wiki.git(&["show", "HEAD:wiki-output/a.md"])
            .contains("Rfejt mjtu bt pvucpy")
    );
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn a_page_whose_filter_fails_is_held_and_everything_else_goes_on() {
    let wiki = filtered("exit 1");
    let drained = wiki.json(4, &["drain"]);
    assert_eq!(drained["held"], 1, "{drained}");
    let trouble = drained["trouble"].to_string();
    assert!(
        trouble.contains("filter") && trouble.contains("hint"),
        "{trouble}"
    );
    assert_eq!(
        wiki.head_pages(),
        ["wiki-output/b.md", "wiki-output/sub/c.md"]
    );
    assert_eq!(
        wiki.json(0, &["search", "Redis outbox"])[0]["path"],
        "wiki-output/a.md"
    );
    let status = wiki.json(0, &["status"]);
    let reason = status["held"][0]["reason"].to_string();
    assert!(
        reason.contains("filter.up"),
        "the way out stands there: {reason}"
    );
    wiki.git(&["config", "filter.up.clean", "cat"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn without_git_what_needs_it_is_held_with_the_reason() {
    let wiki = filtered("tr a-z A-Z");
    let (code, drained) = drain_without_git(&wiki);
    assert_eq!((code, &drained["held"]), (Some(4), &1.into()), "{drained}");
    assert!(
        drained["trouble"].to_string().contains("install git"),
        "{drained}"
    );
    assert_eq!(wiki.head_pages().len(), 2);
    assert_eq!(
        wiki.json(0, &["search", "Redis outbox"])[0]["path"],
        "wiki-output/a.md"
    );
    wiki.drain();
    wiki.git(&["config", "commit.gpgsign", "true"]);
    wiki.write("wiki-output/b.md", "# Beta two\n");
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let (code, drained) = drain_without_git(&wiki);
    assert_eq!(code, Some(4), "{drained}");
    assert!(
        drained["trouble"].to_string().contains("install git"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn without_git_plain_pages_are_committed_all_the_same() {
    let wiki = Wiki::small();
    let (code, drained) = drain_without_git(&wiki);
    assert_eq!(code, Some(0), "{drained}");
    wiki.assert_in_sync();
}

#[test]
fn commits_that_cannot_be_signed_are_held_and_the_other_stores_served() {
    let wiki = Wiki::small();
    wiki.git(&["config", "commit.gpgsign", "true"]);
    wiki.git(&["config", "gpg.format", "ssh"]);
    wiki.git(&["config", "user.signingKey", "key::ssh-ed25519 AAAA"]);
    wiki.git(&["config", "gpg.ssh.program", "false"]);
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let drained = wiki.json(4, &["drain"]);
    assert_eq!(drained["held"], 3, "{drained}");
    assert!(
        drained["trouble"].to_string().contains("commit.gpgsign"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(
        wiki.json(0, &["search", "Redis outbox"])[0]["path"],
        "wiki-output/a.md"
    );
    wiki.git(&["config", "commit.gpgsign", "false"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn message_author_and_a_commit_for_each_page_are_settings() {
    let wiki = Wiki::small();
    wiki.write(
        "wiki-sync.toml",
        "[git]\ncommit = \"page\"\nmessage = \"docs: {title} ({path})\"\nauthor = \"위키 <wiki@example.invalid>\"\n",
    );
    wiki.git(&["add", "wiki-sync.toml"]);
    wiki.git(&["commit", "-qm", "settings"]);
    let drained = wiki.drain();
    assert_eq!(
        wiki.git(&["rev-list", "--count", "HEAD"]),
        "5\n",
        "{drained}"
    );
    let mut said: Vec<_> = wiki
        .git(&["log", "-3", "--format=%an|%cn|%s"])
        .lines()
        .map(str::to_owned)
        .collect();
    said.sort();
    assert_eq!(
        said,
        [
            "위키|Tester|docs: Alpha (wiki-output/a.md)",
            "위키|Tester|docs: Beta (wiki-output/b.md)",
            "위키|Tester|docs: 감마 (wiki-output/sub/c.md)",
        ]
    );
    wiki.assert_in_sync();
    let ran = wiki
        .ws(&["drain", "--set", "git.message={nothing}"])
        .code(2);
    assert!(
        ran.err.contains("git.message") && ran.err.contains("{summary}"),
        "{}",
        ran.err
    );
}

#[test]
fn a_detached_head_is_committed_on_when_the_flag_says_so() {
    let wiki = Wiki::small();
    wiki.git(&["checkout", "-q", "--detach"]);
    let refused = wiki.ws(&["drain"]).code(4);
    assert!((refused.out + &refused.err).contains("--allow-detached"));
    wiki.json(0, &["drain", "--allow-detached"]);
    assert_eq!(wiki.git(&["rev-list", "--count", "main..HEAD"]), "1\n");
    // It speaks of that run alone.
    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.json(4, &["drain"]);
}

#[test]
fn the_repositorys_hooks_do_not_run_and_unstaged_work_stays() {
    for (name, value) in [("commit.gpgsign", "false"), ("filter.up.clean", "cat")] {
        let wiki = filtered("cat");
        wiki.git(&["config", name, value]);
        wiki.write("mine.txt", "committed\n");
        wiki.git(&["add", "mine.txt"]);
        wiki.git(&["commit", "-qm", "mine"]);
        let hooks = [
            "pre-commit",
            "post-commit",
            "post-index-change",
            "reference-transaction",
            "prepare-commit-msg",
        ];
        for hook in hooks {
            let path = wiki.root().join(".git/hooks").join(hook);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\ntouch ran\ngit checkout .\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        wiki.write("mine.txt", "dirty\n");
        wiki.drain();
        assert_eq!(
            fs::read_to_string(wiki.root().join("mine.txt")).unwrap(),
            "dirty\n"
        );
        assert!(!wiki.root().join("ran").exists());
        assert_eq!(wiki.head_pages().len(), 3);
    }
}

#[test]
fn an_index_that_only_git_writes_needs_git_and_says_so() {
    type Shape = fn(&Wiki);
    let shapes: [(Shape, &str); 2] = [
        (
            |wiki| drop(wiki.git(&["update-index", "--split-index"])),
            "--no-split-index",
        ),
        (
            |wiki| {
                wiki.git(&[
                    "sparse-checkout",
                    "set",
                    "--cone",
                    "--sparse-index",
                    "wiki-output",
                ]);
            },
            "--no-sparse-index",
        ),
    ];
    for (shape, way_out) in shapes {
        let wiki = Wiki::small();
        wiki.write("far/away/x.txt", "x");
        wiki.git(&["add", "far"]);
        wiki.git(&["commit", "-qm", "far"]);
        wiki.git(&["config", "advice.sparseIndexExpanded", "false"]);
        shape(&wiki);
        let index = || fs::read(wiki.root().join(".git/index")).unwrap();
        let before = (wiki.git(&["rev-parse", "HEAD"]), index());
        let (code, drained) = drain_without_git(&wiki);
        assert_eq!((code, &drained["held"]), (Some(4), &3.into()), "{drained}");
        let trouble = drained["trouble"].to_string();
        assert!(
            trouble.contains("install git") && trouble.contains(way_out),
            "{trouble}"
        );
        assert_eq!((wiki.git(&["rev-parse", "HEAD"]), index()), before);
        assert_eq!(
            wiki.json(0, &["search", "Redis outbox"])[0]["path"],
            "wiki-output/a.md"
        );
        wiki.drain();
        wiki.assert_in_sync();
    }
}
