//! The disk that the state and the pages lie on: which kind of file system, and how much room there is.

use std::path::Path;

use crate::model::{Failure, FailureKind};

/// A file system that reaches beyond this machine, or into another one. Others' changes on it make no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Its name.
    pub name: &'static str,
    /// Several processes cannot share an `SQLite` database on it: the WAL needs memory shared by all, and a network has none.
    pub is_network: bool,
}

const fn network(name: &'static str) -> Foreign {
    Foreign {
        name,
        is_network: true,
    }
}

const fn shared(name: &'static str) -> Foreign {
    Foreign {
        name,
        is_network: false,
    }
}

/// Their magic numbers (statfs(2), linux/magic.h).
const FOREIGN: [(u64, Foreign); 11] = [
    (0x6969, network("NFS")),
    (0x517b, network("SMB")),
    (0xff53_4d42, network("CIFS")),
    (0xfe53_4d42, network("SMB")),
    (0x0102_1997, network("9p")),
    (0x5346_414f, network("AFS")),
    (0x6b41_4653, network("AFS")),
    (0x00c3_6400, network("Ceph")),
    (0x7375_7245, network("Coda")),
    // What is behind it cannot be seen.
    (0x6573_5546, shared("FUSE")),
    (0x786f_4256, shared("a VirtualBox share")),
];

/// Returns the file system that a file or folder lies on, or would lie on, where it is such a one. One that cannot be asked
/// is taken for local.
#[must_use]
pub fn foreign_file_system(path: &Path) -> Option<Foreign> {
    named(kind_of(path)?)
}

fn named(kind: u64) -> Option<Foreign> {
    let mut all = FOREIGN.iter();
    all.find(|(magic, _)| *magic == kind)
        .map(|(_, foreign)| *foreign)
}

/// Refuses a database on a network file system.
///
/// # Errors
/// `Refused`, with the way out.
pub(super) fn refuse_remote(path: &Path) -> Result<(), Failure> {
    fail::fail_point!("state.network", |_| judge(path, named(0x6969)));
    judge(path, foreign_file_system(path))
}

fn judge(path: &Path, found: Option<Foreign>) -> Result<(), Failure> {
    let Some(foreign) = found.filter(|foreign| foreign.is_network) else {
        return Ok(());
    };
    Err(Failure::new(
        FailureKind::Refused,
        format!(
            "{} lies on {}, where several processes cannot share an SQLite database",
            path.display(),
            foreign.name
        ),
    )
    .hint("keep the checkout on a local disk; or let .wiki-sync be a mount of one, it can be lost"))
}

/// Returns the nearest folder upward that is there, the path itself included.
fn there(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| folder.is_dir())
}

/// Returns the magic number of the file system.
#[cfg(target_os = "linux")]
fn kind_of(path: &Path) -> Option<u64> {
    let told = rustix::fs::statfs(there(path)?).ok()?;
    // The numbers are 32 bits long; the field's type differs by machine, and a signed one may come sign-extended.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Some(told.f_type as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn kind_of(_path: &Path) -> Option<u64> {
    None
}

/// How much room a file system has for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Files; `None` where it does not count them.
    pub files: Option<u64>,
}

/// Returns how much room there is where a folder lies, or would lie; `None` where the system does not say.
#[must_use]
pub fn room(path: &Path) -> Option<Room> {
    let told = rustix::fs::statvfs(there(path)?).ok()?;
    Some(Room {
        bytes: told.f_bavail.saturating_mul(told.f_frsize),
        files: (told.f_files > 0).then_some(told.f_favail),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_fuse_is_not_known_and_makes_no_events() {
        let fuse = named(0x6573_5546).expect("known");
        assert_eq!((fuse.name, fuse.is_network), ("FUSE", false));
        assert_eq!(named(0xef53), None);
    }

    #[test]
    fn a_network_file_system_is_refused_by_name_with_the_way_out() {
        let path = Path::new("/home/me/wiki/.wiki-sync/outbox.db");
        for (kind, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p")] {
            let failure = judge(path, named(kind)).expect_err("refused");
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(failure.reason.contains(name), "{failure}");
            assert!(failure.hint.is_some_and(|hint| hint.contains("local disk")));
        }
    }

    #[test]
    fn local_and_unknown_file_systems_are_taken() {
        // ext4, btrfs, tmpfs, overlay, FUSE.
        for kind in [0xef53, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x6573_5546] {
            assert_eq!(judge(Path::new("x"), named(kind)), Ok(()));
        }
        assert_eq!(judge(Path::new("x"), None), Ok(()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_is_asked_of_the_folder_although_the_file_is_not_there_yet() {
        assert_eq!(kind_of(Path::new("/proc/none.db")), Some(0x9fa0));
    }
}
