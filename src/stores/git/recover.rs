//! Finishing or undoing what a killed process left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use git2::{Oid, Repository};

use super::by_git::read_index;
use super::commit::{Committer, Halt, Watch, locked};
use super::convert::Stored;
use super::disk::read_same;
use super::index_entry::Entry;
use super::index_file::IndexFile;
use super::journal::{Journal, Moved, Paths, remove};
use super::moving;
use super::next_index::{finish, place, racy_time, remove_fresh};
use super::pack;
use super::plan::{hash, held_of, stored_of};
use super::repo::{Head, io_failure};
use super::stamp::Stamp;
use super::tree::HeadTree;
use crate::model::{Failure, FailureKind};

/// How often a waiting process looks whether `index.lock` has become free.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// Brings the repository to where no commit of ours is under way. The caller holds the lock that keeps
/// other processes of ours out. Repeating it changes nothing.
///
/// When the branch has moved and the index is still to follow, the next index is put in its place if all
/// of it is provably ours; otherwise the pages' entries are moved in the index as it is now. Only a page
/// of which HEAD holds what we committed, and the index what it held before, is moved: whatever the user
/// did meanwhile stays.
///
/// # Errors
/// `Busy` when another process's `index.lock` stayed for `wait`, `Waiting` while git is in the middle of
/// something; the journal stays for the next time.
pub(super) fn recover(
    repo: &Repository,
    paths: &Paths,
    wait: Duration,
    watch: Watch<'_>,
) -> Result<(), Halt> {
    let Some(journal) = Journal::read(&paths.journal)? else {
        return Ok(sweep(paths)?);
    };
    let look = |e: std::io::Error| io_failure("look at", &paths.lock, &e);
    let ref_lock = paths.lock_of(&journal.branch);
    if let Ok(text) = fs::read_to_string(&ref_lock) {
        // Nobody else would write that commit into that ref's lock.
        let ours = text.trim() == journal.commit;
        if ours || (text.is_empty() && is_left_empty(&ref_lock, &paths.journal)) {
            remove(&ref_lock)?;
        }
    }
    let ours = journal.lock.is(&paths.lock).map_err(look)?;
    let head = Head::read(repo)?;
    let moved = head
        .commit
        .is_some_and(|id| id.to_string() == journal.commit);
    let placed = !paths.next.exists();
    if placed || (ours && moved && place(paths, &journal)?) {
        finish(paths, &journal)?;
        return Ok(());
    }
    if ours {
        remove(&paths.lock)?;
    }
    let end = Instant::now() + wait;
    loop {
        match heal(repo, paths, &journal, watch) {
            Ok(()) => break,
            Err(Halt::Again(_)) if Instant::now() < end => std::thread::sleep(POLL),
            Err(Halt::Again(failure)) => return Err(Halt::Fail(failure)),
            Err(halt) => return Err(halt),
        }
    }
    finish(paths, &journal)?;
    Ok(())
}

/// Removes what was left by a process killed before its journal stood, or whose journal was lost.
fn sweep(paths: &Paths) -> Result<(), Failure> {
    pack::let_go(paths)?;
    remove_fresh(paths)?;
    let Ok(next) = fs::symlink_metadata(&paths.next) else {
        return remove(&paths.journal);
    };
    if let Ok(lock) = fs::symlink_metadata(&paths.lock)
        && (lock.dev(), lock.ino()) == (next.dev(), next.ino())
    {
        // The very file under our own name: the lock is ours without a journal, too.
        remove(&paths.lock)?;
    }
    remove(&paths.next)?;
    remove(&paths.journal)
}

/// Moves the entries that are still to follow HEAD, in one transaction of their own.
fn heal(repo: &Repository, paths: &Paths, journal: &Journal, watch: Watch<'_>) -> Result<(), Halt> {
    let head = Head::read(repo)?;
    let Some(commit) = head.commit else {
        return Ok(());
    };
    let (index, stamp) = read_index(repo, paths)?;
    let pages = behind(repo, commit, &index, journal)?;
    if pages.is_empty() {
        return Ok(());
    }
    moving::check_still(repo)?;
    if paths.lock.exists() {
        return Err(Halt::Again(locked(paths)));
    }
    let mut seen = Vec::new();
    let mut edits: BTreeMap<Box<[u8]>, Option<Entry>> = BTreeMap::new();
    for page in &pages {
        let entry = page.after().map(|held| {
            let stat = stat_if_equal(repo, &index, &page.path, held.id);
            let entry = Entry::new(&page.path, held.mode, held.id, stat.as_ref().map(|s| &s.0));
            seen.extend(stat);
            entry
        });
        edits.insert(page.path.as_bytes().into(), entry);
    }
    let mut committer = Committer {
        repo,
        paths,
        head: &head,
        index,
        stamp,
        watch,
        is_placed: false,
    };
    let journal = committer.lock_with(edits, racy_time(seen.iter()), pages, commit)?;
    if place(paths, &journal)? {
        finish(paths, &journal)?;
        Ok(())
    } else {
        Err(Halt::Again(Failure::new(
            FailureKind::Busy,
            "the index keeps changing",
        )))
    }
}

