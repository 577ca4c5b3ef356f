//! The protocol as a model: outbox, drain and receipts, every state of it visited (`stateright`).
//!
//! Two workers, two pages, three stores. People edit pages, hooks announce them or do not, stores go away and come
//! back as others, workers are killed between any two steps. [`properties`] are the promises; each [`Mutant`] is a
//! mistake, and a test shows which promise sees it. What is bounded ([`world::Bounds`]) is how often a thing happens,
//! never when.
//!
//! | action or step | code |
//! |---|---|
//! | `Edit`, `GitReset` | the user, and his git |
//! | `Enqueue` | `outbox/sqlite/mod.rs` `enqueue`; merging: `merge.rs` `swallow` |
//! | `FallsDue` | `outbox/sqlite/mod.rs` `claimable`: a delayed job's time |
//! | `LeaseExpires` | `Outbox::recover(false, now)` |
//! | `RetryDead` | `outbox/sqlite/dead.rs` `retry` |
//! | `Away`, `Back` | `Failure` of kind `Down`, `Busy` or `Refused` from any method of `stores/mod.rs` `Store` |
//! | `Copy`, `Lose`, `Restore` | the vectors' folder or collection, dropped or replaced by an old copy |
//! | `LoseState`, `LoseOutbox` | `wiki.db` is gone: receipts and graph; `outbox.db`, or Redis was flushed: jobs and letters |
//! | `Start` | `engine/drain.rs` `drain`; `DrainOptions::scan` |
//! | `Begin` | `engine/drain.rs` `begin`: `lock`, `Outbox::recover(true, now)` |
//! | `Recognise`, `Adopt` | `engine/drain.rs` `recognise`, then `Outbox::release`; `state/receipts.rs` `recognise`, `adopt` |
//! | `Scan` | `engine/scan.rs` `Scan::run`, `Side::owes`; `engine/drain.rs` `scan` |
//! | `Claim` | `engine/drain.rs` `batch`: `lock`, `Outbox::recover(true, now)`, `Outbox::claim` |
//! | `Read` | `engine/batch.rs` `look` |
//! | `Void` | `engine/apply.rs` `share`, `has_receipt`, `void`; `state/receipts.rs` `begin` |
//! | `Apply`, `StepWithFault` | `engine/apply.rs` `bring`; `Store::apply`. The graph's epoch rises with its rows |
//! | `RaiseEpoch` | `stores/vectors/mod.rs` `apply`, after its points are flushed |
//! | `Write` | `state/receipts.rs` `write` |
//! | `Recheck` | `engine/verdict.rs` `verdict`, `is_still`, `fail`; `model/retry.rs` `verdict` |
//! | `Settle` | `engine/verdict.rs` `settle`, `onward`; `outbox/sqlite/mod.rs` `settle`, `put_back`; `merge.rs` `join` |
//! | `Idle`, `Probe`, `End` | `engine/drain.rs` `all`, `probe`; `engine/gate.rs` `Gate` |
//! | `Kill` | kill -9: the kernel lets go of `state/lock.rs` `CheckoutLock`, all else is what was committed |
//!
//! | state | code |
//! |---|---|
//! | [`outbox::Job`], [`outbox::Slot`] | a row of `jobs`; all rows of one page, its dead letter, its fencing token |
//! | [`outbox::Settle`] | `outbox/mod.rs` `Settle` |
//! | [`receipts::Receipt`], [`receipts::Known`] | a row of `receipts`; a row of `store_epochs` |
//! | [`state::Held`] | a store: `model/identity.rs` `Identity` and what it holds; git is judged by this, as by its witness |
//! | [`state::Worker`] | `engine/drain.rs` `Run`: gates and claims, lost when it is killed |
//!
//! Where the program had one of the mistakes from [`Mutant::AdoptsApart`] on, the model has the rule without it: a store
//! is recognised again in `Void` and `Apply`, gets a new id when it is another, is scanned for after a `Probe`.
//!
//! Taken to be one step although the program makes several: reading a page, a scan, `recover` with `claim`,
//! `recognise` with `release`, what goes on for other stores with `settle`. Left out: labels, fingerprints, the guard against mass deletion, the poison mark, groups
//! larger than memory. A store that is replaced between its points and its epoch is not modelled: nobody could tell.

mod batch;
mod outbox;
mod properties;
mod receipts;
mod state;
mod tests;
mod worker;
mod world;

use stateright::{Model, Property};

