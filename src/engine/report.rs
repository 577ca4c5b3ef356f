//! What drain and verify tell: the shapes of their `--json` output. Fields may be added, never taken away.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{FailureKind, StoreName};
use crate::stores::Store;
pub use crate::wiki::Skipped;

/// What a drain did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DrainReport {
    /// Pages the scan looked at.
    pub scanned: u64,
    /// Jobs that this drain found waiting, enqueued itself, or that came while it ran: `processed` + `merged` + `dlq` +
    /// `waiting` + `delayed` + `in_flight` + `held`.
    pub enqueued: u64,
    /// Jobs ended with all stores holding the page.
    pub processed: u64,
    /// Those of them that changed nothing anywhere.
    pub unchanged: u64,
    /// Jobs swallowed by another job, or by a resting dead letter, of the same page.
    pub merged: u64,
    /// Attempts that failed and will be made again.
    pub retried: u64,
    /// Jobs that became dead letters in this drain.
    pub dlq: u64,
    /// Jobs that wait for a store or for git, at the end.
    pub held: u64,
    /// The last commit made, in hex.
    pub commit: Option<String>,
    /// How many commits were made.
    pub commits: u64,
    /// How long it took.
    pub seconds: f64,
    /// By store's name.
    pub stores: BTreeMap<&'static str, StoreReport>,
    /// Things that look like pages and are none.
    pub skipped: Vec<Skipped>,
    /// Why jobs are held, retried or dead: one entry per store and reason.
    pub trouble: Vec<Trouble>,
    /// Stores that are away at the end, whether or not a job waits for them: what they owe is not known. `outbox`, when it
    /// did not take what the scan found.
    pub away: Vec<&'static str>,
    /// Dead letters that exist at the end.
    pub dead: u64,
    /// It was told to stop before everything was done.
    pub stopped: bool,
    /// Jobs that could be claimed at the end, and were not.
    pub waiting: u64,
    /// Jobs that wait for their time, at the end.
    pub delayed: u64,
    /// Jobs in a worker's hands, at the end.
    pub in_flight: u64,
    /// Pages that graph and vectors forgot, as the settings no longer count them.
    pub forgotten: u64,
    /// Dead letters that this drain dropped to keep their bounds.
    pub trimmed: u64,
    /// What could not be understood in pages that were brought in all the same, by path and line; at most a thousand.
    pub warnings: Vec<PageWarning>,
    /// Unchanged pages that a store got anew, or is to get, and why.
    pub renewals: Vec<Renewal>,
}

/// Unchanged pages that a store is to get anew, since not they but the way in which it holds them is another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Renewal {
    /// The store.
    pub store: &'static str,
    /// How many pages.
    pub pages: u64,
    /// What is otherwise than it was.
    pub reason: String,
}

impl Renewal {
    /// Makes it of pages that the store was given under an earlier fingerprint.
    #[must_use]
    pub fn new(store: &dyn Store, before: &str, pages: u64) -> Self {
        Self {
            store: store.name().as_str(),
            pages,
            reason: store.otherwise(before),
        }
    }
}

/// Something in a page that could not be understood: metadata that is no YAML, say. It costs itself, never the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PageWarning {
    /// The page.
    pub path: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// What it is.
    pub message: String,
}

/// What a drain did to one store.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StoreReport {
    /// Pages put.
    pub applied: u64,
    /// Pages removed.
    pub removed: u64,
    /// Texts embedded by a provider (vectors only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedded: Option<u64>,
    /// Texts whose embedding was at hand (vectors only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Texts that were too long for the provider, so that their beginning was embedded (vectors only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortened: Option<u64>,
    /// Pages whose embeddings were taken off, since `embedding.provider` is none (vectors only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripped: Option<u64>,
}

/// Something that kept a page from being in sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The store, where it was one.
    pub store: Option<&'static str>,
    /// `down`, `busy`, `waiting`, `refused`, `transient` or `rejected`; `alert` when a person could not be told.
    pub kind: &'static str,
    /// A page it concerns, where it concerns one.
    pub path: Option<String>,
    /// The error and its causes.
    pub reason: String,
    /// What to do.
    pub hint: Option<String>,
    /// How many pages have it; 0 where it concerns the store as a whole and no page is known to wait for it.
    pub pages: u64,
}

