//! Signals that ask a long run to stop.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use signal_hook::low_level::exit;

use super::error::CommandError;
use super::out::Out;
use crate::engine::drain::Stop;
use crate::engine::watch::say_goodbye;
use crate::state::StateDir;

/// Lets signals ask for a stop, as [`stop_with`] has it.
#[cfg(feature = "serve")]
pub(super) fn stop_on_signals(state: &StateDir) -> Result<Stop, CommandError> {
    stop_with(state, None)
}

/// Lets them ask, as [`stop_with`] has it, for a stop after the batch in hand; says so at once to whoever looks.
pub(super) fn stop_after_batch(state: &StateDir, out: &Out) -> Result<Stop, CommandError> {
    let word = "stopping after the batch in hand; press Ctrl-C again to stop at once";
    let word = out.is_watched().then(|| {
        // A bar may stand in the line.
        let new_line = if out.wants_progress() {
            "\r\x1b[K"
        } else {
            "\n"
        };
        format!("{new_line}{word}\n")
    });
    stop_with(state, word)
}

/// Lets SIGINT, SIGTERM and SIGHUP ask for a stop; the second one ends the process at once, and takes off the mark of the
/// page in hand first: it is known who ended it, and it was not the page. One that whoever started us told us to ignore
/// (`nohup`, a shell's `&`) stays ignored.
fn stop_with(state: &StateDir, word: Option<String>) -> Result<Stop, CommandError> {
    let stop = Stop::default();
    listen(&stop, state, word).map_err(|e| CommandError::caused("cannot listen to signals", &e))?;
    Ok(stop)
}

fn listen(stop: &Stop, state: &StateDir, word: Option<String>) -> io::Result<()> {
    let heard = heard();
    let leaving = Arc::new(AtomicBool::new(false));
    for &signal in &heard {
        // For a disk that does not even let the mark go.
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&leaving))?;
        register(signal, Arc::clone(&stop.0))?;
    }
    // What counts each, however quickly one follows the other.
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(&heard)?;
    let state = state.clone();
    let wait = move || {
        let mut heard = signals.forever();
        if heard.next().is_some()
            && let Some(word) = word
        {
            // A terminal that is held back keeps nobody from ending us.
            thread::spawn(move || io::stderr().write_all(word.as_bytes()));
        }
        if let Some(last) = heard.next() {
            leaving.store(true, Ordering::Relaxed);
            let _ = state.clear_own_mark();
            say_goodbye(&state);
            exit(128 + last.si_signo);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Returns the signals that ask for a stop and that nobody told us to ignore.
pub(super) fn heard() -> Vec<i32> {
    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let heard = signals.filter(|signal| ignored & (1 << (signal - 1)) == 0);
    heard.collect()
}

/// Returns the signals that are ignored, a bit for each; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
