//! Told to stop: nothing more is claimed, nothing is lost, no attempt is used.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wiki_sync::model::Timestamp;
use wiki_sync::outbox::{Outbox as _, SqliteOutbox};
use wiki_sync::state::open_outbox_db;

use crate::wiki::Wiki;

#[test]
fn a_drain_told_to_stop_ends_soon_and_the_next_one_goes_on() {
    let wiki = Wiki::with(&[]);
    for n in 0..60 {
        wiki.write(&format!("wiki-output/p{n}.md"), format!("# Page {n}\n"));
    }
    for signal in ["-INT", "-TERM"] {
        // It has done its work and waits for more when the signal comes.
        let mut child = wiki
            .binary()
            .args(["drain", "--timeout", "60", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while wiki.json(0, &["status"])["fresh"] != true {
            assert!(Instant::now() < end, "the drain gets there");
        }
        let told = Instant::now();
        let kill = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(told.elapsed() < Duration::from_secs(10));
        wiki.write("wiki-output/p0.md", format!("# Page after {signal}\n"));
    }
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_drain_that_was_stopped_and_goes_on_damages_nothing() {
    let wiki = Wiki::with(&[]);
    for n in 0..300 {
        wiki.write(&format!("wiki-output/p{n}.md"), format!("# Page {n}\n"));
    }
    let signal = |name: &str, pid: u32| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.unwrap().success(), "{name}");
    };
    let mut child = wiki
        .binary()
        .args(["drain", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_mins(1);
    let db = wiki.root().join(".wiki-sync/outbox.db");
    let lent = || {
        let mut outbox = SqliteOutbox::open(open_outbox_db(&db).ok()?);
        Some(outbox.counts(Timestamp::now()).ok()?.in_flight)
    };
    while !db.exists() || lent().is_none_or(|lent| lent < 300) {
        assert!(Instant::now() < end, "it begins");
        std::thread::sleep(Duration::from_millis(2));
    }
    // As when a laptop's lid is closed, at several moments.
    for _ in 0..5 {
        signal("-STOP", child.id());
        wiki.write(
            "wiki-output/p0.md",
            format!("# Page {:?}\n", Instant::now()),
        );
        // Stopped in one of its short transactions, it makes others wait, and then say that they waited.
        let enqueued = wiki.ws(&["enqueue", "wiki-output/p0.md"]);
        assert!(
            matches!(enqueued.code, Some(0 | 75)),
            "{:?} {}",
            enqueued.code,
            enqueued.err
        );
        // A neighbour waits for the lock that the sleeper may hold, and says so.
        let beside = wiki.ws(&["drain", "--lock-wait", "0"]);
        assert!(
            matches!(beside.code, Some(0 | 75)),
            "{:?} {}",
            beside.code,
            beside.err
        );
        signal("-CONT", child.id());
        std::thread::sleep(Duration::from_millis(60));
        if child.try_wait().unwrap().is_some() {
            break;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    wiki.drain();
    wiki.assert_in_sync();
    for name in ["wiki.db", "outbox.db"] {
        let db = rusqlite::Connection::open(wiki.root().join(".wiki-sync").join(name)).unwrap();
        let told: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(told, "ok", "{name}");
    }
}

#[test]
fn a_drain_told_to_stop_twice_ends_at_once_and_nobody_takes_its_page_for_poison() {
    let wiki = Wiki::with(&[("wiki-output/slow.md", "# Slow\n")]);
    assert!(wiki.killed_at("drain.claimed", &["drain"]));
    let mark = wiki.root().join(".wiki-sync/working");
    let kill = |signal: &str, pid: u32| {
        let sent = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
        assert!(sent.unwrap().success(), "{signal}");
    };
    for round in 0..4 {
        let mut child = wiki
            .binary()
            .args(["drain", "--no-scan"])
            .env("WIKI_SYNC_TEST_STAY_AT", "drain.suspect")
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while !mark.exists() {
            assert!(Instant::now() < end, "round {round}: the page is in hand");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill("-INT", child.id());
        kill("-TERM", child.id());
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15), "{round}");
        assert!(!mark.exists(), "round {round}: the mark is off");
    }
    assert_eq!(wiki.drain()["dead"], 0);
    wiki.assert_in_sync();
}
