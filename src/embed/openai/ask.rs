//! One request, again where that may help, and what became of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tracing::debug;
use ureq::http::{HeaderMap, StatusCode, Uri};
use ureq::{Agent, Timeout};

use super::wire;
use crate::embed::GoOn;
use crate::http;
use crate::model::{Failure, FailureKind, Secret};

/// The longest answer, for each text and beside them: a vector of 16,384 numbers of 32 digits each.
const LONGEST_VECTOR: u64 = 512 << 10;
const LONGEST_FRAME: u64 = 64 << 10;

/// How often a wait looks whether it is to go on.
const POLL: Duration = Duration::from_millis(50);

/// How long a provider that is in trouble is waited for in one go; beyond that it is away.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    /// Waits between tries.
    pub(super) waits: Vec<Duration>,
    /// The longest wait that a provider may ask for.
    pub(super) longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            waits: [1, 2, 4, 8].map(Duration::from_secs).into(),
            longest: Duration::from_secs(30),
        }
    }
}

/// How often a request is made that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tries {
    /// Once: somebody waits for it.
    One,
    /// Again while the provider is in trouble. What may be a text's fault is not: its texts were suspected before.
    Suspected,
    /// Again while the provider is in trouble, and once more for what may be a text's fault.
    Patient,
}

/// Why there are no vectors.
#[derive(Debug)]
pub(super) enum Setback {
    /// The provider cannot be used, whatever the text.
    Provider(Failure),
    /// It may be for a text, or for the number of them.
    Texts(Suspicion),
}

/// What may be wrong with a text. Its kind is what the text's failure is if it is for the text.
#[derive(Debug)]
pub(super) struct Suspicion {
    pub(super) failure: Failure,
    /// Whether fewer words may help.
    pub(super) is_length: bool,
}

/// An attempt that failed.
struct Failed {
    setback: Setback,
    again: Again,
}

/// Whether an attempt is worth another one.
#[derive(Debug, Clone, Copy)]
enum Again {
    Never,
    /// After the next wait of ours.
    Soon,
    /// After the wait that the provider asks for.
    After(Duration),
}

impl From<Setback> for Failed {
    fn from(setback: Setback) -> Self {
        Self {
            setback,
            again: Again::Never,
        }
    }
}

/// The way to a provider; shared by all who ask at the same time.
#[derive(Debug)]
pub(super) struct Line {
    agent: Agent,
    endpoint: Uri,
    /// Name and port, for messages.
    host: String,
    key: Option<Secret>,
    key_place: String,
    /// Why nothing may be asked: the key cannot be had, or must not be sent.
    unusable: Option<Failure>,
    model: String,
    timeout: Duration,
    pub(super) patience: Patience,
    /// Until when the provider wants to be left alone, by everybody.
    quiet_until: Mutex<Option<Instant>>,
}

impl Line {
    /// Makes the way to the provider at `url`. `key_place` says where the key comes from, or is to be put. A key that cannot
    /// be had, or must not be sent, is the failure of whatever is asked for: pages are found by their words meanwhile.
    ///
    /// # Errors
    /// `Refused` when the URL is none.
    pub(super) fn new(
        url: &str,
        key: Result<Option<Secret>, Failure>,
        key_place: String,
        model: &str,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let refused = |reason: String| Failure::new(FailureKind::Refused, reason);
        let endpoint = http::parse(&format!("{}/embeddings", url.trim_end_matches('/')))
            .map_err(|why| refused(format!("embedding.url {url:?}: {why}")))?;
        let checked = key.and_then(|key| {
            let Some(key) = key else { return Ok(None) };
            if http::is_clear(&endpoint) {
                return Err(refused(format!(
                    "embedding.url {url:?} would send the key in clear text"
                ))
                .hint(format!(
                    "use https, or unset the key in {key_place} if the provider wants none"
                )));
            }
            if key.reveal().is_empty() || !key.reveal().chars().all(|c| c.is_ascii_graphic()) {
                return Err(refused(format!("the key in {key_place} is none"))
                    .hint("a key is one word of letters, digits and signs"));
            }
            Ok(Some(key))
        });
        let (key, unusable) = match checked {
            Ok(key) => (key, None),
            Err(why) => (None, Some(why)),
        };
        let host = endpoint.authority().map_or("", |all| all.as_str()).into();
        Ok(Self {
            agent: http::agent(&endpoint, timeout),
            endpoint,
            host,
            key,
            key_place,
            unusable,
            model: model.into(),
            timeout,
            patience: Patience::default(),
            quiet_until: Mutex::default(),
        })
    }

