//! Lines as they lie on the two lists of the wire, looked at without taking more of them than is needed.

use super::keys::Key;
use super::link::Link;
use super::{PIECE, RedisOutbox};
use crate::model::{Failure, FailureKind, Job};

/// The longest line that is read as a job: 1 MiB. A job is a path and a few labels.
pub(super) const LONGEST_LINE: usize = 1 << 20;
/// The longest line that a job makes of itself: 16 KiB. What is longer names no file that there can be.
pub(super) const LONGEST_JOB: usize = 16 << 10;
/// How much of a line is looked at to tell it from others, beside its length.
pub(super) const HEAD: usize = 4096;
/// Bytes of lines touched in one step: the server copies them while it does nothing else.
const MOST_BYTES: usize = 4 << 20;

/// A line of a list, as much as is needed of it.
pub(super) struct Line {
    pub(super) size: usize,
    /// The whole line, or its first [`HEAD`] bytes.
    pub(super) text: Vec<u8>,
}

impl Line {
    /// Reads it as a job, or says why it is none.
    pub(super) fn job(&self) -> Result<Job, String> {
        if self.size > LONGEST_LINE {
            return Err(format!(
                "line is {} bytes long; a job's has at most {LONGEST_LINE}",
                self.size
            ));
        }
        let text = str::from_utf8(&self.text).map_err(|_| "line is not UTF-8".to_owned())?;
        let job = Job::from_line(text)
            .map_err(|e| Failure::from_error(FailureKind::Rejected, "", &e).reason)?;
        let size = job.to_line().len();
        if size > LONGEST_JOB {
            return Err(format!(
                "path and labels are {size} bytes long; a job's have at most {LONGEST_JOB}"
            ));
        }
        Ok(job)
    }

    /// Returns what it is known by.
    pub(super) fn mark(&self) -> String {
        mark(self.size, &self.text)
    }
}

/// Returns what a line is known by without keeping it twice: its length and a digest of its beginning.
pub(super) fn mark(size: usize, head: &[u8]) -> String {
    use sha1::Digest as _;
    use std::fmt::Write as _;
    let mut mark = format!("{size}:");
    for byte in sha1::Sha1::digest(&head[..head.len().min(HEAD)]) {
        write!(mark, "{byte:02x}").expect("writing to a string cannot fail");
    }
    mark
}

/// Returns the length of the line that is known by this; 0 for what is no mark.
pub(super) fn size_of(mark: &str) -> u64 {
    let size = mark.split_once(':').and_then(|(size, _)| size.parse().ok());
    size.unwrap_or_default()
}

impl RedisOutbox {
    /// Returns a list's lines from an index on: at most `most`, and no more than one step may touch. None means that
    /// there are none. Of lines longer than `longest` only the beginning is read.
    pub(super) fn peek(
        &mut self,
        doing: &str,
        list: Key,
        from: usize,
        most: usize,
        longest: usize,
    ) -> Result<Vec<Line>, Failure> {
        let name = self.link.keys.name(list).to_owned();
        let script = &self.scripts.peek;
        let flat: Result<Vec<(usize, Vec<u8>)>, Failure> =
            self.link.ask_about_lines(doing, self.looks_long, |c| {
                Link::run(c, script, |cmd| {
                    cmd.arg(1)
                        .arg(&name)
                        .arg(from)
                        .arg(most.min(PIECE))
                        .arg(longest)
                        .arg(MOST_BYTES);
                })
            });
        // Next time it gets the time that it needs: the server does nothing else meanwhile, and it must not lie there for
        // good. Whether the server is there at all is asked before.
        self.looks_long |= self.link.was_late;
        let line = |(size, text)| Line { size, text };
        Ok(flat?.into_iter().map(line).collect())
    }
}

const _: () = assert!(HEAD == 4096, "commit.lua and peek.lua say so too");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_job_or_say_why_not(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            any::<String>().prop_map(String::into_bytes),
            ("[a-z]{0,9}", prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(name, junk)| {
                let mut line = format!("{{\"output_path\":\"{name}.md\",\"repo\":\"").into_bytes();
                line.extend(junk);
                line.extend(b"\"}");
                line
            }),
        ]) {
            let line = Line { size: bytes.len(), text: bytes.clone() };
            prop_assert_eq!(size_of(&line.mark()), bytes.len() as u64);
            match line.job() {
                Ok(job) => prop_assert!(str::from_utf8(&bytes).is_ok_and(|text| Job::from_line(text).is_ok_and(|it| it == job))),
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }
    }
}
