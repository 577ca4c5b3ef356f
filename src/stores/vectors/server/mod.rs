//! A Qdrant server, over gRPC.
//!
//! Each write waits (`wait`) until the server says that it is applied, and the next is sent after that: so a receipt,
//! which is written after the last of them, never runs ahead of the store. A server that loses power may lose the end of
//! its log all the same. The epoch is the last that a batch writes, so it is lost first, and shows at the next drain.
//!
//! | file | what |
//! |---|---|
//! | `link.rs` | the connection; calls with a bound, and what their failures mean |
//! | `collection.rs` | the collection: made, or looked at before it is used |
//! | `limits.rs` | what its strict mode allows |
//! | `beside.rs` | building a collection beside the one in use, and exchanging them |
//! | `write.rs` | writing, in requests that the server can take |
//! | `examine.rs` | a look at it, for `doctor` |
//! | `convert.rs` | between our points and Qdrant's |
//!
//! Nothing is ever dropped here but points of pages, and, once another is in its place, a collection that we made and nobody
//! else has a point in: no index, no other wiki's point.

pub(super) mod beside;
mod collection;
mod convert;
mod examine;
mod limits;
mod link;
mod write;

use qdrant_client::qdrant::{
    Condition, DenseVector, Filter, GetPoints, PointStruct, PrefetchQuery, Query, QueryPoints, Rrf,
    ScrollPoints, VectorInput, WithVectorsSelector, query, vector_input,
};
use tonic::{Code, Status};
use uuid::Uuid;

use self::limits::Limits;
use self::link::Link;
use self::write::{POINT_BYTES, REQUEST_POINTS};
use super::engine::{Ask, Engine, Unfit};
use super::point::{BM25, DENSE, META, Point};
use super::shape::{Dense, Shape};
use super::{RRF_K, ServerSettings};
use crate::model::{Failure, Finding};

/// A collection on a server.
pub(super) struct Server {
    link: Link,
    /// The name in the settings, as a rule an alias; `None` for a collection that is built beside.
    alias: Option<String>,
    /// The collection itself: what was found behind that name the last time it was looked at.
    collection: String,
    shape: Shape,
    /// Whether the collection has dense vectors; known once it was looked at.
    has_dense: bool,
    /// Whether it was no longer there when it was last asked.
    is_gone: bool,
    /// What its strict mode allows; known once it was looked at.
    limits: Limits,
    /// How many points go into a request; fewer once that was too much for the server.
    batch: usize,
    /// How many requests in a row went well since then.
    smooth: u32,
    /// The wiki's meta point as the collection holds it: what it took once it takes again, unless it takes nothing.
    known: Option<PointStruct>,
    /// The largest point that is sent, in bytes.
    most_bytes: usize,
}

impl Server {
    /// Prepares for a collection; nothing is connected yet.
    ///
    /// # Errors
    /// `Refused` when the settings cannot be used.
    pub(super) fn new(url: &str, settings: &ServerSettings, shape: Shape) -> Result<Self, Failure> {
        Ok(Self {
            link: Link::new(url, settings)?,
            alias: Some(settings.collection.clone()),
            collection: settings.collection.clone(),
            shape,
            has_dense: false,
            is_gone: false,
            limits: Limits::default(),
            batch: REQUEST_POINTS,
            smooth: 0,
            known: None,
            most_bytes: POINT_BYTES,
        })
    }

    /// Returns the collection itself, as far as it is known.
    pub(super) fn collection(&self) -> &str {
        &self.collection
    }

    /// Says what a call that failed means, and remembers whether the collection is gone.
    fn failure(&mut self, doing: &str, status: &Status) -> Failure {
        self.is_gone = status.code() == Code::NotFound;
        self.link.failure(doing, status)
    }

    /// Which vectors are read. A name that the collection does not have is an error of the server's.
    fn vectors(&self) -> WithVectorsSelector {
        if self.has_dense && self.shape.dense.is_some() {
            vec![BM25, DENSE].into()
        } else {
            vec![BM25].into()
        }
    }

    /// Reads all points that a filter lets through, a page at a time.
    fn read(&mut self, filter: &Filter, each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        let mut offset = None;
        loop {
            let vectors = self.vectors();
            let page = self.link.call(|line| {
                let request = ScrollPoints {
                    collection_name: self.collection.clone(),
                    filter: Some(filter.clone()),
                    offset: offset.clone(),
                    limit: Some(self.limits.page()),
                    with_payload: Some(true.into()),
                    with_vectors: Some(vectors.clone()),
                    ..ScrollPoints::default()
                };
                async move { line.points().scroll(request).await }
            });
            let page = page.map_err(|status| self.link.failure("read", &status))?;
            page.result
                .into_iter()
                .filter_map(|one| convert::point_of(one.id, one.payload, one.vectors))
                .for_each(&mut *each);
            match page.next_page_offset {
                None => return Ok(()),
                next => offset = next,
            }
        }
    }

