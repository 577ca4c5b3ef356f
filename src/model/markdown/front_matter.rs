//! The metadata block at a page's start.

use serde_json::Value;

use super::yaml::{self, Mapping, Yaml};
use super::{FrontMatter, Warning};

/// Largest metadata block, in bytes, that is parsed as YAML; beyond it only the entries in the first part
/// are read, one by one. Real ones have some hundred bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Line of the file in which the YAML begins.
const FIRST_LINE: usize = 2;

const KNOWN_KEYS: [&str; 11] = [
    "title",
    "aliases",
    "alias",
    "tags",
    "tag",
    "repo",
    "commit",
    "commit_sha",
    "lang",
    "symbol",
    "symbol_path",
];

/// Reads the metadata block of a text (whose lines end in `\n` or `\r\n`), and returns it with the offset
/// at which the body begins. A block begins with `---` on the first line, after an optional byte order mark,
/// and ends with a line `---` or `...`.
pub(super) fn read(text: &str, warnings: &mut Vec<Warning>) -> (FrontMatter, usize) {
    let start = if text.starts_with('\u{FEFF}') { 3 } else { 0 };
    let rest = &text[start..];
    let Some(first) = rest.split_inclusive('\n').next() else {
        return (FrontMatter::default(), start);
    };
    if first.trim_end() != "---" {
        return (FrontMatter::default(), start);
    }
    let mut is_rule = |why: &str| {
        warnings.push(Warning {
            line: 1,
            message: format!("the `---` begins no metadata ({why}), read as a rule of the text"),
        });
        (FrontMatter::default(), start)
    };
    let Some((yaml, end)) = closed(rest, first.len()) else {
        return is_rule("no line `---` ends it");
    };
    let mapping = if yaml.len() > MAX_BYTES {
        if !looks_like_mapping(yaml) {
            return is_rule("what follows are no `key: value` lines");
        }
        let mut cut = MAX_BYTES;
        while !yaml.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut mapping = yaml::recover(&yaml[..cut]);
        let message = format!("metadata is over {MAX_BYTES} bytes, only its beginning is read");
        mapping.warnings.insert(0, (1, message));
        mapping
    } else {
        match yaml::read(yaml) {
            Yaml::Mapping(mapping) => mapping,
            Yaml::Broken(line, message) if looks_like_mapping(yaml) => {
                let mut mapping = yaml::recover(yaml);
                if mapping.warnings.is_empty() {
                    mapping.warnings.push((line, message));
                }
                mapping
            }
            Yaml::Broken(..) | Yaml::Other => {
                return is_rule("what follows are no `key: value` lines");
            }
        }
    };
    warnings.extend(mapping.warnings.iter().map(|(line, message)| Warning {
        line: line + FIRST_LINE - 1,
        message: format!("metadata: {message}"),
    }));
    (known(mapping), start + end)
}

/// Finds the line that ends the block; returns what stands before it, and the offset after it.
fn closed(text: &str, start: usize) -> Option<(&str, usize)> {
    let mut offset = start;
    for line in text[start..].split_inclusive('\n') {
        let next = offset + line.len();
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&text[start..offset], next));
        }
        offset = next;
    }
    None
}

/// Says whether a text that is not valid YAML is meant as metadata: its first line that says anything is
/// `key:`, or a key that we know stands at the start of any line.
fn looks_like_mapping(yaml: &str) -> bool {
    let mut lines = yaml
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(yaml::key_of)
        .peekable();
    lines.peek().is_some_and(Option::is_some)
        || lines.flatten().any(|key| {
            let key = key.to_lowercase();
            KNOWN_KEYS.contains(&&*key)
        })
}

