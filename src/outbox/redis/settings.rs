//! Where the outbox is, and whose clock judges there.

use std::time::Duration;

use super::Owner;
use crate::model::Timestamp;

/// Where an outbox in Redis is.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://`, `rediss://` or `unix://`; may hold a user and a password, and is never shown.
    pub url: String,
    /// The list that producers write to.
    pub key: String,
    /// The list of the dead letters' raw lines.
    pub dead_key: String,
    /// Use a server that may throw keys away when its memory is full.
    pub allow_eviction: bool,
    /// The checkout that it serves.
    pub owner: Owner,
    /// Whose clock judges leases and waits.
    pub clock: Clock,
    /// For how long a job is put off at most, an hour in any case.
    pub longest_wait: Duration,
    /// How long one call may take in all, connecting included; then it is `Down`, and may have been done all the same.
    /// `None`: as long as it goes on, each answer within 2 s.
    pub within: Option<Duration>,
}

impl std::fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSettings")
            .field("key", &self.key)
            .field("dead_key", &self.dead_key)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Whose clock judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The server's, the same for all workers: one whose clock is wrong steals nothing.
    #[default]
    Server,
    /// The `now` of each call, for tests that move the time.
    Caller,
}

/// How far the server's clock is ahead of the caller's, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset(pub(super) i64);

impl Offset {
    /// Returns a caller's time as the server's.
    pub(super) fn server(self, time: Timestamp) -> Timestamp {
        Timestamp(time.0.saturating_add(self.0))
    }

    /// Returns a server's time as the caller's.
    pub(super) fn told(self, ms: i64) -> Timestamp {
        Timestamp(ms.saturating_sub(self.0))
    }

    /// Returns a server's time as the caller's, for people: the same each time it is asked for. Each look at the two clocks
    /// measures another fraction of a second, so only whole ones count.
    pub(super) fn date(self, ms: i64) -> Timestamp {
        Self((self.0.saturating_add(500)).div_euclid(1_000) * 1_000).told(ms)
    }
}
