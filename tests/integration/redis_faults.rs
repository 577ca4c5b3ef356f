//! A Redis server that fails in every way there is under a drain that runs: nothing is lost, no attempt is used, and it
//! goes on without help.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use wiki_sync::testing::RedisServer;

use crate::redis::{Ended, LIST, assert_adds_up, on_redis, push, until};
use crate::wiki::Wiki;

/// How long anything may take that happens soon on a machine that has nothing else to do.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// A wiki whose drain probes a server that is away often, and says on `told` what a person is told.
pub(crate) fn impatient(server: &RedisServer, probes: &str) -> Wiki {
    let mut wiki = on_redis(server, Wiki::with(&[("wiki-output/first.md", "# First\n")]));
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), probes.into());
    wiki.write(
        "wiki-sync.toml",
        "[alert]\ncommand = [\"sh\", \"-c\", \"echo $WIKI_SYNC_ALERT_KIND >> told\"]\n",
    );
    wiki.write(".gitignore", "told\n");
    wiki.git(&["add", "wiki-sync.toml", ".gitignore"]);
    wiki.git(&["commit", "-qm", "settings"]);
    wiki
}

fn told(wiki: &Wiki) -> Vec<String> {
    let text = std::fs::read_to_string(wiki.root().join("told")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Starts a drain that waits for new jobs, and returns once it has done what there was.
fn running(wiki: &Wiki, timeout: &str) -> Ended {
    let drain = wiki
        .binary()
        .args(["drain", "--timeout", timeout, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let drain = Ended(drain);
    until(SOON, "the first page", || {
        holds(wiki, "wiki-output/first.md", "# First\n")
    });
    drain
}

/// Whether HEAD holds the page with this text.
pub(crate) fn holds(wiki: &Wiki, path: &str, text: &str) -> bool {
    wiki.try_git(&["show", &format!("HEAD:{path}")]).out == text
}

/// Writes pages and announces each by a line.
fn announce(wiki: &Wiki, server: &RedisServer, name: &str, count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|n| {
            let page = (
                format!("wiki-output/{name} {n}.md"),
                format!("# {name} {n}\n"),
            );
            wiki.write(&page.0, &page.1);
            push(server, &page.0);
            page
        })
        .collect()
}

#[track_caller]
fn until_held(wiki: &Wiki, pages: &[(String, String)]) {
    for (path, text) in pages {
        until(SOON, path, || holds(wiki, path, text));
    }
}

/// Asserts that the drain ended well: no dead letter, no attempt, every job accounted for.
#[track_caller]
fn assert_unharmed(wiki: &Wiki, report: &Value) {
    let harm = ["dlq", "retried", "held", "dead"].map(|name| &report[name]);
    assert_eq!(harm, [&json!(0); 4], "{report}");
    assert_adds_up(wiki, report);
    wiki.assert_in_sync();
}

#[test]
fn redis_restarted_three_times_under_a_running_drain_loses_nothing() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "0.1, 0.1, 0.1, 0.2, 0.5, 1, 1, 2, 4");
    let mut drain = running(&wiki, "6");
    for round in 0..3 {
        let before = announce(&wiki, &server, &format!("before {round}"), 3);
        server.down();
        server.up();
        let after = announce(&wiki, &server, &format!("after {round}"), 3);
        until_held(&wiki, &before);
        until_held(&wiki, &after);
    }
    let report = drain.report();
    assert_eq!(report["processed"], 19, "{report}");
    assert_unharmed(&wiki, &report);
    assert!(told(&wiki).is_empty(), "an outage that passed is not told");
}

#[test]
fn connections_killed_again_and_again_under_a_running_drain_lose_nothing() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.1, 0.1, 0.2, 0.5, 1, 1, 2, 4");
    let mut drain = running(&wiki, "4");
    for round in 0..8 {
        let pages = announce(&wiki, &server, &format!("round {round}"), 2);
        for _ in 0..10 {
            server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        until_held(&wiki, &pages);
    }
    let report = drain.report();
    assert_eq!(report["processed"], 17, "{report}");
    assert_unharmed(&wiki, &report);
}

/// Lets the server sleep with jobs in flight: afterwards none is left there, and no page was committed twice.
fn sleeps(seconds: &str, timeout: &str) {
    let server = RedisServer::start();
    let wiki = impatient(&server, "1, 3, 9, 27");
    let mut drain = running(&wiki, timeout);
    let pages = announce(&wiki, &server, "page", 20);
    let asleep = server
        .client()
        .args(["DEBUG", "SLEEP", seconds])
        .stdout(Stdio::null())
        .spawn();
    let mut asleep = Ended(asleep.unwrap());
    asleep.0.wait().unwrap();
    until_held(&wiki, &pages);
    let report = drain.report();
    assert_eq!(report["processed"], 21, "{report}");
    assert_eq!(server.cli(&["HLEN", "{deep-wiki:outbox}:in-flight"]), "0");
    for (path, _) in &pages {
        let commits = wiki.git(&["log", "--format=%h", "--", path]);
        assert_eq!(commits.lines().count(), 1, "{path}: {commits}");
    }
    assert_unharmed(&wiki, &report);
}

#[test]
fn a_server_that_sleeps_with_jobs_in_flight_gets_them_back_and_no_page_is_committed_twice() {
    sleeps("3", "6");
}

#[test]
#[ignore = "the server sleeps for half a minute"]
fn a_server_that_sleeps_for_half_a_minute_gets_its_jobs_back() {
    sleeps("30", "45");
}

#[test]
#[ignore = "the server is away for 20 seconds"]
fn a_server_away_for_twenty_seconds_costs_no_attempt_and_the_running_drain_catches_up() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "1, 3, 9, 27");
    let mut drain = running(&wiki, "50");
    let pages = announce(&wiki, &server, "page", 20);
    server.down();
    std::thread::sleep(Duration::from_secs(20));
    server.up();
    let more = announce(&wiki, &server, "more", 5);
    until_held(&wiki, &pages);
    until_held(&wiki, &more);
    let report = drain.report();
    assert_eq!(report["processed"], 26, "{report}");
    assert_unharmed(&wiki, &report);
    assert!(told(&wiki).is_empty(), "it was back within the schedule");
}

