//! The scan: finds whatever nobody announced.
//!
//! Three sorted sequences are merged by path: the files on disk, what is remembered of them (stat, receipts),
//! and what the witnessed stores hold (HEAD's tree). A file is hashed only on doubt; nothing is kept per page,
//! so memory does not grow with the wiki (HEAD's list aside). The files are walked on another thread, see `ahead.rs`.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::thread;

use super::ahead::Ahead;
use super::report::{DriftKind, Renewal, Skipped};
use super::verdict::ABSENT;
use crate::model::{ContentSha, Failure, Job, PagePath, StoreName, Within};
use crate::outbox::DeadLetter;
use crate::state::{FileSeen, Known, Receipts};
use crate::stores::{Holding, Store, Witness};
use crate::wiki::{Entry, FileStat, Reading, Wiki, is_below};

/// More pages gone than this, and more than a fifth of all, looks like an accident.
pub(super) const MASS: u64 = 20;
/// How many remembered paths are read at a time.
const CHUNK: usize = 1_000;

/// Hears of a page that is not in sync, with the stores that owe it and what is wrong with it there.
pub type Found<'f> = dyn FnMut(Job, &[(StoreName, DriftKind)]) -> Result<(), Failure> + 'f;

/// Hears of a page that is not in sync, with the content seen and what is wrong with it in which store.
pub(super) type Heard<'f> =
    dyn FnMut(PagePath, Option<ContentSha>, &[(StoreName, DriftKind)]) -> Result<(), Failure> + 'f;

/// How a scan looks.
pub(super) struct Look<'a> {
    /// The pages it looks at.
    pub(super) within: &'a Within,
    /// The stores it judges, and those of them that were found to hold nothing, whatever the receipts say.
    pub(super) stores: Vec<(StoreName, bool)>,
    /// It must change nothing: not even finish what a killed process left.
    pub(super) only: bool,
}

/// What a scan found, beside the jobs it handed on.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Pages in the folder.
    pub pages: u64,
    /// Things that look like pages and are none.
    pub skipped: Vec<Skipped>,
    /// Folders that could not be read: nothing is known of what is in them.
    pub blind: Vec<String>,
    /// Whether so many pages are gone at once that it looks like an accident.
    pub accident: Option<Accident>,
    /// Files that were hashed and found as remembered: their new stat, to be noted.
    pub seen_again: Vec<(PagePath, FileSeen)>,
    /// Witnessed stores that could not be asked; their pages are not judged.
    pub unasked: Vec<(StoreName, Failure)>,
    /// Unchanged pages that a store is to get anew, and why.
    pub renewals: Vec<Renewal>,
}

/// Pages gone from disk that HEAD still holds, too many to be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accident {
    /// Pages gone.
    pub gone: u64,
    /// Pages there were.
    pub of: u64,
}

/// What the scan looks at.
pub struct Scan<'a> {
    /// The pages.
    pub wiki: &'a Wiki,
    /// What is remembered.
    pub receipts: &'a Receipts,
    /// The stores.
    pub stores: &'a mut [Box<dyn Store>],
    /// The dead letters, which rest.
    pub dead: &'a [DeadLetter],
    /// Pages that this drain has removed already: they count among those gone.
    pub removed: u64,
}

/// A store's part in the merge.
struct Side {
    at: usize,
    name: StoreName,
    fingerprint: String,
    /// What the store itself says, where it is the judge; `None` where the receipt is.
    holds: Option<VecDeque<(PagePath, String)>>,
    /// It is the judge and could not be asked.
    unasked: bool,
    /// It was found to hold nothing.
    empty: bool,
    /// It is not enough to know that it owes the page: what is wrong is told to people.
    exactly: bool,
    /// The fingerprint of the first unchanged page that it held otherwise, and how many there are.
    outdated: Option<(String, u64)>,
}

