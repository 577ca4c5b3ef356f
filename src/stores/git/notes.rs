//! What a person should know about the repository.

use std::fs;
use std::path::{Path, PathBuf};

use super::commit::remove_it;
use super::journal::Paths;
use super::repo::{self, Head};
use super::{GitStore, is_unfinished, moving, recover};
use crate::model::{Failure, FailureKind};

impl GitStore {
    /// Returns what keeps commits from being made now, or will: an operation under way, a detached HEAD, why the repository
    /// cannot be used at all, or somebody's lock and how old it is.
    pub(super) fn surroundings(&mut self) -> Vec<Failure> {
        let (mut notes, locks) = self.notes_and_locks();
        notes.extend(locks.into_iter().map(|(_, note)| note));
        notes
    }

    /// As [`GitStore::surroundings`], the locks apart.
    pub(super) fn notes_and_locks(&mut self) -> (Vec<Failure>, Vec<(PathBuf, Failure)>) {
        let repo = match repo::open(&self.root) {
            Ok(repo) => repo,
            Err(failure) => return (vec![failure], Vec::new()),
        };
        let paths = Paths::of(&repo);
        let mut notes = Vec::new();
        if let Some(operation) = repo::operation(&repo).or_else(|| moving::passing(&repo)) {
            notes.push(repo::waits_for(operation));
        }
        let head = Head::read(&repo);
        let mut locks: Vec<PathBuf> = Vec::new();
        if recover::foreign_lock(&paths).is_some() {
            locks.push(paths.lock.clone());
        } else if is_unfinished(&paths) {
            notes.push(
                Failure::new(FailureKind::Waiting, "a commit was cut short")
                    .hint("`wiki-sync drain` finishes it"),
            );
        }
        locks.push(paths.lock_of("HEAD"));
        if let Ok(head) = &head
            && !head.is_detached()
        {
            locks.push(paths.lock_of(&head.name));
        }
        match head {
            Ok(head) if head.is_detached() && !self.settings.allow_detached => {
                notes.push(super::batch::detached());
            }
            Ok(_) => {}
            Err(failure) => notes.push(failure),
        }
        let locks = locks.into_iter();
        let locks = locks.filter_map(|lock| note_of(&lock).map(|note| (lock, note)));
        (notes, locks.collect())
    }
}

/// Says how long a lock has been there, if it is.
fn note_of(lock: &Path) -> Option<Failure> {
    let meta = fs::symlink_metadata(lock).ok()?;
    let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
    let age = age.map_or(String::new(), |age| {
        format!(" for {}", in_words(age.as_secs()))
    });
    let reason = format!("{} has been there{age}", lock.display());
    Some(Failure::new(FailureKind::Busy, reason).hint(remove_it(lock)))
}

/// Returns a span in its largest whole unit.
fn in_words(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{s}")
}
