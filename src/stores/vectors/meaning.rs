//! Giving points their dense vectors, as far as the provider is there.
//!
//! A provider that is away keeps no page out: its points go in with their words, and the page's outcome is the provider's
//! failure, so that no receipt says that it is whole.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::point::Point;
use crate::embed::{Counts, Embedded, Embeddings, says_anything};
use crate::model::{Failure, FailureKind};
use crate::state::Stop;

/// How long a provider that was found away is left alone.
const LEAVE_ALONE: Duration = Duration::from_secs(15);

/// How long one call of the store may embed: well below the lease of the jobs that wait for it, and not so long that who
/// waits for the checkout gives up. What is not reached comes again.
const PATIENCE: Duration = Duration::from_secs(40);

/// A provider, and what is known of it.
#[derive(Debug)]
pub(super) struct Meaning {
    pub(super) embeddings: Embeddings,
    /// Why it cannot be used, and until when it is not asked again.
    away: Option<(Failure, Instant)>,
    stop: Stop,
    /// How long one call of the store may embed.
    pub(super) patience: Duration,
    /// Until when the call that is under way may embed; `None` before it does.
    until: Option<Instant>,
    /// How many texts the provider had embedded when that call began.
    before: u64,
}

impl Meaning {
    pub(super) fn new(embeddings: Embeddings) -> Self {
        Self {
            embeddings,
            away: None,
            stop: Stop::default(),
            patience: PATIENCE,
            until: None,
            before: 0,
        }
    }

    /// Remembers what tells us to stop.
    pub(super) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// A call of the store begins: it has all the time that one may have.
    pub(super) fn begin(&mut self) {
        self.until = None;
        self.before = self.counts().embedded;
    }

    /// Says why the provider cannot be used, if it cannot.
    pub(super) fn lack(&self) -> Option<&Failure> {
        self.away.as_ref().map(|(why, _)| why)
    }

    /// Asks the provider for something innocent.
    ///
    /// # Errors
    /// Its failure.
    pub(super) fn probe(&mut self) -> Result<(), Failure> {
        let answer = self.embeddings.probe(&|| !self.stop.is_wished());
        self.away = answer
            .clone()
            .err()
            .map(|why| (why, Instant::now() + LEAVE_ALONE));
        answer
    }

    pub(super) fn counts(&self) -> Counts {
        self.embeddings.counts()
    }

    /// Says whether a point of this passage is to have a dense vector.
    pub(super) fn is_wanted(point: &Point) -> bool {
        says_anything(&point.passage())
    }

    /// Gives the points of several pages their vectors. Returns, by the page's place, why some have not got one: the
    /// worst reason of each. `first` is called before the provider is asked for anything.
    ///
    /// # Errors
    /// When what was embedded before cannot be read or kept.
    pub(super) fn give(
        &mut self,
        pages: &mut [(usize, &mut Vec<Point>)],
        first: &mut dyn FnMut(),
    ) -> Result<HashMap<usize, Failure>, Failure> {
        let mut passages = Vec::new();
        for (_, points) in pages.iter() {
            passages.extend(points.iter().map(Point::passage));
        }
        let texts: Vec<&str> = passages.iter().map(String::as_str).collect();
        self.away.take_if(|(_, until)| *until <= Instant::now());
        let asks = self.away.is_none();
        let patience = self.patience;
        let until = self
            .until
            .get_or_insert_with(|| Instant::now() + patience)
            .to_owned();
        let stop = self.stop.clone();
        // Where nothing is asked for, what is at hand comes all the same.
        let go_on = move || asks && !stop.is_wished() && Instant::now() < until;
        let given = self.embeddings.passages(&texts, &go_on, first)?;
        if let Some(stuck) = self.stuck(&given) {
            self.away = Some((stuck, Instant::now() + LEAVE_ALONE));
        }
        let away = self.away.clone();
        let mut given = given.into_iter();
        let mut lacks = HashMap::<usize, Failure>::new();
        for (place, points) in pages.iter_mut() {
            for point in points.iter_mut() {
                let why = match given.next() {
                    Some(Ok(vector)) => {
                        point.dense = vector;
                        continue;
                    }
                    Some(Err(why)) => why,
                    None => Failure::new(FailureKind::Busy, "not embedded yet"),
                };
                let why = match (&away, is_providers(why.kind)) {
                    (Some((away, _)), true) => owed(away.clone()),
                    (None, true) => {
                        if why.kind != FailureKind::Busy {
                            self.away = Some((why.clone(), Instant::now() + LEAVE_ALONE));
                        }
                        owed(why)
                    }
                    (_, false) => in_section(point, why),
                };
                let known = lacks.entry(*place).or_insert_with(|| why.clone());
                if is_providers(known.kind) && !is_providers(why.kind) {
                    *known = why;
                }
            }
        }
        Ok(lacks)
    }

    /// Says that the provider is away where a call has used up its time and got nothing at all: else its pages would come
    /// round again and again, each time in vain.
    fn stuck(&self, given: &[Embedded]) -> Option<Failure> {
        if self.away.is_some() || self.stop.is_wished() || self.counts().embedded > self.before {
            return None;
        }
        let failures = || given.iter().filter_map(|one| one.as_ref().err());
        let busy = failures().find(|why| why.kind == FailureKind::Busy)?;
        // What became of a text says more than that there was no time left.
        let told = failures().find(|why| !is_providers(why.kind));
        Some(Failure {
            kind: FailureKind::Down,
            ..told.unwrap_or(busy).clone()
        })
    }
}

/// Says whether a failure is the provider's and not a text's.
fn is_providers(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Down | FailureKind::Busy | FailureKind::Waiting | FailureKind::Refused => true,
        FailureKind::Transient | FailureKind::Rejected => false,
    }
}

/// Says what a page lacks that went in without the provider.
fn owed(why: Failure) -> Failure {
    Failure {
        reason: format!("found by words only, their meaning is owed: {}", why.reason),
        ..why
    }
}

/// Says of which section a failure is.
fn in_section(point: &Point, why: Failure) -> Failure {
    let number = point
        .payload
        .get("section")
        .and_then(serde_json::Value::as_u64);
    let heading = match point.heading().last() {
        Some(heading) => format!("section {:?}", *heading),
        None => "the section before the first heading".into(),
    };
    Failure {
        reason: format!(
            "page {:?}, {heading} (number {}): {}",
            point.text("path"),
            number.unwrap_or_default() + 1,
            why.reason
        ),
        ..why
    }
}
