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
    /// When to probe; `None` when only the user can open it.
    probe: Option<Timestamp>,
}

impl Gate {
    /// Says why the store is not to be tried now, if it is not.
    pub(super) fn closed(&self) -> Option<&Failure> {
        self.shut.as_ref().map(|shut| &shut.why)
    }

    /// Returns when to probe the store, where it is worth it and the schedule is not used up.
    pub(super) fn probe_at(&self) -> Option<Timestamp> {
        self.shut.as_ref().and_then(|shut| shut.probe)
    }

    /// The store could not be used: shuts the gate. A store that is away is probed, once along the schedule; what
    /// waits for a person, or has waited its bounded turn for a neighbour, is not.
    pub(super) fn shut(&mut self, why: Failure, policy: &RetryPolicy, now: Timestamp) {
        let probe = match why.kind {
            FailureKind::Down | FailureKind::Transient if self.failed < policy.probes.len() => {
                Some(now.plus(policy.probe_wait(self.failed)))
            }
            FailureKind::Down
            | FailureKind::Transient
            | FailureKind::Busy
            | FailureKind::Waiting
            | FailureKind::Refused
            | FailureKind::Rejected => None,
        };
        self.failed += 1;
        self.shut = Some(Shut { why, probe });
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
    use super::*;

    #[test]
    fn a_store_that_is_away_is_probed_once_along_the_schedule() {
        let policy = RetryPolicy::default();
        let mut gate = Gate::default();
        let mut now = Timestamp(0);
        let mut waits = Vec::new();
        loop {
            gate.shut(Failure::new(FailureKind::Down, "refused"), &policy, now);
            let Some(probe) = gate.probe_at() else { break };
            waits.push(now.until(probe).as_secs());
            now = probe;
        }
        assert_eq!(waits, [1, 3, 9, 27]);
        assert!(gate.closed().is_some());
        gate.proved();
        assert_eq!(gate, Gate::default());
    }

    #[test]
    fn a_store_that_answers_probes_and_does_no_work_uses_the_schedule_up() {
        let policy = RetryPolicy::default();
        let mut gate = Gate::default();
        let mut probes = 0;
        loop {
            gate.shut(
                Failure::new(FailureKind::Down, "lost"),
                &policy,
                Timestamp(0),
            );
            if gate.probe_at().is_none() {
                break;
            }
            gate.open();
            probes += 1;
        }
        assert_eq!(probes, policy.probes.len());
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
            assert!(
                gate.closed().is_some() && gate.probe_at().is_none(),
                "{kind:?}"
            );
        }
    }
}