#[test]
fn all_keys_lost_under_a_running_drain_it_goes_on_and_the_next_scan_finds_what_was_announced() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.1, 0.1, 0.2, 0.5, 1, 1, 2, 4");
    let mut drain = running(&wiki, "3");
    // Announced and lost in one step, before anybody can read it.
    wiki.write("wiki-output/lost.md", "# Lost\n");
    let line = r#"{"output_path": "wiki-output/lost.md"}"#;
    server.cli(&[
        "EVAL",
        "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('FLUSHALL')",
        "1",
        LIST,
        line,
    ]);
    let next = announce(&wiki, &server, "next", 1);
    until_held(&wiki, &next);
    let report = drain.report();
    assert_eq!(
        (&report["processed"], &report["dlq"]),
        (&json!(2), &json!(0))
    );
    assert!(!holds(&wiki, "wiki-output/lost.md", "# Lost\n"));
    assert_unharmed(&wiki, &wiki.drain());
    assert!(holds(&wiki, "wiki-output/lost.md", "# Lost\n"));
}

#[test]
fn a_server_whose_memory_is_full_is_drained_on_and_producers_are_told_why() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.1, 0.1, 0.2, 0.5, 1, 1, 2, 4");
    let mut drain = running(&wiki, "5");
    wiki.write("wiki-output/refused.md", "# Refused\n");
    // All in one step, so that the lines are there when the memory is full.
    let mut lines = Vec::new();
    for n in 0..200 {
        let path = format!("wiki-output/full {n}.md");
        wiki.write(&path, format!("# Full {n}\n"));
        lines.push(json!({"output_path": path, "repo": "", "sha": ""}).to_string());
    }
    let mut command = vec!["RPUSH", LIST];
    command.extend(lines.iter().map(String::as_str));
    server.cli(&command);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = server.cli(&["RPUSH", LIST, &lines[0]]);
    assert!(refused.contains("OOM"), "{refused}");
    let ran = wiki.ws(&["enqueue", "wiki-output/refused.md"]).code(75);
    assert!(
        ran.err.contains("OOM")
            && ran
                .err
                .contains("hint: the server is full: raise maxmemory"),
        "{}",
        ran.err
    );
    until(SOON, "all pages", || wiki.head_pages().len() == 201);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let report = drain.report();
    let harm = ["dlq", "retried", "held"].map(|name| &report[name]);
    assert_eq!(harm, [&json!(0); 3], "{report}");
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_key_that_another_program_takes_under_a_running_drain_is_named_and_left_alone() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.1");
    let mut drain = running(&wiki, "60");
    server.cli(&["SET", "{deep-wiki:outbox}:waiting", "theirs"]);
    push(&server, "wiki-output/first.md");
    assert_eq!(drain.0.wait().unwrap().code(), Some(4));
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(
        ran.err
            .contains("\"{deep-wiki:outbox}:waiting\" is a string"),
        "{}",
        ran.err
    );
    assert_eq!(server.cli(&["GET", "{deep-wiki:outbox}:waiting"]), "theirs");
    assert_eq!(server.cli(&["LLEN", LIST]), "1", "the line still waits");
    server.cli(&["DEL", "{deep-wiki:outbox}:waiting"]);
    wiki.drain();
    wiki.assert_in_sync();
}

