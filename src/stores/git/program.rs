//! The git command line, for what only programs can do: filters and signatures.
//!
//! It runs without what an outer git left in the environment, takes no optional lock, runs no hook, asks
//! nobody, and ends in bounded time: when the time is up, it is killed with all that it started.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::model::{Failure, FailureKind};

/// How much of what a program said goes into a reason, in characters.
const SAID: usize = 400;

/// How long git itself may take where it runs no program of the user's.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// How long a program that is told nothing more may take to end.
const FAREWELL: Duration = Duration::from_secs(2);
/// How many bytes at the end of what a program said are looked at.
const LOOKED_AT: u64 = 8 << 10;

/// How git is called in one work tree.
#[derive(Debug, Clone)]
pub(super) struct Git {
    root: PathBuf,
    /// How long a program may take for one page or one commit.
    wait: Duration,
}

/// Why a program gave no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There is no git to be started.
    Absent(io::Error),
    /// It ended, saying this.
    Failed(String),
    /// It was killed after this long.
    Late(Duration),
}

impl NoAnswer {
    /// Returns the failure of what was being done (`cannot sign the commit`). `Refused`: nothing but a
    /// person's hand makes it better.
    pub(super) fn failure(&self, doing: &str, hint: impl Into<String>) -> Failure {
        let reason = match self {
            Self::Absent(error) => {
                let reason = format!("{doing}: the git command line cannot be started: {error}");
                return Failure::new(FailureKind::Refused, reason)
                    .hint("install git, and see that it is in the PATH of wiki-sync");
            }
            Self::Failed(said) => format!("{doing}: {said}"),
            Self::Late(wait) => {
                format!("{doing}: it was ended after {} s", wait.as_secs_f32())
            }
        };
        Failure::new(FailureKind::Refused, reason).hint(hint)
    }
}

impl Git {
    pub(super) fn at(root: &Path, wait: Duration) -> Self {
        Self {
            root: root.to_path_buf(),
            wait,
        }
    }

    /// Returns git with a command, to be started in the work tree; `settings` go before the user's.
    fn command(&self, args: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        let own = [
            ("core.hooksPath", "/dev/null"),
            ("core.fsmonitor", "false"),
            ("i18n.commitEncoding", "UTF-8"),
        ];
        let mut count = 0;
        // Not by `-c`, which ends a name at its first `=`.
        for (key, value) in own.iter().chain(settings) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command
            .args(args)
            .current_dir(&self.root)
            .env("GIT_CONFIG_COUNT", count.to_string())
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "false")
            // A passphrase that no agent holds is asked for by nobody, least of all on a terminal that is
            // somebody else's.
            .env("GIT_ASKPASS", "false")
            .env("SSH_ASKPASS", "false")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env_remove("GPG_TTY")
            // A group of its own, so that what it starts ends with it.
            .process_group(0);
        command
    }

    /// Runs a command that must end well; returns what it printed.
    pub(super) fn run(&self, args: &[&str]) -> Result<Vec<u8>, NoAnswer> {
        self.run_with::<&str>(args, &[], &[], b"")
    }

    /// As [`Git::run`], with settings, variables and input.
    pub(super) fn run_with<V: AsRef<OsStr>>(
        &self,
        args: &[&str],
        settings: &[(&str, &str)],
        variables: &[(&str, V)],
        input: &[u8],
    ) -> Result<Vec<u8>, NoAnswer> {
        let mut command = self.command(args, settings);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        // Files, not pipes: nobody who inherits one can keep us waiting for its end.
        let mut files = || {
            let mut stdin = tempfile::tempfile()?;
            stdin.write_all(input)?;
            stdin.rewind()?;
            let (out, said) = (tempfile::tempfile()?, tempfile::tempfile()?);
            command.stdin(stdin);
            command.stdout(out.try_clone()?).stderr(said.try_clone()?);
            Ok((out, said))
        };
        let (mut out, mut said) =
            files().map_err(|e: io::Error| NoAnswer::Failed(format!("no temporary file: {e}")))?;
        let mut child = Running(command.spawn().map_err(NoAnswer::Absent)?);
        let Some(status) = child.end_by(Instant::now() + self.wait) else {
            return Err(NoAnswer::Late(self.wait));
        };
        if !status.success() {
            return Err(NoAnswer::Failed(ended(status, &words(&mut said))));
        }
        let mut printed = Vec::new();
        let read = out.rewind().and_then(|()| out.read_to_end(&mut printed));
        read.map_err(|e| NoAnswer::Failed(format!("its answer cannot be read: {e}")))?;
        Ok(printed)
    }

    /// Starts a command that answers each line with a line.
    pub(super) fn converse(
        &self,
        args: &[&str],
        settings: &[(&str, &str)],
        variables: &[(&str, &Path)],
    ) -> Result<Conversation, NoAnswer> {
        let said = tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
        let (said, for_it) =
            said.map_err(|e| NoAnswer::Failed(format!("no temporary file: {e}")))?;
        let mut command = self.command(args, settings);
        command
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(for_it);
        let mut child = Running(command.spawn().map_err(NoAnswer::Absent)?);
        let input = child.0.stdin.take().expect("it is piped");
        let output = child.0.stdout.take().expect("it is piped");
        let (tell, answers) = channel();
        // Ends with the pipe, or with whoever listens.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Conversation {
            child,
            input: Some(input),
            answers,
            said,
            wait: self.wait,
        })
    }
}

