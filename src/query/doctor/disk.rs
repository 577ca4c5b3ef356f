//! File systems, and the room on them.

use std::path::Path;

use crate::model::Finding;
use crate::state::{Foreign, Room, StateDir, foreign_file_system, room};

/// With less than this the embedded vectors are not written any more (32 MiB, and as much again for what others take).
const NO_ROOM: u64 = 64 << 20;
/// A warning's worth: a rebuild of the vectors writes all of them once more.
const LITTLE_ROOM: u64 = 1 << 30;
/// Files that a drain of a batch may make, many times over: git makes one for each page.
const FEW_FILES: u64 = 10_000;

/// Looks at where the state, the pages and the repository lie. `by_events`: a watch is to hear of changes by events.
#[must_use]
pub fn examine(state: &StateDir, pages: &Path, root: &Path, by_events: bool) -> Vec<Finding> {
    let mut found = kinds(
        foreign_file_system(state.path()),
        foreign_file_system(pages),
        by_events,
    );
    found.extend(room(state.path()).map(|room| has_room(".wiki-sync", room)));
    // One line for one disk.
    if room(state.path()) != room(root) {
        found.extend(room(root).map(|room| has_room("the repository", room)));
    }
    found
}

fn kinds(state: Option<Foreign>, pages: Option<Foreign>, by_events: bool) -> Vec<Finding> {
    const NAME: &str = "file system";
    let mut found = Vec::new();
    match state {
        Some(Foreign { name, is_network: true }) => found.push(Finding::fault(
            NAME,
            format!(".wiki-sync lies on {name}, where several processes cannot share an SQLite database"),
            "keep the checkout on a local disk; or let .wiki-sync be a mount of one, it can be lost",
        )),
        Some(Foreign { name, .. }) => found.push(Finding::note(
            NAME,
            format!(".wiki-sync lies on {name}: whether locks and shared memory hold there is not known"),
            "if another machine is behind it (sshfs), keep the checkout on a local disk",
        )),
        None => {}
    }
    if let Some(Foreign { name, .. }) = pages.filter(|_| by_events) {
        found.push(Finding::note(
            NAME,
            format!("the pages lie on {name}: others' changes make no events, so a watch looks at them again and again"),
            "set watch.mode = \"events\" if all changes are made on this machine, else \"poll\"",
        ));
    }
    if found.is_empty() {
        found.push(Finding::ok(NAME, "local, for the state and the pages"));
    }
    found
}

fn has_room(whose: &str, room: Room) -> Finding {
    const NAME: &str = "room";
    const FREE: &str =
        "free some space: `df -h .` and `du -xh --max-depth=2 . | sort -h` show what takes it";
    let mib = room.bytes >> 20;
    if room.bytes < NO_ROOM {
        let what =
            format!("{mib} MiB are left for {whose}: too little to write to the stores safely");
        return Finding::fault(NAME, what, FREE);
    }
    if let Some(files) = room.files.filter(|&files| files < FEW_FILES) {
        let what = format!("{files} more files can be made for {whose} (inodes)");
        return Finding::warning(
            NAME,
            what,
            "remove files: `df -i .` shows how many there may be",
        );
    }
    if room.bytes < LITTLE_ROOM {
        let what = format!("{mib} MiB are left for {whose}");
        return Finding::warning(NAME, what, FREE);
    }
    Finding::ok(
        NAME,
        format!("{} GiB are left for {whose}", room.bytes >> 30),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Level;

    #[test]
    fn too_little_room_is_told_before_it_is_none() {
        let level = |bytes, files| has_room("x", Room { bytes, files }).level;
        assert_eq!(level(1 << 20, None), Level::Fault);
        assert_eq!(level(500 << 20, Some(1 << 20)), Level::Warning);
        assert_eq!(level(5 << 30, Some(99)), Level::Warning);
        assert_eq!(level(5 << 30, None), Level::Ok);
    }

    #[test]
    fn a_network_under_the_state_is_a_fault_and_under_the_pages_a_note() {
        let nfs = Some(Foreign {
            name: "NFS",
            is_network: true,
        });
        let fuse = Some(Foreign {
            name: "FUSE",
            is_network: false,
        });
        let levels = |state, pages, by_events| -> Vec<Level> {
            kinds(state, pages, by_events)
                .iter()
                .map(|found| found.level)
                .collect()
        };
        assert_eq!(levels(nfs, nfs, true), [Level::Fault, Level::Note]);
        assert_eq!(levels(fuse, None, true), [Level::Note]);
        assert_eq!(levels(None, nfs, false), [Level::Ok]);
    }
}