    /// Sends a request for `count` vectors until it is answered or patience ends, each time for no longer than `within`,
    /// and returns what `read` makes of the answer.
    pub(super) fn ask<T>(
        &self,
        body: &str,
        count: usize,
        within: Duration,
        tries: Tries,
        go_on: GoOn<'_>,
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, Setback> {
        if let Some(why) = &self.unusable {
            return Err(Setback::Provider(why.clone()));
        }
        let mut last = None;
        for tried in 0.. {
            self.keep_quiet(go_on)
                .map_err(|stopped| Setback::Provider(last.take().unwrap_or(stopped)))?;
            let began = Instant::now();
            let answer = self.post(body, count, within);
            debug!(
                host = self.host,
                texts = count,
                bytes = body.len(),
                ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                answered = answer.is_ok(),
                "asked the embedding provider"
            );
            let failed = match answer {
                Ok(answer) => {
                    return read(&answer).map_err(|why| {
                        suspect(
                            FailureKind::Rejected,
                            &format!("{}: {why}", self.host),
                            false,
                        )
                    });
                }
                Err(failed) => failed,
            };
            let most = match (tries, &failed.setback) {
                (Tries::One, _) | (Tries::Suspected, Setback::Texts(_)) => 0,
                (Tries::Patient, Setback::Texts(_)) => 1,
                (Tries::Suspected | Tries::Patient, Setback::Provider(_)) => usize::MAX,
            };
            let wait = match (failed.again, self.patience.waits.get(tried)) {
                (Again::Soon, Some(&wait)) | (Again::After(wait), Some(_)) => wait,
                (Again::Never, _) | (_, None) => return Err(failed.setback),
            };
            if tried >= most || wait > self.patience.longest {
                return Err(failed.setback);
            }
            last = Some(match &failed.setback {
                Setback::Provider(failure) => unreached(&failure.reason),
                Setback::Texts(suspicion) => unreached(&suspicion.failure.reason),
            });
            let until = Instant::now() + wait;
            let mut quiet = self.quiet();
            *quiet = Some(quiet.map_or(until, |before| before.max(until)));
        }
        Err(Setback::Provider(stopped()))
    }

    fn quiet(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.quiet_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the provider alone for as long as it wants.
    fn keep_quiet(&self, go_on: GoOn<'_>) -> Result<(), Failure> {
        loop {
            if !go_on() {
                return Err(stopped());
            }
            let until = *self.quiet();
            let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now()))
            else {
                return Ok(());
            };
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL));
        }
    }

    fn post(&self, body: &str, count: usize, within: Duration) -> Result<Vec<u8>, Failed> {
        let whole = within.min(self.timeout);
        let mut request = self
            .agent
            .post(&self.endpoint)
            .config()
            .timeout_global(Some(whole))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {}", key.reveal()));
        }
        let limit = LONGEST_FRAME + LONGEST_VECTOR * count as u64;
        let mut answer = request.send(body).map_err(|e| self.unanswered(&e, whole))?;
        let bytes = answer.body_mut().with_config().limit(limit).read_to_vec();
        let status = answer.status();
        match bytes {
            Ok(bytes) if status.is_success() => Ok(bytes),
            Ok(bytes) => Err(self.refused(status, answer.headers(), &bytes)),
            // What stands in a page of error that is too long is not needed.
            Err(ureq::Error::BodyExceedsLimit(_)) if !status.is_success() => {
                Err(self.refused(status, answer.headers(), &[]))
            }
            Err(ureq::Error::BodyExceedsLimit(limit)) => {
                let why = format!("{}: it gave more than {limit} bytes", self.host);
                Err(suspect(FailureKind::Rejected, &why, false).into())
            }
            Err(e) => Err(self.unanswered(&e, whole)),
        }
    }

    /// Sorts what came instead of an answer.
    fn unanswered(&self, error: &ureq::Error, whole: Duration) -> Failed {
        use ureq::Error as E;
        let why = http::explain(error, &self.host, whole);
        match error {
            // A text may be too much for it.
            E::Timeout(Timeout::Connect | Timeout::Resolve) => with_hint(away(&why), NOBODY).into(),
            E::Timeout(_) => with_hint(suspect(FailureKind::Transient, &why, false), SLOW).into(),
            E::Io(e) if e.kind() != std::io::ErrorKind::ConnectionRefused => Failed {
                // It may have died of a text.
                setback: with_hint(suspect(FailureKind::Transient, &why, false), IN_TROUBLE),
                again: Again::Soon,
            },
            E::Tls(_) | E::Rustls(_) | E::Pem(_) | E::TlsRequired | E::InvalidProxyUrl => misused(
                &why,
                "embedding.url is to name a server whose certificate is accepted",
            )
            .into(),
            E::Protocol(_) => suspect(FailureKind::Rejected, &why, false).into(),
            // Nobody is there, or nobody can be reached.
            _ => with_hint(away(&why), NOBODY).into(),
        }
    }

    /// Sorts an answer that is none.
    fn refused(&self, status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Failed {
        let (words, is_broke) = wire::words(bytes);
        let words = words.map_or_else(String::new, |words| {
            format!(": {}", http::told(&words, self.key.as_ref()))
        });
        let asks = retry_after(headers, SystemTime::now());
        let long = asks.filter(|&wait| wait > self.patience.longest);
        let long = long.map_or_else(String::new, |wait| {
            format!(", and asks to be left alone for {}", roughly(wait))
        });
        let why = format!("{} answered {}{words}{long}", self.host, status.as_u16());
        let again = asks.map_or(Again::Soon, Again::After);
        match status.as_u16() {
            400 | 413 | 422 => suspect(FailureKind::Rejected, &why, true).into(),
            401 | 403 => {
                let hint = match &self.key {
                    Some(_) => format!("the key in {} is not accepted there", self.key_place),
                    None => format!("put the provider's key in {}", self.key_place),
                };
                misused(&why, &hint).into()
            }
            404 | 405 | 410 => misused(
                    &why,
                    &format!(
                        "embedding.url is to end where `/embeddings` follows, mostly `/v1`; the model {:?} must be there (Ollama: `ollama pull {}`)",
                        self.model, self.model
                    ),
                )
                .into(),
            300..=399 => misused(&why, "no redirection is followed; set embedding.url to where it leads")
                .into(),
            402 => misused(&why, "the provider wants to be paid").into(),
            429 if is_broke => misused(&why, "the provider wants to be paid").into(),
            429 => Failed {
                setback: with_hint(away(&why), TOO_MANY),
                again,
            },
            408 | 425 | 503 | 529 => Failed {
                setback: with_hint(away(&why), IN_TROUBLE),
                again,
            },
            // Also how llama.cpp says that a text is too long, and Ollama that a number is none.
            500..=599 => Failed {
                setback: with_hint(suspect(FailureKind::Transient, &why, true), IN_TROUBLE),
                again,
            },
            _ => misused(&why, "check embedding.url and embedding.model").into(),
        }
    }

    /// Says what a suspicion means once an innocent text was answered no better.
    pub(super) fn convict(&self, suspicion: Suspicion) -> Failure {
        let mut failure = suspicion.failure;
        match failure.kind {
            FailureKind::Rejected => {
                failure.kind = FailureKind::Refused;
                failure.hint(format!(
                    "no text is taken with these settings: check embedding.model ({:?}), embedding.dimensions (where another model answers by this name now: set them, then `wiki-sync rebuild vectors`) and the input types",
                    self.model
                ))
            }
            FailureKind::Down
            | FailureKind::Busy
            | FailureKind::Waiting
            | FailureKind::Refused
            | FailureKind::Transient => {
                failure.kind = FailureKind::Down;
                failure
            }
        }
    }
}

