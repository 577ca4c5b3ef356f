//! Signals that ask a long run to stop.

use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use super::error::CommandError;
use crate::engine::drain::Stop;

/// Lets SIGINT, SIGTERM and SIGHUP ask for a stop; the second one ends the process at once. One that whoever started us
/// told us to ignore (`nohup`, a shell's `&`) stays ignored.
pub(super) fn stop_on_signals() -> Result<Stop, CommandError> {
    let stop = Stop::default();
    let ignored = ignored();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) != 0 {
            continue;
        }
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.0))
            .and_then(|_| register(signal, Arc::clone(&stop.0)))
            .map_err(|e| CommandError::caused("cannot listen to signals", &e))?;
    }
    Ok(stop)
}

/// Returns the signals that are ignored, a bit for each; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
