//! Which folder is a repository's work tree: as git says it, which libgit2 does not where the git folder is kept elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{ConfigLevel, Repository, RepositoryOpenFlags};

/// Returns the work tree of the repository that was found from `start` upward: where its own configuration or a linked work
/// tree's link says, else the folder that holds `.git`, be it a folder, a file or a link. None in a bare repository, and
/// inside a git folder that nothing above names.
#[must_use]
pub fn work_tree(repo: &Repository, start: &Path) -> Option<PathBuf> {
    let by_libgit2 = repo.workdir()?;
    if is_told(repo) {
        return Some(by_libgit2.to_path_buf());
    }
    let start = fs::canonicalize(start).ok()?;
    let git_dir = fs::canonicalize(repo.path()).ok()?;
    let nobody: [&std::ffi::OsStr; 0] = [];
    let holder = start.ancestors().find(|folder| {
        fs::symlink_metadata(folder.join(".git")).is_ok()
            && Repository::open_ext(folder, RepositoryOpenFlags::NO_SEARCH, nobody)
                .is_ok_and(|held| fs::canonicalize(held.path()).is_ok_and(|held| held == git_dir))
    });
    holder.map(Path::to_path_buf)
}

/// Lets everything that libgit2 does be done in `root`, which holds `.git`, unless another work tree is told.
///
/// # Errors
/// When the folder cannot be used.
pub(super) fn settle(repo: &Repository, root: &Path) -> Result<(), git2::Error> {
    if repo.is_bare() || is_told(repo) {
        return Ok(());
    }
    // Nothing is written: only this value's own idea of it changes.
    repo.set_workdir(root, false)
}

/// Says whether the work tree is named: by the link of a linked one, or by `core.worktree` of the repository's own.
fn is_told(repo: &Repository) -> bool {
    let configured = || {
        let config = repo.config()?;
        // Git takes it from the repository's own configuration only.
        let entry = config.get_entry("core.worktree")?;
        Ok::<_, git2::Error>(matches!(
            entry.level(),
            ConfigLevel::Local | ConfigLevel::Worktree
        ))
    };
    repo.is_worktree() || configured().unwrap_or(false)
}
