//! Building a shard beside the one that is in use, and putting it in its place.
//!
//! It stands in `vectors.new/`, with a turn of its own, so that readers have the old one until the two are exchanged: in
//! one step, under the turn of the old one. Cut off before that step, it is gone on with the next time; cut off after it,
//! what is left there is the old one, which is nobody's.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::VectorSettings;
use super::super::turn::Turn;
use super::Edge;
use crate::model::{Failure, FailureKind};
use crate::state::StateDir;

/// The name of the folder, and of its turn's files.
const NAME: &str = "vectors.new";

fn folder(state: &StateDir) -> PathBuf {
    state.path().join(NAME)
}

/// Prepares the shard that is to be built: what an earlier attempt began is gone on with.
pub(in super::super) fn open(settings: &VectorSettings, state: &StateDir) -> Edge {
    Edge::in_folder(
        state,
        folder(state),
        Turn::named(state, NAME, settings.wait),
        settings.shape.clone(),
    )
}

/// Puts what was built in the place of what is in use, which is removed then.
///
/// # Errors
/// `Busy` when somebody does not let go of what is in use in time, `Down` when the disk refuses.
pub(in super::super) fn put_in_place(state: &StateDir, wait: Duration) -> Result<(), Failure> {
    let (new, old) = (folder(state), state.vectors());
    let down = |e: io::Error| {
        let doing = format!(
            "cannot put {} in the place of {}",
            new.display(),
            old.display()
        );
        Failure::from_error(FailureKind::Down, &doing, &e)
    };
    let _ours = Turn::named(state, NAME, wait).take()?;
    let _turn = Turn::of(state, wait).take()?;
    fail::fail_point!("vectors.before_exchange");
    if old.exists() {
        renameat_with(CWD, &new, CWD, &old, RenameFlags::EXCHANGE).map_err(|e| down(e.into()))?;
    } else {
        fs::rename(&new, &old).map_err(down)?;
    }
    File::open(state.path())
        .and_then(|folder| folder.sync_all())
        .map_err(down)?;
    fail::fail_point!("vectors.exchanged");
    clear(state)
}

/// Removes what was built so far.
pub(in super::super) fn clear(state: &StateDir) -> Result<(), Failure> {
    let folder = folder(state);
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            let doing = format!("cannot remove {}", folder.display());
            Err(Failure::from_error(FailureKind::Down, &doing, &e))
        }
        _ => Ok(()),
    }
}
