//! Doctor: what is around the wiki, and what to do about it. Nothing is changed, not even a database's log.
//!
//! | file | what is looked at |
//! |---|---|
//! | `pages.rs` | the pages' folder: its size against the system's limits, and clocks |
//! | `disk.rs` | file systems, and the room on them |
//! | `databases.rs` | the state folder, and dead letters in it |
//! | `hooks.rs` | git's hooks, and the program that they call |
//! | `watcher.rs` | the watch |
//!
//! What only the parts themselves know they say: git in `stores/git/examine.rs`, the vectors in
//! `stores/vectors/`, Redis in `outbox/redis/examine.rs`, the provider in `embed/examine.rs`, the channels in
//! `engine/alert/examine.rs`.
//!
//! The checks run side by side, and none is waited for longer than all may take: a server that never answers hides
//! nothing but itself.

pub mod databases;
pub mod disk;
pub mod hooks;
pub mod pages;
pub mod watcher;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::model::Finding;

/// Looks at one thing.
pub struct Check {
    name: &'static str,
    look: Box<dyn FnOnce() -> Vec<Finding> + Send>,
}

impl Check {
    /// Names a check. It is run in a thread of its own, and left alone there when it takes too long.
    pub fn new(name: &'static str, look: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Self {
        Self {
            name,
            look: Box::new(look),
        }
    }
}

/// Runs the checks, all at the same time and for so long at most, and returns what they found, in their order.
#[must_use]
pub fn examine(checks: Vec<Check>, within: Duration) -> Vec<Finding> {
    let end = Instant::now() + within;
    let mut all: Vec<(&'static str, Option<Vec<Finding>>)> = Vec::new();
    let (tell, told) = channel();
    for (at, check) in checks.into_iter().enumerate() {
        all.push((check.name, None));
        let tell = tell.clone();
        let started = thread::Builder::new()
            .name(check.name.into())
            .spawn(move || {
                // Where nobody waits any more, nobody is to be told.
                let _ = tell.send((at, (check.look)()));
            });
        if let Err(e) = started {
            let what = format!("not looked at: the system gives no thread ({e})");
            let hint = "look at the limits of processes and memory (`ulimit -u`), and try again";
            all[at].1 = Some(vec![Finding::fault(check.name, what, hint)]);
        }
    }
    drop(tell);
    let mut is_late = false;
    while all.iter().any(|(_, found)| found.is_none()) {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((at, found)) => all[at].1 = Some(found),
            Err(RecvTimeoutError::Timeout) => {
                is_late = true;
                break;
            }
            // Whoever has said nothing by now has ended without a word.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    all.into_iter()
        .flat_map(|(name, found)| found.unwrap_or_else(|| vec![unanswered(name, is_late, within)]))
        .collect()
}

fn unanswered(name: &'static str, is_late: bool, within: Duration) -> Finding {
    if is_late {
        let what = format!("no answer within {} s", within.as_secs_f32());
        let hint =
            "look at the server or the disk behind it; whatever hangs there hangs a drain too";
        Finding::fault(name, what, hint)
    } else {
        let what = "the check itself failed";
        Finding::fault(
            name,
            what,
            "tell the makers of wiki-sync what was printed above",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Level;

    #[test]
    fn a_check_that_hangs_or_fails_hides_no_other_and_the_order_stays() {
        let (never, hangs) = channel::<()>();
        let checks = vec![
            Check::new("slow", move || {
                let _ = hangs.recv();
                Vec::new()
            }),
            Check::new("one", || {
                vec![Finding::ok("one", "a"), Finding::ok("one", "b")]
            }),
            Check::new("none", Vec::new),
        ];
        let found = examine(checks, Duration::from_millis(500));
        let names: Vec<_> = found
            .iter()
            .map(|found| (found.name, found.level))
            .collect();
        assert_eq!(
            names,
            [
                ("slow", Level::Fault),
                ("one", Level::Ok),
                ("one", Level::Ok)
            ]
        );
        assert!(found[0].what.contains("no answer within 0.5 s"));
        drop(never);
        let checks = vec![
            Check::new("fails", || panic!("as a test")),
            Check::new("well", || vec![Finding::ok("well", "")]),
        ];
        let found = examine(checks, Duration::from_mins(1));
        assert_eq!(found[0].level, Level::Fault);
        assert_eq!((found[1].name, found.len()), ("well", 2));
    }
}
