//! Pages are read, changed by the pure rules, and written back if nobody changed them meanwhile.
//!
//! Redis keeps each entry as an opaque text; a change is one run of `commit.lua`, which compares the texts it was made
//! from and does all of it or nothing. So no rule is written twice, once in Rust and once in Lua, and a change may be
//! sent again when its answer was lost.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::keys::Key;
use super::letters::{Letter, mark};
use super::link::{Link, wrong_type};
use super::{RedisOutbox, letters};
use crate::model::{Failure, FailureKind, Labels};
use crate::outbox::entry::{Entry, State};

/// How often a change is made anew because its pages were changed meanwhile. Each time somebody else got on.
const MOST_ROUNDS: u32 = 1000;

/// An entry as text, without its path, which is the field.
#[derive(Serialize, Deserialize)]
struct EntryText {
    id: i64,
    state: State,
    sha: String,
    repo: String,
    commit_sha: String,
    attempts: u32,
    version: String,
    recoveries: u32,
    reason: String,
    held_for: Option<String>,
    enqueued_at: i64,
    due_at: Option<i64>,
}

/// A claimed entry as text.
#[derive(Serialize, Deserialize)]
struct LentText {
    job: EntryText,
    token: i64,
    until: i64,
    worker: String,
    since: i64,
}

/// A claimed entry. Times are the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) entry: Entry,
    pub(super) token: i64,
    pub(super) until: i64,
    pub(super) worker: String,
    pub(super) since: i64,
}

/// What stands in a field.
pub(super) trait Text: Sized {
    fn read(path: &str, text: &[u8]) -> Option<Self>;
    fn write(&self) -> Vec<u8>;
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers always serialise")
}

impl EntryText {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id,
            state: entry.state,
            sha: entry.sha.clone(),
            repo: entry.labels.repo.clone(),
            commit_sha: entry.labels.commit_sha.clone(),
            attempts: entry.attempts,
            version: entry.version.clone(),
            recoveries: entry.recoveries,
            reason: entry.reason.clone(),
            held_for: entry.held_for.clone(),
            enqueued_at: entry.enqueued_at,
            due_at: entry.due_at,
        }
    }

    fn entry(self, path: &str) -> Entry {
        Entry {
            id: self.id,
            path: path.to_owned(),
            state: self.state,
            sha: self.sha,
            labels: Labels {
                repo: self.repo,
                commit_sha: self.commit_sha,
            },
            attempts: self.attempts,
            version: self.version,
            recoveries: self.recoveries,
            reason: self.reason,
            held_for: self.held_for,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
        }
    }
}

impl Text for Entry {
    fn read(path: &str, text: &[u8]) -> Option<Self> {
        let text: EntryText = serde_json::from_slice(text).ok()?;
        Some(text.entry(path))
    }

    fn write(&self) -> Vec<u8> {
        json(&EntryText::of(self))
    }
}

impl Text for Lent {
    fn read(path: &str, text: &[u8]) -> Option<Self> {
        let text: LentText = serde_json::from_slice(text).ok()?;
        Some(Self {
            entry: text.job.entry(path),
            token: text.token,
            until: text.until,
            worker: text.worker,
            since: text.since,
        })
    }

    fn write(&self) -> Vec<u8> {
        json(&LentText {
            job: EntryText::of(&self.entry),
            token: self.token,
            until: self.until,
            worker: self.worker.clone(),
            since: self.since,
        })
    }
}

