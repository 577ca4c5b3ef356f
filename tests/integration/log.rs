//! The log: each job's story under its id, lines for whoever reads them, and no secret.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;
use wiki_sync::testing::RedisServer;

use crate::wiki::{Ran, Wiki};

const PAGE: &str = "wiki-output/bad.md";

/// The events among the lines of stderr.
fn events(ran: &Ran) -> Vec<Value> {
    let lines = ran.err.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What is told of a job, as `grep '"job":"7"'` finds it, each with the field that says the most.
fn story_of(job: &str, log: &str) -> Vec<String> {
    let mark = format!("\"job\":{job}");
    let lines = log.lines().filter(|line| {
        line.split_once(&mark)
            .is_some_and(|(_, rest)| rest.starts_with(','))
    });
    lines
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["path"], PAGE, "{line}");
            let more = ["store", "attempts", "letter"].iter().filter_map(|name| {
                let value = event.get(*name)?;
                Some(format!(" {name}={}", value.to_string().trim_matches('"')))
            });
            let more: String = more.collect();
            format!("{}{more}", event["message"].as_str().unwrap())
        })
        .collect()
}

/// A page that fails each time dies, and is tried again by a person: the log of all four processes, and the two jobs' ids.
fn life_and_death(wiki: &mut Wiki) -> (String, [String; 2]) {
    wiki.write(PAGE, "# Bad\n");
    let mut log = String::new();
    let mut run = |wiki: &Wiki, code, args: &[&str]| {
        let args = [args, &["-v", "--set", "retry.waits=0.01,0.01,0.01"]].concat();
        log += &wiki.ws(&args).code(code).err;
    };
    run(wiki, 0, &["enqueue", PAGE]);
    wiki.env
        .insert("WIKI_SYNC_TEST_FAIL_PAGES".into(), PAGE.into());
    run(wiki, 3, &["drain"]);
    wiki.env.remove("WIKI_SYNC_TEST_FAIL_PAGES");
    run(wiki, 0, &["dlq", "retry", "--all"]);
    run(wiki, 0, &["drain"]);
    let mut ids = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["path"] == PAGE && !event["job"].is_null() {
            let id = event["job"].to_string();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    (log, ids.try_into().unwrap())
}

#[track_caller]
fn assert_story(wiki: &mut Wiki) {
    let (log, [first, second]) = life_and_death(wiki);
    let letters: BTreeSet<String> = log
        .lines()
        .filter_map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            Some(event.get("letter")?.to_string())
        })
        .collect();
    let letter = letters.first().unwrap();
    assert_eq!(letters.len(), 1, "the letter is one: {log}");
    let attempt = |n: usize, end: &str| {
        [
            format!("claimed attempts={}", n - 1),
            "not applied store=graph".into(),
            if n == 1 {
                "applied store=vectors".into()
            } else {
                String::new()
            },
            "applied store=git".into(),
            end.into(),
        ]
        .map(|line| line.replace("attempts=n", &format!("attempts={n}")))
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
    };
    let wanted = [
        // The drain's scan finds the page too.
        vec!["enqueued".into(), "announced again".into()],
        attempt(1, "to be tried again attempts=n"),
        attempt(2, "to be tried again attempts=n"),
        attempt(3, "to be tried again attempts=n"),
        attempt(4, &format!("dead store=graph attempts=n letter={letter}")),
    ]
    .concat();
    assert_eq!(story_of(&first, &log), wanted, "{log}");
    assert_eq!(
        story_of(&second, &log),
        [
            &format!("a dead letter is tried again letter={letter}"),
            "announced again",
            "claimed attempts=0",
            "applied store=graph",
            "applied store=git",
            "done"
        ],
        "{log}"
    );
}

#[test]
fn a_jobs_story_is_told_under_its_id_by_every_process() {
    assert_story(&mut Wiki::with(&[]));
}

