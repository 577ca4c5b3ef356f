//! A job as an outbox keeps it, whatever it is kept in.

use serde::{Deserialize, Serialize};

use crate::model::{Job, Labels, PagePath, PathError, Timestamp};

/// Where an entry stands; the texts are the schema's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ready,
    Delayed,
    Held,
    InFlight,
}

impl State {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Held => "held",
            Self::InFlight => "in_flight",
        }
    }
}

/// A job as it stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: i64,
    pub(super) path: String,
    pub(super) state: State,
    /// The content named by whoever enqueued; empty when none was.
    pub(super) sha: String,
    pub(super) labels: Labels,
    pub(super) attempts: u32,
    /// The content last tried; empty when it was not tried yet or that is unknown.
    pub(super) version: String,
    pub(super) recoveries: u32,
    pub(super) reason: String,
    pub(super) held_for: Option<String>,
    pub(super) enqueued_at: i64,
    pub(super) due_at: Option<i64>,
}

impl Entry {
    /// Makes a fresh entry, ready at `now`.
    pub(super) fn fresh(id: i64, job: &Job, now: Timestamp) -> Self {
        Self {
            id,
            path: job.path.as_str().to_owned(),
            state: State::Ready,
            sha: sha_text(job),
            labels: job.labels.clone(),
            attempts: job.retry,
            version: String::new(),
            recoveries: 0,
            reason: String::new(),
            held_for: None,
            enqueued_at: now.0,
            due_at: Some(now.0),
        }
    }

    /// Returns the job it stands for.
    pub(super) fn job(&self) -> Result<Job, PathError> {
        Ok(Job {
            path: PagePath::parse(&self.path)?,
            sha: self.sha.parse().ok(),
            labels: self.labels.clone(),
            retry: self.attempts,
        })
    }

    /// Returns it in the form of the wire, also when its path is no page's.
    pub(super) fn line(&self, attempts: u32) -> String {
        match self.job() {
            Ok(job) => Job {
                retry: attempts,
                ..job
            }
            .to_line(),
            Err(_) => serde_json::json!({
                "sha": self.sha,
                "output_path": self.path,
                "repo": self.labels.repo,
                "commit_sha": self.labels.commit_sha,
                "retry": attempts,
            })
            .to_string(),
        }
    }
}

/// Returns the content a job names, as it stands in an entry.
pub(super) fn sha_text(job: &Job) -> String {
    job.sha.map(|sha| sha.to_string()).unwrap_or_default()
}
