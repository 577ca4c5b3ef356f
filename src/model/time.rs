//! Points in time, as numbers that arrive from outside.

use std::time::Duration;

/// A point in time: milliseconds since the Unix epoch.
///
/// The model never asks a clock; whoever calls it brings the time, so that a week of outage is a
/// test of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

#[cfg(any(test, feature = "testing"))]
thread_local! {
    /// How far ahead of the system's clock a test has set this thread's.
    static SKIPPED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

/// Returns by how many milliseconds a test has turned this process's clock: what stands in the file that
/// `WIKI_SYNC_TEST_CLOCK` names, at each look.
#[cfg(any(test, feature = "testing"))]
fn turned() -> i64 {
    static FILE: std::sync::OnceLock<Option<std::path::PathBuf>> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("WIKI_SYNC_TEST_CLOCK").map(Into::into));
    let told = file
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    told.and_then(|told| told.trim().parse().ok())
        .unwrap_or_default()
}

impl Timestamp {
    /// Returns the system clock's present time.
    ///
    /// The one place where a clock is read; called at the edges (`cli`, `engine`), never in here.
    #[must_use]
    pub fn now() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let now = Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        #[cfg(any(test, feature = "testing"))]
        let now = Self(now.0.saturating_add(turned())).plus(SKIPPED.get());
        now
    }

    /// Sets this thread's clock ahead, for tests of long outages.
    #[cfg(any(test, feature = "testing"))]
    pub fn skip(by: Duration) {
        SKIPPED.set(SKIPPED.get() + by);
    }

    /// Returns this time plus `by`, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Returns how long it is from `self` until `later`; zero when `later` is not later.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}
