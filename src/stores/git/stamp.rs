//! What tells one file from another that has come into its place.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

/// Bytes of a SHA-1, and of the trailer of an index file.
pub(super) const SHA_LEN: usize = 20;

/// What tells one index file from the next: git replaces it by rename, and an inode number may come again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: i64,
    mtime_nsec: i64,
    /// The file's last 20 bytes in hex: the SHA-1 of the rest.
    checksum: String,
}

impl Stamp {
    /// Returns the stamp of the file at `path`, `None` when there is none.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let meta = file.metadata()?;
        let mut trailer = [0; SHA_LEN];
        if let Some(at) = meta.size().checked_sub(SHA_LEN as u64) {
            file.read_exact_at(&mut trailer, at)?;
        }
        Ok(Some(Self::new(&meta, &trailer)))
    }

    pub(super) fn new(meta: &Metadata, trailer: &[u8]) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime: meta.mtime(),
            mtime_nsec: meta.mtime_nsec(),
            checksum: hex(trailer),
        }
    }

    /// Seconds since the epoch.
    pub(super) fn mtime_seconds(&self) -> i64 {
        self.mtime
    }

    /// Returns when the file was last modified.
    pub(super) fn modified(&self) -> std::time::SystemTime {
        let since = std::time::Duration::new(
            u64::try_from(self.mtime).unwrap_or(0),
            u32::try_from(self.mtime_nsec).unwrap_or(0),
        );
        std::time::UNIX_EPOCH + since
    }
}

/// Returns bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}

/// Returns the SHA-1 of a file's bytes in hex, `None` when there is no such file.
pub(super) fn sha_of_file(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(hex(&Sha1::digest(bytes)))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
