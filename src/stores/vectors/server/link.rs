//! The way to the server: one connection, calls with a bound, and what their failures mean.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::future::Future;
use std::time::{Duration, Instant};

use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::qdrant_client::QdrantClient;
use qdrant_client::qdrant::{
    AliasOperations, ChangeAliases, CollectionInfo, CollectionOperationResponse, CreateAlias,
    DeleteAlias, DeleteCollection, GetCollectionInfoRequest, ListAliasesRequest,
    ListCollectionsRequest,
};
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status};
use tracing::debug;

use super::super::ServerSettings;
use crate::model::{Failure, FailureKind, Secret};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The largest answer that is read. The server's own limit is for requests; answers have none.
const ANSWER_BYTES: usize = 256 << 20;

/// The header that carries the API key.
const KEY_HEADER: &str = "api-key";

/// How long a server that is busy is left alone at first; it doubles.
const BUSY_WAIT: Duration = Duration::from_millis(250);

/// The environment variable of the API key.
const KEY_VARIABLE: &str = "WIKI_SYNC_VECTORS_API_KEY";

/// Puts the API key on each request.
#[derive(Clone)]
pub(super) struct Key(Option<MetadataValue<Ascii>>);

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert(KEY_HEADER, key.clone());
        }
        Ok(request)
    }
}

/// What a call is made on.
#[derive(Clone)]
pub(super) struct Line(InterceptedService<Channel, Key>);

impl Line {
    pub(super) fn points(self) -> PointsClient<InterceptedService<Channel, Key>> {
        PointsClient::new(self.0)
            .max_decoding_message_size(ANSWER_BYTES)
            .max_encoding_message_size(usize::MAX)
    }

    pub(super) fn collections(self) -> CollectionsClient<InterceptedService<Channel, Key>> {
        CollectionsClient::new(self.0)
    }

    pub(super) fn health(self) -> QdrantClient<InterceptedService<Channel, Key>> {
        QdrantClient::new(self.0)
    }
}

/// The connection to one server. The rest of the program is synchronous: the runtime lives here, and works only while a
/// call is made.
pub(super) struct Link {
    runtime: Runtime,
    endpoint: Endpoint,
    key: Key,
    secret: Option<Secret>,
    line: Option<Line>,
    timeout: Duration,
    /// The collection and the server, for messages.
    place: String,
}

impl Link {
    /// Prepares the way; nothing is connected yet.
    ///
    /// # Errors
    /// `Refused` when the URL or the key cannot be used, `Down` when the system gives no runtime.
    pub(super) fn new(url: &str, settings: &ServerSettings) -> Result<Self, Failure> {
        let refused = |reason: String| Failure::new(FailureKind::Refused, reason);
        let wrong_url = |e: &tonic::transport::Error| {
            let doing = format!("vectors.url {url:?} cannot be used");
            Failure::from_error(FailureKind::Refused, &doing, e)
        };
        let mut endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|e| wrong_url(&e))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        if url.starts_with("https://") {
            let tls = ClientTlsConfig::new().with_native_roots();
            endpoint = endpoint.tls_config(tls).map_err(|e| wrong_url(&e))?;
        }
        let key = match &settings.api_key {
            Some(secret) => {
                let mut value: MetadataValue<Ascii> = secret.reveal().parse().map_err(|_| {
                    refused("the API key of the vectors' server is no key".into()).hint(format!(
                        "a key is visible ASCII; look at {KEY_VARIABLE}, or at the file that vectors.api_key_file names"
                    ))
                })?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::from_error(FailureKind::Down, "cannot start a runtime", &e))?;
        Ok(Self {
            runtime,
            endpoint,
            key: Key(key),
            secret: settings.api_key.clone(),
            line: None,
            timeout: settings.timeout,
            place: format!("collection {:?} at {url}", settings.collection),
        })
    }

