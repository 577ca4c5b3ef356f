//! Reading producers' lines, and leasing what is due.

use std::time::Duration;

use super::change::{Batch, Room};
use super::keys::Key;
use super::letters::Letter;
use super::lines::{LONGEST_LINE, Line};
use super::link::Link;
use super::pages::{is_at, path_of};
use super::text::Lent;
use super::{PIECE, RedisOutbox, distinct, enter, ms};
use crate::model::{Failure, Job, Timestamp};
use crate::outbox::entry::{Entry, State};
use crate::outbox::story::{Step, Story};
use crate::outbox::{Claimed, Claims, JobId, LONGEST_WAIT, Worker};

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
            let lines = self.peek(doing, Key::List, 0, most, LONGEST_LINE)?;
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
            self.looks_long = false;
            claims.read += lines.len() as u64;
            claims.merged += merged;
            claims.buried += buried;
            fail::fail_point!("outbox.read");
            return Ok(lines.len());
        }
    }

    fn enter_lines(
        &mut self,
        doing: &str,
        (lines, jobs): (&[Line], &[Result<Job, String>]),
        paths: &[String],
        junk: usize,
        now: Timestamp,
    ) -> Result<Option<(u64, u64)>, Failure> {
        let (mut merged, mut buried) = (0, 0);
        let mut story = Story::begin();
        let sent = self.sent;
        let numbers = (paths.len(), junk);
        let entered = self.transact_once(doing, paths, numbers, Room::Any, |batch| {
            for (index, (line, job)) in lines.iter().zip(jobs).enumerate() {
                batch.expect_line(Key::List, index, line);
                match job {
                    Ok(job) => {
                        merged += u64::from(enter(batch, job, now, &mut story));
                        batch.take_first_line();
                    }
                    Err(reason) => {
                        let id = batch.letter_id();
                        batch.note_junk(&Letter::of_junk(id, line, reason, now.0));
                        batch.bury_first_line();
                        story.note(|| Step::buried(id, reason));
                        buried += 1;
                    }
                }
            }
        });
        if entered.is_err() && self.sent > sent {
            // It may have arrived all the same.
            self.unsure = Some(Claims {
                jobs: Vec::new(),
                read: lines.len() as u64,
                merged,
                buried,
            });
        }
        Ok(entered?.map(|()| {
            story.tell();
            (merged, buried)
        }))
    }

    /// Finds out whether lines were read by a change whose answer was lost; before the next change is sent, which is
    /// known by the number that is asked for here.
    pub(super) fn make_sure(&mut self, doing: &str) -> Result<(), Failure> {
        let Some(unsure) = &self.unsure else {
            return Ok(());
        };
        let name = self.link.keys.name(Key::Sent).to_owned();
        let done: Option<u64> = self
            .link
            .ask(doing, |c| redis::cmd("GET").arg(&name).query(c))?;
        if done == Some(self.sent) {
            self.untold.read += unsure.read;
            self.untold.merged += unsure.merged;
            self.untold.buried += unsure.buried;
        }
        self.unsure = None;
        Ok(())
    }

    /// Returns what may be claimed, oldest first: the order it stands in, and what it is called there.
    fn due(&mut self, most: usize, now: Timestamp) -> Result<Vec<(Key, Vec<u8>)>, Failure> {
        let keys = self.link.keys.clone();
        // Nobody asks for a longer wait, so the clock was set back since.
        let beyond = format!("({}", now.plus(self.longest_wait).0);
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
        let (lent, buried, story) =
            self.transact("cannot claim jobs", &paths, numbers, Room::Any, |batch| {
                let (mut lent, mut buried) = (Vec::new(), batch.damaged() as u64);
                let mut story = Story::begin();
                for (key, member) in due {
                    match lend_one(batch, *key, member, (now, until), &mut story) {
                        Lend::Lent(claim) => lent.push(*claim),
                        Lend::Buried => buried += 1,
                        // A hand, or a program that is none of ours, left it behind.
                        Lend::Gone => batch.forget_member(*key, member.clone()),
                    }
                }
                (lent, buried, story)
            })?;
        story.tell();
        claims.buried += buried;
        claims.jobs.extend(lent);
        Ok(())
    }
}

/// What came of leasing one.
enum Lend {
    Lent(Box<Claimed>),
    Buried,
    Gone,
}

fn lend_one(
    batch: &mut Batch,
    key: Key,
    member: &[u8],
    (now, until): (Timestamp, Timestamp),
    story: &mut Story,
) -> Lend {
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
            story.note(|| Step::claimed(&entry));
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
            let letter = batch.bury(entry.line(entry.attempts).as_bytes(), &reason, now.0);
            story.note(|| Step::buried_entry(&entry, letter, reason));
            Lend::Buried
        }
    }
}

/// Returns a claimed entry as the worker gets it.
fn claimed(entry: &Entry, token: i64, job: Job) -> Claimed {
    Claimed {
        id: JobId(entry.id.to_string()),
        token,
        job,
        recoveries: entry.recoveries,
    }
}
