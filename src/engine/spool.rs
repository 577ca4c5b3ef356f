//! Hands over what the outbox could not take when it was announced.

use crate::model::{Failure, FailureKind, Job, Timestamp};
use crate::outbox::{Enqueued, HANDFUL, Junk, Outbox};
use crate::state::StateDir;

/// Enqueues the jobs that are kept, in their order, where there are any. Whoever announces does so first: what was said
/// later of a page counts.
///
/// # Errors
/// When the outbox or the state is away. Then all of them stay kept; what was enqueued merges the next time.
pub fn hand_over(
    state: &StateDir,
    outbox: &mut dyn Outbox,
    now: Timestamp,
) -> Result<Enqueued, Failure> {
    let mut done = Enqueued::default();
    let Some(kept) = state.take_kept()? else {
        return Ok(done);
    };
    let mut jobs = Vec::new();
    let mut junk = Vec::new();
    for line in kept.lines() {
        match read(line) {
            Ok(job) => jobs.push(job),
            Err(reason) => junk.push(Junk {
                raw: line.to_owned(),
                reason,
            }),
        }
    }
    for some in jobs.chunks(HANDFUL) {
        let some = outbox.enqueue(some, now)?;
        done.new += some.new;
        done.merged += some.merged;
    }
    // Not written by us, and yet not thrown away.
    for one in &junk {
        outbox.bury(one, now)?;
    }
    fail::fail_point!("spool.handed_over");
    kept.handed_over()?;
    Ok(done)
}

fn read(line: &[u8]) -> Result<Job, String> {
    let text = str::from_utf8(line).map_err(|_| "line is not UTF-8".to_owned())?;
    Job::from_line(text).map_err(|e| Failure::from_error(FailureKind::Rejected, "", &e).reason)
}
