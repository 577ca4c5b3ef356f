//! What the installed hooks announce, by real commits, and that no commit is ever the worse for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use wiki_sync::testing::RedisServer;

use crate::hooks_install::UNHURRIED;
use crate::redis::on_redis;
use crate::wiki::Wiki;

/// A wiki in sync whose hooks are installed. They may take the time that a busy machine needs.
fn installed() -> Wiki {
    let mut wiki = Wiki::small();
    wiki.env.insert(UNHURRIED.0.into(), UNHURRIED.1.into());
    wiki.drain();
    wiki.ws(&["hooks", "install"]).code(0);
    wiki
}

fn waiting(wiki: &Wiki) -> (u64, u64) {
    let outbox = wiki.json(0, &["status"])["outbox"].clone();
    (
        outbox["waiting"].as_u64().unwrap(),
        outbox["hints"].as_u64().unwrap(),
    )
}

fn commit(wiki: &Wiki, path: &str, text: &str) {
    wiki.write(path, text);
    wiki.git(&["add", path]);
    wiki.git(&["commit", "-qm", path]);
}

/// What was announced is enough: without a scan everything is in sync.
#[track_caller]
fn assert_announced(wiki: &Wiki, what: &str) {
    let drained = wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(waiting(wiki), (0, 0), "{what}: {drained}");
    let verify = wiki.ws(&["verify", "--json"]);
    assert_eq!(verify.code, Some(0), "{what}: {}", verify.out);
}

/// Puts a program between the hooks and ours that counts its starts; returns what counts them.
fn counted(wiki: &Wiki) -> impl Fn() -> usize {
    let ours = env!("CARGO_BIN_EXE_wiki-sync");
    let log = wiki.root().join("../starts");
    let between = wiki.root().join("../between");
    let text = format!(
        "#!/bin/sh\necho x >>'{}'\nexec '{ours}' \"$@\"\n",
        log.display()
    );
    replace_program(wiki, &between, &text);
    move || fs::read_to_string(&log).unwrap_or_default().lines().count()
}

/// Lets the hooks call another program, with this text.
fn replace_program(wiki: &Wiki, program: &Path, text: &str) {
    fs::write(program, text).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    for hook in fs::read_dir(wiki.root().join(".git/hooks")).unwrap() {
        let hook = hook.unwrap().path();
        if !hook.to_string_lossy().ends_with(".sample") {
            let lines = fs::read_to_string(&hook).unwrap();
            let lines = lines.replace(
                env!("CARGO_BIN_EXE_wiki-sync"),
                &program.display().to_string(),
            );
            fs::write(&hook, lines).unwrap();
        }
    }
}

#[test]
fn a_commit_announces_the_pages_it_changed_and_nothing_else() {
    let wiki = installed();
    commit(&wiki, "README", "no page\n");
    commit(&wiki, "wiki-output/note.txt", "no page either\n");
    assert_eq!(waiting(&wiki), (0, 0));
    commit(&wiki, "wiki-output/a.md", "# Alpha 2\n");
    wiki.git(&["rm", "-q", "wiki-output/b.md"]);
    commit(&wiki, "wiki-output/sub/new.md", "# New\n");
    assert_eq!(waiting(&wiki), (3, 0));
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["processed"], 3);
    wiki.assert_in_sync();
}

#[test]
fn what_a_drain_has_committed_is_not_announced_again() {
    let wiki = installed();
    wiki.write("wiki-output/a.md", "# Alpha 2\n");
    wiki.remove("wiki-output/b.md");
    wiki.drain();
    commit(&wiki, "README", "more\n");
    assert_eq!(waiting(&wiki), (0, 0));
    wiki.git(&["checkout", "-qb", "side"]);
    assert_eq!(waiting(&wiki), (0, 0));
}

