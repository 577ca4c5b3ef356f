//! Alerts: a person is told once of each incident, by Telegram, a webhook or a command.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | which channels there are |
//! | `text.rs` | the words |
//! | `book.rs` | the tables, and what is away |
//! | `letters.rs` | which dead letters were told |
//! | `deliveries.rs` | what is to be delivered, and what became of it |
//! | `courier.rs` | a thread for each channel |
//! | `send.rs` | sending one message, in bounded time |
//! | `examine.rs` | whether a message would arrive, for `doctor` |
//!
//! Nothing here fails or delays a drain: what goes wrong with an alert is a trouble in the report, and what was not
//! delivered waits in the table for the next drain. A message may arrive twice when its channel took it and we were
//! killed before we knew.

mod book;
mod courier;
mod deliveries;
mod examine;
mod letters;
mod send;
mod settings;
mod text;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use examine::examine;
pub use settings::{
    AlertSettings, Channel, DeliveryPolicy, TOKEN_VARIABLE, VARIABLES, check_base_url,
    check_webhook_url,
};
pub use text::Message;

use self::book::Book;
use self::courier::Couriers;
use super::report::Trouble;
use crate::model::{Failure, FailureKind, RetryPolicy, StoreName, Timestamp};
use crate::outbox::DeadLetter;

/// How long the end of a drain waits for deliveries.
pub const END_WAIT: Duration = Duration::from_secs(3);

/// What may be away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A store.
    Store(StoreName),
    /// Whatever no drain can do without: the outbox, the state, the pages' folder.
    Drain,
}

impl Subject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Store(store) => store.as_str(),
            Self::Drain => "drain",
        }
    }
}

/// What the engine sees happen.
#[derive(Debug, Clone)]
pub enum Event {
    /// Something could not be used, again. Told once, after the schedule of probes is used up, which may take several
    /// drains; at once when it refuses. A neighbour's lock and what waits for the user are never told.
    Away {
        /// What.
        subject: Subject,
        /// Why.
        failure: Failure,
    },
    /// Something is to be used again, and nothing stands against it; told if it was told to be away.
    Back {
        /// What.
        subject: Subject,
    },
    /// The dead letters come near their bounds.
    NearlyFull {
        /// How many there are.
        count: u64,
        /// How many there may be.
        max: u64,
    },
    /// The oldest dead letters are about to be dropped.
    Trimmed {
        /// How many.
        count: u64,
        /// The page of the oldest.
        oldest: String,
    },
}

/// Whom to tell, and what was told. With no channel it does nothing and costs nothing.
#[derive(Default)]
pub struct Alerts {
    on: Option<Box<On>>,
    /// Channels that were meant and cannot be used.
    wrong: Vec<Failure>,
}

/// Alerts with at least one channel.
struct On {
    book: Book,
    couriers: Couriers,
    policy: DeliveryPolicy,
    /// How long something must be away before it is told: the schedule of probes.
    patience: Duration,
    /// What is away by name, and whether it was told; saves a look at the table.
    away: HashMap<String, bool>,
    channels: Vec<&'static str>,
    troubles: Vec<Trouble>,
}

/// Alerts at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlertStatus {
    /// The channels, by name.
    pub channels: Vec<&'static str>,
    /// The last alert.
    pub last: Option<LastAlert>,
    /// Deliveries that are still to be made.
    pub undelivered: u64,
    /// Why the last delivery that failed did.
    pub error: Option<String>,
}

/// The last alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastAlert {
    /// When, milliseconds since the epoch.
    pub at: i64,
    /// What kind.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// Whether every channel has it.
    pub delivered: bool,
}

