//! The provider over real HTTP, with every fault that one was seen to have.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

use super::*;
use crate::testing::{DIMENSION, EmbeddingServer, Fault, MODEL};

/// Longer than any answer of the server takes.
const LONG: Duration = Duration::from_secs(20);
/// Shorter than a request that hangs.
const SHORT_TIMEOUT: Duration = Duration::from_millis(400);

fn settings(server: &EmbeddingServer) -> EmbeddingSettings {
    EmbeddingSettings {
        is_on: true,
        url: server.url(),
        model: MODEL.into(),
        timeout: LONG,
        concurrency: 1,
        ..EmbeddingSettings::default()
    }
}

fn provider(settings: &EmbeddingSettings, key: Option<&str>) -> OpenAi {
    let mut provider = OpenAi::new(settings, Ok(key.map(Secret::new))).expect("settings are good");
    // Not as patient as with a real one.
    provider.line.patience.waits = vec![Duration::from_millis(5); 4];
    provider
}

/// Embeds, and checks that all that is returned was handed on too, but for what was not reached.
fn embed(provider: &OpenAi, texts: &[&str]) -> Vec<Result<Vector, Failure>> {
    let mut handed = vec![None; texts.len()];
    let answers = provider.passages(texts, &|| true, &mut |done| {
        for (place, answer) in done {
            let before = handed[*place].replace(answer.clone());
            assert_eq!(before, None, "text {place} is answered once");
        }
        Ok(())
    });
    let answers = answers.expect("nobody failed to keep them");
    for (answer, handed) in answers.iter().zip(handed) {
        assert!(handed.is_none_or(|handed| handed == *answer));
    }
    answers
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with answers")]
fn vector(text: &str) -> Result<Vector, Failure> {
    Ok(EmbeddingServer::vector(text))
}

fn failures(answers: &[Result<Vector, Failure>]) -> Vec<(usize, FailureKind)> {
    let answers = answers.iter().enumerate();
    answers
        .filter_map(|(place, answer)| Some((place, answer.as_ref().err()?.kind)))
        .collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text number {n}.")).collect()
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn each_text_gets_its_vector_in_batches_bounded_by_count_and_bytes() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            batch: 3,
            batch_bytes: 30,
            ..settings(&server)
        },
        None,
    );
    let long = "x".repeat(40);
    let texts = [
        "a",
        "b",
        "c",
        "d",
        "twenty bytes of text",
        "eleven byte",
        &long,
        "e",
    ];
    let expected: Vec<_> = texts.iter().map(|text| vector(text)).collect();
    assert_eq!(embed(&provider, &texts), expected);
    let batches: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.texts.len())
        .collect();
    assert_eq!(batches, [3, 2, 1, 1, 1]);
    assert_eq!(provider.dimension(), Some(DIMENSION));
    assert_eq!(embed(&provider, &[]), []);
    assert!(server.asked().is_empty(), "nothing is no request");
}

#[test]
fn as_many_requests_are_made_at_a_time_as_are_allowed_and_no_more() {
    let server = EmbeddingServer::start();
    server.wait_for(3);
    let provider = provider(
        &EmbeddingSettings {
            batch: 1,
            concurrency: 3,
            ..settings(&server)
        },
        None,
    );
    let names = names(9);
    assert_eq!(failures(&embed(&provider, &refs(&names))), []);
    assert_eq!(server.most_in_flight(), 3);
}

#[test]
fn what_is_wanted_of_a_model_is_in_the_request_and_the_answer_is_read_by_it() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            passage_prefix: "passage: ".into(),
            query_prefix: "query: ".into(),
            query_input_type: "query".into(),
            base64: true,
            dimensions: DIMENSION as u64,
            ..settings(&server)
        },
        None,
    );
    server.next([Fault::Shuffled]);
    let close = |a: &Vector, b: &Vector| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    let answers = embed(&provider, &["a", "b"]);
    for (answer, text) in answers.iter().zip(["passage: a", "passage: b"]) {
        let answer = answer.as_ref().expect("a vector");
        assert!(close(answer, &EmbeddingServer::vector(text)), "{text}");
    }
    let query = provider.query("a", LONG).expect("a vector");
    assert!(close(&query, &EmbeddingServer::vector("query: a")));
    let asked = server.asked();
    assert_eq!(asked[0].body["dimensions"], DIMENSION);
    assert_eq!(asked[0].body["encoding_format"], "base64");
    assert_eq!(asked[0].body.get("input_type"), None);
    assert_eq!(asked[1].body["input_type"], "query");
}

