//! What a drain does beside its batches: opening the stores, finding what nobody announced, probing what was away.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::alert::{Event, Subject};
use super::announce;
use super::drain::{DrainOptions, LEAST_WAIT, Run};
use super::gate::Gate;
use super::rename;
use super::report::{Renewal, gather, kind_name, trouble};
use super::scan::Scan;
use super::spool;
use super::{Parts, Progress, ms};
use crate::model::{Failure, FailureKind, Job, PagePath, StoreName, Timestamp};
use crate::outbox::{Claimed, HANDFUL, Settle};
use crate::state::CheckoutLock;

impl Run<'_> {
    /// Opens the stores, takes back what the dead had in hand, lets held jobs try again, and scans.
    pub(super) fn begin(
        &mut self,
        parts: &mut Parts,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let _lock = lock(parts, self.options, progress)?;
        let now = Timestamp::now();
        if let Some(failure) = rename::half_done(parts) {
            self.note(None, None, &failure);
        }
        self.recover(parts, now)?;
        self.take_kept(parts, now)?;
        for at in 0..parts.stores.len() {
            let name = parts.stores[at].name();
            // The scan asks a witness all that it holds, and shuts it where it has no answer.
            let found = if self.options.scan && parts.stores[at].is_witnessed() {
                parts.stores[at].identity().map(|_| true)
            } else {
                self.recognise(parts, at)
            };
            match found {
                Ok(_) => {
                    parts.outbox.release(Some(name), now)?;
                }
                Err(failure) => self.shut(parts, name, failure, now),
            }
        }
        // What is held for a store that the settings have taken out waits for nobody.
        for name in StoreName::ALL {
            if !self.gates.contains_key(&name) {
                parts.outbox.release(Some(name), now)?;
            }
        }
        self.look(parts, self.options.scan, now, progress)
    }

    /// Enqueues what nobody announced: what hooks left as hints, and with `scan` whatever else changed.
    fn look(
        &mut self,
        parts: &mut Parts,
        scan: bool,
        now: Timestamp,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        // Before anything is compared: a hint left later is for the next look.
        let hints = parts.state.take_hints()?;
        let caught_up = announce::catch_up(parts, hints.is_some(), now);
        if scan {
            self.scan(parts, now, progress)?;
        }
        // Where HEAD could not be compared, the scan found what hints meant, unless the outbox was too full for all that it found.
        let is_answered = if scan {
            self.unscanned.is_none()
        } else {
            caught_up.is_ok()
        };
        match hints {
            Some(hints) if is_answered => hints.answer(),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn scan(
        &mut self,
        parts: &mut Parts,
        now: Timestamp,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let letters = parts.outbox.dead()?;
        let mut jobs: Vec<Job> = Vec::new();
        let mut merged = 0;
        let gates = self.gates.iter();
        let open: Vec<StoreName> = gates
            .filter(|(_, gate)| gate.closed().is_none())
            .map(|(&name, _)| name)
            .collect();
        let counts = parts.outbox.counts(now)?;
        let was_waiting = counts.waiting > 0;
        let mut held = HashSet::new();
        if counts.held > 0 {
            let pending = parts.outbox.pending(usize::MAX)?.into_iter();
            held.extend(
                pending
                    .filter(|job| job.held_for.is_some())
                    .map(|job| job.path),
            );
        }
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
            removed: 0,
        };
        let stop = &self.options.stop;
        let mut full = None;
        let mut enqueue = |jobs: &mut Vec<Job>| -> Result<(), Failure> {
            // An outbox that takes no more must still be emptied; then it is scanned again.
            match outbox.enqueue(jobs, now) {
                Ok(some) => merged += some.merged,
                Err(failure) if failure.kind == FailureKind::Down && was_waiting => {
                    full = Some(failure);
                }
                Err(failure) => return Err(failure),
            }
            jobs.clear();
            Ok(())
        };
        let mut findings = scan.run(
            &mut |mut job, owed| {
                // A hold is for one store; another that can be reached and owes the page must get it meanwhile. An event
                // that names no content ends the hold.
                if held.contains(&job.path) && owed.iter().any(|(store, _)| open.contains(store)) {
                    job.sha = None;
                }
                if stop.is_wished() {
                    return Err(Failure::new(FailureKind::Busy, "told to stop"));
                }
                jobs.push(job);
                if jobs.len() < HANDFUL {
                    return Ok(());
                }
                enqueue(&mut jobs)
            },
            &mut |pages| progress.at("scanning", pages, 0),
        )?;
        enqueue(&mut jobs)?;
        if let Some(before) = self.unscanned.take() {
            let known = &mut self.report.trouble;
            known.retain(|trouble| trouble.reason != before.reason);
        }
        if let Some(failure) = full {
            self.note(None, None, &failure);
            self.unscanned = Some(failure);
        }
        debug!(pages = findings.pages, ms = ms(began), "scanned");
        self.report.scanned = findings.pages;
        self.report.merged += merged;
        self.report.skipped.clone_from(&findings.skipped);
        for renewal in std::mem::take(&mut findings.renewals) {
            self.renews(renewal);
        }
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

    /// Reads which dead letters of these jobs' pages rest now: a person or a neighbour may have taken some back.
    pub(super) fn read_letters(
        &mut self,
        parts: &mut Parts,
        claims: &[Claimed],
    ) -> Result<(), Failure> {
        let paths: Vec<_> = claims.iter().map(|claim| claim.job.path.clone()).collect();
        let letters = parts.outbox.dead_of(&paths)?.into_iter();
        self.letters = letters
            .filter_map(|letter| Some((letter.path.clone()?, letter)))
            .collect();
        Ok(())
    }

    /// Ends jobs by telling the outbox. What it could not be told for sure is told again when it is back, before anything
    /// is taken back: so nothing is done twice, and what is refused then had arrived.
    pub(super) fn end_jobs(
        &mut self,
        parts: &mut Parts,
        ends: Vec<(Claimed, Settle)>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        self.unsettled.extend(ends);
        // A claim that was lost meanwhile is in somebody else's hands: his settle counts.
        let told = parts.outbox.settle(&self.unsettled, now)?;
        self.report.merged += told.merged;
        self.unsettled.clear();
        Ok(())
    }

    /// Takes back what the dead had in hand. Only under the checkout's lock.
    pub(super) fn recover(&mut self, parts: &mut Parts, now: Timestamp) -> Result<(), Failure> {
        self.end_jobs(parts, Vec::new(), now)?;
        if let Some((path, version)) = parts.state.take_mark()? {
            parts.receipts.count_death(&path, &version)?;
        }
        self.report.merged += parts.outbox.recover(true, now)?.merged;
        Ok(())
    }

    /// Hands over to the outbox what is kept for it. One that is too full for it must still be emptied; then it is tried again.
    pub(super) fn take_kept(&mut self, parts: &mut Parts, now: Timestamp) -> Result<(), Failure> {
        self.unspooled = None;
        match spool::hand_over(&parts.state, parts.outbox.as_mut(), now) {
            Ok(done) => self.report.merged += done.merged,
            Err(failure) if matches!(failure.kind, FailureKind::Down | FailureKind::Busy) => {
                self.unspooled = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Tries the stores whose probe is due, and lets their jobs go on when they answer; says whether any did. What is given
    /// up is tried too by whoever stays on: else a store that answers and does no work would keep a drain for good.
    pub(super) fn probe(
        &mut self,
        parts: &mut Parts,
        stays_on: bool,
        progress: &mut dyn Progress,
    ) -> Result<bool, Failure> {
        let now = Timestamp::now();
        let mut any = false;
        for at in 0..parts.stores.len() {
            let name = parts.stores[at].name();
            let gate = &self.gates[&name];
            if gate.probe_at(now).is_none_or(|due| due > now)
                || !stays_on && gate.is_given_up(&parts.policy)
            {
                continue;
            }
            let _lock = lock(parts, self.options, progress)?;
            match self.recognise(parts, at) {
                Ok(same) => {
                    info!(store = name.as_str(), "a store answers again");
                    self.gates.entry(name).or_default().open();
                    self.report
                        .trouble
                        .retain(|trouble| trouble.store != Some(name.as_str()));
                    any |= parts.outbox.release(Some(name), now)? > 0;
                    // Another store than before owes more than what is held for it; and of a judge that could not be
                    // asked the scan knew nothing.
                    if self.options.scan && (!same || parts.stores[at].is_witnessed()) {
                        self.scan(parts, now, progress)?;
                        any = true;
                    }
                }
                Err(failure) => self.shut(parts, name, failure, now),
            }
        }
        for at in 0..parts.stores.len() {
            any |= self.probe_lack(parts, at, stays_on)?;
        }
        Ok(any)
    }

    /// Asks a store whether what it was without is there again, when that is due, and lets its jobs go on if so; says
    /// whether any did.
    fn probe_lack(
        &mut self,
        parts: &mut Parts,
        at: usize,
        stays_on: bool,
    ) -> Result<bool, Failure> {
        let now = Timestamp::now();
        let store = &mut parts.stores[at];
        let name = store.name();
        let lack = self.lacks.get(&name);
        let lack = lack.filter(|lack| stays_on || !lack.is_given_up(&parts.policy));
        if lack
            .and_then(|lack| lack.probe_at(now))
            .is_none_or(|due| due > now || self.gates[&name].closed().is_some())
        {
            return Ok(false);
        }
        match store.probe_lack() {
            Ok(()) => {
                self.report
                    .trouble
                    .retain(|trouble| trouble.store != Some(name.as_str()));
                let any = parts.outbox.release(Some(name), now)? > 0;
                if any {
                    // Proved only by what it does; else the schedule goes on where it was.
                    self.lacks.entry(name).or_default().open();
                } else {
                    self.lacks.remove(&name);
                }
                Ok(any)
            }
            Err(failure) => {
                self.lack(parts, name, Some(failure), now);
                Ok(false)
            }
        }
    }

    /// Notes what a store is without although it took its pages; nothing, when it is without nothing.
    pub(super) fn lack(
        &mut self,
        parts: &mut Parts,
        name: StoreName,
        lack: Option<Failure>,
        now: Timestamp,
    ) {
        let Some(failure) = lack else {
            self.lacks.remove(&name);
            return;
        };
        let event = Event::Away {
            subject: Subject::Store(name),
            failure: failure.clone(),
        };
        parts.alerts.note(&event, now);
        let gate = self.lacks.entry(name).or_default();
        // Shut already, it keeps its time.
        if gate.probe_at(now).is_none_or(|due| due <= now) {
            gate.shut(failure, &parts.policy, now);
        }
    }

    /// Makes sure that a store's receipts speak of it, as [`recognise`] does, and tells of one that was exchanged.
    fn recognise(&mut self, parts: &mut Parts, at: usize) -> Result<bool, Failure> {
        let name = parts.stores[at].name();
        let was_known = parts.receipts.epochs(name)?.is_some();
        let pages = parts.receipts.count(name)?;
        let same = recognise(parts, at)?;
        if !same && was_known && pages > 0 {
            self.renews(Renewal {
                store: name.as_str(),
                pages,
                reason: ANOTHER.into(),
            });
        }
        Ok(same)
    }

    /// Notes for the report that a store gets pages anew; once, however often that is found.
    fn renews(&mut self, renewal: Renewal) {
        let known = &mut self.report.renewals;
        if known.iter().all(|known| known.store != renewal.store) {
            known.push(renewal);
        }
    }

    /// Looks at all pages again, and answers the hints that hooks left.
    pub(super) fn rescan(
        &mut self,
        parts: &mut Parts,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure> {
        let _lock = lock(parts, self.options, progress)?;
        self.look(parts, true, Timestamp::now(), progress)
    }

    /// Lets those jobs try again that are held for a store which nothing probes: they wait for the user, for a
    /// neighbour, for another setting. Says whether there are any.
    pub(super) fn retry_held(&mut self, parts: &mut Parts) -> Result<bool, Failure> {
        let now = Timestamp::now();
        let mut any = false;
        for name in StoreName::ALL {
            let gate = self.gates.get_mut(&name);
            let lacks = self.lacks.get(&name).is_some_and(Gate::is_probed);
            if lacks || gate.as_ref().is_some_and(|gate| gate.is_probed()) {
                continue;
            }
            if parts.outbox.release(Some(name), now)? > 0 {
                any = true;
                // Each page that is held again says so itself, and is counted once.
                let held = ["busy", "waiting", "refused"];
                self.report.trouble.retain(|trouble| {
                    trouble.store != Some(name.as_str()) || !held.contains(&trouble.kind)
                });
            }
            if let Some(gate) = gate {
                gate.open();
            }
        }
        Ok(any)
    }

    /// Forgets what counts only while the jobs of one pass are under way; what was seen to go only when `all` are done.
    pub(super) fn forget_pass(&mut self, all: bool) {
        self.rounds.clear();
        if all {
            self.seen_gone.clear();
        }
        self.removed = 0;
        // An accident is judged anew; that there was none is believed until many go, or the last one.
        if let Some(findings) = &self.findings
            && findings.accident.is_some()
        {
            self.findings = None;
        }
    }

    /// Shuts a store's gate and says so in the report.
    pub(super) fn shut(
        &mut self,
        parts: &mut Parts,
        name: StoreName,
        failure: Failure,
        now: Timestamp,
    ) {
        warn!(
            store = name.as_str(),
            kind = kind_name(failure.kind),
            reason = failure.reason,
            "a store is not to be used for now"
        );
        self.note(Some(name), None, &failure);
        let event = Event::Away {
            subject: Subject::Store(name),
            failure: failure.clone(),
        };
        parts.alerts.note(&event, now);
        if parts.policy.outage_counts && failure.kind == FailureKind::Down {
            // As the ancestor did: each job tries for itself, and counts.
            return;
        }
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
        gather(&mut self.report.trouble, new);
    }
}

/// Why all pages are brought to a store anew whose identity is not the one noted.
pub(crate) const ANOTHER: &str = "the store is not the one that held them (lost, rebuilt, restored, or this checkout is a copy): what it holds as it must stays";

/// Takes the checkout's lock; while a neighbour has it, our stores let go of what he may need.
pub(super) fn lock(
    parts: &mut Parts,
    options: &DrainOptions,
    progress: &mut dyn Progress,
) -> Result<CheckoutLock, Failure> {
    let end = Instant::now() + options.lock_wait;
    let mut told = false;
    loop {
        let busy = match CheckoutLock::acquire(&parts.state, Duration::ZERO) {
            Err(failure) if failure.kind == FailureKind::Busy => failure,
            other => return other,
        };
        if Instant::now() >= end || options.stop.is_wished() {
            return Err(busy);
        }
        if !told {
            told = true;
            debug!(reason = busy.reason, "waits for the checkout's lock");
            for store in &mut parts.stores {
                store.rest();
            }
            progress.waits(&busy.reason);
        }
        std::thread::sleep(LEAST_WAIT);
    }
}

/// Opens a store and makes sure that its receipts speak of it. Those of a store that is not recognised (new, restored
/// from an old copy) are voided, it gets a new id, and what it holds is noted, so that pages gone meanwhile are removed
/// from it. Says whether it was recognised.
fn recognise(parts: &mut Parts, at: usize) -> Result<bool, Failure> {
    let store = &mut parts.stores[at];
    if store.is_witnessed() {
        return store.witness().map(|_| true);
    }
    let identity = store.identity()?;
    if parts.receipts.recognise(store.name(), &identity)? {
        return Ok(true);
    }
    let held = store.inventory()?;
    let held: Vec<_> = held
        .iter()
        .filter_map(|holding| PagePath::parse(&holding.path).ok())
        .collect();
    info!(
        store = store.name().as_str(),
        pages = held.len(),
        "a store is begun anew: its receipts speak of none, or of another one"
    );
    // The store first: killed in between, it is not recognised the next time either.
    let identity = store.renew()?;
    parts.receipts.adopt(store.name(), &identity, &held)?;
    Ok(false)
}
