//! Hints: empty files by which a hook that could not announce anything says that there is something to announce.
//!
//! The shell makes them, `hint.` with the hook's name; what made them is of no matter, since all of them are answered by
//! one comparison.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::StateDir;
use crate::model::{Failure, FailureKind};

/// How the name of a hint begins.
const PREFIX: &str = "hint.";

/// Hints that were taken: nobody else takes them meanwhile, and those left from now on are others.
#[derive(Debug)]
pub struct Taken {
    file: PathBuf,
}

impl StateDir {
    /// Counts the hints that were left and not answered.
    ///
    /// # Errors
    /// `Down` when the folder cannot be read.
    pub fn hints(&self) -> Result<u64, Failure> {
        Ok(self.hint_files()?.len() as u64)
    }

    /// Takes all hints that there are, where there are any; they count as left until they are answered.
    ///
    /// # Errors
    /// `Down` when that cannot be done.
    pub fn take_hints(&self) -> Result<Option<Taken>, Failure> {
        let file = self
            .path()
            .join(format!("{PREFIX}taken-{}", std::process::id()));
        let mut any = false;
        for hint in self.hint_files()? {
            match fs::rename(&hint, &file) {
                Ok(()) => any = true,
                // Somebody else has taken it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(&hint, &e)),
            }
        }
        Ok(any.then_some(Taken { file }))
    }

    fn hint_files(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = match fs::read_dir(self.path()) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(self.path(), &e)),
        };
        let hints = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            // What else somebody puts there under such a name is in nobody's way.
            name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        });
        Ok(hints.map(|entry| entry.path()).collect())
    }
}

impl Taken {
    /// Forgets the hints: what they meant is announced.
    ///
    /// # Errors
    /// `Down` when that cannot be done; then they are answered once more.
    pub fn answer(self) -> Result<(), Failure> {
        match fs::remove_file(&self.file) {
            // A neighbour has taken it over from us, and compares too.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| failed(&self.file, &e)),
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let doing = format!("cannot use {}", path.display());
    Failure::from_error(FailureKind::Down, &doing, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_left_while_others_are_answered_stays() {
        let temp = tempfile::tempdir().expect("a folder");
        let state = StateDir::of(temp.path());
        state.create().expect("made");
        assert!(state.take_hints().expect("read").is_none());
        let leave = |name| fs::write(state.path().join(name), "").expect("written");
        leave("hint.post-commit");
        leave("hint.post-merge");
        let taken = state.take_hints().expect("read").expect("some");
        assert_eq!(state.hints(), Ok(1));
        leave("hint.post-commit");
        taken.answer().expect("removed");
        assert_eq!(state.hints(), Ok(1));
    }

    #[test]
    fn hints_of_one_who_died_with_them_are_taken_by_the_next() {
        let temp = tempfile::tempdir().expect("a folder");
        let state = StateDir::of(temp.path());
        state.create().expect("made");
        fs::write(state.path().join("hint.taken-1"), "").expect("written");
        let taken = state.take_hints().expect("read").expect("some");
        taken.answer().expect("removed");
        assert_eq!(state.hints(), Ok(0));
    }
}
