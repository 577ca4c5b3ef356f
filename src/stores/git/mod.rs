//! The git store: HEAD holds the pages, each batch is one commit of exactly its pages, and the index moves
//! along.
//!
//! What is promised to the user whose repository this is:
//!
//! - A commit is HEAD's tree plus the pages named; nothing else that is staged or dirty gets into it.
//! - Each committed page's index entry moves to the new blob, so that the user's next commit does not
//!   revert it; every other entry keeps its bytes. What he staged himself in a page is committed when it
//!   is what is on disk; otherwise the page waits.
//! - Work goes on beside git: objects and the next index are made without a lock; `index.lock` is held for
//!   a few file operations. A lock that is not provably ours is never removed.
//! - No hook runs, nothing is pushed, no configuration is changed.
//!
//! After a kill -9 the next start finishes or undoes the commit (see `commit.rs` for the steps). After a
//! power cut holds what git's own commands would leave: refs are brought to the disk, loose objects only
//! when `core.fsync` (or `core.fsyncObjectFiles`) asks for it.

mod attributes;
mod cache_tree;
mod commit;
mod convert;
mod head;
mod index_file;
mod journal;
mod message;
mod plan;
mod recover;
mod repo;
#[cfg(test)]
mod tests;
mod tree;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::Repository;

pub use self::head::{Differs, HeadPages};

use self::attributes::Folders;
use self::commit::{Committer, Halt, Step, locked};
use self::index_file::{Entry, IndexFile, Stamp};
use self::journal::Paths;
use self::plan::Planner;
use self::repo::{Head, index_failure};
use self::tree::HeadTree;
use super::{Applied, Holding, Identity, Outcome, Store, Tally, Witness};
use crate::model::{Change, Failure, FailureKind, Page, PagePath, StoreName};
use crate::state::{StateDir, lock_file};

/// How the git store behaves.
pub struct GitSettings {
    /// The pages' folder, relative to the root, without a slash at the end; empty for the whole repository.
    pub pages_dir: String,
    /// Says whether a path below that folder is a page's.
    pub is_page: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// How long a batch waits for another process's `index.lock` before it is put off. 5 s: git holds it
    /// for milliseconds, or as long as an editor is open.
    pub lock_wait: Duration,
    /// Whether to commit on a detached HEAD, where a later checkout leaves the commits without a name.
    pub allow_detached: bool,
}

impl Default for GitSettings {
    /// The folder `wiki-output` with its Markdown files.
    fn default() -> Self {
        Self {
            pages_dir: "wiki-output".into(),
            is_page: Box::new(|path| {
                [".md", ".mdx", ".markdown"]
                    .iter()
                    .any(|ending| path.ends_with(ending))
            }),
            lock_wait: Duration::from_secs(5),
            allow_detached: false,
        }
    }
}

impl fmt::Debug for GitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitSettings")
            .field("pages_dir", &self.pages_dir)
            .field("lock_wait", &self.lock_wait)
            .field("allow_detached", &self.allow_detached)
            .finish_non_exhaustive()
    }
}

/// The repository and its index as they were last read.
struct Cached {
    repo: Repository,
    paths: Paths,
    index: IndexFile,
    stamp: Option<Stamp>,
}

/// The pages in a git repository.
pub struct GitStore {
    root: PathBuf,
    state: StateDir,
    settings: GitSettings,
    cached: Option<Cached>,
    /// Where attributes may stand, as the index last showed it.
    folders: RefCell<Option<Folders>>,
    /// The fingerprint by which the last batch was converted, until it is asked for.
    brought: Cell<Option<String>>,
    last_commit: Option<String>,
    /// How many commits this value made.
    commits: u64,
    watch: Box<dyn Fn(Step) -> bool>,
}

