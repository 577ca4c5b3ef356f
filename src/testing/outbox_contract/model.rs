//! A small second outbox in memory, written from the trait's words.

use std::collections::BTreeMap;

use super::play::{Content, Outcome, Page};
use crate::model::{ContentSha, PagePath, StoreName, Timestamp};
use crate::outbox::{Claimed, Counts, Enqueued, LONGEST_WAIT, Outbox};

pub(super) const LEASE_MS: i64 = 60_000;

fn longest_ms() -> i64 {
    i64::try_from(LONGEST_WAIT.as_millis()).expect("an hour fits")
}

pub(super) fn path(page: Page) -> PagePath {
    PagePath::parse(&format!("w/{page}.md")).expect("a page's path")
}

pub(super) fn sha(content: Content) -> Option<ContentSha> {
    (content > 0).then(|| ContentSha::of(&[content]))
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    Ready,
    At(i64),
    Held(StoreName, Option<i64>),
}

impl When {
    fn has_come(self, now: i64) -> bool {
        let come = |at| at <= now || at > now + longest_ms();
        match self {
            Self::Ready => true,
            Self::At(at) => come(at),
            Self::Held(_, until) => until.is_some_and(come),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Item {
    named: Content,
    tried: Content,
    attempts: u32,
    recoveries: u32,
    when: When,
}

impl Item {
    fn fresh(named: Content, attempts: u32) -> Self {
        Self {
            named,
            tried: 0,
            attempts,
            recoveries: 0,
            when: When::Ready,
        }
    }

    fn is_other(&self, content: Content) -> bool {
        let known = if self.tried > 0 {
            self.tried
        } else {
            self.named
        };
        known > 0 && content > 0 && known != content
    }

    fn renew(&mut self, attempts: u32) {
        self.attempts = attempts;
        self.tried = 0;
        self.when = When::Ready;
    }

    /// Whether an event that names this content ends a hold.
    fn is_released_by(&self, named: Content) -> bool {
        matches!(self.when, When::Held(..)) && (named == 0 || self.is_other(named))
    }
}

#[derive(Debug)]
struct Lent {
    item: Item,
    token: i64,
    until: i64,
}

#[derive(Debug, Default)]
struct Row {
    waiting: Option<Item>,
    lent: Option<Lent>,
    /// The content that the dead job named.
    dead: Option<Content>,
}

impl Row {
    fn come_back(&mut self, mut item: Item) -> u64 {
        let newer = self.waiting.take();
        if let Some(newer) = newer {
            let held = matches!(newer.when, When::Held(..));
            if item.is_other(newer.named) || item.is_released_by(newer.named) || held {
                item.when = newer.when;
            }
            if item.is_other(newer.named) {
                item.attempts = newer.attempts;
                item.tried = newer.tried;
            } else {
                item.attempts = item.attempts.max(newer.attempts);
            }
            item.recoveries = item.recoveries.max(newer.recoveries);
            if newer.named > 0 {
                item.named = newer.named;
            }
        }
        self.waiting = Some(item);
        u64::from(newer.is_some())
    }
}

/// What went where: nothing may be missing at the end.
#[derive(Debug, Default)]
struct Ledger {
    entered: u64,
    merged: u64,
    acked: u64,
    died: u64,
    letters_gone: u64,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    rows: BTreeMap<Page, Row>,
    pub(super) now: i64,
    ledger: Ledger,
}

impl Model {
    /// Makes an empty outbox at this time.
    pub(super) fn at(now: i64) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    pub(super) fn enqueue(&mut self, jobs: &[(Page, Content, u32)]) -> Enqueued {
        let mut done = Enqueued::default();
        for &(page, named, retry) in jobs {
            let row = self.rows.entry(page).or_default();
            if let Some(item) = &mut row.waiting {
                if item.is_other(named) {
                    item.renew(retry);
                } else if item.is_released_by(named) {
                    item.when = When::Ready;
                }
                item.named = named;
                done.merged += 1;
            } else {
                row.waiting = Some(Item::fresh(named, retry));
                done.new += 1;
            }
        }
        self.ledger.entered += done.new + done.merged;
        self.ledger.merged += done.merged;
        done
    }

    /// How many jobs were merged so far.
    pub(super) fn merged(&self) -> u64 {
        self.ledger.merged
    }

    pub(super) fn claimable(&self) -> usize {
        let free = |row: &&Row| {
            row.lent.is_none() && row.waiting.is_some_and(|item| item.when.has_come(self.now))
        };
        self.rows.values().filter(free).count()
    }

    /// Takes the claim over, having checked that it was allowed and says what it must.
    pub(super) fn claim(&mut self, claim: &Claimed) {
        let now = self.now;
        let (_, row) = self
            .rows
            .iter_mut()
            .find(|(page, _)| path(**page) == claim.job.path)
            .expect("a page that was enqueued");
        assert!(row.lent.is_none(), "{} is in flight twice", claim.job.path);
        let item = row.waiting.take().expect("a page that waits");
        assert!(item.when.has_come(now), "{item:?} at {now}");
        assert_eq!(
            (claim.job.sha, claim.job.retry, claim.recoveries),
            (sha(item.named), item.attempts, item.recoveries)
        );
        row.lent = Some(Lent {
            item,
            token: claim.token,
            until: now + LEASE_MS,
        });
    }

    fn lent(&mut self, claim: &Claimed) -> Option<&mut Row> {
        self.rows
            .values_mut()
            .find(|row| row.lent.as_ref().is_some_and(|l| l.token == claim.token))
    }

    /// Settles and says whether the claim was still held.
    pub(super) fn settle(&mut self, claim: &Claimed, outcome: &Outcome) -> bool {
        let latest = self.now + longest_ms();
        let now = self.now;
        let Some(row) = self.lent(claim) else {
            return false;
        };
        let mut item = row.lent.take().expect("just found").item;
        item.recoveries = 0;
        let (mut acked, mut died, mut merged, mut gone) = (0, 0, 0, 0);
        match *outcome {
            Outcome::Ack => {
                acked = 1;
                gone = u64::from(row.dead.take().is_some());
            }
            Outcome::Retry(wait, attempts, tried) => {
                item.when = if wait > 0 {
                    When::At((now + wait).min(latest))
                } else {
                    When::Ready
                };
                item.attempts = attempts;
                item.tried = tried;
                merged = row.come_back(item);
            }
            Outcome::Swallow => acked = 1,
            Outcome::Hold(store, wait, tried) => {
                if tried > 0 {
                    item.tried = tried;
                }
                item.when = When::Held(store, wait.map(|wait| (now + wait).min(latest)));
                merged = row.come_back(item);
            }
            Outcome::Dead => {
                died = 1;
                gone = u64::from(row.dead.replace(item.named).is_some());
            }
        }
        self.ledger.acked += acked;
        self.ledger.died += died;
        self.ledger.merged += merged;
        self.ledger.letters_gone += gone;
        true
    }

    pub(super) fn extend(&mut self, claim: &Claimed) -> bool {
        let until = self.now + LEASE_MS;
        let row = self.lent(claim);
        let held = row.is_some();
        if let Some(lent) = row.and_then(|row| row.lent.as_mut()) {
            lent.until = until;
        }
        held
    }

    pub(super) fn recover(&mut self, all: bool) -> u64 {
        let now = self.now;
        let lost = |lent: &mut Lent| all || lent.until < now || lent.until > now + longest_ms();
        let mut taken = 0;
        for row in self.rows.values_mut() {
            if let Some(lent) = row.lent.take_if(lost) {
                let item = Item {
                    recoveries: lent.item.recoveries + 1,
                    when: When::Ready,
                    ..lent.item
                };
                self.ledger.merged += row.come_back(item);
                taken += 1;
            }
        }
        taken
    }

    pub(super) fn release(&mut self, store: Option<StoreName>) -> u64 {
        let mut released = 0;
        for item in self
            .rows
            .values_mut()
            .filter_map(|row| row.waiting.as_mut())
        {
            if let When::Held(held_for, _) = item.when
                && store.is_none_or(|store| store == held_for)
            {
                item.when = When::Ready;
                released += 1;
            }
        }
        released
    }

    pub(super) fn retry_dead(&mut self) -> u64 {
        let mut put_back = 0;
        for row in self.rows.values_mut() {
            let Some(named) = row.dead.take() else {
                continue;
            };
            put_back += 1;
            if let Some(item) = &mut row.waiting {
                item.renew(0);
                if item.named == 0 {
                    item.named = named;
                }
                self.ledger.merged += 1;
            } else {
                row.waiting = Some(Item::fresh(named, 0));
            }
        }
        self.ledger.entered += put_back;
        self.ledger.letters_gone += put_back;
        put_back
    }

    pub(super) fn drop_dead(&mut self) -> u64 {
        let rows = self.rows.values_mut();
        let dropped = rows.filter_map(|row| row.dead.take()).count() as u64;
        self.ledger.letters_gone += dropped;
        dropped
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for row in self.rows.values() {
            counts.in_flight += u64::from(row.lent.is_some());
            counts.dead += u64::from(row.dead.is_some());
            match row.waiting.map(|item| item.when) {
                None => {}
                Some(When::Held(..)) => counts.held += 1,
                Some(when) if when.has_come(self.now) => counts.waiting += 1,
                Some(_) => counts.delayed += 1,
            }
        }
        counts
    }

    fn next_due(&self) -> Option<Timestamp> {
        let due = |row: &Row| match row.waiting?.when {
            When::Ready => None,
            When::At(at) => Some(at),
            When::Held(_, until) => until,
        };
        self.rows.values().filter_map(due).min().map(Timestamp)
    }

    /// Path, hold and attempts of everything that is not done, sorted.
    fn pending(&self) -> Vec<(PagePath, Option<StoreName>, u32)> {
        let mut pending = Vec::new();
        for (page, row) in &self.rows {
            if let Some(item) = row.waiting {
                let held_for = match item.when {
                    When::Held(store, _) => Some(store),
                    When::Ready | When::At(_) => None,
                };
                pending.push((path(*page), held_for, item.attempts));
            }
            if let Some(lent) = &row.lent {
                pending.push((path(*page), None, lent.item.attempts));
            }
        }
        pending.sort();
        pending
    }

    pub(super) fn check(&self, outbox: &mut dyn Outbox) {
        let counts = outbox.counts(Timestamp(self.now)).expect("counts");
        assert_eq!(counts, self.counts());
        assert_eq!(outbox.next_due(), Ok(self.next_due()));
        let mut pending: Vec<_> = outbox
            .pending(usize::MAX)
            .expect("pending")
            .into_iter()
            .map(|p| (p.path, p.held_for, p.attempts))
            .collect();
        pending.sort();
        assert_eq!(pending, self.pending());

        let ledger = &self.ledger;
        let live = counts.waiting + counts.delayed + counts.in_flight + counts.held;
        assert_eq!(
            ledger.entered,
            ledger.acked + ledger.merged + ledger.died + live
        );
        assert_eq!(ledger.died, counts.dead + ledger.letters_gone);
    }
}
