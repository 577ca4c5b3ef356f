//! The retry policy as plain data: what becomes of a job that failed.

use std::time::Duration;

use super::FailureKind;

/// How often and when a failed job is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Waits between attempts; one more attempt than waits. The ancestor's: 1, 3 and 9 s, four attempts.
    pub waits: Vec<Duration>,
    /// Waits between probes of a store that is away; the last one repeats. 1, 3, 9, 27 s.
    pub probes: Vec<Duration>,
    /// Whether a store that is away costs the job an attempt, as the ancestor had it. Else it costs none.
    pub outage_counts: bool,
    /// How much longer a wait may become by chance, as a part of it in percent. Added, never taken off,
    /// so that a promised wait is never shortened.
    pub jitter_percent: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let seconds = |list: &[u64]| list.iter().copied().map(Duration::from_secs).collect();
        Self {
            waits: seconds(&[1, 3, 9]),
            probes: seconds(&[1, 3, 9, 27]),
            outage_counts: false,
            jitter_percent: 20,
        }
    }
}

/// What is to become of a job that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after this wait; the attempt counts.
    RetryAfter(Duration),
    /// Keep it until the store or the user is ready; the attempt does not count.
    Hold,
    /// To the dead letters.
    Dead,
}

impl RetryPolicy {
    /// Decides for a failure of `kind` after `failed` attempts that failed before this one.
    ///
    /// `dice` is a number from 0 to 1 that the caller threw.
    #[must_use]
    pub fn verdict(&self, kind: FailureKind, failed: u32, dice: f64) -> Verdict {
        match kind {
            FailureKind::Down if !self.outage_counts => Verdict::Hold,
            FailureKind::Busy | FailureKind::Waiting | FailureKind::Refused => Verdict::Hold,
            FailureKind::Rejected => Verdict::Dead,
            FailureKind::Down | FailureKind::Transient => match self.waits.get(failed as usize) {
                Some(&wait) => {
                    let most = wait * self.jitter_percent / 100;
                    Verdict::RetryAfter(wait + most.mul_f64(dice.clamp(0.0, 1.0)))
                }
                None => Verdict::Dead,
            },
        }
    }

    /// Returns the longest that a job is put off at a time; what lies further ahead does so because the clock was set back.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        // A page that moves on while it is applied is looked at again after some seconds.
        const LEAST: Duration = Duration::from_mins(1);
        let most = |list: &[Duration]| list.iter().copied().max().unwrap_or_default();
        let retry = most(&self.waits) * (100 + self.jitter_percent) / 100;
        retry.max(most(&self.probes)).max(LEAST)
    }

    /// Returns how long to wait before the probe after `failed` probes that failed in a row.
    #[must_use]
    pub fn probe_wait(&self, failed: usize) -> Duration {
        let last = self.probes.len().saturating_sub(1);
        self.probes
            .get(failed.min(last))
            .copied()
            .unwrap_or(Duration::from_secs(27))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_attempts_with_1_3_and_9_seconds_between_them() {
        let policy = RetryPolicy::default();
        let after = |failed| policy.verdict(FailureKind::Transient, failed, 0.0);
        assert_eq!(after(0), Verdict::RetryAfter(Duration::from_secs(1)));
        assert_eq!(after(1), Verdict::RetryAfter(Duration::from_secs(3)));
        assert_eq!(after(2), Verdict::RetryAfter(Duration::from_secs(9)));
        assert_eq!(after(3), Verdict::Dead);
        assert_eq!(after(u32::MAX), Verdict::Dead);
    }

    #[test]
    fn jitter_is_added_and_never_shortens() {
        let policy = RetryPolicy::default();
        assert_eq!(
            policy.verdict(FailureKind::Transient, 2, 1.0),
            Verdict::RetryAfter(Duration::from_millis(10_800))
        );
        assert_eq!(
            policy.verdict(FailureKind::Transient, 0, -5.0),
            Verdict::RetryAfter(Duration::from_secs(1))
        );
    }

    #[test]
    fn only_a_failing_page_uses_an_attempt() {
        let policy = RetryPolicy::default();
        for kind in [
            FailureKind::Down,
            FailureKind::Busy,
            FailureKind::Waiting,
            FailureKind::Refused,
        ] {
            assert_eq!(policy.verdict(kind, 99, 0.5), Verdict::Hold, "{kind:?}");
        }
        assert_eq!(policy.verdict(FailureKind::Rejected, 0, 0.5), Verdict::Dead);
    }

    #[test]
    fn an_outage_counts_for_whoever_wants_the_ancestors_way() {
        let policy = RetryPolicy {
            outage_counts: true,
            ..RetryPolicy::default()
        };
        let after = |failed| policy.verdict(FailureKind::Down, failed, 0.0);
        assert_eq!(after(0), Verdict::RetryAfter(Duration::from_secs(1)));
        assert_eq!(after(3), Verdict::Dead);
        assert_eq!(policy.verdict(FailureKind::Busy, 3, 0.0), Verdict::Hold);
    }

    #[test]
    fn the_longest_wait_is_that_of_the_settings_and_no_less_than_a_minute() {
        let mut policy = RetryPolicy::default();
        assert_eq!(policy.longest_wait(), Duration::from_mins(1));
        policy.probes.push(Duration::from_mins(3));
        assert_eq!(policy.longest_wait(), Duration::from_mins(3));
        policy.waits.push(Duration::from_mins(10));
        assert_eq!(policy.longest_wait(), Duration::from_mins(12));
    }

    #[test]
    fn probes_go_on_every_27_seconds() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (0..6).map(|n| policy.probe_wait(n).as_secs()).collect();
        assert_eq!(waits, [1, 3, 9, 27, 27, 27]);
    }
}
