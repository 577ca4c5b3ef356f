//! The hands that damage: straight at the databases, at Edge's shard and at git, behind the program's back.

use std::path::Path;

use qdrant_edge::{
    EdgeShard, PointId, PointInsertOperations, PointOperations, PointStruct, Record, ScrollRequest,
    SparseVector, UpdateOperation, Vector, VectorInternal, VectorStructInternal, Vectors,
    WithPayloadInterface, WithVector,
};
use serde_json::{Map, Value, json};

use crate::wiki::Wiki;

pub(crate) const GHOST: &str = "wiki-output/ghost.md";

/// Changes `wiki.db`; something must have been changed.
pub(crate) fn sqlite(wiki: &Wiki, sql: &str, page: &str) {
    change(wiki, "wiki.db", sql, page);
}

/// Changes `outbox.db`.
pub(crate) fn outbox(wiki: &Wiki, sql: &str, page: &str) {
    change(wiki, "outbox.db", sql, page);
}

fn change(wiki: &Wiki, name: &str, sql: &str, page: &str) {
    let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync").join(name)).unwrap();
    let mut change = db.prepare(sql).unwrap();
    let changed = match change.parameter_count() {
        0 => change.execute([]),
        _ => change.execute([page]),
    };
    assert!(changed.unwrap() > 0, "{sql} does something");
}

/// A point as it stands in the shard.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) id: PointId,
    pub(crate) payload: Map<String, Value>,
    pub(crate) words: Vec<(u32, f32)>,
}

/// The shard of a wiki, opened beside the program.
pub(crate) struct Shard(EdgeShard);

impl Shard {
    pub(crate) fn open(wiki: &Wiki) -> Self {
        Self::at(&wiki.root().join(".wiki-sync/vectors"))
    }

    pub(crate) fn at(folder: &Path) -> Self {
        Self(EdgeShard::load(folder, None).unwrap())
    }

    pub(crate) fn points(&self) -> Vec<Stored> {
        let request = ScrollRequest {
            offset: None,
            limit: Some(10_000),
            filter: None,
            with_payload: Some(WithPayloadInterface::Bool(true)),
            with_vector: WithVector::Bool(true),
            order_by: None,
        };
        let (records, next) = self.0.scroll(request).unwrap();
        assert!(next.is_none());
        records.into_iter().map(stored).collect()
    }

    /// The first point of a page.
    pub(crate) fn of(&self, page: &str) -> Stored {
        let mut points = self.points().into_iter();
        points
            .find(|point| point.payload.get("path").is_some_and(|path| path == page))
            .unwrap()
    }

    pub(crate) fn put(&self, point: &Stored) {
        let (indices, values) = point.words.iter().copied().unzip();
        let words = Vector::from(SparseVector { indices, values });
        let vectors = Some(("bm25", words)).filter(|_| !point.words.is_empty());
        let point = PointStruct::new(
            point.id,
            Vectors::new_named(vectors),
            Value::Object(point.payload.clone()),
        );
        let points = PointInsertOperations::PointsList(vec![point.into()]);
        self.update(PointOperations::UpsertPoints(points));
    }

    pub(crate) fn delete(&self, id: PointId) {
        self.update(PointOperations::DeletePoints { ids: vec![id] });
    }

    fn update(&self, operation: PointOperations) {
        self.0
            .update(UpdateOperation::PointOperation(operation))
            .unwrap();
        self.0.flush();
    }
}

fn stored(record: Record) -> Stored {
    let mut words = Vec::new();
    if let Some(VectorStructInternal::Named(named)) = record.vector
        && let Some(VectorInternal::Sparse(vector)) = named.get("bm25")
    {
        words.extend(vector.indices.iter().copied().zip(vector.values.clone()));
    }
    Stored {
        id: record.id,
        payload: record.payload.unwrap_or_default().0,
        words,
    }
}

/// Changes the first point of a page.
pub(crate) fn alter(wiki: &Wiki, page: &str, change: impl Fn(&mut Stored)) {
    let shard = Shard::open(wiki);
    let mut point = shard.of(page);
    change(&mut point);
    shard.put(&point);
}

/// Adds a copy of a page's first point under another id, changed.
pub(crate) fn copy(wiki: &Wiki, page: &str, id: PointId, change: impl Fn(&mut Map<String, Value>)) {
    alter(wiki, page, |point| {
        point.id = id;
        change(&mut point.payload);
    });
}

pub(crate) fn some_id() -> PointId {
    PointId::Uuid(uuid::Uuid::from_u128(0xabc << 80 | 7))
}

/// Gives the wiki's meta point another id, as if the store were another one.
pub(crate) fn other_store(wiki: &Wiki) {
    let shard = Shard::open(wiki);
    let mut points = shard.points().into_iter();
    let mut meta = points
        .find(|point| point.payload.contains_key("kind"))
        .unwrap();
    meta.payload.insert("id".into(), json!("another"));
    shard.put(&meta);
}

/// Commits another blob for a page, and leaves the file alone.
pub(crate) fn commit_other(wiki: &Wiki, page: &str) {
    wiki.write("../other", "what nobody wrote\n");
    let blob = wiki.git(&["hash-object", "-w", "../other"]);
    let entry = format!("100644,{},{page}", blob.trim());
    wiki.git(&["update-index", "--add", "--cacheinfo", &entry]);
    wiki.git(&["commit", "-qm", "other"]);
}

/// Commits a page away, and leaves the file alone.
pub(crate) fn commit_away(wiki: &Wiki, page: &str) {
    wiki.git(&["rm", "-q", "--cached", "-f", page]);
    wiki.git(&["commit", "-qm", "away"]);
}
