//! Questions to the graph, by the built binary.

use std::process::Command;

use serde_json::json;

use crate::python::python;
use crate::wiki::Wiki;

/// Reads every form that `networkx` reads, and prints nodes, edges and components of each.
const READER: &str = r#"
import json, sys, networkx as nx
read = [nx.node_link_graph(json.load(open(sys.argv[1]))), nx.read_graphml(sys.argv[2])]
assert all(g.is_directed() for g in read)
assert set(read[0].nodes) == set(read[1].nodes)
assert all(g.nodes["wiki-output/a.md"]["title"] == "Alpha & <Omega>" for g in read)
print(json.dumps([[len(g), g.number_of_edges(), nx.number_weakly_connected_components(g)] for g in read]))
"#;

fn wiki() -> Wiki {
    let wiki = Wiki::with(&[
        (
            "wiki-output/a.md",
            "---\ntitle: Alpha & <Omega>\ntags: [t]\n---\n[[b]] [[b|twice]] [[없는 페이지]]\n",
        ),
        ("wiki-output/b.md", "# Beta\n\n[on](sub/c.md)\n"),
        ("wiki-output/sub/c.md", "# 감마\n"),
        ("wiki-output/alone.md", "# Alone\n"),
    ]);
    wiki.drain();
    wiki
}

#[test]
fn what_is_around_a_page_and_the_way_between_two_are_told() {
    let wiki = wiki();
    let near = wiki.json(0, &["graph", "neighbors", "감마", "--depth", "2"]);
    assert_eq!(
        near,
        json!([
            {"path": "wiki-output/b.md", "title": "Beta", "kind": "page", "label": null, "anchor": null,
             "distance": 1, "through": "wiki-output/sub/c.md"},
            {"path": "wiki-output/a.md", "title": "Alpha & <Omega>", "kind": "page", "label": null, "anchor": null,
             "distance": 2, "through": "wiki-output/b.md"},
        ])
    );
    let way = wiki.json(0, &["graph", "path", "a", "감마"]);
    let steps: Vec<_> = way
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["path"])
        .collect();
    assert_eq!(
        steps,
        [
            "wiki-output/a.md",
            "wiki-output/b.md",
            "wiki-output/sub/c.md"
        ]
    );
    assert_eq!(way[1]["kind"], "markdown");
    assert_eq!(wiki.json(0, &["graph", "path", "감마", "a"]), json!([]));
    assert_eq!(
        wiki.json(0, &["graph", "hubs", "--limit", "1"])[0]["links_in"],
        1
    );
    let parts = wiki.json(0, &["graph", "components"]);
    assert_eq!(
        (&parts[0]["size"], &parts[3]["size"]),
        (&json!(3), &json!(1))
    );
    let none = wiki.ws(&["graph", "path", "a", "nowhere"]).code(1).err;
    assert!(none.contains("no page \"nowhere\" in the graph"), "{none}");
}

#[test]
fn networkx_reads_the_export_with_the_same_nodes_and_edges() {
    let wiki = wiki();
    let files = [
        ("json", "g.json"),
        ("graphml", "g.graphml"),
        ("dot", "g.dot"),
    ];
    for (format, file) in files {
        wiki.ws(&["graph", "export", "--format", format, "--output", file])
            .code(0);
    }
    let graph: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(wiki.root().join("g.json")).unwrap())
            .unwrap();
    let counts = ["nodes", "edges"].map(|key| graph[key].as_array().unwrap().len());
    // Four pages, a tag and a page that is not there; five edges.
    assert_eq!(counts, [6, 5]);
    let printed = wiki.ws(&["graph", "export"]).code(0).out;
    assert_eq!(
        printed,
        std::fs::read_to_string(wiki.root().join("g.json")).unwrap()
    );
    let Some(python) = python("networkx reads the exported graph") else {
        return;
    };
    let read = Command::new(python)
        .args(["-c", READER, "g.json", "g.graphml"])
        .current_dir(wiki.root())
        .output()
        .unwrap();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&read.stdout).trim(),
        "[[6, 5, 2], [6, 5, 2]]"
    );
}

#[test]
fn a_name_that_is_no_page_tells_which_may_have_been_meant_and_an_address_is_taken_as_links_take_it()
{
    let wiki = Wiki::with(&[
        (
            "wiki-output/guides/content.md",
            "# 콘텐츠 컬렉션\n\n[그림](/ko/guides/images/)\n",
        ),
        (
            "wiki-output/guides/images.md",
            "# 이미지\n\n[[deploy/index]]\n",
        ),
        ("wiki-output/guides/deploy/index.md", "# 배포\n"),
    ]);
    wiki.drain();
    let unknown = wiki.ws(&["graph", "backlinks", "콘텐츠"]).code(1).err;
    let hint = "hint: did you mean \"콘텐츠 컬렉션\" (wiki-output/guides/content.md)?";
    assert!(unknown.contains(hint), "{unknown}");
    let far = wiki
        .ws(&["graph", "neighbors", "guides/imagse"])
        .code(1)
        .err;
    assert!(
        far.contains("hint: did you mean wiki-output/guides/images.md?"),
        "{far}"
    );
    for address in ["/ko/guides/images/", "guides/images/", "guides/images#top"] {
        let links = wiki.json(0, &["graph", "backlinks", address]);
        assert_eq!(
            links[0]["path"], "wiki-output/guides/content.md",
            "{address}"
        );
    }
    for address in ["guides/deploy", "guides/deploy/"] {
        let links = wiki.json(0, &["graph", "backlinks", address]);
        assert_eq!(
            links[0]["path"], "wiki-output/guides/images.md",
            "{address}"
        );
    }
    let near = wiki.ws(&["graph", "neighbors", "배포"]).code(0).out;
    assert_eq!(near, "wiki-output/guides/images.md  이미지\n1 neighbor\n");
    let two = wiki
        .ws(&["graph", "neighbors", "배포", "--depth", "2"])
        .code(0)
        .out;
    let lines: Vec<_> = two.lines().collect();
    assert_eq!(lines[0], "wiki-output/guides/images.md  이미지  1 step");
    assert_eq!(
        lines[1],
        "wiki-output/guides/content.md  콘텐츠 컬렉션  2 steps, by wiki-output/guides/images.md"
    );
    let hubs = wiki.json(0, &["graph", "hubs", "-n", "1"]);
    assert_eq!(hubs.as_array().unwrap().len(), 1);
}
