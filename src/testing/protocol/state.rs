//! What one moment consists of: the pages on disk, the outbox, the receipts, the stores, the workers.

use super::outbox::{Job, Letter, Outbox, Settle, Token};
use super::receipts::Receipts;
use super::world::Bounds;
use crate::model::StoreName;

/// Pages at the most.
pub(super) const PAGES: usize = 2;
/// Workers at the most.
pub(super) const WORKERS: usize = 2;
/// Stores.
pub(super) const STORES: usize = StoreName::ALL.len();

/// A page's content; its SHA stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Text {
    /// There is no file.
    Absent,
    One,
    Two,
    /// Not UTF-8: rejected when it is read.
    Bad,
}

/// What a store holds, and which store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) id: u8,
    pub(super) epoch: u8,
    pub(super) pages: [Text; PAGES],
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The pages on disk.
    pub(super) disk: [Text; PAGES],
    pub(super) outbox: Outbox,
    pub(super) receipts: Receipts,
    /// By store.
    pub(super) stores: [Held; STORES],
    /// Whether each store answers.
    pub(super) up: [bool; STORES],
    /// Old copies of the vectors, to be restored; the first is of the beginning.
    pub(super) copies: [Option<Held>; 2],
    pub(super) workers: [Worker; WORKERS],
    /// What may still happen.
    pub(super) left: Bounds,
    pub(super) ghosts: Ghosts,
}

/// What the properties look at and the program does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Ghosts {
    /// By page: it was edited, and nobody has said so yet.
    pub(super) edited: [bool; PAGES],
    /// Something happened to stores or queue that no event tells of: only a scan finds it.
    pub(super) unseen: bool,
    /// The vectors are others than those that were recognised last.
    pub(super) replaced: bool,
    /// The first promise that was broken.
    pub(super) broken: Option<Broken>,
}

/// A promise that a step breaks, rather than a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A settle with a lost token changed the outbox.
    StraySettle,
    /// A run ended well while a store that answered did not hold the pages.
    FalseQuiet,
    /// A page was acked although the file had moved on.
    FalseAck,
    /// Receipts were voided although the store was the one they speak of.
    FalseAlarm,
    /// A page was enqueued or tried again although its dead letter rests.
    RestDisturbed,
    /// A hold changed the number of attempts.
    HoldCounted,
}

impl State {
    /// Notes the first promise that was broken.
    pub(super) fn break_promise(&mut self, broken: Broken) {
        self.ghosts.broken.get_or_insert(broken);
    }

    /// Says whether a page's dead letter keeps the content on disk from a store.
    pub(super) fn rests(&self, store: StoreName, page: usize) -> bool {
        let letter = self.outbox.pages[page].letter;
        letter.is_some_and(|letter| letter.keeps(self.disk[page], store))
    }

    /// Says whether a store holds the page as it is on disk.
    pub(super) fn holds(&self, store: StoreName, page: usize) -> bool {
        self.stores[store as usize].pages[page] == self.disk[page]
    }

    /// Says whether every store holds every page that no dead letter keeps from it.
    pub(super) fn is_consistent(&self) -> bool {
        StoreName::ALL.iter().all(|&store| self.is_held_by(store))
    }

    /// As [`State::is_consistent`], of one store.
    pub(super) fn is_held_by(&self, store: StoreName) -> bool {
        (0..PAGES).all(|page| self.rests(store, page) || self.holds(store, page))
    }

    /// Says whether no worker runs.
    pub(super) fn nobody_runs(&self) -> bool {
        self.workers.iter().all(|worker| worker.step == Step::Off)
    }

    /// Says whether the checkout's lock is free: it is held by whoever is at a step that needs it.
    pub(super) fn lock_is_free(&self) -> bool {
        !self.workers.iter().any(|worker| worker.step.is_locked())
    }
}