#[test]
fn every_way_to_move_a_branch_announces_what_it_changed() {
    let wiki = installed();
    commit(&wiki, "wiki-output/a.md", "# One\n");
    assert_announced(&wiki, "a commit");
    wiki.write("wiki-output/b.md", "# Amended\n");
    wiki.git(&["commit", "-qa", "--amend", "-m", "amended"]);
    assert_announced(&wiki, "an amended commit");

    wiki.git(&["checkout", "-qb", "side", "HEAD~1"]);
    assert_announced(&wiki, "a checkout");
    commit(&wiki, "wiki-output/side.md", "# Side\n");
    commit(&wiki, "wiki-output/other.md", "# Other\n");
    wiki.git(&["mv", "wiki-output/side.md", "wiki-output/moved.md"]);
    wiki.git(&["commit", "-qm", "moved"]);
    assert_announced(&wiki, "commits on a branch");
    wiki.git(&["checkout", "-q", "main"]);
    assert_announced(&wiki, "a checkout back");
    wiki.git(&["cherry-pick", "side~1"]);
    assert_announced(&wiki, "a picked commit");
    wiki.git(&["merge", "-q", "side"]);
    assert_announced(&wiki, "a merge");
    wiki.git(&["revert", "--no-edit", "-m", "1", "HEAD"]);
    assert_announced(&wiki, "a reverted merge");
    wiki.git(&["checkout", "-q", "side"]);
    wiki.git(&["merge", "-q", "--ff-only", "main"]);
    assert_announced(&wiki, "a merge that only moves on");
    wiki.git(&["checkout", "-q", "--detach", "main~2"]);
    assert_announced(&wiki, "a detached HEAD");
    wiki.git(&["checkout", "-q", "--orphan", "fresh"]);
    wiki.git(&["rm", "-rqf", "."]);
    commit(&wiki, "wiki-output/only.md", "# Only\n");
    assert_announced(&wiki, "a branch without a past");
}

