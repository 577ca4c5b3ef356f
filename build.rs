//! Says which commit is built, for `--version`: from git, or from what `cargo package` wrote down, else nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What is built from, as far as the program behaves by it.
const SOURCES: [&str; 5] = ["src", "hooks", "build.rs", "Cargo.toml", "Cargo.lock"];

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let built = match from_git().or_else(from_package) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=WIKI_SYNC_VERSION={built}");
}

/// Returns the commit that the sources were checked out from, with its date, and whether they were changed since; `None`
/// where the sources are not the root of a work tree, such as within somebody else's.
fn from_git() -> Option<String> {
    if !Path::new(".git").exists() || !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    watch_head();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let commit = git(&[
        "show",
        "--no-patch",
        "--no-show-signature",
        "--abbrev=10",
        "--format=%h %cs",
        "HEAD",
    ])?;
    let mut status = vec!["status", "--porcelain", "--untracked-files=normal", "--"];
    status.extend(SOURCES);
    // Where that cannot be told, nothing false is said either.
    let is_changed = !git(&status)?.is_empty();
    Some(if is_changed {
        format!("{commit}, changed")
    } else {
        commit
    })
}

/// Lets this run again when HEAD moves. Its log is of this work tree alone; without one, all branches are looked at.
fn watch_head() {
    let place = |name| git(&["rev-parse", "--git-path", name]).filter(|at| Path::new(at).exists());
    let log = place("logs/HEAD");
    let others = if log.is_some() {
        [None, None]
    } else {
        ["refs/heads", "packed-refs"].map(place)
    };
    for at in [place("HEAD"), log].into_iter().chain(others).flatten() {
        println!("cargo::rerun-if-changed={at}");
    }
}

/// Returns the commit that the package was made from.
fn from_package() -> Option<String> {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let note = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = note.split_once("\"sha1\"")?;
    let sha = rest.split('"').nth(1)?;
    let is_sha = sha.len() >= 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let changed = if note.contains("\"dirty\": true") {
        ", changed"
    } else {
        ""
    };
    is_sha.then(|| format!("{}{changed}", &sha[..10]))
}

/// Returns what git says, without the last line's end. What a hook or a shell has set must not lead it elsewhere.
fn git(args: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            git.env_remove(name);
        }
    }
    let said = git
        .args(args)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim_end().to_owned())
}
