//! The index that follows a commit: written beside the index, put in its place, or taken away.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sha1::{Digest as _, Sha1};

use super::by_git;
use super::commit::Committer;
use super::index_entry::Entry;
use super::journal::{Journal, LockMark, Paths, remove};
use super::pack;
use super::repo::io_failure;
use super::stamp::{SHA_LEN, Stamp, hex};
use crate::model::Failure;

impl Committer<'_> {
    /// Writes the next index beside the index, brought to the disk; returns what it is known by.
    pub(super) fn write_next(
        &mut self,
        edits: BTreeMap<Box<[u8]>, Option<Entry>>,
        set_back: Option<SystemTime>,
    ) -> Result<LockMark, Failure> {
        let paths = self.paths;
        // Renamed into its name: while a journal stands, a `next` that is gone says that it was placed.
        remove_fresh(paths)?;
        let fresh = paths.next.with_extension("new");
        let sha = if let Some(git) = &self.index.keeper {
            by_git::write_next(git, &paths.index, &fresh, &edits)?;
            let bytes = fs::read(&fresh).map_err(|e| io_failure("read", &fresh, &e))?;
            Sha1::digest(&bytes).into()
        } else {
            self.write_fresh(&fresh, edits, set_back)?
        };
        let bring = || {
            let file = File::options().append(true).open(&fresh)?;
            if let Ok(old) = fs::metadata(&paths.index) {
                // `core.sharedRepository` shows in the mode.
                file.set_permissions(old.permissions())?;
            }
            file.sync_all()?;
            fs::rename(&fresh, &paths.next)?;
            let meta = file.metadata()?;
            Ok(LockMark {
                dev: meta.dev(),
                ino: meta.ino(),
                sha: hex(&sha),
            })
        };
        bring().map_err(|e| io_failure("write", &paths.next, &e))
    }

    /// Writes our own rendering of the next index and returns its SHA-1.
    fn write_fresh(
        &mut self,
        fresh: &Path,
        edits: BTreeMap<Box<[u8]>, Option<Entry>>,
        set_back: Option<SystemTime>,
    ) -> Result<[u8; SHA_LEN], Failure> {
        let mut modified = set_back;
        if let Some(stamp) = &self.stamp {
            let ours = |path: &[u8]| edits.contains_key(path);
            if self.index.has_racy(stamp.mtime_seconds(), &ours) {
                let old = stamp.modified();
                modified = Some(modified.map_or(old, |time| time.min(old)));
            }
        }
        self.index.edit(edits);
        let (bytes, sha) = self.index.render();
        let write = || {
            let mut file = File::create_new(fresh)?;
            file.write_all(&bytes)?;
            match modified {
                Some(time) => file.set_modified(time),
                None => Ok(()),
            }
        };
        write().map_err(|e| io_failure("write", fresh, &e))?;
        Ok(sha)
    }
}

/// Puts the next index in the index's place, if the lock is still ours and the index the one that the
/// next was made from; returns whether it was.
pub(super) fn place(paths: &Paths, journal: &Journal) -> Result<bool, Failure> {
    let ours = journal
        .lock
        .is_inode(&paths.lock)
        .map_err(|e| io_failure("look at", &paths.lock, &e))?;
    let same =
        Stamp::of(&paths.index).map_err(|e| io_failure("read", &paths.index, &e))? == journal.index;
    if !ours || !same {
        return Ok(false);
    }
    match fs::rename(&paths.next, &paths.index) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(io_failure("replace", &paths.index, &e)),
    }
}

/// Lets go of the lock, if it is ours, of the pack, and of the journal.
pub(super) fn finish(paths: &Paths, journal: &Journal) -> Result<(), Failure> {
    if journal
        .lock
        .is_inode(&paths.lock)
        .map_err(|e| io_failure("look at", &paths.lock, &e))?
    {
        remove(&paths.lock)?;
    }
    remove(&paths.next)?;
    remove_fresh(paths)?;
    pack::let_go(paths)?;
    remove(&paths.journal)
}

/// Removes what was to become the next index.
pub(super) fn remove_fresh(paths: &Paths) -> Result<(), Failure> {
    let fresh = paths.next.with_extension("new");
    remove(&by_git::lock_of(&fresh))?;
    remove(&fresh)
}

/// Files younger than this when they were compared may change again without their times showing it: git,
/// as it is commonly built, compares whole seconds, and some file systems keep two.
const SETTLED: Duration = Duration::from_secs(2);

/// Returns to when the index's own time must be set back, so that git looks into the files that may
/// change unseen: it trusts an entry only when the index is newer than the file.
pub(super) fn racy_time<'s>(
    seen: impl Iterator<Item = &'s (fs::Metadata, SystemTime)>,
) -> Option<SystemTime> {
    seen.filter_map(|(stat, when)| {
        let modified = stat.modified().ok()?;
        let settled = modified + SETTLED <= *when;
        (!settled).then_some(modified)
    })
    .min()
}
