//! The collection: made as we need it, or looked at before it is used.
//!
//! What is made is a version, `<name>-v1`, and `<name>` an alias of it, so that a later version can be built beside it and
//! exchanged with it in one step. The alias is resolved each time that the collection is looked at, and all that follows
//! goes to the version found: a batch of writes never falls on two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CollectionInfo, CreateCollection, CreateFieldIndexCollection, CreateVectorNameRequest,
    DenseVectorCreationConfig, Distance, FieldType, Modifier, SparseIndexConfig,
    SparseVectorConfig, SparseVectorParams, VectorParams, VectorParamsMap, VectorsConfig,
    create_vector_name_request,
};
use tonic::{Code, Status};

use super::super::point::{BM25, DENSE, INDEXED};
use super::super::shape::Dense;
use super::super::{Found, REBUILD, unfit_shape};
use super::Server;
use super::limits::Limits;
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
        self.is_gone = false;
        if let Some(name) = &self.alias {
            let aliases = match self.link.aliases() {
                // A key for reading one collection only: it is asked by the name that it has.
                Err(status) if status.code() == Code::PermissionDenied => BTreeMap::new(),
                other => other.map_err(|e| self.link.failure("look at", &e))?,
            };
            self.collection = aliases.get(name).unwrap_or(name).clone();
        }
        let found = self.link.info(&self.collection);
        let info = match found.map_err(|e| self.link.failure("look at", &e))? {
            Some(info) => info,
            None if create => self.make()?,
            None => return Ok(false),
        };
        let parts = Parts::of(&info);
        if !parts.has_words {
            let wanted = match &self.shape.dense {
                Some(dense) => format!(
                    " and {DENSE:?} of {} dimensions for {}",
                    dense.dimension, dense.model
                ),
                None => String::new(),
            };
            return Err(Failure::new(
                FailureKind::Refused,
                format!(
                    "another program made {}: it has {}, and sparse vectors {BM25:?} with IDF{wanted} are wanted",
                    self.link.place(),
                    parts.said,
                ),
            )
            .hint("set vectors.collection to a name that is free: the next drain makes it, and leaves this one alone"));
        }
        self.limits = Limits::of(&info);
        let there = parts.dense;
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
        Err(unfit_shape(&place, &found, wanted))
    }

    /// Makes the collection, with its alias where it is to have one, and returns what there is then, whoever made it. Goes
    /// on with what a process that was killed between the two has made.
    fn make(&mut self) -> Result<CollectionInfo, Failure> {
        let Some(name) = self.alias.clone() else {
            return self.make_version();
        };
        let mut number = 0;
        loop {
            number += 1;
            self.collection = version(&name, number);
            let aliases = self
                .link
                .aliases()
                .map_err(|e| self.link.failure("make", &e))?;
            if let Some(made) = aliases.get(&name) {
                // Another was quicker.
                self.collection.clone_from(made);
                return self.make_version();
            }
            if aliases.contains_key(&self.collection) {
                continue;
            }
            let info = self.make_version()?;
            if Parts::of(&info).has_words {
                fail::fail_point!("vectors.made");
                self.link
                    .change_aliases(None, Some((&name, &self.collection)))
                    .map_err(|e| self.link.failure("make", &e))?;
                return Ok(info);
            }
        }
    }

    /// Makes the collection itself, if it is not there.
    fn make_version(&mut self) -> Result<CollectionInfo, Failure> {
        if let Ok(Some(info)) = self.link.info(&self.collection) {
            return Ok(info);
        }
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
        match (made, self.link.info(&self.collection)) {
            (_, Ok(Some(info))) => Ok(info),
            (Err(status), _) | (Ok(_), Err(status)) => Err(self.link.failure("make", &status)),
            (Ok(_), Ok(None)) => {
                let gone = Status::not_found("it is gone again");
                Err(self.link.failure("look at", &gone))
            }
        }
    }

    pub(in super::super) fn add_dense(&mut self, dense: &Dense) -> Result<(), Failure> {
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
            .hint(REBUILD)),
            // Another may have added them at the same moment.
            Err(status) => {
                let now = self.link.info(&self.collection).ok().flatten();
                match now.and_then(|info| Parts::of(&info).dense) {
                    Some(there) => self.fits(&there, dense),
                    None => Err(self.link.failure("add dense vectors to", &status)),
                }
            }
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

/// What of a collection counts for us.
struct Parts {
    has_words: bool,
    dense: Option<VectorParams>,
    /// What it has, for people.
    said: String,
}

impl Parts {
    fn of(info: &CollectionInfo) -> Self {
        let params = info
            .config
            .as_ref()
            .and_then(|config| config.params.as_ref());
        let vectors = params.and_then(|params| params.vectors_config.as_ref()?.config.as_ref());
        let sparse = params.and_then(|params| params.sparse_vectors_config.as_ref());
        let mut said = BTreeSet::new();
        let mut dense = None;
        let mut saw = |name: &str, params: &VectorParams| {
            said.insert(format!(
                "vectors {name:?} of {} dimensions ({})",
                params.size,
                params.distance().as_str_name()
            ));
        };
        match vectors {
            Some(Config::ParamsMap(named)) => {
                named
                    .map
                    .iter()
                    .for_each(|(name, params)| saw(name, params));
                dense = named.map.get(DENSE).copied();
            }
            Some(Config::Params(one)) => saw("", one),
            None => {}
        }
        let idf = |params: &SparseVectorParams| params.modifier() == Modifier::Idf;
        for (name, params) in sparse.iter().flat_map(|sparse| &sparse.map) {
            let with = if idf(params) { "with" } else { "without" };
            said.insert(format!("sparse vectors {name:?} {with} IDF"));
        }
        Self {
            has_words: sparse.is_some_and(|sparse| sparse.map.get(BM25).is_some_and(idf)),
            dense,
            said: if said.is_empty() {
                "no vectors".into()
            } else {
                said.into_iter().collect::<Vec<_>>().join(", ")
            },
        }
    }
}

/// Returns the name of a version of a collection.
pub(super) fn version(name: &str, number: u64) -> String {
    format!("{name}-v{number}")
}

/// Returns which version of `name` a collection is, if it is one.
pub(super) fn number(name: &str, collection: &str) -> Option<u64> {
    let number = collection.strip_prefix(name)?.strip_prefix("-v")?;
    number
        .parse()
        .ok()
        .filter(|&number| version(name, number) == collection)
}
