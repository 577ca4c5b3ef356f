//! The facts, one function each, and what they are told with.

#![allow(clippy::wildcard_imports)] // The topics speak this module's words.

mod dead;
mod enqueue;
mod lease;
mod settle;
mod status;

use std::time::Duration;

use super::Case;
use crate::model::{ContentSha, Job, Labels, PagePath, StoreName, StoreSet, Timestamp};
use crate::outbox::{
    Claimed, Claims, Counts, Death, Enqueued, JobId, Junk, LONGEST_WAIT, Outbox, Settle, Standing,
    Which, Worker,
};

/// The facts of each topic, in reading order.
pub const CASES: [&[(&str, Case)]; 5] = [
    enqueue::CASES,
    settle::CASES,
    lease::CASES,
    dead::CASES,
    status::CASES,
];

/// Lists the facts of a topic with their names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[(&str, Case)] = &[$((stringify!($name), $name)),*];
    };
}
use cases;

/// A real present: milliseconds since the epoch, in 2026.
const NOW: Timestamp = Timestamp(1_795_000_000_000);
const LEASE: Duration = Duration::from_mins(1);

fn at(ms: i64) -> Timestamp {
    Timestamp(NOW.0 + ms)
}

fn path(name: &str) -> PagePath {
    PagePath::parse(name).expect("a page's path")
}

fn sha(content: &str) -> ContentSha {
    ContentSha::of(content.as_bytes())
}

/// A job without a content.
fn job(name: &str) -> Job {
    Job::for_page(path(name), None)
}

/// A job of a content.
fn job_of(name: &str, content: &str) -> Job {
    Job::for_page(path(name), Some(sha(content)))
}

fn put(outbox: &mut dyn Outbox, jobs: &[Job], now: Timestamp) -> Enqueued {
    outbox.enqueue(jobs, now).expect("enqueue")
}

fn take(outbox: &mut dyn Outbox, now: Timestamp) -> Vec<Claimed> {
    outbox.claim(1000, LEASE, now).expect("claim").jobs
}

/// Claims the only job that can be claimed.
fn take_one(outbox: &mut dyn Outbox, now: Timestamp) -> Claimed {
    let mut claims = take(outbox, now);
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.remove(0)
}

fn names(claims: &[Claimed]) -> Vec<&str> {
    claims.iter().map(|c| c.job.path.as_str()).collect()
}

/// Settles a claim that must not be refused.
fn end(outbox: &mut dyn Outbox, claim: &Claimed, outcome: Settle, now: Timestamp) {
    let settled = outbox.settle(&[(claim.clone(), outcome)], now);
    assert_eq!(settled.map(|s| s.refused), Ok(0), "{claim:?}");
}

fn retry(at: Timestamp, attempts: u32, content: &str) -> Settle {
    Settle::RetryAt {
        at,
        attempts,
        version: if content.is_empty() {
            String::new()
        } else {
            sha(content).to_string()
        },
        reason: "no luck".into(),
    }
}

fn hold(store: StoreName, until: Option<Timestamp>) -> Settle {
    Settle::Hold {
        store,
        until,
        version: String::new(),
        reason: format!("{store} is away"),
    }
}

fn death(reason: &str) -> Death {
    Death {
        stores: [StoreName::Graph, StoreName::Vectors].into_iter().collect(),
        reason: reason.into(),
        attempts: 4,
        version: sha("v1").to_string(),
        fingerprint: "f1".into(),
    }
}

/// Settles and returns how many were refused.
fn refused(outbox: &mut dyn Outbox, settled: &[(Claimed, Settle)], now: Timestamp) -> u64 {
    outbox.settle(settled, now).expect("settle").refused
}

/// Recovers and returns how many jobs were taken back.
fn recover(outbox: &mut dyn Outbox, all: bool, now: Timestamp) -> u64 {
    outbox.recover(all, now).expect("recover").jobs
}

fn counts(outbox: &mut dyn Outbox, now: Timestamp) -> Counts {
    outbox.counts(now).expect("counts")
}

/// A job that failed `attempts` times with `content`, delayed until `due`.
fn delayed(outbox: &mut dyn Outbox, name: &str, attempts: u32, content: &str, due: Timestamp) {
    put(outbox, &[job_of(name, content)], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, retry(due, attempts, content), NOW);
}

/// Lays a page among the dead letters.
fn bury_page(outbox: &mut dyn Outbox, job: &Job, death: Death, now: Timestamp) {
    put(outbox, std::slice::from_ref(job), now);
    let claim = take_one(outbox, now);
    end(outbox, &claim, Settle::Dead(death), now);
}
