//! Alerts through the binary: told once, in bounded time, and the token is nowhere to be seen.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wiki::Wiki;

const TOKEN: &str = "4711:S3CRET-t0ken";

/// A Bot API that keeps what it was asked: request line and body.
pub(crate) struct Bot {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Bot {
    /// `status` 0 never answers.
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if stream.read_line(&mut head).unwrap() == 0 {
                            return;
                        }
                    }
                    let lower = head.to_ascii_lowercase();
                    let length = lower
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length: "))
                        .unwrap();
                    let mut body = vec![0; length.parse().unwrap()];
                    stream.read_exact(&mut body).unwrap();
                    let line = head.lines().next().unwrap().to_owned();
                    let body = serde_json::from_slice(&body).unwrap();
                    kept.lock().unwrap().push((line.clone(), body));
                    if status == 0 {
                        // Until the other side has had enough.
                        let _ = stream.read(&mut [0]);
                        return;
                    }
                    // A server that gives the whole request back, as some proxies do.
                    let told = json!({"ok": status == 200, "description": line}).to_string();
                    let _ = write!(
                        stream.get_mut(),
                        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{told}",
                        told.len()
                    );
                });
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }
}

fn wiki_that_tells(bot: &Bot) -> Wiki {
    let mut wiki = Wiki::small();
    wiki.env
        .insert("WIKI_SYNC_ALERT_TELEGRAM_TOKEN".into(), TOKEN.into());
    wiki.write(
        "wiki-sync.toml",
        format!(
            "[alert.telegram]\nchat_id = -1001\nbase_url = \"{}\"\n",
            bot.url
        ),
    );
    wiki
}

/// Runs every command that could show the token, and checks that none does.
#[track_caller]
fn assert_no_token(wiki: &Wiki) {
    for args in [
        &["drain"][..],
        &["drain", "--json"],
        &["status"],
        &["status", "--json"],
        &["config"],
        &["config", "--json"],
        &["verify", "--json"],
    ] {
        let ran = wiki.ws(args);
        for text in [&ran.out, &ran.err] {
            assert!(!text.contains("S3CRET"), "{args:?}: {text}");
        }
    }
    for entry in std::fs::read_dir(wiki.root().join(".wiki-sync")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let held = bytes.windows(6).any(|window| window == b"S3CRET");
            assert!(!held, "{}", path.display());
        }
    }
}

#[test]
fn a_dead_letter_is_one_request_and_the_next_drains_make_none() {
    let bot = Bot::start(200);
    let mut wiki = wiki_that_tells(&bot);
    // A proxy is nothing for what goes to this machine.
    for name in ["ALL_PROXY", "HTTP_PROXY", "http_proxy"] {
        wiki.env.insert(name.into(), "http://127.0.0.1:1".into());
    }
    wiki.write("wiki-output/나쁜.md", b"\xff\n");
    let drained = wiki.json(3, &["drain"]);
    assert_eq!(drained["dlq"], 1, "{drained}");
    let requests = bot.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let (line, body) = &requests[0];
    assert_eq!(line, &format!("POST /bot{TOKEN}/sendMessage HTTP/1.1"));
    assert_eq!(body["chat_id"], "-1001");
    let text = body["text"].as_str().unwrap();
    assert!(
        text.starts_with("wiki repo: 1 page could not be synced\nwiki-output/나쁜.md: ")
            && text.ends_with("Next: wiki-sync dlq show 1"),
        "{text}"
    );
    wiki.json(3, &["drain"]);
    wiki.write("wiki-output/나쁜.md", b"\xfe other\n");
    wiki.json(3, &["drain"]);
    assert_eq!(bot.requests().len(), 2, "new content is a new incident");
    wiki.write("wiki-output/나쁜.md", "# 좋은\n");
    wiki.drain();
    assert_eq!(bot.requests().len(), 2);
    let status = wiki.json(0, &["status"]);
    assert_eq!(
        (&status["alerts"]["undelivered"], &status["fresh"]),
        (&0.into(), &true.into()),
        "{status}"
    );
    assert_no_token(&wiki);
}

#[test]
fn an_alert_that_is_refused_is_told_without_the_token() {
    let bot = Bot::start(401);
    let wiki = wiki_that_tells(&bot);
    wiki.write("wiki-output/bad.md", b"\xff\n");
    let drained = wiki.json(3, &["drain"]);
    let trouble = drained["trouble"].as_array().unwrap();
    let told = trouble
        .iter()
        .find(|one| one["kind"] == "alert")
        .unwrap_or_else(|| panic!("{drained}"));
    assert_eq!(
        told["reason"],
        "1 alert is not delivered by telegram yet: 127.0.0.1 answered 401: POST /bot***/sendMessage HTTP/1.1"
    );
    let status = wiki.ws(&["status"]).code(0);
    assert!(
        status.out.contains("not delivered yet: 1") && status.out.contains("answered 401"),
        "{}",
        status.out
    );
    let status = wiki.ws(&["status"]).code(0);
    assert!(
        status.out.contains(" ago and not delivered: "),
        "{}",
        status.out
    );
    assert_no_token(&wiki);
    assert_eq!(bot.requests().len(), 1, "it is not due again yet");
}