    /// Reads all points of a wiki of which a field holds one of these values, in filters that the server takes.
    fn read_among(
        &mut self,
        wiki: &str,
        field: &str,
        values: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        for some in values.chunks(self.limits.values) {
            self.read(&convert::among(wiki, field, some), each)?;
        }
        Ok(())
    }

    /// Deletes the points of these pages, in halves where all of them take the server too long; one by one where its
    /// filters may not be as large as that takes.
    fn delete_pages(&mut self, wiki: &str, paths: &[&str], keep: &[Uuid]) -> Result<(), Failure> {
        if paths.len().max(keep.len()) > self.limits.values {
            let mut gone = Vec::new();
            self.read_among(wiki, "path", paths, &mut |point| gone.push(point.id))?;
            gone.retain(|id| !keep.contains(id));
            return self.delete(&gone);
        }
        let filter = convert::pages(wiki, paths, keep);
        match self.delete_by(&filter.into()) {
            Ok(()) => Ok(()),
            Err(status) if status.code() == Code::DeadlineExceeded && paths.len() > PATHS_ALONE => {
                let (some, others) = paths.split_at(paths.len() / 2);
                self.delete_pages(wiki, some, keep)?;
                self.delete_pages(wiki, others, keep)
            }
            Err(status) => Err(self.link.failure("delete from", &status)),
        }
    }
}

/// From how few pages on a delete that was too much for the server is not halved any further.
const PATHS_ALONE: usize = 64;

impl Engine for Server {
    fn ready(&mut self, create: bool) -> Result<bool, Failure> {
        self.look(create)
    }

    fn want(&mut self, dense: Dense) {
        self.shape.dense = Some(dense);
    }

    fn retrieve(&mut self, ids: &[Uuid]) -> Result<Vec<Point>, Failure> {
        let vectors = self.vectors();
        let answer = self.link.call(|line| {
            let request = GetPoints {
                collection_name: self.collection.clone(),
                ids: ids.iter().copied().map(convert::id).collect(),
                with_payload: Some(true.into()),
                with_vectors: Some(vectors.clone()),
                ..GetPoints::default()
            };
            async move { line.points().get(request).await }
        });
        let answer = answer.map_err(|status| self.failure("read", &status))?;
        let points = answer.result.into_iter();
        let points: Vec<Point> = points
            .filter_map(|one| convert::point_of(one.id, one.payload, one.vectors))
            .collect();
        let meta = points.iter().find(|point| point.is_meta());
        self.known = meta.map(|meta| convert::point(meta.clone()));
        Ok(points)
    }

    fn metas(&mut self, each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        let filter = Filter::must([Condition::matches("kind", META.to_owned())]);
        self.read(&filter, each)
    }

    fn of_pages(
        &mut self,
        wiki: &str,
        paths: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.read_among(wiki, "path", paths, each)
    }

    fn of_folders(
        &mut self,
        wiki: &str,
        folders: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.read_among(wiki, "folders", folders, each)
    }

    fn scroll(&mut self, wiki: &str, each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        self.read(&convert::of_wiki(wiki), &mut |point| {
            if !point.is_meta() {
                each(point);
            }
        })
    }

    fn upsert(&mut self, points: Vec<Point>) -> Result<Vec<Unfit>, Failure> {
        self.put(points)
    }

    fn forget_dense(&mut self, ids: &[Uuid]) -> Result<(), Failure> {
        for ids in ids.chunks(REQUEST_POINTS) {
            self.take_off_dense(ids)
                .map_err(|status| self.link.failure("change", &status))?;
        }
        Ok(())
    }

    fn delete_except(&mut self, wiki: &str, paths: &[&str], keep: &[Uuid]) -> Result<(), Failure> {
        self.delete_pages(wiki, paths, keep)
    }

    fn delete(&mut self, ids: &[Uuid]) -> Result<(), Failure> {
        for ids in ids.chunks(REQUEST_POINTS) {
            self.delete_points(ids)
                .map_err(|status| self.link.failure("delete from", &status))?;
        }
        Ok(())
    }