impl Text for Letter {
    fn read(_path: &str, text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    fn write(&self) -> Vec<u8> {
        self.text()
    }
}

/// A field: the text that was read, and what it is to hold.
#[derive(Debug)]
pub(super) struct Slot<T> {
    text: Option<Vec<u8>>,
    pub(super) now: Option<T>,
}

impl<T: Text> Slot<T> {
    /// Reads a field. One that cannot be read holds nothing, and its text goes to `damaged`.
    fn of(path: &str, text: Option<Vec<u8>>, damaged: &mut Vec<Vec<u8>>) -> Self {
        let now = text.as_deref().and_then(|text| T::read(path, text));
        if let (Some(text), None) = (&text, &now) {
            damaged.push(text.clone());
        }
        Self { text, now }
    }
}

/// Where a waiting entry stands: the order, what it is called there, its score.
pub(super) type Stand = (Key, Vec<u8>, String);

/// Returns what an entry is called in the orders: equal scores are ordered by it, so the number goes first.
pub(super) fn member(id: i64, path: &str) -> Vec<u8> {
    format!("{id:016x}{path}").into_bytes()
}

/// Returns the path of what stands in an order.
pub(super) fn path_of(member: &[u8]) -> Option<&str> {
    str::from_utf8(member.get(16..)?).ok()
}

fn stand(waiting: Option<&Entry>, is_in_flight: bool) -> Option<Stand> {
    let entry = waiting.filter(|_| !is_in_flight)?;
    let key = match entry.state {
        State::Ready | State::InFlight => Key::Ready,
        State::Delayed => Key::Delayed,
        State::Held => match entry.held_for.as_deref().map(str::parse) {
            Some(Ok(store)) => Key::held_for(store),
            // A store of a newer program: released with all others.
            Some(Err(_)) | None => Key::HeldGit,
        },
    };
    let score = entry
        .due_at
        .map_or_else(|| "+inf".to_owned(), |due| due.to_string());
    Some((key, member(entry.id, &entry.path), score))
}

/// All that is known of one page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) waiting: Slot<Entry>,
    pub(super) in_flight: Slot<Lent>,
    pub(super) letter: Slot<Letter>,
    /// The letter's line is on the list already.
    pub(super) line_is_there: bool,
    stood: Option<Stand>,
    old_line: Option<String>,
    damaged: Vec<Vec<u8>>,
}

impl Page {
    fn of(path: String, [waiting, in_flight, letter]: [Option<Vec<u8>>; 3]) -> Self {
        let mut damaged = Vec::new();
        let waiting = Slot::of(&path, waiting, &mut damaged);
        let in_flight = Slot::of(&path, in_flight, &mut damaged);
        // Of a letter that cannot be read the line is still there.
        let letter: Slot<Letter> = Slot::of(&path, letter, &mut Vec::new());
        let stood = stand(waiting.now.as_ref(), in_flight.now.is_some());
        let old_line = letter.now.as_ref().map(|letter| letter.line.clone());
        Self {
            path,
            waiting,
            in_flight,
            letter,
            line_is_there: false,
            stood,
            old_line,
            damaged,
        }
    }

    /// Returns where its waiting entry stands now.
    pub(super) fn stands(&self) -> Option<Stand> {
        stand(self.waiting.now.as_ref(), self.in_flight.now.is_some())
    }

    /// Puts an entry back among the waiting, joined with the one that is there; says whether there was one.
    pub(super) fn put_back(&mut self, entry: Entry) -> bool {
        let newer = self.waiting.now.take();
        let merged = newer.is_some();
        self.waiting.now = Some(entry.join_any(newer));
        merged
    }
}

/// A command of a change.
#[derive(Debug)]
struct Command {
    name: &'static str,
    key: Key,
    arguments: Vec<Vec<u8>>,
}

/// A condition of a change.
#[derive(Debug)]
struct Condition {
    what: &'static str,
    key: Key,
    field: Vec<u8>,
    value: Vec<u8>,
}

/// Numbers that nobody had before.
#[derive(Debug)]
pub(super) struct Numbers {
    next_job: i64,
    next_letter: i64,
}

impl Numbers {
    /// Returns a number for a job or a token.
    pub(super) fn job(&mut self) -> i64 {
        self.next_job += 1;
        self.next_job - 1
    }

    fn letter(&mut self) -> i64 {
        self.next_letter += 1;
        self.next_letter - 1
    }
}

/// Pages under change.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) pages: Vec<Page>,
    places: HashMap<String, usize>,
    pub(super) numbers: Numbers,
    conditions: Vec<Condition>,
    /// What is added goes before what is taken away, so that nothing is ever in neither place.
    adds: Vec<Command>,
    takes: Vec<Command>,
}

/// What a change needs of the server's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It runs when memory is full, too: it gives back as much as it takes, or soon more.
    Any,
    /// Not when memory is full.
    Needed,
}

