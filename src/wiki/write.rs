//! Writing one page, for `put`.

use std::fs::{self, File};
use std::io::{self, Write as _};

use super::Wiki;
use crate::model::{Failure, FailureKind, PagePath};

impl Wiki {
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
                    fs::create_dir(&folder).map_err(down)?;
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
