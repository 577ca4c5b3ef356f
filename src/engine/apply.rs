//! Bringing a group to the stores, write-ahead: receipts are voided, then a store is touched, then receipts are written.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tracing::{debug, info};

use super::batch::{Errand, Visit, Work};
use super::report::{PageWarning, kind_name};
use super::{Progress, ms};
use crate::model::{Change, Failure, FailureKind, Page, PagePath, StoreName, Timestamp, Within};
use crate::state::Entry;
use crate::stores::{Applied, Brought, Outcome, Store};

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

/// How often it is told how far the stores are.
const TELL: Duration = Duration::from_millis(100);

/// Tells how far a group is, by what its stores have brought: a page is done when each of them has it.
pub(super) struct Steps<'p> {
    progress: &'p mut dyn Progress,
    /// Jobs that were visited before this group, and that there are in all.
    visited: u64,
    total: u64,
    /// Pages of the group, and changes for all of its stores together.
    pages: u64,
    changes: u64,
    /// Changes of the stores that are through.
    done: u64,
}

impl<'p> Steps<'p> {
    pub(super) fn new(progress: &'p mut dyn Progress, visited: u64, total: u64) -> Self {
        Self {
            progress,
            visited,
            total,
            pages: 0,
            changes: 0,
            done: 0,
        }
    }

    /// A group of so many pages begins, of which the stores get these shares.
    fn begin(&mut self, pages: usize, shares: &[Share]) {
        self.pages = pages as u64;
        self.changes = shares.iter().map(|share| share.changes.len() as u64).sum();
        self.at(0);
    }