#[test]
fn a_jobs_story_is_told_under_its_id_in_redis_too() {
    let server = RedisServer::start();
    let mut wiki = Wiki::with(&[]);
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), server.url());
    assert_story(&mut wiki);
}

#[test]
fn a_line_that_a_producer_pushed_is_told_from_its_reading_on() {
    let server = RedisServer::start();
    let mut wiki = Wiki::with(&[(PAGE, "# Good\n")]);
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), server.url());
    let line = format!("{{\"output_path\":\"{PAGE}\"}}");
    server.cli(&["RPUSH", "deep-wiki:outbox", &line, "no job"]);
    let drained = wiki.ws(&["drain", "--no-scan", "-v"]).code(3);
    let events = events(&drained);
    let junk = events
        .iter()
        .find(|event| event["message"] == "a line is no job");
    assert!(
        junk.is_some_and(|junk| junk["letter"].is_i64()),
        "{}",
        drained.err
    );
    let job = &events
        .iter()
        .find(|event| event["message"] == "enqueued")
        .unwrap()["job"];
    let story = story_of(&job.to_string(), &drained.err);
    assert_eq!(
        (&*story[0], story.last().unwrap().as_str()),
        ("enqueued", "done")
    );
}

#[test]
fn nothing_more_is_told_unless_it_is_asked_for() {
    let mut wiki = Wiki::small();
    let quiet = wiki.ws(&["drain"]).code(0);
    assert_eq!(quiet.err, "");
    let told = |wiki: &Wiki, args: &[&str]| {
        wiki.write("wiki-output/a.md", format!("# A\n\n{args:?}\n"));
        let ran = wiki.ws(args).code(0);
        assert!(
            events(&ran).len() == ran.err.lines().count(),
            "events only: {}",
            ran.err
        );
        let has = |level: &str| events(&ran).iter().any(|event| event["level"] == level);
        (has("INFO"), has("DEBUG"))
    };
    assert_eq!(told(&wiki, &["drain", "-v"]), (true, false));
    assert_eq!(told(&wiki, &["drain", "-vv"]), (true, true));
    assert_eq!(told(&wiki, &["-q", "drain", "-v"]), (true, false));
    wiki.write("wiki-sync.toml", "[log]\nlevel = \"info\"\n");
    assert_eq!(told(&wiki, &["drain"]), (true, false));
    assert_eq!(told(&wiki, &["drain", "-vv"]), (true, true));
    assert_eq!(told(&wiki, &["drain", "--quiet"]), (false, false));
    wiki.env
        .insert("WIKI_SYNC_LOG_LEVEL".into(), "debug".into());
    assert_eq!(told(&wiki, &["drain"]), (true, true));
    assert_eq!(
        told(&wiki, &["drain", "--set", "log.level=off"]),
        (false, false)
    );
}

