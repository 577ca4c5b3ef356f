//! One commit of exactly the pages planned, step by step, with the index moved along.
//!
//! | step | what holds when the process is killed right after it |
//! |---|---|
//! | `Objects` | unreferenced objects, which git's gc takes |
//! | `NextIndex` | a file that nobody looks at; the next start removes it |
//! | `Journal` | the same |
//! | `Linked` | `index.lock` is ours by the journal; the next start removes it |
//! | `Checked` | the same |
//! | `RefMoved` | the commit is made; the next start puts the index in its place |
//! | `IndexPlaced` | everything is in its place but `index.lock`, ours by the journal |
//! | `Done` | nothing is left to do |
//!
//! The next index is renamed by its own name, not by that of the lock: that it is gone proves that it was
//! put in place, even after the user has removed the lock by hand or changed the index since.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use git2::{ObjectType, Oid, Repository};
use sha1::{Digest as _, Sha1};

use super::index_file::{Entry, IndexFile, Stamp, hex};
use super::journal::{Journal, LockMark, Moved, Paths, remove};
use super::plan::Plan;
use super::repo::{self, Head, git_failure, io_failure};
use super::tree::{Edit, TreeError, are_there, write_tree};
use super::{message, tree::HeadTree};
use crate::model::{Failure, FailureKind};

/// The durable steps of a commit, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Objects,
    NextIndex,
    Journal,
    Linked,
    Checked,
    RefMoved,
    IndexPlaced,
    Done,
}

impl Step {
    /// The failpoint after the step.
    #[cfg_attr(not(feature = "testing"), allow(dead_code))]
    fn failpoint(self) -> &'static str {
        match self {
            Self::Objects => "git.objects",
            Self::NextIndex => "git.temp_index",
            Self::Journal => "git.journal",
            Self::Linked => "git.linked",
            Self::Checked => "git.checked",
            Self::RefMoved => "git.ref_moved",
            Self::IndexPlaced => "git.index_renamed",
            Self::Done => "git.journal_removed",
        }
    }
}

/// Why a commit did not come to its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// Something moved under our hands: from the start again. The failure is for when time is up.
    Again(Failure),
    /// It cannot be done.
    Fail(Failure),
    /// The test pulled the plug: nothing may be cleaned up.
    #[cfg(test)]
    Crash,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

fn again(reason: impl Into<String>) -> Halt {
    Halt::Again(Failure::new(FailureKind::Busy, reason))
}

/// Why a commit is begun anew when a prune beside it took its objects.
const VANISHED: &str = "objects just written were pruned by another process";

/// Somebody else's lock, named.
pub(super) fn locked(paths: &Paths) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("{} is held by another process", paths.lock.display()),
    )
    .hint(format!(
        "if no git command is running here, remove it: `rm '{}'`",
        paths.lock.display()
    ))
}

/// What watches the steps: tests stop there, or act as the user. Returns whether to go on.
pub(super) type Watch<'s> = &'s dyn Fn(Step) -> bool;

/// A commit being made.
pub(super) struct Committer<'r> {
    pub(super) repo: &'r Repository,
    pub(super) paths: &'r Paths,
    pub(super) head: &'r Head,
    pub(super) index: IndexFile,
    pub(super) stamp: Option<Stamp>,
    pub(super) watch: Watch<'r>,
}