#[test]
fn what_has_no_hook_is_announced_by_the_next_hook_or_found_by_the_scan() {
    let wiki = installed();
    commit(&wiki, "wiki-output/a.md", "# One\n");
    commit(&wiki, "wiki-output/b.md", "# Two\n");
    assert_announced(&wiki, "commits");
    wiki.git(&["reset", "-q", "--hard", "HEAD~2"]);
    commit(&wiki, "README", "more\n");
    assert_announced(&wiki, "a reset and a commit");
    wiki.write("wiki-output/a.md", "# Stashed\n");
    wiki.drain();
    wiki.git(&["reset", "-q", "--hard", "HEAD~1"]);
    wiki.drain();
    wiki.assert_in_sync();
    wiki.write("wiki-output/a.md", "# Stashed\n");
    wiki.git(&["stash", "-q"]);
    wiki.git(&["stash", "pop", "-q"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_change_that_went_away_unheard_is_announced_when_it_comes_back() {
    let wiki = installed();
    commit(&wiki, "wiki-output/o.md", "# Comes and goes\n");
    wiki.drain();
    let patch = wiki.git(&["format-patch", "-1", "--stdout", "--", "wiki-output/o.md"]);
    fs::write(wiki.root().join("../o.patch"), patch).unwrap();
    for args in [
        &["cherry-pick", "ORIG_HEAD"][..],
        &["am", "-q", "../o.patch"],
    ] {
        wiki.git(&["reset", "-q", "--hard", "HEAD~1"]);
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!(waiting(&wiki), (0, 0), "{args:?}");
        wiki.git(args);
        assert_eq!(waiting(&wiki), (1, 0), "{args:?}");
        assert_announced(&wiki, args[0]);
    }
    wiki.git(&["checkout", "-qb", "side", "HEAD~1"]);
    commit(&wiki, "wiki-output/p.md", "# Side\n");
    commit(&wiki, "wiki-output/o.md", "# In the way\n");
    wiki.drain();
    assert_ne!(wiki.try_git(&["rebase", "-q", "main"]).code, Some(0));
    wiki.ws(&["drain", "--no-wait"]);
    wiki.git(&["rebase", "--abort"]);
    wiki.drain();
    wiki.assert_in_sync();
    // As it is, nothing is announced for what every store holds.
    commit(&wiki, "README", "more\n");
    assert_eq!(waiting(&wiki), (0, 0));
}

#[test]
fn a_commit_that_takes_back_one_of_ours_is_announced() {
    let wiki = installed();
    commit(&wiki, "README", "hooks have seen HEAD\n");
    wiki.write("wiki-output/a.md", "# Ours\n");
    wiki.drain();
    wiki.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(waiting(&wiki), (1, 0));
    assert_announced(&wiki, "the edit taken back");

    fs::remove_file(wiki.root().join("wiki-output/a.md")).unwrap();
    wiki.write("wiki-output/new/b.md", "# New\n");
    wiki.drain();
    wiki.git(&["revert", "--no-edit", "HEAD"]);
    assert_eq!(waiting(&wiki), (2, 0));
    assert_announced(&wiki, "a removal and a new page taken back");

    // What a hook has not yet told is not passed over with it.
    wiki.write("wiki-output/a.md", "# By hand\n");
    wiki.git(&["add", "-A"]);
    wiki.git(&["-c", "core.hooksPath=/dev/null", "commit", "-qm", "unheard"]);
    wiki.write("wiki-output/b.md", "# Ours again\n");
    wiki.ws(&["enqueue", "wiki-output/b.md"]).code(0);
    wiki.json(0, &["drain", "--no-scan"]);
    commit(&wiki, "README", "heard again\n");
    assert_announced(&wiki, "a commit that no hook told of");
}

#[test]
fn a_rebase_of_many_commits_starts_one_process_at_its_end() {
    for how in [
        &["rebase", "-q", "main"][..],
        &["rebase", "-q", "--apply", "main"],
    ] {
        let wiki = installed();
        wiki.git(&["checkout", "-qb", "side"]);
        for number in 0..20 {
            commit(&wiki, &format!("wiki-output/p{number}.md"), "# Page\n");
        }
        wiki.git(&["checkout", "-q", "main"]);
        commit(&wiki, "wiki-output/a.md", "# Main moved on\n");
        assert_announced(&wiki, "before");
        wiki.git(&["checkout", "-q", "side"]);
        let starts = counted(&wiki);
        wiki.git(how);
        let before_it = usize::from(how.contains(&"--apply"));
        assert_eq!(starts(), 1 + before_it, "{how:?}");
        assert_announced(&wiki, "a rebase");
        assert_eq!(wiki.json(0, &["status"])["fresh"], true);
    }
}

#[test]
#[ignore = "a hundred commits, three times: for scripts/test --long"]
fn a_rebase_of_a_hundred_commits_is_hardly_slower() {
    let wiki = installed();
    wiki.git(&["checkout", "-qb", "side"]);
    for number in 0..100 {
        commit(&wiki, &format!("wiki-output/p{number}.md"), "# Page\n");
    }
    wiki.git(&["branch", "-q", "kept"]);
    wiki.git(&["checkout", "-q", "main"]);
    commit(&wiki, "README", "main moved on\n");
    wiki.git(&["checkout", "-q", "side"]);
    let timed = || {
        let best = (0..3).map(|_| {
            wiki.git(&["reset", "-q", "--hard", "kept"]);
            let started = Instant::now();
            wiki.git(&["rebase", "-q", "main"]);
            started.elapsed()
        });
        best.min().unwrap()
    };
    let hooked = timed();
    assert_announced(&wiki, "rebases");
    wiki.ws(&["hooks", "uninstall"]).code(0);
    let plain = timed();
    eprintln!("100 commits: {plain:?} without hooks, {hooked:?} with");
    assert!(
        hooked < plain.mul_f64(1.3) + Duration::from_millis(200),
        "{plain:?} {hooked:?}"
    );
}

#[test]
fn a_rebase_with_nothing_to_rewrite_leaves_a_hint_and_one_given_up_too() {
    let wiki = installed();
    commit(&wiki, "wiki-output/a.md", "# One\n");
    assert_announced(&wiki, "before");
    wiki.git(&["checkout", "-qb", "behind", "HEAD~1"]);
    assert_announced(&wiki, "behind");
    wiki.git(&["rebase", "-q", "main"]);
    assert_eq!(waiting(&wiki), (0, 1));
    assert_announced(&wiki, "a rebase that only moves on");

    wiki.git(&["checkout", "-qb", "side", "HEAD~1"]);
    commit(&wiki, "wiki-output/a.md", "# In conflict\n");
    assert_announced(&wiki, "side");
    assert_ne!(wiki.try_git(&["rebase", "-q", "main"]).code, Some(0));
    wiki.git(&["rebase", "--abort"]);
    assert_announced(&wiki, "a rebase given up");
}

#[test]
fn patches_from_a_mailbox_start_one_process_at_the_last() {
    let wiki = installed();
    wiki.git(&["checkout", "-qb", "side"]);
    for number in 0..5 {
        commit(&wiki, &format!("wiki-output/p{number}.md"), "# Page\n");
    }
    wiki.git(&["format-patch", "-q", "-5", "-o", "../patches"]);
    wiki.git(&["checkout", "-q", "main"]);
    assert_announced(&wiki, "before");
    let starts = counted(&wiki);
    let mut patches: Vec<_> = fs::read_dir(wiki.root().join("../patches"))
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect();
    patches.sort();
    let mut am = vec!["am", "-q"];
    am.extend(patches.iter().map(String::as_str));
    wiki.git(&am);
    assert_eq!(starts(), 1);
    assert_announced(&wiki, "git am");
    assert_eq!(wiki.head_pages().len(), 8);
}

#[test]
fn fetching_tags_and_checking_out_single_files_start_nothing() {
    let wiki = installed();
    wiki.git(&["clone", "-q", ".", "../remote"]);
    let refs = wiki.root().join("../remote/.git/packed-refs");
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let tag = |number| format!("{} refs/tags/t{number:03}\n", head.trim());
    let tags = (0..500).map(tag).collect::<Vec<_>>().concat();
    fs::write(
        refs,
        format!("# pack-refs with: peeled fully-peeled sorted \n{tags}"),
    )
    .unwrap();
    let starts = counted(&wiki);
    wiki.git(&["fetch", "-q", "--tags", "../remote"]);
    assert_eq!(wiki.git(&["tag"]).lines().count(), 500);
    wiki.git(&["checkout", "-q", "HEAD", "--", "README"]);
    assert_eq!(starts(), 0);
    assert_eq!(waiting(&wiki), (0, 0));
}

#[test]
fn each_work_tree_and_submodule_announces_to_its_own_outbox() {
    let wiki = installed();
    wiki.git(&["worktree", "add", "-q", "../linked"]);
    let linked = wiki.root().join("../linked");
    let at = linked.to_str().unwrap();
    // Without a state of its own it is nobody's wiki.
    fs::write(linked.join("wiki-output/a.md"), "# There\n").unwrap();
    wiki.git(&["-C", at, "commit", "-qam", "there"]);
    assert!(!linked.join(".wiki-sync").exists());
    wiki.json(0, &["-C", at, "drain"]);
    fs::write(linked.join("wiki-output/a.md"), "# There again\n").unwrap();
    let folder = linked.join("wiki-output");
    wiki.git(&[
        "-C",
        folder.to_str().unwrap(),
        "commit",
        "-qam",
        "from a folder",
    ]);
    assert_eq!(wiki.json(0, &["-C", at, "status"])["outbox"]["waiting"], 1);
    assert_eq!(waiting(&wiki), (0, 0));
    commit(&wiki, "wiki-output/b.md", "# Here\n");
    assert_eq!(waiting(&wiki), (1, 0));
    assert_eq!(wiki.json(0, &["-C", at, "status"])["outbox"]["waiting"], 1);

    let outer = Wiki::with(&[]);
    let url = wiki.root().display().to_string();
    let allow = "protocol.file.allow=always";
    outer.git(&["-c", allow, "submodule", "add", "-q", &url, "sub"]);
    let sub = outer.root().join("sub");
    let at = sub.to_str().unwrap();
    outer.json(0, &["-C", at, "drain"]);
    outer.ws(&["-C", at, "hooks", "install"]).code(0);
    assert!(
        outer
            .root()
            .join(".git/modules/sub/hooks/post-commit")
            .exists()
    );
    fs::write(sub.join("wiki-output/a.md"), "# In the submodule\n").unwrap();
    outer.git(&["-C", at, "commit", "-qam", "x"]);
    assert_eq!(
        outer.json(0, &["-C", at, "drain", "--no-scan"])["processed"],
        1
    );
}

#[test]
fn a_shallow_clone_and_a_new_repository_need_no_past() {
    let origin = installed();
    commit(&origin, "wiki-output/a.md", "# One\n");
    let mut wiki = Wiki::bare_folder();
    wiki.env.clone_from(&origin.env);
    let url = format!("file://{}", origin.root().display());
    fs::remove_dir(wiki.root()).unwrap();
    fs::create_dir(wiki.root()).unwrap();
    wiki.git(&["clone", "-q", "--depth", "1", &url, "."]);
    wiki.git(&["config", "user.name", "T"]);
    wiki.git(&["config", "user.email", "t@example.invalid"]);
    wiki.drain();
    wiki.ws(&["hooks", "install"]).code(0);
    commit(&wiki, "wiki-output/b.md", "# Two\n");
    assert_eq!(waiting(&wiki), (1, 0));
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["processed"], 1);
    wiki.git(&["commit", "-q", "--amend", "-m", "the first again"]);
    assert_announced(&wiki, "amended");

    let mut wiki = Wiki::bare_folder();
    wiki.env.insert(UNHURRIED.0.into(), UNHURRIED.1.into());
    wiki.git(&["init", "-q", "."]);
    wiki.git(&["config", "user.name", "T"]);
    wiki.git(&["config", "user.email", "t@example.invalid"]);
    wiki.ws(&["init"]).code(0);
    commit(&wiki, "wiki-output/a.md", "# First\n");
    assert_eq!(waiting(&wiki), (1, 0));
    assert_announced(&wiki, "the first commit");
}

#[test]
fn what_was_last_seen_may_be_lost_or_collected() {
    let wiki = installed();
    commit(&wiki, "wiki-output/a.md", "# One\n");
    wiki.git(&["commit", "-q", "--amend", "--no-verify", "-m", "y"]);
    wiki.git(&["reset", "-q", "--hard", "HEAD~1"]);
    wiki.git(&["reflog", "expire", "--expire=now", "--all"]);
    wiki.git(&["gc", "-q", "--prune=now"]);
    commit(&wiki, "wiki-output/b.md", "# Two\n");
    assert_announced(&wiki, "what was seen is collected");
    fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    commit(&wiki, "wiki-output/b.md", "# Three\n");
    assert!(!wiki.root().join(".wiki-sync").exists());
}

#[test]
fn a_commit_without_any_environment_announces_too() {
    let wiki = installed();
    wiki.write("wiki-output/a.md", "# By a program without a shell\n");
    let git = Command::new("sh").args(["-c", "command -v git"]).output();
    let git = String::from_utf8(git.unwrap().stdout).unwrap();
    let ran = Command::new(git.trim())
        .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
        .args(["commit", "-qam", "x"])
        .current_dir(wiki.root())
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.is_empty(), "{said}");
    assert_announced(&wiki, "env -i");
}

#[test]
fn a_program_that_is_gone_or_broken_costs_a_hint_and_no_commit() {
    let wiki = Wiki::small();
    wiki.drain();
    let hook = wiki.root().join(".git/hooks/post-commit");
    fs::write(&hook, "#!/bin/sh\necho mine\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    wiki.ws(&["hooks", "install"]).code(0);
    let program = wiki.root().join("../program");
    let broken = [
        "exit 3",
        "kill -SEGV $$",
        "echo noise; echo noise >&2; exit 1",
    ];
    replace_program(&wiki, &program, "");
    let lines = fs::read_to_string(&hook).unwrap();
    for shell in ["sh", "sh -eu", "bash -eu", "bash --posix"] {
        let lines = lines.replace("#!/bin/sh", &format!("#!/bin/{shell}"));
        fs::write(&hook, lines).unwrap();
        for text in broken.map(Some).into_iter().chain([None]) {
            match text {
                Some(text) => fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap(),
                None => fs::remove_file(&program).unwrap(),
            }
            if text.is_some() {
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            }
            wiki.write("wiki-output/a.md", format!("# {shell} {text:?}\n"));
            let committed = wiki.try_git(&["commit", "-qam", "x"]);
            let told = (
                committed.code,
                committed.out.as_str(),
                committed.err.as_str(),
            );
            assert_eq!(told, (Some(0), "", "mine\n"), "{shell} {text:?}");
            assert_eq!(waiting(&wiki), (0, 1), "{shell} {text:?}");
        }
        assert_announced(&wiki, shell);
        fs::write(&program, "").unwrap();
    }
}

#[test]
fn a_state_folder_that_cannot_be_written_to_costs_no_commit() {
    let wiki = installed();
    fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    fs::create_dir_all(wiki.root().join(".wiki-sync/wiki.db")).unwrap();
    for event in ["commit", "checkout", "rewrite"] {
        let hint = format!(".wiki-sync/hint.post-{event}");
        fs::create_dir(wiki.root().join(hint)).unwrap();
    }
    wiki.write("wiki-output/a.md", "# One\n");
    let committed = wiki.try_git(&["commit", "-qam", "x"]);
    assert_eq!((committed.code, committed.err.as_str()), (Some(0), ""));
    let away = wiki.try_git(&["checkout", "-qb", "side"]);
    assert_eq!((away.code, away.err.as_str()), (Some(0), ""));
    fs::remove_dir(wiki.root().join(".wiki-sync/wiki.db")).unwrap();
    wiki.drain();
}

/// Commits through a pipe, as a graphical program does, and waits until nobody holds it any more.
fn commit_through_a_pipe(wiki: &Wiki) {
    let mut git = wiki.other(Path::new("git"));
    git.args(["commit", "-q", "--allow-empty", "-am", "x"]);
    let output = git.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    assert!(output.status.success());
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn an_outbox_that_does_not_answer_keeps_no_commit_waiting() {
    let mut wiki = installed();
    wiki.env.remove(UNHURRIED.0);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}/0");
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), url);
    let started = Instant::now();
    for number in 0..6 {
        wiki.write("wiki-output/a.md", format!("# {number}\n"));
        commit_through_a_pipe(&wiki);
    }
    // The client itself would wait for two seconds each time.
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "{:?}",
        started.elapsed()
    );
    wiki.env.remove("WIKI_SYNC_OUTBOX_URL");
    let (waiting, hints) = waiting(&wiki);
    assert!(waiting == 0 && hints > 0, "{waiting} {hints}");
    assert_announced(&wiki, "a silent outbox");
}

