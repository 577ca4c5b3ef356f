//! Where git cannot take a commit: a clear message, the other stores served, nothing half done.

use std::fs;
use std::path::Path;

use crate::wiki::Wiki;

#[test]
fn without_a_repository_graph_and_vectors_are_served() {
    let wiki = Wiki::bare_folder();
    wiki.write("wiki-output/a.md", "# Alpha\n\nsome words\n");
    let ran = wiki.ws(&["drain", "--json"]).code(4);
    assert_eq!(ran.json()["held"], 1);
    let told = wiki.ws(&["drain"]).code(4);
    assert!((told.out + &told.err).contains("git init"));
    assert_eq!(
        wiki.json(0, &["search", "words"])[0]["path"],
        "wiki-output/a.md"
    );
    // An edit reaches the stores that can be reached, although its job is held for git.
    wiki.write("wiki-output/a.md", "# Alpha\n\nother phrases\n");
    wiki.json(4, &["drain"]);
    let hits = wiki.json(0, &["search", "phrases"]);
    assert_eq!(
        (&hits[0]["path"], &hits[0]["stale"]),
        (&"wiki-output/a.md".into(), &false.into()),
        "{hits}"
    );
}

#[test]
fn with_commits_switched_off_no_repository_is_needed() {
    let wiki = Wiki::bare_folder();
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.write("wiki-sync.toml", "[git]\ncommit = \"off\"\n");
    wiki.drain();
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn without_an_identity_the_commit_waits_for_one() {
    let mut wiki = Wiki::small();
    wiki.git(&["config", "user.useConfigOnly", "true"]);
    wiki.env.insert(
        "HOME".into(),
        wiki.root().join("no-home").display().to_string(),
    );
    wiki.env.insert(
        "XDG_CONFIG_HOME".into(),
        wiki.root().join("no-home").display().to_string(),
    );
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let drained = wiki.json(4, &["drain"]);
    assert_eq!(drained["held"], 3, "{drained}");
    let told = wiki.ws(&["drain"]).code(4).out;
    assert!(told.contains("0 jobs done: each waits for git"), "{told}");
    assert!(
        drained["trouble"].to_string().contains("user.email"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(
        wiki.json(0, &["search", "Redis outbox"])[0]["path"],
        "wiki-output/a.md"
    );
    wiki.git(&["config", "user.name", "Tester"]);
    wiki.git(&["config", "user.email", "tester@example.invalid"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn only_pages_that_git_does_not_hold_yet_wait_for_who_commits() {
    let mut wiki = Wiki::small();
    wiki.drain();
    let nowhere = wiki.root().join("no-home").display().to_string();
    wiki.git(&["config", "user.useConfigOnly", "true"]);
    for name in ["HOME", "XDG_CONFIG_HOME"] {
        wiki.env.insert(name.into(), nowhere.clone());
    }
    wiki.write("wiki-output/b.md", "# Beta, second\n");
    // Announced all of them, as when the folder went away and came back.
    let pages = ["a.md", "b.md", "sub/c.md"].map(|page| format!("wiki-output/{page}"));
    let mut enqueue = vec!["enqueue"];
    enqueue.extend(pages.iter().map(String::as_str));
    for _ in 0..2 {
        wiki.ws(&enqueue).code(0);
        let drained = wiki.json(4, &["drain"]);
        assert_eq!(drained["held"], 1, "{drained:#}");
        assert_eq!(drained["processed"], 2, "{drained:#}");
        let trouble = &drained["trouble"];
        assert_eq!(trouble[0]["pages"], 1, "{trouble:#}");
    }
    wiki.git(&["config", "user.name", "Tester"]);
    wiki.git(&["config", "user.email", "tester@example.invalid"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn on_a_detached_head_pages_are_indexed_and_the_commit_refused() {
    let wiki = Wiki::small();
    wiki.git(&["checkout", "-q", "--detach"]);
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let drained = wiki.json(4, &["drain"]);
    assert!(
        drained["trouble"].to_string().contains("detached"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(
        wiki.json(0, &["search", "Redis outbox"])[0]["path"],
        "wiki-output/a.md"
    );
    wiki.git(&["checkout", "-q", "main"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_bare_repository_is_refused_and_left_as_it_is() {
    let wiki = Wiki::bare_folder();
    wiki.git(&["init", "-q", "--bare", "."]);
    let before = fs::read_dir(wiki.root()).unwrap().count();
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(
        ran.err.contains("bare") && ran.err.contains("hint:"),
        "{}",
        ran.err
    );
    assert_eq!(fs::read_dir(wiki.root()).unwrap().count(), before);
}

#[test]
fn without_a_wiki_nothing_is_created() {
    let wiki = Wiki::with(&[]);
    fs::remove_dir(wiki.root().join("wiki-output")).unwrap();
    let ran = wiki.ws(&["drain"]);
    assert_ne!(ran.code, Some(0));
    assert!(
        ran.err.contains("error:") && ran.err.contains("hint:"),
        "{}",
        ran.err
    );
    assert!(!wiki.root().join(".wiki-sync").exists());
}

#[test]
fn the_first_commit_of_a_repository_may_be_ours() {
    let wiki = Wiki::with(&[("wiki-output/a.md", "# A\n")]);
    fs::remove_dir_all(wiki.root().join(".git")).unwrap();
    wiki.remove("README");
    wiki.git(&["init", "-q"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(wiki.git(&["ls-files"]), "wiki-output/a.md\n");
}

#[test]
fn during_a_merge_the_commit_waits_and_says_so() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["checkout", "-qb", "side"]);
    wiki.write("wiki-output/a.md", "# side\n");
    wiki.git(&["commit", "-qam", "side"]);
    wiki.git(&["checkout", "-q", "main"]);
    wiki.write("wiki-output/a.md", "# main\n");
    wiki.git(&["commit", "-qam", "main"]);
    assert_ne!(wiki.try_git(&["merge", "side"]).code, Some(0));
    wiki.write("wiki-output/b.md", "# during the merge\n");
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let drained = wiki.json(75, &["drain"]);
    assert!(
        drained["trouble"].to_string().contains("merge"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(
        wiki.json(0, &["search", "during"])[0]["path"],
        "wiki-output/b.md"
    );
    wiki.write("wiki-output/a.md", "# both\n");
    wiki.git(&["commit", "-qam", "merged"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_page_staged_with_other_content_is_left_to_the_user() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/b.md", "# staged by the user\n");
    wiki.git(&["add", "wiki-output/b.md"]);
    let entry = wiki.git(&["ls-files", "-s", "wiki-output/b.md"]);
    wiki.write("wiki-output/b.md", "# newer on disk\n");
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    let drained = wiki.json(75, &["drain"]);
    assert_eq!(drained["held"], 1, "{drained}");
    assert!(
        drained["trouble"].to_string().contains("staged"),
        "{drained}"
    );
    assert_eq!(wiki.git(&["ls-files", "-s", "wiki-output/b.md"]), entry);
    assert_eq!(
        wiki.git(&["show", "--name-only", "--format=", "HEAD"]),
        "wiki-output/a.md\n"
    );
    wiki.git(&["commit", "-qm", "the user's page"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(
        wiki.git(&["show", "HEAD:wiki-output/b.md"]),
        "# newer on disk\n"
    );
}

#[test]
fn an_ignored_page_is_indexed_and_not_committed() {
    let wiki = Wiki::small();
    wiki.write(".gitignore", "wiki-output/private/\n");
    wiki.git(&["add", ".gitignore"]);
    wiki.git(&["commit", "-qm", "ignore"]);
    wiki.write("wiki-output/private/p.md", "# Private thoughts\n");
    wiki.drain();
    wiki.assert_in_sync();
    assert!(
        !wiki
            .head_pages()
            .contains(&"wiki-output/private/p.md".to_owned())
    );
    assert_eq!(
        wiki.json(0, &["search", "thoughts"])[0]["path"],
        "wiki-output/private/p.md"
    );
    assert_eq!(wiki.drain()["processed"], 0);
    wiki.write(".gitignore", "");
    wiki.git(&["commit", "-qam", "no longer"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert!(
        wiki.head_pages()
            .contains(&"wiki-output/private/p.md".to_owned())
    );
}

#[test]
fn a_hold_for_git_ends_when_commits_are_switched_off() {
    let wiki = Wiki::bare_folder();
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.json(4, &["drain"]);
    wiki.write("wiki-sync.toml", "[git]\ncommit = \"off\"\n");
    assert_eq!(wiki.drain()["held"], 0);
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn pages_of_a_sparse_checkout_that_are_not_here_stay_in_head() {
    let wiki = Wiki::with(&[
        ("wiki-output/in/a.md", "# A\n"),
        ("wiki-output/out/b.md", "# B\n"),
    ]);
    wiki.drain();
    wiki.git(&["sparse-checkout", "set", "wiki-output/in"]);
    assert!(!wiki.root().join("wiki-output/out/b.md").exists());
    let drained = wiki.ws(&["drain", "--json"]);
    assert_eq!(drained.code, Some(0), "{} {}", drained.out, drained.err);
    assert_eq!(
        wiki.head_pages(),
        ["wiki-output/in/a.md", "wiki-output/out/b.md"]
    );
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
    wiki.git(&["sparse-checkout", "disable"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn after_an_amend_a_rebase_or_a_force_push_the_next_sync_is_right_and_small() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.drain();
    // The commit that we made last is no ancestor any more.
    wiki.git(&["commit", "-q", "--amend", "-m", "in my own words"]);
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    let drained = wiki.drain();
    assert_eq!(drained["processed"], 1, "{drained}");
    wiki.assert_in_sync();
    wiki.git(&["checkout", "-q", "-b", "other", "HEAD~2"]);
    wiki.write("README", "other\n");
    wiki.git(&["commit", "-qam", "other"]);
    wiki.git(&["checkout", "-q", "main"]);
    wiki.git(&["rebase", "-q", "other"]);
    assert_eq!(wiki.drain()["processed"], 0);
    wiki.assert_in_sync();
    // What somebody else forced onto the branch: one page back, one gone.
    wiki.git(&["reset", "-q", "--hard", "other"]);
    let pages = wiki.head_pages();
    wiki.drain();
    assert_eq!(wiki.head_pages(), pages);
    wiki.assert_in_sync();
    assert_eq!(
        wiki.json(0, &["search", "two"]).as_array().unwrap().len(),
        0
    );
}

#[test]
fn a_lock_left_behind_is_named_with_its_age_and_never_removed() {
    let wiki = Wiki::small();
    let lock = wiki.root().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(11 * 24 + 1);
    let file = fs::File::options().write(true).open(&lock).unwrap();
    file.set_modified(long_ago).unwrap();
    wiki.json(75, &["drain", "--no-wait"]);
    assert!(lock.exists());
    let status = wiki.json(0, &["status"]);
    let trouble = status["trouble"].to_string();
    for words in ["index.lock", "11 days", "rm '"] {
        assert!(trouble.contains(words), "{words}: {trouble}");
    }
    assert_eq!(status["held"].as_array().unwrap().len(), 3, "{status}");
    fs::remove_file(&lock).unwrap();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_page_keeps_the_unicode_form_that_its_name_has() {
    let (nfd, nfc) = ("wiki-output/e\u{301}.md", "wiki-output/\u{e9}.md");
    let wiki = Wiki::with(&[(nfd, "# one\n")]);
    wiki.drain();
    wiki.write(nfd, "# one, second\n");
    wiki.drain();
    assert_eq!(wiki.head_pages(), [nfd]);
    // Where the file system keeps both, they are two pages, and it is said.
    wiki.write(nfc, "# two\n");
    wiki.drain();
    let mut both = vec![nfd.to_owned(), nfc.to_owned()];
    both.sort();
    assert_eq!(wiki.head_pages(), both);
    let conflicts = wiki.json(0, &["graph", "conflicts"]);
    assert_eq!(conflicts.as_array().unwrap().len(), 1, "{conflicts}");
    let forms = serde_json::json!(["decomposed", "composed"]);
    assert_eq!(
        (&conflicts[0]["with"][0], &conflicts[0]["forms"]),
        (&nfc.into(), &forms)
    );
    let told = wiki.ws(&["graph", "conflicts"]).code(0).out;
    assert!(
        told.contains("(decomposed, NFD)") && told.ends_with("\n1 conflict\n"),
        "{told}"
    );
    wiki.assert_in_sync();
}

/// A wiki in `root`, whose git folder is kept elsewhere, goes into its own repository and nobody else's folder.
#[track_caller]
fn assert_at_home(wiki: &Wiki, root: &Path, what: &str) {
    let git = |args: &[&str]| {
        let root = root.to_str().unwrap();
        wiki.git(&[&["-C", root], args].concat())
    };
    let top = git(&["rev-parse", "--show-toplevel"]);
    assert_eq!(Path::new(top.trim_end()), root.canonicalize().unwrap());
    fs::create_dir_all(root.join("wiki-output/deep")).unwrap();
    fs::write(root.join("wiki-output/deep/at-home.md"), "# At home\n").unwrap();
    let run = |folder: &Path, args: &[&str]| {
        let ran = wiki
            .binary()
            .arg("-C")
            .arg(folder)
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{what}: {args:?}: {said}");
    };
    run(root, &["init"]);
    run(&root.join("wiki-output/deep"), &["drain"]);
    run(root, &["verify"]);
    assert!(root.join(".wiki-sync").is_dir(), "{what}");
    assert!(root.join("wiki-sync.toml").is_file(), "{what}");
    let page = "wiki-output/deep/at-home.md";
    assert_eq!(git(&["show", &format!("HEAD:{page}")]), "# At home\n");
    assert_eq!(git(&["status", "--porcelain", "wiki-output"]), "", "{what}");
}

#[test]
fn a_git_folder_kept_elsewhere_leads_to_no_other_work_tree() {
    let wiki = Wiki::small();
    let beside = wiki.root().join("..").canonicalize().unwrap();
    let names = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };

    let kept = beside.join("kept");
    fs::create_dir(&kept).unwrap();
    let root = beside.join("separate");
    fs::create_dir(&root).unwrap();
    let at = |root: &Path, args: &[&str]| {
        wiki.git(&[&["-C", root.to_str().unwrap()], args].concat());
    };
    at(&root, &["init", "-q", "--separate-git-dir=../kept/x.git"]);
    assert_at_home(&wiki, &root, "a git folder of its own name");
    assert_eq!(names(&kept), ["x.git"]);
    let inside = wiki
        .binary()
        .arg("-C")
        .arg(kept.join("x.git"))
        .arg("drain")
        .output()
        .unwrap();
    assert_eq!(inside.status.code(), Some(4));

    let linked = beside.join("linked");
    fs::create_dir(&linked).unwrap();
    at(&linked, &["init", "-q"]);
    fs::rename(linked.join(".git"), kept.join("y.git")).unwrap();
    std::os::unix::fs::symlink("../kept/y.git", linked.join(".git")).unwrap();
    assert_at_home(&wiki, &linked, "a link to a git folder");
    assert_eq!(names(&kept), ["x.git", "y.git"]);

    let told = beside.join("told");
    fs::create_dir(&told).unwrap();
    at(&told, &["init", "-q", "--separate-git-dir=../kept/z.git"]);
    at(&told, &["config", "core.worktree", "../../told"]);
    assert_at_home(&wiki, &told, "a work tree that is told");

    wiki.git(&["worktree", "add", "-q", "--detach", "../tree"]);
    at(&beside.join("tree"), &["checkout", "-qb", "tree"]);
    assert_at_home(&wiki, &beside.join("tree"), "a linked work tree");
    at(&root, &["worktree", "add", "-q", "../tree2"]);
    assert_at_home(
        &wiki,
        &beside.join("tree2"),
        "one of a git folder elsewhere",
    );

    let linked = linked.to_str().unwrap();
    let allowed = ["-c", "protocol.file.allow=always"];
    at(
        &root,
        &[&allowed[..], &["submodule", "add", "-q", linked, "part"]].concat(),
    );
    assert_at_home(&wiki, &root.join("part"), "a submodule");
    assert_eq!(names(&kept), ["x.git", "y.git", "z.git"]);
}
