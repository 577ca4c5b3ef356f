//! What a vector engine must be able to do; everything else about vectors is the same for all of them.

use uuid::Uuid;

use super::point::{Meta, Point};
use super::shape::{Dense, Only};
use crate::embed::Sparse;
use crate::model::{Failure, Finding};

/// A point that the engine does not take as it is, and why. Its page fails alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unfit {
    pub(super) id: Uuid,
    pub(super) why: Failure,
}

/// What is looked for. With both vectors the engine ranks by each and fuses the two by reciprocal rank.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) wiki: &'a str,
    /// Not empty, if there.
    pub(super) words: Option<&'a Sparse>,
    /// Of the shape's dimension, if there.
    pub(super) meaning: Option<&'a [f32]>,
    /// How much the ranks by words and by meaning count.
    pub(super) weights: [f32; 2],
    pub(super) only: &'a Only,
    pub(super) limit: usize,
}

/// An engine that holds points: Qdrant Edge in this process, or a Qdrant server.
///
/// Writes may be lost until [`Engine::flush`] has returned. Whatever is read or deleted for a wiki leaves
/// the points of other wikis alone.
pub(super) trait Engine: Send {
    /// Makes the engine ready for use, with an empty store where none is and `create` says so. Returns
    /// whether there is a store.
    ///
    /// A store that cannot take points of the [`Shape`](super::Shape) that the engine was opened with is refused, also an
    /// empty one: with what is there, what is wanted and the way out. Dense vectors are added to one that has none.
    ///
    /// # Errors
    /// `Busy` when another process has it and does not let go in time, `Refused` when it is damaged or of another shape,
    /// `Down` otherwise. The same for all methods below.
    fn ready(&mut self, create: bool) -> Result<bool, Failure>;

    /// Wants these dense vectors from the next [`Engine::ready`] on: their dimension was not known before.
    fn want(&mut self, dense: Dense);

    /// Returns a wiki's meta as it was last noted, where the engine can tell without being opened and be sure that
    /// nothing was put in its place since; `None` where it cannot, and the meta point must be read.
    fn glance(&mut self, _wiki: &str) -> Option<Meta> {
        None
    }

    /// Notes a wiki's meta, which was flushed before, for [`Engine::glance`].
    fn note(&mut self, _meta: &Meta) -> Result<(), Failure> {
        Ok(())
    }

    /// Looks at what is there, for `doctor`, and says whether it may be read by the other methods; changes nothing.
    fn examine(&mut self) -> (Vec<Finding>, bool);

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

    /// Calls `each` with every point of the pages of a wiki that are in one of these folders, or below.
    fn of_folders(
        &mut self,
        wiki: &str,
        folders: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure>;

    /// Calls `each` with every point of a wiki, meta points left out.
    fn scroll(&mut self, wiki: &str, each: &mut dyn FnMut(Point)) -> Result<(), Failure>;

    /// Puts the points in, each in the place of one with the same id; returns those that it does not take. The old
    /// dense vector may stay where a point has none: see [`Engine::forget_dense`].
    fn upsert(&mut self, points: Vec<Point>) -> Result<Vec<Unfit>, Failure>;

    /// Takes the dense vectors off these points.
    fn forget_dense(&mut self, ids: &[Uuid]) -> Result<(), Failure>;

    /// Deletes the points of these pages of a wiki, those in `keep` excepted.
    fn delete_except(&mut self, wiki: &str, paths: &[&str], keep: &[Uuid]) -> Result<(), Failure>;

    /// Deletes the points of these ids.
    fn delete(&mut self, ids: &[Uuid]) -> Result<(), Failure>;

    /// Says whether the store that was found ready has dense vectors of the shape: a reader may come before they are
    /// added.
    fn has_dense(&self) -> bool {
        true
    }

    /// Says whether what failed did so because the store that was found ready is gone: another may be in its place.
    fn is_gone(&self) -> bool {
        false
    }

    /// Returns points of a wiki, at most as many as asked for, best first: those that share a token with the words asked
    /// for, and those whose dense vectors are the nearest.
    fn query(&mut self, ask: &Ask<'_>) -> Result<Vec<(f32, Point)>, Failure>;

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
