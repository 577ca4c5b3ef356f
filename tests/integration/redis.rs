//! The outbox in Redis: producers write lines with `redis-cli`, the built binary drains them.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wiki_sync::testing::RedisServer;

use crate::wiki::{Wiki, certificate};

pub(crate) const LIST: &str = "deep-wiki:outbox";

pub(crate) fn on_redis(server: &RedisServer, mut wiki: Wiki) -> Wiki {
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), server.url());
    wiki
}

pub(crate) fn push(server: &RedisServer, path: &str) {
    let line =
        json!({"sha": "", "output_path": path, "repo": "demo", "commit_sha": "c0", "retry": 0});
    server.cli(&["RPUSH", LIST, &line.to_string()]);
}

/// Waits until `is_so`, and returns how long that took.
#[track_caller]
pub(crate) fn until(within: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < within, "{what} within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    since.elapsed()
}

/// Asserts that every job that was there is accounted for.
#[track_caller]
pub(crate) fn assert_adds_up(wiki: &Wiki, drain: &Value) {
    let n = |value: &Value| value.as_u64().expect("a number");
    let status = wiki.json(0, &["status"]);
    let outbox = &status["outbox"];
    let left = ["waiting", "delayed", "in_flight", "held"].map(|state| n(&outbox[state]));
    let ended = n(&drain["processed"]) + n(&drain["merged"]) + n(&drain["dlq"]);
    assert_eq!(
        n(&drain["enqueued"]),
        ended + left.iter().sum::<u64>(),
        "{drain} {outbox}"
    );
}

#[test]
fn lines_of_producers_reach_every_store_and_all_of_them_are_accounted_for() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    for path in ["wiki-output/a.md", "wiki-output/b.md", "wiki-output/a.md"] {
        push(&server, path);
    }
    server.cli(&["RPUSH", LIST, "not json {"]);
    push(&server, "../../etc/passwd");
    push(&server, "wiki-output/gone.md");
    push(&server, "README");
    let drain = wiki.json(3, &["drain"]);
    assert_adds_up(&wiki, &drain);
    // Junk, the path outside the repository, and the file that is no page.
    assert_eq!((&drain["dlq"], &drain["dead"]), (&json!(3), &json!(3)));
    assert_eq!(server.cli(&["LLEN", LIST]), "0");
    let dead = wiki.json(0, &["dlq", "list"]);
    assert_eq!(dead.as_array().map(Vec::len), Some(3));
    assert_eq!(
        server.cli(&["LINDEX", "deep-wiki:outbox:dlq", "0"]),
        "not json {"
    );
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    wiki.assert_in_sync();
}

#[test]
fn a_drain_that_stops_early_accounts_for_what_it_left() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    for path in [
        "wiki-output/a.md",
        "wiki-output/b.md",
        "wiki-output/sub/c.md",
    ] {
        push(&server, path);
        push(&server, path);
    }
    let drain = wiki.json(0, &["drain", "--no-scan", "--max-jobs", "2"]);
    assert_eq!(
        (&drain["processed"], &drain["enqueued"]),
        (&json!(2), &json!(6))
    );
    assert_adds_up(&wiki, &drain);
    let rest = wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(
        (&rest["processed"], &rest["unchanged"]),
        (&json!(2), &json!(1))
    );
    assert_adds_up(&wiki, &rest);
    wiki.assert_in_sync();
}

#[test]
fn a_line_that_comes_while_a_drain_waits_is_seen_within_a_second() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::with(&[("wiki-output/a.md", "# A\n")]));
    let drain = wiki
        .binary()
        .args(["drain", "--timeout", "4", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut drain = Ended(drain);
    let holds = |page: &str| wiki.head_pages().iter().any(|path| path == page);
    until(Duration::from_secs(20), "the first page", || {
        holds("wiki-output/a.md")
    });
    for round in 0..5 {
        let page = format!("wiki-output/new {round}.md");
        wiki.write(&page, format!("# New {round}\n"));
        push(&server, &page);
        let lag = until(Duration::from_secs(5), &page, || holds(&page));
        assert!(lag < Duration::from_secs(1), "{page}: {lag:?}");
    }
    let report = drain.report();
    assert_eq!(
        (&report["processed"], &report["enqueued"]),
        (&json!(6), &json!(6))
    );
    assert_adds_up(&wiki, &report);
    wiki.assert_in_sync();
}

/// A child that is killed and reaped whatever happens.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    /// Waits for the end, which must be a good one, and returns what it printed.
    pub(crate) fn report(&mut self) -> Value {
        self.report_of(0)
    }

    /// Waits for an end with this exit code, and returns what it printed.
    #[track_caller]
    pub(crate) fn report_of(&mut self, code: i32) -> Value {
        let mut text = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        out.read_to_string(&mut text).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(code), "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_is_away_means_try_later_and_says_where_it_is() {
    let mut server = RedisServer::durable();
    let mut wiki = on_redis(&server, Wiki::small());
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), "0.1".into());
    push(&server, "wiki-output/a.md");
    server.down();
    for args in [
        &["drain"][..],
        &["status"],
        &["enqueue", "wiki-output/a.md"],
    ] {
        let ran = wiki.ws(args).code(75);
        let place = format!("redis at 127.0.0.1:{}", server.port());
        assert!(ran.err.contains(&place), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("hint:"), "{args:?}: {}", ran.err);
    }
    server.up();
    let drain = wiki.drain();
    assert_eq!(drain["processed"], 3);
    wiki.assert_in_sync();
}

