//! Dead letters: raw lines on the wire's list, and beside them how each died.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::change::{Batch, Room};
use super::keys::Key;
use super::link::Link;
use super::settings::Offset;
use super::{PIECE, RedisOutbox};
use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};
use crate::outbox::entry::Entry;
use crate::outbox::{DeadLetter, Death, Which, clip};

/// How much of a line is looked at to tell it from others, beside its length.
pub(super) const HEAD: usize = 4096;

/// How a letter died. Times are the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Letter {
    pub(super) id: i64,
    /// The raw line of a page's letter; of a line that named no page only its [`mark`] is kept here.
    pub(super) line: String,
    pub(super) store: Option<String>,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) version: String,
    pub(super) fingerprint: String,
    pub(super) dead_at: i64,
}

/// Returns what a line is known by without keeping it twice: its length and a digest of its beginning.
pub(super) fn mark(size: usize, head: &[u8]) -> String {
    use sha1::Digest as _;
    use std::fmt::Write as _;
    let mut mark = format!("{size}:");
    for byte in sha1::Sha1::digest(&head[..head.len().min(HEAD)]) {
        write!(mark, "{byte:02x}").expect("writing to a string cannot fail");
    }
    mark
}

impl Letter {
    /// Lays a job to rest.
    pub(super) fn of_job(id: i64, entry: &Entry, death: &Death, now: i64) -> Self {
        Self {
            id,
            line: entry.line(death.attempts),
            store: death.store.map(|store| store.as_str().to_owned()),
            reason: clip(&death.reason).to_owned(),
            attempts: death.attempts,
            version: death.version.clone(),
            fingerprint: death.fingerprint.clone(),
            dead_at: now,
        }
    }

    /// Keeps a line that is no job.
    pub(super) fn of_junk(id: i64, mark: String, reason: &str, now: i64) -> Self {
        Self {
            id,
            line: mark,
            store: None,
            reason: clip(reason).to_owned(),
            attempts: 0,
            version: String::new(),
            fingerprint: String::new(),
            dead_at: now,
        }
    }

    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers always serialise")
    }

    fn told(self, path: Option<PagePath>, raw: Vec<u8>, offset: Offset) -> DeadLetter {
        DeadLetter {
            id: self.id,
            path,
            death: Death {
                store: self.store.and_then(|name| name.parse::<StoreName>().ok()),
                reason: self.reason,
                attempts: self.attempts,
                version: self.version,
                fingerprint: self.fingerprint,
            },
            dead_at: offset.told(self.dead_at),
            raw,
        }
    }
}

/// Why a line is a letter that another program laid on the list.
const FOREIGN: &str = "laid among the dead letters by another program";

/// What came of a line that another program laid there.
enum Adopted {
    Letter(Letter),
    /// Its page has a letter.
    NotNeeded,
}

/// All that is known of the dead letters.
#[derive(Default)]
struct Lain {
    /// Letters of pages.
    pages: BTreeMap<String, Letter>,
    /// Lines that name no page, with the number they are kept under.
    junk: Vec<(Letter, Vec<u8>)>,
}

impl RedisOutbox {
    /// Returns the letters, oldest first.
    pub(super) fn letters(&mut self) -> Result<Vec<DeadLetter>, Failure> {
        let doing = "cannot list the dead letters";
        let offset = self.last_offset(doing)?;
        let lain = self.lain(doing)?;
        let pages = lain.pages.into_iter().map(|(path, letter)| {
            let raw = letter.line.clone().into_bytes();
            letter.told(PagePath::parse(&path).ok(), raw, offset)
        });
        let junk = lain
            .junk
            .into_iter()
            .map(|(letter, raw)| letter.told(None, raw, offset));
        let mut letters: Vec<_> = pages.chain(junk).collect();
        letters.sort_by_key(|letter| letter.id);
        Ok(letters)
    }

