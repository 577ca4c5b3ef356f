//! What becomes of each job of a group: settled by what the stores said of its page.

use super::batch::{End, Errand, Visit, Work};
use crate::model::{Failure, FailureKind, Job, PagePath, StoreName, StoreSet, Verdict};
use crate::outbox::{Claimed, Death, Settle};
use crate::stores::Outcome;
use crate::wiki::Reading;

/// How often a page may move on in one drain before it is held.
const MOST_ROUNDS: u32 = 10;
/// How many changed pages are remembered by name between two reports.
const MOST_NAMED: usize = 100;
/// What stands for the content of a page that is gone.
pub(super) const ABSENT: &str = "absent";

impl Visit<'_, '_, '_> {
    /// Settles the group's jobs, each by what became of its page.
    ///
    /// # Errors
    /// When the outbox is away.
    pub(super) fn settle(&mut self, errands: Vec<Errand>) -> Result<(), Failure> {
        let mut settled = Vec::with_capacity(errands.len());
        let mut onward = Vec::new();
        for errand in errands {
            let settle = self.verdict(&errand);
            if let Settle::Dead(death) = &settle {
                onward.extend(self.onward(&errand, death));
            }
            settled.push((errand.claim, settle));
        }
        fail::fail_point!("drain.before_settle");
        // First, so that no kill leaves a page's letter without its job.
        match self.parts.outbox.enqueue(&onward, self.now) {
            Ok(done) => self.run.report.merged += done.merged,
            // An outbox that is full must still be emptied; the next scan finds what the other stores owe.
            Err(failure) => self.run.note(None, None, &failure),
        }
        fail::fail_point!("drain.onward");
        self.run.end_jobs(self.parts, settled, self.now)?;
        fail::fail_point!("drain.settled");
        Ok(())
    }

    /// The job that goes on for the other stores when a page died for some: those that are away, or that may yet take it.
    fn onward(&self, errand: &Errand, death: &Death) -> Option<Job> {
        let names = self.parts.stores.iter().map(|store| store.name());
        let mut rest = names.zip(&errand.outcomes);
        let owes = |(name, outcome): (StoreName, &Option<Outcome>)| {
            !death.stores.contains(name) && matches!(outcome, Some(Err(_)))
        };
        if death.stores.is_empty() || !rest.any(owes) {
            return None;
        }
        let sha = match &errand.work {
            Work::Put { page, .. } => Some(page.sha),
            Work::Remove | Work::Forget | Work::Over(_) | Work::Rests => None,
        };
        Some(Job {
            labels: errand.claim.job.labels.clone(),
            ..Job::for_page(errand.claim.job.path.clone(), sha)
        })
    }

    /// Gives jobs back that were not looked at; no attempt is used.
    ///
    /// # Errors
    /// When the outbox is away.
    pub(super) fn give_back(self, claims: Vec<Claimed>) -> Result<(), Failure> {
        let mut settled = Vec::with_capacity(claims.len());
        for claim in claims {
            let back = Settle::RetryAt {
                at: self.now,
                attempts: claim.job.retry,
                version: String::new(),
                reason: String::new(),
            };
            settled.push((claim, back));
        }
        self.parts.outbox.settle(&settled, self.now)?;
        Ok(())
    }

    /// Decides what becomes of a job, and counts it.
    fn verdict(&mut self, errand: &Errand) -> Settle {
        let claim = &errand.claim;
        let path = &claim.job.path;
        let version = match &errand.work {
            Work::Over(end) => return self.count(claim, end.clone()),
            Work::Rests => {
                self.run.report.merged += 1;
                // Not an ack: that would supersede the letter in which the job is swallowed.
                return Settle::Swallow;
            }
            Work::Put { page, .. } => page.sha.to_string(),
            Work::Remove | Work::Forget => ABSENT.into(),
        };
        let names = self.parts.stores.iter().map(|store| store.name());
        let refusals = names.zip(&errand.outcomes).filter_map(|(name, outcome)| {
            let failure = outcome.as_ref()?.as_ref().err()?;
            let verdict = self
                .parts
                .policy
                .verdict(failure.kind, claim.job.retry, 0.0);
            (verdict == Verdict::Dead).then(|| (name, failure.clone()))
        });
        let refusals: Vec<_> = refusals.collect();
        if !refusals.is_empty() {
            // What other stores took is told all the same.
            self.name(errand);
            return self.refused(errand, version, &refusals);
        }
        // The worst failure decides: a page that failed, then one that waits.
        let names = self.parts.stores.iter().map(|store| store.name());
        let mut worst: Option<(StoreName, &Failure)> = None;
        for (name, outcome) in names.zip(&errand.outcomes) {
            if let Some(Err(failure)) = outcome
                && worst.is_none_or(|(_, worst)| rank(failure.kind) > rank(worst.kind))
            {
                worst = Some((name, failure));
            }
        }
        if let Some((name, failure)) = worst {
            if failure.kind == FailureKind::Busy && self.run.gates[&name].closed().is_none() {
                // Busy for this page alone: it changed while it was applied, or there was no time for it.
                let round = self.go_round(claim, Some(name), version, failure.clone());
                return self.count(claim, round);
            }
            self.name(errand);
            let failed = self.fail(claim, Some(name), version, failure);
            return self.count(claim, failed);
        }
        if !self.is_still(path, &errand.work) {
            let moved = Failure::new(
                FailureKind::Busy,
                format!("page {:?} changed meanwhile", path.as_str()),
            );
            let round = self.go_round(claim, None, version, moved);
            return self.count(claim, round);
        }
        if errand.letter.is_some() {
            self.run.report.merged += 1;
            return Settle::Swallow;
        }
        self.run.report.processed += 1;
        self.run.report.forgotten += u64::from(matches!(errand.work, Work::Forget));
        self.run.report.unchanged += u64::from(!errand.has_changed());
        self.name(errand);
        self.run.letters.remove(path);
        Settle::Ack
    }

    /// Ends a job whose page some stores refuse for good, each by its own say. The letter stands for them and for those that
    /// the page's letter stood for already, whose place it takes.
    fn refused(
        &mut self,
        errand: &Errand,
        version: String,
        refusals: &[(StoreName, Failure)],
    ) -> Settle {
        let claim = &errand.claim;
        let before = errand.letter.as_ref().map(|letter| &letter.death);
        let mut stores = before.map_or(StoreSet::NONE, |death| death.stores);
        let mut reasons: Vec<String> = Vec::new();
        reasons.extend(before.map(|death| match death.stores.only() {
            Some(store) => format!("{store}: {}", death.reason),
            // It names them.
            None => death.reason.clone(),
        }));
        for (name, failure) in refusals {
            self.run.note(Some(*name), Some(&claim.job.path), failure);
            stores = stores.with(*name);
            reasons.push(format!("{name}: {}", failure.reason));
        }
        let reason = match (before, refusals) {
            (None, [(_, failure)]) => failure.reason.clone(),
            _ => reasons.join("; "),
        };
        let end = End {
            settle: Settle::Dead(self.death(stores, claim, version, reason)),
            store: None,
            why: None,
        };
        self.count(claim, end)
    }

    /// Remembers the page's name for the report, where a store was changed for it.
    fn name(&mut self, errand: &Errand) {
        if errand.has_changed() && self.run.brought.len() < MOST_NAMED {
            self.run.brought.push(errand.claim.job.path.clone());
        }
    }

    /// Counts the end of a job that did not reach every store.
    pub(super) fn count(&mut self, claim: &Claimed, end: End) -> Settle {
        let End { settle, store, why } = end;
        if let Some(why) = &why {
            self.run.note(store, Some(&claim.job.path), why);
        }
        match &settle {
            Settle::Dead(_) => self.run.report.dlq += 1,
            Settle::RetryAt { attempts, .. } => {
                self.run.report.retried += u64::from(*attempts > claim.job.retry);
            }
            Settle::Ack | Settle::Swallow | Settle::Hold { .. } => {}
        }
        settle
    }

    /// Whether the file is still what was applied.
    fn is_still(&self, path: &PagePath, work: &Work) -> bool {
        match work {
            Work::Put { page, seen } => match self.parts.wiki.stat(path) {
                Ok(Some(stat)) if seen.proves(&stat) => true,
                Ok(Some(_)) => {
                    matches!(self.parts.wiki.read(path), Reading::Page { sha, .. } if sha == page.sha)
                }
                Ok(None) | Err(_) => false,
            },
            Work::Remove => matches!(self.parts.wiki.stat(path), Ok(None)),
            Work::Forget | Work::Over(_) | Work::Rests => true,
        }
    }

    /// Ends a job that failed as the policy says.
    pub(super) fn fail(
        &self,
        claim: &Claimed,
        store: Option<StoreName>,
        version: String,
        failure: &Failure,
    ) -> End {
        let failed = claim.job.retry;
        let settle = match self.parts.policy.verdict(failure.kind, failed, dice()) {
            Verdict::Hold => hold(store.unwrap_or(StoreName::Git), version, failure),
            Verdict::Dead => {
                let stores = store.map_or(StoreSet::NONE, StoreSet::from);
                Settle::Dead(self.death(stores, claim, version, with_way_out(failure)))
            }
            Verdict::RetryAfter(wait) => Settle::RetryAt {
                at: self.now.plus(wait),
                attempts: failed + 1,
                version,
                reason: failure.reason.clone(),
            },
        };
        End {
            settle,
            store,
            why: Some(failure.clone()),
        }
    }

    /// Sends a job whose page moved on round once more; not an attempt. A page that never rests is held in the end.
    /// `store`: the one that was busy, where it was one.
    pub(super) fn go_round(
        &mut self,
        claim: &Claimed,
        store: Option<StoreName>,
        version: String,
        why: Failure,
    ) -> End {
        let rounds = self.run.rounds.entry(claim.job.path.clone()).or_default();
        *rounds += 1;
        if *rounds > MOST_ROUNDS {
            let store = store.unwrap_or(StoreName::Git);
            return End {
                store: Some(store),
                settle: hold(store, version, &why),
                why: Some(why),
            };
        }
        End {
            store: None,
            settle: Settle::RetryAt {
                // Told to stop, it is left for the next drain, whenever that is.
                at: if self.run.options.stop.is_wished() {
                    self.now
                } else {
                    self.now.plus(self.run.again)
                },
                attempts: claim.job.retry,
                version,
                reason: why.reason,
            },
            why: None,
        }
    }

    fn death(&self, stores: StoreSet, claim: &Claimed, version: String, reason: String) -> Death {
        Death {
            stores,
            reason,
            attempts: claim.job.retry + 1,
            version,
            fingerprint: self.run.fingerprint.clone(),
        }
    }
}

/// Holds a job for a store until it is released.
pub(super) fn hold(store: StoreName, version: String, why: &Failure) -> Settle {
    Settle::Hold {
        store,
        until: None,
        version,
        reason: with_way_out(why),
    }
}

/// Returns the reason with the way out: whoever finds a job held, or its dead letter, has nothing else to go by.
fn with_way_out(why: &Failure) -> String {
    match &why.hint {
        Some(hint) => format!("{}; {hint}", why.reason),
        None => why.reason.clone(),
    }
}

/// Which failure decides when a page has several.
fn rank(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Busy => 0,
        FailureKind::Waiting => 1,
        FailureKind::Refused => 2,
        FailureKind::Down => 3,
        FailureKind::Transient => 4,
        FailureKind::Rejected => 5,
    }
}

/// Returns a number from 0 to 1 by chance, from the hasher's random keys.
fn dice() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let [a, b, c, d, ..] = RandomState::new().hash_one(0).to_le_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
}
