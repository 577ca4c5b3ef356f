//! A strict embedding provider of a test's own, with planned failures.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The model it has.
pub const MODEL: &str = "test-model";

/// How many numbers its vectors have.
pub const DIMENSION: usize = 8;

/// How long a request that hangs, drips or waits for others stays.
const PATIENCE: Duration = Duration::from_secs(20);

/// What goes wrong with an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A status, with words.
    Status(u16),
    /// A status with a `Retry-After`.
    After(u16, &'static str),
    /// A redirection.
    Redirect(String),
    /// No answer, until the other side has had enough.
    Hang,
    /// An answer of one byte at a time, which comes to no end.
    Drip,
    /// The connection is closed instead.
    Close,
    /// A page of HTML, with status 200.
    Html,
    /// More than anybody wants.
    Huge,
    /// The vectors in another order, numbered rightly.
    Shuffled,
    /// One vector too few.
    TooFew,
    /// Vectors of this length.
    Length(usize),
    /// A number that is none.
    Nan,
    /// Zeros.
    Zero,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its texts, as they came.
    pub texts: Vec<String>,
    /// Its body.
    pub body: Value,
    /// What it said of a key.
    pub authorization: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    is_down: bool,
    asked: Vec<Asked>,
    complaints: Vec<String>,
    /// What goes wrong with the next answers.
    next: VecDeque<Fault>,
    /// What goes wrong with every answer.
    always: Option<Fault>,
    /// What goes wrong with an answer to a text that holds a word.
    poison: Vec<(String, Fault)>,
    most_texts: Option<usize>,
    most_chars: Option<usize>,
    key: Option<String>,
    in_flight: usize,
    most_in_flight: usize,
    wait_for: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

/// An HTTP server on loopback that speaks `OpenAI`'s embedding protocol and takes nothing else.
///
/// # Panics
/// On drop, when it was asked anything that the protocol does not have.
#[derive(Debug)]
pub struct EmbeddingServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    listening: Option<thread::JoinHandle<()>>,
}

impl EmbeddingServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut server = Self {
            shared: Arc::default(),
            address: listener.local_addr().expect("an address"),
            listening: None,
        };
        server.listen(listener);
        server
    }

    fn listen(&mut self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        self.listening = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.lock().is_down {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&shared, stream));
            }
        }));
    }

    /// Closes the port: connections are refused.
    ///
    /// # Panics
    /// Never.
    pub fn down(&mut self) {
        self.shared.lock().is_down = true;
        // It sees that it is to end at the next connection.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            listening.join().expect("it does not panic");
        }
    }

    /// Opens the port again.
    ///
    /// # Panics
    /// When it was taken meanwhile.
    pub fn up(&mut self) {
        self.shared.lock().is_down = false;
        let listener = TcpListener::bind(self.address).expect("the port is still free");
        self.listen(listener);
    }

    /// As [`Self::up`], if the port is closed.
    ///
    /// # Panics
    /// As [`Self::up`].
    pub fn up_if_down(&mut self) {
        if self.listening.is_none() {
            self.up();
        }
    }

    /// Returns the URL, up to and with `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Makes the next answers go wrong, one for each fault.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.lock().next.extend(faults);
    }

    /// Makes every answer go wrong, or none.
    pub fn always(&self, fault: Option<Fault>) {
        self.shared.lock().always = fault;
    }

    /// Makes every answer go wrong that concerns a text with this word.
    pub fn poison(&self, word: &str, fault: Fault) {
        self.shared.lock().poison.push((word.into(), fault));
    }

    /// Forgets all words that make an answer go wrong.
    pub fn cure(&self) {
        self.shared.lock().poison.clear();
    }

    /// Refuses more texts at once than this, as Text Embeddings Inference does.
    pub fn take_texts(&self, most: usize) {
        self.shared.lock().most_texts = Some(most);
    }

    /// Refuses a text that is longer than this, in characters.
    pub fn take_chars(&self, most: usize) {
        self.shared.lock().most_chars = Some(most);
    }

    /// Wants to be shown this key.
    pub fn want_key(&self, key: &str) {
        self.shared.lock().key = Some(key.into());
    }

    /// Answers no request before as many are there at once.
    pub fn wait_for(&self, requests: usize) {
        self.shared.lock().wait_for = requests;
    }

    /// Returns the most requests that were there at once.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.shared.lock().most_in_flight
    }

    /// Returns what it was asked, and forgets it.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.lock().asked)
    }

    /// Returns the vector, of length 1, that it gives a text with all that was put before it.
    #[must_use]
    pub fn vector(text: &str) -> Vec<f32> {
        let numbers = numbers(text, DIMENSION);
        let length = numbers.iter().map(|n| n * n).sum::<f64>().sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "as the one who asks does it"
        )]
        numbers.iter().map(|n| (n / length) as f32).collect()
    }
}

