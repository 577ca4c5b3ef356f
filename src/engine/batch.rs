//! One group of claimed jobs, from reading the pages to settling the jobs.

use std::collections::HashSet;
use std::sync::Arc;

use super::Parts;
use super::drain::Run;
use super::scan::{Accident, Scan};
use crate::model::{
    Change, Failure, FailureKind, Labels, Page, PagePath, StoreName, Timestamp, Verdict,
};
use crate::outbox::{Claimed, Death, Settle};
use crate::state::{Entry, FileSeen};
use crate::stores::{Outcome, Store};
use crate::wiki::Reading;

/// Bytes of pages read at a time; what is claimed beyond that waits for the next group.
const GROUP_BYTES: usize = 32 << 20;
/// Deaths under a page's own mark that make it poison.
const POISON: u32 = 3;
/// How soon a page that moved on while it was applied is looked at again.
const AGAIN_MS: i64 = 300;
/// How often a page may move on in one drain before it is held.
const MOST_ROUNDS: u32 = 10;
/// Bound of a dead letter's reason, in bytes.
const MOST_REASON: usize = 4 << 10;

/// One claimed job on its way through the group.
struct Errand {
    claim: Claimed,
    work: Work,
    /// Per store, in the order of the stores; `None` where it had nothing to do.
    outcomes: Vec<Option<Outcome>>,
}

/// What is to be done for a job.
enum Work {
    /// The page is there.
    Put { page: Arc<Page>, seen: FileSeen },
    /// The page is gone.
    Remove,
    /// It ends without any store.
    Over(End),
    /// It ends without any store, swallowed by the page's resting dead letter.
    Rests,
}

/// How a job ends that did not reach every store.
#[derive(Clone)]
struct End {
    settle: Settle,
    /// What is to be reported; `None` for a page that is merely looked at again.
    why: Option<Failure>,
}

/// The visit of one group.
pub(super) struct Visit<'r, 'o, 'p> {
    run: &'r mut Run<'o>,
    parts: &'p mut Parts,
    now: Timestamp,
}

impl<'r, 'o, 'p> Visit<'r, 'o, 'p> {
    pub(super) fn new(run: &'r mut Run<'o>, parts: &'p mut Parts) -> Self {
        Self {
            run,
            parts,
            now: Timestamp::now(),
        }
    }

    /// Tries a job that was found in dead hands alone: its page is brought to the stores that derive something of it
    /// under a durable mark, which is off again before anything is committed or settled. Returns the job for its
    /// group, or `None` when it was poison: three workers died under its mark with this content.
    pub(super) fn suspect(mut self, claim: Claimed) -> Result<Option<Claimed>, Failure> {
        let path = claim.job.path.clone();
        let Ok(Some(stat)) = self.parts.wiki.stat(&path) else {
            return Ok(Some(claim));
        };
        let version = stat.version();
        if self.parts.receipts.deaths(&path, &version)? >= POISON {
            let content = match self.parts.wiki.read(&path) {
                Reading::Page { sha, .. } => sha.to_string(),
                Reading::Absent | Reading::Bad { .. } => version,
            };
            let poison = Failure::new(
                FailureKind::Rejected,
                format!("page {:?} killed its worker {POISON} times", path.as_str()),
            );
            let end = self.fail(&claim, None, content, &poison);
            let settle = self.count(&claim, end);
            self.parts.outbox.settle(&[(claim, settle)], self.now)?;
            self.parts.receipts.unmark_working(&path)?;
            return Ok(None);
        }
        self.parts.receipts.mark_working(&path, &version)?;
        fail::fail_point!("drain.suspect");
        let work = self.look(&claim)?;
        let outcomes = self.parts.stores.iter().map(|_| None).collect();
        let mut alone = [Errand {
            claim,
            work,
            outcomes,
        }];
        // What fails here fails again in the group, and is counted there.
        self.apply(&mut alone, |store| !store.is_witnessed())?;
        self.parts.receipts.unmark_working(&path)?;
        let [errand] = alone;
        Ok(Some(errand.claim))
    }

    /// Visits as many of the jobs as fit one group and returns the others.
    pub(super) fn group(mut self, claims: Vec<Claimed>) -> Result<Vec<Claimed>, Failure> {
        self.note_labels(&claims)?;
        let mut errands = Vec::with_capacity(claims.len());
        let mut bytes = 0;
        let mut claims = claims.into_iter();
        while bytes < GROUP_BYTES
            && let Some(claim) = claims.next()
        {
            let work = self.look(&claim)?;
            if let Work::Put { page, .. } = &work {
                bytes += page.text.len();
            }
            let outcomes = self.parts.stores.iter().map(|_| None).collect();
            errands.push(Errand {
                claim,
                work,
                outcomes,
            });
        }
        self.apply(&mut errands, |_| true)?;
        self.settle(errands)?;
        Ok(claims.collect())
    }

