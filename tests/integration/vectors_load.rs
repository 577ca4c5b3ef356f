//! Many large vectors, by the built binary: into the embedded engine, and to a server.

use wiki_sync::testing::qdrant_server::{QdrantServer, serve_until_killed};
use wiki_sync::testing::{EmbeddingServer, MODEL};

use crate::wiki::Wiki;

#[test]
#[ignore = "runs only as the server of the tests here"]
fn server_that_serves_until_killed() {
    serve_until_killed();
}

/// Twenty pages of a hundred sections, each as long as a section becomes.
fn large() -> Wiki {
    let wiki = Wiki::with(&[]);
    let long = "long text of many words ".repeat(150);
    for page in 0..20 {
        let sections = (0..100).fold(String::new(), |text, n| {
            text + &format!("## Part {n}\n\nOf page {page} part {n}: {long}\n\n")
        });
        wiki.write(&format!("wiki-output/{page:02}.md"), sections);
    }
    wiki
}

fn holds_them_all(mut wiki: Wiki, provider: &EmbeddingServer) {
    for (name, value) in [
        ("PROVIDER", "openai"),
        ("URL", &provider.url()),
        ("MODEL", MODEL),
        ("DIMENSIONS", "1536"),
    ] {
        wiki.env
            .insert(format!("WIKI_SYNC_EMBEDDING_{name}"), value.into());
    }
    let vectors = wiki.drain()["stores"]["vectors"].clone();
    assert_eq!(vectors["applied"], 20);
    assert!(vectors["embedded"].as_u64() >= Some(2_000), "{vectors}");
    wiki.assert_in_sync();
    let found = wiki.json(0, &["search", "page 7 part"]);
    assert_eq!(found[0]["channels"].as_array().unwrap().len(), 2);
}

#[test]
#[ignore = "two thousand vectors of 1,536 numbers, twice: for scripts/test --long"]
fn two_thousand_large_vectors_with_long_text_go_into_either_engine() {
    let provider = EmbeddingServer::start();
    holds_them_all(large(), &provider);
    let server = QdrantServer::spawn("vectors_load::server_that_serves_until_killed");
    let mut wiki = large();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_URL".into(), server.url());
    holds_them_all(wiki, &provider);
    let seen = server.seen();
    let upserts: Vec<_> = seen.iter().filter(|one| one.method == "upsert").collect();
    assert!(upserts.iter().map(|one| one.points).sum::<usize>() >= 2_000);
    assert!(
        upserts
            .iter()
            .all(|one| one.points <= 256 && one.bytes <= 17 << 20)
    );
}
