//! Between our points and filters and Edge's.

use std::collections::HashMap;

use qdrant_edge::{
    AnyVariants, Condition, FieldCondition, Filter, HasIdCondition, Match, MatchAny, MatchValue,
    PointId, PointStruct, Record, SparseVector, ValueVariants, Vector, VectorInternal,
    VectorStructInternal, Vectors,
};
use serde_json::Value;
use uuid::Uuid;

use super::super::point::{BM25, DENSE, Point, number_of, numbered};
use super::super::shape::Only;
use crate::embed::Sparse;

pub(super) fn keyword(field: &str, value: &str) -> Condition {
    Condition::Field(FieldCondition::new_match(
        field.parse().expect("a plain field name is a path"),
        Match::Value(MatchValue {
            value: ValueVariants::String(value.into()),
        }),
    ))
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
pub(super) fn among(wiki: &str, field: &str, values: &[&str]) -> Filter {
    Filter {
        must: Some(vec![any_of(field, values), keyword("wiki", wiki)]),
        ..Filter::default()
    }
}

fn any_of(field: &str, values: &[&str]) -> Condition {
    if let [value] = values {
        return keyword(field, value);
    }
    Condition::Field(FieldCondition::new_match(
        field.parse().expect("a plain field name is a path"),
        Match::Any(MatchAny {
            any: AnyVariants::Strings(values.iter().map(ToString::to_string).collect()),
        }),
    ))
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
        Value::Object(point.payload),
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
        payload: record.payload.unwrap_or_default().0,
        bm25,
        dense,
    }
}
