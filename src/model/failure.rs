//! Every trouble is one of six kinds, and the kind decides what becomes of the job.

use std::error::Error;
use std::fmt::Write as _;

/// What kind of trouble it is. Matched exhaustively wherever it is decided upon: a new kind does not
/// compile until someone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The store is away (refused, timed out, disk full). It is paused and probed; costs no attempt.
    Down,
    /// A neighbour's lock is in the way. A short wait, not an outage; costs no attempt.
    Busy,
    /// It waits for the user: a merge under way, a page he staged differently, the mass-delete guard.
    /// Held without probing; costs no attempt.
    Waiting,
    /// A setting or a repository that we will not touch. Held, exit code 4, with the way out as a hint.
    Refused,
    /// This page failed this time. Counts as an attempt and backs off.
    Transient,
    /// This page can never be applied as it is. Goes to the dead letters at once.
    Rejected,
}

/// A trouble with its kind, its reason for people, and the next thing to do where one is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// What is to become of the job.
    pub kind: FailureKind,
    /// The error and its causes in one line, outermost first, joined by `: `.
    pub reason: String,
    /// The next command to type, or what to change.
    pub hint: Option<String>,
}

impl Failure {
    /// Makes a failure of a kind from a reason.
    #[must_use]
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            hint: None,
        }
    }

    /// Makes a failure of a kind from what was being done and the error that stopped it, with its causes.
    #[must_use]
    pub fn from_error(kind: FailureKind, doing: &str, error: &(dyn Error + 'static)) -> Self {
        let mut reason = String::from(doing);
        let mut cause = Some(error);
        while let Some(error) = cause {
            write!(
                reason,
                "{}{error}",
                if reason.is_empty() { "" } else { ": " }
            )
            .expect("writing to a string cannot fail");
            cause = error.source();
        }
        Self::new(kind, reason)
    }

    /// Returns the failure with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
