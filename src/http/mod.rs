//! Asking other programs over HTTP: bounded in time, never led elsewhere, and with errors that give nothing away.

use std::time::Duration;

use ureq::http::Uri;
use ureq::{Agent, Proxy};

use crate::model::Secret;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// Makes a client for one host. A request takes no longer than `whole`, a redirection is an answer like any other, and
/// so is a status that tells of an error.
///
/// A proxy from the environment is used for https alone, where it sees neither secrets nor text.
#[must_use]
pub fn agent(uri: &Uri, whole: Duration) -> Agent {
    let is_tunnel = uri.scheme_str() == Some("https") && !is_loopback(uri);
    let proxy = is_tunnel.then(Proxy::try_from_env).flatten();
    Agent::config_builder()
        .proxy(proxy)
        .timeout_connect(Some(CONNECT.min(whole)))
        .timeout_global(Some(whole))
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("wiki-sync/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Says what went wrong in words of ours: the library's may hold the URL, and so a secret.
#[must_use]
pub fn explain(error: &ureq::Error, host: &str, whole: Duration) -> String {
    use ureq::Error as E;
    match error {
        E::Timeout(_) => format!("{host} did not answer within {} s", whole.as_secs_f32()),
        E::HostNotFound => format!("host {host} is not known"),
        E::Io(e) => match e.kind() {
            std::io::ErrorKind::ConnectionRefused => format!("{host} refused the connection"),
            // The system's own words, which hold nothing of ours, where the library has none.
            _ if e.raw_os_error().is_some() => format!("connection to {host} failed: {e}"),
            kind => format!("connection to {host} failed: {kind}"),
        },
        E::ConnectionFailed => format!("cannot connect to {host}"),
        E::Tls(_) | E::Rustls(_) | E::Pem(_) | E::TlsRequired => {
            format!("no secure connection to {host}: its certificate or protocol is not accepted")
        }
        E::InvalidProxyUrl | E::ConnectProxyFailed(_) => {
            "the proxy named in the environment does not let it through".into()
        }
        // A bad answer, whatever it was.
        _ => format!("{host} gave no proper answer"),
    }
}

/// Returns a foreign program's own words in one line, not too long, and without the secret that it was sent.
#[must_use]
pub fn told(words: &str, secret: Option<&Secret>) -> String {
    /// The most characters of them that are kept.
    const LONGEST: usize = 200;
    let line: String = words.chars().filter(|c| !c.is_control()).collect();
    // Hidden before it is cut, or a part of it would stay.
    let safe = secret.map_or_else(|| line.clone(), |secret| secret.hide(&line));
    safe.chars().take(LONGEST).collect()
}

/// Reads a URL.
///
/// # Errors
/// When it is not http or https, or names no host. The URL is not shown, as it may hold a secret.
pub fn parse(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|_| "not a URL")?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    if known && uri.host().is_some_and(|host| !host.is_empty()) {
        Ok(uri)
    } else {
        Err("not a URL that begins with https:// or http://".into())
    }
}

/// Whether a secret that is sent to this URL crosses a network in clear text.
#[must_use]
pub fn is_clear(uri: &Uri) -> bool {
    uri.scheme_str() == Some("http") && !is_loopback(uri)
}

/// Whether a URL leads to this machine.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_systems_is_told_in_its_words() {
        for code in [71, 111, 113] {
            let error = std::io::Error::from_raw_os_error(code);
            let told = explain(&error.into(), "host:1", Duration::from_secs(1));
            assert!(!told.contains("uncategorized"), "{told}");
            let named = told.contains(&format!("os error {code}"));
            assert!(named || told.contains("refused"), "{told}");
        }
    }

    #[test]
    fn no_part_of_a_secret_is_in_what_a_server_told() {
        let secret = Secret::new("S3CRET");
        for words in [
            "key S3CRET".to_owned(),
            "key S3\nCR\0ET".into(),
            format!("{}S3CRET", "x".repeat(197)),
        ] {
            let told = told(&words, Some(&secret));
            assert!(
                !told.contains("S3") && told.chars().count() <= 200,
                "{told}"
            );
        }
        assert_eq!(told("a\nb", None), "ab");
    }
}
