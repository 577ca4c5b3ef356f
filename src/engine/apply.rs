//! Bringing a group to the stores, write-ahead: receipts are voided, then a store is touched, then receipts are written.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use tracing::{debug, info};

use super::batch::{Errand, Visit, Work};
use super::ms;
use super::report::{PageWarning, kind_name};
use crate::model::{Change, Failure, FailureKind, Page, PagePath, StoreName, Timestamp};
use crate::state::Entry;
use crate::stores::{Outcome, Store};

/// What one store gets of a group.
struct Share {
    /// The store's place in the list.
    at: usize,
    name: StoreName,
    /// Whose the changes are: places in the group.
    whose: Vec<usize>,
    changes: Vec<Change>,
    /// The epoch that the store has afterwards.
    epoch: i64,
}

/// What a store said of its share.
struct Said {
    answer: Result<Vec<Outcome>, Failure>,
    /// Whether texts were embedded meanwhile.
    embedded: bool,
}

/// From how many changes on a store gives way to others, such as whoever enqueues meanwhile.
const MANY: usize = 64;

/// The receipts of one store: its name, its epoch now, its fingerprint, what it holds.
type Written = (StoreName, i64, String, Vec<Entry>);

impl Visit<'_, '_, '_> {
    /// Brings the group to those stores that `to` picks; each errand gets its outcomes. A store that may wait for others
    /// comes last, when the receipts of the rest are written.
    ///
    /// # Errors
    /// When the state is away. What a store or a page has against it is in the outcomes.
    pub(super) fn apply(
        &mut self,
        errands: &mut [Errand],
        to: impl Fn(&dyn Store) -> bool,
    ) -> Result<(), Failure> {
        let mut shares = Vec::new();
        for at in 0..self.parts.stores.len() {
            if to(self.parts.stores[at].as_ref()) {
                shares.extend(self.share(at, errands)?);
            }
        }
        self.void(&mut shares)?;
        fail::fail_point!("drain.voided");
        let (slow, quick): (Vec<_>, Vec<_>) = shares
            .into_iter()
            .partition(|share| self.parts.stores[share.at].waits_for_others());
        let last = if slow.is_empty() {
            quick
        } else {
            if !quick.is_empty() {
                let written = self.bring(quick, errands);
                self.parts.receipts.write(&written, &[], &[])?;
                fail::fail_point!("drain.quick_receipts");
            }
            slow
        };
        let written = self.bring(last, errands);
        fail::fail_point!("drain.before_receipts");
        let (files, gone) = seen(errands);
        self.parts.receipts.write(&written, &files, &gone)?;
        fail::fail_point!("drain.receipts");
        Ok(())
    }

    /// Brings its share to each of these stores; returns the receipts to be written.
    fn bring(&mut self, shares: Vec<Share>, errands: &mut [Errand]) -> Vec<Written> {
        let said = touch_all(&mut self.parts.stores, &shares);
        let mut written = Vec::new();
        for (share, said) in shares.into_iter().zip(said) {
            written.extend(self.heard(share, said, errands));
        }
        written
    }

    /// Picks what a store still owes of the group; `None` when that is nothing.
    fn share(&mut self, at: usize, errands: &mut [Errand]) -> Result<Option<Share>, Failure> {
        self.check_identity(at)?;
        let store = self.parts.stores[at].as_ref();
        let mut share = Share {
            at,
            name: store.name(),
            whose: Vec::new(),
            changes: Vec::new(),
            epoch: 0,
        };
        for (which, errand) in errands.iter_mut().enumerate() {
            let change = match &errand.work {
                Work::Put { page, .. } => Change::Put(Arc::clone(page)),
                Work::Forget if store.is_witnessed() => continue,
                Work::Remove | Work::Forget => Change::Remove(errand.claim.job.path.clone()),
                Work::Over(_) | Work::Rests => continue,
            };
            if (errand.letter.as_ref()).is_some_and(|letter| letter.stands_for(share.name)) {
                continue;
            }
            // A witnessed store compares with what it holds, at little cost; the receipt is no judge there.
            if !store.is_witnessed() && self.has_receipt(store, &change)? {
                continue;
            }
            if let Some(why) = self.run.gates[&share.name].closed() {
                errand.outcomes[at] = Some(Err(why.clone()));
                continue;
            }
            share.whose.push(which);
            share.changes.push(change);
        }
        Ok((!share.changes.is_empty()).then_some(share))
    }

    /// Shuts a store's gate when it is no longer the one that its receipts speak of; the probe then begins anew with it.
    fn check_identity(&mut self, at: usize) -> Result<(), Failure> {
        let store = &mut self.parts.stores[at];
        let name = store.name();
        if store.is_witnessed() || self.run.gates[&name].closed().is_some() {
            return Ok(());
        }
        let failure = match store.identity() {
            Ok(identity) if self.parts.receipts.recognise(name, &identity)? => return Ok(()),
            Ok(_) => Failure::new(FailureKind::Down, "it was replaced while we worked"),
            Err(failure) => failure,
        };
        self.run.shut(self.parts, name, failure, Timestamp::now());
        Ok(())
    }

    /// Whether the receipt says that the change was made.
    fn has_receipt(&self, store: &dyn Store, change: &Change) -> Result<bool, Failure> {
        let receipt = self.parts.receipts.get(store.name(), change.path())?;
        Ok(match (change, receipt) {
            (Change::Put(page), Some(receipt)) => {
                receipt.sha == Some(page.sha) && receipt.fingerprint == store.fingerprint()
            }
            (Change::Put(_), None) | (Change::Remove(_), Some(_)) => false,
            (Change::Remove(_), None) => true,
        })
    }

    /// Voids the receipts of all shares in one step, and gives each the epoch that its store has afterwards.
    fn void(&mut self, shares: &mut [Share]) -> Result<(), Failure> {
        let mut judged: Vec<&mut Share> = shares
            .iter_mut()
            .filter(|share| !self.parts.stores[share.at].is_witnessed())
            .collect();
        if judged.is_empty() {
            return Ok(());
        }
        let voids: Vec<(StoreName, Vec<PagePath>)> = judged
            .iter()
            .map(|share| {
                let paths = share.changes.iter().map(|change| change.path().clone());
                (share.name, paths.collect())
            })
            .collect();
        let epochs = self.parts.receipts.begin(&voids)?;
        for (share, epoch) in judged.iter_mut().zip(epochs) {
            share.epoch = epoch;
        }
        Ok(())
    }

    /// Takes in what a store said of its share and returns the receipts to be written; none when the store is away.
    fn heard(&mut self, share: Share, said: Said, errands: &mut [Errand]) -> Option<Written> {
        let goes_on = said.embedded;
        let (outcomes, answered): (Vec<Outcome>, bool) = match said.answer {
            Ok(outcomes) => {
                self.run.gates.entry(share.name).or_default().proved();
                (outcomes, true)
            }
            Err(failure) => {
                // By the clock as it is now: a server that does not answer has taken its time, and the next probe
                // is that much later.
                self.run
                    .shut(self.parts, share.name, failure.clone(), Timestamp::now());
                let same = share.changes.iter().map(|_| Err(failure.clone()));
                (same.collect(), false)
            }
        };
        let lack = self.parts.stores[share.at].lack();
        if answered {
            self.run
                .lack(self.parts, share.name, lack, Timestamp::now());
        }
        let report = self.run.report.stores.entry(share.name.as_str());
        let report = report.or_default();
        let mut entries = Vec::new();
        let mut removed = 0;
        let changes = share.whose.into_iter().zip(&share.changes);
        for ((which, change), outcome) in changes.zip(outcomes) {
            if goes_on {
                // Whoever had no time for this page was at work: it may come again as often as it takes.
                self.run.rounds.remove(change.path());
            }
            tell(share.name, change, &errands[which], &outcome);
            if let Ok(applied) = &outcome {
                entries.push(match change {
                    Change::Put(page) => {
                        report.applied += u64::from(applied.changed);
                        if share.name == StoreName::Graph && applied.changed {
                            warn(&mut self.run.report.warnings, page);
                        }
                        Entry::Holds {
                            path: page.path.clone(),
                            sha: page.sha,
                            mark: applied.mark.clone(),
                        }
                    }
                    Change::Remove(path) => {
                        report.removed += u64::from(applied.changed);
                        removed += u64::from(applied.changed);
                        Entry::Gone(path.clone())
                    }
                });
            }
            errands[which].outcomes[share.at] = Some(outcome);
        }
        if self.parts.stores[share.at].is_witnessed() {
            self.run.removed += removed;
        }
        // The epoch of a store that did not answer is not known to be reached.
        answered.then(|| {
            let fingerprint = self.parts.stores[share.at].fingerprint();
            (share.name, share.epoch, fingerprint, entries)
        })
    }
}

