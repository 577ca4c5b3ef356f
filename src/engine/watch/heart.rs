//! That a watcher runs, and how it is: one for each checkout, and a beat that `status` reads.

use std::fs::{File, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ears::Mode;
use crate::model::{Failure, FailureKind, Timestamp};
use crate::state::{StateDir, lock_file};

/// How often it beats.
const BEAT: Duration = Duration::from_secs(5);
/// The same while changes are heard of.
const NEWS: Duration = Duration::from_millis(500);
/// How old the last beat of a watcher may be that is well: longer than the slowest step between two.
const STALE: Duration = Duration::from_secs(90);
/// How long a new watcher waits for one that is ending, or for a look of `status`.
const WAIT: Duration = Duration::from_secs(1);
/// The file is always this long, and written in one piece: a reader sees one beat, never half of two.
const LENGTH: usize = 1024;

/// What a watcher says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Its process.
    pub pid: u32,
    /// When it started, milliseconds since the epoch.
    pub since: i64,
    /// When it wrote this.
    pub beat: i64,
    /// `events`, `events+polling` or `polling`.
    pub mode: String,
    /// Why not by events alone.
    pub why: Option<String>,
    /// When it last heard of a change.
    pub last_event: Option<i64>,
    /// It only enqueues; another process drains.
    pub enqueue_only: bool,
    /// It has not said goodbye. A beat of an earlier version does not tell.
    #[serde(default)]
    pub alive: bool,
    /// It was to listen to events, and does not, or not everywhere.
    #[serde(default)]
    pub degraded: bool,
}

/// How the watcher of a checkout is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulse {
    /// Whether one runs.
    pub running: bool,
    /// Whether it runs and has not been heard of for too long.
    pub deaf: bool,
    /// Whether none runs, and the last one ended without a word: it was killed, or the machine went down.
    pub gone: bool,
    /// What it, or the last one, said.
    pub beat: Option<Beat>,
}

/// The heart of the watcher that runs in this process.
pub(super) struct Heart {
    _lock: File,
    file: File,
    beat: Beat,
    last: Option<Instant>,
    /// Something was heard since.
    news: bool,
}

impl Heart {
    /// Makes this process the checkout's watcher until it is dropped.
    ///
    /// # Errors
    /// `Busy`, naming the watcher that runs; `Down` when the files cannot be written.
    pub(super) fn start(state: &StateDir, enqueue_only: bool) -> Result<Self, Failure> {
        let path = state.path().join("watch.lock");
        let lock = lock_file(&path, WAIT, state.stop(), "another watch of this checkout").map_err(
            |failure| match (failure.kind, read(state)) {
                (FailureKind::Busy, Ok(Some(beat))) => {
                    let age = Timestamp(beat.since).until(Timestamp::now()).as_secs();
                    let reason = format!("{}, for {age} s", failure.reason);
                    let pid = beat.pid;
                    Failure::new(FailureKind::Busy, reason).hint(format!(
                        "one is enough: `wiki-sync status` shows it, `kill {pid}` ends it"
                    ))
                }
                (_, Ok(_) | Err(_)) => failure,
            },
        )?;
        let path = beat_path(state);
        let options = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let doing = format!("cannot write {}", path.display());
        let file = options.map_err(|e| Failure::from_error(FailureKind::Down, &doing, &e))?;
        let mut heart = Self {
            _lock: lock,
            file,
            beat: Beat {
                pid: std::process::id(),
                since: Timestamp::now().0,
                beat: 0,
                mode: Mode::Events.as_str().into(),
                why: None,
                last_event: None,
                enqueue_only,
                alive: true,
                degraded: false,
            },
            last: None,
            news: false,
        };
        heart.beat();
        Ok(heart)
    }

    /// Notes that a change was heard of.
    pub(super) fn heard(&mut self) {
        self.beat.last_event = Some(Timestamp::now().0);
        self.news = true;
    }

    /// Notes how changes are noticed, and whether that is less than was meant; says whether that is new.
    pub(super) fn set_mode(&mut self, mode: Mode, why: Option<&Failure>, degraded: bool) -> bool {
        let why = why.map(|why| why.reason.clone());
        let new = self.beat.mode != mode.as_str() || self.beat.why != why;
        if new {
            self.beat.degraded = degraded;
            self.beat.mode = mode.as_str().into();
            self.beat.why = why;
            self.last = None;
        }
        new
    }

    /// Beats, if it is time. Costs nothing else, and waits for no disk.
    pub(super) fn beat(&mut self) {
        let pause = if self.news { NEWS } else { BEAT };
        if self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.news = false;
        self.last = Some(Instant::now());
        self.beat.beat = Timestamp::now().0;
        // Where it cannot be written, `status` says that it is not well, which is so.
        let _ = self.file.write_all_at(&written(&self.beat), 0);
    }
}

impl Drop for Heart {
    /// Says goodbye.
    fn drop(&mut self) {
        self.beat.alive = false;
        let _ = self.file.write_all_at(&written(&self.beat), 0);
    }
}

/// Returns a beat as it stands in the file.
fn written(beat: &Beat) -> Vec<u8> {
    let mut text = serde_json::to_vec(beat).unwrap_or_default();
    if text.len() > LENGTH {
        let short = Beat {
            why: Some("too long to be told".into()),
            ..beat.clone()
        };
        text = serde_json::to_vec(&short).unwrap_or_default();
    }
    text.resize(LENGTH, b' ');
    text
}

/// Says goodbye for a watcher that runs in this process, if one does: a person ends it at once.
pub fn say_goodbye(state: &StateDir) {
    if let Ok(Some(beat)) = read(state)
        && beat.pid == std::process::id()
        && let Ok(file) = File::options().write(true).open(beat_path(state))
    {
        let beat = Beat {
            alive: false,
            ..beat
        };
        // As with a beat.
        let _ = file.write_all_at(&written(&beat), 0);
    }
}

fn beat_path(state: &StateDir) -> PathBuf {
    state.path().join("watch.beat")
}

fn read(state: &StateDir) -> std::io::Result<Option<Beat>> {
    let mut text = String::new();
    match File::open(beat_path(state)) {
        Ok(mut file) => file.read_to_string(&mut text)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(serde_json::from_str(&text).ok())
}

/// Feels the pulse of the checkout's watcher. Creates nothing.
///
/// # Errors
/// `Down` when the files cannot be read.
pub fn pulse(state: &StateDir, now: Timestamp) -> Result<Pulse, Failure> {
    let path = state.path().join("watch.lock");
    let down = |e: std::io::Error| {
        let doing = format!("cannot look at {}", path.display());
        Failure::from_error(FailureKind::Down, &doing, &e)
    };
    let running = match File::open(&path) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(e)) => return Err(down(e)),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => return Err(down(e)),
    };
    let beat = read(state).map_err(down)?;
    let deaf = running
        && beat
            .as_ref()
            .is_some_and(|beat| Timestamp(beat.beat).until(now) > STALE);
    let gone = !running && beat.as_ref().is_some_and(|beat| beat.alive);
    Ok(Pulse {
        running,
        deaf,
        gone,
        beat,
    })
}
