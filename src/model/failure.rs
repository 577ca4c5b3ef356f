//! Every trouble is one of six kinds, and the kind decides what becomes of the job.

use std::error::Error;

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

/// Returns an error and its causes, outermost first, each that says more than `doing` and those before it.
#[must_use]
pub fn causes(doing: &str, error: &(dyn Error + 'static)) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let mut said = causes.iter().map(String::as_str).chain([doing]);
        // SQLite's says its number before the same words.
        let own = match text
            .strip_prefix("Error code ")
            .and_then(|rest| rest.split_once(": "))
        {
            Some((_, words)) => words,
            None => &text,
        };
        let is_new = !said.any(|said| said.contains(own));
        drop(said);
        if is_new {
            causes.push(text);
        }
        next = error.source();
    }
    causes
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
        let mut parts = causes(doing, error);
        if !doing.is_empty() {
            parts.insert(0, doing.into());
        }
        Self::new(kind, parts.join(": "))
    }

    /// Returns the failure with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Says(&'static str, #[source] Option<Box<Says>>);

    fn chain(texts: &[&'static str]) -> Option<Box<Says>> {
        let (first, rest) = texts.split_first()?;
        Some(Box::new(Says(first, chain(rest))))
    }

    #[test]
    fn a_cause_is_told_once() {
        for (texts, told) in [
            (
                &["refused (os error 111)", "refused (os error 111)"][..],
                "cannot: refused (os error 111)",
            ),
            (
                &[
                    "database or disk is full",
                    "Error code 13: database or disk is full",
                ],
                "cannot: database or disk is full",
            ),
            (
                &["disk I/O error", "Error code 3338: I/O error in the log"],
                "cannot: disk I/O error: Error code 3338: I/O error in the log",
            ),
            (
                &["cannot", "inner", "innermost"],
                "cannot: inner: innermost",
            ),
        ] {
            let error = chain(texts).expect("an error");
            let failure = Failure::from_error(FailureKind::Down, "cannot", &*error);
            assert_eq!(failure.reason, told);
        }
        let error = chain(&["alone"]).expect("an error");
        assert_eq!(
            Failure::from_error(FailureKind::Down, "", &*error).reason,
            "alone"
        );
    }
}
