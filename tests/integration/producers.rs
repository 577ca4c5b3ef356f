//! Producers that are no programs of ours feed a drain that runs: `redis-cli`, and Python's client as the ancestor's did.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use wiki_sync::testing::RedisServer;

use crate::python::python;
use crate::redis::{Ended, LIST, assert_adds_up, on_redis, push, until};
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

#[test]
fn pythons_client_feeds_a_running_drain_and_its_junk_stops_nobody() {
    let Some(python) = python("Python's redis client feeds a drain") else {
        return;
    };
    let server = RedisServer::start();
    let wiki = on_redis(&server, first());
    let mut drain = running(&wiki);
    let mut paths = String::new();
    for n in 0..40 {
        // Python writes them as \u escapes, half of them in two.
        let path = format!("wiki-output/쪽 𝄞 {n}.md");
        wiki.write(&path, format!("# 쪽 {n}\n"));
        paths.push_str(&path);
        paths.push('\n');
    }
    let mut producer = Command::new(&python)
        .args(["-X", "utf8", "-c", PRODUCER, &server.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", python.display()));
    std::io::Write::write_all(&mut producer.stdin.take().unwrap(), paths.as_bytes()).unwrap();
    let said = producer.wait_with_output().unwrap();
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
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
