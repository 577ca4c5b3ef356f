//! The log: what the parts tell by `tracing`, on stderr, beside what a command says there anyway. For people on a terminal;
//! elsewhere each event is a line of JSON.
//!
//! Only our own events are told: what a library says of a connection may hold what goes over it.

use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, reload};

use super::out::wants_colour;
use crate::config::LogLevel;

/// What of the log is told now; there once anything is to be told.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
/// Whether the command line said how much: then the settings do not count.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// Takes what the command line says: `-v` once or more, and `--quiet`, which silences what only the settings ask for.
pub(super) fn given(verbose: u8, quiet: bool) {
    let level = match (verbose, quiet) {
        (0, false) => return,
        (0, true) => LogLevel::Off,
        (1, _) => LogLevel::Info,
        (2.., _) => LogLevel::Debug,
    };
    IS_GIVEN.store(true, Ordering::Relaxed);
    tell(level);
}

/// Takes what the settings say, where the command line says nothing.
pub(super) fn set(level: LogLevel) {
    if !IS_GIVEN.load(Ordering::Relaxed) {
        tell(level);
    }
}

/// Says whether anything is told.
pub(super) fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

fn tell(level: LogLevel) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let wanted = Targets::new().with_target(env!("CARGO_CRATE_NAME"), level);
    if let Some(filter) = FILTER.get() {
        // It is there as long as the process is.
        let _ = filter.reload(wanted);
        return;
    }
    if level == LevelFilter::OFF {
        // Nothing to set up: without a subscriber an event costs a comparison.
        return;
    }
    let (wanted, filter) = reload::Layer::new(wanted);
    let events = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(wants_colour(&io::stderr()))
        .with_target(false)
        // Where stderr is gone, there is nobody to tell that either.
        .log_internal_errors(false);
    let told = Registry::default().with(wanted);
    let begun = if io::stderr().is_terminal() {
        told.with(events).try_init()
    } else {
        told.with(events.json().flatten_event(true).with_target(true))
            .try_init()
    };
    if begun.is_ok() {
        let _ = FILTER.set(filter);
    }
}
