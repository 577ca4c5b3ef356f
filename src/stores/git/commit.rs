//! One commit of exactly the pages planned, step by step, with the index moved along.
//!
//! | step | what holds when the process is killed right after it |
//! |---|---|
//! | `Packed` | as the next; the pack is also noted in a file, by which the next start leaves it to gc |
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
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::{ObjectType, Oid, Repository};

use super::filter::Tools;
use super::index_entry::Entry;
use super::index_file::IndexFile;
use super::journal::{Journal, Moved, Paths};
use super::message::{Told, author_of};
use super::next_index::{finish, place, racy_time};
use super::pack::Bulk;
use super::plan::Plan;
use super::repo::{self, Head, git_failure, io_failure};
use super::sign::{Draft, signed_commit};
use super::stamp::Stamp;
use super::tree::HeadTree;
use super::tree::{Edit, TreeError, are_there, write_tree};
use super::{moved, moving};
use crate::model::{Failure, FailureKind};

/// The durable steps of a commit, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Only of many new objects.
    Packed,
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
            Self::Packed => "git.packed",
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

pub(super) fn again(reason: impl Into<String>) -> Halt {
    Halt::Again(Failure::new(FailureKind::Busy, reason))
}

/// Why a commit is begun anew when a prune beside it took its objects.
pub(super) const VANISHED: &str = "objects just written were pruned by another process";

/// Somebody else's lock, named.
pub(super) fn locked(paths: &Paths) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("{} is held by another process", paths.lock.display()),
    )
    .hint(remove_it(&paths.lock))
}

/// The way out of a lock that nobody lets go of.
pub(super) fn remove_it(lock: &Path) -> String {
    format!(
        "if no git command is running here, remove it: `rm '{}'`",
        lock.display()
    )
}

/// Names the lock that a ref could not be moved for, if it is one.
fn with_lock(failure: Failure, lock: &Path) -> Failure {
    if lock.exists() {
        failure.hint(remove_it(lock))
    } else {
        failure
    }
}

/// What watches the steps: tests stop there, or act as the user. Returns whether to go on.
pub(super) type Watch<'s> = &'s dyn Fn(Step) -> bool;

/// How a commit is worded and made.
pub(super) struct Manner<'s> {
    pub(super) tools: &'s Tools,
    /// The template of its message.
    pub(super) message: &'s str,
    /// `Name <mail>`; empty: whoever commits.
    pub(super) author: &'s str,
    /// Whether it is one page's move.
    pub(super) is_move: bool,
}

/// A commit being made.
pub(super) struct Committer<'r> {
    pub(super) repo: &'r Repository,
    pub(super) paths: &'r Paths,
    pub(super) head: &'r Head,
    pub(super) index: IndexFile,
    pub(super) stamp: Option<Stamp>,
    pub(super) watch: Watch<'r>,
    /// Whether `index` and `stamp` are what has come into the index's place.
    pub(super) is_placed: bool,
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
        &mut self,
        plan: &mut Plan<'_>,
        tree: &HeadTree<'_>,
        manner: &Manner<'_>,
    ) -> Result<Option<Oid>, Halt> {
        let mut written = Vec::new();
        let Some(root) = self.write_root(plan, tree, &mut written)? else {
            return Ok(None);
        };
        let told = Told {
            moves: &plan.moves,
            is_move: manner.is_move,
            moved: moved::pairs(self.repo, &plan.moves),
        };
        let message = told.message(manner.message);
        let commit = self.write_commit(root, &message, manner)?;
        self.sync_objects(&written, &[root, commit])?;
        written.push(root);
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
        if !are_there(&repo::anew(self.repo)?, &written) {
            return Err(again(VANISHED));
        }
        self.move_ref(commit, message.lines().next().unwrap_or_default())?;
        self.pass(Step::RefMoved)?;
        if place(self.paths, &journal)? {
            self.pass(Step::IndexPlaced)?;
            self.note_placed(&journal);
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

    /// Notes what the index is known by now. While its lock is ours, nobody else puts another in its place.
    fn note_placed(&mut self, journal: &Journal) {
        if let Ok(stamp) = Stamp::of(&self.paths.index) {
            self.stamp = stamp;
            self.is_placed = journal.lock.is_inode(&self.paths.index).unwrap_or(false);
        }
    }

    /// Writes blobs and trees and returns the root; nothing of it is reachable yet. `None` when no move is left.
    pub(super) fn write_root(
        &self,
        plan: &mut Plan<'_>,
        tree: &HeadTree<'_>,
        written: &mut Vec<Oid>,
    ) -> Result<Option<Oid>, Halt> {
        let sync = repo::syncs_loose_objects(self.repo);
        let bulk = Bulk::of(self.repo, &plan.moves)?;
        let repo = bulk.as_ref().map_or(self.repo, Bulk::repo);
        for page in &plan.moves {
            if let Some(blob) = &page.blob {
                repo::write_object(repo, ObjectType::Blob, blob, sync)?;
            }
        }
        let root = loop {
            if plan.moves.is_empty() {
                return Ok(None);
            }
            let edits: BTreeMap<&str, Edit> = plan
                .moves
                .iter()
                .map(|page| (page.path.as_str(), page.after))
                .collect();
            match write_tree(repo, tree.root(), &edits, written) {
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
        let root = match root {
            Some(root) => root,
            None => repo::write_object(repo, ObjectType::Tree, &[], sync)?,
        };
        if tree.root().is_some_and(|old| old.id() == root) {
            return Err(again("HEAD's tree would not change"));
        }
        if let Some(bulk) = bulk {
            let blobs = plan.moves.iter().filter_map(|page| Some(page.after?.id));
            let trees = written.iter().rev().copied();
            bulk.place(self.paths, trees.chain([root]).chain(blobs))?;
            self.pass(Step::Packed)?;
        }
        Ok(Some(root))
    }

    /// Writes the commit, signed where the user signs.
    fn write_commit(&self, tree: Oid, message: &str, manner: &Manner<'_>) -> Result<Oid, Halt> {
        let repo = self.repo;
        let configured = manner.tools.configured(repo)?;
        let (author, committer) = repo::signatures(configured, author_of(manner.author))?;
        let parent = self.head.commit;
        if repo::signs(configured)? {
            let draft = Draft {
                tree,
                parent,
                author: &author,
                committer: &committer,
                message,
            };
            return Ok(signed_commit(&manner.tools.git, repo, &draft)?);
        }
        let write = || {
            let parent = parent.map(|id| repo.find_commit(id)).transpose()?;
            let parents: Vec<_> = parent.iter().collect();
            let tree = repo.find_tree(tree)?;
            repo.commit(None, &author, &committer, message, &tree, &parents)
        };
        write().map_err(|error| git_failure("cannot write the commit", &error).into())
    }

    fn sync_objects(&self, trees: &[Oid], others: &[Oid]) -> Result<(), Failure> {
        if repo::syncs_loose_objects(self.repo) {
            for &id in trees.iter().chain(others) {
                repo::sync_object(self.repo, id)?;
            }
        }
        Ok(())
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
        moving::check_still(self.repo)?;
        self.pass(Step::Checked)?;
        Ok(journal)
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
                    FailureKind::Busy => Halt::Again(with_lock(failure, &self.paths.lock_of(name))),
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
