mod damage;
mod load;
mod outage;
mod slow;
mod wire;

use proptest::prelude::*;

use super::*;
use crate::model::{ContentSha, FailureKind, PagePath};
use crate::outbox::{Death, JobId, Standing};
use crate::testing::{RedisServer, outbox_contract};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const LEASE: Duration = Duration::from_mins(1);
const LIST: &str = "deep-wiki:outbox";
const DEAD: &str = "deep-wiki:outbox:dlq";

fn ours(name: &str) -> String {
    format!("{{deep-wiki:outbox}}:{name}")
}

fn settings(url: String) -> RedisSettings {
    RedisSettings {
        url,
        key: LIST.into(),
        dead_key: DEAD.into(),
        allow_eviction: false,
        owner: Owner {
            id: "checkout".into(),
            host: "here".into(),
            root: "/wiki".into(),
        },
        clock: Clock::Caller,
        longest_wait: LONGEST_WAIT,
        within: None,
    }
}

fn outbox(server: &RedisServer) -> RedisOutbox {
    RedisOutbox::open(settings(server.url())).expect("opens")
}

/// An outbox that goes by the server's clock, as the program's does.
fn by_server(server: &RedisServer) -> RedisOutbox {
    RedisOutbox::open(RedisSettings {
        clock: Clock::Server,
        ..settings(server.url())
    })
    .expect("opens")
}

fn job(name: &str) -> Job {
    Job::for_page(PagePath::parse(name).expect("a page's path"), None)
}

fn job_of(name: &str, content: &str) -> Job {
    Job {
        sha: Some(ContentSha::of(content.as_bytes())),
        ..job(name)
    }
}

fn jobs(count: usize) -> Vec<Job> {
    (0..count)
        .map(|n| job(&format!("wiki-output/folder/page {n}.md")))
        .collect()
}

fn take(outbox: &mut RedisOutbox, max: usize) -> Vec<Claimed> {
    outbox.claim(max, LEASE, NOW).expect("claim").jobs
}

fn ack(outbox: &mut RedisOutbox, claims: Vec<Claimed>) -> u64 {
    let acks: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
    outbox.settle(&acks, NOW).expect("settle").refused
}

fn names(claims: &[Claimed]) -> Vec<&str> {
    claims.iter().map(|c| c.job.path.as_str()).collect()
}

/// Asserts that nothing of any job is left in any key.
#[track_caller]
fn assert_empty(server: &RedisServer) {
    let left = server.cli(&["KEYS", "*"]);
    let mut left: Vec<_> = left.lines().filter(|key| !key.contains(":sent:")).collect();
    left.sort_unstable();
    assert_eq!(left, [ours("last"), ours("owner")]);
}

#[test]
fn passes_the_contract() {
    let server = RedisServer::start();
    outbox_contract::run(&mut || {
        server.cli(&["FLUSHALL"]);
        Box::new(outbox(&server))
    });
}

#[test]
fn random_plays_end_as_in_the_model() {
    let server = RedisServer::start();
    let few = ProptestConfig::with_cases(96);
    proptest!(few, |(steps in outbox_contract::plays())| {
        server.cli(&["FLUSHALL"]);
        outbox_contract::play(&mut outbox(&server), &steps);
        // Every waiting entry of a page that is not in flight stands in exactly one order.
        let count = |command: &str, name: &str| -> i64 {
            server.cli(&[command, &ours(name)]).parse().expect("a number")
        };
        let orders = ["ready", "delayed", "held:graph", "held:vectors", "held:git"];
        let standing: i64 = orders.iter().map(|name| count("ZCARD", name)).sum();
        let waiting = count("HLEN", "waiting");
        prop_assert!(standing <= waiting && waiting - standing <= count("HLEN", "in-flight"));
        prop_assert_eq!(server.cli(&["LLEN", DEAD]), server.cli(&["HLEN", &ours("letters")]));
    });
}

#[test]
fn a_recovery_beside_an_ack_undoes_none() {
    let server = RedisServer::start();
    outbox_contract::acks_beside_recoveries(&|| Box::new(outbox(&server)));
}

#[test]
fn two_outboxes_on_one_list_never_claim_the_same_job() {
    let server = RedisServer::start();
    outbox(&server).enqueue(&jobs(600), NOW).expect("enqueue");
    push_many(&server, "of a producer", 600);
    let work = || {
        let mut outbox = outbox(&server);
        let mut mine = Vec::new();
        loop {
            let claims = take(&mut outbox, 30);
            if claims.is_empty() {
                return mine;
            }
            mine.extend(claims.clone());
            assert_eq!(ack(&mut outbox, claims), 0);
        }
    };
    let claims: Vec<Claimed> = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("no panic"))
            .collect()
    });
    let pages: HashSet<_> = claims.iter().map(|c| &c.job.path).collect();
    let tokens: HashSet<_> = claims.iter().map(|c| c.token).collect();
    assert_eq!(
        (claims.len(), pages.len(), tokens.len()),
        (1200, 1200, 1200)
    );
    assert_empty(&server);
}

