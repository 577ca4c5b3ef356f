use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Instant;

use proptest::prelude::*;
use rusqlite::{StatementStatus, TransactionBehavior};

use super::*;
use crate::model::{Labels, StoreSet};
use crate::outbox::Death;
use crate::state::open_outbox_db;
use crate::testing::outbox_contract;

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const LEASE: Duration = Duration::from_mins(1);

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    fn open(&self) -> OutboxDb {
        open_outbox_db(&self.folder.path().join("outbox.db")).expect("opens")
    }

    /// Another connection to the same file.
    fn db(&self) -> Connection {
        drop(self.open());
        Connection::open(self.folder.path().join("outbox.db")).expect("opens")
    }

    fn outbox(&self) -> SqliteOutbox {
        SqliteOutbox::open(self.open())
    }
}

fn jobs(count: usize) -> Vec<Job> {
    (0..count)
        .map(|n| {
            let path = PagePath::parse(&format!("wiki-output/folder/page {n}.md"));
            Job::for_page(path.expect("a page's path"), None)
        })
        .collect()
}

/// Fills the table with ready jobs, without the cost of enqueueing them.
fn backlog(db: &Connection, count: usize) {
    db.execute(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
         INSERT INTO jobs (path, state, sha, repo, commit_sha, attempts, enqueued_at, due_at)
         SELECT 'wiki-output/' || n || '.md', 'ready', '', '', '', 0, ?2 + n, ?2 + n FROM n",
        params![as_limit(count), NOW.0],
    )
    .expect("fills");
}

#[test]
fn passes_the_contract() {
    let mut places = Vec::new();
    outbox_contract::run(&mut || {
        let place = Place::new();
        let outbox = Box::new(place.outbox());
        places.push(place);
        outbox
    });
}

proptest! {
    #[test]
    fn random_plays_end_as_in_the_model(steps in outbox_contract::plays()) {
        let place = Place::new();
        // Power cuts are not what this shows, and the disk is what it would wait for.
        outbox_contract::play(&mut SqliteOutbox::open(place.open().careless()), &steps);
    }
}

#[test]
fn a_recovery_beside_an_ack_undoes_none() {
    let place = Place::new();
    outbox_contract::acks_beside_recoveries(&|| Box::new(place.outbox()));
}

#[test]
fn claims_of_two_processes_never_overlap() {
    let place = Place::new();
    place.outbox().enqueue(&jobs(2000), NOW).expect("enqueue");
    let work = || {
        let mut outbox = place.outbox();
        let mut mine = Vec::new();
        loop {
            let claims = outbox.claim(30, LEASE, NOW).expect("claim").jobs;
            if claims.is_empty() {
                return mine;
            }
            let acks: Vec<_> = claims.iter().cloned().map(|c| (c, Settle::Ack)).collect();
            mine.extend(claims);
            assert_eq!(outbox.settle(&acks, NOW), Ok(Settled::default()));
        }
    };
    let claims: Vec<Claimed> = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    let ids: BTreeSet<_> = claims.iter().map(|c| &c.id).collect();
    let tokens: BTreeSet<_> = claims.iter().map(|c| c.token).collect();
    assert_eq!((claims.len(), ids.len(), tokens.len()), (2000, 2000, 2000));
    assert_eq!(place.outbox().counts(NOW), Ok(Counts::default()));
}

