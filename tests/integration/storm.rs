//! A storm: kills at random moments under load, on both outboxes. Nothing is lost, nothing is stale, no innocent page
//! is dead-lettered.

use std::time::Duration;

use wiki_sync::testing::RedisServer;

use crate::dice::Dice;
use crate::wiki::Wiki;

/// Edits a few pages, kills a drain somewhere, and so on; then one quiet drain must bring all in sync.
fn storm(wiki: &Wiki, rounds: u32, seed: u64) {
    let mut dice = Dice::of(seed);
    let page = |n: usize| format!("wiki-output/d{}/p{n}.md", n % 5);
    for n in 0..120 {
        wiki.write(&page(n), format!("# Page {n}\n\n[[p{}]]\n", (n * 7) % 120));
    }
    wiki.drain();
    let mut killed = 0;
    for round in 0..rounds {
        for _ in 0..=dice.below(12) {
            let n = dice.below(130);
            let path = page(n);
            match dice.below(5) {
                0 if wiki.root().join(&path).exists() => wiki.remove(&path),
                1 => wiki.write(&path, format!("# Page {n}\n\n[[p{}]]\n", (n * 7) % 120)),
                _ => wiki.write(
                    &path,
                    format!("# Page {n} in round {round}\n\n[[p{}]]\n", dice.below(130)),
                ),
            }
        }
        let mut drain = wiki
            .binary()
            .args(["drain", "--allow-mass-delete"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(dice.below(120_000) as u64));
        if drain.try_wait().unwrap().is_none() {
            drain.kill().unwrap();
            killed += 1;
        }
        drain.wait().unwrap();
        if round % 10 == 9 {
            wiki.json(0, &["drain", "--allow-mass-delete"]);
            wiki.assert_in_sync();
        }
    }
    assert!(killed > rounds / 4, "{killed} of {rounds} were killed");
    wiki.json(0, &["drain", "--allow-mass-delete"]);
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["dlq", "list"]), serde_json::json!([]));
}

#[test]
fn a_hundred_random_kills_leave_nothing_behind() {
    storm(&Wiki::with(&[]), 100, 0x5eed_0002);
}

#[test]
fn a_hundred_random_kills_with_redis_leave_nothing_behind() {
    let server = RedisServer::durable();
    let mut wiki = Wiki::with(&[]);
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), server.url());
    storm(&wiki, 100, 0x5eed_0003);
}

#[test]
#[ignore = "takes minutes: a thousand kills"]
fn a_thousand_random_kills_leave_nothing_behind() {
    for seed in 1..=10 {
        storm(&Wiki::with(&[]), 100, seed * 0x9e37_79b9);
    }
}
