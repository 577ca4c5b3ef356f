//! What makes the stores equal to the pages, and proves it: scan, drain, verify.
//!
//! | file | verb |
//! |---|---|
//! | [`scan`] | finds whatever nobody announced: pages against receipts and HEAD |
//! | [`drain`] | claims, applies, settles, until nothing is due |
//! | [`watch`] | drains what is saved, as long as it runs |
//! | [`verify`] | reads the real stores and names every difference |
//! | [`announce`] | compares HEAD with what was last seen of it, for hooks |
//! | [`rebuild`] | builds a store anew beside the old one |
//! | [`rename`] | moves pages with the links to them |
//! | [`spool`] | hands over what the outbox could not take when it was announced |
//! | [`alert`] | tells a person once of each incident |
//! | [`bounds`] | drops the oldest dead letters beyond their bounds |

mod ahead;
pub mod alert;
pub mod announce;
mod apply;
mod batch;
pub mod bounds;
pub mod drain;
mod gate;
mod opening;
pub mod rebuild;
pub mod rename;
pub mod report;
pub mod scan;
pub mod spool;
mod verdict;
pub mod verify;
pub mod watch;

pub(crate) use self::opening::ANOTHER;

use self::alert::Alerts;
use self::bounds::DeadBounds;
use crate::model::RetryPolicy;
use crate::outbox::Outbox;
use crate::state::{Receipts, StateDir};
use crate::stores::Store;
use crate::wiki::Wiki;

/// Everything that the verbs work on, opened once by `cli`.
pub struct Parts {
    /// The pages.
    pub wiki: Wiki,
    /// The state folder.
    pub state: StateDir,
    /// What was applied, and what was seen of each file.
    pub receipts: Receipts,
    /// The queue.
    pub outbox: Box<dyn Outbox>,
    /// The stores, in the order in which they are applied.
    pub stores: Vec<Box<dyn Store>>,
    /// When a failed job is tried again.
    pub policy: RetryPolicy,
    /// Whom to tell.
    pub alerts: Alerts,
    /// How many dead letters there may be, and how old.
    pub dead: DeadBounds,
}

/// Returns how many milliseconds have gone by, for the log.
fn ms(began: std::time::Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Hears how far a long run is; called often, so it must be quick.
pub trait Progress {
    /// `done` of `total` steps of `what` ("scanning", "syncing", "verifying") are done; `total` may grow, and is 0 where
    /// it is not known.
    fn at(&mut self, what: &'static str, done: u64, total: u64);

    /// What was under way is over, for now at least.
    fn over(&mut self) {}

    /// Something else must end first, and why.
    fn waits(&mut self, _why: &str) {}
}

/// Hears nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn at(&mut self, _what: &'static str, _done: u64, _total: u64) {}
}