#[test]
fn every_writing_method_waits_for_a_neighbours_lock() {
    type Method = fn(&mut SqliteOutbox, &Claimed) -> Result<u64, OutboxError>;
    let methods: [(&str, Method); 9] = [
        ("enqueue", |o, _| {
            o.enqueue(&jobs(1), NOW).map(|e| e.new + e.merged)
        }),
        ("claim", |o, _| {
            o.claim(1, LEASE, NOW).map(|c| c.jobs.len() as u64)
        }),
        ("extend", |o, c| {
            o.extend(std::slice::from_ref(c), LEASE, NOW)
        }),
        ("settle", |o, c| {
            o.settle(&[(c.clone(), Settle::Ack)], NOW)
                .map(|s| s.refused)
        }),
        ("recover", |o, _| o.recover(false, NOW).map(|r| r.jobs)),
        ("release", |o, _| o.release(None, NOW)),
        ("bury", |o, _| {
            let junk = Junk {
                raw: vec![0xff],
                reason: "junk".into(),
            };
            o.bury(&junk, NOW).map(|()| 0)
        }),
        ("retry_dead", |o, _| o.retry_dead(&Which::All, NOW)),
        ("drop_dead", |o, _| o.drop_dead(&Which::All)),
    ];
    let place = Place::new();
    let mut outbox = place.outbox();
    for (name, method) in methods {
        outbox.enqueue(&jobs(2), NOW).expect("enqueue");
        let claim = outbox.claim(1, LEASE, NOW).expect("claim").jobs.remove(0);
        // The first one, at length: the others only need the lock to be there.
        let held_for = Duration::from_millis(if name == "enqueue" { 1000 } else { 60 });
        std::thread::scope(|scope| {
            let (locked, wait_for_lock) = mpsc::channel();
            let mut neighbour = place.db();
            scope.spawn(move || {
                let tx = neighbour
                    .transaction_with_behavior(TransactionBehavior::Immediate)
                    .expect("a lock");
                tx.execute("UPDATE outbox_token SET last = last + 1", [])
                    .expect("a write");
                locked.send(Instant::now()).expect("a listener");
                std::thread::sleep(held_for);
                tx.commit().expect("commits");
            });
            let since = wait_for_lock.recv().expect("the lock is held");
            outbox.counts(NOW).expect("readers do not wait");
            assert!(since.elapsed() < held_for, "a reader waited");
            method(&mut outbox, &claim).expect(name);
            assert!(since.elapsed() >= held_for, "{name} did not wait");
        });
        outbox.recover(true, NOW).expect("recover");
    }
}

#[test]
fn claim_ack_and_enqueue_wait_three_seconds_for_a_neighbour_and_succeed() {
    const HELD: Duration = Duration::from_secs(3);
    let place = Place::new();
    place.outbox().enqueue(&jobs(2), NOW).expect("enqueue");
    let claim = place.outbox().claim(1, LEASE, NOW).expect("claim").jobs;
    let since = std::thread::scope(|scope| {
        let mut neighbour = place.db();
        let tx = neighbour
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .expect("a lock");
        let since = Instant::now();
        let enqueue = scope.spawn(|| place.outbox().enqueue(&jobs(3), NOW));
        let ack = scope.spawn(|| {
            place
                .outbox()
                .settle(&[(claim[0].clone(), Settle::Ack)], NOW)
        });
        let extend = scope.spawn(|| place.outbox().extend(&claim, LEASE, NOW));
        let other = scope.spawn(|| place.outbox().claim(1, LEASE, NOW));
        std::thread::sleep(HELD);
        drop(tx);
        assert_eq!(
            enqueue.join().expect("ends").map(|e| e.new + e.merged),
            Ok(3)
        );
        assert_eq!(ack.join().expect("ends").map(|s| s.refused), Ok(0));
        assert!(extend.join().expect("ends").is_ok());
        assert_eq!(other.join().expect("ends").map(|c| c.jobs.len()), Ok(1));
        since
    });
    assert!(since.elapsed() >= HELD);
}

#[test]
fn a_long_write_of_the_graph_delays_no_lease_and_no_enqueue() {
    let place = Place::new();
    let mut outbox = place.outbox();
    outbox.enqueue(&jobs(1), NOW).expect("enqueue");
    let claims = outbox.claim(1, LEASE, NOW).expect("claim").jobs;
    let mut graph = crate::state::open_db(&place.folder.path().join("wiki.db")).expect("opens");
    // Never ended before the others are done: whoever needed this lock would fail.
    let tx = graph
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("a lock");
    assert_eq!(outbox.extend(&claims, LEASE, NOW), Ok(0));
    assert_eq!(outbox.enqueue(&jobs(2), NOW).map(|e| e.new), Ok(2));
    drop(tx);
}

