//! A store that fails as planned, around a real one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Change, Failure, FailureKind, Identity, Page, PagePath, StoreName, Within};
use crate::stores::{Brought, Deriver, Holding, Outcome, Store, Tally, Witness};

/// What a [`Faulty`] store is to do; shared with the test, which may change it at any time.
#[derive(Debug, Clone, Default)]
pub struct Plan(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    away: Option<Failure>,
    lies: bool,
    pages: HashMap<String, (FailureKind, u32)>,
    applies: u32,
    asked: u32,
}

impl Plan {
    fn with<T>(&self, look: impl FnOnce(&mut Faults) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on every call fails with this kind.
    pub fn away(&self, kind: FailureKind) {
        self.with(|faults| faults.away = Some(Failure::new(kind, "the store is away")));
    }

    /// From now on the store answers.
    pub fn back(&self) {
        self.with(|faults| {
            faults.away = None;
            faults.lies = false;
        });
    }

    /// From now on changes are made, and then the answer is lost.
    pub fn lose_answers(&self) {
        self.with(|faults| faults.lies = true);
    }

    /// The page fails with this kind, so many times.
    pub fn fail_page(&self, path: &str, kind: FailureKind, times: u32) {
        self.with(|faults| faults.pages.insert(path.into(), (kind, times)));
    }

    /// Returns how often the store was asked anything that it may fail to answer.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.with(|faults| faults.asked)
    }

    /// Returns how often changes were asked for.
    #[must_use]
    pub fn applies(&self) -> u32 {
        self.with(|faults| faults.applies)
    }
}

/// A real store behind planned failures. Stricter than the real thing: the same page twice in one batch is an error
/// of the caller, and stops the test.
pub struct Faulty {
    inner: Box<dyn Store>,
    plan: Plan,
}

impl Faulty {
    /// Puts the plan before the store.
    #[must_use]
    pub fn around(inner: Box<dyn Store>, plan: Plan) -> Self {
        Self { inner, plan }
    }

    fn answers(&self) -> Result<(), Failure> {
        self.plan.with(|faults| faults.asked += 1);
        self.plan
            .with(|faults| faults.away.clone())
            .map_or(Ok(()), Err)
    }
}

/// The variable that names pages, separated by commas, which fail in the graph for ever, as if each time by chance.
const FAIL_PAGES: &str = "WIKI_SYNC_TEST_FAIL_PAGES";

/// Lets those pages fail that `FAIL_PAGES` names.
#[must_use]
pub fn fail_pages_from_env(store: Box<dyn Store>) -> Box<dyn Store> {
    let Ok(pages) = std::env::var(FAIL_PAGES) else {
        return store;
    };
    let plan = Plan::default();
    for page in pages.split(',') {
        plan.fail_page(page, FailureKind::Transient, u32::MAX);
    }
    Box::new(Faulty::around(store, plan))
}

impl Store for Faulty {
    fn name(&self) -> StoreName {
        self.inner.name()
    }

    fn fingerprint(&self) -> String {
        self.inner.fingerprint()
    }

    fn identity(&mut self) -> Result<Identity, Failure> {
        self.answers()?;
        self.inner.identity()
    }

    fn renew(&mut self) -> Result<Identity, Failure> {
        self.answers()?;
        self.inner.renew()
    }

    fn apply(&mut self, changes: &[Change], epoch: i64) -> Result<Vec<Outcome>, Failure> {
        let mut seen = std::collections::HashSet::new();
        assert!(
            changes.iter().all(|change| seen.insert(change.path())),
            "a page stands twice in a batch"
        );
        self.plan.with(|faults| faults.applies += 1);
        self.answers()?;
        let fault = |path: &PagePath| {
            self.plan.with(|faults| {
                let (kind, times) = faults.pages.get_mut(path.as_str())?;
                *times = times.checked_sub(1)?;
                Some(Failure::new(*kind, format!("page {path} fails as planned")))
            })
        };
        let faults: Vec<_> = changes.iter().map(|change| fault(change.path())).collect();
        let good: Vec<_> = changes
            .iter()
            .zip(&faults)
            .filter(|(_, fault)| fault.is_none())
            .map(|(change, _)| change.clone())
            .collect();
        let mut outcomes = self.inner.apply(&good, epoch)?.into_iter();
        if self.plan.with(|faults| faults.lies) {
            return Err(Failure::new(FailureKind::Down, "the answer was lost"));
        }
        let mut next = || outcomes.next().expect("one outcome per change");
        Ok(faults
            .into_iter()
            .map(|fault| fault.map_or_else(&mut next, Err))
            .collect())
    }

    fn find_identity(&mut self, inside: bool) -> Result<Option<Identity>, Failure> {
        self.answers()?;
        self.inner.find_identity(inside)
    }

    fn holdings(&mut self, within: &Within) -> Result<Vec<Holding>, Failure> {
        self.answers()?;
        self.inner.holdings(within)
    }

    fn purge(&mut self, names: &[&str]) -> Result<(), Failure> {
        self.answers()?;
        self.inner.purge(names)
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        self.inner.expected(page)
    }

    fn deriver(&self) -> Option<Deriver> {
        self.inner.deriver()
    }

    fn is_witnessed(&self) -> bool {
        self.inner.is_witnessed()
    }

    fn witness(&mut self) -> Result<Option<Witness>, Failure> {
        self.answers()?;
        self.inner.witness()
    }

    fn exempt(&mut self, path: &PagePath) -> Result<Option<String>, Failure> {
        self.inner.exempt(path)
    }

    fn is_there(&mut self) -> Result<bool, Failure> {
        self.answers()?;
        self.inner.is_there()
    }

    fn yield_turn(&mut self) {
        self.inner.yield_turn();
    }

    fn rest(&mut self) {
        self.inner.rest();
    }

    fn waits_for_others(&self) -> bool {
        self.inner.waits_for_others()
    }

    fn lack(&self) -> Option<Failure> {
        self.inner.lack()
    }

    fn probe_lack(&mut self) -> Result<(), Failure> {
        self.inner.probe_lack()
    }

    fn otherwise(&self, before: &str) -> String {
        self.inner.otherwise(before)
    }

    fn brought(&self) -> Brought {
        self.inner.brought()
    }

    fn heed(&mut self, stop: &crate::state::Stop) {
        self.inner.heed(stop);
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }

    fn notes(&mut self) -> Vec<Failure> {
        self.inner.notes()
    }
}
