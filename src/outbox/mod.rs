//! The outbox: the one door in. Jobs wait here until every store holds their page.
//!
//! | state | meaning | leaves it by |
//! |---|---|---|
//! | waiting | may be claimed once its time has come (`delayed` while it has not) | claim |
//! | in flight | claimed, under a lease, with a fencing token | settle, or recovery |
//! | held | waits for a store or for the user | claim, after [`Outbox::release`] |
//! | dead | a dead letter: rests until the page changes or a person says so | retry, drop, superseded |

mod entry;
mod merge;
mod redis;
mod sqlite;
mod story;
mod worker;

pub use self::redis::{Clock, Owner, RedisOutbox, RedisSettings, examine as examine_redis};
pub use sqlite::SqliteOutbox;
pub use worker::Worker;

use std::path::Path;
use std::time::Duration;

use crate::model::{Failure, FailureKind, Finding, Job, PagePath, StoreName, StoreSet, Timestamp};
use crate::state::open_outbox_db;

/// The URL of the embedded outbox.
pub const EMBEDDED: &str = "sqlite:";

/// Opens the outbox that the URL names: [`EMBEDDED`], the tables in `database`, of which whoever settles puts none off for
/// longer than `longest_wait`; or a Redis server, with the settings that `redis` makes, which is not asked before the first call.
///
/// # Errors
/// `Refused` when the URL names no outbox; as [`open_outbox_db`] and `redis`.
pub fn open(
    url: &str,
    database: &Path,
    longest_wait: Duration,
    redis: impl FnOnce() -> Result<RedisSettings, Failure>,
) -> Result<Box<dyn Outbox>, OutboxError> {
    match url.split_once(':') {
        Some(("sqlite", "")) => Ok(Box::new(
            SqliteOutbox::open(open_outbox_db(database)?).with_longest_wait(longest_wait),
        )),
        Some((scheme, _)) if REDIS.contains(&scheme) => Ok(Box::new(RedisOutbox::open(redis()?)?)),
        Some(_) | None => Err(Failure::new(
            FailureKind::Refused,
            format!("outbox.url: {NO_OUTBOX}"),
        )),
    }
}

/// What is wrong with a URL that none of ours has. It may hold a password, so it is not shown.
const NO_OUTBOX: &str = "names no outbox that there is: it is \"sqlite:\", \"redis://host:6379/0\", \"rediss://host:6379/0\" or \"unix:///path/to/socket\"";

/// Says what is wrong with an outbox's URL, which is not shown: it may hold a password.
///
/// # Errors
/// When it names none, or cannot be read.
pub fn check_url(url: &str) -> Result<(), String> {
    match url.split_once(':') {
        Some(("sqlite", "")) => Ok(()),
        Some((scheme, _)) if REDIS.contains(&scheme) => redis::check_url(url),
        Some(_) | None => Err(NO_OUTBOX.into()),
    }
}

/// Tells of so many dead letters; of none there is nothing to tell.
#[must_use]
pub fn dead_letters(number: u64) -> Option<Finding> {
    let what = match number {
        0 => return None,
        1 => "1 rests: it is not tried again before its page is changed".to_owned(),
        many => format!("{many} rest: none is tried again before its page is changed"),
    };
    let hint = "`wiki-sync dlq list` shows what is wrong; `wiki-sync dlq retry` and `dlq drop` are the ways out";
    Some(Finding::fault("dead letters", what, hint))
}

/// What a Redis server's URL begins with.
const REDIS: [&str; 6] = ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys"];

/// The longest wait there is, for a retry, a probe or a lease: one hour. A longer one is cut to it.
///
/// So a time that lies further ahead can only be there because the clock was set back, and counts as
/// come: no job waits for ever. Far above the waits of [`crate::model::RetryPolicy`] (27 s) and any lease
/// that makes sense, far below the time after which somebody would ask.
pub const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Jobs that whoever has many hands to [`Outbox::enqueue`] at a time: some milliseconds in SQLite, so that nobody else who
/// enqueues waits for more.
pub const HANDFUL: usize = 200;

/// The most bytes of a reason that are kept.
const LONGEST_REASON: usize = 4096;

/// Returns as much of a reason as is kept, cut at a character's boundary.
fn clip(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(LONGEST_REASON)]
}

/// The most bytes of a dead letter's line that stand in a list of letters.
const LONGEST_HEAD: usize = 1024;

/// Returns a line's beginning as text; what is no UTF-8 is replaced.
fn excerpt(line: &[u8]) -> String {
    let mut head = &line[..line.len().min(LONGEST_HEAD)];
    if head.len() < line.len()
        && let Err(error) = str::from_utf8(head)
        && error.error_len().is_none()
    {
        // The cut went through a character.
        head = &head[..error.valid_up_to()];
    }
    String::from_utf8_lossy(head).into_owned()
}

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
        /// The content that was tried, as in [`Settle::RetryAt`].
        version: String,
        /// Why, for `status`.
        reason: String,
    },
    /// To the dead letters; replaces an earlier dead letter of the same page.
    Dead(Death),
}

