//! A look at the server and the collection for `doctor`.

use qdrant_client::qdrant::{
    CollectionInfo, CollectionStatus, HealthCheckRequest, StrictModeConfig,
};

use super::super::EXAMINED as NAME;
use super::super::point::INDEXED;
use super::Server;
use super::write::REQUEST_POINTS;
use crate::model::Finding;

/// The first version that has all that is asked of a server.
const OLDEST: (u32, u32) = (1, 16);
const LOOK: &str = "see what the server's log says";

impl Server {
    /// Says what there is of server and collection, and whether the collection can be read.
    pub(super) fn looked_at(&mut self) -> (Vec<Finding>, bool) {
        let mut found = Vec::new();
        let health = self
            .link
            .call(|line| async move { line.health().health_check(HealthCheckRequest {}).await });
        match health {
            Ok(told) => found.push(version(&told.version)),
            Err(status) => {
                let failure = self.link.failure("reach", &status);
                return (vec![Finding::of(NAME, &failure, LOOK)], false);
            }
        }
        let place = self.link.place().to_owned();
        match self.link.info(&self.collection) {
            Ok(Some(info)) => {
                found.push(health_of(&place, &info));
                found.extend(indexes(&place, &info));
                let strict = info.config.and_then(|config| config.strict_mode_config);
                if let Some(strict) = strict.filter(|strict| strict.enabled == Some(true)) {
                    found.push(limits(&place, &strict, info.points_count));
                }
            }
            Ok(None) => {
                let what = format!("{place} is not there yet: the next drain makes it");
                found.push(Finding::ok("vectors.collection", what));
                return (found, false);
            }
            Err(status) => {
                let failure = self.link.failure("look at", &status);
                found.push(Finding::of("vectors.collection", &failure, LOOK));
                return (found, false);
            }
        }
        match self.look(false) {
            Ok(there) => (found, there),
            Err(failure) => {
                found.push(Finding::of("vectors.collection", &failure, LOOK));
                (found, false)
            }
        }
    }
}

fn version(told: &str) -> Finding {
    let mut parts = told.split('.').map(|part| part.parse::<u32>().ok());
    let number = parts.next().flatten().zip(parts.next().flatten());
    match number {
        Some(number) if number < OLDEST => Finding::warning(
            NAME,
            format!("Qdrant {told} answers, which does not know all that is asked of it"),
            format!("use Qdrant {}.{} or later", OLDEST.0, OLDEST.1),
        ),
        Some(_) | None => Finding::ok(NAME, format!("Qdrant {told} answers")),
    }
}

fn health_of(place: &str, info: &CollectionInfo) -> Finding {
    const NAME: &str = "vectors.collection";
    let status = CollectionStatus::try_from(info.status);
    let optimizer = info.optimizer_status.as_ref().filter(|told| !told.ok);
    if let Some(told) = optimizer {
        let what = format!("{place}: its optimizer stopped: {}", told.error);
        return Finding::fault(NAME, what, LOOK);
    }
    let points = info.points_count.unwrap_or_default();
    match status {
        Ok(CollectionStatus::Red) => Finding::fault(
            NAME,
            format!("{place} is red: something went wrong in it"),
            LOOK,
        ),
        Ok(CollectionStatus::Yellow | CollectionStatus::Grey) => Finding::ok(
            NAME,
            format!("{place}: {points} points, some not optimised yet"),
        ),
        Ok(CollectionStatus::Green | CollectionStatus::UnknownCollectionStatus) | Err(_) => {
            Finding::ok(NAME, format!("{place}: {points} points"))
        }
    }
}

/// Fields that are filtered on and have no index: slow, and refused by a server in strict mode.
fn indexes(place: &str, info: &CollectionInfo) -> Option<Finding> {
    let missing: Vec<_> = INDEXED
        .into_iter()
        .filter(|field| !info.payload_schema.contains_key(*field))
        .collect();
    (!missing.is_empty()).then(|| {
        Finding::note(
            "vectors.collection",
            format!("{place} has no index of {}", missing.join(", ")),
            "`wiki-sync drain` makes them",
        )
    })
}

fn limits(place: &str, strict: &StrictModeConfig, points: Option<u64>) -> Finding {
    const NAME: &str = "vectors.limits";
    if let Some(most) = strict.max_points_count
        && points.is_some_and(|points| points.saturating_mul(10) >= most.saturating_mul(9))
    {
        return Finding::warning(
            NAME,
            format!("{place} is nearly full: strict mode allows {most} points"),
            "raise max_points_count of its strict mode, or set vectors.collection to one of this wiki's own",
        );
    }
    let mut all = Vec::new();
    let mut add = |name: &str, limit: Option<u64>| {
        all.extend(limit.map(|limit| format!("{name} {limit}")));
    };
    add("points", strict.max_points_count);
    add("points in an upsert", strict.upsert_max_batchsize);
    add("hits", strict.max_query_limit.map(Into::into));
    add("writes a minute", strict.write_rate_limit.map(Into::into));
    add("reads a minute", strict.read_rate_limit.map(Into::into));
    add("conditions", strict.filter_max_conditions);
    add("values of a condition", strict.condition_max_size);
    let all = if all.is_empty() {
        "none that concern us".into()
    } else {
        all.join(", ")
    };
    let what = format!("strict mode; limits: {all}");
    if strict
        .upsert_max_batchsize
        .is_some_and(|most| most < REQUEST_POINTS as u64)
    {
        return Finding::note(
            NAME,
            what,
            format!(
                "a drain splits what is too much; with upsert_max_batchsize {REQUEST_POINTS} it need not"
            ),
        );
    }
    Finding::ok(NAME, what)
}
