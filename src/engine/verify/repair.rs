//! Repair: what verify found is enqueued, so that the next drain heals it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::Parts;
use crate::engine::report::{DriftKind, VerifyReport};
use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};
use crate::state::CheckoutLock;

/// How long a drain's batch is waited for before rows or points of no page are removed.
const LOCK_WAIT: Duration = Duration::from_mins(1);

/// Enqueues exactly the drift that [`super::verify`] found, and voids the receipts that it proved wrong; the next drain
/// heals it. Of pages that a job waits for already only the receipts are voided. What a store holds of ours under a name that is no
/// page's path, so that no job can name it, is removed here and now, as are receipts under such a name. Notes in the report how much there was of both.
///
/// # Errors
/// When the outbox, the state or a store cannot be written.
pub fn repair(parts: &mut Parts, report: &mut VerifyReport, now: Timestamp) -> Result<(), Failure> {
    let mut found = Vec::new();
    let mut paths = BTreeSet::new();
    let mut strays: BTreeMap<StoreName, Vec<&str>> = BTreeMap::new();
    let mut nameless = Vec::new();
    for drift in &report.drift {
        let Ok(store) = drift.store.parse() else {
            continue;
        };
        match PagePath::parse(&drift.path) {
            // Read as another name than it is, it would be another page's job.
            Ok(path) if path.as_str() == drift.path => {
                paths.insert(path.clone());
                found.push((store, path));
            }
            Ok(_) | Err(_) if drift.kind == DriftKind::Orphan => {
                strays.entry(store).or_default().push(&drift.path);
            }
            Ok(_) | Err(_) => nameless.push(drift.path.as_str()),
        }
    }
    for drift in &report.owed {
        if let (Ok(store), Ok(path)) = (drift.store.parse(), PagePath::parse(&drift.path)) {
            found.push((store, path));
        }
    }
    for store in &report.replaced {
        if let Ok(store) = store.parse() {
            parts.receipts.disown(store)?;
        }
    }
    if !strays.is_empty() {
        let lock = CheckoutLock::acquire(&parts.state, LOCK_WAIT)?;
        for store in &mut parts.stores {
            if let Some(names) = strays.get(&store.name()) {
                store.purge(names)?;
                store.rest();
                report.removed += names.len() as u64;
            }
        }
        drop(lock);
    }
    if !nameless.is_empty() {
        parts.receipts.forget(&nameless)?;
    }
    if !found.is_empty() {
        parts.receipts.distrust(&found)?;
    }
    if paths.is_empty() {
        return Ok(());
    }
    let jobs: Vec<_> = paths
        .into_iter()
        .map(|path| Job::for_page(path, None))
        .collect();
    parts.outbox.enqueue(&jobs, now)?;
    report.repaired = jobs.len() as u64;
    Ok(())
}
