//! The gate before each store: shut while the store is away, probed as the policy says.

use crate::model::{Failure, FailureKind, RetryPolicy, Timestamp};

/// Whether a store is to be tried, and when next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Gate {
    shut: Option<Shut>,
    /// Probes that failed in a row.
    failed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shut {
    why: Failure,
    /// When it was shut.
    at: Timestamp,
    /// When to probe; `None` when only the user can open it.
    probe: Option<Timestamp>,
}

impl Gate {
    /// Says why the store is not to be tried now, if it is not.
    pub(super) fn closed(&self) -> Option<&Failure> {
        self.shut.as_ref().map(|shut| &shut.why)
    }

    /// Says whether the store is away; what refuses, or waits for somebody, is there.
    pub(super) fn is_away(&self) -> bool {
        self.closed()
            .is_some_and(|why| why.kind == FailureKind::Down)
    }

    /// Returns when to probe the store; `None` when it is open or only a person can open it. That is `now` when the clock
    /// was set back since: nobody waits for the time that it lost.
    pub(super) fn probe_at(&self, now: Timestamp) -> Option<Timestamp> {
        let shut = self.shut.as_ref()?;
        shut.probe
            .map(|probe| if now < shut.at { now } else { probe })
    }

    /// Says whether it is shut and opens by a probe.
    pub(super) fn is_probed(&self) -> bool {
        self.shut.as_ref().is_some_and(|shut| shut.probe.is_some())
    }

    /// Whether the schedule was gone through without success: nobody waits for the store any longer, though it is probed
    /// on by whoever is there anyway.
    pub(super) fn is_given_up(&self, policy: &RetryPolicy) -> bool {
        self.failed > policy.probes.len()
    }

    /// The store could not be used: shuts the gate. A store that is away is probed along the schedule, and on at its last
    /// wait; what waits for a person, or has waited its bounded turn for a neighbour, is not.
    pub(super) fn shut(&mut self, why: Failure, policy: &RetryPolicy, now: Timestamp) {
        let probe = match why.kind {
            FailureKind::Down | FailureKind::Transient => {
                Some(now.plus(policy.probe_wait(self.failed)))
            }
            FailureKind::Busy
            | FailureKind::Waiting
            | FailureKind::Refused
            | FailureKind::Rejected => None,
        };
        self.failed += 1;
        self.shut = Some(Shut {
            why,
            at: now,
            probe,
        });
    }

    /// The store answered a probe, so that it is to be tried; the schedule goes on where it was if it fails again.
    pub(super) fn open(&mut self) {
        self.shut = None;
    }

    /// The store did its work: the next outage has the whole schedule before it.
    pub(super) fn proved(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_store_that_is_away_is_probed_along_the_schedule_and_on_at_its_last_wait() {
        let policy = RetryPolicy::default();
        let mut gate = Gate::default();
        let mut now = Timestamp(0);
        let mut waits = Vec::new();
        let mut worth_waiting = 0;
        for _ in 0..7 {
            gate.shut(Failure::new(FailureKind::Down, "refused"), &policy, now);
            worth_waiting += u32::from(!gate.is_given_up(&policy));
            let probe = gate.probe_at(now).expect("it is probed");
            waits.push(now.until(probe).as_secs());
            now = probe;
            // It answers, and then does no work: that is no success.
            gate.open();
        }
        assert_eq!(waits, [1, 3, 9, 27, 27, 27, 27]);
        assert_eq!(worth_waiting, 4, "the schedule once");
        gate.proved();
        assert_eq!(gate, Gate::default());
    }

    #[test]
    fn a_clock_that_is_set_back_puts_no_probe_off() {
        let hour = Duration::from_hours(1);
        let mut gate = Gate::default();
        let then = Timestamp(0).plus(hour * 2);
        let away = Failure::new(FailureKind::Down, "refused");
        gate.shut(away, &RetryPolicy::default(), then);
        let second = Duration::from_secs(1);
        assert_eq!(gate.probe_at(then), Some(then.plus(second)));
        let back = Timestamp(0).plus(hour);
        assert_eq!(gate.probe_at(back), Some(back), "it is due");
    }

    #[test]
    fn what_waits_for_a_person_is_not_probed() {
        for kind in [
            FailureKind::Waiting,
            FailureKind::Refused,
            FailureKind::Busy,
        ] {
            let mut gate = Gate::default();
            gate.shut(
                Failure::new(kind, "merge under way"),
                &RetryPolicy::default(),
                Timestamp(0),
            );
            assert!(gate.closed().is_some() && !gate.is_probed(), "{kind:?}");
        }
    }
}
