//! Embeddings end to end: the built binary, and a strict provider that can go wrong.

use std::time::{Duration, Instant};

use wiki_sync::testing::{EmbeddingServer, Fault, MODEL};

use crate::wiki::Wiki;

/// How many sections the small wiki has.
const SECTIONS: u64 = 4;

fn with_provider(mut wiki: Wiki, server: &EmbeddingServer) -> Wiki {
    for (name, value) in [
        ("PROVIDER", "openai"),
        ("URL", &server.url()),
        ("MODEL", MODEL),
        ("CONCURRENCY", "1"),
    ] {
        let name = format!("WIKI_SYNC_EMBEDDING_{name}");
        wiki.env.insert(name, value.into());
    }
    wiki
}

/// How many texts the server was asked for; forgets them.
fn texts(server: &EmbeddingServer) -> Vec<String> {
    let asked = server.asked().into_iter();
    asked.flat_map(|asked| asked.texts).collect()
}

fn channels(hits: &serde_json::Value) -> Vec<&str> {
    let channels = hits[0]["channels"].as_array().expect("a hit");
    channels.iter().filter_map(|one| one.as_str()).collect()
}

fn long(edited: Option<usize>) -> String {
    let section = |n| {
        let more = if edited == Some(n) { " edited" } else { "" };
        format!("## Part {n}\n\nWords of part {n}{more}.\n\n")
    };
    let sections: String = (1..250).map(section).collect();
    format!("# Long\n\nIt begins.\n\n{sections}")
}

#[test]
fn a_page_is_found_by_words_while_the_provider_is_away_and_by_meaning_once_it_is_back() {
    let mut server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    server.down();
    let report = wiki.json(75, &["drain", "--no-wait"]);
    assert_eq!((&report["held"], &report["dlq"]), (&3.into(), &0.into()));
    assert_eq!(report["retried"], 0, "no attempt is used");
    let trouble = report["trouble"][0].clone();
    assert_eq!(
        (&trouble["kind"], &trouble["pages"]),
        (&"down".into(), &3.into())
    );
    assert_eq!(wiki.head_pages().len(), 3, "the other stores go on");
    let hits = wiki.json(0, &["search", "Redis"]);
    assert_eq!(hits[0]["path"], "wiki-output/a.md");
    assert_eq!(channels(&hits), ["words"]);
    // What is lacking is waited for, and no drift.
    let verified = wiki.json(75, &["verify"]);
    assert_eq!(
        (
            &verified["waiting"],
            verified["drift"].as_array().unwrap().len()
        ),
        (&3.into(), 0)
    );
    server.up();
    let report = wiki.drain();
    assert_eq!(report["stores"]["vectors"]["embedded"], SECTIONS);
    assert_eq!(texts(&server).len() as u64, SECTIONS);
    wiki.assert_in_sync();
    let hits = wiki.json(0, &["search", "Redis"]);
    assert_eq!(channels(&hits), ["words", "meaning"]);
}

#[test]
fn why_meaning_has_no_part_in_an_answer_is_told_where_it_might_have_one() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    let early = wiki.ws(&["search", "Redis"]).code(0);
    assert!(early.err.contains("embedded nothing yet"), "{}", early.err);
    wiki.drain();
    for nothing in ["\u{1}\u{2}", "Redis"] {
        let told = wiki.ws(&["search", nothing]).code(0);
        assert!(!told.err.contains("by words alone"), "{}", told.err);
    }
}

#[test]
fn a_drain_that_waits_goes_on_when_the_provider_is_back() {
    let mut server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::small(), &server);
    let probes = std::iter::repeat_n("0.1", 600)
        .collect::<Vec<_>>()
        .join(", ");
    wiki.env.insert("WIKI_SYNC_RETRY_PROBES".into(), probes);
    server.down();
    let mut drain = wiki.binary().arg("drain").spawn().unwrap();
    let end = Instant::now() + Duration::from_mins(1);
    while wiki.ws(&["status", "--json"]).json()["outbox"]["held"] != 3 {
        assert!(Instant::now() < end, "nothing is held");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.up();
    assert_eq!(drain.wait().unwrap().code(), Some(0));
    let asked = texts(&server)
        .into_iter()
        .filter(|text| text != "A page of a wiki.");
    assert_eq!(asked.count() as u64, SECTIONS);
    wiki.assert_in_sync();
}

