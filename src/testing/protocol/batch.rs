//! A group of claimed jobs, from claim to settle: `engine/{batch,apply,verdict}.rs`.

use super::outbox::{Letter, Settle};
use super::receipts::Receipt;
use super::state::{Broken, Claim, Outcome, PAGES, STORES, State, Step, Text, Work, Worker};
use super::{Mutant, Protocol};
use crate::model::{StoreName, StoreSet};

/// Attempts that a page has; the program's policy gives four.
const ATTEMPTS: u8 = 2;

impl Protocol {
    pub(super) fn claim(&self, state: &mut State, who: usize) {
        Self::recover(state);
        for page in 0..PAGES {
            let claimed = state.outbox.pages[page].claim(self.mutant);
            state.workers[who].claims[page] = claimed.map(|(job, token)| Claim {
                token,
                job,
                work: Work::Unread,
                letter: None,
                outcomes: [Outcome::Nothing; STORES],
                settle: None,
            });
        }
        let any = next_claim(&state.workers[who], 0);
        state.workers[who].step = any.map_or(Step::Idle, Step::Read);
    }

    pub(super) fn read(&self, state: &mut State, who: usize, page: usize) {
        let text = state.disk[page];
        let letter = if self.is(Mutant::LettersAreRemembered) {
            state.workers[who].letters[page]
        } else {
            state.outbox.pages[page].letter
        };
        let letter =
            letter.filter(|letter| letter.text == text && !self.is(Mutant::LookWakesTheDead));
        let all = |letter: Letter| {
            StoreName::ALL
                .into_iter()
                .all(|store| letter.stands_for(store))
        };
        let work = match text {
            _ if let Some(letter) = letter.filter(|letter| all(*letter)) => Work::Rests(letter),
            Text::Absent => Work::Remove,
            Text::Bad => Work::Rejected(text),
            text => Work::Put(text),
        };
        if matches!(work, Work::Rejected(_)) && state.rests(StoreName::Graph, page) {
            state.break_promise(Broken::RestDisturbed);
        }
        if let Some(claim) = &mut state.workers[who].claims[page] {
            claim.work = work;
            claim.letter = letter.filter(|letter| !all(*letter));
        }
        let next = next_claim(&state.workers[who], page + 1);
        state.workers[who].step = next.map_or(Step::Void, Step::Read);
    }

    pub(super) fn void(&self, state: &mut State, who: usize) {
        let State {
            receipts,
            workers,
            stores,
            up,
            ..
        } = state;
        let worker = &mut workers[who];
        for store in StoreName::ALL {
            let at = store as usize;
            let mut owes = [false; PAGES];
            for (page, claim) in worker.claims.iter_mut().enumerate() {
                let Some(claim) = claim else { continue };
                let Some(text) = claim.work.change() else {
                    continue;
                };
                if claim.letter.is_some_and(|letter| letter.keeps(text, store)) {
                    continue;
                }
                let done = match receipts.pages[at][page] {
                    Receipt::None => text == Text::Absent,
                    Receipt::Void => false,
                    Receipt::Holds(held) => held == text,
                };
                if !done || store == StoreName::Git {
                    claim.outcomes[at] = Outcome::Owed;
                    owes[page] = true;
                }
            }
            if !owes.contains(&true) {
                worker.shares[at] = None;
                continue;
            }
            // One that was replaced since the drain began is not written to: its epoch would then hide that.
            if store != StoreName::Git && !worker.shut[at] && self.compares() {
                worker.shut[at] = !up[at] || !receipts.speak_of(store, stores[at]);
                if !worker.shut[at] {
                    receipts.raise(store, stores[at].epoch);
                }
            }
            worker.shares[at] = match store {
                _ if worker.shut[at] => {
                    self.shut(worker, store);
                    None
                }
                StoreName::Git => Some(0),
                StoreName::Graph | StoreName::Vectors => {
                    Some(receipts.begin(store, owes, self.mutant))
                }
            };
        }
        if self.is(Mutant::ReceiptsBeforeApply) {
            for (page, claim) in worker.claims.iter().enumerate() {
                let Some(claim) = claim else { continue };
                for store in StoreName::ALL {
                    if claim.outcomes[store as usize] == Outcome::Owed
                        && let Some(text) = claim.work.change()
                    {
                        receipts.write(store, page, text);
                    }
                }
            }
        }
        worker.step = after_share(worker, 0);
    }

