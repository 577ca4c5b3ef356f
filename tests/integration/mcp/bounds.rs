//! Bad words, bad paths, too much, and the end.

use serde_json::{Value, json};

use super::client::Client;
use super::small;
use crate::redis::until;
use crate::wiki::Wiki;

use super::LONG;

#[test]
fn words_that_are_no_call_are_answered_or_passed_over_and_the_server_lives() {
    let wiki = Wiki::small();
    wiki.drain();
    let mut client = Client::silent(&wiki);
    // Before the handshake too.
    for line in [
        "",
        "not json {",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
    ] {
        client.send_line(line);
    }
    let hello = client.ask(
        "initialize",
        &json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert!(hello["result"]["protocolVersion"].is_string(), "{hello}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for line in [
        "\u{0}\u{1}",
        "[]",
        r#"{"jsonrpc":"2.0","id":1"#,
        r#"{"jsonrpc":"1.0","id":"x","method":5}"#,
        r#"{"jsonrpc":"2.0","id":"y","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":"z","method":"tools/call","params":{"name":7}}"#,
        &format!(
            r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{}1{}}}"#,
            "[".repeat(5_000),
            "]".repeat(5_000)
        ),
        // Longer than any line that is read.
        &"x".repeat(3 << 20),
    ] {
        client.send_line(line);
    }
    client.good("status", &json!({}));
    let unknown = client.call("rm_rf", &json!({}));
    let why = unknown["error"]["message"].as_str().unwrap();
    assert!(why.contains("there are search, read_page"), "{unknown}");
    assert_eq!(client.close(), Some(0));
}

#[test]
fn bad_arguments_are_the_tools_error_and_say_what_is_wrong() {
    let (_wiki, mut client) = small();
    for (tool, arguments, says) in [
        ("search", json!({}), "missing field `query`"),
        ("search", json!({"query": "  "}), "the query is empty"),
        ("search", json!({"query": 5}), "expected a string"),
        ("search", json!({"query": "a", "limit": -1}), "limit"),
        (
            "search",
            json!({"query": "a", "top_k": 3}),
            "unknown field `top_k`",
        ),
        (
            "search",
            json!({"query": "x".repeat(3_000)}),
            "more than 2000 characters",
        ),
        ("read_page", json!({"page": ""}), "no page is named"),
        (
            "read_page",
            json!({"page": "p".repeat(10_000)}),
            "more than 4096 bytes",
        ),
        (
            "read_page",
            json!({"page": "a", "heading": "Nope"}),
            "its headings are:\n# Alpha\n## Queue",
        ),
        (
            "read_page",
            json!({"page": "a", "start_line": 99}),
            "ends before line 99",
        ),
        (
            "read_page",
            json!({"page": "a", "offset": u64::MAX}),
            "nothing of the page",
        ),
        (
            "neighbors",
            json!({"page": "a", "direction": "up"}),
            "unknown variant `up`",
        ),
        ("backlinks", json!({"page": "nobody"}), "no page \"nobody\""),
        ("status", json!({"verbose": true}), "unknown field"),
    ] {
        let why = client.bad(tool, &arguments);
        let why_plain = why.replace('\\', "");
        assert!(
            why_plain.contains(says) || says == "limit",
            "{tool} {arguments}: {why}"
        );
    }
    // More than there may be is as much as there may be.
    let found = client.good("search", &json!({"query": "Redis", "limit": 60_000}));
    assert_eq!(found["pages"].as_array().unwrap().len(), 1);
}

#[test]
fn no_path_leads_out_of_the_wiki() {
    let wiki = Wiki::small();
    let root = wiki.root();
    let outside = root.parent().unwrap().join("secret.md");
    std::fs::write(&outside, "secret words\n").unwrap();
    std::fs::write(root.join("outside.md"), "secret words\n").unwrap();
    wiki.write("wiki-output/.hidden.md", "secret words\n");
    wiki.write("wiki-output/.obsidian/x.md", "secret words\n");
    wiki.write("wiki-output/data.txt", "secret words\n");
    wiki.write("other/x.md", "secret words\n");
    let link = |to: &std::path::Path, at: &str| {
        std::os::unix::fs::symlink(to, root.join("wiki-output").join(at)).unwrap();
    };
    link(&outside, "link.md");
    link(root.parent().unwrap(), "up");
    wiki.drain();
    let mut client = Client::start(&wiki);
    let absolute = outside.to_str().unwrap();
    for page in [
        absolute,
        "/etc/passwd",
        "../secret.md",
        "../../secret.md",
        "wiki-output/../outside.md",
        "wiki-output/../../secret.md",
        "sub/../../outside.md",
        "outside.md",
        "outside",
        "other/x.md",
        "wiki-output/link.md",
        "link",
        "wiki-output/up/secret.md",
        "up/secret",
        "wiki-output/.hidden.md",
        ".hidden.md",
        ".obsidian/x.md",
        "data.txt",
        "wiki-output/data.txt",
        "wiki-output",
        "wiki-output/sub",
        ".git/config",
        "wiki-output/a.md\0",
        "wiki-output/a.md/",
        "file:///etc/passwd",
        "..%2f..%2fsecret.md",
        "..\\secret.md",
    ] {
        let answer = client.call("read_page", &json!({"page": page}));
        assert_eq!(answer["result"]["isError"], true, "{page:?}: {answer}");
        assert!(!answer.to_string().contains("secret words"), "{page:?}");
    }
    for prefix in ["../", "/", "outside", "wiki-output/../"] {
        let found = client.good(
            "search",
            &json!({"query": "secret words", "path_prefix": prefix}),
        );
        assert_eq!(found["pages"], json!([]), "{prefix}");
        client.good("recent_changes", &json!({"path_prefix": prefix}));
    }
    assert_eq!(client.close(), Some(0));
}

