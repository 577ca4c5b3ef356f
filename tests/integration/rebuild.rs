//! `rebuild vectors` on a Qdrant server: a version is built beside the one in use, and exchanged with it by its alias.

use std::collections::BTreeSet;
use std::fs;

use wiki_sync::testing::qdrant_server::{Act, Fault, QdrantServer, serve_until_killed};
use wiki_sync::testing::{EmbeddingServer, MODEL};

use crate::meaning::each_text_is_embedded_once;
use crate::qdrant::anywhere;
use crate::wiki::Wiki;

#[test]
#[ignore = "runs only as the server of the tests here"]
fn server_that_serves_until_killed() {
    serve_until_killed();
}

fn spawn() -> QdrantServer {
    QdrantServer::spawn("rebuild::server_that_serves_until_killed")
}

fn on(server: &QdrantServer, provider: &EmbeddingServer, mut wiki: Wiki) -> Wiki {
    set(&mut wiki, "VECTORS_URL", &server.url());
    with(provider, wiki)
}

fn with(provider: &EmbeddingServer, mut wiki: Wiki) -> Wiki {
    for (name, value) in [
        ("RETRY_PROBES", "0.2, 0.2"),
        ("EMBEDDING_PROVIDER", "openai"),
        ("EMBEDDING_URL", &provider.url()),
        ("EMBEDDING_MODEL", MODEL),
        ("EMBEDDING_CONCURRENCY", "1"),
    ] {
        wiki.env.insert(format!("WIKI_SYNC_{name}"), value.into());
    }
    wiki
}

fn set(wiki: &mut Wiki, name: &str, value: &str) {
    wiki.env.insert(format!("WIKI_SYNC_{name}"), value.into());
}

/// Another model of the same dimension, as far as its vectors can be compared.
fn change_model(wiki: &mut Wiki) {
    set(wiki, "EMBEDDING_PASSAGE_PREFIX", "other: ");
}

