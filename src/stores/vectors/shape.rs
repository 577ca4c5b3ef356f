//! What is asked of a collection beside words: which dense vectors, and what is asked for in a search.

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

/// Which pages a search looks at. Those that meet all that is named; all pages, when nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    /// What the path begins with.
    pub prefix: Option<String>,
    /// A tag of the page.
    pub tag: Option<String>,
    /// Its label `repo`.
    pub repo: Option<String>,
    /// Its label `lang`.
    pub lang: Option<String>,
}

impl Only {
    /// Returns the payload fields and the value that each must hold. An engine can look up whole folders but not the
    /// beginning of a name: of a prefix this says its folder, and [`Only::admits`] the rest.
    pub(super) fn keywords(&self) -> Vec<(&'static str, &str)> {
        let folder = self
            .prefix
            .as_deref()
            .and_then(|prefix| prefix.rfind('/').map(|end| &prefix[..end]))
            .filter(|folder| !folder.is_empty());
        [
            ("folders", folder),
            ("tags", self.tag.as_deref()),
            ("repo", self.repo.as_deref()),
            ("lang", self.lang.as_deref()),
        ]
        .into_iter()
        .filter_map(|(field, value)| Some((field, value?)))
        .collect()
    }

    /// Says whether a path begins as it must.
    pub(super) fn admits(&self, path: &str) -> bool {
        self.prefix
            .as_deref()
            .is_none_or(|prefix| path.starts_with(prefix))
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
                .map(|folder| ("folders", folder))
                .into_iter()
                .collect();
            assert_eq!(only.keywords(), expected, "{prefix:?}");
        }
        assert!(only("w/a").admits("w/ab.md") && !only("w/a/").admits("w/ab.md"));
        assert_eq!(folders("w/a/b.md"), ["w", "w/a"]);
        assert!(folders("b.md").is_empty());
    }
}