/// Why and as what a job died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The stores that refused the page, for which the letter stands: the others still get the page. Empty when it stands
    /// for all: the page came to none (unreadable, outside the wiki, poison).
    pub stores: StoreSet,
    /// The error and its causes; an outbox keeps at most 4 KiB of it.
    pub reason: String,
    /// Attempts made in all.
    pub attempts: u32,
    /// The content that was tried: hex SHA, or a mark of size and times for a file that cannot be read.
    pub version: String,
    /// The fingerprint of all stores together; a new one wakes the letter.
    pub fingerprint: String,
}

impl Death {
    /// Returns the stores as an outbox keeps them; `None` when it stands for all.
    fn stores_text(&self) -> Option<String> {
        (!self.stores.is_empty()).then(|| self.stores.to_string())
    }

    /// Reads that again. Where it names a store that this program does not know, the letter stands for all.
    fn stores_of(text: Option<&str>) -> StoreSet {
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }
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
    /// The raw line's length in bytes.
    pub size: u64,
    /// The raw line's beginning as text, at most 1 KiB of it. [`Outbox::dead_line`] returns it whole.
    pub head: String,
}

impl DeadLetter {
    /// Says whether [`Self::head`] is the whole line.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.size <= LONGEST_HEAD as u64
    }
}

impl DeadLetter {
    /// Whether it is about this content, as these stores would take it: then it rests.
    #[must_use]
    pub fn is_about(&self, version: &str, fingerprint: &str) -> bool {
        self.death.version == version && self.death.fingerprint == fingerprint
    }

    /// Whether it stands for this store, so that while it rests the store is not given the page.
    #[must_use]
    pub fn stands_for(&self, store: StoreName) -> bool {
        self.death.stores.is_empty() || self.death.stores.contains(store)
    }
}

/// What an enqueue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enqueued {
    /// Jobs that now wait and did not before.
    pub new: u64,
    /// Jobs swallowed by a waiting or held job of the same page.
    pub merged: u64,
}

/// What a claim took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// The jobs that are now in the caller's hands, oldest first.
    pub jobs: Vec<Claimed>,
    /// Lines of producers that were read on the way; each is a job now, or counted in the two below.
    pub read: u64,
    /// Of the lines: those swallowed by a waiting or held job of their page.
    pub merged: u64,
    /// Lines, and entries of an older program, that are no jobs and became dead letters.
    pub buried: u64,
}

/// What a settle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Claims whose lease was lost; nothing was changed for them.
    pub refused: u64,
    /// Jobs put back that were merged with a job of their page enqueued meanwhile.
    pub merged: u64,
}

/// What a recovery did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Jobs taken back.
    pub jobs: u64,
    /// Of them those that were merged with a job of their page enqueued meanwhile.
    pub merged: u64,
}

/// How many jobs are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// May be claimed now.
    pub waiting: u64,
    /// Of the waiting ones: lines of producers that nobody has read yet. Any of them may turn out to be no job, or
    /// of a page that waits already.
    pub unread: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// In a worker's hands.
    pub in_flight: u64,
    /// Waiting for a store or for the user.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// May be claimed.
    Waiting,
    /// Was put back and waits for its time, which may have come.
    Delayed,
    /// In a worker's hands.
    InFlight {
        /// Whose; `None` when what is written there cannot be read.
        worker: Option<Worker>,
        /// When it was claimed.
        since: Timestamp,
    },
    /// Waits for a store or for the user.
    Held,
}

