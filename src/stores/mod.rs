//! The stores: three today, one trait. A fourth is one folder here and one line in `cli/open.rs`.

pub mod git;
pub mod graph;
pub mod vectors;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::{Change, Failure, Page, PagePath, StoreName, Within};
use crate::state::Stop;

pub use crate::model::Identity;

/// What became of one change in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Whether anything was changed; false when the store held it already.
    pub changed: bool,
    /// The store's own mark of what it holds now, for stores that have a [`Witness`] (git: the blob's id
    /// in hex). `None` after a removal and where the store has no witness or keeps none of this page.
    pub mark: Option<String>,
}

/// One outcome per change, in the order of the changes.
pub type Outcome = Result<Applied, Failure>;

/// What a store holds of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The page, as the store names it (a damaged store may name what is no page's path).
    pub path: String,
    /// A digest over everything the store holds of the page, read from the store itself. Equal to
    /// [`Store::expected`] of the same page exactly when the store holds what it should.
    pub digest: String,
}

/// What a store counted since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Texts embedded by a provider.
    pub embedded: Option<u64>,
    /// Texts whose embedding was at hand.
    pub cached: Option<u64>,
    /// Texts that were too long for the provider: their beginning was embedded.
    pub shortened: u64,
    /// Pages whose embeddings were taken off, since no provider is set.
    pub stripped: u64,
    /// Of the last look at all that the store holds: its sections, and how many of them have their meaning.
    pub sections: Option<[u64; 2]>,
    /// The last commit made, in hex.
    pub commit: Option<String>,
    /// How many commits were made.
    pub commits: u64,
}

/// How many changes of the [`Store::apply`] under way a store has brought so far, for whoever looks on from another thread.
/// Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Brought(Arc<AtomicU64>);

impl Brought {
    /// An apply is about to begin.
    pub fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// So many more changes are brought.
    pub fn add(&self, changes: usize) {
        self.0.fetch_add(changes as u64, Ordering::Relaxed);
    }

    /// Returns how many are brought.
    #[must_use]
    pub fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a store answers for itself at little cost: for each page it holds, in the order of the paths'
/// bytes, the mark of what it holds. Git reads it from HEAD's tree.
pub type Witness = Vec<(PagePath, String)>;

/// Derives from a page, on any thread, the digest that its store must show for it.
pub type Deriver = Box<dyn Fn(&Page) -> String + Send + Sync>;

/// A store that must stand equal to the pages. Every method may be repeated; the second call changes
/// nothing.
pub trait Store: Send {
    /// Returns which store this is.
    fn name(&self) -> StoreName;

    /// Returns a short text that changes when what the store derives from a page changes (parser,
    /// chunker, model, schema). Receipts with another fingerprint are stale.
    fn fingerprint(&self) -> String;

    /// Says for people what is otherwise now than under this earlier fingerprint, so that unchanged pages are brought anew.
    fn otherwise(&self, _before: &str) -> String {
        "another wiki-sync wrote them".into()
    }

    /// Returns the store's identity as it stands inside the store, creating an empty store where none is.
    ///
    /// # Errors
    /// Of the kinds `Down`, `Busy` and `Refused`.
    fn identity(&mut self) -> Result<Identity, Failure>;

    /// Gives the store a new id, durable on return, so that no earlier copy of it can be taken for it; returns its
    /// identity.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn renew(&mut self) -> Result<Identity, Failure>;

    /// Makes the changes durable in the store and raises its epoch to `epoch`; returns one outcome per
    /// change. The same page never stands twice in `changes`. One page's failure does not stop the others.
    ///
    /// # Errors
    /// When the store as a whole could not be used. Some of the changes may have been made even so:
    /// whoever calls it has voided the receipts before.
    fn apply(&mut self, changes: &[Change], epoch: i64) -> Result<Vec<Outcome>, Failure>;

    /// Returns the store's identity; `None` where there is no store. Creates and changes nothing. With `inside` it is read
    /// from the store itself, however long that takes, and not from what was noted beside it.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn find_identity(&mut self, inside: bool) -> Result<Option<Identity>, Failure>;

