//! The methods of Qdrant's services: those that a client of ours calls, and all others, which are refused.

use std::future::Future;
use std::pin::Pin;

use qdrant_client::qdrant as api;
use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::qdrant_server::Qdrant;
use tonic::{Request, Response, Status};

use super::Service;
use super::state::State;

/// Implements a service: a method with `=> work` is answered by that method of [`State`], any other is not there.
macro_rules! service {
    ($service:ident { $($method:ident($request:ident) -> $response:ident $(=> $work:ident)?;)* }) => {
        impl $service for Service {
            $(service!(@method $method($request) -> $response $(=> $work)?);)*
        }
    };
    (@method $method:ident($request:ident) -> $response:ident => $work:ident) => {
        fn $method<'a, 'b>(
            &'a self,
            request: Request<api::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<api::$response>, Status>> + Send + 'b>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(self.answer(stringify!($work), request, State::$work))
        }
    };
    (@method $method:ident($request:ident) -> $response:ident) => {
        fn $method<'a, 'b>(
            &'a self,
            _request: Request<api::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<api::$response>, Status>> + Send + 'b>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async { Err(Status::unimplemented("this test server does not know it")) })
        }
    };
}

service! { Points {
    upsert(UpsertPoints) -> PointsOperationResponse => upsert;
    delete(DeletePoints) -> PointsOperationResponse => delete_points;
    get(GetPoints) -> GetResponse => get_points;
    update_vectors(UpdatePointVectors) -> PointsOperationResponse;
    delete_vectors(DeletePointVectors) -> PointsOperationResponse => delete_vectors;
    set_payload(SetPayloadPoints) -> PointsOperationResponse;
    overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
    delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
    clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
    create_field_index(CreateFieldIndexCollection) -> PointsOperationResponse => create_field_index;
    delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
    create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse => create_vector_name;
    delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
    search(SearchPoints) -> SearchResponse;
    search_batch(SearchBatchPoints) -> SearchBatchResponse;
    search_groups(SearchPointGroups) -> SearchGroupsResponse;
    scroll(ScrollPoints) -> ScrollResponse => scroll;
    recommend(RecommendPoints) -> RecommendResponse;
    recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
    recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
    discover(DiscoverPoints) -> DiscoverResponse;
    discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
    count(CountPoints) -> CountResponse => count;
    update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
    query(QueryPoints) -> QueryResponse => query;
    query_batch(QueryBatchPoints) -> QueryBatchResponse;
    query_groups(QueryPointGroups) -> QueryGroupsResponse;
    facet(FacetCounts) -> FacetResponse;
    search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
    search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
} }

service! { Collections {
    get(GetCollectionInfoRequest) -> GetCollectionInfoResponse => collection_info;
    list(ListCollectionsRequest) -> ListCollectionsResponse => list_collections;
    create(CreateCollection) -> CollectionOperationResponse => create_collection;
    update(UpdateCollection) -> CollectionOperationResponse;
    delete(DeleteCollection) -> CollectionOperationResponse => delete_collection;
    update_aliases(ChangeAliases) -> CollectionOperationResponse => update_aliases;
    list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
    list_aliases(ListAliasesRequest) -> ListAliasesResponse => list_aliases;
    collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
    collection_exists(CollectionExistsRequest) -> CollectionExistsResponse => collection_exists;
    update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
    create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
    delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
    list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
} }

service! { Qdrant {
    health_check(HealthCheckRequest) -> HealthCheckReply => health_check;
} }
