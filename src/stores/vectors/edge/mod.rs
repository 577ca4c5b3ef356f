//! Qdrant Edge: the points in `.wiki-sync/vectors/`, in this process.
//!
//! What Edge leaves to us:
//! - One shard has one opener. See [`super::turn`].
//! - Its WAL is written, never replayed and never cut: only what was flushed counts. So `flush` is what makes
//!   a batch durable, and [`prune_wal`] takes off what lies before the last flush.
//! - `flush`, and with it `drop`, panic where the disk fails. Both are caught here.
//! - It optimises when told to. See [`optimise`].
//! - A segment that it begins anew may lack the payload index; it is asked for at each opening and after each
//!   optimisation, which costs nothing where it is.

pub(super) mod beside;
mod convert;
mod examine;
mod note;
mod optimise;
mod shard;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use qdrant_edge::{
    CreateIndex, EdgeShard, FieldIndexOperations, Filter, Fusion, KeywordIndexParams, NamedQuery,
    OperationError, PayloadFieldSchema, PayloadSchemaParams, PointId, PointIdsList,
    PointInsertOperations, PointOperations, Prefetch, QueryEnum, QueryRequest, ScoringQuery,
    ScrollRequest, UpdateOperation, VectorInternal, VectorOperations, WithPayloadInterface,
    WithVector,
};
use uuid::Uuid;

use self::convert::{
    KEYS, among, edge_id, edge_point, keyword, only, pages, plain, point_of, sparse,
};
use self::optimise::Optimising;
use self::shard::{
    RESERVE, add_dense, config, damaged, dense_params, dense_there, folder_id, has_shard,
    is_the_systems, load, needs_space, one_line, opening, prune_wal, put_away, said,
};
use super::RRF_K;
use super::engine::{Ask, Engine, Unfit};
use super::point::{BM25, DENSE, META, Meta, Point};
use super::shape::{Dense, Shape};
use super::turn::{Taken, Turn};
use crate::model::{Failure, FailureKind, Finding};
use crate::state::StateDir;

/// How many points go into one operation of Edge.
const UPSERT: usize = 500;

/// How many points a scroll reads at a time.
const PAGE: usize = 1000;

/// What is done to the vectors, in an error's words.
const READ: &str = "read";
const SEARCH: &str = "search";

/// After how many new points they begin to be moved into a segment of their own, at the least and at the most; between, once
/// they are half of all. While a segment is written to, each point costs as much as there are others with its words; each
/// segment that stays costs 31 files, which each opening has to open. So a small wiki has small ones, and a large one not many.
const OPTIMIZE_EVERY: (usize, usize) = (2_500, 20_000);

/// After how many written points the shard is closed, so that the next opening takes off the WAL and what is mapped of it.
const CLOSE_EVERY: usize = 10_000;

/// The embedded engine; opens its shard when it is first needed.
pub(super) struct Edge {
    dir: PathBuf,
    state: StateDir,
    shape: Shape,
    turn: Turn,
    open: Option<Open>,
    /// What was written since it was last closed; a reader's zero leaves the shard as it is.
    loose: usize,
    /// Points put in, in all, and since it was last optimised.
    put: usize,
    fresh: usize,
}

/// An open shard, and the turn that goes with it.
struct Open {
    /// `None` only while it is being dropped.
    shard: Option<Arc<EdgeShard>>,
    /// The optimisation that was begun beside the writes and was not waited for yet.
    optimising: Option<Optimising>,
    /// The folder that was opened: another one in its place means that somebody moved ours away.
    folder: Option<u64>,
    /// The same, held open: else its number could be given to the one in its place.
    _held: Option<fs::File>,
    dir: PathBuf,
    _turn: Taken,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Whoever needs it to have gone well has waited for it before.
        let _ = self.end_optimising();
        if let Some(shard) = self.shard.take() {
            if !self.is_in_place() {
                // Dropping flushes by name, which would mix it with what is there now. Its memory is the price.
                std::mem::forget(shard);
                return;
            }
            // Dropping flushes, and panics where the disk fails. What was promised was flushed before.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(shard)));
        }
    }
}

impl Open {
    fn shard(&self) -> &EdgeShard {
        self.shard.as_ref().expect("there until dropped")
    }

    /// Says whether the folder that was opened is still where it was. Edge opens its files by name, again and again.
    fn is_in_place(&self) -> bool {
        folder_id(&self.dir) == self.folder
    }
}

impl Edge {
    pub(super) fn new(state: &StateDir, wait: Duration, shape: Shape) -> Self {
        Self::in_folder(state, state.vectors(), Turn::of(state, wait), shape)
    }