    /// Returns what the store holds of these pages, read from the real store, sorted by path, one entry per page.
    /// Creates nothing.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn holdings(&mut self, within: &Within) -> Result<Vec<Holding>, Failure>;

    /// Returns all that the store holds, as [`Store::holdings`] does.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn inventory(&mut self) -> Result<Vec<Holding>, Failure> {
        self.holdings(&Within::everything())
    }

    /// Removes what the store holds under these names, which [`Store::holdings`] told and which are no pages' paths, so that
    /// no job can name them. Durable on return.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn purge(&mut self, _names: &[&str]) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the digest that [`Store::inventory`] must show for this page; `None` when the store is
    /// not to hold it (git: an ignored page), which [`Store::exempt`] explains.
    ///
    /// # Errors
    /// When the page cannot be derived, or as [`Store::identity`].
    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure>;

    /// Returns what answers as [`Store::expected`] does, of a store that need not be asked for it.
    fn deriver(&self) -> Option<Deriver> {
        None
    }

    /// Says whether the store and not the receipt is the judge of what it holds; then [`Store::witness`] tells
    /// it, and identity and epoch are not looked at.
    fn is_witnessed(&self) -> bool {
        false
    }

    /// Returns what the store holds at little cost, after finishing what a killed process left. `None` where receipts
    /// are trusted.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn witness(&mut self) -> Result<Option<Witness>, Failure> {
        Ok(None)
    }

    /// Says why the store is not to hold this page although it is a good page (git: it is ignored and
    /// not tracked), or `None` when it is to hold it.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn exempt(&mut self, _path: &PagePath) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// Says what the store has against changing these pages now, where it is known beforehand: for a caller who wants all
    /// of them changed or none (git: an operation under way, a page that the user has staged otherwise).
    ///
    /// # Errors
    /// When no page at all could be changed; as [`Store::identity`], and `Waiting`.
    fn objections(&mut self, _pages: &[PagePath]) -> Result<Vec<(PagePath, Failure)>, Failure> {
        Ok(Vec::new())
    }

    /// Says whether the store is there, at little cost; creates nothing. Always, for a store that can only be asked.
    ///
    /// # Errors
    /// As [`Store::identity`].
    fn is_there(&mut self) -> Result<bool, Failure> {
        Ok(true)
    }

    /// Lets go of what others may be waiting for (Edge: its shard), when somebody is. Called between
    /// batches.
    fn yield_turn(&mut self) {}

    /// Lets go of it in any case. Called before waiting for the checkout's lock: the lock's order is checkout first,
    /// then shard.
    fn rest(&mut self) {}

    /// Says whether bringing pages to it may wait for a program that is not the store (vectors: the provider of dense ones),
    /// which is to hold up no other store.
    fn waits_for_others(&self) -> bool {
        false
    }

    /// Says what the store is without for now although it takes pages (vectors: the provider of dense ones). The pages that
    /// need it have a failure as their outcome.
    fn lack(&self) -> Option<Failure> {
        None
    }

    /// Asks whether what the store was without is there again.
    ///
    /// # Errors
    /// When it is not.
    fn probe_lack(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns what counts the changes of an apply under way; one that stays at 0 where the store does not count them.
    fn brought(&self) -> Brought {
        Brought::default()
    }

    /// Remembers what is set when everything is to stop: a long [`Store::apply`] then leaves what it has not begun, as
    /// `Busy`.
    fn heed(&mut self, _stop: &Stop) {}

    /// Lets go of it for longer, and makes the next use quick first, where that is worth it. Called when nothing has
    /// been done for a while.
    fn park(&mut self) {
        self.rest();
    }

    /// Returns what the store counted since it was opened, for the report.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// Returns what a person should know of the store's surroundings, each with the way out.
    fn notes(&mut self) -> Vec<Failure> {
        Vec::new()
    }
}
