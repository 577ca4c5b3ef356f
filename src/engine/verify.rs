//! Verify: reads the real stores and names every difference from the pages.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::report::{Drift, DriftKind, VerifyReport, trouble};
use super::{Parts, Progress};
use crate::model::{Failure, Job, Page, PagePath, StoreName, Timestamp};
use crate::stores::Holding;
use crate::wiki::{Entry, Reading, Skipped};

/// What one store holds, as read from it.
struct Side {
    at: usize,
    name: StoreName,
    holdings: HashMap<String, String>,
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
    let mut owed: HashSet<String> = HashSet::new();
    for job in parts.outbox.pending(usize::MAX)? {
        owed.insert(job.path.to_string());
    }
    report.waiting = owed.len() as u64;
    let letters = parts.outbox.dead()?;
    report.dead = letters.len() as u64;
    let dead: HashMap<String, String> = letters
        .into_iter()
        .filter_map(|letter| Some((letter.path?.to_string(), letter.death.version)))
        .collect();
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
            Entry::Page { path, .. } => path,
        };
        let (text, version) = match wiki.read(&path) {
            Reading::Page { text, sha, .. } => (Some(text), sha.to_string()),
            // Gone since the walk: the next verify will tell.
            Reading::Absent => return Ok(()),
            Reading::Bad { failure, version } => {
                report.skipped.push(Skipped {
                    path: path.to_string(),
                    reason: failure.reason,
                });
                (None, version)
            }
        };
        report.pages += 1;
        progress.at("verifying", report.pages, report.pages);
        let excused = owed.contains(path.as_str()) || dead.get(path.as_str()) == Some(&version);
        let page = match text {
            Some(text) => Some(Page::new(path.clone(), text, receipts.labels(&path)?)),
            None => None,
        };
        for side in &mut sides {
            let held = side.holdings.remove(path.as_str());
            let Some(page) = &page else { continue };
            let expected = stores[side.at].expected(page)?;
            let kind = match (held, expected) {
                (Some(held), Some(expected)) if held == expected => continue,
                (None, None) => continue,
                (Some(_), Some(_)) => DriftKind::Stale,
                (None, Some(_)) => DriftKind::Missing,
                (Some(_), None) => DriftKind::Orphan,
            };
            if !excused {
                report.drift.push(Drift {
                    path: path.to_string(),
                    store: side.name.as_str(),
                    kind,
                });
            }
        }
        Ok(())
    })?;
    for side in sides {
        for (path, _) in side.holdings {
            if owed.contains(&path) {
                continue;
            }
            if let Ok(page) = PagePath::parse(&path)
                && stores[side.at].is_witnessed()
                && stores[side.at].exempt(&page)?.is_some()
            {
                continue;
            }
            report.drift.push(Drift {
                path,
                store: side.name.as_str(),
                kind: DriftKind::Orphan,
            });
        }
    }
    report.drift.sort();
    report.skipped.sort();
    report.in_sync = report.drift.is_empty()
        && report.waiting == 0
        && report.dead == 0
        && report.unread.is_empty();
    Ok(report)
}
