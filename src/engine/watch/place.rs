//! File systems on which others' changes make no events: a network's, and those that reach into another machine.

use std::path::Path;

/// Their numbers, from Linux's `statfs(2)` and `magic.h`.
#[cfg(target_os = "linux")]
const KINDS: [(u32, &str); 11] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x786f_4256, "a VirtualBox share"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
];

/// Returns the kind of the file system that a folder is on, when it is such a one. A folder that is not there yet is
/// judged by the one that it will be in.
#[cfg(target_os = "linux")]
pub(super) fn network_kind(folder: &Path) -> Option<&'static str> {
    fail::fail_point!("watch.network", |_| Some("NFS"));
    let there = folder.ancestors().find(|folder| folder.is_dir())?;
    let stat = rustix::fs::statfs(there).ok()?;
    // The kernel's type differs by machine; all numbers fit 32 bits.
    let number = i128::from(stat.f_type) & 0xffff_ffff;
    let mut kinds = KINDS.iter();
    kinds
        .find(|(kind, _)| i128::from(*kind) == number)
        .map(|(_, name)| *name)
}

/// Not known here: the canary says whether events arrive.
#[cfg(not(target_os = "linux"))]
pub(super) fn network_kind(_folder: &Path) -> Option<&'static str> {
    None
}
