//! Sizes: full memory, long backlogs, many leases at once.

use std::time::Instant;

use super::*;

/// Connects past the outbox.
fn connection(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("connects")
}

/// How many scripts the server has run since its numbers were last set back.
fn scripts(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_eval"));
    calls
        .filter_map(|line| {
            line.split_once("calls=")?
                .1
                .split_once(',')?
                .0
                .parse::<u64>()
                .ok()
        })
        .sum()
}

#[test]
fn with_full_memory_claims_and_acks_go_on_and_enqueue_says_so() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(500), NOW).expect("enqueue");
    push_many(&server, "lines", 500);
    let mut held = take(&mut outbox, 100);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let failure = outbox.enqueue(&[job("new")], NOW).expect_err("full");
    assert_eq!(failure.kind, FailureKind::Down, "{failure}");
    assert!(failure.reason.contains("OOM"), "{failure}");
    assert!(failure.hint.expect("a hint").contains("maxmemory"));
    let mut done = 0;
    while !held.is_empty() {
        done += held.len();
        let renewed = outbox.extend(&held, LEASE, NOW);
        assert_eq!(renewed, Ok(0));
        assert_eq!(ack(&mut outbox, held), 0);
        held = take(&mut outbox, 100);
    }
    assert_eq!(done, 1000);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_empty(&server);
}

#[test]
fn twenty_thousand_lost_leases_come_back_in_small_steps() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(20_000), NOW).expect("enqueue");
    assert_eq!(take(&mut outbox, 20_000).len(), 20_000);
    let expired = Timestamp(NOW.0 + 60_001);
    assert_eq!(
        outbox
            .recover(false, Timestamp(NOW.0 + 59_999))
            .map(|r| r.jobs),
        Ok(0)
    );
    server.cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(outbox.recover(false, expired).map(|r| r.jobs), Ok(20_000));
    // While a script runs, the server serves nobody else.
    let steps = scripts(&server);
    assert!(steps >= 20_000 / PIECE as u64, "{steps} scripts");
    assert_eq!(outbox.counts(expired).expect("counts").waiting, 20_000);
}

#[test]
fn five_hundred_due_retries_come_at_once_and_in_order() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(500), NOW).expect("enqueue");
    let settled: Vec<_> = take(&mut outbox, 500)
        .into_iter()
        .enumerate()
        .map(|(n, claim)| {
            let retry = Settle::RetryAt {
                // The last one is due first.
                at: Timestamp(NOW.0 + 1500 - i64::try_from(n).expect("small")),
                attempts: 1,
                version: String::new(),
                reason: String::new(),
            };
            (claim, retry)
        })
        .collect();
    outbox.settle(&settled, NOW).expect("settle");
    let later = Timestamp(NOW.0 + 1250);
    let due = outbox.claim(1000, LEASE, later).expect("claim").jobs;
    assert_eq!(due.len(), 250);
    assert_eq!(due[0].job.path, settled[499].0.job.path);
    let rest = outbox
        .claim(1000, LEASE, Timestamp(NOW.0 + 1500))
        .expect("claim")
        .jobs;
    assert_eq!(rest.len(), 250);
}

/// Fills the list with lines of `count` pages, in the server itself.
fn backlog(server: &RedisServer, count: usize) {
    let mut connection = connection(server);
    for from in (0..count).step_by(5000) {
        let mut push = redis::cmd("RPUSH");
        push.arg(LIST);
        for n in from..count.min(from + 5000) {
            push.arg(job(&format!("wiki-output/backlog/{n}.md")).to_line());
        }
        push.exec(&mut connection).expect("pushes");
    }
}

/// Claims and acks `batches` of 100, and returns the time of the slowest tenth of the acks' batches.
fn slow_ack(outbox: &mut RedisOutbox, batches: usize) -> Duration {
    let mut times: Vec<_> = (0..batches)
        .map(|_| {
            let claims = take(outbox, 100);
            assert_eq!(claims.len(), 100);
            let since = Instant::now();
            assert_eq!(ack(outbox, claims), 0);
            since.elapsed()
        })
        .collect();
    times.sort();
    times[batches * 9 / 10]
}

