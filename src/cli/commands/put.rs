//! `wiki-sync put`

use std::io::{self, Read as _};
use std::path::PathBuf;

use serde::Serialize;

use super::enqueue::{self, LabelArgs};
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::paths;
use crate::model::ContentSha;

/// Write a page from stdin, whole or not at all, and announce it
#[derive(Debug, clap::Args)]
pub(crate) struct PutArgs {
    /// The page: relative to the current folder or to the root
    path: PathBuf,
    /// Write an empty page when stdin is empty
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    labels: LabelArgs,
}

#[derive(Serialize)]
struct Done {
    path: String,
    sha: String,
    written: bool,
    enqueued: u64,
    merged: u64,
}

pub(super) fn run(args: &PutArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let path = paths::place(&ws.wiki, &ws.start, &args.path)?;
    let is_new = ws.wiki.absolute(&path).symlink_metadata().is_err();
    let bytes = read_page(io::stdin().lock(), ws.config.wiki.max_page)?;
    // Mostly the sign of a producer that failed: `false | wiki-sync put page.md` must not empty the page.
    if bytes.is_empty() && !args.allow_empty {
        return Err(CommandError::new("stdin is empty")
            .hint("nothing was written; --allow-empty writes an empty page"));
    }
    ws.state.create()?;
    let written = ws.wiki.write(&path, &bytes)?;
    fail::fail_point!("put.written");
    let enqueued = enqueue::announce(&ws, std::slice::from_ref(&path), &args.labels.labels())
        .map_err(|error| {
            error.hint(format!(
                "{path} was written; the next drain's scan finds it"
            ))
        })?;
    if cx.out.is_json() {
        cx.out.json(&Done {
            path: path.to_string(),
            sha: ContentSha::of(&bytes).to_string(),
            written,
            enqueued: enqueued.new,
            merged: enqueued.merged,
        });
    } else {
        let what = match (written, is_new) {
            (true, true) => "wrote",
            (true, false) => "replaced",
            (false, _) => "same as before:",
        };
        cx.out
            .say(format_args!("{what} {path}; {}", enqueue::told(enqueued)));
    }
    Ok(Exit::Ok)
}

/// Reads a page that the drain will accept.
fn read_page(from: impl io::Read, max_page: u64) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    from.take(max_page.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| CommandError::caused("cannot read stdin", &e))?;
    if bytes.len() as u64 > max_page {
        return Err(CommandError::new(format!(
            "stdin holds more than wiki.max_page allows ({max_page} bytes)"
        ))
        .hint("nothing was written; raise wiki.max_page or split the page"));
    }
    let nul = bytes.iter().position(|&byte| byte == 0);
    let refused = |what: &str, at: usize, hint: &str| {
        let line = bytes[..at].split(|&byte| byte == b'\n').count();
        CommandError::new(format!("stdin {what} in line {line}"))
            .hint(format!("nothing was written{hint}"))
    };
    let way_out = "; if it is in CP949 (Korean): `iconv -f cp949 -t utf-8 | wiki-sync put …`";
    let without = "; `tr -d '\\000' | wiki-sync put …` takes such bytes out, and UTF-16 is read by `iconv -f utf-16 -t utf-8 | wiki-sync put …`";
    match (std::str::from_utf8(&bytes), nul) {
        (Err(e), _) => Err(refused("is not UTF-8", e.valid_up_to(), way_out)),
        (Ok(_), Some(at)) => Err(refused("holds a NUL byte", at, without)),
        (Ok(_), None) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_drain_would_accept_is_written() {
        let read = |bytes: &'static [u8], max| read_page(bytes, max).map_err(|e| e.error);
        assert_eq!(read("# 한글\n".as_bytes(), 100), Ok("# 한글\n".into()));
        assert_eq!(read(b"", 1), Ok(vec![]));
        assert_eq!(read(b"1234", 4), Ok(b"1234".into()));
        assert_eq!(
            read(b"12345", 4),
            Err("stdin holds more than wiki.max_page allows (4 bytes)".into())
        );
        assert_eq!(
            read(b"a\n\xff", 9),
            Err("stdin is not UTF-8 in line 2".into())
        );
        assert_eq!(
            read(b"a\0", 9),
            Err("stdin holds a NUL byte in line 1".into())
        );
    }
}
