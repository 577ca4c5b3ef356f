//! A change of some pages: what must still hold for it, and what it does.

use std::collections::HashMap;

use super::keys::Key;
use super::letters::Letter;
use super::lines::Line;
use super::pages::{Page, Slot, Stand};
use super::text::Text;

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
    /// Makes a supply that begins at these.
    pub(super) fn from(next_job: i64, next_letter: i64) -> Self {
        Self {
            next_job,
            next_letter,
        }
    }

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
    /// Makes a batch of pages as they were read.
    pub(super) fn of(pages: Vec<Page>, numbers: Numbers) -> Self {
        let places = pages
            .iter()
            .enumerate()
            .map(|(place, page)| (page.path.clone(), place))
            .collect();
        Self {
            pages,
            places,
            numbers,
            conditions: Vec::new(),
            adds: Vec::new(),
            takes: Vec::new(),
        }
    }

    /// Says whether it does nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.takes.is_empty()
    }

    /// Says whether it demands a line of which only the beginning was read.
    pub(super) fn has_long_line(&self) -> bool {
        self.conditions.iter().any(|demand| demand.what == "size")
    }

    /// Returns the page of this path, which must be one that was read.
    pub(super) fn page(&mut self, path: &str) -> Option<&mut Page> {
        let &place = self.places.get(path)?;
        self.pages.get_mut(place)
    }

    /// Returns a number for a dead letter.
    pub(super) fn letter_id(&mut self) -> i64 {
        self.numbers.letter()
    }

    /// Demands that the line at this index is still this one; of a longer one than was read its size and beginning.
    pub(super) fn expect_line(&mut self, list: Key, index: usize, line: &Line) {
        let is_whole = line.size == line.text.len();
        let value = if is_whole {
            line.text.clone()
        } else {
            [format!("{}:", line.size).as_bytes(), &line.text].concat()
        };
        self.conditions.push(Condition {
            what: if is_whole { "line" } else { "size" },
            key: list,
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

    /// Keeps a raw line that is no job; returns its letter's number.
    pub(super) fn bury(&mut self, raw: &[u8], reason: &str, now: i64) -> i64 {
        let id = self.letter_id();
        self.add("RPUSH", Key::DeadList, vec![raw.to_vec()]);
        let line = Line {
            size: raw.len(),
            text: raw.to_vec(),
        };
        self.note_junk(&Letter::of_junk(id, &line, reason, now));
        id
    }

    /// Writes down how a line that names no page died.
    pub(super) fn note_junk(&mut self, letter: &Letter) {
        let id = letter.id.to_string().into_bytes();
        self.add("HSET", Key::Junk, vec![id, letter.write()]);
    }

    /// Forgets a field of a hash.
    pub(super) fn forget_field(&mut self, key: Key, field: Vec<u8>) {
        self.take("HDEL", key, vec![field]);
    }

    /// Takes a raw line away from the dead letters.
    pub(super) fn take_line_away(&mut self, raw: Vec<u8>) {
        self.take("LREM", Key::DeadList, vec![b"1".to_vec(), raw]);
    }

    /// Takes the dead letters' lines at these places away, which are all demanded; they need not be sent for it.
    pub(super) fn take_lines_away(&mut self, places: &[usize]) {
        if places.is_empty() {
            return;
        }
        // Nobody else's line is this.
        let gone = format!("\0taken away {}", uuid::Uuid::new_v4().simple()).into_bytes();
        for place in places {
            let place = place.to_string().into_bytes();
            self.take("LSET", Key::DeadList, vec![place, gone.clone()]);
        }
        self.take("LREM", Key::DeadList, vec![b"0".to_vec(), gone]);
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
    pub(super) fn write_pages(&mut self, now: i64) {
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
    pub(super) fn words(&self) -> Vec<Vec<u8>> {
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
