//! The pages on disk: which files are pages, walking them, reading and writing them.
//!
//! Pages are read and never rewritten; [`Wiki::write`] is for `put`, [`Wiki::replace`] and [`Wiki::rename`] are for `mv`,
//! where the user asks for it.
//! No path leads out of the wiki: symbolic links are never followed, not even by a job that names one.

mod read;
mod scratch;
mod walk;
mod write;

pub use read::Reading;
pub use walk::{Entry, Skipped, is_below};

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::model::{Failure, FailureKind, PagePath};

/// Which files are pages. Section `[wiki]` of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WikiSettings {
    /// The folder of the pages, relative to the repository's root, without a slash at the end.
    pub pages: String,
    /// Globs, relative to that folder, of the files that are pages. Case does not matter.
    pub include: Vec<String>,
    /// Globs, relative to that folder, of files and folders that are left alone, beside hidden ones.
    pub ignore: Vec<String>,
    /// The largest page, in bytes.
    pub max_page: u64,
}

impl Default for WikiSettings {
    fn default() -> Self {
        let list = |globs: &[&str]| globs.iter().map(|&glob| glob.into()).collect();
        Self {
            pages: "wiki-output".into(),
            include: list(&["**/*.md", "**/*.mdx", "**/*.markdown"]),
            ignore: Vec::new(),
            max_page: 16 << 20,
        }
    }
}

/// What `stat` says of a file; equal stats mean an untouched file, unless it is racily clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Size in bytes.
    pub size: i64,
    /// Time of the last change of content, nanoseconds since the epoch.
    pub mtime: i64,
    /// Time of the last change of content or metadata, nanoseconds since the epoch.
    pub ctime: i64,
    /// The inode.
    pub inode: i64,
}

impl FileStat {
    fn of(meta: &Metadata) -> Self {
        let ns =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: meta.size().cast_signed(),
            mtime: ns(meta.mtime(), meta.mtime_nsec()),
            ctime: ns(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino().cast_signed(),
        }
    }

    /// Returns a text that stands for content that could not be read, as the key under which a dead letter
    /// rests.
    #[must_use]
    pub fn version(&self) -> String {
        format!("stat:{}-{}-{}", self.size, self.mtime, self.ctime)
    }
}

/// The pages of one checkout.
#[derive(Debug)]
pub struct Wiki {
    root: PathBuf,
    settings: WikiSettings,
    include: GlobSet,
    ignore: GlobSet,
}

impl Wiki {
    /// Opens the wiki of the checkout at `root` (absolute). The pages' folder need not exist.
    ///
    /// # Errors
    /// `Refused` when a glob cannot be read, when the pages' folder is not a plain path below the root, or
    /// when it is, or lies behind, a symbolic link.
    pub fn open(root: &Path, settings: &WikiSettings) -> Result<Self, Failure> {
        let refused = |reason: String| Failure::new(FailureKind::Refused, reason);
        let pages = pages_folder(&settings.pages)
            .map_err(|why| refused(format!("setting wiki.pages: {why}")))?;
        let wiki = Self {
            root: root.into(),
            settings: WikiSettings {
                pages: pages.as_str().into(),
                ..settings.clone()
            },
            include: globs("wiki.include", &settings.include)?,
            ignore: globs("wiki.ignore", &settings.ignore)?,
        };
        let mut below = root.to_path_buf();
        for part in pages.as_str().split('/') {
            below.push(part);
            match fs::symlink_metadata(&below) {
                Ok(meta) if meta.is_symlink() => {
                    return Err(refused(format!("{} is a symbolic link", below.display()))
                        .hint("set wiki.pages to the folder itself: links are never followed"));
                }
                Ok(meta) if !meta.is_dir() => {
                    return Err(refused(format!("{} is not a folder", below.display())));
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                Err(e) => {
                    return Err(Failure::from_error(
                        FailureKind::Refused,
                        &format!("cannot look at {}", below.display()),
                        &e,
                    ));
                }
            }
        }
        Ok(wiki)
    }

    /// Returns the checkout's root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the pages' folder, relative to the root.
    #[must_use]
    pub fn pages_dir(&self) -> &str {
        &self.settings.pages
    }

    /// Returns the page's absolute path.
    #[must_use]
    pub fn absolute(&self, path: &PagePath) -> PathBuf {
        self.root.join(path)
    }

    /// Says whether a path is a page's by its name alone: below the pages' folder, included, neither hidden nor ignored.
    #[must_use]
    pub fn is_page(&self, path: &str) -> bool {
        self.below_pages(path)
            .is_some_and(|inner| self.wants(inner))
    }

    /// Returns a predicate that answers as [`Wiki::is_page`] and owns what it needs.
    #[must_use]
    pub fn page_test(&self) -> Box<dyn Fn(&str) -> bool + Send + Sync> {
        let twin = Self {
            root: self.root.clone(),
            settings: self.settings.clone(),
            include: self.include.clone(),
            ignore: self.ignore.clone(),
        };
        // The last folder, and whether it is ignored: whoever asks for many goes folder by folder.
        let last = Mutex::new((String::new(), true));
        Box::new(move |path| {
            let Some((folder, _)) = path.rsplit_once('/') else {
                return false;
            };
            if !twin.is_page_here(path) {
                return false;
            }
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 != folder {
                *last = (folder.to_owned(), !twin.is_folder(folder));
            }
            !last.1
        })
    }

    /// As [`Wiki::is_page`], of a path in a folder that is neither hidden nor ignored.
    fn is_page_here(&self, path: &str) -> bool {
        let is_hidden = path
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with('.'));
        !is_hidden
            && self
                .below_pages(path)
                .is_some_and(|inner| self.include.is_match(inner) && !self.ignore.is_match(inner))
    }

