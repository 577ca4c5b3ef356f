//! Reading one page, whole and as it is.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{FileStat, Wiki};
use crate::model::{ContentSha, Failure, FailureKind, PagePath};

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

/// The way out for a page in another encoding; which one it is cannot be told from the bytes.
const NOT_UTF_8: &str = "save it as UTF-8; if it is in CP949 (Korean): `iconv -f cp949 -t utf-8 OLD > NEW`, if in another encoding, name that after -f";

/// The way out for a page with a NUL byte, which is mostly no text at all, or UTF-16.
const NUL: &str = "save it as UTF-8 without NUL: `tr -d '\\000' < OLD > NEW` takes them out, `iconv -f utf-16 -t utf-8 OLD > NEW` reads UTF-16; wiki.ignore leaves out what is no page";

impl Wiki {
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
                        kind_of(&e),
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
        let read = open(&self.absolute(path)).and_then(|file| {
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
                let kind = kind_of(&e);
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
            Ok(text) if text.contains('\0') => {
                let reason = format!(
                    "page {:?} holds a NUL byte in line {}",
                    path.as_str(),
                    line_of(text.as_bytes(), text.find('\0'))
                );
                Reading::Bad {
                    failure: Failure::new(FailureKind::Rejected, reason).hint(NUL),
                    version: sha.to_string(),
                }
            }
            Ok(text) => Reading::Page {
                text,
                sha,
                stat,
                seen_at,
            },
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let reason = format!(
                    "page {:?} is not UTF-8 in line {}",
                    path.as_str(),
                    line_of(e.as_bytes(), Some(at))
                );
                Reading::Bad {
                    failure: Failure::new(FailureKind::Rejected, reason).hint(NOT_UTF_8),
                    version: sha.to_string(),
                }
            }
        }
    }

    /// Reads a file of the wiki that is no page, of at most so many bytes; `None` where there is none, as for
    /// [`Wiki::stat`], where it is larger, and where it lies outside the pages' folder or is ignored.
    ///
    /// # Errors
    /// The operating system's, other than "not found".
    pub fn read_file(&self, path: &PagePath, most: u64) -> io::Result<Option<Vec<u8>>> {
        let inside = self.below_pages(path.as_str());
        if inside.is_none_or(|inner| self.ignores(inner)) {
            return Ok(None);
        }
        let Some(stat) = self.stat(path)? else {
            return Ok(None);
        };
        if stat.size.cast_unsigned() > most {
            return Ok(None);
        }
        let file = match open(&self.absolute(path)) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        // It may have been exchanged for a link since it was looked at.
        if FileStat::of(&file.metadata()?) != stat {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
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
            // A link on the way, or another repository, which the walk leaves out too.
            if !meta.is_dir() || fs::symlink_metadata(at.join(".git")).is_ok() {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// Opens what was a regular file a moment ago. What stands in its place now shows in its stat; a pipe in it must not make us
/// wait for whoever writes.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let mut options = File::options();
    options.read(true).custom_flags(flags.cast_signed());
    options.open(path)
}

/// A file that we may not read stays so until somebody changes that, which shows in its times.
fn kind_of(error: &io::Error) -> FailureKind {
    if matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidFilename
    ) {
        FailureKind::Rejected
    } else {
        FailureKind::Transient
    }
}

/// Returns the clock, in nanoseconds since the epoch.
fn nanoseconds_now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The line, from 1, that a byte is in.
fn line_of(bytes: &[u8], at: Option<usize>) -> usize {
    bytes[..at.unwrap_or(0)]
        .split(|&byte| byte == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_stands_where_a_page_was_keeps_nobody_waiting() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let pipe = dir.path().join("page.md");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let opened = open(&pipe).expect("opened at once");
        assert!(!opened.metadata().expect("its stat").is_file());
    }
}
