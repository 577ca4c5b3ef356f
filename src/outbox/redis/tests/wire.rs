//! What producers and other consumers do to the two lists.

use super::*;

fn push(server: &RedisServer, line: &str) {
    server.cli(&["RPUSH", LIST, line]);
}

#[test]
fn lines_of_producers_come_out_in_their_order_and_merge_when_they_are_read() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    for line in [
        r#"{"sha": "", "output_path": "b.md", "repo": "demo", "commit_sha": "c0", "retry": 2}"#,
        r#"{"output_path": "a.md", "priority": 9, "more": {"x": [1]}}"#,
        r#"{"output_path": "b.md", "retry": 0}"#,
    ] {
        push(&server, line);
    }
    let before = outbox.counts(NOW).expect("counts");
    assert_eq!((before.waiting, before.unread), (3, 3));
    let pending = outbox.pending(9).expect("pending");
    assert_eq!(pending.len(), 3);
    assert!(pending.iter().all(|p| p.standing == Standing::Waiting));
    let claims = outbox.claim(10, LEASE, NOW).expect("claim");
    assert_eq!((claims.read, claims.merged, claims.buried), (3, 1, 0));
    assert_eq!(names(&claims.jobs), ["b.md", "a.md"]);
    let first = &claims.jobs[0].job;
    assert_eq!((first.retry, &*first.labels.repo), (2, "demo"));
    assert_eq!(ack(&mut outbox, claims.jobs), 0);
    assert_empty(&server);
}

#[test]
fn a_line_merges_with_a_job_that_is_delayed_held_or_waits_behind_its_page() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    let three = [job_of("delayed", "v1"), job_of("held", "v1"), job("behind")];
    outbox.enqueue(&three, NOW).expect("enqueue");
    let claims = take(&mut outbox, 9);
    let version = ContentSha::of(b"v1").to_string();
    let retry = Settle::RetryAt {
        at: Timestamp(NOW.0 + 9000),
        attempts: 2,
        version: version.clone(),
        reason: "no luck".into(),
    };
    let hold = Settle::Hold {
        store: StoreName::Vectors,
        until: None,
        version,
        reason: "away".into(),
    };
    let settled = [(claims[0].clone(), retry), (claims[1].clone(), hold)];
    outbox.settle(&settled, NOW).expect("settle");
    outbox.enqueue(&[job("behind")], NOW).expect("enqueue");
    for name in ["delayed", "held", "behind"] {
        push(&server, &job_of(name, "v1").to_line());
    }
    let none = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!((none.read, none.merged, none.jobs.len()), (3, 3, 0));
    let now = outbox.counts(NOW).expect("counts");
    assert_eq!(
        (now.delayed, now.held, now.waiting, now.in_flight),
        (1, 1, 1, 1)
    );
    // Another content makes both of them due.
    push(&server, &job_of("delayed", "v2").to_line());
    push(&server, &job_of("held", "v2").to_line());
    let claims = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!(
        (claims.merged, names(&claims.jobs)),
        (2, vec!["delayed", "held"])
    );
    assert_eq!(claims.jobs[0].job.retry, 0);
}

#[test]
fn junk_is_kept_raw_with_its_reason_and_stops_nobody() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    let long = format!(
        r#"{{"output_path": "a.md", "x": "{}"}}"#,
        "x".repeat(1 << 20)
    );
    let junk: Vec<(Vec<u8>, &str)> = vec![
        (b"not json {".to_vec(), "line is not a job: expected"),
        (b"".to_vec(), "line is not a job: EOF"),
        (
            br#"{"output_path": 5}"#.to_vec(),
            "line is not a job: invalid type",
        ),
        (
            br#"{"output_path": "a.md", "retry": "x"}"#.to_vec(),
            "invalid type",
        ),
        (
            br#"{"output_path": "../../etc/passwd"}"#.to_vec(),
            "job names no page: path",
        ),
        (b"\xff\xfe\0".to_vec(), "line is not UTF-8"),
        (long.clone().into_bytes(), "bytes long"),
        (long.into_bytes(), "bytes long"),
    ];
    let mut connection = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("connects");
    for (n, (line, _)) in junk.iter().enumerate() {
        push(&server, &job(&format!("good {n}")).to_line());
        redis::cmd("RPUSH")
            .arg(LIST)
            .arg(line)
            .exec(&mut connection)
            .expect("pushes");
    }
    let claims = outbox.claim(100, LEASE, NOW).expect("claim");
    assert_eq!((claims.jobs.len(), claims.read, claims.buried), (8, 16, 8));
    let dead = outbox.dead().expect("dead");
    assert_eq!(dead.len(), 8);
    for (letter, (raw, reason)) in dead.iter().zip(&junk) {
        let line = outbox.dead_line(letter.id).expect("a line");
        assert!(line.as_ref() == Some(raw), "{}", letter.death.reason);
        assert!(
            letter.death.reason.contains(reason),
            "{}",
            letter.death.reason
        );
        assert_eq!((&letter.path, letter.dead_at), (&None, NOW));
    }
    let on_list: Vec<Vec<u8>> = redis::cmd("LRANGE")
        .arg(DEAD)
        .arg(0)
        .arg(-1)
        .query(&mut connection)
        .expect("reads");
    assert!(on_list.iter().eq(junk.iter().map(|(raw, _)| raw)));
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(0));
    let two = Which::Ids(vec![dead[0].id, dead[7].id]);
    assert_eq!(outbox.drop_dead(&two), Ok(2));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(6));
    assert_eq!(ack(&mut outbox, claims.jobs), 0);
    assert_empty(&server);
}

