//! One entry of the index.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use git2::Oid;

const STAGE_MASK: u16 = 0x3000;
const ASSUME_UNCHANGED: u16 = 0x8000;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// The mode of a plain file in trees and in the index.
pub(super) const MODE_FILE: u32 = 0o100_644;
/// The mode of an executable file.
pub(super) const MODE_EXECUTABLE: u32 = 0o100_755;
/// The mode of another repository's commit: a submodule.
pub(super) const MODE_COMMIT: u32 = 0o160_000;

/// Says whether a mode is that of a regular file, executable or not.
pub(super) fn is_regular(mode: u32) -> bool {
    mode == MODE_FILE || mode == MODE_EXECUTABLE
}

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// ctime s and ns, mtime s and ns, dev, ino, mode, uid, gid, size: in the file's order.
    pub(super) words: [u32; 10],
    pub(super) id: [u8; 20],
    /// Without the name's length, which is made anew when written.
    pub(super) flags: u16,
    pub(super) extended: u16,
    pub(super) path: Box<[u8]>,
}

impl Entry {
    /// Makes an entry of a file whose content is known to be `id`. Without `stat` git compares the
    /// content at its next look (a size of 0 is what git itself writes into an entry it cannot trust).
    pub(super) fn new(path: &str, mode: u32, id: Oid, stat: Option<&Metadata>) -> Self {
        // Git keeps the low 32 bits of each and compares only those.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let words = stat.map_or([0; 10], |stat| {
            [
                stat.ctime() as u32,
                stat.ctime_nsec() as u32,
                stat.mtime() as u32,
                stat.mtime_nsec() as u32,
                stat.dev() as u32,
                stat.ino() as u32,
                0,
                stat.uid(),
                stat.gid(),
                stat.size() as u32,
            ]
        });
        let mut entry = Self {
            words,
            id: [0; 20],
            flags: 0,
            extended: 0,
            path: path.as_bytes().into(),
        };
        entry.words[6] = mode;
        entry.id.copy_from_slice(id.as_bytes());
        entry
    }

    pub(super) fn mode(&self) -> u32 {
        self.words[6]
    }

    pub(super) fn mtime_seconds(&self) -> u32 {
        self.words[2]
    }

    pub(super) fn id(&self) -> Oid {
        Oid::from_bytes(&self.id).expect("20 bytes are an id")
    }

    pub(super) fn stage(&self) -> u16 {
        (self.flags & STAGE_MASK) >> 12
    }

    pub(super) fn is_skip_worktree(&self) -> bool {
        self.extended & SKIP_WORKTREE != 0
    }

    pub(super) fn is_intent_to_add(&self) -> bool {
        self.extended & INTENT_TO_ADD != 0
    }

    pub(super) fn is_assume_unchanged(&self) -> bool {
        self.flags & ASSUME_UNCHANGED != 0
    }
}