impl fmt::Debug for GitStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitStore")
            .field("root", &self.root)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl GitStore {
    /// Names the repository whose work tree is `root`. Nothing is read yet: what is wrong with the
    /// repository is said by the methods that need it.
    ///
    /// # Errors
    /// None today.
    pub fn open(root: &Path, state: &StateDir, settings: GitSettings) -> Result<Self, Failure> {
        Ok(Self {
            root: root.to_path_buf(),
            state: state.clone(),
            settings,
            cached: None,
            folders: RefCell::new(None),
            brought: Cell::new(None),
            last_commit: None,
            commits: 0,
            watch: Box::new(|_| true),
        })
    }

    /// Finishes or undoes what a killed process left. [`Store::apply`], [`Store::identity`] and
    /// [`Store::witness`] do it by themselves.
    ///
    /// # Errors
    /// `Busy` while another process commits here or holds `index.lock`, `Waiting` while git is in the
    /// middle of something; `Refused` and `Down` as ever.
    pub fn recover(&mut self) -> Result<(), Failure> {
        let repo = repo::open(&self.root)?;
        let paths = Paths::of(&repo);
        if !is_unfinished(&paths) {
            return Ok(());
        }
        let _turn = self.turn()?;
        recover::recover(&repo, &paths, self.settings.lock_wait, &*self.watch).map_err(failure_of)
    }

    /// Returns what a person should know about the repository: somebody's `index.lock` and how old it is,
    /// an operation under way, a detached HEAD, or why it cannot be used at all.
    pub fn status_note(&mut self) -> Vec<String> {
        let repo = match repo::open(&self.root) {
            Ok(repo) => repo,
            Err(failure) => return vec![failure.reason],
        };
        let paths = Paths::of(&repo);
        let mut notes = Vec::new();
        if let Some(operation) = repo::operation(&repo) {
            notes.push(format!(
                "{operation} is under way: git waits until it is finished or aborted"
            ));
        }
        if let Some(lock) = recover::foreign_lock(&paths) {
            let age = lock.modified().ok().and_then(|at| at.elapsed().ok());
            let age = age.map_or(String::new(), |age| format!(" for {} s", age.as_secs()));
            notes.push(format!(
                "{} has been there{age}: if no git command is running, remove it",
                paths.lock.display()
            ));
        } else if is_unfinished(&paths) {
            notes.push("a commit was cut short: the next drain finishes it".into());
        }
        match Head::read(&repo) {
            Ok(head) if head.is_detached() && !self.settings.allow_detached => {
                notes.push(
                    "HEAD is detached: nothing is committed until a branch is checked out".into(),
                );
            }
            Ok(_) => {}
            Err(failure) => notes.push(failure.reason),
        }
        notes
    }

    /// Keeps other processes of ours from committing in this checkout.
    fn turn(&self) -> Result<std::fs::File, Failure> {
        self.state.create()?;
        lock_file(
            &self.state.path().join("git.lock"),
            self.settings.lock_wait,
            "another wiki-sync that commits in this checkout",
        )
    }

    /// Returns the repository and its index as they are now.
    fn now(&mut self) -> Result<&Cached, Failure> {
        if let Some(cached) = &mut self.cached {
            if !recover::is_current(&cached.paths, cached.stamp.as_ref()) {
                (cached.index, cached.stamp) =
                    IndexFile::read(&cached.paths.index).map_err(|e| index_failure(&e))?;
            }
        } else {
            let repo = repo::open(&self.root)?;
            let paths = Paths::of(&repo);
            let (index, stamp) = IndexFile::read(&paths.index).map_err(|e| index_failure(&e))?;
            self.cached = Some(Cached {
                repo,
                paths,
                index,
                stamp,
            });
        }
        Ok(self.cached.as_ref().expect("just set"))
    }

    /// Returns the fingerprint as it is now; `index` is asked for only when it has changed since it was last.
    fn fingerprint_by(
        &self,
        repo: &Repository,
        stamp: Option<&Stamp>,
        index: impl FnOnce() -> Option<Folders>,
    ) -> String {
        let mut folders = self.folders.borrow_mut();
        if !folders.as_ref().is_some_and(|known| known.are_of(stamp)) {
            *folders = index();
        }
        let mark = folders
            .as_ref()
            .and_then(|known| known.mark(repo, &self.root));
        mark.map_or_else(|| "git".to_owned(), |mark| format!("git:{mark}"))
    }

    /// Calls `each` with every page that HEAD holds, in the order of the paths' bytes.
    fn pages(&mut self, each: &mut dyn FnMut(PagePath, String)) -> Result<(), Failure> {
        self.cached = None;
        self.brought.set(None);
        let repo = repo::open(&self.root)?;
        let head = Head::read(&repo)?;
        HeadTree::open(&repo, head.commit)?.files(&self.settings.pages_dir, &mut |path, id| {
            if (self.settings.is_page)(path.as_str()) {
                each(path, id.to_string());
            }
        })
    }

    /// Tries once to make the commit.
    fn attempt(&mut self, repo: &Repository, changes: &[Change]) -> Result<Vec<Outcome>, Halt> {
        let paths = Paths::of(repo);
        let head = Head::read(repo)?;
        let (index, stamp) = IndexFile::read(&paths.index).map_err(|e| index_failure(&e))?;
        // Before anything is converted: what changes meanwhile shows as another fingerprint at the next look.
        let fingerprint = self.fingerprint_by(repo, stamp.as_ref(), || {
            let pages_dir = &self.settings.pages_dir;
            Some(Folders::of(&index, stamp.as_ref(), pages_dir))
        });
        let (mut plan, tree) = {
            let mut planner = Planner {
                root: &self.root,
                repo,
                index: &index,
                head: HeadTree::open(repo, head.commit)?,
                folders: HashMap::new(),
                is_page: &*self.settings.is_page,
            };
            (planner.plan(changes)?, planner.head)
        };
        if !plan.moves.is_empty() {
            self.check_may_commit(repo, &head, &paths)?;
            let committer = Committer {
                repo,
                paths: &paths,
                head: &head,
                index,
                stamp,
                watch: &*self.watch,
            };
            if let Some(commit) = committer.commit(&mut plan, &tree)? {
                self.last_commit = Some(commit.to_string());
                self.commits += 1;
            }
            for page in &plan.moves {
                plan.outcomes[page.change] = Some(Ok(Applied {
                    changed: true,
                    mark: page.after.map(|held| held.id.to_string()),
                }));
            }
        }
        self.brought.set(Some(fingerprint));
        let outcomes = plan.outcomes.into_iter();
        Ok(outcomes
            .map(|outcome| outcome.expect("each change is sorted or moved"))
            .collect())
    }

    /// Says why nothing may be committed here now.
    fn check_may_commit(&self, repo: &Repository, head: &Head, paths: &Paths) -> Result<(), Halt> {
        if let Some(operation) = repo::operation(repo) {
            return Err(repo::waits_for(operation).into());
        }
        if head.is_detached() && !self.settings.allow_detached {
            let failure = Failure::new(FailureKind::Refused, "HEAD is detached")
                .hint("check out a branch: `git switch -c NAME`, or set git.allow_detached = true");
            return Err(failure.into());
        }
        repo::check_signing(repo)?;
        repo::signatures(repo)?;
        if paths.lock.exists() {
            return Err(Halt::Again(locked(paths)));
        }
        Ok(())
    }
}