/// WAL of fifty thousand jobs that a reader pins; run with `--long`.
#[test]
#[ignore = "half a minute: fifty thousand jobs beside a reader that never ends"]
#[expect(clippy::print_stderr, reason = "to be read by whoever runs it")]
fn the_log_shrinks_below_64_mib_after_a_reader_that_pinned_it_for_fifty_thousand_jobs() {
    let place = Place::new();
    let log = place.folder.path().join("outbox.db-wal");
    let size = || log.metadata().expect("a log").len() >> 20;
    let reader = place.db();
    let mut outbox = place.outbox();
    outbox.enqueue(&jobs(1), NOW).expect("enqueue");
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM jobs")
        .expect("a snapshot");
    for _ in 0..50 {
        outbox.enqueue(&jobs(1000), NOW).expect("enqueue");
        let claims = outbox.claim(1000, LEASE, NOW).expect("claim").jobs;
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(outbox.settle(&acks, NOW), Ok(Settled::default()));
    }
    let pinned = size();
    reader.execute_batch("COMMIT").expect("ends");
    // The first write brings the log into the database, the second begins it anew.
    for _ in 0..2 {
        outbox.enqueue(&jobs(1), NOW).expect("enqueue");
    }
    eprintln!("pinned {pinned} MiB, then {} MiB", size());
    assert!(size() <= 64, "{} MiB", size());
    let blocked: i64 = reader
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .expect("checkpoints");
    assert_eq!((blocked, size()), (0, 0));
}

#[test]
fn what_a_dead_process_had_in_hand_is_there_at_the_next_open() {
    let place = Place::new();
    let mut outbox = place.outbox();
    outbox.enqueue(&jobs(200), NOW).expect("enqueue");
    let lost = outbox.claim(200, LEASE, NOW).expect("claim").jobs;
    drop(outbox);
    let mut outbox = place.outbox();
    assert_eq!(outbox.recover(true, NOW).map(|r| r.jobs), Ok(200));
    let again = outbox.claim(1000, LEASE, NOW).expect("claim").jobs;
    assert_eq!(again.len(), 200);
    let greatest = lost.iter().map(|c| c.token).max().expect("some");
    assert!(again.iter().all(|c| c.token > greatest));
}

#[test]
fn twenty_thousand_jobs_go_in_at_once_and_out_in_thousands() {
    let mut outbox = Place::new().outbox();
    let done = outbox.enqueue(&jobs(20_000), NOW).expect("enqueue");
    assert_eq!((done.new, done.merged), (20_000, 0));
    let done = outbox.enqueue(&jobs(20_000), NOW).expect("enqueue");
    assert_eq!((done.new, done.merged), (0, 20_000));
    for _ in 0..20 {
        let claims = outbox.claim(1000, LEASE, NOW).expect("claim").jobs;
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(acks.len(), 1000);
        assert_eq!(outbox.settle(&acks, NOW), Ok(Settled::default()));
    }
    assert_eq!(outbox.counts(NOW), Ok(Counts::default()));
}

#[test]
fn a_due_retry_goes_before_a_younger_fresh_job() {
    let mut outbox = Place::new().outbox();
    let [old, young] = <[Job; 2]>::try_from(jobs(2)).expect("two");
    outbox
        .enqueue(std::slice::from_ref(&old), NOW)
        .expect("enqueue");
    let claim = outbox.claim(1, LEASE, NOW).expect("claim").jobs.remove(0);
    let retry = Settle::RetryAt {
        at: Timestamp(NOW.0 + 10),
        attempts: 1,
        version: String::new(),
        reason: String::new(),
    };
    outbox.settle(&[(claim, retry)], NOW).expect("settle");
    let later = Timestamp(NOW.0 + 20);
    outbox.enqueue(&[young], later).expect("enqueue");
    let first = outbox.claim(1, LEASE, later).expect("claim").jobs.remove(0);
    assert_eq!(first.job.path, old.path);
}