#[test]
#[ignore = "half a million jobs take a minute"]
fn no_step_takes_long_and_acks_cost_the_same_with_a_backlog_of_half_a_million() {
    let server = RedisServer::start();
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "50000"]);
    let mut outbox = outbox(&server);
    backlog(&server, 3000);
    let small = slow_ack(&mut outbox, 30);
    for is_read in [false, true] {
        backlog(&server, 500_000);
        if is_read {
            // The same as entries: all leased, and given back by the dead.
            for _ in 0..500 {
                assert_eq!(take(&mut outbox, 1000).len(), 1000);
            }
            assert_eq!(outbox.recover(true, NOW).map(|r| r.jobs), Ok(500_000));
        }
        let large = slow_ack(&mut outbox, 100);
        assert!(
            large < small * 2,
            "{large:?} with a backlog, {small:?} without"
        );
        server.cli(&["FLUSHALL"]);
    }
    let slow = server.cli(&["SLOWLOG", "GET", "9"]);
    assert!(!slow.contains("EVAL"), "{slow}");
}

/// What one machine does; run by hand with `--run-ignored only --no-capture`.
#[test]
#[ignore = "a measurement, not a fact"]
#[expect(clippy::print_stderr, reason = "to be read by whoever runs it")]
fn speed_of_the_outbox_in_redis() {
    let server = RedisServer::start();
    let mut outbox = by_server(&server);
    let now = Timestamp::now();
    let batch = jobs(1000);
    let (mut entering, mut claiming, mut settling) = (0.0, 0.0, 0.0);
    for _ in 0..20 {
        let since = Instant::now();
        outbox.enqueue(&batch, now).expect("enqueue");
        entering += since.elapsed().as_secs_f64();
        let since = Instant::now();
        let claims = outbox.claim(1000, LEASE, now).expect("claim").jobs;
        claiming += since.elapsed().as_secs_f64();
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        let since = Instant::now();
        assert_eq!(outbox.settle(&acks, now).map(|s| s.refused), Ok(0));
        settling += since.elapsed().as_secs_f64();
    }
    let n = 20_000.0;
    eprintln!(
        "in 1000s: enqueue {:.0}/s, claim {:.0}/s, settle {:.0}/s, all three {:.0}/s",
        n / entering,
        n / claiming,
        n / settling,
        n / (entering + claiming + settling)
    );
    backlog(&server, 20_000);
    let since = Instant::now();
    for _ in 0..20 {
        let claims = outbox.claim(1000, LEASE, now).expect("claim").jobs;
        let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(acks.len(), 1000);
        outbox.settle(&acks, now).expect("settle");
    }
    eprintln!(
        "lines of producers, read, claimed and settled: {:.0}/s",
        n / since.elapsed().as_secs_f64()
    );
    let since = Instant::now();
    for job in &batch[..200] {
        outbox
            .enqueue(std::slice::from_ref(job), now)
            .expect("enqueue");
    }
    eprintln!("one enqueue: {:?}", since.elapsed() / 200);
}

/// Bytes that the server has sent so far.
fn sent(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "stats"]);
    let sent = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    sent.and_then(|sent| sent.trim().parse().ok())
        .expect("a number")
}

