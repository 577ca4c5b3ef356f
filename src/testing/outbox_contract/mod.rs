//! What every outbox must do, told only through the trait.
//!
//! [`CASES`] are the facts, each shown on an empty outbox by [`run`]. [`play`] plays random steps to it
//! and to a small second outbox in memory; both must give the same.

mod cases;
mod model;
mod play;

pub use cases::CASES;
#[cfg(test)]
pub(crate) use play::plays;
pub use play::{Content, Outcome, Page, Step, play};

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::outbox::Outbox;

/// Shows one fact on an empty outbox; panics when it does not hold.
pub type Case = fn(&mut dyn Outbox);

/// Shows every fact, each on an empty outbox that `make` makes.
///
/// # Panics
/// With the names of the facts that do not hold, after having tried them all.
pub fn run(make: &mut dyn FnMut() -> Box<dyn Outbox>) {
    let mut broken = Vec::new();
    for (name, case) in CASES.into_iter().flatten() {
        let mut outbox = make();
        if catch_unwind(AssertUnwindSafe(|| case(&mut *outbox))).is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.is_empty(), "these do not hold: {broken:#?}");
}
