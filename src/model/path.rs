//! A page's identity: its path in the repository, valid by construction.

use std::borrow::Borrow;
use std::fmt;

/// The identity of a page: its path relative to the repository's root, with `/` between the parts.
///
/// Always valid UTF-8 as the bytes stand on disk (no Unicode normal form is imposed, no slug is made:
/// two names that differ only by case are two pages), never empty, never absolute, with no part that
/// is empty, `.`, `..` or `.git`, and without control characters. So joining it to the root can only
/// lead below the root (symbolic links are `wiki.rs`'s business).
///
/// Ordered by its bytes, as git orders a flattened tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePath(Box<str>);

/// Why a text is not a page's path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is empty.
    #[error("path is empty")]
    Empty,
    /// The path starts with `/`.
    #[error("path {0:?} is absolute; a page's path is relative to the repository")]
    Absolute(String),
    /// A part is `..`, `.git`, or empty.
    #[error("path {path:?} has a part {part:?} that could lead out of the wiki")]
    Part {
        /// The whole path.
        path: String,
        /// The part that is refused.
        part: String,
    },
    /// There is a control character (NUL, line break, …) in it.
    #[error("path {0:?} holds a control character")]
    Control(String),
}

impl PagePath {
    /// Reads a repository-relative path. `./` in front is taken off; nothing else is changed.
    ///
    /// # Errors
    /// [`PathError`] when it is empty, absolute, or has a part that could lead out of the repository.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut rest = text;
        while let Some(after) = rest.strip_prefix("./") {
            rest = after;
        }
        if rest.is_empty() {
            return Err(PathError::Empty);
        }
        if rest.starts_with('/') {
            return Err(PathError::Absolute(text.into()));
        }
        if rest.chars().any(char::is_control) {
            return Err(PathError::Control(text.into()));
        }
        for part in rest.split('/') {
            if matches!(part, "" | "." | "..") || part.eq_ignore_ascii_case(".git") {
                return Err(PathError::Part {
                    path: text.into(),
                    part: part.into(),
                });
            }
        }
        Ok(Self(rest.into()))
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the folder the page is in, without a slash at the end; empty at the repository's root.
    #[must_use]
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the file's name.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Returns the file's name without its last extension (`b.md` gives `b`, `.md` gives `.md`).
    #[must_use]
    pub fn stem(&self) -> &str {
        match self.file_name().rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => self.file_name(),
        }
    }

    /// Returns the whole path without its last extension.
    #[must_use]
    pub fn without_extension(&self) -> &str {
        let cut = self.file_name().len() - self.stem().len();
        &self.0[..self.0.len() - cut]
    }
}

impl fmt::Display for PagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for PagePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<std::path::Path> for PagePath {
    fn as_ref(&self) -> &std::path::Path {
        std::path::Path::new(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_that_could_leave_the_wiki_are_refused() {
        for bad in [
            "",
            "./",
            "/etc/passwd",
            "..",
            "../a.md",
            "wiki/../../a.md",
            "wiki//a.md",
            "wiki/./a.md",
            "wiki/.git/hooks/x.md",
            "wiki/.GIT/x.md",
            "a\0.md",
            "a\n.md",
            "wiki/",
        ] {
            assert!(PagePath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn odd_but_harmless_names_are_kept_to_the_byte() {
        for good in [
            "a.md",
            "wiki-output/한글 페이지.md",
            "w/..a/b...md",
            "w/-n.md",
            "w/'\"$(x).md",
            "w\\x.md",
        ] {
            assert_eq!(PagePath::parse(good).expect(good).as_str(), good);
        }
        assert_eq!(
            PagePath::parse("././w/a.md").expect("ok").as_str(),
            "w/a.md"
        );
    }

    /// Texts made of what leads elsewhere, and of what looks like it.
    fn odd() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            6 => prop::sample::select(vec![
                "..", ".", "", ".git", ".GIT", ".Git", "..a", "...", ". .", "a", "a.md", ".md", "한글.md",
                "\u{1112}\u{1161}\u{11ab}.md", "caf\u{e9}", "cafe\u{301}", "~", "C:", "\\", "a\0b", "a\nb", "\u{7f}",
                "\u{85}", "\u{202e}", "-rf", "*", "$(x)", "%2e%2e",
            ]).prop_map(str::to_owned),
            1 => any::<String>(),
            1 => "[a-z]{250,300}",
        ];
        (
            prop::sample::select(vec!["", "", "", "/", "./", "././", "../", ".//"]),
            prop::collection::vec(part, 0..5),
        )
            .prop_map(|(start, parts)| start.to_owned() + &parts.join("/"))
    }

    proptest! {
        #[test]
        fn a_path_that_is_taken_leads_below_the_root(text in odd()) {
            use std::path::{Component, Path};
            let parts = || text.split('/');
            let Ok(path) = PagePath::parse(&text) else {
                // Refused is only what is no name, or a name that leads elsewhere.
                let leads = |part: &str| part.is_empty() || part == "." || part == ".." || part.eq_ignore_ascii_case(".git");
                prop_assert!(parts().any(leads) || text.chars().any(char::is_control), "{text:?} is refused");
                return Ok(());
            };
            prop_assert!(text.ends_with(path.as_str()), "not a byte is changed");
            prop_assert!(!path.as_str().chars().any(char::is_control));
            let all = Path::new("/root").join(&path);
            let mut below = all.components().skip(2);
            prop_assert!(all.starts_with("/root") && below.all(|part| {
                matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"))
            }), "{all:?}");
            prop_assert_eq!(&PagePath::parse(path.as_str()).expect("the same again"), &path);
            let whole = match path.folder() {
                "" => path.file_name().to_owned(),
                folder => format!("{folder}/{}", path.file_name()),
            };
            prop_assert_eq!(whole.as_str(), path.as_str());
            prop_assert!(path.file_name().starts_with(path.stem()) && !path.stem().is_empty());
            prop_assert!(path.as_str().starts_with(path.without_extension()));
        }

        #[test]
        fn two_forms_of_one_name_are_two_paths(name in "[가-힣éüñ]{1,8}\\.md") {
            use unicode_normalization::UnicodeNormalization as _;
            let parsed = |name: String| PagePath::parse(&name).expect("a path");
            let (composed, apart) = (parsed(name.nfc().collect()), parsed(name.nfd().collect()));
            prop_assert_ne!(&composed, &apart);
            prop_assert_eq!(apart.as_str().nfc().collect::<String>(), composed.as_str());
        }
    }

    #[test]
    fn parts_of_a_path() {
        let path = PagePath::parse("wiki/sub.d/Page.v2.md").expect("ok");
        assert_eq!(path.folder(), "wiki/sub.d");
        assert_eq!(path.file_name(), "Page.v2.md");
        assert_eq!(path.stem(), "Page.v2");
        assert_eq!(path.without_extension(), "wiki/sub.d/Page.v2");
        let hidden = PagePath::parse("w/.md").expect("ok");
        assert_eq!(
            (hidden.stem(), hidden.without_extension()),
            (".md", "w/.md")
        );
    }
}
