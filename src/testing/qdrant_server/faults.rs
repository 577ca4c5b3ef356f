//! Planned failures, and what was asked. Both stand in files, so that a server in another process has them too.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const FAULTS: &str = "faults.json";
const LOG: &str = "requests.log";

/// What happens to a request instead of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// It is refused with this gRPC status, and changes nothing.
    Refuse(i32),
    /// It is refused, and is to be made again after so many seconds.
    Busy(u64),
    /// It is never answered, and changes nothing.
    Hang,
    /// It is answered after that time.
    Slow(Duration),
    /// It is done, and the connection's answer is lost.
    DropAfter,
    /// It is taken in and applied after that time; the answer comes at once and says so.
    Later(Duration),
    /// The server dies before it is done.
    Die,
    /// The server dies after it was done, before the answer.
    DieAfter,
    /// It hangs when it has more points than that.
    HangAbove(usize),
}

/// A planned failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The method, as the log names it; any method, when empty.
    pub method: String,
    /// How many such requests go well before.
    pub after: usize,
    /// How many then fail.
    pub times: usize,
    /// What happens to them.
    pub act: Act,
}

impl Fault {
    /// Plans that all requests of a method fail.
    #[must_use]
    pub fn always(method: &str, act: Act) -> Self {
        Self {
            method: method.into(),
            after: 0,
            times: usize::MAX,
            act,
        }
    }

    /// Plans that the next request of a method fails.
    #[must_use]
    pub fn once(method: &str, act: Act) -> Self {
        Self {
            times: 1,
            ..Self::always(method, act)
        }
    }

    /// Lets so many requests go well first.
    #[must_use]
    pub fn after(self, after: usize) -> Self {
        Self { after, ..self }
    }
}

/// A request that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// How many points it writes.
    pub points: usize,
    /// How large it is.
    pub bytes: usize,
}

/// Reads and changes the planned failures, alone.
pub(super) fn with<T>(folder: &Path, change: impl FnOnce(&mut Vec<Fault>) -> T) -> T {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(FAULTS))
        .expect("the faults' file");
    file.lock().expect("locked");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    let mut faults = serde_json::from_str(&text).unwrap_or_default();
    let result = change(&mut faults);
    file.set_len(0).expect("emptied");
    file.seek(SeekFrom::Start(0)).expect("at the start");
    serde_json::to_writer(&mut file, &faults).expect("written");
    result
}

/// Returns what is to happen to this request.
pub(super) fn take(folder: &Path, method: &str) -> Option<Act> {
    with(folder, |faults| {
        let mut act = None;
        for fault in faults.iter_mut() {
            if !fault.method.is_empty() && fault.method != method {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
            } else if act.is_none() && fault.times > 0 {
                fault.times -= 1;
                act = Some(fault.act);
            }
        }
        act
    })
}

pub(super) fn note(folder: &Path, seen: &Seen) {
    let mut line = serde_json::to_string(seen).expect("a request");
    line.push('\n');
    File::options()
        .append(true)
        .create(true)
        .open(folder.join(LOG))
        .and_then(|mut log| log.write_all(line.as_bytes()))
        .expect("noted");
}

pub(super) fn seen(folder: &Path) -> Vec<Seen> {
    let text = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
