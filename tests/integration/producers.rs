//! Producers that are no programs of ours feed a drain or a watch that runs: `redis-cli`, and Python's client as the ancestor's did.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use wiki_sync::testing::RedisServer;

use crate::python::python;
use crate::redis::{Ended, LIST, assert_adds_up, on_redis, push, until};
use crate::watch::Watch;
use crate::wiki::Wiki;

const DEAD: &str = "deep-wiki:outbox:dlq";
const SOON: Duration = Duration::from_mins(1);

/// What the ancestor's producers do, and what they do wrong.
const PRODUCER: &str = r#"
import json, sys, redis
client = redis.Redis.from_url(sys.argv[1])
for line in sys.stdin:
    path = line.rstrip("\n")
    job = {"sha": "", "output_path": path, "repo": "demo", "commit_sha": "c0ffee", "retry": 0}
    client.rpush("deep-wiki:outbox", json.dumps(job))
pipe = client.pipeline()
pipe.rpush("deep-wiki:outbox", b"\xff\xfe", json.dumps({"output_path": 5}), json.dumps(["a"]))
pipe.rpush("deep-wiki:outbox", json.dumps({"output_path": "wiki-output/first.md", "priority": [1], "retry": 2}))
pipe.execute()
print(redis.__version__)
"#;

