//! What a look at the surroundings found, and what to do about it.

use serde::Serialize;

use super::{Failure, FailureKind};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it is to be.
    Ok,
    /// Works, and is to be known.
    Note,
    /// Works, and may not for long, or not as well as it could.
    Warning,
    /// Does not work: a person is needed.
    Fault,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What is there.
    pub what: String,
    /// What to do, as a command to type where there is one. Never missing from a warning and a fault.
    pub hint: Option<String>,
}

impl Finding {
    /// Says that all is well.
    #[must_use]
    pub fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self {
            name,
            level: Level::Ok,
            what: what.into(),
            hint: None,
        }
    }

    /// Says what is to be known although it works.
    #[must_use]
    pub fn note(name: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(name, Level::Note, what, hint)
    }

    /// Warns.
    #[must_use]
    pub fn warning(name: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(name, Level::Warning, what, hint)
    }

    /// Says what does not work.
    #[must_use]
    pub fn fault(name: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(name, Level::Fault, what, hint)
    }

    fn new(
        name: &'static str,
        level: Level,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            name,
            level,
            what: what.into(),
            hint: Some(hint.into()),
        }
    }

    /// Takes a failure for a finding. What passes by itself, or waits for the user, is a warning. `otherwise` is what to
    /// do where the failure does not say.
    #[must_use]
    pub fn of(name: &'static str, failure: &Failure, otherwise: &str) -> Self {
        let level = match failure.kind {
            FailureKind::Down | FailureKind::Refused | FailureKind::Rejected => Level::Fault,
            FailureKind::Busy | FailureKind::Waiting | FailureKind::Transient => Level::Warning,
        };
        let hint = failure.hint.as_deref().unwrap_or(otherwise);
        Self::new(name, level, &*failure.reason, hint)
    }
}
