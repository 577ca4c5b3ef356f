//! The drain: claim, read, apply, settle, until nothing is due.
//!
//! A `Run` is what outlives a batch: the gates before the stores, what was counted, which letters rest. It has two
//! drivers: [`drain`], which gives a store that is away the schedule once and then leaves its jobs held, and
//! [`super::watch`], whose run lives as long as it does. Drivers wait; a run never sleeps.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tracing::debug;

use super::alert::{END_WAIT, Event, Subject};
use super::announce;
use super::batch::Visit;
use super::bounds;
use super::gate::Gate;
use super::opening::lock;
use super::report::{DrainReport, StoreReport};
use super::scan::{Findings, combined_fingerprint};
use super::{Parts, Progress};
use crate::model::{Failure, FailureKind, PagePath, RetryPolicy, StoreName, Timestamp};
use crate::outbox::{Claimed, DeadLetter, Settle};
pub use crate::state::Stop;
use crate::stores::Tally;

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
/// How soon a page that moved on while it was applied is looked at again.
const AGAIN: Duration = Duration::from_millis(300);
/// How often to look for new jobs while waiting for some.
const POLL: Duration = Duration::from_millis(100);
/// How often a long run looks whether somebody is to be told of something.
const TELL: Duration = Duration::from_secs(2);
/// How often the dead letters are compared with their bounds while jobs are under way.
const BOUNDS: Duration = Duration::from_mins(1);
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
        store.heed(&options.stop);
    }
    let mut run = Run::new(options, parts);
    let ended = run.all(parts, progress);
    if options.stop.is_wished() {
        // Whatever it was waiting for when it was told to stop.
        run.report.stopped = true;
    } else if let Err(failure) = ended {
        note_away(parts, &failure);
        // There is no report to put its troubles in; `status` tells them.
        parts.alerts.end(Timestamp::now(), END_WAIT);
        return Err(failure);
    }
    run.finish(parts, started)
}

