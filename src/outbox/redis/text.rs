//! What stands in a hash's field: JSON, which the server never reads.

use serde::{Deserialize, Serialize};

use super::letters::Letter;
use crate::model::Labels;
use crate::outbox::entry::{Entry, State};

/// An entry as text, without its path, which is the field.
#[derive(Serialize, Deserialize)]
struct EntryText {
    id: i64,
    state: State,
    sha: String,
    repo: String,
    commit_sha: String,
    attempts: u32,
    version: String,
    recoveries: u32,
    reason: String,
    held_for: Option<String>,
    enqueued_at: i64,
    due_at: Option<i64>,
}

/// A claimed entry as text.
#[derive(Serialize, Deserialize)]
struct LentText {
    job: EntryText,
    token: i64,
    until: i64,
    worker: String,
    since: i64,
}

/// A claimed entry. Times are the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) entry: Entry,
    pub(super) token: i64,
    pub(super) until: i64,
    pub(super) worker: String,
    pub(super) since: i64,
}

/// What stands in a field.
pub(super) trait Text: Sized {
    fn read(path: &str, text: &[u8]) -> Option<Self>;
    fn write(&self) -> Vec<u8>;
}

/// Writes a field.
fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers always serialise")
}

impl EntryText {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id,
            state: entry.state,
            sha: entry.sha.clone(),
            repo: entry.labels.repo.clone(),
            commit_sha: entry.labels.commit_sha.clone(),
            attempts: entry.attempts,
            version: entry.version.clone(),
            recoveries: entry.recoveries,
            reason: entry.reason.clone(),
            held_for: entry.held_for.clone(),
            enqueued_at: entry.enqueued_at,
            due_at: entry.due_at,
        }
    }

    fn entry(self, path: &str) -> Entry {
        Entry {
            id: self.id,
            path: path.to_owned(),
            state: self.state,
            sha: self.sha,
            labels: Labels {
                repo: self.repo,
                commit_sha: self.commit_sha,
            },
            attempts: self.attempts,
            version: self.version,
            recoveries: self.recoveries,
            reason: self.reason,
            held_for: self.held_for,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
        }
    }
}

impl Text for Entry {
    fn read(path: &str, text: &[u8]) -> Option<Self> {
        let text: EntryText = serde_json::from_slice(text).ok()?;
        Some(text.entry(path))
    }

    fn write(&self) -> Vec<u8> {
        json(&EntryText::of(self))
    }
}

impl Text for Lent {
    fn read(path: &str, text: &[u8]) -> Option<Self> {
        let text: LentText = serde_json::from_slice(text).ok()?;
        Some(Self {
            entry: text.job.entry(path),
            token: text.token,
            until: text.until,
            worker: text.worker,
            since: text.since,
        })
    }

    fn write(&self) -> Vec<u8> {
        json(&LentText {
            job: EntryText::of(&self.entry),
            token: self.token,
            until: self.until,
            worker: self.worker.clone(),
            since: self.since,
        })
    }
}

impl Text for Letter {
    fn read(_path: &str, text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    fn write(&self) -> Vec<u8> {
        json(self)
    }
}