/// Makes a server unwilling and willing again.
pub(crate) type Turn = fn(&mut RedisServer);

pub(crate) fn unwilling() -> [(&'static str, &'static str, RedisServer, Turn, Turn); 3] {
    let cannot_save = RedisServer::with(&["--save", "3600 1", "--enable-protected-configs", "yes"]);
    [
        (
            "a replica",
            "read only",
            RedisServer::start(),
            // Of a primary that is not there: it keeps what it has.
            |server| drop(server.cli(&["REPLICAOF", "127.0.0.1", "1"])),
            |server| drop(server.cli(&["REPLICAOF", "NO", "ONE"])),
        ),
        (
            "cannot save",
            "MISCONF",
            cannot_save,
            |server| {
                // The file cannot be written where a folder has its name.
                std::fs::create_dir_all(server.folder().join("dump.rdb/x")).unwrap();
                server.cli(&["BGSAVE"]);
                until(SOON, "a failed save", || {
                    let info = server.cli(&["INFO", "persistence"]);
                    info.contains("rdb_last_bgsave_status:err")
                });
            },
            |server| {
                std::fs::remove_dir_all(server.folder().join("dump.rdb")).unwrap();
                server.cli(&["SAVE"]);
            },
        ),
        (
            "away",
            "redis at",
            RedisServer::durable(),
            RedisServer::down,
            RedisServer::up,
        ),
    ]
}

#[test]
fn a_server_that_takes_no_writes_holds_the_jobs_without_an_attempt_and_is_told_once_each_way() {
    for (name, why, mut server, turn, turn_back) in unwilling() {
        let wiki = impatient(&server, "0.1, 0.2");
        wiki.drain();
        for n in 0..5 {
            let path = format!("wiki-output/{n}.md");
            wiki.write(&path, format!("# {n}\n"));
            // With a failed attempt behind it already.
            let line = json!({"output_path": path, "retry": 1}).to_string();
            server.cli(&["RPUSH", LIST, &line]);
        }
        turn(&mut server);
        wiki.ws(&["drain", "--no-scan", "--no-wait"]).code(75);
        assert!(
            told(&wiki).is_empty(),
            "{name}: the schedule is not used up"
        );
        for _ in 0..3 {
            let ran = wiki.ws(&["drain", "--no-scan"]).code(75);
            let reason = ran.err.to_lowercase();
            assert!(reason.contains(&why.to_lowercase()), "{name}: {}", ran.err);
        }
        assert_eq!(told(&wiki), ["drain_down"], "{name}");
        turn_back(&mut server);
        if name != "cannot save" {
            let waiting = server.cli(&["LRANGE", LIST, "0", "-1"]);
            assert_eq!(
                waiting.matches("\"retry\":1").count(),
                5,
                "{name}: {waiting}"
            );
        }
        let drained = wiki.json(0, &["drain", "--no-scan"]);
        assert_eq!(
            (&drained["processed"], &drained["retried"], &drained["dlq"]),
            (&json!(5), &json!(0), &json!(0)),
            "{name}: {drained}"
        );
        wiki.drain();
        assert_eq!(told(&wiki), ["drain_down", "drain_back"], "{name}");
        wiki.assert_in_sync();
    }
}

