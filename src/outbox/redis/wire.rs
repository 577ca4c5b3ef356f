//! The bytes to and from the server. Every wait ends at one time for the whole of what is asked, so a server that drips
//! its answer byte by byte is not waited for longer than one that says nothing.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use redis::{
    ConnectionAddr, ConnectionLike, ErrorKind, Parser, RedisError, RedisResult, ServerError, Value,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Bytes that are worth a second: an answer that comes, if slowly, gets the time for it.
const BYTES_A_SECOND: u32 = 256 << 10;

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// Moves on with the bytes that come and go.
    pub(super) soft: Instant,
    /// Does not.
    pub(super) hard: Option<Instant>,
}

impl Until {
    /// Returns the time left; an error when it is up.
    fn left(&self) -> io::Result<Duration> {
        let end = self.hard.map_or(self.soft, |hard| hard.min(self.soft));
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_late());
        }
        Ok(left)
    }

    fn moved(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.soft += Duration::from_secs(1) * bytes / BYTES_A_SECOND;
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// A socket whose waits can be bounded.
trait Socket: Read + Write {
    fn bound(&self, reads: Option<Duration>, writes: Option<Duration>) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn bound(&self, reads: Option<Duration>, writes: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(reads)?;
        self.set_write_timeout(writes)
    }
}

impl Socket for UnixStream {
    fn bound(&self, reads: Option<Duration>, writes: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(reads)?;
        self.set_write_timeout(writes)
    }
}

/// A socket that is waited for until a time.
struct Timed<S> {
    socket: S,
    until: Until,
}

impl<S: Socket> Timed<S> {
    fn once(&mut self, act: impl FnOnce(&mut S) -> io::Result<usize>) -> io::Result<usize> {
        let left = Some(self.until.left()?);
        self.socket.bound(left, left)?;
        match act(&mut self.socket) {
            Ok(bytes) => {
                self.until.moved(bytes);
                Ok(bytes)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(too_late()),
            Err(e) => Err(e),
        }
    }
}

impl<S: Socket> Read for Timed<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.once(|socket| socket.read(bytes))
    }
}

impl<S: Socket> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.once(|socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

enum Stream {
    Tcp(Timed<TcpStream>),
    Tls(Box<StreamOwned<ClientConnection, Timed<TcpStream>>>),
    Unix(Timed<UnixStream>),
}

/// A connection to a server, over which nothing has been said yet.
pub(super) struct Wire {
    stream: Stream,
    parser: Parser,
}

impl Wire {
    /// Connects.
    pub(super) fn connect(to: &ConnectionAddr, until: Until) -> RedisResult<Self> {
        let stream = match to {
            ConnectionAddr::Tcp(host, port) => Stream::Tcp(tcp(host, *port, until)?),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                ..
            } => {
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    RedisError::from((ErrorKind::InvalidClientConfig, "the host is no name"))
                })?;
                let session = ClientConnection::new(trusted()?, name).map_err(io::Error::other)?;
                let stream = StreamOwned::new(session, tcp(host, *port, until)?);
                Stream::Tls(Box::new(stream))
            }
            ConnectionAddr::Unix(path) => Stream::Unix(unix(path.clone(), until)?),
            // A certificate that nobody looks at, or a kind of address that is newer than this program.
            _ => {
                return Err(RedisError::from((
                    ErrorKind::InvalidClientConfig,
                    "such an address is not served",
                )));
            }
        };
        Ok(Self {
            stream,
            parser: Parser::new(),
        })
    }

    /// Says until when to wait for what is asked next.
    pub(super) fn wait_until(&mut self, until: Until) {
        match &mut self.stream {
            Stream::Tcp(timed) => timed.until = until,
            Stream::Tls(stream) => stream.sock.until = until,
            Stream::Unix(timed) => timed.until = until,
        }
    }

    /// Sends bytes, all of them.
    pub(super) fn send(&mut self, bytes: &[u8]) -> RedisResult<()> {
        let stream: &mut dyn Write = match &mut self.stream {
            Stream::Tcp(timed) => timed,
            Stream::Tls(stream) => stream.as_mut(),
            Stream::Unix(timed) => timed,
        };
        stream.write_all(bytes)?;
        Ok(stream.flush()?)
    }

    /// Receives one answer.
    pub(super) fn receive(&mut self) -> RedisResult<Value> {
        match &mut self.stream {
            Stream::Tcp(timed) => self.parser.parse_value(timed),
            Stream::Tls(stream) => self.parser.parse_value(stream.as_mut()),
            Stream::Unix(timed) => self.parser.parse_value(timed),
        }
    }
}

impl ConnectionLike for Wire {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        self.receive()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(commands)?;
        let mut answers = Vec::with_capacity(count);
        let mut wrong: Option<ServerError> = None;
        for place in 0..offset + count {
            match self.receive()? {
                Value::ServerError(error) => wrong = wrong.or(Some(error)),
                answer if place >= offset => answers.push(answer),
                _ => {}
            }
        }
        match wrong {
            Some(error) => Err(error.into()),
            None => Ok(answers),
        }
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").exec(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// Connects to the first of a host's addresses that answers.
fn tcp(host: &str, port: u16, until: Until) -> io::Result<Timed<TcpStream>> {
    let addresses: Vec<SocketAddr> = if let Ok(address) = host.parse::<IpAddr>() {
        vec![SocketAddr::new(address, port)]
    } else {
        let host = host.to_owned();
        beside(until, move || Ok((host, port).to_socket_addrs()?.collect()))?
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let mut others = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        // One that says nothing must not take the time of the others.
        match TcpStream::connect_timeout(&address, until.left()? / others) {
            Ok(socket) => {
                // A question is sent whole and its answer waited for.
                socket.set_nodelay(true)?;
                return Ok(Timed { socket, until });
            }
            Err(e) => last = e,
        }
        others -= 1;
    }
    Err(last)
}

/// Connects to a socket of this machine; it may make one wait that is full of callers.
fn unix(path: PathBuf, until: Until) -> io::Result<Timed<UnixStream>> {
    let socket = beside(until, move || UnixStream::connect(path))?;
    Ok(Timed { socket, until })
}

/// Makes something that nobody can bound, in a thread of its own, and gives up when the time is up.
fn beside<T: Send + 'static>(
    until: Until,
    make: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (made, wait) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        // Nobody listens any more when it took too long.
        let _ = made.send(make());
    })?;
    wait.recv_timeout(until.left()?)
        .unwrap_or_else(|_| Err(too_late()))
}

/// Returns what is needed to trust a server: the certificates of this machine, or those that `SSL_CERT_FILE` names.
fn trusted() -> io::Result<Arc<ClientConfig>> {
    let mut found = rustls_native_certs::load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    for certificate in found.certs {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
