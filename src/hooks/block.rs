//! Our lines in a hook's text: the block, which begins and ends with a mark and stands right after the first line.
//! Everything else in the text is the user's, byte for byte.

use super::Event;

/// How the block's first line begins.
const BEGIN: &[u8] = b"# >>> wiki-sync >>>";
/// The block's last line.
const END: &[u8] = b"# <<< wiki-sync <<<";
/// The rest of its first line in somebody's hook, and in a file that we made.
const IN_HOOK: &str = r#"these lines are its own: "wiki-sync hooks uninstall" takes them out"#;
const IN_FILE: &str = r#"this file is its own: "wiki-sync hooks uninstall" removes it"#;
/// The first line of a file that we make.
pub const SHEBANG: &[u8] = b"#!/bin/sh\n";

/// The variables that git hands to hooks, and by which it may have been configured. The shell forgets them before it runs us:
/// what is left of them, a program is rid of only by starting a second time.
const GITS: &str = "GIT_DIR GIT_INDEX_FILE GIT_PREFIX GIT_EXEC_PATH GIT_EDITOR GIT_REFLOG_ACTION GIT_WORK_TREE \
GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_IMPLICIT_WORK_TREE GIT_GRAFT_FILE \
GIT_SHALLOW_FILE GIT_NO_REPLACE_OBJECTS GIT_REPLACE_REF_BASE GIT_INTERNAL_SUPER_PREFIX GIT_QUARANTINE_PATH \
GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE \
GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM \
GIT_SEQUENCE_EDITOR GIT_MERGE_AUTOEDIT GIT_CHERRY_PICK_HELP GIT_PAGER GIT_PAGER_IN_USE GIT_ASKPASS GIT_SSH \
GIT_SSH_COMMAND GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS";

/// What the hooks of each event run, with a place for the program.
fn lines_of(event: Event) -> &'static str {
    match event {
        Event::Commit => include_str!("../../hooks/post-commit"),
        Event::Merge => include_str!("../../hooks/post-merge"),
        Event::Checkout => include_str!("../../hooks/post-checkout"),
        Event::Rewrite => include_str!("../../hooks/post-rewrite"),
        Event::ApplyPatch => include_str!("../../hooks/post-applypatch"),
    }
}

/// Whose file the block stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user's: our lines go, his stay.
    User,
    /// Ours: made for the block, and runs the hook that was there before.
    Ours,
}

/// Returns the block that runs `program` (the path of a file, in bytes) at an event.
#[must_use]
pub fn render(event: Event, program: &[u8], owner: Owner) -> Vec<u8> {
    let note = match owner {
        Owner::User => IN_HOOK,
        Owner::Ours => IN_FILE,
    };
    let mut block = [BEGIN, b" ", note.as_bytes(), b"\n"].concat();
    let quoted = quote(program);
    let lines = lines_of(event).replace("@GITS@", GITS);
    let mut parts = lines.split("@PROGRAM@");
    block.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        block.extend(&quoted);
        block.extend(part.as_bytes());
    }
    if owner == Owner::Ours {
        let chained = include_str!("../../hooks/chained").replace("@EVENT@", event.name());
        block.extend(chained.as_bytes());
    }
    block.extend(END);
    block.push(b'\n');
    block
}

/// Returns the one line that does the same from anywhere: for another hook manager. It is short, since a person pastes it: of
/// git's variables the program rids itself, by starting a second time.
#[must_use]
pub fn one_line(event: Event, program: &str) -> String {
    let program = String::from_utf8_lossy(&quote(program.as_bytes())).into_owned();
    format!(
        "{{ IN_WIKI_SYNC_HOOK=1 {program} hook {event} || true >>.wiki-sync/hint.{event} || :; }} </dev/null >/dev/null 2>&1"
    )
}

/// Returns the text as one word of the shell: no character in it means anything there.
fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in text {
        if byte == b'\'' {
            quoted.extend(br"'\''");
        } else {
            quoted.push(byte);
        }
    }
    quoted.push(b'\'');
    quoted
}