/// A job that is not done, for `status` and `verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The page.
    pub path: PagePath,
    /// Where it stands.
    pub standing: Standing,
    /// The store it is held for; `None` when it is not held.
    pub held_for: Option<StoreName>,
    /// Why it is held or was put back; empty for a fresh job.
    pub reason: String,
    /// Attempts that have failed so far.
    pub attempts: u32,
    /// When it was first enqueued. A line that nobody has read yet does not say: then the time of the question.
    pub since: Timestamp,
    /// When it may be claimed; `None` when it is held until its store is there again.
    pub due: Option<Timestamp>,
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
/// `now` comes from the caller; an outbox on a server may judge by the server's clock instead ([`Clock`]), then
/// every time that goes in or comes out is moved by the difference of the two.
///
/// In SQLite every method is atomic, it happens whole or not at all; claim, settle and release in pieces of 100 jobs.
/// What it returned holds after a power cut, but for a claim, whose jobs then wait as before. In Redis each piece of at
/// most 100 jobs is atomic, and what holds after a power cut is what the server's own persistence keeps. Every method
/// may be called again after an error: what was done already is not done twice.
///
/// Producers may also write lines of their own to a list beside the methods (Redis, `RPUSH`). Such a line is read by
/// the claim, and treated there as if it were enqueued at that moment: it merges as in [`Outbox::enqueue`], and what
/// is no job is buried with its reason, in one step with its removal from the list.
///
/// *Tried content* below: the `version` of the last [`Settle::RetryAt`], else (never tried, or unknown) the
/// content that the job itself names. Content is *another* only when both are known and differ: a job
/// that names none, or was tried with none known, is taken for the same, else each scan of a failing page
/// would start its attempts again.
pub trait Outbox {
    /// Puts jobs in, merging each with a waiting or held job of the same page.
    ///
    /// A merge keeps attempts and time, unless the new job names another content than the waiting one
    /// was tried with: then the job is fresh again. Labels that are not empty replace the old ones. A job
    /// with `retry` > 0 goes on from there. A page that is in flight gets a second, waiting job.
    ///
    /// Fresh means: as many attempts as the new job's `retry`, due now, no reason; a job that was waiting
    /// keeps its place in the order. A held job is due again when the new one names another content, or none: the
    /// page may have changed, and the stores that are not away must get it. Dead letters of the page stay until
    /// it is acked.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn enqueue(&mut self, jobs: &[Job], now: Timestamp) -> Result<Enqueued, OutboxError>;

    /// Takes up to `max` jobs whose time has come, oldest first, and leases them, in one step. A page
    /// that is in flight already is passed over, and stops no other. Held jobs come only when released or
    /// due. A job that nobody told to wait does not wait for the clock; a time further ahead than
    /// the longest wait that there can be ([`LONGEST_WAIT`], or what the outbox was told) counts as come. Tokens only ever
    /// grow. Costs the same whatever the backlog.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn claim(&mut self, max: usize, lease: Duration, now: Timestamp)
    -> Result<Claims, OutboxError>;

    /// Ends the claims given, each with its outcome. A claim is refused when its lease was lost (another token, or
    /// settled before); refused ones change nothing.
    ///
    /// A retried or held job whose page has meanwhile been enqueued again merges with that waiting job,
    /// which keeps the greater number of attempts only if it names no other content. A hold stays a hold only
    /// when the same content was enqueued; a retry at the same content, or none named, waits for its time;
    /// another content is due at once.
    ///
    /// A lease that has run out is not lost until somebody recovers the job.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn settle(
        &mut self,
        claims: &[(Claimed, Settle)],
        now: Timestamp,
    ) -> Result<Settled, OutboxError>;

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
    /// belong to the dead), else those whose lease has run out: before `now`, or further ahead than
    /// [`LONGEST_WAIT`]. Not an attempt; `recoveries` is raised. They may be claimed at once, and merge as in
    /// [`Outbox::settle`] with what was enqueued meanwhile; the greater number of recoveries stays.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn recover(&mut self, all: bool, now: Timestamp) -> Result<Recovered, OutboxError>;

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

    /// Returns when the next delayed or held job falls due, if any does. That may have been; and it may
    /// be far ahead when the clock was set back, so nobody should sleep longer than [`LONGEST_WAIT`] on it.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn next_due(&mut self) -> Result<Option<Timestamp>, OutboxError>;

    /// Returns what a person should know of it although everything works; empty before the first call.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Counts the jobs by state. A held job whose time has come counts as held until it is claimed or
    /// released.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn counts(&mut self, now: Timestamp) -> Result<Counts, OutboxError>;

    /// Returns the jobs that wait, are delayed, in flight or held, oldest first, at most `limit`.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn pending(&mut self, limit: usize) -> Result<Vec<Pending>, OutboxError>;

    /// Returns the dead letters, oldest first. However long their lines are, no more than their beginnings is read.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn dead(&mut self) -> Result<Vec<DeadLetter>, OutboxError>;

    /// Returns the dead letters of these pages, in any order. Costs the same however many letters there are.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn dead_of(&mut self, paths: &[PagePath]) -> Result<Vec<DeadLetter>, OutboxError>;

    /// Returns a dead letter's raw line, whole; `None` when no letter has this id.
    ///
    /// # Errors
    /// See [`OutboxError`].
    fn dead_line(&mut self, id: i64) -> Result<Option<Vec<u8>>, OutboxError>;

    /// Puts dead letters back as fresh jobs (those that name a page; a line that names none stays) and
    /// returns how many. One whose page waits or is held merges with that job, which becomes fresh; what
    /// the waiting job says of content and labels goes before. Ids that are not there are passed over.
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
