//! The server away, or unwilling: told at once, nothing lost, and all well when it is back.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;

type Call = fn(&mut RedisOutbox) -> Result<(), OutboxError>;

/// Every method.
const CALLS: [(&str, Call); 14] = [
    ("enqueue", |o| o.enqueue(&jobs(1), NOW).map(drop)),
    ("claim", |o| o.claim(1, LEASE, NOW).map(drop)),
    ("settle", |o| {
        let claim = claimed_once();
        o.settle(&[(claim, Settle::Ack)], NOW).map(drop)
    }),
    ("extend", |o| {
        o.extend(&[claimed_once()], LEASE, NOW).map(drop)
    }),
    ("recover", |o| o.recover(true, NOW).map(drop)),
    ("release", |o| o.release(None, NOW).map(drop)),
    ("next_due", |o| o.next_due().map(drop)),
    ("counts", |o| o.counts(NOW).map(drop)),
    ("pending", |o| o.pending(9).map(drop)),
    ("dead", |o| o.dead().map(drop)),
    ("dead_of", |o| o.dead_of(&[job("a").path]).map(drop)),
    ("dead_line", |o| o.dead_line(1).map(drop)),
    ("retry_dead", |o| o.retry_dead(&Which::All, NOW).map(drop)),
    ("drop_dead", |o| o.drop_dead(&Which::All).map(drop)),
];

fn claimed_once() -> Claimed {
    Claimed {
        id: JobId("1".into()),
        token: 1,
        job: job("a"),
        recoveries: 0,
    }
}

/// Asserts that every method says `Down`, quickly.
#[track_caller]
fn assert_down(outbox: &mut RedisOutbox, within: Duration) {
    for (name, call) in CALLS {
        let since = Instant::now();
        let failure = call(outbox).expect_err(name);
        assert_eq!(failure.kind, FailureKind::Down, "{name}: {failure}");
        assert!(failure.reason.starts_with("cannot "), "{name}: {failure}");
        assert!(since.elapsed() < within, "{name}: {:?}", since.elapsed());
    }
}

#[test]
fn a_server_that_is_away_is_down_and_all_goes_on_when_it_is_back() {
    let mut server = RedisServer::durable();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(250), NOW).expect("enqueue");
    let mut mine = take(&mut outbox, 100);
    for _ in 0..3 {
        server.down();
        assert_down(&mut outbox, Duration::from_secs(1));
        server.up();
        // The first call already works: the scripts are loaded anew, too.
        assert_eq!(ack(&mut outbox, mine), 0);
        mine = take(&mut outbox, 50);
        assert_eq!(mine.len(), 50);
    }
    assert_eq!(ack(&mut outbox, mine), 0);
    assert_eq!(outbox.counts(NOW), Ok(Counts::default()));
    assert_empty(&server);
}

#[test]
fn a_cut_connection_is_made_anew_within_the_call() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(30), NOW).expect("enqueue");
    for _ in 0..10 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let claims = take(&mut outbox, 3);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert_eq!((claims.len(), ack(&mut outbox, claims)), (3, 0));
    }
    assert_empty(&server);
}

#[test]
fn scripts_that_the_server_forgot_are_given_to_it_again() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(2), NOW).expect("enqueue");
    server.cli(&["SCRIPT", "FLUSH"]);
    let claims = take(&mut outbox, 9);
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!((claims.len(), ack(&mut outbox, claims)), (2, 0));
}

#[test]
fn a_server_that_sleeps_is_down_and_nothing_is_done_twice() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(20), NOW).expect("enqueue");
    let claims = take(&mut outbox, 20);
    server.signal("-STOP");
    let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
    let since = Instant::now();
    let failure = outbox.settle(&acks, NOW).expect_err("asleep");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "it does not hang"
    );
    server.signal("-CONT");
    // It woke up, and found our first settle waiting, or did not: in either case one of the two counts.
    let again = outbox.settle(&acks, NOW).expect("awake");
    assert!(again.refused == 0 || again.refused == 20, "{again:?}");
    assert_eq!(outbox.counts(NOW), Ok(Counts::default()));
    assert_empty(&server);
}

#[test]
fn all_keys_lost_under_a_worker_and_it_goes_on_with_what_comes() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(5), NOW).expect("enqueue");
    let lost = take(&mut outbox, 5);
    server.cli(&["FLUSHALL"]);
    server.cli(&["RPUSH", LIST, &job("next.md").to_line()]);
    outbox.enqueue(&jobs(5), NOW).expect("enqueue");
    let claims = take(&mut outbox, 9);
    assert_eq!(claims.len(), 6);
    assert!(
        claims.iter().all(|c| c.token > lost[4].token),
        "tokens go on growing"
    );
    assert_eq!(ack(&mut outbox, lost), 5, "refused");
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);
}

