//! What is asked of a collection beside words: which dense vectors, and what is asked for in a search.

use serde_json::Value;

use super::point::Point;

/// The dense vectors that a wiki's points carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dense {
    /// How many numbers each has.
    pub dimension: usize,
    /// The fingerprint of the model that makes them. Vectors of two models cannot be compared, even of one dimension.
    pub model: String,
}

/// What a wiki's points carry beside their words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// Dense vectors, where an embedding provider is set. They are normalised: of length 1.
    pub dense: Option<Dense>,
}

/// Which pages a search looks at. Those that meet all that is named; all pages, when nothing is. Of what has several values
/// one is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    /// What the path begins with.
    pub prefix: Option<String>,
    /// Tags, as they are spelled in pages.
    pub tags: Vec<String>,
    /// Its label `repo`.
    pub repo: Option<String>,
    /// Its label `lang`.
    pub lang: Option<String>,
    /// Paths.
    pub pages: Vec<String>,
}

impl Only {
    /// Returns the payload fields and the values of which each must hold one. An engine can look up whole folders but not the
    /// beginning of a name: of a prefix this says its folder, and [`Only::admits`] the rest.
    pub(super) fn keywords(&self) -> Vec<(&'static str, Vec<&str>)> {
        let folder = self
            .prefix
            .as_deref()
            .and_then(|prefix| prefix.rfind('/').map(|end| &prefix[..end]))
            .filter(|folder| !folder.is_empty());
        [
            ("folders", Vec::from_iter(folder)),
            ("tags", self.tags.iter().map(String::as_str).collect()),
            ("repo", self.repo.as_deref().into_iter().collect()),
            ("lang", self.lang.as_deref().into_iter().collect()),
            ("path", self.pages.iter().map(String::as_str).collect()),
        ]
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .collect()
    }

    /// Says whether a path begins as it must.
    pub(super) fn admits(&self, path: &str) -> bool {
        self.prefix
            .as_deref()
            .is_none_or(|prefix| path.starts_with(prefix))
    }

    /// Says whether a point is one of a page that is looked at.
    pub(super) fn admits_point(&self, point: &Point) -> bool {
        let holds = |field: &str, value: &str| match point.payload.get(field) {
            Some(Value::String(text)) => text == value,
            Some(Value::Array(list)) => list.iter().any(|one| one == value),
            _ => false,
        };
        let meets = |(field, values): (&str, Vec<&str>)| {
            let mut values = values.into_iter();
            values.any(|value| holds(field, value))
        };
        self.admits(point.text("path")) && self.keywords().into_iter().all(meets)
    }
}

/// Returns the folders that a page is in, outermost first.
pub(super) fn folders(path: &str) -> Vec<&str> {
    path.match_indices('/')
        .map(|(end, _)| &path[..end])
        .collect()
}

/// How words and meaning are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// By words: BM25 over sparse vectors.
    Words,
    /// By meaning: nearest dense vectors.
    Meaning,
}

impl Channel {
    /// Returns its name, as it is shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Meaning => "meaning",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_looked_up_by_its_folder_and_checked_by_its_beginning() {
        let only = |prefix: &str| Only {
            prefix: Some(prefix.into()),
            ..Only::default()
        };
        for (prefix, folder) in [
            ("w", None),
            ("w/", Some("w")),
            ("w/a", Some("w")),
            ("w/a/", Some("w/a")),
            ("/", None),
            ("", None),
        ] {
            let only = only(prefix);
            let expected: Vec<_> = folder
                .map(|folder| ("folders", vec![folder]))
                .into_iter()
                .collect();
            assert_eq!(only.keywords(), expected, "{prefix:?}");
        }
        assert!(only("w/a").admits("w/ab.md") && !only("w/a/").admits("w/ab.md"));
        assert_eq!(folders("w/a/b.md"), ["w", "w/a"]);
        assert!(folders("b.md").is_empty());
    }
}
