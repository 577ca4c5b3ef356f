//! The drain: claim, read, apply, settle, until nothing is due.
//!
//! One-shot: it gives a store that is away the schedule once, then leaves its jobs held. All waiting is done here,
//! in [`drain`]; a batch never sleeps.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::alert::{END_WAIT, Event, Subject};
use super::batch::Visit;
use super::bounds;
use super::gate::Gate;
use super::opening::lock;
use super::report::{DrainReport, StoreReport};
use super::scan::{Findings, combined_fingerprint};
use super::{Parts, Progress};
use crate::model::{Failure, FailureKind, PagePath, StoreName, Timestamp};
use crate::outbox::{Claimed, DeadLetter, Settle};

/// A wish to stop, from outside: a signal, mostly. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// Says whether it was wished.
    #[must_use]
    pub fn is_wished(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How to drain.
#[derive(Debug, Clone)]
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
    /// When wished, nothing more is claimed; what is in hand is finished or given back, and no attempt is used.
    pub stop: Stop,
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
            stop: Stop::default(),
        }
    }
}

/// Jobs claimed at a time, and so pages in one commit at the most.
const BATCH: usize = 1_000;
/// How long a claimed job stays hidden from others. Longer than the slowest batch, else two workers visit the
/// same page: wasteful, harmless. The checkout's lock is the true fence.
const LEASE: Duration = Duration::from_mins(5);
/// How often to look for new jobs while waiting for some.
const POLL: Duration = Duration::from_millis(100);
/// The least wait for a job that is due and cannot be had, its page being in other hands.
pub(super) const LEAST_WAIT: Duration = Duration::from_millis(20);

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
    parts.alerts.begin(Timestamp::now());
    for store in &mut parts.stores {
        store.heed(&options.stop.0);
    }
    let mut run = Run::new(options, parts);
    let ended = run.all(parts, progress);
    if let Err(failure) = ended {
        let event = Event::Away {
            subject: Subject::Drain,
            failure: failure.clone(),
        };
        let now = Timestamp::now();
        parts.alerts.note(&event, now);
        // There is no report to put its troubles in; `status` tells them.
        parts.alerts.end(now, END_WAIT);
        return Err(failure);
    }
    run.finish(parts, started)
}

/// What is to be done after a step.
enum Next {
    /// The next step, at once.
    Go,
    /// The next step, after a while.
    Wait(Duration),
    /// Nothing is due and nothing is to be waited for.
    End,
}