impl Batch {
    /// Returns the page of this path, which must be one that was read.
    pub(super) fn page(&mut self, path: &str) -> Option<&mut Page> {
        let &place = self.places.get(path)?;
        self.pages.get_mut(place)
    }

    /// Returns a number for a dead letter.
    pub(super) fn letter_id(&mut self) -> i64 {
        self.numbers.letter()
    }

    /// Demands that the line at this index is still this one; of a longer one than `text` its size and beginning.
    pub(super) fn expect_line(&mut self, index: usize, size: usize, text: &[u8]) {
        let is_whole = size == text.len();
        let value = if is_whole {
            text.to_vec()
        } else {
            [format!("{size}:").as_bytes(), text].concat()
        };
        self.conditions.push(Condition {
            what: if is_whole { "line" } else { "size" },
            key: Key::List,
            field: index.to_string().into_bytes(),
            value,
        });
    }

    /// Takes the list's first line away: it is a job now.
    pub(super) fn take_first_line(&mut self) {
        self.take("LPOP", Key::List, vec![]);
    }

    /// Moves the list's first line among the dead letters.
    pub(super) fn bury_first_line(&mut self) {
        let place = Key::DeadList.place().to_string().into_bytes();
        self.take("LMOVE", Key::List, vec![place]);
    }

    /// Keeps a raw line that is no job.
    pub(super) fn bury(&mut self, raw: &[u8], reason: &str, now: i64) {
        let id = self.letter_id();
        self.add("RPUSH", Key::DeadList, vec![raw.to_vec()]);
        self.note_junk(&Letter::of_junk(id, mark(raw.len(), raw), reason, now));
    }

    /// Writes down how a line that names no page died.
    pub(super) fn note_junk(&mut self, letter: &Letter) {
        let id = letter.id.to_string().into_bytes();
        self.add("HSET", Key::Junk, vec![id, letter.text()]);
    }

    /// Forgets what was written down of a line that names no page.
    pub(super) fn forget_junk(&mut self, id: i64) {
        self.take("HDEL", Key::Junk, vec![id.to_string().into_bytes()]);
    }

    /// Takes a raw line away from the dead letters.
    pub(super) fn take_line_away(&mut self, raw: Vec<u8>) {
        self.take("LREM", Key::DeadList, vec![b"1".to_vec(), raw]);
    }

    /// Takes away what stands in an order without being there.
    pub(super) fn forget_member(&mut self, key: Key, member: Vec<u8>) {
        self.take("ZREM", key, vec![member]);
    }

    /// Puts a page's waiting entry into its order once more.
    pub(super) fn stand_again(&mut self, stand: Stand) {
        let (key, member, score) = stand;
        self.add("ZADD", key, vec![score.into_bytes(), member]);
    }

    /// Says how many fields of the pages could not be read.
    pub(super) fn damaged(&self) -> usize {
        self.pages.iter().map(|page| page.damaged.len()).sum()
    }

    fn add(&mut self, name: &'static str, key: Key, arguments: Vec<Vec<u8>>) {
        self.adds.push(Command {
            name,
            key,
            arguments,
        });
    }

    fn take(&mut self, name: &'static str, key: Key, arguments: Vec<Vec<u8>>) {
        self.takes.push(Command {
            name,
            key,
            arguments,
        });
    }

