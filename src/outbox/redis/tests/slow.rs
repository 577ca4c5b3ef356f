//! A server, or a way to one, that is slow: every call ends in bounded time, and a line of any length is got past.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use super::*;

/// Something that answers every caller at once, with a text that comes one byte each tenth of a second and never ends.
fn dripping() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut from in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = from.write_all(b"$1000000\r\n");
                while from.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    port
}

#[test]
fn a_server_that_drips_its_answer_is_down_in_bounded_time() {
    let url = format!("redis://127.0.0.1:{}/0", dripping());
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    let since = Instant::now();
    let failure = outbox.enqueue(&jobs(1), NOW).expect_err("it drips");
    assert_eq!(failure.kind, FailureKind::Down, "{failure}");
    assert!(failure.reason.contains("no answer in time"), "{failure}");
    // The whole text would take a day.
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
}

#[test]
fn a_call_takes_no_longer_than_whoever_calls_can_wait() {
    // It takes the connection, and never says anything.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for port in [port, dripping()] {
        let mut hurried = RedisOutbox::open(RedisSettings {
            within: Some(Duration::from_millis(50)),
            ..settings(format!("redis://127.0.0.1:{port}/0"))
        })
        .expect("opens");
        for _ in 0..2 {
            let since = Instant::now();
            let failure = hurried.enqueue(&jobs(1), NOW).expect_err("no answer");
            assert_eq!(failure.kind, FailureKind::Down, "{failure}");
            // Not the two seconds that each answer has otherwise.
            assert!(
                since.elapsed() < Duration::from_millis(1500),
                "{:?}",
                since.elapsed()
            );
        }
    }
}

#[test]
fn a_call_that_has_its_time_is_done_in_it() {
    let server = RedisServer::start();
    let mut hurried = RedisOutbox::open(RedisSettings {
        within: Some(Duration::from_secs(20)),
        ..settings(server.url())
    })
    .expect("opens");
    let done = hurried.enqueue(&jobs(1), NOW).expect("enqueue");
    assert_eq!(done.new, 1);
    // The time counts anew for each call.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(hurried.counts(NOW).expect("counts").waiting, 1);
}

#[test]
fn an_answer_of_many_pieces_is_put_together() {
    let server = RedisServer::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let to = server.port();
    // A way that hands on three bytes at a time.
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let there = std::net::TcpStream::connect(("127.0.0.1", to)).expect("the server");
            let clone = |socket: &std::net::TcpStream| socket.try_clone().expect("a socket");
            for (mut from, mut to) in [(clone(&from), clone(&there)), (there, from)] {
                std::thread::spawn(move || {
                    let mut bytes = [0; 3];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    let url = format!("redis://localhost:{port}/0");
    let mut outbox = RedisOutbox::open(settings(url)).expect("opens");
    outbox.enqueue(&jobs(30), NOW).expect("enqueue");
    let claims = take(&mut outbox, 30);
    assert_eq!((claims.len(), ack(&mut outbox, claims)), (30, 0));
    assert_empty(&server);
}

#[test]
#[ignore = "a line of 400 MB, and the server copies it several times"]
fn a_line_that_takes_the_server_seconds_to_look_at_stops_nobody() {
    let server = RedisServer::start();
    let mut connection = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .expect("connects");
    let mut push = redis::cmd("RPUSH");
    push.arg(LIST).arg(vec![b'z'; 400 << 20]);
    push.exec(&mut connection).expect("pushes");
    server.cli(&["RPUSH", LIST, &job("behind.md").to_line()]);
    let mut outbox = by_server(&server);
    let now = Timestamp::now();
    let end = Instant::now() + Duration::from_mins(2);
    // As a drain goes on over an outage.
    let claims = loop {
        match outbox.claim(9, LEASE, now) {
            Ok(claims) if !claims.jobs.is_empty() => break claims,
            Ok(_) => {}
            Err(failure) => assert_eq!(failure.kind, FailureKind::Down, "{failure}"),
        }
        assert!(Instant::now() < end, "the line stops everybody");
        std::thread::sleep(Duration::from_millis(500));
    };
    assert_eq!(names(&claims.jobs), ["behind.md"]);
    assert_eq!(outbox.dead().expect("dead")[0].size, 400 << 20);
}