/// Says whether a commit of ours was cut short here.
fn is_unfinished(paths: &Paths) -> bool {
    paths.journal.exists() || paths.next.exists()
}

fn failure_of(halt: Halt) -> Failure {
    match halt {
        Halt::Again(failure) | Halt::Fail(failure) => failure,
        #[cfg(test)]
        Halt::Crash => Failure::new(FailureKind::Down, "stopped by the test"),
    }
}

impl Store for GitStore {
    fn name(&self) -> StoreName {
        StoreName::Git
    }

    /// Changes with the attributes and the configuration by which git makes a page's blob. The first call
    /// after a batch returns that by which the batch was converted: its receipts stand under it.
    fn fingerprint(&self) -> String {
        if let Some(brought) = self.brought.take() {
            return brought;
        }
        let Ok(repo) = repo::open(&self.root) else {
            return "git".to_owned();
        };
        let index = Paths::of(&repo).index;
        let stamp = Stamp::of(&index).unwrap_or_default();
        self.fingerprint_by(&repo, stamp.as_ref(), || {
            let (index, stamp) = IndexFile::read(&index).ok()?;
            let pages_dir = &self.settings.pages_dir;
            Some(Folders::of(&index, stamp.as_ref(), pages_dir))
        })
    }

    /// The repository's own folder, and epoch 0: git is judged by HEAD ([`Store::witness`]), so nothing is
    /// kept inside it.
    fn identity(&mut self) -> Result<Identity, Failure> {
        let repo = repo::open(&self.root)?;
        // What keeps it from being finished now is said when something is to be committed.
        let _ = self.recover();
        Ok(Identity {
            id: format!("git:{}", repo.commondir().display()),
            epoch: 0,
        })
    }