    /// Writes down what became of the pages.
    fn write_pages(&mut self, now: i64) {
        for page in std::mem::take(&mut self.pages) {
            let path = page.path.clone().into_bytes();
            let stands = page.stands();
            for raw in &page.damaged {
                let reason = format!(
                    "what the outbox held of page {:?} cannot be read",
                    page.path
                );
                self.bury(raw, &reason, now);
            }
            if stands != page.stood {
                let stays = match (&stands, &page.stood) {
                    (Some((to, member, _)), Some((from, old, _))) => to == from && member == old,
                    _ => false,
                };
                if let Some(stand) = stands {
                    self.stand_again(stand);
                }
                if let Some((key, member, _)) = page.stood.filter(|_| !stays) {
                    self.forget_member(key, member);
                }
            }
            let old_line = page.old_line;
            if let Some(letter) = &page.letter.now
                && old_line.as_ref() != Some(&letter.line)
                && !page.line_is_there
            {
                self.add(
                    "RPUSH",
                    Key::DeadList,
                    vec![letter.line.clone().into_bytes()],
                );
            }
            if let Some(line) = old_line
                && page.letter.now.as_ref().is_none_or(|now| now.line != line)
            {
                self.take_line_away(line.into_bytes());
            }
            let changed = [
                self.write_field(Key::InFlight, &path, &page.in_flight),
                self.write_field(Key::Waiting, &path, &page.waiting),
                self.write_field(Key::Letters, &path, &page.letter),
            ];
            // What it was decided by, too.
            if changed.contains(&true) {
                self.demand(Key::InFlight, &path, page.in_flight.text);
                self.demand(Key::Waiting, &path, page.waiting.text);
            }
            if changed[2] {
                self.demand(Key::Letters, &path, page.letter.text);
            }
        }
    }

    fn write_field<T: Text>(&mut self, key: Key, path: &[u8], slot: &Slot<T>) -> bool {
        let now = slot.now.as_ref().map(Text::write);
        if now == slot.text {
            return false;
        }
        match now {
            Some(text) => self.add("HSET", key, vec![path.to_vec(), text]),
            None => self.take("HDEL", key, vec![path.to_vec()]),
        }
        true
    }

    /// Demands that a page's field still holds this.
    fn demand(&mut self, key: Key, path: &[u8], text: Option<Vec<u8>>) {
        self.conditions.push(Condition {
            what: "field",
            key,
            field: path.to_vec(),
            value: text.unwrap_or_default(),
        });
    }

    /// Returns the words of the change after those that every change has.
    fn words(&self) -> Vec<Vec<u8>> {
        let number = |n: usize| n.to_string().into_bytes();
        let mut words = vec![number(self.conditions.len())];
        for condition in &self.conditions {
            words.push(condition.what.into());
            words.push(number(condition.key.place()));
            words.push(condition.field.clone());
            words.push(condition.value.clone());
        }
        for command in self.adds.iter().chain(&self.takes) {
            words.push(number(command.arguments.len()));
            words.push(command.name.into());
            words.push(number(command.key.place()));
            words.extend(command.arguments.iter().cloned());
        }
        words
    }
}

