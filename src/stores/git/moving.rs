//! Git commands of the user's that run here at this moment and are about to move HEAD.
//!
//! Most of the time that they take they hold no lock (a hook of theirs runs, an editor is open, the network is asked), but they
//! fail at their end when HEAD is not where they read it. Where there is no `/proc`, nothing is seen of them, and git itself
//! keeps HEAD from being lost.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use git2::Repository;

use super::commit::Halt;
use super::repo;

/// What a `git commit` is called.
const COMMIT: &str = "a git commit";
/// The commands that move HEAD, and what to call them.
const COMMANDS: [(&str, &str); 10] = [
    ("commit", COMMIT),
    ("merge", "a git merge"),
    ("rebase", "a git rebase"),
    ("cherry-pick", "a git cherry-pick"),
    ("revert", "a git revert"),
    ("am", "git am"),
    ("pull", "a git pull"),
    ("checkout", "a git checkout"),
    ("switch", "a git switch"),
    ("reset", "a git reset"),
];
/// How much of a process's words is told, in characters.
const LONGEST: usize = 60;
/// Git's own options whose value is a word of its own.
const WITH_VALUE: [&[u8]; 9] = [
    b"-C",
    b"-c",
    b"--git-dir",
    b"--work-tree",
    b"--namespace",
    b"--super-prefix",
    b"--config-env",
    b"--attr-source",
    b"--exec-path",
];

/// Says whether a commit runs here whose message may be open: our own caller's too.
pub(super) fn is_committing(repo: &Repository) -> bool {
    commands(repo).any(|(name, _)| name == COMMIT)
}

/// Returns what a command is called that runs here now and moves HEAD at its end. One that this process runs because of, from
/// a hook say, has moved it, and waits for us.
pub(super) fn passing(repo: &Repository) -> Option<&'static str> {
    let mut ancestors = None;
    let mut others = commands(repo).filter(|(_, id)| {
        let ancestors = ancestors.get_or_insert_with(ancestors_of_ours);
        !ancestors.contains(id)
    });
    others.next().map(|(name, _)| name)
}

/// Says why HEAD is to be left where it is. What passes soon is waited for as a lock is.
pub(super) fn check_still(repo: &Repository) -> Result<(), Halt> {
    if let Some(operation) = repo::operation(repo) {
        return Err(Halt::Fail(repo::waits_for(operation)));
    }
    match passing(repo) {
        Some(name) => Err(Halt::Again(repo::waits_for(name))),
        None => Ok(()),
    }
}

/// Returns the commands that run in the repository's work tree (git goes to its top first) with their processes.
fn commands(repo: &Repository) -> impl Iterator<Item = (&'static str, u32)> {
    let root = repo.workdir().and_then(|root| fs::canonicalize(root).ok());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let path = process.path();
        let cwd = fs::read_link(path.join("cwd")).ok()?;
        if Some(&cwd) != root.as_ref() {
            return None;
        }
        let name = moves_head(&fs::read(path.join("cmdline")).ok()?)?;
        Some((name, id))
    })
}

/// Returns the processes of git's programs that run in the work tree at `root` or below it, each with its words. Those that
/// this process started are none of them.
pub(super) fn running_in(root: &Path) -> Vec<(u32, String)> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let git = processes.filter_map(|process| {
        let id: u32 = process.file_name().to_str()?.parse().ok()?;
        let path = process.path();
        let cwd = fs::read_link(path.join("cwd")).ok()?;
        if !cwd.starts_with(&root) || parent_of(id) == Some(std::process::id()) {
            return None;
        }
        let line = fs::read(path.join("cmdline")).ok()?;
        let program = line.split(|&byte| byte == 0).next()?;
        let program = program.rsplit(|&byte| byte == b'/').next()?;
        let words = String::from_utf8_lossy(&line).replace('\0', " ");
        (program == b"git" || program.starts_with(b"git-"))
            .then(|| (id, words.trim_end().chars().take(LONGEST).collect()))
    });
    git.collect()
}

/// Returns what a process's words call, where that is a git command that moves HEAD.
fn moves_head(line: &[u8]) -> Option<&'static str> {
    let mut words = line.split(|&byte| byte == 0);
    let program = words.next()?.rsplit(|&byte| byte == b'/').next()?;
    let called = |word: &[u8]| {
        let found = COMMANDS.iter().find(|(name, _)| name.as_bytes() == word);
        found.map(|(_, about)| *about)
    };
    if let Some(command) = program.strip_prefix(b"git-") {
        return called(command);
    }
    if program != b"git" {
        return None;
    }
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with(b"-") {
            return called(word);
        }
    }
    None
}

/// Returns the processes that this one descends from.
fn ancestors_of_ours() -> HashSet<u32> {
    let mut found = HashSet::new();
    let mut id = std::process::id();
    while let Some(parent) = parent_of(id)
        && found.insert(parent)
    {
        id = parent;
    }
    found
}

fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
    // The program's name, in brackets, may hold anything.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    (parent != 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_moves_head_is_known_by_its_words() {
        for (line, is) in [
            ("git commit -m x", Some("a git commit")),
            (
                "/usr/lib/git-core/git -C /x -c a.b=commit pull",
                Some("a git pull"),
            ),
            ("git --no-pager --git-dir=x am", Some("git am")),
            ("/usr/libexec/git-core/git-merge x", Some("a git merge")),
            ("git log commit", None),
            ("git -c commit status", None),
            ("legit commit", None),
            ("git", None),
            ("", None),
        ] {
            let words = line.replace(' ', "\0");
            assert_eq!(moves_head(words.as_bytes()), is, "{line}");
        }
    }

    #[test]
    fn the_processes_that_started_this_one_are_known() {
        let parent = std::os::unix::process::parent_id();
        assert!(ancestors_of_ours().contains(&parent));
        assert!(!ancestors_of_ours().contains(&std::process::id()));
    }
}
