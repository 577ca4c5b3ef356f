//! The spool: jobs that the outbox could not take, kept as lines of the wire until it can.
//!
//! One file, to which whoever cannot enqueue appends, and which whoever hands it over removes, each under the spool's own
//! lock. It is removed only after the outbox holds all of it, so that whoever is killed in between hands it over twice.
//! What a killed writer left is a last line without an end: nobody was told that it is kept.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::StateDir;
use super::lock::lock_file;
use crate::model::{Failure, FailureKind, Job};

/// The most bytes that are kept: some 100,000 jobs.
const MOST: u64 = 16 << 20;
/// How long to wait for whoever keeps or hands over at this moment.
const TURN: Duration = Duration::from_secs(10);

/// What is kept, in hand: nobody adds to it meanwhile.
#[derive(Debug)]
pub struct Kept {
    _lock: File,
    state: StateDir,
    bytes: Vec<u8>,
}

impl StateDir {
    /// Keeps jobs until the outbox can take them, behind those that are kept. When it returns, they outlive a power cut.
    ///
    /// # Errors
    /// `Down` when they cannot be written or too many are kept, `Busy` when the spool is not free in time. Then none is kept.
    pub fn keep_jobs(&self, jobs: &[Job]) -> Result<(), Failure> {
        self.create()?;
        let _lock = self.lock_spool()?;
        let mut lines = String::new();
        for job in jobs {
            lines.push_str(&job.to_line());
            lines.push('\n');
        }
        let kept = self
            .append(lines.as_bytes())
            .map_err(|e| self.spool_failure(&e))?;
        fail::fail_point!("spool.kept");
        if kept {
            return Ok(());
        }
        let reason = format!("{} is full", self.spool().display());
        Err(Failure::new(FailureKind::Down, reason))
    }

    /// Says whether any job is kept. Costs a look at one file.
    #[must_use]
    pub fn keeps_jobs(&self) -> bool {
        self.spool().symlink_metadata().is_ok()
    }

    /// Returns the jobs that are kept, the oldest first. A line that is none is passed over: whoever hands over deals with it.
    ///
    /// # Errors
    /// `Down` when they cannot be read.
    pub fn kept_jobs(&self) -> Result<Vec<Job>, Failure> {
        let bytes = self.read_spool()?.unwrap_or_default();
        let texts = lines(&bytes).filter_map(|line| str::from_utf8(line).ok());
        Ok(texts.filter_map(|line| Job::from_line(line).ok()).collect())
    }

    /// Takes what is kept in hand, where anything is. It stays kept until it is [handed over](Kept::handed_over).
    ///
    /// # Errors
    /// `Down` when it cannot be read, `Busy` when the spool is not free in time.
    pub fn take_kept(&self) -> Result<Option<Kept>, Failure> {
        if !self.keeps_jobs() {
            return Ok(None);
        }
        let lock = self.lock_spool()?;
        // Somebody else may have handed it over meanwhile.
        Ok(self.read_spool()?.map(|bytes| Kept {
            _lock: lock,
            state: self.clone(),
            bytes,
        }))
    }

    /// Appends whole lines, or nothing. Says whether there was room.
    fn append(&self, lines: &[u8]) -> io::Result<bool> {
        let mut file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(self.spool())?;
        let end = whole(&file)?;
        file.set_len(end)?;
        if end + lines.len() as u64 > MOST {
            return Ok(false);
        }
        if let Err(e) = file.write_all(lines).and_then(|()| file.sync_all()) {
            file.set_len(end)?;
            return Err(e);
        }
        if end == 0 {
            self.sync_folder()?;
        }
        Ok(true)
    }

    fn read_spool(&self) -> Result<Option<Vec<u8>>, Failure> {
        match fs::read(self.spool()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.spool_failure(&e)),
        }
    }

    fn lock_spool(&self) -> Result<File, Failure> {
        let path = self.path().join("spool.lock");
        lock_file(&path, TURN, self.stop(), "another use of the spool")
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.path())?.sync_all()
    }

    fn spool(&self) -> PathBuf {
        self.path().join("spool")
    }

    fn spool_failure(&self, error: &io::Error) -> Failure {
        let doing = format!("cannot use {}", self.spool().display());
        Failure::from_error(FailureKind::Down, &doing, error)
            .hint("if it cannot be mended, move it away: a scan finds changed pages, labels must be said again")
    }
}

