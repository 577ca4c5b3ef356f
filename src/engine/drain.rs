//! The drain: claim, read, apply, settle, until nothing is due.
//!
//! One-shot: it gives a store that is away the schedule once, then leaves its jobs held. All waiting is done here,
//! in [`drain`]; a batch never sleeps.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::batch::Visit;
use super::gate::Gate;
use super::report::{DrainReport, StoreReport, trouble};
use super::scan::{Findings, Scan, combined_fingerprint};
use super::{Parts, Progress};
use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};
use crate::outbox::{DeadLetter, Enqueued};
use crate::state::CheckoutLock;

/// How to drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainOptions {
    /// Look for pages that nobody announced first.
    pub scan: bool,
    /// Wait for jobs whose time has not come and for stores that are away (the schedule once). When false,
    /// what is due now is done and the rest is left.
    pub wait: bool,
    /// Claim at most this many jobs.
    pub max_jobs: Option<u64>,
    /// How long to wait for new jobs once the queue is empty.
    pub timeout: Duration,
    /// Remove pages even when so many are gone at once that it looks like an accident.
    pub allow_mass_delete: bool,
    /// How long to wait for the checkout's lock.
    pub lock_wait: Duration,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self {
            scan: true,
            wait: true,
            max_jobs: None,
            timeout: Duration::ZERO,
            allow_mass_delete: false,
            lock_wait: Duration::from_mins(1),
        }
    }
}

/// Jobs claimed at a time, and so pages in one commit at the most.
const BATCH: usize = 1_000;
/// How long a claimed job stays hidden from others. Longer than the slowest batch, else two workers visit the
/// same page: wasteful, harmless. The checkout's lock is the true fence.
const LEASE: Duration = Duration::from_mins(5);
/// Workers that died with a job in their hands before it is suspected of having killed them.
const SUSPECT: u32 = 2;
/// How often to look for new jobs while waiting for some.
const POLL: Duration = Duration::from_millis(100);
/// The least wait for a job that is due and cannot be had, its page being in other hands.
const LEAST_WAIT: Duration = Duration::from_millis(20);
/// Jobs handed to the outbox at a time while scanning.
const ENQUEUE: usize = 2_000;

/// Drains the outbox: every claimed job's page is brought to every store.
///
/// # Errors
/// Only when nothing can be done at all: the lock is not to be had, the outbox or the state is away, the pages'
/// folder cannot be read. Whatever concerns a page or a store is in the report.
pub fn drain(
    parts: &mut Parts,
    options: &DrainOptions,
    progress: &mut dyn Progress,
) -> Result<DrainReport, Failure> {
    let started = Instant::now();
    let mut run = Run::new(options, parts);
    run.all(parts, progress)?;
    run.finish(parts, started)
}

/// One drain under way.
pub(super) struct Run<'a> {
    pub(super) options: &'a DrainOptions,
    pub(super) report: DrainReport,
    pub(super) gates: HashMap<StoreName, Gate>,
    /// Dead letters that rest, by page.
    pub(super) letters: HashMap<PagePath, DeadLetter>,
    pub(super) fingerprint: String,
    /// What the last look at all pages said; `None` before the first.
    pub(super) findings: Option<Findings>,
    /// What the witnessed stores held when they were asked; `None` before that.
    pub(super) head: Option<Head>,
    /// How often a page moved on while it was applied.
    pub(super) rounds: HashMap<PagePath, u32>,
    claimed: u64,
}

/// What the witnessed stores hold.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Whether any store could say.
    pub(super) is_known: bool,
    pub(super) pages: HashSet<PagePath>,
}

impl<'a> Run<'a> {
    fn new(options: &'a DrainOptions, parts: &Parts) -> Self {
        let names = parts.stores.iter().map(|store| store.name());
        Self {
            options,
            report: DrainReport {
                stores: names
                    .clone()
                    .map(|name| (name.as_str(), StoreReport::default()))
                    .collect(),
                ..DrainReport::default()
            },
            gates: names.map(|name| (name, Gate::default())).collect(),
            letters: HashMap::new(),
            fingerprint: combined_fingerprint(&parts.stores),
            findings: None,
            head: None,
            rounds: HashMap::new(),
            claimed: 0,
        }
    }