/// Returns the kind's name as it stands in reports.
#[must_use]
pub fn kind_name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Down => "down",
        FailureKind::Busy => "busy",
        FailureKind::Waiting => "waiting",
        FailureKind::Refused => "refused",
        FailureKind::Transient => "transient",
        FailureKind::Rejected => "rejected",
    }
}

/// What verify found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct VerifyReport {
    /// Every store holds exactly the pages, nothing waits and no dead letter rests; as far as this mode can see.
    pub in_sync: bool,
    /// `full`: the stores were read. `fast`: their receipts were believed.
    pub mode: &'static str,
    /// The stores that were verified.
    pub stores: Vec<&'static str>,
    /// The pages and folders that were asked for; all, when there are none.
    pub paths: Vec<String>,
    /// What this mode cannot see.
    pub unseen: Vec<String>,
    /// Pages in the folder.
    pub pages: u64,
    /// Sections that the vectors hold; `None` where not all of them were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<u64>,
    /// Those of them that are found by their meaning too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<u64>,
    /// Pages that a job still waits for; what they owe is not drift.
    pub waiting: u64,
    /// Differences, by path and store.
    pub drift: Vec<Drift>,
    /// Those of them that are no damage: unchanged pages that the store is to get anew, and why.
    pub renewals: Vec<Renewal>,
    /// Things that look like pages and are none, and pages that cannot be read.
    pub skipped: Vec<Skipped>,
    /// Dead letters.
    pub dead: u64,
    /// Pages enqueued to be healed, when that was asked for.
    pub repaired: u64,
    /// What stores held of ours under names that are no pages' paths, and that was removed, when that was asked for.
    pub removed: u64,
    /// Stores that are not those which their receipts speak of (new, rebuilt, restored from a copy, or damaged): the next
    /// drain looks through them once. The fast mode knows nothing of what they hold.
    pub replaced: Vec<&'static str>,
    /// Those of them that a drain notices only after a repair: their own note of who they are says otherwise.
    #[serde(skip)]
    pub unnoticed: Vec<&'static str>,
    /// Paths asked for that there is nothing of anywhere.
    #[serde(skip)]
    pub unknown: Vec<String>,
    /// Differences of pages that a job waits for: no drift, but a receipt that belies one would keep the job from its work.
    #[serde(skip)]
    pub owed: Vec<Drift>,
    /// Why pages wait: one entry per store and reason.
    pub held: Vec<Trouble>,
    /// Stores and pages that could not be read, with the reason: nothing is known of them, so nothing is in sync.
    pub unread: Vec<Trouble>,
}

/// One difference between a store and the pages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Drift {
    /// The page.
    pub path: String,
    /// The store, by name.
    pub store: &'static str,
    /// What is wrong.
    pub kind: DriftKind,
}

/// What is wrong with a page in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftKind {
    /// The page is there, the store has nothing of it.
    Missing,
    /// The store holds something else than the page.
    Stale,
    /// It holds the page as it is, derived in another way than it would be now. Told as stale.
    #[serde(rename = "stale")]
    Outdated,
    /// The store holds what is no page.
    Orphan,
    /// The receipt does not say what the store holds. In the fast mode: no receipt says it, so it is not known.
    Unproven,
}

impl DriftKind {
    /// Returns its name, as in `--json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Stale | Self::Outdated => "stale",
            Self::Orphan => "orphan",
            Self::Unproven => "unproven",
        }
    }
}

/// Adds a trouble to a list; the same one of several pages is one entry that counts them.
pub fn gather(list: &mut Vec<Trouble>, new: Trouble) {
    let mut known = list.iter_mut();
    match known.find(|known| known.store == new.store && known.reason == new.reason) {
        Some(known) => {
            known.pages += new.pages;
            known.path = known.path.take().or(new.path);
        }
        None => list.push(new),
    }
}

/// Returns a trouble's entry for a report.
#[must_use]
pub fn trouble(
    store: Option<StoreName>,
    path: Option<String>,
    failure: &crate::model::Failure,
) -> Trouble {
    Trouble {
        store: store.map(StoreName::as_str),
        kind: kind_name(failure.kind),
        pages: u64::from(path.is_some()),
        path,
        reason: failure.reason.clone(),
        hint: failure.hint.clone(),
    }
}
