//! The bounds of the dead letters: how many there may be, and how old. The oldest are dropped beyond that, and a person
//! is told before.

use std::time::Duration;

use super::Parts;
use super::alert::Event;
use crate::model::{Failure, Timestamp};
use crate::outbox::{DeadLetter, Which};

/// How many dead letters there may be, and how old. Section `[dead]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadBounds {
    /// The most there may be; at least 1.
    pub max: u64,
    /// The greatest age.
    pub max_age: Duration,
}

impl Default for DeadBounds {
    fn default() -> Self {
        Self {
            max: 10_000,
            max_age: Duration::from_hours(90 * 24),
        }
    }
}

/// The part of a bound, in percent, from which on a person is warned.
const NEAR_PERCENT: u32 = 90;

impl DeadBounds {
    /// Returns the letters beyond the bounds, oldest first: the too old, then as many as are too many.
    fn beyond<'a>(&self, letters: &'a [DeadLetter], now: Timestamp) -> Vec<&'a DeadLetter> {
        let mut oldest_first: Vec<_> = letters.iter().collect();
        oldest_first.sort_by_key(|letter| (letter.dead_at, letter.id));
        let old = oldest_first.partition_point(|letter| letter.dead_at.until(now) > self.max_age);
        let max = usize::try_from(self.max).unwrap_or(usize::MAX);
        let many = oldest_first.len().saturating_sub(max);
        oldest_first.truncate(old.max(many));
        oldest_first
    }

    fn is_near(&self, letters: &[DeadLetter], now: Timestamp) -> bool {
        let near_age = self.max_age / 100 * NEAR_PERCENT;
        letters.len() as u128 * 100 > u128::from(self.max) * u128::from(NEAR_PERCENT)
            || letters
                .iter()
                .any(|letter| letter.dead_at.until(now) > near_age)
    }
}

/// Tells the dead letters that are new and drops those beyond the bounds, telling that first. Returns how many were
/// dropped.
///
/// # Errors
/// When the outbox is away.
pub(super) fn keep(parts: &mut Parts, now: Timestamp) -> Result<u64, Failure> {
    let dead = parts.outbox.counts(now)?.dead;
    if dead == 0 && !parts.alerts.remembers_letters() {
        return Ok(0);
    }
    let letters = parts.outbox.dead()?;
    parts.alerts.letters(&letters, now, now);
    let beyond = parts.dead.beyond(&letters, now);
    let Some(oldest) = beyond.first() else {
        if parts.dead.is_near(&letters, now) {
            let event = Event::NearlyFull {
                count: dead,
                max: parts.dead.max,
            };
            parts.alerts.note(&event, now);
        } else {
            parts.alerts.within_bounds();
        }
        return Ok(0);
    };
    let event = Event::Trimmed {
        count: beyond.len() as u64,
        oldest: match &oldest.path {
            Some(path) => path.to_string(),
            None => "a line that names no page".into(),
        },
    };
    parts.alerts.note(&event, now);
    parts.alerts.trimming(&beyond, now);
    fail::fail_point!("dead.before_trim");
    let ids = beyond.iter().map(|letter| letter.id).collect();
    let dropped = parts.outbox.drop_dead(&Which::Ids(ids))?;
    fail::fail_point!("dead.trimmed");
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::alert::tests::letter;

    const DAY: Duration = Duration::from_hours(24);

    fn of_days(days: &[u32]) -> Vec<DeadLetter> {
        (1..)
            .zip(days)
            .map(|(id, &day)| DeadLetter {
                dead_at: Timestamp(0).plus(DAY * day),
                ..letter(id, &format!("{id}.md"), "v")
            })
            .collect()
    }

    #[test]
    fn the_oldest_beyond_the_count_and_all_beyond_the_age_go() {
        let bounds = DeadBounds {
            max: 3,
            max_age: DAY * 10,
        };
        for (days, now, gone) in [
            (&[1, 2, 3][..], 5, &[][..]),
            (&[1, 2, 3, 4, 5], 5, &[1, 2]),
            (&[1, 2, 3, 4, 5], 14, &[1, 2, 3]),
            (&[5, 1, 6, 7, 8], 12, &[2, 1]),
            // Of a clock that was ahead.
            (&[50], 12, &[]),
        ] {
            let letters = of_days(days);
            let beyond = bounds.beyond(&letters, Timestamp(0).plus(DAY * now));
            let ids: Vec<_> = beyond.iter().map(|letter| letter.id).collect();
            assert_eq!(ids, gone, "{days:?} on day {now}");
        }
    }

    #[test]
    fn a_warning_comes_at_nine_tenths_of_a_bound() {
        let bounds = DeadBounds {
            max: 10,
            max_age: DAY * 10,
        };
        let near = |count: usize, age: u32| {
            bounds.is_near(&of_days(&vec![0; count]), Timestamp(1).plus(DAY * age))
        };
        assert_eq!(
            (near(9, 1), near(10, 1), near(1, 8), near(1, 9)),
            (false, true, false, true)
        );
    }
}
