//! Installing git's hooks and taking them out again: what was the user's stays his, byte for byte.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::wiki::Wiki;

const NAMES: [&str; 5] = [
    "post-commit",
    "post-merge",
    "post-checkout",
    "post-rewrite",
    "post-applypatch",
];

fn folder(wiki: &Wiki) -> PathBuf {
    wiki.root().join(".git/hooks")
}

/// A repository with a hook of the user's.
fn with_hook(text: impl AsRef<[u8]>, mode: u32) -> Wiki {
    let wiki = Wiki::small();
    put(&folder(&wiki).join("post-commit"), text, mode);
    wiki
}

fn put(path: &Path, text: impl AsRef<[u8]>, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything in a folder: names, modes, and what is in the files or where the links lead.
fn picture(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut picture = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            picture.extend(self::picture(&path));
        }
        let text = match fs::read_link(&path) {
            Ok(aim) => aim.into_os_string().into_encoded_bytes(),
            Err(_) => fs::read(&path).unwrap_or_default(),
        };
        picture.push((path, meta.mode(), text));
    }
    picture.sort();
    picture
}

fn install(wiki: &Wiki) {
    wiki.ws(&["hooks", "install"]).code(0);
}

fn uninstall(wiki: &Wiki) {
    wiki.ws(&["hooks", "uninstall"]).code(0);
}

#[test]
fn a_second_install_changes_nothing_and_uninstall_leaves_every_byte_twice() {
    for (text, mode) in [
        (&b"#!/bin/sh\necho mine\n"[..], 0o755),
        (b"#!/bin/sh", 0o755),
        (b"#!/bin/sh\n", 0o700),
        (b"#!/usr/bin/env bash\necho a\r\nexit 3", 0o755),
        (b"#!/bin/sh\r\necho windows\r\n", 0o755),
        (b"#!/usr/bin/awk -f\nBEGIN { print \"\xff\" }\n", 0o775),
        (b"#!/bin/sh\necho switched off\n", 0o644),
        (b"", 0o755),
        (b"\x7fELF\0\0\n", 0o755),
    ] {
        let wiki = with_hook(text, mode);
        let before = picture(&folder(&wiki));
        install(&wiki);
        let once = picture(&folder(&wiki));
        assert_ne!(once, before);
        install(&wiki);
        assert_eq!(picture(&folder(&wiki)), once, "{text:?}");
        for _ in 0..2 {
            uninstall(&wiki);
            assert_eq!(picture(&folder(&wiki)), before, "{text:?}");
        }
    }
}

#[test]
fn a_hook_that_is_a_link_is_called_under_its_own_name_and_is_the_same_link_again() {
    let wiki = Wiki::small();
    let shared = wiki.root().join("tools/dispatch");
    put(
        &shared,
        "#!/bin/sh\n# not for us: exec x \"$0\"\necho \"${0##*/}\" >>\"$(git rev-parse --git-dir)/called\"\n",
        0o755,
    );
    symlink("../../tools/dispatch", folder(&wiki).join("post-commit")).unwrap();
    let before = picture(&folder(&wiki));
    install(&wiki);
    wiki.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    let called = fs::read_to_string(wiki.root().join(".git/called")).unwrap();
    assert_eq!(called, "post-commit\n");
    uninstall(&wiki);
    assert_eq!(picture(&folder(&wiki)), before);
}

#[test]
fn a_chained_hook_gets_arguments_and_stdin_and_its_exit_status_counts() {
    let wiki = Wiki::small();
    let text = "#!/bin/sh\n: exec \"$0\"\ncat >\"$(git rev-parse --git-dir)/stdin\"\necho \"$1\" told\nexit 7\n";
    for name in ["post-rewrite", "post-checkout"] {
        put(&folder(&wiki).join(name), text, 0o755);
    }
    install(&wiki);
    assert!(folder(&wiki).join("wiki-sync.d/post-rewrite").exists());
    let amended = wiki.try_git(&["commit", "-q", "--amend", "--allow-empty", "-m", "y"]);
    assert!(amended.err.contains("amend told"), "{}", amended.err);
    let stdin = fs::read_to_string(wiki.root().join(".git/stdin")).unwrap();
    assert_eq!(stdin.split_whitespace().count(), 2, "{stdin}");
    // Git makes 1 of it.
    assert_eq!(wiki.try_git(&["checkout", "-qb", "side"]).code, Some(1));
}

