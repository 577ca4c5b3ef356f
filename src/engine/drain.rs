//! The drain: claim, read, apply, settle, until nothing is due.

use std::time::Duration;

use super::report::DrainReport;
use super::{Parts, Progress};
use crate::model::Failure;

/// How to drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainOptions {
    /// Look for pages that nobody announced first.
    pub scan: bool,
    /// Wait for jobs whose time has not come and for stores that are away (the schedule once). When false,
    /// what is due now is done and the rest is left.
    pub wait: bool,
    /// Claim at most this many jobs.
    pub max_jobs: Option<u64>,
    /// How long to wait for new jobs once the queue is empty.
    pub timeout: Duration,
    /// Remove pages even when so many are gone at once that it looks like an accident.
    pub allow_mass_delete: bool,
    /// How long to wait for the checkout's lock.
    pub lock_wait: Duration,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self {
            scan: true,
            wait: true,
            max_jobs: None,
            timeout: Duration::ZERO,
            allow_mass_delete: false,
            lock_wait: Duration::from_secs(60),
        }
    }
}

/// Drains the outbox: every claimed job's page is brought to every store.
///
/// # Errors
/// Only when nothing can be done at all: the lock is not to be had, the outbox or the state is away.
/// Whatever concerns a page or a store is in the report.
pub fn drain(
    _parts: &mut Parts,
    _options: &DrainOptions,
    _progress: &mut dyn Progress,
) -> Result<DrainReport, Failure> {
    Ok(DrainReport::default())
}
