//! Killed at any moment.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

const KILL_DIR: &str = "WIKI_SYNC_TEST_KILL_DIR";

/// The pages of one round: what a killed writer was at work with. Large enough to be optimised.
fn round(number: i64) -> Vec<Page> {
    let filler = filler(150);
    (0..200)
        .map(|n| {
            let count = usize::try_from((number + n) % 9 + 1).expect("small");
            page(
                &format!("w/{n}.md"),
                &sections(count, &format!("round{number} {filler}")),
            )
        })
        .collect()
}

#[test]
#[ignore = "runs only as the child of kill_at_any_moment_leaves_a_shard_that_opens_and_heals"]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(KILL_DIR) else {
        return;
    };
    let state = StateDir::of(Path::new(&dir));
    let mut store = VectorStore::open(settings("wiki-1"), &state, None).expect("a store");
    let first = store.identity().expect("identity").epoch + 1;
    fs::write(Path::new(&dir).join("started"), "").expect("said so");
    for epoch in first.. {
        put(&mut store, epoch, round(epoch));
        if epoch % 2 == 0 {
            // Moments like any other to be killed in: closing, opening, optimising.
            drop(store);
            let mut edge = crate::stores::vectors::edge::Edge::new(
                &state,
                Duration::from_secs(20),
                Shape::default(),
            );
            assert!(edge.ready(false).expect("ready"));
            if epoch % 4 == 0 {
                edge.optimize().expect("optimised");
            } else {
                // Goes on while the next pages are written.
                edge.optimize_beside().expect("begun");
            }
            store = VectorStore::over(Box::new(edge), settings("wiki-1"), None);
        }
    }
}

#[test]
fn kill_at_any_moment_leaves_a_shard_that_opens_and_heals() {
    let root = Place::edge();
    let started = root.path().join("started");
    let mut reached = 0;
    for after in [1, 7, 31, 90, 170, 260, 400, 560, 800, 1100] {
        // By this name the child is this very program, even where a build has replaced its file.
        let itself = Path::new("/proc/self/exe");
        let program = if itself.exists() {
            itself.to_owned()
        } else {
            std::env::current_exe().expect("this test")
        };
        let mut child = Command::new(program)
            .args(["--exact", "--ignored", "--nocapture"])
            .arg("stores::vectors::tests::kill::child_that_writes_until_it_is_killed")
            .env(KILL_DIR, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let end = Instant::now() + Duration::from_secs(30);
        while !started.exists() {
            assert!(Instant::now() < end, "the child did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Spread over a few batches; which step each of them meets is left to chance.
        std::thread::sleep(Duration::from_millis(after));
        child.kill().expect("killed");
        child.wait().expect("gone");
        fs::remove_file(&started).expect("removed");

        let mut store = store(&root);
        let epoch = store.identity().expect("the shard opens").epoch;
        assert!(epoch >= reached, "a flushed epoch is never lost");
        reached = epoch + 1;
        let pages = || round(reached % 5);
        put(&mut store, reached, pages());
        assert_holds(&mut store, &pages());
        assert_eq!(store.search("number0", 3).expect("searched").len(), 3);
    }
}
