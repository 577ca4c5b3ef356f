//! Writing one page, for `put` and `mv`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::scratch::Scratch;
use super::{Reading, Wiki};
use crate::model::{ContentSha, Failure, FailureKind, PagePath};

impl Wiki {
    /// Writes a page whole: a temporary file, flushed to disk, then renamed over it. Keeps the mode of the file it
    /// replaces. Writes nothing when the content is the same; returns whether it wrote.
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
        let folder = self.make_folder(path)?;
        let old = match fs::symlink_metadata(&target) {
            Ok(meta) if meta.is_file() => Some(meta),
            Ok(_) => {
                return Err(rejected(format!(
                    "{} is not a regular file",
                    target.display()
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(unwritable(path, &e)),
        };
        if let Some(meta) = &old
            && meta.len() == bytes.len() as u64
            && fs::read(&target).map_err(|e| unwritable(path, &e))? == bytes
        {
            return Ok(false);
        }
        let permissions = old.map_or_else(new_file_permissions, |meta| meta.permissions());
        Scratch::write(&self.root, &folder, bytes, permissions)
            .and_then(|scratch| scratch.put(&target))
            .map_err(|e| unwritable(path, &e))?;
        Ok(true)
    }

    /// Replaces a page whole, as [`Wiki::write`] does, if it still is what it was; it is read once more just before.
    ///
    /// # Errors
    /// `Busy` when it is no longer the page with the SHA `old`; `Down` when the disk refuses.
    pub fn replace(&self, path: &PagePath, old: ContentSha, bytes: &[u8]) -> Result<(), Failure> {
        let target = self.absolute(path);
        let failed = |e: io::Error| unwritable(path, &e);
        let changed = || {
            Failure::new(
                FailureKind::Busy,
                format!("page {:?} changed meanwhile", path.as_str()),
            )
        };
        let meta = match fs::symlink_metadata(&target) {
            Ok(meta) if meta.is_file() => meta,
            Ok(_) => return Err(changed()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(changed()),
            Err(e) => return Err(failed(e)),
        };
        let folder = self.root.join(path.folder());
        let scratch =
            Scratch::write(&self.root, &folder, bytes, meta.permissions()).map_err(failed)?;
        match self.read(path) {
            Reading::Page { sha, .. } if sha == old => {}
            Reading::Page { .. } | Reading::Absent | Reading::Bad { .. } => return Err(changed()),
        }
        scratch.put(&target).map_err(failed)
    }

    /// Renames a page's file, making the folders it needs; never over anything that is there.
    ///
    /// # Errors
    /// `Rejected` when something has the new name, or is in the way of its folders; `Busy` when the page is gone; `Down`
    /// when the disk refuses.
    pub fn rename(&self, from: &PagePath, to: &PagePath) -> Result<(), Failure> {
        let failed = |e: &io::Error| unwritable(to, e);
        let folder = self.make_folder(to)?;
        let (old, new) = (self.absolute(from), self.absolute(to));
        let renamed = match fs::symlink_metadata(&new) {
            // Another spelling of the very file, on a file system that folds case.
            Ok(meta) if is_same_file(&old, &meta) => fs::rename(&old, &new),
            Ok(_) | Err(_) => rename_to_nothing(&old, &new),
        };
        match renamed {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Failure::new(
                    FailureKind::Rejected,
                    format!("{:?} is there already", to.as_str()),
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::new(
                    FailureKind::Busy,
                    format!("page {:?} is gone", from.as_str()),
                ));
            }
            Err(e) => return Err(failed(&e)),
        }
        for folder in [folder, self.root.join(from.folder())] {
            File::open(&folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    /// Makes the folder of a page, with those above it; no link is followed.
    fn make_folder(&self, path: &PagePath) -> Result<PathBuf, Failure> {
        let mut folder = self.root.clone();
        for part in path.folder().split('/') {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => {
                    return Err(Failure::new(
                        FailureKind::Rejected,
                        format!("{} is not a folder", folder.display()),
                    ));
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&folder).map_err(|e| unwritable(path, &e))?;
                }
                Err(e) => return Err(unwritable(path, &e)),
            }
        }
        Ok(folder)
    }
}

fn unwritable(path: &PagePath, error: &io::Error) -> Failure {
    let doing = format!("cannot write page {:?}", path.as_str());
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that disk".to_owned()
        }
        _ => format!("see who may write there: `ls -ld '{}'`", path.folder()),
    };
    Failure::from_error(FailureKind::Down, &doing, error).hint(hint)
}

fn is_same_file(old: &Path, new: &fs::Metadata) -> bool {
    // Of two names in one folder of a file with two links a rename does nothing.
    fs::symlink_metadata(old)
        .is_ok_and(|old| (old.dev(), old.ino()) == (new.dev(), new.ino()) && new.nlink() == 1)
}

/// Renames a file to a name that nothing has, in one step where the file system can.
fn rename_to_nothing(old: &Path, new: &Path) -> io::Result<()> {
    let there = rustix::fs::CWD;
    match rustix::fs::renameat_with(there, old, there, new, rustix::fs::RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            if fs::symlink_metadata(new).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(old, new)
        }
        other => Ok(other?),
    }
}

/// `rw-r--r--`: what a page is created with, as git creates it.
fn new_file_permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_names_the_page_and_the_way_out() {
        let page = PagePath::parse("wiki-output/sub/a.md").expect("a path");
        let failure = unwritable(&page, &io::Error::from_raw_os_error(30));
        assert_eq!(failure.kind, FailureKind::Down);
        assert_eq!(
            failure.reason,
            "cannot write page \"wiki-output/sub/a.md\": Read-only file system (os error 30)"
        );
        let hint = failure.hint.expect("a way out");
        assert!(hint.contains("`ls -ld 'wiki-output/sub'`"), "{hint}");
        let full = unwritable(&page, &io::Error::from_raw_os_error(28));
        assert!(
            full.hint.expect("a way out").contains("room"),
            "{}",
            full.reason
        );
    }
}
