//! What a hook announces: how HEAD's pages differ from those last seen. Trees are compared, and no range is walked, so that
//! amend, rebase, reset, merges, a shallow history and a first commit are one case.
//!
//! What was last seen moves only after the differences are in the outbox. It is no promise: who loses it compares with the
//! receipts, and what no hook announced the scan finds.

use std::collections::HashSet;

use super::Parts;
use crate::model::{Failure, FailureKind, Job, PagePath, StoreName, Timestamp};
use crate::outbox::{Enqueued, Outbox};
use crate::state::{Receipts, StateDir};
use crate::stores::git::{Differs, HeadPages};
use crate::wiki::Wiki;

/// The key, among the lasting values, of the mark of HEAD's pages as they were last seen.
const SEEN: &str = "head_pages";
/// Remembered pages read at a time.
const CHUNK: usize = 1_000;

/// Enqueues the pages that differ between HEAD as it was last seen and `head`, and answers the hints that were left. Pages
/// that every store holds as HEAD does (a drain has committed them) are left out.
///
/// # Errors
/// As those of the parts. What was announced may be announced again, nothing is lost.
pub fn announce(
    head: &HeadPages,
    wiki: &Wiki,
    state: &StateDir,
    receipts: &mut Receipts,
    outbox: &mut dyn Outbox,
    now: Timestamp,
) -> Result<Enqueued, Failure> {
    // Before HEAD is compared: a hint left later is for whoever comes later.
    let hints = state.take_hints()?;
    let done = compare(head, wiki, receipts, outbox, now)?;
    if let Some(hints) = hints {
        hints.answer()?;
    }
    Ok(done)
}

/// Enqueues the pages that differ between HEAD as it was last seen and `head`, and moves what was last seen.
fn compare(
    head: &HeadPages,
    wiki: &Wiki,
    receipts: &mut Receipts,
    outbox: &mut dyn Outbox,
    now: Timestamp,
) -> Result<Enqueued, Failure> {
    let seen = receipts.known_meta(SEEN)?;
    let mark = head.mark();
    let mut done = Enqueued::default();
    if seen.as_ref() != Some(&mark) {
        let jobs = jobs(head, wiki, receipts, seen.as_deref())?;
        done = outbox.enqueue(&jobs, now)?;
        fail::fail_point!("announce.enqueued");
        match receipts.replace_meta(SEEN, seen.as_deref(), &mark) {
            Ok(_) => {}
            // Announced again by the next one, and merged there: cheaper than letting git wait for a drain that writes.
            Err(failure) if failure.kind == FailureKind::Busy => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(done)
}

/// Announces what a hook did not, before a drain looks at the pages: what was last seen moves on with what the stores will
/// hold, so that a change which goes away unheard (a reset) and comes back is seen to come. Where nothing was ever seen, and
/// no hook left a hint (`hinted`), nobody compares. Whoever took the hints answers them.
///
/// # Errors
/// As [`announce`].
pub(super) fn catch_up(parts: &mut Parts, hinted: bool, now: Timestamp) -> Result<(), Failure> {
    if !hinted && parts.receipts.known_meta(SEEN)?.is_none() {
        return Ok(());
    }
    let head = HeadPages::read(parts.wiki.root(), parts.wiki.pages_dir())?;
    let Parts {
        wiki,
        receipts,
        outbox,
        ..
    } = parts;
    compare(&head, wiki, receipts, outbox.as_mut(), now)?;
    Ok(())
}

/// Moves what was last seen along with our own commits, so many at the tip of HEAD: else a commit that takes one of them
/// back looks like what was seen before. Only where they were made upon just that; what came between is the hooks' to announce.
///
/// # Errors
/// As [`announce`].
pub(super) fn follow(parts: &mut Parts, commits: u64) -> Result<(), Failure> {
    let Some(seen) = parts.receipts.known_meta(SEEN)? else {
        return Ok(());
    };
    let head = HeadPages::read(parts.wiki.root(), parts.wiki.pages_dir())?;
    if head.mark_before(commits)?.as_ref() == Some(&seen) {
        let receipts = &mut parts.receipts;
        receipts.replace_meta(SEEN, Some(&seen), &head.mark())?;
    }
    Ok(())
}

fn jobs(
    head: &HeadPages,
    wiki: &Wiki,
    receipts: &Receipts,
    seen: Option<&str>,
) -> Result<Vec<Job>, Failure> {
    let differs = match seen {
        Some(_) => head.since(seen)?,
        None => None,
    };
    let differs = match differs {
        Some(differs) => differs,
        None => from_receipts(head, receipts)?,
    };
    let mut jobs = Vec::new();
    for (path, blob) in differs {
        if wiki.is_page(path.as_str()) && !is_held(receipts, &path, blob.as_deref())? {
            jobs.push(Job::for_page(path, None));
        }
    }
    Ok(jobs)
}

/// Returns all that HEAD holds, and what it no longer holds of what is remembered.
fn from_receipts(head: &HeadPages, receipts: &Receipts) -> Result<Vec<Differs>, Failure> {
    let mut differs = head.since(None)?.unwrap_or_default();
    let in_head: HashSet<PagePath> = differs.iter().map(|(path, _)| path.clone()).collect();
    let mut last = String::new();
    loop {
        let known = receipts.known_after(&last, CHUNK)?;
        let Some(end) = known.last() else {
            return Ok(differs);
        };
        last.clone_from(&end.path);
        for page in known {
            let was_in_head = page
                .receipts
                .iter()
                .any(|(store, receipt)| *store == StoreName::Git && receipt.mark.is_some());
            if was_in_head
                && let Ok(path) = PagePath::parse(&page.path)
                && !in_head.contains(&path)
            {
                differs.push((path, None));
            }
        }
    }
}

/// Says whether every store holds of the page what HEAD does, by the receipts.
fn is_held(receipts: &Receipts, path: &PagePath, blob: Option<&str>) -> Result<bool, Failure> {
    let mut shas = HashSet::new();
    for store in StoreName::ALL {
        match (receipts.get(store, path)?, blob) {
            (None, None) => {}
            (Some(receipt), Some(blob)) => {
                if store == StoreName::Git && receipt.mark.as_deref() != Some(blob) {
                    return Ok(false);
                }
                shas.insert(receipt.sha);
            }
            (None, Some(_)) | (Some(_), None) => return Ok(false),
        }
    }
    Ok(blob.is_none() || (shas.len() == 1 && !shas.contains(&None)))
}