    /// Names the collection and the server.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Makes a call and returns its answer, in the time that the settings allow or not at all.
    ///
    /// Everything that is called may be repeated. So a connection that broke is made anew once, for a server that was
    /// started again or had closed one that was idle; and one that is busy is asked again after the wait it names.
    ///
    /// # Errors
    /// The server's status; [`Code::DeadlineExceeded`] when the time is over.
    pub(super) fn call<T, F>(&mut self, make: impl Fn(Line) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempt(make, true)
    }

    /// Makes a call that can be made in parts: a server that it is too much for, and that names no time when it
    /// would not be, is not asked again for all of it.
    pub(super) fn call_in_parts<T, F>(&mut self, make: impl Fn(Line) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempt(make, false)
    }

    fn attempt<T, F>(&mut self, make: impl Fn(Line) -> F, whole: bool) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let end = Instant::now() + self.timeout;
        let mut fresh = false;
        let mut wait = BUSY_WAIT;
        loop {
            let line = self.line.take().unwrap_or_else(|| {
                fresh = true;
                let _inside = self.runtime.enter();
                let channel = self.endpoint.connect_lazy();
                Line(InterceptedService::new(channel, self.key.clone()))
            });
            let began = Instant::now();
            let left = end.saturating_duration_since(began);
            let answer = self.runtime.block_on(async {
                match tokio::time::timeout(left, make(line.clone())).await {
                    Ok(answer) => answer,
                    Err(_) => Err(Status::deadline_exceeded(format!(
                        "no answer in {} s",
                        self.timeout.as_secs_f32()
                    ))),
                }
            });
            debug!(
                answered = %answer.as_ref().map_or_else(Status::code, |_| Code::Ok),
                ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "asked the qdrant server"
            );
            let status = match answer {
                Ok(response) => {
                    self.line = Some(line);
                    return Ok(response.into_inner());
                }
                Err(status) => status,
            };
            if is_broken(&status) {
                if fresh {
                    return Err(status);
                }
                continue;
            }
            if status.code() != Code::DeadlineExceeded {
                self.line = Some(line);
            }
            if status.code() != Code::ResourceExhausted {
                return Err(status);
            }
            let asked = asked_wait(&status);
            let pause = asked.unwrap_or(wait);
            wait *= 2;
            let left = end.saturating_duration_since(Instant::now());
            if pause >= left || (asked.is_none() && !whole) {
                return Err(status);
            }
            self.runtime
                .block_on(async { tokio::time::sleep(pause).await });
        }
    }

    /// Returns what there is of a collection, or of one behind an alias; `None` where there is none.
    ///
    /// # Errors
    /// The server's status; the same for the methods below.
    pub(super) fn info(&mut self, collection: &str) -> Result<Option<CollectionInfo>, Status> {
        let answer = self.call(|line| {
            let request = GetCollectionInfoRequest {
                collection_name: collection.into(),
            };
            async move { line.collections().get(request).await }
        });
        match answer {
            Ok(answer) => answer
                .result
                .map(Some)
                .ok_or_else(|| Status::unavailable("the answer is empty")),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Returns the names of all collections.
    pub(super) fn collections(&mut self) -> Result<Vec<String>, Status> {
        let answer = self.call(|line| async move {
            let request = ListCollectionsRequest {};
            line.collections().list(request).await
        })?;
        Ok(answer.collections.into_iter().map(|one| one.name).collect())
    }

    /// Returns all aliases, and the collection of each.
    pub(super) fn aliases(&mut self) -> Result<BTreeMap<String, String>, Status> {
        let answer = self.call(|line| async move {
            let request = ListAliasesRequest {};
            line.collections().list_aliases(request).await
        })?;
        let aliases = answer.aliases.into_iter();
        Ok(aliases
            .map(|one| (one.alias_name, one.collection_name))
            .collect())
    }

    /// Takes an alias away and sets one, alias and collection: both in one step.
    pub(super) fn change_aliases(
        &mut self,
        gone: Option<&str>,
        new: Option<(&str, &str)>,
    ) -> Result<(), Status> {
        let gone = gone.map(|alias| {
            Action::DeleteAlias(DeleteAlias {
                alias_name: alias.into(),
            })
        });
        let new = new.map(|(alias, collection)| {
            Action::CreateAlias(CreateAlias {
                alias_name: alias.into(),
                collection_name: collection.into(),
            })
        });
        let actions = gone.into_iter().chain(new).map(|action| AliasOperations {
            action: Some(action),
        });
        let request = ChangeAliases {
            actions: actions.collect(),
            ..ChangeAliases::default()
        };
        let answer = self.call(|line| {
            let request = request.clone();
            async move { line.collections().update_aliases(request).await }
        })?;
        agreed(&answer)
    }

    /// Deletes a collection, by its own name.
    pub(super) fn delete_collection(&mut self, collection: &str) -> Result<(), Status> {
        self.call(|line| {
            let request = DeleteCollection {
                collection_name: collection.into(),
                ..DeleteCollection::default()
            };
            async move { line.collections().delete(request).await }
        })
        .map(drop)
    }

    /// Says what a call that failed means for whoever was `doing` something with the collection.
    pub(super) fn failure(&self, doing: &str, status: &Status) -> Failure {
        let mut reason = format!("cannot {doing} {}: {}", self.place, status.message());
        let mut source = status.source();
        while let Some(error) = source {
            let text = error.to_string();
            // That of tonic says no more than that there is a source.
            if text != "transport error" && !reason.contains(&text) {
                reason.push_str(": ");
                reason.push_str(&text);
            }
            source = error.source();
        }
        if let Some(secret) = &self.secret {
            reason = secret.hide(&reason);
        }
        let failure = |kind, hint: &str| Failure::new(kind, &*reason).hint(hint);
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Unknown => failure(
                FailureKind::Down,
                "start the Qdrant server, or look at vectors.url (its gRPC port, mostly 6334) and its certificate; it is tried again",
            ),
            Code::DeadlineExceeded => failure(
                FailureKind::Down,
                "look whether the server is overloaded; vectors.timeout gives it more time; it is tried again",
            ),
            Code::ResourceExhausted => failure(
                FailureKind::Down,
                "the server allows no more at present; it is tried again",
            ),
            Code::NotFound => failure(
                FailureKind::Down,
                "the collection is gone; it is made anew and filled from the files",
            ),
            Code::Internal | Code::Aborted | Code::FailedPrecondition | Code::DataLoss => failure(
                FailureKind::Down,
                "look at the server's log, its disk and its memory; it is tried again",
            ),
            // Not said by a failed write of ours; somebody made at the same moment what we were about to make.
            Code::AlreadyExists | Code::Ok => failure(FailureKind::Down, "it is tried again"),
            Code::Unauthenticated => failure(
                FailureKind::Refused,
                "the server wants its API key: WIKI_SYNC_VECTORS_API_KEY, or a file that vectors.api_key_file names",
            ),
            Code::PermissionDenied => failure(
                FailureKind::Refused,
                "the API key does not allow it, or the server's strict mode: a drain needs one that may write and make collections",
            ),
            Code::InvalidArgument | Code::OutOfRange => failure(
                FailureKind::Refused,
                "the server does not take this; another vectors.collection, or other limits of its strict mode, may help",
            ),
            Code::Unimplemented => failure(
                FailureKind::Refused,
                "use a newer Qdrant server, 1.16 or later, and its gRPC port",
            ),
        }
    }
}

/// A change of names counts when the server says that it is made.
fn agreed(answer: &CollectionOperationResponse) -> Result<(), Status> {
    if answer.result {
        return Ok(());
    }
    Err(Status::unavailable(
        "the server does not say that it is done",
    ))
}

/// Whether the connection is of no use any more.
fn is_broken(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Unknown => true,
        // A stream that was cut off comes as an internal error with its cause; the server's own has none.
        Code::Internal => status.source().is_some(),
        Code::Ok
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

/// How long a busy server asks to be left alone.
pub(super) fn asked_wait(status: &Status) -> Option<Duration> {
    let seconds = status.metadata().get("retry-after")?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}
