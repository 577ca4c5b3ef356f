//! What a vector engine must be able to do; everything else about vectors is the same for all of them.

use uuid::Uuid;

use super::point::{Meta, Point};
use crate::embed::Sparse;
use crate::model::Failure;

/// An engine that holds points: Qdrant Edge in this process, or a Qdrant server.
///
/// Writes may be lost until [`Engine::flush`] has returned. Whatever is read or deleted for a wiki leaves
/// the points of other wikis alone.
pub(super) trait Engine: Send {
    /// Makes the engine ready for use, with an empty store where none is and `create` says so. Returns
    /// whether there is a store.
    ///
    /// # Errors
    /// `Busy` when another process has it and does not let go in time, `Refused` when it is damaged,
    /// `Down` otherwise. The same for all methods below.
    fn ready(&mut self, create: bool) -> Result<bool, Failure>;

    /// Returns a wiki's meta as it was last noted, where the engine can tell without being opened and be sure that
    /// nothing was put in its place since; `None` where it cannot, and the meta point must be read.
    fn glance(&mut self, _wiki: &str) -> Option<Meta> {
        None
    }

    /// Notes a wiki's meta, which was flushed before, for [`Engine::glance`].
    fn note(&mut self, _meta: &Meta) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the points of these ids, as far as they are there.
    fn retrieve(&mut self, ids: &[Uuid]) -> Result<Vec<Point>, Failure>;

    /// Calls `each` with every meta point, of every wiki.
    fn metas(&mut self, each: &mut dyn FnMut(Point)) -> Result<(), Failure>;

    /// Calls `each` with every point of these pages of a wiki.
    fn of_pages(
        &mut self,
        wiki: &str,
        paths: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure>;

    /// Calls `each` with every point of a wiki, meta points left out.
    fn scroll(&mut self, wiki: &str, each: &mut dyn FnMut(Point)) -> Result<(), Failure>;

    /// Puts the points in, each in the place of one with the same id.
    fn upsert(&mut self, points: Vec<Point>) -> Result<(), Failure>;

    /// Deletes the points of these pages of a wiki, those in `keep` excepted.
    fn delete_except(&mut self, wiki: &str, paths: &[&str], keep: &[Uuid]) -> Result<(), Failure>;

    /// Returns a wiki's points that share a token with `query`, at most `limit`, best first.
    fn query(
        &mut self,
        wiki: &str,
        query: &Sparse,
        limit: usize,
    ) -> Result<Vec<(f32, Point)>, Failure>;

    /// Makes durable what was written.
    fn flush(&mut self) -> Result<(), Failure>;

    /// Tidies up after a flush, when enough was written to be worth it.
    fn tidy(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Lets go of what others wait for, when somebody does.
    fn yield_turn(&mut self) {}

    /// Lets go of it in any case.
    fn rest(&mut self) {}

    /// Lets go of it for longer: makes the next opening quick first.
    fn park(&mut self) {
        self.rest();
    }
}
