//! What a link's destination says: target and anchor, or somewhere outside the wiki.

use std::borrow::Cow;

use pulldown_cmark::{Event, Parser};

/// Splits the destination of a Markdown link (entities and escapes already resolved) into target and anchor,
/// both percent-decoded. The query is cut. `None` when it leads out of the wiki (a scheme, `//host`), nowhere
/// else than this page (`#fragment`, empty), or where only a site generator knows (`{{ … }}`).
pub(super) fn of_markdown(destination: &str) -> Option<(String, Option<String>)> {
    let destination = destination.trim();
    if destination.starts_with("//") || destination.contains("{{") || has_scheme(destination) {
        return None;
    }
    let (path, anchor) = match destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (destination, None),
    };
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let target = percent_decoded(path);
    if target.trim().is_empty() {
        return None;
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty());
    Some((target, anchor.map(percent_decoded)))
}

/// Splits the inside of a wikilink (without its label) into target and anchor, resolving entities and
/// backslash escapes, and trimming. A name may hold `%` and `:`, so nothing is percent-decoded, and only
/// `scheme://`, `//host` and `mailto:` lead out of the wiki. `None` as for [`of_markdown`].
pub(super) fn of_wikilink(raw: &str) -> Option<(String, Option<String>)> {
    let (target, anchor) = unescaped_halves(raw);
    let target = target.trim();
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    if target.is_empty()
        || target.starts_with("//")
        || target.starts_with("mailto:")
        || scheme.is_some_and(|scheme| has_scheme(&format!("{scheme}:")))
    {
        return None;
    }
    let anchor = anchor.as_deref().map(str::trim);
    let anchor = anchor.filter(|anchor| !anchor.is_empty());
    Some((target.to_owned(), anchor.map(str::to_owned)))
}

/// Returns the text with entities and backslash escapes resolved, trimmed.
pub(super) fn unescaped(raw: &str) -> String {
    match unescaped_halves(raw) {
        (text, None) => text.trim().to_owned(),
        (text, Some(rest)) => format!("{text}#{rest}").trim().to_owned(),
    }
}

/// Resolves entities and backslash escapes, and splits at the first `#` that is neither.
fn unescaped_halves(raw: &str) -> (String, Option<String>) {
    let mut first = String::with_capacity(raw.len());
    let mut second: Option<String> = None;
    for (at, text) in pieces(raw) {
        if second.is_none() && is_bare_hash(raw, at) {
            second = Some(String::new());
            continue;
        }
        second.as_mut().unwrap_or(&mut first).push_str(&text);
    }
    (first, second)
}

fn is_bare_hash(raw: &str, at: usize) -> bool {
    raw.as_bytes().get(at) == Some(&b'#')
}

/// Returns the length of a wikilink's target in its raw inside: up to the anchor.
pub(super) fn wikilink_target_len(raw: &str) -> usize {
    let anchor = pieces(raw).find(|(at, _)| is_bare_hash(raw, *at));
    anchor.map_or(raw.len(), |(at, _)| at)
}

/// Returns the length of the path in a raw Markdown destination: up to the query or the anchor, as [`of_markdown`] finds
/// them once entities and escapes are resolved.
pub(super) fn markdown_path_len(raw: &str) -> usize {
    let end = pieces(raw).find(|(_, text)| text.contains(['#', '?']));
    end.map_or(raw.len(), |(at, _)| at)
}

/// Returns each piece of a raw text with its offset, entities and backslash escapes resolved.
fn pieces(raw: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &raw[at..];
        let char = rest.chars().next()?;
        let mut len = char.len_utf8();
        let mut text = Cow::Borrowed(&rest[..len]);
        match char {
            '\\' => {
                let next = rest[1..].chars().next();
                if next.is_some_and(|next| next.is_ascii_punctuation()) {
                    text = Cow::Borrowed(&rest[1..2]);
                    len = 2;
                }
            }
            '&' => {
                if let Some((resolved, entity_len)) = entity(rest) {
                    text = Cow::Owned(resolved);
                    len = entity_len;
                }
            }
            _ => {}
        }
        let from = at;
        at += len;
        Some((from, text))
    })
}

