//! A page's bytes as git stores them: line ends and `$Id$` by attributes and configuration.
//!
//! After git's `convert.c`, so that a page's blob can be named without writing anything, and is the one
//! `git add` would make. What only a program can do (filters, other encodings) is left to git.

use std::borrow::Cow;
use std::path::Path;

use git2::{AttrCheckFlags, AttrValue, Repository};

use super::filter::Program;
use super::repo::git_failure;
use crate::model::Failure;

/// What git stores of a page.
pub(super) enum Stored<'t> {
    /// These bytes.
    Bytes(Cow<'t, [u8]>),
    /// What this program makes of it.
    By(Program),
}

/// What is to become of line ends on the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    /// Kept as they are.
    Keep,
    /// CRLF becomes LF.
    Text,
    /// As `Text` when the content looks like text and its blob in the index has no CRLF.
    Auto,
}

/// Returns what git would store of a page's text. `in_index` gives the blob that the index holds of the
/// page, if any; it is asked only where git would look.
///
/// # Errors
/// When the attributes cannot be read.
pub(super) fn to_git<'t>(
    repo: &Repository,
    path: &str,
    text: &'t str,
    in_index: &dyn Fn() -> Option<Vec<u8>>,
) -> Result<Stored<'t>, Failure> {
    if let AttrValue::String(driver) = attribute(repo, path, "filter")? {
        return Ok(Stored::By(Program::Filter(driver.to_owned())));
    }
    if let AttrValue::String(encoding) = attribute(repo, path, "working-tree-encoding")?
        && !encoding.eq_ignore_ascii_case("utf-8")
    {
        return Ok(Stored::By(Program::Encoding(encoding.to_owned())));
    }
    let mut bytes = Cow::Borrowed(text.as_bytes());
    let ends = if text.contains("\r\n") {
        line_ends(repo, path)?
    } else {
        LineEnds::Keep
    };
    if ends != LineEnds::Keep {
        let keeps = ends == LineEnds::Auto
            && (looks_binary(&bytes)
                || in_index().is_some_and(|blob| {
                    blob.windows(2).any(|pair| pair == b"\r\n") && !looks_binary(&blob)
                }));
        if !keeps {
            bytes = Cow::Owned(text.replace("\r\n", "\n").into_bytes());
        }
    }
    if text.contains("$Id:") && attribute(repo, path, "ident")? == AttrValue::True {
        bytes = Cow::Owned(collapse_ident(&bytes));
    }
    Ok(Stored::Bytes(bytes))
}

fn attribute<'r>(repo: &'r Repository, path: &str, name: &str) -> Result<AttrValue<'r>, Failure> {
    repo.get_attr(Path::new(path), name, AttrCheckFlags::FILE_THEN_INDEX)
        .map(AttrValue::from_string)
        .map_err(|error| git_failure(&format!("cannot read the attributes of {path:?}"), &error))
}

fn line_ends(repo: &Repository, path: &str) -> Result<LineEnds, Failure> {
    let attribute = |name: &str| attribute(repo, path, name);
    let of = |value: AttrValue<'_>| match value {
        AttrValue::True | AttrValue::String("input") => Some(LineEnds::Text),
        AttrValue::False => Some(LineEnds::Keep),
        AttrValue::String("auto") => Some(LineEnds::Auto),
        AttrValue::Unspecified | AttrValue::String(_) | AttrValue::Bytes(_) => None,
    };
    // `crlf` is what `text` was called once.
    let known = match of(attribute("text")?) {
        Some(known) => Some(known),
        None => of(attribute("crlf")?),
    };
    match known {
        Some(known) => Ok(known),
        None if matches!(attribute("eol")?, AttrValue::String("lf" | "crlf")) => Ok(LineEnds::Text),
        None => {
            let config = repo
                .config()
                .map_err(|error| git_failure("cannot read git's configuration", &error))?;
            let input = config
                .get_string("core.autocrlf")
                .is_ok_and(|value| value.eq_ignore_ascii_case("input"));
            if input || config.get_bool("core.autocrlf").unwrap_or(false) {
                Ok(LineEnds::Auto)
            } else {
                Ok(LineEnds::Keep)
            }
        }
    }
}

/// Git's guess: a CR that ends no line, a NUL, or more than one odd byte in 128.
fn looks_binary(bytes: &[u8]) -> bool {
    let (mut printable, mut odd) = (0_usize, 0_usize);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => {}
            b'\r' | 0 => return true,
            b'\n' => {}
            0x08 | b'\t' | 0x1b | 0x0c => printable += 1,
            0x7f | 0..0x20 => odd += 1,
            _ => printable += 1,
        }
    }
    // The end-of-file mark of old.
    if bytes.last() == Some(&0x1a) {
        odd -= 1;
    }
    printable / 128 < odd
}

/// Turns each `$Id: …$` that stands on one line into `$Id$`.
fn collapse_ident(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(4).position(|four| four == b"$Id:") {
        let after = &rest[at + 4..];
        let end = after.iter().position(|&byte| byte == b'$' || byte == b'\n');
        out.extend(&rest[..at]);
        match end {
            Some(end) if after[end] == b'$' => {
                out.extend(b"$Id$");
                rest = &after[end + 1..];
            }
            _ => {
                out.extend(b"$Id:");
                rest = after;
            }
        }
    }
    out.extend(rest);
    out
}
