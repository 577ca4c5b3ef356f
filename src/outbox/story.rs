//! What became of each job in one call, told to the log under the job's id once it is so.
//!
//! A change may be rolled back, or made anew when somebody else was faster; so its steps are noted while it is made, and told
//! when it holds. Where nobody listens, nothing is noted.

use tracing::{Level, enabled, info};

use super::entry::Entry;
use super::{Claimed, Settle};

/// One step of one job. What does not apply is `None`, and not told.
#[derive(Debug, Default)]
pub(super) struct Step {
    what: &'static str,
    /// `None` for a line that is no job.
    job: Option<i64>,
    path: String,
    attempts: Option<u32>,
    store: Option<String>,
    /// The dead letter that it became, or that it was.
    letter: Option<i64>,
    /// The job that it was merged into.
    into: Option<i64>,
    reason: Option<String>,
}

impl Step {
    /// Makes a step of an entry.
    pub(super) fn of(what: &'static str, entry: &Entry) -> Self {
        Self::job(what, entry.id, &entry.path)
    }

    /// Makes a step of a job.
    pub(super) fn job(what: &'static str, id: i64, path: &str) -> Self {
        Self {
            what,
            job: Some(id),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// An entry was claimed.
    pub(super) fn claimed(entry: &Entry) -> Self {
        Self {
            attempts: Some(entry.attempts),
            ..Self::of("claimed", entry)
        }
    }

    /// A claim was ended with this outcome; `letter` is the dead letter that it became.
    pub(super) fn settled(entry: &Entry, outcome: &Settle, letter: Option<i64>) -> Self {
        let of = |what| Self::of(what, entry);
        let why = |reason: &String| Some(reason.clone()).filter(|reason| !reason.is_empty());
        match outcome {
            Settle::Ack => of("done"),
            Settle::Swallow => Self {
                reason: Some("its page's dead letter rests".into()),
                ..of("ended")
            },
            Settle::RetryAt {
                attempts, reason, ..
            } => Self {
                attempts: Some(*attempts),
                reason: why(reason),
                ..of(if *attempts > entry.attempts {
                    "to be tried again"
                } else {
                    "put back"
                })
            },
            Settle::Hold { store, reason, .. } => Self {
                store: Some(store.to_string()),
                reason: why(reason),
                ..of("held")
            },
            Settle::Dead(death) => Self {
                attempts: Some(death.attempts),
                store: death.stores_text(),
                letter,
                reason: why(&death.reason),
                ..of("dead")
            },
        }
    }

    /// A claim could not be ended: its lease was lost.
    pub(super) fn lost(claim: &Claimed) -> Self {
        Self {
            what: "not settled: somebody else has it by now",
            job: claim.id.0.parse().ok(),
            path: claim.job.path.to_string(),
            ..Self::default()
        }
    }

    /// A job was merged into another one of its page.
    pub(super) fn merged(id: i64, into: i64, path: &str) -> Self {
        Self {
            into: Some(into),
            ..Self::job("merged", id, path)
        }
    }

    /// A person had a dead letter tried again, as this job.
    pub(super) fn retried(id: i64, path: &str, letter: i64) -> Self {
        Self {
            letter: Some(letter),
            ..Self::job("a dead letter is tried again", id, path)
        }
    }

    /// An entry that names no page became a dead letter.
    pub(super) fn buried_entry(entry: &Entry, letter: i64, reason: String) -> Self {
        Self {
            letter: Some(letter),
            reason: Some(reason),
            ..Self::of("dead", entry)
        }
    }

    /// A line that is no job became a dead letter.
    pub(super) fn buried(letter: i64, reason: &str) -> Self {
        Self {
            what: "a line is no job",
            letter: Some(letter),
            reason: Some(reason.to_owned()),
            ..Self::default()
        }
    }
}

/// The steps of one change.
#[derive(Debug)]
pub(super) struct Story {
    is_wanted: bool,
    steps: Vec<Step>,
}

impl Story {
    /// Begins one; it stays empty where nobody listens.
    pub(super) fn begin() -> Self {
        Self {
            is_wanted: enabled!(Level::INFO),
            steps: Vec::new(),
        }
    }

    /// Notes a step, which is only made where somebody listens.
    pub(super) fn note(&mut self, step: impl FnOnce() -> Step) {
        if self.is_wanted {
            self.steps.push(step());
        }
    }

    /// Tells it: the change holds.
    pub(super) fn tell(self) {
        for step in self.steps {
            info!(
                job = step.job,
                path = Some(step.path.as_str()).filter(|path| !path.is_empty()),
                attempts = step.attempts,
                store = step.store,
                letter = step.letter,
                into = step.into,
                reason = step.reason,
                "{}",
                step.what
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_listens_nothing_is_made() {
        let mut story = Story::begin();
        story.note(|| unreachable!("no step is made"));
        assert_eq!(story.steps.capacity(), 0);
        story.tell();
    }
}
