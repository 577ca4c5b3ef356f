//! All collections of a server, and what is asked of them.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "each method is given its request and may fail"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use qdrant_client::qdrant as api;
use qdrant_client::qdrant::alias_operations::Action;
use tonic::Status;

use super::collection::Collection;
use super::strict::Strict;

/// The folder of the collections.
pub(super) const COLLECTIONS: &str = "collections";
const ALIASES: &str = "aliases.json";

/// A request: how large it is, and whether its answer waits for its work.
pub(super) trait Asked: Message {
    /// How many points it writes.
    fn points(&self) -> usize {
        0
    }

    fn waits(&self) -> bool {
        true
    }
}

/// An answer.
pub(super) trait Told: Sized {
    /// What is said of a request that was only taken in.
    fn acknowledged() -> Option<Self> {
        None
    }
}

macro_rules! plain {
    ($($asked:ident),* => $($told:ident),*) => {
        $(impl Asked for api::$asked {})*
        $(impl Told for api::$told {})*
    };
}

plain! {
    GetPoints, ScrollPoints, QueryPoints, CountPoints, CreateFieldIndexCollection, CreateVectorNameRequest,
    GetCollectionInfoRequest, ListCollectionsRequest, CreateCollection, DeleteCollection, ChangeAliases,
    ListAliasesRequest, CollectionExistsRequest, HealthCheckRequest
    =>
    GetResponse, ScrollResponse, QueryResponse, CountResponse, GetCollectionInfoResponse, ListCollectionsResponse,
    CollectionOperationResponse, ListAliasesResponse, CollectionExistsResponse, HealthCheckReply
}

impl Asked for api::UpsertPoints {
    fn points(&self) -> usize {
        self.points.len()
    }

    fn waits(&self) -> bool {
        self.wait.unwrap_or(false)
    }
}

impl Asked for api::DeletePoints {
    fn waits(&self) -> bool {
        self.wait.unwrap_or(false)
    }
}

impl Asked for api::DeletePointVectors {
    fn waits(&self) -> bool {
        self.wait.unwrap_or(false)
    }
}

impl Told for api::PointsOperationResponse {
    fn acknowledged() -> Option<Self> {
        Some(updated(api::UpdateStatus::Acknowledged))
    }
}

fn updated(status: api::UpdateStatus) -> api::PointsOperationResponse {
    api::PointsOperationResponse {
        result: Some(api::UpdateResult {
            operation_id: Some(0),
            status: status.into(),
        }),
        ..api::PointsOperationResponse::default()
    }
}

fn completed() -> api::PointsOperationResponse {
    updated(api::UpdateStatus::Completed)
}

pub(super) struct State {
    folder: PathBuf,
    collections: BTreeMap<String, Collection>,
    aliases: BTreeMap<String, String>,
}

