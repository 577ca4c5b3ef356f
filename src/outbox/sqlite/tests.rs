use super::*;
use crate::testing::outbox_contract;

use crate::state::open_db;

fn open(folder: &tempfile::TempDir) -> SqliteOutbox {
    SqliteOutbox::open(open_db(&folder.path().join("wiki.db")).expect("opens"))
}

#[test]
fn passes_the_contract() {
    let mut folders = Vec::new();
    outbox_contract::run(&mut || {
        let folder = tempfile::tempdir().expect("a folder");
        let outbox = Box::new(open(&folder));
        folders.push(folder);
        outbox
    });
}
