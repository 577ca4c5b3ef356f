//! Ending claims.

use super::change::{Batch, Room};
use super::letters::Letter;
use super::settings::Offset;
use super::text::Lent;
use super::{RedisOutbox, distinct};
use crate::model::{Failure, Timestamp};
use crate::outbox::merge::Leaves;
use crate::outbox::story::{Step, Story};
use crate::outbox::{Claimed, Settle, Settled};

impl RedisOutbox {
    /// Ends some claims in one step, the first ones: so many that no more than `most_lines` of old dead letters may have
    /// to be looked for, and at least one. Returns how many they were.
    pub(super) fn settle_some(
        &mut self,
        some: &[(Claimed, Settle)],
        most_lines: usize,
        offset: Offset,
        now: Timestamp,
    ) -> Result<(Settled, usize), Failure> {
        let paths = distinct(some.iter().map(|(claim, _)| claim.job.path.as_str()));
        let is_dead = |(_, outcome): &&(Claimed, Settle)| matches!(outcome, Settle::Dead(_));
        let letters = some.iter().filter(is_dead).count();
        let (settled, done, story) = self.transact(
            "cannot settle jobs",
            &paths,
            (0, letters),
            Room::Any,
            |batch| {
                let mut settled = Settled::default();
                let mut story = Story::begin();
                let mut lines = 0;
                for (done, (claim, outcome)) in some.iter().enumerate() {
                    let page = batch.page(claim.job.path.as_str());
                    lines += usize::from(page.is_some_and(|page| page.old_line.is_some()));
                    if lines > most_lines {
                        return (settled, done, story);
                    }
                    let ended = settle_one(batch, claim, outcome, (offset, now), &mut story);
                    settled.merged += u64::from(ended == Some(true));
                    if ended.is_none() {
                        settled.refused += 1;
                        story.note(|| Step::lost(claim));
                    }
                }
                (settled, some.len(), story)
            },
        )?;
        story.tell();
        Ok((settled, done))
    }
}

/// Settles a claim and says whether its job was merged; `None` when the claim was lost.
fn settle_one(
    batch: &mut Batch,
    claim: &Claimed,
    outcome: &Settle,
    (offset, now): (Offset, Timestamp),
    story: &mut Story,
) -> Option<bool> {
    let outcome = &on_server(outcome, offset);
    let now = offset.server(now);
    let page = batch.page(claim.job.path.as_str())?;
    let lent = page.in_flight.now.take_if(|lent| lent.is(claim))?;
    let mut back = None;
    let mut letter = None;
    match lent.entry.clone().leave(outcome, now) {
        Leaves::Done => page.letter.now = None,
        Leaves::Swallowed => {}
        Leaves::Back(entry) => back = Some(entry),
        Leaves::Dead(death) => {
            let id = batch.letter_id();
            letter = Some(id);
            let made = Letter::of_job(id, &lent.entry, death, now.0);
            batch.page(claim.job.path.as_str())?.letter.now = Some(made);
        }
    }
    story.note(|| Step::settled(&lent.entry, outcome, letter));
    let Some(entry) = back else {
        return Some(false);
    };
    Some(batch.page(claim.job.path.as_str())?.put_back(*entry, story))
}

/// Returns an outcome with its time by the server's clock.
fn on_server(outcome: &Settle, offset: Offset) -> Settle {
    let mut outcome = outcome.clone();
    match &mut outcome {
        Settle::RetryAt { at, .. } => *at = offset.server(*at),
        Settle::Hold { until, .. } => *until = until.map(|until| offset.server(until)),
        Settle::Ack | Settle::Swallow | Settle::Dead(_) => {}
    }
    outcome
}

impl Lent {
    /// Says whether this is the claim that it was lent to.
    pub(super) fn is(&self, claim: &Claimed) -> bool {
        self.token == claim.token && self.entry.id.to_string() == claim.id.0
    }
}