/// A worker's next step. Those from `Recognise` to `Scan` and from `Read` to `Settle` are taken under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Not running: not started, ended or killed.
    Off,
    /// Takes the lock, takes back what the dead had in hand.
    Begin,
    /// Opens a store and makes sure that its receipts speak of it.
    Recognise(StoreName),
    /// Notes what an unrecognised store holds; then `Recognise` of the next, or what comes after a probe.
    Adopt(StoreName, bool),
    /// Looks for whatever nobody announced.
    Scan,
    /// Takes the lock, takes back what the dead had in hand, claims.
    Claim,
    /// Reads a claimed page.
    Read(usize),
    /// Picks what each store owes and voids those receipts.
    Void,
    /// Brings the group's share to a store.
    Apply(StoreName),
    /// Raises the vectors' epoch, when their points are there.
    RaiseEpoch,
    /// Writes the receipts.
    Write,
    /// Looks whether the files are still what was applied.
    Recheck,
    /// Settles every job of the group and lets go of the lock.
    Settle,
    /// Nothing can be claimed: waits, probes or ends.
    Idle,
}

impl Step {
    /// Whether the checkout's lock is held before this step.
    pub(super) fn is_locked(self) -> bool {
        !matches!(self, Self::Off | Self::Begin | Self::Claim | Self::Idle)
    }

    /// Whether jobs are in the worker's hands.
    pub(super) fn is_in_batch(self) -> bool {
        self.is_locked() && !matches!(self, Self::Recognise(_) | Self::Adopt(..) | Self::Scan)
    }
}

/// A drain: what is lost when it is killed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // Four independent facts.
pub(super) struct Worker {
    pub(super) step: Step,
    /// Its option `scan`.
    pub(super) scans: bool,
    /// Stores whose gate is shut.
    pub(super) shut: [bool; STORES],
    /// A probe opened a store of which the scan could not know all.
    pub(super) must_scan: bool,
    /// The dead letters as they were when it began.
    pub(super) letters: [Option<Letter>; PAGES],
    /// Its claims, by page.
    pub(super) claims: [Option<Claim>; PAGES],
    /// The epoch that each store will have after the group; `None` where it has no share.
    pub(super) shares: [Option<u8>; STORES],
    /// Ghost: it can know all that was done to pages and stores.
    pub(super) calm: bool,
    /// Ghost: no other worker did anything since it began.
    pub(super) alone: bool,
}

impl Worker {
    /// A worker that does not run.
    pub(super) const OFF: Self = Self {
        step: Step::Off,
        scans: false,
        shut: [false; STORES],
        must_scan: false,
        letters: [None; PAGES],
        claims: [const { None }; PAGES],
        shares: [None; STORES],
        calm: false,
        alone: false,
    };
}

/// A job in a worker's hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) token: Token,
    /// The job as it was claimed.
    pub(super) job: Job,
    pub(super) work: Work,
    /// The page's dead letter, where it is about what is to be done and does not stand for all stores.
    pub(super) letter: Option<Letter>,
    /// By store.
    pub(super) outcomes: [Outcome; STORES],
    /// How it ends, once that is decided.
    pub(super) settle: Option<Settle>,
}

/// What is to be done for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// The page was not read yet.
    Unread,
    Put(Text),
    Remove,
    /// The page can never be applied as it is.
    Rejected(Text),
    /// Swallowed by the page's resting dead letter, which stands for all stores.
    Rests(Letter),
}

impl Work {
    /// The content that a store is to hold afterwards.
    pub(super) fn change(self) -> Option<Text> {
        match self {
            Self::Put(text) => Some(text),
            Self::Remove => Some(Text::Absent),
            Self::Unread | Self::Rejected(_) | Self::Rests(_) => None,
        }
    }
}

/// What became of a page in a store; ordered by which decides when there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Outcome {
    /// It had nothing to do.
    Nothing,
    /// It is in the store's share, which was not applied yet.
    Owed,
    Applied,
    /// The page moved on.
    Busy,
    /// The store is away.
    Down,
    /// This page failed this time.
    Transient,
}
