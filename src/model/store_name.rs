//! The names of the stores.

use std::fmt;
use std::str::FromStr;

/// A store's name, as it stands in receipts, reports and settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreName {
    /// Relations, in SQLite.
    Graph,
    /// Meaning, in Qdrant.
    Vectors,
    /// Files and history, in git.
    Git,
}

impl StoreName {
    /// Every store, in the order in which they are applied.
    pub const ALL: [Self; 3] = [Self::Graph, Self::Vectors, Self::Git];

    /// Returns the name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Vectors => "vectors",
            Self::Git => "git",
        }
    }
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text names no store.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no store of that name; the stores are graph, vectors and git")]
pub struct NoSuchStore;

impl FromStr for StoreName {
    type Err = NoSuchStore;

    fn from_str(text: &str) -> Result<Self, NoSuchStore> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or(NoSuchStore)
    }
}
