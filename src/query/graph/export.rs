//! The whole graph for other programs: node-link JSON of `networkx`, `GraphML`, DOT.
//!
//! Nodes stand in the order of their ids, edges in that of their ends; the same graph gives the same bytes.

use std::borrow::Cow;
use std::io::{self, Write};

use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef as _;
use serde_json::json;

use super::net::{Edge, Net, Node};

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Node-link JSON: `networkx.node_link_graph(json.load(file))`. The edges stand in it twice, as `edges`
    /// for `networkx` from 3.6 on and as `links` for those before, which each look for one name only.
    Json,
    /// `GraphML`, for `networkx.read_graphml(file)`, Gephi and others.
    Graphml,
    /// DOT, for Graphviz.
    Dot,
}

/// Writes the graph: `kind` and `title` of each node, `kind`, `label` and `anchor` of each edge.
///
/// # Errors
/// Those of `out`.
pub fn write(net: &Net, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Json => write_json(net, out),
        Format::Graphml => write_graphml(net, out),
        Format::Dot => write_dot(net, out),
    }
}

/// Returns the edges with the ids of their ends and their number among those of the same ends.
fn edges(net: &Net) -> impl Iterator<Item = (&str, &str, usize, &Edge)> {
    let graph = &net.graph;
    let mut last = None;
    let mut number = 0;
    graph.edge_references().map(move |edge| {
        let ends = (edge.source(), edge.target());
        number = if last.replace(ends) == Some(ends) {
            number + 1
        } else {
            0
        };
        let id = |node: NodeIndex| graph[node].id.as_str();
        (id(ends.0), id(ends.1), number, edge.weight())
    })
}

fn nodes(net: &Net) -> impl Iterator<Item = &Node> {
    net.graph.node_weights()
}

fn write_json(net: &Net, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        r#"{{"directed":true,"multigraph":true,"graph":{{"name":"wiki-sync"}},"nodes":["#
    )?;
    for (number, Node { id, kind, title }) in nodes(net).enumerate() {
        separate(number, out)?;
        serde_json::to_writer(&mut *out, &json!({"id": id, "kind": kind, "title": title}))?;
    }
    for name in ["edges", "links"] {
        write!(out, "\n],\"{name}\":[")?;
        for (number, (source, target, key, edge)) in edges(net).enumerate() {
            separate(number, out)?;
            let edge = json!({
                "source": source, "target": target, "key": key,
                "kind": edge.kind, "label": edge.label, "anchor": edge.anchor,
            });
            serde_json::to_writer(&mut *out, &edge)?;
        }
    }
    out.write_all(b"\n]}\n")
}

fn separate(number: usize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(if number == 0 { b"\n" } else { b",\n" })
}

fn write_graphml(net: &Net, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        br#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="title" for="node" attr.name="title" attr.type="string"/>
<key id="kind" for="all" attr.name="kind" attr.type="string"/>
<key id="label" for="edge" attr.name="label" attr.type="string"/>
<key id="anchor" for="edge" attr.name="anchor" attr.type="string"/>
<graph id="wiki-sync" edgedefault="directed">
"#,
    )?;
    for Node { id, kind, title } in nodes(net) {
        write!(out, r#"<node id="{}">"#, xml(id))?;
        data("kind", kind, out)?;
        data("title", title, out)?;
        out.write_all(b"</node>\n")?;
    }
    for (source, target, key, edge) in edges(net) {
        // `networkx` takes the id of an edge for its key.
        write!(
            out,
            r#"<edge id="{key}" source="{}" target="{}">"#,
            xml(source),
            xml(target)
        )?;
        data("kind", &edge.kind, out)?;
        for (name, value) in [("label", &edge.label), ("anchor", &edge.anchor)] {
            if let Some(value) = value {
                data(name, value, out)?;
            }
        }
        out.write_all(b"</edge>\n")?;
    }
    out.write_all(b"</graph>\n</graphml>\n")
}

fn data(key: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, r#"<data key="{key}">{}</data>"#, xml(value))
}

/// Returns text for XML, in an attribute too. What XML 1.0 cannot hold at all (control characters) becomes U+FFFD.
fn xml(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '<' | '>' | '&' | '"' | '\u{fffe}' | '\u{ffff}') || c < ' ';
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            // By number, or an attribute's reader makes spaces of them.
            '\t' => safe.push_str("&#9;"),
            '\n' => safe.push_str("&#10;"),
            '\r' => safe.push_str("&#13;"),
            c if special(c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn write_dot(net: &Net, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"digraph \"wiki-sync\" {\n")?;
    for Node { id, kind, title } in nodes(net) {
        let (id, kind, title) = (dot(id), dot(kind), dot(title));
        writeln!(out, "  {id} [label={title}, kind={kind}];")?;
    }
    for (source, target, _, edge) in edges(net) {
        write!(
            out,
            "  {} -> {} [kind={}",
            dot(source),
            dot(target),
            dot(&edge.kind)
        )?;
        if let Some(label) = &edge.label {
            write!(out, ", label={}", dot(label))?;
        }
        if let Some(anchor) = &edge.anchor {
            write!(out, ", anchor={}", dot(anchor))?;
        }
        out.write_all(b"];\n")?;
    }
    out.write_all(b"}\n")
}

/// Returns a quoted text of DOT. Backslashes are doubled, as `\n`, `\N` and others would be replaced in a label.
fn dot(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    fn exported(format: Format) -> String {
        let (_dir, mut db) = graph(&[
            (
                "w/a & <b>.md",
                "---\ntitle: 'say \"한글\" \\N'\ntags: [t]\n---\n[[b|x]] [[b|y]] [[new#part]]",
            ),
            ("w/b.md", ""),
        ]);
        let net = Net::load(&mut db).expect("loaded");
        let mut out = Vec::new();
        write(&net, format, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn node_link_json_has_the_edges_under_both_names() {
        let graph: serde_json::Value = serde_json::from_str(&exported(Format::Json)).expect("JSON");
        assert_eq!(graph["edges"], graph["links"]);
        assert_eq!(graph["nodes"].as_array().expect("nodes").len(), 4);
        let ends: Vec<_> = graph["edges"]
            .as_array()
            .expect("edges")
            .iter()
            .map(|edge| {
                (
                    edge["target"].as_str().expect("an id"),
                    edge["key"].as_u64(),
                )
            })
            .collect();
        assert_eq!(
            ends,
            [
                ("placeholder:new", Some(0)),
                ("tag:t", Some(0)),
                ("w/b.md", Some(0)),
                ("w/b.md", Some(1))
            ]
        );
    }

    #[test]
    fn markup_in_names_stays_text() {
        let graphml = exported(Format::Graphml);
        assert!(
            graphml.contains(r#"<node id="w/a &amp; &lt;b&gt;.md">"#),
            "{graphml}"
        );
        assert!(graphml.contains("say &quot;한글&quot; \\N"), "{graphml}");
        let dot = exported(Format::Dot);
        assert!(dot.contains(r#"label="say \"한글\" \\N""#), "{dot}");
        assert_eq!(xml("a\u{1}\tb"), "a\u{fffd}&#9;b");
    }
}
