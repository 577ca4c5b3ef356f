//! The names of the stores, and sets of them.

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

/// Some of the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct StoreSet(u8);

impl StoreSet {
    /// None of them.
    pub const NONE: Self = Self(0);

    const fn bit(name: StoreName) -> u8 {
        1 << name as u8
    }

    /// Returns the set with this store in it too.
    #[must_use]
    pub const fn with(self, name: StoreName) -> Self {
        Self(self.0 | Self::bit(name))
    }

    /// Says whether the store is in it.
    #[must_use]
    pub const fn contains(self, name: StoreName) -> bool {
        self.0 & Self::bit(name) != 0
    }

    /// Says whether no store is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the stores in it, in the order in which they are applied.
    pub fn iter(self) -> impl Iterator<Item = StoreName> {
        StoreName::ALL
            .into_iter()
            .filter(move |&name| self.contains(name))
    }

    /// Returns the store, where it is one alone.
    #[must_use]
    pub fn only(self) -> Option<StoreName> {
        let mut names = self.iter();
        names.next().filter(|_| names.next().is_none())
    }
}

impl From<StoreName> for StoreSet {
    fn from(name: StoreName) -> Self {
        Self::NONE.with(name)
    }
}

impl FromIterator<StoreName> for StoreSet {
    fn from_iter<T: IntoIterator<Item = StoreName>>(names: T) -> Self {
        names.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The names, with commas between them.
impl fmt::Display for StoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(StoreName::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

impl FromStr for StoreSet {
    type Err = NoSuchStore;

    /// Reads what its `Display` writes.
    fn from_str(text: &str) -> Result<Self, NoSuchStore> {
        text.split(", ").map(str::parse::<StoreName>).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_by_its_names_and_read_again() {
        use StoreName::{Git, Graph, Vectors};
        for (names, text) in [
            (&[Git][..], "git"),
            (&[Vectors, Graph], "graph, vectors"),
            (&[Git, Graph, Vectors, Git], "graph, vectors, git"),
        ] {
            let set: StoreSet = names.iter().copied().collect();
            assert_eq!(set.to_string(), text);
            assert_eq!(text.parse(), Ok(set));
            assert_eq!(set.only(), Some(names[0]).filter(|_| names.len() == 1));
        }
        assert_eq!(StoreSet::NONE.only(), None);
        for none in ["", "graph,git", "graph, ", "none"] {
            assert_eq!(none.parse::<StoreSet>(), Err(NoSuchStore), "{none:?}");
        }
    }
}
