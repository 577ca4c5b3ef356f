//! Taking back what the dead had in hand, letting held jobs go on, and healing what somebody's hand broke.

use std::collections::HashSet;

use super::change::Room;
use super::keys::Key;
use super::link::Link;
use super::pages::{Page, is_at, path_of};
use super::text::{Lent, Text as _};
use super::{PIECE, RedisOutbox, distinct};
use crate::model::{Failure, Timestamp};
use crate::outbox::story::{Step, Story};
use crate::outbox::{LONGEST_WAIT, Recovered};

impl RedisOutbox {
    /// Takes back what is in flight: all, or what has run out.
    pub(super) fn take_back(&mut self, all: bool, now: Timestamp) -> Result<Recovered, Failure> {
        let doing = "cannot recover jobs";
        let latest = now.plus(LONGEST_WAIT);
        let is_lost = |lent: &Lent| all || lent.until < now.0 || lent.until > latest.0;
        let mut lost = HashSet::new();
        self.scan(doing, Key::InFlight, |path, text| {
            if let Ok(path) = String::from_utf8(path)
                // One that cannot be read is buried by the change.
                && Lent::read(&path, &text).is_none_or(|lent| is_lost(&lent))
            {
                lost.insert(path);
            }
        })?;
        let mut lost: Vec<String> = lost.into_iter().collect();
        lost.sort();
        let mut taken = Recovered::default();
        for some in lost.chunks(PIECE) {
            let (piece, story) = self.transact(doing, some, (0, 0), Room::Any, |batch| {
                let mut taken = Recovered::default();
                let mut story = Story::begin();
                for page in &mut batch.pages {
                    if let Some(mut lent) = page.in_flight.now.take_if(|lent| is_lost(lent)) {
                        lent.entry.recover();
                        taken.jobs += 1;
                        story.note(|| {
                            Step::of("taken back from a worker that is gone", &lent.entry)
                        });
                        taken.merged += u64::from(page.put_back(lent.entry, &mut story));
                    }
                }
                (taken, story)
            })?;
            story.tell();
            taken.jobs += piece.jobs;
            taken.merged += piece.merged;
        }
        Ok(taken)
    }

    /// Makes what is held in this order claimable.
    pub(super) fn release_one(&mut self, key: Key, now: Timestamp) -> Result<u64, Failure> {
        let doing = "cannot release held jobs";
        let name = self.link.keys.name(key).to_owned();
        let mut left: usize = self
            .link
            .ask(doing, |c| redis::cmd("ZCARD").arg(&name).query(c))?;
        let mut released = 0;
        while left > 0 {
            let some: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("ZRANGE")
                    .arg(&name)
                    .arg(0)
                    .arg(PIECE.min(left) - 1)
                    .query(c)
            })?;
            if some.is_empty() {
                break;
            }
            left -= some.len();
            let paths = distinct(some.iter().filter_map(|member| path_of(member)));
            released += self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                let mut released = 0;
                for member in &some {
                    let page = path_of(member).and_then(|path| batch.page(path));
                    let stands = page.as_ref().and_then(|page| page.stands());
                    match page.and_then(|page| page.waiting.now.as_mut()) {
                        Some(entry) if is_at(stands.as_ref(), key, member) => {
                            entry.release(now);
                            released += 1;
                        }
                        Some(_) | None => batch.forget_member(key, member.clone()),
                    }
                }
                released
            })?;
        }
        Ok(released)
    }

    /// Makes sure that every waiting entry stands in its order, and nothing else does. That is so unless somebody's
    /// hand, or a restored part of the keys, broke it; what it costs does not grow while it is so.
    pub(super) fn heal(&mut self) -> Result<(), Failure> {
        let doing = "cannot check the outbox";
        let keys = self.link.keys.clone();
        let sizes: Vec<u64> = self.link.ask(doing, |c| {
            let mut pipe = redis::pipe();
            pipe.cmd("HLEN").arg(keys.name(Key::Waiting));
            pipe.cmd("HLEN").arg(keys.name(Key::InFlight));
            for key in Key::ORDERS {
                pipe.cmd("ZCARD").arg(keys.name(key));
            }
            Link::at_once(c, &pipe)
        })?;
        let [waiting, in_flight, orders @ ..] = sizes.as_slice() else {
            return Ok(());
        };
        let standing: u64 = orders.iter().sum();
        // The entries of pages in flight stand nowhere.
        if standing <= *waiting && waiting - standing <= *in_flight {
            return Ok(());
        }
        let mut paths = Vec::new();
        self.scan(doing, Key::Waiting, |path, _| {
            paths.extend(String::from_utf8(path).ok());
        })?;
        for some in paths.chunks(PIECE) {
            self.transact(doing, some, (0, 0), Room::Any, |batch| {
                let stands: Vec<_> = batch.pages.iter().filter_map(Page::stands).collect();
                for stand in stands {
                    batch.stand_again(stand);
                }
            })?;
        }
        for key in Key::ORDERS {
            self.forget_strangers(doing, key)?;
        }
        Ok(())
    }

    /// Takes away what stands in an order without an entry.
    fn forget_strangers(&mut self, doing: &str, key: Key) -> Result<(), Failure> {
        let name = self.link.keys.name(key).to_owned();
        let mut from = 0;
        loop {
            let some: Vec<Vec<u8>> = self.link.ask(doing, |c| {
                redis::cmd("ZRANGE")
                    .arg(&name)
                    .arg(from)
                    .arg(from + PIECE - 1)
                    .query(c)
            })?;
            if some.is_empty() {
                return Ok(());
            }
            let paths = distinct(some.iter().filter_map(|member| path_of(member)));
            let forgotten = self.transact(doing, &paths, (0, 0), Room::Any, |batch| {
                let mut forgotten = 0;
                for member in &some {
                    let page = path_of(member).and_then(|path| batch.page(path));
                    if !is_at(page.and_then(|page| page.stands()).as_ref(), key, member) {
                        batch.forget_member(key, member.clone());
                        forgotten += 1;
                    }
                }
                forgotten
            })?;
            from += some.len() - forgotten;
        }
    }
}
