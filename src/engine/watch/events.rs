//! The system's events, through the `notify` crate.
//!
//! On Linux with one watch for each folder of the wiki, so that folders that are none of ours are neither watched nor
//! heard of; elsewhere with one for the whole wiki. Reading is not asked for: a scan, a search or a backup makes no events.
//!
//! Systems differ in what they call things: macOS tells of a file's making when it was removed, and of a move only the
//! new name. So nothing here believes the kind of an event; the disk says what is there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::{
    Config, ErrorKind, EventKindMask, RecommendedWatcher, RecursiveMode, WatchPathConfig,
    Watcher as _,
};

use super::source::{Event, Source};
use crate::model::{Failure, FailureKind};
use crate::wiki::{Wiki, is_below};

/// Whether the system has a watch for each folder; else one covers all that is below.
const BY_FOLDER: bool = cfg!(any(target_os = "linux", target_os = "android"));

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
        if !events.is_empty() {
            self.any.notify_one();
        }
    }
}

/// The system's events.
#[derive(Debug)]
pub(super) struct Events {
    watcher: RecommendedWatcher,
    heard: Arc<Heard>,
    root: PathBuf,
    pages_dir: String,
    cage: PathBuf,
    /// The folders that are watched, where each has a watch of its own.
    folders: BTreeSet<String>,
}

impl Events {
    /// Opens a source for the wiki; no folder of it is armed yet. `cage` is a folder of our own, for the canary.
    ///
    /// # Errors
    /// `Down` when the system has no more of them for this user, or the cage cannot be made.
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
        let hear = move |told| ear.push(translate.all(told));
        let config = Config::default()
            .with_follow_symlinks(false)
            .with_event_kinds(EventKindMask::CORE | EventKindMask::ACCESS_CLOSE);
        let watcher = RecommendedWatcher::new(hear, config)
            .map_err(|e| refused("cannot listen to the file system", &e))?;
        let mut source = Self {
            watcher,
            heard,
            root: wiki.root().into(),
            pages_dir: wiki.pages_dir().into(),
            cage,
            folders: BTreeSet::new(),
        };
        source.watch(&source.cage.clone(), RecursiveMode::NonRecursive)?;
        source.arm_above()?;
        Ok(source)
    }

    /// Watches the folders above the pages' folder, as far as they are there, for its coming and going.
    fn arm_above(&mut self) -> Result<(), Failure> {
        let mut at = self.root.clone();
        for part in self.pages_dir.clone().split('/') {
            self.watch(&at, RecursiveMode::NonRecursive)?;
            at.push(part);
        }
        Ok(())
    }

    /// Watches a folder; one that is gone, or that may not be read, is passed over.
    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> Result<(), Failure> {
        let config = WatchPathConfig::new(mode).with_dereference_symlinks(false);
        match self.watcher.watch_with(path, config) {
            Ok(()) => Ok(()),
            Err(e) if is_passed_over(&e.kind) => Ok(()),
            Err(e) => Err(refused(&format!("cannot watch {}", path.display()), &e)),
        }
    }
}

impl Source for Events {
    fn arm(&mut self, folder: &str) -> Result<(), Failure> {
        let path = self.root.join(folder);
        if BY_FOLDER {
            self.watch(&path, RecursiveMode::NonRecursive)?;
            self.folders.insert(folder.into());
        } else if folder == self.pages_dir {
            self.watch(&path, RecursiveMode::Recursive)?;
        }
        Ok(())
    }

    fn disarm(&mut self, folder: &str) {
        // What is gone was let go of by the system already, mostly.
        if !BY_FOLDER {
            if folder == self.pages_dir {
                let _ = self.watcher.unwatch(&self.root.join(folder));
            }
            return;
        }
        let below = self
            .folders
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded))
            // Between a folder and what is below it others may sort: `a`, `a-b`, `a/c`.
            .take_while(|path| path.starts_with(folder))
            .filter(|path| *path == folder || is_below(path, folder));
        for path in below.cloned().collect::<Vec<_>>() {
            let _ = self.watcher.unwatch(&self.root.join(&path));
            self.folders.remove(&path);
        }
    }

    fn sing(&mut self) -> Result<(), Failure> {
        let canary = self.cage.join("canary");
        fs::write(&canary, "")
            .and_then(|()| fs::remove_file(&canary))
            .map_err(|e| uncaged(&self.cage, &e))
    }

    fn next(&mut self, _wiki: &Wiki, wait: Duration, events: &mut Vec<Event>) {
        let new = {
            let heard = self.heard.lock();
            let (mut heard, _) = self
                .heard
                .any
                .wait_timeout_while(heard, wait, |heard| heard.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *heard)
        };
        let came = Event::Folder(self.pages_dir.clone());
        if new.contains(&came) {
            // One above it may be another one now. A limit shows again when the folder itself is armed.
            let _ = self.arm_above();
        }
        events.extend(new);
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
            Err(e) if matches!(e.kind, ErrorKind::MaxFilesWatch) => {
                return vec![Event::Broken(
                    "the system has no room for more watches".into(),
                )];
            }
            Err(_) => return vec![Event::Rescan("the system's events went wrong")],
        };
        // Before the paths: it has none, often.
        if told.need_rescan() {
            return vec![Event::Rescan("more happened than the system could keep")];
        }
        if told.info() == Some("unmount") {
            return vec![Event::Rescan("a file system was unmounted")];
        }
        told.paths.iter().flat_map(|path| self.one(path)).collect()
    }

    fn one(&self, path: &Path) -> Vec<Event> {
        if path.starts_with(&self.cage) {
            return vec![Event::Canary];
        }
        let below = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
        let Some(below) = below.map(str::to_owned) else {
            return Vec::new();
        };
        let is_pages = below == self.pages_dir;
        let is_above = !below.is_empty() && is_below(&self.pages_dir, &below);
        if !is_pages && !is_above && !is_below(&below, &self.pages_dir) {
            return Vec::new();
        }
        // What comes and goes above them takes the pages along.
        let below = if is_above {
            self.pages_dir.clone()
        } else {
            below
        };
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => vec![Event::Folder(below)],
            Ok(_) if is_above => Vec::new(),
            Ok(_) => vec![Event::Changed(below)],
            // Nothing says what it was.
            Err(_) => vec![Event::Gone(below.clone()), Event::FolderGone(below)],
        }
    }
}

fn is_passed_over(kind: &ErrorKind) -> bool {
    match kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(e) => matches!(
            e.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}

fn uncaged(cage: &Path, error: &io::Error) -> Failure {
    let doing = format!("cannot write to {}", cage.display());
    Failure::from_error(FailureKind::Down, &doing, error)
}

/// Returns what a refused watch means, with the number to raise.
fn refused(doing: &str, error: &notify::Error) -> Failure {
    const OPEN_FILES: i32 = 24;
    let (reason, name) = match &error.kind {
        ErrorKind::MaxFilesWatch => ("inotify watch limit reached", "max_user_watches"),
        ErrorKind::Io(e) if BY_FOLDER && e.raw_os_error() == Some(OPEN_FILES) => {
            ("inotify instance limit reached", "max_user_instances")
        }
        _ => {
            return Failure::from_error(FailureKind::Down, doing, error)
                .hint("set watch.mode = \"poll\" where the system has no room for watches");
        }
    };
    let now = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap_or_default();
    let now = match now.trim() {
        "" => String::new(),
        now => format!(" ({now})"),
    };
    Failure::new(FailureKind::Down, format!("{doing}: {reason}{now}"))
        .hint(format!("raise it: `sysctl fs.inotify.{name}=1048576`"))
}

#[cfg(test)]
mod tests;