#[test]
fn the_users_exit_status_stays_and_ours_is_none() {
    let wiki = Wiki::small();
    put(
        &folder(&wiki).join("post-checkout"),
        "#!/bin/sh\necho mine\nexit 7\n",
        0o755,
    );
    install(&wiki);
    let checkout = wiki.try_git(&["checkout", "-qb", "side"]);
    // Git makes 1 of it.
    assert_eq!(checkout.code, Some(1));
    assert_eq!(checkout.err, "mine\n");
    fs::remove_file(folder(&wiki).join("post-checkout")).unwrap();
    install(&wiki);
    assert_eq!(wiki.try_git(&["checkout", "-q", "main"]).code, Some(0));
}

#[test]
fn a_hook_that_was_switched_off_stays_off() {
    let wiki = with_hook(
        "#!/bin/sh\ntouch \"$(git rev-parse --git-dir)/ran\"\n",
        0o644,
    );
    install(&wiki);
    wiki.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(!wiki.root().join(".git/ran").exists());
    assert_eq!(wiki.json(0, &["hooks", "status"])["runs"], true);
}

#[test]
fn lines_that_the_user_adds_to_a_file_of_ours_are_kept() {
    let wiki = Wiki::small();
    install(&wiki);
    let hook = folder(&wiki).join("post-commit");
    let text = fs::read_to_string(&hook).unwrap() + "echo added\n";
    fs::write(&hook, text).unwrap();
    install(&wiki);
    uninstall(&wiki);
    assert_eq!(
        fs::read_to_string(&hook).unwrap(),
        "#!/bin/sh\necho added\n"
    );
    assert!(!folder(&wiki).join("post-merge").exists());
}

#[test]
fn hooks_that_were_deleted_or_made_by_another_version_are_renewed() {
    let wiki = with_hook("#!/bin/sh\necho mine\n", 0o755);
    install(&wiki);
    let whole = picture(&folder(&wiki));
    fs::remove_file(folder(&wiki).join("post-merge")).unwrap();
    let hook = folder(&wiki).join("post-commit");
    let old = fs::read_to_string(&hook).unwrap();
    let from = old.find("if test").unwrap();
    let to = old.find("# <<<").unwrap();
    let old = old.replace(&old[from..to], "'/gone/wiki-sync' hook post-commit &\n");
    fs::write(&hook, old).unwrap();
    install(&wiki);
    assert_eq!(picture(&folder(&wiki)), whole);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let wiki = with_hook("#!/bin/sh\necho mine\n", 0o755);
    let before = picture(&folder(&wiki));
    let planned = wiki.json(0, &["hooks", "install", "--dry-run"]);
    assert_eq!(planned["hooks"][0]["act"], "changed");
    assert_eq!(planned["hooks"][1]["act"], "created");
    assert_eq!(picture(&folder(&wiki)), before);
    assert!(!wiki.root().join(".wiki-sync").exists());
    install(&wiki);
    let whole = picture(&folder(&wiki));
    let told = wiki.ws(&["hooks", "uninstall", "--dry-run"]).code(0).out;
    assert!(told.contains("would") && told.contains("removed"), "{told}");
    assert_eq!(picture(&folder(&wiki)), whole);
}

#[test]
fn the_path_of_the_program_may_hold_anything_but_a_line_break() {
    let mut wiki = Wiki::small();
    wiki.env.insert(UNHURRIED.0.into(), UNHURRIED.1.into());
    let program = wiki.root().join("../it's $HOME \"in\" \\ `here`/wiki-sync");
    fs::create_dir(program.parent().unwrap()).unwrap();
    symlink(env!("CARGO_BIN_EXE_wiki-sync"), &program).unwrap();
    wiki.drain();
    let done = wiki.other(&program).args(["hooks", "install"]).output();
    assert!(done.unwrap().status.success());
    let status = wiki.json(0, &["hooks", "status"]);
    let told = status["hooks"][0]["program"].as_str().unwrap();
    assert!(
        told.ends_with("/it's $HOME \"in\" \\ `here`/wiki-sync"),
        "{told}"
    );
    assert_eq!(status["runs"], true, "{status}");
    wiki.write("wiki-output/b.md", "# New\n");
    wiki.git(&["commit", "-qam", "x"]);
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], 1);
}