#[test]
fn a_thousand_lines_of_junk_do_not_hide_the_job_behind_them() {
    let server = RedisServer::start();
    for _ in 0..10 {
        let mut command = vec!["RPUSH", LIST];
        command.extend(["junk"; 100]);
        server.cli(&command);
    }
    push(&server, &job("last.md").to_line());
    let claims = outbox(&server).claim(1, LEASE, NOW).expect("claim");
    assert_eq!(
        (claims.buried, names(&claims.jobs)),
        (1000, vec!["last.md"])
    );
}

#[test]
fn dead_letters_are_raw_lines_on_the_wires_list() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    push(&server, r#"{"output_path": "a.md", "repo": "demo"}"#);
    let claim = take(&mut outbox, 1).remove(0);
    let death = Death {
        stores: StoreName::Git.into(),
        reason: "never".into(),
        attempts: 4,
        version: String::new(),
        fingerprint: String::new(),
    };
    outbox
        .settle(&[(claim, Settle::Dead(death))], NOW)
        .expect("settle");
    let line = r#"{"sha":"","output_path":"a.md","repo":"demo","commit_sha":"","retry":4}"#;
    assert_eq!(server.cli(&["LRANGE", DEAD, "0", "-1"]), line);
    // A person moves it back by hand, as with the ancestor.
    server.cli(&["LMOVE", DEAD, LIST, "LEFT", "RIGHT"]);
    assert_eq!(outbox.dead(), Ok(vec![]));
    assert_eq!(outbox.counts(NOW).expect("counts").dead, 0);
    let claims = take(&mut outbox, 1);
    assert_eq!(claims[0].job.retry, 4);
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);
}

#[test]
fn letters_that_the_ancestor_left_are_listed_retried_and_dropped() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    let line = |name: &str| job(name).to_line();
    for raw in [
        &*line("a.md"),
        "junk",
        "junk",
        &*line("b.md"),
        &*line("a.md"),
    ] {
        server.cli(&["RPUSH", DEAD, raw]);
    }
    let dead = outbox.dead().expect("dead");
    let shown: Vec<_> = dead
        .iter()
        .map(|d| (d.path.as_ref().map(PagePath::as_str), &*d.head))
        .collect();
    let (a, b) = (line("a.md"), line("b.md"));
    let expected = [
        (Some("a.md"), &*a),
        (None, "junk"),
        (None, "junk"),
        (Some("b.md"), &*b),
    ];
    assert_eq!(shown, expected);
    assert_eq!(outbox.dead().expect("dead"), dead, "the same ids again");
    assert_eq!(outbox.counts(NOW).expect("counts").dead, 4);
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(2));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(2));
    let claims = take(&mut outbox, 9);
    assert_eq!(names(&claims), ["a.md", "b.md"]);
    assert_eq!(ack(&mut outbox, claims), 0);
    assert_empty(&server);
}

#[test]
fn what_another_consumer_took_is_gone_and_the_rest_comes() {
    let server = RedisServer::start();
    push_many(&server, "shared", 400);
    let thief = std::thread::scope(|scope| {
        let stolen = scope.spawn(|| {
            let mut stolen = 0;
            for _ in 0..60 {
                let popped = server.cli(&["BLPOP", LIST, "0.01"]);
                stolen += usize::from(!popped.is_empty());
            }
            stolen
        });
        let mut outbox = outbox(&server);
        let mut mine = 0;
        while !stolen.is_finished() || outbox.counts(NOW).expect("counts").waiting > 0 {
            let claims = take(&mut outbox, 3);
            mine += claims.len();
            assert_eq!(ack(&mut outbox, claims), 0);
        }
        mine + stolen.join().expect("no panic")
    });
    assert_eq!(thief, 400, "each line went to one of the two");
    assert_empty(&server);
}

#[test]
fn a_key_of_a_name_of_its_own_leaves_the_default_alone() {
    let server = RedisServer::start();
    let mut outbox = RedisOutbox::open(RedisSettings {
        key: "{wiki}:jobs".into(),
        dead_key: "{wiki}:dead".into(),
        ..settings(server.url())
    })
    .expect("opens");
    server.cli(&["RPUSH", "{wiki}:jobs", "junk", &job("a.md").to_line()]);
    let claims = take(&mut outbox, 9);
    assert_eq!(claims.len(), 1);
    let keys = server.cli(&["KEYS", "*"]);
    assert!(keys.lines().all(|key| key.starts_with("{wiki}:")), "{keys}");
    assert_eq!(server.cli(&["LLEN", "{wiki}:dead"]), "1");
}

#[test]
fn a_job_whose_path_or_labels_are_longer_than_any_can_be_is_junk() {
    let server = RedisServer::start();
    let mut outbox = outbox(&server);
    for (path, repo) in [
        ("p".repeat(20_000), String::new()),
        ("a.md".into(), "r".repeat(20_000)),
    ] {
        push(
            &server,
            &format!(r#"{{"output_path": "{path}", "repo": "{repo}"}}"#),
        );
    }
    // Whereas a field that nobody knows is nothing to us.
    push(
        &server,
        &format!(
            r#"{{"output_path": "b.md", "x": "{}"}}"#,
            "x".repeat(20_000)
        ),
    );
    let claims = outbox.claim(9, LEASE, NOW).expect("claim");
    assert_eq!((names(&claims.jobs), claims.buried), (vec!["b.md"], 2));
    let dead = outbox.dead().expect("dead");
    assert!(dead[0].death.reason.contains("labels are"), "{dead:?}");
    assert_eq!(ack(&mut outbox, claims.jobs), 0);
}
