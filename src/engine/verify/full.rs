//! The full look: reads every store and compares it with what the pages make.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::judge::{Judge, Standing, is_exempt, standing};
use crate::engine::report::{DriftKind, Renewal, Skipped};
use crate::engine::scan::Cursor;
use crate::engine::verdict::ABSENT;
use crate::engine::{Parts, Progress};
use crate::model::{ContentSha, Failure, FailureKind, Page, PagePath, StoreName};
use crate::state::{Known, Receipts};
use crate::stores::{Deriver, Holding, Store};
use crate::wiki::{Entry, Reading, Wiki};

/// Pages that are held in memory at once, and bytes of them; a larger page is alone.
const PAGES: usize = 512;
const BYTES: usize = 8 << 20;
/// Threads that derive at most: what they derive is compared by one.
const THREADS: usize = 8;

/// What one store holds, as read from it.
struct Side {
    at: usize,
    name: StoreName,
    holdings: HashMap<String, String>,
    is_witnessed: bool,
    fingerprint: String,
    /// Its receipts speak of another store.
    is_replaced: bool,
    /// Where what it must hold can be told without it: by this one, of all.
    deriver: Option<usize>,
    /// The fingerprint of the first unchanged page that it holds as it was derived before, and how many there are.
    outdated: Option<(String, u64)>,
}

/// A page as it was read.
struct Seen {
    path: PagePath,
    content: Content,
    /// What stands for its content.
    version: String,
    known: Option<Known>,
}

/// What reading a page gave.
enum Content {
    Page(Box<Page>),
    /// It can never be applied as it is: the next drain makes it a dead letter.
    Bad,
    /// It could not be read now, so that nothing is known of what the stores should hold.
    Unknown,
}

pub(super) fn look(
    parts: &mut Parts,
    judge: &mut Judge<'_>,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let (sides, derivers) = read_stores(parts, judge, progress);
    let total = sides.iter().map(|side| side.holdings.len()).max();
    let total = total.unwrap_or_default() as u64;
    let Parts {
        wiki,
        receipts,
        stores,
        ..
    } = parts;
    let options = judge.options;
    let within = &options.within;
    let mut known = Cursor::new(receipts, within);
    let mut look = Comparison {
        stores,
        sides,
        derivers,
        judge,
        read: Vec::new(),
        bytes: 0,
    };
    wiki.walk_within(within, &mut |entry| {
        let path = match entry {
            Entry::Skipped(skipped) => {
                look.judge.skip(skipped);
                return Ok(());
            }
            Entry::Blind { folder, failure } => {
                look.judge.blinded(folder, failure);
                return Ok(());
            }
            Entry::Page { path, .. } => path,
        };
        while let Some(gone) = known.next_before(Some(path.as_str()))? {
            look.absent(&gone);
        }
        let known = known.take(path.as_str())?;
        look.judge.meet(path.as_str());
        // Gone since the walk, it is what is left in the stores.
        if let Some(seen) = read(wiki, receipts, path, known, look.judge)? {
            look.judge.report.pages += 1;
            let pages = look.judge.report.pages;
            progress.at("verifying", pages, total.max(pages));
            look.bytes += match &seen.content {
                Content::Page(page) => page.text.len(),
                Content::Bad | Content::Unknown => 0,
            };
            look.read.push(seen);
        }
        if look.read.len() >= PAGES || look.bytes >= BYTES {
            look.compare()?;
        }
        Ok(())
    })?;
    while let Some(gone) = known.next_before(None)? {
        look.absent(&gone);
    }
    look.compare()?;
    look.orphans()
}

/// Reads a page; `None` when it is gone.
fn read(
    wiki: &Wiki,
    receipts: &Receipts,
    path: PagePath,
    known: Option<Known>,
    judge: &mut Judge<'_>,
) -> Result<Option<Seen>, Failure> {
    let (content, version) = match wiki.read(&path) {
        Reading::Page { text, sha, .. } => {
            let page = Page::new(path.clone(), text, receipts.labels(&path)?);
            (Content::Page(Box::new(page)), sha.to_string())
        }
        Reading::Absent => return Ok(None),
        // It is being written, say.
        Reading::Bad { failure, version } if failure.kind != FailureKind::Rejected => {
            judge.unread(None, Some(&path), &failure);
            (Content::Unknown, version)
        }
        Reading::Bad { failure, version } => {
            judge.skip(Skipped {
                path: path.to_string(),
                reason: failure.reason,
            });
            (Content::Bad, version)
        }
    };
    Ok(Some(Seen {
        path,
        content,
        version,
        known,
    }))
}

