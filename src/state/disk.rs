//! Which file system the state lies on: SQLite's WAL needs memory shared by all processes, and a network has none.

use std::path::Path;

use crate::model::{Failure, FailureKind};

/// Network file systems by their magic number (statfs(2), linux/magic.h).
const REMOTE: [(u64, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
];

/// Refuses a database on a network file system. One that cannot be asked is taken for local.
///
/// # Errors
/// `Refused`, with the way out.
pub(super) fn refuse_remote(path: &Path) -> Result<(), Failure> {
    judge(path, kind_of(path))
}

fn judge(path: &Path, kind: Option<u64>) -> Result<(), Failure> {
    let Some((_, name)) = REMOTE.iter().find(|(magic, _)| Some(*magic) == kind) else {
        return Ok(());
    };
    Err(Failure::new(
        FailureKind::Refused,
        format!(
            "{} lies on {name}, where several processes cannot share an SQLite database",
            path.display()
        ),
    )
    .hint("keep the checkout on a local disk; or let .wiki-sync be a mount of one, it can be lost"))
}

/// Returns the magic number of the file system that a file lies on, or would lie on.
#[cfg(target_os = "linux")]
fn kind_of(path: &Path) -> Option<u64> {
    let folder = path.parent()?;
    let told = rustix::fs::statfs(folder).ok()?;
    // The numbers are 32 bits long; the field's type differs by machine, and a signed one may come sign-extended.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Some(told.f_type as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn kind_of(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_is_refused_by_name_with_the_way_out() {
        let path = Path::new("/home/me/wiki/.wiki-sync/outbox.db");
        for (kind, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p")] {
            let failure = judge(path, Some(kind)).expect_err("refused");
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(failure.reason.contains(name), "{failure}");
            assert!(failure.hint.is_some_and(|hint| hint.contains("local disk")));
        }
    }

    #[test]
    fn local_and_unknown_file_systems_are_taken() {
        // ext4, btrfs, tmpfs, overlay, FUSE.
        for kind in [0xef53, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x6573_5546] {
            assert_eq!(judge(Path::new("x"), Some(kind)), Ok(()));
        }
        assert_eq!(judge(Path::new("x"), None), Ok(()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_is_asked_of_the_folder_although_the_file_is_not_there_yet() {
        assert_eq!(kind_of(Path::new("/proc/none.db")), Some(0x9fa0));
    }
}
