//! Which part of the wiki a question is about.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::PagePath;

/// Greater than every page's path: no path begins with the last character of Unicode.
const LAST: &str = "\u{10ffff}";

/// Paths with all that lies below them, so that a page and a folder are named in the same way; everything, when none
/// is named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Within {
    /// None of them lies below another.
    paths: BTreeSet<String>,
}

impl Within {
    /// Names every page.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Names these paths; everything, when there are none.
    #[must_use]
    pub fn of(paths: impl IntoIterator<Item = PagePath>) -> Self {
        let mut within = Self::default();
        let all: BTreeSet<String> = paths.into_iter().map(|path| path.to_string()).collect();
        // A folder sorts before what is below it.
        for path in all {
            if within.paths.is_empty() || within.part(&path).is_none() {
                within.paths.insert(path);
            }
        }
        within
    }

    /// Says whether every page is meant.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the paths named, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Returns which of the paths named a path is, or lies below. Costs the same however many are named.
    #[must_use]
    pub fn part(&self, path: &str) -> Option<&str> {
        let mut at = path;
        loop {
            if let Some(part) = self.paths.get(at) {
                return Some(part);
            }
            (at, _) = at.rsplit_once('/')?;
        }
    }

    /// Says whether a path is meant.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.is_everything() || self.part(path).is_some()
    }

    /// Says whether anything in a folder is meant, so that it must be looked into.
    #[must_use]
    pub fn reaches(&self, folder: &str) -> bool {
        if self.contains(folder) {
            return true;
        }
        let below = format!("{folder}/");
        let from = (Bound::Excluded(below.as_str()), Bound::Unbounded);
        let mut next = self.paths.range::<str, _>(from);
        next.next().is_some_and(|path| path.starts_with(&below))
    }

    /// Returns what is meant as ranges of paths in the order of their bytes, each from its first, included, to its
    /// second, excluded. No two overlap.
    #[must_use]
    pub fn ranges(&self) -> Vec<(String, String)> {
        if self.is_everything() {
            return vec![(String::new(), LAST.into())];
        }
        let mut ranges: Vec<_> = self
            .paths
            .iter()
            .flat_map(|path| {
                [
                    (path.clone(), format!("{path}\0")),
                    // The character after the slash ends the folder.
                    (format!("{path}/"), format!("{path}0")),
                ]
            })
            .collect();
        ranges.sort_unstable();
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(paths: &[&str]) -> Within {
        Within::of(
            paths
                .iter()
                .map(|path| PagePath::parse(path).expect("a path")),
        )
    }

    #[test]
    fn a_path_means_itself_and_what_is_below_it() {
        let some = within(&["w/a", "w/a/b.md", "w/c.md"]);
        assert_eq!(some.paths().collect::<Vec<_>>(), ["w/a", "w/c.md"]);
        for (path, part) in [
            ("w/a", Some("w/a")),
            ("w/a/x/y.md", Some("w/a")),
            ("w/c.md", Some("w/c.md")),
            ("w/a-b.md", None),
            ("w/a0", None),
            ("w", None),
        ] {
            assert_eq!(some.part(path), part, "{path}");
            assert_eq!(some.contains(path), part.is_some(), "{path}");
            let mut ranges = some.ranges().into_iter();
            let found = ranges.any(|(from, to)| *from <= *path && *path < *to);
            assert_eq!(found, part.is_some(), "{path} in the ranges");
            assert!(Within::everything().contains(path));
        }
        for (folder, reached) in [("w", true), ("w/a/x", true), ("w/b", false), ("v", false)] {
            assert_eq!(some.reaches(folder), reached, "{folder}");
        }
        // One that sorts between a path and what is below it.
        let odd = within(&["w/a", "w/a b", "w/a/c"]);
        assert_eq!(odd.paths().collect::<Vec<_>>(), ["w/a", "w/a b"]);
        let ranges = odd.ranges();
        assert!(
            ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "{ranges:?}"
        );
    }
}