#[test]
fn trouble_that_passes_is_waited_for() {
    let server = EmbeddingServer::start();
    let provider = provider(&settings(&server), None);
    for faults in [
        vec![Fault::Status(500)],
        vec![Fault::Close],
        vec![
            Fault::After(429, "0"),
            Fault::After(503, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ],
        vec![
            Fault::Status(503),
            Fault::Status(429),
            Fault::Status(503),
            Fault::Status(529),
        ],
    ] {
        server.next(faults.clone());
        assert_eq!(
            embed(&provider, &["a", "b"]),
            [vector("a"), vector("b")],
            "{faults:?}"
        );
        let asked = server.asked();
        assert_eq!(asked.len(), faults.len() + 1, "{faults:?}");
        assert!(asked.iter().all(|asked| asked.texts == ["a", "b"]));
    }
}

#[test]
fn a_provider_that_wants_to_be_left_alone_is_left_alone_by_all() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            batch: 1,
            concurrency: 2,
            ..settings(&server)
        },
        None,
    );
    server.next([Fault::After(429, "1")]);
    let began = Instant::now();
    let names = names(4);
    assert_eq!(failures(&embed(&provider, &refs(&names))), []);
    assert!(began.elapsed() >= Duration::from_secs(1));
    server.next([Fault::After(429, "3600")]);
    let answers = embed(&provider, &["a"]);
    assert_eq!(
        failures(&answers),
        [(0, FailureKind::Down)],
        "an hour is not waited for"
    );
    let failure = answers[0].as_ref().expect_err("away");
    assert!(failure.reason.contains("for 60 min"), "{failure:?}");
    let hint = failure.hint.as_ref().expect("a way out");
    assert!(hint.contains("embedding.concurrency"), "{hint}");
}

#[test]
fn a_provider_that_is_away_is_down_and_one_that_will_not_is_refused() {
    let mut server = EmbeddingServer::start();
    let settings = settings(&server);
    let provider = provider(&settings, Some("S3CRET"));
    let names = names(3);
    for (fault, kind, words) in [
        (Fault::Status(503), FailureKind::Down, "answered 503"),
        (Fault::Status(429), FailureKind::Down, "answered 429"),
        (Fault::Status(500), FailureKind::Down, "answered 500"),
        (Fault::Close, FailureKind::Down, "connection to"),
        (Fault::Status(401), FailureKind::Refused, "answered 401"),
        (Fault::Status(403), FailureKind::Refused, "answered 403"),
        (Fault::Status(404), FailureKind::Refused, "answered 404"),
        (Fault::Status(402), FailureKind::Refused, "answered 402"),
        (Fault::Status(400), FailureKind::Refused, "answered 400"),
        (Fault::Status(418), FailureKind::Refused, "answered 418"),
        (
            Fault::Redirect("http://example.org/v1".into()),
            FailureKind::Refused,
            "answered 307",
        ),
        (Fault::Html, FailureKind::Refused, "no vectors"),
        (Fault::TooFew, FailureKind::Refused, "0 vectors for 1"),
        (Fault::Length(0), FailureKind::Refused, "0 numbers"),
        (Fault::Nan, FailureKind::Refused, "no vectors"),
        (Fault::Zero, FailureKind::Refused, "zeros"),
        (Fault::Huge, FailureKind::Refused, "bytes"),
    ] {
        server.always(Some(fault.clone()));
        let answers = embed(&provider, &refs(&names));
        assert_eq!(
            failures(&answers),
            [(0, kind), (1, kind), (2, kind)],
            "{fault:?}"
        );
        let failure = answers[0].as_ref().expect_err("failed");
        assert!(failure.reason.contains(words), "{failure:?}");
        assert!(!format!("{failure:?}").contains("S3CRET"), "{failure:?}");
        assert!(failure.hint.is_some(), "{fault:?}: {failure:?}");
        assert!(server.asked().len() <= 6, "{fault:?}");
    }
    server.down();
    let began = Instant::now();
    let answers = embed(&provider, &refs(&names));
    assert_eq!(failures(&answers).len(), 3);
    let failure = answers[0].as_ref().expect_err("failed");
    assert_eq!(failure.kind, FailureKind::Down);
    assert!(
        failure.reason.contains("refused the connection"),
        "{failure:?}"
    );
    let hint = failure.hint.as_ref().expect("a way out");
    assert!(hint.contains("embedding.url"), "{hint}");
    assert!(began.elapsed() < LONG);
    server.always(None);
    server.up();
    assert_eq!(embed(&provider, &["a"]), [vector("a")]);
}

