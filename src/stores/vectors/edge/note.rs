//! The note beside the shard: its meta, readable without opening it.
//!
//! It stands in the shard's folder, so it goes where that goes; and it names the segments' folder, so that one which
//! was put in its place is not taken for it. And it says by which field the points are looked up: one that was written
//! before there was such a field is not believed, as that shard has to be built anew.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::point::Meta;
use super::convert::KEYS;
use super::shard::folder_id;
use crate::model::{Failure, FailureKind};

/// The file's name.
const NAME: &str = "wiki-sync.json";

#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    meta: Meta,
    /// See [`folder_id`].
    segments: u64,
    /// [`KEYS`].
    #[serde(default)]
    index: String,
}

/// Returns the meta noted for this wiki, if it speaks of the shard that is there.
pub(super) fn read(dir: &Path, wiki: &str) -> Option<Meta> {
    let note: Note = serde_json::from_slice(&fs::read(dir.join(NAME)).ok()?).ok()?;
    let holds = fs::read_dir(dir.join("segments")).ok()?.next().is_some();
    let same = holds && folder_id(dir) == Some(note.segments) && note.meta.wiki == wiki;
    (same && note.index == KEYS).then_some(note.meta)
}

/// Notes the meta; durable on return. A note that says so already is left alone.
///
/// # Errors
/// `Down` when the disk refuses.
pub(super) fn write(dir: &Path, meta: &Meta) -> Result<(), Failure> {
    if read(dir, &meta.wiki).as_ref() == Some(meta) {
        return Ok(());
    }
    let note = Note {
        meta: meta.clone(),
        segments: folder_id(dir).unwrap_or_default(),
        index: KEYS.into(),
    };
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut file, &note)?;
        file.flush()?;
        file.as_file().sync_data()?;
        file.persist(dir.join(NAME))?;
        Ok(())
    };
    write().map_err(|e: std::io::Error| {
        let doing = format!("cannot write {}", dir.join(NAME).display());
        Failure::from_error(FailureKind::Down, &doing, &e)
    })
}
