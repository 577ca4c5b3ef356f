//! Which channels there are, from settings and the secret token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::http;
use crate::model::{Failure, FailureKind, Secret};

/// The environment variable that holds the Telegram bot's token.
pub const TOKEN_VARIABLE: &str = "WIKI_SYNC_ALERT_TELEGRAM_TOKEN";
/// What a command is told by, in its environment.
pub(super) const KIND_VARIABLE: &str = "WIKI_SYNC_ALERT_KIND";
pub(super) const TITLE_VARIABLE: &str = "WIKI_SYNC_ALERT_TITLE";

/// Variables with our prefix that are no settings.
pub const VARIABLES: [&str; 3] = [TOKEN_VARIABLE, KIND_VARIABLE, TITLE_VARIABLE];

/// Who is told, and how. Sections `[alert]`, `[alert.telegram]` and `[alert.webhook]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertSettings {
    /// A program and its arguments; none when empty.
    pub command: Vec<String>,
    /// The chat that a Telegram bot writes to; none when empty.
    pub chat_id: String,
    /// Where the Bot API is.
    pub base_url: String,
    /// A file with the bot's token, relative to the root; none when empty.
    pub token_file: String,
    /// Where JSON is posted; nowhere when empty. It may hold a secret.
    pub webhook_url: String,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            chat_id: String::new(),
            base_url: "https://api.telegram.org".into(),
            token_file: String::new(),
            webhook_url: String::new(),
        }
    }
}

/// A way to tell a person.
#[derive(Debug, Clone)]
pub enum Channel {
    /// A Telegram bot.
    Telegram {
        /// Where the Bot API is, without the token.
        base_url: String,
        /// The bot's token.
        token: Secret,
        /// The chat.
        chat_id: String,
    },
    /// A POST of JSON.
    Webhook {
        /// Where to.
        url: Secret,
    },
    /// A program that gets the text on stdin.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// The folder it runs in.
        root: PathBuf,
    },
}

impl Channel {
    /// Returns the name it has in tables and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Telegram { .. } => "telegram",
            Self::Webhook { .. } => "webhook",
            Self::Command { .. } => "command",
        }
    }
}

/// Returns the Bot API's address of a bot's method: it holds the token.
pub(super) fn telegram_url(base_url: &str, token: &Secret, method: &str) -> String {
    format!(
        "{}/bot{}/{method}",
        base_url.trim_end_matches('/'),
        token.reveal()
    )
}

impl AlertSettings {
    /// Returns the channels that can be used, and what is wrong with those that were meant and cannot.
    ///
    /// `token` is the bot's token, or why it could not be read; `root` the folder a command runs in.
    #[must_use]
    pub fn channels(
        &self,
        token: Result<Option<Secret>, Failure>,
        root: &Path,
    ) -> (Vec<Channel>, Vec<Failure>) {
        let mut channels = Vec::new();
        let mut wrong = Vec::new();
        match self.telegram(token) {
            Ok(telegram) => channels.extend(telegram),
            Err(failure) => wrong.push(failure),
        }
        if !self.webhook_url.is_empty() {
            channels.push(Channel::Webhook {
                url: Secret::new(&self.webhook_url),
            });
        }
        if !self.command.is_empty() {
            channels.push(Channel::Command {
                command: self.command.clone(),
                root: root.into(),
            });
        }
        (channels, wrong)
    }

    fn telegram(&self, token: Result<Option<Secret>, Failure>) -> Result<Option<Channel>, Failure> {
        let wrong = |reason: &str| Failure::new(FailureKind::Refused, reason);
        let token = match (token?, self.chat_id.is_empty()) {
            (None, true) => return Ok(None),
            (None, false) => {
                return Err(wrong("alert.telegram.chat_id is set, and there is no token").hint(
                    format!("put the bot's token in {TOKEN_VARIABLE}, or in a file that alert.telegram.token_file names"),
                ));
            }
            (Some(_), true) => {
                return Err(wrong(
                    "a Telegram token is given, and alert.telegram.chat_id is not set",
                )
                .hint("set alert.telegram.chat_id to the chat that is to be told"));
            }
            (Some(token), false) => token,
        };
        // It becomes part of a URL, and must not lead elsewhere.
        let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
        if token.reveal().is_empty() || !token.reveal().chars().all(is_token) {
            return Err(wrong("the Telegram token is none").hint(
                "a token is letters, digits, `_`, `-` and one `:`, as the BotFather gave it",
            ));
        }
        Ok(Some(Channel::Telegram {
            base_url: self.base_url.clone(),
            token,
            chat_id: self.chat_id.clone(),
        }))
    }
}

