//! A provider with its cache: what is asked for, and what is not.

use super::*;
use crate::model::FailureKind;
use crate::testing::{DIMENSION, EmbeddingServer, Fault, MODEL};

struct Fixture {
    server: EmbeddingServer,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            server: EmbeddingServer::start(),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn open(&self, model: &str) -> Embeddings {
        let settings = EmbeddingSettings {
            is_on: true,
            url: self.server.url(),
            model: model.into(),
            batch: 2,
            concurrency: 1,
            ..EmbeddingSettings::default()
        };
        let database = self.folder.path().join("wiki.db");
        let opened = open(&settings, Ok(None), &database).expect("it opens");
        opened.expect("it is on")
    }

    /// The texts of each request since the last look.
    fn asked(&self) -> Vec<Vec<String>> {
        let asked = self.server.asked().into_iter();
        asked.map(|asked| asked.texts).collect()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with answers")]
fn vector(text: &str) -> Embedded {
    Ok(Some(EmbeddingServer::vector(text)))
}

fn passages(embeddings: &mut Embeddings, texts: &[&str]) -> Vec<Embedded> {
    let answers = embeddings.passages(texts, &|| true, &mut || ());
    answers.expect("the database is there")
}

#[test]
fn each_text_is_embedded_once_and_never_again_after_a_restart() {
    let fixture = Fixture::new();
    let mut embeddings = fixture.open(MODEL);
    assert_eq!(embeddings.dimension(), None);
    let expected = [vector("a"), Ok(None), vector("b"), vector("a"), Ok(None)];
    assert_eq!(
        passages(&mut embeddings, &["a", "", "b", "a", " \n\u{0}"]),
        expected
    );
    assert_eq!(
        fixture.asked(),
        [["a", "b"]],
        "no text twice, and none that is empty"
    );
    assert_eq!(
        embeddings.counts(),
        Counts {
            embedded: 2,
            ..Counts::default()
        }
    );
    let mut embeddings = fixture.open(MODEL);
    assert_eq!(embeddings.dimension(), Some(DIMENSION));
    assert_eq!(
        passages(&mut embeddings, &["b", "c", "a"]),
        [vector("b"), vector("c"), vector("a")]
    );
    assert_eq!(fixture.asked(), [["c"]]);
    assert_eq!(
        embeddings.counts(),
        Counts {
            embedded: 1,
            cached: 2,
            ..Counts::default()
        }
    );
}

#[test]
fn what_came_before_an_outage_is_kept() {
    let mut fixture = Fixture::new();
    fixture.server.poison("e", Fault::Status(401));
    let mut embeddings = fixture.open(MODEL);
    let answers = passages(&mut embeddings, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(answers[..4], ["a", "b", "c", "d"].map(vector));
    for answer in &answers[4..] {
        let failure = answer.as_ref().expect_err("not reached");
        assert_eq!(failure.kind, FailureKind::Refused);
    }
    assert_eq!(fixture.asked().len(), 3);
    fixture.server.down();
    let mut embeddings = fixture.open(MODEL);
    let answers = passages(&mut embeddings, &["d", "f", "a"]);
    assert_eq!((&answers[0], &answers[2]), (&vector("d"), &vector("a")));
    let failure = answers[1].as_ref().expect_err("it is away");
    assert_eq!(failure.kind, FailureKind::Down);
}

#[test]
fn a_query_is_asked_for_and_not_kept() {
    let fixture = Fixture::new();
    let embeddings = fixture.open(MODEL);
    let within = Duration::from_secs(20);
    assert_eq!(embeddings.query(" ", within), Ok(None));
    for _ in 0..2 {
        assert_eq!(embeddings.query("q", within), vector("q"));
    }
    assert_eq!(fixture.asked(), [["q"], ["q"]]);
    assert_eq!(embeddings.counts(), Counts::default());
}

#[test]
fn a_model_that_changes_behind_its_name_is_refused_and_nothing_of_it_kept() {
    let fixture = Fixture::new();
    passages(&mut fixture.open(MODEL), &["a"]);
    fixture.server.always(Some(Fault::Length(DIMENSION + 1)));
    let mut embeddings = fixture.open(MODEL);
    let answers = passages(&mut embeddings, &["a", "b"]);
    assert_eq!(answers[0], vector("a"));
    let failure = answers[1].as_ref().expect_err("another model");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(
        failure.reason.contains("9 numbers, and gave 8 before"),
        "{failure:?}"
    );
    fixture.server.always(None);
    assert_eq!(passages(&mut embeddings, &["b"]), [vector("b")]);
}

#[test]
fn of_two_fingerprints_what_differs_is_told() {
    let of = |model: &str, prefix: &str| {
        let settings = EmbeddingSettings {
            is_on: true,
            model: model.into(),
            passage_prefix: prefix.into(),
            ..EmbeddingSettings::default()
        };
        fingerprint(&settings).expect("it can be used")
    };
    let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let found = difference(&of("m1", ""), &of("m2", ""));
    assert_eq!(found, both(r#"model "m1""#, r#"model "m2""#));
    let odd = r#"say "a", b: \"#;
    let found = difference(&of("m", odd), &of("m", "x"));
    assert_eq!(found.1, r#"prefix "x""#);
    assert_eq!(found.0, format!("prefix {odd:?}"));
    assert_eq!(difference("A", "B, C"), both("A", "B, C"));
    assert_eq!(difference("A", "B"), both("A", "B"));
    assert_eq!(model_name(&of("m, 1", odd)), r#""m, 1""#);
    assert_eq!(model_name("A"), "A");
}

#[test]
fn a_passage_says_the_title_once_then_the_trail_then_the_text() {
    let trail = |parts: &[&str]| parts.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (title, heads, text, expected) in [
        ("T", &["A", "B"][..], "x", "T\nA\nB\nx"),
        ("T", &["T", "B"], "x", "T\nB\nx"),
        ("T", &[], "x", "T\nx"),
        ("T", &["A"], "", "T\nA"),
        ("", &[], "", ""),
    ] {
        assert_eq!(passage(title, &trail(heads), text), expected);
    }
}
