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

/// Returns a URL, as TOML, of which only the host is shown: a webhook's path is its password.
fn host_only(value: &str) -> String {
    let shown = without_password(value);
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
