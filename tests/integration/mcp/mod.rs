//! `mcp`: the built binary as a server of tools for language models, asked in lines and by another language's library.

mod bounds;
mod client;
mod library;

use std::time::Duration;

use serde_json::{Value, json};
use wiki_sync::testing::{EmbeddingServer, MODEL};

use self::client::Client;
use crate::redis::until;
use crate::watch::Watch;
use crate::wiki::Wiki;

const LONG: Duration = Duration::from_mins(1);
const TOOLS: [&str; 6] = [
    "search",
    "read_page",
    "backlinks",
    "neighbors",
    "recent_changes",
    "status",
];

fn small() -> (Wiki, Client) {
    let wiki = Wiki::small();
    wiki.drain();
    let client = Client::start(&wiki);
    (wiki, client)
}

fn paths<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    let list = list.as_array().expect("a list").iter();
    list.filter_map(|one| one[field].as_str()).collect()
}

#[test]
fn the_tools_are_listed_with_schemas_and_as_reading_only() {
    let (_wiki, mut client) = small();
    let listed = client.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(paths(&listed["result"]["tools"], "name"), TOOLS);
    for tool in tools {
        let hints = &tool["annotations"];
        assert_eq!(
            (
                &hints["readOnlyHint"],
                &hints["destructiveHint"],
                &hints["openWorldHint"]
            ),
            (&json!(true), &json!(false), &json!(false))
        );
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool}");
        let given = &tool["outputSchema"]["properties"]["freshness"];
        assert!(given.is_object(), "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 100);
    }
    let answer = client.ask("no/such", &json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    assert_eq!(client.close(), Some(0));
}

#[test]
fn pages_are_found_and_read_by_any_of_their_names() {
    let (wiki, mut client) = small();
    let found = client.good("search", &json!({"query": "Redis outbox"}));
    let hit = &found["pages"][0];
    assert_eq!(
        (&hit["path"], &hit["heading"], &hit["stale"]),
        (
            &json!("wiki-output/a.md"),
            &json!("Alpha > Queue"),
            &json!(false)
        )
    );
    assert_eq!(found["channels"], json!(["words"]));
    for only in [
        json!({"query": "Redis", "tag": "x"}),
        json!({"query": "Redis", "path_prefix": "wiki-output/"}),
        json!({"query": "Redis", "repo": "repo"}),
        json!({"query": "Redis", "lang": "md"}),
        json!({"query": "아웃박스", "path_prefix": "sub/", "limit": 1}),
    ] {
        assert_eq!(
            client.good("search", &only)["pages"]
                .as_array()
                .unwrap()
                .len(),
            1,
            "{only}"
        );
    }
    let none = client.good(
        "search",
        &json!({"query": "Redis", "path_prefix": "wiki-output/sub/"}),
    );
    assert_eq!(none["pages"], json!([]));

    for name in [
        "wiki-output/a.md",
        "a.md",
        "a",
        "Alpha",
        "[[a]]",
        " ./a.md ",
    ] {
        let page = client.good("read_page", &json!({"page": name}));
        assert_eq!(page["path"], "wiki-output/a.md", "{name}");
        let text = std::fs::read_to_string(wiki.root().join("wiki-output/a.md")).unwrap();
        assert_eq!(page["text"], text);
        assert_eq!(
            (&page["cut"], &page["indexed"]),
            (&json!(false), &json!("current"))
        );
    }
    let part = client.good(
        "read_page",
        &json!({"page": "a", "heading": hit["heading"]}),
    );
    assert_eq!(part["text"], "## Queue\n\nRedis list as outbox.\n");
    let lines = (&part["start_line"], &part["end_line"], &part["total_lines"]);
    assert_eq!(lines, (&json!(9), &json!(11), &json!(11)));
    assert_eq!(client.close(), Some(0));
}

#[test]
fn links_history_and_status_are_told_as_they_are() {
    let (wiki, mut client) = small();
    let links = client.good("backlinks", &json!({"page": "b"}));
    assert_eq!(
        (
            &links["links"][0]["path"],
            &links["links"][0]["line"],
            &links["total"]
        ),
        (&json!("wiki-output/a.md"), &json!(7), &json!(1))
    );
    let links = client.good("backlinks", &json!({"page": "없는 페이지"}));
    assert_eq!(paths(&links["links"], "path"), ["wiki-output/sub/c.md"]);

    let near = client.good(
        "neighbors",
        &json!({"page": "b", "direction": "out", "depth": 2}),
    );
    assert_eq!(
        paths(&near["neighbors"], "path"),
        ["wiki-output/a.md", "wiki-output/sub/c.md"]
    );
    let near = client.good("neighbors", &json!({"page": "b", "limit": 1, "depth": 3}));
    assert_eq!(
        (near["neighbors"].as_array().unwrap().len(), &near["cut"]),
        (1, &json!(true))
    );

    let changes = client.good("recent_changes", &json!({}));
    let commit = &changes["commits"][0];
    assert_eq!(commit["commit"], wiki.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(commit["total_pages"], 3);
    assert_eq!(
        commit["pages"][0],
        json!({"path": "wiki-output/a.md", "change": "added"})
    );
    assert_eq!(
        changes["commits"].as_array().unwrap().len(),
        1,
        "the first commit has no page"
    );

    let status = client.good("status", &json!({}));
    assert_eq!(
        (&status["fresh"], &status["pages"]),
        (&json!(true), &json!(3)),
        "{status}"
    );
    assert_eq!(
        paths(&status["stores"], "store"),
        ["graph", "vectors", "git"]
    );
    assert_eq!(client.close(), Some(0));
}

#[test]
fn an_edit_that_is_not_indexed_shows_as_stale_and_is_read_as_it_is() {
    let (wiki, mut client) = small();
    wiki.write("wiki-output/a.md", "# Alpha\n\nedited: Redis [[b]]\n");
    wiki.remove("wiki-output/sub/c.md");
    let found = client.good("search", &json!({"query": "Redis"}));
    assert_eq!(found["pages"][0]["stale"], true, "{found}");
    let fresh = &found["freshness"];
    assert_eq!(
        (&fresh["fresh"], &fresh["stale"]),
        (&json!(false), &json!(1))
    );
    let gone = client.good("search", &json!({"query": "아웃박스"}));
    assert_eq!(gone["pages"][0]["deleted"], true, "{gone}");
    let page = client.good("read_page", &json!({"page": "a"}));
    assert_eq!(page["text"], "# Alpha\n\nedited: Redis [[b]]\n");
    assert_eq!(page["indexed"], "older");
    let links = client.good("backlinks", &json!({"page": "b"}));
    assert_eq!(links["freshness"]["stale"], 1, "{links}");
    // Of these only the page itself has changed, and of the others it is gone.
    let around = client.good("neighbors", &json!({"page": "a", "direction": "out"}));
    assert_eq!(
        paths(&around["neighbors"], "path"),
        ["wiki-output/b.md", "wiki-output/sub/c.md"]
    );
    assert_eq!(around["freshness"]["stale"], 2, "{around}");
    let gone = client.good("backlinks", &json!({"page": "감마"}));
    assert_eq!(gone["page"], "wiki-output/sub/c.md");
    assert_eq!(gone["freshness"]["fresh"], false, "{gone}");
    let why = client.bad("read_page", &json!({"page": "감마"}));
    assert!(why.contains("not on disk any more"), "{why}");
    let status = client.good("status", &json!({}));
    assert_eq!(
        (&status["fresh"], &status["unannounced"]),
        (&json!(false), &json!(2))
    );
    wiki.drain();
    let found = client.good("search", &json!({"query": "edited"}));
    assert_eq!(
        found["pages"][0]["stale"], false,
        "what was drained meanwhile is seen"
    );
    // Nobody watches, so nobody knows for certain.
    assert_eq!(found["freshness"]["fresh"], Value::Null, "{found}");
    assert_eq!(found["freshness"]["watch"], "none");
}

#[test]
fn beside_a_watch_what_is_saved_is_found_soon_and_neither_keeps_the_other_waiting() {
    let (wiki, mut client) = small();
    let watch = Watch::start(&wiki);
    for round in 0..5 {
        let word = format!("lighthouse{round}");
        wiki.write("wiki-output/b.md", format!("# Beta\n\n{word} [[a]]\n"));
        until(LONG, "the page in the index", || {
            let found = client.good("search", &json!({"query": word}));
            found["pages"][0]["stale"] == false
        });
    }
    until(LONG, "a fresh answer", || {
        let near = client.good("neighbors", &json!({"page": "b"}));
        assert_eq!(near["freshness"]["watch"], "running");
        near["freshness"]["fresh"] == true
    });
    watch.in_sync();
    drop(watch);
    let status = client.good("status", &json!({}));
    let wrong = status["wrong"].to_string();
    assert!(
        wrong.contains("ended without a word"),
        "it was killed: {wrong}"
    );
    let found = client.good("search", &json!({"query": "Redis"}));
    assert_eq!(found["freshness"]["watch"], "none");
}

#[test]
fn two_servers_and_a_drain_take_turns() {
    let (wiki, mut one) = small();
    let mut other = Client::start(&wiki);
    for round in 0..4 {
        wiki.write("wiki-output/b.md", format!("# Beta\n\nround{round}\n"));
        let mut drain = wiki.binary().args(["drain", "--quiet"]).spawn().unwrap();
        let asked: Vec<_> = (0..6)
            .map(|_| {
                let query = json!({"name": "search", "arguments": {"query": "Redis"}});
                (
                    one.request("tools/call", &query),
                    other.request("tools/call", &query),
                )
            })
            .collect();
        for _ in asked {
            for client in [&mut one, &mut other] {
                let answer = client.next();
                assert_eq!(answer["result"]["isError"], false, "{answer}");
            }
        }
        assert_eq!(drain.wait().unwrap().code(), Some(0));
    }
    let found = other.good("search", &json!({"query": "round3"}));
    assert_eq!(found["pages"][0]["path"], "wiki-output/b.md");
    wiki.assert_in_sync();
}

#[test]
fn where_nothing_is_indexed_it_says_so_and_makes_nothing() {
    let wiki = Wiki::small();
    let mut client = Client::start(&wiki);
    for (tool, arguments) in [
        ("search", json!({"query": "Redis"})),
        ("backlinks", json!({"page": "a"})),
        ("neighbors", json!({"page": "a"})),
        ("status", json!({})),
    ] {
        let why = client.bad(tool, &arguments);
        assert!(why.contains("nothing is indexed"), "{tool}: {why}");
        assert!(why.contains("hint: run `wiki-sync drain`"), "{tool}: {why}");
    }
    // Files and history are there all the same.
    let page = client.good("read_page", &json!({"page": "b"}));
    assert_eq!(
        (&page["text"], &page["indexed"]),
        (
            &json!("# Beta\n\nBack to [Alpha](a.md).\n"),
            &json!("unknown")
        )
    );
    client.good("recent_changes", &json!({}));
    assert!(!wiki.root().join(".wiki-sync").exists(), "no state is made");
    wiki.drain();
    assert_eq!(client.good("status", &json!({}))["fresh"], true);
    std::fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    client.bad("search", &json!({"query": "Redis"}));
    client.bad("status", &json!({}));
    assert!(
        !wiki.root().join(".wiki-sync").exists(),
        "none is made again"
    );
    std::fs::rename(wiki.root(), wiki.root().with_extension("away")).unwrap();
    let why = client.bad("read_page", &json!({"page": "b"}));
    assert!(why.contains("no wiki in"), "{why}");
    std::fs::rename(wiki.root().with_extension("away"), wiki.root()).unwrap();
    client.good("read_page", &json!({"page": "b"}));
    assert_eq!(client.close(), Some(0));
}

#[test]
fn no_call_changes_a_byte_of_the_wiki_its_repository_or_its_settings() {
    let wiki = Wiki::small();
    // Cut off in the middle of a commit: whoever only reads leaves that as it is.
    assert!(wiki.killed_at("git.linked", &["drain"]));
    let state = |wiki: &Wiki| {
        let list = wiki
            .other("find".as_ref())
            .args([
                ".",
                "-not",
                "-path",
                "./.wiki-sync*",
                "-printf",
                "%p %s %T@\n",
            ])
            .output();
        String::from_utf8(list.unwrap().stdout).unwrap()
    };
    let before = state(&wiki);
    let mut client = Client::start(&wiki);
    for (tool, arguments) in [
        ("search", json!({"query": "Redis"})),
        ("read_page", json!({"page": "a"})),
        ("backlinks", json!({"page": "a"})),
        ("neighbors", json!({"page": "a"})),
        ("recent_changes", json!({})),
        ("status", json!({})),
    ] {
        client.call(tool, &arguments);
    }
    assert_eq!(state(&wiki), before);
    assert_eq!(client.close(), Some(0));
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn while_the_provider_is_away_it_answers_by_words_and_says_so() {
    let mut server = EmbeddingServer::start();
    let mut wiki = Wiki::small();
    for (name, value) in [
        ("PROVIDER", "openai"),
        ("URL", &server.url()),
        ("MODEL", MODEL),
    ] {
        wiki.env
            .insert(format!("WIKI_SYNC_EMBEDDING_{name}"), value.into());
    }
    wiki.drain();
    let mut client = Client::start(&wiki);
    let both = client.good("search", &json!({"query": "Redis"}));
    assert_eq!(both["channels"], json!(["words", "meaning"]));
    server.down();
    let words = client.good("search", &json!({"query": "Redis"}));
    assert_eq!(words["channels"], json!(["words"]), "{words}");
    assert_eq!(words["pages"][0]["path"], "wiki-output/a.md");
    assert!(words["lack"].is_string(), "{words}");
    server.up();
    let both = client.good("search", &json!({"query": "Redis"}));
    assert_eq!(
        (&both["channels"], &both["lack"]),
        (&json!(["words", "meaning"]), &Value::Null)
    );
}

#[test]
fn while_the_outbox_is_away_a_page_that_changed_is_told_all_the_same() {
    let mut wiki = Wiki::small();
    wiki.drain();
    // Nobody listens on the port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", gone.local_addr().unwrap());
    drop(gone);
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), url);
    let mut client = Client::start(&wiki);
    let is_fresh = |client: &mut Client| {
        let page = client.good("read_page", &json!({"page": "b"}));
        let freshness = &page["freshness"];
        assert_eq!(freshness["behind"], Value::Null, "{page}");
        let note = freshness["note"].as_str().unwrap();
        assert!(note.contains("wait to be indexed is not known"), "{note}");
        freshness["fresh"].clone()
    };
    assert_eq!(is_fresh(&mut client), Value::Null);
    wiki.write("wiki-output/b.md", "# Beta\n\nedited\n");
    assert_eq!(is_fresh(&mut client), false);
}
