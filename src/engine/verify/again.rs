//! The second look. The stores are read one after the other, and the pages last: what a drain brought in meanwhile, or
//! somebody announced, differs from what was read before and is no drift.

use super::judge::Judge;
use super::{VerifyOptions, look};
use crate::engine::{Parts, Progress};
use crate::model::{Failure, PagePath, StoreName, Timestamp, Within};
use crate::outbox::Counts;
use crate::state::Epochs;

/// Pages that are looked at again by themselves; of more, all are.
const PAGES: usize = 512;
/// How often it is looked again while a drain goes on.
const LOOKS: u32 = 3;

/// What moves when a drain works or somebody announces a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sign {
    epochs: Vec<Option<Epochs>>,
    counts: Counts,
}

/// Returns the sign as it stands now.
///
/// # Errors
/// When the receipts or the outbox cannot be read.
pub(super) fn sign(parts: &mut Parts) -> Result<Sign, Failure> {
    let epochs = StoreName::ALL
        .into_iter()
        .map(|store| parts.receipts.epochs(store));
    Ok(Sign {
        epochs: epochs.collect::<Result<_, _>>()?,
        counts: parts.outbox.counts(Timestamp::now())?,
    })
}

/// Looks again at the pages that differ, while anything moves. `before`: the sign before the first look.
///
/// # Errors
/// As [`super::verify`].
pub(super) fn confirm(
    parts: &mut Parts,
    judge: &mut Judge<'_>,
    mut before: Sign,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        // What has no page's path, no drain moves.
        let drift = judge.report.drift.iter();
        let pages: Vec<_> = drift
            .filter_map(|drift| PagePath::parse(&drift.path).ok())
            .filter(|path| judge.options.within.contains(path.as_str()))
            .collect();
        let now = sign(parts)?;
        if pages.is_empty() || now == before {
            return Ok(());
        }
        before = now;
        // A drain that waits for the vectors may have its turn.
        for store in &mut parts.stores {
            store.rest();
        }
        if pages.len() > PAGES {
            *judge = look(parts, judge.options, progress)?;
        } else {
            let options = VerifyOptions {
                within: Within::of(pages),
                ..judge.options.clone()
            };
            let later = look(parts, &options, progress)?;
            judge.revise(later);
        }
    }
    Ok(())
}
