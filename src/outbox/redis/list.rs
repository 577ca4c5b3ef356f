//! Listing what is not done.

use std::collections::HashMap;

use super::keys::Key;
use super::lines::LONGEST_LINE;
use super::settings::Offset;
use super::text::{Lent, Text};
use super::{PIECE, RedisOutbox};
use crate::model::{Failure, PagePath, Timestamp};
use crate::outbox::entry::{Entry, State};
use crate::outbox::{Pending, Standing};

impl RedisOutbox {
    /// Lists what is not done, oldest first.
    pub(super) fn list_pending(&mut self, limit: usize) -> Result<Vec<Pending>, Failure> {
        let doing = "cannot list the outbox";
        let offset = self.last_offset(doing)?;
        let mut found: HashMap<(i64, bool), Pending> = HashMap::new();
        self.scan(doing, Key::Waiting, |path, text| {
            if let Some(entry) = read_entry::<Entry>(path, &text) {
                let standing = match entry.state {
                    State::Ready | State::InFlight => Standing::Waiting,
                    State::Delayed => Standing::Delayed,
                    State::Held => Standing::Held,
                };
                if let Some(pending) = pending(&entry, standing, offset) {
                    found.insert((entry.id, false), pending);
                }
            }
        })?;
        self.scan(doing, Key::InFlight, |path, text| {
            if let Some(lent) = read_entry::<Lent>(path, &text) {
                let standing = Standing::InFlight {
                    worker: lent.worker.parse().ok(),
                    since: offset.date(lent.since),
                };
                if let Some(pending) = pending(&lent.entry, standing, offset) {
                    found.insert((lent.entry.id, true), pending);
                }
            }
        })?;
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(id, _)| *id);
        let mut list: Vec<Pending> = found.into_iter().map(|(_, pending)| pending).collect();
        list.truncate(limit);
        let now = offset.told(self.judged_at);
        self.list_lines(doing, &mut list, limit, now)?;
        Ok(list)
    }

    /// Adds the lines that nobody has read yet.
    fn list_lines(
        &mut self,
        doing: &str,
        list: &mut Vec<Pending>,
        limit: usize,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let mut from = 0;
        while list.len() < limit {
            let lines = self.peek(doing, Key::List, from, PIECE, LONGEST_LINE)?;
            if lines.is_empty() {
                break;
            }
            from += lines.len();
            let jobs = lines.iter().filter_map(|line| line.job().ok());
            list.extend(jobs.map(|job| Pending {
                path: job.path,
                standing: Standing::Waiting,
                held_for: None,
                reason: String::new(),
                attempts: job.retry,
                since: now,
                due: Some(now),
            }));
        }
        list.truncate(limit);
        Ok(())
    }
}

fn read_entry<T: Text>(path: Vec<u8>, text: &[u8]) -> Option<T> {
    T::read(&String::from_utf8(path).ok()?, text)
}

fn pending(entry: &Entry, standing: Standing, offset: Offset) -> Option<Pending> {
    Some(Pending {
        path: PagePath::parse(&entry.path).ok()?,
        standing,
        held_for: entry.held_for.as_deref().and_then(|name| name.parse().ok()),
        reason: entry.reason.clone(),
        attempts: entry.attempts,
        since: offset.date(entry.enqueued_at),
        due: entry.due_at.map(|due| offset.date(due)),
    })
}
