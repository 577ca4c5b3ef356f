//! The watcher at a glance, and what is wrong with it.

use std::time::Duration;

use serde::Serialize;

use crate::engine::watch::{Pulse, pulse};
use crate::model::{Failure, Finding, Timestamp};
use crate::state::StateDir;

/// The watcher at a glance.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(clippy::struct_excessive_bools)] // the shape of the JSON
pub struct WatchStatus {
    /// Whether one runs.
    pub running: bool,
    /// `events`, `polling`, or `events+polling`.
    pub mode: Option<String>,
    /// Why not by events alone.
    pub why: Option<String>,
    /// It runs and does nothing: it has not been heard of for too long.
    pub deaf: bool,
    /// None runs, and the last one ended without a word: it was killed, or the machine went down.
    pub gone: bool,
    /// It was to listen to events, and does not, or not everywhere.
    pub degraded: bool,
    /// When it was last heard of, milliseconds since the epoch.
    pub beat: Option<i64>,
    /// Its process.
    pub pid: Option<u32>,
    /// When it started, milliseconds since the epoch.
    pub since: Option<i64>,
    /// It only enqueues.
    pub enqueue_only: bool,
    /// When it last heard of a change, milliseconds since the epoch.
    pub last_event: Option<i64>,
}

impl WatchStatus {
    /// Says what is wrong with the watcher that is registered, and what to do; `None` when nothing is, and when there is
    /// none.
    #[must_use]
    pub fn trouble(&self, now: Timestamp) -> Option<Finding> {
        const NAME: &str = "watch";
        const AGAIN: &str = "start `wiki-sync watch` again";
        let pid = self.pid.unwrap_or_default();
        let ago = self
            .beat
            .map_or(Duration::ZERO, |beat| Timestamp(beat).until(now));
        let minutes = ago.as_secs().div_ceil(60);
        if self.deaf {
            let what = format!(
                "the watch does nothing: process {pid} was last heard of {minutes} min ago"
            );
            return Some(Finding::fault(
                NAME,
                what,
                format!("end it with `kill {pid}` (`kill -9`, if it stays) and {AGAIN}"),
            ));
        }
        if self.gone {
            let what = format!(
                "the watch (process {pid}) ended without a word, {minutes} min ago or less: it was killed, or the machine went down"
            );
            return Some(Finding::fault(
                NAME,
                what,
                format!("{AGAIN}; if none is to run: `rm .wiki-sync/watch.beat`"),
            ));
        }
        if self.degraded {
            let mode = self.mode.as_deref().unwrap_or_default();
            let why = self.why.as_deref().unwrap_or("events do not arrive");
            let what = format!("the watch goes by {mode} alone: {why}");
            let hint = "`wiki-sync doctor` shows the system's limits; watch.mode = \"poll\" says that it is meant so";
            return Some(Finding::fault(NAME, what, hint));
        }
        None
    }
}

/// Feels the watcher's pulse. Of one that said goodbye nothing is told but when it last heard of a change.
///
/// # Errors
/// `Down` when its files cannot be read.
pub fn watch_status(state: &StateDir, now: Timestamp) -> Result<WatchStatus, Failure> {
    let Pulse {
        running,
        deaf,
        gone,
        beat,
    } = pulse(state, now)?;
    let Some(beat) = beat else {
        return Ok(WatchStatus {
            running,
            ..WatchStatus::default()
        });
    };
    let last_event = beat.last_event;
    if !running && !gone {
        return Ok(WatchStatus {
            last_event,
            ..WatchStatus::default()
        });
    }
    Ok(WatchStatus {
        running,
        mode: Some(beat.mode),
        why: beat.why,
        deaf,
        gone,
        degraded: running && beat.degraded,
        beat: Some(beat.beat),
        pid: Some(beat.pid),
        since: Some(beat.since),
        enqueue_only: beat.enqueue_only,
        last_event,
    })
}