impl Scan<'_> {
    /// Walks the pages and hands a job to `found`, with the stores that owe it, for each page that some store does not hold
    /// as it is, or holds although it is gone. A store for which the page's dead letter rests owes nothing of it.
    ///
    /// # Errors
    /// When the folder or the receipts cannot be read, or `found` fails.
    pub fn run(
        &mut self,
        found: &mut Found<'_>,
        looked: &mut dyn FnMut(u64),
    ) -> Result<Findings, Failure> {
        let stores = self.stores.iter().map(|store| (store.name(), false));
        let look = Look {
            within: &Within::everything(),
            stores: stores.collect(),
            only: false,
        };
        let heard: &mut Heard<'_> = &mut |path, sha, owes| found(Job::for_page(path, sha), owes);
        let (mut findings, gone) = self.look(&look, heard, looked)?;
        findings.accident = self.judge_gone(gone, findings.pages)?;
        Ok(findings)
    }

    /// Looks as [`Scan::run`] does, at a part or with other eyes, and judges no accident. Returns also how many pages
    /// are gone.
    ///
    /// # Errors
    /// As [`Scan::run`].
    pub(super) fn look(
        &mut self,
        look: &Look<'_>,
        found: &mut Heard<'_>,
        looked: &mut dyn FnMut(u64),
    ) -> Result<(Findings, u64), Failure> {
        let wiki = self.wiki;
        // A moment before HEAD is read: what changes in between shows as a difference, which the visit judges anew.
        thread::scope(|scope| {
            let entries = Ahead::begin(scope, wiki, look.within);
            self.compare(look, entries, found, looked)
        })
    }

    /// Compares what a walk meets with what is remembered and held.
    fn compare(
        &mut self,
        look: &Look<'_>,
        mut entries: Ahead<'_>,
        found: &mut Heard<'_>,
        looked: &mut dyn FnMut(u64),
    ) -> Result<(Findings, u64), Failure> {
        let mut findings = Findings::default();
        let sides = self.ask_stores(look, &mut findings);
        let mut letters: BTreeMap<&str, &DeadLetter> = BTreeMap::new();
        for letter in self.dead {
            if let Some(path) = &letter.path
                && self.wiki.is_page(path.as_str())
                && look.within.contains(path.as_str())
            {
                letters.insert(path.as_str(), letter);
            }
        }
        let mut merge = Merge {
            wiki: self.wiki,
            // Asked for only where a letter is to be compared with it: git reads its index for it.
            fingerprint: if letters.is_empty() {
                String::new()
            } else {
                combined_fingerprint(self.stores)
            },
            stores: self.stores,
            known: Cursor::new(self.receipts, look.within),
            sides,
            letters,
            exactly: look.only,
            gone: 0,
            found,
            findings,
        };
        for entry in entries.by_ref() {
            match entry {
                Entry::Skipped(skipped) => merge.findings.skipped.push(skipped),
                Entry::Blind { folder, failure } => {
                    merge.findings.skipped.push(Skipped {
                        path: folder.clone(),
                        reason: failure.reason,
                    });
                    merge.findings.blind.push(folder);
                }
                Entry::Page { path, stat } => {
                    merge.findings.pages += 1;
                    looked(merge.findings.pages);
                    merge.absent_before(Some(path.as_str()))?;
                    merge.present(path, stat)?;
                }
            }
        }
        entries.end()?;
        merge.absent_before(None)?;
        let Merge {
            gone,
            mut findings,
            sides,
            ..
        } = merge;
        for Side { at, outdated, .. } in sides {
            let store = self.stores[at].as_ref();
            findings
                .renewals
                .extend(outdated.map(|(before, pages)| Renewal::new(store, &before, pages)));
        }
        Ok((findings, gone))
    }

    fn ask_stores(&mut self, look: &Look<'_>, findings: &mut Findings) -> Vec<Side> {
        let mut sides = Vec::new();
        for (at, store) in self.stores.iter_mut().enumerate() {
            let name = store.name();
            let Some(&(_, empty)) = look.stores.iter().find(|(judged, _)| *judged == name) else {
                continue;
            };
            let asked = if store.is_witnessed() && look.only {
                let holdings = store.holdings(look.within);
                holdings.map(|holdings| Some(witness(holdings)))
            } else {
                store.witness()
            };
            let (holds, unasked) = match asked {
                Ok(holds) => (holds.map(VecDeque::from), false),
                Err(failure) => {
                    findings.unasked.push((name, failure));
                    (None, true)
                }
            };
            sides.push(Side {
                at,
                name,
                fingerprint: store.fingerprint(),
                holds,
                unasked,
                empty,
                exactly: look.only,
                outdated: None,
            });
        }
        sides
    }

    /// Decides whether the pages gone look like an accident. Pages whose content reappears elsewhere have moved.
    fn judge_gone(&self, gone: u64, pages: u64) -> Result<Option<Accident>, Failure> {
        let gone = gone + self.removed;
        let of = pages + gone;
        let mass = |gone: u64| gone > MASS && gone * 5 > of;
        if pages == 0 && gone > self.removed {
            return Ok(Some(Accident { gone, of }));
        }
        if !mass(gone) {
            return Ok(None);
        }
        // A second walk, in this rare case only: the contents of pages never seen before.
        let mut new = HashSet::new();
        self.wiki.walk(&mut |entry| {
            if let Entry::Page { path, .. } = entry
                && self.receipts.file(&path)?.is_none()
                && let Reading::Page { sha, .. } = self.wiki.read(&path)
            {
                new.insert(sha);
            }
            Ok(())
        })?;
        let mut moved = 0;
        let everything = Within::everything();
        let mut known = Cursor::new(self.receipts, &everything);
        while let Some(path) = known.peek()?.map(str::to_owned) {
            let remembered = known.take(&path)?;
            if let (Some(seen), Ok(path)) = (
                remembered.and_then(|known| known.file),
                PagePath::parse(&path),
            ) && new.contains(&seen.sha)
                && matches!(self.wiki.stat(&path), Ok(None))
            {
                moved += 1;
            }
        }
        let gone = gone.saturating_sub(moved);
        Ok(mass(gone).then_some(Accident { gone, of }))
    }
}