/// Reads what the stores hold of the pages asked for; a store that cannot be read is noted.
fn read_stores(
    parts: &mut Parts,
    judge: &mut Judge<'_>,
    progress: &mut dyn Progress,
) -> (Vec<Side>, Vec<Deriver>) {
    let mut sides = Vec::new();
    let mut derivers = Vec::new();
    for at in 0..parts.stores.len() {
        let name = parts.stores[at].name();
        if !judge.options.includes(name) {
            continue;
        }
        let reading = match name {
            StoreName::Graph => "reading the graph",
            StoreName::Vectors => "reading the vectors",
            StoreName::Git => "reading HEAD",
        };
        progress.at(reading, 0, 0);
        let holdings = parts.stores[at].holdings(&judge.options.within);
        let read = holdings.and_then(|holdings| Ok((holdings, standing(parts, at, true)?)));
        if let Some([points, dense]) = parts.stores[at].tally().sections {
            judge.report.points = Some(points);
            judge.report.dense = Some(dense);
        }
        let (holdings, standing) = match read {
            Ok(read) => read,
            Err(failure) => {
                judge.unread(Some(name), None, &failure);
                continue;
            }
        };
        let is_replaced = standing == Standing::Replaced;
        if is_replaced {
            judge.report.replaced.push(name.as_str());
            if matches!(
                super::judge::standing(parts, at, false),
                Ok(Standing::Known)
            ) {
                judge.report.unnoticed.push(name.as_str());
            }
        }
        let holdings: HashMap<_, _> = holdings
            .into_iter()
            .map(|Holding { path, digest }| (path, digest))
            .collect();
        for path in holdings.keys() {
            judge.meet(path);
        }
        let store = &parts.stores[at];
        let deriver = store.deriver().map(|deriver| {
            derivers.push(deriver);
            derivers.len() - 1
        });
        sides.push(Side {
            at,
            name,
            holdings,
            is_witnessed: store.is_witnessed(),
            fingerprint: store.fingerprint(),
            is_replaced,
            deriver,
            outdated: None,
        });
    }
    (sides, derivers)
}

/// The pages read so far, and the stores they are compared with.
struct Comparison<'a, 'o> {
    stores: &'a mut [Box<dyn Store>],
    sides: Vec<Side>,
    derivers: Vec<Deriver>,
    judge: &'a mut Judge<'o>,
    read: Vec<Seen>,
    bytes: usize,
}

impl Comparison<'_, '_> {
    /// Compares the pages read with the stores.
    fn compare(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let read = std::mem::take(&mut self.read);
        let derived = derive(&read, &self.derivers);
        for (seen, derived) in read.into_iter().zip(derived) {
            for side in &mut self.sides {
                let held = side.holdings.remove(seen.path.as_str());
                let store = self.stores[side.at].as_mut();
                let page = match &seen.content {
                    Content::Page(page) => page,
                    Content::Bad => {
                        let kind = held.map_or(DriftKind::Missing, |_| DriftKind::Stale);
                        if store.exempt(&seen.path)?.is_none() {
                            self.judge
                                .differs(side.name, seen.path.as_str(), kind, &seen.version);
                        }
                        continue;
                    }
                    Content::Unknown => continue,
                };
                let expected = match side.deriver {
                    Some(deriver) => Ok(derived.get(deriver).cloned()),
                    None => store.expected(page),
                };
                let expected = match expected {
                    Ok(expected) => expected,
                    // One page under a filter, say: the others are judged all the same.
                    Err(failure) => {
                        self.judge
                            .unread(Some(side.name), Some(&seen.path), &failure);
                        continue;
                    }
                };
                if expected.is_none()
                    && let Some(why) = store.exempt(&seen.path)?
                {
                    self.judge.skip(Skipped {
                        path: seen.path.to_string(),
                        reason: format!("{} leaves it out: {why}", side.name),
                    });
                }
                let kind = match (&held, &expected) {
                    (None, None) => None,
                    (Some(held), Some(expected)) if held == expected => side
                        .is_belied(seen.known.as_ref(), held, page.sha)
                        .then_some(DriftKind::Unproven),
                    (Some(_), Some(_)) => Some(side.differing(seen.known.as_ref(), page.sha)),
                    (None, Some(_)) => Some(DriftKind::Missing),
                    (Some(_), None) => Some(DriftKind::Orphan),
                };
                if let Some(kind) = kind {
                    self.judge
                        .differs(side.name, seen.path.as_str(), kind, &seen.version);
                }
            }
        }
        Ok(())
    }

