//! Reading producers' lines, leasing what is due, taking it back, and healing what somebody's hand broke.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::keys::Key;
use super::letters::{HEAD, Letter, mark};
use super::link::Link;
use super::pages::{Batch, Lent, Room, Text as _, path_of};
use super::{Clock, Offset, PIECE, RedisOutbox, claimed, distinct, enter, ms};
use crate::model::{Failure, FailureKind, Job, PagePath, Timestamp};
use crate::outbox::entry::{Entry, State};
use crate::outbox::{Claims, LONGEST_WAIT, Pending, Recovered, Standing, Worker};

/// The longest line that is read as a job: 1 MiB. A job is a path and a few labels.
const LONGEST_LINE: usize = 1 << 20;
/// Bytes of lines read in one step: the server copies them while it does nothing else.
const MOST_BYTES: usize = 4 << 20;

/// A line of the list, as much as is needed of it.
struct Line {
    size: usize,
    text: Vec<u8>,
}

impl Line {
    /// Reads it as a job, or says why it is none.
    fn job(&self) -> Result<Job, String> {
        if self.size > LONGEST_LINE {
            return Err(format!(
                "line is {} bytes long; a job's has at most {LONGEST_LINE}",
                self.size
            ));
        }
        let text = str::from_utf8(&self.text).map_err(|_| "line is not UTF-8".to_owned())?;
        Job::from_line(text).map_err(|e| Failure::from_error(FailureKind::Rejected, "", &e).reason)
    }
}

