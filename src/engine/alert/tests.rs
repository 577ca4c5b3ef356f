//! Alerts as a whole, with time as an argument and a real HTTP server on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::*;
use crate::model::{PagePath, Secret, StoreSet};
use crate::outbox::Death;

const START: Timestamp = Timestamp(1_700_000_000_000);
const VECTORS: Subject = Subject::Store(StoreName::Vectors);
/// Longer than any answer of the server takes.
const LONG: Duration = Duration::from_secs(20);

pub(crate) fn letter(id: i64, path: &str, version: &str) -> DeadLetter {
    DeadLetter {
        id,
        path: Some(PagePath::parse(path).expect("a page's path")),
        death: Death {
            stores: StoreSet::NONE,
            reason: "not UTF-8".into(),
            attempts: 1,
            version: version.into(),
            fingerprint: "f".into(),
        },
        dead_at: START,
        size: 0,
        head: String::new(),
    }
}

pub(crate) fn message(text: &str) -> Message {
    Message {
        kind: "dead_letter".into(),
        store: Some("git".into()),
        title: "title".into(),
        text: text.into(),
        count: 2,
        at: Timestamp(5),
    }
}

/// What the server answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Ok,
    TooMany(u64),
    Fail,
    Redirect,
    Hang,
    Close,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// An HTTP server that keeps what it was asked.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Server {
    pub(crate) fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(Mutex::new(answer));
        let (kept, now) = (Arc::clone(&requests), Arc::clone(&answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, now) = (Arc::clone(&kept), Arc::clone(&now));
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read(&mut stream) {
                        kept.lock().expect("no panic").push(request);
                        let answer = *now.lock().expect("no panic");
                        if !reply(stream.get_mut(), answer) {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            url,
            requests,
            answer,
        }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().expect("no panic") = answer;
    }

    fn texts(&self) -> Vec<String> {
        let text = |request: &Request| request.body["text"].as_str().map(Into::into);
        self.requests().iter().filter_map(text).collect()
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).ok()?;
    Some(Request { head, body })
}

fn reply(stream: &mut TcpStream, answer: Answer) -> bool {
    let (status, header, body) = match answer {
        Answer::Ok => ("200 OK", String::new(), r#"{"ok":true}"#),
        Answer::TooMany(seconds) => (
            "429 Too Many Requests",
            format!("Retry-After: {seconds}\r\n"),
            "{}",
        ),
        Answer::Fail => (
            "500 Oh",
            String::new(),
            r#"{"ok":false,"description":"no bot123:SECRET-token here"}"#,
        ),
        Answer::Redirect => ("302 Found", "Location: /else\r\n".into(), "{}"),
        Answer::Hang => {
            // Until the other side has had enough.
            let _ = stream.read(&mut [0]);
            return false;
        }
        Answer::Close => return false,
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{header}Content-Length: {length}\r\n\r\n{body}"
    )
    .is_ok()
}

fn alerts_of(db: &Path, server: &Server) -> Alerts {
    let url = Secret::new(&server.url);
    let channels = vec![Channel::Webhook { url }];
    Alerts::open(db, "w", (channels, Vec::new()), &RetryPolicy::default()).expect("opened")
}

/// A wiki's alerts; each drain is another process.
struct Wiki {
    dir: tempfile::TempDir,
    server: Server,
}

impl Wiki {
    fn new(answer: Answer) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            server: Server::start(answer),
        }
    }

    fn db(&self) -> std::path::PathBuf {
        self.dir.path().join("wiki.db")
    }

    /// Runs a drain and returns its troubles.
    fn drain(&self, now: Timestamp, work: impl FnOnce(&mut Alerts)) -> Vec<String> {
        let mut alerts = alerts_of(&self.db(), &self.server);
        alerts.begin(now);
        work(&mut alerts);
        let troubles = alerts.end(now, LONG);
        troubles.into_iter().map(|trouble| trouble.reason).collect()
    }

    fn titles(&self) -> Vec<String> {
        let title = |text: String| text.lines().next().unwrap_or_default().into();
        self.server.texts().into_iter().map(title).collect()
    }
}

fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

fn away(kind: FailureKind) -> Event {
    Event::Away {
        subject: VECTORS,
        failure: Failure::new(kind, "cannot reach it"),
    }
}

#[test]
fn ten_minutes_of_outage_over_many_drains_are_one_alert_down_and_one_back() {
    let wiki = Wiki::new(Answer::Ok);
    for minute in 0..10 {
        wiki.drain(at(minute * 60), |alerts| {
            alerts.note(&away(FailureKind::Down), at(minute * 60));
            alerts.note(&away(FailureKind::Down), at(minute * 60 + 1));
        });
    }
    assert_eq!(wiki.titles(), ["wiki w: vectors is away"]);
    for n in 0..2 {
        let now = at(600 + n);
        wiki.drain(now, |alerts| {
            alerts.note(&Event::Back { subject: VECTORS }, now);
        });
    }
    assert_eq!(
        wiki.titles(),
        ["wiki w: vectors is away", "wiki w: vectors is back"]
    );
}

#[test]
fn an_outage_is_told_only_after_the_schedule_and_then_only_is_it_told_to_be_over() {
    for (seconds, told) in [(39, 0), (40, 2)] {
        let wiki = Wiki::new(Answer::Ok);
        wiki.drain(START, |alerts| {
            for second in [0, 1, 4, 13, seconds] {
                alerts.note(&away(FailureKind::Down), at(second));
            }
            alerts.note(&Event::Back { subject: VECTORS }, at(50));
        });
        assert_eq!(wiki.titles().len(), told, "{seconds} s");
    }
}

#[test]
fn that_no_drain_can_run_is_told_and_that_they_run_again() {
    let wiki = Wiki::new(Answer::Ok);
    let away = || Event::Away {
        subject: Subject::Drain,
        failure: Failure::new(FailureKind::Down, "cannot reach the outbox"),
    };
    for minute in [0, 60, 120] {
        wiki.drain(at(minute), |alerts| alerts.note(&away(), at(minute)));
    }
    let back = Event::Back {
        subject: Subject::Drain,
    };
    wiki.drain(at(180), |alerts| alerts.note(&back, at(180)));
    assert_eq!(
        wiki.titles(),
        ["wiki w: no drain can run", "wiki w: drains run again"]
    );
    let request = &wiki.server.requests()[1];
    assert_eq!(
        (&request.body["kind"], &request.body["store"]),
        (&"drain_back".into(), &Value::Null)
    );
}

#[test]
fn what_waits_for_a_neighbour_or_the_user_is_never_told_and_a_refusal_at_once() {
    let wiki = Wiki::new(Answer::Ok);
    for kind in [FailureKind::Busy, FailureKind::Waiting] {
        for hour in 0..3 {
            wiki.drain(at(hour * 3600), |alerts| {
                alerts.note(&away(kind), at(hour * 3600));
            });
        }
    }
    assert_eq!(wiki.titles(), [""; 0]);
    wiki.drain(START, |alerts| {
        alerts.note(&away(FailureKind::Refused), START);
    });
    assert_eq!(wiki.titles(), ["wiki w: vectors refuses its work"]);
}

#[test]
fn a_dead_letter_is_told_once_while_it_rests_and_again_with_other_content() {
    let wiki = Wiki::new(Answer::Ok);
    let drain = |second, letters: &[DeadLetter]| {
        wiki.drain(at(second), |alerts| {
            alerts.letters(letters, at(second), at(second));
        });
        wiki.titles().len()
    };
    let (a1, a2) = (letter(1, "a.md", "v1"), letter(2, "a.md", "v2"));
    assert_eq!(drain(0, std::slice::from_ref(&a1)), 1);
    assert_eq!(drain(1, std::slice::from_ref(&a1)), 1, "it rests");
    let retried = DeadLetter {
        id: 9,
        ..a1.clone()
    };
    assert_eq!(drain(2, &[retried]), 1, "it died again of the same");
    assert_eq!(drain(3, &[a2]), 2, "new content is a new incident");
    assert_eq!(drain(4, &[]), 2, "mended");
    assert_eq!(drain(5, &[a1]), 3, "and broken again");
}

