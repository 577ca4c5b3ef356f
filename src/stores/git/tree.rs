//! HEAD's tree, read path by path, and the tree of the next commit.

use std::collections::{BTreeMap, HashMap};

use git2::{Oid, Repository, Tree};

use super::index_entry::is_regular;
use super::repo::git_failure;
use crate::model::{Failure, FailureKind, PagePath};

const MODE_FOLDER: u32 = 0o040_000;

/// What a tree or the index says of a path: mode and object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) mode: u32,
    pub(super) id: Oid,
}

impl Held {
    pub(super) fn is_folder(self) -> bool {
        self.mode == MODE_FOLDER
    }

    pub(super) fn is_regular(self) -> bool {
        is_regular(self.mode)
    }
}

/// HEAD's tree. Folders are read once: libgit2 does not keep trees of more than 4 KiB.
pub(super) struct HeadTree<'r> {
    repo: &'r Repository,
    root: Option<Tree<'r>>,
    folders: HashMap<String, Option<Tree<'r>>>,
}

impl<'r> HeadTree<'r> {
    /// Opens a commit's tree; `None`, before the first commit, holds nothing.
    pub(super) fn open(repo: &'r Repository, commit: Option<Oid>) -> Result<Self, Failure> {
        let root = commit
            .map(|id| repo.find_commit(id).and_then(|commit| commit.tree()))
            .transpose()
            .map_err(read_failed)?;
        Ok(Self {
            repo,
            root,
            folders: HashMap::new(),
        })
    }

    pub(super) fn root(&self) -> Option<&Tree<'r>> {
        self.root.as_ref()
    }

    /// Returns what stands at a path.
    pub(super) fn at(&mut self, path: &str) -> Result<Option<Held>, Failure> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let entry = self.folder(folder)?.and_then(|tree| tree.get_name(name));
        Ok(entry.map(|entry| Held {
            mode: mode_of(&entry),
            id: entry.id(),
        }))
    }

    /// Returns a folder's tree, `None` when there is no such folder. The root is the empty path.
    pub(super) fn folder(&mut self, path: &str) -> Result<Option<&Tree<'r>>, Failure> {
        if path.is_empty() {
            return Ok(self.root.as_ref());
        }
        if !self.folders.contains_key(path) {
            let tree = match self.at(path)? {
                Some(held) if held.is_folder() => {
                    Some(self.repo.find_tree(held.id).map_err(read_failed)?)
                }
                _ => None,
            };
            self.folders.insert(path.to_owned(), tree);
        }
        Ok(self.folders[path].as_ref())
    }

    /// Calls `each` with every regular file below `folder`, in the order of the paths' bytes (which is
    /// the order of git's trees read in depth).
    pub(super) fn files(
        &mut self,
        folder: &str,
        each: &mut dyn FnMut(PagePath, Oid),
    ) -> Result<(), Failure> {
        let repo = self.repo;
        match self.folder(folder)? {
            Some(tree) => walk(repo, tree, folder, each),
            None => Ok(()),
        }
    }
}

fn walk(
    repo: &Repository,
    tree: &Tree<'_>,
    folder: &str,
    each: &mut dyn FnMut(PagePath, Oid),
) -> Result<(), Failure> {
    for entry in tree {
        // A name that is not UTF-8 is no page's name.
        let Ok(name) = entry.name() else { continue };
        let path = if folder.is_empty() {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        };
        let mode = mode_of(&entry);
        if mode == MODE_FOLDER {
            let below = repo.find_tree(entry.id()).map_err(read_failed)?;
            walk(repo, &below, &path, each)?;
        } else if is_regular(mode)
            && let Ok(path) = PagePath::parse(&path)
        {
            each(path, entry.id());
        }
    }
    Ok(())
}

/// Old repositories hold modes such as 100664, which count as 100644.
pub(super) fn mode_of(entry: &git2::TreeEntry<'_>) -> u32 {
    u32::try_from(entry.filemode()).unwrap_or(0)
}

// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
fn read_failed(error: git2::Error) -> Failure {
    git_failure("cannot read HEAD's tree", &error).hint("run `git fsck`")
}

/// What becomes of a path: a file of this mode and blob, or nothing.
pub(super) type Edit = Option<Held>;

/// Edits by path, below some folder.
type Edits<'p> = Vec<(&'p str, Edit)>;

