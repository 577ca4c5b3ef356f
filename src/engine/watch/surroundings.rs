//! What git is doing beside us, seen from a few stats: so a `checkout` under way is not taken for an edit, what waits for
//! git goes on when git is free, and a HEAD that somebody else moved is looked at.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What stands in the git folder while an operation is under way.
const OPERATIONS: [&str; 6] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
];

/// A file's stat: modification time, size, inode.
type Mark = Option<(i64, i64, u64, u64)>;

/// How git stood at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Look {
    /// The commit that HEAD leads to, in hex; what HEAD says where that is not to be found.
    pub(super) head: String,
    index: Mark,
    /// The configuration's files: who commits may stand in them now.
    config: Vec<Mark>,
    /// Whether somebody is about to write the index.
    pub(super) locked: bool,
    /// Whether an operation is under way.
    pub(super) busy: bool,
}

/// The git folder of a checkout.
#[derive(Debug)]
pub(super) struct Git {
    dir: PathBuf,
    common: PathBuf,
    /// Where git's configuration is, there or not.
    config: Vec<PathBuf>,
}

impl Git {
    /// Finds the git folder of the work tree at `root`; `None` where there is none.
    /// `config`: where its configuration is beside that of the repository.
    pub(super) fn of(root: &Path, config: &[PathBuf]) -> Option<Self> {
        let dot = root.join(".git");
        let dir = if fs::symlink_metadata(&dot).ok()?.is_dir() {
            dot
        } else {
            let text = fs::read_to_string(&dot).ok()?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = match fs::read_to_string(dir.join("commondir")) {
            Ok(common) => dir.join(common.trim()),
            Err(_) => dir.clone(),
        };
        let own = [common.join("config"), dir.join("config.worktree")];
        let config = own.into_iter().chain(config.iter().cloned()).collect();
        Some(Self {
            dir,
            common,
            config,
        })
    }

    /// Looks how git stands now.
    pub(super) fn look(&self) -> Look {
        Look {
            head: self.head(),
            index: mark(&self.dir.join("index")),
            config: self.config.iter().map(|path| mark(path)).collect(),
            locked: self.is_there("index.lock")
                || self.is_there("HEAD.lock")
                || self.is_branch_locked(),
            busy: OPERATIONS.iter().any(|name| self.is_there(name)),
        }
    }

    fn is_there(&self, name: &str) -> bool {
        fs::symlink_metadata(self.dir.join(name)).is_ok()
    }

    fn is_branch_locked(&self) -> bool {
        let head = fs::read_to_string(self.dir.join("HEAD")).unwrap_or_default();
        let branch = head.trim().strip_prefix("ref: ");
        branch.is_some_and(|branch| self.common.join(format!("{branch}.lock")).exists())
    }

    fn head(&self) -> String {
        let head = fs::read_to_string(self.dir.join("HEAD")).unwrap_or_default();
        let head = head.trim();
        let Some(branch) = head.strip_prefix("ref: ") else {
            return head.into();
        };
        match fs::read_to_string(self.common.join(branch)) {
            Ok(commit) => commit.trim().into(),
            // A branch without a file of its own: in the packed ones, or not born yet.
            Err(_) => format!("{branch} {:?}", mark(&self.common.join("packed-refs"))),
        }
    }
}

fn mark(path: &Path) -> Mark {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.mtime(), meta.mtime_nsec(), meta.size(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_person_does_about_a_refusal_shows() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at(".git/refs/heads")).expect("folders");
        fs::write(at(".git/HEAD"), "ref: refs/heads/main\n").expect("written");
        let git = Git::of(root.path(), &[at("home")]).expect("a repository");
        let mut before = git.look();
        // Who commits: here, and for all repositories. What was in the way: a merge, a lock.
        for path in [
            ".git/config",
            "home",
            ".git/MERGE_HEAD",
            ".git/index.lock",
            ".git/refs/heads/main.lock",
        ] {
            for is_there in [true, false] {
                if is_there {
                    fs::write(at(path), "x").expect("written");
                } else {
                    fs::remove_file(at(path)).expect("removed");
                }
                let now = git.look();
                assert_ne!(now, before, "{path}: {is_there}");
                before = now;
            }
        }
    }
}
