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
//! power cut holds what git's own commands would leave: refs and packs are brought to the disk, loose objects only
//! when `core.fsync` (or `core.fsyncObjectFiles`) asks for it.

mod apart;
mod attributes;
mod batch;
mod by_git;
mod cache_tree;
mod commit;
mod configured;
mod convert;
mod disk;
mod examine;
mod filter;
mod head;
mod history;
mod index_entry;
mod index_file;
mod journal;
mod message;
mod moved;
mod moving;
mod next_index;
mod notes;
mod pack;
mod plan;
mod program;
mod recover;
mod repo;
mod sign;
mod stamp;
#[cfg(test)]
mod tests;
mod tree;
mod work_tree;

use std::cell::{Cell, RefCell, RefMut};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::Repository;

pub use self::attributes::persons_config;
pub use self::examine::examine;
pub use self::head::{Differs, HeadPages};
pub use self::history::{Became, History, PastCommit, Wanted, history};
pub use self::repo::open as open_repository;
pub use self::work_tree::work_tree;

use self::attributes::Folders;
use self::by_git::read_index;
use self::commit::{Halt, Step};
use self::filter::Tools;
use self::index_entry::Entry;
use self::index_file::IndexFile;
use self::journal::Paths;
pub use self::message::{DEFAULT_MESSAGE, check_author, check_message};
use self::repo::Head;
use self::stamp::Stamp;
use self::tree::HeadTree;
use super::{Holding, Identity, Outcome, Store, Tally, Witness};
use crate::model::{Change, Failure, Page, PagePath, StoreName, Within};
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
    /// Whether each page gets a commit of its own, a moved page one for both its paths. A batch of more than
    /// 100 pages is one commit all the same: nobody reads a first sync page by page.
    pub apart: bool,
    /// The template of a commit's message; see [`check_message`].
    pub message: String,
    /// `Name <mail>` of the author; empty: whoever commits. The committer is always the user.
    pub author: String,
    /// How long a program of the user's may take for one page (a filter) or one commit (a signature) before it
    /// is killed. 60 s: a signing key may have to be touched.
    pub program_wait: Duration,
    /// Whether it is only looked at: what a killed process left stays as it is.
    pub only_reads: bool,
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
            apart: false,
            message: DEFAULT_MESSAGE.into(),
            author: String::new(),
            program_wait: Duration::from_mins(1),
            only_reads: false,
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
    tools: Tools,
}

