//! Which commits changed a page.

use std::path::Path;
use std::time::{Duration, Instant};

use git2::{Commit, Oid, Sort};

use super::repo::{self, Head, git_failure};
use crate::model::{Failure, PagePath, Timestamp};

const DOING: &str = "cannot read the page's history";

/// A commit that changed a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The commit's id, in hex.
    pub id: String,
    /// When it was made.
    pub at: Timestamp,
    /// Its author's name.
    pub author: String,
    /// The first line of what it says.
    pub summary: String,
    /// It took the page away.
    pub removed: bool,
}

/// What is known of a page's history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The commits, newest first.
    pub revisions: Vec<Revision>,
    /// There may be more of them.
    pub is_cut: bool,
}

/// Returns the commits that changed a page, newest first, at most `most`. It looks for so long at most; moves are not
/// followed. A merge counts where the page is another one than in each of its parents.
///
/// # Errors
/// `Refused` where there is no repository that we can use, `Down` when it cannot be read.
pub fn history(
    root: &Path,
    page: &PagePath,
    most: usize,
    within: Duration,
) -> Result<History, Failure> {
    let end = Instant::now() + within;
    let repo = repo::open(root)?;
    let failed = |e: git2::Error| git_failure(DOING, &e);
    let Some(head) = Head::read(&repo)?.commit else {
        return Ok(History::default());
    };
    let mut walk = repo.revwalk().map_err(failed)?;
    walk.set_sorting(Sort::TIME).map_err(failed)?;
    walk.push(head).map_err(failed)?;
    let mut found = History::default();
    for id in walk {
        if found.revisions.len() == most || Instant::now() >= end {
            found.is_cut = true;
            break;
        }
        // A shallow clone ends where it ends.
        let Ok(commit) = id.and_then(|id| repo.find_commit(id)) else {
            found.is_cut = true;
            break;
        };
        let held = blob(&commit, page);
        let mut parents = commit.parents();
        let changed = match parents.len() {
            0 => held.is_some(),
            _ => parents.all(|parent| blob(&parent, page) != held),
        };
        if changed {
            found.revisions.push(revision(&commit, held.is_none()));
        }
    }
    Ok(found)
}

fn blob(commit: &Commit<'_>, page: &PagePath) -> Option<Oid> {
    let tree = commit.tree().ok()?;
    let entry = tree.get_path(page.as_ref()).ok()?;
    Some(entry.id())
}

fn revision(commit: &Commit<'_>, removed: bool) -> Revision {
    /// Most characters of a summary that are kept.
    const SUMMARY: usize = 200;
    let lossy = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes);
        text.chars().take(SUMMARY).collect()
    };
    Revision {
        id: commit.id().to_string(),
        at: Timestamp(commit.time().seconds().saturating_mul(1000)),
        author: lossy(commit.author().name_bytes()),
        summary: lossy(commit.summary_bytes().unwrap_or_default()),
        removed,
    }
}
