//! The checkout's lock: one drain at a time, batch by batch.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::time::{Duration, Instant};

use super::{StateDir, Stop};
use crate::model::{Failure, FailureKind};

/// How often a waiting process looks whether a lock has become free.
const POLL: Duration = Duration::from_millis(15);

/// A kernel lock (`flock`) on `.wiki-sync/drain.lock`, held from claim to settle of one batch.
///
/// The kernel lets go of it when the process dies, so whoever holds it knows that this checkout's other
/// in-flight jobs belong to the dead.
#[derive(Debug)]
pub struct CheckoutLock {
    _file: File,
}

impl CheckoutLock {
    /// Waits up to `wait` for the lock, less when a stop is wished.
    ///
    /// # Errors
    /// `Busy`, naming who holds it, when it is not free in time; `Down` when the file cannot be opened.
    pub fn acquire(state: &StateDir, wait: Duration) -> Result<Self, Failure> {
        let path = state.path().join("drain.lock");
        lock_file(&path, wait, state.stop(), "another drain of this checkout")
            .map(|file| Self { _file: file })
    }
}

/// Takes an exclusive `flock` on `path`, waiting up to `wait` or until a stop is wished, and writes our process id into it.
///
/// # Errors
/// `Busy`, naming `whose` and the process that holds it, when it is not free in time; `Down` when the
/// file cannot be opened.
pub(crate) fn lock_file(
    path: &std::path::Path,
    wait: Duration,
    stop: &Stop,
    whose: &str,
) -> Result<File, Failure> {
    let down = |e: std::io::Error| {
        Failure::from_error(
            FailureKind::Down,
            &format!("cannot lock {}", path.display()),
            &e,
        )
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(down)?;
    let end = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < end && !stop.is_wished() => {
                std::thread::sleep(POLL);
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it is a courtesy: an unreadable note is no reason to fail differently.
                let _ = file.read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => String::new(),
                    pid => format!(" (process {pid})"),
                };
                return Err(
                    Failure::new(FailureKind::Busy, format!("{whose}{holder} is at work"))
                        .hint("wait for it to end, or try again later"),
                );
            }
            Err(TryLockError::Error(e)) => return Err(down(e)),
        }
    }
    let note = format!("{}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(note.as_bytes()))
        .map_err(down)?;
    Ok(file)
}
