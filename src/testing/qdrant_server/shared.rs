//! A server that is somebody else's: a real one, for the tests that ask nothing of it but that it is a Qdrant server.

use std::error::Error;
use std::time::Duration;

use qdrant_client::qdrant as api;
use qdrant_client::qdrant::collections_client::CollectionsClient;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{ClientTlsConfig, Endpoint};
use uuid::Uuid;

/// The variable that names it, and the one that holds its API key, if it wants one.
pub(crate) const URL_VARIABLE: &str = "WIKI_SYNC_TEST_QDRANT_URL";
pub(crate) const KEY_VARIABLE: &str = "WIKI_SYNC_TEST_QDRANT_API_KEY";

/// How long it may take to remove a collection.
const PATIENCE: Duration = Duration::from_mins(1);

/// A name on such a server that nobody else has. What stands under it is removed when this is dropped.
#[derive(Debug)]
pub struct SharedServer {
    /// The server's URL.
    pub url: String,
    /// The server's API key, if it wants one.
    pub api_key: Option<String>,
    /// The name for a collection.
    pub collection: String,
}

impl SharedServer {
    /// Returns a name of the test's own on the server that is set, if one is.
    #[must_use]
    pub fn set() -> Option<Self> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self::at(set(URL_VARIABLE)?, set(KEY_VARIABLE)))
    }

    /// Returns a name of the test's own on this server.
    #[must_use]
    pub fn at(url: String, api_key: Option<String>) -> Self {
        Self {
            url,
            api_key,
            collection: format!("wiki-sync-test-{}", Uuid::new_v4()),
        }
    }

    /// Returns what follows the name in the names of the collections that stand under it, in order.
    ///
    /// # Panics
    /// When the server does not say.
    #[must_use]
    pub fn versions(&self) -> Vec<String> {
        self.list(false).expect("listed")
    }

    /// Removes what stands under the name: the collections, and with them their aliases. Returns how many there were.
    ///
    /// # Panics
    /// When the server does not do it.
    #[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
    pub fn remove(&self) -> usize {
        self.list(true).expect("removed").len()
    }

    /// Lists the collections under the name, and removes them where that is wished.
    fn list(&self, remove: bool) -> Result<Vec<String>, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let work = async { tokio::time::timeout(PATIENCE, self.list_by(remove)).await };
        runtime.block_on(work)?
    }

    async fn list_by(&self, remove: bool) -> Result<Vec<String>, Box<dyn Error>> {
        let mut endpoint = Endpoint::from_shared(self.url.clone())?;
        if self.url.starts_with("https://") {
            endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?;
        }
        let key: Option<MetadataValue<Ascii>> =
            self.api_key.as_deref().map(str::parse).transpose()?;
        let with_key = move |mut request: Request<()>| {
            let key = key.clone();
            key.map(|key| request.metadata_mut().insert("api-key", key));
            Ok(request)
        };
        let mut client = CollectionsClient::with_interceptor(endpoint.connect().await?, with_key);
        let there = client.list(api::ListCollectionsRequest {}).await?;
        let mut versions = Vec::new();
        for one in there.into_inner().collections {
            let Some(rest) = one.name.strip_prefix(&self.collection) else {
                continue;
            };
            versions.push(rest.trim_start_matches('-').to_owned());
            if remove {
                let request = api::DeleteCollection {
                    collection_name: one.name,
                    ..api::DeleteCollection::default()
                };
                client.delete(request).await?;
            }
        }
        versions.sort();
        Ok(versions)
    }
}

impl Drop for SharedServer {
    fn drop(&mut self) {
        let removed = self.list(true);
        // A test that failed already says more than what was left behind.
        if !std::thread::panicking() {
            removed.expect("removed");
        }
    }
}