/// One drain under way.
pub(super) struct Run<'a> {
    pub(super) options: &'a DrainOptions,
    pub(super) report: DrainReport,
    pub(super) gates: HashMap<StoreName, Gate>,
    /// What stores that take pages are without for now: shut while that is so, and probed like a store that is away.
    pub(super) lacks: HashMap<StoreName, Gate>,
    /// Dead letters that rest, of the pages of the batch in hand.
    pub(super) letters: HashMap<PagePath, DeadLetter>,
    pub(super) fingerprint: String,
    /// What the last look at all pages said; `None` before the first.
    pub(super) findings: Option<Findings>,
    /// Pages removed from a witnessed store in this drain.
    pub(super) removed: u64,
    /// How often a page moved on while it was applied.
    pub(super) rounds: HashMap<PagePath, u32>,
    /// Ends of jobs that are counted, and that the outbox could not be told for sure.
    pub(super) unsettled: Vec<(Claimed, Settle)>,
    /// Why the last scan could not hand on all that it found.
    pub(super) unscanned: Option<Failure>,
    claimed: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(options: &'a DrainOptions, parts: &Parts) -> Self {
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
            lacks: HashMap::new(),
            letters: HashMap::new(),
            fingerprint: combined_fingerprint(&parts.stores),
            findings: None,
            removed: 0,
            rounds: HashMap::new(),
            unsettled: Vec::new(),
            unscanned: None,
            claimed: 0,
        }
    }

    /// Goes on until nothing is due, and over outages of the outbox or the state along the probes' schedule.
    fn all(&mut self, parts: &mut Parts, progress: &mut dyn Progress) -> Result<(), Failure> {
        let mut outage = Gate::default();
        let mut begun = false;
        let mut idle_since = Instant::now();
        loop {
            if self.options.stop.is_wished() {
                self.report.stopped = true;
                return Ok(());
            }
            let next = if begun {
                self.step(parts, &mut idle_since, progress)
            } else {
                self.begin(parts, progress).map(|()| Next::Go)
            };
            match next {
                Ok(Next::End) => return Ok(()),
                Ok(next) => {
                    begun = true;
                    outage.proved();
                    if let Next::Wait(wait) = next {
                        std::thread::sleep(wait);
                    }
                }
                Err(failure) if failure.kind == FailureKind::Down && self.options.wait => {
                    outage.shut(failure.clone(), &parts.policy, Timestamp::now());
                    let probe = match outage.probe_at() {
                        Some(probe) if !outage.is_given_up(&parts.policy) => probe,
                        Some(_) | None => return Err(failure),
                    };
                    progress.waits(&failure.reason);
                    while Timestamp::now() < probe && !self.options.stop.is_wished() {
                        std::thread::sleep(POLL.min(Timestamp::now().until(probe)));
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// One batch, or one look at what is to be waited for.
    fn step(
        &mut self,
        parts: &mut Parts,
        idle_since: &mut Instant,
        progress: &mut dyn Progress,
    ) -> Result<Next, Failure> {
        if self.batch(parts, progress)? {
            *idle_since = Instant::now();
            return Ok(Next::Go);
        }
        if self.left().is_none() {
            return Ok(Next::End);
        }
        if self.unscanned.is_some() {
            let _lock = lock(parts, self.options, progress)?;
            self.scan(parts, Timestamp::now(), progress)?;
            return Ok(match self.unscanned {
                Some(_) => Next::Wait(POLL),
                None => Next::Go,
            });
        }
        if self.probe(parts, progress)? {
            return Ok(Next::Go);
        }
        let now = Timestamp::now();
        let next_job = parts.outbox.next_due()?;
        let owed = parts.outbox.counts(now)?.held > 0;
        let gates = self.gates.values().chain(self.lacks.values());
        let probes = gates.filter(|gate| !gate.is_given_up(&parts.policy));
        let next_probe = probes.filter_map(Gate::probe_at).min();
        let due = [next_job, next_probe.filter(|_| owed)]
            .into_iter()
            .flatten();
        Ok(match due.min() {
            Some(due) if self.options.wait => Next::Wait(now.until(due).clamp(LEAST_WAIT, POLL)),
            Some(_) | None if idle_since.elapsed() < self.options.timeout => Next::Wait(POLL),
            Some(_) | None => Next::End,
        })
    }

    /// How many jobs may still be claimed; `None` once the bound is reached.
    fn left(&self) -> Option<u64> {
        match self.options.max_jobs {
            None => Some(u64::MAX),
            Some(most) => Some(most.saturating_sub(self.claimed)).filter(|&left| left > 0),
        }
    }

    /// Claims and visits one batch; says whether there was anything to claim.
    fn batch(&mut self, parts: &mut Parts, progress: &mut dyn Progress) -> Result<bool, Failure> {
        let Some(left) = self.left() else {
            return Ok(false);
        };
        let _lock = lock(parts, self.options, progress)?;
        let now = Timestamp::now();
        self.recover(parts, now)?;
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(BATCH);
        let claims = parts.outbox.claim(max, LEASE, now)?;
        fail::fail_point!("drain.claimed");
        self.report.enqueued += claims.read;
        self.report.merged += claims.merged;
        self.report.dlq += claims.buried;
        if claims.jobs.is_empty() {
            return Ok(false);
        }
        self.read_letters(parts, &claims.jobs)?;
        self.claimed += claims.jobs.len() as u64;
        let mut rest = Vec::with_capacity(claims.jobs.len());
        for claim in claims.jobs {
            if claim.recoveries == 0 {
                rest.push(claim);
            } else {
                rest.extend(Visit::new(self, parts).suspect(claim)?);
            }
        }
        while !rest.is_empty() {
            if self.options.stop.is_wished() {
                Visit::new(self, parts).give_back(rest)?;
                break;
            }
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

    fn finish(mut self, parts: &mut Parts, started: Instant) -> Result<DrainReport, Failure> {
        let now = Timestamp::now();
        // Only here: a store that answers and then fails again is not back.
        let open = self
            .gates
            .iter()
            .filter(|(name, gate)| gate.closed().is_none() && !self.lacks.contains_key(name));
        let back = open.map(|(&name, _)| Subject::Store(name));
        for subject in back.chain([Subject::Drain]) {
            parts.alerts.note(&Event::Back { subject }, now);
        }
        self.report.trimmed = bounds::keep(parts, now)?;
        self.report.trouble.extend(parts.alerts.end(now, END_WAIT));
        let counts = parts.outbox.counts(Timestamp::now())?;
        self.report.enqueued += counts.unread;
        self.report.held = counts.held;
        self.report.waiting = counts.waiting;
        self.report.dead = counts.dead;
        for store in &parts.stores {
            let tally = store.tally();
            let report = self.report.stores.entry(store.name().as_str()).or_default();
            report.embedded = tally.embedded;
            report.cached = tally.cached;
            self.report.commits += tally.commits;
            if tally.commit.is_some() {
                self.report.commit = tally.commit;
            }
        }
        self.report.seconds = started.elapsed().as_secs_f64();
        Ok(self.report)
    }
}
