//! The outbox: `outbox/sqlite/{mod,merge,dead}.rs` without SQL. At most one job of a page waits and one is in flight.

use super::Mutant;
use super::state::{PAGES, Text};
use crate::model::{StoreName, StoreSet};

/// The fencing token of a claim. Only whether two are the same matters, so they are counted by page.
pub(super) type Token = u8;

/// Where a job that is not in flight stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    Ready,
    Delayed,
    Held(StoreName),
}

/// A job. `None` is content that nobody named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) standing: Standing,
    /// The content named by whoever enqueued.
    pub(super) sha: Option<Text>,
    /// The content last tried.
    pub(super) version: Option<Text>,
    pub(super) attempts: u8,
}

/// A dead letter: the content that died, and the stores that refused it; empty when it stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Letter {
    pub(super) text: Text,
    pub(super) stores: StoreSet,
}

impl Letter {
    /// Whether it stands for this store.
    pub(super) fn stands_for(self, store: StoreName) -> bool {
        self.stores.is_empty() || self.stores.contains(store)
    }

    /// Whether it keeps this content from this store.
    pub(super) fn keeps(self, text: Text, store: StoreName) -> bool {
        self.text == text && self.stands_for(store)
    }
}

/// All of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Slot {
    pub(super) waiting: Option<Job>,
    pub(super) in_flight: Option<(Job, Token)>,
    pub(super) letter: Option<Letter>,
    /// The last token given out.
    pub(super) last: Token,
}

/// The queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Outbox {
    pub(super) pages: [Slot; PAGES],
}

/// How a claimed job leaves the worker's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Settle {
    Ack,
    /// Its dead letter rests on.
    Swallow(Letter),
    RetryAt {
        attempts: u8,
        version: Option<Text>,
    },
    Hold {
        store: StoreName,
        version: Option<Text>,
    },
    Dead(Letter),
}

impl Job {
    fn differs_from(self, sha: Option<Text>) -> bool {
        let known = self.version.or(self.sha);
        known.is_some() && sha.is_some() && known != sha
    }

    fn is_released_by(self, sha: Option<Text>) -> bool {
        matches!(self.standing, Standing::Held(_)) && (sha.is_none() || self.differs_from(sha))
    }

    /// Swallows a job that was enqueued.
    fn swallow(&mut self, sha: Option<Text>, mutant: Option<Mutant>) {
        if self.differs_from(sha) {
            self.attempts = 0;
            self.version = None;
            self.standing = Standing::Ready;
        } else if self.is_released_by(sha) {
            self.standing = Standing::Ready;
        }
        // Whoever names no content may have seen another than was named before.
        self.sha = match mutant {
            Some(Mutant::NamesStay) => sha.or(self.sha),
            Some(_) | None => sha,
        };
    }

    /// Joins a job that comes back from a worker's hands with the one enqueued meanwhile.
    fn join(mut self, newer: Self) -> Self {
        let other = self.differs_from(newer.sha);
        self.attempts = if other {
            newer.attempts
        } else {
            self.attempts.max(newer.attempts)
        };
        if other {
            self.version = newer.version;
        }
        if other || self.is_released_by(newer.sha) || matches!(newer.standing, Standing::Held(_)) {
            self.standing = newer.standing;
        }
        self.sha = newer.sha.or(self.sha);
        self
    }
}

impl Outbox {
    /// Whether a job is held, so that it is worth trying a store again.
    pub(super) fn holds_any(&self) -> bool {
        let mut waiting = self.pages.iter().filter_map(|slot| slot.waiting);
        waiting.any(|job| matches!(job.standing, Standing::Held(_)))
    }
}

impl Slot {
    /// Whether a claim would take the page's job.
    pub(super) fn is_claimable(&self) -> bool {
        let ready = self
            .waiting
            .is_some_and(|job| job.standing == Standing::Ready);
        ready && self.in_flight.is_none()
    }

    /// Whether a job waits or is in flight.
    pub(super) fn is_owed(&self) -> bool {
        self.waiting.is_some() || self.in_flight.is_some()
    }

