//! What the strict mode of a collection allows, as far as it concerns us.
//!
//! What is larger is refused as a whole by a server, with the status of a request that is wrong. So requests are made
//! as large as is allowed from the start.

use qdrant_client::qdrant::CollectionInfo;

use super::write::REQUEST_POINTS;

/// How many points a scroll reads at a time.
const PAGE: u32 = 256;

/// The most of each that a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Points that a scroll or a search returns.
    pub(super) answer: u32,
    /// Values of one condition of a filter.
    pub(super) values: usize,
    /// Points that are written.
    pub(super) points: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: u32::MAX,
            values: usize::MAX,
            points: REQUEST_POINTS,
        }
    }
}

impl Limits {
    /// Returns what a collection allows. A limit of zero, which nothing could be done with, is left to the server to say.
    pub(super) fn of(info: &CollectionInfo) -> Self {
        let free = Self::default();
        let strict = info
            .config
            .as_ref()
            .and_then(|c| c.strict_mode_config.as_ref());
        let Some(strict) = strict.filter(|strict| strict.enabled == Some(true)) else {
            return free;
        };
        let size = |limit: Option<u64>, most: usize| {
            limit.map_or(most, |limit| {
                usize::try_from(limit).unwrap_or(most).clamp(1, most)
            })
        };
        Self {
            answer: strict.max_query_limit.unwrap_or(free.answer).max(1),
            values: size(strict.condition_max_size, free.values),
            points: size(strict.upsert_max_batchsize, free.points),
        }
    }

    /// How many points a scroll reads at a time.
    pub(super) fn page(self) -> u32 {
        self.answer.min(PAGE)
    }
}