    /// Reads the list and what stands beside it, and brings them together: a line that another program laid there
    /// gets its letter, a letter whose line somebody took away goes.
    fn lain(&mut self, doing: &str) -> Result<Lain, Failure> {
        let mut pages: BTreeMap<String, Letter> = BTreeMap::new();
        let mut junk: HashMap<String, Vec<Letter>> = HashMap::new();
        self.scan(doing, Key::Letters, |path, text| {
            if let (Ok(path), Ok(letter)) = (
                String::from_utf8(path),
                serde_json::from_slice::<Letter>(&text),
            ) {
                pages.insert(path, letter);
            }
        })?;
        let mut seen = HashSet::new();
        self.scan(doing, Key::Junk, |_, text| {
            if let Ok(letter) = serde_json::from_slice::<Letter>(&text)
                && seen.insert(letter.id)
            {
                junk.entry(letter.line.clone()).or_default().push(letter);
            }
        })?;
        for letters in junk.values_mut() {
            letters.sort_by_key(|letter| -letter.id);
        }
        let mut lines_of_pages: HashMap<&str, &str> = HashMap::new();
        for (path, letter) in &pages {
            lines_of_pages.insert(&letter.line, path);
        }
        let mut whole: HashSet<String> = HashSet::new();
        let mut lain = Lain::default();
        let (mut foreign, mut twice) = (Vec::new(), Vec::new());
        let (lines, are_all) = self.raw_dead(doing)?;
        for raw in lines {
            let of_page = str::from_utf8(&raw)
                .ok()
                .and_then(|line| lines_of_pages.get(line));
            if let Some(&path) = of_page {
                if !whole.insert(path.to_owned()) {
                    twice.push(raw);
                }
                continue;
            }
            match junk.get_mut(&mark(raw.len(), &raw)).and_then(Vec::pop) {
                Some(letter) => lain.junk.push((letter, raw)),
                None => foreign.push(raw),
            }
        }
        let gone_pages: Vec<(String, i64)> = pages
            .iter()
            .filter(|(path, _)| !whole.contains(*path))
            .map(|(path, letter)| (path.clone(), letter.id))
            .collect();
        let gone_junk: Vec<Letter> = junk.into_values().flatten().collect();
        pages.retain(|path, _| whole.contains(path));
        lain.pages = pages;
        if !are_all {
            // What is missing may only have been missed; a later look will tell.
            return Ok(lain);
        }
        if !gone_pages.is_empty() || !gone_junk.is_empty() {
            self.forget_letters(doing, &gone_pages, &gone_junk)?;
        }
        self.adopt(doing, foreign, &mut lain, &mut twice)?;
        for some in twice.chunks(PIECE) {
            self.transact(doing, &[], (0, 0), Room::Any, |batch| {
                for raw in some {
                    batch.take_line_away(raw.clone());
                }
            })?;
        }
        Ok(lain)
    }

    /// Gives lines of other programs their letters. Of several lines of a page one stays.
    fn adopt(
        &mut self,
        doing: &str,
        foreign: Vec<Vec<u8>>,
        lain: &mut Lain,
        twice: &mut Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        let now = self.judged_at;
        let mut adopted = HashSet::new();
        for raw in foreign {
            if adopted.contains(&raw) {
                twice.push(raw);
                continue;
            }
            let job = str::from_utf8(&raw)
                .ok()
                .and_then(|line| Job::from_line(line).ok());
            let paths: Vec<String> = job.iter().map(|job| job.path.to_string()).collect();
            let letter = self.transact(doing, &paths, (0, 1), Room::Any, |batch| {
                let id = batch.letter_id();
                let mut letter = Letter::of_junk(id, mark(raw.len(), &raw), FOREIGN, now);
                let Some((job, page)) = job.as_ref().zip(batch.pages.first_mut()) else {
                    batch.note_junk(&letter);
                    return Some(Adopted::Letter(letter));
                };
                if let Some(known) = &page.letter.now {
                    // Laid since the letters were read; or the page has another one.
                    return (known.line.as_bytes() != raw).then_some(Adopted::NotNeeded);
                }
                letter.line = String::from_utf8_lossy(&raw).into_owned();
                letter.attempts = job.retry;
                page.letter.now = Some(letter.clone());
                page.line_is_there = true;
                Some(Adopted::Letter(letter))
            })?;
            match (letter, paths.first()) {
                (Some(Adopted::Letter(letter)), Some(path)) => {
                    lain.pages.insert(path.clone(), letter);
                    adopted.insert(raw);
                }
                (Some(Adopted::Letter(letter)), None) => lain.junk.push((letter, raw)),
                (Some(Adopted::NotNeeded), _) => twice.push(raw),
                (None, _) => {}
            }
        }
        Ok(())
    }