fn away(why: &str) -> Setback {
    Setback::Provider(Failure::new(FailureKind::Down, cannot(why)))
}

fn misused(why: &str, hint: &str) -> Setback {
    Setback::Provider(Failure::new(FailureKind::Refused, cannot(why)).hint(hint))
}

fn suspect(kind: FailureKind, why: &str, is_length: bool) -> Setback {
    Setback::Texts(Suspicion {
        failure: Failure::new(kind, cannot(why)),
        is_length,
    })
}

/// What helps where no provider is found, where one is slow, where it was asked too often, and where it is not well.
const NOBODY: &str = "start the provider, or look at embedding.url; it is asked again later";
const SLOW: &str = "look whether the provider is overloaded; embedding.timeout gives it more time; it is asked again later";
const TOO_MANY: &str = "it is asked again later; fewer requests: lower embedding.concurrency, or look at the account's limits";
const IN_TROUBLE: &str = "it is asked again later; the server's own log says more";

fn with_hint(setback: Setback, hint: &str) -> Setback {
    match setback {
        Setback::Provider(failure) => Setback::Provider(failure.hint(hint)),
        Setback::Texts(suspicion) => Setback::Texts(Suspicion {
            failure: suspicion.failure.hint(hint),
            ..suspicion
        }),
    }
}

