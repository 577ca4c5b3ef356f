//! The temporary file that becomes a page. It is written where nobody commits or reads it, and what a killed process has
//! left there is removed by the next one that writes.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

/// The folder of the temporary files, in the state folder, which ignores itself.
pub(super) const FOLDER: &str = ".wiki-sync/tmp";
const PREFIX: &str = ".wiki-sync-";
const SUFFIX: &str = ".tmp";
/// The bit of a folder that gives its group to what is made in it.
const SET_GROUP: u32 = 0o2000;

/// A temporary file that holds a page's bytes, flushed to disk.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    file: NamedTempFile,
    /// The folder of the page.
    folder: &'a Path,
    bytes: &'a [u8],
    permissions: Permissions,
    /// Held as long as the file is there.
    _in_use: Option<File>,
}

impl<'a> Scratch<'a> {
    /// Writes what is to become a page in `folder` of the checkout at `root`: in the state folder, or beside the page when
    /// there is none yet or it lies on another file system.
    pub(super) fn write(
        root: &Path,
        folder: &'a Path,
        bytes: &'a [u8],
        permissions: Permissions,
    ) -> io::Result<Self> {
        let (at, in_use) = match usable(root, folder) {
            Some((at, in_use)) => (at, Some(in_use)),
            None => (folder.to_owned(), None),
        };
        Ok(Self {
            file: written(&at, folder, bytes, &permissions)?,
            folder,
            bytes,
            permissions,
            _in_use: in_use,
        })
    }

    /// Renames the file over the page.
    pub(super) fn put(self, page: &Path) -> io::Result<()> {
        fail::fail_point!("page.flushed");
        match self.file.persist(page) {
            Ok(_) => {}
            // Two mounts of one file system.
            Err(e) if e.error.kind() == io::ErrorKind::CrossesDevices => {
                written(self.folder, self.folder, self.bytes, &self.permissions)?
                    .persist(page)
                    .map_err(|e| e.error)?;
            }
            Err(e) => return Err(e.error),
        }
        File::open(self.folder)?.sync_all()
    }
}

/// Returns the folder of the temporary files, freed of what the killed have left, and the lock that says that it is in
/// use. `None` when a file cannot be renamed from there into `folder`.
fn usable(root: &Path, folder: &Path) -> Option<(PathBuf, File)> {
    let at = root.join(FOLDER);
    match fs::create_dir(&at) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => return None,
    }
    let meta = fs::symlink_metadata(&at).ok()?;
    if !meta.is_dir() || meta.dev() != fs::symlink_metadata(folder).ok()?.dev() {
        return None;
    }
    let in_use = File::open(&at).ok()?;
    // Whoever has a file in there holds the folder: when nobody does, what is there is nobody's.
    if flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_ok() {
        sweep(&at);
    }
    flock(&in_use, FlockOperation::LockShared).ok()?;
    Some((at, in_use))
}

fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(name) = name.to_str()
            && name.starts_with(PREFIX)
            && name.ends_with(SUFFIX)
        {
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a temporary file at `at` as it is to be in `folder`.
fn written(
    at: &Path,
    folder: &Path,
    bytes: &[u8],
    permissions: &Permissions,
) -> io::Result<NamedTempFile> {
    let mut new = File::options();
    new.read(true).write(true).create_new(true).mode(0o600);
    // Opened and written by ourselves: the library's errors tell the name of this file, which nobody asked for.
    let file = tempfile::Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .make_in(at, |path| new.open(path))?;
    file.as_file().write_all(bytes)?;
    let meta = fs::symlink_metadata(folder)?;
    if meta.mode() & SET_GROUP != 0 && file.as_file().metadata()?.gid() != meta.gid() {
        fchown(file.as_file(), None, Some(meta.gid()))?;
    }
    file.as_file().set_permissions(permissions.clone())?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_the_system_says_is_told_without_the_name_of_the_temporary_file() {
        let (temp, pages, _) = checkout();
        let mode = || Permissions::from_mode(0o644);
        // Where there is no folder, and in one in which nobody may make a file.
        for folder in [&pages.join("none"), Path::new("/proc/self")] {
            let error =
                Scratch::write(temp.path(), folder, b"x", mode()).expect_err("no such place");
            assert_eq!(error.to_string(), "No such file or directory (os error 2)");
        }
    }

    fn checkout() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let pages = temp.path().join("wiki-output");
        fs::create_dir(&pages).expect("a folder");
        let scratch = temp.path().join(FOLDER);
        fs::create_dir_all(&scratch).expect("a folder");
        (temp, pages, scratch)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect()
    }

    fn mode(bits: u32) -> Permissions {
        Permissions::from_mode(bits)
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_a_living_one_writes_stays() {
        let (temp, pages, folder) = checkout();
        fs::write(folder.join(".wiki-sync-killed.tmp"), "half").expect("a file");
        fs::write(folder.join("mine"), "whose?").expect("a file");
        let one = Scratch::write(temp.path(), &pages, b"one", mode(0o640)).expect("written");
        assert_eq!(
            names(&folder).len(),
            2,
            "the old one is gone: {:?}",
            names(&folder)
        );
        let two = Scratch::write(temp.path(), &pages, b"two", mode(0o644)).expect("written");
        assert!(names(&pages).is_empty());
        one.put(&pages.join("a.md")).expect("renamed");
        two.put(&pages.join("b.md")).expect("renamed");
        assert_eq!(fs::read(pages.join("a.md")).expect("a page"), b"one");
        let meta = fs::metadata(pages.join("a.md")).expect("a page");
        assert_eq!(meta.permissions().mode() & 0o777, 0o640);
        assert_eq!(names(&folder), ["mine"]);
    }

    #[test]
    fn without_a_state_folder_the_file_lies_beside_the_page() {
        let (temp, pages, _) = checkout();
        fs::remove_dir_all(temp.path().join(".wiki-sync")).expect("removed");
        let scratch = Scratch::write(temp.path(), &pages, b"x", mode(0o644)).expect("written");
        assert_eq!(names(&pages).len(), 1);
        scratch.put(&pages.join("a.md")).expect("renamed");
        assert_eq!(names(&pages), ["a.md"]);
        assert!(!temp.path().join(".wiki-sync").exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let (temp, pages, folder) = checkout();
        let elsewhere = temp.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        fs::write(elsewhere.join(".wiki-sync-x.tmp"), "not ours").expect("a file");
        fs::remove_dir(&folder).expect("removed");
        std::os::unix::fs::symlink(&elsewhere, &folder).expect("a link");
        let scratch = Scratch::write(temp.path(), &pages, b"x", mode(0o644)).expect("written");
        scratch.put(&pages.join("a.md")).expect("renamed");
        assert_eq!(names(&elsewhere), [".wiki-sync-x.tmp"]);
    }

    #[test]
    fn a_folder_that_gives_its_group_gives_it_to_the_page() {
        let (temp, pages, _) = checkout();
        let own = fs::metadata(&pages).expect("a folder");
        // Only root may give a group that it is not in.
        if own.uid() != 0 {
            return;
        }
        std::os::unix::fs::chown(&pages, None, Some(own.gid() + 7)).expect("given");
        fs::set_permissions(&pages, mode(0o2755)).expect("set");
        let scratch = Scratch::write(temp.path(), &pages, b"x", mode(0o644)).expect("written");
        scratch.put(&pages.join("a.md")).expect("renamed");
        let page = fs::metadata(pages.join("a.md")).expect("a page");
        assert_eq!(page.gid(), own.gid() + 7);
    }
}