#[test]
fn a_provider_that_hangs_or_drips_is_down_in_bounded_time() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            timeout: SHORT_TIMEOUT,
            ..settings(&server)
        },
        None,
    );
    for fault in [Fault::Hang, Fault::Drip] {
        server.always(Some(fault.clone()));
        let began = Instant::now();
        let answers = embed(&provider, &["a", "b"]);
        assert_eq!(
            failures(&answers),
            [(0, FailureKind::Down), (1, FailureKind::Down)]
        );
        let query = provider.query("a", SHORT_TIMEOUT).expect_err("no answer");
        assert!(
            query.reason.contains("did not answer within 0.4 s"),
            "{query:?}"
        );
        assert!(began.elapsed() < LONG, "{fault:?}");
    }
}

#[test]
fn one_bad_text_costs_its_own_vector_only() {
    for (fault, kind) in [
        (Fault::Status(400), FailureKind::Rejected),
        (Fault::Status(413), FailureKind::Rejected),
        (Fault::Status(422), FailureKind::Rejected),
        (Fault::Status(500), FailureKind::Transient),
        (Fault::Close, FailureKind::Transient),
        (Fault::Hang, FailureKind::Transient),
        (Fault::Nan, FailureKind::Rejected),
        (Fault::Zero, FailureKind::Rejected),
        (Fault::Length(DIMENSION + 1), FailureKind::Rejected),
        (Fault::TooFew, FailureKind::Rejected),
        (Fault::Html, FailureKind::Rejected),
        (Fault::Huge, FailureKind::Rejected),
    ] {
        let server = EmbeddingServer::start();
        server.poison("number 5.", fault.clone());
        let timeout = if fault == Fault::Hang {
            SHORT_TIMEOUT
        } else {
            LONG
        };
        let provider = provider(
            &EmbeddingSettings {
                timeout,
                ..settings(&server)
            },
            None,
        );
        assert_eq!(embed(&provider, &["a"]), [vector("a")]);
        let _ = server.asked();
        let names = names(16);
        let answers = embed(&provider, &refs(&names));
        assert_eq!(failures(&answers), [(5, kind)], "{fault:?}");
        for (place, answer) in answers.iter().enumerate().filter(|(place, _)| *place != 5) {
            assert_eq!(*answer, vector(&names[place]));
        }
        // The batch once or twice, the innocent text, and two halves at each of four levels.
        let asked = server.asked().len();
        assert!(asked <= 2 + 1 + 8, "{fault:?}: {asked} requests");
        assert_eq!(
            provider.limit.load(Ordering::Relaxed),
            usize::MAX,
            "a text was to blame, not the number"
        );
    }
}

#[test]
fn where_too_many_at_once_were_to_blame_later_batches_are_smaller() {
    let server = EmbeddingServer::start();
    server.take_texts(5);
    let provider = provider(
        &EmbeddingSettings {
            batch: 16,
            ..settings(&server)
        },
        None,
    );
    let names = names(48);
    assert_eq!(failures(&embed(&provider, &refs(&names))), []);
    let batches: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.texts.len())
        .collect();
    assert_eq!(batches[..7], [16, 1, 8, 4, 4, 8, 4]);
    assert_eq!(batches[8..], [4; 8], "{batches:?}");
}

#[test]
fn a_text_that_is_too_long_is_embedded_by_its_beginning() {
    let server = EmbeddingServer::start();
    server.take_chars(300);
    let provider = provider(&settings(&server), None);
    let korean = "가".repeat(1000);
    let endless = "b".repeat(4000);
    let answers = embed(&provider, &["a", &korean, &endless]);
    let expected = ["a".into(), "가".repeat(250), "b".repeat(250)];
    assert_eq!(answers, expected.map(|text| vector(&text)));
    assert_eq!(provider.shortened(), 2);
    // Of no use is a model that takes next to nothing.
    server.take_chars(100);
    let answers = embed(&provider, &["a", &korean]);
    assert_eq!(failures(&answers), [(1, FailureKind::Rejected)]);
}