impl RedisOutbox {
    /// Reads the pages, lets `act` change them, and writes them back in one step; anew as long as somebody else was
    /// faster. `numbers` says how many numbers it may take: for jobs and tokens, for dead letters.
    ///
    /// # Errors
    /// As the server's; `Busy` when somebody else was faster a thousand times.
    pub(super) fn transact<T>(
        &mut self,
        doing: &str,
        paths: &[String],
        numbers: (usize, usize),
        room: Room,
        mut act: impl FnMut(&mut Batch) -> T,
    ) -> Result<T, Failure> {
        for round in 0..MOST_ROUNDS {
            if let Some(value) = self.transact_once(doing, paths, numbers, room, &mut act)? {
                return Ok(value);
            }
            if round > 3 {
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        }
        Err(Failure::new(
            FailureKind::Busy,
            format!("{doing}: others change the same jobs all the time"),
        ))
    }

    /// As [`Self::transact`], but `None` when somebody else was faster.
    ///
    /// # Errors
    /// As the server's.
    pub(super) fn transact_once<T>(
        &mut self,
        doing: &str,
        paths: &[String],
        numbers: (usize, usize),
        room: Room,
        act: impl FnOnce(&mut Batch) -> T,
    ) -> Result<Option<T>, Failure> {
        let mut batch = self.read(doing, paths, numbers)?;
        let value = act(&mut batch);
        Ok(self.commit(doing, batch, room)?.then_some(value))
    }

    fn read(
        &mut self,
        doing: &str,
        paths: &[String],
        (jobs, letters): (usize, usize),
    ) -> Result<Batch, Failure> {
        let keys = self.link.keys.clone();
        let fields = [Key::Waiting, Key::InFlight, Key::Letters];
        let mut columns = Vec::new();
        if !paths.is_empty() {
            type Column = Vec<Option<Vec<u8>>>;
            let read: (Column, Column, Column, Option<Vec<u8>>) = self.link.ask(doing, |c| {
                let mut pipe = redis::pipe();
                for key in fields {
                    pipe.cmd("HMGET").arg(keys.name(key)).arg(paths);
                }
                // A change checks it, too; but what is read may make it none.
                pipe.cmd("GET").arg(keys.name(Key::Owner));
                Link::many(c, &pipe)
            })?;
            let (waiting, in_flight, letters, owner) = read;
            columns = vec![waiting, in_flight, letters];
            let is_ours = |mark: &Vec<u8>| {
                *mark == self.link.mark.as_bytes() || *mark == self.link.former_mark
            };
            if let Some(mark) = owner.filter(|mark| !is_ours(mark)) {
                return Err(self.link.other_owner(&mark));
            }
        }
        let mut columns = columns.into_iter().map(Vec::into_iter);
        let mut column = || columns.next().into_iter().flatten();
        let (waiting, in_flight, letter) = (column(), column(), column());
        let pages: Vec<Page> = paths
            .iter()
            .cloned()
            .zip(waiting.zip(in_flight).zip(letter))
            .map(|(path, ((waiting, in_flight), letter))| {
                Page::of(path, [waiting, in_flight, letter])
            })
            .collect();
        let damaged: usize = pages.iter().map(|page| page.damaged.len()).sum();
        // After the pages were read: so a token is greater than any that a page had before.
        let numbers = self.numbers(doing, jobs, letters + damaged)?;
        let places = pages
            .iter()
            .enumerate()
            .map(|(place, page)| (page.path.clone(), place))
            .collect();
        Ok(Batch {
            pages,
            places,
            numbers,
            conditions: Vec::new(),
            adds: Vec::new(),
            takes: Vec::new(),
        })
    }

    fn numbers(&mut self, doing: &str, jobs: usize, letters: usize) -> Result<Numbers, Failure> {
        let (mut next_job, mut next_letter) = (0, 0);
        if jobs + letters > 0 {
            let name = self.link.keys.name(Key::Last).to_owned();
            let script = &self.scripts.reserve;
            (next_job, next_letter) = self.link.ask(doing, |c| {
                Link::run(c, script, |cmd| {
                    cmd.arg(1).arg(&name).arg(jobs).arg(letters);
                })
            })?;
        }
        Ok(Numbers {
            next_job,
            next_letter,
        })
    }

    /// Writes a batch back; says whether it was, or somebody changed its pages meanwhile.
    fn commit(&mut self, doing: &str, mut batch: Batch, room: Room) -> Result<bool, Failure> {
        batch.write_pages(self.judged_at);
        if batch.adds.is_empty() && batch.takes.is_empty() {
            return Ok(true);
        }
        self.sent += 1;
        let number = self.sent;
        let words = batch.words();
        let script = match room {
            Room::Any => &self.scripts.commit,
            Room::Needed => &self.scripts.commit_with_room,
        };
        let (mark, former) = (self.link.mark.clone(), self.link.former_mark.clone());
        let names = self.link.keys.all().to_vec();
        let answer: Vec<Vec<u8>> = self.link.ask(doing, |c| {
            Link::run(c, script, |cmd| {
                cmd.arg(names.len()).arg(&names);
                cmd.arg(&mark).arg(&former).arg(number);
                for key in Key::ALL {
                    cmd.arg(key.kind());
                }
                cmd.arg(&words);
            })
        })?;
        let text = |at: usize| String::from_utf8_lossy(answer.get(at).map_or(b"", Vec::as_slice));
        match &*text(0) {
            "done" => Ok(true),
            "changed" => Ok(false),
            "owner" => {
                let mark = answer.get(1).cloned().unwrap_or_default();
                Err(self.link.other_owner(&mark))
            }
            "type" => Err(wrong_type(&text(1), &text(2))),
            other => Err(Failure::new(
                FailureKind::Down,
                format!("{doing}: redis answered {other:?}"),
            )),
        }
    }
}

const _: () = assert!(letters::HEAD == 4096, "commit.lua and peek.lua say so too");
