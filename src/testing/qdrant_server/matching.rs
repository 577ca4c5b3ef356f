//! Filters: checked as strict mode does, and matched against payloads.
//!
//! Not by Edge: after a kill its count of what a filter matches may be too high, at which a debug build of it stops.

use std::collections::BTreeSet;

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{Condition, Filter};
use serde_json::{Map, Value};
use tonic::Status;
use uuid::Uuid;

/// Refuses a filter that a server would refuse, or that this one does not know.
pub(super) fn check(filter: &Filter, indexes: &BTreeSet<String>) -> Result<(), Status> {
    if filter.min_should.is_some() {
        return Err(unknown());
    }
    let all = [&filter.must, &filter.must_not, &filter.should];
    for condition in all.into_iter().flatten() {
        match &condition.condition_one_of {
            Some(ConditionOneOf::Field(field)) => {
                if !indexes.contains(&field.key) {
                    return Err(Status::invalid_argument(format!(
                        "Bad request: Index required but not found for \"{}\" of one of the following types: [keyword]. Help: Create an index for this key or use a different filter.",
                        field.key
                    )));
                }
                match field.r#match.as_ref().and_then(|m| m.match_value.as_ref()) {
                    Some(MatchValue::Keyword(_) | MatchValue::Keywords(_)) => {}
                    _ => return Err(unknown()),
                }
            }
            Some(ConditionOneOf::Filter(inner)) => check(inner, indexes)?,
            Some(ConditionOneOf::HasId(_)) => {}
            _ => return Err(unknown()),
        }
    }
    Ok(())
}

fn unknown() -> Status {
    Status::unimplemented("this test server does not know such a condition")
}

/// Says whether a point meets a checked filter.
pub(super) fn matches(filter: &Filter, id: Uuid, payload: &Map<String, Value>) -> bool {
    let meets = |condition: &Condition| meets(condition, id, payload);
    filter.must.iter().all(meets)
        && !filter.must_not.iter().any(meets)
        && (filter.should.is_empty() || filter.should.iter().any(meets))
}

fn meets(condition: &Condition, id: Uuid, payload: &Map<String, Value>) -> bool {
    match &condition.condition_one_of {
        Some(ConditionOneOf::Filter(inner)) => matches(inner, id, payload),
        Some(ConditionOneOf::HasId(ids)) => ids.has_id.iter().any(|one| {
            matches!(&one.point_id_options, Some(PointIdOptions::Uuid(text)) if text.parse() == Ok(id))
        }),
        Some(ConditionOneOf::Field(field)) => {
            let wanted = |text: &str| match field.r#match.as_ref().and_then(|m| m.match_value.as_ref()) {
                Some(MatchValue::Keyword(word)) => word == text,
                Some(MatchValue::Keywords(words)) => words.strings.iter().any(|word| word == text),
                _ => false,
            };
            match payload.get(&field.key) {
                Some(Value::String(text)) => wanted(text),
                Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).any(wanted),
                _ => false,
            }
        }
        _ => false,
    }
}