/// The merge under way: each sequence stands at its next path.
struct Merge<'a, 'f> {
    wiki: &'a Wiki,
    stores: &'a mut [Box<dyn Store>],
    known: Cursor<'a>,
    sides: Vec<Side>,
    letters: BTreeMap<&'a str, &'a DeadLetter>,
    fingerprint: String,
    /// As [`Side::exactly`]: receipts of stores that are not judged do not count.
    exactly: bool,
    /// Pages that HEAD (or, without one, any store) still holds and that are not on disk.
    gone: u64,
    found: &'a mut Heard<'f>,
    findings: Findings,
}

impl Merge<'_, '_> {
    /// Takes everything that sorts before a page on disk: it is remembered or held, and not on disk.
    fn absent_before(&mut self, page: Option<&str>) -> Result<(), Failure> {
        while let Some(path) = next_path(&mut self.known, &self.sides, &self.letters, page)? {
            let remembered = self.known.take(&path)?;
            let head = self.sides.iter_mut().find_map(|side| side.take(&path));
            let letter = self.letters.remove(path.as_str());
            let mut blind = self.findings.blind.iter();
            if blind.any(|folder| is_below(&path, folder)) {
                continue;
            }
            let Ok(path) = PagePath::parse(&path) else {
                continue;
            };
            let mut owed = self.remembered_by(remembered.as_ref(), head.is_some());
            let given = !owed.is_empty();
            // Held by HEAD and rightly not on disk: outside a sparse checkout.
            let held = head.is_some() && !is_exempt(self.stores, &path)?;
            let judged = self.sides.iter().any(|side| side.holds.is_some());
            if held || (given && !judged && self.wiki.is_page(path.as_str())) {
                self.gone += 1;
            }
            if held {
                // The store's own word goes before what is remembered of it.
                owed.retain(|(store, _)| *store != StoreName::Git);
                owed.push((StoreName::Git, DriftKind::Orphan));
            }
            let owes = match letter {
                Some(letter) if letter.is_about(ABSENT, &self.fingerprint) => {
                    owed.retain(|(store, _)| !letter.stands_for(*store));
                    !owed.is_empty()
                }
                // A page that was bad and is gone: a visit supersedes its letter.
                Some(_) => true,
                None => held || given,
            };
            if owes {
                (self.found)(path, None, &owed)?;
            }
        }
        Ok(())
    }

    /// Which stores hold by their receipts what is not on disk, or may hold it. `in_head`: a witnessed one says so itself.
    fn remembered_by(&self, known: Option<&Known>, in_head: bool) -> Vec<(StoreName, DriftKind)> {
        let mut owed = Vec::new();
        for (store, receipt) in known.iter().flat_map(|known| &known.receipts) {
            let side = self.sides.iter().find(|side| side.name == *store);
            let is_witnessed = side.is_some_and(|side| side.holds.is_some());
            if self.exactly && (side.is_none_or(|side| side.empty) || (in_head && is_witnessed)) {
                continue;
            }
            owed.push(match receipt.sha {
                Some(_) if !is_witnessed => (*store, DriftKind::Orphan),
                Some(_) | None => (*store, DriftKind::Unproven),
            });
        }
        owed
    }