#[test]
fn a_bot_that_hangs_delays_a_drain_by_the_bound_at_most() {
    let bot = Bot::start(0);
    let wiki = wiki_that_tells(&bot);
    wiki.drain();
    wiki.write("wiki-output/bad.md", b"\xff\n");
    let began = Instant::now();
    let drained = wiki.json(3, &["drain"]);
    let took = began.elapsed();
    assert_eq!(bot.requests().len(), 1);
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(6)).contains(&took),
        "{took:?}"
    );
    assert_eq!(drained["trouble"].as_array().unwrap().len(), 2, "{drained}");
    assert_no_token(&wiki);
}

#[test]
fn killed_before_or_after_telling_it_is_told_at_least_once_and_a_dead_letter_never_lost() {
    // (point, requests at the kill, requests in all)
    for (point, before, all) in [
        ("drain.settled", 0, 1),
        ("alert.noted", 0, 1),
        ("alert.taken", 0, 0),
        ("alert.sent", 1, 1),
    ] {
        let bot = Bot::start(200);
        let wiki = wiki_that_tells(&bot);
        wiki.write("wiki-output/bad.md", b"\xff\n");
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        assert_eq!(bot.requests().len(), before, "{point}");
        wiki.json(3, &["drain"]);
        assert_eq!(bot.requests().len(), all, "{point}");
        let status = wiki.json(0, &["status"]);
        // What was counted as an attempt is made again in a minute.
        let undelivered = u64::from(before == all);
        assert_eq!(status["alerts"]["undelivered"], undelivered, "{point}");
    }
}

#[test]
fn a_store_that_is_away_is_told_once_over_many_drains_and_once_when_it_is_back() {
    let bot = Bot::start(200);
    let mut wiki = wiki_that_tells(&bot);
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), "0.1, 0.2".into());
    // No folder for the vectors can be made there.
    wiki.write(".wiki-sync/vectors", "");
    let told = || bot.requests().len();
    wiki.ws(&["drain", "--no-wait"]).code(75);
    assert_eq!(told(), 0, "the schedule is not used up");
    wiki.ws(&["drain"]).code(75);
    assert_eq!(told(), 1);
    wiki.ws(&["drain"]).code(75);
    wiki.ws(&["drain", "--no-wait"]).code(75);
    assert_eq!(told(), 1, "one outage, one alert");
    wiki.remove(".wiki-sync/vectors");
    wiki.drain();
    wiki.drain();
    let text = |at: usize| bot.requests()[at].1["text"].as_str().unwrap().to_owned();
    assert_eq!(told(), 2);
    assert!(
        text(0).starts_with("wiki repo: vectors is away\n"),
        "{}",
        text(0)
    );
    assert!(
        text(1).starts_with("wiki repo: vectors is back\n"),
        "{}",
        text(1)
    );
    assert_no_token(&wiki);
}

#[test]
fn a_command_is_told_and_knows_no_token() {
    let mut wiki = Wiki::small();
    wiki.env
        .insert("WIKI_SYNC_ALERT_TELEGRAM_TOKEN".into(), TOKEN.into());
    wiki.write(
        "wiki-sync.toml",
        "[alert]\ncommand = [\"sh\", \"-c\", \"{ cat; echo; env | grep ^WIKI_SYNC_ALERT; } > told\"]\n[alert.telegram]\nbase_url = \"http://127.0.0.1:1\"\n",
    );
    wiki.write("wiki-output/bad.md", b"\xff\n");
    let drained = wiki.json(3, &["drain"]);
    let told = std::fs::read_to_string(wiki.root().join("told")).unwrap();
    assert!(
        told.starts_with("wiki repo: 1 page could not be synced\n")
            && told.contains("WIKI_SYNC_ALERT_KIND=dead_letter\n")
            && told.contains("WIKI_SYNC_ALERT_TITLE=wiki repo: 1 page could not be synced\n")
            && !told.contains("S3CRET"),
        "{told}"
    );
    // A token without a chat is told, and stops nothing.
    let trouble = drained["trouble"].to_string();
    assert!(
        trouble.contains("alert.telegram.chat_id is not set"),
        "{trouble}"
    );
}

#[test]
fn a_token_file_serves_as_well_and_one_that_is_missing_is_told() {
    let bot = Bot::start(200);
    let mut wiki = wiki_that_tells(&bot);
    wiki.env.clear();
    wiki.env.insert(
        "WIKI_SYNC_ALERT_TELEGRAM_TOKEN_FILE".into(),
        "secret/token".into(),
    );
    wiki.write("wiki-output/bad.md", b"\xff\n");
    let drained = wiki.json(3, &["drain"]);
    let trouble = drained["trouble"].to_string();
    assert!(trouble.contains("token_file"), "{trouble}");
    wiki.write("secret/token", format!("{TOKEN}\n"));
    wiki.json(3, &["drain"]);
    assert_eq!(bot.requests().len(), 1, "told as soon as it can be");
}