/// Tells the log what a store said of a job's page.
fn tell(store: StoreName, change: &Change, errand: &Errand, outcome: &Outcome) {
    // As the outbox tells it: each keeps its jobs under a number.
    let job: Option<i64> = errand.claim.id.0.parse().ok();
    let path = change.path().as_str();
    match outcome {
        Ok(applied) => {
            let what = match change {
                Change::Put(_) => "applied",
                Change::Remove(_) => "removed",
            };
            info!(
                job,
                path,
                store = store.as_str(),
                changed = applied.changed,
                "{what}"
            );
        }
        Err(failure) => {
            let (kind, reason) = (kind_name(failure.kind), &failure.reason);
            info!(
                job,
                path,
                store = store.as_str(),
                kind,
                reason,
                "not applied"
            );
        }
    }
}

/// Brings a share to its store.
fn touch(store: &mut dyn Store, share: &Share) -> Said {
    let before = store.tally().embedded;
    let began = Instant::now();
    let answer = store.apply(&share.changes, share.epoch);
    debug!(
        store = share.name.as_str(),
        pages = share.changes.len(),
        ms = ms(began),
        "touched"
    );
    fail::fail_point!("drain.applied");
    Said {
        answer,
        embedded: store.tally().embedded > before,
    }
}

/// Lets whoever has a little to do go before this thread, and those that it starts: a person at work, or a producer that
/// enqueues. Elsewhere than on Linux only a whole process can give way.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        /// Of 19: about a tenth of the time, where there is not enough for all.
        const NICE: i32 = 10;
        // It only makes others quicker, so where it is forbidden, nothing is lost.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Brings each share to its store, all at the same time: they do not know each other, and while one waits for the disk