    /// Takes another folder than the usual, with its own turn.
    pub(super) fn in_folder(state: &StateDir, dir: PathBuf, turn: Turn, shape: Shape) -> Self {
        Self {
            dir,
            state: state.clone(),
            shape,
            turn,
            open: None,
            loose: 0,
            put: 0,
            fresh: 0,
        }
    }

    /// Runs one call into the open shard, which nobody else uses at that time. After an error or a panic the shard is
    /// closed: what it holds in memory is not to be trusted, the next call opens it from the disk.
    fn call<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&EdgeShard) -> Result<T, OperationError>,
    ) -> Result<T, Failure> {
        self.settle()?;
        self.call_beside(doing, work)
    }

    /// Runs one call into the open shard, also beside an optimisation.
    fn call_beside<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&EdgeShard) -> Result<T, OperationError>,
    ) -> Result<T, Failure> {
        let open = self.opened(doing)?;
        let result = catch_unwind(AssertUnwindSafe(|| work(open.shard())));
        self.judge(doing, result)
    }

    /// Returns the open shard, for this.
    fn opened(&mut self, doing: &str) -> Result<&mut Open, Failure> {
        if self.open.as_ref().is_some_and(|open| !open.is_in_place()) {
            self.open = None;
            return Err(replaced(&self.dir));
        }
        self.open.as_mut().ok_or_else(|| {
            Failure::new(
                FailureKind::Down,
                format!(
                    "cannot {doing}: the vectors in {} are not open",
                    self.dir.display()
                ),
            )
        })
    }

    /// Returns what a call into the shard did.
    fn judge<T>(
        &mut self,
        doing: &str,
        result: thread::Result<Result<T, OperationError>>,
    ) -> Result<T, Failure> {
        let reason = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => one_line(&error.to_string()),
            Err(panic) => said(&*panic),
        };
        self.open = None;
        let text = format!(
            "cannot {doing} the vectors in {}: {reason}",
            self.dir.display()
        );
        // Of a write it may be the point that the engine finds fault with; a read asks for nothing that is not there.
        let is_read = [READ, SEARCH].contains(&doing);
        Err(if is_read && !is_the_systems(&reason) {
            damaged(text, &self.dir)
        } else {
            Failure::new(FailureKind::Down, text)
                .hint("look for free space and permissions there; it is tried again")
        })
    }

    fn update(&mut self, doing: &str, operation: UpdateOperation) -> Result<(), Failure> {
        self.call(doing, |shard| shard.update(operation))
    }

    fn wrote(&mut self, points: usize) {
        self.loose += points;
    }

    /// Which vectors are read.
    fn vectors(&self) -> WithVector {
        let dense = self.shape.dense.as_ref().map(|_| DENSE.into());
        WithVector::Selector(std::iter::once(BM25.into()).chain(dense).collect())
    }

    fn create_index(&mut self) -> Result<(), Failure> {
        let index = CreateIndex {
            field_name: KEYS.parse().expect("a plain field name is a path"),
            // On disk an opening maps it; in memory it would read all of it, each time.
            field_schema: Some(PayloadFieldSchema::FieldParams(
                PayloadSchemaParams::Keyword(KeywordIndexParams {
                    on_disk: Some(true),
                    ..KeywordIndexParams::default()
                }),
            )),
        };
        self.update(
            "index",
            UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(index)),
        )
    }

    fn scroll_filtered(
        &mut self,
        filter: Option<&Filter>,
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.settle()?;
        self.scroll_beside(filter, each)
    }

    /// The same, also beside an optimisation.
    fn scroll_beside(
        &mut self,
        filter: Option<&Filter>,
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        let mut offset = None;
        loop {
            let request = ScrollRequest {
                offset,
                limit: Some(PAGE),
                filter: filter.cloned(),
                with_payload: Some(WithPayloadInterface::Bool(true)),
                with_vector: self.vectors(),
                order_by: None,
            };
            let (records, next) = self.call_beside(READ, |shard| shard.scroll(request))?;
            records.into_iter().map(point_of).for_each(&mut *each);
            match next {
                Some(_) => offset = next,
                None => return Ok(()),
            }
        }
    }

    /// Returns points of any wiki, at most `limit`, best first.
    fn query_all(&mut self, ask: &Ask<'_>, limit: usize) -> Result<Vec<(f32, Point)>, Failure> {
        let nearest = |query: VectorInternal, using: &str| {
            ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery {
                query,
                using: Some(using.into()),
            }))
        };
        let words = ask
            .words
            .map(|words| nearest(VectorInternal::Sparse(sparse(words.clone())), BM25));
        let meaning = ask
            .meaning
            .map(|meaning| nearest(VectorInternal::Dense(meaning.to_vec()), DENSE));
        let filter = only(ask.only);
        let (query, prefetches) = match (words, meaning) {
            (Some(words), Some(meaning)) => {
                let prefetch = |query| Prefetch {
                    prefetches: Vec::new(),
                    query: Some(query),
                    limit,
                    params: None,
                    filter: filter.clone(),
                    score_threshold: None,
                };
                let fusion = Fusion::Rrf {
                    k: RRF_K,
                    weights: Some(ask.weights.map(Into::into).into()),
                };
                let both = vec![prefetch(words), prefetch(meaning)];
                (ScoringQuery::Fusion(fusion), both)
            }
            (Some(one), None) | (None, Some(one)) => (one, Vec::new()),
            (None, None) => return Ok(Vec::new()),
        };
        let request = QueryRequest {
            filter: filter.filter(|_| prefetches.is_empty()),
            prefetches,
            query: Some(query),
            score_threshold: None,
            limit,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(false),
            with_payload: WithPayloadInterface::Bool(true),
        };
        let found = self.call(SEARCH, |shard| shard.query(request))?;
        Ok(found
            .into_iter()
            .filter_map(|scored| {
                let PointId::Uuid(id) = scored.id else {
                    return None;
                };
                let point = Point {
                    id,
                    payload: plain(scored.payload.unwrap_or_default().0),
                    bm25: None,
                    dense: None,
                };
                Some((scored.score, point))
            })
            .collect())
    }
}

