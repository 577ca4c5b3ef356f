//! How HEAD's pages differ from those of another time.

use std::os::unix::fs::symlink;

use super::fixture::Repo;
use crate::stores::git::HeadPages;

fn head(repo: &Repo) -> HeadPages {
    HeadPages::read(&repo.root, "wiki-output").expect("a repository")
}

fn commit(repo: &Repo) {
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "next"]);
}

/// The paths that differ, each with whether HEAD holds it now.
fn differs(repo: &Repo, mark: &str) -> Vec<(String, bool)> {
    let differs = head(repo).since(Some(mark)).expect("read").expect("known");
    differs
        .into_iter()
        .map(|(path, blob)| (path.to_string(), blob.is_some()))
        .collect()
}

#[test]
fn whatever_a_path_becomes_is_told_once_and_what_is_the_same_is_not() {
    let repo = Repo::with_pages();
    repo.write("wiki-output/was-file", "x\n");
    repo.write("wiki-output/was-folder/deep/p.md", "x\n");
    repo.write("wiki-output/was-page.md", "x\n");
    repo.write("wiki-output/same/p.md", "x\n");
    commit(&repo);
    let mark = head(&repo).mark();
    let at = |path: &str| repo.root.join("wiki-output").join(path);
    std::fs::remove_file(at("was-file")).expect("removed");
    std::fs::remove_dir_all(at("was-folder")).expect("removed");
    std::fs::remove_file(at("was-page.md")).expect("removed");
    repo.write("wiki-output/was-file/p.md", "x\n");
    repo.write("wiki-output/was-folder", "x\n");
    symlink("a.md", at("was-page.md")).expect("a link");
    repo.write("wiki-output/a.md", "# A two\n");
    repo.write("other.txt", "no page\n");
    commit(&repo);
    let mut told = differs(&repo, &mark);
    told.sort();
    let expected = [
        ("wiki-output/a.md", true),
        ("wiki-output/was-file", false),
        ("wiki-output/was-file/p.md", true),
        ("wiki-output/was-folder", true),
        ("wiki-output/was-folder/deep/p.md", false),
        ("wiki-output/was-page.md", false),
    ];
    assert_eq!(told, expected.map(|(path, is)| (path.to_owned(), is)));
    assert_eq!(differs(&repo, &head(&repo).mark()), []);
}

#[test]
fn before_the_first_commit_there_are_no_pages_and_then_all_are_new() {
    let repo = Repo::empty();
    let mark = head(&repo).mark();
    assert_eq!(differs(&repo, &mark), []);
    repo.write("wiki-output/a.md", "# A\n");
    commit(&repo);
    assert_eq!(differs(&repo, &mark), [("wiki-output/a.md".into(), true)]);
}

#[test]
fn a_time_that_is_not_known_is_said_so() {
    let repo = Repo::with_pages();
    let of_another_folder = head(&repo).mark().replace("wiki-output", "pages");
    for mark in [of_another_folder.as_str(), "nonsense", "dead wiki-output"] {
        assert_eq!(head(&repo).since(Some(mark)), Ok(None), "{mark}");
    }
    let collected = format!("{} wiki-output", "1".repeat(40));
    assert_eq!(head(&repo).since(Some(&collected)), Ok(None));
}