impl Alerts {
    /// Opens the alerts of a wiki in `wiki.db`. `wiki` is the name it is told by; `wrong` says which channels cannot
    /// be used, and is repeated in each report. Without a channel nothing is opened.
    ///
    /// # Errors
    /// As [`crate::state::open_db`].
    pub fn open(
        database: &Path,
        wiki: &str,
        (channels, wrong): (Vec<Channel>, Vec<Failure>),
        retry: &RetryPolicy,
    ) -> Result<Self, Failure> {
        if channels.is_empty() {
            return Ok(Self { on: None, wrong });
        }
        let names: Vec<_> = channels.iter().map(Channel::name).collect();
        let on = On {
            book: Book::open(database, wiki, names.clone())?,
            couriers: Couriers::new(channels),
            policy: DeliveryPolicy::default(),
            patience: retry.probes.iter().sum(),
            away: HashMap::new(),
            channels: names,
            troubles: Vec::new(),
        };
        Ok(Self {
            on: Some(Box::new(on)),
            wrong,
        })
    }

    /// Begins a drain: what earlier ones left is sent.
    pub fn begin(&mut self, now: Timestamp) {
        self.with(|on| {
            on.away = on.book.away()?;
            for (title, channel, error) in on.book.tidy(&on.policy, now)? {
                let hours = on.policy.give_up.as_secs() / 3600;
                let error = error.map_or(String::new(), |error| format!(": {error}"));
                on.trouble(format!(
                    "alert {title:?} could not be delivered by {channel} within {hours} h and was dropped{error}"
                ));
            }
            on.dispatch(now)
        });
    }

    /// Notes what happened. Repeating it changes nothing.
    pub fn note(&mut self, event: &Event, now: Timestamp) {
        self.with(|on| {
            on.note(event, now)?;
            fail::fail_point!("alert.noted");
            on.dispatch(now)
        });
    }

    /// Says whether it matters to [`Alerts::letters`] that there are no dead letters any more.
    pub fn remembers_letters(&mut self) -> bool {
        let mut any = false;
        self.with(|on| {
            any = on.book.has_dead()?;
            Ok(())
        });
        any
    }

    /// Compares the dead letters, as they were at `seen`, with those that were told; the new ones are told in one
    /// message. So a drain that was killed before it could tell leaves it to the next.
    pub fn letters(&mut self, letters: &[DeadLetter], seen: Timestamp, now: Timestamp) {
        self.with(|on| {
            on.book.note_letters(letters, seen, now)?;
            fail::fail_point!("alert.noted");
            on.dispatch(now)
        });
    }

    /// Notes that these letters are about to be dropped, so that their pages are not told again when they die again
    /// of the same.
    pub fn trimming(&mut self, letters: &[&DeadLetter], now: Timestamp) {
        self.with(|on| on.book.note_trimmed(letters, now));
    }

    /// Notes that the dead letters are well within their bounds.
    pub fn within_bounds(&mut self) {
        self.with(|on| on.book.end_bounds());
    }

    /// Goes on with what is to be delivered, without waiting; for a run that is not at its end.
    pub fn go_on(&mut self, now: Timestamp) {
        self.with(|on| on.dispatch(now));
    }

    /// Ends a drain: waits up to `wait` for what is under way, and returns what is to be reported.
    pub fn end(&mut self, now: Timestamp, wait: Duration) -> Vec<Trouble> {
        self.with(|on| on.finish(now, wait));
        let mut troubles: Vec<_> = self.wrong.iter().map(trouble).collect();
        if let Some(on) = &mut self.on {
            troubles.append(&mut on.troubles);
        }
        troubles
    }

    /// Returns how the alerts stand; `None` without a channel.
    ///
    /// # Errors
    /// As [`crate::state::db_failure`] sorts them.
    pub fn status(&self) -> Result<Option<AlertStatus>, Failure> {
        let Some(on) = &self.on else {
            return Ok(None);
        };
        let owed = on.book.owed()?;
        Ok(Some(AlertStatus {
            channels: on.channels.clone(),
            last: on.book.last()?.map(|(last, delivered)| LastAlert {
                at: last.at.0,
                kind: last.kind,
                title: last.title,
                delivered,
            }),
            undelivered: owed.iter().map(|owed| owed.alerts).sum(),
            error: owed.into_iter().find_map(|owed| {
                let channel = owed.channel;
                owed.error.map(|error| format!("{channel}: {error}"))
            }),
        }))
    }