/// Returns what the entity at the start of `text` stands for, and its length in bytes.
fn entity(text: &str) -> Option<(String, usize)> {
    // The longest name in HTML is `&CounterClockwiseContourIntegral;`.
    const LONGEST: usize = 33;
    let bytes = text.as_bytes();
    let end = bytes
        .iter()
        .take(LONGEST)
        .position(|byte| *byte == b';')
        .filter(|end| {
            bytes[1..*end]
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#')
        })?;
    // The parser has the table of names and does not give it out, so it is asked.
    let source = &text[..=end];
    let mut events = Parser::new(source).filter_map(|event| match event {
        Event::Text(text) => Some(text.into_string()),
        _ => None,
    });
    // What is no entity comes back as `&` and the rest.
    match (events.next(), events.next()) {
        (Some(text), None) if text != source => Some((text, end + 1)),
        _ => None,
    }
}

/// Says whether the text starts with a URI scheme (RFC 3986, section 3.1).
fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Decodes `%XX`. Kept as written when the outcome is not UTF-8 or holds control characters, which no
/// page's path does.
fn percent_decoded(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let hex = |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if let (b'%', Some(high), Some(low)) =
            (byte, hex(bytes.get(at + 1)), hex(bytes.get(at + 2)))
        {
            decoded.extend(u8::try_from(high * 16 + low));
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    match String::from_utf8(decoded) {
        Ok(decoded) if !decoded.contains(char::is_control) => decoded,
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Split = fn(&str) -> Option<(String, Option<String>)>;

    fn shown(split: Split, text: &str) -> String {
        match split(text) {
            None => "-".into(),
            Some((target, None)) => target,
            Some((target, Some(anchor))) => format!("{target} # {anchor}"),
        }
    }

    #[test]
    fn markdown_destinations() {
        for (destination, expected) in [
            ("a/b.md#frag", "a/b.md # frag"),
            ("../a b.md", "../a b.md"),
            ("a%20b.md#x%20y", "a b.md # x y"),
            ("%ED%95%9C%EA%B8%80.md", "한글.md"),
            ("%FF.md", "%FF.md"),
            ("a%0Ab.md", "a%0Ab.md"),
            ("100%.md", "100%.md"),
            ("%2.md", "%2.md"),
            ("a%23b.md", "a#b.md"),
            ("a.md?plain=1#L3", "a.md # L3"),
            ("/guides/a/", "/guides/a/"),
            ("a.md#", "a.md"),
            ("a.md#what?", "a.md # what?"),
            ("./notes/1:2.md", "./notes/1:2.md"),
            ("", "-"),
            ("#frag", "-"),
            ("?q=1#frag", "-"),
            ("http://host/a.md", "-"),
            ("HTTPS://host", "-"),
            ("mailto:a@b.org", "-"),
            ("//host/a.md", "-"),
            ("data:image/png;base64,AA", "-"),
            ("C:/x.md", "-"),
            ("{{% param url %}}x/", "-"),
        ] {
            assert_eq!(shown(of_markdown, destination), expected, "{destination}");
        }
    }

    #[test]
    fn wikilink_insides() {
        for (inside, expected) in [
            (" Page ", "Page"),
            ("Page#Heading", "Page # Heading"),
            ("Page#A#B", "Page # A#B"),
            ("Page#^block", "Page # ^block"),
            ("Page #", "Page"),
            ("sub/Page.md", "sub/Page.md"),
            ("A &amp; B", "A & B"),
            ("it&#39;s#h", "it's # h"),
            ("a&nosuch;b & c", "a&nosuch;b & c"),
            ("foo\\_bar", "foo_bar"),
            ("a\\b", "a\\b"),
            ("Note: A", "Note: A"),
            ("C++: intro", "C++: intro"),
            ("100%20", "100%20"),
            ("#Heading", "-"),
            ("", "-"),
            ("https://host/x", "-"),
            ("mailto:a@b.org", "-"),
        ] {
            assert_eq!(shown(of_wikilink, inside), expected, "{inside}");
        }
    }
}
