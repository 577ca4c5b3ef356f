//! Random steps, played to an outbox and to the model.

use std::time::Duration;

use super::model::{LEASE_MS, Model, path, sha};
use crate::model::{Job, StoreName, StoreSet, Timestamp};
use crate::outbox::{Claimed, Death, Outbox, Recovered, Settle, Settled, Which};

/// A page, by number.
pub type Page = u8;

/// A content, by number; 0 is one that nobody knows.
pub type Content = u8;

/// One step of a play.
#[derive(Debug, Clone)]
pub enum Step {
    /// Enqueue these: page, content named, retry.
    Enqueue(Vec<(Page, Content, u32)>),
    /// Claim at most so many.
    Claim(usize),
    /// Settle claims: the how-manieth of all ever made (modulo their number), the outcome.
    Settle(Vec<(usize, Outcome)>),
    /// Extend the how-manieth claim.
    Extend(usize),
    /// Recover: all, or what has run out.
    Recover(bool),
    /// Release for a store, or for all.
    Release(Option<StoreName>),
    /// Retry all dead letters.
    RetryDead,
    /// Drop all dead letters.
    DropDead,
    /// The clock moves, by milliseconds.
    Tick(i64),
}

/// An outcome, with waits in milliseconds from now.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// All stores hold it.
    Ack,
    /// Retry after a wait, with attempts, having tried a content.
    Retry(i64, u32, Content),
    /// Swallowed by the page's resting dead letter.
    Swallow,
    /// Hold for a store, for ever or for a time, having tried a content.
    Hold(StoreName, Option<i64>, Content),
    /// Dead.
    Dead,
}

/// Plays the steps to an empty outbox and to the model.
///
/// # Panics
/// When the two differ: in an answer, in what a claim holds, in the counts, or when something is missing
/// from `entered = acked + merged + died + waiting + delayed + in flight + held`.
pub fn play(outbox: &mut dyn Outbox, steps: &[Step]) {
    let mut model = Model::at(1_795_000_000_000);
    let mut claims: Vec<Claimed> = Vec::new();
    for step in steps {
        take_step(outbox, &mut model, &mut claims, step);
        model.check(outbox);
    }
}

fn take_step(outbox: &mut dyn Outbox, model: &mut Model, claims: &mut Vec<Claimed>, step: &Step) {
    let now = Timestamp(model.now);
    let lease = Duration::from_millis(LEASE_MS.unsigned_abs());
    match step {
        Step::Enqueue(jobs) => {
            let told: Vec<_> = jobs
                .iter()
                .map(|&(page, content, retry)| Job {
                    retry,
                    ..Job::for_page(path(page), sha(content))
                })
                .collect();
            assert_eq!(outbox.enqueue(&told, now), Ok(model.enqueue(jobs)));
        }
        Step::Claim(max) => {
            let taken = outbox.claim(*max, lease, now).expect("claim");
            let beside = (taken.read, taken.merged, taken.buried);
            let claimed = taken.jobs;
            assert_eq!(beside, (0, 0, 0), "no producer wrote lines");
            assert_eq!(claimed.len(), model.claimable().min(*max));
            for claim in &claimed {
                model.claim(claim);
            }
            claims.extend(claimed);
        }
        Step::Settle(_) | Step::Extend(_) if claims.is_empty() => {}
        Step::Settle(settled) => {
            let mut told = Vec::new();
            let mut refused = 0;
            let merged = model.merged();
            for (which, outcome) in settled {
                let claim = &claims[which % claims.len()];
                told.push((claim.clone(), outcome.tell(model.now)));
                refused += u64::from(!model.settle(claim, outcome));
            }
            let merged = model.merged() - merged;
            assert_eq!(outbox.settle(&told, now), Ok(Settled { refused, merged }));
        }
        Step::Extend(which) => {
            let claim = claims[which % claims.len()].clone();
            let lost = u64::from(!model.extend(&claim));
            assert_eq!(outbox.extend(&[claim], lease, now), Ok(lost));
        }
        Step::Recover(all) => {
            let merged = model.merged();
            let jobs = model.recover(*all);
            let merged = model.merged() - merged;
            assert_eq!(outbox.recover(*all, now), Ok(Recovered { jobs, merged }));
        }
        Step::Release(store) => {
            assert_eq!(outbox.release(*store, now), Ok(model.release(*store)));
        }
        Step::RetryDead => {
            let put_back = outbox.retry_dead(&Which::All, now);
            assert_eq!(put_back, Ok(model.retry_dead()));
        }
        Step::DropDead => assert_eq!(outbox.drop_dead(&Which::All), Ok(model.drop_dead())),
        Step::Tick(ms) => model.now += ms,
    }
}

impl Outcome {
    fn tell(&self, now: i64) -> Settle {
        match *self {
            Self::Ack => Settle::Ack,
            Self::Retry(wait, attempts, tried) => Settle::RetryAt {
                at: Timestamp(now + wait),
                attempts,
                version: sha(tried).map(|sha| sha.to_string()).unwrap_or_default(),
                reason: "no luck".into(),
            },
            Self::Swallow => Settle::Swallow,
            Self::Hold(store, wait, tried) => Settle::Hold {
                store,
                until: wait.map(|wait| Timestamp(now + wait)),
                version: sha(tried).map(|sha| sha.to_string()).unwrap_or_default(),
                reason: "away".into(),
            },
            Self::Dead => Settle::Dead(Death {
                stores: StoreSet::NONE,
                reason: "never".into(),
                attempts: 4,
                version: String::new(),
                fingerprint: String::new(),
            }),
        }
    }
}

/// Random plays over a few pages, in which pages meet themselves often.
#[cfg(test)]
pub(crate) fn plays() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;

    let store = || prop::sample::select(StoreName::ALL.to_vec());
    let wait = || prop_oneof![Just(0), 1..30_000_i64, Just(10_000_000)];
    let content = || 0..4_u8;
    let job = (0..5_u8, content(), prop_oneof![4 => Just(0), 1 => 1..4_u32]);
    let outcome = prop_oneof![
        2 => Just(Outcome::Ack),
        3 => (wait(), 0..4_u32, content()).prop_map(|(w, n, c)| Outcome::Retry(w, n, c)),
        2 => (store(), prop::option::of(wait()), content()).prop_map(|(s, w, c)| Outcome::Hold(s, w, c)),
        1 => Just(Outcome::Swallow),
        1 => Just(Outcome::Dead),
    ];
    let tick = prop_oneof![
        6 => 0..40_000_i64,
        1 => Just(-1000_i64),
        1 => Just(-20_000_000_i64),
    ];
    let step = prop_oneof![
        6 => prop::collection::vec(job, 1..5).prop_map(Step::Enqueue),
        6 => (0..5_usize).prop_map(Step::Claim),
        6 => prop::collection::vec((any::<usize>(), outcome), 1..4).prop_map(Step::Settle),
        1 => any::<usize>().prop_map(Step::Extend),
        2 => any::<bool>().prop_map(Step::Recover),
        1 => prop::option::of(store()).prop_map(Step::Release),
        1 => Just(Step::RetryDead),
        1 => Just(Step::DropDead),
        4 => tick.prop_map(Step::Tick),
    ];
    prop::collection::vec(step, 1..60)
}
