//! The pages on disk: which files are pages, walking them, reading and writing them.
//!
//! Pages are read and never rewritten; [`Wiki::write`] is for `put`, where the user asks for it.
//! No path leads out of the wiki: symbolic links are never followed, not even by a job that names one.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::model::{ContentSha, Failure, FailureKind, PagePath};

/// Which files are pages. Section `[wiki]` of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WikiSettings {
    /// The folder of the pages, relative to the repository's root, without a slash at the end.
    pub pages: String,
    /// Globs, relative to that folder, of the files that are pages. Case does not matter.
    pub include: Vec<String>,
    /// Globs, relative to that folder, of files and folders that are left alone.
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
            // Hidden files are editors' and tools' (`.obsidian`, `.trash`, `.a.md.swp`).
            ignore: list(&["**/.*"]),
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

/// What a walk meets, in the order of the paths' bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A page.
    Page {
        /// Its path.
        path: PagePath,
        /// Its stat.
        stat: FileStat,
    },
    /// Something that looks like a page and is none.
    Skipped(Skipped),
}

/// Something that looks like a page and is none, or is not to be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Skipped {
    /// Its path; what is not UTF-8 in it is replaced.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What reading a page gave.
#[derive(Debug)]
pub enum Reading {
    /// The page's text, SHA and stat. `seen_at` is the clock before it was read, nanoseconds.
    Page {
        /// The text: UTF-8 without NUL.
        text: String,
        /// The SHA of its bytes.
        sha: ContentSha,
        /// Its stat, the same before and after reading.
        stat: FileStat,
        /// The clock before it was read, nanoseconds since the epoch.
        seen_at: i64,
    },
    /// There is no page of that path.
    Absent,
    /// There is something that cannot be applied as it is.
    Bad {
        /// Why, and what becomes of the job.
        failure: Failure,
        /// What stands for the content: its SHA where it could be read, else a mark of its stat.
        version: String,
    },
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
        let pages = PagePath::parse(settings.pages.trim_end_matches('/'))
            .map_err(|e| Failure::from_error(FailureKind::Refused, "setting wiki.pages", &e))?;
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