/// Every failpoint that a drain of lines passes on its way through the outbox.
const POINTS: &[&str] = &[
    "outbox.enqueued",
    "outbox.recovered",
    "outbox.read",
    "outbox.claimed",
    "drain.claimed",
    "drain.applied#1",
    "drain.before_settle",
    "outbox.before_settle",
    "outbox.settled",
    "drain.settled",
];

#[test]
fn killed_anywhere_between_reading_a_line_and_settling_it_no_job_is_lost() {
    let server = RedisServer::start();
    for point in POINTS {
        server.cli(&["FLUSHALL"]);
        let wiki = on_redis(&server, Wiki::small());
        for path in [
            "wiki-output/a.md",
            "wiki-output/b.md",
            "wiki-output/sub/c.md",
        ] {
            push(&server, path);
        }
        // Without a scan only the lines bring the pages in, except where a scan enqueues.
        let scan = (*point == "outbox.enqueued").then_some("--no-wait");
        let first = ["drain", scan.unwrap_or("--no-scan")];
        assert!(wiki.killed_at(point, &first), "{point} is passed");
        let drain = wiki.json(0, &["drain", "--no-scan"]);
        assert_eq!(
            server.cli(&["HLEN", "{deep-wiki:outbox}:waiting"]),
            "0",
            "{point}"
        );
        assert_eq!(
            server.cli(&["HLEN", "{deep-wiki:outbox}:in-flight"]),
            "0",
            "{point}"
        );
        if !matches!(*point, "outbox.settled" | "drain.settled") {
            assert_eq!(drain["processed"], 3, "{point}");
        }
        wiki.assert_in_sync();
    }
}

#[test]
fn status_tells_in_whose_hands_a_job_is_also_after_his_death() {
    for is_redis in [true, false] {
        let server = RedisServer::start();
        let mut wiki = Wiki::small();
        if is_redis {
            wiki = on_redis(&server, wiki);
        }
        assert!(wiki.killed_at("drain.claimed", &["drain"]));
        let status = wiki.json(0, &["status"]);
        let lent = status["in_flight"].as_array().unwrap();
        assert_eq!(lent.len(), 3, "{status}");
        assert!(
            lent[0]["pid"].as_u64().is_some_and(|pid| pid > 0),
            "{status}"
        );
        assert!(
            lent[0]["since"]
                .as_i64()
                .is_some_and(|ms| ms > 1_700_000_000_000)
        );
        let workers: std::collections::BTreeSet<_> =
            lent.iter().map(|job| job["worker"].to_string()).collect();
        assert_eq!(workers.len(), 1, "one process, one id");
        let told = wiki.ws(&["status"]).code(0).out;
        let line = format!("process {}", lent[0]["pid"]);
        assert!(told.contains(&line), "{told}");
        wiki.drain();
        assert_eq!(wiki.json(0, &["status"])["in_flight"], json!([]));
        wiki.write("wiki-output/a.md", "# Another\n");
        assert!(wiki.killed_at("drain.claimed", &["drain"]));
        let next = &wiki.json(0, &["status"])["in_flight"][0]["worker"];
        assert!(next.is_string() && !workers.contains(&next.to_string()));
    }
}

