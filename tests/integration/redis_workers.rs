//! Workers on a Redis list that are stopped or killed at a bad moment.

use std::process::{Child, Command, Stdio};

use serde_json::json;
use wiki_sync::testing::RedisServer;

use crate::redis::{Ended, LIST, push, until};
use crate::redis_faults::{SOON, holds, impatient};
use crate::wiki::Wiki;

/// Starts a drain of what was announced, which does not end by itself for a minute.
pub(crate) fn waiting_for_work(wiki: &Wiki) -> Ended {
    let drain = wiki
        .binary()
        .args(["drain", "--no-scan", "--timeout", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Ended(drain.unwrap())
}

/// Pushes a line and tells the worker to stop in the same moment, again and again: every page arrives.
fn pushed_while_it_is_told_to_stop(rounds: usize) {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.2");
    wiki.drain();
    let mut pages = Vec::new();
    for n in 0..rounds {
        server.cli(&["CONFIG", "RESETSTAT"]);
        let mut drain = waiting_for_work(&wiki);
        // It has looked twice, so it is past its start and waits.
        until(SOON, "an idle worker", || {
            let stats = server.cli(&["INFO", "commandstats"]);
            let counted = stats.matches("cmdstat_zrange:calls=").count() > 0;
            counted && !stats.contains("cmdstat_zrange:calls=1,")
        });
        let page = (format!("wiki-output/{n}.md"), format!("# {n}\n"));
        wiki.write(&page.0, &page.1);
        let stop = signal(&drain.0);
        push(&server, &page.0);
        stop.join().unwrap();
        // The line may lie there still, which is "try later".
        let code = drain.0.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 75)), "round {n}: {code:?}");
        pages.push(page);
    }
    wiki.json(0, &["drain", "--no-scan"]);
    for (path, text) in &pages {
        assert!(holds(&wiki, path, text), "{path}");
        let commits = wiki.git(&["log", "--format=%h", "--", path]);
        assert_eq!(commits.lines().count(), 1, "{path}: {commits}");
    }
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["fresh"], true, "{status}");
    wiki.assert_in_sync();
}

/// Sends SIGTERM beside whatever else happens.
fn signal(child: &Child) -> std::thread::JoinHandle<()> {
    let pid = child.id().to_string();
    std::thread::spawn(move || {
        let kill = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(kill.unwrap().success());
    })
}

#[test]
fn a_line_pushed_while_the_worker_is_told_to_stop_is_done_once() {
    pushed_while_it_is_told_to_stop(20);
}

#[test]
#[ignore = "five hundred workers, one after the other"]
fn five_hundred_lines_pushed_while_the_worker_is_told_to_stop_are_done_once() {
    pushed_while_it_is_told_to_stop(500);
}

#[test]
fn a_page_edited_after_its_worker_was_killed_gets_its_new_text() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.2");
    wiki.drain();
    for (n, point) in ["outbox.read", "drain.claimed", "drain.applied#1"]
        .iter()
        .enumerate()
    {
        wiki.write("wiki-output/first.md", format!("# Old {n}\n"));
        push(&server, "wiki-output/first.md");
        assert!(wiki.killed_at(point, &["drain", "--no-scan"]), "{point}");
        wiki.write("wiki-output/first.md", format!("# New {n}\n"));
        push(&server, "wiki-output/first.md");
        wiki.json(0, &["drain", "--no-scan"]);
        let text = format!("# New {n}\n");
        assert!(holds(&wiki, "wiki-output/first.md", &text), "{point}");
        wiki.assert_in_sync();
    }
}

#[test]
fn five_workers_stopped_with_a_job_that_waits_for_its_retry_use_no_attempt_of_it() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.2");
    wiki.drain();
    wiki.write("wiki-output/first.md", "# Second\n");
    let line = json!({"output_path": "wiki-output/first.md", "retry": 3}).to_string();
    server.cli(&["RPUSH", LIST, &line]);
    // No folder can be made there, so the vectors are away and the job is held.
    std::fs::remove_dir_all(wiki.root().join(".wiki-sync/vectors")).unwrap();
    wiki.write(".wiki-sync/vectors", "");
    for _ in 0..5 {
        let mut drain = waiting_for_work(&wiki);
        until(SOON, "the job in hand and back", || {
            let held = server.cli(&["ZCARD", "{deep-wiki:outbox}:held:vectors"]);
            held == "1" && server.cli(&["LLEN", LIST]) == "0"
        });
        signal(&drain.0).join().unwrap();
        drain.0.wait().unwrap();
    }
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["held"][0]["attempts"], 3, "{status}");
    assert_eq!(status["outbox"]["dead"], 0);
    wiki.remove(".wiki-sync/vectors");
    wiki.drain();
    wiki.assert_in_sync();
}