#[test]
fn a_server_that_is_loading_its_data_is_waited_for() {
    let mut server = RedisServer::with(&[
        "--save",
        "",
        "--appendonly",
        "yes",
        "--key-load-delay",
        "1000",
    ]);
    let wiki = impatient(&server, "0.2, 0.2, 0.5, 0.5, 1, 1, 1, 2, 2, 2, 4, 9");
    wiki.drain();
    let pages = announce(&wiki, &server, "page", 3);
    // Each takes a millisecond to read back, and now and then the server says so meanwhile.
    let mut many = vec!["EVAL".to_owned()];
    many.push("for i = 1, 4000 do redis.call('INCR', 'counter') end".into());
    many.push("0".into());
    server.cli(&many.iter().map(String::as_str).collect::<Vec<_>>());
    server.down();
    server.begin_up();
    let mut drain = Ended(
        wiki.binary()
            .args(["drain", "--no-scan", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    until(SOON, "an answer while it loads", || {
        server.cli(&["PING"]).contains("LOADING")
    });
    assert!(drain.0.try_wait().unwrap().is_none(), "it waits");
    let report = drain.report();
    assert_eq!(report["processed"], 3, "{report}");
    until_held(&wiki, &pages);
    assert_unharmed(&wiki, &report);
}

#[test]
fn an_older_state_of_the_server_costs_nothing_that_a_scan_does_not_find() {
    let mut server = RedisServer::with(&["--save", ""]);
    let wiki = impatient(&server, "0.1, 0.2");
    let early = announce(&wiki, &server, "early", 5);
    wiki.ws(&["drain", "--no-scan", "--max-jobs", "1"]).code(0);
    server.cli(&["SAVE"]);
    let dump = std::fs::read(server.folder().join("dump.rdb")).unwrap();
    // Five are acked and ten come, and the server forgets both.
    wiki.ws(&["drain", "--no-scan"]).code(0);
    let late = announce(&wiki, &server, "late", 10);
    server.down();
    std::fs::write(server.folder().join("dump.rdb"), dump).unwrap();
    server.up();
    let drained = wiki.drain();
    assert_eq!(drained["stores"]["git"]["applied"], 11, "{drained}");
    assert_unharmed(&wiki, &drained);
    for (path, _) in early.iter().chain(&late) {
        let commits = wiki.git(&["log", "--format=%h", "--", path]);
        assert_eq!(commits.lines().count(), 1, "{path}: {commits}");
    }
}

#[test]
fn a_server_that_is_away_for_the_whole_schedule_is_told_once_and_that_it_is_back_once() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "0.1, 0.2");
    wiki.drain();
    server.down();
    for _ in 0..3 {
        wiki.ws(&["drain"]).code(75);
        assert_eq!(told(&wiki), ["drain_down"]);
    }
    wiki.ws(&["drain", "--no-wait"]).code(75);
    server.up();
    for _ in 0..2 {
        wiki.drain();
        assert_eq!(told(&wiki), ["drain_down", "drain_back"]);
    }
    // The schedule may be used up over several drains that do not wait.
    server.down();
    until(SOON, "it is told", || {
        wiki.ws(&["drain", "--no-wait"]).code(75);
        told(&wiki).len() == 3
    });
    assert_eq!(told(&wiki)[2], "drain_down");
}