    /// Puts a job in. `wakes`: some store that answers owes the page, so that a hold for another ends.
    pub(super) fn enqueue(&mut self, sha: Option<Text>, wakes: bool, mutant: Option<Mutant>) {
        if mutant == Some(Mutant::EnqueueMergesWithInFlight)
            && let Some((job, _)) = &mut self.in_flight
        {
            job.sha = sha.or(job.sha);
            return;
        }
        match &mut self.waiting {
            Some(job) => {
                job.swallow(sha, mutant);
                if wakes && matches!(job.standing, Standing::Held(_)) {
                    job.standing = Standing::Ready;
                }
            }
            None => {
                self.waiting = Some(Job {
                    standing: Standing::Ready,
                    sha,
                    version: None,
                    attempts: 0,
                });
            }
        }
    }

    /// Claims the waiting job.
    pub(super) fn claim(&mut self, mutant: Option<Mutant>) -> Option<(Job, Token)> {
        if !self.is_claimable() {
            return None;
        }
        let job = self.waiting.take()?;
        self.last += 1;
        if mutant != Some(Mutant::ClaimPops) {
            self.in_flight = Some((job, self.last));
        }
        Some((job, self.last))
    }

    /// Ends a claim; says whether the token was lost, in which case nothing is changed.
    pub(super) fn settle(
        &mut self,
        token: Token,
        claimed: Job,
        settle: Settle,
        mutant: Option<Mutant>,
    ) -> bool {
        let job = match self.in_flight {
            Some((job, held_by)) if held_by == token => job,
            _ if mutant == Some(Mutant::ClaimPops) => claimed,
            Some((job, _)) if mutant == Some(Mutant::SettleIgnoresToken) => job,
            None if mutant == Some(Mutant::SettleIgnoresToken)
                && let Some(job) = self.waiting.take() =>
            {
                job
            }
            Some(_) | None => return true,
        };
        self.in_flight = None;
        match settle {
            Settle::Ack => self.letter = None,
            // Only a letter that is still there can swallow; else a person took it away, and the page is owed.
            Settle::Swallow(letter)
                if self.letter != Some(letter) && mutant != Some(Mutant::LettersAreRemembered) =>
            {
                self.put_back(Job {
                    standing: Standing::Ready,
                    ..job
                });
            }
            Settle::Swallow(_) => {}
            Settle::RetryAt { attempts, version } => self.put_back(Job {
                standing: Standing::Delayed,
                attempts,
                version,
                ..job
            }),
            Settle::Hold { store, version } => self.put_back(Job {
                standing: Standing::Held(store),
                version: version.or(job.version),
                attempts: job.attempts + u8::from(mutant == Some(Mutant::HoldCounts)),
                ..job
            }),
            Settle::Dead(letter) => self.letter = Some(letter),
        }
        false
    }

    /// Takes back what is in flight.
    pub(super) fn recover(&mut self) {
        if let Some((job, _)) = self.in_flight.take() {
            self.put_back(Job {
                standing: Standing::Ready,
                ..job
            });
        }
    }

    fn put_back(&mut self, job: Job) {
        self.waiting = Some(match self.waiting.take() {
            Some(newer) => job.join(newer),
            None => job,
        });
    }

    /// Makes a held job claimable.
    pub(super) fn release(&mut self, store: StoreName) {
        if let Some(job) = &mut self.waiting
            && job.standing == Standing::Held(store)
        {
            job.standing = Standing::Ready;
        }
    }

    /// Whether a job waits for its time.
    pub(super) fn waits_for_its_time(&self) -> bool {
        self.waiting
            .is_some_and(|job| job.standing == Standing::Delayed)
    }

    /// A delayed job's time has come.
    pub(super) fn fall_due(&mut self) {
        if let Some(job) = &mut self.waiting
            && job.standing == Standing::Delayed
        {
            job.standing = Standing::Ready;
        }
    }

    /// Puts the dead letter back as a fresh job.
    pub(super) fn retry_dead(&mut self) {
        let Some(Letter { text, .. }) = self.letter.take() else {
            return;
        };
        let told = self.waiting.and_then(|job| job.sha);
        self.waiting = Some(Job {
            standing: Standing::Ready,
            sha: told.or(Some(text)),
            version: None,
            attempts: 0,
        });
    }
}