    /// Says whether a path is a page's by its name alone: below the pages' folder, included, not ignored.
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
        Box::new(move |path| twin.is_page(path))
    }

    fn below_pages<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.settings.pages.as_str())?
            .strip_prefix('/')
    }

    /// `inner` is relative to the pages' folder.
    fn wants(&self, inner: &str) -> bool {
        self.include.is_match(inner) && !self.ignores(inner)
    }

    /// Whether the path or a folder above it is ignored.
    fn ignores(&self, inner: &str) -> bool {
        let ends = inner
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([inner.len()]);
        ends.into_iter()
            .any(|end| self.ignore.is_match(&inner[..end]))
    }

    /// Visits every page and everything that only looks like one, in the order of the paths' bytes.
    ///
    /// Reads one folder at a time, so memory does not grow with the wiki but with its largest folder. A
    /// missing pages' folder is an empty wiki.
    ///
    /// # Errors
    /// `Down` when a folder cannot be read: what is in it is unknown, so nothing must be taken as gone.
    pub fn walk(&self, visit: &mut dyn FnMut(Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let top = self.root.join(&self.settings.pages);
        match fs::symlink_metadata(&top) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(unreadable(&top, &e)),
            Ok(_) => self.walk_folder(&top, &self.settings.pages, visit),
        }
    }

    fn walk_folder(
        &self,
        folder: &Path,
        name: &str,
        visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut inside = Vec::new();
        for entry in fs::read_dir(folder).map_err(|e| unreadable(folder, &e))? {
            let entry = entry.map_err(|e| unreadable(folder, &e))?;
            let kind = entry
                .file_type()
                .map_err(|e| unreadable(&entry.path(), &e))?;
            let file_name = entry.file_name();
            let Some(text) = file_name.to_str() else {
                let shown = format!("{name}/{}", file_name.to_string_lossy());
                if kind.is_dir() || self.is_page(&shown) {
                    inside.push((shown.clone(), kind, None, Some("its name is not UTF-8")));
                }
                continue;
            };
            // A folder sorts as if its name ended in `/`, which is the order of whole paths.
            let path = format!("{name}/{text}{}", if kind.is_dir() { "/" } else { "" });
            inside.push((path, kind, Some(entry), None));
        }
        inside.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (path, kind, entry, trouble) in inside {
            let (Some(entry), None) = (entry, trouble) else {
                skip(visit, &path, trouble.unwrap_or_default())?;
                continue;
            };
            if kind.is_dir() {
                let name = path.trim_end_matches('/');
                let inner = self.below_pages(name).unwrap_or_default();
                if self.ignores(inner) {
                    continue;
                }
                if self.include.is_match(inner) {
                    skip(visit, name, "it is a folder")?;
                }
                let below = entry.path();
                if fs::symlink_metadata(below.join(".git")).is_ok() {
                    skip(visit, name, "it is a repository of its own")?;
                    continue;
                }
                self.walk_folder(&below, name, visit)?;
            } else if self.is_page(&path) {
                let Ok(page) = PagePath::parse(&path) else {
                    skip(visit, &path, "its name holds a control character")?;
                    continue;
                };
                if kind.is_symlink() {
                    skip(visit, &path, "it is a symbolic link")?;
                } else if kind.is_file() {
                    match entry.metadata() {
                        Ok(meta) => visit(Entry::Page {
                            path: page,
                            stat: FileStat::of(&meta),
                        })?,
                        // Gone between listing and looking: the next walk will tell.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        Err(e) => return Err(unreadable(&entry.path(), &e)),
                    }
                } else {
                    skip(visit, &path, "it is not a regular file")?;
                }
            }
        }
        Ok(())
    }

    /// Reads a page. Never follows a symbolic link, on the whole way from the root.
    ///
    /// What is no regular file counts as absent: a link, folder or pipe in the page's place is not the page.
    #[must_use]
    pub fn read(&self, path: &PagePath) -> Reading {
        let seen_at = nanoseconds_now();
        let bad = |kind, reason: String, version: String| Reading::Bad {
            failure: Failure::new(kind, reason),
            version,
        };
        let stat = match self.stat(path) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Reading::Absent,
            Err(e) => {
                return Reading::Bad {
                    failure: Failure::from_error(
                        FailureKind::Transient,
                        &format!("cannot look at page {:?}", path.as_str()),
                        &e,
                    ),
                    version: String::new(),
                };
            }
        };
        if stat.size.cast_unsigned() > self.settings.max_page {
            return bad(
                FailureKind::Rejected,
                format!(
                    "page {:?} has {} bytes, more than wiki.max_page allows ({})",
                    path.as_str(),
                    stat.size,
                    self.settings.max_page
                ),
                stat.version(),
            );
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0) + 1);
        let read = File::open(self.absolute(path)).and_then(|file| {
            let opened = FileStat::of(&file.metadata()?);
            (&file)
                .take(self.settings.max_page + 1)
                .read_to_end(&mut bytes)?;
            Ok((opened, FileStat::of(&file.metadata()?)))
        });
        match read {
            Ok((before, after))
                if before == stat
                    && after == stat
                    && bytes.len() as u64 == stat.size.cast_unsigned() => {}
            Ok(_) => {
                return bad(
                    FailureKind::Busy,
                    format!("page {:?} is being written", path.as_str()),
                    String::new(),
                );
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Reading::Absent,
            Err(e) => {
                let kind = if e.kind() == io::ErrorKind::PermissionDenied {
                    FailureKind::Rejected
                } else {
                    FailureKind::Transient
                };
                return Reading::Bad {
                    failure: Failure::from_error(
                        kind,
                        &format!("cannot read page {:?}", path.as_str()),
                        &e,
                    ),
                    version: stat.version(),
                };
            }
        }
        let sha = ContentSha::of(&bytes);
        match String::from_utf8(bytes) {
            Ok(text) if text.contains('\0') => bad(
                FailureKind::Rejected,
                format!(
                    "page {:?} holds a NUL byte in line {}",
                    path.as_str(),
                    line_of(text.as_bytes(), text.find('\0'))
                ),
                sha.to_string(),
            ),
            Ok(text) => Reading::Page {
                text,
                sha,
                stat,
                seen_at,
            },
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                bad(
                    FailureKind::Rejected,
                    format!(
                        "page {:?} is not UTF-8 in line {}",
                        path.as_str(),
                        line_of(e.as_bytes(), Some(at))
                    ),
                    sha.to_string(),
                )
            }
        }
    }

    /// Returns the page's stat, `None` when there is no regular file, or a link stands anywhere on the way.
    ///
    /// # Errors
    /// The operating system's, other than "not found".
    pub fn stat(&self, path: &PagePath) -> io::Result<Option<FileStat>> {
        let mut at = self.root.clone();
        let mut parts = path.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            let meta = match fs::symlink_metadata(&at) {
                Ok(meta) => meta,
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Ok(None);
                }
                Err(e) => return Err(e),
            };
            if parts.peek().is_none() {
                return Ok(meta.is_file().then(|| FileStat::of(&meta)));
            }
            if !meta.is_dir() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Writes a page whole: a temporary file beside it, flushed to disk, then renamed over it. Keeps the mode of
    /// the file it replaces. Writes nothing when the content is the same; returns whether it wrote.
    ///
    /// # Errors
    /// `Rejected` when a link or something else that is no file is in the way, or the path is no page's;
    /// `Down` when the disk refuses.
    pub fn write(&self, path: &PagePath, bytes: &[u8]) -> Result<bool, Failure> {
        let rejected = |reason: String| Failure::new(FailureKind::Rejected, reason);
        if !self.is_page(path.as_str()) {
            return Err(
                rejected(format!("{:?} is not a page's path", path.as_str())).hint(format!(
                    "pages lie below {}/ and match wiki.include",
                    self.settings.pages
                )),
            );
        }
        let target = self.absolute(path);
        let down = |e: io::Error| {
            Failure::from_error(
                FailureKind::Down,
                &format!("cannot write page {:?}", path.as_str()),
                &e,
            )
        };
        let mut folder = self.root.clone();
        for part in path.folder().split('/') {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(rejected(format!("{} is not a folder", folder.display()))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&folder).map_err(down)?
                }
                Err(e) => return Err(down(e)),
            }
        }
        let old = match fs::symlink_metadata(&target) {
            Ok(meta) if meta.is_file() => Some(meta),
            Ok(_) => {
                return Err(rejected(format!(
                    "{} is not a regular file",
                    target.display()
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(down(e)),
        };
        if old
            .as_ref()
            .is_some_and(|meta| meta.len() == bytes.len() as u64)
            && fs::read(&target).map_err(down)? == bytes
        {
            return Ok(false);
        }
        let mut file = tempfile::Builder::new()
            .prefix(".wiki-sync-")
            .suffix(".tmp")
            .tempfile_in(&folder)
            .map_err(down)?;
        file.write_all(bytes).map_err(down)?;
        let permissions = match old {
            Some(meta) => meta.permissions(),
            None => new_file_permissions(),
        };
        file.as_file().set_permissions(permissions).map_err(down)?;
        file.as_file().sync_all().map_err(down)?;
        file.persist(&target).map_err(|e| down(e.error))?;
        File::open(&folder)
            .and_then(|folder| folder.sync_all())
            .map_err(down)?;
        Ok(true)
    }
}

/// `rw-r--r--`: what a page is created with, as git creates it.
fn new_file_permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

/// Returns the clock, in nanoseconds since the epoch.
pub(crate) fn nanoseconds_now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn line_of(bytes: &[u8], at: Option<usize>) -> usize {
    1 + bytes[..at.unwrap_or(0)]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

fn skip(
    visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    path: &str,
    reason: &str,
) -> Result<(), Failure> {
    visit(Entry::Skipped(Skipped {
        path: path.into(),
        reason: reason.into(),
    }))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::from_error(
        FailureKind::Down,
        &format!("cannot read {}", path.display()),
        error,
    )
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