/// A hook's text, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parted {
    /// The text without any block of ours: as it was before.
    pub rest: Vec<u8>,
    /// The block, where there is one.
    pub block: Option<Block>,
}

/// A block that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its lines, marks included.
    pub text: Vec<u8>,
    /// Whose file it stands in.
    pub owner: Owner,
    /// Whether it stands right after the first line: what is further down may be left out by an `exit` above it.
    pub first: bool,
    /// The program that it runs.
    pub program: Option<Vec<u8>>,
}

/// The block's begin without its end: nobody can say which lines are whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the line {:?} is missing", String::from_utf8_lossy(END))]
pub struct NoEnd;

/// Takes a hook's text apart. Of several blocks (somebody copied one) the first is told, and none is in the rest.
///
/// # Errors
/// [`NoEnd`] when a block has no end.
pub fn part(text: &[u8]) -> Result<Parted, NoEnd> {
    let mut rest = text.to_vec();
    let mut found = None;
    while let Some((from, to)) = bounds(&rest)? {
        let lines = rest[from..to].to_vec();
        let ended = lines.ends_with(b"\n");
        let above = rest[..from].split_inclusive(|&byte| byte == b'\n').count();
        found.get_or_insert_with(|| Block {
            owner: if contains(first_line_of(&lines), IN_FILE.as_bytes()) {
                Owner::Ours
            } else {
                Owner::User
            },
            first: above <= 1 && rest.starts_with(b"#!"),
            program: program_in(&lines),
            text: lines,
        });
        // A text whose only line had no end was given one.
        let from = if !ended && from > 0 { from - 1 } else { from };
        rest.drain(from..to);
    }
    Ok(Parted { rest, block: found })
}

/// Returns the text with the block right after its first line.
#[must_use]
pub fn insert(text: &[u8], block: &[u8]) -> Vec<u8> {
    match text.iter().position(|&byte| byte == b'\n') {
        Some(end) => [&text[..=end], block, &text[end + 1..]].concat(),
        None => [text, b"\n", block.strip_suffix(b"\n").unwrap_or(block)].concat(),
    }
}

/// Says whether a hook's text is a shell script whose second line is a place for more of it.
///
/// Not so for a script that the shell only hands on to another interpreter (`exec python "$0"`).
#[must_use]
pub fn is_shell(text: &[u8]) -> bool {
    const SHELLS: [&str; 9] = [
        "sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "yash", "zsh",
    ];
    let Some(words) = interpreter(text) else {
        return false;
    };
    let mut words = words.split_ascii_whitespace();
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut program = words.next().map(name);
    if program.as_deref() == Some("env") {
        let mut rest = words.skip_while(|word| word.starts_with('-') || word.contains('='));
        program = rest.next().map(name);
    } else if program.as_deref() == Some("busybox") {
        program = words.next().map(name);
    }
    let hands_on = text
        .split(|&byte| byte == b'\n')
        .take(6)
        .any(|line| contains(line, b"exec") && contains(line, b"$0"));
    program.is_some_and(|program| SHELLS.contains(&program.as_str())) && !hands_on
}

/// Returns what stands after `#!`, where it is text that a kernel can use.
fn interpreter(text: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(first_line_of(text).strip_prefix(b"#!")?).ok()?;
    // With a carriage return the kernel looks for an interpreter of that name.
    (!line.contains(['\r', '\0'])).then_some(line)
}

/// Returns where the first block begins and ends.
fn bounds(text: &[u8]) -> Result<Option<(usize, usize)>, NoEnd> {
    let mut at = 0;
    let mut from = None;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(BEGIN) {
            from.get_or_insert(at);
        }
        at += line.len();
        if let Some(from) = from
            && line.trim_ascii_end() == END
        {
            return Ok(Some((from, at)));
        }
    }
    if from.is_some() { Err(NoEnd) } else { Ok(None) }
}

