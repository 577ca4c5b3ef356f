//! The names by which a link can find a page.

use std::collections::BTreeSet;

use crate::model::PagePath;
use crate::model::markdown::fold_key;

/// Extensions of pages, in lower case.
const PAGE_EXTENSIONS: [&str; 3] = ["md", "mdx", "markdown"];

/// Names of the page that stands for its folder, in the order in which they are looked for: `index` of most
/// site generators, `_index` of Hugo, `README` of git hosts.
pub(super) const INDEX_NAMES: [&str; 3] = ["index", "_index", "README"];

/// What kind of name it is. Ordered by its text, as SQLite orders the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NameKind {
    /// From front matter's `aliases`.
    Alias,
    /// A run of last parts of the page's path.
    Path,
    /// The page's title.
    Title,
}

impl NameKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Alias => "alias",
            Self::Path => "path",
            Self::Title => "title",
        }
    }
}

/// One name of a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) kind: NameKind,
    pub(super) text: String,
    pub(super) key: String,
    /// Number of parts of the whole path; 0 for aliases and titles, where a deeper page is no worse.
    pub(super) depth: usize,
}

/// The wiki's root, to which paths in links are relative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root(String);

impl Root {
    /// Reads the folder's path in the repository; `.` and the empty text are the repository's root.
    pub(super) fn new(pages_dir: &str) -> Self {
        let parts: Vec<&str> = pages_dir
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        Self(parts.join("/"))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path below the wiki's root (the whole path for a page outside it).
    pub(super) fn relative<'p>(&self, path: &'p str) -> &'p str {
        if self.0.is_empty() {
            return path;
        }
        path.strip_prefix(self.0.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(path)
    }
}

/// Cuts off a page's extension and returns it in lower case; a name with another extension or none stays
/// whole.
pub(super) fn split_extension(path: &str) -> (&str, &'static str) {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    if let Some((stem, ext)) = name.rsplit_once('.')
        && !stem.is_empty()
        && let Some(known) = PAGE_EXTENSIONS
            .iter()
            .find(|known| known.eq_ignore_ascii_case(ext))
    {
        return (&path[..path.len() - ext.len() - 1], known);
    }
    (path, "")
}

/// Says whether a page of this name (without extension) stands for its folder.
pub(super) fn is_index(stem: &str) -> bool {
    INDEX_NAMES
        .iter()
        .any(|name| name.eq_ignore_ascii_case(stem))
}

/// Returns the names of a page, in the order of the rows' primary key, each once.
pub(super) fn names_of(
    root: &Root,
    path: &PagePath,
    title: &str,
    aliases: &[String],
) -> BTreeSet<Name> {
    let (whole, _) = split_extension(root.relative(path.as_str()));
    let depth = whole.split('/').count();
    let mut names: BTreeSet<Name> = suffixes(whole)
        .map(|name| Name {
            kind: NameKind::Path,
            text: name.into(),
            key: fold_key(name),
            depth,
        })
        .collect();
    let texts = aliases
        .iter()
        .map(|alias| (NameKind::Alias, alias.as_str()))
        .chain([(NameKind::Title, title)]);
    for (kind, text) in texts {
        let text = text.trim();
        if !text.is_empty() {
            names.insert(Name {
                kind,
                text: text.into(),
                key: fold_key(text),
                depth: 0,
            });
        }
    }
    names
}

/// Returns every run of last parts, the longest first.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |rest| {
        rest.split_once('/').map(|(_, rest)| rest)
    })
}

/// Returns the keys, beside those of its names, under which links may wait for a page at this path: see
/// [`super::plan::Plan::keys`].
pub(super) fn place_keys(root: &Root, path: &str) -> Vec<String> {
    let (whole, _) = split_extension(root.relative(path));
    let mut parts = whole.rsplit('/');
    let last = parts.next().unwrap_or(whole);
    let parent = parts.next();
    let mut keys = Vec::new();
    if parent.is_none() {
        keys.push(root_key(last));
    }
    if is_index(last) {
        keys.push(folder_key(parent.unwrap_or("")));
    }
    keys
}

/// Returns the key under which links wait for the page of this name at the wiki's root.
pub(super) fn root_key(name: &str) -> String {
    format!("/{}", fold_key(name))
}

/// Returns the key under which links wait for the page that stands for a folder of this name; the root's
/// name is empty.
pub(super) fn folder_key(folder: &str) -> String {
    format!("{}/", fold_key(folder))
}
