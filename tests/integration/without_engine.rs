//! Built without an engine for the vectors: graph and git are kept, and what the vectors are owed waits with the way out.

use crate::wiki::{Ran, Wiki};

/// Checks that a run says what this build is without, and how to come by it.
#[track_caller]
fn assert_says_what_is_missing(ran: &Ran, what: &str, feature: &str) {
    let told = format!("{}{}", ran.out, ran.err);
    for words in [
        &format!("this wiki-sync was built without {what}"),
        &format!("hint: build it with the feature \"{feature}\""),
    ] {
        assert!(told.contains(words.as_str()), "{words}: {told}");
    }
}

#[test]
fn graph_and_git_are_kept_and_the_vectors_jobs_wait_with_the_way_out() {
    let wiki = Wiki::small();
    let drained = wiki.ws(&["drain"]).code(4);
    assert_says_what_is_missing(&drained, "its embedded vector engine", "edge");
    assert_eq!(wiki.head_pages().len(), 3);
    wiki.write("wiki-output/a.md", "# Alpha\n\nTo [[sub/c]] alone.\n");
    wiki.remove("wiki-output/b.md");
    wiki.ws(&["drain"]).code(4);
    assert_eq!(
        wiki.head_pages(),
        ["wiki-output/a.md", "wiki-output/sub/c.md"]
    );
    let links = wiki.json(0, &["graph", "backlinks", "wiki-output/sub/c.md"]);
    assert_eq!(links.as_array().unwrap().len(), 1, "{links}");
    let verified = wiki.json(0, &["verify", "--store", "graph", "--store", "git"]);
    assert_eq!(verified["in_sync"], true, "{verified}");
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["outbox"]["held"], 2, "{status}");
    assert_eq!(status["outbox"]["dead"], 0, "{status}");
}

#[test]
fn what_needs_an_engine_is_refused_with_the_way_out() {
    let wiki = Wiki::small();
    wiki.ws(&["drain"]).code(4);
    for args in [&["search", "outbox"][..], &["rebuild", "vectors"]] {
        let refused = wiki.ws(args).code(4);
        assert_says_what_is_missing(&refused, "its embedded vector engine", "edge");
    }
}

#[cfg(not(feature = "server"))]
#[test]
fn a_server_needs_the_feature_of_its_client() {
    let mut wiki = Wiki::small();
    wiki.env.insert(
        "WIKI_SYNC_VECTORS_URL".into(),
        "http://127.0.0.1:6334".into(),
    );
    let refused = wiki.ws(&["drain"]).code(4);
    assert_says_what_is_missing(&refused, "the client of a Qdrant server", "server");
}