/// Lets a hook take the time that a busy machine needs.
pub(crate) const UNHURRIED: (&str, &str) = ("WIKI_SYNC_TEST_UNHURRIED", "1");

/// Installing is refused, with exit code 4 and all of these words, and nothing is written anywhere.
#[track_caller]
fn assert_refused(wiki: &Wiki, words: &[&str]) {
    let parent = wiki.root().parent().unwrap().to_owned();
    let before = picture(&parent);
    let refused = wiki.ws(&["hooks", "install"]).code(4);
    for word in words {
        assert!(refused.err.contains(word), "{word}: {}", refused.err);
    }
    assert_eq!(picture(&parent), before);
    assert_eq!(wiki.ws(&["hooks", "install", "--force"]).code, Some(2));
}

#[test]
fn a_hooks_path_of_any_scope_is_refused_with_key_value_scope_and_file() {
    let wiki = Wiki::small();
    wiki.git(&["config", "core.hooksPath", "./nope"]);
    assert_refused(
        &wiki,
        &[
            "core.hooksPath",
            "./nope",
            "scope local",
            ".git/config",
            "--unset",
        ],
    );

    let wiki = Wiki::small();
    wiki.git(&["config", "extensions.worktreeConfig", "true"]);
    wiki.git(&["config", "--worktree", "core.hooksPath", "wt"]);
    assert_refused(&wiki, &["wt", "scope worktree", "config.worktree"]);

    let wiki = Wiki::small();
    put(
        &wiki.root().join("../home/gh/post-commit"),
        "#!/bin/sh\n",
        0o755,
    );
    wiki.git(&["config", "--global", "core.hooksPath", "~/gh"]);
    assert_refused(&wiki, &["~/gh", "scope global", ".gitconfig"]);

    let mut wiki = Wiki::small();
    wiki.env.insert("GIT_CONFIG_COUNT".into(), "1".into());
    wiki.env
        .insert("GIT_CONFIG_KEY_0".into(), "core.hooksPath".into());
    wiki.env
        .insert("GIT_CONFIG_VALUE_0".into(), "/dev/null".into());
    assert_refused(&wiki, &["/dev/null", "scope command"]);

    let mut wiki = Wiki::small();
    let system = wiki.root().join("../system");
    fs::write(&system, "[core]\n\thooksPath = /all/hooks\n").unwrap();
    wiki.env.insert("GIT_CONFIG_NOSYSTEM".into(), "0".into());
    wiki.env
        .insert("GIT_CONFIG_SYSTEM".into(), system.display().to_string());
    assert_refused(&wiki, &["/all/hooks", "scope system"]);
}

#[test]
fn other_managers_are_left_alone_and_get_the_lines_to_paste() {
    let wiki = Wiki::small();
    put(
        &wiki.root().join(".husky/_/post-commit"),
        "#!/bin/sh\n",
        0o755,
    );
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    assert_refused(&wiki, &["add to .husky/post-commit: ", "hook post-commit"]);

    let wiki = Wiki::small();
    wiki.write("lefthook.yml", "");
    wiki.git(&["config", "core.hooksPath", ".lefthook"]);
    assert_refused(
        &wiki,
        &["lefthook.yml", "post-merge: {commands: {wiki-sync: {run: "],
    );

    let wiki = Wiki::small();
    put(
        &wiki.root().join(".githooks/post-commit"),
        "#!/bin/sh\n",
        0o755,
    );
    wiki.git(&["config", "core.hooksPath", ".githooks"]);
    assert_refused(&wiki, &["add to .githooks/post-commit: "]);
}