/// Notes that nothing can be done for want of what no drain can do without.
fn note_away(parts: &mut Parts, failure: &Failure) {
    let event = Event::Away {
        subject: Subject::Drain,
        failure: failure.clone(),
    };
    parts.alerts.note(&event, Timestamp::now());
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
    /// How soon such a page is looked at again.
    pub(super) again: Duration,
    /// Why the last scan could not hand on all that it found.
    pub(super) unscanned: Option<Failure>,
    /// Why the outbox could not take what is kept for it.
    pub(super) unspooled: Option<Failure>,
    /// Pages whose removal was seen to happen: no accident.
    pub(super) seen_gone: HashSet<PagePath>,
    /// Pages that were changed in a store since the last report, the first of them.
    pub(super) brought: Vec<PagePath>,
    claimed: u64,
    /// Jobs that went by the stores, whatever became of them: what is shown of how far it is.
    pub(super) visited: u64,
    /// Why it was waited, as told.
    waited: HashSet<String>,
    /// What the stores had counted when the last report was made.
    told: HashMap<StoreName, Tally>,
    /// When a person was last told what there is to tell, and when the bounds were last kept.
    tells: Instant,
    bounded: Instant,
    /// Whether there may be dead letters since then.
    news: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(options: &'a DrainOptions, parts: &Parts) -> Self {
        let names = parts.stores.iter().map(|store| store.name());
        let now = Instant::now();
        Self {
            options,
            report: empty(parts),
            gates: names.map(|name| (name, Gate::default())).collect(),
            lacks: HashMap::new(),
            letters: HashMap::new(),
            fingerprint: combined_fingerprint(&parts.stores),
            findings: None,
            removed: 0,
            rounds: HashMap::new(),
            unsettled: Vec::new(),
            again: AGAIN,
            unscanned: None,
            unspooled: None,
            seen_gone: HashSet::new(),
            brought: Vec::new(),
            claimed: 0,
            visited: 0,
            waited: HashSet::new(),
            told: HashMap::new(),
            tells: now,
            bounded: now,
            news: false,
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
                    if outage.closed().is_some() {
                        let subject = Subject::Drain;
                        parts
                            .alerts
                            .note(&Event::Back { subject }, Timestamp::now());
                    }
                    outage.proved();
                    if let Next::Wait(wait) = next {
                        self.tell_wait(progress);
                        for store in &mut parts.stores {
                            store.yield_turn();
                        }
                        std::thread::sleep(wait);
                    }
                }
                Err(failure) if failure.kind == FailureKind::Down && self.options.wait => {
                    // From the first time on, so that it is told once the schedule is used up.
                    note_away(parts, &failure);
                    outage.shut(failure.clone(), &parts.policy, Timestamp::now());
                    if !outage.is_probed() || outage.is_given_up(&parts.policy) {
                        return Err(failure);
                    }
                    progress.waits(&failure.reason);
                    let left = || {
                        let now = Timestamp::now();
                        outage.probe_at(now).map(|probe| now.until(probe))
                    };
                    while let Some(left) = left().filter(|left| !left.is_zero())
                        && !self.options.stop.is_wished()
                    {
                        std::thread::sleep(POLL.min(left));
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Tells a person who is looking what is waited for, each reason once.
    fn tell_wait(&mut self, progress: &mut dyn Progress) {
        let gates = self.gates.values().chain(self.lacks.values());
        for why in gates.filter_map(Gate::closed) {
            if self.waited.insert(why.reason.clone()) {
                progress.waits(&why.reason);
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
        let ended = self.ended();
        let stays_on = idle_since.elapsed() < self.options.timeout;
        if self.work(parts, stays_on, progress)? {
            // What is only held once more is no news.
            if self.ended() > ended {
                *idle_since = Instant::now();
            }
            return Ok(Next::Go);
        }
        if self.left().is_none() {
            return Ok(Next::End);
        }
        if let Some(failure) = self.unspooled.take() {
            return Err(failure);
        }
        if self.unscanned.is_some() {
            return Ok(Next::Wait(POLL));
        }
        let now = Timestamp::now();
        let due = self.next_due(parts, now, |gate, policy| !gate.is_given_up(policy))?;
        Ok(match due {
            Some(due) if self.options.wait => Next::Wait(now.until(due).clamp(LEAST_WAIT, POLL)),
            Some(_) | None if idle_since.elapsed() < self.options.timeout => {
                self.tell(parts)?;
                Next::Wait(POLL)
            }
            Some(_) | None => Next::End,
        })
    }

    /// How many jobs have ended since the last report.
    fn ended(&self) -> u64 {
        self.report.processed + self.report.merged + self.report.dlq
    }

    /// Does the next thing that can be done now: a batch, the rest of a scan, a probe that is due. Says whether there was
    /// any; when not, nothing can be done before [`Run::next_due`]. `stays_on`: whoever calls it stays on, and tries also stores that are given up.
    pub(super) fn work(
        &mut self,
        parts: &mut Parts,
        stays_on: bool,
        progress: &mut dyn Progress,
    ) -> Result<bool, Failure> {
        if self.batch(parts, progress)? {
            return Ok(true);
        }
        if self.left().is_none() {
            return Ok(false);
        }
        if self.unscanned.is_some() {
            let _lock = lock(parts, self.options, progress)?;
            self.scan(parts, Timestamp::now(), progress)?;
            return Ok(self.unscanned.is_none());
        }
        self.probe(parts, stays_on, progress)
    }

    /// Returns when the next job falls due, or the next probe of a store that `counts` and that something is held for.
    pub(super) fn next_due(
        &self,
        parts: &mut Parts,
        now: Timestamp,
        counts: impl Fn(&Gate, &RetryPolicy) -> bool,
    ) -> Result<Option<Timestamp>, Failure> {
        let next_job = parts.outbox.next_due()?;
        let owed = parts.outbox.counts(now)?.held > 0;
        let gates = self.gates.values().chain(self.lacks.values());
        let probes = gates.filter(|gate| counts(gate, &parts.policy));
        let next_probe = probes.filter_map(|gate| gate.probe_at(now)).min();
        let due = [next_job, next_probe.filter(|_| owed)];
        Ok(due.into_iter().flatten().min())
    }

    /// Tells a person what there is to tell while the run goes on, and keeps the dead letters within their bounds. Never
    /// waits for a delivery; may be called as often as one likes.
    ///
    /// # Errors
    /// When the outbox is away.
    pub(super) fn tell(&mut self, parts: &mut Parts) -> Result<(), Failure> {
        if self.tells.elapsed() < TELL {
            return Ok(());
        }
        self.tells = Instant::now();
        let now = Timestamp::now();
        self.note_back(parts, now);
        self.news |= self.report.dlq > 0;
        if std::mem::take(&mut self.news) || self.bounded.elapsed() >= BOUNDS {
            self.bounded = Instant::now();
            self.report.trimmed += bounds::keep(parts, now)?;
        }
        parts.alerts.go_on(now);
        Ok(())
    }

    /// Says of what is open that it is back, where it was told to be away. Only when nothing can be done: a store that
    /// answers and then fails again is not back.
    fn note_back(&self, parts: &mut Parts, now: Timestamp) {
        let gates = self.gates.iter();
        let open =
            gates.filter(|(name, gate)| gate.closed().is_none() && !self.lacks.contains_key(name));
        let back = open.map(|(&name, _)| Subject::Store(name));
        for subject in back.chain([Subject::Drain]) {
            parts.alerts.note(&Event::Back { subject }, now);
        }
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
        self.take_kept(parts, now)?;
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(BATCH);
        let claims = parts.outbox.claim(max, LEASE, now)?;
        fail::fail_point!("drain.claimed");
        self.report.merged += claims.merged;
        self.report.dlq += claims.buried;
        if claims.jobs.is_empty() {
            return Ok(false);
        }
        self.read_letters(parts, &claims.jobs)?;
        self.claimed += claims.jobs.len() as u64;
        let mut rest = Vec::with_capacity(claims.jobs.len());
        for claim in claims.jobs {
            // Told to stop, nothing more is looked at: it is given back below.
            if claim.recoveries == 0 || self.options.stop.is_wished() {
                rest.push(claim);
            } else {
                rest.extend(Visit::new(self, parts).suspect(claim)?);
            }
        }
        let counts = parts.outbox.counts(now)?;
        let total = self.visited + counts.waiting + counts.in_flight;
        while !rest.is_empty() {
            if self.options.stop.is_wished() {
                Visit::new(self, parts).give_back(rest)?;
                break;
            }
            rest = Visit::new(self, parts).group(rest, total, progress)?;
        }
        for store in &mut parts.stores {
            store.yield_turn();
        }
        Ok(true)
    }

    /// Ends the run: tells what is to be told, waits a bounded time for its delivery, and returns what was done since
    /// the last report.
    pub(super) fn finish(
        mut self,
        parts: &mut Parts,
        started: Instant,
    ) -> Result<DrainReport, Failure> {
        let now = Timestamp::now();
        self.note_back(parts, now);
        self.report.trimmed += bounds::keep(parts, now)?;
        self.report.trouble.extend(parts.alerts.end(now, END_WAIT));
        self.take_report(parts, started)
    }

    /// Returns what was done since the last report, and where the outbox stands now.
    ///
    /// # Errors
    /// When the outbox is away; then nothing is taken.
    pub(super) fn take_report(
        &mut self,
        parts: &mut Parts,
        started: Instant,
    ) -> Result<DrainReport, Failure> {
        let counts = parts.outbox.counts(Timestamp::now())?;
        let mut report = std::mem::replace(&mut self.report, empty(parts));
        self.news |= report.dlq > 0;
        report.warnings.sort();
        report.held = counts.held;
        report.waiting = counts.waiting;
        report.delayed = counts.delayed;
        report.in_flight = counts.in_flight;
        report.dead = counts.dead;
        let away = self.gates.iter().filter(|(_, gate)| gate.is_away());
        report.away = away.map(|(name, _)| name.as_str()).collect();
        report.away.sort_unstable();
        // What the scan found could not be put in.
        if self.unscanned.is_some() {
            report.away.push("outbox");
        }
        // Others put jobs in at any time: only where each ended tells how many there were.
        let ended = report.processed + report.merged + report.dlq;
        let left = counts.waiting + counts.delayed + counts.in_flight + counts.held;
        report.enqueued = ended + left;
        for store in &parts.stores {
            let tally = store.tally();
            let told = self.told.entry(store.name()).or_default();
            let since = |now: Option<u64>, told: Option<u64>| {
                now.map(|now| now.saturating_sub(told.unwrap_or(0)))
            };
            let part = report.stores.entry(store.name().as_str()).or_default();
            part.embedded = since(tally.embedded, told.embedded);
            part.cached = since(tally.cached, told.cached);
            if tally.embedded.is_some() {
                part.shortened = Some(tally.shortened.saturating_sub(told.shortened));
                part.stripped = Some(tally.stripped.saturating_sub(told.stripped));
            }
            let commits = tally.commits.saturating_sub(told.commits);
            report.commits += commits;
            if commits > 0 {
                report.commit.clone_from(&tally.commit);
            }
            *told = tally;
        }
        if report.commits > 0
            && let Err(failure) = announce::follow(parts, report.commits)
        {
            debug!(
                reason = failure.reason,
                "what hooks have seen does not move along"
            );
        }
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// A report of nothing.
fn empty(parts: &Parts) -> DrainReport {
    let names = parts.stores.iter().map(|store| store.name().as_str());
    DrainReport {
        stores: names.map(|name| (name, StoreReport::default())).collect(),
        ..DrainReport::default()
    }
}
