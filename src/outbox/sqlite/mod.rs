//! The embedded outbox: tables in `outbox.db`.
//!
//! One row per job; a page has at most one row that is not in flight and one that is (two unique
//! indices). Every writing method is one `BEGIN IMMEDIATE` transaction; claim, settle and release are several short
//! ones, so that nobody who enqueues waits long. The disk is waited for between transactions, see [`OutboxDb`].

mod dead;
mod entry;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use self::entry::{Entry, State};
use super::merge::Leaves;
use super::story::{Step, Story};
use super::{
    Claimed, Claims, Counts, DeadLetter, Enqueued, JobId, Junk, LONGEST_WAIT, Outbox, OutboxError,
    Pending, Recovered, Settle, Settled, Standing, Which,
};
use crate::model::{Job, PagePath, StoreName, Timestamp};
use crate::state::{OutboxDb, outbox_failure};

/// Statements kept prepared on the connection; more than this module has.
const PREPARED: usize = 48;

/// Jobs claimed, settled or released in one transaction: some milliseconds, so that whoever enqueues waits for no more.
const PIECE: usize = 50;

/// How long the database is left alone between two pieces; those who wait for it ask every millisecond.
const GIVE_WAY: Duration = Duration::from_micros(1_200);

/// Releases some of the jobs that are held for a store, or for any; with each, those for a store that only a newer program
/// knows.
const RELEASE: &str = "UPDATE jobs SET state = 'ready', held_for = NULL, due_at = ?2
     WHERE id IN (SELECT id FROM jobs INDEXED BY jobs_by_due
                  WHERE state = 'held' AND (?1 IS NULL OR held_for = ?1
                                            OR held_for NOT IN ('graph', 'vectors', 'git')) LIMIT ?3)";

/// The outbox in SQLite.
#[derive(Debug)]
pub struct SqliteOutbox {
    db: OutboxDb,
    longest_wait: Duration,
}

impl SqliteOutbox {
    /// Makes an outbox of a database that was opened for it alone: other parts open theirs.
    #[must_use]
    pub fn open(db: OutboxDb) -> Self {
        db.reader().set_prepared_statement_cache_capacity(PREPARED);
        Self {
            db,
            longest_wait: LONGEST_WAIT,
        }
    }

    /// Says for how long a job is put off at most; [`LONGEST_WAIT`] when nobody does.
    #[must_use]
    pub fn with_longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait.min(LONGEST_WAIT);
        self
    }

    /// Takes one piece of a claim: at most `max` jobs, and what was buried on the way.
    fn claim_piece(
        &mut self,
        max: usize,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Claims, OutboxError> {
        let latest = now.plus(self.longest_wait);
        let (claims, story) = self.db.write_ahead("cannot claim jobs", |tx| {
            let mut claims = Claims::default();
            let mut story = Story::begin();
            let entries = claimable(tx, max, now, latest)?;
            let mut token = next_tokens(tx, entries.len())?;
            for entry in entries {
                match entry.job() {
                    Ok(job) => {
                        entry.lend(tx, token, now, until)?;
                        story.note(|| Step::claimed(&entry));
                        claims.jobs.push(Claimed {
                            id: JobId(entry.id.to_string()),
                            token,
                            job,
                            recoveries: entry.recoveries,
                        });
                        token += 1;
                    }
                    // A row that no longer names a page (an older program was laxer) must not stop the rest.
                    Err(error) => {
                        dead::bury_entry(tx, &entry, &error, now, &mut story)?;
                        entry.delete(tx)?;
                        claims.buried += 1;
                    }
                }
            }
            Ok((claims, story))
        })?;
        story.tell();
        Ok(claims)
    }

    /// Claims piece by piece until `max` are taken or nothing is left.
    fn claim_pieces(
        &mut self,
        max: usize,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Claims, OutboxError> {
        let mut claims = Claims::default();
        loop {
            let want = PIECE.min(max - claims.jobs.len());
            match self.claim_piece(want, until, now) {
                Ok(piece) => {
                    let came = piece.jobs.len() as u64 + piece.buried;
                    claims.jobs.extend(piece.jobs);
                    claims.buried += piece.buried;
                    if came < want as u64 || claims.jobs.len() >= max {
                        return Ok(claims);
                    }
                }
                // What is in hand already is the caller's.
                Err(_) if !claims.jobs.is_empty() => return Ok(claims),
                Err(failure) => return Err(failure),
            }
            std::thread::sleep(GIVE_WAY);
        }
    }

    /// Settles piece by piece.
    fn settle_pieces(
        &mut self,
        claims: &[(Claimed, Settle)],
        now: Timestamp,
    ) -> Result<Settled, OutboxError> {
        let mut settled = Settled::default();
        let mut pieces = claims.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let story = self.db.write_ahead("cannot settle jobs", |tx| {
                let mut story = Story::begin();
                for (claim, outcome) in piece {
                    if let Some(entry) = held_by(tx, claim)? {
                        let merged = settle_one(tx, entry, outcome, now, &mut story)?;
                        settled.merged += u64::from(merged);
                    } else {
                        settled.refused += 1;
                        story.note(|| Step::lost(claim));
                    }
                }
                Ok(story)
            })?;
            story.tell();
            if pieces.peek().is_some() {
                std::thread::sleep(GIVE_WAY);
            }
        }
        Ok(settled)
    }
}

