//! A collection: an Edge shard, and what of its settings Edge does not keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use qdrant_client::qdrant as api;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{query, vector, vector_input, vectors};
use qdrant_edge::{
    Distance, EdgeConfig, EdgeShard, EdgeSparseVectorParams, EdgeVectorParams, Modifier,
    NamedQuery, PointId, PointInsertOperations, PointOperations, PointStruct, QueryEnum,
    QueryRequest, Record, ScoringQuery, ScrollRequest, SparseVector, UpdateOperation, Vector,
    VectorInternal, VectorOperations, Vectors, WithPayloadInterface, WithVector,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tonic::Status;
use uuid::Uuid;

use super::convert::{id_of, payload_of, point_id, retrieved, to_json, uuid};
use super::matching;

#[derive(Default, Serialize, Deserialize)]
struct Settings {
    /// Dense vectors: how long, and their distance as the protocol numbers it.
    dense: BTreeMap<String, (u64, i32)>,
    /// Sparse vectors, and whether with IDF.
    sparse: BTreeMap<String, bool>,
    indexes: BTreeSet<String>,
}

pub(super) struct Collection {
    folder: PathBuf,
    settings: Settings,
    shard: EdgeShard,
}

pub(super) type Answered<T> = Result<T, Status>;

fn internal(error: impl std::fmt::Display) -> Status {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    Status::internal(format!("Service internal error: {line}"))
}

pub(super) fn wrong(text: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("Wrong input: {text}"))
}

fn distance(number: i32) -> Answered<Distance> {
    match api::Distance::try_from(number) {
        Ok(api::Distance::Cosine) => Ok(Distance::Cosine),
        Ok(api::Distance::Euclid) => Ok(Distance::Euclid),
        Ok(api::Distance::Dot) => Ok(Distance::Dot),
        Ok(api::Distance::Manhattan) => Ok(Distance::Manhattan),
        Ok(api::Distance::UnknownDistance) | Err(_) => Err(wrong("unknown distance")),
    }
}

impl Collection {
    pub(super) fn create(folder: &Path, request: api::CreateCollection) -> Answered<Self> {
        let dense = match request.vectors_config.and_then(|config| config.config) {
            Some(Config::ParamsMap(named)) => named.map,
            Some(Config::Params(one)) => HashMap::from([(String::new(), one)]),
            None => HashMap::new(),
        };
        let sparse = request.sparse_vectors_config.unwrap_or_default().map;
        let idf = |params: &api::SparseVectorParams| params.modifier() == api::Modifier::Idf;
        let settings = Settings {
            dense: dense
                .into_iter()
                .map(|(name, params)| (name, (params.size, params.distance)))
                .collect(),
            sparse: sparse
                .iter()
                .map(|(name, params)| (name.clone(), idf(params)))
                .collect(),
            indexes: BTreeSet::new(),
        };
        let mut config = EdgeConfig::builder().on_disk_payload(true);
        for (name, &(size, number)) in &settings.dense {
            let size = usize::try_from(size).map_err(wrong)?;
            let params = EdgeVectorParams::builder(size, distance(number)?).build();
            config = config.vector(name.as_str(), params);
        }
        for (name, &idf) in &settings.sparse {
            let params = EdgeSparseVectorParams {
                modifier: idf.then_some(Modifier::Idf),
                ..EdgeSparseVectorParams::default()
            };
            config = config.sparse_vector(name.as_str(), params);
        }
        let shard = folder.join("shard");
        std::fs::create_dir_all(&shard).map_err(internal)?;
        let collection = Self {
            folder: folder.into(),
            settings,
            shard: EdgeShard::new(&shard, config.build()).map_err(internal)?,
        };
        collection.keep();
        Ok(collection)
    }

    pub(super) fn load(folder: &Path) -> Self {
        let text = std::fs::read(folder.join("settings.json")).expect("settings");
        Self {
            folder: folder.into(),
            settings: serde_json::from_slice(&text).expect("settings"),
            shard: EdgeShard::load(&folder.join("shard"), None).expect("the shard opens"),
        }
    }

    fn keep(&self) {
        let text = serde_json::to_vec(&self.settings).expect("plain values");
        std::fs::write(self.folder.join("settings.json"), text).expect("written");
    }

    fn update(&self, operation: UpdateOperation) -> Answered<()> {
        self.shard.update(operation).map_err(internal)?;
        // Edge never replays its WAL: what is not flushed is lost with the process, which a real server's is not.
        self.shard.flush();
        Ok(())
    }

