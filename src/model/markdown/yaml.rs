//! YAML of front matter: typed where it parses, line by line where it does not.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Options;

/// Most entries that are looked at one by one when the whole does not parse: far more than people write.
const MAX_ENTRIES: usize = 1_000;

/// Most warnings of one page's metadata; more would say nothing new.
const MAX_WARNINGS: usize = 20;

/// A mapping as it could be read.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    /// Every key with its typed value.
    pub(super) values: BTreeMap<String, Value>,
    /// Numbers and booleans that stand directly under a key, or in a list there, as they are written.
    pub(super) written: BTreeMap<String, Vec<String>>,
    /// Line in the YAML, from 1, and message.
    pub(super) warnings: Vec<(usize, String)>,
}

/// What a YAML text is.
pub(super) enum Yaml {
    /// A mapping, or nothing at all.
    Mapping(Mapping),
    /// A list or a single text: no metadata.
    Other,
    /// It does not parse: line in the YAML, from 1, and message.
    Broken(usize, String),
}

/// Reads a YAML text. Depth, number of nodes and the replay of aliases are bounded; of a key that stands
/// twice the first value counts, with a warning.
pub(super) fn read(yaml: &str) -> Yaml {
    let mut warnings = Vec::new();
    let mut duplicates = serde_saphyr::options::DuplicateKeyPolicy::Error;
    loop {
        match serde_saphyr::from_str_with_options(yaml, options(duplicates)) {
            Ok(Value::Object(map)) => {
                let values: BTreeMap<String, Value> = map.into_iter().collect();
                let written = as_written(yaml, &values, duplicates);
                return Yaml::Mapping(Mapping {
                    values,
                    written,
                    warnings,
                });
            }
            Ok(Value::Null) => return Yaml::Mapping(Mapping::default()),
            Ok(_) => return Yaml::Other,
            Err(error) => {
                let (line, message) = described(&error);
                let again = matches!(duplicates, serde_saphyr::options::DuplicateKeyPolicy::Error)
                    && message.starts_with("duplicate mapping key");
                if !again {
                    return Yaml::Broken(line, message);
                }
                duplicates = serde_saphyr::options::DuplicateKeyPolicy::FirstWins;
                let key = message.split(',').next().unwrap_or(&message);
                warnings.push((line, format!("{key}; its first value counts")));
            }
        }
    }
}

/// Reads what it can of a text that does not parse as a whole: each top-level entry by itself, and an entry
/// that does not parse either as plain text or a list of plain texts.
pub(super) fn recover(yaml: &str) -> Mapping {
    let mut mapping = Mapping::default();
    let mut stray = None;
    for entry in entries(yaml, &mut stray).into_iter().take(MAX_ENTRIES) {
        match read(entry.text) {
            Yaml::Mapping(read) => {
                for (key, value) in read.values {
                    mapping.values.entry(key).or_insert(value);
                }
                for (key, texts) in read.written {
                    mapping.written.entry(key).or_insert(texts);
                }
            }
            Yaml::Other => {}
            Yaml::Broken(line, message) => {
                let (key, value) = plain(entry.text);
                let message = format!("{key:?} is not valid YAML ({message}), read as plain text");
                mapping.warnings.push((entry.line + line - 1, message));
                mapping.values.entry(key).or_insert(value);
            }
        }
    }
    if let Some(line) = stray {
        let message = "a line that belongs to no key of the metadata is left out".to_owned();
        mapping.warnings.push((line, message));
    }
    mapping.warnings.truncate(MAX_WARNINGS);
    mapping
}

/// Returns the key of a line that begins an entry of a mapping: `key:` at the line's start, the key at most
/// three words long, so that a sentence with a colon is none.
pub(super) fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let quoted = key.starts_with(['"', '\'']);
    let bare = key.starts_with(|first: char| first.is_alphanumeric() || "_$.".contains(first));
    let bounded = key.len() <= 200 && key.split_whitespace().count() <= 3;
    let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
    ((quoted || bare) && bounded && ends).then(|| key.trim().trim_matches(['"', '\'']))
}

