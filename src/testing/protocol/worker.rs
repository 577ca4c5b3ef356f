//! The drain, step by step: `engine/{drain,scan}.rs`. Between any two steps it may be killed.

use super::outbox::Standing;
use super::receipts::Receipt;
use super::state::{Broken, PAGES, STORES, State, Step, Text, Worker};
use super::{Mutant, Protocol};
use crate::model::StoreName;

/// Steps that an undisturbed drain may take; far more than it needs.
const MOST_STEPS: usize = 300;

impl Protocol {
    /// Starts a drain.
    pub(super) fn start(state: &mut State, who: usize, scans: bool) {
        let alone = state.nobody_runs();
        let told = !state.ghosts.unseen && !state.ghosts.edited.contains(&true);
        for worker in &mut state.workers {
            worker.alone = false;
        }
        state.workers[who] = Worker {
            step: Step::Begin,
            scans,
            calm: scans || told,
            alone,
            ..Worker::OFF
        };
    }

    /// Whether the worker's next step can be taken now.
    pub(super) fn can_step(&self, state: &State, who: usize) -> bool {
        match state.workers[who].step {
            Step::Off => false,
            Step::Begin | Step::Claim => self.may_lock(state),
            Step::Idle => {
                let slots = &state.outbox.pages;
                self.may_lock(state) && slots.iter().any(super::outbox::Slot::is_claimable)
            }
            _ => true,
        }
    }

    /// Whether the checkout's lock can be had.
    pub(super) fn may_lock(&self, state: &State) -> bool {
        state.lock_is_free() || self.is(Mutant::NoLock)
    }

    /// Takes the worker's next step; with a fault, the first page of a share fails in the store.
    pub(super) fn step(&self, state: &mut State, who: usize, fault: bool) {
        match state.workers[who].step {
            Step::Off => {}
            Step::Begin => {
                Self::recover(state);
                state.workers[who].step = Step::Recognise(StoreName::Graph);
            }
            Step::Recognise(store) => self.recognise(state, who, store, false),
            Step::Adopt(store, probed) => {
                let held = state.stores[store as usize];
                state.receipts.adopt(store, held);
                self.recognised(state, who, store, probed);
            }
            Step::Scan => self.scan(state, who),
            Step::Claim | Step::Idle => self.claim(state, who),
            Step::Read(page) => self.read(state, who, page),
            Step::Void => self.void(state, who),
            Step::Apply(store) => self.apply(state, who, store, fault),
            Step::RaiseEpoch => self.raise_epoch(state, who),
            Step::Write => Self::write(state, who),
            Step::Recheck => self.recheck(state, who),
            Step::Settle => self.settle(state, who),
        }
    }

    pub(super) fn recover(state: &mut State) {
        for slot in &mut state.outbox.pages {
            slot.recover();
        }
    }

    /// Tries a store whose gate is shut.
    pub(super) fn probe(&self, state: &mut State, who: usize, store: StoreName) {
        self.recognise(state, who, store, true);
    }

    fn recognise(&self, state: &mut State, who: usize, store: StoreName, probed: bool) {
        let at = store as usize;
        if !state.up[at] {
            state.workers[who].shut[at] = true;
            self.next_store(state, who, store, probed);
            return;
        }
        if store == StoreName::Git {
            // A scan that could not ask it knows nothing of its pages.
            state.workers[who].must_scan |= probed;
        } else {
            let (new, was_known) = (state.new_id(), state.receipts.known[at].is_some());
            let State {
                receipts, stores, ..
            } = &mut *state;
            let same = receipts.recognise(store, &mut stores[at], new, self.mutant);
            let held = stores[at];
            if store == StoreName::Vectors {
                if was_known && !same && !state.ghosts.replaced {
                    state.break_promise(Broken::FalseAlarm);
                }
                state.ghosts.replaced = false;
            }
            if !same {
                state.workers[who].must_scan |= probed;
                if self.is(Mutant::AdoptsApart) {
                    state.workers[who].step = Step::Adopt(store, probed);
                    return;
                }
                state.receipts.adopt(store, held);
            }
        }
        self.recognised(state, who, store, probed);
    }

    /// The receipts speak of the store: opens its gate and lets its jobs go on.
    fn recognised(&self, state: &mut State, who: usize, store: StoreName, probed: bool) {
        state.workers[who].shut[store as usize] = false;
        for slot in &mut state.outbox.pages {
            slot.release(store);
        }
        self.next_store(state, who, store, probed);
    }