#[test]
fn a_text_that_uses_up_the_time_keeps_the_others_back_only_once() {
    let server = EmbeddingServer::start();
    server.poison("number 5.", Fault::Hang);
    let hasty = EmbeddingSettings {
        timeout: SHORT_TIMEOUT,
        ..settings(&server)
    };
    let provider = provider(&hasty, None);
    let names = names(16);
    let texts = refs(&names);
    // There is time for one request.
    let time = AtomicBool::new(true);
    let go_on = || time.swap(false, Ordering::SeqCst);
    let answers = provider.passages(&texts, &go_on, &mut |_| Ok(()));
    let answers = answers.expect("kept");
    let all: Vec<_> = (0..16).map(|place| (place, FailureKind::Busy)).collect();
    assert_eq!(failures(&answers), all);
    let _ = server.asked();
    let answers = embed(&provider, &texts);
    assert_eq!(failures(&answers), [(5, FailureKind::Transient)]);
    let alone = server.asked().iter().all(|asked| asked.texts.len() == 1);
    assert!(alone, "each by itself");
    assert_eq!(failures(&embed(&provider, &["other", "texts"])), []);
    assert_eq!(server.asked().len(), 1, "others are not suspected");
}

#[test]
fn a_provider_that_uses_up_the_time_is_down_and_not_unasked() {
    let server = EmbeddingServer::start();
    server.always(Some(Fault::Hang));
    let hasty = EmbeddingSettings {
        timeout: SHORT_TIMEOUT,
        ..settings(&server)
    };
    let provider = provider(&hasty, None);
    let time = AtomicBool::new(true);
    let go_on = || time.swap(false, Ordering::SeqCst);
    let answers = provider.passages(&["a", "b"], &go_on, &mut |_| Ok(()));
    let down = FailureKind::Down;
    assert_eq!(failures(&answers.expect("kept")), [(0, down), (1, down)]);
}

#[test]
fn what_was_embedded_before_an_outage_is_not_lost() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            batch: 2,
            ..settings(&server)
        },
        None,
    );
    server.poison("number 5.", Fault::Status(401));
    let names = names(9);
    let answers = embed(&provider, &refs(&names));
    let refused = FailureKind::Refused;
    let expected: Vec<_> = (4..9).map(|place| (place, refused)).collect();
    assert_eq!(failures(&answers), expected);
    assert_eq!(server.asked().len(), 3, "after that nobody asks");
}

#[test]
fn no_text_is_embedded_that_nobody_waits_for() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            batch: 1,
            ..settings(&server)
        },
        None,
    );
    let kept = AtomicUsize::new(0);
    let names = names(5);
    let answers = provider.passages(
        &refs(&names),
        &|| kept.load(Ordering::SeqCst) < 2,
        &mut |done| {
            kept.fetch_add(done.len(), Ordering::SeqCst);
            Ok(())
        },
    );
    let answers = answers.expect("kept");
    let busy = failures(&answers);
    assert!(
        busy.iter().all(|(_, kind)| *kind == FailureKind::Busy),
        "{busy:?}"
    );
    // One may have been asked for while the second was handed on.
    assert!((2..=3).contains(&busy.len()), "{busy:?}");
    // A wait is cut short too.
    server.always(Some(Fault::After(429, "29")));
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while server.asked().is_empty() && began.elapsed() < LONG {
                thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
        });
        let answers = provider.passages(&["x"], &|| !stop.load(Ordering::SeqCst), &mut |_| Ok(()));
        assert_eq!(failures(&answers.expect("kept")), [(0, FailureKind::Busy)]);
    });
    assert!(began.elapsed() < LONG);
    // So is the one before a probe.
    let _ = server.asked();
    let probed = provider.probe(&|| false).expect_err("nobody waits for it");
    assert_eq!(probed.kind, FailureKind::Busy);
    assert!(server.asked().is_empty());
}

