//! Who has a job in hand.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use uuid::Uuid;

/// A process that works on jobs. Its id is made anew at each start, so that nobody is ever taken for a dead one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Worker {
    /// The id of this start.
    pub id: Uuid,
    /// The process.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
}

impl Worker {
    /// Returns the present process.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Worker> = OnceLock::new();
        THIS.get_or_init(|| Self {
            id: Uuid::new_v4(),
            pid: std::process::id(),
            host: host(),
        })
    }

    /// Says whether it was a process of this machine that is no more. Of another machine's nothing is known, and of one
    /// whose number another process has by now neither.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        self.host == Self::this().host
            && pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.id, self.pid, self.host)
    }
}

/// A text that names no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id, a process and a host")]
pub struct NoWorker;

impl FromStr for Worker {
    type Err = NoWorker;

    fn from_str(text: &str) -> Result<Self, NoWorker> {
        let mut parts = text.splitn(3, ' ');
        let mut next = || parts.next().ok_or(NoWorker);
        Ok(Self {
            id: next()?.parse().map_err(|_| NoWorker)?,
            pid: next()?.parse().map_err(|_| NoWorker)?,
            host: next()?.into(),
        })
    }
}

/// Returns the machine's name, `localhost` when it has none that we can find.
pub(super) fn host() -> String {
    let known = [
        std::fs::read_to_string("/proc/sys/kernel/hostname").ok(),
        std::fs::read_to_string("/etc/hostname").ok(),
        std::env::var("HOSTNAME").ok(),
    ];
    known
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_reads_back_as_it_was_written() {
        let mut worker = Worker::this().clone();
        worker.host = "a host with spaces".into();
        assert_eq!(worker.to_string().parse(), Ok(worker));
        for bad in ["", "x", "x 1 h", "7f3e 1 h"] {
            assert_eq!(bad.parse::<Worker>(), Err(NoWorker), "{bad:?}");
        }
    }
}