    /// Those stores that are at work have brought so many changes.
    fn at(&mut self, brought: u64) {
        let part = (self.done + brought).min(self.changes) * self.pages;
        let at = self.visited + part.checked_div(self.changes).unwrap_or(self.pages);
        if self.total > 0 {
            self.progress.at("syncing", at, self.total.max(at));
        }
    }
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
        steps: &mut Steps<'_>,
    ) -> Result<(), Failure> {
        let mut shares = Vec::new();
        for at in 0..self.parts.stores.len() {
            if to(self.parts.stores[at].as_ref()) {
                shares.extend(self.share(at, errands)?);
            }
        }
        self.void(&mut shares)?;
        fail::fail_point!("drain.voided");
        steps.begin(errands.len(), &shares);
        let (slow, quick): (Vec<_>, Vec<_>) = shares
            .into_iter()
            .partition(|share| self.parts.stores[share.at].waits_for_others());
        let last = if slow.is_empty() {
            quick
        } else {
            if !quick.is_empty() {
                let written = self.bring(quick, errands, steps);
                self.parts.receipts.write(&written, &[], &[])?;
                fail::fail_point!("drain.quick_receipts");
            }
            slow
        };
        let written = self.bring(last, errands, steps);
        fail::fail_point!("drain.before_receipts");
        let (files, gone) = seen(errands);
        self.parts.receipts.write(&written, &files, &gone)?;
        fail::fail_point!("drain.receipts");
        Ok(())
    }

    /// Brings its share to each of these stores; returns the receipts to be written.
    fn bring(
        &mut self,
        shares: Vec<Share>,
        errands: &mut [Errand],
        steps: &mut Steps<'_>,
    ) -> Vec<Written> {
        let said = touch_all(&mut self.parts.stores, &shares, steps);
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
        let mut shut = Vec::new();
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
                shut.push((which, change));
                continue;
            }
            share.whose.push(which);
            share.changes.push(change);
        }
        let held = self.held_already(at, shut.iter().map(|(_, change)| change));
        for (which, change) in &shut {
            if let Some(applied) = held.get(change.path()) {
                errands[*which].outcomes[at] = Some(Ok(applied.clone()));
            }
        }
        Ok((!share.changes.is_empty()).then_some(share))
    }

    /// Returns which of these changes a witnessed store that takes none now need not take: it holds the page already, or
    /// nothing of one that is gone. So only what is really owed waits for it.
    fn held_already<'c>(
        &mut self,
        at: usize,
        changes: impl Iterator<Item = &'c Change>,
    ) -> HashMap<PagePath, Applied> {
        let changes: Vec<_> = changes.collect();
        let store = &mut self.parts.stores[at];
        let name = store.name();
        if changes.is_empty() || !store.is_witnessed() {
            return HashMap::new();
        }
        let within = Within::of(changes.iter().map(|change| change.path().clone()));
        let Ok(holdings) = store.holdings(&within) else {
            return HashMap::new();
        };
        let fingerprint = store.fingerprint();
        let marks: HashMap<_, _> = holdings
            .into_iter()
            .map(|holding| (holding.path, holding.digest))
            .collect();
        let mut held = HashMap::new();
        for change in changes {
            let path = change.path();
            let mark = marks.get(path.as_str());
            let Ok(receipt) = self.parts.receipts.get(name, path) else {
                continue;
            };
            let is_held = match (change, &receipt) {
                (Change::Put(page), Some(receipt)) => {
                    receipt.sha == Some(page.sha)
                        && receipt.fingerprint == fingerprint
                        && mark.is_some()
                        && receipt.mark.as_ref() == mark
                }
                (Change::Put(_), None) => false,
                (Change::Remove(_), receipt) => {
                    let known = receipt.as_ref().and_then(|receipt| receipt.mark.as_ref());
                    mark.is_none() && known.is_none()
                }
            };
            if is_held {
                let applied = Applied {
                    changed: false,
                    mark: mark.cloned(),
                };
                held.insert(path.clone(), applied);
            }
        }
        held
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
                let held = self.held_already(share.at, share.changes.iter());
                let outcome = |change: &Change| match held.get(change.path()) {
                    Some(applied) => Ok(applied.clone()),
                    None => Err(failure.clone()),
                };
                (share.changes.iter().map(outcome).collect(), false)
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
fn touch_all(stores: &mut [Box<dyn Store>], shares: &[Share], steps: &mut Steps<'_>) -> Vec<Said> {
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
        let mut brought: Vec<Option<Brought>> = Vec::new();
        let (end, ends) = channel();
        for (at, store) in stores.iter_mut().enumerate() {
            if let Some(share) = shares.next_if(|share| share.at == at) {
                let counter = store.brought();
                counter.begin();
                let (end, which) = (end.clone(), brought.len());
                brought.push(Some(counter));
                running.push(scope.spawn(move || {
                    if share.changes.len() >= MANY {
                        give_way();
                    }
                    let said = touch(store.as_mut(), share);
                    // Nobody hears of it when another one panicked.
                    let _ = end.send((which, share.changes.len() as u64));
                    said
                }));
            }
        }
        drop(end);
        while brought.iter().any(Option::is_some) {
            match ends.recv_timeout(TELL) {
                Ok((which, changes)) => {
                    brought[which] = None;
                    steps.done += changes;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // One that panicked: told below.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            steps.at(brought.iter().flatten().map(Brought::so_far).sum());
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Said(Vec<(u64, u64)>);

    impl Progress for Said {
        fn at(&mut self, _what: &'static str, done: u64, total: u64) {
            self.0.push((done, total));
        }
    }

    fn share(at: usize, name: StoreName, pages: usize) -> Share {
        let changes = (0..pages).map(|page| {
            let path = format!("wiki-output/{page}.md");
            Change::Remove(PagePath::parse(&path).expect("a path"))
        });
        Share {
            at,
            name,
            whose: (0..pages).collect(),
            changes: changes.collect(),
            epoch: 1,
        }
    }

    #[test]
    fn how_far_it_is_moves_with_each_store_and_never_beyond_the_end() {
        let mut said = Said(Vec::new());
        let mut steps = Steps::new(&mut said, 10, 22);
        // Of 12 pages one store owes all, another half of them.
        let shares = [
            share(0, StoreName::Graph, 12),
            share(1, StoreName::Vectors, 6),
        ];
        steps.begin(12, &shares);
        steps.at(3);
        steps.done += 12;
        steps.at(0);
        steps.at(99);
        // Nobody owes anything.
        steps.begin(12, &[]);
        assert_eq!(said.0, [(10, 22), (12, 22), (18, 22), (22, 22), (22, 22)]);
        // More than was counted came meanwhile; and nobody asks for it.
        let mut said = Said(Vec::new());
        Steps::new(&mut said, 30, 22).begin(1, &[]);
        Steps::new(&mut said, 0, 0).begin(1, &[]);
        assert_eq!(said.0, [(31, 31)]);
    }
}
