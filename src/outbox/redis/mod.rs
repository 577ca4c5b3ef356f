//! The outbox in Redis, 7 or later.
//!
//! Producers write lines to one list (`RPUSH`) and know nothing else. A claim first reads lines from the list's head,
//! in one step turns them into entries of their pages (or dead letters) and takes them away, then leases what is due.
//! One entry per page waits, and one may be in a worker's hands, as in SQLite, and by the same rules. `keys.rs` lists
//! what is kept; `pages.rs` says how it is changed.
//!
//! There is no state between the list and the entries, and none between waiting and leased: whoever is killed, or whose
//! answer is lost, leaves either the one or the other. A lease stands in the entry itself, so the two cannot part.

mod adopt;
mod change;
mod claim;
mod error;
mod examine;
mod keys;
mod letters;
mod lines;
mod link;
mod list;
mod owner;
mod pages;
mod recover;
mod server;
mod settings;
mod settle;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use std::collections::HashSet;
use std::time::Duration;

pub use examine::examine;
pub(super) use link::check_url;
pub use owner::Owner;
pub use settings::{Clock, RedisSettings};

use self::change::{Batch, Room};
use self::keys::Key;
use self::link::{Link, Script};
use self::settings::Offset;
use super::entry::Entry;
use super::story::{Step, Story};
use super::{
    Claimed, Claims, Counts, DeadLetter, Enqueued, Junk, LONGEST_WAIT, Outbox, OutboxError,
    Pending, Recovered, Settle, Settled, Which,
};
use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};

/// Jobs handled in one step: the server does nothing else meanwhile.
const PIECE: usize = 100;

/// Lines of dead letters that one step may go past, looking for those that it takes away.
const LINES_PASSED: usize = 200_000;

/// Fields of a hash, with what stands in them.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The scripts, with their digests.
#[derive(Debug)]
struct Scripts {
    commit: Script,
    commit_with_room: Script,
    peek: Script,
    reserve: Script,
}

/// The outbox in Redis.
#[derive(Debug)]
pub struct RedisOutbox {
    link: Link,
    scripts: Scripts,
    clock: Clock,
    /// For how long a job is put off at most.
    longest_wait: Duration,
    /// The number of the last change sent.
    sent: u64,
    /// The server's time of the call under way.
    judged_at: i64,
    /// Lines read by a claim that failed after it: the next one tells them.
    untold: Claims,
    /// Lines that the last change read, or did not: its answer was lost.
    unsure: Option<Claims>,
    /// A line was too long to be looked at in the usual time.
    looks_long: bool,
    /// How far the server's clock was ahead at the last call that brought a time.
    ahead: Offset,
}

impl RedisOutbox {
    /// Makes an outbox of its settings; the server is not asked before the first call.
    ///
    /// # Errors
    /// `Refused` when a setting cannot be used.
    pub fn open(settings: RedisSettings) -> Result<Self, OutboxError> {
        let commit = include_str!("lua/commit.lua");
        Ok(Self {
            clock: settings.clock,
            longest_wait: settings.longest_wait.min(LONGEST_WAIT),
            link: Link::new(settings)?,
            scripts: Scripts {
                commit: Script::new(format!("#!lua flags=allow-oom\n{commit}")),
                commit_with_room: Script::new(format!("#!lua\n{commit}")),
                peek: Script::new(include_str!("lua/peek.lua").into()),
                reserve: Script::new(include_str!("lua/reserve.lua").into()),
            },
            sent: 0,
            judged_at: 0,
            untold: Claims::default(),
            unsure: None,
            looks_long: false,
            ahead: Offset(0),
        })
    }

    /// Begins a call that brings a time: asks the server's clock, where that judges.
    fn offset(&mut self, doing: &str, now: Timestamp) -> Result<Offset, Failure> {
        self.link.begin();
        self.ahead = match self.clock {
            Clock::Caller => Offset(0),
            Clock::Server => Offset(self.server_time(doing)?.0 - now.0),
        };
        self.judged_at = self.ahead.server(now).0;
        Ok(self.ahead)
    }

    /// Begins a call that brings none. Its times are told as the last call's that did; before such a one by the
    /// server's clock.
    fn last_offset(&mut self, doing: &str) -> Result<Offset, Failure> {
        self.link.begin();
        if self.clock == Clock::Server {
            self.judged_at = self.server_time(doing)?.0;
        }
        Ok(self.ahead)
    }

    fn server_time(&mut self, doing: &str) -> Result<Timestamp, Failure> {
        let (seconds, micros): (i64, i64) =
            self.link.ask(doing, |c| redis::cmd("TIME").query(c))?;
        Ok(Timestamp(seconds * 1000 + micros / 1000))
    }

