//! The mark "working on this page", which outlives a killed process.
//!
//! A plain file: it has to survive a kill, not a power cut, so it costs no wait for the disk.

use std::fs;
use std::io;
use std::sync::atomic::Ordering;

use super::StateDir;
use crate::model::{Failure, FailureKind, PagePath};

impl StateDir {
    /// Sets the mark: whoever dies now dies of this page with this content.
    ///
    /// # Errors
    /// `Down` when it cannot be written.
    pub fn set_mark(&self, path: &PagePath, version: &str) -> Result<(), Failure> {
        let text = format!("{version}\n{path}");
        self.marked.store(true, Ordering::SeqCst);
        fs::write(self.mark(), text).map_err(|e| self.mark_failure(&e))
    }

    /// Takes the mark off.
    ///
    /// # Errors
    /// `Down` when it cannot be removed.
    pub fn clear_mark(&self) -> Result<(), Failure> {
        self.remove_mark()?;
        self.marked.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Takes the mark off if this process set it; for another thread, before it ends the process.
    ///
    /// # Errors
    /// `Down` when it cannot be removed.
    pub fn clear_own_mark(&self) -> Result<(), Failure> {
        if self.marked.load(Ordering::SeqCst) {
            self.remove_mark()?;
        }
        Ok(())
    }

    fn remove_mark(&self) -> Result<(), Failure> {
        match fs::remove_file(self.mark()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.mark_failure(&e)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns the page and content under whose mark a process died, if one did, and takes the mark off. Only for whoever
    /// holds the checkout's lock.
    ///
    /// # Errors
    /// `Down` when it cannot be read or removed.
    pub fn take_mark(&self) -> Result<Option<(String, String)>, Failure> {
        let text = match fs::read_to_string(self.mark()) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.mark_failure(&e)),
        };
        self.clear_mark()?;
        let marked = text.split_once('\n');
        Ok(marked.map(|(version, path)| (path.to_owned(), version.to_owned())))
    }

    fn mark(&self) -> std::path::PathBuf {
        self.path().join("working")
    }

    fn mark_failure(&self, error: &io::Error) -> Failure {
        Failure::from_error(
            FailureKind::Down,
            &format!("cannot use {}", self.mark().display()),
            error,
        )
    }
}
