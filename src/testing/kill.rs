//! Killing this process at a named point, for tests of what a kill leaves behind; or stopping it there, for tests of what
//! others do meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that names the point: `git.linked`, or `git.linked#3` for the third time it is passed.
const KILL_AT: &str = "WIKI_SYNC_TEST_KILL_AT";

/// The variable that names the point at which this process stops until it gets SIGCONT.
const STOP_AT: &str = "WIKI_SYNC_TEST_STOP_AT";

/// The variable that names the point at which whoever passes it stays for good, while other threads go on.
const STAY_AT: &str = "WIKI_SYNC_TEST_STAY_AT";

/// The variable that names the point at which the answer is the planned one, whatever the machine says.
const PLANNED_AT: &str = "WIKI_SYNC_TEST_PLANNED_AT";

/// Arms the points that `STOP_AT`, `STAY_AT` and `PLANNED_AT` name.
///
/// # Panics
/// Never: a callback is always a good action.
pub fn arm_stop_from_env() {
    if let Ok(point) = std::env::var(STOP_AT) {
        let armed = fail::cfg_callback(point, || {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::STOP);
        });
        assert!(armed.is_ok(), "a callback is always a good action");
    }
    if let Ok(point) = std::env::var(PLANNED_AT) {
        let armed = fail::cfg(point, "return");
        assert!(armed.is_ok(), "a return is always a good action");
    }
    if let Ok(point) = std::env::var(STAY_AT) {
        let armed = fail::cfg_callback(point, || {
            loop {
                std::thread::park();
            }
        });
        assert!(armed.is_ok(), "a callback is always a good action");
    }
}

/// Arms the point that `KILL_AT` names: when it is passed, this process gets SIGKILL, so that nothing is unwound,
/// flushed or unlocked on the way out.
///
/// # Panics
/// Never: a callback is always a good action.
pub fn arm_kill_from_env() {
    let Ok(named) = std::env::var(KILL_AT) else {
        return;
    };
    let (point, nth) = match named.split_once('#') {
        Some((point, nth)) => (point, nth.parse().unwrap_or(1)),
        None => (named.as_str(), 1),
    };
    let passed = AtomicU32::new(0);
    let armed = fail::cfg_callback(point, move || {
        if passed.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    });
    assert!(armed.is_ok(), "a callback is always a good action");
}