#[test]
fn dead_letters_beyond_the_bound_are_told_then_dropped_the_oldest_first() {
    let bot = Bot::start(200);
    let wiki = wiki_that_tells(&bot);
    for name in ["a", "b", "c"] {
        wiki.write(&format!("wiki-output/bad-{name}.md"), b"\xff\n");
        wiki.ws(&["drain"]).code(3);
    }
    assert_eq!(bot.requests().len(), 3);
    let drained = wiki.json(3, &["drain", "--set", "dead.max=2"]);
    assert_eq!(
        (&drained["trimmed"], &drained["dead"]),
        (&1.into(), &2.into()),
        "{drained}"
    );
    let titles = || -> Vec<String> {
        let text = |(_, body): &(String, Value)| body["text"].as_str().unwrap().to_owned();
        bot.requests().iter().map(text).collect()
    };
    let texts = titles();
    assert!(
        texts[3].contains("dropping the oldest dead letter\n")
            && texts[3].contains("wiki-output/bad-a.md"),
        "{texts:?}"
    );
    // Its page is still bad: it dies and another goes, and nobody is told again and again.
    for _ in 0..3 {
        // One that does not bring the dropped page's letter back, then one that does.
        wiki.json(3, &["drain", "--no-scan", "--set", "dead.max=2"]);
        let drained = wiki.json(3, &["drain", "--set", "dead.max=2"]);
        assert_eq!(drained["trimmed"], 1, "{drained}");
    }
    assert_eq!(bot.requests().len(), 4, "{:?}", titles());
}

#[test]
fn killed_while_the_bound_is_kept_the_letters_are_told_and_dropped_once() {
    for point in ["dead.before_trim", "dead.trimmed"] {
        let bot = Bot::start(200);
        let wiki = wiki_that_tells(&bot);
        for name in ["a", "b", "c"] {
            wiki.write(&format!("wiki-output/bad-{name}.md"), b"\xff\n");
        }
        wiki.json(3, &["drain"]);
        let args = ["drain", "--no-scan", "--set", "dead.max=2"];
        assert!(wiki.killed_at(point, &args), "{point} is passed");
        let drained = wiki.json(3, &args);
        assert_eq!(drained["dead"], 2, "{point}: {drained}");
        let status = wiki.json(0, &["status"]);
        let told = u64::try_from(bot.requests().len()).unwrap();
        let owed = status["alerts"]["undelivered"].as_u64().unwrap();
        // Told twice only if the kill came between the request and our knowing of its answer.
        assert!((2..=3).contains(&(told + owed)), "{point}: {told} {owed}");
    }
}

#[test]
fn a_command_that_hangs_ends_with_the_drain_and_with_all_that_it_started() {
    let wiki = Wiki::small();
    wiki.write(
        "wiki-sync.toml",
        "[alert]\ncommand = [\"sh\", \"-c\", \"sleep 600 & echo $! > pid; wait\"]\n",
    );
    wiki.write("wiki-output/bad.md", b"\xff\n");
    let drained = wiki.json(3, &["drain"]);
    let trouble = drained["trouble"].to_string();
    assert!(trouble.contains("not delivered by command"), "{trouble}");
    let pid = std::fs::read_to_string(wiki.root().join("pid")).unwrap();
    let is_alive = || {
        // A zombie that nobody has waited for yet is dead too.
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| !stat.contains(") Z "))
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while is_alive() {
        assert!(
            std::time::Instant::now() < end,
            "process {pid} is still there"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_command_gets_what_is_meant_for_it_and_none_of_our_secrets() {
    let mut wiki = Wiki::small();
    let server = wiki_sync::testing::RedisServer::start();
    let url = server.url() + "?S3CRET";
    for (name, value) in [
        ("WIKI_SYNC_OUTBOX_URL", url.as_str()),
        ("WIKI_SYNC_ALERT_TELEGRAM_TOKEN", "S3CRET"),
        ("WIKI_SYNC_SOME_API_KEY", "S3CRET"),
        ("OF_THE_USER", "is kept"),
    ] {
        wiki.env.insert(name.into(), value.into());
    }
    wiki.write(
        "wiki-sync.toml",
        "[alert]\ncommand = [\"sh\", \"-c\", \"env > ../told\"]\n",
    );
    wiki.write("wiki-output/bad.md", b"\xff\n");
    wiki.ws(&["drain"]).code(3);
    let told = std::fs::read_to_string(wiki.root().join("../told")).unwrap();
    assert!(!told.contains("S3CRET"), "{told}");
    for kept in [
        "WIKI_SYNC_ALERT_KIND=",
        "WIKI_SYNC_ALERT_TITLE=",
        "OF_THE_USER=is kept",
    ] {
        assert!(told.contains(kept), "{kept}: {told}");
    }
}