#[test]
fn many_letters_of_one_drain_are_one_alert() {
    let wiki = Wiki::new(Answer::Ok);
    let letters: Vec<_> = (0..500)
        .map(|n| letter(n, &format!("{n}.md"), "v"))
        .collect();
    wiki.drain(START, |alerts| alerts.letters(&letters, START, START));
    assert_eq!(wiki.titles(), ["wiki w: 500 pages could not be synced"]);
}

#[test]
fn a_stream_of_bad_pages_is_no_stream_of_alerts_and_none_is_forgotten() {
    let wiki = Wiki::new(Answer::Ok);
    let mut letters = Vec::new();
    for second in 0..30 {
        let id = i64::try_from(second).expect("small");
        letters.push(letter(id, &format!("{second}.md"), "v"));
        let now = at(second);
        wiki.drain(now, |alerts| alerts.letters(&letters, now, now));
    }
    assert_eq!(wiki.titles().len(), 5);
    wiki.drain(at(90), |alerts| alerts.letters(&letters, at(90), at(90)));
    assert_eq!(wiki.titles()[5], "wiki w: 25 pages could not be synced");
}

#[test]
fn a_letter_that_came_after_the_look_is_not_taken_for_gone() {
    let wiki = Wiki::new(Answer::Ok);
    let one = [letter(1, "a.md", "v")];
    wiki.drain(at(5), |alerts| alerts.letters(&one, at(5), at(5)));
    // Another process looked before the letter was there, and writes later.
    wiki.drain(at(6), |alerts| alerts.letters(&[], at(4), at(6)));
    wiki.drain(at(7), |alerts| alerts.letters(&one, at(7), at(7)));
    assert_eq!(wiki.titles().len(), 1);
}

#[test]
fn a_trimmed_letter_that_dies_again_of_the_same_is_not_told_again() {
    let wiki = Wiki::new(Answer::Ok);
    let one = [letter(1, "a.md", "v")];
    wiki.drain(at(0), |alerts| {
        alerts.letters(&one, at(0), at(0));
        alerts.trimming(&[&one[0]], at(0));
    });
    wiki.drain(at(1), |alerts| alerts.letters(&[], at(1), at(1)));
    wiki.drain(at(2), |alerts| alerts.letters(&one, at(2), at(2)));
    assert_eq!(wiki.titles().len(), 1);
}

#[test]
fn the_bounds_are_told_once_until_the_letters_are_fewer() {
    let wiki = Wiki::new(Answer::Ok);
    let near = || Event::NearlyFull { count: 9, max: 10 };
    let trimmed = || Event::Trimmed {
        count: 1,
        oldest: "a.md".into(),
    };
    wiki.drain(START, |alerts| {
        alerts.note(&near(), START);
        alerts.note(&trimmed(), START);
    });
    wiki.drain(at(1), |alerts| {
        alerts.note(&trimmed(), at(1));
        alerts.note(&near(), at(1));
    });
    assert_eq!(wiki.titles().len(), 2);
    wiki.drain(at(2), Alerts::within_bounds);
    wiki.drain(at(3), |alerts| {
        alerts.note(&trimmed(), at(3));
        alerts.note(&near(), at(3));
    });
    assert_eq!(wiki.titles().len(), 3);
}

