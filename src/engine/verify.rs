//! Verify: reads the real stores and names every difference from the pages.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::report::{Drift, DriftKind, Trouble, VerifyReport, gather, trouble};
use super::{Parts, Progress};
use crate::model::{Failure, Job, Page, PagePath, StoreName, Timestamp};
use crate::outbox::{DeadLetter, Pending};
use crate::state::Receipts;
use crate::stores::{Holding, Store};
use crate::wiki::{Entry, Reading, Skipped, Wiki, is_below};

/// What one store holds, as read from it.
struct Side {
    at: usize,
    name: StoreName,
    holdings: HashMap<String, String>,
}

/// What is known to be on its way, and so is no drift.
struct Excused {
    /// Pages that a job waits for.
    owed: HashSet<String>,
    /// Dead letters by their page.
    dead: HashMap<String, DeadLetter>,
}

/// Compares every store with the pages; changes nothing.
///
/// For each page the store's own digest of what it holds is compared with the digest of what it must hold. What a
/// job still waits for, and what a dead letter is about, is no drift: it is counted on its own.
///
/// # Errors
/// When the pages or the outbox cannot be read. A store that cannot be read is in the report.
pub fn verify(parts: &mut Parts, progress: &mut dyn Progress) -> Result<VerifyReport, Failure> {
    let mut report = VerifyReport::default();
    // The queue first: what is enqueued after this look shows as drift, never the other way round.
    let pending = parts.outbox.pending(usize::MAX)?;
    let letters = parts.outbox.dead()?;
    report.dead = letters.len() as u64;
    report.held = held(&pending);
    let excused = Excused {
        owed: pending
            .into_iter()
            .map(|job| job.path.to_string())
            .collect(),
        dead: letters
            .into_iter()
            .filter_map(|letter| Some((letter.path.as_ref()?.to_string(), letter)))
            .collect(),
    };
    report.waiting = excused.owed.len() as u64;
    let mut sides = read_stores(parts, &mut report);
    let mut blind = Vec::new();
    let Parts {
        wiki,
        receipts,
        stores,
        ..
    } = parts;
    wiki.walk(&mut |entry| {
        let path = match entry {
            Entry::Skipped(skipped) => {
                report.skipped.push(skipped);
                return Ok(());
            }
            Entry::Blind { folder, failure } => {
                report.skipped.push(Skipped {
                    path: folder.clone(),
                    reason: failure.reason,
                });
                blind.push(folder);
                return Ok(());
            }
            Entry::Page { path, .. } => path,
        };
        let Some((page, version)) = read(wiki, receipts, &path, &mut report)? else {
            // Gone since the walk: the next verify will tell.
            return Ok(());
        };
        report.pages += 1;
        progress.at("verifying", report.pages, 0);
        let is_owed = excused.owed.contains(path.as_str());
        let letter = excused.dead.get(path.as_str());
        let letter = letter.filter(|letter| letter.death.version == version);
        for side in &mut sides {
            let held = side.holdings.remove(path.as_str());
            let Some(page) = &page else { continue };
            let store = stores[side.at].as_mut();
            let expected = match store.expected(page) {
                Ok(expected) => expected,
                // One page under a filter, say: the others are judged all the same.
                Err(failure) => {
                    let path = Some(path.to_string());
                    gather(&mut report.unread, trouble(Some(side.name), path, &failure));
                    continue;
                }
            };
            if expected.is_none()
                && let Some(why) = store.exempt(&path)?
            {
                report.skipped.push(Skipped {
                    path: path.to_string(),
                    reason: format!("{} leaves it out: {why}", side.name),
                });
            }
            if let Some(kind) = difference(held, expected)
                && !is_owed
                && !letter.is_some_and(|letter| letter.stands_for(side.name))
            {
                report.drift.push(side.drift(path.as_str(), kind));
            }
        }
        Ok(())
    })?;
    for side in &mut sides {
        let store = stores[side.at].as_mut();
        report.drift.extend(orphans(side, store, &excused, &blind)?);
    }
    // Whoever reads the report may take his time; nobody shall wait for him.
    for store in stores {
        store.rest();
    }
    report.drift.sort();
    report.skipped.sort();
    report.in_sync = report.drift.is_empty()
        && report.waiting == 0
        && report.dead == 0
        && report.unread.is_empty();
    Ok(report)
}