    /// Nothing is kept inside it, so it stays what it is.
    fn renew(&mut self) -> Result<Identity, Failure> {
        self.identity()
    }

    fn apply(&mut self, changes: &[Change], _epoch: i64) -> Result<Vec<Outcome>, Failure> {
        self.cached = None;
        self.brought.set(None);
        // Opened for each batch: configuration, attributes and packs may have changed.
        let repo = repo::open(&self.root)?;
        let paths = Paths::of(&repo);
        let _turn = self.turn()?;
        let end = Instant::now() + self.settings.lock_wait;
        recover::recover(&repo, &paths, self.settings.lock_wait, &*self.watch)
            .map_err(failure_of)?;
        loop {
            let halt = match self.attempt(&repo, changes) {
                Ok(outcomes) => return Ok(outcomes),
                #[cfg(test)]
                Err(Halt::Crash) => return Err(failure_of(Halt::Crash)),
                Err(halt) => recover::undo(&repo, &paths, &*self.watch).unwrap_or(halt),
            };
            match halt {
                Halt::Again(_) if Instant::now() < end => std::thread::sleep(recover::POLL),
                halt => return Err(failure_of(halt)),
            }
        }
    }

    fn inventory(&mut self) -> Result<Vec<Holding>, Failure> {
        let mut holdings = Vec::new();
        self.pages(&mut |path, digest| {
            holdings.push(Holding {
                path: path.as_str().to_owned(),
                digest,
            });
        })?;
        Ok(holdings)
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        if self.exempt(&page.path)?.is_some() {
            return Ok(None);
        }
        let now = self.now()?;
        let blob = plan::blob_of(&now.repo, &now.index, page)?;
        Ok(Some(plan::hash(&blob)?.to_string()))
    }

    fn is_witnessed(&self) -> bool {
        true
    }

    fn witness(&mut self) -> Result<Option<Witness>, Failure> {
        repo::open(&self.root)?;
        // As in `identity`.
        let _ = self.recover();
        let mut witness = Witness::new();
        self.pages(&mut |path, id| witness.push((path, id)))?;
        Ok(Some(witness))
    }

    fn exempt(&mut self, path: &PagePath) -> Result<Option<String>, Failure> {
        let absent = std::fs::symlink_metadata(self.root.join(path)).is_err();
        let now = self.now()?;
        let entries = now.index.at(path.as_str());
        if absent && entries.iter().any(Entry::is_skip_worktree) {
            return Ok(Some("outside the sparse checkout".to_owned()));
        }
        if plan::is_tracked(&now.index, path.as_str()) {
            return Ok(None);
        }
        let commit = Head::read(&now.repo)?.commit;
        let in_head = HeadTree::open(&now.repo, commit)?.at(path.as_str())?;
        let ignored = in_head.is_none() && plan::is_ignored(&now.repo, path.as_str())?;
        Ok(ignored.then(|| "ignored by git".to_owned()))
    }

    fn tally(&self) -> Tally {
        Tally {
            commit: self.last_commit.clone(),
            commits: self.commits,
            ..Tally::default()
        }
    }

    fn notes(&mut self) -> Vec<Failure> {
        self.status_note()
            .into_iter()
            .map(|note| Failure::new(FailureKind::Waiting, note))
            .collect()
    }
}