use self::outbox::{Outbox, Slot};
use self::receipts::{Known, Receipt, Receipts};
use self::state::{Ghosts, Held, PAGES, STORES, State, Step, Text, WORKERS, Worker};
use self::world::Bounds;
use crate::model::StoreName;

/// The protocol, or what it would be with one mistake in it.
#[derive(Debug, Clone)]
struct Protocol {
    /// How often what may happen.
    bounds: Bounds,
    mutant: Option<Mutant>,
}

/// A mistake that the model must find. Those from `AdoptsApart` on it found in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mutant {
    /// The ancestor's BLPOP: a claim leaves no copy behind.
    ClaimPops,
    /// The lock is not taken.
    NoLock,
    /// A settle looks at the job, not at the token.
    SettleIgnoresToken,
    /// An event about a page in flight is swallowed by the job in flight.
    EnqueueMergesWithInFlight,
    /// A hold uses an attempt.
    HoldCounts,
    /// A store that is away is no reason against an ack.
    AckThoughAway,
    /// The page is not looked at again after it was applied.
    NoRecheck,
    /// Receipts are written when the old ones are voided.
    ReceiptsBeforeApply,
    /// Receipts are not voided before the stores are touched.
    ReceiptsAreNotVoided,
    /// The epoch counts as reached although the store did not answer.
    EpochIsRaisedThoughAway,
    /// A store is known by its id alone.
    EpochsAreNotCompared,
    /// A scan enqueues a page whose dead letter rests.
    ScanWakesTheDead,
    /// A page is tried although its dead letter rests.
    LookWakesTheDead,
    /// `recognise` and `adopt` are two steps. Killed between them, the store counts as recognised, and what it
    /// holds of pages that are gone is never removed.
    AdoptsApart,
    /// A store that is not recognised keeps its id, and its epochs are counted on from an old copy's: two contents
    /// with one id and epoch. It must get a new id.
    IdStays,
    /// An epoch that a killed drain had reached is recognised as `pending` and not noted as `epoch`; the next
    /// `begin` forgets it, and the next kill makes the store another.
    EpochLags,
    /// A store is recognised when a drain begins, and not again when a group is brought to it: the group's epoch
    /// then hides that it was replaced.
    ApplyDoesNotCompare,
    /// After a probe no scan is made of what the first one could not know: a store that came back as another, pages
    /// of git that was not to be asked.
    ProbeDoesNotScan,
    /// A job that is held for one store stays held although another store owes the same content.
    ScanKeepsHolds,
    /// An event that names no content leaves standing what the waiting job names; that it was about other content
    /// than the one that is held is lost.
    NamesStay,
    /// A page that was gone when it was tried leaves no version, so nothing differs from it.
    AbsenceHasNoName,
    /// A job that died for one store is not enqueued again for the others that have not got its page.
    DiesForAll,
    /// Dead letters are read once, when the drain begins: one that was taken away meanwhile swallows a job, one that
    /// was laid meanwhile does not rest.
    LettersAreRemembered,
}

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// A page is edited or removed.
    Edit(usize, Text),
    /// It is announced, with the content named or not.
    Enqueue(usize, Option<Text>),
    /// A lease runs out, and the job comes back by itself (Redis).
    LeaseExpires(usize),
    /// A delayed job's time has come.
    FallsDue(usize),
    /// `dlq retry`.
    RetryDead(usize),
    /// HEAD gets another content of a page.
    GitReset(usize, Text),
    Away(StoreName),
    Back(StoreName),
    /// Somebody keeps a copy of the vectors.
    Copy,
    /// The vectors are gone.
    Lose,
    /// The vectors are replaced by a copy.
    Restore(usize),
    /// `wiki.db` is gone.
    LoseState,
    /// `outbox.db` is gone, or Redis was flushed.
    LoseOutbox,
    /// A drain starts, with a scan or without.
    Start(usize, bool),
    /// A worker's next step.
    Step(usize, Step),
    /// The same, and a page fails in the store.
    StepWithFault(usize, Step),
    /// A worker tries a store whose gate is shut.
    Probe(usize, StoreName),
    /// A worker ends.
    End(usize),
    /// kill -9.
    Kill(usize),
}

