//! The floor of the vectors: the points of a shard that is there, written into a new one by nothing but the engine.
//!
//! ```text
//! edge-floor .wiki-sync/vectors [POINTS [EVERY]]
//! ```
//!
//! Takes so many points at a time (500), begins to optimise after so many (as `wiki-sync` does: once half of all are new, 2,500 at the
//! least and 20,000 at the most), which goes on beside the writing, and prints one line of JSON: `points`, and the
//! `seconds` from the first of them to the last flush. Reading them does not count. `scripts/bench` sets a first sync
//! against it.

use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use qdrant_edge::{
    CreateIndex, EdgeConfig, EdgeShard, FieldIndexOperations, KeywordIndexParams,
    PayloadFieldSchema, PayloadSchemaParams, PointInsertOperations, PointOperations, PointStruct,
    ScrollRequest, UpdateOperation, Vector, VectorStructInternal, Vectors, WithPayloadInterface,
    WithVector,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The payload field that `wiki-sync` indexes.
const INDEXED: &str = "keys";

#[allow(clippy::print_stdout)] // It is a program.
fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let from = args
        .next()
        .ok_or("usage: edge-floor SHARD [POINTS [EVERY]]")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |arg| arg.parse());
    let (at_a_time, every) = (number(500)?, number(0)?);
    let from = Path::new(&from);
    let config = EdgeConfig::load(from).ok_or("no shard")??;
    let points = points_of(from)?;
    let count = points.len();
    let place = tempfile::TempDir::new_in(from.parent().ok_or("no folder above it")?)?;
    let begun = Instant::now();
    write(place.path(), config, points, at_a_time, every)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{{\"points\": {count}, \"seconds\": {seconds:.3}}}");
    Ok(())
}

fn write(
    to: &Path,
    config: EdgeConfig,
    points: Vec<PointStruct>,
    at_a_time: usize,
    every: usize,
) -> Result<()> {
    let shard = EdgeShard::new(to, config)?;
    index(&shard)?;
    let (mut loose, mut put) = (0, 0);
    let mut points = points.into_iter().peekable();
    thread::scope(|scope| {
        let mut running = None::<ScopedJoinHandle<'_, _>>;
        while points.peek().is_some() {
            let some: Vec<_> = points.by_ref().take(at_a_time).map(Into::into).collect();
            loose += some.len();
            put += some.len();
            let points = PointOperations::UpsertPoints(PointInsertOperations::PointsList(some));
            shard.update(UpdateOperation::PointOperation(points))?;
            let enough = if every > 0 {
                every
            } else {
                (put / 2).clamp(2_500, 20_000)
            };
            if loose >= enough && running.as_ref().is_none_or(ScopedJoinHandle::is_finished) {
                if let Some(ended) = running.take() {
                    ended.join().map_err(|_| "an optimisation panicked")??;
                }
                running = Some(scope.spawn(|| shard.optimize()));
                loose = 0;
            }
        }
        if let Some(ended) = running {
            ended.join().map_err(|_| "an optimisation panicked")??;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    shard.flush();
    shard.optimize()?;
    index(&shard)?;
    shard.flush();
    Ok(())
}

fn index(shard: &EdgeShard) -> Result<()> {
    let index = FieldIndexOperations::CreateIndex(CreateIndex {
        field_name: INDEXED.parse().map_err(|()| "no field's name")?,
        field_schema: Some(PayloadFieldSchema::FieldParams(
            PayloadSchemaParams::Keyword(KeywordIndexParams {
                on_disk: Some(true),
                ..KeywordIndexParams::default()
            }),
        )),
    });
    shard.update(UpdateOperation::FieldIndexOperation(index))?;
    Ok(())
}

fn points_of(from: &Path) -> Result<Vec<PointStruct>> {
    let shard = EdgeShard::load(from, None)?;
    let mut points = Vec::new();
    let mut offset = None;
    loop {
        let (records, next) = shard.scroll(ScrollRequest {
            offset,
            limit: Some(1_000),
            with_payload: Some(WithPayloadInterface::Bool(true)),
            with_vector: WithVector::Bool(true),
            ..ScrollRequest::default()
        })?;
        for record in records {
            let Some(VectorStructInternal::Named(named)) = record.vector else {
                return Err("a point without named vectors".into());
            };
            let vectors = named
                .into_iter()
                .map(|(name, one)| (name, Vector::from(one)));
            let payload = serde_json::Value::Object(record.payload.unwrap_or_default().0);
            points.push(PointStruct::new(
                record.id,
                Vectors::new_named(vectors),
                payload,
            ));
        }
        match next {
            Some(next) => offset = Some(next),
            None => return Ok(points),
        }
    }
}