#[test]
fn a_redis_that_is_full_costs_a_hint_and_no_commit_and_nothing_is_lost() {
    let server = RedisServer::start();
    let mut wiki = on_redis(&server, Wiki::small());
    wiki.env.insert(UNHURRIED.0.into(), UNHURRIED.1.into());
    wiki.drain();
    wiki.ws(&["hooks", "install"]).code(0);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    commit(&wiki, "wiki-output/a.md", "# Alpha, while it is full\n");
    assert_eq!(waiting(&wiki), (0, 1));
    // Nobody can be told of it yet, so the hint stays.
    wiki.ws(&["drain", "--no-scan", "--no-wait"]);
    assert_eq!(waiting(&wiki), (0, 1));
    // A page that nobody committed is on the disk, where the scan finds it; whoever announces it is told to try later.
    wiki.write("wiki-output/b.md", "# Beta, while it is full\n");
    let ran = wiki.ws(&["enqueue", "wiki-output/b.md"]).code(75);
    assert!(ran.err.contains("hint: the server is full"), "{}", ran.err);
    wiki.ws(&["drain", "--no-wait"]).code(75);
    assert_eq!(waiting(&wiki), (0, 1));
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    wiki.write("wiki-output/b.md", "# Beta\n\nBack to [Alpha](a.md).\n");
    assert_announced(&wiki, "what was committed while Redis was full");
    wiki.assert_in_sync();
}

