//! `[[Page#Heading|label]]`, found in the source itself.
//!
//! The Markdown parser has an option for wikilinks; its links end at a table's `|`, keep the `\` of `\|`,
//! win over `[[1]](url)`, and reach over line ends. So the source is read here, outside of the parser's code,
//! HTML and mathematics.

use std::ops::Range;

use super::destination;
use super::spans::Spans;
use super::{Link, LinkKind};

/// A pair of double brackets with a target between them.
#[derive(Debug)]
pub(super) struct FoundWikilink {
    /// The whole of it, with the `!` of an embed.
    pub(super) range: Range<usize>,
    /// What a reader sees.
    pub(super) shown: String,
    /// The link, unless it leads out of the wiki or to this page. Its line is yet to be told.
    pub(super) link: Option<Link>,
}

/// Finds the wikilinks of a body in order. The innermost brackets count; target and label stand on one line;
/// code, HTML or mathematics may stand in the label only.
pub(super) fn find(body: &str, masks: &Spans) -> Vec<FoundWikilink> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(distance) = body[from..].find("[[") {
        let open = from + distance;
        if let Some(mask) = masks.around(open) {
            from = mask.end;
        } else if is_escaped(body, open) || body[open + 2..].starts_with('[') {
            from = open + 1;
        } else {
            match inside(body, open + 2, masks) {
                Err(failed_at) => from = failed_at,
                Ok(Inside { pipe, close }) => {
                    from = close + 2;
                    found.extend(wikilink(body, open, pipe, close));
                }
            }
        }
    }
    found
}

/// Where the parts of a wikilink stand.
struct Inside {
    pipe: Option<usize>,
    close: usize,
}

/// Reads from after the opening brackets to the closing ones; else returns the offset, beyond the opening
/// brackets, from which the next may be looked for.
fn inside(body: &str, start: usize, masks: &Spans) -> Result<Inside, usize> {
    let bytes = body.as_bytes();
    let mut mask = masks.ending_after(start).cloned();
    let mut pipe = None;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        if let Some(masked) = mask.clone().filter(|mask| mask.start <= at) {
            if pipe.is_none() || body[masked.clone()].contains('\n') {
                return Err(masked.end);
            }
            at = masked.end;
            mask = masks.ending_after(at).cloned();
            continue;
        }
        let next = bytes.get(at + 1);
        match byte {
            b'\n' => return Err(at),
            b'[' if next == Some(&b'[') => return Err(at),
            b']' if next == Some(&b']') => return Ok(Inside { pipe, close: at }),
            b'[' | b']' if pipe.is_none() => return Err(at + 1),
            b'|' if pipe.is_none() => pipe = Some(at),
            b'\\' if next.is_some_and(|next| matches!(next, b'[' | b']' | b'\\')) => at += 1,
            _ => {}
        }
        at += 1;
    }
    Err(bytes.len())
}

fn wikilink(body: &str, open: usize, pipe: Option<usize>, close: usize) -> Option<FoundWikilink> {
    let target = &body[open + 2..pipe.unwrap_or(close)];
    // In a table the pipe is written `\|`.
    let target = match pipe {
        Some(_) => target.strip_suffix('\\').unwrap_or(target),
        None => target,
    };
    if target.trim().is_empty() {
        return None;
    }
    let label = pipe.map(|pipe| destination::unescaped(&body[pipe + 1..close]));
    let label = label.filter(|label| !label.is_empty());
    let embed = body[..open].ends_with('!') && !is_escaped(body, open - 1);
    let range = open - usize::from(embed)..close + 2;
    let link = destination::of_wikilink(target).map(|(target, anchor)| Link {
        kind: if embed {
            LinkKind::Embed
        } else {
            LinkKind::Wikilink
        },
        label: label.clone().filter(|label| *label != target),
        target,
        anchor,
        line: 0,
        range: range.clone(),
    });
    Some(FoundWikilink {
        range,
        shown: label.unwrap_or_else(|| destination::unescaped(target)),
        link,
    })
}

/// Says whether an odd number of backslashes stands before `offset`.
fn is_escaped(body: &str, offset: usize) -> bool {
    let before = &body.as_bytes()[..offset];
    let count = before.iter().rev().take_while(|byte| **byte == b'\\');
    count.count() % 2 == 1
}
