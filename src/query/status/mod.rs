//! Status: where every job and store stands.

mod reasons;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

pub use self::reasons::{DeadLetters, Hold};
pub use self::watch::{WatchStatus, watch_status};

use self::reasons::{dead_letters, holds};

use crate::engine::alert::AlertStatus;
use crate::engine::report::{DriftKind, Renewal, Skipped, Trouble, trouble};
use crate::engine::scan::Scan;
use crate::engine::verify::is_replaced;
use crate::engine::{ANOTHER, Parts};
use crate::hooks::status::HooksStatus;
use crate::model::{Failure, FailureKind, PagePath, StoreName, Timestamp};
use crate::outbox::{DeadLetter, Pending, Standing, Worker};
use crate::stores::Store;

/// Where everything stands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StatusReport {
    /// Nothing is owed: no job waits, no page differs from its receipts and HEAD, no dead letter rests.
    pub fresh: bool,
    /// Jobs by state.
    pub outbox: OutboxStatus,
    /// By store's name.
    pub stores: BTreeMap<&'static str, StoreStatus>,
    /// The watcher.
    pub watch: WatchStatus,
    /// Git's hooks, where git could be asked about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HooksStatus>,
    /// Who is told of incidents, where anybody is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<AlertStatus>,
    /// Pages in the folder.
    pub pages: u64,
    /// Pages that differ from their receipts or HEAD and that no job waits for yet.
    pub unannounced: u64,
    /// Those of them that did not change themselves: [`StatusReport::renewals`] says why they are owed.
    pub outdated: u64,
    /// Unchanged pages that a store is to get anew, and why.
    pub renewals: Vec<Renewal>,
    /// Jobs that are held or put back, with the reason.
    pub held: Vec<HeldJob>,
    /// The same, one entry per store and reason.
    pub holds: Vec<Hold>,
    /// The dead letters, one entry per store and reason.
    pub dead_letters: Vec<DeadLetters>,
    /// Jobs in workers' hands, living or dead.
    pub in_flight: Vec<LentJob>,
    /// Things that look like pages and are none.
    pub skipped: Vec<Skipped>,
    /// Those of them whose dead letter says the same.
    #[serde(skip)]
    pub rejected: HashSet<String>,
    /// What a person should know and do: a foreign lock, an operation under way, a store that is away.
    pub trouble: Vec<Trouble>,
}

/// Jobs by state.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OutboxStatus {
    /// May be claimed now.
    pub waiting: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// In a worker's hands.
    pub in_flight: u64,
    /// Waiting for a store or for the user.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
    /// Left by hooks that could not announce what they had to; the next drain answers them.
    pub hints: u64,
    /// Jobs that the outbox could not take, kept beside it; the next drain hands them over.
    pub spooled: u64,
    /// Milliseconds since the epoch when the oldest waiting job was enqueued.
    pub oldest: Option<i64>,
    /// What a person should know of it although everything works.
    pub notes: Vec<String>,
}

/// A job in a worker's hands.
#[derive(Debug, Clone, Serialize)]
pub struct LentJob {
    /// The page.
    pub path: String,
    /// The worker's id, new at each start.
    pub worker: Option<String>,
    /// The worker's process.
    pub pid: Option<u32>,
    /// The worker's machine.
    pub host: Option<String>,
    /// The worker was a process of this machine and has ended. Of other machines nothing is known.
    pub ended: bool,
    /// When it was claimed, milliseconds since the epoch.
    pub since: i64,
    /// Attempts that have failed so far.
    pub attempts: u32,
}

/// A store at a glance.
#[derive(Debug, Clone, Serialize)]
pub struct StoreStatus {
    /// `up` or `down`.
    pub state: &'static str,
    /// Pages it holds, by receipts (git: by HEAD).
    pub pages: u64,
    /// Pages that it does not hold as they are, or holds although they are gone; those whose dead letter rests are not
    /// counted. `None` where the store could not be asked.
    pub behind: Option<u64>,
    /// Pages that it does not hold as they are, and of which a dead letter rests.
    pub dead: u64,
    /// Milliseconds since the epoch when the oldest job of those pages was enqueued.
    pub oldest: Option<i64>,
}