impl Outbox for SqliteOutbox {
    fn enqueue(&mut self, jobs: &[Job], now: Timestamp) -> Result<Enqueued, OutboxError> {
        if jobs.is_empty() {
            return Ok(Enqueued::default());
        }
        let (done, story) = self.db.write("cannot enqueue", |tx| {
            let mut done = Enqueued::default();
            let mut story = Story::begin();
            for job in jobs {
                let path = job.path.as_str();
                if let Some(mut waiting) = Entry::waiting(tx, path)? {
                    waiting.swallow(job, now);
                    waiting.save(tx)?;
                    done.merged += 1;
                    story.note(|| Step::of("announced again", &waiting));
                } else {
                    let id = Entry::insert(tx, job, now)?;
                    done.new += 1;
                    story.note(|| Step::job("enqueued", id, path));
                }
            }
            Ok((done, story))
        })?;
        story.tell();
        fail::fail_point!("outbox.enqueued");
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
        // Whoever claims is a drain.
        self.db.tidy("cannot claim jobs")?;
        let until = now.plus(lease.min(LONGEST_WAIT));
        // The disk is not waited for: after a power cut a claim belongs to the dead, so it may as well be forgotten.
        let claims = self.claim_pieces(max, until, now)?;
        fail::fail_point!("outbox.claimed");
        Ok(claims)
    }

    fn settle(
        &mut self,
        claims: &[(Claimed, Settle)],
        now: Timestamp,
    ) -> Result<Settled, OutboxError> {
        if claims.is_empty() {
            return Ok(Settled::default());
        }
        fail::fail_point!("outbox.before_settle");
        let settled = self.settle_pieces(claims, now)?;
        self.db.sync("cannot settle jobs")?;
        fail::fail_point!("outbox.settled");
        Ok(settled)
    }

    fn extend(
        &mut self,
        claims: &[Claimed],
        lease: Duration,
        now: Timestamp,
    ) -> Result<u64, OutboxError> {
        if claims.is_empty() {
            return Ok(0);
        }
        let until = now.plus(lease.min(LONGEST_WAIT));
        self.db.write("cannot extend leases", |tx| {
            let mut lost = 0;
            for claim in claims {
                let changed = match claim.id.0.parse::<i64>() {
                    Ok(id) => tx
                        .prepare_cached(
                            "UPDATE jobs SET lease_until = ?3
                             WHERE id = ?1 AND state = 'in_flight' AND token = ?2",
                        )?
                        .execute([id, claim.token, until.0])?,
                    // An id of another outbox.
                    Err(_) => 0,
                };
                lost += u64::from(changed == 0);
            }
            Ok(lost)
        })
    }

    fn recover(&mut self, all: bool, now: Timestamp) -> Result<Recovered, OutboxError> {
        let latest = now.plus(LONGEST_WAIT);
        let (taken, story) = self.db.write("cannot recover jobs", |tx| {
            let mut story = Story::begin();
            let lost = tx
                .prepare_cached(entry::LOST)?
                .query_map(params![all, now.0, latest.0], Entry::read)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let mut taken = Recovered {
                jobs: lost.len() as u64,
                merged: 0,
            };
            for mut entry in lost {
                entry.recover();
                story.note(|| Step::of("taken back from a worker that is gone", &entry));
                taken.merged += u64::from(put_back(tx, entry, &mut story)?);
            }
            Ok((taken, story))
        })?;
        story.tell();
        fail::fail_point!("outbox.recovered");
        Ok(taken)
    }

