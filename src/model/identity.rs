//! A store's identity.

/// Which store this is, and at which step of its life.
///
/// Kept inside the store itself, so that a dropped collection (another `id`) or a restored old copy
/// (another `epoch`) shows. The drain raises the epoch with each batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Made at random when the store was created.
    pub id: String,
    /// Raised by one with each batch that changes the store.
    pub epoch: i64,
}