#[test]
fn a_replica_takes_no_writes_and_that_is_down_until_it_is_primary_again() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    // A primary that is not there: the replica keeps what it has.
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let failure = outbox.claim(9, LEASE, NOW).expect_err("read only");
    assert_eq!(failure.kind, FailureKind::Down, "{failure}");
    assert!(
        failure.reason.to_lowercase().contains("read only"),
        "{failure}"
    );
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(take(&mut outbox, 9).len(), 3);
    assert_eq!(outbox.dead(), Ok(vec![]));
}

#[test]
fn a_server_that_cannot_save_takes_no_writes_and_that_is_down() {
    let server = RedisServer::with(&["--save", "3600 1", "--enable-protected-configs", "yes"]);
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    // The file cannot be written where a folder has its name.
    std::fs::create_dir_all(server.folder().join("dump.rdb/x")).expect("a folder");
    server.cli(&["BGSAVE"]);
    let end = Instant::now() + Duration::from_secs(10);
    while !server
        .cli(&["INFO", "persistence"])
        .contains("rdb_last_bgsave_status:err")
    {
        assert!(Instant::now() < end, "the save does not fail");
        std::thread::sleep(Duration::from_millis(10));
    }
    let failure = outbox.claim(9, LEASE, NOW).expect_err("no writes");
    assert_eq!(failure.kind, FailureKind::Down, "{failure}");
    assert!(failure.reason.contains("MISCONF"), "{failure}");
    server.cli(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert_eq!(take(&mut outbox, 9).len(), 3);
}

/// A way to the server that can fall silent, as a network does that drops packets.
struct Tunnel {
    port: u16,
    is_silent: std::sync::Arc<AtomicBool>,
}

impl Tunnel {
    fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let is_silent = std::sync::Arc::new(AtomicBool::new(false));
        let (to, silent) = (server.port(), is_silent.clone());
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(there) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                for (mut from, mut to) in [
                    (
                        from.try_clone().expect("a socket"),
                        there.try_clone().expect("a socket"),
                    ),
                    (there, from),
                ] {
                    let silent = silent.clone();
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if !silent.load(Ordering::SeqCst)
                                && to.write_all(&bytes[..count]).is_err()
                            {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Self { port, is_silent }
    }
}

#[test]
fn a_network_that_falls_silent_is_down_in_two_seconds_each_call() {
    let server = RedisServer::start();
    let tunnel = Tunnel::to(&server);
    let url = format!("redis://127.0.0.1:{}/0", tunnel.port);
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    tunnel.is_silent.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let since = Instant::now();
        let failure = outbox.claim(9, LEASE, NOW).expect_err("silent");
        assert_eq!(failure.kind, FailureKind::Down, "{failure}");
        assert!(
            since.elapsed() < Duration::from_millis(2500),
            "{:?}",
            since.elapsed()
        );
    }
    tunnel.is_silent.store(false, Ordering::SeqCst);
    assert_eq!(take(&mut outbox, 9).len(), 3);
}

/// A way to the server that loses the answer to the first change that is sent through it, and the connection with it;
/// and takes no other while it is deaf.
fn losing_one_answer(server: &RedisServer, is_deaf: std::sync::Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let to = server.port();
    std::thread::spawn(move || {
        let mut has_lost = false;
        for mut from in listener.incoming().flatten() {
            let mut there = TcpStream::connect(("127.0.0.1", to)).expect("the server");
            let mut bytes = vec![0; 1 << 20];
            // Question and answer take turns, and each comes whole: that of a change has its words.
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let is_change = bytes[..count].windows(6).any(|w| w == b"string");
                let is_lost =
                    is_change && !has_lost && bytes[..count].windows(4).any(|w| w == b"HSET");
                there.write_all(&bytes[..count]).expect("the server");
                let Ok(count @ 1..) = there.read(&mut bytes) else {
                    break;
                };
                if is_lost && bytes.starts_with(b"*1\r\n$4\r\ndone") {
                    has_lost = true;
                    drop(from);
                    while is_deaf.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    break;
                }
                if from.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        }
    });
    port
}

#[test]
fn a_claim_whose_answer_was_lost_is_not_stranded() {
    let server = RedisServer::start();
    outbox(&server).enqueue(&jobs(3), NOW).expect("enqueue");
    // All scripts are known, so that each is sent once.
    let warm = take(&mut outbox(&server), 1);
    assert_eq!(ack(&mut outbox(&server), warm), 0);
    let port = losing_one_answer(&server, std::sync::Arc::default());
    let url = format!("redis://127.0.0.1:{port}/0");
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    let claims = take(&mut outbox, 9);
    assert_eq!(claims.len(), 2, "the claim was sent again, and known again");
    assert_eq!(outbox.counts(NOW).expect("counts").in_flight, 2);
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);
}

