//! The shard's folder: its settings, opening it, and keeping its WAL short.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use qdrant_edge::{
    Distance, EdgeConfig, EdgeOptimizersConfig, EdgeShard, EdgeSparseVectorParams,
    EdgeVectorParams, Modifier, OperationError, UpdateOperation, WalOptions,
};
use serde_json::json;

use super::super::point::{BM25, DENSE};
use super::super::shape::Dense;
use super::super::{Found, unfit_shape};
use super::convert::KEYS;
use crate::model::{Failure, FailureKind};

/// Up to how many segments are left alone instead of being merged, and how large a merged one may become. Merging goes on
/// beside the writes, so that few of them cost a first sync little: with 8 instead of 16, one of 68,000 points took as long
/// and 440 MB instead of 385 (of 275,000: 1.1 of the CPU, 752 MB instead of 641), and each opening after it 0.7 of the time.
const SEGMENTS: usize = 8;
const SEGMENT_KB: usize = 30_000;

/// From which size of its vectors on a segment's index is put on disk by an optimisation.
const INDEX_KB: usize = 1_000;

/// The size of one file of the WAL, which is there in full from the start. An operation that is larger
/// gets a larger file.
const WAL_BYTES: usize = 4 << 20;

/// Returns the settings of a shard with these dense vectors.
pub(super) fn config(dense: Option<EdgeVectorParams>) -> EdgeConfig {
    EdgeConfig::builder()
        .vectors(
            dense
                .into_iter()
                .map(|dense| (DENSE.into(), dense))
                .collect(),
        )
        .sparse_vector(
            BM25,
            EdgeSparseVectorParams {
                on_disk: Some(true),
                modifier: Some(Modifier::Idf),
                ..EdgeSparseVectorParams::default()
            },
        )
        .on_disk_payload(true)
        .optimizers(EdgeOptimizersConfig {
            default_segment_number: Some(SEGMENTS),
            max_segment_size: Some(SEGMENT_KB),
            indexing_threshold: Some(INDEX_KB),
            ..EdgeOptimizersConfig::default()
        })
        .wal_options(WalOptions {
            segment_capacity: WAL_BYTES,
            segment_queue_len: 0,
            retain_closed: NonZeroUsize::MIN,
        })
        .build()
}

/// The distance of dense vectors: of two of length 1 it is their cosine, and nothing is computed when they are written.
const DISTANCE: Distance = Distance::Dot;

/// Returns the settings of dense vectors in a new shard.
pub(super) fn dense_params(dense: &Dense) -> EdgeVectorParams {
    EdgeVectorParams::builder(dense.dimension, DISTANCE).build()
}

/// Returns the dense vectors of the shard that is there, and whether those that are wanted must be added.
///
/// # Errors
/// `Refused` when it has others than are wanted.
pub(super) fn dense_there(
    dir: &Path,
    wanted: Option<&Dense>,
) -> Result<(Option<EdgeVectorParams>, bool), Failure> {
    // Without its settings file Edge takes the settings that it is given, and compares them with its segments.
    let Some(Ok(mut held)) = EdgeConfig::load(dir) else {
        return Ok((wanted.map(dense_params), false));
    };
    let there = held.vectors.remove(DENSE);
    let fits = |there: &EdgeVectorParams, wanted: &Dense| {
        there.size == wanted.dimension
            && matches!(there.distance, Distance::Dot | Distance::Cosine)
            && there.multivector_config.is_none()
    };
    match (&there, wanted) {
        (Some(there), Some(wanted)) if !fits(there, wanted) => {
            let found = Found {
                dimension: there.size,
                distance: format!("{:?}", there.distance),
            };
            let place = format!("the vectors in {}", dir.display());
            Err(unfit_shape(&place, &found, wanted))
        }
        (None, Some(_)) => Ok((None, true)),
        (Some(_) | None, _) => Ok((there, false)),
    }
}

