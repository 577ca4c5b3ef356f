//! Between the protocol's values and Edge's.

use std::collections::HashMap;

use qdrant_client::qdrant as api;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{vector_output, vectors_output};
use qdrant_edge::{PointId, Record, VectorInternal, VectorStructInternal};
use serde_json::{Map, Value};
use tonic::Status;
use uuid::Uuid;

use super::collection::{Answered, wrong};

pub(super) fn uuid(id: Option<&api::PointId>) -> Answered<Uuid> {
    match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Uuid(text)) => text
            .parse()
            .map_err(|_| Status::invalid_argument(format!("Unable to parse UUID: {text}"))),
        Some(PointIdOptions::Num(_)) | None => Err(wrong("only UUIDs are ids here")),
    }
}

pub(super) fn id_of(id: PointId) -> Option<Uuid> {
    match id {
        PointId::Uuid(id) => Some(id),
        PointId::NumId(_) => None,
    }
}

pub(super) fn point_id(id: Uuid) -> api::PointId {
    api::PointId {
        point_id_options: Some(PointIdOptions::Uuid(id.to_string())),
    }
}

pub(super) fn retrieved(record: Record) -> Option<api::RetrievedPoint> {
    let named = match record.vector {
        Some(VectorStructInternal::Named(named)) => named,
        _ => HashMap::default(),
    };
    let vectors = named.into_iter().filter_map(|(name, vector)| {
        let vector = match vector {
            VectorInternal::Dense(data) => vector_output::Vector::Dense(api::DenseVector { data }),
            VectorInternal::Sparse(sparse) => vector_output::Vector::Sparse(api::SparseVector {
                values: sparse.values,
                indices: sparse.indices,
            }),
            VectorInternal::MultiDense(_) => return None,
        };
        let output = api::VectorOutput {
            vector: Some(vector),
            ..api::VectorOutput::default()
        };
        Some((name, output))
    });
    let vectors = api::NamedVectorsOutput {
        vectors: vectors.collect(),
    };
    Some(api::RetrievedPoint {
        id: Some(point_id(id_of(record.id)?)),
        payload: payload_of(record.payload.unwrap_or_default().0),
        vectors: Some(api::VectorsOutput {
            vectors_options: Some(vectors_output::VectorsOptions::Vectors(vectors)),
        }),
        ..api::RetrievedPoint::default()
    })
}

pub(super) fn payload_of(payload: Map<String, Value>) -> HashMap<String, api::Value> {
    payload
        .into_iter()
        .map(|(name, value)| (name, to_value(value)))
        .collect()
}

fn to_value(json: Value) -> api::Value {
    let kind = match json {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Kind::IntegerValue(whole),
            None => Kind::DoubleValue(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Kind::StringValue(text),
        Value::Array(list) => Kind::ListValue(api::ListValue {
            values: list.into_iter().map(to_value).collect(),
        }),
        Value::Object(map) => Kind::StructValue(api::Struct {
            fields: payload_of(map),
        }),
    };
    api::Value { kind: Some(kind) }
}

pub(super) fn to_json(value: api::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::IntegerValue(value)) => Value::from(value),
        Some(Kind::DoubleValue(value)) => Value::from(value),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(to_json).collect(),
        Some(Kind::StructValue(map)) => Value::Object(
            map.fields
                .into_iter()
                .map(|(name, value)| (name, to_json(value)))
                .collect(),
        ),
    }
}