    fn all(&mut self, parts: &mut Parts, progress: &mut dyn Progress) -> Result<(), Failure> {
        self.begin(parts, progress)?;
        let mut idle_since = Instant::now();
        loop {
            if self.batch(parts, progress)? {
                idle_since = Instant::now();
                continue;
            }
            let Some(left) = self.left() else {
                return Ok(());
            };
            if left == 0 {
                return Ok(());
            }
            let now = Timestamp::now();
            let next_job = parts.outbox.next_due()?;
            let owed = parts.outbox.counts(now)?.held > 0;
            let next_probe = parts
                .stores
                .iter()
                .filter_map(|store| self.gates[&store.name()].probe_at())
                .min();
            let due = [next_job, next_probe.filter(|_| owed)]
                .into_iter()
                .flatten()
                .min();
            match due {
                Some(due) if self.options.wait => {
                    std::thread::sleep(now.until(due).clamp(LEAST_WAIT, POLL));
                    self.probe(parts)?;
                }
                Some(_) | None if idle_since.elapsed() < self.options.timeout => {
                    std::thread::sleep(POLL);
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// How many jobs may still be claimed; `None` once the bound is reached.
    fn left(&self) -> Option<u64> {
        match self.options.max_jobs {
            None => Some(u64::MAX),
            Some(most) => Some(most.saturating_sub(self.claimed)).filter(|&left| left > 0),
        }
    }

    /// Opens the stores, takes back what the dead had in hand, lets held jobs try again, and scans.
    fn begin(&mut self, parts: &mut Parts, progress: &mut dyn Progress) -> Result<(), Failure> {
        let _lock = lock(parts, self.options.lock_wait)?;
        let now = Timestamp::now();
        parts.receipts.count_deaths()?;
        parts.outbox.recover(true, now)?;
        for at in 0..parts.stores.len() {
            let name = parts.stores[at].name();
            match recognise(parts, at) {
                Ok(()) => {
                    parts.outbox.release(Some(name), now)?;
                }
                Err(failure) => self.shut(parts, name, failure, now),
            }
        }
        for letter in parts.outbox.dead()? {
            if let Some(path) = letter.path.clone() {
                self.letters.insert(path, letter);
            }
        }
        let counts = parts.outbox.counts(now)?;
        // Lines that nobody has read are counted when they are, or at the end.
        self.report.enqueued = counts.waiting - counts.unread + counts.delayed + counts.held;
        if self.options.scan {
            self.scan(parts, now, progress)?;
        }
        Ok(())
    }

    fn scan(
        &mut self,
        parts: &mut Parts,
        now: Timestamp,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let letters: Vec<_> = self.letters.values().cloned().collect();
        let mut jobs: Vec<Job> = Vec::new();
        let mut enqueued = Enqueued::default();
        let Parts {
            wiki,
            receipts,
            stores,
            outbox,
            ..
        } = parts;
        let mut scan = Scan {
            wiki,
            receipts,
            stores,
            dead: &letters,
        };
        let mut enqueue = |jobs: &mut Vec<Job>| -> Result<(), Failure> {
            let some = outbox.enqueue(jobs, now)?;
            enqueued.new += some.new;
            enqueued.merged += some.merged;
            jobs.clear();
            Ok(())
        };
        let mut findings = scan.run(
            &mut |job| {
                jobs.push(job);
                if jobs.len() < ENQUEUE {
                    return Ok(());
                }
                enqueue(&mut jobs)
            },
            &mut |pages| progress.at("scanning", pages, pages),
        )?;
        enqueue(&mut jobs)?;
        self.report.scanned = findings.pages;
        self.report.enqueued += enqueued.new + enqueued.merged;
        self.report.merged += enqueued.merged;
        self.report.skipped.clone_from(&findings.skipped);
        parts
            .receipts
            .note_files(&std::mem::take(&mut findings.seen_again))?;
        for (name, failure) in std::mem::take(&mut findings.unasked) {
            if self.gates[&name].closed().is_none() {
                self.shut(parts, name, failure, now);
            }
        }
        self.findings = Some(findings);
        Ok(())
    }

    /// Claims and visits one batch; says whether there was anything to claim.
    fn batch(&mut self, parts: &mut Parts, progress: &mut dyn Progress) -> Result<bool, Failure> {
        let Some(left) = self.left() else {
            return Ok(false);
        };
        let _lock = lock(parts, self.options.lock_wait)?;
        let now = Timestamp::now();
        self.report.merged += parts.outbox.recover(true, now)?.merged;
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(BATCH);
        let claims = parts.outbox.claim(max, LEASE, now)?;
        fail::fail_point!("drain.claimed");
        self.report.enqueued += claims.read;
        self.report.merged += claims.merged;
        self.report.dlq += claims.buried;
        if claims.jobs.is_empty() {
            return Ok(false);
        }
        self.claimed += claims.jobs.len() as u64;
        let mut rest = Vec::with_capacity(claims.jobs.len());
        for claim in claims.jobs {
            // Once may be chance, and all that were in those hands; twice makes it worth a look at each alone.
            if claim.recoveries < SUSPECT {
                rest.push(claim);
            } else {
                rest.extend(Visit::new(self, parts).suspect(claim)?);
            }
        }
        while !rest.is_empty() {
            rest = Visit::new(self, parts).group(rest)?;
            let counts = parts.outbox.counts(now)?;
            let done = self.report.processed;
            progress.at("syncing", done, done + counts.waiting + counts.in_flight);
        }
        for store in &mut parts.stores {
            store.yield_turn();
        }
        Ok(true)
    }

    /// Tries the stores whose probe is due, and lets their jobs go on when they answer.
    fn probe(&mut self, parts: &mut Parts) -> Result<(), Failure> {
        let now = Timestamp::now();
        for at in 0..parts.stores.len() {
            let name = parts.stores[at].name();
            if self.gates[&name].probe_at().is_none_or(|due| due > now) {
                continue;
            }
            let _lock = lock(parts, self.options.lock_wait)?;
            match recognise(parts, at) {
                Ok(()) => {
                    self.gates.entry(name).or_default().open();
                    self.report
                        .trouble
                        .retain(|trouble| trouble.store != Some(name.as_str()));
                    parts.outbox.release(Some(name), now)?;
                }
                Err(failure) => self.shut(parts, name, failure, now),
            }
        }
        Ok(())
    }

    /// Shuts a store's gate and says so in the report.
    pub(super) fn shut(
        &mut self,
        parts: &Parts,
        name: StoreName,
        failure: Failure,
        now: Timestamp,
    ) {
        self.note(Some(name), None, &failure);
        self.gates
            .entry(name)
            .or_default()
            .shut(failure, &parts.policy, now);
    }

    /// Puts a trouble in the report; the same trouble of several pages is one entry that counts them.
    pub(super) fn note(
        &mut self,
        store: Option<StoreName>,
        path: Option<&PagePath>,
        failure: &Failure,
    ) {
        let new = trouble(store, path.map(ToString::to_string), failure);
        let mut known = self.report.trouble.iter_mut();
        match known.find(|known| known.store == new.store && known.reason == new.reason) {
            Some(known) => {
                // The store's own entry comes first and has no page yet.
                known.pages += u64::from(known.path.is_some());
                known.path = known.path.take().or(new.path);
            }
            None => self.report.trouble.push(new),
        }
    }

    fn finish(mut self, parts: &mut Parts, started: Instant) -> Result<DrainReport, Failure> {
        let counts = parts.outbox.counts(Timestamp::now())?;
        self.report.enqueued += counts.unread;
        self.report.held = counts.held;
        self.report.dead = counts.dead;
        for store in &parts.stores {
            let tally = store.tally();
            let report = self.report.stores.entry(store.name().as_str()).or_default();
            report.embedded = tally.embedded;
            report.cached = tally.cached;
            if tally.commit.is_some() {
                self.report.commit = tally.commit;
            }
        }
        self.report.seconds = started.elapsed().as_secs_f64();
        Ok(self.report)
    }
}

/// Takes the checkout's lock; while a neighbour has it, our stores let go of what he may need.
fn lock(parts: &mut Parts, wait: Duration) -> Result<CheckoutLock, Failure> {
    if let Ok(lock) = CheckoutLock::acquire(&parts.state, Duration::ZERO) {
        return Ok(lock);
    }
    for store in &mut parts.stores {
        store.rest();
    }
    CheckoutLock::acquire(&parts.state, wait)
}

/// Opens a store and makes sure that its receipts speak of it; those that speak of another are voided, and what
/// the store holds is noted, so that pages gone meanwhile are removed from it.
fn recognise(parts: &mut Parts, at: usize) -> Result<(), Failure> {
    let store = &mut parts.stores[at];
    if store.is_witnessed() {
        return store.witness().map(|_| ());
    }
    let identity = store.identity()?;
    if parts.receipts.recognise(store.name(), &identity)? {
        return Ok(());
    }
    let held = store.inventory()?;
    let held: Vec<_> = held
        .iter()
        .filter_map(|holding| PagePath::parse(&holding.path).ok())
        .collect();
    parts.receipts.adopt(store.name(), &held)
}
