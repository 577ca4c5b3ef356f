//! The outbox: the one door in. Jobs wait here until every store holds their page.
//!
//! | state | meaning | leaves it by |
//! |---|---|---|
//! | waiting | may be claimed once its time has come (`delayed` while it has not) | claim |
//! | in flight | claimed, under a lease, with a fencing token | settle, or recovery |
//! | held | waits for a store or for the user | claim, after [`Outbox::release`] |
//! | dead | a dead letter: rests until the page changes or a person says so | retry, drop, superseded |

mod sqlite;

pub use sqlite::SqliteOutbox;

use std::time::Duration;

use crate::model::{Failure, Job, PagePath, StoreName, Timestamp};

/// What a job is known by while it is in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub String);

/// A job in the worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its id.
    pub id: JobId,
    /// The fencing token: a settle with another token than the outbox knows is refused.
    pub token: i64,
    /// The job; `job.retry` is the number of attempts that have failed.
    pub job: Job,
    /// How many workers died with it in their hands since it was last settled. Such a job is tried alone.
    pub recoveries: u32,
}

/// A line that could not be read as a job; it is kept raw among the dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Junk {
    /// The line's bytes.
    pub raw: Vec<u8>,
    /// Why it is no job.
    pub reason: String,
}

/// How a claimed job leaves the worker's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// Every store holds the page; earlier dead letters of the page are superseded and go.
    Ack,
    /// Ended although not every store holds the page: its dead letter rests, and goes on resting.
    Swallow,
    /// Back to waiting, not before `at`, with this number of failed attempts. `sha` is the content tried.
    RetryAt {
        /// When it may be claimed again.
        at: Timestamp,
        /// Attempts that have failed so far.
        attempts: u32,
        /// The content that was tried, hex SHA or stat mark, empty when unknown.
        version: String,
        /// Why, for `status`.
        reason: String,
    },
    /// Held for a store until [`Outbox::release`] or `until`.
    Hold {
        /// The store that owes.
        store: StoreName,
        /// When it may be claimed again without a release; `None` for never.
        until: Option<Timestamp>,
        /// Why, for `status`.
        reason: String,
    },
    /// To the dead letters; replaces an earlier dead letter of the same page.
    Dead(Death),
}

/// Why and as what a job died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The store that refused the page; `None` when it came to none (unreadable, outside the wiki, poison).
    pub store: Option<StoreName>,
    /// The error and its causes, at most 4 KiB.
    pub reason: String,
    /// Attempts made in all.
    pub attempts: u32,
    /// The content that was tried: hex SHA, or a mark of size and times for a file that cannot be read.
    pub version: String,
    /// The fingerprint of all stores together; a new one wakes the letter.
    pub fingerprint: String,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id among the dead letters.
    pub id: i64,
    /// The page; `None` for a line that named none.
    pub path: Option<PagePath>,
    /// How it died.
    pub death: Death,
    /// When, by the clock of whoever settled it.
    pub dead_at: Timestamp,
    /// The raw line.
    pub raw: Vec<u8>,
}

/// What an enqueue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enqueued {
    /// Jobs that now wait and did not before.
    pub new: u64,
    /// Jobs swallowed by a waiting or held job of the same page.
    pub merged: u64,
}

/// How many jobs are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// May be claimed now.
    pub waiting: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// In a worker's hands.
    pub in_flight: u64,
    /// Waiting for a store or for the user.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
}

/// A job that waits, for `status` and `verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The page.
    pub path: PagePath,
    /// The store it is held for; `None` when it is not held.
    pub held_for: Option<StoreName>,
    /// Why it is held or was put back; empty for a fresh job.
    pub reason: String,
    /// Attempts that have failed so far.
    pub attempts: u32,
    /// When it was first enqueued.
    pub since: Timestamp,
}

/// Which dead letters or jobs a person means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// These ids.
    Ids(Vec<i64>),
}

/// Why the outbox could not do it. Kinds: `Down` (the queue is away), `Busy` (locked for longer than we
/// wait), `Refused` (keys or schema that are not ours).
pub type OutboxError = Failure;

/// The contract every outbox passes (`testing::outbox_contract`).
///
/// `now` comes from the caller. Every method is atomic: it happens whole or not at all, and what it
/// returned holds after a power cut.
pub trait Outbox {
    /// Puts jobs in, merging each with a waiting or held job of the same page.
    ///
    /// A merge keeps attempts and time, unless the new job names another content than the waiting one
    /// was tried with: then the job is fresh again. Labels that are not empty replace the old ones. A job
    /// with `retry` > 0 goes on from there. A page that is in flight gets a second, waiting job.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn enqueue(&mut self, jobs: &[Job], now: Timestamp) -> Result<Enqueued, OutboxError>;

    /// Takes up to `max` jobs whose time has come, oldest first, and leases them, in one step. A page
    /// that is in flight already is passed over. Held jobs come only when released or due.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn claim(
        &mut self,
        max: usize,
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<Claimed>, OutboxError>;

    /// Ends the claims given, each with its outcome, all in one step; returns how many were refused
    /// because their lease was lost (another token, or settled before). Refused ones change nothing.
    ///
    /// A retried or held job whose page has meanwhile been enqueued again merges with that waiting job,
    /// which keeps the greater number of attempts only if it names no other content.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn settle(&mut self, claims: &[(Claimed, Settle)], now: Timestamp) -> Result<u64, OutboxError>;

    /// Makes claimed jobs last until `now + lease`; returns how many had been lost.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn extend(
        &mut self,
        claims: &[Claimed],
        lease: Duration,
        now: Timestamp,
    ) -> Result<u64, OutboxError>;

    /// Takes back in-flight jobs: all of them when `all` (the caller holds the checkout's lock, so they
    /// belong to the dead), else those whose lease has run out. Not an attempt; `recoveries` is raised.
    /// Returns how many.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn recover(&mut self, all: bool, now: Timestamp) -> Result<u64, OutboxError>;

    /// Makes held jobs claimable now: those held for `store`, or all. Returns how many.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn release(&mut self, store: Option<StoreName>, now: Timestamp) -> Result<u64, OutboxError>;

    /// Takes a line that is no job into the dead letters.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn bury(&mut self, junk: &Junk, now: Timestamp) -> Result<(), OutboxError>;

    /// Returns when the next delayed or held job falls due, if any does.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn next_due(&mut self) -> Result<Option<Timestamp>, OutboxError>;

    /// Counts the jobs by state.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn counts(&mut self, now: Timestamp) -> Result<Counts, OutboxError>;

    /// Returns the jobs that wait, are delayed, in flight or held, oldest first, at most `limit`.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn pending(&mut self, limit: usize) -> Result<Vec<Pending>, OutboxError>;

    /// Returns the dead letters, oldest first.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn dead(&mut self) -> Result<Vec<DeadLetter>, OutboxError>;

    /// Puts dead letters back as fresh jobs (those that name a page; a line that names none stays) and
    /// returns how many.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn retry_dead(&mut self, which: &Which, now: Timestamp) -> Result<u64, OutboxError>;

    /// Drops dead letters for good and returns how many.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn drop_dead(&mut self, which: &Which) -> Result<u64, OutboxError>;
}
