//! Whose turn it is with the shard: one process at a time, and whoever waits is seen.
//!
//! | file | lock on it | means |
//! |---|---|---|
//! | `vectors.lock` | exclusive | has the shard open |
//! | `vectors.wish` | shared | waits for `vectors.lock` |
//!
//! The kernel lets go of both when a process dies.

use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::model::{Failure, FailureKind};
use crate::state::{StateDir, Stop, lock_file};

/// How long one who has just let go waits for the others to take their turn, before he asks for the next.
const COURTESY: Duration = Duration::from_secs(1);

/// How often he looks whether they have.
const POLL: Duration = Duration::from_millis(2);

/// The turn, taken: nobody else has the shard open while this lives.
#[derive(Debug)]
pub(super) struct Taken {
    _lock: File,
}

/// Whose turn it is.
pub(super) enum Whose {
    /// Nobody's, as long as this is kept; `None` where nobody ever had one.
    Nobodys(Option<File>),
    /// A process's, of this id, as far as that can be read.
    Theirs(Option<String>),
}

/// The two lock files of one checkout.
#[derive(Debug)]
pub(super) struct Turn {
    lock: PathBuf,
    wish: PathBuf,
    wait: Duration,
    stop: Stop,
    gave_way: bool,
}

impl Turn {
    pub(super) fn of(state: &StateDir, wait: Duration) -> Self {
        Self::named(state, "vectors", wait)
    }

    /// Returns the turn with another shard, which has files of its own.
    pub(super) fn named(state: &StateDir, name: &str, wait: Duration) -> Self {
        Self {
            lock: state.path().join(format!("{name}.lock")),
            wish: state.path().join(format!("{name}.wish")),
            wait,
            stop: state.stop().clone(),
            gave_way: false,
        }
    }

    /// Takes the turn, waiting at most as long as the settings say; first lets those go ahead for whom
    /// the last turn was given up.
    ///
    /// # Errors
    /// `Busy` when it is not free in time, `Down` when the lock files cannot be used.
    pub(super) fn take(&mut self) -> Result<Taken, Failure> {
        if std::mem::take(&mut self.gave_way) {
            let end = Instant::now() + COURTESY.min(self.wait);
            while self.is_wished() && Instant::now() < end && !self.stop.is_wished() {
                std::thread::sleep(POLL);
            }
        }
        // The shared lock on the wish is only ever refused for the moment in which somebody looks at it.
        let wish = self.open_wish()?;
        wish.lock_shared().map_err(|e| self.down(&e))?;
        let lock = lock_file(
            &self.lock,
            self.wait,
            &self.stop,
            "another wiki-sync that reads or writes the vectors",
        )?;
        Ok(Taken { _lock: lock })
    }

    /// Looks whose turn it is; takes none, and changes nothing.
    ///
    /// # Errors
    /// `Down` when the lock file cannot be looked at.
    pub(super) fn whose(&self) -> Result<Whose, Failure> {
        let mut file = match File::open(&self.lock) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Whose::Nobodys(None)),
            Err(e) => return Err(self.down(&e)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Whose::Nobodys(Some(file))),
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // A courtesy, as where the lock is waited for.
                let _ = file.read_to_string(&mut pid);
                let pid = pid.trim();
                Ok(Whose::Theirs((!pid.is_empty()).then(|| pid.into())))
            }
            Err(TryLockError::Error(e)) => Err(self.down(&e)),
        }
    }

    /// Says whether somebody waits for the turn. Does not block.
    pub(super) fn is_wished(&self) -> bool {
        self.open_wish()
            .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Remembers that the turn was given up for somebody.
    pub(super) fn gave_way(&mut self) {
        self.gave_way = true;
    }

    fn open_wish(&self) -> Result<File, Failure> {
        File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.wish)
            .map_err(|e| self.down(&e))
    }

    fn down(&self, error: &std::io::Error) -> Failure {
        let doing = format!("cannot lock {}", self.wish.display());
        Failure::from_error(FailureKind::Down, &doing, error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn whoever_the_turn_was_given_up_for_has_it_next() {
        let root = tempfile::TempDir::new().expect("a folder");
        let state = StateDir::of(root.path());
        state.create().expect("created");
        let wait = Duration::from_secs(20);
        let (said, heard) = mpsc::channel();
        let mut drain = Turn::of(&state, wait);
        let taken = drain.take().expect("free");
        assert!(!drain.is_wished());
        let mut reader = Turn::of(&state, wait);
        let reader_said = said.clone();
        let waiting = std::thread::spawn(move || {
            let taken = reader.take().expect("its turn");
            reader_said.send("reader").expect("heard");
            drop(taken);
        });
        let end = Instant::now() + wait;
        while !drain.is_wished() {
            assert!(Instant::now() < end, "nobody wishes");
            std::thread::sleep(POLL);
        }
        drop(taken);
        drain.gave_way();
        let _taken = drain.take().expect("its turn again");
        said.send("drain").expect("heard");
        waiting.join().expect("ended");
        drop(said);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["reader", "drain"]);
    }
}