/// Returns the operation that adds dense vectors to a shard without.
///
/// # Errors
/// `Down` when the engine knows no such operation any longer.
pub(super) fn add_dense(dense: &Dense) -> Result<UpdateOperation, Failure> {
    // Edge has it, and does not hand out the type to build it from.
    let operation = json!({"create_vector_name": {
        "vector_name": DENSE,
        "config": {"dense": {"size": dense.dimension, "distance": DISTANCE}},
    }});
    serde_json::from_value(operation)
        .map_err(|e| Failure::from_error(FailureKind::Down, "cannot add dense vectors", &e))
}

/// Says whether there is a shard in the folder, or the remains of one.
pub(super) fn has_shard(dir: &Path) -> bool {
    has_settings(dir)
        || fs::read_dir(dir.join("segments")).is_ok_and(|mut entries| entries.next().is_some())
}

/// Says whether Edge's settings file is there, which it makes with a shard.
pub(super) fn has_settings(dir: &Path) -> bool {
    dir.join("edge_config.json").exists()
}

/// Returns what tells the shard's folder from another one put in its place.
pub(super) fn folder_id(dir: &Path) -> Option<u64> {
    let meta = fs::metadata(dir.join("segments")).ok()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some(meta.ino())
    }
    #[cfg(not(unix))]
    {
        Some(u64::from(meta.is_dir()))
    }
}

/// Returns how many bytes the folder's files take up, as far as it can be read.
pub(super) fn folder_size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_size(&entry.path()),
            Ok(meta) => occupied(&meta),
            Err(_) => 0,
        })
        .sum()
}

/// Most of Edge's files are longer than what is written of them.
fn occupied(meta: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        meta.blocks() * 512
    }
    #[cfg(not(unix))]
    {
        meta.len()
    }
}

/// Takes off the closed files of the WAL, all but the last: Edge never does, and never reads them again.
///
/// The last one stays, since its name carries the number of the next operation, without which Edge would
/// take new operations for old ones. In ascending order, so that a kill leaves no gap. Only for a shard
/// that is not open.
pub(super) fn prune_wal(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir.join("wal")) else {
        return;
    };
    let mut closed: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let start = path.file_name()?.to_str()?.strip_prefix("closed-")?;
            Some((start.parse().ok()?, path))
        })
        .collect();
    closed.sort_unstable();
    closed.pop();
    for (_, path) in closed {
        if fs::remove_file(path).is_err() {
            return; // It only takes up space, and the order must be kept.
        }
    }
}

/// How much space must be free before anything is written: a file of the WAL, twice what an operation of
/// 500 large points takes elsewhere, and as much again.
pub(super) const RESERVE: u64 = 32 << 20;

/// Refuses to go on where less than `needed` bytes are free.
///
/// Edge writes through memory maps, where a full disk is no error but a signal that ends the process.
///
/// # Errors
/// `Down` when there is too little space.
pub(super) fn needs_space(dir: &Path, needed: u64) -> Result<(), Failure> {
    match fs4::available_space(dir) {
        Ok(free) if free < needed => Err(Failure::new(
            FailureKind::Down,
            format!(
                "{} MiB are free for the vectors in {}, which need {} to be written safely",
                free >> 20,
                dir.display(),
                needed >> 20
            ),
        )
        .hint("free some space")),
        // Where the system does not tell, the first write will.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens the shard that is there; `None` where its points cannot be looked up by [`KEYS`], as those that an earlier
/// wiki-sync wrote: none of them would be found, and so none deleted.
///
/// # Errors
/// As [`opening`].
pub(super) fn load(
    dir: &Path,
    dense: Option<EdgeVectorParams>,
) -> Result<Option<EdgeShard>, Failure> {
    let (shard, fits) = opening(dir, |dir| {
        let shard = EdgeShard::load(dir, Some(config(dense)))?;
        let info = shard.info();
        let mut indexed = info.payload_schema.keys().map(ToString::to_string);
        // Without any index nothing was written yet.
        let fits = match indexed.next() {
            Some(field) => field == KEYS && indexed.next().is_none(),
            None => info.points_count == 0,
        };
        Ok((shard, fits))
    })?;
    if fits {
        return Ok(Some(shard));
    }
    // See `Open`: dropping may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(shard)));
    Ok(None)
}

/// Removes the shard, with all that is left of one that was being removed. In one step it is no longer in its place, so that
/// half of one is never taken for one.
///
/// # Errors
/// `Down` when the disk refuses.
pub(super) fn put_away(dir: &Path) -> Result<(), Failure> {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".old");
    let away = dir.with_file_name(name);
    let is_there = |result: io::Result<()>| match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other.map(|()| true),
    };
    let put_away = || {
        is_there(fs::remove_dir_all(&away))?;
        if has_shard(dir) && is_there(fs::rename(dir, &away))? {
            if let Some(above) = dir.parent() {
                File::open(above)?.sync_all()?;
            }
            fail::fail_point!("vectors.put_away");
            fs::remove_dir_all(&away)?;
        }
        Ok(())
    };
    put_away().map_err(|e: io::Error| {
        let doing = format!("cannot remove {}", away.display());
        Failure::from_error(FailureKind::Down, &doing, &e)
    })
}