/// A child that is killed with its group when it is no longer needed.
struct Running(Child);

impl Running {
    /// Waits for the end, at most until `end`.
    fn end_by(&mut self, end: Instant) -> Option<ExitStatus> {
        let mut pause = Duration::from_micros(200);
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < end => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once it was waited for, its id may be another's.
        if let Ok(Some(_)) = self.0.try_wait() {
            return;
        }
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A program that answers each line with a line.
pub(super) struct Conversation {
    child: Running,
    /// `None` once it gave no answer.
    input: Option<ChildStdin>,
    answers: Receiver<io::Result<String>>,
    said: File,
    wait: Duration,
}

impl Conversation {
    /// Says a line and returns the answer. After an error there is nobody to talk to any more.
    pub(super) fn ask(&mut self, line: &str) -> Result<String, NoAnswer> {
        let end = Instant::now() + self.wait;
        if let Some(input) = &mut self.input {
            // Shorter than a pipe holds, and the one before was answered. That it hears nothing shows below.
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
        let why = match self.answers.recv_timeout(self.wait) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => NoAnswer::Failed(format!("its answer cannot be read: {error}")),
            Err(RecvTimeoutError::Timeout) => NoAnswer::Late(self.wait),
            Err(RecvTimeoutError::Disconnected) => match self.child.end_by(end) {
                Some(status) => NoAnswer::Failed(ended(status, &words(&mut self.said))),
                None => NoAnswer::Late(self.wait),
            },
        };
        self.input = None;
        Err(why)
    }
}

impl Drop for Conversation {
    /// Lets a program that answers come to its end, for a moment; the child's own drop kills what is left.
    fn drop(&mut self) {
        if self.input.take().is_some() {
            self.child.end_by(Instant::now() + FAREWELL);
        }
    }
}

/// Returns what a program said at its end, else how it ended. Git passes on the words of a program that it calls, be they none.
fn ended(status: ExitStatus, said: &str) -> String {
    match said {
        "" => format!("git ended with {status}"),
        "error:" | "fatal:" => {
            format!("the program that git called gave no reason (git ended with {status})")
        }
        said => said.to_owned(),
    }
}

/// Returns the last of a program's words as one line.
fn words(said: &mut File) -> String {
    let mut bytes = Vec::new();
    let len = said.metadata().map_or(0, |meta| meta.len());
    let start = SeekFrom::Start(len.saturating_sub(LOOKED_AT));
    if said
        .seek(start)
        .and_then(|_| said.read_to_end(&mut bytes))
        .is_err()
    {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    let clean = line.replace(char::is_control, " ");
    let skip = clean.chars().count().saturating_sub(SAID);
    clean.chars().skip(skip).collect()
}