#[test]
fn what_cannot_be_kept_ends_it() {
    let server = EmbeddingServer::start();
    let provider = provider(
        &EmbeddingSettings {
            batch: 1,
            ..settings(&server)
        },
        None,
    );
    let full = Failure::new(FailureKind::Down, "disk full");
    let names = names(9);
    let ended = provider.passages(&refs(&names), &|| true, &mut |_| Err(full.clone()));
    assert_eq!(ended, Err(full));
    assert!(server.asked().len() <= 2);
}

#[test]
fn the_key_is_shown_to_the_provider_and_to_nobody_else() {
    let server = EmbeddingServer::start();
    let other = EmbeddingServer::start();
    server.want_key("S3CRET");
    let with_key = provider(&settings(&server), Some(" S3CRET\n"));
    assert_eq!(embed(&with_key, &["a"]), [vector("a")]);
    assert!(!format!("{with_key:?}").contains("S3CRET"));
    for (key, hint) in [
        (None, "put the provider's key in"),
        (Some("wrong"), "is not accepted"),
    ] {
        let answers = embed(&provider(&settings(&server), key), &["a"]);
        let failure = answers[0].as_ref().expect_err("no key, no vector");
        assert!(
            failure
                .hint
                .as_ref()
                .is_some_and(|told| told.contains(hint)),
            "{failure:?}"
        );
        assert!(
            failure
                .hint
                .as_ref()
                .is_some_and(|told| told.contains(KEY_VARIABLE))
        );
    }
    server.next([Fault::Redirect(format!("{}/embeddings", other.url()))]);
    let answers = embed(&with_key, &["a"]);
    assert_eq!(failures(&answers), [(0, FailureKind::Refused)]);
    assert!(other.asked().is_empty(), "no redirection is followed");
}

#[test]
fn a_model_that_gives_other_vectors_than_before_is_refused() {
    let server = EmbeddingServer::start();
    let known = provider(&settings(&server), None);
    known.expect(DIMENSION + 1);
    let answers = embed(&known, &["a", "b"]);
    let refused = FailureKind::Refused;
    assert_eq!(failures(&answers), [(0, refused), (1, refused)]);
    let failure = answers[0].as_ref().expect_err("refused");
    assert!(
        failure.reason.contains("8 numbers, and gave 9 before"),
        "{failure:?}"
    );
    let hint = failure.hint.as_deref().unwrap_or_default();
    assert!(hint.contains("wiki-sync rebuild vectors"), "{failure:?}");
    let wanted = EmbeddingSettings {
        dimensions: 4,
        ..settings(&server)
    };
    let failure = provider(&wanted, None).learn();
    assert_eq!(failure, Ok(4), "what is set is known");
    server.next([Fault::Length(DIMENSION)]);
    let answers = embed(&provider(&wanted, None), &["a"]);
    let failure = answers[0].as_ref().expect_err("refused");
    assert!(
        failure.reason.contains("embedding.dimensions says 4"),
        "{failure:?}"
    );
    assert_eq!(provider(&settings(&server), None).learn(), Ok(DIMENSION));
}

#[test]
fn the_fingerprint_changes_with_what_changes_a_passages_vector_and_with_nothing_else() {
    type Change = fn(&mut EmbeddingSettings);
    let server = EmbeddingServer::start();
    let base = settings(&server);
    let of = |change: Change| {
        let mut settings = base.clone();
        change(&mut settings);
        provider(&settings, None).fingerprint()
    };
    let before = of(|_| ());
    for change in [
        (|s| s.model = "other".into()) as Change,
        |s| s.passage_prefix = "x".into(),
        |s| s.passage_input_type = "x".into(),
        |s| s.dimensions = 5,
    ] {
        assert_ne!(of(change), before);
    }
    for change in [
        (|s| s.url = "http://127.0.0.1:9/v1".into()) as Change,
        |s| s.query_prefix = "x".into(),
        |s| s.query_model = "x".into(),
        |s| s.batch = 1,
        |s| s.base64 = true,
    ] {
        assert_eq!(of(change), before);
    }
    let none = EmbeddingSettings::default();
    let failure = OpenAi::new(&none, Ok(None)).expect_err("no model");
    assert!(
        failure.reason.contains("embedding.model is not"),
        "{failure:?}"
    );
}
