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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::model::{Job, PagePath, Timestamp};
use crate::outbox::{Claimed, Outbox, Settle};

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

/// Shows that of acks and recoveries that meet, each job sees one: who was acked does not come back, and who came back was
/// not acked. `open` opens the same empty outbox each time.
///
/// # Panics
/// When it does not hold.
pub fn acks_beside_recoveries(open: &(dyn Fn() -> Box<dyn Outbox> + Sync)) {
    const JOBS: usize = 300;
    const NOW: Timestamp = Timestamp(1_795_000_000_000);
    let path = |n| PagePath::parse(&format!("wiki-output/{n}.md")).expect("a page's path");
    let jobs: Vec<_> = (0..JOBS).map(|n| Job::for_page(path(n), None)).collect();
    let mut outbox = open();
    // Until they met: how the two threads get their turns is the machine's.
    for _ in 0..50 {
        outbox.enqueue(&jobs, NOW).expect("enqueue");
        let lease = Duration::from_mins(1);
        let claims = outbox.claim(JOBS, lease, NOW).expect("claim").jobs;
        assert_eq!(claims.len(), JOBS);
        let [has_begun, is_over] = [false, false].map(AtomicBool::new);
        let (late, back) = std::thread::scope(|scope| {
            let reaper = scope.spawn(|| {
                let mut outbox = open();
                let mut back = 0;
                while !is_over.load(Ordering::SeqCst) {
                    if has_begun.load(Ordering::SeqCst) {
                        back += outbox.recover(true, NOW).expect("recover").jobs;
                    }
                    std::thread::yield_now();
                }
                back
            });
            let settle = |some: &[Claimed]| {
                let acks: Vec<_> = some.iter().map(|c| (c.clone(), Settle::Ack)).collect();
                let settled = outbox.settle(&acks, NOW);
                has_begun.store(true, Ordering::SeqCst);
                settled.map(|settled| settled.refused)
            };
            let late: Result<u64, _> = claims.chunks(3).map(settle).sum();
            is_over.store(true, Ordering::SeqCst);
            (late.expect("settle"), reaper.join().expect("no panic"))
        });
        let left = outbox.counts(NOW).expect("counts");
        assert_eq!((left.waiting, left.in_flight), (late, 0));
        assert_eq!(late, back, "each that came back was refused its ack");
        if late > 0 {
            return;
        }
    }
    panic!("they never met");
}