/// The longest line that an answer may be: text and structure, each with a page's part of 128 KiB at most, escaped.
const LINE: usize = 1 << 20;

#[test]
fn the_largest_answers_are_bounded_and_a_cut_page_can_be_read_to_its_end() {
    let wiki = Wiki::small();
    let long = format!(
        "# {}\n\n{}",
        "T".repeat(5_000),
        "한 줄의 글, see [[b]].\n".repeat(20_000)
    );
    wiki.write("wiki-output/long.md", &long);
    let one_line = format!("# One\n\n{}\n", "\u{1}".repeat(300_000));
    wiki.write("wiki-output/one-line.md", &one_line);
    for page in 0..700 {
        wiki.write(
            &format!("wiki-output/many/{page}.md"),
            format!(
                "# {} {page}\n\n[[b|{}]] common word\n",
                "title ".repeat(300),
                "label ".repeat(300)
            ),
        );
    }
    wiki.drain();
    let mut client = Client::start(&wiki);
    for (page, whole) in [("long", &long), ("one-line", &one_line)] {
        let (mut offset, mut read) = (0, String::new());
        loop {
            let arguments = json!({"page": page, "max_bytes": 200_000, "offset": offset});
            let part = client.good("read_page", &arguments);
            assert!(part.to_string().len() < LINE);
            let text = part["text"].as_str().unwrap();
            assert!(text.len() <= 128 << 10, "{}", text.len());
            read.push_str(text);
            assert_eq!(part["cut"], part["next_offset"].is_u64());
            match part["next_offset"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert!(read == *whole, "{page} is read whole");
    }
    let default = client.good("read_page", &json!({"page": "long"}));
    assert!(default["text"].as_str().unwrap().len() <= 24 << 10);
    assert_eq!(default["outline"].as_array().unwrap().len(), 1);
    for (tool, arguments, list, most) in [
        (
            "search",
            json!({"query": "common word", "limit": 50}),
            "pages",
            50,
        ),
        (
            "backlinks",
            json!({"page": "b", "limit": 500}),
            "links",
            500,
        ),
        (
            "neighbors",
            json!({"page": "b", "limit": 500, "depth": 5}),
            "neighbors",
            500,
        ),
        ("recent_changes", json!({"limit": 100}), "commits", 1),
    ] {
        let id = client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let answer = client.next();
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(id), &json!(false))
        );
        let structure = &answer["result"]["structuredContent"];
        assert_eq!(structure[list].as_array().unwrap().len(), most, "{tool}");
        assert!(
            answer.to_string().len() < LINE,
            "{tool}: {}",
            answer.to_string().len()
        );
    }
    let changes = client.good("recent_changes", &json!({}));
    let commit = &changes["commits"][0];
    assert_eq!(
        (
            commit["pages"].as_array().unwrap().len(),
            &commit["total_pages"]
        ),
        (30, &json!(705))
    );
}

#[test]
fn too_many_calls_at_once_are_turned_away_and_all_are_answered() {
    let (_wiki, mut client) = small();
    let call = |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments});
    let many = 300;
    for _ in 0..many {
        client.request("tools/call", &call("search", json!({"query": "Redis"})));
    }
    let (mut good, mut away) = (0, 0);
    for _ in 0..many {
        let answer = client.next();
        if answer["result"]["isError"] == false {
            good += 1;
        } else {
            assert!(
                answer.to_string().contains("calls are under way already"),
                "{answer}"
            );
            away += 1;
        }
    }
    assert!(good >= 4, "{good} answered, {away} turned away");
    client.good("search", &json!({"query": "Redis"}));
}

