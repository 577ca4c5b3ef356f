//! What the viewer asks of the wiki. It reads no settings and opens nothing itself: `cli` does.

use rusqlite::Connection;

use crate::engine::Parts;
use crate::hooks::status::HooksStatus;
use crate::model::Failure;
use crate::outbox::Outbox;
use crate::query::search::Hit;
use crate::state::{Receipts, StateDir};
use crate::stores::vectors::Only;
use crate::wiki::Wiki;

/// Opens the parts of one wiki to be read, each for one question and no longer. Nothing is created, where nothing is: not even
/// where the state was taken away meanwhile.
pub trait Source: Send + Sync + 'static {
    /// Returns the pages.
    fn wiki(&self) -> &Wiki;

    /// Returns the state folder.
    fn state(&self) -> &StateDir;

    /// Says whether pages are committed.
    fn has_history(&self) -> bool;

    /// Opens everything that `status` works on.
    ///
    /// # Errors
    /// `Waiting` where no drain has been; as those of the parts. So for every method here.
    fn parts(&self) -> Result<Parts, Failure>;

    /// Opens the outbox.
    ///
    /// # Errors
    /// As [`Source::parts`].
    fn outbox(&self) -> Result<Box<dyn Outbox>, Failure>;

    /// Opens the database that holds the graph.
    ///
    /// # Errors
    /// As [`Source::parts`].
    fn graph(&self) -> Result<Connection, Failure>;

    /// Opens the receipts.
    ///
    /// # Errors
    /// As [`Source::parts`].
    fn receipts(&self) -> Result<Receipts, Failure>;

    /// Looks for pages; what was found is plain text. Waits its turn with the embedded vectors for some seconds at most, and has it no longer than it takes.
    ///
    /// # Errors
    /// `Busy` where the turn does not come in time; as [`Source::parts`].
    fn search(&self, query: &str, limit: usize, only: &Only) -> Result<Answer, Failure>;

    /// Looks whether git will run our hooks; `None` where git cannot be asked.
    fn hooks(&self) -> Option<HooksStatus>;
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Answer {
    /// The pages, best first.
    pub hits: Vec<Hit>,
    /// Why nothing was found in the pages that were looked at.
    pub why_nothing: Vec<String>,
    /// Why it was not searched by meaning although a provider is set.
    pub by_words_alone: Option<String>,
}