    fn present(&mut self, path: PagePath, stat: FileStat) -> Result<(), Failure> {
        let remembered = self.known.take(path.as_str())?;
        let mut present = Present {
            wiki: self.wiki,
            path: &path,
            stat,
            seen: remembered.as_ref().and_then(|known| known.file),
            version: None,
        };
        let mut owed = Vec::new();
        for side in &mut self.sides {
            let head = side.take(path.as_str());
            let store = self.stores[side.at].as_mut();
            let kind = side.owes(store, remembered.as_ref(), head.as_deref(), &mut present)?;
            owed.extend(kind.map(|kind| (side.name, kind)));
        }
        let mut owes = !owed.is_empty();
        if let Some(letter) = self.letters.remove(path.as_str()) {
            // It rests only as long as nothing has changed; else a visit supersedes it.
            if letter.is_about(&present.version(), &self.fingerprint) {
                owed.retain(|(store, _)| !letter.stands_for(*store));
                owes = !owed.is_empty();
            } else {
                owes = true;
            }
        }
        if owes {
            let sha = present.known_sha();
            (self.found)(path, sha, &owed)?;
        } else if let Some(seen) = present.seen_again() {
            self.findings.seen_again.push((path, seen));
        }
        Ok(())
    }
}

impl Side {
    fn take(&mut self, path: &str) -> Option<String> {
        let holds = self.holds.as_mut()?;
        if holds
            .front()
            .is_some_and(|(front, _)| front.as_str() == path)
        {
            holds.pop_front().map(|(_, mark)| mark)
        } else {
            None
        }
    }

    /// Says what is wrong when the store does not hold the page as it is on disk, or no receipt says that it does.
    fn owes(
        &mut self,
        store: &mut dyn Store,
        known: Option<&Known>,
        head: Option<&str>,
        present: &mut Present<'_>,
    ) -> Result<Option<DriftKind>, Failure> {
        if self.unasked {
            return Ok(None);
        }
        if self.empty {
            return Ok(Some(DriftKind::Missing));
        }
        let is_witnessed = self.holds.is_some();
        // Asked only where it matters: git looks through its index and its rules for it.
        if self.exactly && is_witnessed && head.is_none() && store.exempt(present.path)?.is_none() {
            return Ok(Some(DriftKind::Missing));
        }
        let Some(receipt) = known.and_then(|known| known.receipt(self.name)) else {
            // A store that is no judge itself was never given it.
            return Ok(Some(if is_witnessed {
                DriftKind::Unproven
            } else {
                DriftKind::Missing
            }));
        };
        let Some(sha) = receipt.sha else {
            return Ok(Some(DriftKind::Unproven));
        };
        if receipt.fingerprint != self.fingerprint {
            // Git's blobs may be the same however they are made.
            if is_witnessed {
                return Ok(Some(DriftKind::Unproven));
            }
            if present.version() != sha.to_string() {
                return Ok(Some(DriftKind::Stale));
            }
            let before = || (receipt.fingerprint.clone(), 0);
            self.outdated.get_or_insert_with(before).1 += 1;
            return Ok(Some(DriftKind::Outdated));
        }
        if is_witnessed {
            let agrees = match (&receipt.mark, head) {
                (Some(mark), Some(head)) => mark == head,
                (None, None) => store.exempt(present.path)?.is_some(),
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !agrees {
                // Where somebody else committed it, it may well be what is on disk.
                return Ok(Some(DriftKind::Unproven));
            }
        }
        Ok((present.version() != sha.to_string()).then_some(DriftKind::Stale))
    }
}

/// Returns what a store holds in the words of a witness.
fn witness(holdings: Vec<Holding>) -> Witness {
    let holdings = holdings.into_iter();
    holdings
        .filter_map(|Holding { path, digest }| Some((PagePath::parse(&path).ok()?, digest)))
        .collect()
}

/// A page on disk, hashed at most once and only on doubt.
struct Present<'a> {
    wiki: &'a Wiki,
    path: &'a PagePath,
    stat: FileStat,
    seen: Option<FileSeen>,
    /// The content as read now, with what was seen, where the stat did not prove it.
    version: Option<(String, Option<FileSeen>)>,
}