/// Returns why pages wait, one entry per store and reason.
fn held(pending: &[Pending]) -> Vec<Trouble> {
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

impl Side {
    fn drift(&self, path: &str, kind: DriftKind) -> Drift {
        Drift {
            path: path.into(),
            store: self.name.as_str(),
            kind,
        }
    }
}

/// Reads a page, with what stands for its content; the page is `None` where it is none that could be applied, which is
/// noted in the report.
fn read(
    wiki: &Wiki,
    receipts: &Receipts,
    path: &PagePath,
    report: &mut VerifyReport,
) -> Result<Option<(Option<Page>, String)>, Failure> {
    Ok(match wiki.read(path) {
        Reading::Page { text, sha, .. } => {
            let page = Page::new(path.clone(), text, receipts.labels(path)?);
            Some((Some(page), sha.to_string()))
        }
        Reading::Absent => None,
        Reading::Bad { failure, version } => {
            report.skipped.push(Skipped {
                path: path.to_string(),
                reason: failure.reason,
            });
            Some((None, version))
        }
    })
}

/// Reads every store's inventory; a store that cannot be read is noted in the report.
fn read_stores(parts: &mut Parts, report: &mut VerifyReport) -> Vec<Side> {
    let mut sides = Vec::new();
    for (at, store) in parts.stores.iter_mut().enumerate() {
        match store.inventory() {
            Ok(holdings) => sides.push(Side {
                at,
                name: store.name(),
                holdings: holdings
                    .into_iter()
                    .map(|Holding { path, digest }| (path, digest))
                    .collect(),
            }),
            Err(failure) => report
                .unread
                .push(trouble(Some(store.name()), None, &failure)),
        }
    }
    sides
}

/// Returns what is left in a store after every page on disk has been looked at.
fn orphans(
    side: &mut Side,
    store: &mut dyn Store,
    excused: &Excused,
    blind: &[String],
) -> Result<Vec<Drift>, Failure> {
    let mut drift = Vec::new();
    for path in std::mem::take(&mut side.holdings).into_keys() {
        let is_hidden = blind.iter().any(|folder| is_below(&path, folder));
        if !excused.owed.contains(&path) && !is_hidden && !is_exempt(store, &path)? {
            drift.push(side.drift(&path, DriftKind::Orphan));
        }
    }
    Ok(drift)
}

/// Compares what a store holds of a page with what it must hold.
fn difference(held: Option<String>, expected: Option<String>) -> Option<DriftKind> {
    match (held, expected) {
        (None, None) => None,
        (Some(held), Some(expected)) => (held != expected).then_some(DriftKind::Stale),
        (None, Some(_)) => Some(DriftKind::Missing),
        (Some(_), None) => Some(DriftKind::Orphan),
    }
}

/// Whether a witnessed store rightly holds what is not on disk (git: outside a sparse checkout).
fn is_exempt(store: &mut dyn Store, path: &str) -> Result<bool, Failure> {
    match PagePath::parse(path) {
        Ok(path) if store.is_witnessed() => Ok(store.exempt(&path)?.is_some()),
        Ok(_) | Err(_) => Ok(false),
    }
}

/// Enqueues exactly the drift that [`verify`] found, and voids the receipts that it proved wrong; the next drain heals
/// it. Returns how many pages that are.
///
/// An orphan whose name is no page's path is left alone: no job can name it.
///
/// # Errors
/// When the outbox or the state cannot be written.
pub fn repair(parts: &mut Parts, report: &VerifyReport, now: Timestamp) -> Result<u64, Failure> {
    let mut found = Vec::new();
    let mut paths = BTreeSet::new();
    for drift in &report.drift {
        if let (Ok(store), Ok(path)) = (drift.store.parse(), PagePath::parse(&drift.path)) {
            paths.insert(path.clone());
            found.push((store, path));
        }
    }
    if found.is_empty() {
        return Ok(0);
    }
    parts.receipts.distrust(&found)?;
    let jobs: Vec<_> = paths
        .into_iter()
        .map(|path| Job::for_page(path, None))
        .collect();
    parts.outbox.enqueue(&jobs, now)?;
    Ok(jobs.len() as u64)
}