fn running(wiki: &Wiki) -> Ended {
    let drain = wiki
        .binary()
        .args(["drain", "--timeout", "4", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let drain = Ended(drain.unwrap());
    until(SOON, "the first page", || !wiki.head_pages().is_empty());
    drain
}

fn first() -> Wiki {
    Wiki::with(&[("wiki-output/first.md", "# First\n")])
}

/// Writes forty pages, whose names Python writes as \\u escapes, half of them in two; returns their paths.
fn forty(wiki: &Wiki) -> Vec<String> {
    let page = |n| {
        let path = format!("wiki-output/쪽 𝄞 {n}.md");
        wiki.write(&path, format!("# 쪽 {n}\n"));
        path
    };
    (0..40).map(page).collect()
}

/// Lets Python's client announce the pages, and write four lines more, three of them junk.
fn produce(python: &Path, server: &RedisServer, paths: &[String]) {
    let mut producer = Command::new(python)
        .args(["-X", "utf8", "-c", PRODUCER, &server.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    let lines = paths.join("\n") + "\n";
    std::io::Write::write_all(&mut producer.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let said = producer.wait_with_output().unwrap();
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
}

/// How many hits a word has among the pages of which a producer said that they describe `demo`.
fn of_demo(wiki: &Wiki, word: &str) -> usize {
    let hits = wiki.json(0, &["search", word, "--repo", "demo", "--limit", "100"]);
    hits.as_array().unwrap().len()
}

#[test]
fn pythons_client_feeds_a_watch_and_its_junk_stops_nobody() {
    let Some(python) = python("Python's redis client feeds a watch") else {
        return;
    };
    let server = RedisServer::start();
    let wiki = on_redis(&server, first());
    let paths = forty(&wiki);
    let watch = Watch::start(&wiki);
    // The pages are in already and nobody touches them: what their lines say of them came by the lines alone.
    assert_eq!(of_demo(&wiki, "쪽"), 0);
    produce(&python, &server, &paths);
    until(SOON, "all labels", || of_demo(&wiki, "쪽") == 40);
    until(SOON, "the junk", || {
        wiki.json(0, &["status"])["outbox"]["dead"] == 3
    });
    assert_eq!(server.cli(&["LLEN", LIST]), "0");
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    watch.in_sync();
}

#[test]
fn a_line_pushed_under_a_watch_is_taken_at_one_of_its_next_looks() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, first());
    let watch = Watch::start(&wiki);
    for round in 0..5 {
        // Nothing on the disk changes: no event tells of it, and no scan is due.
        server.cli(&["CONFIG", "RESETSTAT"]);
        let after = watch.lines().len();
        let line = json!({"output_path": "wiki-output/first.md", "repo": format!("demo{round}")});
        server.cli(&["RPUSH", LIST, &line.to_string()]);
        watch.wait_after(after, "the line", |line| {
            line["event"] == "synced" && line["processed"] == 1
        });
        // It looks twice a second, and asks for this length twice each time; a few more while it works.
        let stats = server.cli(&["INFO", "commandstats"]);
        let asked = stats.lines().find_map(|line| {
            let calls = line.strip_prefix("cmdstat_llen:calls=")?;
            calls.split_once(',')?.0.parse::<u32>().ok()
        });
        assert!(asked.is_some_and(|asked| asked < 20), "{round}: {asked:?}");
    }
    let hits = wiki.json(0, &["search", "first", "--repo", "demo4"]);
    assert_eq!(hits.as_array().map(Vec::len), Some(1), "{hits}");
    watch.in_sync();
}

#[test]
fn pythons_client_feeds_a_running_drain_and_its_junk_stops_nobody() {
    let Some(python) = python("Python's redis client feeds a drain") else {
        return;
    };
    let server = RedisServer::start();
    let wiki = on_redis(&server, first());
    let mut drain = running(&wiki);
    let paths = forty(&wiki);
    produce(&python, &server, &paths);
    until(SOON, "all pages", || wiki.head_pages().len() == 41);
    let report = drain.report_of(3);
    assert_eq!((&report["dlq"], &report["dead"]), (&json!(3), &json!(3)));
    assert_adds_up(&wiki, &report);
    assert_eq!(server.cli(&["LLEN", LIST]), "0");
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    wiki.assert_in_sync();
}

#[test]
fn junk_of_every_kind_under_a_running_drain_is_kept_raw_and_stops_nobody() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, first());
    let mut drain = running(&wiki);
    let megabyte = format!(
        "{{\"output_path\": \"wiki-output/first.md\", \"x\": \"{}\"}}",
        "x".repeat(1 << 20)
    );
    let junk = [
        "not json {",
        "",
        "[]",
        "null",
        "\"wiki-output/first.md\"",
        r#"{"output_path": 5}"#,
        r#"{"output_path": "wiki-output/first.md", "retry": "x"}"#,
        r#"{"output_path": "wiki-output/first.md", "retry": -1}"#,
        r#"{"sha": ""}"#,
        r#"{"output_path": "../../etc/passwd"}"#,
        r#"{"output_path": "/etc/passwd"}"#,
        &megabyte,
    ];
    for (n, line) in junk.iter().enumerate() {
        // From stdin, since the kernel takes no such argument.
        let mut cli = server
            .client()
            .args(["-x", "RPUSH", LIST])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut cli.stdin.take().unwrap(), line.as_bytes()).unwrap();
        assert!(cli.wait().unwrap().success());
        let path = format!("wiki-output/good {n}.md");
        wiki.write(&path, format!("# Good {n}\n"));
        push(&server, &path);
    }
    // Fields that nobody knows, and attempts that failed elsewhere, are no harm.
    wiki.write("wiki-output/late.md", "# Late\n");
    let late = json!({"output_path": "wiki-output/late.md", "retry": 3, "trace": {"id": [1, 2]}});
    server.cli(&["RPUSH", LIST, &late.to_string()]);
    // In the repository and outside of the wiki: a page of no wiki, which is a dead letter of its own.
    push(&server, "README");
    until(SOON, "all pages", || wiki.head_pages().len() == 14);
    let report = drain.report_of(3);
    assert_eq!(
        (&report["dlq"], &report["retried"], &report["dead"]),
        (&json!(13), &json!(0), &json!(13)),
        "{report}"
    );
    assert_adds_up(&wiki, &report);
    for (n, line) in junk.iter().enumerate() {
        let raw = server.cli(&["LINDEX", DEAD, &n.to_string()]);
        assert!(raw == *line, "{n}: {} bytes", raw.len());
    }
    let listed = wiki.ws(&["dlq", "list"]).code(0);
    let told = listed.out + &listed.err;
    assert!(told.len() < 20_000, "{} bytes", told.len());
    assert!(
        told.contains("an edit of the page wakes its letter")
            && told.contains("a line that is no job stays until `wiki-sync dlq drop ID`"),
        "{told}"
    );
    let letters = wiki.json(0, &["dlq", "list"]);
    let huge = &letters[11];
    assert_eq!(huge["size"], megabyte.len(), "{huge}");
    let shown = wiki.ws(&["dlq", "show", &huge["id"].to_string(), "--json"]);
    assert_eq!(shown.code(0).json()["job"]["x"], "x".repeat(1 << 20));
    let page = letters.as_array().unwrap().iter();
    let page = page.filter(|letter| !letter["path"].is_null()).count();
    assert_eq!(page, 1, "{letters}");
    // A line that is no job has no page whose edit could wake it.
    wiki.ws(&["dlq", "drop", "--path", "README"]).code(0);
    let listed = wiki.ws(&["dlq", "list"]).code(0);
    let told = listed.out + &listed.err;
    assert!(!told.contains("an edit of the page"), "{told}");
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    assert_eq!(server.cli(&["LLEN", DEAD]), "0");
    wiki.assert_in_sync();
}
