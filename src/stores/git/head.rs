//! The pages of HEAD, and how they differ from those of another time.

use std::cmp::Ordering;
use std::path::Path;

use git2::{ErrorCode, Oid, Repository, RepositoryState, Tree, TreeEntry};

use super::repo::{self, Head, git_failure};
use super::tree::{HeadTree, Held, mode_of};
use crate::model::{Failure, PagePath};

/// A path whose file differs, and what HEAD holds there now: the blob's id in hex, or nothing.
pub type Differs = (PagePath, Option<String>);

/// The pages' folder as HEAD holds it at one moment.
pub struct HeadPages {
    repo: Repository,
    pages_dir: String,
    commit: Option<Oid>,
    tree: Option<Oid>,
}

impl HeadPages {
    /// Reads HEAD of the repository whose work tree is `root`. Before the first commit it holds nothing.
    ///
    /// # Errors
    /// `Refused` where there is no repository that we can use, `Down` when it cannot be read.
    pub fn read(root: &Path, pages_dir: &str) -> Result<Self, Failure> {
        let repo = repo::open(root)?;
        let head = Head::read(&repo)?;
        let tree = pages_tree(&repo, head.commit, pages_dir)?;
        Ok(Self {
            repo,
            pages_dir: pages_dir.into(),
            commit: head.commit,
            tree,
        })
    }

    /// Says whether a rebase is under way: HEAD goes on moving.
    #[must_use]
    pub fn is_rebasing(&self) -> bool {
        matches!(
            self.repo.state(),
            RepositoryState::Rebase
                | RepositoryState::RebaseInteractive
                | RepositoryState::RebaseMerge
        )
    }

    /// Returns a text by which [`HeadPages::since`] knows this moment's pages again. Equal for equal pages.
    #[must_use]
    pub fn mark(&self) -> String {
        self.mark_of(self.tree)
    }

