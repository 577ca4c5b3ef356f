//! A page's blob and the index file, byte for byte as git makes them.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use super::fixture::Repo;
use crate::model::{Change, FailureKind};
use crate::stores::Store as _;
use crate::stores::git::index_file::IndexFile;

/// Returns the blob that the store says git would make of the page.
fn expected(repo: &Repo, path: &str) -> String {
    let Change::Put(page) = repo.put(path) else {
        unreachable!("a put")
    };
    let expected = repo.store().expected(&page).expect("usable");
    expected.expect("not exempt")
}

#[test]
fn a_pages_blob_is_the_one_that_git_add_makes() {
    let attributes = [
        "",
        "* text",
        "* text=auto",
        "* -text",
        "* text eol=crlf",
        "* text=auto eol=crlf",
        "* eol=lf",
        "* eol=crlf",
        "* crlf",
        "* -crlf",
        "* crlf=input",
        "* ident",
        "* binary",
        "* text=auto ident",
    ];
    let texts = [
        "one\ntwo\n",
        "one\r\ntwo\r\n",
        "one\r\ntwo\n",
        "one\rtwo\r\n",
        "\u{1}\u{2}\u{3}\r\n",
        "old mark\r\n\u{1a}",
        "$Id: 0123 $ and $Id$ and $Id: open\r\n$\r\n",
        "한글\r\n본문\r\n",
        "",
    ];
    for in_index in ["", "before\n", "before\r\n"] {
        let repo = Repo::empty();
        for autocrlf in ["false", "true", "input"] {
            for attribute in attributes {
                for (at, text) in texts.iter().enumerate() {
                    let path = format!("wiki-output/{at}.md");
                    repo.write(".gitattributes", "");
                    repo.set("core.autocrlf", "false");
                    repo.try_git(&["rm", "-q", "--cached", &path]);
                    if !in_index.is_empty() {
                        repo.write(&path, in_index);
                        repo.git(&["add", &path]);
                    }
                    repo.set("core.autocrlf", autocrlf);
                    repo.write(".gitattributes", attribute);
                    repo.write(&path, text);
                    let ours = expected(&repo, &path);
                    repo.git(&["add", &path]);
                    let theirs = repo.git(&["ls-files", "--format=%(objectname)", &path]);
                    assert_eq!(
                        ours,
                        theirs.trim_end(),
                        "{attribute:?}, autocrlf {autocrlf}, {in_index:?} → {text:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_page_that_a_program_converts_is_the_blob_that_git_hash_object_makes() {
    for in_index in ["", "before\r\n"] {
        let repo = Repo::empty();
        repo.set("filter.up.clean", "tr a-z A-Z");
        let path = "wiki-output/a.md";
        if !in_index.is_empty() {
            repo.write(path, in_index);
            repo.git(&["add", path]);
        }
        for attribute in [
            "* text=auto ident working-tree-encoding=ISO-8859-1",
            "* text eol=crlf ident filter=up",
            "* -text filter=up working-tree-encoding=ISO-8859-1",
        ] {
            repo.write(".gitattributes", attribute);
            for text in ["$Id: 0123 $ one\r\ntwo\n", "한글\r\n본문\r\n"] {
                repo.write(path, text);
                let path_option = format!("--path={path}");
                let theirs = repo.git(&["hash-object", &path_option, path]);
                assert_eq!(
                    expected(&repo, path),
                    theirs.trim_end(),
                    "{attribute}: {text:?}"
                );
            }
        }
    }
}

#[test]
fn a_page_committed_through_line_end_conversion_leaves_a_clean_status() {
    let repo = Repo::with_pages();
    repo.write(".gitattributes", "*.md text eol=crlf\n");
    repo.git(&["add", ".gitattributes"]);
    repo.git(&["commit", "-qm", "attributes"]);
    repo.write("wiki-output/a.md", "# A\r\nsecond\r\n");
    repo.commits("wiki-output/a.md");
    assert_eq!(
        repo.git(&["cat-file", "blob", "HEAD:wiki-output/a.md"]),
        "# A\nsecond\n"
    );
    assert_eq!(repo.git(&["diff-files", "--name-only"]), "");
    assert_eq!(repo.read("wiki-output/a.md"), "# A\r\nsecond\r\n");
}

#[test]
fn every_form_of_the_index_is_kept() {
    type Shape = fn(&Repo);
    let shapes: [(&str, Shape); 6] = [
        ("version 2", |_| {}),
        ("version 3", |r| {
            drop(r.git(&["update-index", "--skip-worktree", "other.txt"]));
        }),
        ("version 4", |r| {
            drop(r.git(&["update-index", "--index-version", "4"]));
        }),
        ("untracked cache", |r| {
            drop(r.git(&["update-index", "--untracked-cache"]));
        }),
        ("no hash", |r| {
            r.set("index.skipHash", "true");
            r.write("new.txt", "x");
            drop(r.git(&["add", "new.txt"]));
            drop(r.git(&["rm", "-q", "--cached", "new.txt"]));
            r.delete("new.txt");
        }),
        ("resolved conflicts", |r| {
            r.git(&["checkout", "-qb", "side"]);
            r.write("other.txt", "side\n");
            r.git(&["commit", "-qam", "side"]);
            r.git(&["checkout", "-q", "main"]);
            r.write("other.txt", "main\n");
            r.git(&["commit", "-qam", "main"]);
            assert!(!r.try_git(&["merge", "side"]));
            r.git(&["add", "other.txt"]);
            r.git(&["commit", "-qm", "merged"]);
        }),
    ];
    for (name, shape) in shapes {
        let repo = Repo::with_pages();
        let long = format!("wiki-output/{}/{}.md", "d".repeat(200), "f".repeat(200));
        let longest = format!("long/{}", vec!["p".repeat(240); 18].join("/"));
        for path in ["wiki-output/sub/deep/x.md", &long, "wiki-output/a.md.bak"] {
            repo.write(path, "x\n");
        }
        repo.git(&["add", "."]);
        if name != "version 4" {
            // Longer than the twelve bits of the entry's flags, and too long for any work tree. libgit2,
            // which looks for attributes there, cannot read it in version 4.
            let blob = repo.git(&["hash-object", "-w", "other.txt"]);
            let entry = format!("100644,{},{longest}", blob.trim_end());
            repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
            repo.git(&["update-index", "--assume-unchanged", &longest]);
        }
        repo.git(&["commit", "-qm", "more"]);
        shape(&repo);
        repo.git(&["status"]);
        let ours = [
            "wiki-output/a.md",
            "wiki-output/sub/n.md",
            &long,
            "wiki-output/b.md",
        ];
        repo.write("wiki-output/a.md", "# A, second\n");
        repo.write("wiki-output/sub/n.md", "# N\n");
        repo.write(&long, "# long\n");
        repo.delete("wiki-output/b.md");
        // Fills the untracked cache with what is tracked next.
        repo.git(&["status"]);
        let before = repo.entries_but(&ours);
        let version = repo.git(&["update-index", "--show-index-version"]);
        let outcomes = repo.apply(&ours).expect(name);
        assert!(outcomes.iter().all(Result::is_ok), "{name}: {outcomes:?}");
        assert_eq!(repo.entries_but(&ours), before, "{name}");
        assert_eq!(
            repo.git(&["update-index", "--show-index-version"]),
            version,
            "{name}"
        );
        // git trusts the index's trees, so they must be the right ones.
        let written = repo.git(&["write-tree"]);
        assert_eq!(written, repo.git(&["rev-parse", "HEAD^{tree}"]), "{name}");
        assert!(
            repo.try_git(&["diff-index", "--cached", "--quiet", "HEAD"]),
            "{name}"
        );
        assert_eq!(repo.status(), [""; 0], "{name}");
        repo.is_sound();
    }
}

#[test]
fn an_index_goes_out_as_it_came_in() {
    let repo = Repo::with_pages();
    repo.set("index.threads", "1");
    for version in ["2", "4"] {
        repo.git(&[
            "update-index",
            "--index-version",
            version,
            "--force-write-index",
        ]);
        let path = repo.root.join(".git/index");
        let (index, stamp) = IndexFile::read(&path).expect("an index");
        assert!(stamp.is_some());
        assert_eq!(index.entries().len(), 3);
        assert_eq!(
            index.to_bytes(),
            fs::read(&path).expect("readable"),
            "{version}"
        );
    }
}

#[test]
fn a_damaged_index_is_refused_and_left_as_it_is() {
    let repo = Repo::with_pages();
    let path = repo.root.join(".git/index");
    let whole = fs::read(&path).expect("readable");
    repo.write("wiki-output/a.md", "# A, second\n");
    let mut flipped = whole.clone();
    flipped[70] ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], &b"DIRC"[..], &[]] {
        fs::write(&path, damaged).expect("written");
        let failure = repo.apply(&["wiki-output/a.md"]).expect_err("refused");
        assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
        assert_eq!(fs::read(&path).expect("readable"), damaged);
    }
}

#[test]
fn an_edit_in_the_second_of_the_commit_shows_in_git_status() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# aaaa\n");
    repo.commits("wiki-output/a.md");
    repo.write("wiki-output/a.md", "# bbbb\n");
    assert_eq!(repo.status(), [" M wiki-output/a.md"]);
}

#[test]
fn a_racily_clean_file_of_the_user_stays_dirty_in_the_new_index() {
    let repo = Repo::with_pages();
    repo.set("core.trustctime", "false");
    let then = SystemTime::now() - Duration::from_secs(100);
    let at = |path: &str| {
        let file = File::options().append(true).open(repo.root.join(path));
        file.and_then(|file| file.set_modified(then)).expect("set");
    };
    repo.write("other.txt", "aaaa\n");
    at("other.txt");
    repo.git(&["add", "other.txt"]);
    repo.git(&["commit", "-qm", "aaaa"]);
    at(".git/index");
    repo.write("other.txt", "bbbb\n");
    at("other.txt");
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    assert_eq!(repo.status(), [" M other.txt"]);
}

#[test]
fn a_name_that_git_refuses_costs_its_own_page_only() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/git~1/x.md", "# bad\n");
    repo.write("wiki-output/a.md", "# A, second\n");
    let outcomes = repo
        .apply(&["wiki-output/git~1/x.md", "wiki-output/a.md"])
        .expect("usable");
    let failure = outcomes[0].clone().expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Rejected, "{failure:?}");
    assert!(outcomes[1].is_ok());
    repo.is_sound();
}

