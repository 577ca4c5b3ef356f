//! Where the wiki is: from the folder we start in upward.

use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};

use super::error::CommandError;
use super::exit::Exit;
use crate::config::FILE_NAME;
use crate::stores::git::work_tree;

/// The folder that page paths are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    /// Absolute, without symbolic links.
    pub(crate) path: PathBuf,
    /// Whether it is the root of a git work tree.
    pub(crate) git: bool,
}

/// Finds the root: the work tree's that `start` is in, else the nearest folder upward that holds
/// `wiki-sync.toml` or the pages' folder. A linked work tree has its own root. `None` where there is none.
///
/// # Errors
/// Exit code 4 in a bare repository and in one that git would not trust.
pub(crate) fn find(start: &Path, pages: &str) -> Result<Option<Root>, CommandError> {
    match Repository::discover(start) {
        Ok(repository) => match work_tree(&repository, start) {
            Some(tree) => canonical(&tree).map(|path| Some(Root { path, git: true })),
            None if !repository.is_bare() => Err(CommandError::new(format!(
                "{} is a git folder whose work tree is elsewhere",
                repository.path().display()
            ))
            .exit(Exit::Refused)
            .hint("run wiki-sync in the folder that holds the pages")),
            None => Err(CommandError::new(format!(
                "{} is a bare repository: it has no pages on disk",
                repository.path().display()
            ))
            .exit(Exit::Refused)
            .hint("run wiki-sync in a work tree of it; `git worktree add DIR` makes one")),
        },
        Err(e) if e.code() == ErrorCode::NotFound => without_git(start, pages),
        Err(e) if e.code() == ErrorCode::Owner => Err(CommandError::caused(
            "the repository belongs to another user",
            &e,
        )
        .exit(Exit::Refused)
        .hint("if you trust it: git config --global --add safe.directory DIR")),
        // There is a repository that libgit2 cannot open (SHA-256, reftable): graph and vectors are served,
        // and the git store says what is wrong with it.
        Err(e) => match upward(start, |folder| folder.join(".git").exists()) {
            Some(folder) => canonical(folder).map(|path| Some(Root { path, git: true })),
            None => Err(CommandError::caused("cannot look for a git repository", &e)),
        },
    }
}

fn without_git(start: &Path, pages: &str) -> Result<Option<Root>, CommandError> {
    let found = upward(start, |folder| {
        folder.join(FILE_NAME).is_file() || folder.join(pages).is_dir()
    });
    match found {
        Some(folder) => canonical(folder).map(|path| Some(Root { path, git: false })),
        None => Ok(None),
    }
}

fn upward(start: &Path, mut is_it: impl FnMut(&Path) -> bool) -> Option<&Path> {
    start.ancestors().find(|folder| is_it(folder))
}

fn canonical(folder: &Path) -> Result<PathBuf, CommandError> {
    folder
        .canonicalize()
        .map_err(|e| CommandError::caused(format!("cannot look at {}", folder.display()), &e))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let path = temp.path().canonicalize().expect("it exists");
        (temp, path)
    }

    fn found(start: &Path) -> Option<Root> {
        find(start, "wiki-output").expect("no error")
    }

    #[test]
    fn a_work_tree_is_the_root_from_any_folder_in_it() {
        let (_temp, path) = folder();
        Repository::init(&path).expect("a repository");
        let deep = path.join("wiki-output/a/b");
        fs::create_dir_all(&deep).expect("folders");
        let root = Some(Root { path, git: true });
        assert_eq!(found(&deep), root);
    }

    #[test]
    fn a_linked_work_tree_has_its_own_root() {
        let (_temp, path) = folder();
        let main = Repository::init(path.join("main")).expect("a repository");
        let who = git2::Signature::now("T", "t@example.invalid").expect("a name");
        let tree = main.treebuilder(None).and_then(|tree| tree.write());
        let tree = main.find_tree(tree.expect("written")).expect("a tree");
        main.commit(Some("HEAD"), &who, &who, "start", &tree, &[])
            .expect("a commit");
        let linked = path.join("linked");
        main.worktree("linked", &linked, None).expect("a work tree");
        let root = Some(Root {
            path: linked.clone(),
            git: true,
        });
        assert_eq!(found(&linked), root);
    }

    #[test]
    fn a_bare_repository_is_refused() {
        let (_temp, path) = folder();
        Repository::init_bare(&path).expect("a repository");
        let error = find(&path, "wiki-output").expect_err("refused");
        assert_eq!(error.exit, Exit::Refused);
        assert!(error.error.contains("is a bare repository"), "{error:?}");
    }

    #[test]
    fn without_git_the_settings_file_or_the_pages_mark_the_root() {
        let (_temp, path) = folder();
        assert_eq!(found(&path), None);
        let deep = path.join("x/y");
        fs::create_dir_all(&deep).expect("folders");
        fs::create_dir(path.join("wiki-output")).expect("a folder");
        let root = |path: &Path| {
            Some(Root {
                path: path.into(),
                git: false,
            })
        };
        assert_eq!(found(&deep), root(&path));
        fs::write(path.join("x/wiki-sync.toml"), "").expect("a file");
        assert_eq!(found(&deep), root(&path.join("x")));
    }
}