    /// Reads a whole hash, piece by piece. A field that is written meanwhile may come twice or not at all.
    fn scan(
        &mut self,
        doing: &str,
        key: Key,
        mut each: impl FnMut(Vec<u8>, Vec<u8>),
    ) -> Result<(), Failure> {
        let name = self.link.keys.name(key).to_owned();
        let mut cursor: u64 = 0;
        loop {
            let (next, fields): (u64, Fields) = self.link.ask(doing, |c| {
                redis::cmd("HSCAN")
                    .arg(&name)
                    .arg(cursor)
                    .arg("COUNT")
                    .arg(500)
                    .query(c)
            })?;
            for (field, value) in fields {
                each(field, value);
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

impl Outbox for RedisOutbox {
    fn enqueue(&mut self, jobs: &[Job], now: Timestamp) -> Result<Enqueued, OutboxError> {
        let doing = "cannot enqueue";
        let mut done = Enqueued::default();
        if jobs.is_empty() {
            return Ok(done);
        }
        let now = self.offset(doing, now)?.server(now);
        for some in jobs.chunks(PIECE) {
            let paths = distinct(some.iter().map(|job| job.path.as_str()));
            let fresh = (paths.len(), 0);
            let (piece, story) = self.transact(doing, &paths, fresh, Room::Needed, |batch| {
                let mut done = Enqueued::default();
                let mut story = Story::begin();
                for job in some {
                    if enter(batch, job, now, &mut story) {
                        done.merged += 1;
                    } else {
                        done.new += 1;
                    }
                }
                (done, story)
            })?;
            story.tell();
            done.new += piece.new;
            done.merged += piece.merged;
            fail::fail_point!("outbox.enqueued");
        }
        Ok(done)
    }

    fn claim(
        &mut self,
        max: usize,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Claims, OutboxError> {
        if max == 0 {
            return Ok(Claims::default());
        }
        let now = self.offset("cannot claim jobs", now)?.server(now);
        self.make_sure("cannot claim jobs")?;
        let mut claims = std::mem::take(&mut self.untold);
        match self.claim_into(&mut claims, max, lease, now) {
            // What was claimed already must not be left in nobody's hands.
            Err(failure) if claims.jobs.is_empty() => {
                self.untold = claims;
                Err(failure)
            }
            Ok(()) | Err(_) => {
                fail::fail_point!("outbox.claimed");
                Ok(claims)
            }
        }
    }

    fn settle(
        &mut self,
        claims: &[(Claimed, Settle)],
        now: Timestamp,
    ) -> Result<Settled, OutboxError> {
        let mut settled = Settled::default();
        if claims.is_empty() {
            return Ok(settled);
        }
        fail::fail_point!("outbox.before_settle");
        let doing = "cannot settle jobs";
        let offset = self.offset(doing, now)?;
        let [lines, ..] = self.dead_sizes(doing)?;
        let most_lines = (LINES_PASSED / lines.max(1)).max(1);
        let mut rest = claims;
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(PIECE)];
            let (piece, done) = self.settle_some(some, most_lines, offset, now)?;
            rest = &rest[done..];
            settled.refused += piece.refused;
            settled.merged += piece.merged;
            fail::fail_point!("outbox.settled");
        }
        Ok(settled)
    }

    fn extend(
        &mut self,
        claims: &[Claimed],
        lease: Duration,
        now: Timestamp,
    ) -> Result<u64, OutboxError> {
        let doing = "cannot extend leases";
        if claims.is_empty() {
            return Ok(0);
        }
        let until = self
            .offset(doing, now)?
            .server(now)
            .plus(lease.min(LONGEST_WAIT));
        let mut lost = 0;
        for some in claims.chunks(PIECE) {
            let paths = distinct(some.iter().map(|claim| claim.job.path.as_str()));
            lost += self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                let mut lost = 0;
                for claim in some {
                    let page = batch.page(claim.job.path.as_str());
                    let lent = page.and_then(|page| page.in_flight.now.as_mut());
                    match lent.filter(|lent| lent.is(claim)) {
                        Some(lent) => lent.until = until.0,
                        None => lost += 1,
                    }
                }
                lost
            })?;
        }
        Ok(lost)
    }

    fn recover(&mut self, all: bool, now: Timestamp) -> Result<Recovered, OutboxError> {
        let now = self.offset("cannot recover jobs", now)?.server(now);
        let taken = self.take_back(all, now)?;
        self.heal()?;
        self.heal_dead("cannot check the dead letters")?;
        fail::fail_point!("outbox.recovered");
        Ok(taken)
    }

    fn release(&mut self, store: Option<StoreName>, now: Timestamp) -> Result<u64, OutboxError> {
        let now = self.offset("cannot release held jobs", now)?.server(now);
        let mut released = 0;
        for held_for in StoreName::ALL {
            if store.is_none_or(|store| store == held_for) {
                released += self.release_one(Key::held_for(held_for), now)?;
            }
        }
        Ok(released)
    }

    fn bury(&mut self, junk: &Junk, now: Timestamp) -> Result<(), OutboxError> {
        let doing = "cannot keep a line that is no job";
        let now = self.offset(doing, now)?.server(now);
        let story = self.transact(doing, &[], (0, 1), Room::Needed, |batch| {
            let mut story = Story::begin();
            let letter = batch.bury(&junk.raw, &junk.reason, now.0);
            story.note(|| Step::buried(letter, &junk.reason));
            story
        })?;
        story.tell();
        Ok(())
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, OutboxError> {
        let doing = "cannot read the outbox";
        self.link.begin();
        let keys = self.link.keys.clone();
        let first: Vec<Vec<(Vec<u8>, f64)>> = self.link.ask(doing, |c| {
            let mut pipe = redis::pipe();
            for key in Key::LATER {
                pipe.cmd("ZRANGE")
                    .arg(keys.name(key))
                    .arg(0)
                    .arg(0)
                    .arg("WITHSCORES");
            }
            Link::many(c, &pipe)
        })?;
        let due = first.into_iter().flatten().map(|(_, score)| score);
        let earliest = due.filter(|score| score.is_finite()).reduce(f64::min);
        Ok(earliest.map(|score| self.ahead.told(ms(score))))
    }

    fn notes(&self) -> Vec<String> {
        self.link.notes().to_vec()
    }

    fn counts(&mut self, now: Timestamp) -> Result<Counts, OutboxError> {
        let doing = "cannot count the outbox";
        let now = self.offset(doing, now)?.server(now);
        let latest = now.plus(self.longest_wait);
        let keys = self.link.keys.clone();
        let n: [u64; 8] = self.link.ask(doing, |c| {
            let mut pipe = redis::pipe();
            for (command, key) in [
                ("LLEN", Key::List),
                ("HLEN", Key::Waiting),
                ("HLEN", Key::InFlight),
                ("ZCARD", Key::HeldGraph),
                ("ZCARD", Key::HeldVectors),
                ("ZCARD", Key::HeldGit),
                ("LLEN", Key::DeadList),
            ] {
                pipe.cmd(command).arg(keys.name(key));
            }
            pipe.cmd("ZCOUNT").arg(keys.name(Key::Delayed));
            pipe.arg(format!("({}", now.0)).arg(latest.0);
            Link::at_once(c, &pipe)
        })?;
        let [
            unread,
            entries,
            in_flight,
            graph,
            vectors,
            git,
            dead,
            delayed,
        ] = n;
        let held = graph + vectors + git;
        Ok(Counts {
            waiting: unread + entries.saturating_sub(held + delayed),
            unread,
            delayed,
            in_flight,
            held,
            dead,
        })
    }

    fn pending(&mut self, limit: usize) -> Result<Vec<Pending>, OutboxError> {
        self.list_pending(limit)
    }

    fn dead(&mut self) -> Result<Vec<DeadLetter>, OutboxError> {
        self.letters()
    }

    fn dead_of(&mut self, paths: &[PagePath]) -> Result<Vec<DeadLetter>, OutboxError> {
        self.letters_of(paths)
    }

    fn dead_line(&mut self, id: i64) -> Result<Option<Vec<u8>>, OutboxError> {
        self.letter_line(id)
    }

    fn retry_dead(&mut self, which: &Which, now: Timestamp) -> Result<u64, OutboxError> {
        self.put_back_letters(which, now)
    }

    fn drop_dead(&mut self, which: &Which) -> Result<u64, OutboxError> {
        self.drop_letters(which)
    }
}

/// Lets a job in and says whether it was swallowed by the one that waits.
fn enter(batch: &mut Batch, job: &Job, now: Timestamp, story: &mut Story) -> bool {
    let Batch { pages, numbers, .. } = batch;
    let page = pages.iter_mut().find(|page| page.path == job.path.as_str());
    let page = page.expect("the pages of all jobs were read");
    if let Some(waiting) = &mut page.waiting.now {
        waiting.swallow(job, now);
        story.note(|| Step::of("announced again", waiting));
        return true;
    }
    let entry = Entry::fresh(numbers.job(), job, now);
    story.note(|| Step::of("enqueued", &entry));
    page.waiting.now = Some(entry);
    false
}

/// Returns the texts, each once, in their order.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts
        .filter(|text| seen.insert(*text))
        .map(str::to_owned)
        .collect()
}

/// Returns a score as milliseconds: they are whole, and far below where a double is not.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn ms(score: f64) -> i64 {
    score as i64
}
