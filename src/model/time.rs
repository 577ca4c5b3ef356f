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
    /// The time at which a test has stopped this thread's clock.
    static STOPPED: std::cell::Cell<Option<Timestamp>> = const { std::cell::Cell::new(None) };
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
        let now = Self::of_system();
        #[cfg(any(test, feature = "testing"))]
        let now = STOPPED.get().unwrap_or(now).plus(SKIPPED.get());
        now
    }

    fn of_system() -> Self {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        #[cfg(any(test, feature = "testing"))]
        let now = now.saturating_add(turned());
        Self(now)
    }

    /// Sets this thread's clock ahead, for tests of long outages.
    #[cfg(any(test, feature = "testing"))]
    pub fn skip(by: Duration) {
        SKIPPED.set(SKIPPED.get() + by);
    }

    /// Stops this thread's clock, so that a test sees the same on a slow machine; [`Timestamp::skip`] still moves it.
    #[cfg(any(test, feature = "testing"))]
    pub fn stop() {
        STOPPED.set(Some(Self::of_system()));
    }

    /// Returns this time plus `by`, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Returns the time as `2025-01-31 23:59:59 UTC`.
    #[must_use]
    pub fn utc(self) -> String {
        let seconds = self.0.div_euclid(1000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days since 0000-03-01, so that the leap day is a year's last (Howard Hinnant, "chrono-compatible
        // low-level date algorithms").
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        format!(
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }

    /// Returns how long it is from `self` until `later`; zero when `later` is not later.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_738_367_999, "2025-01-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Timestamp(seconds * 1000).utc(), text);
        }
    }
}