impl Drop for EmbeddingServer {
    fn drop(&mut self) {
        self.down();
        let complaints = std::mem::take(&mut self.shared.lock().complaints);
        if !thread::panicking() {
            assert!(complaints.is_empty(), "not the protocol: {complaints:?}");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The vector of a text, of some length.
fn numbers(text: &str, dimension: usize) -> Vec<f64> {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter()
        .cycle()
        .take(dimension)
        .map(|&byte| f64::from(byte) - 127.5)
        .collect()
}

struct Head {
    line: String,
    fields: Vec<(String, String)>,
}

impl Head {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut next = || {
            let mut line = String::new();
            (stream.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
        };
        let line = next()?;
        let mut fields = Vec::new();
        loop {
            match next()?.split_once(':') {
                Some((name, value)) => {
                    fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => return Some(Self { line, fields }),
            }
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(one, _)| one == name)
            .map(|(_, value)| value.as_str())
    }
}

fn serve(shared: &Shared, stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    while let Some(head) = Head::read(&mut stream) {
        let length = head.field("content-length").and_then(|n| n.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut body).is_err() || shared.lock().is_down {
            return;
        }
        let is_open = match check(&head, &body) {
            Ok(asked) => answer(shared, asked, stream.get_mut()),
            Err(complaint) => {
                shared.lock().complaints.push(complaint.clone());
                reply(stream.get_mut(), 400, "", &error(&complaint))
            }
        };
        if !is_open {
            return;
        }
    }
}

/// What the protocol allows.
fn check(head: &Head, body: &[u8]) -> Result<Asked, String> {
    if head.line != "POST /v1/embeddings HTTP/1.1" {
        return Err(head.line.clone());
    }
    if head.field("content-type") != Some("application/json") {
        return Err(format!("content-type {:?}", head.field("content-type")));
    }
    let body: Value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let fields = body.as_object().ok_or("no object")?;
    for (name, value) in fields {
        let is_right = match name.as_str() {
            "model" => value == MODEL,
            "input" => value.is_array(),
            "encoding_format" => value == "base64" || value == "float",
            "dimensions" => value.as_u64().is_some_and(|n| n > 0),
            "input_type" => value.as_str().is_some_and(|text| !text.is_empty()),
            _ => false,
        };
        if !is_right {
            return Err(format!("field {name}: {value}"));
        }
    }
    let texts = body["input"].as_array().ok_or("no input")?;
    let texts: Vec<_> = texts
        .iter()
        .map(|text| text.as_str().unwrap_or("").to_owned())
        .collect();
    if fields.get("model").is_none()
        || texts.is_empty()
        || texts.iter().any(|t| t.trim().is_empty())
    {
        return Err(format!("input {texts:?}"));
    }
    Ok(Asked {
        texts,
        authorization: head.field("authorization").map(Into::into),
        body,
    })
}

fn error(words: &str) -> String {
    json!({"error": {"message": words, "type": "invalid_request_error", "code": null}}).to_string()
}

/// Answers a request; says whether the connection stays.
fn answer(shared: &Shared, asked: Asked, stream: &mut TcpStream) -> bool {
    let mut state = shared.lock();
    state.in_flight += 1;
    state.most_in_flight = state.most_in_flight.max(state.in_flight);
    shared.arrived.notify_all();
    let (mut state, _) = shared
        .arrived
        .wait_timeout_while(state, PATIENCE, |state| {
            state.most_in_flight < state.wait_for
        })
        .unwrap_or_else(PoisonError::into_inner);
    let wrong_key = state
        .key
        .as_ref()
        .is_some_and(|key| asked.authorization != Some(format!("Bearer {key}")));
    let fault = if wrong_key {
        Some(Fault::Status(401))
    } else if state
        .most_texts
        .is_some_and(|most| asked.texts.len() > most)
    {
        Some(Fault::Status(413))
    } else {
        let planned = state.next.pop_front().or_else(|| state.always.clone());
        let is_long = |text: &String| {
            state
                .most_chars
                .is_some_and(|most| text.chars().count() > most)
        };
        let of_texts = || {
            let mut poison = state.poison.iter();
            let holds = |word: &str| asked.texts.iter().any(|text| text.contains(word));
            poison
                .find(|(word, _)| holds(word))
                .map(|(_, fault)| fault.clone())
        };
        planned.or_else(of_texts).or_else(|| {
            asked
                .texts
                .iter()
                .any(is_long)
                .then_some(Fault::Status(400))
        })
    };
    let authorization = asked.authorization.clone();
    let is_base64 = asked.body["encoding_format"] == "base64";
    // As models do that can be asked for fewer numbers, and more than theirs.
    let wanted = asked.body["dimensions"].as_u64();
    let dimension = wanted.and_then(|n| n.try_into().ok()).unwrap_or(DIMENSION);
    let texts = asked.texts.iter();
    let vectors = texts.map(|text| numbers(text, dimension)).enumerate();
    let vectors = vectors.collect();
    state.asked.push(asked);
    drop(state);
    let is_open = reply_with(stream, fault, vectors, is_base64, authorization.as_deref());
    shared.lock().in_flight -= 1;
    is_open
}

fn reply_with(
    stream: &mut TcpStream,
    fault: Option<Fault>,
    mut vectors: Vec<(usize, Vec<f64>)>,
    is_base64: bool,
    authorization: Option<&str>,
) -> bool {
    match fault {
        None => {}
        // As some proxies do, it gives back what it was sent.
        Some(Fault::Status(status)) => {
            let words = format!("no good: {}", authorization.unwrap_or_default());
            return reply(stream, status, "", &error(&words));
        }
        Some(Fault::After(status, after)) => {
            return reply(
                stream,
                status,
                &format!("Retry-After: {after}\r\n"),
                &error("later"),
            );
        }
        Some(Fault::Redirect(to)) => {
            return reply(stream, 307, &format!("Location: {to}\r\n"), "");
        }
        Some(Fault::Hang) => {
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.read(&mut [0]);
            return false;
        }
        Some(Fault::Drip) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
            let mut sent = stream.write_all(head.as_bytes());
            while sent.is_ok() {
                sent = stream.write_all(b" ");
                thread::sleep(Duration::from_millis(20));
            }
            return false;
        }
        Some(Fault::Close) => return false,
        Some(Fault::Html) => return reply(stream, 200, "", "<html>wait</html>"),
        Some(Fault::Huge) => {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"data\":[";
            let mut sent = stream.write_all(head.as_bytes());
            let spaces = vec![b' '; 1 << 20];
            while sent.is_ok() {
                sent = stream.write_all(&spaces);
            }
            return false;
        }
        Some(Fault::Shuffled) => vectors.reverse(),
        Some(Fault::TooFew) => drop(vectors.pop()),
        Some(Fault::Length(length)) => vectors.iter_mut().for_each(|(_, v)| v.resize(length, 1.0)),
        Some(Fault::Nan) => vectors.iter_mut().for_each(|(_, v)| v[0] = f64::NAN),
        Some(Fault::Zero) => vectors.iter_mut().for_each(|(_, v)| v.fill(0.0)),
    }
    let data: Vec<String> = vectors
        .iter()
        .map(|(index, vector)| {
            let embedding = if is_base64 {
                #[expect(clippy::cast_possible_truncation, reason = "32-bit floats are sent")]
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|&n| (n as f32).to_le_bytes())
                    .collect();
                format!("{:?}", STANDARD.encode(bytes))
            } else {
                // `NaN` as Python writes it, which is no JSON.
                format!("{vector:?}")
            };
            format!(r#"{{"object":"embedding","index":{index},"embedding":{embedding}}}"#)
        })
        .collect();
    let body = format!(
        r#"{{"object":"list","data":[{}],"model":"{MODEL}"}}"#,
        data.join(",")
    );
    reply(stream, 200, "", &body)
}

fn reply(stream: &mut TcpStream, status: u16, fields: &str, body: &str) -> bool {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{fields}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).is_ok()
}