#[test]
fn a_watch_goes_on_when_the_provider_is_back_and_stops_when_it_is_told_to() {
    let mut server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::small(), &server);
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), "0.2".into());
    server.down();
    let mut watch = wiki.binary().arg("watch").spawn().unwrap();
    let until = |held: u64, vectors: u64| {
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            let status = wiki.ws(&["status", "--json"]).json();
            let pages = &status["stores"]["vectors"]["pages"];
            if status["outbox"]["held"] == held && *pages == vectors {
                return;
            }
            assert!(Instant::now() < end, "{status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(3, 0);
    server.up();
    until(0, 3);
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    wiki.assert_in_sync();
}

#[test]
fn an_edit_embeds_one_text_and_a_touch_a_move_a_branch_switch_and_a_restart_none() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::with(&[]), &server);
    each_text_is_embedded_once(&wiki, &server);
}

/// Checks it on a new wiki, wherever its vectors are.
pub(crate) fn each_text_is_embedded_once(wiki: &Wiki, server: &EmbeddingServer) {
    wiki.write("wiki-output/long.md", long(None));
    wiki.drain();
    assert_eq!(texts(server).len(), 250);
    let count = |wiki: &Wiki| wiki.json(0, &["search", "part", "--limit", "1"]);
    assert_eq!(count(wiki).as_array().unwrap().len(), 1);
    assert_eq!(texts(server), ["part"], "the query");
    wiki.write("wiki-output/long.md", long(Some(7)));
    let report = wiki.drain();
    let asked = server.asked();
    assert_eq!(
        (asked.len(), asked[0].texts.len()),
        (1, 1),
        "one call of one text"
    );
    assert!(asked[0].texts[0].contains("part 7 edited"));
    let vectors = &report["stores"]["vectors"];
    assert_eq!(
        (&vectors["embedded"], &vectors["cached"]),
        (&1.into(), &249.into())
    );
    let file = std::fs::File::options()
        .append(true)
        .open(wiki.root().join("wiki-output/long.md"))
        .unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    wiki.drain();
    wiki.git(&["mv", "wiki-output/long.md", "wiki-output/moved.md"]);
    wiki.drain();
    wiki.assert_in_sync();
    wiki.git(&["checkout", "-q", "HEAD~1"]);
    wiki.json(0, &["drain", "--allow-detached"]);
    wiki.git(&["checkout", "-q", "main"]);
    wiki.drain();
    wiki.git(&["checkout", "-q", "-"]);
    wiki.json(0, &["drain", "--allow-detached"]);
    wiki.ws(&["verify"]).code(0);
    assert_eq!(texts(server), Vec::<String>::new());
}

#[test]
fn a_text_that_gets_no_vector_costs_its_page_alone_which_is_found_by_words_and_says_where() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    wiki.write(
        "wiki-output/bad.md",
        "# Bad\n\nGood words.\n\n## Middle\n\nPOISON ivy.\n\n## End\n\nMore words.\n",
    );
    server.poison("POISON", Fault::Status(400));
    let report = wiki.json(3, &["drain"]);
    assert_eq!((&report["dlq"], &report["held"]), (&1.into(), &0.into()));
    let letters = wiki.json(0, &["dlq", "list"]);
    let reason = letters[0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("wiki-output/bad.md") && reason.contains("\"Middle\" (number 2)"),
        "{reason}"
    );
    let words = ["search", "ivy", "--set", "embedding.provider=none"];
    assert_eq!(wiki.json(0, &words)[0]["path"], "wiki-output/bad.md");
    server.cure();
    let _ = server.asked();
    wiki.ws(&["dlq", "retry", "--all"]).code(0);
    wiki.drain();
    assert_eq!(texts(&server).len(), 1, "the others were at hand");
    wiki.assert_in_sync();
}

#[test]
fn killed_while_embedding_no_text_is_embedded_twice() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::with(&[("wiki-output/long.md", &long(None))]), &server);
    assert!(wiki.killed_at("embed.kept#3", &["drain"]));
    let before = texts(&server);
    let mut kept: Vec<_> = before[..96].to_vec();
    wiki.drain();
    let after = texts(&server);
    // A batch that was asked for and not yet kept when it was killed may be asked for again.
    kept.retain(|text| after.contains(text));
    assert_eq!(kept, Vec::<String>::new());
    assert_eq!(after.len(), 250 - 96);
    wiki.assert_in_sync();
}