impl State {
    /// Opens what the folder holds.
    pub(super) fn open(folder: &Path) -> Self {
        let mut collections = BTreeMap::new();
        let all = folder.join(COLLECTIONS);
        std::fs::create_dir_all(&all).expect("a folder");
        for entry in std::fs::read_dir(all).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            collections.insert(name, Collection::load(&entry.path()));
        }
        let aliases = std::fs::read(folder.join(ALIASES)).unwrap_or_default();
        Self {
            folder: folder.into(),
            collections,
            aliases: serde_json::from_slice(&aliases).unwrap_or_default(),
        }
    }

    /// Closes all collections; nothing is answered afterwards.
    pub(super) fn close(&mut self) {
        self.collections.clear();
    }

    fn strict(&self) -> Strict {
        Strict::read(&self.folder)
    }

    fn collection(&mut self, name: &str) -> Result<&mut Collection, Status> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.collections.get_mut(name).ok_or_else(|| {
            Status::not_found(format!("Not found: Collection `{name}` doesn't exist!"))
        })
    }

    pub(super) fn upsert(
        &mut self,
        request: api::UpsertPoints,
    ) -> Result<api::PointsOperationResponse, Status> {
        let strict = self.strict();
        let collection = self.collection(&request.collection_name)?;
        strict.check_upsert(request.points.len(), collection.count())?;
        collection.upsert(request.points)?;
        Ok(completed())
    }

    pub(super) fn delete_points(
        &mut self,
        request: api::DeletePoints,
    ) -> Result<api::PointsOperationResponse, Status> {
        if let Some(api::points_selector::PointsSelectorOneOf::Filter(filter)) =
            (request.points.as_ref()).and_then(|points| points.points_selector_one_of.as_ref())
        {
            self.strict().check_filter(Some(filter))?;
        }
        let collection = self.collection(&request.collection_name)?;
        let ids = collection.selected(request.points)?;
        collection.delete(ids)?;
        Ok(completed())
    }

    pub(super) fn delete_vectors(
        &mut self,
        request: api::DeletePointVectors,
    ) -> Result<api::PointsOperationResponse, Status> {
        let collection = self.collection(&request.collection_name)?;
        let ids = collection.selected(request.points_selector)?;
        let names = request.vectors.unwrap_or_default().names;
        collection.delete_vectors(ids, names)?;
        Ok(completed())
    }

    pub(super) fn create_field_index(
        &mut self,
        request: api::CreateFieldIndexCollection,
    ) -> Result<api::PointsOperationResponse, Status> {
        if request.field_type != Some(api::FieldType::Keyword.into()) {
            return Err(Status::unimplemented("only keyword indexes"));
        }
        self.collection(&request.collection_name)?
            .index(request.field_name);
        Ok(completed())
    }

    pub(super) fn create_vector_name(
        &mut self,
        request: api::CreateVectorNameRequest,
    ) -> Result<api::PointsOperationResponse, Status> {
        let Some(api::create_vector_name_request::VectorConfig::DenseConfig(dense)) =
            request.vector_config
        else {
            return Err(Status::unimplemented("only dense vectors"));
        };
        self.collection(&request.collection_name)?.add_dense(
            request.vector_name,
            dense.size,
            dense.distance(),
        )?;
        Ok(completed())
    }

    pub(super) fn get_points(
        &mut self,
        request: api::GetPoints,
    ) -> Result<api::GetResponse, Status> {
        let collection = self.collection(&request.collection_name)?;
        Ok(api::GetResponse {
            result: collection.get(&request.ids, request.with_vectors)?,
            ..api::GetResponse::default()
        })
    }

    pub(super) fn scroll(
        &mut self,
        request: api::ScrollPoints,
    ) -> Result<api::ScrollResponse, Status> {
        let strict = self.strict();
        strict.check_limit(request.limit.unwrap_or(10).into())?;
        strict.check_filter(request.filter.as_ref())?;
        self.collection(&request.collection_name.clone())?
            .scroll(request)
    }

    pub(super) fn query(
        &mut self,
        request: api::QueryPoints,
    ) -> Result<api::QueryResponse, Status> {
        let strict = self.strict();
        strict.check_limit(request.limit.unwrap_or(10))?;
        strict.check_filter(request.filter.as_ref())?;
        for one in &request.prefetch {
            strict.check_limit(one.limit.unwrap_or(10))?;
            strict.check_filter(one.filter.as_ref())?;
        }
        let collection = self.collection(&request.collection_name.clone())?;
        Ok(api::QueryResponse {
            result: collection.query(request)?,
            ..api::QueryResponse::default()
        })
    }

    pub(super) fn count(
        &mut self,
        request: api::CountPoints,
    ) -> Result<api::CountResponse, Status> {
        let collection = self.collection(&request.collection_name)?;
        let found = collection.find(request.filter.as_ref())?;
        Ok(api::CountResponse {
            result: Some(api::CountResult {
                count: found.len() as u64,
            }),
            ..api::CountResponse::default()
        })
    }

    pub(super) fn collection_info(
        &mut self,
        request: api::GetCollectionInfoRequest,
    ) -> Result<api::GetCollectionInfoResponse, Status> {
        let strict = self.strict();
        let mut info = self.collection(&request.collection_name)?.info();
        if let Some(config) = &mut info.config {
            config.strict_mode_config = strict.told();
        }
        Ok(api::GetCollectionInfoResponse {
            result: Some(info),
            ..api::GetCollectionInfoResponse::default()
        })
    }

    pub(super) fn collection_exists(
        &mut self,
        request: api::CollectionExistsRequest,
    ) -> Result<api::CollectionExistsResponse, Status> {
        Ok(api::CollectionExistsResponse {
            result: Some(api::CollectionExists {
                exists: self.collection(&request.collection_name).is_ok(),
            }),
            ..api::CollectionExistsResponse::default()
        })
    }

    pub(super) fn list_collections(
        &mut self,
        _request: api::ListCollectionsRequest,
    ) -> Result<api::ListCollectionsResponse, Status> {
        let names = self.collections.keys().cloned();
        Ok(api::ListCollectionsResponse {
            collections: names
                .map(|name| api::CollectionDescription { name })
                .collect(),
            ..api::ListCollectionsResponse::default()
        })
    }

    pub(super) fn create_collection(
        &mut self,
        request: api::CreateCollection,
    ) -> Result<api::CollectionOperationResponse, Status> {
        let name = request.collection_name.clone();
        if self.collections.contains_key(&name) || self.aliases.contains_key(&name) {
            return Err(Status::invalid_argument(format!(
                "Wrong input: Collection `{name}` already exists!"
            )));
        }
        if name.is_empty() || name.contains(['/', '\\', '<', '>', ':', '"', '|', '?', '*', '\0']) {
            return Err(Status::invalid_argument("collection name cannot be used"));
        }
        let folder = self.folder.join(COLLECTIONS).join(&name);
        self.collections
            .insert(name, Collection::create(&folder, request)?);
        Ok(done())
    }

    pub(super) fn delete_collection(
        &mut self,
        request: api::DeleteCollection,
    ) -> Result<api::CollectionOperationResponse, Status> {
        let name = request.collection_name;
        let Some(collection) = self.collections.remove(&name) else {
            return Ok(api::CollectionOperationResponse::default());
        };
        drop(collection);
        std::fs::remove_dir_all(self.folder.join(COLLECTIONS).join(&name)).expect("removed");
        self.aliases.retain(|_, of| *of != name);
        self.keep_aliases();
        Ok(done())
    }

    pub(super) fn update_aliases(
        &mut self,
        request: api::ChangeAliases,
    ) -> Result<api::CollectionOperationResponse, Status> {
        // All of them or none.
        let mut aliases = self.aliases.clone();
        for action in request.actions.into_iter().filter_map(|one| one.action) {
            match action {
                Action::CreateAlias(create) => {
                    let name = create.collection_name;
                    if !self.collections.contains_key(&name) {
                        return Err(Status::not_found(format!(
                            "Not found: Collection `{name}` doesn't exist!"
                        )));
                    }
                    if self.collections.contains_key(&create.alias_name) {
                        return Err(Status::invalid_argument(format!(
                            "Wrong input: Collection `{}` already exists!",
                            create.alias_name
                        )));
                    }
                    aliases.insert(create.alias_name, name);
                }
                Action::RenameAlias(rename) => {
                    let of = aliases.remove(&rename.old_alias_name);
                    let of = of.ok_or_else(|| Status::not_found("no such alias"))?;
                    aliases.insert(rename.new_alias_name, of);
                }
                Action::DeleteAlias(delete) => {
                    aliases.remove(&delete.alias_name);
                }
            }
        }
        self.aliases = aliases;
        self.keep_aliases();
        Ok(done())
    }

    pub(super) fn list_aliases(
        &mut self,
        _request: api::ListAliasesRequest,
    ) -> Result<api::ListAliasesResponse, Status> {
        let aliases = self.aliases.iter();
        Ok(api::ListAliasesResponse {
            aliases: aliases
                .map(|(alias, of)| api::AliasDescription {
                    alias_name: alias.clone(),
                    collection_name: of.clone(),
                })
                .collect(),
            ..api::ListAliasesResponse::default()
        })
    }

    pub(super) fn health_check(
        &mut self,
        _request: api::HealthCheckRequest,
    ) -> Result<api::HealthCheckReply, Status> {
        Ok(api::HealthCheckReply {
            title: "test server".into(),
            version: "1.18.3".into(),
            commit: None,
        })
    }

    fn keep_aliases(&self) {
        let text = serde_json::to_vec(&self.aliases).expect("texts");
        std::fs::write(self.folder.join(ALIASES), text).expect("written");
    }
}

fn done() -> api::CollectionOperationResponse {
    api::CollectionOperationResponse {
        result: true,
        ..api::CollectionOperationResponse::default()
    }
}
