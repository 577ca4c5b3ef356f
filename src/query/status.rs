//! Status: where every job and store stands.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::engine::Parts;
use crate::engine::report::{Skipped, Trouble};
use crate::model::{Failure, Timestamp};

/// Where everything stands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StatusReport {
    /// Nothing is owed: no job waits, no page differs from its receipts and HEAD, no dead letter rests.
    pub fresh: bool,
    /// Jobs by state.
    pub outbox: OutboxStatus,
    /// By store's name.
    pub stores: BTreeMap<&'static str, StoreStatus>,
    /// The watcher.
    pub watch: WatchStatus,
    /// Pages in the folder.
    pub pages: u64,
    /// Pages that differ from their receipts or HEAD and that no job waits for yet.
    pub unannounced: u64,
    /// Jobs that are held or put back, with the reason, at most 100.
    pub held: Vec<HeldJob>,
    /// Things that look like pages and are none.
    pub skipped: Vec<Skipped>,
    /// What a person should know and do: a foreign lock, an operation under way, a store that is away.
    pub trouble: Vec<Trouble>,
}

/// Jobs by state.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OutboxStatus {
    /// May be claimed now.
    pub waiting: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// In a worker's hands.
    pub in_flight: u64,
    /// Waiting for a store or for the user.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
    /// Milliseconds since the epoch when the oldest waiting job was enqueued.
    pub oldest: Option<i64>,
}

/// A store at a glance.
#[derive(Debug, Clone, Serialize)]
pub struct StoreStatus {
    /// `up` or `down`.
    pub state: &'static str,
    /// Pages it holds, by receipts (git: by HEAD).
    pub pages: u64,
}

/// The watcher at a glance.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WatchStatus {
    /// Whether one runs.
    pub running: bool,
    /// `events` or `polling`.
    pub mode: Option<&'static str>,
    /// When it last heard of a change, milliseconds since the epoch.
    pub last_event: Option<i64>,
}

/// A job that is held or was put back.
#[derive(Debug, Clone, Serialize)]
pub struct HeldJob {
    /// The page.
    pub path: String,
    /// The store it is held for.
    pub store: Option<&'static str>,
    /// Why.
    pub reason: String,
    /// Attempts that have failed so far.
    pub attempts: u32,
    /// When it was first enqueued, milliseconds since the epoch.
    pub since: i64,
}

/// Looks where everything stands; changes nothing.
///
/// # Errors
/// When the pages or the outbox cannot be read.
pub fn status(_parts: &mut Parts, _now: Timestamp) -> Result<StatusReport, Failure> {
    Ok(StatusReport::default())
}
