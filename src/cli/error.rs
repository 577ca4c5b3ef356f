//! From any error to `error:`, `caused by:`, `hint:` and an exit code: the one place where this is decided.

use std::error::Error;

use super::exit::Exit;
use crate::config::{ConfigError, Origin};
use crate::hooks::HooksError;
use crate::model::{Failure, FailureKind, causes};

/// What ends a command early.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// What the program says at its end.
    pub(crate) exit: Exit,
    /// What could not be done: a lower-case fragment.
    pub(crate) error: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to type or change next.
    pub(crate) hints: Vec<String>,
    /// What was set and is no setting, told before all else: it may be why.
    pub(crate) warnings: Vec<String>,
}

impl CommandError {
    /// Makes an error that ends with exit code 1.
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self {
            exit: Exit::Error,
            error: error.into(),
            causes: Vec::new(),
            hints: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Makes an error of what was being done and what stopped it, with its causes.
    pub(crate) fn caused(doing: impl Into<String>, by: &(dyn Error + 'static)) -> Self {
        let doing = doing.into();
        Self {
            causes: causes(&doing, by),
            ..Self::new(doing)
        }
    }

    /// Returns the error with a hint added.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the error with another exit code.
    #[must_use]
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the error with what was warned about before it happened.
    #[must_use]
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        self.warnings = warnings.to_vec();
        self
    }

    /// Returns the error as the lines to print, each with its label.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let warnings = self.warnings.iter();
        let warnings = warnings.map(|warning| ("warning", warning.as_str()));
        let error = [("error", self.error.as_str())];
        let causes = self
            .causes
            .iter()
            .map(|cause| ("caused by", cause.as_str()));
        let hints = self.hints.iter().map(|hint| ("hint", hint.as_str()));
        warnings.chain(error).chain(causes).chain(hints)
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        let exit = match failure.kind {
            FailureKind::Down | FailureKind::Busy | FailureKind::Waiting => Exit::Held,
            FailureKind::Refused => Exit::Refused,
            FailureKind::Transient | FailureKind::Rejected => Exit::Error,
        };
        Self {
            hints: failure.hint.into_iter().collect(),
            ..Self::new(failure.reason).exit(exit)
        }
    }
}

impl From<HooksError> for CommandError {
    fn from(error: HooksError) -> Self {
        match error {
            HooksError::Refused { reason, hints } => Self {
                hints,
                ..Self::new(reason).exit(Exit::Refused)
            },
            HooksError::Git(_) => Self::new(error.to_string()),
            HooksError::Io { doing, source } => Self::caused(format!("cannot {doing}"), &source),
        }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let exit = match error.origin {
            Origin::Flag => Exit::Usage,
            Origin::File { .. } | Origin::Variable(_) | Origin::Default => Exit::Refused,
        };
        let listing = "`wiki-sync config` lists every setting; the README explains them";
        let told = Self::new(error.to_string()).exit(exit).hint(listing);
        told.warned(&error.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failures_kind_decides_the_exit_code() {
        for (kind, exit) in [
            (FailureKind::Down, Exit::Held),
            (FailureKind::Busy, Exit::Held),
            (FailureKind::Waiting, Exit::Held),
            (FailureKind::Refused, Exit::Refused),
            (FailureKind::Transient, Exit::Error),
            (FailureKind::Rejected, Exit::Error),
        ] {
            assert_eq!(CommandError::from(Failure::new(kind, "x")).exit, exit);
        }
    }

    #[test]
    fn lines_come_as_error_causes_hints() {
        let inner = std::io::Error::other("disk on fire");
        let error = CommandError::caused("cannot read page", &inner).hint("put it out");
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(
            lines,
            [
                ("error", "cannot read page"),
                ("caused by", "disk on fire"),
                ("hint", "put it out")
            ]
        );
    }
}
