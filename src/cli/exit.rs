//! The exit codes: a contract that scripts lean on.

use std::process::ExitCode;

use crate::engine::report::{DrainReport, Trouble, VerifyReport};
use crate::model::{Finding, Level};
use crate::query::status::StatusReport;

/// What the program says at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All well.
    Ok = 0,
    /// An error: something could not be done.
    Error = 1,
    /// The command line was not understood.
    Usage = 2,
    /// A person is needed: drift was found, or dead letters are there.
    NeedsPerson = 3,
    /// A setting or a repository that we will not touch; the message says the way out.
    Refused = 4,
    /// Jobs are held, or a neighbour is at work: try later (`EX_TEMPFAIL` of sysexits.h).
    Held = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

fn any_of(troubles: &[Trouble], kinds: &[&str]) -> bool {
    troubles.iter().any(|trouble| kinds.contains(&trouble.kind))
}

fn any_refused(troubles: &[Trouble]) -> bool {
    any_of(troubles, &["refused"])
}

impl Exit {
    /// Returns the exit code of a drain. `delayed`: jobs that it left waiting for their time.
    #[must_use]
    pub fn of_drain(report: &DrainReport, delayed: u64) -> Self {
        if report.dead > 0 {
            Self::NeedsPerson
        } else if any_refused(&report.trouble) {
            Self::Refused
        } else if report.held > 0 || delayed > 0 || !report.away.is_empty() {
            Self::Held
        } else {
            Self::Ok
        }
    }

    /// Returns the exit code of a wait for all to be fresh.
    #[must_use]
    pub fn of_waiting(report: &StatusReport) -> Self {
        if report.fresh {
            Self::Ok
        } else if report.outbox.dead > 0 || any_refused(&report.trouble) {
            Self::NeedsPerson
        } else {
            Self::Held
        }
    }

    /// Returns the exit code of a look at the surroundings.
    #[must_use]
    pub fn of_doctor(findings: &[Finding]) -> Self {
        if findings.iter().any(|found| found.level == Level::Fault) {
            Self::NeedsPerson
        } else {
            Self::Ok
        }
    }

    /// Returns the exit code of a verify.
    #[must_use]
    pub fn of_verify(report: &VerifyReport) -> Self {
        if !report.drift.is_empty() || report.dead > 0 {
            Self::NeedsPerson
        } else if any_refused(&report.unread) {
            Self::Refused
        } else if any_of(&report.unread, &["transient", "rejected"]) {
            Self::Error
        } else if report.waiting > 0 || !report.unread.is_empty() {
            Self::Held
        } else if report.in_sync {
            Self::Ok
        } else {
            Self::NeedsPerson
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::{Drift, DriftKind};

    fn trouble(kind: &'static str) -> Trouble {
        Trouble {
            store: None,
            kind,
            path: None,
            reason: String::new(),
            hint: None,
            pages: 1,
        }
    }

    #[test]
    fn a_drain_says_dead_before_refused_before_held() {
        for (dead, held, delayed, kind, exit) in [
            // It is back.
            (0, 0, 0, "down", Exit::Ok),
            (0, 0, 0, "refused", Exit::Refused),
            (0, 1, 0, "down", Exit::Held),
            (0, 0, 1, "transient", Exit::Held),
            (0, 1, 0, "refused", Exit::Refused),
            (1, 1, 1, "refused", Exit::NeedsPerson),
        ] {
            let report = DrainReport {
                dead,
                held,
                trouble: vec![trouble(kind)],
                ..DrainReport::default()
            };
            let case = (dead, held, delayed, kind);
            assert_eq!(Exit::of_drain(&report, delayed), exit, "{case:?}");
        }
        let away = DrainReport {
            away: vec!["git"],
            ..DrainReport::default()
        };
        assert_eq!(Exit::of_drain(&away, 0), Exit::Held);
    }

    #[test]
    fn a_verify_says_drift_before_unread_before_waiting() {
        let drift = || Drift {
            path: "a.md".into(),
            store: "graph",
            kind: DriftKind::Stale,
        };
        let report = |drift: Vec<Drift>, dead, unread: &[&'static str], waiting, in_sync| {
            Exit::of_verify(&VerifyReport {
                in_sync,
                drift,
                dead,
                unread: unread.iter().map(|&kind| trouble(kind)).collect(),
                waiting,
                ..VerifyReport::default()
            })
        };
        assert_eq!(report(vec![], 0, &[], 0, true), Exit::Ok);
        assert_eq!(report(vec![], 0, &[], 1, false), Exit::Held);
        assert_eq!(report(vec![], 0, &["down"], 0, false), Exit::Held);
        assert_eq!(
            report(vec![], 0, &["down", "rejected"], 1, false),
            Exit::Error
        );
        assert_eq!(report(vec![], 0, &["refused"], 0, false), Exit::Refused);
        assert_eq!(report(vec![], 1, &["refused"], 0, false), Exit::NeedsPerson);
        assert_eq!(
            report(vec![drift()], 0, &["down"], 1, false),
            Exit::NeedsPerson
        );
        assert_eq!(report(vec![], 0, &[], 0, false), Exit::NeedsPerson);
    }

    #[test]
    fn the_numbers_are_the_contract() {
        let numbers = [
            Exit::Ok,
            Exit::Error,
            Exit::Usage,
            Exit::NeedsPerson,
            Exit::Refused,
            Exit::Held,
        ]
        .map(|exit| exit as u8);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 75]);
    }
}
