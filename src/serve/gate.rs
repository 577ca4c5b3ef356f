//! Who may ask: the checks that every request passes before anything else looks at it.
//!
//! A page in a browser can send requests to this machine, so an open port alone protects nothing. Each request must name
//! us as its `Host` (else a name that was made to point here could read the answers), come from us where it says where it
//! comes from, and carry the cookie that the address printed at the start was exchanged for.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use super::FORM;
use super::wire::HEAD;

/// What a page of ours may load: nothing but from us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The parameter that carries the token.
const TOKEN: &str = "token";

/// The secrets of one run, and the names by which it may be called.
#[derive(Debug)]
pub(super) struct Gate {
    port: u16,
    /// Exchanged once; then it is gone.
    token: Mutex<Option<String>>,
    session: String,
    csrf: String,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It goes on.
    Pass,
    /// It is sent to this address, with the cookie where it does not have it yet.
    Enter { to: String, with_cookie: bool },
    /// It ends here.
    Refused(StatusCode, &'static str),
}

/// Returns 256 bits from the system, in hex.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    Ok(text)
}

/// Compares without telling by the time how much of it is right.
fn same(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes());
    one.len() == other.len() && differs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Returns the only value of a header; `Err` when there are several, or it is no text.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    if all.next().is_some() {
        return Err(());
    }
    first
        .map(|value| value.to_str().map_err(|_| ()))
        .transpose()
}

/// Takes the token out of a query; returns it with the query that is left.
fn take_token(query: &str) -> Option<(&str, String)> {
    let is_token = |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| name == TOKEN);
    let found = query.split('&').find(is_token)?;
    let (_, token) = found.split_once('=')?;
    let rest: Vec<_> = query.split('&').filter(|pair| !is_token(pair)).collect();
    Some((token, rest.join("&")))
}

impl Gate {
    /// Makes the secrets of a run on this port.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        Ok(Self {
            port,
            token: Mutex::new(Some(secret()?)),
            session: secret()?,
            csrf: secret()?,
        })
    }

    /// Returns the address to open. It works once.
    pub(super) fn url(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let token = token.as_deref().unwrap_or_default();
        format!("http://127.0.0.1:{}/?{TOKEN}={token}", self.port)
    }

    /// Returns what a form must send along.
    pub(super) fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Says whether a form sent it.
    pub(super) fn is_ours(&self, csrf: &str) -> bool {
        same(csrf, &self.csrf)
    }

    fn cookie_name(&self) -> String {
        // Browsers keep cookies by host, whatever the port.
        format!("wiki-sync-{}", self.port)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let all = headers.get_all(COOKIE).iter();
        let pairs = all.filter_map(|value| value.to_str().ok());
        pairs
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(found, value)| found == name && same(value, &self.session))
    }

    /// Takes the token if it is the right one.
    fn exchange(&self, token: &str) -> bool {
        let mut kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = kept.as_deref().is_some_and(|right| same(token, right));
        if is_right {
            *kept = None;
        }
        is_right
    }

    fn judge(&self, request: &Parts) -> Verdict {
        let refused = Verdict::Refused;
        let is_post = request.method == Method::POST;
        if !is_post && request.method != Method::GET && request.method != Method::HEAD {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST");
        }
        let names = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        let host = match only(&request.headers, &HOST) {
            Ok(Some(host)) if names.iter().any(|name| name == host) => host,
            Ok(_) | Err(()) => {
                return refused(StatusCode::MISDIRECTED_REQUEST, "this is not that host");
            }
        };
        let authority = request.uri.authority();
        if authority.is_some_and(|authority| authority.as_str() != host) {
            return refused(StatusCode::MISDIRECTED_REQUEST, "this is not that host");
        }
        let Ok(origin) = only(&request.headers, &ORIGIN) else {
            return refused(StatusCode::FORBIDDEN, "several origins");
        };
        let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        if origin.is_some_and(|origin| !is_own(origin)) || is_post && origin.is_none() {
            return refused(StatusCode::FORBIDDEN, "asked from another origin");
        }
        let site = HeaderName::from_static("sec-fetch-site");
        let from_elsewhere = match only(&request.headers, &site) {
            Ok(None | Some("same-origin" | "none")) => false,
            Ok(Some(_)) | Err(()) => true,
        };
        let query = request.uri.query().unwrap_or_default();
        if let Some((token, rest)) = take_token(query)
            && request.method == Method::GET
        {
            let mut to = request.uri.path().to_owned();
            // Two slashes at the start would be another host.
            to.replace_range(..to.len() - to.trim_start_matches('/').len(), "/");
            if !rest.is_empty() {
                to = format!("{to}?{rest}");
            }
            let with_cookie = match (self.has_cookie(&request.headers), self.exchange(token)) {
                (true, false) if !from_elsewhere => false,
                (_, true) => true,
                (_, false) => {
                    return refused(
                        StatusCode::FORBIDDEN,
                        "this address has been used, or is an earlier one's",
                    );
                }
            };
            return Verdict::Enter { to, with_cookie };
        }
        if from_elsewhere {
            return refused(StatusCode::FORBIDDEN, "asked from another site");
        }
        if self.has_cookie(&request.headers) {
            Verdict::Pass
        } else {
            refused(StatusCode::FORBIDDEN, "no token")
        }
    }

    fn enter(&self, to: &str, with_cookie: bool) -> Response {
        // Not a redirection: a browser that came from another site's link would not send the cookie along with that.
        let page = format!(
            "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0; url={}\"><title>wiki-sync</title>",
            escaped(to)
        );
        let mut answer = Response::new(Body::from(page));
        *answer.status_mut() = StatusCode::SEE_OTHER;
        let headers = answer.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        if let Ok(to) = HeaderValue::from_str(to) {
            headers.insert(LOCATION, to);
        }
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie_name(),
            self.session
        );
        if with_cookie && let Ok(cookie) = HeaderValue::from_str(&cookie) {
            headers.insert(SET_COOKIE, cookie);
        }
        answer
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
}

