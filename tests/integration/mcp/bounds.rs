//! Bad words, bad paths, too much, and the end.

use serde_json::{Value, json};

use super::client::Client;
use super::small;
use crate::redis::until;
use crate::wiki::Wiki;

use super::LONG;

#[test]
fn every_line_that_is_no_message_has_the_error_that_json_rpc_wants_and_the_server_lives() {
    let wiki = Wiki::small();
    wiki.drain();
    let mut client = Client::silent(&wiki);
    let answers = |client: &mut Client, line: &[u8], id: Value, code: i32| {
        client.send_bytes(line);
        let answer = client.next();
        let shown = String::from_utf8_lossy(&line[..line.len().min(100)]).into_owned();
        assert!(answer.as_object().unwrap().contains_key("id"), "{answer}");
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{shown}: {answer}"
        );
    };
    // Before the handshake too.
    for line in [
        "",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
    ] {
        client.send_line(line);
    }
    answers(&mut client, b"not json {", Value::Null, -32700);
    answers(
        &mut client,
        br#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#,
        json!(7),
        -32602,
    );
    let hello = client.ask(
        "initialize",
        &json!({"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert!(hello["result"]["protocolVersion"].is_string(), "{hello}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // Nobody waits for an answer to these.
    client.send_line("\r");
    client.send_line(r#"{"jsonrpc":"2.0","method":"notifications/no/such"}"#);
    client.send_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#);
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{}1{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    // Longer than any line that is read, by far.
    let long = vec![b'x'; 100 << 20];
    for (line, id, code) in [
        (&b"\0\x01"[..], Value::Null, -32700),
        (b"\xff\xfe", Value::Null, -32700),
        (br#"{"jsonrpc":"2.0","id":1"#, Value::Null, -32700),
        (nested.as_bytes(), Value::Null, -32700),
        (b"[]", Value::Null, -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, -32600),
        (&long, Value::Null, -32600),
        (br#"{"jsonrpc":"1.0","id":"x","method":5}"#, json!("x"), -32600),
        (br#"{"jsonrpc":"2.0","id":"y","method":"tools/call"}"#, json!("y"), -32602),
        (
            br#"{"jsonrpc":"2.0","id":"z","method":"tools/call","params":{"name":"search","arguments":[1]}}"#,
            json!("z"),
            -32602,
        ),
        (br#"{"jsonrpc":"2.0","id":"a","method":"no/such"}"#, json!("a"), -32601),
    ] {
        answers(&mut client, line, id, code);
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
        (
            "search",
            json!({"query": 5}),
            "query: invalid type: integer `5`, expected a string",
        ),
        (
            "search",
            json!({"query": "a", "limit": "5"}),
            "limit: invalid type: string \"5\", expected a whole number, 1 or more, 50 at most",
        ),
        (
            "neighbors",
            json!({"page": "a", "depth": 1.5, "limit": 3}),
            "depth: invalid value: floating point `1.5`",
        ),
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
            json!({"page": "a", "offset": 5_000}),
            "the page ends before offset 5000: it has ",
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
        assert!(why_plain.contains(says), "{tool} {arguments}: {why}");
    }
}

#[test]
fn every_number_has_bounds_in_its_schema_and_beyond_them_counts_as_the_nearest() {
    let (_wiki, mut client) = small();
    let listed = client.ask("tools/list", &json!({}));
    let mut numbers = Vec::new();
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object();
        for (number, schema) in properties.expect("properties, if none") {
            if schema["type"] != "integer" {
                continue;
            }
            numbers.push(format!("{name} {number}"));
            let least = schema["minimum"].as_i64().expect("a minimum");
            let most = schema["maximum"].as_i64();
            let call = |client: &mut Client, value: Value| {
                let mut arguments = match name {
                    "search" => json!({"query": "Redis"}),
                    "recent_changes" => json!({}),
                    _ => json!({"page": "a"}),
                };
                arguments[number] = value;
                let answer = client.good(name, &arguments);
                answer["adjusted"].clone()
            };
            for (asked, taken) in [
                (Some(json!(least - 1)), Some(least)),
                (Some(json!(-1_000_000_000_000_i64)), Some(least)),
                (most.map(|most| json!(most + 1)), most),
                (most.map(|_| json!(u64::MAX)), most),
                (most.map(|_| json!(1e300)), most),
            ] {
                let (Some(asked), Some(taken)) = (asked, taken) else {
                    continue;
                };
                let told = call(&mut client, asked.clone()).to_string();
                let used = format!("{taken} was used for ");
                assert!(
                    told.contains(&used) && told.contains(number.as_str()),
                    "{name} {number} {asked}: {told}"
                );
            }
            for within in [
                Some(json!(least)),
                most.map(|most| json!(most)),
                Some(Value::Null),
            ] {
                let told = within.map_or(Value::Null, |within| call(&mut client, within));
                assert_eq!(told, Value::Null, "{name} {number}");
            }
        }
    }
    assert_eq!(
        numbers,
        [
            "search limit",
            "read_page start_line",
            "read_page end_line",
            "read_page offset",
            "read_page max_bytes",
            "backlinks limit",
            "neighbors depth",
            "neighbors limit",
            "recent_changes limit"
        ]
    );
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
/// The longest that a list may be: the same twice, as it may stand in a line, and what is said beside.
const LIST: usize = 3 * (128 << 10);

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
            // As much as was asked for, also of a line that is longer.
            let is_full = text.len() > (128 << 10) / 8 * 7;
            assert!(is_full || part["cut"] == false, "{}", text.len());
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
    for (tool, arguments, list, is_cut) in [
        (
            "search",
            json!({"query": "common word", "limit": 50}),
            "pages",
            false,
        ),
        (
            "backlinks",
            json!({"page": "b", "limit": 500}),
            "links",
            true,
        ),
        (
            "neighbors",
            json!({"page": "b", "limit": 500, "depth": 5}),
            "neighbors",
            true,
        ),
        ("recent_changes", json!({"limit": 100}), "commits", false),
    ] {
        let id = client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let answer = client.next();
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(id), &json!(false))
        );
        let structure = &answer["result"]["structuredContent"];
        assert!(!structure[list].as_array().unwrap().is_empty(), "{tool}");
        assert_eq!(structure["cut"], is_cut, "{tool}");
        assert!(
            answer.to_string().len() < LIST,
            "{tool}: {}",
            answer.to_string().len()
        );
    }
    let links = client.good("backlinks", &json!({"page": "b", "limit": 500}));
    assert_eq!(links["total"], 701 + 20_000);
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
                answer
                    .to_string()
                    .contains("searches are under way already"),
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

const SEARCH: &str = r#"{"name": "search", "arguments": {"query": "Redis"}}"#;

/// Searches that run or wait at a time.
const SEARCHES: usize = 16;

fn searches(client: &mut Client, many: usize) -> Vec<u64> {
    let search = serde_json::from_str(SEARCH).unwrap();
    let ask = |_| client.request("tools/call", &search);
    (0..many).map(ask).collect()
}

#[test]
fn no_other_call_waits_behind_searches_and_of_those_only_so_many_wait() {
    let (wiki, mut client) = small();
    let held = hold_the_vectors(&wiki);
    searches(&mut client, SEARCHES + 3);
    for _ in 0..3 {
        let answer = client.next();
        let why = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(why.contains("16 searches are under way already"), "{why}");
    }
    for (tool, arguments) in [
        ("read_page", json!({"page": "a"})),
        ("backlinks", json!({"page": "a"})),
        ("neighbors", json!({"page": "a"})),
        ("recent_changes", json!({})),
        ("status", json!({})),
    ] {
        let id = client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let answer = client.next();
        assert_eq!(answer["id"], id, "{tool} is answered before all searches");
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    drop(held);
    for _ in 0..SEARCHES {
        let answer = client.next();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    let free = hold_the_vectors(&wiki);
    drop(free);
}

#[test]
fn cancelled_searches_are_not_answered_and_leave_no_wait_behind() {
    let (wiki, mut client) = small();
    let held = hold_the_vectors(&wiki);
    let wish = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(wiki.root().join(".wiki-sync/vectors.wish"))
        .unwrap();
    let is_waited_for = || wish.try_lock().map(|()| wish.unlock().unwrap()).is_err();
    let asked = searches(&mut client, SEARCHES);
    until(LONG, "a search that waits", is_waited_for);
    for id in asked {
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    // Every cancellation was heard before this.
    let ping = client.request("ping", &json!({}));
    assert_eq!(client.next()["id"], ping);
    // Sooner than they would give up by themselves.
    until(LONG / 3, "none that waits", || !is_waited_for());
    // There is room for others.
    let others = searches(&mut client, SEARCHES);
    drop(held);
    let mut answered: Vec<u64> = Vec::new();
    for _ in &others {
        let answer = client.next();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, others);
    assert_eq!(client.close(), Some(0));
}

#[test]
fn a_client_that_ends_its_input_without_a_line_end_still_has_its_answers() {
    let (_wiki, mut client) = small();
    let search: Value = serde_json::from_str(SEARCH).unwrap();
    let call = json!({"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": search});
    client.send_part(call.to_string().as_bytes());
    client.end();
    let answer = client.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!("last"), &json!(false))
    );
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
    client.send_part(br#"{"jsonrpc":"2.0","id":9,"meth"#);
    client.end();
    assert_eq!(client.next()["error"]["code"], -32700);
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
