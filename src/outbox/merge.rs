//! What becomes of a job that leaves a worker's hands, and of two jobs of one page: pure rules, the same for every
//! outbox.

use super::entry::{Entry, State, sha_text};
use super::{Death, LONGEST_WAIT, Settle, clip};
use crate::model::{Job, Timestamp};

/// Where an entry goes that leaves a worker's hands.
#[derive(Debug)]
pub(super) enum Leaves<'a> {
    /// It is done, and so are earlier dead letters of its page.
    Done,
    /// It is over; dead letters of its page go on resting.
    Swallowed,
    /// It waits again.
    Back(Box<Entry>),
    /// To the dead letters.
    Dead(&'a Death),
}

impl Entry {
    /// Says where a claimed entry goes, and makes it what it is then.
    pub(super) fn leave(mut self, outcome: &Settle, now: Timestamp) -> Leaves<'_> {
        let latest = now.plus(LONGEST_WAIT);
        // It came out of the worker's hands alive.
        self.recoveries = 0;
        match outcome {
            Settle::Ack => return Leaves::Done,
            Settle::Swallow => return Leaves::Swallowed,
            Settle::Dead(death) => return Leaves::Dead(death),
            Settle::RetryAt {
                at,
                attempts,
                version,
                reason,
            } => {
                self.state = if *at > now {
                    State::Delayed
                } else {
                    State::Ready
                };
                self.due_at = Some((*at).min(latest).0);
                self.held_for = None;
                self.attempts = *attempts;
                self.version.clone_from(version);
                clip(reason).clone_into(&mut self.reason);
            }
            Settle::Hold {
                store,
                until,
                version,
                reason,
            } => {
                if !version.is_empty() {
                    self.version.clone_from(version);
                }
                self.state = State::Held;
                self.held_for = Some(store.as_str().to_owned());
                self.due_at = until.map(|until| until.min(latest).0);
                clip(reason).clone_into(&mut self.reason);
            }
        }
        Leaves::Back(Box::new(self))
    }

    /// Makes a claimed entry one that was found in dead hands.
    pub(super) fn recover(&mut self) {
        self.state = State::Ready;
        self.held_for = None;
        self.recoveries = self.recoveries.saturating_add(1);
    }

    /// Lets a held entry go on.
    pub(super) fn release(&mut self, now: Timestamp) {
        self.state = State::Ready;
        self.held_for = None;
        self.due_at = Some(now.0);
    }

    /// Joins it with the one enqueued meanwhile, if there is one.
    pub(super) fn join_any(self, newer: Option<Self>) -> Self {
        match newer {
            Some(newer) => self.join(newer),
            None => self,
        }
    }

    /// Says whether `sha` names another content than this job was tried with, or, when that is unknown,
    /// than it names itself. Unknown against named is no other content: else each scan of a failing page
    /// would make its job fresh again, and it would fail for ever.
    fn differs_from(&self, sha: &str) -> bool {
        let known = if self.version.is_empty() {
            &self.sha
        } else {
            &self.version
        };
        !known.is_empty() && !sha.is_empty() && known != sha
    }

    /// Whether an event about the page ends this job's hold: it names another content, or none, so that the page may
    /// have changed and the stores that are not held for must get it.
    fn is_released_by(&self, sha: &str) -> bool {
        self.state == State::Held && (sha.is_empty() || self.differs_from(sha))
    }

    /// Makes it claimable now. Its place in the order is kept when it had one already, so that a page which is
    /// edited all the time does not fall back for ever.
    fn make_ready(&mut self, now: Timestamp) {
        self.state = State::Ready;
        self.held_for = None;
        self.due_at = Some(self.due_at.map_or(now.0, |due| due.min(now.0)));
        self.reason.clear();
    }

    /// Makes it a job that nobody has tried.
    fn refresh(&mut self, attempts: u32, now: Timestamp) {
        self.attempts = attempts;
        self.version.clear();
        self.make_ready(now);
    }

    /// Swallows a job that was enqueued.
    pub(super) fn swallow(&mut self, job: &Job, now: Timestamp) {
        let sha = sha_text(job);
        if self.differs_from(&sha) {
            self.refresh(job.retry, now);
        } else if self.is_released_by(&sha) {
            self.make_ready(now);
        }
        // An event that names no content makes the named one doubtful.
        self.sha = sha;
        if !job.labels.is_empty() {
            self.labels.clone_from(&job.labels);
        }
    }

    /// Swallows a dead letter that a person wants tried again: the older of the two, so that what the
    /// waiting job says of content and labels goes before.
    pub(super) fn swallow_dead(&mut self, dead: &Job, now: Timestamp) {
        self.refresh(0, now);
        if self.sha.is_empty() {
            self.sha = sha_text(dead);
        }
        if self.labels.is_empty() {
            self.labels.clone_from(&dead.labels);
        }
    }

    /// Joins a job that comes back from a worker's hands with the one enqueued meanwhile.
    ///
    /// Another content counts for itself; the same one, or none named, waits out what the tried job has to wait. A hold
    /// waits for a store and not for the page, so only an event that names the same content leaves it.
    fn join(mut self, newer: Self) -> Self {
        let other = self.differs_from(&newer.sha);
        self.attempts = if other {
            newer.attempts
        } else {
            self.attempts.max(newer.attempts)
        };
        if other {
            self.version = newer.version;
        }
        if other || self.is_released_by(&newer.sha) || newer.state == State::Held {
            self.state = newer.state;
            self.due_at = newer.due_at;
            self.held_for = newer.held_for;
            self.reason = newer.reason;
        }
        self.recoveries = self.recoveries.max(newer.recoveries);
        self.enqueued_at = self.enqueued_at.min(newer.enqueued_at);
        if !newer.sha.is_empty() {
            self.sha = newer.sha;
        }
        if !newer.labels.is_empty() {
            self.labels = newer.labels;
        }
        self
    }
}