#[test]
fn what_a_dead_process_had_in_hand_is_there_at_the_next_open() {
    let server = RedisServer::start();
    outbox(&server).enqueue(&jobs(200), NOW).expect("enqueue");
    let lost = take(&mut outbox(&server), 200);
    let mut outbox = outbox(&server);
    assert_eq!(outbox.recover(true, NOW).map(|r| r.jobs), Ok(200));
    let again = take(&mut outbox, 1000);
    assert_eq!(again.len(), 200);
    let greatest = lost.iter().map(|c| c.token).max().expect("some");
    assert!(again.iter().all(|c| c.token > greatest));
    assert_eq!(ack(&mut outbox, lost), 200, "all refused");
    assert_eq!(ack(&mut outbox, again), 0);
    assert_empty(&server);
}

#[test]
fn the_servers_clock_judges_whatever_the_callers_says() {
    let server = RedisServer::start();
    let hour_ahead = Timestamp::now().plus(Duration::from_hours(1));
    let hour_behind = Timestamp(Timestamp::now().0 - 3_600_000);
    let mut outbox = by_server(&server);
    outbox
        .enqueue(&[job("a"), job("b")], hour_behind)
        .expect("enqueue");
    let claims = outbox.claim(9, LEASE, hour_behind).expect("claim").jobs;
    assert_eq!(
        outbox.recover(false, hour_ahead).map(|r| r.jobs),
        Ok(0),
        "no early steal"
    );
    let retry = Settle::RetryAt {
        at: hour_ahead.plus(Duration::from_secs(50)),
        attempts: 1,
        version: String::new(),
        reason: String::new(),
    };
    let settled = [(claims[0].clone(), retry), (claims[1].clone(), Settle::Ack)];
    outbox.settle(&settled, hour_ahead).expect("settle");
    assert_eq!(outbox.counts(hour_behind).expect("counts").delayed, 1);
    let due = outbox.next_due().expect("next due").expect("one");
    let wait = hour_behind.until(due).as_secs();
    assert!(
        (45..=50).contains(&wait),
        "due in {wait} s by the caller's clock"
    );
    let since = outbox.pending(9).expect("pending")[0].since;
    let off = (since.0 - hour_behind.0).abs();
    assert!(off < 30_000, "{off} ms off by the caller's clock");
}

#[test]
fn another_checkout_is_refused_and_told_the_way_out() {
    let server = RedisServer::start();
    outbox(&server).enqueue(&jobs(1), NOW).expect("enqueue");
    let other = Owner {
        id: "another".into(),
        host: "here".into(),
        root: "/elsewhere".into(),
    };
    let mut stranger = RedisOutbox::open(RedisSettings {
        owner: other.clone(),
        ..settings(server.url())
    })
    .expect("opens");
    let failure = stranger.claim(1, LEASE, NOW).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.reason.contains("/wiki on here"), "{failure}");
    assert!(
        failure
            .hint
            .expect("a hint")
            .contains("DEL '{deep-wiki:outbox}:owner'")
    );
    // Its connection was made before the other came.
    let (mut early, mut buries) = (outbox(&server), outbox(&server));
    early.counts(NOW).expect("counts");
    buries.counts(NOW).expect("counts");
    server.cli(&["FLUSHALL"]);
    stranger.enqueue(&jobs(1), NOW).expect("it is free now");
    let failure = early.enqueue(&jobs(1), NOW).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
    let junk = Junk {
        raw: b"junk".into(),
        reason: String::new(),
    };
    let failure = buries.bury(&junk, NOW).expect_err("refused");
    assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
    let now = stranger.counts(NOW).expect("counts");
    assert_eq!((now.waiting, now.dead), (1, 0));
}

#[test]
fn a_checkout_whose_state_was_lost_takes_its_outbox_over() {
    let server = RedisServer::start();
    outbox(&server).enqueue(&jobs(1), NOW).expect("enqueue");
    let mut settings = settings(server.url());
    settings.owner.id = "made anew".into();
    let mut anew = RedisOutbox::open(settings).expect("opens");
    let claims = take(&mut anew, 9);
    assert_eq!(claims.len(), 1);
    assert!(server.cli(&["GET", &ours("owner")]).contains("made anew"));
}

/// Pushes lines of `count` pages as a producer does.
fn push_many(server: &RedisServer, folder: &str, count: usize) {
    for from in (0..count).step_by(500) {
        let lines: Vec<_> = (from..count.min(from + 500))
            .map(|n| job(&format!("wiki-output/{folder}/{n}.md")).to_line())
            .collect();
        let mut command = vec!["RPUSH", LIST];
        command.extend(lines.iter().map(String::as_str));
        server.cli(&command);
    }
}
