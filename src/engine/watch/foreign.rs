//! Events of other systems, through the `notify` crate: one watch for the whole wiki.
//!
//! Systems differ in what they call things: macOS tells of a file's making when it was removed, and of a move only the
//! new name. So nothing here believes the kind of an event; the disk says what is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::source::{Event, Source};
use crate::model::{Failure, FailureKind};
use crate::wiki::{Wiki, is_below};

/// More events than this, not taken yet, are one look at all.
const MOST: usize = 20_000;

/// What was heard and not taken yet.
#[derive(Debug, Default)]
struct Heard {
    events: Mutex<Vec<Event>>,
    any: Condvar,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, new: impl IntoIterator<Item = Event>) {
        let mut events = self.lock();
        for event in new {
            if events.last() != Some(&event) {
                events.push(event);
            }
        }
        if events.len() > MOST {
            events.clear();
            events.push(Event::Rescan("more happened than could be kept"));
        }
        self.any.notify_one();
    }
}

/// The system's events.
#[derive(Debug)]
pub(super) struct Foreign {
    watcher: RecommendedWatcher,
    heard: Arc<Heard>,
    pages: PathBuf,
    cage: PathBuf,
}

impl Foreign {
    /// Opens a source for the wiki; nothing of it is armed yet. `cage` is a folder of our own, for the canary.
    ///
    /// # Errors
    /// `Down` when the system refuses, or the cage cannot be made.
    pub(super) fn open(wiki: &Wiki, cage: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(cage).map_err(|e| uncaged(cage, &e))?;
        // The system tells of resolved paths.
        let cage = cage.canonicalize().map_err(|e| uncaged(cage, &e))?;
        let heard = Arc::new(Heard::default());
        let translate = Translate {
            root: wiki.root().into(),
            pages_dir: wiki.pages_dir().into(),
            cage: cage.clone(),
        };
        let ear = Arc::clone(&heard);
        let doing = "cannot listen to the file system";
        let mut watcher =
            notify::recommended_watcher(move |told: notify::Result<notify::Event>| {
                ear.push(translate.all(told));
            })
            .map_err(|e| refused(doing, &e))?;
        watcher
            .watch(&cage, RecursiveMode::NonRecursive)
            .map_err(|e| refused(doing, &e))?;
        watcher
            .watch(wiki.root(), RecursiveMode::NonRecursive)
            .map_err(|e| refused(doing, &e))?;
        Ok(Self {
            watcher,
            heard,
            pages: wiki.root().join(wiki.pages_dir()),
            cage,
        })
    }
}

impl Source for Foreign {
    fn arm(&mut self, folder: &str) -> Result<(), Failure> {
        // One watch covers all that is below.
        if !self.pages.ends_with(folder) {
            return Ok(());
        }
        let armed = self.watcher.watch(&self.pages, RecursiveMode::Recursive);
        match armed {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.kind, notify::ErrorKind::PathNotFound) => Ok(()),
            Err(e) => Err(refused(
                &format!("cannot watch {}", self.pages.display()),
                &e,
            )),
        }
    }

    fn disarm(&mut self, folder: &str) {
        if self.pages.ends_with(folder) {
            // It is gone already, mostly.
            let _ = self.watcher.unwatch(&self.pages);
        }
    }

    fn sing(&mut self) -> Result<(), Failure> {
        let canary = self.cage.join("canary");
        fs::write(&canary, "")
            .and_then(|()| fs::remove_file(&canary))
            .map_err(|e| uncaged(&self.cage, &e))
    }

    fn next(&mut self, _wiki: &Wiki, wait: Duration, events: &mut Vec<Event>) {
        let heard = self.heard.lock();
        let (mut heard, _) = self
            .heard
            .any
            .wait_timeout_while(heard, wait, |heard| heard.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        events.append(&mut heard);
    }
}

/// From what the system told to what happened.
struct Translate {
    root: PathBuf,
    pages_dir: String,
    cage: PathBuf,
}

impl Translate {
    fn all(&self, told: notify::Result<notify::Event>) -> Vec<Event> {
        let told = match told {
            Ok(told) => told,
            Err(e) if matches!(e.kind, notify::ErrorKind::MaxFilesWatch) => {
                return vec![Event::Broken(
                    "the system has no room for more watches".into(),
                )];
            }
            Err(_) => return vec![Event::Rescan("the system's events went wrong")],
        };
        // Before the paths: it has none, often.
        if told.need_rescan() {
            return vec![Event::Rescan("the system lost events")];
        }
        // Reading is no change.
        if told.kind.is_access() && !is_written(told.kind) {
            return Vec::new();
        }
        told.paths.iter().flat_map(|path| self.one(path)).collect()
    }

    fn one(&self, path: &Path) -> Vec<Event> {
        if path.starts_with(&self.cage) {
            return vec![Event::Canary];
        }
        let Ok(below) = path.strip_prefix(&self.root) else {
            return Vec::new();
        };
        let Some(below) = below.to_str().map(str::to_owned) else {
            return Vec::new();
        };
        if below != self.pages_dir && !is_below(&below, &self.pages_dir) {
            return Vec::new();
        }
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => vec![Event::Folder(below)],
            Ok(_) => vec![Event::Changed(below)],
            // Nothing says what it was.
            Err(_) => vec![Event::Gone(below.clone()), Event::FolderGone(below)],
        }
    }
}

fn is_written(kind: notify::EventKind) -> bool {
    use notify::event::{AccessKind, AccessMode};
    matches!(
        kind,
        notify::EventKind::Access(AccessKind::Close(AccessMode::Write))
    )
}

fn uncaged(cage: &Path, error: &std::io::Error) -> Failure {
    let doing = format!("cannot write to {}", cage.display());
    Failure::from_error(FailureKind::Down, &doing, error)
}

fn refused(doing: &str, error: &notify::Error) -> Failure {
    Failure::from_error(FailureKind::Down, doing, error)
        .hint("set watch.mode = \"poll\" where the system has no room for watches")
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, Flag, RemoveKind};
    use notify::{Event as Told, EventKind};

    use super::*;

    fn translate(root: &Path) -> Translate {
        Translate {
            root: root.into(),
            pages_dir: "w".into(),
            cage: root.join(".wiki-sync/canary"),
        }
    }

    #[test]
    fn lost_events_are_seen_although_they_come_without_a_path() {
        let told = Told::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(told.paths.is_empty());
        let events = translate(Path::new("/nowhere")).all(Ok(told));
        assert!(matches!(events[..], [Event::Rescan(_)]), "{events:?}");
    }

    #[test]
    fn the_disk_and_not_the_kind_of_an_event_says_what_is_there() {
        let root = tempfile::TempDir::new().expect("a folder");
        fs::create_dir(root.path().join("w")).expect("made");
        fs::write(root.path().join("w/there.md"), "x").expect("written");
        let translate = translate(root.path());
        let told = |kind, name: &str| {
            let told = Told::new(kind).add_path(root.path().join(name));
            translate.all(Ok(told))
        };
        assert_eq!(
            told(EventKind::Remove(RemoveKind::File), "w/there.md"),
            [Event::Changed("w/there.md".into())]
        );
        assert_eq!(
            told(EventKind::Create(CreateKind::File), "w/gone.md")[0],
            Event::Gone("w/gone.md".into())
        );
        assert!(told(EventKind::Create(CreateKind::File), "elsewhere.md").is_empty());
    }
}
