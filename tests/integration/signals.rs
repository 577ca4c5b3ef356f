//! Told to stop: nothing more is claimed, nothing is lost, no attempt is used.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use wiki_sync::model::Timestamp;
use wiki_sync::outbox::{Outbox as _, SqliteOutbox};
use wiki_sync::state::open_outbox_db;
use wiki_sync::testing::RedisServer;

use crate::dice::Dice;
use crate::redis::{on_redis, until};
use crate::redis_faults::SOON;
use crate::redis_workers::waiting_for_work;
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

/// Sends a signal; to one who has just ended it goes nowhere.
fn tell(child: &Child, signal: i32) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Whether it hears SIGTERM by now, which ends it at once before.
fn listens(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let heard = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    u64::from_str_radix(heard.unwrap().trim(), 16).unwrap() & (1 << (15 - 1)) != 0
}

fn ended(child: &mut Child, what: &str) -> ExitStatus {
    let mut status = None;
    until(SOON, what, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Tells a drain at work to stop, at random moments and some of them twice; without a scan only the outbox knows of the pages.
/// `attempts` tells of the jobs that wait how often each was tried in vain.
fn told_to_stop_at_random(wiki: &Wiki, rounds: u64, seed: u64, attempts: &dyn Fn() -> Vec<u64>) {
    const SIGNALS: [i32; 2] = [2, 15];
    let mut dice = Dice::of(seed);
    let page = |n: usize| format!("wiki-output/p{n}.md");
    let micros = |n: usize| Duration::from_micros(n.try_into().unwrap());
    for n in 0..20 {
        wiki.write(&page(n), format!("# Page {n}\n"));
    }
    wiki.drain();
    let (mut obeyed, mut left) = (0, 0);
    for round in 0..rounds {
        let mut enqueue = vec!["enqueue".to_owned()];
        for _ in 0..=dice.below(6) {
            let n = dice.below(20);
            let text = format!("# Page {n} in round {round}\n\n[[p{}]]\n", dice.below(25));
            wiki.write(&page(n), text);
            enqueue.push(page(n));
        }
        let enqueue: Vec<_> = enqueue.iter().map(String::as_str).collect();
        wiki.ws(&enqueue).code(0);
        let mut drain = waiting_for_work(wiki);
        if dice.below(10) != 0 {
            until(SOON, "it listens", || listens(&drain.0));
        }
        std::thread::sleep(micros(dice.below(250_000)));
        let first = SIGNALS[usize::from(dice.below(2) == 0)];
        tell(&drain.0, first);
        let mut may_end_by = vec![first];
        if dice.below(4) == 0 {
            std::thread::sleep(micros(dice.below(30_000)));
            let second = SIGNALS[usize::from(dice.below(2) == 0)];
            tell(&drain.0, second);
            may_end_by.push(second);
        }
        let status = ended(&mut drain.0, &format!("the end of round {round}"));
        match (status.code(), status.signal()) {
            // It stopped by itself: nothing is in its hands any more.
            (Some(0 | 75), None) => {
                obeyed += 1;
                let status = wiki.json(0, &["status"]);
                // One that was ended at once may have left some; this one has not.
                let lent = status["in_flight"].as_array().unwrap();
                let ours = lent.iter().filter(|job| job["pid"] == drain.0.id());
                assert_eq!(ours.count(), 0, "round {round}: {status}");
                left += u64::from(status["outbox"]["waiting"] != 0);
            }
            // The second one ended it at once; of two that wait, the system hands on whichever it likes first.
            (Some(code), None) if may_end_by.len() > 1 && may_end_by.contains(&(code - 128)) => {}
            // It had not begun to listen, so it held nothing.
            (None, Some(signal)) if may_end_by.contains(&signal) => {}
            other => panic!("round {round}: {other:?}"),
        }
        let used = attempts();
        assert!(
            used.iter().all(|&used| used == 0),
            "round {round}: {used:?}"
        );
        if round % 20 == 19 {
            let report = wiki.json(0, &["drain", "--no-scan"]);
            assert_eq!(
                (&report["retried"], &report["dead"]),
                (&0.into(), &0.into())
            );
            wiki.assert_in_sync();
        }
    }
    assert!(
        obeyed > rounds / 2,
        "{obeyed} of {rounds} stopped by themselves"
    );
    // A few may all come when nothing is in hand.
    let is_long = rounds >= 100;
    assert!(left > 0 || !is_long, "none was told before it was done");
    let report = wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(
        (&report["retried"], &report["dead"]),
        (&0.into(), &0.into())
    );
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["dlq", "list"]), serde_json::json!([]));
}

fn stopped_at_random(rounds: u64) {
    let wiki = Wiki::with(&[]);
    let db = wiki.root().join(".wiki-sync/outbox.db");
    told_to_stop_at_random(&wiki, rounds, 0x5eed_0011, &|| {
        let mut outbox = SqliteOutbox::open(open_outbox_db(&db).unwrap());
        let pending = outbox.pending(100).unwrap();
        pending.iter().map(|job| job.attempts.into()).collect()
    });
}

fn stopped_at_random_with_redis(rounds: u64) {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::with(&[]));
    told_to_stop_at_random(&wiki, rounds, 0x5eed_0012, &|| {
        let jobs = server.cli(&["HVALS", "{deep-wiki:outbox}:waiting"]);
        let jobs = jobs.lines().filter(|line| !line.is_empty());
        jobs.map(|job| {
            let job: serde_json::Value = serde_json::from_str(job).unwrap();
            job["attempts"].as_u64().unwrap()
        })
        .collect()
    });
}

#[test]
fn told_to_stop_at_random_moments_no_drain_leaves_a_lease_or_uses_an_attempt() {
    stopped_at_random(20);
    stopped_at_random_with_redis(20);
}

#[test]
#[ignore = "five hundred drains, one after the other"]
fn told_to_stop_five_hundred_times_no_drain_leaves_a_lease_or_uses_an_attempt() {
    stopped_at_random(500);
}

#[test]
#[ignore = "five hundred drains, one after the other"]
fn told_to_stop_five_hundred_times_with_redis_no_drain_leaves_a_lease_or_uses_an_attempt() {
    stopped_at_random_with_redis(500);
}