#[test]
fn the_line_to_paste_announces_as_the_hook_does() {
    let mut wiki = Wiki::small();
    wiki.env.insert(UNHURRIED.0.into(), UNHURRIED.1.into());
    wiki.drain();
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    let refused = wiki.ws(&["hooks", "install"]).code(4).err;
    let mark = "add to .husky/post-commit: ";
    let line = refused
        .lines()
        .find_map(|line| line.split_once(mark))
        .unwrap()
        .1;
    put(
        &wiki.root().join(".husky/_/post-commit"),
        format!("#!/bin/sh\n{line}\n"),
        0o755,
    );
    wiki.write("wiki-output/b.md", "# New\n");
    wiki.git(&["commit", "-qam", "x"]);
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], 1);
}

#[test]
fn the_line_to_paste_never_fails_and_leaves_a_hint_where_its_program_is_gone() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    let hints = wiki.json(0, &["hooks", "status"])["hints"].clone();
    let hint = hints[0].as_str().unwrap();
    let line = hint.split_once(": ").unwrap().1;
    let gone = line.replace(env!("CARGO_BIN_EXE_wiki-sync"), "/no/such/wiki-sync");
    let run = |state: bool| {
        let mut shell = wiki.other(std::path::Path::new("sh"));
        let folder = wiki.root().join(if state { "" } else { "wiki-output" });
        shell
            .current_dir(folder)
            .args(["-eu", "-c", &format!("{gone}\necho on")]);
        let ran = shell.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (said(&ran.stdout), said(&ran.stderr))
    };
    let on = ("on\n".to_owned(), String::new());
    assert_eq!(run(true), on);
    assert!(wiki.root().join(".wiki-sync/hint.post-commit").exists());
    assert_eq!(run(false), on, "where there is no state");
}

#[test]
fn a_hooks_path_that_leads_to_the_repositorys_own_folder_is_no_obstacle() {
    let wiki = Wiki::small();
    wiki.git(&["config", "core.hooksPath", ".git/hooks"]);
    install(&wiki);
    assert_eq!(wiki.json(0, &["hooks", "status"])["runs"], true);
}

#[test]
fn a_folder_of_hooks_that_is_a_link_to_elsewhere_is_refused() {
    let wiki = Wiki::small();
    fs::remove_dir_all(folder(&wiki)).unwrap();
    put(
        &wiki.root().join("shared/post-commit"),
        "#!/bin/sh\n",
        0o755,
    );
    symlink("../shared", folder(&wiki)).unwrap();
    assert_refused(&wiki, &["is a link to"]);
}

#[test]
fn from_a_linked_work_tree_the_shared_folder_is_used_and_a_path_that_is_not_there_is_refused() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.git(&["worktree", "add", "-q", "../linked"]);
    let linked = wiki.root().join("../linked");
    let at = linked.to_str().unwrap();
    wiki.ws(&["-C", at, "hooks", "install"]).code(0);
    let whole = picture(&folder(&wiki));
    install(&wiki);
    assert_eq!(picture(&folder(&wiki)), whole, "one block for both");
    assert!(!wiki.root().join(".git/worktrees/linked/hooks").exists());
    wiki.ws(&["-C", at, "hooks", "uninstall"]).code(0);
    wiki.git(&["config", "core.hooksPath", "./nope"]);
    let refused = wiki.ws(&["-C", at, "hooks", "install"]).code(4).err;
    assert!(refused.contains("core.hooksPath"), "{refused}");
    assert!(!linked.join("nope").exists());
}

#[test]
fn many_installs_at_once_leave_one_block_and_the_users_hook() {
    let wiki = with_hook("#!/usr/bin/awk -f\nBEGIN { exit }\n", 0o755);
    let before = picture(&folder(&wiki));
    let runs: Vec<_> = (0..6)
        .map(|_| wiki.binary().args(["hooks", "install"]).spawn().unwrap())
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    for name in NAMES {
        let text = fs::read_to_string(folder(&wiki).join(name)).unwrap();
        assert_eq!(text.matches("# >>> wiki-sync >>>").count(), 1, "{text}");
    }
    uninstall(&wiki);
    assert_eq!(picture(&folder(&wiki)), before);
}

