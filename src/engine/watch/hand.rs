//! From pages that changed to jobs.

use super::pending::Due;
use crate::engine::Parts;
use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};
use crate::outbox::HANDFUL;
use crate::wiki::{Entry, Reading};

/// How many remembered paths are read at a time.
const CHUNK: usize = 1_000;

/// What was handed on.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Jobs, also those that joined a waiting one.
    pub(super) jobs: u64,
    /// Pages that were seen to go, and are gone.
    pub(super) gone: Vec<PagePath>,
}

/// Announces pages that changed; what the disk says now decides. A page that is gone and that nobody knows was only an
/// editor's.
///
/// # Errors
/// When the outbox or the state is away.
pub(super) fn announce(
    parts: &mut Parts,
    due: &Due,
    ignored: &dyn Fn(&str) -> bool,
    now: Timestamp,
) -> Result<Handed, Failure> {
    let mut handed = Handed::default();
    let mut jobs = Vec::new();
    let mut unknown = Vec::new();
    for (path, gone) in &due.pages {
        let sha = match parts.wiki.read(path) {
            Reading::Page { .. } | Reading::Bad { .. }
                if is_left_to_scan(parts, path, ignored)? =>
            {
                continue;
            }
            Reading::Page { sha, .. } => Some(sha),
            Reading::Bad { .. } => None,
            Reading::Absent => {
                if !is_known(parts, path)? {
                    unknown.push(path.clone());
                    continue;
                }
                if *gone {
                    handed.gone.push(path.clone());
                }
                None
            }
        };
        jobs.push(Job::for_page(path.clone(), sha));
    }
    if !unknown.is_empty() {
        // No store was given it, and yet its dead letter has something to wait for.
        let letters = parts.outbox.dead_of(&unknown)?.into_iter();
        jobs.extend(letters.filter_map(|letter| Some(Job::for_page(letter.path?, None))));
    }
    for some in jobs.chunks(HANDFUL) {
        parts.outbox.enqueue(some, now)?;
        handed.jobs += some.len() as u64;
    }
    Ok(handed)
}

/// Announces every page that is not as it was last seen, or gone: what can be told without asking the stores.
///
/// # Errors
/// As [`announce`], and when the pages' folder cannot be read.
pub(super) fn announce_all(parts: &mut Parts, now: Timestamp) -> Result<u64, Failure> {
    let Parts {
        wiki,
        receipts,
        outbox,
        ..
    } = parts;
    let mut jobs: Vec<Job> = Vec::new();
    let mut total = 0;
    let mut blind = Vec::new();
    let mut enqueue = |jobs: &mut Vec<Job>, least: usize| {
        if jobs.len() < least {
            return Ok(());
        }
        total += jobs.len() as u64;
        for some in jobs.chunks(HANDFUL) {
            outbox.enqueue(some, now)?;
        }
        jobs.clear();
        Ok(())
    };
    wiki.walk(&mut |entry| {
        match entry {
            Entry::Page { path, stat } => {
                let seen = receipts.file(&path)?;
                if !seen.is_some_and(|seen| seen.proves(&stat)) {
                    let sha = match wiki.read(&path) {
                        Reading::Page { sha, .. } => Some(sha),
                        Reading::Bad { .. } | Reading::Absent => None,
                    };
                    if sha.is_none() || sha != seen.map(|seen| seen.sha) {
                        jobs.push(Job::for_page(path, sha));
                    }
                }
            }
            Entry::Blind { folder, .. } => blind.push(folder),
            Entry::Skipped(_) => {}
        }
        enqueue(&mut jobs, HANDFUL)
    })?;
    let mut after = String::new();
    loop {
        let known = receipts.known_after(&after, CHUNK)?;
        let Some(last) = known.last() else { break };
        after.clone_from(&last.path);
        for one in known {
            let Ok(path) = PagePath::parse(&one.path) else {
                continue;
            };
            let hidden = blind
                .iter()
                .any(|folder| crate::wiki::is_below(&one.path, folder));
            if !hidden && matches!(wiki.stat(&path), Ok(None)) {
                jobs.push(Job::for_page(path, None));
            }
        }
        enqueue(&mut jobs, HANDFUL)?;
    }
    enqueue(&mut jobs, 1)?;
    Ok(total)
}

/// Whether any store was given the page.
fn is_known(parts: &Parts, path: &PagePath) -> Result<bool, Failure> {
    for store in StoreName::ALL {
        if parts.receipts.get(store, path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether git ignores the page and does not hold it: it wakes nobody, and the scan takes it along.
fn is_left_to_scan(
    parts: &Parts,
    path: &PagePath,
    ignored: &dyn Fn(&str) -> bool,
) -> Result<bool, Failure> {
    if !ignored(path.as_str()) {
        return Ok(false);
    }
    let held = parts.receipts.get(StoreName::Git, path)?;
    Ok(held.is_none_or(|held| held.mark.is_none()))
}

/// Returns the pages that were in a folder, by what is remembered.
///
/// # Errors
/// When the state is away.
pub(super) fn pages_below(
    parts: &Parts,
    folder: &str,
    each: &mut dyn FnMut(PagePath),
) -> Result<(), Failure> {
    let mut after = format!("{folder}/");
    loop {
        let known = parts.receipts.known_after(&after, CHUNK)?;
        for one in &known {
            if !crate::wiki::is_below(&one.path, folder) {
                return Ok(());
            }
            if let Ok(path) = PagePath::parse(&one.path) {
                each(path);
            }
        }
        match known.last() {
            Some(last) => after.clone_from(&last.path),
            None => return Ok(()),
        }
    }
}