impl RedisOutbox {
    /// Reads lines and leases jobs until there are `max` or nothing more is due.
    pub(super) fn claim_into(
        &mut self,
        claims: &mut Claims,
        max: usize,
        lease: Duration,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let until = now.plus(lease.min(LONGEST_WAIT));
        while claims.jobs.len() < max {
            let most = (max - claims.jobs.len()).min(PIECE);
            let read = self.read_lines(claims, most, now)?;
            let due = self.due(most, now)?;
            if !due.is_empty() {
                self.lend(claims, &due, now, until)?;
            } else if read == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Turns the list's first lines into entries, or dead letters; returns how many there were. No more than may be
    /// claimed now: lines take less room than entries.
    fn read_lines(
        &mut self,
        claims: &mut Claims,
        most: usize,
        now: Timestamp,
    ) -> Result<usize, Failure> {
        let doing = "cannot read the list of jobs";
        loop {
            let lines = self.peek(doing, most)?;
            if lines.is_empty() {
                return Ok(0);
            }
            let jobs: Vec<Result<Job, String>> = lines.iter().map(Line::job).collect();
            let paths = distinct(jobs.iter().flatten().map(|job| job.path.as_str()));
            let junk = jobs.iter().filter(|job| job.is_err()).count();
            let entered = self.enter_lines(doing, (&lines, &jobs), &paths, junk, now)?;
            let Some((merged, buried)) = entered else {
                // Another worker, or a foreign consumer, took lines away.
                continue;
            };
            claims.read += lines.len() as u64;
            claims.merged += merged;
            claims.buried += buried;
            fail::fail_point!("outbox.read");
            return Ok(lines.len());
        }
    }

    fn peek(&mut self, doing: &str, most: usize) -> Result<Vec<Line>, Failure> {
        let name = self.link.keys.name(Key::List).to_owned();
        let script = &self.scripts.peek;
        let flat: Vec<(usize, Vec<u8>)> = self.link.ask(doing, |c| {
            Link::run(c, script, |cmd| {
                cmd.arg(1)
                    .arg(&name)
                    .arg(most)
                    .arg(LONGEST_LINE)
                    .arg(MOST_BYTES);
            })
        })?;
        Ok(flat
            .into_iter()
            .map(|(size, text)| Line { size, text })
            .collect())
    }

    fn enter_lines(
        &mut self,
        doing: &str,
        (lines, jobs): (&[Line], &[Result<Job, String>]),
        paths: &[String],
        junk: usize,
        now: Timestamp,
    ) -> Result<Option<(u64, u64)>, Failure> {
        self.transact_once(doing, paths, (paths.len(), junk), Room::Any, |batch| {
            let (mut merged, mut buried) = (0, 0);
            for (index, (line, job)) in lines.iter().zip(jobs).enumerate() {
                batch.expect_line(index, line.size, &line.text);
                match job {
                    Ok(job) => {
                        merged += u64::from(enter(batch, job, now));
                        batch.take_first_line();
                    }
                    Err(reason) => {
                        let id = batch.letter_id();
                        let head = &line.text[..line.text.len().min(HEAD)];
                        let mark = mark(line.size, head);
                        batch.note_junk(&Letter::of_junk(id, mark, reason, now.0));
                        batch.bury_first_line();
                        buried += 1;
                    }
                }
            }
            (merged, buried)
        })
    }

    /// Returns what may be claimed, oldest first: the order it stands in, and what it is called there.
    fn due(&mut self, most: usize, now: Timestamp) -> Result<Vec<(Key, Vec<u8>)>, Failure> {
        let keys = self.link.keys.clone();
        // Nobody may ask for a longer wait, so the clock was set back since.
        let beyond = format!("({}", now.plus(LONGEST_WAIT).0);
        let found: Vec<Vec<(Vec<u8>, f64)>> = self.link.ask("cannot claim jobs", |c| {
            let mut pipe = redis::pipe();
            pipe.cmd("ZRANGE")
                .arg(keys.name(Key::Ready))
                .arg(0)
                .arg(most - 1)
                .arg("WITHSCORES");
            for key in Key::LATER {
                for (from, to) in [("-inf", now.0.to_string()), (&beyond, "(+inf".to_owned())] {
                    pipe.cmd("ZRANGEBYSCORE")
                        .arg(keys.name(key))
                        .arg(from)
                        .arg(to);
                    pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(most);
                }
            }
            Link::many(c, &pipe)
        })?;
        let orders = std::iter::once(Key::Ready).chain(Key::LATER.into_iter().flat_map(|k| [k, k]));
        let mut due: Vec<(i64, Vec<u8>, Key)> = orders
            .zip(found)
            .flat_map(|(key, found)| {
                found
                    .into_iter()
                    .map(move |(member, score)| (ms(score), member, key))
            })
            .collect();
        due.sort();
        due.truncate(most);
        Ok(due
            .into_iter()
            .map(|(_, member, key)| (key, member))
            .collect())
    }

    /// Leases what is due, if it still is.
    fn lend(
        &mut self,
        claims: &mut Claims,
        due: &[(Key, Vec<u8>)],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(), Failure> {
        let paths = distinct(due.iter().filter_map(|(_, member)| path_of(member)));
        let numbers = (due.len(), due.len());
        let (lent, buried) =
            self.transact("cannot claim jobs", &paths, numbers, Room::Any, |batch| {
                let (mut lent, mut buried) = (Vec::new(), batch.damaged() as u64);
                for (key, member) in due {
                    match lend_one(batch, *key, member, now, until) {
                        Lend::Lent(claim) => lent.push(*claim),
                        Lend::Buried => buried += 1,
                        // A hand, or a program that is none of ours, left it behind.
                        Lend::Gone => batch.forget_member(*key, member.clone()),
                    }
                }
                (lent, buried)
            })?;
        claims.buried += buried;
        claims.jobs.extend(lent);
        Ok(())
    }

    /// Takes back what is in flight: all, or what has run out.
    pub(super) fn take_back(&mut self, all: bool, now: Timestamp) -> Result<Recovered, Failure> {
        let doing = "cannot recover jobs";
        let latest = now.plus(LONGEST_WAIT);
        let is_lost = |lent: &Lent| all || lent.until < now.0 || lent.until > latest.0;
        let mut lost = HashSet::new();
        self.scan(doing, Key::InFlight, |path, text| {
            if let Ok(path) = String::from_utf8(path)
                // One that cannot be read is buried by the change.
                && Lent::read(&path, &text).is_none_or(|lent| is_lost(&lent))
            {
                lost.insert(path);
            }
        })?;
        let mut lost: Vec<String> = lost.into_iter().collect();
        lost.sort();
        let mut taken = Recovered::default();
        for some in lost.chunks(PIECE) {
            let piece = self.transact(doing, some, (0, 0), Room::Any, |batch| {
                let mut taken = Recovered::default();
                for page in &mut batch.pages {
                    if let Some(mut lent) = page.in_flight.now.take_if(|lent| is_lost(lent)) {
                        lent.entry.recover();
                        taken.jobs += 1;
                        taken.merged += u64::from(page.put_back(lent.entry));
                    }
                }
                taken
            })?;
            taken.jobs += piece.jobs;
            taken.merged += piece.merged;
        }
        Ok(taken)
    }

    /// Makes what is held in this order claimable.
    pub(super) fn release_one(&mut self, key: Key, now: Timestamp) -> Result<u64, Failure> {
        let doing = "cannot release held jobs";
        let name = self.link.keys.name(key).to_owned();
        let mut left: usize = self
            .link
            .ask(doing, |c| redis::cmd("ZCARD").arg(&name).query(c))?;
        let mut released = 0;
        while left > 0 {
            let some: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("ZRANGE")
                    .arg(&name)
                    .arg(0)
                    .arg(PIECE.min(left) - 1)
                    .query(c)
            })?;
            if some.is_empty() {
                break;
            }
            left -= some.len();
            let paths = distinct(some.iter().filter_map(|member| path_of(member)));
            released += self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                let mut released = 0;
                for member in &some {
                    let page = path_of(member).and_then(|path| batch.page(path));
                    let stands = page.as_ref().and_then(|page| page.stands());
                    match page.and_then(|page| page.waiting.now.as_mut()) {
                        Some(entry) if is_at(stands.as_ref(), key, member) => {
                            entry.release(now);
                            released += 1;
                        }
                        Some(_) | None => batch.forget_member(key, member.clone()),
                    }
                }
                released
            })?;
        }
        Ok(released)
    }

    /// Makes sure that every waiting entry stands in its order, and nothing else does. That is so unless somebody's
    /// hand, or a restored part of the keys, broke it; what it costs does not grow while it is so.
    pub(super) fn heal(&mut self) -> Result<(), Failure> {
        let doing = "cannot check the outbox";
        let keys = self.link.keys.clone();
        let sizes: Vec<u64> = self.link.ask(doing, |c| {
            let mut pipe = redis::pipe();
            pipe.cmd("HLEN").arg(keys.name(Key::Waiting));
            pipe.cmd("HLEN").arg(keys.name(Key::InFlight));
            for key in Key::ORDERS {
                pipe.cmd("ZCARD").arg(keys.name(key));
            }
            Link::at_once(c, &pipe)
        })?;
        let [waiting, in_flight, orders @ ..] = sizes.as_slice() else {
            return Ok(());
        };
        let standing: u64 = orders.iter().sum();
        // The entries of pages in flight stand nowhere.
        if standing <= *waiting && waiting - standing <= *in_flight {
            return Ok(());
        }
        let mut paths = Vec::new();
        self.scan(doing, Key::Waiting, |path, _| {
            paths.extend(String::from_utf8(path).ok());
        })?;
        for some in paths.chunks(PIECE) {
            self.transact(doing, some, (0, 0), Room::Any, |batch| {
                let stands: Vec<_> = batch
                    .pages
                    .iter()
                    .filter_map(|page| page.stands())
                    .collect();
                for stand in stands {
                    batch.stand_again(stand);
                }
            })?;
        }
        for key in Key::ORDERS {
            self.forget_strangers(doing, key)?;
        }
        Ok(())
    }

    /// Takes away what stands in an order without an entry.
    fn forget_strangers(&mut self, doing: &str, key: Key) -> Result<(), Failure> {
        let name = self.link.keys.name(key).to_owned();
        let mut from = 0;
        loop {
            let some: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("ZRANGE")
                    .arg(&name)
                    .arg(from)
                    .arg(from + PIECE - 1)
                    .query(c)
            })?;
            if some.is_empty() {
                return Ok(());
            }
            let paths = distinct(some.iter().filter_map(|member| path_of(member)));
            let forgotten = self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                let mut forgotten = 0;
                for member in &some {
                    let page = path_of(member).and_then(|path| batch.page(path));
                    if !is_at(page.and_then(|page| page.stands()).as_ref(), key, member) {
                        batch.forget_member(key, member.clone());
                        forgotten += 1;
                    }
                }
                forgotten
            })?;
            from += some.len() - forgotten;
        }
    }

    /// Lists what is not done, oldest first.
    pub(super) fn list_pending(&mut self, limit: usize) -> Result<Vec<Pending>, Failure> {
        let doing = "cannot list the outbox";
        let now = Timestamp::now();
        let offset = match self.clock {
            Clock::Server => self.offset(doing, now)?,
            Clock::Caller => Offset(0),
        };
        let mut found: HashMap<(i64, bool), Pending> = HashMap::new();
        self.scan(doing, Key::Waiting, |path, text| {
            if let Some(entry) = read_entry::<Entry>(path, &text) {
                let standing = match entry.state {
                    State::Ready | State::InFlight => Standing::Waiting,
                    State::Delayed => Standing::Delayed,
                    State::Held => Standing::Held,
                };
                if let Some(pending) = pending(&entry, standing, offset) {
                    found.insert((entry.id, false), pending);
                }
            }
        })?;
        self.scan(doing, Key::InFlight, |path, text| {
            if let Some(lent) = read_entry::<Lent>(path, &text) {
                let standing = Standing::InFlight {
                    worker: lent.worker.parse().ok(),
                    since: offset.told(lent.since),
                };
                if let Some(pending) = pending(&lent.entry, standing, offset) {
                    found.insert((lent.entry.id, true), pending);
                }
            }
        })?;
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(id, _)| *id);
        let mut list: Vec<Pending> = found.into_iter().map(|(_, pending)| pending).collect();
        list.truncate(limit);
        self.list_lines(doing, &mut list, limit, now)?;
        Ok(list)
    }

    /// Adds the lines that nobody has read yet.
    fn list_lines(
        &mut self,
        doing: &str,
        list: &mut Vec<Pending>,
        limit: usize,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let name = self.link.keys.name(Key::List).to_owned();
        let mut from = 0;
        while list.len() < limit {
            let lines: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("LRANGE")
                    .arg(&name)
                    .arg(from)
                    .arg(from + PIECE - 1)
                    .query(c)
            })?;
            if lines.is_empty() {
                break;
            }
            from += lines.len();
            let jobs = lines
                .iter()
                .filter_map(|line| Job::from_line(str::from_utf8(line).ok()?).ok());
            list.extend(jobs.map(|job| Pending {
                path: job.path,
                standing: Standing::Waiting,
                held_for: None,
                reason: String::new(),
                attempts: job.retry,
                since: now,
            }));
        }
        list.truncate(limit);
        Ok(())
    }
}

