//! What happens from outside: people edit, hooks announce, stores go away and come back as others, workers die.

use super::state::{Held, PAGES, State, Step, Text, Worker};
use super::{Action, Protocol};
use crate::model::StoreName;

/// How often each thing may happen; so the states are finitely many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    pub(super) pages: usize,
    pub(super) workers: usize,
    /// Drains started in all.
    pub(super) starts: u8,
    /// Whether a drain may be told not to scan.
    pub(super) unscanned: bool,
    pub(super) edits: u8,
    /// Whether an edit may make a page that is not UTF-8.
    pub(super) bad: bool,
    pub(super) kills: u8,
    pub(super) leases: u8,
    /// Outages of vectors and git.
    pub(super) outages: u8,
    /// Pages that fail in the vectors for once.
    pub(super) faults: u8,
    /// Copies made of the vectors, beside the one of the beginning.
    pub(super) copies: u8,
    /// Vectors lost, or replaced by a copy.
    pub(super) swaps: u8,
    /// `git reset` of a page.
    pub(super) resets: u8,
    /// `wiki.db` or `outbox.db` lost.
    pub(super) losses: u8,
    /// `dlq retry`.
    pub(super) retries: u8,
}

impl Bounds {
    /// Nothing happens, to one page.
    pub(super) const NONE: Self = Self {
        pages: 1,
        workers: 1,
        starts: 2,
        unscanned: false,
        edits: 0,
        bad: false,
        kills: 0,
        leases: 0,
        outages: 0,
        faults: 0,
        copies: 0,
        swaps: 0,
        resets: 0,
        losses: 0,
        retries: 0,
    };
}

/// The vectors' place.
const VECTORS: usize = StoreName::Vectors as usize;
/// Git's place.
const GIT: usize = StoreName::Git as usize;

impl Protocol {
    /// Lists what may happen from outside.
    pub(super) fn events(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for page in 0..self.bounds.pages {
            if left.edits > 0 {
                let texts = [Text::Absent, Text::One, Text::Two, Text::Bad];
                let some = texts.iter().take(if left.bad { 4 } else { 3 });
                let new = some.filter(|&&text| text != state.disk[page]);
                actions.extend(new.map(|&text| Action::Edit(page, text)));
            }
            if state.ghosts.edited[page] {
                actions.push(Action::Enqueue(page, None));
                if state.disk[page] != Text::Absent {
                    actions.push(Action::Enqueue(page, Some(state.disk[page])));
                }
            }
            if left.leases > 0 && state.outbox.pages[page].in_flight.is_some() {
                actions.push(Action::LeaseExpires(page));
            }
            if state.outbox.pages[page].waits_for_its_time() {
                actions.push(Action::FallsDue(page));
            }
            if left.retries > 0 && state.outbox.pages[page].letter.is_some() {
                actions.push(Action::RetryDead(page));
            }
            if left.resets > 0 {
                let texts = [Text::Absent, Text::One, Text::Two].into_iter();
                let other = texts.filter(|&text| text != state.stores[GIT].pages[page]);
                actions.extend(other.map(|text| Action::GitReset(page, text)));
            }
        }
        for store in [StoreName::Vectors, StoreName::Git] {
            if !state.up[store as usize] {
                actions.push(Action::Back(store));
            } else if left.outages > 0 {
                actions.push(Action::Away(store));
            }
        }
        if left.copies > 0 {
            actions.push(Action::Copy);
        }
        // Nothing could tell a store that is replaced under the hands that write to it.
        let in_use = |worker: &Worker| worker.step == Step::RaiseEpoch;
        if left.swaps > 0 && !state.workers.iter().any(in_use) {
            actions.push(Action::Lose);
            for (which, copy) in state.copies.iter().enumerate() {
                if copy.is_some_and(|copy| copy != state.stores[VECTORS]) {
                    actions.push(Action::Restore(which));
                }
            }
        }
        if left.losses > 0 && state.nobody_runs() {
            actions.push(Action::LoseState);
            if state.outbox != super::outbox::Outbox::default() {
                actions.push(Action::LoseOutbox);
            }
        }
    }

    /// Lets it happen.
    pub(super) fn happen(state: &mut State, event: Action) {
        let left = &mut state.left;
        match event {
            Action::Edit(page, text) => {
                left.edits -= 1;
                state.disk[page] = text;
                state.ghosts.edited[page] = true;
                state.stir();
            }
            Action::LeaseExpires(page) => {
                left.leases -= 1;
                state.outbox.pages[page].recover();
            }
            Action::FallsDue(page) => state.outbox.pages[page].fall_due(),
            Action::RetryDead(page) => {
                left.retries -= 1;
                state.outbox.pages[page].retry_dead();
            }
            Action::GitReset(page, text) => {
                left.resets -= 1;
                state.stores[GIT].pages[page] = text;
                state.ghosts.unseen = true;
                state.stir();
            }
            Action::Away(store) => {
                left.outages -= 1;
                state.up[store as usize] = false;
            }
            Action::Back(store) => state.up[store as usize] = true,
            Action::Copy => {
                left.copies -= 1;
                state.copies[1] = Some(state.stores[VECTORS]);
            }
            Action::Lose => {
                left.swaps -= 1;
                let empty = Held {
                    id: state.new_id(),
                    epoch: 0,
                    pages: [Text::Absent; PAGES],
                };
                state.replace_vectors(empty);
            }
            Action::Restore(which) => {
                left.swaps -= 1;
                if let Some(copy) = state.copies[which] {
                    state.replace_vectors(copy);
                }
            }
            Action::LoseState => {
                left.losses -= 1;
                state.lose_state();
            }
            Action::LoseOutbox => {
                left.losses -= 1;
                state.outbox = super::outbox::Outbox::default();
                state.ghosts.unseen = true;
                state.stir();
            }
            Action::Enqueue(..)
            | Action::Start(..)
            | Action::Step(..)
            | Action::StepWithFault(..)
            | Action::Probe(..)
            | Action::End(_)
            | Action::Kill(_) => {}
        }
    }
}

impl State {
    /// Whatever runs can no longer know all.
    fn stir(&mut self) {
        for worker in &mut self.workers {
            worker.calm = false;
        }
    }

    /// Returns an id that no store and no copy has.
    pub(super) fn new_id(&self) -> u8 {
        let copies = self.copies.iter().flatten();
        let known = self.receipts.known.iter().flatten();
        let ids = copies.chain(&self.stores).map(|held| held.id);
        ids.chain(known.map(|known| known.id)).max().unwrap_or(0) + 1
    }

    fn replace_vectors(&mut self, by: Held) {
        self.stores[VECTORS] = by;
        self.ghosts.replaced = true;
        self.ghosts.unseen = true;
        self.stir();
    }

    /// Receipts and graph lie in one file.
    fn lose_state(&mut self) {
        let graph = StoreName::Graph as usize;
        self.stores[graph] = Held {
            id: self.new_id(),
            epoch: 0,
            pages: [Text::Absent; PAGES],
        };
        self.receipts = super::receipts::Receipts::EMPTY;
        self.ghosts.unseen = true;
        self.stir();
    }
}