/// Says what is wrong with the Bot API's URL: the token in it must not cross a network in clear text.
///
/// # Errors
/// When it is not https, and not http to this machine.
pub fn check_base_url(url: &str) -> Result<(), String> {
    if http::is_clear(&http::parse(url)?) {
        return Err("http would send the token in clear text; use https".into());
    }
    Ok(())
}

/// Says what is wrong with the webhook's URL, without showing it. Empty is none.
///
/// # Errors
/// When it is not http or https.
pub fn check_webhook_url(url: &str) -> Result<(), String> {
    if url.is_empty() {
        return Ok(());
    }
    http::parse(url).map(drop)
}

/// When an alert that could not be delivered is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Waits between attempts; the last one repeats.
    pub waits: Vec<Duration>,
    /// The age at which an alert is dropped: it would only puzzle.
    pub give_up: Duration,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        Self {
            waits: [1, 5, 30].map(Duration::from_mins).into(),
            give_up: Duration::from_hours(24),
        }
    }
}

impl DeliveryPolicy {
    /// Returns how long to wait after an attempt, when `before` attempts went before it.
    #[must_use]
    pub fn wait(&self, before: usize) -> Duration {
        let last = self.waits.len().saturating_sub(1);
        self.waits
            .get(before.min(last))
            .copied()
            .unwrap_or(self.give_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_that_was_meant_and_cannot_be_used_is_told() {
        let chat = AlertSettings {
            chat_id: "-100".into(),
            ..AlertSettings::default()
        };
        let none = AlertSettings::default();
        for (settings, given, reason) in [
            (&chat, Ok(None), "there is no token"),
            (&none, Ok(Some(Secret::new("1:x"))), "chat_id is not set"),
            (&chat, Ok(Some(Secret::new("1:x/../y"))), "token is none"),
            (&chat, Ok(Some(Secret::new(""))), "token is none"),
            (
                &chat,
                Err(Failure::new(FailureKind::Refused, "cannot read it")),
                "cannot read it",
            ),
        ] {
            let (channels, wrong) = settings.channels(given, Path::new("/"));
            assert!(channels.is_empty(), "{channels:?}");
            assert!(wrong[0].reason.contains(reason), "{wrong:?}");
            assert!(!format!("{wrong:?}").contains("1:x"), "{wrong:?}");
        }
        let (channels, wrong) = chat.channels(Ok(Some(Secret::new(" 1:A_b-c\n"))), Path::new("/"));
        assert_eq!((channels.len(), wrong.len()), (1, 0));
        assert!(!format!("{channels:?}").contains("A_b-c"), "{channels:?}");
        let (channels, wrong) = none.channels(Ok(None), Path::new("/"));
        assert_eq!((channels.len(), wrong.len()), (0, 0));
    }

    #[test]
    fn the_token_crosses_no_network_in_clear_text() {
        for (url, ok) in [
            ("https://api.telegram.org", true),
            ("http://127.0.0.1:8081", true),
            ("http://localhost:8081/x/", true),
            ("http://[::1]:1", true),
            ("http://api.telegram.org", false),
            ("http://127.0.0.1.example.org", false),
            ("ftp://localhost", false),
            ("api.telegram.org", false),
            ("", false),
        ] {
            assert_eq!(check_base_url(url).is_ok(), ok, "{url:?}");
        }
        let error = check_webhook_url("hooks.example.org/secret").expect_err("no scheme");
        assert!(!error.contains("secret"));
        assert!(check_webhook_url("").is_ok());
    }

    #[test]
    fn deliveries_are_tried_after_1_5_30_30_minutes() {
        let policy = DeliveryPolicy::default();
        let waits: Vec<_> = (0..5).map(|n| policy.wait(n).as_secs() / 60).collect();
        assert_eq!(waits, [1, 5, 30, 30, 30]);
    }
}
