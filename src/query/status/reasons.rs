//! Held jobs and dead letters, put together by their reasons: a thousand pages that wait for one thing are one line.

use std::collections::HashMap;

use serde::Serialize;

use super::HeldJob;
use crate::model::{PagePath, StoreName};
use crate::outbox::DeadLetter;

/// Why jobs are held or were put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// The store that they wait for; `None` where they are to be tried again.
    pub store: Option<&'static str>,
    /// Why.
    pub reason: String,
    /// How many jobs.
    pub jobs: u64,
    /// When the oldest was enqueued, milliseconds since the epoch.
    pub since: i64,
    /// When the next of them is tried again, milliseconds since the epoch; `None` where nothing is set: at the next drain,
    /// or when the watch finds the store there again.
    pub next: Option<i64>,
}

/// Dead letters of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadLetters {
    /// The store that refused the pages; `None` where they came to none.
    pub store: Option<&'static str>,
    /// Why, with `…` for the page.
    pub reason: String,
    /// How many.
    pub letters: u64,
    /// When the oldest died, milliseconds since the epoch.
    pub oldest: i64,
}

/// Puts the held jobs of one reason together; the greatest number of jobs first.
pub(super) fn holds(held: &[HeldJob]) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut places = HashMap::new();
    for job in held {
        let reason = nameless(&job.reason, &job.path);
        let place = *places.entry((job.store, reason)).or_insert_with_key(|key| {
            holds.push(Hold {
                store: key.0,
                reason: key.1.clone(),
                jobs: 0,
                since: job.since,
                next: None,
            });
            holds.len() - 1
        });
        let hold = &mut holds[place];
        hold.jobs += 1;
        hold.since = hold.since.min(job.since);
        hold.next = match (hold.next, job.due) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    holds.sort_by_key(|hold| std::cmp::Reverse(hold.jobs));
    holds
}

/// Puts the dead letters of one reason together; the greatest number of letters first.
pub(super) fn dead_letters(letters: &[DeadLetter]) -> Vec<DeadLetters> {
    let mut all: Vec<DeadLetters> = Vec::new();
    let mut places = HashMap::new();
    for letter in letters {
        let store = letter.death.stores.only().map(StoreName::as_str);
        let path = letter.path.as_ref().map_or("", PagePath::as_str);
        let reason = nameless(&letter.death.reason, path);
        let place = *places.entry((store, reason)).or_insert_with_key(|key| {
            all.push(DeadLetters {
                store: key.0,
                reason: key.1.clone(),
                letters: 0,
                oldest: letter.dead_at.0,
            });
            all.len() - 1
        });
        all[place].letters += 1;
        all[place].oldest = all[place].oldest.min(letter.dead_at.0);
    }
    all.sort_by_key(|one| std::cmp::Reverse(one.letters));
    all
}

/// Returns a reason without its page's path, so that those of many pages are one.
fn nameless(reason: &str, path: &str) -> String {
    if path.is_empty() {
        return reason.into();
    }
    reason.replace(path, "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(path: &str, reason: &str, since: i64, due: Option<i64>) -> HeldJob {
        HeldJob {
            path: path.into(),
            store: Some("git"),
            reason: reason.into(),
            attempts: 0,
            since,
            due,
        }
    }

    #[test]
    fn jobs_of_one_reason_are_one_hold_with_the_oldest_time_and_the_next_try() {
        let held = [
            job("w/a.md", "a merge is under way", 5, None),
            job("w/b.md", "w/b.md is staged otherwise", 9, Some(30)),
            job("w/c.md", "w/c.md is staged otherwise", 7, Some(20)),
        ];
        let holds = holds(&held);
        assert_eq!(holds.len(), 2);
        assert_eq!(holds[0].reason, "… is staged otherwise");
        assert_eq!(
            (holds[0].jobs, holds[0].since, holds[0].next),
            (2, 7, Some(20))
        );
        assert_eq!((holds[1].jobs, holds[1].next), (1, None));
    }
}