/// The pages in a git repository.
pub struct GitStore {
    root: PathBuf,
    state: StateDir,
    settings: GitSettings,
    cached: Option<Cached>,
    /// The index as it was last read or written, with its stamp.
    index: RefCell<Option<(IndexFile, Option<Stamp>)>>,
    /// Where attributes may stand, as the index last showed it.
    folders: RefCell<Option<Folders>>,
    /// The fingerprint by which the last batch was converted, until it is asked for.
    brought: Cell<Option<String>>,
    last_commit: Option<String>,
    /// How many commits this value made.
    commits: u64,
    watch: Box<dyn Fn(Step) -> bool + Send>,
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
            index: RefCell::new(None),
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
        if self.settings.only_reads || !is_unfinished(&paths) {
            return Ok(());
        }
        let _turn = self.turn()?;
        recover::recover(&repo, &paths, self.settings.lock_wait, &*self.watch).map_err(failure_of)
    }

    /// Keeps other processes of ours from committing in this checkout.
    fn turn(&self) -> Result<std::fs::File, Failure> {
        self.state.create()?;
        lock_file(
            &self.state.path().join("git.lock"),
            self.settings.lock_wait,
            self.state.stop(),
            "another wiki-sync that commits in this checkout",
        )
    }

    /// Returns the repository and its index as they are now.
    fn now(&mut self) -> Result<&Cached, Failure> {
        let cached = match self.cached.take() {
            Some(cached) if recover::is_current(&cached.paths, cached.stamp.as_ref()) => cached,
            old => {
                let repo = match old {
                    Some(old) => old.repo,
                    None => repo::open(&self.root)?,
                };
                let paths = Paths::of(&repo);
                let (index, stamp) = self.take_index(&repo, &paths)?;
                Cached {
                    repo,
                    paths,
                    index,
                    stamp,
                    tools: Tools::new(&self.root, self.settings.program_wait, false),
                }
            }
        };
        Ok(self.cached.insert(cached))
    }

    /// Lets go of the repository as it was, and of the programs that were asked.
    fn let_go(&mut self) {
        if let Some(cached) = self.cached.take() {
            self.keep_index(cached.index, cached.stamp);
        }
    }

    /// Returns the index and what tells it from the next, read only when it is not the one that was kept.
    fn take_index(
        &self,
        repo: &Repository,
        paths: &Paths,
    ) -> Result<(IndexFile, Option<Stamp>), Failure> {
        match self.index.take() {
            Some((index, stamp)) if recover::is_current(paths, stamp.as_ref()) => {
                Ok((index, stamp))
            }
            Some(_) | None => read_index(repo, paths),
        }
    }

    /// Keeps the index for the next look, if its stamp surely tells it from every other.
    fn keep_index(&self, index: IndexFile, stamp: Option<Stamp>) {
        if index.is_known_by_stamp() {
            self.index.replace(Some((index, stamp)));
        }
    }

    /// Returns where attributes may stand by this index.
    fn folders(&self, index: &IndexFile, stamp: Option<&Stamp>) -> RefMut<'_, Folders> {
        let mut folders = self.folders.borrow_mut();
        if !folders.as_ref().is_some_and(|known| known.are_of(stamp)) {
            *folders = Some(Folders::of(index, stamp, &self.settings.pages_dir));
        }
        RefMut::map(folders, |folders| folders.as_mut().expect("just set"))
    }

    /// Returns these pages as HEAD holds them, in the order of the paths' bytes.
    fn pages(&mut self, within: &Within) -> Result<Witness, Failure> {
        self.let_go();
        self.brought.set(None);
        let repo = repo::open(&self.root)?;
        let head = Head::read(&repo)?;
        let mut tree = HeadTree::open(&repo, head.commit)?;
        let mut pages = Witness::new();
        let mut each = |path: PagePath, id: git2::Oid| {
            if (self.settings.is_page)(path.as_str()) {
                pages.push((path, id.to_string()));
            }
        };
        if within.is_everything() {
            tree.files(&self.settings.pages_dir, &mut each)?;
            return Ok(pages);
        }
        for path in within.paths() {
            match tree.at(path)? {
                Some(held) if held.is_folder() => tree.files(path, &mut each)?,
                Some(held) if held.is_regular() => {
                    if let Ok(path) = PagePath::parse(path) {
                        each(path, held.id);
                    }
                }
                Some(_) | None => {}
            }
        }
        // A folder may come before a page whose name sorts between it and what is in it.
        pages.sort_unstable();
        Ok(pages)
    }
}

fn identity(repo: &Repository) -> Identity {
    Identity {
        id: format!("git:{}", repo.commondir().display()),
        epoch: 0,
    }
}

/// Says whether a commit of ours was cut short here.
fn is_unfinished(paths: &Paths) -> bool {
    paths.journal.exists() || paths.next.exists() || paths.pack.exists()
}

/// Returns the fingerprint of this mark of attributes and configuration.
fn fingerprint_of(mark: Option<String>) -> String {
    mark.map_or_else(|| "git".to_owned(), |mark| format!("git:{mark}"))
}