#[test]
fn a_store_that_lives_on_sees_the_index_that_somebody_put_in_the_place_of_its_own() {
    let repo = Repo::with_pages();
    let mut store = repo.store();
    let mut brings = |path: &str, text: &str| {
        repo.write(path, text);
        let outcomes = store.apply(&[repo.put(path)], 1).expect("usable");
        assert!(outcomes[0].is_ok(), "{path}: {outcomes:?}");
        repo.is_sound();
    };
    let index = repo.root.join(".git/index");
    brings("wiki-output/a.md", "# A, second\n");
    let older = fs::read(&index).expect("read");
    brings("wiki-output/b.md", "# B, second\n");
    brings("wiki-output/new.md", "# New\n");
    // From a copy, in place: the same file, of other bytes.
    fs::write(&index, &older).expect("written");
    let restored = repo.entries_but(&["wiki-output/a.md"]);
    brings("wiki-output/a.md", "# A, third\n");
    assert_eq!(repo.entries_but(&["wiki-output/a.md"]), restored);
    repo.git(&["reset", "-q"]);
    for n in 0..3 {
        repo.write("mine.txt", &n.to_string());
        repo.git(&["add", "mine.txt"]);
        brings("wiki-output/b.md", &format!("# B, {n}\n"));
        assert_eq!(repo.status(), ["A  mine.txt"]);
        assert_eq!(repo.changed_by_head(), ["M wiki-output/b.md"]);
    }
    repo.git(&["reset", "-q", "--hard", "HEAD~2"]);
    brings("wiki-output/b.md", "# B, again\n");
    assert_eq!(repo.status(), [""; 0]);
}