#[test]
fn dead_letters_are_read_by_their_beginnings_however_long_they_are() {
    let server = RedisServer::start();
    let mut connection = connection(&server);
    let mut push = |line: &[u8]| {
        let mut push = redis::cmd("RPUSH");
        push.arg(DEAD).arg(line).exec(&mut connection)
    };
    // Of another program: junk, a job with a field that nobody knows, and something huge.
    for n in 0..60 {
        let name = format!("{{\"output_path\": \"p{n}.md\", \"x\": \"");
        push(format!("{name}{}\"}}", "x".repeat(1 << 20)).as_bytes()).expect("pushes");
        push(job(&format!("w/{n}.md")).to_line().as_bytes()).expect("pushes");
    }
    push(&vec![b'z'; 100 << 20]).expect("pushes");
    let mut outbox = outbox(&server);
    let before = sent(&server);
    outbox.recover(true, NOW).expect("recover");
    let letters = outbox.dead().expect("letters");
    assert_eq!(letters.len(), 121);
    let huge = letters.last().expect("the last one");
    assert_eq!((huge.size, huge.head.len()), (100 << 20, 1024));
    let pages = letters.iter().filter(|letter| letter.path.is_some());
    assert_eq!(pages.count(), 60, "what is too long for a job is a line");
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(60));
    let ids = letters.iter().filter(|letter| letter.path.is_none());
    let [first, rest @ ..] = &ids.map(|letter| letter.id).collect::<Vec<_>>()[..] else {
        panic!("letters");
    };
    assert_eq!(outbox.drop_dead(&Which::Ids(rest.to_vec())), Ok(60));
    let told = sent(&server) - before;
    assert!(told < 3 << 20, "{told} bytes for 160 MB of dead letters");
    let line = outbox.dead_line(*first).expect("reads").expect("a line");
    assert!(line.len() > 1 << 20 && line.starts_with(b"{\"output_path\": \"p0.md\""));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(1));
    let claims = take(&mut outbox, 100);
    assert_eq!((claims.len(), ack(&mut outbox, claims)), (60, 0));
    assert_empty(&server);
}

#[test]
fn while_nobody_else_touches_the_dead_letters_their_list_is_not_read() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    for n in 0..20 {
        let junk = Junk {
            raw: vec![b'x'; 1000 + n],
            reason: "no job".into(),
        };
        outbox.bury(&junk, NOW).expect("bury");
    }
    server.cli(&["CONFIG", "RESETSTAT"]);
    outbox.recover(true, NOW).expect("recover");
    assert_eq!(outbox.dead().expect("dead").len(), 20);
    let stats = server.cli(&["INFO", "commandstats"]);
    for command in ["lindex", "lrange", "evalsha", "eval"] {
        let called = format!("cmdstat_{command}:");
        assert!(!stats.contains(&called), "{stats}");
    }
}

#[test]
#[ignore = "a hundred thousand dead letters take a minute"]
fn a_hundred_thousand_dead_letters_are_adopted_listed_retried_and_dropped_in_short_steps() {
    let server = RedisServer::start();
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "50000"]);
    let mut connection = connection(&server);
    for from in (0..100_000).step_by(2000) {
        let mut push = redis::cmd("RPUSH");
        push.arg(DEAD);
        for n in from..from + 1000 {
            push.arg(job(&format!("wiki-output/dead/{n}.md")).to_line());
            push.arg(format!("not a job: {n} {}", "x".repeat(n % 300)));
        }
        push.exec(&mut connection).expect("pushes");
    }
    let mut outbox = outbox(&server);
    let letters = outbox.dead().expect("letters");
    assert_eq!(letters.len(), 100_000);
    assert!(letters.is_sorted_by_key(|letter| letter.id));
    // The pages of a batch, from the middle of the list.
    let middle = letters[50_000..].iter().filter_map(|l| l.path.clone());
    let middle: Vec<_> = middle.take(100).collect();
    assert_eq!(outbox.dead_of(&middle).expect("letters").len(), 100);
    let some: Vec<Job> = middle.iter().map(|path| job(path.as_str())).collect();
    outbox.enqueue(&some, NOW).expect("enqueue");
    let claims = take(&mut outbox, 100);
    assert_eq!((claims.len(), ack(&mut outbox, claims)), (100, 0));
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(49_900));
    let rest = letters.iter().filter(|letter| letter.path.is_none());
    let odd: Vec<i64> = rest.map(|letter| letter.id).step_by(2).collect();
    assert_eq!(outbox.drop_dead(&Which::Ids(odd)), Ok(25_000));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(25_000));
    let slow = server.cli(&["SLOWLOG", "GET", "9"]);
    assert!(!slow.contains("EVAL"), "{slow}");
}
