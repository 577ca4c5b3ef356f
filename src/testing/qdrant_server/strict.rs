//! The limits of strict mode, as a person sets them for a whole server. They stand in a file, so that a server in another
//! process has them too.

use std::path::Path;

use qdrant_client::qdrant as api;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use serde::{Deserialize, Serialize};
use tonic::Status;

const FILE: &str = "strict.json";

/// The most that a request, or a collection, may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strict {
    /// Points that a scroll or a search asks for.
    pub answer: Option<u32>,
    /// Values of one condition of a filter.
    pub values: Option<u64>,
    /// Points of an upsert.
    pub upsert: Option<u64>,
    /// Points of a collection: from so many on it takes none, also none that it holds.
    pub points: Option<u64>,
    /// Points that are written in a minute; of one request that has more, no minute has enough. They are not counted.
    pub rate: Option<u64>,
}

impl Strict {
    pub(super) fn read(folder: &Path) -> Self {
        let text = std::fs::read(folder.join(FILE)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn write(&self, folder: &Path) {
        let text = serde_json::to_vec(self).expect("numbers");
        std::fs::write(folder.join(FILE), text).expect("written");
    }

    pub(super) fn told(self) -> Option<api::StrictModeConfig> {
        (self != Self::default()).then(|| api::StrictModeConfig {
            enabled: Some(true),
            max_query_limit: self.answer,
            condition_max_size: self.values,
            upsert_max_batchsize: self.upsert,
            max_points_count: self.points,
            ..api::StrictModeConfig::default()
        })
    }

    pub(super) fn check_limit(self, limit: u64) -> Result<(), Status> {
        exceeds("limit", limit, self.answer.map(Into::into))
    }

    pub(super) fn check_filter(self, filter: Option<&api::Filter>) -> Result<(), Status> {
        let all = filter.map(|filter| [&filter.must, &filter.must_not, &filter.should]);
        let all = all.into_iter().flatten().flatten();
        let largest = all.map(|condition| match &condition.condition_one_of {
            Some(ConditionOneOf::HasId(ids)) => ids.has_id.len(),
            Some(ConditionOneOf::Field(field)) => {
                match field.r#match.as_ref().and_then(|m| m.match_value.as_ref()) {
                    Some(MatchValue::Keywords(words)) => words.strings.len(),
                    _ => 1,
                }
            }
            _ => 1,
        });
        exceeds(
            "condition size",
            largest.max().unwrap_or_default() as u64,
            self.values,
        )
    }

    pub(super) fn check_upsert(self, points: usize, held: u64) -> Result<(), Status> {
        exceeds("upsert limit", points as u64, self.upsert)?;
        if self.rate.is_some_and(|rate| points as u64 > rate) {
            return Err(Status::resource_exhausted(
                "Rate limiting exceeded: Write rate limit exceeded, request larger than rate limiter capacity, please try to split your request",
            ));
        }
        match self.points {
            Some(most) if held >= most => Err(Status::invalid_argument(format!(
                "Bad request: Max points count limit of {most} reached!"
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

fn exceeds(name: &str, value: u64, limit: Option<u64>) -> Result<(), Status> {
    match limit {
        Some(limit) if value > limit => Err(Status::invalid_argument(format!(
            "Bad request: Limit exceeded {value} > {limit} for \"{name}\". Help: Reduce the \"{name}\" parameter to or below {limit}."
        ))),
        Some(_) | None => Ok(()),
    }
}
