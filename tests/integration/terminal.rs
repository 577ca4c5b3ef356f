//! What a person sees on a terminal: a bar that moves, and an answer to Ctrl-C.

use std::io::Write as _;
use std::process::Stdio;

use crate::wiki::Wiki;

/// Runs the words after its own on a terminal of no size, presses Ctrl-C once `until` was seen, and prints what was seen.
const TERMINAL: &str = r#"
import os, pty, sys
until, args = sys.argv[1].encode(), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execv(args[0], args)
seen, pressed = b"", False
while True:
    try:
        some = os.read(fd, 65536)
    except OSError:
        break
    if not some:
        break
    seen += some
    if until and until in seen and not pressed:
        pressed = True
        os.write(fd, b"\x03")
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status))
"#;

/// Runs the binary on a terminal; `None` where there is no Python to make one.
fn on_a_terminal(wiki: &Wiki, until: &str, args: &[&str]) -> Option<(Option<i32>, String)> {
    let mut python = wiki.other("python3".as_ref());
    python.args(["-", until, env!("CARGO_BIN_EXE_wiki-sync")]);
    python.args(args).env("TERM", "xterm");
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = python.spawn() else {
        eprintln!("NOT SHOWN: what a terminal shows. There is no python3");
        return None;
    };
    let mut script = child.stdin.take().unwrap();
    script.write_all(TERMINAL.as_bytes()).unwrap();
    drop(script);
    let ended = child.wait_with_output().unwrap();
    let seen = String::from_utf8_lossy(&ended.stdout).into_owned();
    Some((ended.status.code(), seen))
}

/// A wiki that takes a while.
fn large() -> Wiki {
    let wiki = Wiki::with(&[]);
    for page in 0..6000 {
        let text = format!("# Page {page}\n\nwords of [[p{}]]\n", page + 1);
        wiki.write(&format!("wiki-output/p{page}.md"), text);
    }
    wiki
}

#[test]
fn on_a_terminal_the_bar_moves_and_never_says_what_makes_no_sense() {
    let Some((code, seen)) = on_a_terminal(&large(), "", &["drain"]) else {
        return;
    };
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("/0"), "{seen}");
    let steps: Vec<u64> = seen
        .split("/6000")
        .filter_map(|before| before.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(steps.is_sorted(), "{steps:?}");
    assert!(steps.last() > steps.first(), "{steps:?}: {seen}");
}

#[test]
fn an_interrupted_drain_answers_at_once_and_says_what_is_left() {
    let wiki = large();
    let Some((code, seen)) = on_a_terminal(&wiki, "syncing", &["drain"]) else {
        return;
    };
    let answer = seen.find("stopping after the batch in hand").expect(&seen);
    let summary = seen.find("interrupted: ").expect(&seen);
    assert!(answer < summary, "{seen}");
    assert_eq!(code, Some(75), "{seen}");
    assert!(!seen.contains("nothing is owed"), "{seen}");
    wiki.drain();
    wiki.assert_in_sync();
}
