//! A target as it is written in a link.

use std::fmt::Write as _;

use super::destination;

/// How a destination is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `[[here]]`
    Wikilink,
    /// `[text](here)` or `[label]: here`
    Bare,
    /// `[text](<here>)`
    Angle,
}

/// Returns a target as it is to be written, in the manner of what was written there before.
pub(super) fn target(target: &str, syntax: Syntax, before: &str, in_table: bool) -> String {
    match syntax {
        Syntax::Wikilink => in_brackets(target),
        Syntax::Bare => {
            let encoded = encoded_beyond_ascii(before);
            percent_encoded(target, |char| {
                char.is_ascii_alphanumeric()
                    || "-._~/+,;=@!'".contains(char)
                    || !char.is_ascii() && !encoded && !char.is_whitespace() && !char.is_control()
            })
        }
        Syntax::Angle => {
            let encoded = encoded_beyond_ascii(before);
            let spaces = !before.contains("%20");
            percent_encoded(target, |char| match char {
                ' ' => spaces,
                '(' | ')' | ':' => true,
                '%' | '#' | '?' | '<' | '>' | '\\' | '&' | '`' | '$' | '[' | ']' | '{' | '}'
                | '*' | '"' => false,
                '|' => !in_table,
                char => !char.is_control() && (char.is_ascii() || !encoded),
            })
        }
    }
}

/// Backslashes before what would end or split the target; a `|` has no such way.
fn in_brackets(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for (at, char) in target.char_indices() {
        let next = target[at + char.len_utf8()..].chars().next();
        match char {
            '[' | ']' | '#' => {
                out.push('\\');
                out.push(char);
            }
            '\\' if next.is_none_or(|next| next.is_ascii_punctuation()) => out.push_str("\\\\"),
            '|' => out.push_str("&#124;"),
            '&' if destination::unescaped(&target[at..]) != target[at..].trim() => {
                out.push_str("&amp;");
            }
            _ => out.push(char),
        }
    }
    out
}

/// Whether what was written there has letters beyond ASCII as `%XX`.
fn encoded_beyond_ascii(before: &str) -> bool {
    let mut codes = before.split('%').skip(1);
    codes.any(|code| {
        let code = code
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        code.is_some_and(|code| code >= 0x80)
    })
}

fn percent_encoded(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut bytes = [0; 4];
    for char in text.chars() {
        if is_kept(char) {
            out.push(char);
        } else {
            for byte in char.encode_utf8(&mut bytes).bytes() {
                write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
            }
        }
    }
    out
}
