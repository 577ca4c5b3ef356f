//! The journal: what a commit under way would need to be finished or undone by the next start.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use serde::{Deserialize, Serialize};

use super::repo::io_failure;
use super::stamp::{Stamp, sha_of_file};
use super::tree::Held;
use crate::model::Failure;

/// The files of a commit under way, all in the work tree's own git folder, where `index.lock` is too.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) git_dir: PathBuf,
    /// Where the refs of all work trees are.
    pub(super) common_dir: PathBuf,
    pub(super) index: PathBuf,
    pub(super) lock: PathBuf,
    /// The next index. It is gone exactly when it has been put in the index's place.
    pub(super) next: PathBuf,
    pub(super) journal: PathBuf,
    /// The name of the pack that was written for the commit.
    pub(super) pack: PathBuf,
}

impl Paths {
    pub(super) fn of(repo: &Repository) -> Self {
        let git_dir = repo.path();
        Self {
            git_dir: git_dir.to_path_buf(),
            common_dir: repo.commondir().to_path_buf(),
            index: git_dir.join("index"),
            lock: git_dir.join("index.lock"),
            next: git_dir.join("wiki-sync-index"),
            journal: git_dir.join("wiki-sync-journal"),
            pack: git_dir.join("wiki-sync-pack"),
        }
    }

    /// The lock under which a ref is moved.
    pub(super) fn lock_of(&self, reference: &str) -> PathBuf {
        let folder = if reference == "HEAD" {
            &self.git_dir
        } else {
            &self.common_dir
        };
        folder.join(format!("{reference}.lock"))
    }
}

/// What tells our lock from another's: the file itself, and its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockMark {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) sha: String,
}

impl LockMark {
    /// Says whether the file at `path` is provably the one that was marked.
    pub(super) fn is(&self, path: &Path) -> io::Result<bool> {
        Ok(self.is_inode(path)? && sha_of_file(path)?.is_some_and(|sha| sha == self.sha))
    }

    /// As [`LockMark::is`], for the process that made the file and has held it open to nobody.
    pub(super) fn is_inode(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(meta) => Ok((meta.dev(), meta.ino()) == (self.dev, self.ino)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// One page of the commit: what the index held of it, and what it is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) path: String,
    before: Option<(u32, String)>,
    after: Option<(u32, String)>,
}

impl Moved {
    pub(super) fn new(path: &str, before: Option<Held>, after: Option<Held>) -> Self {
        let text = |held: Option<Held>| held.map(|held| (held.mode, held.id.to_string()));
        Self {
            path: path.to_owned(),
            before: text(before),
            after: text(after),
        }
    }

    pub(super) fn before(&self) -> Option<Held> {
        held(self.before.as_ref())
    }

    pub(super) fn after(&self) -> Option<Held> {
        held(self.after.as_ref())
    }
}

fn held(text: Option<&(u32, String)>) -> Option<Held> {
    let (mode, id) = text?;
    Some(Held {
        mode: *mode,
        id: Oid::from_str(id).ok()?,
    })
}

/// Written before `index.lock` is taken, removed when everything is in its place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The ref that moves.
    pub(super) branch: String,
    /// Where HEAD must stand for the next index to be the right one.
    pub(super) commit: String,
    /// The index that the next one was made from.
    pub(super) index: Option<Stamp>,
    pub(super) lock: LockMark,
    pub(super) pages: Vec<Moved>,
}

impl Journal {
    /// Reads the journal, `None` when there is none, or none that can be read (it is replaced as a whole,
    /// so that can only be another's file, or a disk's damage).
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_failure("read", path, &e)),
        }
    }

    /// Brings the journal to the disk, whole.
    pub(super) fn write(&self, paths: &Paths) -> Result<(), Failure> {
        let temporary = paths.journal.with_extension("new");
        let bytes = serde_json::to_vec(self).expect("plain fields always serialise");
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &paths.journal)?;
            File::open(&paths.git_dir)?.sync_all()
        };
        write().map_err(|e| io_failure("write", &paths.journal, &e))
    }
}

/// Removes a file if it is there.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(io_failure("remove", path, &e)),
    }
}
