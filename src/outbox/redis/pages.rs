//! Pages are read, changed by the pure rules, and written back if nobody changed them meanwhile.
//!
//! Redis keeps each entry as an opaque text; a change is one run of `commit.lua`, which compares the texts it was made
//! from and does all of it or nothing. So no rule is written twice, once in Rust and once in Lua, and a change may be
//! sent again when its answer was lost.

use super::RedisOutbox;
use super::change::{Batch, Numbers, Room};
use super::keys::Key;
use super::letters::Letter;
use super::link::Link;
use super::text::{Lent, Text};
use crate::model::{Failure, FailureKind};
use crate::outbox::entry::{Entry, State};
use crate::outbox::story::{Step, Story};

/// How often a change is made anew because its pages were changed meanwhile. Each time somebody else got on.
const MOST_ROUNDS: u32 = 1000;

/// A field: the text that was read, and what it is to hold.
#[derive(Debug)]
pub(super) struct Slot<T> {
    pub(super) text: Option<Vec<u8>>,
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

/// Says whether an entry stands there, under that name.
pub(super) fn is_at(stands: Option<&Stand>, key: Key, member: &[u8]) -> bool {
    stands.is_some_and(|(at, called, _)| *at == key && called == member)
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
    pub(super) stood: Option<Stand>,
    pub(super) old_line: Option<String>,
    pub(super) damaged: Vec<Vec<u8>>,
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
    pub(super) fn put_back(&mut self, entry: Entry, story: &mut Story) -> bool {
        let newer = self.waiting.now.take();
        if let Some(newer) = &newer {
            story.note(|| Step::merged(newer.id, entry.id, &entry.path));
        }
        let merged = newer.is_some();
        self.waiting.now = Some(entry.join_any(newer));
        merged
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
        Ok(Batch::of(pages, numbers))
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
        Ok(Numbers::from(next_job, next_letter))
    }

    /// Writes a batch back; says whether it was, or somebody changed its pages meanwhile.
    fn commit(&mut self, doing: &str, mut batch: Batch, room: Room) -> Result<bool, Failure> {
        batch.write_pages(self.judged_at);
        if batch.is_empty() {
            return Ok(true);
        }
        self.make_sure(doing)?;
        self.sent += 1;
        let number = self.sent;
        let words = batch.words();
        let script = match room {
            Room::Any => &self.scripts.commit,
            Room::Needed => &self.scripts.commit_with_room,
        };
        let (mark, former) = (self.link.mark.clone(), self.link.former_mark.clone());
        let names = self.link.keys.all().to_vec();
        let is_long = batch.has_long_line() && self.looks_long;
        let answer: Result<Vec<Vec<u8>>, Failure> =
            self.link.ask_about_lines(doing, is_long, |c| {
                Link::run(c, script, |cmd| {
                    cmd.arg(names.len()).arg(&names);
                    cmd.arg(&mark).arg(&former).arg(number);
                    for key in Key::ALL {
                        cmd.arg(key.kind());
                    }
                    cmd.arg(&words);
                })
            });
        self.looks_long |= batch.has_long_line() && self.link.was_late;
        let answer = answer?;
        let text = |at: usize| String::from_utf8_lossy(answer.get(at).map_or(b"", Vec::as_slice));
        match &*text(0) {
            "done" => Ok(true),
            "changed" => Ok(false),
            "owner" => {
                let mark = answer.get(1).cloned().unwrap_or_default();
                Err(self.link.other_owner(&mark))
            }
            "type" => Err(self.link.keys.wrong_type(&text(1), &text(2))),
            other => Err(Failure::new(
                FailureKind::Down,
                format!("{doing}: redis answered {other:?}"),
            )),
        }
    }
}