    fn release(&mut self, store: Option<StoreName>, now: Timestamp) -> Result<u64, OutboxError> {
        let mut all = 0;
        loop {
            let released = self.db.write_ahead("cannot release held jobs", |tx| {
                tx.prepare_cached(RELEASE)?.execute(params![
                    store.map(StoreName::as_str),
                    now.0,
                    as_limit(PIECE)
                ])
            })?;
            all += released as u64;
            if released < PIECE {
                break;
            }
            std::thread::sleep(GIVE_WAY);
        }
        if all > 0 {
            self.db.sync("cannot release held jobs")?;
        }
        Ok(all)
    }

    fn bury(&mut self, junk: &Junk, now: Timestamp) -> Result<(), OutboxError> {
        let letter = self.db.write("cannot keep a line that is no job", |tx| {
            dead::bury(tx, junk, now)
        })?;
        let mut story = Story::begin();
        story.note(|| Step::buried(letter, &junk.reason));
        story.tell();
        Ok(())
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, OutboxError> {
        let earliest = |state: State| -> rusqlite::Result<Option<i64>> {
            self.db
                .reader()
                .prepare_cached(
                    "SELECT due_at FROM jobs INDEXED BY jobs_by_due
                     WHERE state = ?1 AND due_at IS NOT NULL ORDER BY due_at LIMIT 1",
                )?
                .query_row([state], |row| row.get(0))
                .optional()
        };
        let both = || Ok([earliest(State::Delayed)?, earliest(State::Held)?]);
        both()
            .map(|both| both.into_iter().flatten().min().map(Timestamp))
            .map_err(|e| outbox_failure("cannot read the outbox", &e))
    }

    fn counts(&mut self, now: Timestamp) -> Result<Counts, OutboxError> {
        let read = || {
            self.db
                .reader()
                .prepare_cached(
                    "SELECT (SELECT count(*) FROM jobs WHERE state = 'ready'),
                            (SELECT count(*) FROM jobs WHERE state = 'delayed'),
                            (SELECT count(*) FROM jobs
                             WHERE state = 'delayed' AND due_at > ?1 AND due_at <= ?2),
                            (SELECT count(*) FROM jobs WHERE state = 'in_flight'),
                            (SELECT count(*) FROM jobs WHERE state = 'held'),
                            (SELECT count(*) FROM dead_letters)",
                )?
                .query_row([now.0, now.plus(self.longest_wait).0], |row| {
                    let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                    Ok(Counts {
                        waiting: count(0)? + count(1)? - count(2)?,
                        unread: 0,
                        delayed: count(2)?,
                        in_flight: count(3)?,
                        held: count(4)?,
                        dead: count(5)?,
                    })
                })
        };
        read().map_err(|e| outbox_failure("cannot count the outbox", &e))
    }

    fn pending(&mut self, limit: usize) -> Result<Vec<Pending>, OutboxError> {
        let read = || {
            let mut pending = Vec::new();
            let mut statement = self.db.reader().prepare_cached(
                "SELECT path, held_for, reason, attempts, enqueued_at, state, worker, claimed_at,
                        due_at
                 FROM jobs ORDER BY id LIMIT ?1",
            )?;
            let mut rows = statement.query([as_limit(limit)])?;
            while let Some(row) = rows.next()? {
                // A row that names no page is buried by the next claim.
                if let Ok(path) = PagePath::parse(row.get_ref(0)?.as_str()?) {
                    pending.push(Pending {
                        path,
                        standing: match row.get(5)? {
                            State::Ready => Standing::Waiting,
                            State::Delayed => Standing::Delayed,
                            State::Held => Standing::Held,
                            State::InFlight => Standing::InFlight {
                                worker: row.get_ref(6)?.as_str()?.parse().ok(),
                                since: Timestamp(row.get(7)?),
                            },
                        },
                        held_for: dead::store(row.get(1)?),
                        reason: row.get(2)?,
                        attempts: row.get(3)?,
                        since: Timestamp(row.get(4)?),
                        due: row.get::<_, Option<i64>>(8)?.map(Timestamp),
                    });
                }
            }
            Ok(pending)
        };
        read().map_err(|e| outbox_failure("cannot list the outbox", &e))
    }

    fn dead(&mut self) -> Result<Vec<DeadLetter>, OutboxError> {
        dead::list(self.db.reader()).map_err(|e| outbox_failure("cannot list the dead letters", &e))
    }

    fn dead_of(&mut self, paths: &[PagePath]) -> Result<Vec<DeadLetter>, OutboxError> {
        dead::of_pages(self.db.reader(), paths)
            .map_err(|e| outbox_failure("cannot look for dead letters", &e))
    }

    fn dead_line(&mut self, id: i64) -> Result<Option<Vec<u8>>, OutboxError> {
        dead::line(self.db.reader(), id)
            .map_err(|e| outbox_failure("cannot read a dead letter", &e))
    }

    fn retry_dead(&mut self, which: &Which, now: Timestamp) -> Result<u64, OutboxError> {
        let (retried, story) = self.db.write("cannot retry dead letters", |tx| {
            let mut story = Story::begin();
            Ok((dead::retry(tx, which, now, &mut story)?, story))
        })?;
        story.tell();
        Ok(retried)
    }

    fn drop_dead(&mut self, which: &Which) -> Result<u64, OutboxError> {
        self.db
            .write("cannot drop dead letters", |tx| dead::delete(tx, which))
    }
}

/// Returns the entries to claim, oldest first.
fn claimable(
    db: &Connection,
    max: usize,
    now: Timestamp,
    latest: Timestamp,
) -> rusqlite::Result<Vec<Entry>> {
    const EVER: (i64, i64) = (i64::MIN, i64::MAX);
    let due = (i64::MIN, now.0);
    // Nobody asks for a longer wait, so the clock was set back since.
    let beyond = (latest.0, i64::MAX);
    let mut statement = db.prepare_cached(entry::CLAIMABLE)?;
    let mut entries = Vec::new();
    for (state, (after, to)) in [
        (State::Ready, EVER),
        (State::Delayed, due),
        (State::Held, due),
        (State::Delayed, beyond),
        (State::Held, beyond),
    ] {
        for entry in statement.query_map(params![state, after, to, as_limit(max)], Entry::read)? {
            entries.push(entry?);
        }
    }
    entries.sort_by_key(|entry| (entry.due_at, entry.id));
    entries.truncate(max);
    Ok(entries)
}

/// Takes `count` fencing tokens, each greater than all before, and returns the first.
fn next_tokens(db: &Connection, count: usize) -> rusqlite::Result<i64> {
    if count == 0 {
        // An idle claim writes nothing, and so need not wait for the disk.
        return Ok(0);
    }
    let count = as_limit(count);
    let last: i64 = db
        .prepare_cached("UPDATE outbox_token SET last = last + ?1 RETURNING last")?
        .query_row([count], |row| row.get(0))?;
    Ok(last - count + 1)
}

/// Returns the entry that this claim still holds.
fn held_by(db: &Connection, claim: &Claimed) -> rusqlite::Result<Option<Entry>> {
    match claim.id.0.parse() {
        Ok(id) => Entry::claimed(db, id, claim.token),
        // An id of another outbox.
        Err(_) => Ok(None),
    }
}

/// Settles one entry and says whether it was merged with the one enqueued meanwhile.
fn settle_one(
    db: &Connection,
    entry: Entry,
    outcome: &Settle,
    now: Timestamp,
    story: &mut Story,
) -> rusqlite::Result<bool> {
    let settled = entry.clone();
    let mut back = None;
    let mut letter = None;
    match entry.leave(outcome, now) {
        Leaves::Done => {
            settled.delete(db)?;
            dead::supersede(db, &settled.path)?;
        }
        Leaves::Swallowed => settled.delete(db)?,
        Leaves::Back(entry) => back = Some(entry),
        Leaves::Dead(death) => {
            settled.delete(db)?;
            letter = Some(dead::lay(db, &settled, death, now)?);
        }
    }
    story.note(|| Step::settled(&settled, outcome, letter));
    back.map_or(Ok(false), |entry| put_back(db, *entry, story))
}

/// Writes an entry that comes out of a worker's hands, joined with the one enqueued meanwhile; says whether there
/// was one.
fn put_back(db: &Connection, entry: Entry, story: &mut Story) -> rusqlite::Result<bool> {
    let newer = Entry::waiting(db, &entry.path)?;
    if let Some(newer) = &newer {
        newer.delete(db)?;
        story.note(|| Step::merged(newer.id, entry.id, &entry.path));
    }
    let merged = newer.is_some();
    entry.join_any(newer).save(db)?;
    Ok(merged)
}

fn as_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