    fn note_labels(&mut self, claims: &[Claimed]) -> Result<(), Failure> {
        let carried: Vec<(PagePath, Labels)> = claims
            .iter()
            .filter(|claim| {
                !claim.job.labels.is_empty() && self.parts.wiki.is_page(claim.job.path.as_str())
            })
            .map(|claim| (claim.job.path.clone(), claim.job.labels.clone()))
            .collect();
        self.parts.receipts.note_labels(&carried)
    }

    /// Reads the job's page and decides what is to be done.
    fn look(&mut self, claim: &Claimed) -> Result<Work, Failure> {
        let path = &claim.job.path;
        if !self.parts.wiki.is_page(path.as_str()) {
            let why = Failure::new(
                FailureKind::Rejected,
                format!("{:?} is not a page's path", path.as_str()),
            )
            .hint(format!(
                "pages lie below {}/ and match wiki.include",
                self.parts.wiki.pages_dir()
            ));
            return Ok(Work::Over(self.fail(claim, None, String::new(), &why)));
        }
        let reading = self.parts.wiki.read(path);
        let version = match &reading {
            Reading::Page { sha, .. } => sha.to_string(),
            Reading::Bad { version, .. } => version.clone(),
            Reading::Absent => String::new(),
        };
        if let Some(letter) = self.run.letters.get(path)
            && letter.death.version == version
            && letter.death.fingerprint == self.run.fingerprint
        {
            return Ok(Work::Rests);
        }
        match reading {
            Reading::Page {
                text,
                sha,
                stat,
                seen_at,
            } => {
                let labels = self.parts.receipts.labels(path)?;
                let page = Arc::new(Page::new(path.clone(), text, labels));
                let seen = FileSeen { stat, seen_at, sha };
                Ok(Work::Put { page, seen })
            }
            Reading::Absent => {
                let gone = if self.run.options.allow_mass_delete {
                    None
                } else {
                    self.accident()?
                };
                match gone {
                    Some(Accident { gone, of }) if self.is_held_by_head(path)? => {
                        let why = Failure::new(
                            FailureKind::Waiting,
                            format!("{gone} of {of} pages are gone from disk while HEAD still holds them"),
                        )
                        .hint(
                            "bring them back with `git checkout -- wiki-output`, or say that it is meant with `wiki-sync drain --allow-mass-delete`",
                        );
                        Ok(Work::Over(End {
                            settle: hold(StoreName::Git, version, &why),
                            why: Some(why),
                        }))
                    }
                    Some(_) | None => Ok(Work::Remove),
                }
            }
            Reading::Bad { failure, version } => {
                if failure.kind == FailureKind::Busy {
                    return Ok(Work::Over(self.go_round(claim, version, failure)));
                }
                Ok(Work::Over(self.fail(claim, None, version, &failure)))
            }
        }
    }

    /// Returns whether so many pages are gone that it looks like an accident, looking at all pages at most once.
    fn accident(&mut self) -> Result<Option<Accident>, Failure> {
        if self.run.findings.is_none() {
            let mut scan = Scan {
                wiki: &self.parts.wiki,
                receipts: &self.parts.receipts,
                stores: &mut self.parts.stores,
                dead: &[],
            };
            self.run.findings = Some(scan.run(&mut |_| Ok(()), &mut |_| ())?);
        }
        Ok(self
            .run
            .findings
            .as_ref()
            .and_then(|findings| findings.accident))
    }