fn read_entry<T: super::pages::Text>(path: Vec<u8>, text: &[u8]) -> Option<T> {
    T::read(&String::from_utf8(path).ok()?, text)
}

fn pending(entry: &Entry, standing: Standing, offset: Offset) -> Option<Pending> {
    Some(Pending {
        path: PagePath::parse(&entry.path).ok()?,
        standing,
        held_for: entry.held_for.as_deref().and_then(|name| name.parse().ok()),
        reason: entry.reason.clone(),
        attempts: entry.attempts,
        since: offset.told(entry.enqueued_at),
    })
}

fn is_at(stands: Option<&super::pages::Stand>, key: Key, member: &[u8]) -> bool {
    stands.is_some_and(|(at, called, _)| *at == key && called == member)
}

/// What came of leasing one.
enum Lend {
    Lent(Box<crate::outbox::Claimed>),
    Buried,
    Gone,
}

fn lend_one(batch: &mut Batch, key: Key, member: &[u8], now: Timestamp, until: Timestamp) -> Lend {
    let Some(path) = path_of(member) else {
        return Lend::Gone;
    };
    let Some(page) = batch.page(path) else {
        return Lend::Gone;
    };
    if !is_at(page.stands().as_ref(), key, member) {
        return Lend::Gone;
    }
    let Some(mut entry) = page.waiting.now.take() else {
        return Lend::Gone;
    };
    match entry.job() {
        Ok(job) => {
            entry.state = State::InFlight;
            entry.held_for = None;
            let token = batch.numbers.job();
            let claim = claimed(&entry, token, job);
            if let Some(page) = batch.page(path) {
                page.in_flight.now = Some(Lent {
                    entry,
                    token,
                    until: until.0,
                    worker: Worker::this().to_string(),
                    since: now.0,
                });
            }
            Lend::Lent(Box::new(claim))
        }
        // What no longer names a page (an older program was laxer) must not stop the rest.
        Err(error) => {
            let reason = format!("job names no page: {error}");
            batch.bury(entry.line(entry.attempts).as_bytes(), &reason, now.0);
            Lend::Buried
        }
    }
}