fn replaced(dir: &Path) -> Failure {
    Failure::new(
        FailureKind::Down,
        format!(
            "the vectors in {} were moved away or removed meanwhile",
            dir.display()
        ),
    )
    .hint("the next `wiki-sync drain` goes on with what is there, or builds it anew")
}

impl Engine for Edge {
    fn ready(&mut self, create: bool) -> Result<bool, Failure> {
        if let Some(open) = &self.open {
            if open.is_in_place() {
                return Ok(true);
            }
            self.open = None;
        }
        let there = has_shard(&self.dir);
        if !there && !create {
            return Ok(false);
        }
        self.state.create()?;
        let turn = self.turn.take()?;
        // Somebody may have made or removed it while we waited.
        let there = has_shard(&self.dir);
        if !there && !create {
            return Ok(false);
        }
        needs_space(self.state.path(), RESERVE)?;
        let wanted = self.shape.dense.clone();
        let mut lacks_dense = false;
        let mut found = None;
        if there {
            let (dense, lacks) = dense_there(&self.dir, wanted.as_ref())?;
            prune_wal(&self.dir);
            found = load(&self.dir, dense)?;
            lacks_dense = lacks && found.is_some();
        }
        let there = found.is_some();
        if !there && !create {
            return Ok(false);
        }
        let shard = if let Some(shard) = found {
            shard
        } else {
            put_away(&self.dir)?;
            fs::create_dir_all(&self.dir).map_err(|e| {
                let doing = format!("cannot make {}", self.dir.display());
                let failed = Failure::from_error(FailureKind::Down, &doing, &e);
                match e.kind() {
                    ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                        failed.hint("something else stands there; move it away")
                    }
                    _ => failed.hint("look for free space and permissions there"),
                }
            })?;
            let dense = wanted.as_ref().map(dense_params);
            opening(&self.dir, |dir| EdgeShard::new(dir, config(dense)))?
        };
        self.open = Some(Open {
            shard: Some(Arc::new(shard)),
            optimising: None,
            folder: folder_id(&self.dir),
            _held: fs::File::open(self.dir.join("segments")).ok(),
            dir: self.dir.clone(),
            _turn: turn,
        });
        if let Some(dense) = wanted.filter(|_| lacks_dense) {
            self.update("add dense vectors to", add_dense(&dense)?)?;
        }
        self.create_index()?;
        if !there || lacks_dense {
            self.flush()?;
        }
        Ok(true)
    }

    fn want(&mut self, dense: Dense) {
        self.shape.dense = Some(dense);
        self.open = None;
    }

    fn examine(&mut self) -> (Vec<Finding>, bool) {
        (self.looked_at(), false)
    }

    fn glance(&mut self, wiki: &str) -> Option<Meta> {
        note::read(&self.dir, wiki)
    }

    fn note(&mut self, meta: &Meta) -> Result<(), Failure> {
        // Of the shard that was written, not of one that came in its place.
        if self.open.as_ref().is_some_and(|open| !open.is_in_place()) {
            self.open = None;
            return Err(replaced(&self.dir));
        }
        note::write(&self.dir, meta)
    }

    fn retrieve(&mut self, ids: &[Uuid]) -> Result<Vec<Point>, Failure> {
        let ids: Vec<PointId> = ids.iter().copied().map(edge_id).collect();
        let vectors = self.vectors();
        let records = self.call_beside(READ, |shard| shard.retrieve(&ids, None, Some(vectors)))?;
        Ok(records.into_iter().map(point_of).collect())
    }

    fn metas(&mut self, each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        let filter = Filter::new_must(keyword("kind", META));
        self.scroll_filtered(Some(&filter), each)
    }

    fn of_pages(
        &mut self,
        wiki: &str,
        paths: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.scroll_beside(Some(&pages(wiki, paths, None)), each)
    }

    fn of_folders(
        &mut self,
        wiki: &str,
        folders: &[&str],
        each: &mut dyn FnMut(Point),
    ) -> Result<(), Failure> {
        self.scroll_filtered(Some(&among(wiki, "folders", folders)), each)
    }

    fn scroll(&mut self, wiki: &str, each: &mut dyn FnMut(Point)) -> Result<(), Failure> {
        // Without a filter Edge reads in the order of the ids, step by step; with one it would collect
        // all that match at each step. The folder is ours alone, so little is read in vain.
        self.scroll_filtered(None, &mut |point| {
            if point.text("wiki") == wiki && !point.is_meta() {
                each(point);
            }
        })
    }

    fn upsert(&mut self, points: Vec<Point>) -> Result<Vec<Unfit>, Failure> {
        let mut points = points.into_iter().peekable();
        while points.peek().is_some() {
            self.needs_space()?;
            let batch: Vec<_> = points.by_ref().take(UPSERT).map(edge_point).collect();
            self.wrote(batch.len());
            self.put += batch.len();
            self.fresh += batch.len();
            let operation = UpdateOperation::PointOperation(PointOperations::UpsertPoints(
                PointInsertOperations::PointsList(batch.into_iter().map(Into::into).collect()),
            ));
            self.call_beside("write", |shard| shard.update(operation))?;
            let (least, most) = OPTIMIZE_EVERY;
            if self.fresh >= (self.put / 2).clamp(least, most) && !self.state.stop().is_wished() {
                self.optimize_beside()?;
            }
        }
        Ok(Vec::new())
    }

    fn forget_dense(&mut self, ids: &[Uuid]) -> Result<(), Failure> {
        needs_space(&self.dir, RESERVE)?;
        self.wrote(ids.len());
        let points = PointIdsList {
            points: ids.iter().copied().map(edge_id).collect(),
        };
        self.update(
            "change",
            UpdateOperation::VectorOperation(VectorOperations::DeleteVectors(
                points,
                vec![DENSE.into()],
            )),
        )
    }

    fn delete_except(&mut self, wiki: &str, paths: &[&str], keep: &[Uuid]) -> Result<(), Failure> {
        needs_space(&self.dir, RESERVE)?;
        let filter = pages(wiki, paths, Some(keep));
        self.wrote(paths.len());
        self.update(
            "delete from",
            UpdateOperation::PointOperation(PointOperations::DeletePointsByFilter(filter)),
        )
    }

    fn delete(&mut self, ids: &[Uuid]) -> Result<(), Failure> {
        needs_space(&self.dir, RESERVE)?;
        self.wrote(ids.len());
        let ids = ids.iter().copied().map(edge_id).collect();
        self.update(
            "delete from",
            UpdateOperation::PointOperation(PointOperations::DeletePoints { ids }),
        )
    }

    fn query(&mut self, ask: &Ask<'_>) -> Result<Vec<(f32, Point)>, Failure> {
        // The wiki is not filtered by Edge: after a kill its count of what a filter matches may be too high, at which a
        // debug build of it stops. The folder is ours alone, so nearly all that is found is ours.
        let mut limit = ask.limit;
        loop {
            let found = self.query_all(ask, limit)?;
            let all = found.len() < limit;
            let mut ours: Vec<_> = found
                .into_iter()
                .filter(|(_, point)| point.text("wiki") == ask.wiki)
                .collect();
            if all || ours.len() >= ask.limit {
                ours.truncate(ask.limit);
                return Ok(ours);
            }
            limit = limit.saturating_mul(4);
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.call("flush", |shard| {
            shard.flush();
            Ok(())
        })
    }

    fn tidy(&mut self) -> Result<(), Failure> {
        if self.open.is_some() && self.loose >= CLOSE_EVERY {
            self.loose = 0;
            self.open = None;
        }
        Ok(())
    }

    fn yield_turn(&mut self) {
        if self.open.is_some() && self.turn.is_wished() {
            self.open = None;
            self.turn.gave_way();
        }
    }

    fn rest(&mut self) {
        self.open = None;
    }

    fn park(&mut self) {
        let hurries = self.turn.is_wished() || self.state.stop().is_wished();
        if self.open.is_some() && self.loose > 0 && !hurries {
            // Does nothing until the segment that is written to has grown to INDEX_KB, and then keeps the
            // next opening quick. Only for speed: what fails here fails at that opening, and is told.
            let _ = self.optimize();
        }
        self.open = None;
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.park();
    }
}
