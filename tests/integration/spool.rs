//! What a producer says while the outbox cannot take it, is kept beside it and handed over by whoever reaches it first.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use wiki_sync::testing::RedisServer;

use crate::redis::{LIST, on_redis, push, until};
use crate::redis_faults::{SOON, impatient, unwilling};
use crate::watch::Watch;
use crate::wiki::Wiki;

const LABELS: [&str; 4] = ["--repo", "demo", "--commit", "c0ffee"];

/// Lets a producer announce a page with labels while the outbox cannot take it.
#[track_caller]
fn keep(wiki: &Wiki, path: &str) -> String {
    let ran = wiki
        .ws(&[&["enqueue", path][..], &LABELS].concat())
        .code(75);
    assert!(ran.out.is_empty(), "{}", ran.out);
    assert!(
        ran.err
            .contains("hint: 1 job kept here; the next drain announces"),
        "{}",
        ran.err
    );
    ran.err
}

/// The point that is found first, by words that one page holds, among those with the producer's repository if `labelled`.
fn point(wiki: &Wiki, words: &str, labelled: bool) -> Value {
    let repo = if labelled { &LABELS[..2] } else { &[] };
    wiki.json(0, &[&["search", words][..], repo].concat())[0]["point_id"].clone()
}

fn spooled(wiki: &Wiki) -> Value {
    // A watch that was killed needs a person, and is none of this.
    wiki.ws(&["status", "--json"]).json()["outbox"]["spooled"].clone()
}

/// Asserts that page `a` has the points that its producer's labels make, and that nothing is left beside the outbox.
#[track_caller]
fn assert_labelled(wiki: &Wiki, case: &str) {
    let kept = point(wiki, "Alpha", true);
    assert!(kept.is_string(), "{case}");
    assert_eq!(spooled(wiki), 0, "{case}");
    // Said once more, it changes nothing.
    wiki.json(0, &[&["enqueue", "wiki-output/a.md"][..], &LABELS].concat());
    wiki.drain();
    assert_eq!(point(wiki, "Alpha", true), kept, "{case}");
    wiki.assert_in_sync();
}

#[test]
fn labels_said_while_the_server_takes_no_writes_reach_the_points_when_it_does() {
    let full = |server: &mut RedisServer| drop(server.cli(&["CONFIG", "SET", "maxmemory", "1"]));
    let room = |server: &mut RedisServer| drop(server.cli(&["CONFIG", "SET", "maxmemory", "0"]));
    let mut servers = Vec::from(unwilling());
    servers.push(("full", "OOM", RedisServer::start(), full, room));
    for (name, why, mut server, turn, turn_back) in servers {
        let wiki = impatient(&server, "0.1, 0.2");
        wiki.write("wiki-output/a.md", "# Alpha\n");
        wiki.drain();
        let before = point(&wiki, "Alpha", false);
        turn(&mut server);
        let said = keep(&wiki, "wiki-output/a.md").to_lowercase();
        assert!(said.contains(&why.to_lowercase()), "{name}: {said}");
        if name == "away" {
            let ran = wiki.ws(&["status"]).code(75);
            assert!(ran.err.contains("hint: 1 job kept here"), "{}", ran.err);
        } else {
            let status = wiki.json(0, &["status"]);
            let told = (&status["outbox"]["spooled"], &status["fresh"]);
            assert_eq!(told, (&json!(1), &json!(false)), "{name}");
            // The stores hold what they may know, and yet something is owed.
            let verified = wiki.json(75, &["verify"]);
            assert_eq!(verified["waiting"], 1, "{name}: {verified}");
        }
        // Nobody takes it for done.
        wiki.ws(&["drain", "--no-wait"]).code(75);
        turn_back(&mut server);
        // No scan would find it: the page is the same.
        wiki.json(0, &["drain", "--no-scan"]);
        assert_ne!(point(&wiki, "Alpha", true), before, "{name}");
        assert_labelled(&wiki, name);
    }
}

#[test]
fn a_page_put_while_the_server_is_away_keeps_its_labels() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "0.1");
    wiki.drain();
    server.down();
    let page = wiki.root().parent().unwrap().join("page");
    fs::write(&page, "# Alpha\n").unwrap();
    let put = wiki
        .binary()
        .args(["put", "wiki-output/a.md"])
        .args(LABELS)
        .stdin(fs::File::open(page).unwrap())
        .output()
        .unwrap();
    assert_eq!(put.status.code(), Some(75));
    let said = String::from_utf8(put.stderr).unwrap();
    assert!(said.contains("1 job kept here"), "{said}");
    assert!(said.contains("wiki-output/a.md was written"), "{said}");
    server.up();
    wiki.drain();
    assert_labelled(&wiki, "put");
}

#[test]
fn killed_between_any_two_steps_what_was_kept_is_handed_over_and_nothing_is_dead() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "0.1");
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.drain();
    server.down();
    let enqueue = [&["enqueue", "wiki-output/a.md"][..], &LABELS].concat();
    assert!(wiki.killed_at("spool.kept", &enqueue));
    server.up();
    for point in ["outbox.enqueued", "spool.handed_over", "drain.claimed"] {
        assert!(wiki.killed_at(point, &["drain", "--no-scan"]), "{point}");
    }
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["dlq"], 0);
    assert_labelled(&wiki, "killed");
}