/// Reads the program out of lines of ours, of an older version's too: the quoted word before ` hook `.
pub(super) fn program_in(lines: &[u8]) -> Option<Vec<u8>> {
    let marks = [
        &b"IN_WIKI_SYNC_HOOK=1; exec '"[..],
        b"IN_WIKI_SYNC_HOOK=1 '",
    ];
    let after = |mark: &[u8]| {
        let at = lines.windows(mark.len()).position(|part| part == mark)?;
        Some(at + mark.len())
    };
    let from = marks.into_iter().find_map(after)?;
    let mut program = Vec::new();
    let mut rest = &lines[from..];
    loop {
        let end = rest.iter().position(|&byte| byte == b'\'')?;
        program.extend(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(br"\''") {
            Some(more) => {
                program.push(b'\'');
                rest = more;
            }
            None => return Some(program),
        }
    }
}

fn first_line_of(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block() -> Vec<u8> {
        render(Event::Commit, b"/opt/it's here/wiki-sync", Owner::User)
    }

    fn parted(text: &[u8]) -> Parted {
        part(text).expect("every block has its end")
    }

    #[test]
    fn what_was_put_in_comes_out_and_leaves_every_byte() {
        for text in [
            &b"#!/bin/sh\necho mine\n"[..],
            b"#!/bin/sh",
            b"#!/bin/sh\n",
            b"#!/bin/sh\necho no end",
            b"#!/bin/sh\necho a\r\necho b\r\n",
            b"#!/bin/sh\n\xff\xfe\n\n\n",
        ] {
            let with = insert(text, &block());
            let parted = parted(&with);
            assert_eq!(parted.rest, text, "{with:?}");
            let found = parted.block.expect("a block");
            assert!(found.first);
            assert_eq!(found.owner, Owner::User);
            assert_eq!(
                found.program.as_deref(),
                Some(&b"/opt/it's here/wiki-sync"[..])
            );
        }
    }

    #[test]
    fn the_program_of_an_older_versions_lines_is_found() {
        let lines = b"  IN_WIKI_SYNC_HOOK=1 '/opt/it'\\''s/wiki-sync' hook post-commit || true\n";
        assert_eq!(
            program_in(lines).as_deref(),
            Some(&b"/opt/it's/wiki-sync"[..])
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back_byte_for_byte(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = [b"#!/bin/sh\n", &body[..]].concat();
            prop_assume!(part(&text).is_ok_and(|parted| parted.block.is_none()));
            prop_assert_eq!(parted(&insert(&text, &block())).rest, text);
        }
    }

    #[test]
    fn a_copied_block_goes_too_and_one_without_an_end_is_not_guessed_at() {
        let twice = [b"#!/bin/sh\n", &block()[..], b"x\n", &block()[..]].concat();
        assert_eq!(parted(&twice).rest, b"#!/bin/sh\nx\n");
        let torn = [b"#!/bin/sh\n", BEGIN, b"\nx\n"].concat();
        assert_eq!(part(&torn), Err(NoEnd));
    }

    #[test]
    fn a_block_below_other_lines_is_not_first() {
        let text = [b"#!/bin/sh\nexit 0\n", &block()[..]].concat();
        assert!(!parted(&text).block.expect("a block").first);
    }

    #[test]
    fn shells_are_known_by_their_first_line() {
        for (line, is) in [
            ("#!/bin/sh", true),
            ("#! /usr/bin/env bash", true),
            ("#!/usr/bin/env -S bash -eu", true),
            ("#!/bin/bash -e", true),
            ("#!/bin/busybox sh", true),
            ("#!/usr/bin/env python3", false),
            ("#!/usr/bin/fish", false),
            ("#!/bin/sh\r", false),
            ("#!/bin/sh\n'''exec' python3 \"$0\" \"$@\"", false),
            ("echo no first line", false),
            ("\u{7f}ELF", false),
            ("", false),
        ] {
            assert_eq!(is_shell(line.as_bytes()), is, "{line:?}");
        }
    }
}