#[test]
fn a_database_that_is_locked_keeps_no_commit_waiting() {
    // Behind a locked outbox a hint is left; what was last seen of HEAD can wait for the next hook.
    for (name, left) in [("outbox.db", (0, 1)), ("wiki.db", (1, 0))] {
        let mut wiki = installed();
        if name == "outbox.db" {
            wiki.env.remove(UNHURRIED.0);
        }
        let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync").join(name)).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        wiki.write("wiki-output/a.md", "# One\n");
        let started = Instant::now();
        commit_through_a_pipe(&wiki);
        // SQLite itself would wait for 15 seconds.
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{name}: {:?}",
            started.elapsed()
        );
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(waiting(&wiki), left, "{name}");
        assert_announced(&wiki, name);
    }
}

#[test]
fn what_git_hands_to_a_hook_leads_to_no_other_repository() {
    let wiki = installed();
    let victim = Wiki::with(&[("wiki-output/victim.md", "# Victim\n")]);
    victim.git(&["add", "."]);
    let git_dir = victim.root().join(".git");
    let index = || fs::read(git_dir.join("index")).unwrap();
    let before = index();
    wiki.write("wiki-output/a.md", "# One\n");
    wiki.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "commit",
        "-qam",
        "unheard",
    ]);
    let ran = wiki
        .binary()
        .args(["hook", "post-commit"])
        .env("GIT_DIR", &git_dir)
        .env("GIT_WORK_TREE", victim.root())
        .env("GIT_INDEX_FILE", git_dir.join("index"))
        .env("GIT_OBJECT_DIRECTORY", git_dir.join("objects"))
        .env("GIT_CONFIG_COUNT", "nonsense")
        .status()
        .unwrap();
    assert!(ran.success());
    assert_eq!(waiting(&wiki), (1, 0));
    assert_eq!(index(), before);
    assert!(!victim.root().join(".wiki-sync").exists());
    assert_announced(&wiki, "beside a victim");
    assert_eq!(
        victim.git(&["ls-files", "wiki-output"]),
        "wiki-output/victim.md\n"
    );
}

