//! What the watch stands on and nothing tells of: the files that it works with, the file system below the pages, the clocks.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::WatchOptions;
use crate::engine::Parts;

/// A clock that went on for so much longer than we did: the machine slept.
const SLEPT: Duration = Duration::from_secs(30);

/// How all of it stood when it was last looked at.
#[derive(Debug)]
pub(super) struct Ground {
    pages: PathBuf,
    /// The database, the outbox, the settings.
    files: [Stamp; 3],
    /// What says what git ignores.
    rules: Vec<Stamp>,
    /// The file system that the pages lie on.
    device: Option<u64>,
    clocks: (Instant, SystemTime),
}

/// A file's inode, size and modification time; `None` when it is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

impl Ground {
    pub(super) fn new(parts: &Parts, options: &WatchOptions<'_>) -> Self {
        let pages = parts.wiki.root().join(parts.wiki.pages_dir());
        Self {
            files: files(parts, options),
            rules: rules(options),
            device: device(&pages),
            pages,
            clocks: (Instant::now(), SystemTime::now()),
        }
    }

    /// Says what of that we work with is another one now.
    pub(super) fn replaced(
        &self,
        parts: &Parts,
        options: &WatchOptions<'_>,
    ) -> Option<&'static str> {
        let [database, outbox, settings] = files(parts, options);
        if [database, outbox] != self.files[..2] {
            Some("the state folder was replaced")
        } else if settings != self.files[2] {
            Some("the settings changed")
        } else if device(&self.pages) != self.device {
            // A mount makes no event, and it may be a network's.
            Some("the pages' folder is on another file system")
        } else {
            None
        }
    }

    /// Says whether what git ignores may be something else than at the last look.
    pub(super) fn has_other_rules(&mut self, options: &WatchOptions<'_>) -> bool {
        let now = rules(options);
        std::mem::replace(&mut self.rules, now) != self.rules
    }

    /// Says whether the machine slept since the last look.
    pub(super) fn slept(&mut self, now: Instant) -> bool {
        let (instant, wall) = std::mem::replace(&mut self.clocks, (now, SystemTime::now()));
        // A clock that was set back says nothing.
        let went = wall_clock().duration_since(wall).unwrap_or_default();
        went > now.duration_since(instant) + SLEPT
    }
}

fn files(parts: &Parts, options: &WatchOptions<'_>) -> [Stamp; 3] {
    // Databases are written all the time.
    let which = |path: &Path| stamp(path).map(|(inode, ..)| (inode, 0, 0, 0));
    [
        which(&parts.state.database()),
        which(&parts.state.outbox()),
        stamp(&options.settings_file),
    ]
}

fn rules(options: &WatchOptions<'_>) -> Vec<Stamp> {
    options
        .ignore_rules
        .iter()
        .map(|file| stamp(file))
        .collect()
}

fn stamp(path: &Path) -> Stamp {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Returns the file system that a folder is on, or will be when it is there.
fn device(folder: &Path) -> Option<u64> {
    fail::fail_point!("watch.mounted", |_| crate::model::Timestamp::now()
        .0
        .try_into()
        .ok());
    let mut there = folder.ancestors();
    there.find_map(|folder| Some(fs::symlink_metadata(folder).ok()?.dev()))
}

/// Returns the time by the clock on the wall, which goes on while the machine sleeps.
fn wall_clock() -> SystemTime {
    fail::fail_point!("watch.slept", |_| SystemTime::now()
        + Duration::from_hours(1));
    SystemTime::now()
}
