//! The wish to stop, which ends every wait for a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish to stop, from outside: a signal, mostly. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Stop {
    /// Wishes it.
    pub fn wish(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Says whether it was wished.
    #[must_use]
    pub fn is_wished(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