    pub(super) fn info(&self) -> api::CollectionInfo {
        let dense = self.settings.dense.iter().map(|(name, &(size, distance))| {
            let params = api::VectorParams {
                size,
                distance,
                ..api::VectorParams::default()
            };
            (name.clone(), params)
        });
        let sparse = self.settings.sparse.iter().map(|(name, &idf)| {
            let params = api::SparseVectorParams {
                index: None,
                modifier: idf.then(|| api::Modifier::Idf.into()),
            };
            (name.clone(), params)
        });
        let params = api::CollectionParams {
            shard_number: 1,
            vectors_config: Some(api::VectorsConfig {
                config: Some(Config::ParamsMap(api::VectorParamsMap {
                    map: dense.collect(),
                })),
            }),
            sparse_vectors_config: Some(api::SparseVectorConfig {
                map: sparse.collect(),
            }),
            ..api::CollectionParams::default()
        };
        let schema = api::PayloadSchemaInfo {
            data_type: api::PayloadSchemaType::Keyword.into(),
            ..api::PayloadSchemaInfo::default()
        };
        let indexes = self.settings.indexes.iter();
        api::CollectionInfo {
            status: api::CollectionStatus::Green.into(),
            config: Some(api::CollectionConfig {
                params: Some(params),
                ..api::CollectionConfig::default()
            }),
            payload_schema: indexes.map(|name| (name.clone(), schema.clone())).collect(),
            points_count: Some(self.count()),
            ..api::CollectionInfo::default()
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.shard.info().points_count as u64
    }

    pub(super) fn index(&mut self, field: String) {
        self.settings.indexes.insert(field);
        self.keep();
    }

    pub(super) fn add_dense(&mut self, name: String, size: u64, of: api::Distance) -> Answered<()> {
        if self.settings.dense.contains_key(&name) || self.settings.sparse.contains_key(&name) {
            return Err(wrong(format!("Vector with name {name} already exists")));
        }
        let operation = json!({"create_vector_name": {
            "vector_name": name,
            "config": {"dense": {"size": size, "distance": distance(of.into())?}},
        }});
        self.update(serde_json::from_value(operation).map_err(internal)?)?;
        self.settings.dense.insert(name, (size, of.into()));
        self.keep();
        Ok(())
    }

    pub(super) fn upsert(&mut self, points: Vec<api::PointStruct>) -> Answered<()> {
        let points: Vec<_> = points
            .into_iter()
            .map(|point| self.edge_point(point))
            .collect::<Answered<_>>()?;
        let points = points.into_iter().map(Into::into).collect();
        self.update(UpdateOperation::PointOperation(
            PointOperations::UpsertPoints(PointInsertOperations::PointsList(points)),
        ))
    }

    fn edge_point(&self, point: api::PointStruct) -> Answered<PointStruct> {
        let named = match point.vectors.and_then(|vectors| vectors.vectors_options) {
            Some(vectors::VectorsOptions::Vectors(named)) => named.vectors,
            Some(vectors::VectorsOptions::Vector(one)) => HashMap::from([(String::new(), one)]),
            None => HashMap::new(),
        };
        let mut vectors = Vec::new();
        for (name, given) in named {
            let vector = match given.vector {
                Some(vector::Vector::Dense(dense)) => self.dense(&name, dense.data)?,
                Some(vector::Vector::Sparse(sparse)) => self.sparse(&name, sparse)?,
                _ => return Err(wrong("only dense and sparse vectors")),
            };
            vectors.push((name, Vector::from(vector)));
        }
        let payload: Map<String, Value> = point
            .payload
            .into_iter()
            .map(|(name, value)| (name, to_json(value)))
            .collect();
        Ok(PointStruct::new(
            PointId::Uuid(uuid(point.id.as_ref())?),
            Vectors::new_named(vectors),
            Value::Object(payload),
        ))
    }

    fn dense(&self, name: &str, data: Vec<f32>) -> Answered<VectorInternal> {
        let Some(&(size, _)) = self.settings.dense.get(name) else {
            return Err(no_vector(name));
        };
        if data.len() as u64 != size {
            return Err(wrong(format!(
                "Vector dimension error: expected dim: {size}, got {}",
                data.len()
            )));
        }
        Ok(VectorInternal::Dense(data))
    }

    fn sparse(&self, name: &str, sparse: api::SparseVector) -> Answered<VectorInternal> {
        if !self.settings.sparse.contains_key(name) {
            return Err(no_vector(name));
        }
        let distinct: BTreeSet<u32> = sparse.indices.iter().copied().collect();
        if distinct.len() != sparse.indices.len() || sparse.values.len() != sparse.indices.len() {
            return Err(wrong("must be the same length, and indices must be unique"));
        }
        SparseVector::new(sparse.indices, sparse.values)
            .map(VectorInternal::Sparse)
            .map_err(wrong)
    }

    /// Returns the ids that are meant.
    pub(super) fn selected(&self, selector: Option<api::PointsSelector>) -> Answered<Vec<PointId>> {
        match selector.and_then(|selector| selector.points_selector_one_of) {
            Some(PointsSelectorOneOf::Points(list)) => list
                .ids
                .iter()
                .map(|id| uuid(Some(id)).map(PointId::Uuid))
                .collect(),
            Some(PointsSelectorOneOf::Filter(filter)) => {
                let found = self.find(Some(&filter))?;
                Ok(found.into_iter().map(PointId::Uuid).collect())
            }
            None => Err(wrong("no points are selected")),
        }
    }

    pub(super) fn delete(&self, ids: Vec<PointId>) -> Answered<()> {
        self.update(UpdateOperation::PointOperation(
            PointOperations::DeletePoints { ids },
        ))
    }

    pub(super) fn delete_vectors(&self, ids: Vec<PointId>, names: Vec<String>) -> Answered<()> {
        for name in &names {
            self.has_vector(name)?;
        }
        self.update(UpdateOperation::VectorOperation(
            VectorOperations::DeleteVectors(qdrant_edge::PointIdsList { points: ids }, names),
        ))
    }

    fn has_vector(&self, name: &str) -> Answered<()> {
        let there =
            self.settings.dense.contains_key(name) || self.settings.sparse.contains_key(name);
        there.then_some(()).ok_or_else(|| no_vector(name))
    }

    /// Returns the ids of all points that meet the filter, in order.
    pub(super) fn find(&self, filter: Option<&api::Filter>) -> Answered<Vec<Uuid>> {
        let mut found = Vec::new();
        self.walk(None, filter, &WithVector::Bool(false), |record| {
            found.extend(id_of(record.id));
            true
        })?;
        Ok(found)
    }

    /// Calls `each` with every point that meets the filter, in the order of the ids, while it says so.
    fn walk(
        &self,
        mut offset: Option<PointId>,
        filter: Option<&api::Filter>,
        with_vector: &WithVector,
        mut each: impl FnMut(Record) -> bool,
    ) -> Answered<()> {
        if let Some(filter) = filter {
            matching::check(filter, &self.settings.indexes)?;
        }
        loop {
            let request = ScrollRequest {
                offset,
                limit: Some(500),
                filter: None,
                with_payload: Some(WithPayloadInterface::Bool(true)),
                with_vector: with_vector.clone(),
                order_by: None,
            };
            let (records, next) = self.shard.scroll(request).map_err(internal)?;
            for record in records {
                let admitted = match (filter, &record.payload, id_of(record.id)) {
                    (None, _, _) => true,
                    (Some(filter), Some(payload), Some(id)) => {
                        matching::matches(filter, id, &payload.0)
                    }
                    (Some(_), _, _) => false,
                };
                if admitted && !each(record) {
                    return Ok(());
                }
            }
            if next.is_none() {
                return Ok(());
            }
            offset = next;
        }
    }

    fn with_vector(&self, selector: Option<api::WithVectorsSelector>) -> Answered<WithVector> {
        use api::with_vectors_selector::SelectorOptions;
        match selector.and_then(|selector| selector.selector_options) {
            None | Some(SelectorOptions::Enable(false)) => Ok(WithVector::Bool(false)),
            Some(SelectorOptions::Enable(true)) => Ok(WithVector::Bool(true)),
            Some(SelectorOptions::Include(names)) => {
                for name in &names.names {
                    self.has_vector(name)?;
                }
                Ok(WithVector::Selector(names.names))
            }
        }
    }

    pub(super) fn get(
        &self,
        ids: &[api::PointId],
        vectors: Option<api::WithVectorsSelector>,
    ) -> Answered<Vec<api::RetrievedPoint>> {
        let ids: Vec<PointId> = ids
            .iter()
            .map(|id| uuid(Some(id)).map(PointId::Uuid))
            .collect::<Answered<_>>()?;
        let vectors = self.with_vector(vectors)?;
        let records = self
            .shard
            .retrieve(&ids, None, Some(vectors))
            .map_err(internal)?;
        Ok(records.into_iter().filter_map(retrieved).collect())
    }

    pub(super) fn scroll(&self, request: api::ScrollPoints) -> Answered<api::ScrollResponse> {
        let vectors = self.with_vector(request.with_vectors)?;
        let limit = request.limit.unwrap_or(10) as usize;
        if limit == 0 {
            return Err(wrong("limit must be at least 1"));
        }
        let offset = match &request.offset {
            Some(id) => Some(PointId::Uuid(uuid(Some(id))?)),
            None => None,
        };
        let mut answer = api::ScrollResponse::default();
        self.walk(offset, request.filter.as_ref(), &vectors, |record| {
            if answer.result.len() == limit {
                answer.next_page_offset = id_of(record.id).map(point_id);
                return false;
            }
            answer.result.extend(retrieved(record));
            true
        })?;
        Ok(answer)
    }

    pub(super) fn query(&self, request: api::QueryPoints) -> Answered<Vec<api::ScoredPoint>> {
        let limit = usize::try_from(request.limit.unwrap_or(10)).map_err(wrong)?;
        let variant = request.query.and_then(|query| query.variant);
        let mut found = match variant {
            Some(query::Variant::Nearest(input)) => {
                let using = request.using.unwrap_or_default();
                self.nearest(input, &using, request.filter.as_ref(), limit)?
            }
            Some(query::Variant::Rrf(rrf)) => {
                let lists: Vec<_> = request
                    .prefetch
                    .into_iter()
                    .map(|one| self.prefetch(one))
                    .collect::<Answered<_>>()?;
                if !rrf.weights.is_empty() && rrf.weights.len() != lists.len() {
                    return Err(wrong("as many weights as prefetches"));
                }
                fuse(lists, rrf.k.unwrap_or(2), &rrf.weights)
            }
            _ => return Err(Status::unimplemented("only nearest and RRF")),
        };
        found.truncate(limit);
        Ok(found)
    }

    fn prefetch(&self, one: api::PrefetchQuery) -> Answered<Vec<api::ScoredPoint>> {
        let Some(query::Variant::Nearest(input)) = one.query.and_then(|query| query.variant) else {
            return Err(Status::unimplemented("only nearest"));
        };
        let limit = usize::try_from(one.limit.unwrap_or(10)).map_err(wrong)?;
        let using = one.using.unwrap_or_default();
        self.nearest(input, &using, one.filter.as_ref(), limit)
    }

    fn nearest(
        &self,
        input: api::VectorInput,
        using: &str,
        filter: Option<&api::Filter>,
        limit: usize,
    ) -> Answered<Vec<api::ScoredPoint>> {
        if let Some(filter) = filter {
            matching::check(filter, &self.settings.indexes)?;
        }
        let vector = match input.variant {
            Some(vector_input::Variant::Dense(dense)) => self.dense(using, dense.data)?,
            Some(vector_input::Variant::Sparse(sparse)) => self.sparse(using, sparse)?,
            _ => return Err(wrong("only dense and sparse vectors")),
        };
        let request = QueryRequest {
            prefetches: Vec::new(),
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery {
                query: vector,
                using: Some(using.into()),
            }))),
            filter: None,
            score_threshold: None,
            limit: self.shard.info().points_count.max(1),
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(false),
            with_payload: WithPayloadInterface::Bool(true),
        };
        let found = self.shard.query(request).map_err(internal)?;
        let admitted = found.into_iter().filter_map(|one| {
            let id = id_of(one.id)?;
            let payload = one.payload.unwrap_or_default().0;
            let admits = filter.is_none_or(|filter| matching::matches(filter, id, &payload));
            admits.then(|| api::ScoredPoint {
                id: Some(point_id(id)),
                payload: payload_of(payload),
                score: one.score,
                ..api::ScoredPoint::default()
            })
        });
        Ok(admitted.take(limit).collect())
    }
}

/// Reciprocal rank fusion as Qdrant has it: `1 / (rank / weight + k - 1)`, ranks from 1.
fn fuse(lists: Vec<Vec<api::ScoredPoint>>, k: u32, weights: &[f32]) -> Vec<api::ScoredPoint> {
    let mut fused: Vec<api::ScoredPoint> = Vec::new();
    for (at, list) in lists.into_iter().enumerate() {
        let weight = weights.get(at).copied().unwrap_or(1.0);
        let mut rank = 0.0;
        for one in list {
            rank += 1.0;
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let score = 1.0 / (rank / weight + k as f32 - 1.0);
            match fused.iter_mut().find(|known| known.id == one.id) {
                Some(known) => known.score += score,
                None => fused.push(api::ScoredPoint { score, ..one }),
            }
        }
    }
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused
}

fn no_vector(name: &str) -> Status {
    wrong(format!("Not existing vector name error: {name}"))
}