    /// Returns the mark of the pages so many commits before, by their first parents; `None` when there are not so many.
    ///
    /// # Errors
    /// `Down` when a commit cannot be read.
    pub fn mark_before(&self, commits: u64) -> Result<Option<String>, Failure> {
        let failed = |error: git2::Error| git_failure("cannot read HEAD's past", &error);
        let Some(mut at) = self.commit else {
            return Ok(None);
        };
        for left in (0..commits).rev() {
            match self.repo.find_commit(at).and_then(|one| one.parent_id(0)) {
                Ok(parent) => at = parent,
                // Before the first commit there are no pages.
                Err(error) if error.code() == ErrorCode::NotFound && left == 0 => {
                    return Ok(Some(self.mark_of(None)));
                }
                Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
        let tree = pages_tree(&self.repo, Some(at), &self.pages_dir)?;
        Ok(Some(self.mark_of(tree)))
    }

    fn mark_of(&self, tree: Option<Oid>) -> String {
        let tree = tree.unwrap_or(Oid::ZERO_SHA1);
        format!("{tree} {}", self.pages_dir)
    }

    /// Returns all files that differ from those of the moment that `mark` was made; without a mark, all that there are.
    /// `None` when those pages are not known any more: another folder's, or taken by `git gc`.
    ///
    /// # Errors
    /// `Down` when HEAD's own trees cannot be read.
    pub fn since(&self, mark: Option<&str>) -> Result<Option<Vec<Differs>>, Failure> {
        let before = match mark.map(|mark| self.known(mark)) {
            None => None,
            Some(Ok(before)) => before,
            Some(Err(Unknown)) => return Ok(None),
        };
        if before == self.tree {
            return Ok(Some(Vec::new()));
        }
        let mut differs = Vec::new();
        match self.compare(before, self.tree, &self.pages_dir, &mut differs) {
            Ok(()) => Ok(Some(differs)),
            Err(Lost::Before) => Ok(None),
            Err(Lost::Now(error)) => Err(git_failure("cannot compare HEAD's pages", &error)),
        }
    }

    /// Walks two folders side by side, in the order of git's trees. Whatever is the same in both is not gone into, which
    /// libgit2's own comparison does.
    fn compare(
        &self,
        before: Option<Oid>,
        now: Option<Oid>,
        folder: &str,
        found: &mut Vec<Differs>,
    ) -> Result<(), Lost> {
        let tree = |id: Option<Oid>| id.map(|id| self.repo.find_tree(id)).transpose();
        let before = tree(before).map_err(|_| Lost::Before)?;
        let now = tree(now).map_err(Lost::Now)?;
        let mut before = before.iter().flat_map(Tree::iter).map(Place::of).peekable();
        let mut now = now.iter().flat_map(Tree::iter).map(Place::of).peekable();
        loop {
            let order = match (before.peek(), now.peek()) {
                (Some(before), Some(now)) => before.name.cmp(&now.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(()),
            };
            let old = before.next_if(|_| order != Ordering::Greater);
            let new = now.next_if(|_| order != Ordering::Less);
            if old == new {
                continue;
            }
            // A name that is not UTF-8 is no page's name.
            let either = new.as_ref().or(old.as_ref());
            let Some(Ok(name)) = either.map(|place| std::str::from_utf8(&place.name)) else {
                continue;
            };
            let path = format!("{folder}/{}", name.trim_end_matches('/'));
            let id = |place: &Option<Place>, what| {
                let place = place.as_ref().filter(|place| place.what == what);
                place.map(|place| place.id)
            };
            if either.is_some_and(|place| place.what == What::Folder) {
                let (old, new) = (id(&old, What::Folder), id(&new, What::Folder));
                self.compare(old, new, &path, found)?;
                continue;
            }
            let (old, new) = (id(&old, What::File), id(&new, What::File));
            if old != new
                && let Ok(path) = PagePath::parse(&path)
            {
                found.push((path, new.map(|id| id.to_string())));
            }
        }
    }

    /// Returns the tree of a mark; none for a time without pages.
    fn known(&self, mark: &str) -> Result<Option<Oid>, Unknown> {
        let (tree, folder) = mark.split_once(' ').ok_or(Unknown)?;
        let tree = Oid::from_str(tree).map_err(|_| Unknown)?;
        if folder != self.pages_dir {
            return Err(Unknown);
        }
        Ok(Some(tree).filter(|tree| !tree.is_zero()))
    }
}

/// Returns the tree of the pages' folder in a commit.
fn pages_tree(
    repo: &Repository,
    commit: Option<Oid>,
    pages_dir: &str,
) -> Result<Option<Oid>, Failure> {
    let folder = HeadTree::open(repo, commit)?.at(pages_dir)?;
    Ok(folder.filter(|held| held.is_folder()).map(|held| held.id))
}

/// What stands in a tree.
#[derive(PartialEq, Eq)]
struct Place {
    /// Its name as git sorts by it: that of a folder ends in a slash.
    name: Vec<u8>,
    what: What,
    id: Oid,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Folder,
    File,
    /// A link or a submodule: no page.
    Other,
}

impl Place {
    // By value, as the iterator hands it over.
    #[allow(clippy::needless_pass_by_value)]
    fn of(entry: TreeEntry<'_>) -> Self {
        let held = Held {
            mode: mode_of(&entry),
            id: entry.id(),
        };
        let mut name = entry.name_bytes().to_vec();
        let what = if held.is_folder() {
            name.push(b'/');
            What::Folder
        } else if held.is_regular() {
            What::File
        } else {
            What::Other
        };
        Self {
            name,
            what,
            id: held.id,
        }
    }
}

/// A tree that is not there.
enum Lost {
    /// Of the time before: nobody needs it any more, and `git gc` may have taken it.
    Before,
    /// Of HEAD.
    Now(git2::Error),
}

/// The mark is of another folder, or none of ours.
struct Unknown;