/// another has work. Returns what they said in the order of the shares.
fn touch_all(stores: &mut [Box<dyn Store>], shares: &[Share]) -> Vec<Said> {
    // Tests that ask what holds between two of them.
    fail::fail_point!("drain.one_by_one", |_| {
        let in_order = shares.iter();
        in_order
            .map(|share| touch(stores[share.at].as_mut(), share))
            .collect()
    });
    thread::scope(|scope| {
        let mut shares = shares.iter().peekable();
        let mut running = Vec::new();
        for (at, store) in stores.iter_mut().enumerate() {
            if let Some(share) = shares.next_if(|share| share.at == at) {
                running.push(scope.spawn(move || {
                    if share.changes.len() >= MANY {
                        give_way();
                    }
                    touch(store.as_mut(), share)
                }));
            }
        }
        let said = running.into_iter().map(ScopedJoinHandle::join);
        said.map(|said| said.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// The most remarks on pages in one report.
const MOST_WARNINGS: usize = 1_000;

/// Remarks what could not be understood in a page. The graph keeps its metadata, so it is told when that was written anew.
fn warn(warnings: &mut Vec<PageWarning>, page: &Page) {
    let left = MOST_WARNINGS.saturating_sub(warnings.len());
    let found = page.document().warnings.iter().take(left);
    warnings.extend(found.map(|warning| PageWarning {
        path: page.path.to_string(),
        line: warning.line,
        message: warning.message.clone(),
    }));
}

/// What was seen of the files, and the pages of which nothing is to be remembered.
fn seen(errands: &[Errand]) -> (Vec<(PagePath, crate::state::FileSeen)>, Vec<PagePath>) {
    let mut files = Vec::new();
    let mut gone = Vec::new();
    for errand in errands {
        match &errand.work {
            Work::Put { page, seen } => files.push((page.path.clone(), *seen)),
            Work::Remove | Work::Forget if errand.outcomes.iter().flatten().all(Result::is_ok) => {
                gone.push(errand.claim.job.path.clone());
            }
            Work::Remove | Work::Forget | Work::Over(_) | Work::Rests => {}
        }
    }
    (files, gone)
}
