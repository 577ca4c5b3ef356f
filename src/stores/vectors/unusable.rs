//! An engine that cannot be used at all, and says why.

use uuid::Uuid;

use super::engine::Engine;
use super::point::Point;
use crate::embed::Sparse;
use crate::model::Failure;

/// Fails with its reason, whatever is asked of it.
pub(super) struct Unusable(pub(super) Failure);

impl Unusable {
    fn fail<T>(&self) -> Result<T, Failure> {
        Err(self.0.clone())
    }
}

impl Engine for Unusable {
    fn ready(&mut self, _create: bool) -> Result<bool, Failure> {
        self.fail()
    }

    fn retrieve(&mut self, _ids: &[Uuid]) -> Result<Vec<Point>, Failure> {
        self.fail()
    }

    fn metas(&mut self, _each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        self.fail()
    }

    fn of_pages(
        &mut self,
        _wiki: &str,
        _paths: &[&str],
        _each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.fail()
    }

    fn scroll(&mut self, _wiki: &str, _each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        self.fail()
    }

    fn upsert(&mut self, _points: Vec<Point>) -> Result<(), Failure> {
        self.fail()
    }

    fn delete_except(&mut self, _: &str, _: &[&str], _: &[Uuid]) -> Result<(), Failure> {
        self.fail()
    }

    fn query(&mut self, _: &str, _: &Sparse, _: usize) -> Result<Vec<(f32, Point)>, Failure> {
        self.fail()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.fail()
    }
}
