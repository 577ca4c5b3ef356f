//! A page's file as it stands in the work tree.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use crate::model::{Failure, FailureKind, Page, PagePath};

/// Reads the page's file and compares it with the page; returns the file as it was, and when.
///
/// Stat before and after, so that the stat data speaks of the very content that was compared.
pub(super) fn read_same(file: &Path, page: &Page) -> Result<(Metadata, SystemTime), Failure> {
    let path = page.path.as_str();
    match fs::symlink_metadata(file) {
        Ok(meta) if meta.is_file() => {}
        // It was a file when it was read: its next job sees what it is now.
        Ok(_) | Err(_) => return Err(changed_since(path)),
    }
    let read = || -> io::Result<Option<(Metadata, SystemTime)>> {
        let now = SystemTime::now();
        let mut open = File::open(file)?;
        let before = open.metadata()?;
        let mut bytes = Vec::with_capacity(page.text.len() + 1);
        open.read_to_end(&mut bytes)?;
        let after = fs::symlink_metadata(file)?;
        let same = bytes == page.text.as_bytes() && stat_of(&before) == stat_of(&after);
        Ok(same.then_some((after, now)))
    };
    match read() {
        Ok(Some(seen)) => Ok(seen),
        Ok(None) => Err(changed_since(path)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
            ) =>
        {
            Err(changed_since(path))
        }
        Err(error) => Err(Failure::from_error(
            FailureKind::Transient,
            &format!("cannot read page {path:?}"),
            &error,
        )),
    }
}

/// What shows that a file was touched.
pub(super) fn stat_of(meta: &Metadata) -> impl PartialEq + use<> {
    (
        (meta.dev(), meta.ino(), meta.mode(), meta.size()),
        (
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ),
    )
}

/// What stands in a page's place.
pub(super) enum OnDisk {
    /// Nothing, or a folder: what is in it is other pages' business.
    Nothing,
    File,
    /// A symbolic link, a pipe, a socket, a device.
    Other,
}

/// Says what stands under exactly the page's name. On a file system that folds case, another spelling
/// answers to the name too.
pub(super) fn on_disk(root: &Path, page: &PagePath) -> io::Result<OnDisk> {
    let found = match fs::symlink_metadata(root.join(page)) {
        Ok(meta) if meta.is_dir() => return Ok(OnDisk::Nothing),
        Ok(meta) if meta.is_file() => OnDisk::File,
        Ok(_) => OnDisk::Other,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(OnDisk::Nothing);
        }
        Err(error) => return Err(error),
    };
    for entry in fs::read_dir(root.join(page.folder()))? {
        if entry?.file_name() == page.file_name() {
            return Ok(found);
        }
    }
    Ok(OnDisk::Nothing)
}

/// The failure of a page whose file is no longer what was read.
pub(super) fn changed_since(path: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("page {path:?} changed since it was read"),
    )
}