#[test]
fn no_statement_of_a_jobs_path_scans_or_sorts() {
    let place = Place::new();
    let db = place.db();
    backlog(&db, 1000);
    // Also with the planner's statistics, which could tempt it.
    for analyze in ["", "ANALYZE"] {
        db.execute_batch(analyze).expect("analyzes");
        for sql in [
            entry::CLAIMABLE,
            entry::WAITING,
            entry::CLAIMED,
            entry::LOST,
        ] {
            let plan = plan(&db, sql);
            assert!(plan.contains("SEARCH"), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}

fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .expect("prepares");
    let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
    statement
        .query_map(rusqlite::params_from_iter(nulls), |row| row.get(3))
        .expect("explains")
        .collect::<rusqlite::Result<Vec<String>>>()
        .expect("reads")
        .join("\n")
}

#[test]
fn claiming_costs_the_same_whatever_the_backlog() {
    let steps = |count: usize| {
        let place = Place::new();
        let db = place.db();
        backlog(&db, count);
        let mut steps = 0;
        for (state, to) in [(State::Ready, i64::MAX), (State::Delayed, NOW.0)] {
            let mut statement = db.prepare(entry::CLAIMABLE).expect("prepares");
            statement
                .query_map(params![state, i64::MIN, to, 100], Entry::read)
                .expect("runs")
                .for_each(|entry| drop(entry.expect("reads")));
            steps += statement.get_status(StatementStatus::VmStep);
            assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
            assert_eq!(statement.get_status(StatementStatus::Sort), 0);
        }
        steps
    };
    assert_eq!(steps(1000), steps(100_000));
}

#[test]
fn a_row_that_names_no_page_is_buried_and_stops_no_other() {
    let place = Place::new();
    let db = place.db();
    db.execute(
        "INSERT INTO jobs (path, state, sha, repo, commit_sha, attempts, enqueued_at, due_at)
         VALUES ('../outside.md', 'ready', '', 'demo', '', 2, 0, 0)",
        [],
    )
    .expect("inserts");
    let mut outbox = place.outbox();
    outbox.enqueue(&jobs(1), NOW).expect("enqueue");
    assert_eq!(outbox.pending(9).expect("pending").len(), 1);
    let claims = outbox.claim(10, LEASE, NOW).expect("claim").jobs;
    assert_eq!(claims.len(), 1);
    let letter = outbox.dead().expect("dead").remove(0);
    assert_eq!(letter.path, None);
    let line: serde_json::Value = serde_json::from_str(&letter.head).expect("JSON");
    assert_eq!(line["output_path"], "../outside.md");
    assert_eq!((&line["repo"], &line["retry"]), (&"demo".into(), &2.into()));
    assert!(letter.death.reason.contains("could lead out"), "{letter:?}");
}

#[test]
fn a_failed_transaction_leaves_nothing_behind() {
    let place = Place::new();
    let mut outbox = place.outbox();
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    let claims = outbox.claim(3, LEASE, NOW).expect("claim").jobs;
    // The disk is full when the last of three is settled.
    place
        .db()
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON dead_letters BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .expect("a trigger");
    let death = Death {
        stores: StoreSet::NONE,
        reason: String::new(),
        attempts: 1,
        version: String::new(),
        fingerprint: String::new(),
    };
    let outcomes = [Settle::Ack, Settle::Ack, Settle::Dead(death)];
    let settled: Vec<_> = claims.into_iter().zip(outcomes).collect();
    let failure = outbox.settle(&settled, NOW).expect_err("full");
    assert!(
        failure.reason.starts_with("cannot settle jobs: full"),
        "{failure}"
    );
    assert_eq!(outbox.counts(NOW).expect("counts").in_flight, 3);
    place
        .db()
        .execute_batch("DROP TRIGGER full")
        .expect("drops");
    assert_eq!(outbox.settle(&settled, NOW), Ok(Settled::default()));
}

#[test]
fn the_disk_is_waited_for_before_it_returns_and_after_the_lock_is_let_go() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    let place = Place::new();
    let mut outbox = place.outbox();
    let beside = place.db();
    beside.busy_timeout(Duration::ZERO).expect("sets");
    let beside = std::sync::Mutex::new(beside);
    let (waited, me) = (Arc::new(AtomicU32::new(0)), std::thread::current().id());
    let count = Arc::clone(&waited);
    fail::cfg_callback("outbox.before_sync", move || {
        // Other tests pass here too.
        if std::thread::current().id() == me {
            let mut beside = beside.lock().expect("nobody panicked");
            let lock = beside.transaction_with_behavior(TransactionBehavior::Immediate);
            drop(lock.expect("the lock is let go"));
            count.fetch_add(1, Ordering::Relaxed);
        }
    })
    .expect("a callback");
    let waits = |expected, what| assert_eq!(waited.swap(0, Ordering::Relaxed), expected, "{what}");
    outbox.enqueue(&jobs(250), NOW).expect("enqueue");
    waits(1, "an enqueue");
    let claims = outbox.claim(250, LEASE, NOW).expect("claim").jobs;
    waits(0, "a claim belongs to the dead after a power cut");
    outbox.extend(&claims, LEASE, NOW).expect("extends");
    waits(1, "an extension");
    let hold = Settle::Hold {
        store: StoreName::Git,
        until: None,
        version: String::new(),
        reason: String::new(),
    };
    let held: Vec<_> = claims.into_iter().map(|c| (c, hold.clone())).collect();
    outbox.settle(&held, NOW).expect("settles");
    waits(1, "a settle in three pieces");
    assert_eq!(outbox.release(None, NOW), Ok(250));
    waits(1, "a release in three pieces");
    outbox.recover(true, NOW).expect("recovers");
    assert_eq!(outbox.release(None, NOW), Ok(0));
    waits(0, "what changed nothing");
    fail::remove("outbox.before_sync");
}

#[test]
fn a_log_to_which_nobody_writes_but_who_enqueues_is_bounded() {
    let place = Place::new();
    let log = place.folder.path().join("outbox.db-wal");
    let mut longest = 0;
    for round in 0..80 {
        let jobs: Vec<_> = (0..500)
            .map(|n| {
                let path = PagePath::parse(&format!("wiki-output/{round}/{n}.md"));
                Job::for_page(path.expect("a page's path"), None)
            })
            .collect();
        // A process of its own each time.
        place.outbox().enqueue(&jobs, NOW).expect("enqueue");
        longest = longest.max(log.metadata().expect("a log").len());
    }
    let database = place.folder.path().join("outbox.db");
    let database = database.metadata().expect("a database").len();
    assert!(
        database > 3 << 20 && longest < 6 << 20,
        "{database} {longest}"
    );
}

#[test]
fn a_database_that_keeps_no_log_is_left_to_sqlite() {
    let place = Place::new();
    drop(place.open());
    let plain = Connection::open(place.folder.path().join("outbox.db")).expect("opens");
    plain
        .pragma_update(None, "journal_mode", "DELETE")
        .expect("switches");
    drop(plain);
    let mut outbox = place.outbox();
    let level = outbox
        .db
        .reader()
        .pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
    assert_eq!(level, Ok(2), "FULL");
    assert_eq!(outbox.enqueue(&jobs(3), NOW).map(|done| done.new), Ok(3));
}

#[test]
fn a_reader_that_stays_open_blocks_no_writer_and_the_log_shrinks_after_it() {
    let place = Place::new();
    let reader = place.db();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM jobs")
        .expect("a snapshot");
    let mut outbox = place.outbox();
    for round in 0..10 {
        outbox.enqueue(&jobs(500), NOW).expect("enqueue");
        let claims = outbox.claim(500, LEASE, NOW).expect("claim").jobs;
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(
            (acks.len(), outbox.settle(&acks, NOW)),
            (500, Ok(Settled::default())),
            "{round}"
        );
    }
    reader.execute_batch("COMMIT").expect("ends");
    let blocked: i64 = reader
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .expect("checkpoints");
    assert_eq!(
        blocked, 0,
        "a finished statement of the outbox pins the log"
    );
    let log = place.folder.path().join("outbox.db-wal");
    assert_eq!(log.metadata().expect("a log").len(), 0);
}

/// What one machine does; run by hand: `cargo test --lib speed_of_the_outbox -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a fact"]
#[expect(clippy::print_stderr, reason = "to be read by whoever runs it")]
fn speed_of_the_outbox() {
    let place = Place::new();
    let mut outbox = place.outbox();
    let labels = Labels {
        repo: "demo".into(),
        commit_sha: "c0".repeat(20),
    };
    let batch: Vec<_> = jobs(500)
        .into_iter()
        .map(|job| Job {
            labels: labels.clone(),
            ..job
        })
        .collect();
    for backlogged in [0, 500_000] {
        if backlogged > 0 {
            backlog(&place.db(), backlogged);
        }
        let since = Instant::now();
        for _ in 0..20 {
            outbox.enqueue(&batch, NOW).expect("enqueue");
            let claims = outbox.claim(500, LEASE, NOW).expect("claim").jobs;
            let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
            assert_eq!(
                (acks.len(), outbox.settle(&acks, NOW)),
                (500, Ok(Settled::default()))
            );
        }
        let all = 10_000.0 / since.elapsed().as_secs_f64();
        let since = Instant::now();
        for job in &batch[..100] {
            outbox
                .enqueue(std::slice::from_ref(job), NOW)
                .expect("enqueue");
        }
        let one = since.elapsed() / 100;
        let since = Instant::now();
        let claims = outbox.claim(100, LEASE, NOW).expect("claim").jobs;
        let claimed = since.elapsed();
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        outbox.settle(&acks, NOW).expect("settle");
        eprintln!(
            "backlog {backlogged}: {all:.0} jobs/s in 500s, one enqueue {one:?}, claim of 100 {claimed:?}"
        );
    }
}
