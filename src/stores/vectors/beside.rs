//! Building a store beside the one that is in use, and putting it in its place: the same for both engines. How they do it is
//! in `edge/beside.rs` and `server/beside.rs`.

use std::fmt;
use std::fs::File;

#[cfg(feature = "edge")]
use super::edge;
use super::engine::Engine;
#[cfg(feature = "server")]
use super::server;
use super::{VectorSettings, VectorStore, take_shape};
use crate::embed::Embeddings;
use crate::model::{Failure, FailureKind};
use crate::state::{StateDir, lock_file};
use crate::stores::Store as _;

/// A store that nobody has yet, to be put in the place of the one that is in use once it is whole.
pub struct Beside {
    /// The store.
    pub store: VectorStore,
    settings: VectorSettings,
    built: Built,
    /// Nobody else builds meanwhile.
    _lock: File,
}

/// What it is.
#[derive(Debug)]
enum Built {
    #[cfg(feature = "edge")]
    Shard(StateDir),
    #[cfg(feature = "server")]
    Collection(String),
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("store", &self.store)
            .field("built", &self.built)
            .finish_non_exhaustive()
    }
}

/// Says whether a rebuild of embedded vectors left something, and nobody goes on with it now. Changes nothing.
#[must_use]
pub(super) fn is_left(state: &StateDir) -> bool {
    let folder = state.path().join("vectors.new");
    let lock = File::open(state.path().join(LOCK));
    folder.is_dir() && lock.is_ok_and(|lock| lock.try_lock_shared().is_ok())
}

/// Held while somebody builds.
const LOCK: &str = "rebuild.lock";

/// What was put in the place of what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// What was in use before and was not removed: a collection on a server that we did not make.
    pub left: Option<String>,
}

impl Beside {
    /// Opens what an earlier attempt began, where that can be gone on with, else makes it anew.
    ///
    /// # Errors
    /// `Refused` where no other store could be put in the place of the one in use; `Busy` while another builds; `Down`
    /// and `Refused` when the provider cannot be used; as every use of the store.
    pub fn open(
        mut settings: VectorSettings,
        state: &StateDir,
        embeddings: Option<Embeddings>,
    ) -> Result<Self, Failure> {
        state.create()?;
        let lock = lock_file(
            &state.path().join(LOCK),
            settings.wait,
            state.stop(),
            "another rebuild of the vectors",
        )?;
        if let Some(embeddings) = &embeddings {
            // Words alone would be no gain, so nothing is begun without it.
            embeddings.probe(&|| !state.stop().is_wished())?;
        }
        take_shape(&mut settings, embeddings.as_ref());
        let (engine, built) = prepare(&settings, state)?;
        let mut beside = Self {
            store: VectorStore::over(engine, settings.clone(), embeddings),
            settings,
            built,
            _lock: lock,
        };
        match beside.store.identity() {
            // Begun for another model, or damaged: nobody has it yet.
            Err(failure) if failure.kind == FailureKind::Refused => {
                beside.store.rest();
                beside.clear()?;
                beside.store.identity()?;
            }
            other => drop(other?),
        }
        Ok(beside)
    }

    /// Removes what was built so far.
    fn clear(&self) -> Result<(), Failure> {
        match self.built {
            #[cfg(feature = "edge")]
            Built::Shard(ref state) => edge::beside::clear(state),
            #[cfg(feature = "server")]
            Built::Collection(ref name) => server::beside::clear(&self.settings, name),
        }
    }

    /// Puts what was built in the place of what is in use, which is removed then, where it is nobody else's. Not while a
    /// drain of this checkout is at work: what it writes to the one, the other would not hold.
    ///
    /// # Errors
    /// `Busy` when somebody does not let go of what is in use in time, `Refused` when others have come to use it meanwhile,
    /// `Down` when the disk or the server refuses. What was built stays.
    pub fn put_in_place(mut self) -> Result<Placed, Failure> {
        self.store.rest();
        match self.built {
            #[cfg(feature = "edge")]
            Built::Shard(ref state) => {
                edge::beside::put_in_place(state, self.settings.wait)?;
                Ok(Placed::default())
            }
            #[cfg(feature = "server")]
            Built::Collection(ref name) => server::beside::put_in_place(&self.settings, name),
        }
    }
}

/// Returns the engine of what is to be built, and what that is.
fn prepare(
    settings: &VectorSettings,
    state: &StateDir,
) -> Result<(Box<dyn Engine>, Built), Failure> {
    // That the URL names no engine, or one that this build does not have, is said there.
    super::open_engine(settings, state)?;
    #[cfg(feature = "server")]
    if settings.is_shared() {
        let server = server::beside::open(settings)?;
        let built = Built::Collection(server.collection().to_owned());
        return Ok((Box::new(server), built));
    }
    #[cfg(feature = "edge")]
    return Ok((
        Box::new(edge::beside::open(settings, state)),
        Built::Shard(state.clone()),
    ));
    #[cfg(not(feature = "edge"))]
    Err(Failure::new(
        FailureKind::Refused,
        "this wiki-sync was built without a vector engine",
    ))
}