impl Protocol {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// One page that every store holds, none of the other, and an old copy of the vectors.
    fn init_states(&self) -> Vec<State> {
        let pages = [Text::One, Text::Absent];
        let held = Held {
            id: 1,
            epoch: 0,
            pages,
        };
        let known = Known {
            id: 1,
            epoch: 0,
            pending: 0,
        };
        vec![State {
            disk: pages,
            outbox: Outbox::default(),
            receipts: Receipts {
                pages: [[Receipt::Holds(Text::One), Receipt::None]; STORES],
                known: [Some(known), Some(known), None],
            },
            stores: [held; STORES],
            up: [true; STORES],
            copies: [Some(held).filter(|_| self.bounds.swaps > 0), None],
            workers: [Worker::OFF; WORKERS],
            left: self.bounds,
            ghosts: Ghosts::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.ghosts.broken.is_some() {
            return;
        }
        self.events(state, actions);
        for who in 0..self.bounds.workers {
            let step = state.workers[who].step;
            if step == Step::Off {
                // The workers are alike: the second starts only beside the first.
                if state.left.starts > 0 && (who == 0 || state.workers[0].step != Step::Off) {
                    actions.push(Action::Start(who, true));
                    if self.bounds.unscanned {
                        actions.push(Action::Start(who, false));
                    }
                }
                continue;
            }
            if self.can_step(state, who) {
                actions.push(Action::Step(who, step));
                if step == Step::Apply(StoreName::Vectors) && state.left.faults > 0 {
                    actions.push(Action::StepWithFault(who, step));
                }
            }
            if step == Step::Idle {
                let stores = StoreName::ALL.into_iter();
                let probed = stores.filter(|&store| {
                    state.workers[who].shut[store as usize]
                        && state.up[store as usize]
                        && state.outbox.holds_any()
                        && self.may_lock(state)
                });
                actions.extend(probed.map(|store| Action::Probe(who, store)));
                actions.push(Action::End(who));
            } else if state.left.kills > 0 {
                actions.push(Action::Kill(who));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        if let Action::Step(who, _)
        | Action::StepWithFault(who, _)
        | Action::Probe(who, _)
        | Action::Start(who, _) = action
        {
            for (other, worker) in state.workers.iter_mut().enumerate() {
                worker.alone &= other == who;
            }
        }
        match action {
            Action::Enqueue(page, sha) => {
                state.ghosts.edited[page] = false;
                state.outbox.pages[page].enqueue(sha, false, self.mutant);
            }
            Action::Start(who, scans) => {
                state.left.starts -= 1;
                Self::start(&mut state, who, scans);
            }
            Action::Step(who, _) => self.step(&mut state, who, false),
            Action::StepWithFault(who, _) => {
                state.left.faults -= 1;
                self.step(&mut state, who, true);
            }
            Action::Probe(who, store) => self.probe(&mut state, who, store),
            Action::End(who) => Self::end(&mut state, who),
            Action::Kill(who) => {
                state.left.kills -= 1;
                state.workers[who] = Worker::OFF;
            }
            event => Self::happen(&mut state, event),
        }
        state.canonical();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.bounds)
    }
}

impl State {
    /// Brings tokens and epochs, of which only order and distance matter, to their least numbers; so the same
    /// state is not visited under many names.
    fn canonical(&mut self) {
        for page in 0..PAGES {
            let Self {
                outbox, workers, ..
            } = self;
            let slot: &mut Slot = &mut outbox.pages[page];
            let mut live: Vec<&mut outbox::Token> = Vec::new();
            let claims = workers.iter_mut().map(|worker| &mut worker.claims[page]);
            live.extend(claims.flatten().map(|claim| &mut claim.token));
            live.extend(slot.in_flight.iter_mut().map(|(_, token)| token));
            let mut values: Vec<_> = live.iter().map(|token| **token).collect();
            values.sort_unstable();
            values.dedup();
            for token in live {
                let rank = values.iter().position(|value| value == token);
                *token = u8::try_from(rank.unwrap_or_default() + 1).unwrap_or(u8::MAX);
            }
            slot.last = u8::try_from(values.len()).unwrap_or(u8::MAX);
        }
        for at in [StoreName::Graph as usize, StoreName::Vectors as usize] {
            let mut epochs: Vec<&mut u8> = vec![&mut self.stores[at].epoch];
            epochs.extend(
                self.receipts.known[at]
                    .iter_mut()
                    .flat_map(|known| [&mut known.epoch, &mut known.pending]),
            );
            epochs.extend(
                self.workers
                    .iter_mut()
                    .filter_map(|worker| worker.shares[at].as_mut()),
            );
            if at == StoreName::Vectors as usize {
                epochs.extend(self.copies.iter_mut().flatten().map(|copy| &mut copy.epoch));
            }
            let least = epochs.iter().map(|epoch| **epoch).min().unwrap_or(0);
            for epoch in epochs {
                *epoch -= least;
            }
        }
    }
}