#[test]
fn what_was_not_delivered_is_told_and_sent_by_a_later_drain_and_dropped_after_a_day() {
    let wiki = Wiki::new(Answer::Fail);
    let one = [letter(1, "a.md", "v")];
    let troubles = wiki.drain(START, |alerts| alerts.letters(&one, START, START));
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(
        troubles[0].starts_with("1 alert is not delivered by webhook yet: 127.0.0.1 answered 500"),
        "{troubles:?}"
    );
    let status = alerts_of(&wiki.db(), &wiki.server).status().expect("read");
    let status = status.expect("a channel");
    assert_eq!(status.undelivered, 1);
    assert!(
        status
            .error
            .is_some_and(|error| error.starts_with("webhook: "))
    );

    let attempts = |second| {
        wiki.drain(at(second), |_| ());
        wiki.server.requests().len()
    };
    assert_eq!(attempts(59), 1, "not due yet");
    assert_eq!(attempts(60), 2);
    assert_eq!(attempts(60 + 299), 2);
    assert_eq!(attempts(60 + 300), 3);
    wiki.server.answers(Answer::Ok);
    assert_eq!(attempts(60 + 300 + 1800), 4);
    assert!(wiki.server.texts()[3].starts_with("wiki w: 1 page"));
    assert_eq!(attempts(86_000), 4, "delivered");

    wiki.server.answers(Answer::Close);
    let two = [letter(2, "b.md", "v")];
    wiki.drain(at(90_000), |alerts| {
        alerts.letters(&two, at(90_000), at(90_000));
    });
    let troubles = wiki.drain(at(90_000 + 86_400), |_| ());
    assert!(troubles[0].contains("was dropped"), "{troubles:?}");
    assert_eq!(wiki.drain(at(90_000 + 86_401), |_| ()), [""; 0]);
}

#[test]
fn whoever_wants_to_be_left_alone_is() {
    let wiki = Wiki::new(Answer::TooMany(600));
    let one = [letter(1, "a.md", "v")];
    wiki.drain(START, |alerts| alerts.letters(&one, START, START));
    wiki.drain(at(599), |_| ());
    assert_eq!(wiki.server.requests().len(), 1);
    wiki.drain(at(601), |_| ());
    assert_eq!(wiki.server.requests().len(), 2);
}

#[test]
fn a_channel_that_hangs_costs_the_bound_and_stops_no_other() {
    let dir = tempfile::tempdir().expect("a folder");
    let hanging = Server::start(Answer::Hang);
    let told = dir.path().join("told");
    let channels = vec![
        Channel::Webhook {
            url: Secret::new(&hanging.url),
        },
        Channel::Command {
            command: ["sh", "-c", &format!("cat > {}", told.display())]
                .map(Into::into)
                .into(),
            root: dir.path().into(),
        },
    ];
    let db = dir.path().join("wiki.db");
    let retry = RetryPolicy::default();
    let mut alerts = Alerts::open(&db, "w", (channels, Vec::new()), &retry).expect("opened");
    alerts.begin(START);
    let began = Instant::now();
    alerts.letters(&[letter(1, "a.md", "v")], START, START);
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "noting waits for nobody"
    );
    let troubles = alerts.end(START, Duration::from_secs(1));
    drop(alerts);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(
        troubles[0].reason,
        "1 alert is not delivered by webhook yet: no answer yet"
    );
    assert!(
        std::fs::read_to_string(told)
            .expect("told")
            .contains("a.md")
    );
}

#[test]
fn without_a_channel_there_is_nothing_but_what_is_wrong() {
    let wrong = Failure::new(FailureKind::Refused, "no token").hint("set it");
    let nowhere = Path::new("/no/such/folder/wiki.db");
    let mut alerts = Alerts::open(
        nowhere,
        "w",
        (Vec::new(), vec![wrong]),
        &RetryPolicy::default(),
    )
    .expect("nothing is opened");
    alerts.begin(START);
    alerts.note(&away(FailureKind::Refused), START);
    alerts.letters(&[letter(1, "a.md", "v")], START, START);
    let troubles = alerts.end(START, LONG);
    assert_eq!((troubles.len(), troubles[0].kind), (1, "alert"));
    assert_eq!(alerts.status(), Ok(None));
}