    /// Whether a witnessed store still holds the page; where there is none, whether any store was given it. Asks the
    /// witnesses at most once in a drain.
    fn is_held_by_head(&mut self, path: &PagePath) -> Result<bool, Failure> {
        if self.run.head.is_none() {
            let mut head = None;
            for store in &mut self.parts.stores {
                if let Ok(Some(holds)) = store.witness() {
                    let paths = holds.into_iter().map(|(path, _)| path);
                    head.get_or_insert_with(HashSet::new).extend(paths);
                }
            }
            self.run.head = Some(head);
        }
        if let Some(Some(head)) = &self.run.head {
            return Ok(head.contains(path));
        }
        for store in &self.parts.stores {
            if self.parts.receipts.get(store.name(), path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Applies the group store by store: voids the receipts of what a store still owes, applies it, and writes the
    /// receipts of what holds.
    fn apply(
        &mut self,
        errands: &mut [Errand],
        to: impl Fn(&dyn Store) -> bool,
    ) -> Result<(), Failure> {
        struct Share {
            at: usize,
            name: StoreName,
            whose: Vec<usize>,
            changes: Vec<Change>,
            epoch: i64,
        }
        let mut shares = Vec::new();
        let stores = self.parts.stores.iter().enumerate();
        for (at, store) in stores.filter(|(_, store)| to(store.as_ref())) {
            let (name, fingerprint) = (store.name(), store.fingerprint());
            let mut share = Share {
                at,
                name,
                whose: Vec::new(),
                changes: Vec::new(),
                epoch: 0,
            };
            for (which, errand) in errands.iter_mut().enumerate() {
                let change = match &errand.work {
                    Work::Put { page, .. } => Change::Put(Arc::clone(page)),
                    Work::Remove => Change::Remove(errand.claim.job.path.clone()),
                    Work::Over(_) | Work::Rests => continue,
                };
                // A witnessed store compares with what it holds, at little cost; the receipt is no judge there.
                if !store.is_witnessed() {
                    let receipt = self.parts.receipts.get(name, change.path())?;
                    let nothing_to_do = match (&change, receipt) {
                        (Change::Put(page), Some(receipt)) => {
                            receipt.sha == Some(page.sha) && receipt.fingerprint == fingerprint
                        }
                        (Change::Put(_), None) | (Change::Remove(_), Some(_)) => false,
                        (Change::Remove(_), None) => true,
                    };
                    if nothing_to_do {
                        continue;
                    }
                }
                if let Some(why) = self.run.gates[&name].closed() {
                    errand.outcomes[at] = Some(Err(why.clone()));
                    continue;
                }
                share.whose.push(which);
                share.changes.push(change);
            }
            if !share.changes.is_empty() {
                shares.push(share);
            }
        }
        let voids: Vec<_> = shares
            .iter()
            .filter(|share| !self.parts.stores[share.at].is_witnessed())
            .map(|share| {
                let paths = share
                    .changes
                    .iter()
                    .map(|change| change.path().clone())
                    .collect();
                (share.name, paths)
            })
            .collect();
        if !voids.is_empty() {
            let epochs = self.parts.receipts.begin(&voids)?;
            let unwitnessed = shares
                .iter_mut()
                .filter(|share| !self.parts.stores[share.at].is_witnessed());
            for (share, epoch) in unwitnessed.zip(epochs) {
                share.epoch = epoch;
            }
        }
        fail::fail_point!("drain.voided");
        let mut written = Vec::new();
        for share in shares {
            let outcomes = match self.parts.stores[share.at].apply(&share.changes, share.epoch) {
                Ok(outcomes) => outcomes,
                Err(failure) => {
                    self.run
                        .shut(self.parts, share.name, failure.clone(), self.now);
                    share.changes.iter().map(|_| Err(failure.clone())).collect()
                }
            };
            fail::fail_point!("drain.applied");
            let mut entries = Vec::new();
            for ((which, change), outcome) in
                share.whose.into_iter().zip(&share.changes).zip(outcomes)
            {
                if let Ok(applied) = &outcome {
                    let report = self
                        .run
                        .report
                        .stores
                        .entry(share.name.as_str())
                        .or_default();
                    entries.push(match change {
                        Change::Put(page) => {
                            report.applied += u64::from(applied.changed);
                            Entry::Holds {
                                path: page.path.clone(),
                                sha: page.sha,
                                mark: applied.mark.clone(),
                            }
                        }
                        Change::Remove(path) => {
                            report.removed += u64::from(applied.changed);
                            Entry::Gone(path.clone())
                        }
                    });
                }
                errands[which].outcomes[share.at] = Some(outcome);
            }
            written.push((
                share.name,
                share.epoch,
                self.parts.stores[share.at].fingerprint(),
                entries,
            ));
        }
        let mut files = Vec::new();
        let mut gone = Vec::new();
        for errand in errands.iter() {
            match &errand.work {
                Work::Put { page, seen } => files.push((page.path.clone(), *seen)),
                Work::Remove if errand.outcomes.iter().flatten().all(Result::is_ok) => {
                    gone.push(errand.claim.job.path.clone());
                }
                Work::Remove | Work::Over(_) | Work::Rests => {}
            }
        }
        fail::fail_point!("drain.before_receipts");
        self.parts.receipts.write(&written, &files, &gone)?;
        fail::fail_point!("drain.receipts");
        Ok(())
    }

    fn settle(&mut self, errands: Vec<Errand>) -> Result<(), Failure> {
        let mut settled = Vec::with_capacity(errands.len());
        for errand in errands {
            let settle = self.verdict(&errand);
            settled.push((errand.claim, settle));
        }
        fail::fail_point!("drain.before_settle");
        // A claim that was lost meanwhile is in somebody else's hands: his settle counts.
        self.parts.outbox.settle(&settled, self.now)?;
        fail::fail_point!("drain.settled");
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
            Work::Remove => String::new(),
        };
        // The worst failure decides: a page that can never be applied, then one that failed, then waiting.
        let names: Vec<_> = self.parts.stores.iter().map(|store| store.name()).collect();
        let mut worst: Option<(StoreName, &Failure)> = None;
        for (&name, outcome) in names.iter().zip(&errand.outcomes) {
            if let Some(Err(failure)) = outcome
                && worst.is_none_or(|(_, worst)| rank(failure.kind) > rank(worst.kind))
            {
                worst = Some((name, failure));
            }
        }
        if let Some((name, failure)) = worst {
            if failure.kind == FailureKind::Busy && self.run.gates[&name].closed().is_none() {
                // Busy for this page alone: it changed while it was applied.
                let round = self.go_round(claim, version, failure.clone());
                return self.count(claim, round);
            }
            let failed = self.fail(claim, Some(name), version, failure);
            return self.count(claim, failed);
        }
        if !self.is_still(path, &errand.work) {
            let moved = Failure::new(
                FailureKind::Busy,
                format!("page {:?} changed meanwhile", path.as_str()),
            );
            let round = self.go_round(claim, version, moved);
            return self.count(claim, round);
        }
        self.run.report.processed += 1;
        let changed = errand
            .outcomes
            .iter()
            .flatten()
            .flatten()
            .any(|applied| applied.changed);
        self.run.report.unchanged += u64::from(!changed);
        self.run.letters.remove(path);
        Settle::Ack
    }

    /// Counts the end of a job that did not reach every store.
    fn count(&mut self, claim: &Claimed, end: End) -> Settle {
        let End { settle, why } = end;
        if let Some(why) = &why {
            self.run.note(store_of(&settle), Some(&claim.job.path), why);
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
            Work::Over(_) | Work::Rests => true,
        }
    }

    /// Ends a job that failed as the policy says.
    fn fail(
        &self,
        claim: &Claimed,
        store: Option<StoreName>,
        version: String,
        failure: &Failure,
    ) -> End {
        let failed = claim.job.retry;
        let settle = match self.parts.policy.verdict(failure.kind, failed, dice()) {
            Verdict::Hold => hold(store.unwrap_or(StoreName::Git), version, failure),
            Verdict::Dead => Settle::Dead(self.death(store, claim, version, failure)),
            Verdict::RetryAfter(wait) => Settle::RetryAt {
                at: self.now.plus(wait),
                attempts: failed + 1,
                version,
                reason: failure.reason.clone(),
            },
        };
        End {
            settle,
            why: Some(failure.clone()),
        }
    }

    /// Sends a job whose page moved on round once more; not an attempt. A page that never rests is held in the end.
    fn go_round(&mut self, claim: &Claimed, version: String, why: Failure) -> End {
        let rounds = self.run.rounds.entry(claim.job.path.clone()).or_default();
        *rounds += 1;
        if *rounds > MOST_ROUNDS {
            return End {
                settle: hold(StoreName::Git, version, &why),
                why: Some(why),
            };
        }
        End {
            settle: Settle::RetryAt {
                at: Timestamp(self.now.0.saturating_add(AGAIN_MS)),
                attempts: claim.job.retry,
                version,
                reason: why.reason,
            },
            why: None,
        }
    }

    fn death(
        &self,
        store: Option<StoreName>,
        claim: &Claimed,
        version: String,
        failure: &Failure,
    ) -> Death {
        let mut end = failure.reason.len().min(MOST_REASON);
        while !failure.reason.is_char_boundary(end) {
            end -= 1;
        }
        Death {
            store,
            reason: failure.reason[..end].into(),
            attempts: claim.job.retry + 1,
            version,
            fingerprint: self.run.fingerprint.clone(),
        }
    }
}

fn hold(store: StoreName, version: String, why: &Failure) -> Settle {
    Settle::Hold {
        store,
        until: None,
        version,
        reason: why.reason.clone(),
    }
}

fn store_of(settle: &Settle) -> Option<StoreName> {
    match settle {
        Settle::Hold { store, .. } => Some(*store),
        Settle::Dead(death) => death.store,
        Settle::Ack | Settle::Swallow | Settle::RetryAt { .. } => None,
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
