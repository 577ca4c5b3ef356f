//! How many commits there are, what they say, and in whose name.

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;
use crate::stores::git::{GitSettings, check_author, check_message};

fn apart() -> GitSettings {
    GitSettings {
        apart: true,
        ..GitSettings::default()
    }
}

/// Applies the paths by the settings; every page must reach its end.
#[track_caller]
fn apply(repo: &Repo, settings: GitSettings, paths: &[&str]) -> u64 {
    let mut store = repo.store_with(settings);
    let outcomes = store.apply(&repo.changes(paths), 1).expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    store.tally().commits
}

/// Returns the message by a template for the page `wiki-output/a.md` with this text.
fn says(template: &str, text: &str) -> String {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", text);
    check_message(template).expect("a good template");
    let settings = GitSettings {
        message: template.into(),
        ..GitSettings::default()
    };
    apply(&repo, settings, &["wiki-output/a.md"]);
    repo.git(&["log", "-1", "--format=%B"])
        .trim_end()
        .to_owned()
}

#[test]
fn each_page_gets_a_commit_of_its_own_and_a_move_one_for_both_its_paths() {
    let repo = Repo::with_pages();
    let lines: Vec<_> = (0..20)
        .map(|at| format!("line {at} of the page\n"))
        .collect();
    let text = lines.concat();
    repo.write("wiki-output/old.md", &text);
    repo.write("wiki-output/gone.md", "# nothing like it\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "more"]);
    let before = repo.head();
    repo.delete("wiki-output/gone.md");
    repo.delete("wiki-output/old.md");
    // Moved, and edited on the way.
    repo.write("wiki-output/sub/new.md", &format!("{text}and one more\n"));
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.write("staged.txt", "mine\n");
    repo.git(&["add", "staged.txt"]);
    let paths = ["sub/new", "a", "b", "gone", "old"].map(|p| format!("wiki-output/{p}.md"));
    let paths = paths.each_ref().map(String::as_str);
    assert_eq!(apply(&repo, apart(), &paths), 3);
    assert_eq!(
        repo.git(&["log", "--format=%s", &format!("{}..", before.trim_end())]),
        "wiki: update wiki-output/a.md\n\
         wiki: move wiki-output/old.md to wiki-output/sub/new.md\n\
         wiki: remove wiki-output/gone.md\n"
    );
    assert_eq!(
        repo.git(&["log", "--follow", "--format=%s", "wiki-output/sub/new.md"])
            .lines()
            .count(),
        2
    );
    assert_eq!(repo.status(), ["A  staged.txt"]);
    assert_eq!(apply(&repo, apart(), &paths), 0);
    repo.is_sound();
}

#[test]
fn one_page_that_waits_does_not_keep_the_others_from_their_commits() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/b.md", "# staged\n");
    repo.git(&["add", "wiki-output/b.md"]);
    for path in ["wiki-output/a.md", "wiki-output/b.md", "wiki-output/c.md"] {
        repo.write(path, "# on disk\n");
    }
    let mut store = repo.store_with(apart());
    let changes = repo.changes(&["wiki-output/a.md", "wiki-output/b.md", "wiki-output/c.md"]);
    let outcomes = store.apply(&changes, 1).expect("usable");
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert_eq!(
        outcomes[1].as_ref().expect_err("waits").kind,
        FailureKind::Waiting
    );
    assert_eq!(store.tally().commits, 2);
}

#[test]
fn a_page_and_a_folder_change_places_commit_by_commit() {
    let repo = Repo::with_pages();
    repo.delete("wiki-output/a.md");
    repo.write("wiki-output/a.md/x.md", "# another text in a folder\n");
    apply(
        &repo,
        apart(),
        &["wiki-output/a.md/x.md", "wiki-output/a.md"],
    );
    assert_eq!(repo.status(), [""; 0]);
    std::fs::remove_dir_all(repo.root.join("wiki-output/a.md")).expect("gone");
    repo.write("wiki-output/a.md", "# A\n");
    apply(
        &repo,
        apart(),
        &["wiki-output/a.md", "wiki-output/a.md/x.md"],
    );
    assert_eq!(repo.status(), [""; 0]);
    repo.is_sound();
}