    /// Says whether a folder belongs to the wiki by its name: the pages' folder or one below it that is not ignored.
    #[must_use]
    pub fn is_folder(&self, path: &str) -> bool {
        path == self.settings.pages
            || self
                .below_pages(path)
                .is_some_and(|inner| !self.ignores(inner))
    }

    fn below_pages<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.settings.pages.as_str())?
            .strip_prefix('/')
    }

    /// `inner` is relative to the pages' folder.
    fn wants(&self, inner: &str) -> bool {
        self.include.is_match(inner) && !self.ignores(inner)
    }

    /// Whether the path or a folder above it is hidden or ignored. Hidden ones are editors' and tools' (`.obsidian`, `.trash`,
    /// `.a.md.swp`): no setting makes pages of them.
    fn ignores(&self, inner: &str) -> bool {
        if inner.starts_with('.') || inner.contains("/.") {
            return true;
        }
        let ends = inner
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([inner.len()]);
        ends.into_iter()
            .any(|end| self.ignore.is_match(&inner[..end]))
    }
}

/// Reads the setting `wiki.pages`: the path of a folder below the root, with or without a slash at the end.
///
/// # Errors
/// What is wrong with it.
pub fn pages_folder(text: &str) -> Result<PagePath, String> {
    let plain = text.trim_end_matches('/');
    if matches!(plain, "." | "") && !text.starts_with('/') {
        return Err(
            "the repository's root itself cannot be the wiki: move the pages into a folder in it, and name that".into(),
        );
    }
    PagePath::parse(plain).map_err(|e| e.to_string())
}

fn globs(setting: &str, globs: &[String]) -> Result<GlobSet, Failure> {
    let refused = |e: globset::Error| {
        Failure::from_error(FailureKind::Refused, &format!("setting {setting}"), &e)
    };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        // A star stays within one folder, as in .gitignore; case does not matter, as `A.MD` is a page too.
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .case_insensitive(true)
            .build()
            .map_err(refused)?;
        set.add(glob);
    }
    set.build().map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_many_pages_gets_the_answer_of_whoever_asks_for_one() {
        let settings = WikiSettings {
            ignore: vec!["drafts".into(), "**/old/*.md".into()],
            ..WikiSettings::default()
        };
        let wiki = Wiki::open(Path::new("/nowhere"), &settings).expect("a wiki");
        let is_page = wiki.page_test();
        let mut pages = 0;
        for folder in [
            "",
            "a/",
            "drafts/",
            "drafts/a/",
            ".git/",
            "a/.b/",
            "a/.b/c/",
            "a/old/",
            "a/old/c/",
        ] {
            for name in ["x.md", "X.MDX", ".x.md", "x.txt", "md"] {
                for top in ["wiki-output/", "wiki-output2/", ""] {
                    let path = format!("{top}{folder}{name}");
                    assert_eq!(is_page(&path), wiki.is_page(&path), "{path}");
                    pages += usize::from(is_page(&path));
                }
            }
        }
        assert_eq!(pages, 7);
    }
}