    fn next_store(&self, state: &mut State, who: usize, store: StoreName, probed: bool) {
        let next = StoreName::ALL.get(store as usize + 1);
        let worker = &mut state.workers[who];
        worker.step = match next {
            Some(&next) if !probed => Step::Recognise(next),
            _ if probed && (!worker.must_scan || self.is(Mutant::ProbeDoesNotScan)) => Step::Claim,
            _ if worker.scans => Step::Scan,
            _ => Step::Claim,
        };
        if !probed && next.is_none() && self.is(Mutant::LettersAreRemembered) {
            worker.letters = state.outbox.pages.map(|slot| slot.letter);
        }
    }

    fn scan(&self, state: &mut State, who: usize) {
        let git = StoreName::Git as usize;
        let asked = state.up[git];
        state.workers[who].shut[git] |= !asked;
        state.workers[who].must_scan = false;
        for page in 0..PAGES {
            let text = state.disk[page];
            let mut owed = StoreName::ALL.map(|store| {
                let (at, held) = (store as usize, state.stores[store as usize].pages[page]);
                let receipt = state.receipts.pages[at][page];
                if store == StoreName::Git && !asked {
                    return false;
                }
                match (text, receipt) {
                    (Text::Absent, Receipt::None) => store == StoreName::Git && held != text,
                    (Text::Absent, _) => true,
                    (text, receipt) => {
                        receipt != Receipt::Holds(text) || (store == StoreName::Git && held != text)
                    }
                }
            });
            let letter = state.outbox.pages[page].letter;
            let is_about = letter.is_some_and(|letter| letter.text == text);
            for store in StoreName::ALL {
                if state.rests(store, page) && !self.is(Mutant::ScanWakesTheDead) {
                    owed[store as usize] = false;
                }
            }
            if owed.contains(&true) || (letter.is_some() && !is_about) {
                let awake = |store: &StoreName| !state.rests(*store, page) && owed[*store as usize];
                if is_about && !StoreName::ALL.iter().any(awake) {
                    state.break_promise(Broken::RestDisturbed);
                }
                let shut = &state.workers[who].shut;
                let wakes = owed.iter().zip(shut).any(|(owed, shut)| *owed && !shut)
                    && !self.is(Mutant::ScanKeepsHolds);
                let named = Some(text).filter(|&text| text != Text::Absent);
                state.outbox.pages[page].enqueue(named, wakes, self.mutant);
            }
        }
        let judged = [StoreName::Graph, StoreName::Vectors];
        let mut judged = judged
            .iter()
            .map(|&store| (store, state.stores[store as usize]));
        if asked && judged.all(|(store, held)| state.receipts.speak_of(store, held)) {
            state.ghosts.edited = [false; PAGES];
            state.ghosts.unseen = false;
        }
        state.workers[who].step = Step::Claim;
    }

    /// Ends a drain that found nothing more to do, and judges what it said.
    pub(super) fn end(state: &mut State, who: usize) {
        let worker = std::mem::replace(&mut state.workers[who], Worker::OFF);
        let slots = &state.outbox.pages;
        let is_empty = !slots.iter().any(super::outbox::Slot::is_owed);
        // What is held for a store that is away is said; whatever else is owed is not.
        let only_holds = slots.iter().all(|slot| {
            let held = |job: super::outbox::Job| matches!(job.standing, Standing::Held(_));
            slot.in_flight.is_none() && slot.waiting.is_none_or(held)
        });
        let told_all = is_empty && !worker.shut.contains(&true);
        let judged = StoreName::ALL.into_iter().filter(|&store| {
            told_all || (worker.alone && only_holds && !worker.shut[store as usize])
        });
        if worker.calm && !judged.into_iter().all(|store| state.is_held_by(store)) {
            state.break_promise(Broken::FalseQuiet);
        }
    }

    /// Returns how things stand after one more drain, with all stores there and nobody else about.
    pub(super) fn undisturbed(&self, state: &State, scans: bool) -> State {
        let mut state = state.clone();
        state.up = [true; STORES];
        Self::start(&mut state, 0, scans);
        for _ in 0..MOST_STEPS {
            if state.workers[0].step != Step::Idle {
                self.step(&mut state, 0, false);
                continue;
            }
            for slot in &mut state.outbox.pages {
                slot.fall_due();
            }
            let shut = StoreName::ALL.into_iter();
            let mut shut = shut.filter(|&store| state.workers[0].shut[store as usize]);
            if state.outbox.holds_any()
                && let Some(store) = shut.next()
            {
                self.probe(&mut state, 0, store);
            } else if self.can_step(&state, 0) {
                self.step(&mut state, 0, false);
            } else {
                Self::end(&mut state, 0);
                break;
            }
        }
        state
    }
}
