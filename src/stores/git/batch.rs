//! Bringing a batch: planned, checked, committed, and tried again while others are in the way.

use std::collections::HashMap;
use std::time::Instant;

use git2::Repository;
use tracing::info;

use super::commit::{Committer, Halt, Manner, locked};
use super::filter::Tools;
use super::index_file::IndexFile;
use super::journal::Paths;
use super::message::author_of;
use super::plan::{Plan, Planner};
use super::repo::{self, Head};
use super::stamp::Stamp;
use super::tree::HeadTree;
use super::{GitStore, failure_of, fingerprint_of, moving, recover};
use crate::model::{Change, Failure, FailureKind, PagePath};
use crate::stores::{Applied, Outcome};

/// The repository as a plan was made from it.
pub(super) struct Ground<'r> {
    pub(super) head: Head,
    pub(super) tree: HeadTree<'r>,
    pub(super) index: IndexFile,
    pub(super) stamp: Option<Stamp>,
    pub(super) paths: Paths,
    /// By which pages are converted.
    fingerprint: String,
}

impl GitStore {
    /// Does something until it is not in another's way, or the time is up.
    pub(super) fn until_free<T>(
        &mut self,
        repo: &Repository,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Halt>,
    ) -> Result<T, Failure> {
        let end = Instant::now() + self.settings.lock_wait;
        let paths = Paths::of(repo);
        loop {
            let halt = match attempt(self) {
                Ok(done) => return Ok(done),
                #[cfg(test)]
                Err(Halt::Crash) => return Err(failure_of(Halt::Crash)),
                Err(halt) => recover::undo(repo, &paths, &*self.watch).unwrap_or(halt),
            };
            match halt {
                Halt::Again(_) if Instant::now() < end => std::thread::sleep(recover::POLL),
                halt => return Err(failure_of(halt)),
            }
        }
    }

    /// Brings the changes in one commit; `is_move` when they are one page's old and new path.
    pub(super) fn bring(
        &mut self,
        repo: &Repository,
        tools: &Tools,
        changes: &[Change],
        is_move: bool,
    ) -> Result<Vec<Outcome>, Failure> {
        self.until_free(repo, |store| store.attempt(repo, tools, changes, is_move))
    }

    /// Sorts the changes by what the repository holds now.
    pub(super) fn look<'r, 'c>(
        &self,
        repo: &'r Repository,
        tools: &Tools,
        changes: &'c [Change],
    ) -> Result<(Ground<'r>, Plan<'c>), Failure> {
        let paths = Paths::of(repo);
        let head = Head::read(repo)?;
        let (index, stamp) = self.take_index(repo, &paths)?;
        // Before anything is converted: what changes meanwhile shows as another fingerprint at the next look.
        let pages = changes.iter().map(|change| change.path().as_str());
        let mark = self
            .folders(&index, stamp.as_ref())
            .mark_for(repo, &self.root, pages);
        let is_plain = mark.is_none();
        let fingerprint = fingerprint_of(mark);
        tools.begin(&fingerprint);
        let mut planner = Planner {
            root: &self.root,
            repo,
            tools,
            index: &index,
            head: HeadTree::open(repo, head.commit)?,
            folders: HashMap::new(),
            is_page: &*self.settings.is_page,
            is_plain,
        };
        let plan = planner.plan(changes)?;
        let tree = planner.head;
        let ground = Ground {
            head,
            tree,
            index,
            stamp,
            paths,
            fingerprint,
        };
        Ok((ground, plan))
    }

    /// Tries once to make the commit.
    fn attempt(
        &mut self,
        repo: &Repository,
        tools: &Tools,
        changes: &[Change],
        is_move: bool,
    ) -> Result<Vec<Outcome>, Halt> {
        let (ground, mut plan) = self.look(repo, tools, changes)?;
        if plan.moves.is_empty() {
            self.keep_index(ground.index, ground.stamp);
        } else {
            self.check_may_commit(repo, tools, &ground)?;
            let manner = Manner {
                tools,
                message: &self.settings.message,
                author: &self.settings.author,
                is_move,
            };
            let mut committer = Committer {
                repo,
                paths: &ground.paths,
                head: &ground.head,
                index: ground.index,
                stamp: ground.stamp,
                watch: &*self.watch,
                is_placed: false,
            };
            let commit = committer.commit(&mut plan, &ground.tree, &manner)?;
            if let Some(commit) = commit {
                info!(%commit, pages = plan.moves.len(), "committed");
                self.last_commit = Some(commit.to_string());
                self.commits += 1;
            }
            if commit.is_none() || committer.is_placed {
                let Committer { index, stamp, .. } = committer;
                let folders = self.folders.take();
                let folders = folders.and_then(|known| known.follow(&plan.moves, stamp.as_ref()));
                self.folders.replace(folders);
                self.keep_index(index, stamp);
            }
            for page in &plan.moves {
                plan.outcomes[page.change] = Some(Ok(Applied {
                    changed: true,
                    mark: page.after.map(|held| held.id.to_string()),
                }));
            }
        }
        // The first of several commits counts: what changes between them is seen at the next look.
        let first = self.brought.take().unwrap_or(ground.fingerprint);
        self.brought.set(Some(first));
        let outcomes = plan.outcomes.into_iter();
        Ok(outcomes
            .map(|outcome| outcome.expect("each change is sorted or moved"))
            .collect())
    }

    /// Says what keeps these pages from being committed once they have changed.
    pub(super) fn objections_to(
        &self,
        repo: &Repository,
        tools: &Tools,
        pages: &[PagePath],
    ) -> Result<Vec<(PagePath, Failure)>, Halt> {
        let (ground, _) = self.look(repo, tools, &[])?;
        self.check_may_commit(repo, tools, &ground)?;
        let mut planner = Planner {
            root: &self.root,
            repo,
            tools,
            index: &ground.index,
            head: ground.tree,
            folders: HashMap::new(),
            is_page: &*self.settings.is_page,
            is_plain: false,
        };
        let mut objections = Vec::new();
        for page in pages {
            if let Some(failure) = planner.objection(page)? {
                objections.push((page.clone(), failure));
            }
        }
        Ok(objections)
    }

    /// Says why nothing may be committed here now.
    pub(super) fn check_may_commit(
        &self,
        repo: &Repository,
        tools: &Tools,
        ground: &Ground<'_>,
    ) -> Result<(), Halt> {
        moving::check_still(repo)?;
        if ground.head.is_detached() && !self.settings.allow_detached {
            return Err(detached().into());
        }
        repo::signatures(tools.configured(repo)?, author_of(&self.settings.author))?;
        if ground.paths.lock.exists() {
            return Err(Halt::Again(locked(&ground.paths)));
        }
        Ok(())
    }
}

/// The failure where no branch would keep the commits.
pub(super) fn detached() -> Failure {
    Failure::new(FailureKind::Refused, "HEAD is detached: nothing is committed").hint(
        "check out a branch: `git switch -c NAME`; or `wiki-sync drain --allow-detached`, or set git.allow_detached = true (`--set git.allow_detached=true` for one run)",
    )
}