/// Why no tree could be made of the edits.
#[derive(Debug)]
pub(super) enum TreeError {
    /// What stands at this path, or is to stand there, cannot be in the tree.
    Path {
        /// The page, or a folder on the way to it.
        path: String,
        /// `Rejected` for a name that git refuses, `Waiting` for a file and a folder of one name.
        kind: FailureKind,
        /// In git's words.
        why: String,
    },
    /// An object that was just written is gone again.
    Vanished,
    /// The repository failed.
    Repository(git2::Error),
}

/// Says whether the repository has all these objects, looking again rather than remembering.
pub(super) fn are_there(repo: &Repository, ids: &[Oid]) -> bool {
    repo.odb()
        .is_ok_and(|odb| odb.refresh().is_ok() && ids.iter().all(|&id| odb.exists(id)))
}

/// Writes the tree that is `tree` with the edits made, reading only the folders on the edits' paths;
/// returns `None` for a tree that would be empty. Trees written are added to `written`.
///
/// A folder gives way to a file only when the edits have emptied it, and a file to a folder only when the
/// edits take it away.
pub(super) fn write_tree(
    repo: &Repository,
    tree: Option<&Tree<'_>>,
    edits: &BTreeMap<&str, Edit>,
    written: &mut Vec<Oid>,
) -> Result<Option<Oid>, TreeError> {
    let edits: Edits<'_> = edits.iter().map(|(&path, &edit)| (path, edit)).collect();
    build(repo, tree, "", &edits, written)
}

fn build(
    repo: &Repository,
    tree: Option<&Tree<'_>>,
    folder: &str,
    edits: &[(&str, Edit)],
    written: &mut Vec<Oid>,
) -> Result<Option<Oid>, TreeError> {
    // By first part: what becomes of the part itself, and of what is below it.
    let mut parts: BTreeMap<&str, (Option<Edit>, Edits<'_>)> = BTreeMap::new();
    for &(path, edit) in edits {
        match path.split_once('/') {
            Some((part, rest)) => parts.entry(part).or_default().1.push((rest, edit)),
            None => parts.entry(path).or_default().0 = Some(edit),
        }
    }
    let mut builder = repo.treebuilder(tree).map_err(TreeError::Repository)?;
    for (part, (own, below)) in parts {
        let path = if folder.is_empty() {
            part.to_owned()
        } else {
            format!("{folder}/{part}")
        };
        let in_the_way = |why: &str| TreeError::Path {
            path: path.clone(),
            kind: FailureKind::Waiting,
            why: why.to_owned(),
        };
        let old = tree.and_then(|tree| tree.get_name(part)).map(|entry| Held {
            mode: mode_of(&entry),
            id: entry.id(),
        });
        let old_folder = match old {
            Some(held) if held.is_folder() => {
                Some(repo.find_tree(held.id).map_err(TreeError::Repository)?)
            }
            Some(_)
                if !below.is_empty()
                    && own != Some(None)
                    && below.iter().any(|e| e.1.is_some()) =>
            {
                return Err(in_the_way(
                    "a file of the same name is in the way of the folder",
                ));
            }
            Some(_) | None => None,
        };
        let kept_folder = if below.is_empty() {
            old_folder.as_ref().map(Tree::id)
        } else {
            build(repo, old_folder.as_ref(), &path, &below, written)?
        };
        let new = match (own.flatten(), kept_folder) {
            (Some(_), Some(_)) => {
                return Err(in_the_way(
                    "a folder of the same name is in the way of the file",
                ));
            }
            (Some(file), None) => Some(file),
            (None, Some(id)) => Some(Held {
                mode: MODE_FOLDER,
                id,
            }),
            // Nothing is left of a folder or of a file taken away; a file of which only things
            // below were to go (there are none) stays.
            (None, None) => old.filter(|held| !held.is_folder() && own.is_none()),
        };
        match new {
            Some(held) if Some(held) == old => {}
            Some(held) => {
                let mode = i32::try_from(held.mode).expect("modes are small");
                if let Err(error) = builder.insert(part, held.id, mode) {
                    // A prune beside us may have taken what nothing refers to yet: no fault of the name's.
                    if !are_there(repo, &[held.id]) {
                        return Err(TreeError::Vanished);
                    }
                    return Err(TreeError::Path {
                        path: path.clone(),
                        kind: FailureKind::Rejected,
                        why: error.message().to_owned(),
                    });
                }
            }
            None if old.is_some() => builder.remove(part).map_err(TreeError::Repository)?,
            None => {}
        }
    }
    if builder.is_empty() {
        return Ok(None);
    }
    let id = builder.write().map_err(TreeError::Repository)?;
    written.push(id);
    Ok(Some(id))
}
