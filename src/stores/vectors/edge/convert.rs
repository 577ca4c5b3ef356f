//! Between our points and filters and Edge's.
//!
//! In Edge a point is looked up by one field, `keys`, instead of three: its page's path, folders and tags, each with a word
//! before it that says which it is. The folders stand there alone.

use std::collections::HashMap;

use qdrant_edge::{
    AnyVariants, Condition, FieldCondition, Filter, HasIdCondition, Match, MatchAny, MatchValue,
    PointId, PointStruct, Record, SparseVector, ValueVariants, Vector, VectorInternal,
    VectorStructInternal, Vectors,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::point::{BM25, DENSE, Point, number_of, numbered};
use super::super::shape::{Only, folders};
use crate::embed::Sparse;

/// The payload field that has an index: the only one, since each costs an optimisation another look at all points, and an
/// opening and a flush another dozen files for each segment.
pub(super) const KEYS: &str = "keys";

/// Which fields of a point stand in [`KEYS`], and the word before each value. No word begins like another one.
const KEYED: [(&str, &str); 3] = [("path", "page:"), ("folders", "folder:"), ("tags", "tag:")];

/// Returns the field of Edge's points that a field of ours is looked up by, and the word before each value.
fn place_of(field: &'static str) -> (&'static str, &'static str) {
    let keyed = KEYED.iter().find(|(keyed, _)| *keyed == field);
    keyed.map_or((field, ""), |&(_, word)| (KEYS, word))
}

/// Returns what the payload is looked up by; a point of no page by nothing.
fn keys_of(payload: &Map<String, Value>) -> Vec<Value> {
    KEYED
        .iter()
        .flat_map(|(field, word)| {
            let values = match payload.get(*field) {
                Some(Value::Array(values)) => values.as_slice(),
                Some(value) => std::slice::from_ref(value),
                None => &[],
            };
            let texts = values.iter().filter_map(Value::as_str);
            texts.map(move |text| Value::from(format!("{word}{text}")))
        })
        .collect()
}

/// Brings a payload into the form that it has in Edge.
fn keyed(mut payload: Map<String, Value>) -> Map<String, Value> {
    let keys = keys_of(&payload);
    if !keys.is_empty() {
        payload.remove("folders");
        payload.insert(KEYS.into(), keys.into());
    }
    payload
}

/// Brings it back. A point is of the page that it is looked up by, of none without such a key, whatever its own path says: only
/// so is whatever is seen of a page also found when that is brought anew. Keys that are not those of its payload stay, so
/// that whoever compares the point sees it.
pub(super) fn plain(mut payload: Map<String, Value>) -> Map<String, Value> {
    let keys = payload.remove(KEYS);
    let page = keys.as_ref().and_then(page_of).map(Value::from);
    let own = match page.clone() {
        Some(page) => payload.insert("path".into(), page),
        None => payload.remove("path"),
    };
    let Some(keys) = keys else {
        return payload;
    };
    let folders = page.as_ref().and_then(Value::as_str).map(folders);
    payload.insert("folders".into(), folders.unwrap_or_default().into());
    if own != page || keys != Value::from(keys_of(&payload)) {
        payload.insert(KEYS.into(), keys);
    }
    payload
}

/// Returns the path of the page by which a point with these keys is looked up.
fn page_of(keys: &Value) -> Option<&str> {
    let (_, word) = KEYED[0];
    let mut texts = keys.as_array()?.iter().filter_map(Value::as_str);
    texts.find_map(|text| text.strip_prefix(word))
}

pub(super) fn keyword(field: &'static str, value: &str) -> Condition {
    any_of(field, &[value])
}

/// Returns the filter for the points of these pages of a wiki, some ids excepted.
pub(super) fn pages(wiki: &str, paths: &[&str], except: Option<&[Uuid]>) -> Filter {
    let mut filter = among(wiki, "path", paths);
    filter.must_not = except.filter(|ids| !ids.is_empty()).map(|ids| {
        let ids: HasIdCondition = ids.iter().copied().map(edge_id).collect();
        vec![Condition::HasId(ids)]
    });
    filter
}

/// Returns the filter for the points of a wiki of which a field holds one of these values.
pub(super) fn among(wiki: &str, field: &'static str, values: &[&str]) -> Filter {
    Filter {
        must: Some(vec![any_of(field, values), keyword("wiki", wiki)]),
        ..Filter::default()
    }
}

fn any_of(field: &'static str, values: &[&str]) -> Condition {
    let (place, word) = place_of(field);
    let key = |value: &&str| format!("{word}{value}");
    let matched = if let [value] = values {
        Match::Value(MatchValue {
            value: ValueVariants::String(key(value)),
        })
    } else {
        Match::Any(MatchAny {
            any: AnyVariants::Strings(values.iter().map(key).collect()),
        })
    };
    let place = place.parse().expect("a plain field name is a path");
    Condition::Field(FieldCondition::new_match(place, matched))
}

pub(super) fn edge_id(id: Uuid) -> PointId {
    number_of(id).map_or(PointId::Uuid(id), PointId::NumId)
}

fn id_of(id: PointId) -> Uuid {
    match id {
        PointId::Uuid(id) => id,
        PointId::NumId(number) => numbered(number),
    }
}

/// Returns the filter for the pages that a search looks at, if it does not look at all.
pub(super) fn only(only: &Only) -> Option<Filter> {
    let must: Vec<_> = only
        .keywords()
        .into_iter()
        .map(|(field, values)| any_of(field, &values))
        .collect();
    (!must.is_empty()).then(|| Filter {
        must: Some(must),
        ..Filter::default()
    })
}

pub(super) fn sparse(vector: Sparse) -> SparseVector {
    SparseVector {
        indices: vector.indices,
        values: vector.values,
    }
}

pub(super) fn edge_point(point: Point) -> PointStruct {
    let bm25 = point
        .bm25
        .map(|vector| (BM25, Vector::from(sparse(vector))));
    let dense = point.dense.map(|vector| (DENSE, Vector::from(vector)));
    let vectors = bm25.into_iter().chain(dense);
    PointStruct::new(
        edge_id(point.id),
        Vectors::new_named(vectors),
        Value::Object(keyed(point.payload)),
    )
}

/// Reads a record.
pub(super) fn point_of(record: Record) -> Point {
    let mut named = match record.vector {
        Some(VectorStructInternal::Named(named)) => named,
        _ => HashMap::default(),
    };
    let bm25 = match named.remove(BM25) {
        Some(VectorInternal::Sparse(vector)) if !vector.indices.is_empty() => Some(Sparse {
            indices: vector.indices,
            values: vector.values,
        }),
        _ => None,
    };
    let dense = match named.remove(DENSE) {
        Some(VectorInternal::Dense(vector)) => Some(vector),
        _ => None,
    };
    Point {
        id: id_of(record.id),
        payload: plain(record.payload.unwrap_or_default().0),
        bm25,
        dense,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn a_payload_comes_back_as_it_was() {
        for payload in [
            json!({"path": "w/a/b.md", "folders": ["w", "w/a"], "tags": ["t", "page:t"], "text": "x"}),
            json!({"path": "b.md", "folders": [], "tags": [], "text": "x"}),
            json!({"kind": "meta", "wiki": "w"}),
        ] {
            assert_eq!(plain(keyed(map(payload.clone()))), map(payload));
        }
        let page = keyed(map(
            json!({"path": "w/b.md", "folders": ["w"], "tags": ["t"]}),
        ));
        let keys = json!(["page:w/b.md", "folder:w", "tag:t"]);
        assert_eq!(
            page,
            map(json!({"path": "w/b.md", "tags": ["t"], "keys": keys}))
        );
    }

    #[test]
    fn keys_that_are_not_those_of_the_page_are_seen() {
        let payload = json!({"path": "w/b.md", "folders": ["w"], "tags": ["t"]});
        for keys in [
            json!([]),
            json!(["page:w/b.md", "tag:t"]),
            json!("page:w/b.md"),
        ] {
            let mut damaged = keyed(map(payload.clone()));
            damaged.insert(KEYS.into(), keys);
            assert_ne!(plain(damaged), map(payload.clone()));
        }
        let mut damaged = keyed(map(payload.clone()));
        damaged.remove(KEYS);
        assert_eq!(plain(damaged).get("path"), None);
        let mut damaged = keyed(map(payload.clone()));
        damaged.insert("path".into(), "w/other.md".into());
        let damaged = plain(damaged);
        assert_eq!(damaged["path"], "w/b.md");
        assert_ne!(damaged, map(payload));
    }
}