#[test]
fn killed_at_any_step_of_an_install_the_users_hook_is_never_lost() {
    for point in ["hooks.aside", "hooks.step", "hooks.step#3"] {
        let wiki = with_hook("#!/usr/bin/awk -f\nBEGIN { exit }\n", 0o755);
        let before = picture(&folder(&wiki));
        assert!(wiki.killed_at(point, &["hooks", "install"]), "{point}");
        install(&wiki);
        assert_eq!(wiki.json(0, &["hooks", "status"])["runs"], true);
        uninstall(&wiki);
        assert_eq!(picture(&folder(&wiki)), before, "{point}");
    }
}

#[test]
fn uninstall_works_also_where_everything_is_gone() {
    let wiki = Wiki::small();
    install(&wiki);
    fs::remove_dir_all(wiki.root().join("wiki-output")).unwrap();
    uninstall(&wiki);
    assert!(!folder(&wiki).join("post-commit").exists());
    fs::remove_dir_all(folder(&wiki)).unwrap();
    uninstall(&wiki);
    assert!(!folder(&wiki).exists());
    assert_eq!(wiki.json(0, &["hooks", "status"])["installed"], false);
}

#[test]
fn what_is_in_the_way_is_told_before_anything_is_touched() {
    let wiki = Wiki::small();
    fs::create_dir(folder(&wiki).join("post-merge")).unwrap();
    assert_refused(&wiki, &["post-merge is no file"]);
    let wiki = with_hook("#!/bin/sh\n# >>> wiki-sync >>> torn\necho\n", 0o755);
    assert_refused(&wiki, &["holds half a block"]);
    let wiki = Wiki::small();
    fs::remove_dir_all(folder(&wiki)).unwrap();
    fs::write(folder(&wiki), "").unwrap();
    let failed = wiki.ws(&["hooks", "install"]).code(1);
    assert!(failed.err.contains("caused by:"), "{}", failed.err);
}

#[test]
fn init_installs_the_hooks_and_a_refusal_does_not_stop_it() {
    let wiki = Wiki::small();
    let told = wiki.ws(&["init"]).code(0).out;
    assert!(told.contains("made  git hooks"), "{told}");
    assert_eq!(wiki.json(0, &["status"])["hooks"]["runs"], true);
    assert!(wiki.ws(&["init"]).code(0).out.contains("kept  git hooks"));

    let wiki = Wiki::small();
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    let told = wiki.ws(&["init"]).code(0);
    assert!(
        told.err.contains("add to .husky/post-commit: "),
        "{}",
        told.err
    );
    assert!(wiki.root().join("wiki-sync.toml").exists());
}

#[test]
fn status_says_why_git_would_not_run_a_hook() {
    let wiki = Wiki::small();
    let why = || {
        let status = wiki.json(0, &["status"])["hooks"].clone();
        let hooks = status["hooks"].as_array().unwrap().clone();
        let why = hooks.iter().find_map(|hook| hook["why"].as_str());
        (status["runs"] == true, why.unwrap_or_default().to_owned())
    };
    assert_eq!(why(), (false, String::new()));
    install(&wiki);
    assert_eq!(why(), (true, String::new()));
    let hook = folder(&wiki).join("post-merge");
    let whole = fs::read_to_string(&hook).unwrap();

    put(&hook, &whole, 0o644);
    assert!(why().1.contains("not executable"));
    put(
        &hook,
        whole.replace("#!/bin/sh\n", "#!/bin/sh\nexit 0\n"),
        0o755,
    );
    assert!(why().1.contains("above ours"));
    put(&hook, whole.replace("#!/bin/sh\n", "#!/no/sh\n"), 0o755);
    assert!(why().1.contains("/no/sh is not there"));
    put(
        &hook,
        whole.replace(env!("CARGO_BIN_EXE_wiki-sync"), "/no/ws"),
        0o755,
    );
    assert!(why().1.contains("/no/ws does not start"));
    put(
        &hook,
        whole.replace(env!("CARGO_BIN_EXE_wiki-sync"), "/bin/true"),
        0o755,
    );
    assert!(why().1.contains("/bin/true is no wiki-sync"));
    put(&hook, &whole, 0o755);
    wiki.git(&["config", "core.hooksPath", "else"]);
    let (runs, told) = why();
    assert!(!runs && told.contains("core.hooksPath"), "{told}");
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(told.contains("not all of them run"), "{told}");
}

