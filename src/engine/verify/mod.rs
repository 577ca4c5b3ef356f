//! Verify: names every difference between the stores and the pages.
//!
//! | file | how |
//! |---|---|
//! | `full.rs` | reads every store and compares it with what the pages make |
//! | `fast.rs` | believes the receipts, and asks the stores only who they are |
//! | `judge.rs` | what is drift, and what is excused since it is known already |
//! | `again.rs` | looks a second time at what differs: a drain may have moved it on meanwhile |
//! | `repair.rs` | enqueues the drift |

mod again;
mod fast;
mod full;
mod judge;
mod repair;

pub use self::repair::repair;

use self::judge::{Judge, Standing, standing};
use super::report::VerifyReport;
use super::{Parts, Progress};
use crate::model::{Failure, StoreName, Within};

/// What to verify, and how.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Believe the receipts: the stores' contents are not read.
    pub fast: bool,
    /// The stores; all, when none is named.
    pub stores: Vec<StoreName>,
    /// The pages.
    pub within: Within,
}

impl VerifyOptions {
    /// Says whether a store is verified.
    #[must_use]
    pub fn includes(&self, store: StoreName) -> bool {
        self.stores.is_empty() || self.stores.contains(&store)
    }
}

/// Compares the stores with the pages; changes nothing.
///
/// What a job still waits for, and what a dead letter is about, is no drift: it is counted on its own. A page that a drain
/// brings in meanwhile is looked at again.
///
/// # Errors
/// When the pages or the outbox cannot be read. A store that cannot be read is in the report.
pub fn verify(
    parts: &mut Parts,
    options: &VerifyOptions,
    progress: &mut dyn Progress,
) -> Result<VerifyReport, Failure> {
    let before = again::sign(parts)?;
    let mut judge = look(parts, options, progress)?;
    again::confirm(parts, &mut judge, before, progress)?;
    // Whoever reads the report may take his time; nobody shall wait for him.
    for store in &mut parts.stores {
        store.rest();
    }
    Ok(judge.report())
}

/// Says whether a store is another one than its receipts speak of, so that the next drain looks through it. Opens and asks
/// it no more than it must.
///
/// # Errors
/// When the store or the receipts cannot be asked.
pub(crate) fn is_replaced(parts: &mut Parts, at: usize) -> Result<bool, Failure> {
    Ok(standing(parts, at, false)? == Standing::Replaced)
}

fn look<'o>(
    parts: &mut Parts,
    options: &'o VerifyOptions,
    progress: &mut dyn Progress,
) -> Result<Judge<'o>, Failure> {
    let mut judge = Judge::open(parts, options)?;
    if options.fast {
        fast::look(parts, &mut judge, progress)?;
    } else {
        full::look(parts, &mut judge, progress)?;
    }
    Ok(judge)
}
