//! Writing: in requests that the server can take, each waited for.

use std::collections::VecDeque;

use prost::Message as _;
use qdrant_client::qdrant::{
    DeletePointVectors, DeletePoints, PointStruct, PointsIdsList, PointsOperationResponse,
    PointsSelector, UpdateMode, UpdateResult, UpdateStatus, UpsertPoints, VectorsSelector,
    WriteOrdering, WriteOrderingType, points_selector,
};
use tonic::{Code, Status};
use uuid::Uuid;

use super::super::engine::Unfit;
use super::super::point::{DENSE, Point};
use super::Server;
use super::convert;
use super::link::{Line, asked_wait};
use crate::model::{Failure, FailureKind};

/// How large a request becomes, where a single point is not larger. The server's limit is 32 MiB.
const REQUEST_BYTES: usize = 16 << 20;

/// The largest point that is sent: what else is in a request is small.
pub(super) const POINT_BYTES: usize = (32 << 20) - (64 << 10);

/// How many points go into a request.
pub(super) const REQUEST_POINTS: usize = 256;

/// How often in a row no answer may come before the server counts as away; each time the request is halved.
const MISSES: usize = 3;

/// After how many requests in a row that went well they may become larger again: what was too much for a server may have
/// been a bad hour.
const SMOOTH: u32 = 32;

/// How many points a server may find fault with, while it takes none, before it is the collection that is at fault.
const FAULTS: usize = 16;

/// A point on its way, and how many bytes it takes.
struct Packed {
    id: Uuid,
    point: PointStruct,
    bytes: usize,
    is_meta: bool,
}

/// Through the permanent leader, so that on a cluster too what we delete after a write is deleted after it.
const ORDERING: Option<WriteOrdering> = Some(WriteOrdering {
    r#type: WriteOrderingType::Strong as i32,
});

/// An operation counts when the server says that it is applied: one that it has only taken in could be lost after our
/// receipt is written.
fn applied(answer: &PointsOperationResponse) -> Result<(), Status> {
    let status = answer
        .result
        .as_ref()
        .map_or(UpdateStatus::UnknownUpdateStatus, UpdateResult::status);
    match status {
        UpdateStatus::Completed => Ok(()),
        UpdateStatus::Acknowledged | UpdateStatus::WaitTimeout => Err(Status::deadline_exceeded(
            "the server took it in and did not apply it in time",
        )),
        UpdateStatus::UnknownUpdateStatus | UpdateStatus::ClockRejected => Err(
            Status::unavailable("the server does not say that it is applied"),
        ),
    }
}

impl Server {
    /// Puts the points in; see [`Engine::upsert`](super::super::engine::Engine::upsert).
    pub(super) fn put(&mut self, points: Vec<Point>) -> Result<Vec<Unfit>, Failure> {
        let mut unfit = Vec::new();
        let mut waiting = VecDeque::with_capacity(points.len());
        for point in points {
            let id = point.id;
            let path = point.text("path").to_owned();
            let is_meta = point.is_meta();
            let point = convert::point(point);
            let bytes = point.encoded_len();
            if bytes > self.most_bytes {
                unfit.push(too_large(id, &path, bytes, self.most_bytes));
            } else {
                waiting.push_back(Packed {
                    id,
                    point,
                    bytes,
                    is_meta,
                });
            }
        }
        // How many points go together now: few after the server found fault with one of many.
        let mut narrow = self.most_at_once();
        let mut misses = 0;
        let mut taken = 0;
        let mut faults = Vec::new();
        while !waiting.is_empty() {
            let batch = next(&mut waiting, narrow);
            let status = match self.send(&batch) {
                Ok(()) => {
                    taken += batch.len();
                    misses = 0;
                    self.went_well(batch);
                    narrow = narrow.saturating_mul(2).min(self.most_at_once());
                    continue;
                }
                Err(status) => status,
            };
            let alone = batch.len() == 1;
            let too_much =
                status.code() == Code::ResourceExhausted && asked_wait(&status).is_none();
            match status.code() {
                // More than it ever takes at once, as it says without a wait: that costs no time.
                Code::ResourceExhausted if too_much && !alone => {
                    narrow = self.halve(batch.len());
                }
                Code::DeadlineExceeded | Code::ResourceExhausted if misses < MISSES && !alone => {
                    misses += 1;
                    narrow = self.halve(batch.len());
                }
                Code::InvalidArgument | Code::OutOfRange if !alone => {
                    narrow = batch.len().div_ceil(2);
                }
                Code::InvalidArgument | Code::OutOfRange if !self.takes_anything()? => {
                    return Err(self.link.failure("write to", &status));
                }
                Code::InvalidArgument | Code::OutOfRange if taken > 0 || faults.len() < FAULTS => {
                    let why = self.link.failure("write a point to", &status);
                    faults.extend(batch.into_iter().map(|one| (one.id, why.clone())));
                    continue;
                }
                _ => return Err(self.link.failure("write to", &status)),
            }
            batch
                .into_iter()
                .rev()
                .for_each(|one| waiting.push_front(one));
        }
        // A point that fails among others that do not is at fault itself; of one alone it cannot be told, so that it is
        // tried again.
        let kind = if taken > 0 {
            FailureKind::Rejected
        } else {
            FailureKind::Transient
        };
        unfit.extend(faults.into_iter().map(|(id, why)| Unfit {
            id,
            why: Failure { kind, ..why },
        }));
        Ok(unfit)
    }