#[test]
fn where_git_looks_elsewhere_status_says_where_and_what_to_paste() {
    let wiki = Wiki::small();
    for event in ["post-commit", "post-merge"] {
        put(
            &wiki.root().join(".husky/_").join(event),
            "#!/usr/bin/env sh\n. \"$(dirname \"$0\")/h\"",
            0o755,
        );
    }
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    let told = wiki.ws(&["hooks", "status"]).code(0).out;
    for word in [
        "core.hooksPath = \".husky/_\"",
        "repo/.husky/_\n",
        "hint: add to .husky/post-commit: ",
        "--unset core.hooksPath",
        "/post-commit; whether that calls wiki-sync cannot be told",
        "/post-rewrite, which is not there",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("install` does it"), "{told}");
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(
        told.contains("hooks    not installed: core.hooksPath"),
        "{told}"
    );
}

#[test]
fn a_line_that_was_pasted_for_another_manager_is_seen() {
    let wiki = Wiki::small();
    let husky = wiki.root().join(".husky");
    wiki.git(&["config", "core.hooksPath", ".husky/_"]);
    let hints = wiki.json(0, &["hooks", "status"])["hints"].clone();
    let state = |event: usize| {
        let status = wiki.json(0, &["hooks", "status"]);
        let hook = status["hooks"][event].clone();
        (hook["runs"] == true, status["runs"] == true)
    };
    for (at, event) in [
        "post-commit",
        "post-merge",
        "post-checkout",
        "post-rewrite",
        "post-applypatch",
    ]
    .into_iter()
    .enumerate()
    {
        let hint = hints[at].as_str().unwrap();
        let line = hint.split_once(": ").unwrap().1;
        let program = env!("CARGO_BIN_EXE_wiki-sync").len();
        assert!(line.len() - program < 130, "a person pastes it: {line}");
        put(&husky.join(event), format!("npm test\n# {line}\n"), 0o644);
        put(&husky.join("_").join(event), "#!/bin/sh\n. h\n", 0o755);
        assert_eq!(state(at), (false, false), "a comment: {event}");
        put(&husky.join(event), format!("npm test\n{line}\n"), 0o644);
        assert_eq!(state(at), (true, at == 4), "{event}");
    }
    let told = wiki.ws(&["hooks", "status"]).code(0).out;
    assert!(told.contains("by a line in"), "{told}");
    // As earlier versions told it.
    let program = env!("CARGO_BIN_EXE_wiki-sync");
    let older = format!(
        "{{ (unset GIT_DIR GIT_INDEX_FILE; export IN_WIKI_SYNC_HOOK=1; exec '{program}' hook post-commit) || true >>.wiki-sync/hint.post-commit || :; }} </dev/null >/dev/null 2>&1"
    );
    put(
        &husky.join("post-commit"),
        format!("npm test\n{older}\n"),
        0o644,
    );
    assert_eq!(state(0), (true, true), "an older line");
    assert!(!told.contains("hint: "), "{told}");
    put(&husky.join("_/post-merge"), "#!/bin/sh\n. h\n", 0o644);
    assert_eq!(state(1), (false, false));
}

#[test]
fn hooks_that_are_switched_off_are_told_so() {
    for value in ["/dev/null", ""] {
        let wiki = Wiki::small();
        wiki.git(&["config", "core.hooksPath", value]);
        assert_refused(&wiki, &["hooks are switched off there", "--unset"]);
        let refused = wiki.ws(&["hooks", "install"]).code(4).err;
        assert!(!refused.contains("add to"), "{refused}");
        for args in [&["hooks", "status"][..], &["status"]] {
            let told = wiki.ws(args).code(0).out;
            assert!(told.contains("hooks are switched off there"), "{told}");
            assert!(!told.contains("add to"), "{told}");
        }
    }
}