/// Picks the keys that we know, whatever their case.
fn known(mapping: Mapping) -> FrontMatter {
    let texts = |name: &str| -> Vec<String> {
        let same = |key: &&String| key.trim().eq_ignore_ascii_case(name);
        let exact = mapping.values.keys().find(|key| *key == name);
        let Some(key) = exact.or_else(|| mapping.values.keys().find(same)) else {
            return Vec::new();
        };
        let written = mapping.written.get(key).cloned();
        let mut texts = written.unwrap_or_else(|| {
            let mut texts = Vec::new();
            flatten(&mapping.values[key], &mut texts);
            texts
        });
        for text in &mut texts {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        texts.retain(|text| !text.is_empty());
        texts
    };
    let one = |names: &[&str]| {
        let mut found = names
            .iter()
            .filter_map(|name| texts(name).into_iter().next());
        found.next()
    };
    let many = |names: [&str; 2]| names.map(texts).into_iter().flatten();
    FrontMatter {
        title: one(&["title"]),
        aliases: many(["aliases", "alias"]).collect(),
        tags: ["tags", "tag"]
            .iter()
            .flat_map(|name| {
                let single = mapping
                    .values
                    .iter()
                    .any(|(key, value)| key.trim().eq_ignore_ascii_case(name) && value.is_string());
                tags(texts(name), single)
            })
            .collect(),
        repo: one(&["repo"]),
        commit: one(&["commit", "commit_sha"]),
        lang: one(&["lang"]),
        symbol: one(&["symbol", "symbol_path"]),
        values: mapping.values,
    }
}

/// Returns tags without `#`. A single text is a list with commas, or else with spaces, between its items.
fn tags(texts: Vec<String>, single: bool) -> Vec<String> {
    let items: Vec<String> = if single {
        let text = texts.concat();
        if text.contains(',') {
            text.split(',').map(str::to_owned).collect()
        } else {
            text.split_whitespace().map(str::to_owned).collect()
        }
    } else {
        texts
    };
    items
        .iter()
        .map(|tag| tag.trim().trim_start_matches('#').trim())
        .filter(|tag| !tag.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Collects the scalars of a value as text. Lists in lists are walked into: `[[x]]` without quotes is one.
fn flatten(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Null | Value::Object(_) => {}
        Value::Bool(value) => texts.push(value.to_string()),
        Value::Number(value) => texts.push(value.to_string()),
        Value::String(value) => texts.push(value.clone()),
        Value::Array(items) => {
            for item in items {
                flatten(item, texts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn front(text: &str) -> (FrontMatter, &str, Vec<Warning>) {
        let mut warnings = Vec::new();
        let (front_matter, body) = read(text, &mut warnings);
        (front_matter, &text[body..], warnings)
    }

    #[test]
    fn titles_are_texts_as_they_are_written() {
        for (yaml, expected) in [
            ("title: 2024-06-01", "2024-06-01"),
            ("title: 1458", "1458"),
            ("title: 1.10", "1.10"),
            ("title: 0x1F", "0x1F"),
            ("title: 007", "007"),
            ("title: True", "True"),
            ("title: no", "no"),
            ("title: .inf", ".inf"),
            (
                "title: 123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("TITLE: \"q: 'x'\"", "q: 'x'"),
            ("Title: a\ntitle: b", "b"),
            ("title: >\n  two\n  lines", "two lines"),
            ("title: &a x\nother: *a", "x"),
            ("title: !custom x", "x"),
            ("description: x\ntitle: 한글", "한글"),
        ] {
            let text = format!("---\n{yaml}\n---\nbody");
            let (front_matter, body, warnings) = front(&text);
            assert_eq!(front_matter.title.as_deref(), Some(expected), "{yaml}");
            assert_eq!((body, warnings), ("body", vec![]), "{yaml}");
        }
    }

    #[test]
    fn values_keep_their_types() {
        let (front_matter, ..) = front(
            "---\nn: 1458\nf: 1.5\nb: true\nd: 2024-06-01\nz: ~\nl: [1, a]\nm: {k: v}\nBig: yes\n---\n",
        );
        let expected = json!({
            "n": 1458, "f": 1.5, "b": true, "d": "2024-06-01", "z": null, "l": [1, "a"],
            "m": {"k": "v"}, "Big": "yes",
        });
        assert_eq!(json!(front_matter.values), expected);
    }

    #[test]
    fn lists_or_single_texts() {
        for (yaml, aliases, tags) in [
            (
                "aliases: [a, 'b c']\ntags: [x, '#y', z w]",
                "a;b c",
                "x;y;z w",
            ),
            (
                "aliases: one text, one\ntags: a, b c",
                "one text, one",
                "a;b c",
            ),
            ("alias: x\ntag: a b #comment", "x", "a;b"),
            (
                "aliases:\n- 2024\n- 1.10\n-\n- x\ntags: 2024",
                "2024;1.10;x",
                "2024",
            ),
            ("aliases: [[x]]\ntags:\n", "x", ""),
            ("Aliases: null\nTags: []", "", ""),
            ("aliases: {a: b}\ntags: [{a: b}, c]", "", "c"),
        ] {
            let (front_matter, _, warnings) = front(&format!("---\n{yaml}\n---\n"));
            assert_eq!(front_matter.aliases.join(";"), aliases, "{yaml}");
            assert_eq!(front_matter.tags.join(";"), tags, "{yaml}");
            assert_eq!(warnings, [], "{yaml}");
        }
    }

    #[test]
    fn labels_of_the_point_key() {
        let (front_matter, ..) =
            front("---\nrepo: r\nCommit_SHA: 0012e3\nlang: rust\nsymbol_path: a::b\n---\n");
        let labels = [
            front_matter.repo,
            front_matter.commit,
            front_matter.lang,
            front_matter.symbol,
        ];
        let labels = labels.map(Option::unwrap_or_default);
        assert_eq!(labels, ["r", "0012e3", "rust", "a::b"]);
    }

    #[test]
    fn broken_entries_are_read_as_plain_text_and_named_with_their_line() {
        for (yaml, key, value, line) in [
            ("title: A: B", "title", json!("A: B"), 2),
            (
                "a: 1\ntitle: L2: (Split: Core)",
                "title",
                json!("L2: (Split: Core)"),
                3,
            ),
            ("title: *Italic*", "title", json!("*Italic*"), 2),
            ("ok: 1\nkey: `C:\\agent`", "key", json!("`C:\\agent`"), 3),
            (
                "see:\n  - [[x]]suffix\n  - b",
                "see",
                json!(["[[x]]suffix", "b"]),
                3,
            ),
            ("title: [Draft] page", "title", json!("[Draft] page"), 2),
            ("tags: [a, *b*, 'c']", "tags", json!(["a", "*b*", "c"]), 2),
            ("title: @home # comment", "title", json!("@home"), 2),
            ("title: \"open", "title", json!("\"open"), 2),
            (
                "title: 50%: yes\n\tmore",
                "title",
                json!("50%: yes\nmore"),
                2,
            ),
            (
                "description: one\ndescription: two",
                "description",
                json!("one"),
                3,
            ),
        ] {
            let text = format!("---\n{yaml}\nlast: 7\n---\nbody");
            let (front_matter, body, warnings) = front(&text);
            assert_eq!(front_matter.values.get(key), Some(&value), "{yaml}");
            assert_eq!(front_matter.values.get("last"), Some(&json!(7)), "{yaml}");
            assert_eq!(body, "body", "{yaml}");
            let lines: Vec<usize> = warnings.iter().map(|warning| warning.line).collect();
            assert_eq!(lines, [line], "{yaml}: {warnings:?}");
        }
    }

    #[test]
    fn parentheses_and_colons_without_space_are_no_trouble() {
        let (front_matter, _, warnings) = front("---\ntitle: L2 (Split: Core)\n---\n");
        assert_eq!(front_matter.title.as_deref(), Some("L2 (Split: Core)"));
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn a_rule_is_no_metadata() {
        for (text, warned) in [
            ("---\n\nSome prose.\n\n---\nMore", true),
            ("---\n- a\n- b\n---\n", true),
            ("---\n* a: *b\n---\n", true),
            ("---\ntitle: never closed", true),
            ("---", true),
            ("----\na: b\n---\n", false),
            ("\n---\na: b\n---\n", false),
            (" ---\na: b\n---\n", false),
            ("", false),
        ] {
            let (front_matter, body, warnings) = front(text);
            assert_eq!((front_matter, body), (FrontMatter::default(), text));
            assert_eq!(warnings.len(), usize::from(warned), "{text}");
        }
    }

    #[test]
    fn the_block_ends_where_its_closing_line_ends() {
        for (text, body) in [
            ("---\na: b\n---\nrest", "rest"),
            ("---\na: b\n...\n---\nrest", "---\nrest"),
            ("--- \na: b\n---\t\nrest", "rest"),
            ("---\r\na: b\r\n---\r\nrest", "rest"),
            ("\u{FEFF}---\na: b\n---\nrest", "rest"),
            ("---\na: |\n  ---\n---", ""),
            ("---\n---\nrest", "rest"),
            ("---\n# only a comment\n---\nrest", "rest"),
        ] {
            assert_eq!(front(text).1, body, "{text}");
        }
        assert_eq!(front("\u{FEFF}text").1, "text");
    }

    #[test]
    fn hostile_metadata_is_bounded() {
        let bomb = (1..40).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".into(), |yaml, i| {
            let alias = format!("*a{}, ", i - 1).repeat(9);
            format!("{yaml}a{i}: &a{i} [{alias}]\n")
        });
        let deep = format!("title: t\na: {}", "[".repeat(60_000));
        let deep_blocks = (0..300).fold(String::new(), |yaml, i| yaml + &" ".repeat(i) + "a:\n");
        let many = "a: *b\n".repeat(10_000);
        let large = format!("title: t\ntext: {}\n", "한 ".repeat(100_000));
        let keys = (0..5_000).fold(String::new(), |yaml, i| yaml + &format!("k{i}: &k{i} v\n"));
        for yaml in [bomb, deep, deep_blocks, many, large, keys] {
            let text = format!("---\n{yaml}\n---\nbody");
            let (front_matter, body, warnings) = front(&text);
            assert_eq!(body, "body");
            assert!(
                !warnings.is_empty() && warnings.len() <= 21,
                "{}",
                &yaml[..40]
            );
            let size = json!(front_matter.values).to_string().len();
            assert!(size < 4 * 64 * 1024, "{size} bytes of {}", &yaml[..40]);
        }
    }
}