impl Present<'_> {
    /// Returns the SHA in hex, or what stands for content that cannot be read.
    fn version(&mut self) -> String {
        if let Some(seen) = self.seen
            && seen.proves(&self.stat)
        {
            return seen.sha.to_string();
        }
        if self.version.is_none() {
            self.version = Some(match self.wiki.read(self.path) {
                Reading::Page {
                    sha, stat, seen_at, ..
                } => (sha.to_string(), Some(FileSeen { stat, seen_at, sha })),
                Reading::Absent => (String::new(), None),
                Reading::Bad { version, .. } => (version, None),
            });
        }
        self.version
            .as_ref()
            .map(|(version, _)| version.clone())
            .unwrap_or_default()
    }

    fn known_sha(&self) -> Option<ContentSha> {
        match &self.version {
            Some((_, seen)) => seen.map(|seen| seen.sha),
            None => self
                .seen
                .filter(|seen| seen.proves(&self.stat))
                .map(|seen| seen.sha),
        }
    }

    /// Returns what was seen when the file had to be read although it had not changed.
    fn seen_again(&self) -> Option<FileSeen> {
        self.version.as_ref().and_then(|(_, seen)| *seen)
    }
}

/// The remembered paths in order, read in chunks.
pub(super) struct Cursor<'a> {
    receipts: &'a Receipts,
    chunk: VecDeque<Known>,
    /// What is still to be read: from, included, to, excluded.
    ranges: VecDeque<(String, String)>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(receipts: &'a Receipts, within: &Within) -> Self {
        Self {
            receipts,
            chunk: VecDeque::new(),
            ranges: within.ranges().into(),
        }
    }

    pub(super) fn peek(&mut self) -> Result<Option<&str>, Failure> {
        while self.chunk.is_empty()
            && let Some((from, to)) = self.ranges.front_mut()
        {
            self.chunk = self.receipts.known_between(from, to, CHUNK)?.into();
            match self.chunk.back() {
                // The path that comes right after it.
                Some(known) => *from = format!("{}\0", known.path),
                None => {
                    self.ranges.pop_front();
                }
            }
        }
        Ok(self.chunk.front().map(|known| known.path.as_str()))
    }

    /// Returns the next path with what is remembered of it, if it comes before `path`.
    pub(super) fn next_before(&mut self, path: Option<&str>) -> Result<Option<Known>, Failure> {
        let next = self.peek()?;
        let is_before = next.is_some_and(|next| path.is_none_or(|path| next < path));
        Ok(is_before.then(|| self.chunk.pop_front()).flatten())
    }

    pub(super) fn take(&mut self, path: &str) -> Result<Option<Known>, Failure> {
        if self.peek()? == Some(path) {
            Ok(self.chunk.pop_front())
        } else {
            Ok(None)
        }
    }
}

/// Returns the first path, below `before` where given, that is remembered, held or dead.
fn next_path(
    known: &mut Cursor<'_>,
    sides: &[Side],
    letters: &BTreeMap<&str, &DeadLetter>,
    before: Option<&str>,
) -> Result<Option<String>, Failure> {
    let mut first = known.peek()?;
    let held = sides.iter().filter_map(|side| side.holds.as_ref()?.front());
    let dead = letters.keys().next().copied();
    for path in held.map(|(path, _)| path.as_str()).chain(dead) {
        if first.is_none_or(|first| path < first) {
            first = Some(path);
        }
    }
    Ok(first
        .filter(|path| before.is_none_or(|before| *path < before))
        .map(str::to_owned))
}

fn is_exempt(stores: &mut [Box<dyn Store>], path: &PagePath) -> Result<bool, Failure> {
    for store in stores.iter_mut().filter(|store| store.is_witnessed()) {
        if store.exempt(path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns one text that changes when any store's fingerprint does: under it a dead letter rests.
#[must_use]
pub fn combined_fingerprint(stores: &[Box<dyn Store>]) -> String {
    let parts: Vec<_> = stores
        .iter()
        .map(|store| format!("{}={}", store.name(), store.fingerprint()))
        .collect();
    parts.join(" ")
}