#[test]
fn another_checkout_is_refused_and_the_same_one_without_its_state_is_not() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    wiki.drain();
    let other = on_redis(&server, Wiki::with(&[("wiki-output/z.md", "# Z\n")]));
    for args in [
        &["drain"][..],
        &["status"],
        &["enqueue", "wiki-output/z.md"],
    ] {
        let ran = other.ws(args).code(4);
        assert!(
            ran.err.contains("this outbox belongs to the checkout"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("outbox.key"), "{}", ran.err);
    }
    let own = [
        "drain",
        "--set",
        "outbox.key=another",
        "--set",
        "outbox.dead_key=another:dlq",
    ];
    other.ws(&own).code(0);
    std::fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    push(&server, "wiki-output/a.md");
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn what_others_took_or_flushed_the_next_scan_brings_back() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    wiki.drain();
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    push(&server, "wiki-output/a.md");
    assert!(!server.cli(&["BLPOP", LIST, "1"]).is_empty());
    wiki.drain();
    wiki.assert_in_sync();
    wiki.write("wiki-output/b.md", "# Beta two\n");
    wiki.ws(&["enqueue", "wiki-output/b.md"]).code(0);
    server.cli(&["FLUSHALL"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn keys_of_another_program_are_refused_by_name() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    server.cli(&["SET", LIST, "theirs"]);
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(
        ran.err.contains("\"deep-wiki:outbox\" is a string"),
        "{}",
        ran.err
    );
    assert_eq!(server.cli(&["GET", LIST]), "theirs");
}

#[test]
fn a_password_is_never_printed() {
    let server = RedisServer::with(&["--save", "", "--requirepass", "s3cret"]);
    let mut wiki = Wiki::small();
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}/0", server.port());
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), url("wr0ng"));
    let refused = wiki.ws(&["drain"]).code(4);
    assert!(refused.err.contains("hint:"), "{}", refused.err);
    wiki.env
        .insert("WIKI_SYNC_OUTBOX_URL".into(), url("s3cret"));
    let mut told = refused.out + &refused.err;
    for args in [
        &["drain"][..],
        &["status"],
        &["status", "--json"],
        &["config"],
        &["config", "--json"],
    ] {
        let ran = wiki.ws(args).code(0);
        told += &(ran.out + &ran.err);
    }
    wiki.assert_in_sync();
    assert!(
        !told.contains("s3cret") && !told.contains("wr0ng"),
        "{told}"
    );
}

#[test]
fn a_server_behind_tls_is_asked_only_when_its_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key] = certificate(folder.path());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = RedisServer::with(&[
        "--save",
        "",
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ]);
    let mut wiki = Wiki::small();
    wiki.env.insert(
        "WIKI_SYNC_OUTBOX_URL".into(),
        format!("rediss://localhost:{port}/0"),
    );
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(ran.err.contains("certificate"), "{}", ran.err);
    wiki.env.insert("SSL_CERT_FILE".into(), cert.clone());
    push(&server, "wiki-output/a.md");
    wiki.drain();
    assert_eq!(server.cli(&["LLEN", LIST]), "0");
    wiki.assert_in_sync();
}

#[test]
fn a_server_that_is_full_is_emptied() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    wiki.drain();
    for n in 0..300 {
        wiki.write(&format!("wiki-output/n{n}.md"), format!("# N {n}\n"));
        push(&server, &format!("wiki-output/n{n}.md"));
    }
    // One that nobody announced, so that the scan has something to enqueue.
    wiki.write("wiki-output/unannounced.md", "# U\n");
    let used = server.cli(&["INFO", "memory"]);
    let used = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap();
    let used: u64 = used.trim().parse().unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", &(used - 50_000).to_string()]);
    let drained = wiki.ws(&["drain", "--no-wait", "--json"]);
    assert_eq!(
        server.cli(&["LLEN", LIST]).trim(),
        "0",
        "{} {}",
        drained.out,
        drained.err
    );
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    wiki.drain();
    wiki.assert_in_sync();
}

/// What others put in while a drain runs is in its account too, to the last job.
#[track_caller]
fn assert_counts_what_comes_meanwhile(wiki: &Wiki) {
    wiki.write("wiki-output/bad.md", b"\xff\n");
    assert_eq!(wiki.json(3, &["drain"])["dlq"], 1);
    wiki.write("wiki-output/page.md", "# Page\n");
    let drain = wiki
        .binary()
        .args(["drain", "--timeout", "4", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut drain = Ended(drain);
    let holds = |text: &str| wiki.try_git(&["show", "HEAD:wiki-output/page.md"]).out == text;
    until(Duration::from_mins(1), "it runs", || holds("# Page\n"));
    let mut came = 1;
    for round in 0..20 {
        wiki.write("wiki-output/page.md", format!("# Page {round}\n"));
        let told = wiki.json(0, &["enqueue", "wiki-output/page.md"]);
        came += told["enqueued"].as_u64().unwrap();
    }
    wiki.ws(&["dlq", "retry", "--all"]).code(0);
    came += 1;
    let report = drain.report_of(3);
    assert_eq!(report["enqueued"], came, "{report}");
    assert_eq!((&report["dlq"], &report["dead"]), (&json!(1), &json!(1)));
    assert_adds_up(wiki, &report);
    let n = |name: &str| report[name].as_u64().unwrap();
    let parts = [
        "processed",
        "merged",
        "dlq",
        "waiting",
        "delayed",
        "in_flight",
        "held",
    ];
    assert_eq!(n("enqueued"), parts.map(n).iter().sum::<u64>(), "{report}");
}

#[test]
fn what_others_put_in_while_a_drain_runs_is_in_its_account_too() {
    assert_counts_what_comes_meanwhile(&Wiki::small());
    let server = RedisServer::start();
    assert_counts_what_comes_meanwhile(&on_redis(&server, Wiki::small()));
}