pub(super) fn opening<T>(
    dir: &Path,
    open: impl FnOnce(&Path) -> Result<T, OperationError>,
) -> Result<T, Failure> {
    let reason = match catch_unwind(AssertUnwindSafe(|| open(dir))) {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(error)) => one_line(&error.to_string()),
        Err(panic) => said(&*panic),
    };
    let text = format!("cannot open the vectors in {}: {reason}", dir.display());
    let busy = ["WouldBlock", "would block", "(os error 11)"];
    Err(if busy.iter().any(|sign| reason.contains(sign)) {
        Failure::new(FailureKind::Busy, text).hint("another program has them open; close it")
    } else if is_the_systems(&reason) {
        Failure::new(FailureKind::Down, text)
            .hint("look for free space, memory and permissions there")
    } else {
        damaged(text, dir)
    })
}

/// Says whether an error is the system's, which may pass, and not the shard's. Edge hands them on as text only.
pub(super) fn is_the_systems(reason: &str) -> bool {
    let signs = [
        "(os error 12)",  // no memory
        "(os error 13)",  // no permission
        "(os error 23)",  // too many open files, in the system
        "(os error 24)",  // too many open files
        "(os error 28)",  // no space
        "(os error 30)",  // read-only
        "(os error 122)", // over quota
        "Out of memory",
    ];
    signs.iter().any(|sign| reason.contains(sign))
}

/// A shard that no waiting mends.
pub(super) fn damaged(text: String, dir: &Path) -> Failure {
    Failure::new(FailureKind::Refused, text).hint(format!(
        "`wiki-sync rebuild vectors` builds it anew from the files; or move {} away: the next drain does",
        dir.display()
    ))
}

/// Returns the first line of an error; Edge puts a stack trace behind it.
pub(super) fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or("no reason given").to_owned()
}

pub(super) fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    one_line(text.unwrap_or("the engine gave up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_down_before_anything_is_written() {
        let root = tempfile::TempDir::new().expect("a folder");
        needs_space(root.path(), 1).expect("one byte is free");
        let failure = needs_space(root.path(), u64::MAX).expect_err("down");
        assert_eq!(failure.kind, FailureKind::Down);
        needs_space(Path::new("/nowhere/at/all"), u64::MAX).expect("unknown is not too little");
    }

    #[test]
    fn only_the_last_closed_file_of_the_wal_is_kept() {
        let root = tempfile::TempDir::new().expect("a folder");
        let wal = root.path().join("wal");
        fs::create_dir(&wal).expect("made");
        for name in ["closed-0", "closed-9", "closed-10", "open-4", "first-index"] {
            fs::write(wal.join(name), "").expect("written");
        }
        prune_wal(root.path());
        let mut left: Vec<_> = fs::read_dir(&wal)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["closed-10", "first-index", "open-4"]);
    }
}
