//! Receipts: `state/receipts.rs` without SQL.

use super::Mutant;
use super::state::{Held, PAGES, STORES, Text};
use crate::model::StoreName;

/// What is remembered of one page in one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Receipt {
    /// The store was never given the page.
    None,
    /// The store may hold anything of the page.
    Void,
    /// The store holds this; for git the content is the mark too.
    Holds(Text),
}

/// Which store the receipts speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Known {
    pub(super) id: u8,
    pub(super) epoch: u8,
    pub(super) pending: u8,
}

/// The receipts and epochs, by store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Receipts {
    pub(super) pages: [[Receipt; PAGES]; STORES],
    pub(super) known: [Option<Known>; STORES],
}

impl Receipts {
    /// Of a new `wiki.db`.
    pub(super) const EMPTY: Self = Self {
        pages: [[Receipt::None; PAGES]; STORES],
        known: [None; STORES],
    };

    /// Whether the receipts of a store speak of this one.
    pub(super) fn speak_of(&self, store: StoreName, found: Held) -> bool {
        self.known[store as usize].is_some_and(|known| {
            known.id == found.id && (known.epoch == found.epoch || known.pending == found.epoch)
        })
    }

    /// Compares a store with the one the receipts speak of; of another one, which gets the id `new`, it voids all
    /// receipts and returns `false`.
    pub(super) fn recognise(
        &mut self,
        store: StoreName,
        found: &mut Held,
        new: u8,
        mutant: Option<Mutant>,
    ) -> bool {
        let at = store as usize;
        let same_id = self.known[at].is_some_and(|known| known.id == found.id);
        let blind = mutant == Some(Mutant::EpochsAreNotCompared) && same_id;
        if blind || self.speak_of(store, *found) {
            if mutant != Some(Mutant::EpochLags)
                && let Some(known) = &mut self.known[at]
            {
                // It was reached, whatever became of whoever raised it.
                known.epoch = found.epoch;
            }
            return true;
        }
        for receipt in &mut self.pages[at] {
            if *receipt != Receipt::None {
                *receipt = Receipt::Void;
            }
        }
        if mutant != Some(Mutant::IdStays) {
            // Else another copy of it could be taken for it as soon as the epochs are the same.
            found.id = new;
        }
        self.known[at] = Some(Known {
            id: found.id,
            epoch: found.epoch,
            pending: found.epoch,
        });
        false
    }

    /// Notes that a store may hold something of these pages.
    pub(super) fn adopt(&mut self, store: StoreName, found: Held) {
        for (receipt, text) in self.pages[store as usize].iter_mut().zip(found.pages) {
            if text != Text::Absent && *receipt == Receipt::None {
                *receipt = Receipt::Void;
            }
        }
    }

    /// Voids the receipts of a group and returns the epoch that the store will have afterwards.
    pub(super) fn begin(
        &mut self,
        store: StoreName,
        pages: [bool; PAGES],
        mutant: Option<Mutant>,
    ) -> u8 {
        let at = store as usize;
        if mutant != Some(Mutant::ReceiptsAreNotVoided) {
            for (receipt, _) in self.pages[at].iter_mut().zip(pages).filter(|(_, is)| *is) {
                *receipt = Receipt::Void;
            }
        }
        match &mut self.known[at] {
            Some(known) => {
                known.pending = known.epoch.max(known.pending) + 1;
                known.pending
            }
            None => 1,
        }
    }

    /// Notes what a store holds of a page.
    pub(super) fn write(&mut self, store: StoreName, page: usize, text: Text) {
        self.pages[store as usize][page] = if text == Text::Absent {
            Receipt::None
        } else {
            Receipt::Holds(text)
        };
    }

    /// Notes the epoch that a store has reached.
    pub(super) fn raise(&mut self, store: StoreName, epoch: u8) {
        if let Some(known) = &mut self.known[store as usize] {
            known.epoch = epoch;
        }
    }
}