    fn forget_letters(
        &mut self,
        doing: &str,
        pages: &[(String, i64)],
        junk: &[Letter],
    ) -> Result<(), Failure> {
        for some in pages.chunks(PIECE) {
            let paths: Vec<String> = some.iter().map(|(path, _)| path.clone()).collect();
            self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                for (page, (_, id)) in batch.pages.iter_mut().zip(some) {
                    // Not one that was laid since.
                    page.letter.now.take_if(|letter| letter.id == *id);
                }
            })?;
        }
        for some in junk.chunks(PIECE) {
            self.transact(doing, &[], (0, 0), Room::Any, |batch| {
                for letter in some {
                    batch.forget_junk(letter.id);
                }
            })?;
        }
        Ok(())
    }

    /// Returns the lines, and whether they are all: a line that is taken away while they are read piece by piece moves
    /// those behind it, so that some may be missed.
    fn raw_dead(&mut self, doing: &str) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        const AT_ONCE: isize = 200;
        let name = self.link.keys.name(Key::DeadList).to_owned();
        let length = |link: &mut Link| -> Result<usize, Failure> {
            link.ask(doing, |c| redis::cmd("LLEN").arg(&name).query(c))
        };
        let before = length(&mut self.link)?;
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let some: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("LRANGE")
                    .arg(&name)
                    .arg(from)
                    .arg(from + AT_ONCE - 1)
                    .query(c)
            })?;
            if some.is_empty() {
                let still = length(&mut self.link)? == before && all.len() == before;
                return Ok((all, still));
            }
            from += AT_ONCE;
            all.extend(some);
        }
    }

    /// Puts letters of pages back as fresh jobs.
    pub(super) fn put_back_letters(
        &mut self,
        which: &Which,
        now: Timestamp,
    ) -> Result<u64, Failure> {
        let doing = "cannot retry dead letters";
        let offset = self.offset(doing, now)?;
        let now_there = offset.server(now);
        let lain = self.lain(doing)?;
        let mut meant: Vec<(i64, String)> = lain
            .pages
            .into_iter()
            .filter(|(_, letter)| which.means(letter.id))
            .map(|(path, letter)| (letter.id, path))
            .collect();
        meant.sort();
        let mut put_back = 0;
        for some in meant.chunks(PIECE) {
            let paths: Vec<String> = some.iter().map(|(_, path)| path.clone()).collect();
            put_back += self.transact(doing, &paths, (some.len(), 0), Room::Needed, |batch| {
                let Batch { pages, numbers, .. } = batch;
                let mut done = 0;
                for page in pages {
                    let Ok(path) = PagePath::parse(&page.path) else {
                        continue;
                    };
                    let Some(letter) = page.letter.now.take_if(|letter| which.means(letter.id))
                    else {
                        continue;
                    };
                    let told = Job::from_line(&letter.line).ok();
                    let mut job = told.unwrap_or_else(|| Job::for_page(path.clone(), None));
                    job.path = path;
                    job.retry = 0;
                    match &mut page.waiting.now {
                        Some(waiting) => waiting.swallow_dead(&job, now_there),
                        none => *none = Some(Entry::fresh(numbers.job(), &job, now_there)),
                    }
                    done += 1;
                }
                done
            })?;
        }
        Ok(put_back)
    }

    /// Drops letters for good.
    pub(super) fn drop_letters(&mut self, which: &Which) -> Result<u64, Failure> {
        let doing = "cannot drop dead letters";
        self.last_offset(doing)?;
        let lain = self.lain(doing)?;
        let pages: Vec<String> = lain
            .pages
            .into_iter()
            .filter(|(_, letter)| which.means(letter.id))
            .map(|(path, _)| path)
            .collect();
        let mut dropped = 0;
        for some in pages.chunks(PIECE) {
            dropped += self.transact(doing, some, (0, 0), Room::Any, |batch| {
                let letters = batch.pages.iter_mut();
                letters
                    .filter_map(|page| page.letter.now.take_if(|letter| which.means(letter.id)))
                    .count() as u64
            })?;
        }
        for (letter, raw) in lain.junk {
            if which.means(letter.id) {
                dropped += self.transact(doing, &[], (0, 0), Room::Any, |batch| {
                    batch.forget_junk(letter.id);
                    batch.take_line_away(raw.clone());
                    1
                })?;
            }
        }
        Ok(dropped)
    }
}

impl Which {
    fn means(&self, id: i64) -> bool {
        match self {
            Self::All => true,
            Self::Ids(ids) => ids.contains(&id),
        }
    }
}
