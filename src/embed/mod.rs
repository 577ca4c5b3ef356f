//! Text → vectors: the sparse ones of words, [`bm25`], which are pure; and the dense ones of meaning, which a provider
//! gives and [`Embeddings`] remembers. The same for every vector store.
//!
//! | file | what |
//! |---|---|
//! | `bm25.rs` | words |
//! | `settings.rs` | which provider, and how each model wants its texts |
//! | `openai/` | a provider, over HTTP |
//! | `cache.rs` | vectors that were given, in `wiki.db` |
//! | `embeddings.rs` | the two together |
//! | `examine.rs` | trying the provider out, for `doctor` |

pub mod bm25;
mod cache;
mod embeddings;
mod examine;
mod openai;
mod settings;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

pub use embeddings::{Counts, Embedded, Embeddings, says_anything};
pub use examine::{examine, fingerprint};
pub use settings::{
    AUTO, EmbeddingSettings, KEY_VARIABLE, LARGEST_BATCH, LARGEST_DIMENSION, MOST_CONCURRENT,
    Purpose, VARIABLES, check_most, check_url,
};

use crate::model::{Failure, Secret};

/// A dense vector, of length 1.
pub type Vector = Vec<f32>;

/// A text, by its place among those of a call, with its vector or why it has none.
pub type Given = (usize, Result<Vector, Failure>);

/// Takes what became of some texts, and says whether it could be kept.
pub type Keep<'a> = &'a mut dyn FnMut(&[Given]) -> Result<(), Failure>;

/// Asked before each request and while waiting: whether there is still time.
pub type GoOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// A provider of dense vectors. Every method may be repeated.
pub trait Embedder: Send {
    /// Returns a text that changes when a passage would get another vector than before: part of the cache's key and of
    /// the vectors' fingerprint.
    fn fingerprint(&self) -> String;

    /// Returns how many numbers a vector has, once that is known.
    fn dimension(&self) -> Option<usize>;

    /// Says how many numbers vectors of this fingerprint had before; others are not believed.
    fn expect(&self, dimension: usize);

    /// Returns how many numbers a vector has; asks for the vector of an innocent text when it is not known.
    ///
    /// # Errors
    /// `Down` and `Refused`.
    fn learn(&self) -> Result<usize, Failure>;

    /// Asks for the vector of an innocent text.
    ///
    /// # Errors
    /// `Down` and `Refused`: the provider's failure, when even that gets none. `Busy` when `go_on` said no.
    fn probe(&self, go_on: GoOn<'_>) -> Result<(), Failure>;

    /// Returns for each text its vector, or why it has none. Hands on to `keep` what became of some texts
    /// as soon as it is known.
    ///
    /// A failure of the kinds `Down`, `Refused` and `Busy` is the provider's and not the text's, and all texts that were
    /// not embedded before have the same; `Busy` when `go_on` said no. `Rejected`: this text gets no vector from this
    /// model. `Transient`: it got none this time.
    ///
    /// # Errors
    /// The failure of `keep`, at which it ends.
    fn passages(
        &self,
        texts: &[&str],
        go_on: GoOn<'_>,
        keep: Keep<'_>,
    ) -> Result<Vec<Result<Vector, Failure>>, Failure>;

    /// Returns how many texts it has embedded by their beginning, since they were too long.
    fn shortened(&self) -> u64;

    /// Returns the vector of a query, within this time.
    ///
    /// # Errors
    /// As the failures of [`Embedder::passages`].
    fn query(&self, text: &str, within: Duration) -> Result<Vector, Failure>;
}

/// Opens the provider that the settings name, with the vectors it gave before; `None` when they name none. Asks it
/// nothing yet. `key` is what the provider wants to be shown; without one that can be read, nothing more is embedded.
///
/// # Errors
/// `Refused` when a setting is missing or cannot be used; else as [`crate::state::open_db`].
pub fn open(
    settings: &EmbeddingSettings,
    key: Result<Option<Secret>, Failure>,
    database: &Path,
) -> Result<Option<Embeddings>, Failure> {
    if !settings.is_on {
        return Ok(None);
    }
    let embedder = Box::new(openai::OpenAi::new(settings, key)?);
    Embeddings::open(embedder, database, settings.cache).map(Some)
}

/// Says in what two fingerprints differ: those parts of the one, and of the other. All of both, where they are not made
/// alike.
#[must_use]
pub fn difference(one: &str, other: &str) -> (String, String) {
    let (ones, others) = (parts(one), parts(other));
    let differing = ones.iter().zip(&others).filter(|(a, b)| a != b);
    let (a, b): (Vec<&str>, Vec<&str>) = differing.unzip();
    if ones.len() != others.len() || ones.len() == 1 {
        return (one.into(), other.into());
    }
    (a.join(", "), b.join(", "))
}

/// Returns the model's name in a fingerprint; all of it, where none stands there.
#[must_use]
pub fn model_name(fingerprint: &str) -> &str {
    let parts = parts(fingerprint);
    let name = parts.iter().find_map(|part| part.strip_prefix("model "));
    name.unwrap_or(fingerprint)
}

/// Cuts a fingerprint at its commas, as far as those are none within quotes.
fn parts(fingerprint: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped, mut from) = (false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in fingerprint.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(fingerprint[from..at].trim_start());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(fingerprint[from..].trim_start());
    parts
}

/// Changes when [`passage`] would build another text than before: part of the vectors' fingerprint.
pub const PASSAGE_VERSION: &str = "1";

/// A sparse vector: weights at ascending, distinct indices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sparse {
    /// Token ids, ascending, each once.
    pub indices: Vec<u32>,
    /// The weight at each of `indices`; positive and finite.
    pub values: Vec<f32>,
}

impl Sparse {
    /// Says whether no token is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}

/// Builds the text that stands for a section in every embedding: title, heading trail, text, one per line.
///
/// The one place where this is decided, so that words and meaning are found in the same text. A trail
/// that begins with the title itself (the page's own level-1 heading) does not say it again.
#[must_use]
pub fn passage(title: &str, trail: &[String], text: &str) -> String {
    let trail = match trail {
        [first, rest @ ..] if first == title => rest,
        all => all,
    };
    let mut passage = String::with_capacity(title.len() + text.len() + 64);
    for part in std::iter::once(title)
        .chain(trail.iter().map(String::as_str))
        .chain(std::iter::once(text))
        .filter(|part| !part.is_empty())
    {
        if !passage.is_empty() {
            passage.push('\n');
        }
        passage.push_str(part);
    }
    passage
}
