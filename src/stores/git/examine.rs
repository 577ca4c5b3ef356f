//! A look at git and at the repository for `doctor`: nothing is changed, and no lock is taken.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::commit::remove_it;
use super::configured::Configured;
use super::message::author_of;
use super::program::Git;
use super::{GitSettings, GitStore, moving, repo};
use crate::model::{Failure, Finding};
use crate::state::StateDir;

/// The first version that tells whose setting a setting is, which the hooks need.
const OLDEST: (u32, u32) = (2, 26);

const STATE: &str = "git.state";
const ASK: &str = "see what `git status` says";
const INSTALL: &str = "install git, and see that it is in the PATH of wiki-sync";

/// Looks at the git command line, at who commits, and at what keeps the work tree at `root` from being committed to. Each
/// command of git's is given `within`.
#[must_use]
pub fn examine(
    root: &Path,
    state: &StateDir,
    settings: GitSettings,
    within: Duration,
) -> Vec<Finding> {
    let git = Git::at(root, within);
    let author = settings.author.clone();
    let mut found = vec![version(&git)];
    match repo::open(root) {
        Ok(repo) => {
            found.push(identity(&git, &repo, &author));
            found.extend(state_of(root, state, settings));
        }
        Err(failure) => found.push(Finding::of(STATE, &failure, ASK)),
    }
    found
}

fn version(git: &Git) -> Finding {
    const NAME: &str = "git";
    let said = match git.run(&["--version"]) {
        Ok(said) => String::from_utf8_lossy(&said).trim().to_owned(),
        Err(error) => {
            let failure = error.failure("cannot ask git for its version", INSTALL);
            return Finding::of(NAME, &failure, INSTALL);
        }
    };
    let is_old = number(&said).is_some_and(|version| version < OLDEST);
    if is_old {
        let (major, minor) = OLDEST;
        let what = format!("{said}: too old to tell where hooks are looked for");
        return Finding::warning(NAME, what, format!("install git {major}.{minor} or later"));
    }
    Finding::ok(NAME, said)
}

/// Returns the first two numbers of what `git --version` says.
fn number(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.strip_prefix("git version ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn identity(git: &Git, repo: &git2::Repository, author: &str) -> Finding {
    const NAME: &str = "git.identity";
    let who = Configured::read(git, repo)
        .and_then(|configured| repo::signatures(&configured, author_of(author)));
    match who {
        Ok((_, committer)) => {
            let name = String::from_utf8_lossy(committer.name_bytes()).into_owned();
            let mail = String::from_utf8_lossy(committer.email_bytes()).into_owned();
            Finding::ok(NAME, format!("{name} <{mail}>"))
        }
        Err(failure) => Finding::of(NAME, &failure, "see what `git config --list` says"),
    }
}

/// What is under way, and whose locks are there.
fn state_of(root: &Path, state: &StateDir, settings: GitSettings) -> Vec<Finding> {
    let mut store = match GitStore::open(root, state, settings) {
        Ok(store) => store,
        Err(failure) => return vec![Finding::of(STATE, &failure, ASK)],
    };
    let (notes, locks) = store.notes_and_locks();
    let mut found: Vec<_> = notes
        .iter()
        .map(|note| Finding::of(STATE, note, ASK))
        .collect();
    found.extend(
        locks
            .iter()
            .filter_map(|(lock, note)| whose(root, lock, note)),
    );
    if found.is_empty() {
        found.push(Finding::ok(STATE, "nothing is under way, no lock is left"));
    }
    found
}

/// Says of a lock whether anybody may hold it; nothing of one that is gone meanwhile.
fn whose(root: &Path, lock: &Path, note: &Failure) -> Option<Finding> {
    let running = moving::running_in(root);
    fs::symlink_metadata(lock).ok()?;
    let Failure { reason, .. } = note;
    if running.is_empty() {
        let what = format!("{reason}, and no git runs in this work tree: it was left behind");
        return Some(Finding::fault(STATE, what, remove_it(lock)));
    }
    let whose: Vec<_> = running
        .iter()
        .map(|(id, words)| format!("process {id} (`{words}`)"))
        .collect();
    let what = format!("{reason}; {} runs here", whose.join(", "));
    let hint = format!("wait for it to end; {}", remove_it(lock));
    Some(Finding::warning(STATE, what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_git_says() {
        for (said, version) in [
            ("git version 2.47.3", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 3.0.rc1", Some((3, 0))),
            ("fatal", None),
        ] {
            assert_eq!(number(said), version, "{said}");
        }
    }
}