    /// Returns the channels that were meant and cannot be used.
    #[must_use]
    pub fn wrong(&self) -> Vec<Trouble> {
        self.wrong.iter().map(trouble).collect()
    }

    fn with(&mut self, work: impl FnOnce(&mut On) -> Result<(), Failure>) {
        if let Some(on) = &mut self.on
            && let Err(failure) = work(on)
        {
            on.troubles.push(trouble(&failure));
        }
    }
}

impl On {
    fn note(&mut self, event: &Event, now: Timestamp) -> Result<(), Failure> {
        match event {
            Event::Away { subject, failure } => {
                let patience = match failure.kind {
                    FailureKind::Down | FailureKind::Transient => self.patience,
                    FailureKind::Refused => Duration::ZERO,
                    FailureKind::Busy | FailureKind::Waiting | FailureKind::Rejected => {
                        return Ok(());
                    }
                };
                if self.away.get(subject.as_str()) == Some(&true) {
                    return Ok(());
                }
                let told = self.book.note_away(*subject, failure, patience, now)?;
                self.away.insert(subject.as_str().into(), told);
                Ok(())
            }
            Event::Back { subject } => {
                if self.away.remove(subject.as_str()).is_none() {
                    return Ok(());
                }
                self.book.note_back(*subject, now)
            }
            Event::NearlyFull { .. } => self.book.note_bounds(&["nearly full"], event, now),
            Event::Trimmed { .. } => self
                .book
                .note_bounds(&["trimmed", "nearly full"], event, now),
        }
    }

    /// Hands over what is due, as much as the channels can take, and notes what they delivered meanwhile.
    fn dispatch(&mut self, now: Timestamp) -> Result<(), Failure> {
        while let Some(done) = self.couriers.result(Instant::now()) {
            self.record(done, now)?;
        }
        for (channel, room) in self.couriers.room() {
            let parcels = self.book.take(channel, room, &self.policy, now)?;
            if !parcels.is_empty() {
                fail::fail_point!("alert.taken");
            }
            for parcel in parcels {
                let alert = parcel.alert;
                if !self.couriers.hand(parcel, now) {
                    let reason = "no thread could be started for it";
                    self.book.failed(alert, channel, reason, now)?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, done: courier::Done, now: Timestamp) -> Result<(), Failure> {
        match done.outcome {
            Ok(()) => self.book.delivered(done.alert, done.channel),
            Err(why) => {
                let wait = why.retry_after.unwrap_or_default();
                let not_before = now.plus(wait.min(self.policy.give_up));
                self.book
                    .failed(done.alert, done.channel, &why.reason, not_before)
            }
        }
    }

    fn finish(&mut self, now: Timestamp, wait: Duration) -> Result<(), Failure> {
        self.dispatch(now)?;
        let began = Instant::now();
        let end = began + wait;
        while self.couriers.in_hand() > 0
            && let Some(done) = self.couriers.result(end)
        {
            let now = now.plus(began.elapsed());
            self.record(done, now)?;
            self.dispatch(now)?;
        }
        for owed in self.book.owed()? {
            let alerts = match owed.alerts {
                1 => "1 alert is".into(),
                many => format!("{many} alerts are"),
            };
            let why = owed.error.unwrap_or_else(|| "no answer yet".into());
            self.trouble(format!(
                "{alerts} not delivered by {} yet: {why}",
                owed.channel
            ));
        }
        Ok(())
    }

    fn trouble(&mut self, reason: String) {
        self.troubles
            .push(trouble(&Failure::new(FailureKind::Down, reason)));
    }
}

/// Returns the entry for a report: whatever its kind, it concerns no page and no store.
fn trouble(failure: &Failure) -> Trouble {
    Trouble {
        store: None,
        kind: "alert",
        path: None,
        reason: failure.reason.clone(),
        hint: failure.hint.clone(),
        pages: 0,
    }
}

#[cfg(test)]
pub(crate) mod tests;
