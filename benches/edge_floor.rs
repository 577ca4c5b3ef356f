//! The floor of the vectors: the points of a shard that is there, written into a new one by nothing but the engine.
//!
//! ```text
//! cargo run --release --example edge_floor -- .wiki-sync/vectors [--every POINTS] [--batch POINTS]
//! ```
//!
//! Prints one line of JSON: `points`, and the `seconds` from the first upsert to the last flush. Reading the points does
//! not count. `scripts/bench` sets a first sync against it.

use std::process::ExitCode;
use std::time::Instant;

#[cfg(feature = "edge")]
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| {
        args.iter()
            .position(|arg| arg == name)
            .and_then(|at| args.get(at + 1)?.parse().ok())
            .unwrap_or(default)
    };
    let Some(shard) = args.first() else {
        eprintln!("usage: edge_floor SHARD [--every POINTS] [--batch POINTS]");
        return ExitCode::from(2);
    };
    let (points, seconds) = floor::measure(
        shard.as_ref(),
        number("--batch", 500),
        number("--every", 10_000),
        number("--segments", 16),
        number("--kb", 30_000),
        number("--ikb", 1_000),
    );
    println!("{{\"points\": {points}, \"seconds\": {seconds:.3}}}");
    ExitCode::SUCCESS
}

#[cfg(not(feature = "edge"))]
fn main() -> ExitCode {
    let _ = Instant::now();
    eprintln!("needs the feature `edge`");
    ExitCode::FAILURE
}

#[cfg(feature = "edge")]
mod floor {
    use super::Instant;
    use qdrant_edge::{
        CreateIndex, EdgeConfig, EdgeOptimizersConfig, EdgeShard, FieldIndexOperations,
        PayloadFieldSchema, PayloadSchemaType, PointId, PointInsertOperations, PointOperations,
        PointStruct, ScrollRequest, UpdateOperation, Vector, VectorStructInternal, Vectors,
        WithPayloadInterface, WithVector,
    };
    use std::path::Path;

    pub fn measure(from: &Path, batch: usize, every: usize, segs: usize, kb: usize, ikb: usize) -> (usize, f64) {
        let mut config = EdgeConfig::load(from).expect("a shard").expect("its settings");
        config.optimizers = EdgeOptimizersConfig {
            default_segment_number: Some(segs),
            max_segment_size: Some(kb),
            indexing_threshold: Some(ikb),
            ..EdgeOptimizersConfig::default()
        };
        let points = read(from);
        let place = tempfile::TempDir::new().expect("a folder");
        let to = place.path().join("shard");
        std::fs::create_dir(&to).expect("made");
        let count = points.len();
        let begun = Instant::now();
        let shard = EdgeShard::new(&to, config).expect("a new shard");
        index(&shard);
        let mut loose = 0;
        let (mut up, mut opt) = (0.0, 0.0);
        let mut points = points.into_iter().peekable();
        while points.peek().is_some() {
            let some: Vec<_> = points.by_ref().take(batch).map(Into::into).collect();
            loose += some.len();
            let t = Instant::now();
            shard
                .update(UpdateOperation::PointOperation(PointOperations::UpsertPoints(
                    PointInsertOperations::PointsList(some),
                )))
                .expect("written");
            up += t.elapsed().as_secs_f64();
            if loose >= every {
                let t = Instant::now();
                shard.optimize().expect("optimised");
                index(&shard);
                shard.flush();
                loose = 0;
                opt += t.elapsed().as_secs_f64();
            }
        }
        let t = Instant::now();
        shard.optimize().expect("optimised");
        index(&shard);
        shard.flush();
        opt += t.elapsed().as_secs_f64();
        eprintln!("upsert {up:.2} optimise {opt:.2}; segments {:?}", shard.info().segments_count);
        (count, begun.elapsed().as_secs_f64())
    }

    fn index(shard: &EdgeShard) {
        for field in ["path", "wiki", "kind", "repo"] {
            let index = CreateIndex {
                field_name: field.parse().expect("a name"),
                field_schema: Some(PayloadFieldSchema::FieldType(PayloadSchemaType::Keyword)),
            };
            shard
                .update(UpdateOperation::FieldIndexOperation(
                    FieldIndexOperations::CreateIndex(index),
                ))
                .expect("indexed");
        }
    }

    fn read(from: &Path) -> Vec<PointStruct> {
        let shard = EdgeShard::load(from, None).expect("a shard that nobody else has open");
        let mut points = Vec::new();
        let mut offset = None;
        loop {
            let (records, next) = shard
                .scroll(ScrollRequest {
                    offset,
                    limit: Some(1000),
                    with_payload: Some(WithPayloadInterface::Bool(true)),
                    with_vector: WithVector::Bool(true),
                    ..ScrollRequest::default()
                })
                .expect("read");
            for record in records {
                let vectors = match record.vector {
                    Some(VectorStructInternal::Named(named)) => named.into_iter().map(|(k, v)| (k, Vector::from(v))).collect::<Vec<_>>(),
                    _ => Vec::new(),
                };
                let PointId::Uuid(_) = record.id else { continue };
                points.push(PointStruct::new(
                    record.id,
                    Vectors::new_named(vectors),
                    serde_json::Value::Object(record.payload.unwrap_or_default().0),
                ));
            }
            match next {
                Some(next) => offset = Some(next),
                None => return points,
            }
        }
    }
}