#[test]
fn a_drain_in_a_hook_of_a_linked_work_tree_leaves_its_index_alone() {
    let wiki = installed();
    wiki.write("wiki-output/a.md", "# To be drained\n");
    let outer = Wiki::with(&[("notes.md", "# Outer\n")]);
    outer.git(&["worktree", "add", "-q", "../linked"]);
    let linked = outer.root().join("../linked");
    let hook = outer.root().join(".git/hooks/post-commit");
    let text = format!(
        "#!/bin/sh\nsha1sum \"$GIT_INDEX_FILE\" >../before\n'{}' -C '{}' drain >../drained 2>&1\nsha1sum \"$GIT_INDEX_FILE\" >../after\n",
        env!("CARGO_BIN_EXE_wiki-sync"),
        wiki.root().display()
    );
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(linked.join("README"), "changed\n").unwrap();
    outer.git(&["-C", linked.to_str().unwrap(), "commit", "-qam", "x"]);
    let read = |name: &str| fs::read_to_string(linked.join("..").join(name)).unwrap();
    assert!(!read("before").is_empty());
    assert_eq!(read("before"), read("after"));
    assert!(
        read("drained").contains("nothing is owed"),
        "{}",
        read("drained")
    );
    wiki.assert_in_sync();
    outer.git(&["fsck", "--strict"]);
}