/// Returns the pages of which HEAD holds what we committed and the index still what it held before.
fn behind(
    repo: &Repository,
    commit: Oid,
    index: &IndexFile,
    journal: &Journal,
) -> Result<Vec<Moved>, Failure> {
    let mut tree = HeadTree::open(repo, Some(commit))?;
    let mut pages = Vec::new();
    for page in &journal.pages {
        let (before, after) = (page.before(), page.after());
        let untouched = match index.at(&page.path) {
            [] => before.is_none(),
            [entry] => entry.stage() == 0 && Some(held_of(entry)) == before,
            _ => false,
        };
        if untouched && before != after && tree.at(&page.path)? == after {
            pages.push(page.clone());
        }
    }
    Ok(pages)
}

/// Returns the file's stat data when its content is the blob; without it, git looks for itself.
fn stat_if_equal(
    repo: &Repository,
    index: &IndexFile,
    path: &str,
    blob: Oid,
) -> Option<(fs::Metadata, std::time::SystemTime)> {
    use crate::model::{Labels, Page, PagePath};
    let file = repo.workdir()?.join(path);
    let text = fs::read_to_string(&file).ok()?;
    let page = Page::new(PagePath::parse(path).ok()?, text, Labels::default());
    let Stored::Bytes(bytes) = stored_of(repo, index, &page).ok()? else {
        return None;
    };
    (hash(&bytes).ok()? == blob).then(|| read_same(&file, &page).ok())?
}

/// Undoes a commit that failed half way; its own failure counts more than what this one may meet.
pub(super) fn undo(repo: &Repository, paths: &Paths, watch: Watch<'_>) -> Option<Halt> {
    match recover(repo, paths, Duration::ZERO, watch) {
        Ok(()) | Err(Halt::Again(_) | Halt::Fail(_)) => None,
        #[cfg(test)]
        Err(Halt::Crash) => Some(Halt::Crash),
    }
}

/// How long a ref's lock must have stayed empty to be nobody's: who lives writes into it within microseconds.
const LEFT_EMPTY: Duration = Duration::from_secs(1);

/// Says whether an empty lock of a ref was left by our own death between making it and writing into it: it is younger
/// than the journal, and nobody has touched it for [`LEFT_EMPTY`], which is waited for.
fn is_left_empty(lock: &Path, journal: &Path) -> bool {
    let look = |path: &Path| fs::symlink_metadata(path).ok();
    let (Some(first), Some(journal)) = (look(lock), look(journal)) else {
        return false;
    };
    let made = |meta: &fs::Metadata| (meta.mtime(), meta.mtime_nsec());
    if made(&first) < made(&journal) {
        return false;
    }
    let age = first.modified().ok().and_then(|time| time.elapsed().ok());
    std::thread::sleep(LEFT_EMPTY.saturating_sub(age.unwrap_or_default()));
    look(lock).is_some_and(|now| now.len() == 0 && now.ino() == first.ino())
}

/// Says whether `index.lock` is there and not ours.
pub(super) fn foreign_lock(paths: &Paths) -> Option<fs::Metadata> {
    let meta = fs::symlink_metadata(&paths.lock).ok()?;
    let journal = Journal::read(&paths.journal).ok().flatten();
    let ours = journal.is_some_and(|journal| journal.lock.is_inode(&paths.lock).unwrap_or(false));
    (!ours).then_some(meta)
}

/// Says whether the stamp still is the index's.
pub(super) fn is_current(paths: &Paths, stamp: Option<&Stamp>) -> bool {
    Stamp::of(&paths.index).is_ok_and(|now| now.as_ref() == stamp)
}
