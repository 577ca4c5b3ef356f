//! Between our points and filters and Edge's.

use std::collections::HashMap;

use qdrant_edge::{
    AnyVariants, Condition, FieldCondition, Filter, HasIdCondition, Match, MatchAny, MatchValue,
    PointId, PointStruct, Record, SparseVector, ValueVariants, Vector, VectorInternal,
    VectorStructInternal, Vectors,
};
use serde_json::Value;
use uuid::Uuid;

use super::super::point::{BM25, DENSE, Point};
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
    let any = Condition::Field(FieldCondition::new_match(
        "path".parse().expect("a plain field name is a path"),
        Match::Any(MatchAny {
            any: AnyVariants::Strings(paths.iter().map(ToString::to_string).collect()),
        }),
    ));
    Filter {
        must: Some(vec![any, keyword("wiki", wiki)]),
        must_not: except.filter(|ids| !ids.is_empty()).map(|ids| {
            let ids: HasIdCondition = ids.iter().copied().map(PointId::Uuid).collect();
            vec![Condition::HasId(ids)]
        }),
        should: None,
        min_should: None,
    }
}

/// Returns the filter for the pages that a search looks at, if it does not look at all.
pub(super) fn only(only: &Only) -> Option<Filter> {
    let must: Vec<_> = only
        .keywords()
        .into_iter()
        .map(|(field, value)| keyword(field, value))
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
        PointId::Uuid(point.id),
        Vectors::new_named(vectors),
        Value::Object(point.payload),
    )
}

/// Reads a record; `None` for an id that is no UUID, which no point of ours has.
pub(super) fn point_of(record: Record) -> Option<Point> {
    let PointId::Uuid(id) = record.id else {
        return None;
    };
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
    Some(Point {
        id,
        payload: record.payload.unwrap_or_default().0,
        bm25,
        dense,
    })
}