#[test]
fn hooks_are_not_run_from_within_a_hook() {
    let wiki = installed();
    let starts = counted(&wiki);
    wiki.write("wiki-output/a.md", "# One\n");
    let committed = wiki
        .other(Path::new("git"))
        .args(["commit", "-qam", "x"])
        .env("IN_WIKI_SYNC_HOOK", "1")
        .status()
        .unwrap();
    assert!(committed.success());
    assert_eq!(starts(), 0);
}

#[test]
fn a_hint_is_answered_by_any_drain_and_counted_until_then() {
    let wiki = installed();
    let hint: PathBuf = wiki.root().join(".wiki-sync/hint.post-commit");
    wiki.write("wiki-output/a.md", "# One\n");
    wiki.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "commit",
        "-qam",
        "unheard",
    ]);
    fs::write(&hint, "").unwrap();
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(told.contains("1 hint"), "{told}");
    assert!(wiki.killed_at("announce.enqueued", &["drain", "--no-scan"]));
    assert_eq!(
        waiting(&wiki),
        (1, 1),
        "enqueued, and to be looked at once more"
    );
    assert_announced(&wiki, "a hint");
    fs::write(&hint, "").unwrap();
    wiki.drain();
    assert_eq!(waiting(&wiki), (0, 0));
    assert_eq!(wiki.json(0, &["status"])["fresh"], json!(true));
}