fn options(duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 50_000,
            max_nodes: 20_000,
            max_anchors: 1_000,
            max_aliases: 1_000,
            max_recorded_anchor_events: 50_000,
            max_depth: 32,
            flow_nesting_limit: 32,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: duplicate_keys,
        // `yes`, `007` and `1_000` are texts to whoever writes them as a title or a version.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

/// Returns the line of an error, from 1, and its message in one line without the place.
fn described(error: &serde_saphyr::Error) -> (usize, String) {
    let line = error.location().map_or(1, |place| place.line());
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default();
    let end = message.rfind(" at line ").unwrap_or(message.len());
    let mut message = message[..end].to_owned();
    if let Some((cut, _)) = message.char_indices().nth(200) {
        message.truncate(cut);
    }
    (usize::try_from(line).unwrap_or(1).max(1), message)
}

/// Reads once more, as texts, the values whose type would lose their spelling (`1.10`, `0x1F`).
fn as_written(
    yaml: &str,
    values: &BTreeMap<String, Value>,
    duplicates: serde_saphyr::options::DuplicateKeyPolicy,
) -> BTreeMap<String, Vec<String>> {
    let loses = |value: &Value| value.is_number() || value.is_boolean();
    let loses = |value: &Value| match value {
        Value::Array(items) => items.iter().any(loses),
        value => loses(value),
    };
    if !values.values().any(loses) {
        return BTreeMap::new();
    }
    serde_saphyr::with_deserializer_from_str_with_options(yaml, options(duplicates), |yaml| {
        Written(values).deserialize(yaml)
    })
    .unwrap_or_default()
}

/// Reads scalars, and lists of scalars, as text; which of them to expect the typed values say.
struct Written<'a>(&'a BTreeMap<String, Value>);

impl<'de> DeserializeSeed<'de> for Written<'_> {
    type Value = BTreeMap<String, Vec<String>>;

    fn deserialize<D: Deserializer<'de>>(self, yaml: D) -> Result<Self::Value, D::Error> {
        yaml.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Written<'_> {
    type Value = BTreeMap<String, Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let scalar = |value: &Value| !value.is_array() && !value.is_object();
        let mut written = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            match self.0.get(&key) {
                Some(Value::Array(items)) if items.iter().all(scalar) => {
                    let texts: Vec<Option<String>> = map.next_value()?;
                    written.insert(key, texts.into_iter().flatten().collect());
                }
                Some(value) if scalar(value) => {
                    let text: Option<String> = map.next_value()?;
                    written.insert(key, text.into_iter().collect());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(written)
    }
}

/// A top-level entry: its first line and all lines that belong to it.
struct Entry<'a> {
    text: &'a str,
    line: usize,
}

/// Cuts a text at its top-level keys; `stray` is the first line before the first of them.
fn entries<'a>(yaml: &'a str, stray: &mut Option<usize>) -> Vec<Entry<'a>> {
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut offset = 0;
    for (index, line) in yaml.split_inclusive('\n').enumerate() {
        let content = line.trim_end();
        if key_of(content).is_some() {
            starts.push((offset, index + 1));
        } else if starts.is_empty() && !content.is_empty() && !content.starts_with('#') {
            stray.get_or_insert(index + 1);
        }
        offset += line.len();
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|(start, _)| *start).collect();
    starts
        .into_iter()
        .zip(ends.into_iter().chain([yaml.len()]))
        .map(|((start, line), end)| Entry {
            text: &yaml[start..end],
            line,
        })
        .collect()
}

/// Reads an entry as text: `key: value`, `key: [a, b]`, or a key with `- item` lines below.
fn plain(entry: &str) -> (String, Value) {
    let mut lines = entry.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let key = key_of(first).unwrap_or_default().to_owned();
    let value = first.split_once(':').map_or("", |(_, value)| value.trim());
    let below: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let items = || below.iter().map(|line| line.strip_prefix('-'));
    if value.is_empty() && !below.is_empty() && items().all(|item| item.is_some()) {
        return (key, items().flatten().map(text).collect());
    }
    if let Some(inside) = value.strip_prefix('[').and_then(|v| v.strip_suffix(']'))
        && below.is_empty()
    {
        return (key, inside.split(',').map(text).collect());
    }
    let block = value.starts_with(['|', '>']) && value.len() <= 3;
    let own = (!block && !value.is_empty()).then_some(value);
    let whole: Vec<&str> = own.into_iter().chain(below).collect();
    (key, text(&whole.join("\n")))
}

/// Returns a plain text without its comment and its quotes.
fn text(written: &str) -> Value {
    let mut text = written.trim();
    if !text.starts_with(['"', '\''])
        && let Some(comment) = text.find(" #")
    {
        text = text[..comment].trim_end();
    }
    for quote in ['"', '\''] {
        let inside = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        text = inside.unwrap_or(text);
    }
    Value::String(text.to_owned())
}