fn failure_of(halt: Halt) -> Failure {
    match halt {
        Halt::Again(failure) | Halt::Fail(failure) => failure,
        #[cfg(test)]
        Halt::Crash => Failure::new(crate::model::FailureKind::Down, "stopped by the test"),
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
        let paths = Paths::of(&repo);
        let stamp = Stamp::of(&paths.index).unwrap_or_default();
        let is_known = |known: &Folders| known.are_of(stamp.as_ref());
        if !self.folders.borrow().as_ref().is_some_and(is_known) {
            let Ok((index, stamp)) = self.take_index(&repo, &paths) else {
                self.folders.take();
                return fingerprint_of(None);
            };
            drop(self.folders(&index, stamp.as_ref()));
            self.keep_index(index, stamp);
        }
        let mut folders = self.folders.borrow_mut();
        let mark = folders
            .as_mut()
            .and_then(|known| known.mark(&repo, &self.root));
        fingerprint_of(mark)
    }

    /// The repository's own folder, and epoch 0: git is judged by HEAD ([`Store::witness`]), so nothing is
    /// kept inside it.
    fn identity(&mut self) -> Result<Identity, Failure> {
        let repo = repo::open(&self.root)?;
        // What keeps it from being finished now is said when something is to be committed.
        let _ = self.recover();
        Ok(identity(&repo))
    }

    /// Nothing is kept inside it, so it stays what it is.
    fn renew(&mut self) -> Result<Identity, Failure> {
        self.identity()
    }

    fn apply(&mut self, changes: &[Change], _epoch: i64) -> Result<Vec<Outcome>, Failure> {
        self.let_go();
        self.brought.set(None);
        // Opened for each batch: configuration, attributes and packs may have changed.
        let repo = repo::open(&self.root)?;
        let paths = Paths::of(&repo);
        let _turn = self.turn()?;
        recover::recover(&repo, &paths, self.settings.lock_wait, &*self.watch)
            .map_err(failure_of)?;
        let tools = Tools::new(&self.root, self.settings.program_wait, true);
        if !self.settings.apart {
            return self.bring(&repo, &tools, changes, false);
        }
        let sets = self.until_free(&repo, |store| store.sets(&repo, &tools, changes))?;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; changes.len()];
        for set in sets {
            let part: Vec<_> = set.whose.iter().map(|&at| changes[at].clone()).collect();
            let brought = self.bring(&repo, &tools, &part, set.is_move)?;
            for (at, outcome) in set.whose.into_iter().zip(brought) {
                outcomes[at] = Some(outcome);
            }
        }
        let outcomes = outcomes.into_iter();
        Ok(outcomes
            .map(|outcome| outcome.expect("each change is in a set"))
            .collect())
    }

    /// Judged by HEAD, whatever is noted beside it.
    fn find_identity(&mut self, _inside: bool) -> Result<Option<Identity>, Failure> {
        let repo = repo::open(&self.root)?;
        Ok(Some(identity(&repo)))
    }

    fn holdings(&mut self, within: &Within) -> Result<Vec<Holding>, Failure> {
        let pages = self.pages(within)?.into_iter();
        Ok(pages
            .map(|(path, digest)| Holding {
                path: path.to_string(),
                digest,
            })
            .collect())
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        if self.exempt(&page.path)?.is_some() {
            return Ok(None);
        }
        let now = self.now()?;
        let (id, _) = plan::blob_of(&now.repo, &now.index, &now.tools, page)?;
        Ok(Some(id.to_string()))
    }

    fn is_witnessed(&self) -> bool {
        true
    }

    fn witness(&mut self) -> Result<Option<Witness>, Failure> {
        repo::open(&self.root)?;
        // As in `identity`.
        let _ = self.recover();
        self.pages(&Within::everything()).map(Some)
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

    fn objections(&mut self, pages: &[PagePath]) -> Result<Vec<(PagePath, Failure)>, Failure> {
        self.let_go();
        let repo = repo::open(&self.root)?;
        let tools = Tools::new(&self.root, self.settings.program_wait, false);
        self.objections_to(&repo, &tools, pages).map_err(failure_of)
    }

    fn tally(&self) -> Tally {
        Tally {
            commit: self.last_commit.clone(),
            commits: self.commits,
            ..Tally::default()
        }
    }

    /// Lets go of the programs that were asked, and of what takes memory.
    fn rest(&mut self) {
        self.cached = None;
        self.index.take();
        self.folders.take();
    }

    fn notes(&mut self) -> Vec<Failure> {
        self.surroundings()
    }
}
