//! Whether a message would arrive, for `doctor`. Nobody is sent anything: the Bot API is asked who the bot is and whether it
//! knows the chat; a webhook and a command are not called.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Uri;

use super::send::{bot_words, program_path, read_json};
use super::settings::{Channel, TOKEN_VARIABLE, telegram_url};
use crate::http;
use crate::model::{Failure, Finding, Secret};

/// What a finding of ours is called.
const NAME: &str = "alerts";

/// Looks at the channels, and at those that were meant and cannot be used. Each question is given `within`.
#[must_use]
pub fn examine((channels, wrong): &(Vec<Channel>, Vec<Failure>), within: Duration) -> Vec<Finding> {
    if channels.is_empty() && wrong.is_empty() {
        return vec![Finding::note(
            NAME,
            "nobody is told of dead letters and outages",
            format!(
                "set alert.telegram.chat_id and {TOKEN_VARIABLE}, alert.webhook.url or alert.command"
            ),
        )];
    }
    let wrong = wrong.iter();
    let mut found: Vec<_> = wrong
        .map(|failure| Finding::of(NAME, failure, "see the README on alerts"))
        .collect();
    found.extend(channels.iter().map(|channel| match channel {
        Channel::Telegram {
            base_url,
            token,
            chat_id,
        } => telegram(base_url, token, chat_id, within),
        Channel::Webhook { .. } => Finding::ok(NAME, "by webhook (not called)"),
        Channel::Command { command, root } => {
            self::command(command.first().map_or("", String::as_str), root)
        }
    }));
    found
}

/// Asks the Bot API who the bot is, and for the chat.
fn telegram(base_url: &str, token: &Secret, chat_id: &str, within: Duration) -> Finding {
    let ask = |method: &str, body: &Value| -> Result<Value, Finding> {
        let url = telegram_url(base_url, token, method);
        let Ok(uri) = url.parse::<Uri>() else {
            let what = "alert.telegram.base_url is no URL";
            return Err(Finding::fault(NAME, what, "take the setting away"));
        };
        let host = uri.host().unwrap_or_default().to_owned();
        let asked = http::agent(&uri, within)
            .post(uri)
            .header("content-type", "application/json")
            .send(body.to_string());
        let mut answer = asked.map_err(|e| {
            let why = http::explain(&e, &host, within);
            Finding::fault(
                NAME,
                format!("Telegram cannot be reached: {why}"),
                "look at the network, the proxy (HTTPS_PROXY) and alert.telegram.base_url",
            )
        })?;
        let status = answer.status();
        let told = read_json(&mut answer);
        if status.is_success() && told["ok"] == true {
            return Ok(told);
        }
        let words = bot_words(&told, token);
        let hint = match (method, status.as_u16()) {
            (_, 401 | 404) => format!("the token is none that Telegram knows: the BotFather tells it; put it in {TOKEN_VARIABLE}"),
            ("getChat", _) => "correct alert.telegram.chat_id, and write to the bot once (or add it to the group): it knows no chat before".into(),
            _ => "look at alert.telegram.base_url".into(),
        };
        let what = format!("{host} answered {} to {method}{words}", status.as_u16());
        Err(Finding::fault(NAME, what, hint))
    };
    let both = ask("getMe", &json!({}))
        .and_then(|me| ask("getChat", &json!({"chat_id": chat_id})).map(|_| me));
    match both {
        Ok(me) => {
            let name = http::told(
                me["result"]["username"].as_str().unwrap_or("?"),
                Some(token),
            );
            Finding::ok(
                NAME,
                format!("by Telegram, as @{name}, which knows the chat"),
            )
        }
        Err(finding) => finding,
    }
}

fn command(program: &str, root: &Path) -> Finding {
    let path = program_path(program, root);
    let places: Vec<PathBuf> = if path.is_absolute() {
        vec![path]
    } else {
        let search = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&search)
            .map(|folder| folder.join(&path))
            .collect()
    };
    let runs = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if places.iter().any(runs) {
        return Finding::ok(NAME, format!("by the command {program:?} (not called)"));
    }
    Finding::fault(
        NAME,
        format!("the command {program:?} of alert.command is not there, or not executable"),
        "name a program in the PATH, or a path from the wiki's root, that can be run (`chmod +x`)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::alert::tests::{Answer, Server};
    use crate::model::Level;

    const TOKEN: &str = "123:SECRET-token";

    fn ask(base_url: &str) -> Finding {
        telegram(
            base_url,
            &Secret::new(TOKEN),
            "-1",
            Duration::from_millis(400),
        )
    }

    #[test]
    fn telegram_is_asked_who_the_bot_is_and_the_token_is_never_told() {
        for (answer, words) in [
            (Answer::Fail, "answered 500 to getMe: no bot***"),
            (Answer::Redirect, "answered 302"),
            (Answer::Hang, "did not answer within 0.4 s"),
            (Answer::Close, "127.0.0.1"),
        ] {
            let server = Server::start(answer);
            let finding = ask(&server.url);
            assert_eq!(finding.level, Level::Fault, "{finding:?}");
            assert!(finding.what.contains(words), "{finding:?}");
            assert!(!format!("{finding:?}").contains("SECRET"), "{finding:?}");
        }
        let server = Server::start(Answer::Ok);
        let finding = ask(&server.url);
        assert_eq!(finding.level, Level::Ok, "{finding:?}");
        let asked: Vec<_> = server.requests().into_iter().map(|one| one.head).collect();
        assert!(asked[0].starts_with("POST /bot123:SECRET-token/getMe "));
        assert!(asked[1].starts_with("POST /bot123:SECRET-token/getChat "));
        let finding = ask("http://127.0.0.1:1");
        assert!(
            finding.what.contains("refused the connection"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_command_is_looked_for_where_it_would_be_started() {
        let root = tempfile::tempdir().expect("a folder");
        let script = root.path().join("tell.sh");
        fs::write(&script, "#!/bin/sh\n").expect("written");
        let level = |program: &str| command(program, root.path()).level;
        assert_eq!(level("./tell.sh"), Level::Fault, "not executable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
        assert_eq!(level("./tell.sh"), Level::Ok);
        assert_eq!(level("sh"), Level::Ok);
        assert_eq!(level("no-such-program-anywhere"), Level::Fault);
    }
}