impl Committer<'_> {
    #[cfg_attr(not(test), allow(clippy::unnecessary_wraps))] // only a test stops half way
    fn pass(&self, step: Step) -> Result<(), Halt> {
        fail::fail_point!(step.failpoint());
        if (self.watch)(step) {
            return Ok(());
        }
        #[cfg(test)]
        return Err(Halt::Crash);
        #[cfg(not(test))]
        unreachable!("only a test stops half way")
    }

    /// Makes the commit of the plan's moves and returns its id; pages that no tree can hold get their
    /// outcome and are left out. `None` when nothing is left to commit.
    pub(super) fn commit(
        mut self,
        plan: &mut Plan<'_>,
        tree: &HeadTree<'_>,
    ) -> Result<Option<Oid>, Halt> {
        let Some((commit, mut written)) = self.write_objects(plan, tree)? else {
            return Ok(None);
        };
        written.extend(plan.moves.iter().filter_map(|page| Some(page.after?.id)));
        written.push(commit);
        self.pass(Step::Objects)?;
        let moved = plan
            .moves
            .iter()
            .map(|page| Moved::new(page.path.as_str(), page.before, page.after))
            .collect();
        let seen = plan.moves.iter().filter_map(|page| page.seen.as_ref());
        let edits = plan
            .moves
            .iter()
            .map(|page| (page.path.as_str().as_bytes().into(), page.entry()))
            .collect();
        let set_back = racy_time(seen);
        let journal = self.lock_with(edits, set_back, moved, commit)?;
        // What nothing refers to yet may be pruned beside us; a branch must never point at half a commit.
        if !are_there(self.repo, &written) {
            return Err(again(VANISHED));
        }
        self.move_ref(commit, &message::subject(&plan.moves))?;
        self.pass(Step::RefMoved)?;
        if place(self.paths, &journal)? {
            self.pass(Step::IndexPlaced)?;
            finish(self.paths, &journal)?;
        } else {
            // The lock was taken from us: the entries move by a transaction of their own.
            super::recover::recover(self.repo, self.paths, Duration::ZERO, self.watch)?;
        }
        // Not under the lock: a power cut between leaves an index ahead of HEAD, which the next apply
        // takes for staged as it is on disk, and commits.
        self.sync_ref()?;
        self.pass(Step::Done)?;
        Ok(Some(commit))
    }

    /// Writes blobs, trees and the commit; nothing of it is reachable yet.
    fn write_objects(
        &self,
        plan: &mut Plan<'_>,
        tree: &HeadTree<'_>,
    ) -> Result<Option<(Oid, Vec<Oid>)>, Halt> {
        let repo = self.repo;
        let sync = repo::syncs_loose_objects(repo);
        for page in &plan.moves {
            if let Some(blob) = &page.blob {
                repo::write_object(repo, ObjectType::Blob, blob, sync)?;
            }
        }
        let mut written = Vec::new();
        let root = loop {
            if plan.moves.is_empty() {
                return Ok(None);
            }
            let edits: BTreeMap<&str, Edit> = plan
                .moves
                .iter()
                .map(|page| (page.path.as_str(), page.after))
                .collect();
            match write_tree(repo, tree.root(), &edits, &mut written) {
                Ok(root) => break root,
                Err(TreeError::Path { path, kind, why }) => {
                    let reason = format!("git cannot hold {path:?}: {why}");
                    plan.drop_at(&path, &Failure::new(kind, reason));
                }
                Err(TreeError::Vanished) => return Err(again(VANISHED)),
                Err(TreeError::Repository(error)) => {
                    return Err(git_failure("cannot write a tree", &error).into());
                }
            }
        };
        let failed =
            |error: git2::Error| Halt::Fail(git_failure("cannot write the commit", &error));
        let root = match root {
            Some(root) => root,
            None => repo::write_object(repo, ObjectType::Tree, &[], sync)?,
        };
        if tree.root().is_some_and(|old| old.id() == root) {
            return Err(again("HEAD's tree would not change"));
        }
        let (author, committer) = repo::signatures(repo)?;
        let parent = self
            .head
            .commit
            .map(|id| repo.find_commit(id))
            .transpose()
            .map_err(failed)?;
        let commit = repo
            .commit(
                None,
                &author,
                &committer,
                &message::message(&plan.moves),
                &repo.find_tree(root).map_err(failed)?,
                &parent.iter().collect::<Vec<_>>(),
            )
            .map_err(failed)?;
        if sync {
            for id in written.iter().copied().chain([root, commit]) {
                repo::sync_object(repo, id)?;
            }
        }
        written.push(root);
        Ok(Some((commit, written)))
    }

    /// Writes the next index and the journal, takes `index.lock`, and makes sure under it that nothing has
    /// moved since.
    pub(super) fn lock_with(
        &mut self,
        edits: BTreeMap<Box<[u8]>, Option<Entry>>,
        set_back: Option<SystemTime>,
        pages: Vec<Moved>,
        commit: Oid,
    ) -> Result<Journal, Halt> {
        let paths = self.paths;
        let lock = self.write_next(edits, set_back)?;
        self.pass(Step::NextIndex)?;
        let journal = Journal {
            branch: self.head.name.clone(),
            commit: commit.to_string(),
            index: self.stamp.clone(),
            lock,
            pages,
        };
        journal.write(paths)?;
        self.pass(Step::Journal)?;
        match fs::hard_link(&paths.next, &paths.lock) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Halt::Again(locked(paths)));
            }
            Err(e) => return Err(io_failure("take", &paths.lock, &e).into()),
        }
        self.pass(Step::Linked)?;
        if !journal
            .lock
            .is_inode(&paths.lock)
            .map_err(|e| io_failure("look at", &paths.lock, &e))?
        {
            return Err(again(format!("{} was taken from us", paths.lock.display())));
        }
        let now = Stamp::of(&paths.index).map_err(|e| io_failure("read", &paths.index, &e))?;
        if now != self.stamp {
            return Err(again("the index keeps changing"));
        }
        if Head::read(self.repo)? != *self.head {
            return Err(again("HEAD keeps moving"));
        }
        if let Some(operation) = repo::operation(self.repo) {
            return Err(Halt::Fail(repo::waits_for(operation)));
        }
        self.pass(Step::Checked)?;
        Ok(journal)
    }

    /// Writes the next index beside the index, brought to the disk; returns what it is known by.
    fn write_next(
        &mut self,
        edits: BTreeMap<Box<[u8]>, Option<Entry>>,
        set_back: Option<SystemTime>,
    ) -> Result<LockMark, Failure> {
        let paths = self.paths;
        let mut modified = set_back;
        if let Some(stamp) = &self.stamp {
            let ours = |path: &[u8]| edits.contains_key(path);
            if self.index.has_racy(stamp.mtime_seconds(), &ours) {
                let old = stamp.modified();
                modified = Some(modified.map_or(old, |time| time.min(old)));
            }
        }
        self.index.edit(edits);
        let bytes = self.index.to_bytes();
        // Renamed into its name: while a journal stands, a `next` that is gone says that it was placed.
        let fresh = paths.next.with_extension("new");
        remove(&fresh)?;
        let write = || {
            let mut file = File::create_new(&fresh)?;
            file.write_all(&bytes)?;
            if let Ok(old) = fs::metadata(&paths.index) {
                // `core.sharedRepository` shows in the mode.
                file.set_permissions(old.permissions())?;
            }
            if let Some(time) = modified {
                file.set_modified(time)?;
            }
            file.sync_all()?;
            fs::rename(&fresh, &paths.next)?;
            let meta = file.metadata()?;
            Ok(LockMark {
                dev: meta.dev(),
                ino: meta.ino(),
                sha: hex(&Sha1::digest(&bytes)),
            })
        };
        write().map_err(|e| io_failure("write", &paths.next, &e))
    }

    /// Moves the branch from where it was read to the commit, and not from anywhere else.
    fn move_ref(&self, commit: Oid, subject: &str) -> Result<(), Halt> {
        let name = &self.head.name;
        // The zero id: the ref must not be there yet.
        let from = self.head.commit.unwrap_or(Oid::ZERO_SHA1);
        let note = match self.head.commit {
            Some(_) => format!("commit: {subject}"),
            None => format!("commit (initial): {subject}"),
        };
        match self
            .repo
            .reference_matching(name, commit, true, from, &note)
        {
            Ok(_) => {}
            Err(error) => {
                let failure = git_failure(&format!("cannot move {name}"), &error);
                return Err(match failure.kind {
                    FailureKind::Busy => Halt::Again(failure),
                    _ => Halt::Fail(failure),
                });
            }
        }
        Ok(())
    }

    /// Brings the ref to the disk, as git does by default (`core.fsync` holds "reference").
    fn sync_ref(&self) -> Result<(), Failure> {
        let folder = if self.head.is_detached() {
            &self.paths.git_dir
        } else {
            &self.paths.common_dir
        };
        let path = folder.join(&self.head.name);
        match File::open(&path).and_then(|file| file.sync_all()) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()), // packed since
            Err(e) => Err(io_failure("bring to the disk", &path, &e)),
        }
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

/// Lets go of the lock, if it is ours, and of the journal.
pub(super) fn finish(paths: &Paths, journal: &Journal) -> Result<(), Failure> {
    if journal
        .lock
        .is_inode(&paths.lock)
        .map_err(|e| io_failure("look at", &paths.lock, &e))?
    {
        remove(&paths.lock)?;
    }
    remove(&paths.next)?;
    remove(&paths.next.with_extension("new"))?;
    remove(&paths.journal)
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
