//! Keys that somebody's hand, or another program, changed.

use super::*;

#[test]
fn keys_of_the_wrong_type_are_refused_named_and_left_alone() {
    let server = RedisServer::start();
    for key in Key::ALL {
        if key == Key::Sent {
            continue;
        }
        server.cli(&["FLUSHALL"]);
        let mut fresh = outbox(&server);
        let mut connected = outbox(&server);
        connected.enqueue(&jobs(2), NOW).expect("enqueue");
        let name = fresh.link.keys.name(key).to_owned();
        server.cli(&["DEL", &name]);
        let (command, kind) = match key.kind() {
            "string" => (vec!["RPUSH", &*name, "theirs"], "list"),
            _ => (vec!["SET", &*name, "theirs"], "string"),
        };
        server.cli(&command);
        let failures = [
            fresh.claim(9, LEASE, NOW).expect_err("refused"),
            fresh.enqueue(&jobs(1), NOW).expect_err("refused"),
            // One whose connection has been checked before.
            connected.enqueue(&[job("new")], NOW).expect_err("refused"),
        ];
        for failure in failures {
            assert_eq!(failure.kind, FailureKind::Refused, "{key:?}: {failure}");
        }
        let failure = fresh.counts(NOW).expect_err("refused");
        let named = format!("the key {name:?} is a {kind}");
        assert!(failure.reason.contains(&named), "{failure}");
        let left = match kind {
            "list" => server.cli(&["LINDEX", &name, "0"]),
            _ => server.cli(&["GET", &name]),
        };
        assert_eq!(left, "theirs", "{key:?}");
    }
}

#[test]
fn a_job_taken_out_of_its_order_by_hand_comes_back() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    let first = server.cli(&["ZRANGE", &ours("ready"), "0", "0"]);
    assert_eq!(server.cli(&["ZREM", &ours("ready"), &first]), "1");
    assert_eq!(outbox.counts(NOW).expect("counts").waiting, 3);
    outbox.recover(false, NOW).expect("recover");
    let claims = take(&mut outbox, 9);
    assert_eq!(claims.len(), 3);
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);
}

#[test]
fn what_stands_in_an_order_without_a_job_is_forgotten() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(3), NOW).expect("enqueue");
    let page = "wiki-output/folder/page 0.md";
    assert_eq!(server.cli(&["HDEL", &ours("waiting"), page]), "1");
    server.cli(&["ZADD", &ours("ready"), "1", "short"]);
    server.cli(&[
        "ZADD",
        &ours("held:git"),
        "1",
        "0000000000000000no such page",
    ]);
    let claims = take(&mut outbox, 9);
    assert_eq!(claims.len(), 2);
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);

    // And by the sweep, before anybody claims.
    server.cli(&["ZADD", &ours("ready"), "1", "0000000000000000no such page"]);
    outbox.recover(true, NOW).expect("recover");
    assert_empty(&server);
}

#[test]
fn a_claim_deleted_by_hand_is_lost_once_and_strands_nothing() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&[job("a")], NOW).expect("enqueue");
    let claims = take(&mut outbox, 9);
    // The page was enqueued again meanwhile: it waits until its claim is settled.
    outbox.enqueue(&[job("a")], NOW).expect("enqueue");
    assert_eq!(server.cli(&["HDEL", &ours("in-flight"), "a"]), "1");
    assert_eq!(ack(&mut outbox, claims), 1, "refused");
    outbox.recover(true, NOW).expect("recover");
    let again = take(&mut outbox, 9);
    assert_eq!(names(&again), ["a"]);
    assert_eq!(ack(&mut outbox, again), 0);
    assert_empty(&server);
}

#[test]
fn an_entry_that_cannot_be_read_is_buried_and_stops_nobody() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox
        .enqueue(&[job("a"), job("b"), job("c")], NOW)
        .expect("enqueue");
    let claims = outbox.claim(1, LEASE, NOW).expect("claim").jobs;
    server.cli(&["HSET", &ours("in-flight"), "a", "{}"]);
    server.cli(&["HSET", &ours("waiting"), "b", "garbage"]);
    let rest = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!((names(&rest.jobs), rest.buried), (vec!["c"], 1));
    outbox.recover(true, NOW).expect("recover");
    assert_eq!(ack(&mut outbox, claims), 1, "lost");
    let dead = outbox.dead().expect("dead");
    let raw: Vec<_> = dead.iter().map(|d| &*d.head).collect();
    assert_eq!(raw, ["garbage", "{}"]);
    assert!(dead[0].death.reason.contains("page \"b\" cannot be read"));
    outbox.enqueue(&[job("a"), job("b")], NOW).expect("enqueue");
    assert_eq!(names(&take(&mut outbox, 9)), ["c", "a", "b"]);
}

#[test]
fn an_older_state_of_the_server_gives_back_what_was_done_since_and_loses_nothing_of_before() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    outbox.enqueue(&jobs(20), NOW).expect("enqueue");
    let claims = take(&mut outbox, 10);
    let dump: Vec<(String, Vec<u8>)> = {
        let mut c = redis::Client::open(server.url())
            .and_then(|client| client.get_connection())
            .expect("connects");
        let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut c).expect("keys");
        names
            .into_iter()
            .map(|name| {
                let text = redis::cmd("DUMP").arg(&name).query(&mut c).expect("dumps");
                (name, text)
            })
            .collect()
    };
    let five = claims[..5].to_vec();
    assert_eq!(ack(&mut outbox, five), 0);
    outbox
        .enqueue(&[job("lost: the scan finds it")], NOW)
        .expect("enqueue");
    server.cli(&["FLUSHALL"]);
    let mut c = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("connects");
    for (name, text) in dump {
        let restore = redis::cmd("RESTORE")
            .arg(&name)
            .arg(0)
            .arg(text)
            .exec(&mut c);
        restore.expect("restores");
    }
    // The number of the last change went back too: it must not be taken for one that was done.
    assert_eq!(ack(&mut outbox, claims[5..].to_vec()), 0);
    outbox.recover(true, NOW).expect("recover");
    assert_eq!(take(&mut outbox, 99).len(), 15);
}

#[test]
fn letters_read_while_others_are_dropped_lose_none() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    let mut c = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("connects");
    for n in 0..900 {
        redis::cmd("RPUSH")
            .arg("deep-wiki:outbox:dlq")
            .arg(job(&format!("p{n}.md")).to_line())
            .exec(&mut c)
            .expect("pushed");
    }
    let letters = outbox.dead().expect("letters");
    assert_eq!(letters.len(), 900);
    let dropped: Vec<i64> = letters.iter().step_by(9).map(|letter| letter.id).collect();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = super::outbox(&server);
            for _ in 0..40 {
                reader.dead().expect("letters");
            }
        });
        for id in &dropped {
            outbox.drop_dead(&Which::Ids(vec![*id])).expect("dropped");
        }
        reader.join().expect("read");
    });
    let left: Vec<i64> = outbox
        .dead()
        .expect("letters")
        .iter()
        .map(|letter| letter.id)
        .collect();
    let kept = letters
        .iter()
        .map(|letter| letter.id)
        .filter(|id| !dropped.contains(id));
    assert_eq!(left, kept.collect::<Vec<_>>());
}