#[test]
fn a_first_sync_is_one_commit_also_where_each_page_gets_its_own() {
    let repo = Repo::empty();
    let paths: Vec<_> = (0..101).map(|at| format!("wiki-output/p{at}.md")).collect();
    for path in &paths {
        repo.write(path, path);
    }
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    assert_eq!(apply(&repo, apart(), &paths), 1);
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn a_message_follows_its_template() {
    let page = "---\ntitle: 첫 페이지 {path}\n---\n# A\n";
    for (template, message) in [
        ("wiki: {summary}", "wiki: update wiki-output/a.md"),
        ("[{count}] {title}", "[1] 첫 페이지 {path}"),
        (
            "docs({path}): {title}\n\nRefs: #1\n{paths}",
            "docs(wiki-output/a.md): 첫 페이지 {path}\n\nRefs: #1",
        ),
        ("{ no field }, {title", "{ no field }, {title"),
        ("#12 {title}", "#12 첫 페이지 {path}"),
    ] {
        if check_message(template).is_err() {
            assert!(template.starts_with('{'), "{template}");
            continue;
        }
        assert_eq!(says(template, page), message);
    }
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# 감마\n");
    repo.delete("wiki-output/b.md");
    let settings = GitSettings {
        message: "{title}, {path} ({count})".into(),
        ..GitSettings::default()
    };
    apply(&repo, settings, &["wiki-output/b.md", "wiki-output/a.md"]);
    assert_eq!(
        repo.git(&["log", "-1", "--format=%B"]).trim_end(),
        "감마 and 1 more, wiki-output/a.md and 1 more (2)\n\nM wiki-output/a.md\nD wiki-output/b.md"
    );
}

/// Commits these pages, changes some, and returns what the message of the second commit begins with.
fn after(before: &[(&str, &str)], moved: impl FnOnce(&Repo)) -> String {
    let repo = Repo::empty();
    for (path, text) in before {
        repo.write(path, text);
    }
    let paths: Vec<_> = before.iter().map(|(path, _)| *path).collect();
    apply(&repo, GitSettings::default(), &paths);
    moved(&repo);
    let files = repo.git(&["ls-files", "-zco", "--exclude-standard"]);
    let mut paths: Vec<_> = files.split_terminator('\0').collect();
    paths.sort_unstable();
    paths.dedup();
    apply(&repo, GitSettings::default(), &paths);
    assert_eq!(repo.status(), [""; 0]);
    repo.git(&["log", "-1", "--format=%s"])
        .trim_end()
        .to_owned()
}

fn text(of: usize) -> String {
    let lines: Vec<_> = (0..6)
        .map(|at| format!("line {at} of page {of}\n"))
        .collect();
    lines.concat()
}

#[test]
fn a_message_says_what_moved_and_where_to() {
    let pages: Vec<(String, String)> = (0..3)
        .map(|at| (format!("wiki-output/guides/{at}.md"), text(at)))
        .collect();
    let mut pages: Vec<_> = pages
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    pages.push(("wiki-output/guides/deep/x.md", "# X\n"));
    pages.push(("wiki-output/index.md", "to guides/0\n"));
    let rename = |repo: &Repo, old: &str, new: &str| {
        let [old, new] = [old, new].map(|path| repo.root.join("wiki-output").join(path));
        std::fs::create_dir_all(new.parent().expect("a folder")).expect("folders");
        std::fs::rename(old, new).expect("moved");
    };
    assert_eq!(
        after(&pages, |repo| rename(repo, "guides/0.md", "zero.md")),
        "wiki: move wiki-output/guides/0.md to wiki-output/zero.md"
    );
    // As `mv` leaves it: links in it and to it are other ones.
    assert_eq!(
        after(&pages, |repo| {
            rename(repo, "guides/0.md", "zero.md");
            repo.write("wiki-output/zero.md", &(text(0) + "a link\n"));
            repo.write("wiki-output/index.md", "to zero\n");
        }),
        "wiki: move wiki-output/guides/0.md to wiki-output/zero.md, update 1 page"
    );
    assert_eq!(
        after(&pages, |repo| {
            rename(repo, "guides", "handbook");
            repo.write("wiki-output/handbook/1.md", &(text(1) + "a link\n"));
        }),
        "wiki: move wiki-output/guides/ to wiki-output/handbook/ (4 pages)"
    );
    assert_eq!(
        after(&pages, |repo| {
            rename(repo, "guides/0.md", "zero.md");
            rename(repo, "guides/1.md", "one.md");
            repo.delete("wiki-output/guides/2.md");
            repo.write("wiki-output/new.md", "# New\n");
        }),
        "wiki: move 2, add 1, remove 1 page"
    );
    // What has nothing in common did not move.
    assert_eq!(
        after(&pages, |repo| {
            repo.delete("wiki-output/guides/2.md");
            repo.write("wiki-output/new.md", "# New\n");
        }),
        "wiki: add 1, remove 1 page"
    );
}

#[test]
fn names_that_are_odd_or_long_break_no_message_of_a_move() {
    let folders = ["가", "나", "다", "라"].map(|letter| letter.repeat(60));
    let old = format!("wiki-output/{}/a\u{202e}b.md", folders.join("/"));
    let said = after(&[(&old, "# A\n")], |repo| {
        std::fs::rename(repo.root.join(&old), repo.root.join("wiki-output/x.md")).expect("moved");
    });
    assert!(said.starts_with("wiki: move wiki-output/가"), "{said}");
    assert!(said.ends_with("라… to wiki-output/x.md"), "{said}");
    let old = "wiki-output/a\u{202e}\u{2028}b.md";
    let said = after(&[(old, "# A\n")], |repo| {
        std::fs::rename(repo.root.join(old), repo.root.join("wiki-output/x.md")).expect("moved");
    });
    assert_eq!(said, "wiki: move wiki-output/a b.md to wiki-output/x.md");
}

#[test]
fn a_title_breaks_no_line_turns_no_text_and_starts_no_comment() {
    let title = |title: &str| {
        let text = format!("---\ntitle: \"{title}\"\n---\n");
        says("{title}", &text)
    };
    assert_eq!(
        title(r"one\nSigned-off-by: x\u202e\u0007y\u2028z"),
        "one Signed-off-by: x y z"
    );
    let long = title(&"가".repeat(300));
    assert_eq!((long.chars().count(), long.ends_with('…')), (72, true));
    // Git itself takes such a line for a comment when the commit is amended.
    assert_eq!(title("#hash"), "wiki: #hash");
    assert_eq!(title(r"\u200e\u202e"), "a");
}

#[test]
fn templates_and_authors_that_cannot_be_used_are_named() {
    for (bad, why) in [
        ("", "empty"),
        (" \n", "empty"),
        ("{titel}", "{titel}"),
        ("a\u{7}", "control"),
    ] {
        let said = check_message(bad).expect_err(bad);
        assert!(said.contains(why), "{bad:?}: {said}");
    }
    for good in ["", "Wiki Bot <bot@example.com>", "위키 <wiki@example.com>"] {
        assert_eq!(check_author(good), Ok(()), "{good:?}");
    }
    for bad in [
        "bot",
        "<bot@example.com>",
        "Bot <>",
        "Bot <a> <b>",
        "Bot <a",
        "B\not <a@b>",
    ] {
        assert!(check_author(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn the_author_is_the_one_that_is_set_and_the_committer_the_user() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/a.md", "# A, second\n");
    let settings = GitSettings {
        author: "위키 봇 <bot@example.com>".into(),
        ..GitSettings::default()
    };
    apply(&repo, settings, &["wiki-output/a.md"]);
    assert_eq!(
        repo.git(&["log", "-1", "--format=%an %ae|%cn %ce"]),
        "위키 봇 bot@example.com|Someone someone@example.com\n"
    );
}
