//! Between our points and filters and Qdrant's.

use std::collections::HashMap;

use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{
    Condition, DenseVector, Filter, ListValue, NamedVectors, PointId, PointStruct, SparseVector,
    Struct, Value, Vector, VectorOutput, Vectors, VectorsOutput, vector, vector_output, vectors,
    vectors_output,
};
use serde_json::{Map, Number, Value as Json};
use uuid::Uuid;

use super::super::point::{BM25, DENSE, Point, number_of, numbered};
use crate::embed::Sparse;

/// Returns the filter for all points of a wiki.
pub(super) fn of_wiki(wiki: &str) -> Filter {
    Filter::must([Condition::matches("wiki", wiki.to_owned())])
}

/// Returns the filter for the points of these pages of a wiki, some ids excepted.
pub(super) fn pages(wiki: &str, paths: &[&str], except: &[Uuid]) -> Filter {
    let mut filter = among(wiki, "path", paths);
    if !except.is_empty() {
        let ids = except.iter().copied().map(id);
        filter.must_not.push(Condition::has_id(ids));
    }
    filter
}

/// Returns the filter for the points of a wiki of which a field holds one of these values.
pub(super) fn among(wiki: &str, field: &str, values: &[&str]) -> Filter {
    let mut filter = of_wiki(wiki);
    filter.must.push(any_of(field, values));
    filter
}

/// Returns the condition that a field holds one of these values.
pub(super) fn any_of(field: &str, values: &[&str]) -> Condition {
    let any: Vec<String> = values.iter().map(ToString::to_string).collect();
    Condition::matches(field, any)
}

pub(super) fn id(id: Uuid) -> PointId {
    PointId {
        point_id_options: Some(match number_of(id) {
            Some(number) => PointIdOptions::Num(number),
            None => PointIdOptions::Uuid(id.to_string()),
        }),
    }
}

pub(super) fn sparse(vector: Sparse) -> SparseVector {
    SparseVector {
        values: vector.values,
        indices: vector.indices,
    }
}

pub(super) fn point(point: Point) -> PointStruct {
    let named = |vector| Vector {
        vector: Some(vector),
        ..Vector::default()
    };
    let bm25 = point.bm25.map(|vector| {
        (
            BM25.to_owned(),
            named(vector::Vector::Sparse(sparse(vector))),
        )
    });
    let dense = point.dense.map(|data| {
        let dense = vector::Vector::Dense(DenseVector { data });
        (DENSE.to_owned(), named(dense))
    });
    PointStruct {
        id: Some(id(point.id)),
        payload: point
            .payload
            .into_iter()
            .map(|(name, value)| (name, to_value(value)))
            .collect(),
        vectors: Some(Vectors {
            vectors_options: Some(vectors::VectorsOptions::Vectors(NamedVectors {
                vectors: bm25.into_iter().chain(dense).collect(),
            })),
        }),
    }
}

/// Reads a point; `None` when it has no id, which Qdrant does not send.
pub(super) fn point_of(
    id: Option<PointId>,
    payload: HashMap<String, Value>,
    vectors: Option<VectorsOutput>,
) -> Option<Point> {
    let id = match id?.point_id_options? {
        PointIdOptions::Uuid(id) => id.parse().ok()?,
        PointIdOptions::Num(number) => numbered(number),
    };
    let mut named = match vectors.and_then(|vectors| vectors.vectors_options) {
        Some(vectors_output::VectorsOptions::Vectors(named)) => named.vectors,
        Some(vectors_output::VectorsOptions::Vector(_)) | None => HashMap::new(),
    };
    let mut take = |name| named.remove(name).map(VectorOutput::into_vector);
    let bm25 = match take(BM25) {
        Some(vector_output::Vector::Sparse(vector)) if !vector.indices.is_empty() => {
            Some(ascending(vector))
        }
        _ => None,
    };
    let dense = match take(DENSE) {
        Some(vector_output::Vector::Dense(vector)) => Some(vector.data),
        _ => None,
    };
    Some(Point {
        id,
        payload: payload
            .into_iter()
            .map(|(name, value)| (name, to_json(value)))
            .collect(),
        bm25,
        dense,
    })
}

/// A server keeps a sparse vector in an order of its own.
fn ascending(vector: SparseVector) -> Sparse {
    let mut pairs: Vec<(u32, f32)> = vector.indices.into_iter().zip(vector.values).collect();
    pairs.sort_unstable_by_key(|&(index, _)| index);
    let (indices, values) = pairs.into_iter().unzip();
    Sparse { indices, values }
}

fn to_value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Kind::IntegerValue(whole),
            None => Kind::DoubleValue(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Kind::StringValue(text),
        Json::Array(list) => Kind::ListValue(ListValue {
            values: list.into_iter().map(to_value).collect(),
        }),
        Json::Object(map) => Kind::StructValue(Struct {
            fields: map
                .into_iter()
                .map(|(name, value)| (name, to_value(value)))
                .collect(),
        }),
    };
    Value { kind: Some(kind) }
}

fn to_json(value: Value) -> Json {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(value)) => Json::Bool(value),
        Some(Kind::IntegerValue(value)) => Json::from(value),
        Some(Kind::DoubleValue(value)) => Number::from_f64(value).map_or(Json::Null, Json::Number),
        Some(Kind::StringValue(text)) => Json::String(text),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(to_json).collect(),
        Some(Kind::StructValue(map)) => Json::Object(
            map.fields
                .into_iter()
                .map(|(name, value)| (name, to_json(value)))
                .collect::<Map<_, _>>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_comes_back_as_it_went() {
        let payload = json!({
            "text": "한글 \u{1F600}", "epoch": i64::MAX, "schema": -1, "half": 0.5, "none": null, "yes": true,
            "heading": ["a", ["b", {"c": []}]], "empty": {}, "nul": "a\0b",
        });
        assert_eq!(to_json(to_value(payload.clone())), payload);
    }
}
