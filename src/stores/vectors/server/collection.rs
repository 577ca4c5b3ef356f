//! The collection: made as we need it, or looked at before it is used.

use std::collections::HashMap;

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionInfo, CreateCollection, CreateFieldIndexCollection, CreateVectorNameRequest,
    DenseVectorCreationConfig, Distance, FieldType, GetCollectionInfoRequest, Modifier,
    SparseIndexConfig, SparseVectorConfig, SparseVectorParams, VectorParams, VectorParamsMap,
    VectorsConfig, create_vector_name_request,
};
use tonic::{Code, Status};

use super::super::point::{BM25, DENSE, INDEXED};
use super::super::shape::Dense;
use super::super::{Found, REBUILD_SERVER, unfit_shape};
use super::Server;
use super::link::Link;
use crate::model::{Failure, FailureKind};

/// The distance of dense vectors: of two of length 1 it is their cosine, and the server does not compute anything when
/// they are written.
const DISTANCE: Distance = Distance::Dot;

impl Server {
    /// Looks at the collection, and makes it, its indexes and its dense vectors where they are missing and `create` says
    /// so. Returns whether it is there.
    ///
    /// # Errors
    /// As [`Engine::ready`](super::super::engine::Engine::ready).
    pub(super) fn look(&mut self, create: bool) -> Result<bool, Failure> {
        let info = match info(&mut self.link, &self.collection) {
            Ok(info) => info,
            Err(status) if status.code() == Code::NotFound => {
                if !create {
                    return Ok(false);
                }
                self.make()?
            }
            Err(status) => return Err(self.link.failure("look at", &status)),
        };
        let params = info.config.and_then(|config| config.params);
        let (vectors, sparse) = params.map_or((None, None), |params| {
            (params.vectors_config, params.sparse_vectors_config)
        });
        let words = sparse.and_then(|mut sparse| sparse.map.remove(BM25));
        if words.is_none_or(|words| words.modifier != Some(Modifier::Idf.into())) {
            return Err(Failure::new(
                FailureKind::Refused,
                format!(
                    "{} has no sparse vectors {BM25:?} with IDF: another program made it",
                    self.link.place()
                ),
            )
            .hint("set vectors.collection to a name that is free: the next drain makes it"));
        }
        let there = match vectors.and_then(|vectors| vectors.config) {
            Some(Config::ParamsMap(mut named)) => named.map.remove(DENSE),
            Some(Config::Params(_)) | None => None,
        };
        self.has_dense = there.is_some();
        match (there, self.shape.dense.clone()) {
            (Some(there), Some(wanted)) => self.fits(&there, &wanted)?,
            (None, Some(wanted)) if create => {
                self.add_dense(&wanted)?;
                self.has_dense = true;
            }
            (Some(_) | None, _) => {}
        }
        if create {
            for field in INDEXED {
                if !info.payload_schema.contains_key(field) {
                    self.index(field)?;
                }
            }
        }
        Ok(true)
    }

    fn fits(&self, there: &VectorParams, wanted: &Dense) -> Result<(), Failure> {
        let distance = Distance::try_from(there.distance).unwrap_or(Distance::UnknownDistance);
        if there.size == wanted.dimension as u64
            && matches!(distance, Distance::Dot | Distance::Cosine)
            && there.multivector_config.is_none()
        {
            return Ok(());
        }
        let found = Found {
            dimension: there.size.try_into().unwrap_or(usize::MAX),
            distance: distance.as_str_name().to_owned(),
        };
        let place = format!("the dense vectors of {}", self.link.place());
        Err(unfit_shape(&place, &found, wanted, REBUILD_SERVER))
    }

    /// Makes the collection and returns what there is then, whoever made it.
    fn make(&mut self) -> Result<CollectionInfo, Failure> {
        let dense = self.shape.dense.as_ref().map(|dense| {
            let params = VectorParams {
                size: dense.dimension as u64,
                distance: DISTANCE.into(),
                ..VectorParams::default()
            };
            (DENSE.to_owned(), params)
        });
        #[expect(
            deprecated,
            reason = "what came in its place is not known to servers before 1.19"
        )]
        let index = SparseIndexConfig {
            on_disk: Some(true),
            ..SparseIndexConfig::default()
        };
        let words = SparseVectorParams {
            index: Some(index),
            modifier: Some(Modifier::Idf.into()),
        };
        let request = CreateCollection {
            collection_name: self.collection.clone(),
            vectors_config: Some(VectorsConfig {
                config: Some(Config::ParamsMap(VectorParamsMap {
                    map: dense.into_iter().collect(),
                })),
            }),
            sparse_vectors_config: Some(SparseVectorConfig {
                map: HashMap::from([(BM25.to_owned(), words)]),
            }),
            ..CreateCollection::default()
        };
        let made = self.link.call(|line| {
            let request = request.clone();
            async move { line.collections().create(request).await }
        });
        // Another may have made it at the same moment, which servers tell in several ways.
        match (made, info(&mut self.link, &self.collection)) {
            (_, Ok(info)) => Ok(info),
            (Err(status), Err(_)) => Err(self.link.failure("make", &status)),
            (Ok(_), Err(status)) => Err(self.link.failure("look at", &status)),
        }
    }

    fn add_dense(&mut self, dense: &Dense) -> Result<(), Failure> {
        let request = CreateVectorNameRequest {
            collection_name: self.collection.clone(),
            wait: Some(true),
            vector_name: DENSE.into(),
            vector_config: Some(create_vector_name_request::VectorConfig::DenseConfig(
                DenseVectorCreationConfig {
                    size: dense.dimension as u64,
                    distance: DISTANCE.into(),
                    ..DenseVectorCreationConfig::default()
                },
            )),
            ..CreateVectorNameRequest::default()
        };
        let added = self.link.call(|line| {
            let request = request.clone();
            async move { line.points().create_vector_name(request).await }
        });
        match added {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::Unimplemented => Err(Failure::new(
                FailureKind::Refused,
                format!(
                    "{} has no dense vectors, the model {} makes vectors of {} dimensions, and this server cannot add them",
                    self.link.place(),
                    dense.model,
                    dense.dimension
                ),
            )
            .hint(REBUILD_SERVER)),
            Err(status) => Err(self.link.failure("add dense vectors to", &status)),
        }
    }

    fn index(&mut self, field: &str) -> Result<(), Failure> {
        let request = CreateFieldIndexCollection {
            collection_name: self.collection.clone(),
            wait: Some(true),
            field_name: field.into(),
            field_type: Some(FieldType::Keyword.into()),
            ..CreateFieldIndexCollection::default()
        };
        self.link
            .call(|line| {
                let request = request.clone();
                async move { line.points().create_field_index(request).await }
            })
            .map(drop)
            .map_err(|status| self.link.failure("index", &status))
    }
}

pub(super) fn info(link: &mut Link, collection: &str) -> Result<CollectionInfo, Status> {
    let answer = link.call(|line| {
        let request = GetCollectionInfoRequest {
            collection_name: collection.into(),
        };
        async move { line.collections().get(request).await }
    })?;
    answer
        .result
        .ok_or_else(|| Status::unavailable("the answer is empty"))
}
