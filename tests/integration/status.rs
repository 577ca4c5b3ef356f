//! `status`: lag, what is held and why, a watcher that is gone, and waiting until all is fresh.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::redis::until;
use crate::wiki::Wiki;

const LONG: Duration = Duration::from_mins(1);

/// A child that is killed when dropped.
struct Killed(Child);

impl Killed {
    fn signal(&mut self, signal: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a watch and waits for its first sync.
fn watch(wiki: &Wiki, args: &[&str]) -> Killed {
    let mut child = wiki
        .binary()
        .args(["watch", "--json"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let watch = Killed(child);
    let mut lines = out.lines().map_while(Result::ok);
    lines
        .find(|line| line.contains("\"synced\""))
        .expect("a first sync");
    // Whoever writes to a pipe that nobody reads ends.
    std::thread::spawn(move || lines.for_each(drop));
    watch
}

#[test]
fn a_watch_that_was_killed_is_told_until_another_says_goodbye() {
    let wiki = Wiki::small();
    let mut killed = watch(&wiki, &[]);
    killed.signal("-KILL");
    let status = wiki.json(3, &["status"]);
    let seen = &status["watch"];
    assert_eq!(
        (&seen["running"], &seen["gone"], &seen["deaf"]),
        (&json!(false), &json!(true), &json!(false))
    );
    let told = wiki.ws(&["status"]).code(3);
    assert!(told.out.contains("ended without a word"), "{}", told.out);
    assert!(
        told.out.contains("start `wiki-sync watch` again"),
        "{}",
        told.out
    );
    let doctor = wiki.json(3, &["doctor"]);
    assert!(
        doctor.to_string().contains("ended without a word"),
        "{doctor}"
    );
    let mut ended = watch(&wiki, &[]);
    assert_eq!(wiki.json(0, &["status"])["watch"]["running"], true);
    ended.signal("-TERM");
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["watch"]["gone"], false, "{status}");
}

#[test]
fn a_watch_that_only_looks_needs_a_person_unless_it_was_meant_so() {
    let mut wiki = Wiki::small();
    wiki.env
        .insert("WIKI_SYNC_TEST_WATCH".into(), "limit:1".into());
    let less = watch(&wiki, &[]);
    let status = wiki.json(3, &["status"]);
    assert_eq!(status["watch"]["degraded"], true, "{status}");
    let told = wiki.ws(&["status"]).code(3);
    assert!(told.out.contains("wiki-sync doctor"), "{}", told.out);
    drop(less);
    wiki.env.clear();
    let _meant = watch(&wiki, &["--set", "watch.mode=poll"]);
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["watch"]["mode"], "polling");
    assert_eq!(status["watch"]["degraded"], false);
}

#[test]
fn the_lag_of_each_store_and_what_is_held_for_which_reason_are_told() {
    let mut wiki = Wiki::small();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_URL".into(), "http://127.0.0.1:1".into());
    wiki.json(75, &["drain", "--no-wait"]);
    let status = wiki.json(0, &["status"]);
    let stores = &status["stores"];
    assert_eq!(stores["graph"]["behind"], 0, "{status:#}");
    assert_eq!(stores["vectors"]["behind"], 3);
    assert!(stores["vectors"]["oldest"].is_i64(), "{status:#}");
    assert_eq!(stores["vectors"]["oldest"], status["outbox"]["oldest"]);
    let holds = status["holds"].as_array().unwrap();
    assert_eq!(holds.len(), 1, "{status:#}");
    assert_eq!(holds[0]["store"], "vectors");
    assert_eq!(
        (&holds[0]["jobs"], &holds[0]["next"]),
        (&json!(3), &json!(null))
    );
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(told.contains("3 behind (the oldest job is"), "{told}");
    assert!(told.contains("3 jobs, since"), "{told}");
    assert!(
        told.contains("again at the next `wiki-sync drain`"),
        "{told}"
    );
    wiki.env.clear();
    for page in ["x", "y"] {
        wiki.write(&format!("wiki-output/{page}.md"), b"\xff\xfe");
    }
    wiki.json(3, &["drain"]);
    let status = wiki.json(0, &["status"]);
    let dead = status["dead_letters"].as_array().unwrap();
    assert_eq!(dead.len(), 1, "{status:#}");
    assert_eq!(dead[0]["letters"], 2);
    assert!(dead[0]["reason"].as_str().unwrap().contains("UTF-8"));
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(told.contains("2 letters, since"), "{told}");
}

#[test]
fn waiting_ends_when_all_is_fresh_when_time_is_up_and_when_only_a_person_helps() {
    let wiki = Wiki::small();
    let late = wiki.json(75, &["status", "--wait-fresh", "0.5"]);
    assert_eq!(
        (&late["fresh"], &late["unannounced"]),
        (&json!(false), &json!(3))
    );
    let mut waits = wiki
        .binary()
        .args(["status", "--json", "--wait-fresh"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wiki.drain();
    let ended = waits.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "fresh within a minute");
    wiki.json(0, &["status", "--wait-fresh", "0"]);
    wiki.write("wiki-output/bad.md", b"\xff\xfe");
    wiki.json(3, &["drain"]);
    // It does not wait for what no waiting brings.
    let dead = wiki.json(3, &["status", "--wait-fresh", "86400"]);
    assert_eq!(dead["outbox"]["dead"], 1);
    wiki.ws(&["status", "--wait-fresh", "soon"]).code(2);
}

#[test]
fn waiting_keeps_no_drain_from_its_work() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/a.md", "# A\n\nanother text\n");
    let mut waits = Killed(
        wiki.binary()
            .args(["status", "--json", "--wait-fresh", "600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    // The wait looks at everything again and again meanwhile.
    for round in 0..3 {
        wiki.write("wiki-output/b.md", format!("# B\n\nround {round}\n"));
        wiki.drain();
    }
    until(LONG, "the end of the wait", || {
        waits.0.try_wait().unwrap().is_some()
    });
    assert_eq!(waits.0.wait().unwrap().code(), Some(0));
    wiki.assert_in_sync();
}

#[test]
fn a_copied_checkout_says_why_its_unchanged_pages_are_written_anew() {
    const WHY: &str = "this checkout is a copy, or was renamed";
    let wiki = Wiki::small();
    wiki.drain();
    let copy = wiki.root().with_file_name("copy");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&wiki.root(), &copy])
        .status();
    assert!(copied.unwrap().success());
    let there = copy.to_str().unwrap();
    let status = wiki.ws(&["-C", there, "status"]).code(0).out;
    assert!(status.contains(WHY), "{status}");
    assert!(
        status.contains("\"repo\" and is \"copy\"") && status.contains("next `wiki-sync drain`"),
        "{status}"
    );
    assert!(!status.contains("changed and not"), "{status}");
    let report = wiki.json(0, &["-C", there, "status"]);
    assert_eq!(
        [&report["unannounced"], &report["outdated"]],
        [&json!(3), &json!(3)]
    );
    for mode in [&["verify"][..], &["verify", "--fast"]] {
        let args = [&["-C", there], mode].concat();
        let verify = wiki.ws(&args).code(3).out;
        assert!(verify.contains(WHY), "{mode:?}: {verify}");
        let report = wiki.json(3, &args);
        assert_eq!(report["renewals"][0]["pages"], 3, "{report:#}");
        assert_eq!(report["drift"][0]["kind"], "stale", "{report:#}");
    }
    // A page that did change is told apart.
    std::fs::write(copy.join("wiki-output/b.md"), "# Beta, second\n").unwrap();
    let report = wiki.json(0, &["-C", there, "status"]);
    assert_eq!(
        [&report["unannounced"], &report["outdated"]],
        [&json!(3), &json!(2)]
    );
    let drain = wiki.ws(&["-C", there, "drain"]).code(0).out;
    assert!(
        drain.contains(WHY) && drain.contains("2 unchanged pages brought anew"),
        "{drain}"
    );
    assert_eq!(wiki.json(0, &["-C", there, "verify"])["in_sync"], true);
    let again = wiki.ws(&["-C", there, "drain"]).code(0).out;
    assert!(!again.contains(WHY), "{again}");
}

#[test]
fn vectors_that_were_put_back_from_a_copy_are_told_before_a_drain_looks_through_them() {
    let wiki = Wiki::small();
    wiki.drain();
    let vectors = wiki.root().join(".wiki-sync/vectors");
    let copy = wiki.root().with_file_name("copy");
    let copied = |from, to| {
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .args([from, to])
            .status();
        assert!(copied.unwrap().success());
    };
    copied(&vectors, &copy);
    wiki.write("wiki-output/b.md", "# Beta, second\n");
    wiki.drain();
    std::fs::remove_dir_all(&vectors).unwrap();
    copied(&copy, &vectors);
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["fresh"], false, "{status:#}");
    assert_eq!(status["renewals"][0]["store"], "vectors", "{status:#}");
    let drained = wiki.drain();
    assert_eq!(drained["renewals"], status["renewals"], "{drained:#}");
    assert_eq!(wiki.json(0, &["status"])["fresh"], true);
    wiki.assert_in_sync();
}