    /// How many points go into a request now.
    fn most_at_once(&self) -> usize {
        self.batch.min(self.limits.points)
    }

    /// Makes requests half as large as one of so many points, which was too much; returns how large.
    fn halve(&mut self, points: usize) -> usize {
        self.smooth = 0;
        self.batch = points.div_ceil(2);
        self.batch
    }

    fn went_well(&mut self, batch: Vec<Packed>) {
        self.smooth += 1;
        if self.smooth >= SMOOTH {
            self.smooth = 0;
            self.batch = self.batch.saturating_mul(2).min(REQUEST_POINTS);
        }
        if let Some(meta) = batch.into_iter().find(|one| one.is_meta) {
            self.known = Some(meta.point);
        }
    }

    /// Says whether the collection takes what it holds already. One that is full, or out of memory, refuses every point
    /// with the status of one that is wrong.
    fn takes_anything(&mut self) -> Result<bool, Failure> {
        let Some(known) = self.known.clone() else {
            return Ok(true);
        };
        let collection = &self.collection;
        let answer = self.link.call(|line| {
            let request = UpsertPoints {
                // Never into another that has come in its place.
                update_mode: Some(UpdateMode::UpdateOnly.into()),
                ..upsert_of(collection, vec![known.clone()])
            };
            async move { line.points().upsert(request).await }
        });
        match answer.and_then(|answer| applied(&answer)) {
            Ok(()) => Ok(true),
            Err(status) if matches!(status.code(), Code::InvalidArgument | Code::OutOfRange) => {
                Ok(false)
            }
            Err(status) => Err(self.link.failure("write to", &status)),
        }
    }

    fn send(&mut self, batch: &[Packed]) -> Result<(), Status> {
        let collection = &self.collection;
        let call = |line: Line| {
            let points = batch.iter().map(|one| one.point.clone()).collect();
            let request = upsert_of(collection, points);
            async move { line.points().upsert(request).await }
        };
        let answer = if batch.len() == 1 {
            self.link.call(call)?
        } else {
            self.link.call_in_parts(call)?
        };
        applied(&answer)
    }

    /// Deletes the points of these ids.
    pub(super) fn delete_points(&mut self, ids: &[Uuid]) -> Result<(), Status> {
        self.delete_by(&selector(ids))
    }

    /// Deletes what is selected.
    pub(super) fn delete_by(&mut self, points: &PointsSelector) -> Result<(), Status> {
        let answer = self.link.call(|line| {
            let request = DeletePoints {
                collection_name: self.collection.clone(),
                wait: Some(true),
                points: Some(points.clone()),
                ordering: ORDERING,
                ..DeletePoints::default()
            };
            async move { line.points().delete(request).await }
        })?;
        applied(&answer)
    }

    /// Takes the dense vectors off points.
    pub(super) fn take_off_dense(&mut self, ids: &[Uuid]) -> Result<(), Status> {
        let answer = self.link.call(|line| {
            let request = DeletePointVectors {
                collection_name: self.collection.clone(),
                wait: Some(true),
                points_selector: Some(selector(ids)),
                vectors: Some(VectorsSelector {
                    names: vec![DENSE.into()],
                }),
                ordering: ORDERING,
                ..DeletePointVectors::default()
            };
            async move { line.points().delete_vectors(request).await }
        })?;
        applied(&answer)
    }
}

fn upsert_of(collection: &str, points: Vec<PointStruct>) -> UpsertPoints {
    UpsertPoints {
        collection_name: collection.into(),
        wait: Some(true),
        points,
        ordering: ORDERING,
        ..UpsertPoints::default()
    }
}

fn selector(ids: &[Uuid]) -> PointsSelector {
    let ids = PointsIdsList {
        ids: ids.iter().copied().map(convert::id).collect(),
    };
    PointsSelector {
        points_selector_one_of: Some(points_selector::PointsSelectorOneOf::Points(ids)),
    }
}

/// Takes the next points off, at least one: no more than `most`, no larger together than a request is to be.
fn next(waiting: &mut VecDeque<Packed>, most: usize) -> Vec<Packed> {
    let mut bytes = 0;
    let mut count = 0;
    for one in waiting.iter().take(most.max(1)) {
        bytes += one.bytes;
        if count > 0 && bytes > REQUEST_BYTES {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

fn too_large(id: Uuid, path: &str, bytes: usize, most: usize) -> Unfit {
    Unfit {
        id,
        why: Failure::new(
            FailureKind::Rejected,
            format!(
                "a section of page {path:?} takes {bytes} bytes in Qdrant, and {most} is the most"
            ),
        )
        .hint("cut it with headings, or shorten the page's title"),
    }
}
