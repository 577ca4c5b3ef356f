//! The watch of this checkout, if there is one.

use crate::model::{Finding, Timestamp};
use crate::query::status::watch_status;
use crate::state::StateDir;

/// Feels its pulse.
#[must_use]
pub fn examine(state: &StateDir, now: Timestamp) -> Vec<Finding> {
    const NAME: &str = "watch";
    let watch = match watch_status(state, now) {
        Ok(watch) => watch,
        Err(failure) => {
            let hint = "see who may read .wiki-sync: `ls -l .wiki-sync`";
            return vec![Finding::of(NAME, &failure, hint)];
        }
    };
    if let Some(trouble) = watch.trouble(now) {
        return vec![trouble];
    }
    let mode = watch.mode.as_deref().unwrap_or("events");
    vec![match watch.pid {
        Some(pid) if watch.running => Finding::ok(NAME, format!("process {pid}, by {mode}")),
        Some(_) | None => Finding::ok(NAME, "none runs"),
    }]
}