#[test]
fn whoever_reaches_the_outbox_first_hands_over_and_what_is_said_later_counts() {
    let mut server = RedisServer::durable();
    let wiki = impatient(&server, "0.1");
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.write("wiki-output/b.md", "# Beta\n");
    wiki.drain();
    server.down();
    wiki.ws(&["enqueue", "wiki-output/a.md", "--repo", "elder"])
        .code(75);
    wiki.ws(&["enqueue", "wiki-output/b.md", "--repo", "elder"])
        .code(75);
    keep(&wiki, "wiki-output/b.md");
    server.up();
    wiki.json(0, &[&["enqueue", "wiki-output/a.md"][..], &LABELS].concat());
    assert_eq!(spooled(&wiki), 0);
    let drained = wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(drained["processed"], 2, "{drained}");
    assert!(point(&wiki, "Beta", true).is_string());
    assert_labelled(&wiki, "later");
}

#[test]
fn a_watch_hands_over_when_the_server_is_back_whether_it_drains_or_not() {
    for args in [&[][..], &["--enqueue-only"]] {
        let mut server = RedisServer::durable();
        let wiki = impatient(&server, "0.1, 0.2, 0.5");
        wiki.write("wiki-output/a.md", "# Alpha\n");
        wiki.drain();
        let watch = Watch::start_with(&wiki, args, &[]);
        watch.wait("its start", |line| line["event"] == "started");
        server.down();
        keep(&wiki, "wiki-output/a.md");
        server.up();
        let spool = wiki.root().join(".wiki-sync/spool");
        until(SOON, "the spool is empty", || !spool.exists());
        if args.is_empty() {
            watch.in_sync();
        } else {
            wiki.json(0, &["drain", "--no-scan"]);
        }
        drop(watch);
        assert_labelled(&wiki, "watch");
    }
}

#[test]
fn a_drain_that_runs_empties_a_full_server_first_and_then_hands_over() {
    let server = RedisServer::start();
    let wiki = impatient(&server, "0.1, 0.1");
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.drain();
    for n in 0..5 {
        let path = format!("wiki-output/{n}.md");
        wiki.write(&path, format!("# {n}\n"));
        push(&server, &path);
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    keep(&wiki, "wiki-output/a.md");
    let ran = wiki.ws(&["drain", "--no-scan"]).code(75);
    assert!(ran.err.contains("OOM"), "{}", ran.err);
    assert_eq!(server.cli(&["LLEN", LIST]), "0");
    assert_eq!(wiki.head_pages().len(), 7, "what waited is done");
    assert_eq!(spooled(&wiki), 1);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    wiki.json(0, &["drain", "--no-scan"]);
    assert_labelled(&wiki, "full");
}

#[test]
fn what_many_producers_say_at_once_while_the_server_is_away_is_all_kept() {
    let mut server = RedisServer::durable();
    let wiki = on_redis(&server, Wiki::small());
    wiki.drain();
    let path = |n| format!("wiki-output/{n}.md");
    for n in 0..12 {
        wiki.write(&path(n), format!("# {n}\n"));
    }
    server.down();
    let start = |n| {
        wiki.binary()
            .args(["enqueue", &path(n)])
            .stderr(Stdio::null())
            .spawn()
    };
    let producers: Vec<_> = (0..12).map(|n| start(n).unwrap()).collect();
    for mut producer in producers {
        assert_eq!(producer.wait().unwrap().code(), Some(75));
    }
    server.up();
    assert_eq!(spooled(&wiki), 12);
    let drained = wiki.json(0, &["drain", "--no-scan"]);
    assert_eq!(drained["processed"], 12, "{drained}");
    wiki.assert_in_sync();
}

#[test]
fn a_spool_that_cannot_be_used_is_told_and_junk_in_one_is_kept_raw() {
    let mut server = RedisServer::durable();
    let mut wiki = impatient(&server, "0.1");
    wiki.write("wiki-output/a.md", "# Alpha\n");
    wiki.drain();
    let spool = wiki.root().join(".wiki-sync/spool");
    fs::create_dir(&spool).unwrap();
    server.down();
    let ran = wiki.ws(&["enqueue", "wiki-output/a.md"]).code(75);
    assert!(
        ran.err.contains("hint: not kept here either"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("must be said again"), "{}", ran.err);
    fs::remove_dir(&spool).unwrap();
    keep(&wiki, "wiki-output/a.md");
    let mut bytes = b"no job\n".to_vec();
    bytes.extend(fs::read(&spool).unwrap());
    fs::write(&spool, bytes).unwrap();
    server.up();
    wiki.env.remove("WIKI_SYNC_RETRY_PROBES");
    assert_eq!(wiki.json(3, &["drain"])["dead"], 1);
    let letters = wiki.json(0, &["dlq", "list"]);
    assert!(letters.to_string().contains("no job"), "{letters}");
    wiki.ws(&["dlq", "drop", "--all"]).code(0);
    assert_labelled(&wiki, "junk");
}