    pub(super) fn apply(&self, state: &mut State, who: usize, store: StoreName, mut fault: bool) {
        let at = store as usize;
        let known = state.receipts.known[at];
        let State {
            stores,
            workers,
            disk,
            ..
        } = state;
        let (worker, held) = (&mut workers[who], &mut stores[at]);
        let is_other = store != StoreName::Git
            && self.compares()
            && known.is_none_or(|known| known.id != held.id || known.epoch != held.epoch);
        if !state.up[at] || is_other {
            self.shut(worker, store);
            worker.step = after_share(worker, at + 1);
            return;
        }
        for (page, claim) in worker.claims.iter_mut().enumerate() {
            let Some(claim) = claim else { continue };
            let Some(text) = claim.work.change() else {
                continue;
            };
            if claim.outcomes[at] != Outcome::Owed {
                continue;
            }
            claim.outcomes[at] = if std::mem::take(&mut fault) {
                Outcome::Transient
            } else if store == StoreName::Git && held.pages[page] != text && disk[page] != text {
                Outcome::Busy
            } else {
                held.pages[page] = text;
                Outcome::Applied
            };
        }
        worker.step = match store {
            StoreName::Graph => {
                held.epoch = worker.shares[at].unwrap_or(held.epoch);
                after_share(worker, at + 1)
            }
            StoreName::Vectors => Step::RaiseEpoch,
            StoreName::Git => after_share(worker, at + 1),
        };
    }

    /// Whether a group looks again which store it is that it writes to.
    fn compares(&self) -> bool {
        !self.is(Mutant::ApplyDoesNotCompare) && !self.is(Mutant::EpochLags)
    }

    pub(super) fn raise_epoch(&self, state: &mut State, who: usize) {
        let at = StoreName::Vectors as usize;
        let worker = &mut state.workers[who];
        if state.up[at] {
            let held = &mut state.stores[at];
            held.epoch = worker.shares[at].unwrap_or(held.epoch);
        } else {
            self.shut(worker, StoreName::Vectors);
        }
        worker.step = after_share(worker, at + 1);
    }

    /// The store could not be used: none of its share counts as applied, and its epoch is not known to be reached.
    fn shut(&self, worker: &mut Worker, store: StoreName) {
        let at = store as usize;
        worker.shut[at] = true;
        for claim in worker.claims.iter_mut().flatten() {
            if claim.outcomes[at] != Outcome::Nothing {
                claim.outcomes[at] = Outcome::Down;
            }
        }
        if !self.is(Mutant::EpochIsRaisedThoughAway) {
            worker.shares[at] = None;
        }
    }

    pub(super) fn write(state: &mut State, who: usize) {
        let State {
            receipts, workers, ..
        } = state;
        let worker = &mut workers[who];
        for store in StoreName::ALL {
            let at = store as usize;
            let Some(epoch) = worker.shares[at].take() else {
                continue;
            };
            for (page, claim) in worker.claims.iter().enumerate() {
                if let Some(claim) = claim
                    && claim.outcomes[at] == Outcome::Applied
                    && let Some(text) = claim.work.change()
                {
                    receipts.write(store, page, text);
                }
            }
            if store != StoreName::Git {
                receipts.raise(store, epoch);
            }
        }
        worker.step = Step::Recheck;
    }

    pub(super) fn recheck(&self, state: &mut State, who: usize) {
        for page in 0..PAGES {
            let Some(claim) = &state.workers[who].claims[page] else {
                continue;
            };
            let settle = self.verdict(claim, state.disk[page]);
            // Such a letter was laid before this worker claimed, and nobody but a person takes it away.
            let tried = |store: &StoreName| {
                let outcome = claim.outcomes[*store as usize];
                matches!(outcome, Outcome::Applied | Outcome::Transient)
                    && state.rests(*store, page)
                    && claim.work.change() == Some(state.disk[page])
            };
            let disturbed = StoreName::ALL.iter().any(tried);
            let moved_on = claim.work.change() != Some(state.disk[page]);
            if settle == Settle::Ack && moved_on {
                state.break_promise(Broken::FalseAck);
            }
            if disturbed {
                state.break_promise(Broken::RestDisturbed);
            }
            if let Some(claim) = &mut state.workers[who].claims[page] {
                claim.settle = Some(settle);
            }
        }
        state.workers[who].step = Step::Settle;
    }

