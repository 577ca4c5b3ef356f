//! Optimising a shard in a thread of its own, while points are written to it.
//!
//! Edge makes it safe: the segments that are optimised are not written to meanwhile, what is deleted in them is remembered
//! and taken from what becomes of them, and new points go elsewhere. The rest is ours to keep to:
//! - Nothing is flushed meanwhile: Edge does not remember such deletes on disk, and its flush panics where it would have to
//!   wait. What was flushed before stays on disk at each moment, in the old segments or in the new one.
//! - It goes on for as long as enough was written meanwhile, and ends with the writing.
//! - No other use than writing and looking up what is written goes on beside it, and it never outlives the opening of the
//!   shard, which knows its files by name.

use std::fs;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use qdrant_edge::{EdgeShard, OperationError};

use super::super::engine::Engine as _;
use super::shard::{RESERVE, folder_size, has_settings, needs_space};
use super::{Edge, Open};
use crate::model::Failure;

/// An optimisation that is under way.
pub(super) struct Optimising {
    thread: JoinHandle<Result<bool, OperationError>>,
    /// How much space it may still take up, and a write beside it.
    needed: u64,
}

impl Optimising {
    /// Begins to optimise the shard, for which so much space was found free.
    ///
    /// # Errors
    /// When there can be no other thread.
    fn begin(shard: &Arc<EdgeShard>, needed: u64) -> io::Result<Self> {
        let shard = Arc::clone(shard);
        let optimise = move || {
            fail::fail_point!("vectors.optimise");
            shard.optimize()
        };
        let thread = thread::Builder::new()
            .name("optimise".into())
            .spawn(optimise)?;
        Ok(Self { thread, needed })
    }

    fn is_under_way(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// What is done, in an error's words.
const OPTIMISE: &str = "optimise";

impl Edge {
    /// Moves the points into segments with their index on disk, as far as that is worth it; returns whether
    /// anything was done. Durable on return.
    pub(in super::super) fn optimize(&mut self) -> Result<bool, Failure> {
        self.settle()?;
        self.optimize_beside()?;
        let done = self.settle()?;
        if done {
            self.flush()?;
        }
        Ok(done)
    }

    /// Begins to do so beside what is written from now on, unless it is under way. Waited for by whatever else is done.
    pub(in super::super) fn optimize_beside(&mut self) -> Result<(), Failure> {
        if self.optimising().is_some_and(Optimising::is_under_way) {
            return Ok(());
        }
        self.settle()?;
        self.fresh = 0;
        // At worst all is written once more.
        let needed = RESERVE + folder_size(&self.dir);
        if needs_space(&self.dir, needed).is_err() {
            return Ok(());
        }
        let open = self.opened(OPTIMISE)?;
        let shard = open.shard.as_ref().expect("there until dropped");
        // Without another thread it is left for the next time.
        open.optimising = Optimising::begin(shard, needed).ok();
        Ok(())
    }

    fn optimising(&self) -> Option<&Optimising> {
        self.open.as_ref()?.optimising.as_ref()
    }

    /// Waits for the optimisation that is under way, if one is; returns whether it did anything.
    pub(super) fn settle(&mut self) -> Result<bool, Failure> {
        let Some(ended) = self.open.as_mut().and_then(Open::end_optimising) else {
            return Ok(false);
        };
        let done = self.judge(OPTIMISE, ended)?;
        if done {
            self.create_index()?;
        }
        Ok(done)
    }

    /// Makes sure that there is space for a write, also beside an optimisation.
    pub(super) fn needs_space(&mut self) -> Result<(), Failure> {
        let needed = self.optimising().map_or(0, |running| running.needed);
        if needs_space(&self.dir, needed).is_err() {
            self.settle()?;
        }
        needs_space(&self.dir, RESERVE)
    }
}

impl Open {
    /// Waits for the optimisation that is under way, if one is; returns what became of it, as
    /// [`std::panic::catch_unwind`] would.
    pub(super) fn end_optimising(
        &mut self,
    ) -> Option<thread::Result<Result<bool, OperationError>>> {
        let ended = self.optimising.take()?.thread.join();
        if !self.is_in_place() && !has_settings(&self.dir) {
            // It made a folder in the place of the one that was moved away meanwhile, for the segment that came of it: with
            // the meta point in it that would be taken for the whole.
            let _ = fs::remove_dir_all(self.dir.join("segments"));
        }
        Some(ended)
    }
}
