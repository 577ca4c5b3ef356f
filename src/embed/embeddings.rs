//! A provider with what it gave before: each text is embedded once.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::cache::Cache;
use super::{Embedder, GoOn, Vector};
use crate::model::{ContentSha, Failure};

/// What became of one text: its vector; `None` when nothing in it can be embedded; or why it has none.
///
/// See [`Embedder::passages`] for what the kinds of failure mean.
pub type Embedded = Result<Option<Vector>, Failure>;

/// What was counted since the provider was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Texts that the provider embedded.
    pub embedded: u64,
    /// Texts whose vector was at hand.
    pub cached: u64,
    /// Of those that the provider embedded: texts that were too long for it and are embedded by their beginning.
    pub shortened: u64,
}

/// Dense vectors: from the cache, else from the provider.
pub struct Embeddings {
    embedder: Box<dyn Embedder>,
    cache: Cache,
    counts: Counts,
}

impl fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embeddings")
            .field("fingerprint", &self.embedder.fingerprint())
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Says whether anything in a text can be embedded. Some providers refuse a whole request for one that is empty.
#[must_use]
pub fn says_anything(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !c.is_control())
}

impl Embeddings {
    /// Puts a cache of at most `bound` bytes, in this database, before a provider.
    ///
    /// # Errors
    /// As [`crate::state::open_db`].
    pub fn open(embedder: Box<dyn Embedder>, database: &Path, bound: u64) -> Result<Self, Failure> {
        let cache = Cache::open(database, embedder.fingerprint(), bound)?;
        if let Some(dimension) = cache.dimension()? {
            embedder.expect(dimension);
        }
        Ok(Self {
            embedder,
            cache,
            counts: Counts::default(),
        })
    }

    /// Returns a text that changes when a passage would get another vector than before.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.embedder.fingerprint()
    }

    /// Returns how many numbers a vector has, when it is known: it is set, or was seen before.
    #[must_use]
    pub fn dimension(&self) -> Option<usize> {
        self.embedder.dimension()
    }

    /// Returns how many numbers a vector has; asks the provider once when it is not known.
    ///
    /// # Errors
    /// `Down` and `Refused`.
    pub fn learn_dimension(&self) -> Result<usize, Failure> {
        self.embedder.learn()
    }

    /// Asks the provider for the vector of an innocent text, whatever is known of it.
    ///
    /// # Errors
    /// `Down` and `Refused`.
    pub fn probe(&self, go_on: GoOn<'_>) -> Result<(), Failure> {
        self.embedder.probe(go_on)
    }

    /// Returns for each passage its vector, or why it has none: those at hand, then all others in one go. What the
    /// provider gives is kept durably as it comes, so that nothing is embedded twice even when this is cut off. `first` is
    /// called once before the provider is asked for anything: whatever others may want is to be let go of.
    ///
    /// # Errors
    /// When the database is away. The provider's failures stand at the texts that they concern.
    pub fn passages(
        &mut self,
        texts: &[&str],
        go_on: GoOn<'_>,
        first: &mut dyn FnMut(),
    ) -> Result<Vec<Embedded>, Failure> {
        let shas: Vec<_> = texts.iter().map(|t| ContentSha::of(t.as_bytes())).collect();
        let mut answers = Vec::with_capacity(texts.len());
        let mut missing = Vec::new();
        let mut places = HashMap::new();
        for ((vector, sha), text) in self.cache.get(&shas)?.into_iter().zip(&shas).zip(texts) {
            match vector {
                Some(vector) => {
                    self.counts.cached += 1;
                    answers.push(Some(Ok(Some(vector))));
                }
                None if says_anything(text) => {
                    // The same text twice is one.
                    places.entry(*sha).or_insert_with(|| {
                        missing.push((*sha, *text));
                        missing.len() - 1
                    });
                    answers.push(None);
                }
                None => answers.push(Some(Ok(None))),
            }
        }
        if !missing.is_empty() && go_on() {
            first();
        }
        let given = self.ask(&missing, go_on)?;
        let at_place = |sha: &ContentSha| given[places[sha]].clone().map(Some);
        Ok(answers
            .into_iter()
            .zip(&shas)
            .map(|(answer, sha)| answer.unwrap_or_else(|| at_place(sha)))
            .collect())
    }

    fn ask(
        &mut self,
        missing: &[(ContentSha, &str)],
        go_on: GoOn<'_>,
    ) -> Result<Vec<Result<Vector, Failure>>, Failure> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<_> = missing.iter().map(|(_, text)| *text).collect();
        let Self {
            embedder,
            cache,
            counts,
        } = self;
        embedder.passages(&texts, go_on, &mut |done| {
            let vectors: Vec<_> = done
                .iter()
                .filter_map(|(place, answer)| Some((missing[*place].0, answer.as_ref().ok()?)))
                .collect();
            counts.embedded += vectors.len() as u64;
            cache.put(&vectors)?;
            fail::fail_point!("embed.kept");
            Ok(())
        })
    }

    /// Returns the vector of a query, within this time; `None` when nothing in it can be embedded. Queries are not kept.
    ///
    /// # Errors
    /// The provider's failure.
    pub fn query(&self, text: &str, within: Duration) -> Result<Option<Vector>, Failure> {
        if !says_anything(text) {
            return Ok(None);
        }
        self.embedder.query(text, within).map(Some)
    }

    /// Returns what was counted since it was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            shortened: self.embedder.shortened(),
            ..self.counts
        }
    }
}
