//! The watch: what is saved is in the stores a moment later, without anybody thinking of it.
//!
//! | file | what |
//! |---|---|
//! | `source.rs` | the trait of whatever tells of changes |
//! | `events.rs` | the system's events, through `notify` |
//! | `poll.rs`, `ears.rs` | looking again and again where nobody tells; both together |
//! | `pending.rs` | pages that changed: quiet window and ceiling. Pure |
//! | `surroundings.rs` | what git is doing beside us |
//! | `ground.rs` | what we stand on and nothing tells of: settings and state, the file system, the clocks |
//! | `hand.rs` | from pages that changed to jobs |
//! | `heart.rs` | one watcher for each checkout, and how it is |
//! | `watcher.rs` | the loop's state, and a turn of it |
//!
//! One thread: it waits for events, and when something is due it drains with the same [`Run`](super::drain) as
//! `drain` does. Events are hints. Folders are armed before they are looked at; what is lost all the same (a queue that
//! ran over, a machine that slept, a HEAD that moved) is found by a scan.

mod ears;
mod events;
mod ground;
mod hand;
mod heart;
mod pending;
mod poll;
mod source;
mod surroundings;
mod watcher;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drain::DrainOptions;
use super::report::DrainReport;
use super::{Parts, Progress};
use crate::model::{Failure, FailureKind, PagePath};
use crate::state::foreign_file_system;

pub use ears::Mode;
pub use heart::{Beat, Pulse, pulse, say_goodbye};
pub use pending::Windows;
pub use source::{Event, Source};

/// How to watch. Section `[watch]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSettings {
    /// How long a page is left alone before it is taken, and how long it is waited for at most.
    pub windows: Windows,
    /// How often all pages are compared with the stores, whatever events said.
    pub scan_every: Duration,
    /// How often the pages are looked at where events do not work.
    pub poll_every: Duration,
    /// How changes are to be noticed.
    pub choice: Choice,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            windows: Windows::default(),
            scan_every: Duration::from_mins(10),
            poll_every: Duration::from_secs(2),
            choice: Choice::Auto,
        }
    }
}

/// How changes are to be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// By events, where they work.
    #[default]
    Auto,
    /// By events, on a network's file system too.
    Events,
    /// By looking again and again.
    Poll,
}

/// What a watch works with.
pub struct WatchOptions<'a> {
    /// How to watch.
    pub settings: WatchSettings,
    /// How to drain. Its `stop` ends the watch.
    pub drain: DrainOptions,
    /// Only enqueue: another process drains. The parts need no stores.
    pub enqueue_only: bool,
    /// Says whether git ignores a path.
    pub ignored: &'a dyn Fn(&str) -> bool,
    /// Files, there or not, whose change changes that. Those below the pages' folder are heard of.
    pub ignore_rules: Vec<PathBuf>,
    /// Files, there or not, in which git is configured beside the repository's own.
    pub git_config: Vec<PathBuf>,
    /// A file that ends the watch when it changes: the settings.
    pub settings_file: PathBuf,
}

/// What a watch tells.
#[derive(Debug)]
pub enum Told<'a> {
    /// It listens; the first scan comes next.
    Started {
        /// How changes are noticed.
        mode: Mode,
        /// Why not by events alone.
        why: Option<&'a Failure>,
    },
    /// How changes are noticed has changed.
    Mode {
        /// How, now.
        mode: Mode,
        /// Why not by events alone.
        why: Option<&'a Failure>,
    },
    /// All pages are looked at.
    Rescan {
        /// Why.
        why: &'static str,
    },
    /// Jobs were done, or could not be.
    Synced {
        /// What was done since the last time.
        report: &'a DrainReport,
        /// The first pages that were changed in a store.
        pages: &'a [PagePath],
    },
    /// Pages were announced; another process drains.
    Enqueued {
        /// How many.
        jobs: u64,
    },
    /// Nothing can be done now; it is tried again.
    Trouble(&'a Failure),
}

/// Hears what a watch tells.
pub trait Listener {
    /// Hears one thing.
    fn hear(&mut self, told: &Told<'_>);

    /// Returns who hears how far a long run is.
    fn progress(&mut self) -> &mut dyn Progress;
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// What it works with was replaced: it is to be opened anew. For people, what.
    Again(&'static str),
}

/// Opens what tells of changes on this system.
///
/// # Errors
/// Why events cannot be relied on here, with what to do: a network's file system, a limit of the system's, or the
/// settings' wish.
pub fn open_source(parts: &Parts, choice: Choice) -> Result<Box<dyn Source>, Failure> {
    let pages = parts.wiki.root().join(parts.wiki.pages_dir());
    match choice {
        Choice::Poll => {
            return Err(Failure::new(FailureKind::Waiting, "watch.mode is \"poll\""));
        }
        Choice::Auto => {
            if let Some(foreign) = beyond_this_machine(&pages) {
                return Err(Failure::new(
                    FailureKind::Waiting,
                    format!(
                        "{} is on {}, where others' changes make no events",
                        pages.display(),
                        foreign
                    ),
                )
                .hint("if all changes are made on this machine, set watch.mode = \"events\""));
            }
        }
        Choice::Events => {}
    }
    let cage = parts.state.path().join("canary");
    Ok(Box::new(events::Events::open(&parts.wiki, &cage)?))
}

/// Returns the name of the file system that the pages are on, where others may change them without our hearing of it.
fn beyond_this_machine(pages: &Path) -> Option<&'static str> {
    fail::fail_point!("watch.network", |_| Some("NFS"));
    foreign_file_system(pages).map(|foreign| foreign.name)
}

/// Watches the wiki and drains, until it is told to stop.
///
/// # Errors
/// `Busy` when another watch of this checkout runs; what no waiting mends: a database or an outbox that is not ours.
/// Whatever is away for a while is told and tried again.
pub fn watch(
    parts: &mut Parts,
    source: Result<Box<dyn Source>, Failure>,
    options: &WatchOptions<'_>,
    listener: &mut dyn Listener,
) -> Result<End, Failure> {
    watcher::Watcher::start(parts, source, options, listener)?.run(parts, listener)
}
