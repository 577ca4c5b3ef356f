//! What we remember, in `.wiki-sync/` at the repository's root.
//!
//! | file | holds |
//! |---|---|
//! | `.gitignore` | `*`: the folder ignores itself |
//! | `wiki.db` | SQLite: graph, receipts, what was seen of each file, alerts |
//! | `outbox.db` | SQLite: the embedded outbox and its dead letters |
//! | `vectors/` | the Qdrant Edge shard |
//! | `drain.lock` | the checkout's lock, see [`CheckoutLock`] |
//! | `rebuild.lock` | held by whoever builds the vectors anew |
//! | `tmp/` | what becomes a page, while `put` or `mv` writes it |
//! | `working` | the page that is being looked at alone, while it is |
//! | `spool` | jobs that the outbox could not take, see [`StateDir::keep_jobs`]; `spool.lock` is held by whoever touches it |
//! | `layout` | where the viewer draws the graph's nodes |
//! | `hint.*` | a hook could not announce what it had to, see [`StateDir::hints`] |
//!
//! All of it can be lost: the next drain rebuilds it from the files, but for labels that only the spool or the outbox knew.

mod db;
mod disk;
mod hints;
mod lock;
mod look;
mod mark;
mod marks;
mod outbox_db;
mod receipts;
mod spool;
mod stop;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use db::{db_failure, open_db, open_db_to_read, outbox_failure, with_write};
pub use disk::{Foreign, Room, foreign_file_system, room};
pub use hints::Taken;
pub use lock::CheckoutLock;
pub(crate) use lock::lock_file;
pub use look::{Checked, Look, Version, look};
pub use outbox_db::{OutboxDb, open_outbox_db};
pub use receipts::{Entry, Epochs, FileSeen, Known, Receipt, Receipts};
pub use spool::Kept;
pub use stop::Stop;

use crate::model::{Failure, FailureKind};

/// The folder's name, at the repository's root.
pub const STATE_DIR: &str = ".wiki-sync";

/// The state folder of one checkout.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
    stop: Stop,
    /// Whether this process set the mark, see [`StateDir::set_mark`].
    marked: Arc<AtomicBool>,
}

impl StateDir {
    /// Names the state folder of the checkout at `root`, whether it exists or not.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self {
            path: root.join(STATE_DIR),
            stop: Stop::default(),
            marked: Arc::default(),
        }
    }

    /// Returns the folder with a wish to stop that ends every wait for one of its locks.
    #[must_use]
    pub fn stopping(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Returns the wish that ends the waits for its locks.
    #[must_use]
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    fn down(&self, error: &std::io::Error) -> Failure {
        let doing = format!("cannot make {}", self.path.display());
        Failure::from_error(FailureKind::Down, &doing, error)
    }

    /// Checks that whatever has the folder's name is a folder of ours. It need not be there.
    ///
    /// # Errors
    /// As [`StateDir::create`].
    pub fn check(&self) -> Result<(), Failure> {
        let meta = match fs::symlink_metadata(&self.path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(self.down(&e)),
        };
        if !meta.is_dir() {
            return Err(Failure::new(
                FailureKind::Refused,
                format!("{} is there and is not a folder", self.path.display()),
            )
            .hint("move it away: wiki-sync keeps its state in a folder of that name"));
        }
        // We never make a link in there; one that came with a clone could lead our writes anywhere.
        for entry in fs::read_dir(&self.path).map_err(|e| self.down(&e))? {
            let entry = entry.map_err(|e| self.down(&e))?;
            if entry.file_type().map_err(|e| self.down(&e))?.is_symlink() {
                return Err(Failure::new(
                    FailureKind::Refused,
                    format!(
                        "{} is a symbolic link, and not ours",
                        entry.path().display()
                    ),
                )
                .hint("remove it, or the whole of .wiki-sync: the next drain rebuilds that"));
            }
        }
        Ok(())
    }

    /// Makes sure that the folder exists and ignores itself.
    ///
    /// # Errors
    /// `Down` when it cannot be made; `Refused` when something that is no folder has its name.
    pub fn create(&self) -> Result<(), Failure> {
        self.check()?;
        fs::create_dir_all(&self.path).map_err(|e| self.down(&e))?;
        let ignore = self.path.join(".gitignore");
        if fs::symlink_metadata(&ignore).is_err() {
            fs::write(&ignore, "*\n").map_err(|e| self.down(&e))?;
        }
        Ok(())
    }

    /// Says whether there is any state yet.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.database().exists()
    }

    /// Returns the path of the SQLite database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join("wiki.db")
    }

    /// Returns the path of the embedded outbox's SQLite database.
    #[must_use]
    pub fn outbox(&self) -> PathBuf {
        self.path.join("outbox.db")
    }

    /// Returns the path of the Edge shard's folder.
    #[must_use]
    pub fn vectors(&self) -> PathBuf {
        self.path.join("vectors")
    }

    /// Returns the folder's own path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
