//! What commits did to pages, newest first.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use git2::{Delta, ErrorCode, Oid, Repository, Sort, Tree};

use super::repo::{self, Head, git_failure};
use crate::model::{Failure, Timestamp};

/// What is asked of the history.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The pages' folder, relative to the root.
    pub pages_dir: &'a str,
    /// What a page's path begins with; empty for all.
    pub prefix: &'a str,
    /// The most commits to return.
    pub commits: usize,
    /// The most pages to name of each.
    pub pages: usize,
    /// The most commits to look at, and how long.
    pub looks: usize,
    /// How long to look at most.
    pub within: Duration,
}

/// Commits that changed pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The newest first.
    pub commits: Vec<PastCommit>,
    /// How many commits were looked at.
    pub looked: usize,
    /// Whether older ones may be there that were not looked at, or are wanted no more.
    pub cut: bool,
}

/// A commit that changed pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCommit {
    /// Its id, in hex.
    pub id: String,
    /// When it was made.
    pub at: Timestamp,
    /// Who wrote it.
    pub author: String,
    /// The first line of its message.
    pub subject: String,
    /// Pages, by path, with what became of them, as far as they are wanted.
    pub pages: Vec<(String, Became)>,
    /// How many pages it changed in all.
    pub total: usize,
}

/// What became of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It came.
    Added,
    /// It was changed.
    Changed,
    /// It went.
    Removed,
}

/// Returns the latest commits that changed pages, as seen from HEAD. Of a merge only what differs from each of its parents
/// counts. A moved page is one that went and one that came.
///
/// # Errors
/// `Refused` where there is no repository that we can use, `Down` when it cannot be read.
pub fn history(
    root: &Path,
    wanted: &Wanted<'_>,
    is_page: &dyn Fn(&str) -> bool,
) -> Result<History, Failure> {
    let failed = |e: git2::Error| git_failure("cannot read the history", &e);
    let repo = repo::open(root)?;
    let mut history = History::default();
    let Some(head) = Head::read(&repo)?.commit else {
        return Ok(history);
    };
    let mut walk = repo.revwalk().map_err(failed)?;
    walk.set_sorting(Sort::TIME).map_err(failed)?;
    walk.push(head).map_err(failed)?;
    let end = Instant::now() + wanted.within;
    for id in walk {
        let id = match id {
            Ok(id) => id,
            // The end of a shallow clone.
            Err(e) if e.code() == ErrorCode::NotFound => {
                history.cut = true;
                break;
            }
            Err(e) => return Err(failed(e)),
        };
        if history.commits.len() == wanted.commits
            || history.looked == wanted.looks
            || Instant::now() >= end
        {
            history.cut = true;
            break;
        }
        history.looked += 1;
        if let Some(commit) = look(&repo, id, wanted, is_page).map_err(failed)? {
            history.commits.push(commit);
        }
    }
    Ok(history)
}

/// Looks at a commit; nothing where it changed no page that is wanted.
fn look(
    repo: &Repository,
    id: Oid,
    wanted: &Wanted<'_>,
    is_page: &dyn Fn(&str) -> bool,
) -> Result<Option<PastCommit>, git2::Error> {
    let commit = repo.find_commit(id)?;
    let new = folder(repo, &commit.tree()?, wanted.pages_dir)?;
    let mut pages: Option<BTreeMap<String, Became>> = None;
    if commit.parent_count() == 0 {
        pages = Some(changed(repo, None, new.as_ref(), wanted, is_page)?);
    }
    for parent in commit.parent_ids() {
        let old = match repo.find_commit(parent) {
            Ok(parent) => folder(repo, &parent.tree()?, wanted.pages_dir)?,
            // The end of a shallow clone: what the commit did is not known.
            Err(e) if e.code() == ErrorCode::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        if old.as_ref().map(Tree::id) == new.as_ref().map(Tree::id) {
            return Ok(None);
        }
        let by_this = changed(repo, old.as_ref(), new.as_ref(), wanted, is_page)?;
        pages = Some(match pages {
            None => by_this,
            Some(mut pages) => {
                pages.retain(|path, _| by_this.contains_key(path));
                pages
            }
        });
    }
    let pages = pages.unwrap_or_default();
    if pages.is_empty() {
        return Ok(None);
    }
    let author = commit.author();
    Ok(Some(PastCommit {
        id: id.to_string(),
        at: Timestamp(commit.time().seconds().saturating_mul(1000)),
        author: String::from_utf8_lossy(author.name_bytes()).into_owned(),
        subject: subject(commit.message_bytes()),
        total: pages.len(),
        pages: pages.into_iter().take(wanted.pages).collect(),
    }))
}

fn subject(message: &[u8]) -> String {
    let message = String::from_utf8_lossy(message);
    message.trim_start().lines().next().unwrap_or("").into()
}

/// Returns the tree of the pages' folder, where there is one.
fn folder<'r>(
    repo: &'r Repository,
    tree: &Tree<'_>,
    path: &str,
) -> Result<Option<Tree<'r>>, git2::Error> {
    match tree.get_path(Path::new(path)) {
        Ok(entry) if entry.kind() == Some(git2::ObjectType::Tree) => {
            repo.find_tree(entry.id()).map(Some)
        }
        Ok(_) => Ok(None),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the wanted pages that differ between two trees of the pages' folder.
fn changed(
    repo: &Repository,
    old: Option<&Tree<'_>>,
    new: Option<&Tree<'_>>,
    wanted: &Wanted<'_>,
    is_page: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Became>, git2::Error> {
    let mut pages = BTreeMap::new();
    let diff = repo.diff_tree_to_tree(old, new, None)?;
    for delta in diff.deltas() {
        let became = match delta.status() {
            Delta::Added => Became::Added,
            Delta::Deleted => Became::Removed,
            _ => Became::Changed,
        };
        let file = match became {
            Became::Removed => delta.old_file(),
            Became::Added | Became::Changed => delta.new_file(),
        };
        // A name that is not UTF-8 is no page's.
        let Some(path) = file.path_bytes().and_then(|path| str::from_utf8(path).ok()) else {
            continue;
        };
        let path = format!("{}/{path}", wanted.pages_dir);
        if path.starts_with(wanted.prefix) && is_page(&path) {
            pages.insert(path, became);
        }
    }
    Ok(pages)
}
