//! An engine that cannot be used at all, and says why.

use uuid::Uuid;

use super::engine::{Ask, Engine, Unfit};
use super::point::Point;
use super::shape::Dense;
use crate::model::{Failure, Finding};

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

    fn examine(&mut self) -> (Vec<Finding>, bool) {
        let otherwise = "`wiki-sync drain` says more";
        (
            vec![Finding::of(super::EXAMINED, &self.0, otherwise)],
            false,
        )
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

    fn of_folders(
        &mut self,
        _wiki: &str,
        _folders: &[&str],
        _each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.fail()
    }

    fn scroll(&mut self, _wiki: &str, _each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        self.fail()
    }

    fn want(&mut self, _dense: Dense) {}

    fn upsert(&mut self, _points: Vec<Point>) -> Result<Vec<Unfit>, Failure> {
        self.fail()
    }

    fn forget_dense(&mut self, _ids: &[Uuid]) -> Result<(), Failure> {
        self.fail()
    }

    fn delete_except(&mut self, _: &str, _: &[&str], _: &[Uuid]) -> Result<(), Failure> {
        self.fail()
    }

    fn delete(&mut self, _ids: &[Uuid]) -> Result<(), Failure> {
        self.fail()
    }

    fn query(&mut self, _ask: &Ask<'_>) -> Result<Vec<(f32, Point)>, Failure> {
        self.fail()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.fail()
    }
}