#[test]
fn lines_read_by_a_claim_whose_answer_never_came_are_told_by_the_next() {
    let server = RedisServer::start();
    // All scripts are known, so that each is sent once.
    push_many(&server, "warm", 1);
    let warm = take(&mut outbox(&server), 1);
    assert_eq!(ack(&mut outbox(&server), warm), 0);
    push_many(&server, "page", 3);
    server.cli(&["RPUSH", LIST, "junk"]);
    let is_deaf = std::sync::Arc::new(AtomicBool::new(true));
    let port = losing_one_answer(&server, is_deaf.clone());
    let url = format!("redis://127.0.0.1:{port}/0");
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    let failure = outbox.claim(9, LEASE, NOW).expect_err("no answer");
    assert_eq!(failure.kind, FailureKind::Down, "{failure}");
    assert_eq!(server.cli(&["LLEN", LIST]), "0", "it was done");
    is_deaf.store(false, Ordering::SeqCst);
    let claims = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!(
        (claims.read, claims.buried, claims.jobs.len()),
        (4, 1, 3),
        "{claims:?}"
    );
    let next = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!(next, Claims::default());
}

#[test]
fn a_password_is_needed_and_never_told() {
    let server = RedisServer::with(&["--save", "", "--requirepass", "s3cret"]);
    let at = |userinfo: &str| {
        let url = format!("redis://{userinfo}127.0.0.1:{}/0", server.port());
        RedisOutbox::open(settings(url)).expect("opens")
    };
    at(":s3cret@").enqueue(&jobs(1), NOW).expect("enqueue");
    for userinfo in ["", ":wr0ng@", "nobody:wr0ng@"] {
        let mut outbox = at(userinfo);
        let failure = outbox.counts(NOW).expect_err(userinfo);
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
        let told = format!(
            "{failure} {failure:?} {outbox:?} {:?}",
            settings("redis://:wr0ng@x".into())
        );
        assert!(!told.contains("wr0ng"), "{told}");
    }
    let bad = settings("redis://:wr0ng@host:port/0".into());
    let failure = RedisOutbox::open(bad).expect_err("no URL");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(!format!("{failure:?}").contains("wr0ng"), "{failure:?}");
}

#[test]
fn a_user_who_may_not_ask_for_the_version_is_only_told_so() {
    let server = RedisServer::start();
    server.cli(&[
        "ACL", "SETUSER", "wiki", "on", ">pw", "~*", "+@all", "-info", "-config",
    ]);
    server.cli(&["ACL", "SETUSER", "guest", "on", ">pw", "~other*", "+@read"]);
    let url = format!("redis://wiki:pw@127.0.0.1:{}/0", server.port());
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    outbox.enqueue(&jobs(1), NOW).expect("enqueue");
    let notes = outbox.notes();
    assert!(
        notes.len() == 1 && notes[0].contains("noeviction"),
        "{notes:?}"
    );
    let url = format!("redis://guest:pw@127.0.0.1:{}/0", server.port());
    let mut guest = RedisOutbox::open(settings(url)).expect("opens");
    let failure = guest.enqueue(&jobs(1), NOW).expect_err("may not");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
}

#[test]
fn a_socket_serves_as_well() {
    let server = RedisServer::start();
    let url = format!("unix://{}?db=3", server.socket().display());
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    outbox.enqueue(&jobs(2), NOW).expect("enqueue");
    assert_eq!(take(&mut outbox, 9).len(), 2);
    assert_eq!(server.cli(&["-n", "3", "HLEN", &ours("in-flight")]), "2");
}

#[test]
fn a_server_that_throws_keys_away_is_refused_unless_allowed() {
    let server = RedisServer::with(&["--save", "", "--maxmemory-policy", "allkeys-lru"]);
    let failure = outbox(&server).enqueue(&jobs(1), NOW).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.reason.contains("allkeys-lru"), "{failure}");
    let mut forced = RedisOutbox::open(RedisSettings {
        allow_eviction: true,
        ..settings(server.url())
    })
    .expect("opens");
    forced.enqueue(&jobs(1), NOW).expect("enqueue");
    assert!(forced.notes()[0].contains("allkeys-lru"));
}