#[test]
fn a_search_says_that_the_provider_is_away_and_finds_by_words() {
    let mut server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    server.down();
    let ran = wiki.ws(&["search", "Redis", "--json"]).code(0);
    let hits = ran.json();
    assert_eq!(hits[0]["path"], "wiki-output/a.md");
    assert_eq!(channels(&hits), ["words"]);
    assert!(ran.err.contains("searched by words alone"), "{}", ran.err);
    let ran = wiki.ws(&["verify"]).code(0);
    assert!(ran.err.is_empty(), "verify asks no provider: {}", ran.err);
}

#[test]
fn a_key_that_is_not_accepted_is_refused_with_the_way_out_and_words_go_in() {
    let server = EmbeddingServer::start();
    server.want_key("sk-right");
    let mut wiki = with_provider(Wiki::small(), &server);
    wiki.write("key.txt", "sk-wrong\n");
    wiki.write(".gitignore", "key.txt\n");
    wiki.env
        .insert("WIKI_SYNC_EMBEDDING_KEY_FILE".into(), "key.txt".into());
    let report = wiki.json(4, &["drain"]);
    assert_eq!(report["trouble"][0]["kind"], "refused");
    assert!(
        report["trouble"][0]["hint"]
            .as_str()
            .unwrap()
            .contains("key.txt")
    );
    assert!(!report.to_string().contains("sk-wrong"));
    assert_eq!(
        wiki.json(0, &["search", "Redis"])[0]["path"],
        "wiki-output/a.md"
    );
    wiki.write("key.txt", "sk-right\n");
    wiki.drain();
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

#[test]
fn a_search_looks_at_the_pages_that_it_is_told_to() {
    let wiki = Wiki::with(&[
        (
            "wiki-output/one/a.md",
            "---\ntags: [red]\nrepo: first\n---\n# A\n\nneedle\n",
        ),
        (
            "wiki-output/one/b.md",
            "---\nlang: rust\n---\n# B\n\nneedle #blue\n",
        ),
        ("wiki-output/two/c.md", "# C\n\nneedle\n"),
    ]);
    wiki.drain();
    wiki.ws(&["search", "needle", "-n", "0"]).code(2);
    let told = wiki.ws(&["search", "needle", "--tag", "green", "--json"]);
    let told = told.code(0);
    assert_eq!(told.json(), serde_json::json!([]));
    for words in [
        "no page has the tag \"green\"",
        "blue, red",
        "nothing found\n",
    ] {
        assert!(told.err.contains(words), "{}", told.err);
    }
    for (flags, found) in [
        (
            &["--path-prefix", "wiki-output/one/"][..],
            &["one/a.md", "one/b.md"][..],
        ),
        (&["--path-prefix", "wiki-output/t"], &["two/c.md"]),
        (&["--path-prefix", "one/b"], &["one/b.md"]),
        (&["--path-prefix", "./wiki-output/two/"], &["two/c.md"]),
        (&["--path-prefix", "wiki-output/no"], &[]),
        (&["--tag", "red"], &["one/a.md"]),
        (&["--repo", "first"], &["one/a.md"]),
        (&["--lang", "rust"], &["one/b.md"]),
        (&["--lang", "rust", "--tag", "red"], &[]),
    ] {
        let hits = wiki.json(0, &[&["search", "needle"], flags].concat());
        let hits = hits.as_array().unwrap().iter();
        let mut paths: Vec<_> = hits
            .map(|hit| {
                hit["path"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("wiki-output/")
                    .to_owned()
            })
            .collect();
        paths.sort();
        assert_eq!(paths, found, "{flags:?}");
    }
}

/// Another model of the same dimension, as far as its vectors can be compared.
fn change_model(wiki: &mut Wiki) {
    let name = "WIKI_SYNC_EMBEDDING_PASSAGE_PREFIX";
    wiki.env.insert(name.into(), "other: ".into());
}

#[test]
fn another_model_is_refused_with_both_names_and_the_command_which_rebuilds_and_embeds_once() {
    let server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    change_model(&mut wiki);
    wiki.write("wiki-output/new.md", "# New\n\nIt waits.\n");
    let _ = server.asked();
    let ran = wiki.ws(&["drain"]).code(4);
    assert!(!ran.out.contains("normalisation"), "only what differs");
    for words in [
        "prefix \\\"\\\"",
        "prefix \\\"other: \\\"",
        "wiki-sync rebuild vectors",
    ] {
        let words = words.replace('\\', "");
        assert!(ran.out.contains(&words), "{words} is not in {}", ran.out);
    }
    assert_eq!(
        texts(&server),
        Vec::<String>::new(),
        "nothing is embedded in vain"
    );
    // Readers are served by the old ones.
    let ran = wiki.ws(&["search", "Redis", "--json"]).code(0);
    assert_eq!(channels(&ran.json()), ["words"]);
    assert!(ran.err.contains("rebuild vectors"), "{}", ran.err);
    let _ = server.asked();
    let built = wiki.json(0, &["rebuild", "vectors"]);
    assert_eq!(
        (&built["pages"], &built["embedded"]),
        (&4.into(), &(SECTIONS + 1).into())
    );
    let hits = wiki.json(0, &["search", "Redis"]);
    assert_eq!(channels(&hits), ["words", "meaning"]);
    let report = wiki.drain();
    assert_eq!(report["stores"]["vectors"]["embedded"], 0);
    assert_eq!(report["stores"]["vectors"]["applied"], 0);
    wiki.assert_in_sync();
    assert!(!wiki.root().join(".wiki-sync/vectors.new").exists());
}

#[test]
fn another_dimension_is_refused_with_both_numbers_while_words_still_find() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    wiki.write("wiki-output/new.md", "# New\n\nIt waits.\n");
    let other = ["--set", "embedding.dimensions=16"];
    let ran = wiki.ws(&[&["drain"], &other[..]].concat()).code(4);
    for words in ["8 dimensions", "vectors of 16", "wiki-sync rebuild vectors"] {
        assert!(ran.out.contains(words), "{words} is not in {}", ran.out);
    }
    let ran = wiki.ws(&[&["search", "Redis", "--json"], &other[..]].concat());
    assert_eq!(channels(&ran.code(0).json()), ["words"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_rebuild_that_is_killed_goes_on_and_embeds_nothing_twice() {
    let server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::with(&[("wiki-output/long.md", &long(None))]), &server);
    wiki.write("wiki-output/a.md", "# Alpha\n\nRedis list.\n");
    wiki.drain();
    change_model(&mut wiki);
    for (point, channel) in [
        ("embed.kept#3", "words"),
        ("vectors.after_upsert", "words"),
        ("vectors.flushed", "words"),
        ("vectors.before_exchange", "words"),
        ("vectors.exchanged", "meaning"),
    ] {
        assert!(wiki.killed_at(point, &["rebuild", "vectors"]), "{point}");
        let doctor = wiki.ws(&["doctor"]).out;
        assert!(
            doctor.contains("from a rebuild that was cut off"),
            "{doctor}"
        );
        let hits = wiki.json(0, &["search", "Redis list"]);
        assert_eq!(channels(&hits).last(), Some(&channel), "{point}");
    }
    let _ = server.asked();
    let built = wiki.json(0, &["rebuild", "vectors"]);
    assert_eq!(
        (&built["pages"], &built["embedded"]),
        (&2.into(), &0.into())
    );
    let report = wiki.drain();
    assert_eq!(report["stores"]["vectors"]["embedded"], 0);
    wiki.assert_in_sync();
    wiki.remove("wiki-output/a.md");
    wiki.json(0, &["rebuild", "vectors"]);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_rebuild_needs_its_provider_and_leaves_the_old_vectors_when_that_is_away() {
    let mut server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    change_model(&mut wiki);
    server.down();
    let ran = wiki.ws(&["rebuild", "vectors"]);
    assert!(
        ran.code != Some(0) && ran.err.contains("cannot embed"),
        "{}",
        ran.err
    );
    wiki.env.remove("WIKI_SYNC_EMBEDDING_PASSAGE_PREFIX");
    server.up();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn what_is_wished_to_stop_leaves_what_it_has_not_embedded_and_uses_no_attempt() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::with(&[("wiki-output/long.md", &long(None))]), &server);
    // It hangs in the second batch.
    server.poison("Words of part 40.", Fault::Hang);
    let mut drain = wiki.binary();
    drain.args(["drain", "--set", "embedding.timeout=2 s"]);
    let mut drain = drain.spawn().unwrap();
    let end = Instant::now() + Duration::from_mins(1);
    let mut asked = 0;
    while asked < 64 {
        assert!(Instant::now() < end, "it asks no second time");
        asked += texts(&server).len();
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&drain);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    server.cure();
    assert_eq!(drain.wait().unwrap().code(), Some(75));
    assert_eq!(wiki.json(0, &["dlq", "list"]).as_array().unwrap().len(), 0);
    let found = wiki.json(0, &["search", "part", "--set", "embedding.provider=none"]);
    assert_eq!(found[0]["path"], "wiki-output/long.md");
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn while_the_provider_is_waited_for_graph_and_git_hold_the_page_and_readers_have_the_vectors() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    wiki.write("wiki-output/new.md", "# New\n\nFresh words.\n");
    let _ = server.asked();
    server.always(Some(Fault::Hang));
    let mut drain = wiki.binary().arg("drain").spawn().unwrap();
    let end = Instant::now() + Duration::from_mins(1);
    while texts(&server).is_empty() {
        assert!(Instant::now() < end, "it asks nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    let words = ["search", "Redis", "--set", "embedding.provider=none"];
    assert_eq!(wiki.json(0, &words)[0]["path"], "wiki-output/a.md");
    let verified = wiki.json(75, &["verify"]);
    assert_eq!(verified["unread"].as_array().unwrap().len(), 0);
    assert_eq!(wiki.head_pages().len(), 4);
    let status = wiki.json(0, &["status"]);
    for (store, behind) in [("graph", 0), ("git", 0), ("vectors", 1)] {
        assert_eq!(status["stores"][store]["behind"], behind, "{status}");
    }
    assert_eq!(texts(&server), Vec::<String>::new(), "it still waits");
    drain.kill().unwrap();
    drain.wait().unwrap();
    server.always(None);
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_key_that_cannot_be_read_keeps_no_page_from_graph_git_and_words() {
    let server = EmbeddingServer::start();
    let mut wiki = with_provider(Wiki::small(), &server);
    wiki.env.insert(
        "WIKI_SYNC_EMBEDDING_KEY_FILE".into(),
        "keys/none.txt".into(),
    );
    let report = wiki.json(4, &["drain"]);
    let trouble = &report["trouble"][0];
    assert_eq!(trouble["store"], "vectors");
    for (field, words) in [
        ("reason", "keys/none.txt"),
        ("hint", "WIKI_SYNC_EMBEDDING_API_KEY"),
    ] {
        assert!(trouble[field].as_str().unwrap().contains(words), "{report}");
    }
    assert_eq!(wiki.head_pages().len(), 3);
    let found = wiki.ws(&["search", "Redis", "--json"]).code(0);
    assert_eq!(found.json()[0]["path"], "wiki-output/a.md");
    assert!(found.err.contains("keys/none.txt"), "{}", found.err);
    assert_eq!(wiki.json(75, &["verify"])["drift"], serde_json::json!([]));
    let doctor = wiki.ws(&["doctor"]);
    assert!(doctor.out.contains("put it there"), "{}", doctor.out);
    wiki.write("keys/none.txt", "sk\n");
    wiki.git(&["add", "keys/none.txt"]);
    let doctor = wiki.ws(&["doctor"]);
    for words in ["can be read by others", "is in git"] {
        assert!(doctor.out.contains(words), "{}", doctor.out);
    }
    wiki.git(&["rm", "-q", "--cached", "keys/none.txt"]);
    wiki.remove("keys/none.txt");
    // Nor does one that must not be sent, nor the one of a Qdrant server.
    wiki.env.remove("WIKI_SYNC_EMBEDDING_KEY_FILE");
    for (name, value) in [
        ("EMBEDDING_API_KEY", "sk"),
        ("EMBEDDING_URL", "http://192.0.2.1/v1"),
    ] {
        wiki.env.insert(format!("WIKI_SYNC_{name}"), value.into());
    }
    wiki.write("wiki-output/new.md", "# New\n");
    let report = wiki.json(4, &["drain"]);
    let reason = report["trouble"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("clear text"), "{reason}");
    for (name, value) in [
        ("URL", "http://127.0.0.1:9"),
        ("API_KEY_FILE", "keys/none.txt"),
    ] {
        let name = format!("WIKI_SYNC_VECTORS_{name}");
        wiki.env.insert(name, value.into());
    }
    wiki.write("wiki-output/newer.md", "# Newer\n");
    let report = wiki.json(4, &["drain"]);
    assert_eq!(report["stores"]["graph"]["applied"], 1);
    assert_eq!(wiki.head_pages().len(), 5);
}

#[test]
fn a_search_before_anything_was_embedded_says_why_there_is_nothing_and_nothing_untrue() {
    let mut server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    server.down();
    wiki.ws(&["drain", "--no-wait"]).code(75);
    let found = wiki.ws(&["search", "Redis"]).code(0);
    for (words, is_told) in [
        ("refused the connection", true),
        ("3 jobs wait", true),
        ("embedded nothing yet", false),
        ("no page is indexed", false),
    ] {
        assert_eq!(found.err.contains(words), is_told, "{}", found.err);
    }
    let held = wiki.ws(&["status"]).code(0);
    let told = "found by words only, their meaning is owed: cannot embed: ";
    assert!(held.out.contains(told), "{}", held.out);
}

#[test]
fn without_its_provider_a_drain_says_that_meaning_goes_and_with_it_brings_it_back_for_nothing() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    wiki.drain();
    let _ = server.asked();
    let sections = |verified: &serde_json::Value| {
        let [points, dense] = ["points", "dense"].map(|name| verified[name].as_u64());
        (points.unwrap(), dense.unwrap())
    };
    let none = ["--set", "embedding.provider=none"];
    let ran = wiki.ws(&[&["drain"], &none[..]].concat()).code(0);
    assert!(
        ran.out.contains("meaning taken off: 3 pages"),
        "{}",
        ran.out
    );
    let verified = wiki.json(0, &[&["verify"], &none[..]].concat());
    assert_eq!(sections(&verified), (SECTIONS, 0));
    let report = wiki.drain();
    let vectors = &report["stores"]["vectors"];
    assert_eq!(
        (
            &vectors["embedded"],
            &vectors["cached"],
            &vectors["stripped"]
        ),
        (&0.into(), &SECTIONS.into(), &0.into())
    );
    assert_eq!(sections(&wiki.json(0, &["verify"])), (SECTIONS, SECTIONS));
    assert_eq!(texts(&server), Vec::<String>::new());
}

#[test]
fn a_drain_says_how_many_texts_were_embedded_and_how_many_by_their_beginning_alone() {
    let server = EmbeddingServer::start();
    server.take_chars(300);
    let wiki = with_provider(Wiki::small(), &server);
    let long = format!("# Long\n\n{}\n", "word ".repeat(100));
    wiki.write("wiki-output/long.md", long);
    let ran = wiki.ws(&["drain"]).code(0);
    for words in [
        "5 texts embedded, 0 at hand",
        "too long for the model: 1 text",
    ] {
        assert!(ran.out.contains(words), "{words} is not in {}", ran.out);
    }
    wiki.assert_in_sync();
}

#[test]
fn killed_when_graph_and_git_have_their_receipts_the_vectors_follow() {
    let server = EmbeddingServer::start();
    let wiki = with_provider(Wiki::small(), &server);
    assert!(wiki.killed_at("drain.quick_receipts", &["drain"]));
    assert_eq!(wiki.head_pages().len(), 3);
    assert_eq!(texts(&server), Vec::<String>::new());
    let report = wiki.drain();
    assert_eq!(report["stores"]["graph"]["applied"], 0);
    assert_eq!(report["stores"]["vectors"]["applied"], 3);
    wiki.remove("wiki-output/b.md");
    wiki.write("wiki-output/a.md", "# Alpha\n\nShorter.\n");
    assert!(wiki.killed_at("drain.quick_receipts", &["drain"]));
    wiki.drain();
    wiki.assert_in_sync();
}