    /// Decides what becomes of a job.
    fn verdict(&self, claim: &Claim, disk: Text) -> Settle {
        let applied = match claim.work {
            Work::Rests(letter) => return Settle::Swallow(letter),
            Work::Rejected(text) => {
                return Settle::Dead(Letter {
                    text,
                    stores: StoreSet::NONE,
                });
            }
            Work::Put(text) => text,
            Work::Remove | Work::Unread => Text::Absent,
        };
        let version = match applied {
            Text::Absent if self.is(Mutant::AbsenceHasNoName) => None,
            text => Some(text),
        };
        let attempts = claim.job.attempts;
        let mut worst = (Outcome::Nothing, StoreName::Graph);
        for store in StoreName::ALL {
            if claim.outcomes[store as usize] > worst.0 {
                worst = (claim.outcomes[store as usize], store);
            }
        }
        match worst {
            (Outcome::Transient, _) if attempts + 1 < ATTEMPTS => Settle::RetryAt {
                attempts: attempts + 1,
                version,
            },
            (Outcome::Transient, _) => {
                let failed =
                    |store: &StoreName| claim.outcomes[*store as usize] == Outcome::Transient;
                // The new letter takes the place of one that stands for others.
                let before = claim.letter.map_or(StoreSet::NONE, |letter| letter.stores);
                let failed = StoreName::ALL.into_iter().filter(failed);
                Settle::Dead(Letter {
                    text: applied,
                    stores: before.iter().chain(failed).collect(),
                })
            }
            (Outcome::Down, store) if !self.is(Mutant::AckThoughAway) => {
                Settle::Hold { store, version }
            }
            (Outcome::Busy, _) => Settle::RetryAt { attempts, version },
            _ if disk != applied && !self.is(Mutant::NoRecheck) => {
                Settle::RetryAt { attempts, version }
            }
            _ => claim.letter.map_or(Settle::Ack, Settle::Swallow),
        }
    }

    pub(super) fn settle(&self, state: &mut State, who: usize) {
        let claims = std::mem::take(&mut state.workers[who].claims);
        for (page, claim) in claims.iter().enumerate() {
            let Some(claim) = claim else { continue };
            let Some(settle) = claim.settle else { continue };
            let slot = &mut state.outbox.pages[page];
            if let Settle::Dead(letter) = settle
                && !self.is(Mutant::DiesForAll)
                && StoreName::ALL.iter().any(|&store| {
                    !letter.stands_for(store) && claim.outcomes[store as usize] > Outcome::Applied
                })
            {
                let named = Some(letter.text).filter(|&text| text != Text::Absent);
                slot.enqueue(named, false, self.mutant);
            }
            let before = *slot;
            slot.settle(claim.token, claim.job, settle, self.mutant);
            let after = *slot;
            let is_ours = before
                .in_flight
                .is_some_and(|(_, token)| token == claim.token);
            if !is_ours && after != before && !self.is(Mutant::ClaimPops) {
                state.break_promise(Broken::StraySettle);
            }
            let counted = |slot: super::outbox::Slot| slot.waiting.map(|job| job.attempts);
            if matches!(settle, Settle::Hold { .. })
                && is_ours
                && before.waiting.is_none()
                && counted(after) != Some(claim.job.attempts)
            {
                state.break_promise(Broken::HoldCounted);
            }
        }
        state.workers[who].step = Step::Claim;
    }
}

/// The next claimed page at or after `from`.
fn next_claim(worker: &Worker, from: usize) -> Option<usize> {
    (from..PAGES).find(|&page| worker.claims[page].is_some())
}

/// What comes after the shares of the stores before `from`.
fn after_share(worker: &Worker, from: usize) -> Step {
    let next = StoreName::ALL.into_iter().skip(from);
    let mut owing = next.filter(|&store| worker.shares[store as usize].is_some());
    owing.next().map_or(Step::Write, Step::Apply)
}