/// Holds the lock of the embedded vectors, as a neighbour at work does.
fn hold_the_vectors(wiki: &Wiki) -> std::fs::File {
    let lock = std::fs::File::options()
        .write(true)
        .open(wiki.root().join(".wiki-sync/vectors.lock"))
        .unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_call_that_waits_keeps_nobody_else_waiting_and_lets_go_when_it_is_its_turn() {
    let (wiki, mut client) = small();
    let held = hold_the_vectors(&wiki);
    let search = json!({"name": "search", "arguments": {"query": "Redis"}});
    let waiting: Vec<u64> = (0..4)
        .map(|_| client.request("tools/call", &search))
        .collect();
    // As many wait as may run; status goes before them all.
    let status = client.request("tools/call", &json!({"name": "status", "arguments": {}}));
    let answer = client.next();
    assert_eq!(answer["id"], status, "{answer}");
    drop(held);
    let mut answered: Vec<u64> = (0..4)
        .map(|_| client.next()["id"].as_u64().unwrap())
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, waiting);
    let free = hold_the_vectors(&wiki);
    drop(free);
}

#[test]
fn a_cancelled_call_is_not_answered_and_does_no_harm() {
    let (wiki, mut client) = small();
    let held = hold_the_vectors(&wiki);
    let id = client.request(
        "tools/call",
        &json!({"name": "search", "arguments": {"query": "Redis"}}),
    );
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let ping = client.request("ping", &json!({}));
    assert_eq!(client.next()["id"], ping);
    drop(held);
    client.good("search", &json!({"query": "Redis"}));
    assert_eq!(client.close(), Some(0));
}

#[test]
fn a_signal_ends_it_also_while_a_call_waits_and_stdout_holds_messages_alone() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let (wiki, mut client) = small();
        let _held = hold_the_vectors(&wiki);
        client.request(
            "tools/call",
            &json!({"name": "search", "arguments": {"query": "Redis"}}),
        );
        let (code, said) = client.signal(signal);
        assert_eq!(code, Some(0), "{signal}");
        for line in said {
            serde_json::from_str::<Value>(&line).unwrap();
        }
    }
}

#[test]
fn stdin_that_ends_ends_it_before_the_handshake_and_in_the_middle_of_a_word() {
    let wiki = Wiki::small();
    assert_eq!(Client::silent(&wiki).close(), Some(0));
    let mut client = Client::start(&wiki);
    client.send_line(r#"{"jsonrpc":"2.0","id":9,"meth"#);
    assert_eq!(client.close(), Some(0));
}

#[test]
fn where_there_is_no_wiki_it_says_so_at_once() {
    let wiki = Wiki::bare_folder();
    let ran = wiki.ws(&["mcp"]).code(1);
    assert!(ran.out.is_empty(), "{}", ran.out);
    assert!(ran.err.contains("no wiki in"), "{}", ran.err);
}

/// What the process has open, and how much memory it holds, in KiB.
fn held_by(client: &Client) -> (usize, u64) {
    let of = format!("/proc/{}", client.server.id());
    let open = std::fs::read_dir(format!("{of}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("{of}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = memory
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    (open, memory)
}

#[test]
#[cfg(target_os = "linux")]
fn after_many_calls_nothing_more_is_open_than_after_a_few() {
    let (_wiki, mut client) = small();
    let round = |client: &mut Client| {
        client.good("search", &json!({"query": "Redis"}));
        client.good("read_page", &json!({"page": "Alpha"}));
        client.good("backlinks", &json!({"page": "b"}));
        client.good("neighbors", &json!({"page": "b"}));
        client.good("recent_changes", &json!({}));
        client.good("status", &json!({}));
        client.bad("read_page", &json!({"page": "nobody"}));
    };
    for _ in 0..3 {
        round(&mut client);
    }
    let (open, _) = held_by(&client);
    for _ in 0..15 {
        round(&mut client);
    }
    until(LONG, "as few open files", || held_by(&client).0 <= open);
}

#[test]
#[ignore = "a thousand calls and more: for scripts/test --long"]
fn a_server_that_is_asked_for_days_holds_no_more_memory() {
    let (_wiki, mut client) = small();
    let round = |client: &mut Client| {
        for (tool, arguments) in [
            ("search", json!({"query": "Redis"})),
            ("read_page", json!({"page": "Alpha"})),
            ("neighbors", json!({"page": "b"})),
            ("status", json!({})),
        ] {
            client.good(tool, &arguments);
        }
    };
    for _ in 0..100 {
        round(&mut client);
    }
    let (open, memory) = held_by(&client);
    for _ in 0..400 {
        round(&mut client);
    }
    let (still_open, after) = held_by(&client);
    assert!(
        still_open <= open + 2,
        "{open} open files, then {still_open}"
    );
    assert!(after < memory + 32 * 1024, "{memory} KiB, then {after}");
}