#[test]
fn a_hook_hands_over_nothing_for_which_the_program_would_start_again() {
    let wiki = installed();
    let ours = env!("CARGO_BIN_EXE_wiki-sync");
    let log = wiki.root().join("../environment");
    let text = format!(
        "#!/bin/sh\nenv | grep '^GIT_' >>'{log}'\necho \"$* $IN_WIKI_SYNC_HOOK\" >>'{log}'\nexec '{ours}' \"$@\"\n",
        log = log.display()
    );
    replace_program(&wiki, &wiki.root().join("../between"), &text);
    commit(&wiki, "wiki-output/a.md", "# One\n");
    assert_announced(&wiki, "a commit");
    wiki.git(&[
        "commit",
        "-q",
        "--amend",
        "--author=X <x@y>",
        "-m",
        "amended",
    ]);
    wiki.git(&["checkout", "-qb", "side", "HEAD~1"]);
    commit(&wiki, "wiki-output/b.md", "# Two\n");
    wiki.git(&["merge", "-q", "--no-edit", "main"]);
    wiki.git(&["rebase", "-q", "--no-ff", "main"]);
    wiki.git(&["worktree", "add", "-q", "../linked"]);
    let linked = wiki.root().join("../linked");
    let init = wiki.binary().args(["init"]).current_dir(&linked).output();
    assert!(init.unwrap().status.success());
    wiki.git(&[
        "-C",
        linked.to_str().unwrap(),
        "-c",
        "user.name=Y",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    let seen = fs::read_to_string(&log).unwrap();
    assert!(!seen.lines().any(|line| line.starts_with("GIT_")), "{seen}");
    for event in ["post-commit", "post-merge", "post-checkout", "post-rewrite"] {
        assert!(seen.contains(&format!("hook {event} 1\n")), "{seen}");
    }
}