#[test]
fn an_error_reads_as_before_beside_the_log() {
    let wiki = Wiki::small();
    let args = ["graph", "backlinks", "wiki-output/none.md"];
    wiki.drain();
    let plain = wiki.ws(&args);
    assert!(plain.err.starts_with("error: "), "{}", plain.err);
    let logged = wiki.ws(&[&args[..], &["-vv"]].concat());
    let rest: Vec<_> = logged.err.lines().filter(|l| !l.starts_with('{')).collect();
    assert_eq!(rest, plain.err.lines().collect::<Vec<_>>());
    assert_eq!((logged.code, logged.out), (plain.code, plain.out));
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_lines_for_people() {
    let wiki = Wiki::small();
    let command = format!(
        "{} -v enqueue wiki-output/a.md",
        env!("CARGO_BIN_EXE_wiki-sync")
    );
    // Of util-linux: gives a command a terminal of its own.
    let mut script = wiki.other("script".as_ref());
    script
        .args(["-qec", &command, "/dev/null"])
        .env("NO_COLOR", "1");
    let told = String::from_utf8(script.output().unwrap().stdout).unwrap();
    let line = told
        .lines()
        .find(|line| line.contains("enqueued job="))
        .unwrap();
    assert!(
        line.contains(" INFO ") && line.contains(" path=\"wiki-output/a.md\""),
        "{told}"
    );
    assert!(!told.contains('{'), "{told}");
}

#[cfg(all(feature = "edge", feature = "server"))]
#[test]
fn no_secret_is_told_however_much_is() {
    use wiki_sync::testing::qdrant_server::QdrantServer;
    use wiki_sync::testing::{EmbeddingServer, MODEL};

    use crate::alerts::Bot;

    let redis = RedisServer::with(&["--save", "", "--requirepass", "S3CRET-redis"]);
    let vectors = QdrantServer::start();
    vectors.want_key("S3CRET-vectors");
    let provider = EmbeddingServer::start();
    provider.want_key("S3CRET-provider");
    // Gives back what it was asked, path and all.
    let bot = Bot::start(401);
    let mut wiki = Wiki::small();
    let set: &[(&str, &str)] = &[
        (
            "OUTBOX_URL",
            &format!("redis://:S3CRET-redis@127.0.0.1:{}/0", redis.port()),
        ),
        ("VECTORS_URL", &vectors.url()),
        ("VECTORS_API_KEY", "S3CRET-vectors"),
        ("EMBEDDING_PROVIDER", "openai"),
        ("EMBEDDING_URL", &provider.url()),
        ("EMBEDDING_MODEL", MODEL),
        ("EMBEDDING_API_KEY", "S3CRET-provider"),
        ("ALERT_TELEGRAM_TOKEN", "4711:S3CRET-token"),
        ("ALERT_TELEGRAM_CHAT_ID", "-1001"),
        ("ALERT_TELEGRAM_BASE_URL", &bot.url),
        ("ALERT_WEBHOOK_URL", &format!("{}/S3CRET-hook", bot.url)),
    ];
    for (name, value) in set {
        wiki.env
            .insert(format!("WIKI_SYNC_{name}"), (*value).to_owned());
    }
    wiki.write("wiki-output/broken.md", [0xff, 0xfe]);
    let mut told = String::new();
    let mut run = |wiki: &Wiki, args: &[&str]| {
        let ran = wiki.ws(&[args, &["-vv"]].concat());
        writeln!(told, "{args:?} {:?}\n{}{}", ran.code, ran.out, ran.err).unwrap();
    };
    run(&wiki, &["drain"]);
    for args in [
        &["enqueue", "wiki-output/a.md"][..],
        &["status"],
        &["status", "--json"],
        &["config"],
        &["verify"],
        &["search", "outbox"],
        &["doctor"],
        &["dlq", "list"],
        &["dlq", "retry", "--all"],
        &["drain", "--no-wait"],
    ] {
        run(&wiki, args);
    }
    // And with what is wrong.
    for (name, value) in [
        (
            "OUTBOX_URL",
            format!("redis://:S3CRET-wrong@127.0.0.1:{}/0", redis.port()),
        ),
        ("VECTORS_API_KEY", "S3CRET-wrong".into()),
        ("EMBEDDING_API_KEY", "S3CRET-wrong".into()),
    ] {
        let before = wiki.env.insert(format!("WIKI_SYNC_{name}"), value);
        wiki.write("wiki-output/a.md", format!("# A\n\n{name}\n"));
        run(&wiki, &["drain", "--no-wait"]);
        run(&wiki, &["search", "outbox"]);
        wiki.env
            .insert(format!("WIKI_SYNC_{name}"), before.unwrap());
    }
    // Every part was there and was told of.
    for part in [
        "connected to redis",
        "asked the qdrant server",
        "asked the embedding provider",
        "not delivered",
        "\"channel\":\"webhook\"",
        "dead",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let leak = told.lines().find(|line| line.contains("S3CRET"));
    assert_eq!(leak, None);
}