    fn has_dense(&self) -> bool {
        self.has_dense
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn query(&mut self, ask: &Ask<'_>) -> Result<Vec<(f32, Point)>, Failure> {
        let mut filter = convert::of_wiki(ask.wiki);
        let only = ask.only.keywords().into_iter();
        filter
            .must
            .extend(only.map(|(field, values)| convert::any_of(field, &values)));
        let limit = (ask.limit as u64).min(self.limits.answer.into());
        let words = ask.words.map(|words| {
            let words = vector_input::Variant::Sparse(convert::sparse(words.clone()));
            (nearest(words), BM25)
        });
        let meaning = ask.meaning.map(|meaning| {
            let data = meaning.to_vec();
            (
                nearest(vector_input::Variant::Dense(DenseVector { data })),
                DENSE,
            )
        });
        let mut request = QueryPoints {
            collection_name: self.collection.clone(),
            limit: Some(limit),
            with_payload: Some(true.into()),
            with_vectors: Some(false.into()),
            ..QueryPoints::default()
        };
        match (words, meaning) {
            (Some(words), Some(meaning)) => {
                request.prefetch = [words, meaning]
                    .into_iter()
                    .map(|(query, using)| PrefetchQuery {
                        query: Some(query),
                        using: Some(using.into()),
                        filter: Some(filter.clone()),
                        limit: Some(limit),
                        ..PrefetchQuery::default()
                    })
                    .collect();
                request.query = Some(Query {
                    variant: Some(query::Variant::Rrf(Rrf {
                        k: u32::try_from(RRF_K).ok(),
                        weights: match ask.weights {
                            // Servers before 1.17 know no weights.
                            [words, meaning] if words.to_bits() == meaning.to_bits() => Vec::new(),
                            weights => weights.into(),
                        },
                    })),
                });
            }
            (Some((query, using)), None) | (None, Some((query, using))) => {
                request.query = Some(query);
                request.using = Some(using.into());
                request.filter = Some(filter);
            }
            (None, None) => return Ok(Vec::new()),
        }
        let answer = self.link.call(|line| {
            let request = request.clone();
            async move { line.points().query(request).await }
        });
        let answer = answer.map_err(|status| self.failure("search", &status))?;
        Ok(answer
            .result
            .into_iter()
            .filter_map(|one| {
                let point = convert::point_of(one.id, one.payload, None)?;
                Some((one.score, point))
            })
            .collect())
    }

    fn examine(&mut self) -> (Vec<Finding>, bool) {
        self.looked_at()
    }

    /// Nothing to do: each write was waited for.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
impl Server {
    /// Takes no point that is larger.
    pub(super) fn limit_points_to(&mut self, bytes: usize) {
        self.most_bytes = bytes;
    }

    /// Drops the collection, as somebody may behind our back, with all its versions.
    pub(super) fn drop_collection(&mut self) -> Result<(), tonic::Status> {
        let Some(name) = self.alias.clone() else {
            return Ok(());
        };
        for collection in self.link.collections()? {
            let rest = collection.strip_prefix(&name);
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                self.link.delete_collection(&collection)?;
            }
        }
        Ok(())
    }

    /// Takes this version, whatever the alias says.
    pub(super) fn version(mut self, number: u64) -> Self {
        let name = self.alias.take().unwrap_or_default();
        self.collection = collection::version(&name, number);
        self
    }

    /// Takes a collection of that very name, without an alias.
    pub(super) fn plain(mut self) -> Self {
        self.collection = self.alias.take().unwrap_or_default();
        self
    }

    /// Lets the alias lead to another version.
    pub(super) fn lead_to(&mut self, number: u64) -> Result<(), tonic::Status> {
        let name = self.alias.clone().unwrap_or_default();
        let version = collection::version(&name, number);
        self.link
            .change_aliases(Some(&name), Some((&name, &version)))
    }

    /// Makes a collection as a person may, and the alias for it.
    pub(super) fn made_by_a_person(mut self) -> Result<(), Failure> {
        let name = self.alias.take().unwrap_or_default();
        self.collection = format!("{name}-mine");
        self.ready(true)?;
        let made = self
            .link
            .change_aliases(None, Some((&name, &self.collection)));
        made.map_err(|status| self.link.failure("name", &status))
    }

    /// Returns what follows the name in the names of its versions.
    pub(super) fn versions(&mut self) -> Vec<String> {
        let prefix = format!("{}-", self.alias.as_deref().unwrap_or_default());
        let all = self.link.collections().expect("listed").into_iter();
        let mut versions: Vec<String> = all
            .filter_map(|one| one.strip_prefix(&prefix).map(Into::into))
            .collect();
        versions.sort();
        versions
    }

    /// Makes a collection of this name that is not as ours are.
    pub(super) fn make_foreign(&mut self) -> Result<(), tonic::Status> {
        use qdrant_client::qdrant::vectors_config::Config;
        use qdrant_client::qdrant::{CreateCollection, Distance, VectorParams, VectorsConfig};
        let params = VectorParams {
            size: 3,
            distance: Distance::Cosine.into(),
            ..VectorParams::default()
        };
        let request = CreateCollection {
            collection_name: self.collection.clone(),
            vectors_config: Some(VectorsConfig {
                config: Some(Config::Params(params)),
            }),
            ..CreateCollection::default()
        };
        self.link
            .call(|line| {
                let request = request.clone();
                async move { line.collections().create(request).await }
            })
            .map(drop)
    }
}

fn nearest(vector: vector_input::Variant) -> Query {
    Query {
        variant: Some(query::Variant::Nearest(VectorInput {
            variant: Some(vector),
        })),
    }
}