    /// Judges what is remembered of a page that is not on disk: a receipt of what a store does not hold would keep it from
    /// getting the page, should it come back.
    fn absent(&mut self, known: &Known) {
        let path = known.path.as_str();
        self.judge.meet(path);
        if self.judge.is_hidden(path) {
            return;
        }
        for side in &self.sides {
            let receipt = known.receipt(side.name);
            if receipt.is_some_and(|receipt| receipt.sha.is_some())
                && !side.is_witnessed
                && !side.is_replaced
                && !side.holdings.contains_key(path)
            {
                self.judge
                    .differs(side.name, path, DriftKind::Unproven, ABSENT);
            }
        }
    }

    /// Judges what is left in the stores after every page on disk was looked at.
    fn orphans(&mut self) -> Result<(), Failure> {
        for side in &mut self.sides {
            let store = self.stores[side.at].as_mut();
            if let Some((before, pages)) = side.outdated.take() {
                let renewal = Renewal::new(store, &before, pages);
                self.judge.report.renewals.push(renewal);
            }
            for path in std::mem::take(&mut side.holdings).into_keys() {
                if !self.judge.is_hidden(&path) && !is_exempt(store, &path)? {
                    self.judge
                        .differs(side.name, &path, DriftKind::Orphan, ABSENT);
                }
            }
        }
        Ok(())
    }
}

impl Side {
    /// Says how what it holds of a page differs: whether the receipt says that it was derived from this content before.
    fn differing(&mut self, known: Option<&Known>, sha: ContentSha) -> DriftKind {
        let receipt = known.and_then(|known| known.receipt(self.name));
        let outdated = receipt
            .filter(|_| !self.is_witnessed && !self.is_replaced)
            .filter(|receipt| receipt.sha == Some(sha) && receipt.fingerprint != self.fingerprint);
        let Some(receipt) = outdated else {
            return DriftKind::Stale;
        };
        let before = || (receipt.fingerprint.clone(), 0);
        self.outdated.get_or_insert_with(before).1 += 1;
        DriftKind::Outdated
    }

    /// Whether the receipt says something else of a page than the store, which holds it as it must. A voided receipt says
    /// nothing, nor does one of another fingerprint, and HEAD is its own judge: it may hold what somebody else committed.
    fn is_belied(&self, known: Option<&Known>, held: &str, sha: ContentSha) -> bool {
        if self.is_replaced {
            return false;
        }
        match known.and_then(|known| known.receipt(self.name)) {
            None => !self.is_witnessed,
            Some(receipt) => {
                receipt.fingerprint == self.fingerprint
                    && receipt.sha.is_some_and(|of| of != sha)
                    && (!self.is_witnessed || receipt.mark.as_deref() == Some(held))
            }
        }
    }
}

/// Derives from each page what the stores must hold of it, on as many cores as there are.
fn derive(pages: &[Seen], derivers: &[Deriver]) -> Vec<Vec<String>> {
    let of = |seen: &Seen| -> Vec<String> {
        match &seen.content {
            Content::Page(page) => derivers.iter().map(|derive| derive(page)).collect(),
            Content::Bad | Content::Unknown => Vec::new(),
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(THREADS).min(pages.len());
    let next = AtomicUsize::new(0);
    // Pages differ too much in length to be dealt out beforehand.
    let work = || {
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(seen) = pages.get(at)
        {
            done.push((at, of(seen)));
        }
        done
    };
    let mut all: Vec<Vec<String>> = vec![Vec::new(); pages.len()];
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = others.into_iter().flat_map(|other| {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        for (at, derived) in own.into_iter().chain(others) {
            all[at] = derived;
        }
    });
    all
}