/// Returns how long the file is without what a killed writer left at its end.
fn whole(mut file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut last = [0];
    if length == 0 || file.read_at(&mut last, length - 1)? == 1 && last[0] == b'\n' {
        return Ok(length);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    Ok(end.map_or(0, |end| end as u64 + 1))
}

/// Returns the lines that have an end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines.filter_map(|line| line.strip_suffix(b"\n"))
}

impl Kept {
    /// Returns the lines, the oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        lines(&self.bytes)
    }

    /// Keeps it no longer: the outbox holds it. When it returns, no power cut brings it back, whatever is enqueued later.
    ///
    /// # Errors
    /// `Down` when that cannot be done; then it is handed over once more.
    pub fn handed_over(self) -> Result<(), Failure> {
        fs::remove_file(self.state.spool())
            .and_then(|()| self.state.sync_folder())
            .map_err(|e| self.state.spool_failure(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, PagePath};

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().expect("a folder");
        let state = StateDir::of(temp.path());
        (temp, state)
    }

    fn job(name: &str) -> Job {
        let path = PagePath::parse(&format!("wiki-output/{name}.md"));
        Job {
            labels: Labels {
                repo: "demo".into(),
                commit_sha: "줄\n바꿈".into(),
            },
            ..Job::for_page(path.expect("a page's path"), None)
        }
    }

    fn jobs(kept: &Kept) -> Vec<Job> {
        let line = |line| Job::from_line(str::from_utf8(line).expect("UTF-8")).expect("a job");
        kept.lines().map(line).collect()
    }

    #[test]
    fn jobs_are_kept_in_their_order_until_they_are_handed_over() {
        let (_temp, state) = state();
        assert!(state.take_kept().expect("read").is_none());
        state.keep_jobs(&[job("a"), job("b")]).expect("kept");
        state.keep_jobs(&[job("a")]).expect("kept");
        drop(state.take_kept().expect("read").expect("some"));
        assert_eq!(state.kept_jobs().map(|jobs| jobs.len()), Ok(3));
        let kept = state.take_kept().expect("read").expect("some");
        assert_eq!(jobs(&kept), [job("a"), job("b"), job("a")]);
        kept.handed_over().expect("removed");
        assert_eq!(state.kept_jobs(), Ok(vec![]));
        assert!(!state.keeps_jobs());
    }

    #[test]
    fn what_a_killed_writer_left_spoils_no_line() {
        let (_temp, state) = state();
        state.keep_jobs(&[job("a")]).expect("kept");
        let torn = [
            &fs::read(state.spool()).expect("read")[..],
            b"{\"sha\":\"\0\0",
        ]
        .concat();
        fs::write(state.spool(), &torn).expect("written");
        let kept = state.take_kept().expect("read").expect("some");
        assert_eq!(jobs(&kept), [job("a")]);
        drop(kept);
        state.keep_jobs(&[job("b")]).expect("kept");
        let kept = state.take_kept().expect("read").expect("some");
        assert_eq!(jobs(&kept), [job("a"), job("b")]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_too_much_is_refused_whole() {
        let (_temp, state) = state();
        let long = |name: &str| {
            let mut job = job(name);
            job.labels.repo = "x".repeat(1 << 20);
            job
        };
        let many: Vec<_> = (0..15).map(|n| long(&n.to_string())).collect();
        state.keep_jobs(&many).expect("kept");
        let full = state.keep_jobs(&[long("a"), long("b")]).expect_err("full");
        assert_eq!(full.kind, FailureKind::Down);
        assert!(full.reason.ends_with("spool is full"), "{full}");
        assert_eq!(state.kept_jobs().map(|jobs| jobs.len()), Ok(15));
        state.keep_jobs(&[job("small")]).expect("kept");
        assert_eq!(state.kept_jobs().map(|jobs| jobs.len()), Ok(16));
    }

    #[test]
    fn of_what_many_keep_while_others_hand_over_nothing_is_lost() {
        let (_temp, state) = state();
        let seen = std::sync::Mutex::new(Vec::new());
        let (state, seen) = (&state, &seen);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || {
                    for n in 0..25 {
                        let job = job(&format!("{writer} {n}"));
                        state.keep_jobs(&[job]).expect("kept");
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    while seen.lock().expect("nobody panicked").len() < 100 {
                        if let Some(kept) = state.take_kept().expect("read") {
                            let some = jobs(&kept);
                            kept.handed_over().expect("removed");
                            seen.lock().expect("nobody panicked").extend(some);
                        }
                        std::thread::yield_now();
                    }
                });
            }
        });
        let seen = seen.lock().expect("nobody panicked");
        let mut names: Vec<_> = seen.iter().map(|job| job.path.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), seen.len()), (100, 100));
    }
}
