//! What is drift, and what is excused since it is known already: a job waits for it, or a dead letter is about it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::VerifyOptions;
use crate::engine::Parts;
use crate::engine::report::{Drift, DriftKind, Skipped, Trouble, VerifyReport, gather, trouble};
use crate::model::{Failure, PagePath, StoreName, Timestamp};
use crate::outbox::{DeadLetter, Pending};
use crate::state::Epochs;
use crate::stores::Store;
use crate::wiki::is_below;

/// A verify under way.
pub(super) struct Judge<'o> {
    pub(super) options: &'o VerifyOptions,
    pub(super) report: VerifyReport,
    /// Jobs of the pages that are verified.
    pending: Vec<Pending>,
    /// Pages that a job waits for.
    owed: HashSet<PagePath>,
    /// Those of them that wait for stores which are verified: at first all that are held for no other one.
    waiting: HashSet<PagePath>,
    /// Dead letters by their page.
    dead: HashMap<PagePath, DeadLetter>,
    /// Folders that could not be read: nothing is known of what is in them.
    blind: Vec<String>,
    /// Which of the paths asked for there is anything of, anywhere.
    met: BTreeSet<String>,
}

impl<'o> Judge<'o> {
    /// Looks at the outbox: before the stores, so that what is enqueued after this look shows as drift, never the other
    /// way round.
    ///
    /// # Errors
    /// When the outbox cannot be read.
    pub(super) fn open(parts: &mut Parts, options: &'o VerifyOptions) -> Result<Self, Failure> {
        let within = &options.within;
        let names = parts.stores.iter().map(|store| store.name());
        let mut judge = Self {
            options,
            report: VerifyReport {
                mode: if options.fast { "fast" } else { "full" },
                stores: names
                    .filter(|&name| options.includes(name))
                    .map(StoreName::as_str)
                    .collect(),
                paths: within.paths().map(str::to_owned).collect(),
                ..VerifyReport::default()
            },
            pending: Vec::new(),
            owed: HashSet::new(),
            waiting: HashSet::new(),
            dead: HashMap::new(),
            blind: Vec::new(),
            met: BTreeSet::new(),
        };
        let counts = parts.outbox.counts(Timestamp::now())?;
        let pending = parts.outbox.pending(usize::MAX)?;
        if within.is_everything() {
            // What names no page waits too: the next claim buries it.
            let all = counts.waiting + counts.delayed + counts.in_flight + counts.held;
            judge.report.waiting = all.saturating_sub(pending.len() as u64);
        }
        for job in pending {
            if !within.contains(job.path.as_str()) {
                continue;
            }
            judge.meet(job.path.as_str());
            judge.owed.insert(job.path.clone());
            if job.held_for.is_none_or(|store| options.includes(store)) {
                judge.waiting.insert(job.path.clone());
            }
            judge.pending.push(job);
        }
        // What could not be announced yet waits as well.
        for job in parts.state.kept_jobs()? {
            if within.contains(job.path.as_str()) {
                judge.meet(job.path.as_str());
                judge.owed.insert(job.path.clone());
                judge.waiting.insert(job.path);
            }
        }
        for letter in parts.outbox.dead()? {
            match letter.path.clone() {
                Some(path) if within.contains(path.as_str()) => {
                    judge.meet(path.as_str());
                    judge.dead.insert(path, letter);
                }
                Some(_) => {}
                None => judge.report.dead += u64::from(within.is_everything()),
            }
        }
        Ok(judge)
    }

    /// Notes that there is something of a path.
    pub(super) fn meet(&mut self, path: &str) {
        if self.met.len() < self.report.paths.len()
            && let Some(part) = self.options.within.part(path)
            && !self.met.contains(part)
        {
            self.met.insert(part.to_owned());
        }
    }

    pub(super) fn skip(&mut self, skipped: Skipped) {
        self.meet(&skipped.path);
        self.report.skipped.push(skipped);
    }

    /// Notes a folder that cannot be read.
    pub(super) fn blinded(&mut self, folder: String, failure: Failure) {
        self.skip(Skipped {
            path: folder.clone(),
            reason: failure.reason,
        });
        self.blind.push(folder);
    }

    pub(super) fn is_hidden(&self, path: &str) -> bool {
        self.blind.iter().any(|folder| is_below(path, folder))
    }

    /// Notes that a store, a page in it, or a page itself could not be read.
    pub(super) fn unread(
        &mut self,
        store: Option<StoreName>,
        path: Option<&PagePath>,
        failure: &Failure,
    ) {
        let path = path.map(ToString::to_string);
        gather(&mut self.report.unread, trouble(store, path, failure));
    }

