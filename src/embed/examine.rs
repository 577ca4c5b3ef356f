//! Trying the provider out, for `doctor`: one innocent text, of which nothing is kept.

use std::time::{Duration, Instant};

use super::openai::OpenAi;
use super::{Embedder as _, EmbeddingSettings};
use crate::model::{Failure, Finding, Secret};

/// What a finding of ours is called.
const NAME: &str = "embedding";
/// From when on an answer is slow: a first sync takes that long for each section.
const SLOW: Duration = Duration::from_secs(3);

/// Returns the text that changes with how vectors are made; `None` without a provider, or with one that cannot be used.
#[must_use]
pub fn fingerprint(settings: &EmbeddingSettings) -> Option<String> {
    let provider = settings.is_on.then(|| OpenAi::new(settings, Ok(None)))?;
    Some(provider.ok()?.fingerprint())
}

/// Asks the provider that the settings name for the vector of one text, within this time. `known` is how many numbers the
/// vectors have that it gave before.
#[must_use]
pub fn examine(
    settings: &EmbeddingSettings,
    key: Result<Option<Secret>, Failure>,
    known: Option<usize>,
    within: Duration,
) -> Finding {
    const LOOK: &str = "look at embedding.url and embedding.model, and at the server's log";
    if !settings.is_on {
        return Finding::ok(NAME, "none: search knows words only");
    }
    let began = Instant::now();
    let provider = OpenAi::new(settings, key);
    let tried = provider.and_then(|provider| {
        provider.try_out(within, &|| true)?;
        Ok(provider.dimension().unwrap_or_default())
    });
    let took = began.elapsed();
    let model = &settings.model;
    match tried {
        Err(failure) => Finding::of(NAME, &failure, LOOK),
        Ok(dimension) if known.is_some_and(|known| known != dimension) => Finding::fault(
            NAME,
            format!(
                "the model {model:?} makes vectors of {dimension} numbers, and made some of {} before: another model has its name now",
                known.unwrap_or_default()
            ),
            "set embedding.model to the one it was; or name the new one otherwise, and run `wiki-sync rebuild vectors`",
        ),
        Ok(dimension) if took >= SLOW => Finding::warning(
            NAME,
            format!(
                "{model:?} answers, with {dimension} numbers, and took {:.1} s for one short text",
                took.as_secs_f32()
            ),
            "look whether the server is overloaded, or loads the model anew each time",
        ),
        Ok(dimension) => Finding::ok(
            NAME,
            format!(
                "{model:?} answers in {} ms, with {dimension} numbers",
                took.as_millis()
            ),
        ),
    }
}