/// A job that is held or was put back.
#[derive(Debug, Clone, Serialize)]
pub struct HeldJob {
    /// The page.
    pub path: String,
    /// The store it is held for.
    pub store: Option<&'static str>,
    /// Why.
    pub reason: String,
    /// Attempts that have failed so far.
    pub attempts: u32,
    /// When it was first enqueued, milliseconds since the epoch.
    pub since: i64,
    /// When it is tried again, milliseconds since the epoch; `None` when its store is there again.
    pub due: Option<i64>,
}

/// What a store owes.
#[derive(Default)]
struct Lag {
    pages: u64,
    oldest: Option<i64>,
}

impl Lag {
    fn add(&mut self, since: Option<i64>) {
        self.pages += 1;
        self.oldest = match (self.oldest, since) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

fn lent_job(job: &Pending) -> Option<LentJob> {
    let Standing::InFlight { worker, since } = &job.standing else {
        return None;
    };
    let worker = worker.as_ref();
    Some(LentJob {
        path: job.path.to_string(),
        worker: worker.map(|worker| worker.id.to_string()),
        pid: worker.map(|worker| worker.pid),
        host: worker.map(|worker| worker.host.clone()),
        ended: worker.is_some_and(Worker::has_ended),
        since: since.0,
        attempts: job.attempts,
    })
}

fn held_job(job: Pending) -> HeldJob {
    HeldJob {
        path: job.path.to_string(),
        store: job.held_for.map(StoreName::as_str),
        reason: job.reason,
        attempts: job.attempts,
        since: job.since.0,
        due: job.due.map(|due| due.0),
    }
}

/// Says whether a store is there, and tells what is wrong with it and around it. `away`: why it could not be asked at all.
fn store_state(
    store: &mut dyn Store,
    away: Option<&Failure>,
    pages: u64,
    told: &mut Vec<Trouble>,
) -> &'static str {
    let name = store.name();
    // What is said by one who cannot be asked at all is not said again in his notes.
    if let Some(failure) = away {
        told.push(trouble(Some(name), None, failure));
        return "down";
    }
    for note in store.notes() {
        told.push(trouble(Some(name), None, &note));
    }
    match store.is_there() {
        Ok(true) => "up",
        Ok(false) if pages == 0 => "up",
        Ok(false) => {
            let gone = Failure::new(FailureKind::Down, "what it held is lost")
                .hint("`wiki-sync drain` builds it anew from the files");
            told.push(trouble(Some(name), None, &gone));
            "down"
        }
        Err(failure) => {
            told.push(trouble(Some(name), None, &failure));
            "down"
        }
    }
}

/// A page that is a dead letter for all stores; of one that only some of them refused, the others hold it.
fn rejected(letter: &DeadLetter) -> Option<Skipped> {
    let path = letter.path.as_ref()?;
    letter.death.stores.is_empty().then(|| Skipped {
        path: path.to_string(),
        reason: letter.death.reason.clone(),
    })
}

/// Says how many pages' dead letters rest for a store: those for which it owes nothing.
fn resting(letters: &[DeadLetter], store: StoreName, owed: &HashSet<(StoreName, String)>) -> u64 {
    let of_store = |letter: &&DeadLetter| {
        let stores = &letter.death.stores;
        stores.is_empty() || stores.contains(store)
    };
    let paths = letters.iter().filter(of_store);
    let paths = paths.filter_map(|letter| letter.path.as_ref());
    let paths: HashSet<_> = paths.map(PagePath::as_str).collect();
    let rest = |path: &&&str| !owed.contains(&(store, (**path).to_owned()));
    paths.iter().filter(rest).count() as u64
}

/// Tells of stores that are there and are not those which hold the pages by the receipts.
fn tell_replaced(parts: &mut Parts, report: &mut StatusReport) {
    for at in 0..parts.stores.len() {
        let store = parts.stores[at].name().as_str();
        let Some(status) = report.stores.get_mut(store) else {
            continue;
        };
        // What cannot be told is in the troubles.
        let is_known = status.state != "up" || status.pages == 0;
        if !is_known && let Ok(true) = is_replaced(parts, at) {
            status.behind = Some(status.pages);
            report.renewals.retain(|renewal| renewal.store != store);
            report.renewals.push(Renewal {
                store,
                pages: status.pages,
                reason: ANOTHER.into(),
            });
        }
    }
}

/// Looks where everything stands; changes nothing.
///
/// # Errors
/// When the pages or the outbox cannot be read.
pub fn status(parts: &mut Parts, now: Timestamp) -> Result<StatusReport, Failure> {
    let counts = parts.outbox.counts(now)?;
    let pending = parts.outbox.pending(usize::MAX)?;
    let letters = parts.outbox.dead()?;
    let mut report = StatusReport {
        outbox: OutboxStatus {
            waiting: counts.waiting,
            delayed: counts.delayed,
            in_flight: counts.in_flight,
            held: counts.held,
            dead: counts.dead,
            hints: parts.state.hints()?,
            spooled: parts.state.kept_jobs()?.len() as u64,
            oldest: pending.iter().map(|job| job.since.0).min(),
            notes: parts.outbox.notes(),
        },
        ..StatusReport::default()
    };
    let mut announced: HashMap<&str, i64> = HashMap::new();
    for job in &pending {
        let since = announced.entry(job.path.as_str()).or_insert(job.since.0);
        *since = job.since.0.min(*since);
    }
    let mut unannounced = 0;
    let of_letters: HashSet<&str> = (letters.iter())
        .filter_map(|letter| letter.path.as_ref().map(PagePath::as_str))
        .collect();
    let mut woken = HashSet::new();
    let mut outdated = 0;
    let mut lags: BTreeMap<StoreName, Lag> = BTreeMap::new();
    let findings = Scan {
        wiki: &parts.wiki,
        receipts: &parts.receipts,
        stores: &mut parts.stores,
        dead: &letters,
        removed: 0,
    }
    .run(
        &mut |job, owed| {
            let since = announced.get(job.path.as_str()).copied();
            unannounced += u64::from(since.is_none());
            let is_outdated =
                !owed.is_empty() && owed.iter().all(|(_, kind)| *kind == DriftKind::Outdated);
            outdated += u64::from(since.is_none() && is_outdated);
            for &(store, _) in owed {
                lags.entry(store).or_default().add(since);
                if of_letters.contains(job.path.as_str()) {
                    woken.insert((store, job.path.to_string()));
                }
            }
            Ok(())
        },
        &mut |_| (),
    )?;
    report.pages = findings.pages;
    report.unannounced = unannounced;
    report.outdated = outdated;
    report.renewals = findings.renewals;
    report.skipped = findings.skipped;
    // A page that no store can take is skipped as well, whatever its letter costs.
    let rejected: Vec<_> = letters.iter().filter_map(rejected).collect();
    report.rejected = rejected.iter().map(|it| it.path.clone()).collect();
    report.skipped.extend(rejected);
    report.skipped.sort();
    for store in &mut parts.stores {
        let name = store.name();
        let mut unasked = findings.unasked.iter();
        let unasked = unasked.find(|(unasked, _)| *unasked == name);
        let mut status = StoreStatus {
            state: "up",
            pages: parts.receipts.count(name)?,
            behind: None,
            dead: resting(&letters, name, &woken),
            oldest: None,
        };
        if unasked.is_none() {
            let lag = lags.remove(&name).unwrap_or_default();
            (status.behind, status.oldest) = (Some(lag.pages), lag.oldest);
        }
        let away = unasked.map(|(_, failure)| failure);
        status.state = store_state(store.as_mut(), away, status.pages, &mut report.trouble);
        report.stores.insert(name.as_str(), status);
    }
    tell_replaced(parts, &mut report);
    let lent = pending.iter().filter_map(lent_job);
    report.in_flight = lent.collect();
    let put_back = pending
        .into_iter()
        .filter(|job| !matches!(job.standing, Standing::InFlight { .. }))
        .filter(|job| job.held_for.is_some() || !job.reason.is_empty());
    report.held = put_back.map(held_job).collect();
    report.holds = holds(&report.held);
    report.dead_letters = dead_letters(&letters);
    report.alerts = parts.alerts.status()?;
    report.watch = watch_status(&parts.state, now)?;
    report.fresh = unannounced + report.outbox.spooled == 0
        && report.renewals.is_empty()
        && counts.waiting + counts.delayed + counts.in_flight + counts.held + counts.dead == 0
        && report.trouble.is_empty();
    // A channel that cannot be used makes no page less fresh.
    report.trouble.extend(parts.alerts.wrong());
    Ok(report)
}
