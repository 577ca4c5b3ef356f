//! The metadata block at a page's start.

use serde_json::Value;

use super::yaml::{self, Mapping, Yaml};
use super::{FrontMatter, Warning};

/// Largest metadata block, in bytes, that is parsed as YAML; beyond it only the entries in the first part
/// are read, one by one. Real ones have some hundred bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Line of the file in which the YAML begins.
const FIRST_LINE: usize = 2;

const KNOWN_KEYS: [&str; 12] = [
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
    "description",
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
        let separator = |char: char| match text.contains(',') {
            true => char == ',',
            false => char.is_whitespace(),
        };
        text.split(separator).map(str::to_owned).collect()
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