    /// Puts what was found of some pages in the place of what was found of them before. Where a store could not be read the
    /// second time, nothing new is known.
    pub(super) fn revise(&mut self, later: Judge<'_>) {
        if !later.report.unread.is_empty() {
            return;
        }
        let within = &later.options.within;
        let drift = &mut self.report.drift;
        drift.retain(|drift| !within.contains(&drift.path));
        drift.extend(later.report.drift);
        self.report.owed.extend(later.report.owed);
        self.report.skipped.extend(later.report.skipped);
        let new = later.pending.into_iter();
        let new = new.filter(|job| !self.owed.contains(&job.path));
        self.pending.extend(new);
        self.owed.extend(later.owed);
        self.waiting.extend(later.waiting);
        self.dead.retain(|path, _| !within.contains(path.as_str()));
        self.dead.extend(later.dead);
    }

    /// Notes a difference, unless a job waits for the page, or its dead letter is about this `version` of it.
    pub(super) fn differs(&mut self, store: StoreName, path: &str, kind: DriftKind, version: &str) {
        let drift = Drift {
            path: path.into(),
            store: store.as_str(),
            kind,
        };
        if let Some(owed) = self.owed.get(path) {
            // Held for another store, it is owed by this one too.
            self.waiting.insert(owed.clone());
            self.report.owed.push(drift);
            return;
        }
        let letter = self.dead.get(path);
        if !letter.is_some_and(|letter| letter.death.version == version && letter.stands_for(store))
        {
            self.report.drift.push(drift);
        }
    }

    /// Returns the report, in the order of the paths.
    pub(super) fn report(self) -> VerifyReport {
        let Self {
            options,
            mut report,
            pending,
            waiting,
            dead,
            met,
            ..
        } = self;
        report.waiting += waiting.len() as u64;
        let counts = |letter: &&DeadLetter| {
            StoreName::ALL
                .into_iter()
                .any(|store| letter.stands_for(store) && options.includes(store))
        };
        report.dead += dead.values().filter(counts).count() as u64;
        report.held = held(pending.iter().filter(|job| waiting.contains(&job.path)));
        let unknown = report.paths.iter().filter(|path| !met.contains(*path));
        report.unknown = unknown.cloned().collect();
        report.drift.sort();
        // Of a second look only the drift is known page by page.
        let drift = &report.drift;
        report.renewals.retain_mut(|renewal| {
            let outdated = drift
                .iter()
                .filter(|drift| drift.kind == DriftKind::Outdated && drift.store == renewal.store);
            renewal.pages = outdated.count() as u64;
            renewal.pages > 0
        });
        report.skipped.sort();
        report.skipped.dedup();
        report.in_sync = report.drift.is_empty()
            && report.waiting == 0
            && report.dead == 0
            && report.unread.is_empty()
            && (report.mode == "full" || report.replaced.is_empty());
        report
    }
}

/// Returns why pages wait, one entry per store and reason.
fn held<'p>(pending: impl Iterator<Item = &'p Pending>) -> Vec<Trouble> {
    let mut held = Vec::new();
    for job in pending {
        if let Some(store) = job.held_for {
            let one = Trouble {
                store: Some(store.as_str()),
                kind: "held",
                path: Some(job.path.to_string()),
                reason: job.reason.clone(),
                hint: None,
                pages: 1,
            };
            gather(&mut held, one);
        }
    }
    held
}

/// What a store says of itself, beside what the receipts say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the one that the receipts speak of.
    Known,
    /// It is another one: new, restored from a copy, or not to be recognised.
    Replaced,
    /// There is none.
    None,
}

/// How often a store is looked at again whose batch ended meanwhile.
const LOOKS: u32 = 5;

/// Compares what a store says of itself with what the receipts say of it. `inside`: as
/// [`Store::find_identity`] has it.
///
/// # Errors
/// When the store or the receipts cannot be asked.
pub(super) fn standing(parts: &mut Parts, at: usize, inside: bool) -> Result<Standing, Failure> {
    let store = &mut parts.stores[at];
    if store.is_witnessed() {
        return Ok(Standing::Known);
    }
    let mut known = parts.receipts.epochs(store.name())?;
    for _ in 0..LOOKS {
        let found = store.find_identity(inside)?;
        let before = known;
        known = parts.receipts.epochs(store.name())?;
        let Some(found) = found else {
            let there = store.is_there()?;
            return Ok(if there {
                Standing::Replaced
            } else {
                Standing::None
            });
        };
        let same = |known: &Epochs| known.are_of(&found);
        if before.as_ref().is_some_and(same) || known.as_ref().is_some_and(same) {
            return Ok(Standing::Known);
        }
        if before == known {
            break;
        }
    }
    Ok(Standing::Replaced)
}

/// Whether a witnessed store rightly holds what is not on disk (git: outside a sparse checkout).
pub(super) fn is_exempt(store: &mut dyn Store, path: &str) -> Result<bool, Failure> {
    match PagePath::parse(path) {
        Ok(path) if store.is_witnessed() => Ok(store.exempt(&path)?.is_some()),
        Ok(_) | Err(_) => Ok(false),
    }
}
