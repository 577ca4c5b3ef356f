//! `wiki-sync config`

use serde::Serialize;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open;
use crate::cli::out::{Style, clean};
use crate::config::KEYS;

/// Show every setting with its value and where the value comes from
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {}

#[derive(Serialize)]
struct Setting {
    key: String,
    value: String,
    origin: String,
    variable: String,
    meaning: &'static str,
}

pub(super) fn run(_args: &ConfigArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let (_, config) = open::settings(&cx.start, &cx.flags)?;
    cx.warn(&config.warnings);
    let settings: Vec<_> = KEYS
        .iter()
        .map(|key| Setting {
            key: key.full_name(),
            value: match key.full_name().as_str() {
                "alert.webhook.url" => host_only(&key.render(&config)),
                name if name.ends_with("url") => url(&key.render(&config)),
                _ => without_password(&key.render(&config)),
            },
            origin: config.origin(key).to_string(),
            variable: key.variable(),
            meaning: key.doc,
        })
        .collect();
    if cx.out.is_json() {
        cx.out.json(&settings);
        return Ok(Exit::Ok);
    }
    let width = |of: fn(&Setting) -> &str| settings.iter().map(|s| of(s).chars().count()).max();
    let keys = width(|s| &s.key).unwrap_or(0);
    let values = width(|s| &s.value).unwrap_or(0);
    for setting in &settings {
        let line = format!("{:keys$} = {:values$}", setting.key, clean(&setting.value));
        let origin = cx.out.paint(Style::Dim, &setting.origin).into_owned();
        cx.out.line(format_args!("{line}  {origin}"));
    }
    Ok(Exit::Ok)
}

/// Returns a value with the user and password of a URL in it hidden.
fn without_password(value: &str) -> String {
    match value.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://***@{host}"),
            None => value.into(),
        },
        None => value.into(),
    }
}

/// Returns a URL, as TOML, without what may be a password: its user, and all behind a `?` or `#`. Nothing of it is shown
/// when it is none, as somebody's password may be what is wrong with it.
fn url(value: &str) -> String {
    let text = value.trim_matches(['"', '\'']);
    if text.is_empty() || text.ends_with(':') && is_scheme(text.trim_end_matches(':')) {
        return value.into();
    }
    let shown = text.split_once("://").and_then(|(scheme, rest)| {
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((_, host)) => ("***@", host),
            None => ("", authority),
        };
        // Behind the host an `@` is the end of a password with a `/` or `?` in it.
        if !is_scheme(scheme) || !is_host(host) || tail.contains('@') {
            return None;
        }
        let (path, secret) = match tail.find(['?', '#']) {
            Some(at) => (&tail[..at], "?***"),
            None => (tail, ""),
        };
        Some(format!("\"{scheme}://{user}{host}{path}{secret}\""))
    });
    shown.unwrap_or_else(|| "\"***\"".into())
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Whether it is a host with or without a port, or nothing.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        Some(_) | None => (text, ""),
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_name = match bare {
        Some(address) => address
            .chars()
            .all(|c| c.is_ascii_hexdigit() || ":.%".contains(c)),
        None => name
            .chars()
            .all(|c| c.is_alphanumeric() || "-._".contains(c)),
    };
    is_name && port.chars().all(|c| c.is_ascii_digit()) && (port.is_empty() || !name.is_empty())
}

/// Returns a URL, as TOML, of which only the host is shown: a webhook's path is its password.
fn host_only(value: &str) -> String {
    let shown = url(value);
    match shown.split_once("://") {
        Some((scheme, rest)) => match rest.split_once(['/', '?', '#']) {
            Some((host, path)) if path != "\"" => format!("{scheme}://{host}/***\""),
            Some(_) | None => shown,
        },
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_webhook_only_the_host_is_shown() {
        for (value, shown) in [
            ("\"\"", "\"\""),
            ("\"https://host\"", "\"https://host\""),
            ("\"https://host/\"", "\"https://host/\""),
            ("\"https://host/T0/s3cret\"", "\"https://host/***\""),
            (
                "\"https://me:pw@host?key=s3cret\"",
                "\"https://***@host/***\"",
            ),
        ] {
            assert_eq!(host_only(value), shown);
        }
    }

    #[test]
    fn of_a_url_no_query_is_shown_and_nothing_of_one_that_is_none() {
        for (value, shown) in [
            ("\"\"", "\"\""),
            ("\"sqlite:\"", "\"sqlite:\""),
            ("\"redis://host:6379/0\"", "\"redis://host:6379/0\""),
            ("\"redis://[::1]:6379/0\"", "\"redis://[::1]:6379/0\""),
            ("\"redis://me:p@ss@host/0\"", "\"redis://***@host/0\""),
            ("\"unix:///x.sock?pass=S3CRET\"", "\"unix:///x.sock?***\""),
            ("\"redis://h/0?password=S3CRET\"", "\"redis://h/0?***\""),
            ("\"redis://h/0?password=S3@CRET\"", "\"***\""),
            ("\"redis://h/0#S3CRET\"", "\"redis://h/0?***\""),
            ("\"redis://me:S3/CRET@host/0\"", "\"***\""),
            ("\"redis://me:S3?CRET@host/0\"", "\"***\""),
            ("\"redis://:S3CRET\"", "\"***\""),
            ("\"redis:me:S3CRET@host\"", "\"***\""),
            ("\"S3CRET\"", "\"***\""),
            ("'redis://me:S3\"CRET@host'", "\"redis://***@host\""),
        ] {
            assert_eq!(url(value), shown, "{value}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_never_shown() {
        for (value, shown) in [
            ("\"edge:\"", "\"edge:\""),
            ("\"http://host:6334\"", "\"http://host:6334\""),
            ("\"redis://me:p@ss@host/0\"", "\"redis://***@host/0\""),
        ] {
            assert_eq!(without_password(value), shown);
        }
    }
}