/// Judges a request before anybody else sees it, and puts on every answer what keeps a browser from anything but us.
pub(super) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut answer = match gate.judge(&parts) {
        Verdict::Pass => next.run(Request::from_parts(parts, body)).await,
        Verdict::Enter { to, with_cookie } => {
            let site = parts.headers.get("sec-fetch-site");
            let mut answer = gate.enter(&to, with_cookie);
            if site.is_some_and(|site| site != "none" && site != "same-origin") {
                *answer.status_mut() = StatusCode::OK;
                answer.headers_mut().remove(LOCATION);
            }
            answer
        }
        Verdict::Refused(status, why) => refusal(status, why),
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        // For us no less strict than `no-referrer`, under which browsers call the origin of a form `null`.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(POLICY));
    answer
}

/// Waits for the whole of what a form sends, for as long as that may take.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match timeout(HEAD, to_bytes(body, FORM)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, bytes.into())).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

fn refusal(status: StatusCode, why: &str) -> Response {
    let text = format!(
        "refused: {why}\n\nOpen the address that `wiki-sync serve` printed; it works once. For another one start it again.\n"
    );
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(4000).expect("secrets")
    }

    fn judge(gate: &Gate, method: &str, uri: &str, headers: &[(&str, &str)]) -> Verdict {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        gate.judge(&request.into_parts().0)
    }

    fn is_refused(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Refused(..))
    }

    #[test]
    fn the_token_is_exchanged_once_for_a_cookie_that_opens() {
        let gate = gate();
        let url = gate.url();
        let path = url.strip_prefix("http://127.0.0.1:4000").expect("ours");
        let host = ("host", "127.0.0.1:4000");
        let token = path.strip_prefix("/?token=").expect("a token");
        assert_eq!(token.len(), 64, "256 bits");
        for wrong in ["", "x", &token[1..], &token.to_uppercase()] {
            let verdict = judge(&gate, "GET", &format!("/?token={wrong}"), &[host]);
            assert!(is_refused(&verdict), "{wrong}");
        }
        // A look ahead does not use it up.
        assert!(is_refused(&judge(&gate, "HEAD", path, &[host])));
        let there = format!("//evil/x?a=1&token={token}&b=2");
        let entered = Verdict::Enter {
            to: "/evil/x?a=1&b=2".into(),
            with_cookie: true,
        };
        assert_eq!(judge(&gate, "GET", &there, &[host]), entered);
        assert!(is_refused(&judge(&gate, "GET", path, &[host])), "used");
        let cookie = format!("a=b; wiki-sync-4000={}", gate.session);
        let cookie = ("cookie", cookie.as_str());
        assert_eq!(judge(&gate, "GET", "/x", &[host, cookie]), Verdict::Pass);
        let again = judge(&gate, "GET", path, &[host, cookie]);
        assert!(matches!(
            again,
            Verdict::Enter {
                with_cookie: false,
                ..
            }
        ));
        for wrong in [
            "",
            "wiki-sync-4000=",
            "wiki-sync-4001=x",
            "wiki-sync-4000=00",
        ] {
            let verdict = judge(&gate, "GET", "/x", &[host, ("cookie", wrong)]);
            assert!(is_refused(&verdict), "{wrong}");
        }
    }

    #[test]
    fn a_request_for_another_host_or_from_elsewhere_is_refused_cookie_or_not() {
        let gate = gate();
        let cookie = format!("wiki-sync-4000={}", gate.session);
        let judge = |method: &str, uri: &str, headers: &[(&str, &str)]| {
            let mut all = vec![("cookie", cookie.as_str())];
            all.extend_from_slice(headers);
            judge(&gate, method, uri, &all)
        };
        let host = ("host", "127.0.0.1:4000");
        for good in [
            vec![host],
            vec![("host", "localhost:4000")],
            vec![host, ("origin", "http://127.0.0.1:4000")],
            vec![host, ("sec-fetch-site", "same-origin")],
            vec![host, ("sec-fetch-site", "none")],
        ] {
            assert_eq!(judge("GET", "/", &good), Verdict::Pass, "{good:?}");
        }
        for bad in [
            vec![],
            vec![("host", "evil.example:4000")],
            vec![("host", "127.0.0.1")],
            vec![("host", "127.0.0.1:4001")],
            vec![("host", "127.0.0.1:4000.evil.example")],
            vec![host, ("host", "evil.example")],
            vec![host, ("origin", "http://evil.example")],
            vec![host, ("origin", "http://127.0.0.1:4001")],
            vec![host, ("origin", "https://127.0.0.1:4000")],
            // Two names of this machine are two origins.
            vec![host, ("origin", "http://localhost:4000")],
            vec![host, ("origin", "null")],
            vec![host, ("sec-fetch-site", "cross-site")],
            vec![host, ("sec-fetch-site", "same-site")],
        ] {
            assert!(is_refused(&judge("GET", "/", &bad)), "{bad:?}");
        }
        assert!(is_refused(&judge("GET", "http://evil.example/", &[host])));
        let own = ("origin", "http://127.0.0.1:4000");
        assert_eq!(judge("POST", "/", &[host, own]), Verdict::Pass);
        assert!(is_refused(&judge("POST", "/", &[host])), "no origin");
        for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
            assert!(is_refused(&judge(method, "/", &[host, own])), "{method}");
        }
    }
}