/// Returns a length of time in words.
fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..8_640_000 => format!("{} h", seconds / 3600),
        _ => "months".into(),
    }
}

fn cannot(why: &str) -> String {
    format!("cannot embed: {why}")
}

/// The failure of texts that were not reached.
pub(super) fn stopped() -> Failure {
    Failure::new(
        FailureKind::Busy,
        "not embedded yet: there was no time left",
    )
}

/// The failure of texts for which there was no time left after something else had failed for this reason.
pub(super) fn unreached(why: &str) -> Failure {
    Failure::new(FailureKind::Busy, why)
}

/// Reads how long the provider wants to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get("retry-after")?.to_str().ok()?.trim();
    // Some say halves of a second; and what is too much to count is too long to wait.
    if let Ok(seconds) = value.parse::<f64>()
        && seconds >= 0.0
    {
        return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::KEY_VARIABLE;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (value, seconds) in [
            ("17", Some(17)),
            (" 0 ", Some(0)),
            ("2.5", Some(2)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().expect("a header"));
            let found = retry_after(&headers, now).map(|wait| wait.as_secs());
            assert_eq!(found, seconds, "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_key_crosses_no_network_in_clear_text_and_is_no_header_of_its_own() {
        let line = |url: &str, key: &str| {
            let key = Ok(Some(Secret::new(key)));
            Line::new(url, key, KEY_VARIABLE.into(), "m", Duration::from_secs(1))
        };
        for (url, key, words) in [
            ("http://example.org/v1", "sk-1", "clear text"),
            ("https://example.org/v1", "sk\r\nx: y", "is none"),
            ("https://example.org/v1", " ", "is none"),
        ] {
            let line = line(url, key).expect(url);
            let within = Duration::from_secs(1);
            let asked = line.ask("{}", 1, within, Tries::One, &|| true, |_| Ok(()));
            let Err(Setback::Provider(failure)) = asked else {
                panic!("{url}: {asked:?}");
            };
            assert_eq!(failure.kind, FailureKind::Refused);
            assert!(failure.reason.contains(words), "{failure:?}");
            assert!(!format!("{line:?} {failure:?}").contains("sk"), "{line:?}");
        }
        for url in ["https://example.org/v1", "http://localhost:1/v1"] {
            let line = line(url, "sk-1").expect(url);
            assert_eq!(line.unusable, None);
            assert!(!format!("{line:?}").contains("sk-1"));
        }
    }
}
