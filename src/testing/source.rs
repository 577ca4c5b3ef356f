//! Sources of events that fail as planned.

use std::time::Duration;

use crate::engine::watch::{Event, Source};
use crate::model::{Failure, FailureKind};
use crate::wiki::Wiki;

/// The variable that names the plan: `null` delivers nothing, ever; `limit:N` has room for N folders.
const PLAN: &str = "WIKI_SYNC_TEST_WATCH";

/// Wraps a source as the environment plans it.
///
/// # Errors
/// The source's own.
pub fn planned_source(
    source: Result<Box<dyn Source>, Failure>,
) -> Result<Box<dyn Source>, Failure> {
    let Ok(plan) = std::env::var(PLAN) else {
        return source;
    };
    let source = source?;
    let room = plan
        .strip_prefix("limit:")
        .map(|room| room.parse().unwrap_or(0));
    Ok(match room {
        Some(room) => Box::new(Limited { source, room }),
        None => Box::new(Null),
    })
}

/// Everything succeeds and nothing is told.
struct Null;

impl Source for Null {
    fn arm(&mut self, _folder: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn disarm(&mut self, _folder: &str) {}

    fn sing(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn next(&mut self, _wiki: &Wiki, wait: Duration, _events: &mut Vec<Event>) {
        std::thread::sleep(wait);
    }
}

/// A system with little room for watches.
struct Limited {
    source: Box<dyn Source>,
    room: u32,
}

impl Source for Limited {
    fn arm(&mut self, folder: &str) -> Result<(), Failure> {
        if self.room == 0 {
            return Err(
                Failure::new(FailureKind::Down, "inotify watch limit reached (planned)")
                    .hint("raise it: `sysctl fs.inotify.max_user_watches=1048576`"),
            );
        }
        self.room -= 1;
        self.source.arm(folder)
    }

    fn disarm(&mut self, folder: &str) {
        self.source.disarm(folder);
    }

    fn sing(&mut self) -> Result<(), Failure> {
        self.source.sing()
    }

    fn next(&mut self, wiki: &Wiki, wait: Duration, events: &mut Vec<Event>) {
        self.source.next(wiki, wait, events);
    }
}
