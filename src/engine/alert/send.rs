//! Sending one message by one channel, in bounded time. No error says more than is safe to show.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Uri;

use super::settings::{Channel, KIND_VARIABLE, TITLE_VARIABLE, TOKEN_VARIABLE, telegram_url};
use super::text::Message;
use crate::http;
use crate::model::{Secret, Timestamp};

/// How long a request, or a command, may take as a whole.
const WHOLE: Duration = Duration::from_secs(10);
/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The most bytes of an answer that are read.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undelivered {
    /// Without token and URL.
    pub(super) reason: String,
    /// How long the other side wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl Undelivered {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            retry_after: None,
        }
    }
}

/// The command that runs now, so that it can be ended from outside; see [`Running::end`].
#[derive(Debug, Clone, Default)]
pub(super) struct Running(Arc<Mutex<Run>>);

#[derive(Debug, Default)]
struct Run {
    child: Option<Child>,
    is_over: bool,
}

impl Running {
    /// Kills the command that runs, if one does, and lets no other begin.
    pub(super) fn end(&self) {
        let mut run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run.is_over = true;
        if let Some(mut child) = run.child.take() {
            end_group(&mut child);
        }
    }
}

/// Kills a command and all that it started in its group, and waits for it.
fn end_group(child: &mut Child) {
    // The group bears the command's id, which is its own until it is waited for; one that has ended is as good.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// One channel, with what is kept between messages. Made in the channel's own thread.
pub(super) struct Sender {
    channel: Channel,
    agent: Option<Agent>,
    running: Running,
    whole: Duration,
}

impl Sender {
    pub(super) fn new(channel: Channel, running: Running) -> Self {
        Self {
            channel,
            agent: None,
            running,
            whole: WHOLE,
        }
    }

    /// Delivers a message; returns after [`WHOLE`] at the latest.
    pub(super) fn send(&mut self, message: &Message, now: Timestamp) -> Result<(), Undelivered> {
        match self.channel.clone() {
            Channel::Telegram {
                base_url,
                token,
                chat_id,
            } => {
                let body = json!({
                    "chat_id": chat_id,
                    "text": message.text_at(now),
                    // Else `a.md` is taken for a link into the domain of Moldova, and shown with a picture of it.
                    "link_preview_options": {"is_disabled": true},
                });
                self.post(
                    &telegram_url(&base_url, &token, "sendMessage"),
                    &body,
                    Some(&token),
                )
            }
            Channel::Webhook { url } => {
                let body = json!({
                    "kind": message.kind,
                    "store": message.store,
                    "title": message.title,
                    "text": message.text,
                    "at": message.at.0,
                    "count": message.count,
                });
                self.post(url.reveal(), &body, None)
            }
            Channel::Command { command, root } => {
                let [program, args @ ..] = command.as_slice() else {
                    return Err(Undelivered::new("no program is named"));
                };
                let program = program_path(program, &root);
                let mut command = Command::new(program);
                command.args(args).current_dir(root);
                self.run(command, message, now)
            }
        }
    }

    /// Sends a request. `bot` is the token where it is the Bot API that answers: only then its words are told. Any part of a
    /// webhook's URL may be its password, and a server that gives back what it was asked would show it.
    fn post(&mut self, url: &str, body: &Value, bot: Option<&Secret>) -> Result<(), Undelivered> {
        let uri: Uri = url.parse().map_err(|_| Undelivered::new("not a URL"))?;
        let whole = self.whole;
        let agent = self.agent.get_or_insert_with(|| http::agent(&uri, whole));
        let host = uri.host().unwrap_or_default().to_owned();
        let sent = agent
            .post(uri)
            .header("content-type", "application/json")
            .send(body.to_string());
        let mut answer = sent.map_err(|e| Undelivered::new(http::explain(&e, &host, whole)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let header = answer
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        // Only what the Bot API documents: a foreign page of HTML helps nobody.
        let told = read_json(&mut answer);
        let words = bot.map_or_else(String::new, |token| bot_words(&told, token));
        let seconds = told["parameters"]["retry_after"].as_u64().or(header);
        Err(Undelivered {
            reason: format!("{host} answered {}{words}", status.as_u16()),
            retry_after: seconds.map(Duration::from_secs),
        })
    }

    fn run(
        &mut self,
        mut command: Command,
        message: &Message,
        now: Timestamp,
    ) -> Result<(), Undelivered> {
        for (name, _) in std::env::vars_os() {
            if may_be_secret(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command
            .env(KIND_VARIABLE, &message.kind)
            .env(TITLE_VARIABLE, &message.title)
            // A group of its own, so that what it starts ends with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let end = Instant::now() + self.whole;
        let input = {
            let mut run = self
                .running
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if run.is_over {
                return Err(Undelivered::new("no time was left to run it"));
            }
            let mut child = command
                .spawn()
                .map_err(|e| Undelivered::new(format!("cannot be started: {e}")))?;
            let input = child.stdin.take();
            run.child = Some(child);
            input
        };
        if let Some(mut input) = input {
            // Shorter than a pipe holds, so it never blocks; a program need not read it.
            let _ = input.write_all(message.text_at(now).as_bytes());
        }
        loop {
            {
                let mut run = self
                    .running
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let Some(child) = &mut run.child else {
                    return Err(Undelivered::new("was ended with the drain"));
                };
                match child.try_wait() {
                    Ok(Some(status)) => {
                        run.child = None;
                        return if status.success() {
                            Ok(())
                        } else {
                            Err(Undelivered::new(format!("ended with {status}")))
                        };
                    }
                    Ok(None) if Instant::now() < end => {}
                    Ok(None) | Err(_) => {
                        end_group(child);
                        run.child = None;
                        let whole = self.whole.as_secs_f32();
                        return Err(Undelivered::new(format!("ran longer than {whole} s")));
                    }
                }
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Returns what is started for a program that is named: one with a slash is looked for from the root.
pub(super) fn program_path(program: &str, root: &Path) -> PathBuf {
    if program.contains('/') {
        root.join(program)
    } else {
        program.into()
    }
}

/// Returns the Bot API's own words for what went wrong, without the token; nothing where it is not the Bot API that answers.
pub(super) fn bot_words(told: &Value, secret: &Secret) -> String {
    match told["description"].as_str() {
        Some(words) => format!(": {}", http::told(words, Some(secret))),
        None => String::new(),
    }
}

/// Reads an answer's body, where it is JSON and not too long.
pub(super) fn read_json(answer: &mut ureq::http::Response<ureq::Body>) -> Value {
    let bytes = answer.body_mut().with_config().limit(LONGEST_ANSWER);
    let bytes = bytes.read_to_vec().ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Says whether a variable of ours may hold a secret: a URL may have a password in it.
fn may_be_secret(name: &str) -> bool {
    name == TOKEN_VARIABLE
        || name.starts_with("WIKI_SYNC_")
            && ["URL", "KEY", "TOKEN", "SECRET", "PASS"]
                .iter()
                .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::alert::tests::{Answer, Server, message};

    const TOKEN: &str = "123:SECRET-token";

    fn sender(channel: Channel, whole: Duration) -> Sender {
        Sender {
            whole,
            ..Sender::new(channel, Running::default())
        }
    }

    fn telegram(base_url: &str) -> Sender {
        let channel = Channel::Telegram {
            base_url: base_url.into(),
            token: Secret::new(TOKEN),
            chat_id: "-1001".into(),
        };
        sender(channel, Duration::from_millis(400))
    }

    fn command(script: &str, whole: Duration) -> Sender {
        let channel = Channel::Command {
            command: vec!["sh".into(), "-c".into(), script.into()],
            root: PathBuf::from("/"),
        };
        sender(channel, whole)
    }

    #[test]
    fn telegram_gets_the_text_as_the_bot_api_wants_it() {
        let server = Server::start(Answer::Ok);
        telegram(&format!("{}/", server.url))
            .send(&message("한글 *no* <b>markup</b>"), Timestamp(0))
            .expect("delivered");
        let request = server.requests().remove(0);
        assert_eq!(
            request.head.lines().next(),
            Some("POST /bot123:SECRET-token/sendMessage HTTP/1.1")
        );
        assert_eq!(
            request.body,
            json!({
                "chat_id": "-1001",
                "text": "한글 *no* <b>markup</b>",
                "link_preview_options": {"is_disabled": true},
            })
        );
    }

    #[test]
    fn a_webhook_gets_all_that_is_known_as_json() {
        let server = Server::start(Answer::Ok);
        let url = Secret::new(&format!("{}/hook?key=1", server.url));
        sender(Channel::Webhook { url }, WHOLE)
            .send(&message("text"), Timestamp(0))
            .expect("delivered");
        let request = server.requests().remove(0);
        assert!(request.head.starts_with("POST /hook?key=1 HTTP/1.1"));
        assert_eq!(
            request.body,
            json!({"kind": "dead_letter", "store": "git", "title": "title", "text": "text", "at": 5, "count": 2})
        );
    }

    #[test]
    fn what_goes_wrong_is_told_without_the_token() {
        let closed = "http://127.0.0.1:1";
        let found = |answer| {
            let server = Server::start(answer);
            telegram(&server.url)
                .send(&message("x"), Timestamp(0))
                .expect_err("not delivered")
        };
        let limited = found(Answer::TooMany(17));
        assert_eq!(limited.retry_after, Some(Duration::from_secs(17)));
        let failures = [
            (limited, "answered 429"),
            (found(Answer::Fail), "answered 500: no bot***"),
            (found(Answer::Redirect), "answered 302"),
            (found(Answer::Hang), "did not answer within 0.4 s"),
            (found(Answer::Close), "127.0.0.1"),
            (
                telegram(closed)
                    .send(&message("x"), Timestamp(0))
                    .expect_err("nobody listens"),
                "refused the connection",
            ),
        ];
        for (failure, words) in failures {
            assert!(failure.reason.contains(words), "{failure:?}");
            assert!(!failure.reason.contains("SECRET"), "{failure:?}");
        }
    }

    #[test]
    fn a_command_is_told_on_stdin_and_in_its_environment_without_a_shell_or_the_token() {
        let dir = tempfile::tempdir().expect("a folder");
        let told = dir.path().join("told");
        let script = format!(
            "{{ cat; echo; echo \"$WIKI_SYNC_ALERT_KIND|$WIKI_SYNC_ALERT_TITLE|${TOKEN_VARIABLE}\"; }} > {}",
            told.display()
        );
        command(&script, WHOLE)
            .send(&message("text; $(touch x)"), Timestamp(0))
            .expect("delivered");
        assert_eq!(
            std::fs::read_to_string(told).expect("written"),
            "text; $(touch x)\ndead_letter|title|\n"
        );
    }

    #[test]
    fn a_command_that_fails_or_hangs_is_told_and_ended() {
        for (script, words) in [
            ("exit 3", "exit status: 3"),
            ("exec sleep 60", "ran longer than 0.2 s"),
        ] {
            let began = Instant::now();
            let failure = command(script, Duration::from_millis(200))
                .send(&message("x"), Timestamp(0))
                .expect_err("not delivered");
            assert!(failure.reason.contains(words), "{failure:?}");
            assert!(began.elapsed() < Duration::from_secs(5));
        }
        let channel = Channel::Command {
            command: vec!["/no/such/program".into()],
            root: PathBuf::from("/"),
        };
        let failure = sender(channel, WHOLE)
            .send(&message("x"), Timestamp(0))
            .expect_err("no program");
        assert!(failure.reason.contains("cannot be started"), "{failure:?}");
    }

    #[test]
    fn a_command_is_ended_from_outside() {
        let running = Running::default();
        let mut sender = command("exec sleep 60", WHOLE);
        sender.running = running.clone();
        let thread = std::thread::spawn(move || sender.send(&message("x"), Timestamp(0)));
        while running.0.lock().expect("no panic").child.is_none() {
            std::thread::sleep(POLL);
        }
        running.end();
        let failure = thread.join().expect("no panic").expect_err("ended");
        assert!(
            failure.reason.contains("ended with the drain"),
            "{failure:?}"
        );
    }
}
