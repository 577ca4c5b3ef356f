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