fn collections(server: &QdrantServer) -> BTreeSet<String> {
    let entries = fs::read_dir(server.collections()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[track_caller]
fn assert_collections(server: &QdrantServer, expected: &[&str]) {
    let expected = expected.iter().map(ToString::to_string).collect();
    assert_eq!(collections(server), expected);
}

fn channels(wiki: &Wiki, query: &str) -> Vec<String> {
    let hits = wiki.json(0, &["search", query]);
    let channels = hits[0]["channels"].as_array().expect("a hit");
    channels
        .iter()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

fn long() -> Wiki {
    let sections = (1..120).fold(String::new(), |text, n| {
        text + &format!("## Part {n}\n\nWords of part {n}.\n\n")
    });
    Wiki::with(&[
        ("wiki-output/long.md", &format!("# Long\n\n{sections}")),
        ("wiki-output/a.md", "# Alpha\n\nRedis list.\n"),
    ])
}

#[test]
fn an_edit_embeds_one_text_and_a_touch_a_move_a_branch_switch_and_a_restart_none() {
    let (server, provider) = (anywhere(), EmbeddingServer::start());
    let wiki = server.on(with(&provider, Wiki::with(&[])));
    each_text_is_embedded_once(&wiki, &provider);
}

#[test]
fn another_model_is_refused_and_the_command_rebuilds_and_exchanges_the_collection() {
    let (server, provider) = (anywhere(), EmbeddingServer::start());
    let mut wiki = server.on(with(&provider, Wiki::small()));
    wiki.drain();
    assert_eq!(server.name.versions(), ["v1"]);
    change_model(&mut wiki);
    wiki.write("wiki-output/new.md", "# New\n\nIt waits.\n");
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(ran.out.contains("wiki-sync rebuild vectors"), "{}", ran.out);
    assert_eq!(channels(&wiki, "Redis"), ["words"]);
    let built = wiki.json(0, &["rebuild", "vectors"]);
    assert_eq!(
        (&built["pages"], &built["embedded"]),
        (&4.into(), &5.into())
    );
    assert!(built["left"].is_null(), "{built}");
    assert_eq!(server.name.versions(), ["v2"]);
    assert_eq!(channels(&wiki, "Redis"), ["words", "meaning"]);
    let report = wiki.drain();
    let vectors = &report["stores"]["vectors"];
    assert_eq!(
        (&vectors["embedded"], &vectors["applied"]),
        (&0.into(), &0.into())
    );
    wiki.assert_in_sync();
}

#[test]
fn another_dimension_is_refused_with_nothing_deleted_and_the_command_rebuilds() {
    let (server, provider) = (anywhere(), EmbeddingServer::start());
    let mut wiki = server.on(with(&provider, Wiki::small()));
    wiki.drain();
    set(&mut wiki, "EMBEDDING_DIMENSIONS", "16");
    wiki.write("wiki-output/new.md", "# New\n\nIt waits.\n");
    let ran = wiki.ws(&["drain"]).code(4);
    for words in ["8 dimensions", "vectors of 16", "wiki-sync rebuild vectors"] {
        assert!(ran.out.contains(words), "{words} is not in {}", ran.out);
    }
    assert_eq!(channels(&wiki, "Redis"), ["words"]);
    assert_eq!(server.name.versions(), ["v1"]);
    wiki.json(0, &["rebuild", "vectors"]);
    assert_eq!(channels(&wiki, "Redis"), ["words", "meaning"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn killed_at_any_moment_readers_are_served_and_the_next_rebuild_goes_on() {
    let (server, provider) = (anywhere(), EmbeddingServer::start());
    let mut wiki = server.on(with(&provider, long()));
    wiki.drain();
    change_model(&mut wiki);
    for (point, channel) in [
        ("embed.kept#2", "words"),
        ("vectors.after_upsert", "words"),
        ("vectors.flushed", "words"),
        ("vectors.before_exchange", "words"),
        ("vectors.exchanged", "meaning"),
    ] {
        assert!(wiki.killed_at(point, &["rebuild", "vectors"]), "{point}");
        assert_eq!(
            channels(&wiki, "Redis list").last().unwrap(),
            channel,
            "{point}"
        );
        assert_eq!(server.name.versions(), ["v1", "v2"], "{point}");
    }
    // What was left by the last one goes too.
    let built = wiki.json(0, &["rebuild", "vectors"]);
    assert_eq!(
        (&built["pages"], &built["embedded"]),
        (&2.into(), &0.into())
    );
    assert_eq!(server.name.versions(), ["v3"]);
    wiki.drain();
    wiki.assert_in_sync();
    wiki.remove("wiki-output/a.md");
    wiki.json(0, &["rebuild", "vectors"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_server_killed_while_it_exchanges_has_the_one_or_the_other_and_the_next_rebuild_goes_on() {
    for act in [Act::Die, Act::DieAfter] {
        let (mut server, provider) = (spawn(), EmbeddingServer::start());
        let mut wiki = on(&server, &provider, Wiki::small());
        wiki.drain();
        change_model(&mut wiki);
        server.fault(Fault::once("update_aliases", act));
        let ran = wiki.ws(&["rebuild", "vectors"]).code(75);
        assert!(ran.err.contains("cannot exchange"), "{}", ran.err);
        server.wait_dead();
        server.up();
        let before = if act == Act::Die { "words" } else { "meaning" };
        assert_eq!(channels(&wiki, "Redis").last().unwrap(), before);
        wiki.json(0, &["rebuild", "vectors"]);
        assert_eq!(collections(&server).len(), 1, "{act:?}");
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn cut_off_while_a_collection_is_made_the_next_one_goes_on_with_it() {
    let (server, provider) = (spawn(), EmbeddingServer::start());
    let mut wiki = on(&server, &provider, Wiki::small());
    assert!(wiki.killed_at("vectors.made", &["drain"]));
    assert_collections(&server, &["wiki-sync-v1"]);
    wiki.drain();
    assert_collections(&server, &["wiki-sync-v1"]);
    wiki.assert_in_sync();
    // An empty version, whoever made it, is no reason to take another number, and is not removed.
    change_model(&mut wiki);
    server.fault(Fault::once("create_field_index", Act::Refuse(13)));
    wiki.ws(&["rebuild", "vectors"]).code(75);
    assert_collections(&server, &["wiki-sync-v1", "wiki-sync-v2"]);
    wiki.json(0, &["rebuild", "vectors"]);
    assert_collections(&server, &["wiki-sync-v2"]);
}

#[test]
fn a_collection_that_another_wiki_shares_is_not_exchanged_and_a_free_name_is_the_way_out() {
    let (server, provider) = (spawn(), EmbeddingServer::start());
    let mut one = on(&server, &provider, Wiki::small());
    let two = on(&server, &provider, Wiki::small());
    one.drain();
    two.drain();
    change_model(&mut one);
    let before = provider.asked().len();
    assert!(before > 0);
    let ran = one.ws(&["rebuild", "vectors"]).code(4);
    assert!(
        ran.err.contains("of others too") && ran.err.contains("vectors.collection"),
        "{}",
        ran.err
    );
    assert!(
        provider.asked().iter().all(|asked| asked.texts.len() == 1),
        "no page is embedded in vain"
    );
    assert_collections(&server, &["wiki-sync-v1"]);
    two.assert_in_sync();
    set(&mut one, "VECTORS_COLLECTION", "one");
    one.drain();
    one.assert_in_sync();
    two.assert_in_sync();
    assert_collections(&server, &["one-v1", "wiki-sync-v1"]);
}

#[test]
fn a_drain_of_before_is_made_good_by_the_first_drain_after() {
    let (server, provider) = (anywhere(), EmbeddingServer::start());
    let mut wiki = server.on(with(&provider, Wiki::small()));
    wiki.drain();
    change_model(&mut wiki);
    assert!(wiki.killed_at("vectors.before_exchange", &["rebuild", "vectors"]));
    // By the settings of before, into the collection of before.
    wiki.env.remove("WIKI_SYNC_EMBEDDING_PASSAGE_PREFIX");
    wiki.write("wiki-output/a.md", "# Alpha\n\nturtles\n");
    wiki.remove("wiki-output/b.md");
    wiki.drain();
    wiki.assert_in_sync();
    change_model(&mut wiki);
    wiki.json(0, &["rebuild", "vectors"]);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(
        wiki.json(0, &["search", "turtles"])[0]["path"],
        "wiki-output/a.md"
    );
}
