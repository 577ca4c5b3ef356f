//! A Qdrant server for tests: the real protocol, by the generated service traits, over real Edge shards on disk.
//!
//! It is stricter than a server as it comes: a filter over a field without an index is refused (strict mode), names of
//! vectors that are not there are an error also where they are read, a write that is not waited for is applied later.
//! And it fails as it is told to, see [`Fault`].

mod collection;
mod convert;
mod faults;
mod matching;
mod service;
mod shared;
mod state;
mod strict;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::QdrantServer as HealthServer;
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

pub use self::faults::{Act, Fault, Seen};
pub use self::shared::SharedServer;
use self::state::{Asked, State};
pub use self::strict::Strict;

/// The largest request that is read, as Qdrant has it.
const REQUEST_BYTES: usize = 32 << 20;

/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(30);

const FOLDER_VARIABLE: &str = "WIKI_SYNC_TEST_QDRANT_FOLDER";
const PORT_VARIABLE: &str = "WIKI_SYNC_TEST_QDRANT_PORT";
/// The file that holds the API key, where one is wanted.
const KEY: &str = "key";
/// The files that hold the certificate and its key, where it is to be reached by TLS.
const TLS: [&str; 2] = ["certificate.pem", "certificate.key"];

/// A server on a free port, with a folder of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct QdrantServer {
    folder: tempfile::TempDir,
    port: u16,
    /// The test that a child runs; a thread in this process when there is none.
    child_test: Option<String>,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    Thread(oneshot::Sender<()>, JoinHandle<()>),
    Child(Child),
}

impl QdrantServer {
    /// Starts a server in a thread of this process.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::new(None, None)
    }

    /// Starts a server as a process of its own, which can be killed: this very test program, told to run the ignored test
    /// `test`, whose body is [`serve_until_killed`].
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn spawn(test: &str) -> Self {
        Self::new(Some(test.into()), None)
    }

    /// Starts such a process that is reached by TLS only. `tls`: the files of its certificate, for `localhost`, and of the
    /// key of that.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn spawn_tls(test: &str, tls: [&Path; 2]) -> Self {
        Self::new(Some(test.into()), Some(tls))
    }

    fn new(child_test: Option<String>, tls: Option<[&Path; 2]>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut server = Self {
            folder: tempfile::tempdir().expect("a folder"),
            port,
            child_test,
            running: None,
        };
        for (from, to) in tls.iter().flatten().zip(TLS) {
            std::fs::copy(from, server.folder.path().join(to)).expect("copied");
        }
        server.up();
        server
    }

    /// Wants this API key from now on.
    ///
    /// # Panics
    /// When it cannot be written down.
    pub fn want_key(&self, key: &str) {
        std::fs::write(self.folder.path().join(KEY), key).expect("written");
    }

    /// Starts the server again after [`Self::down`], with what it held.
    ///
    /// # Panics
    /// When it does not start.
    pub fn up(&mut self) {
        let running = if let Some(test) = &self.child_test {
            // By this name the child is this very program, even where a build has replaced its file.
            let child = Command::new("/proc/self/exe")
                .args(["--exact", "--ignored", "--nocapture", test])
                .env(FOLDER_VARIABLE, self.folder.path())
                .env(PORT_VARIABLE, self.port.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("this program");
            Running::Child(child)
        } else {
            let folder = self.folder.path().to_owned();
            let listener = listen(self.port);
            let (stop, stopped) = oneshot::channel();
            let thread = std::thread::spawn(move || serve(folder, listener, stopped));
            Running::Thread(stop, thread)
        };
        self.running = Some(running);
        let end = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the server; one that is a process is killed.
    pub fn down(&mut self) {
        match self.running.take() {
            Some(Running::Thread(stop, thread)) => {
                let _ = stop.send(());
                let _ = thread.join();
            }
            Some(Running::Child(mut child)) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            None => {}
        }
    }

    /// Says whether the server runs: one that is a process may have died of a [`Fault`].
    ///
    /// # Panics
    /// When a child of ours cannot be asked.
    pub fn is_alive(&mut self) -> bool {
        match &mut self.running {
            Some(Running::Child(child)) => child.try_wait().expect("a child").is_none(),
            Some(Running::Thread(..)) => true,
            None => false,
        }
    }

    /// Waits until a server that is a process has died of a [`Fault`].
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_dead(&mut self) {
        let end = Instant::now() + PATIENCE;
        let Some(Running::Child(child)) = &mut self.running else {
            panic!("no process");
        };
        while child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < end, "the server lives");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.running = None;
    }

    /// Sends a signal to a server that is a process: `-STOP`, `-CONT`.
    ///
    /// # Panics
    /// When it is none.
    pub fn signal(&self, signal: &str) {
        let Some(Running::Child(child)) = &self.running else {
            panic!("no process");
        };
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        if self.folder.path().join(TLS[0]).exists() {
            return format!("https://localhost:{}", self.port);
        }
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Has these limits from now on.
    pub fn limit(&self, strict: Strict) {
        strict.write(self.folder.path());
    }

    /// Plans a failure.
    pub fn fault(&self, fault: Fault) {
        faults::with(self.folder.path(), |faults| faults.push(fault));
    }

    /// Plans no failures any longer.
    pub fn calm(&self) {
        faults::with(self.folder.path(), Vec::clear);
    }

    /// Returns the requests that came in, in their order.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        faults::seen(self.folder.path())
    }

    /// Returns the folder of its collections, to be copied or removed while the server is down.
    #[must_use]
    pub fn collections(&self) -> PathBuf {
        self.folder.path().join(state::COLLECTIONS)
    }
}

impl Drop for QdrantServer {
    fn drop(&mut self) {
        self.down();
    }
}

/// Serves as the child of [`QdrantServer::spawn`], and never returns; returns at once in any other process.
///
/// # Panics
/// When it cannot serve.
pub fn serve_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else {
        return;
    };
    let port = std::env::var(PORT_VARIABLE).ok();
    let port = port.and_then(|port| port.parse().ok()).expect("a port");
    let (_stop, stopped) = oneshot::channel();
    serve(Path::new(&folder).into(), listen(port), stopped);
}

fn listen(port: u16) -> TcpListener {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return listener,
            Err(e) => assert!(Instant::now() < end, "port {port}: {e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn serve(folder: PathBuf, listener: TcpListener, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let service = Service {
        state: Arc::new(Mutex::new(State::open(&folder))),
        folder,
    };
    let state = Arc::clone(&service.state);
    let mut builder = Server::builder();
    if let [Ok(certificate), Ok(key)] = TLS.map(|file| std::fs::read(service.folder.join(file))) {
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        builder = builder.tls_config(tls).expect("a certificate");
    }
    runtime.block_on(async move {
        listener.set_nonblocking(true).expect("set");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let points = PointsServer::new(service.clone())
            .max_decoding_message_size(REQUEST_BYTES)
            .max_encoding_message_size(usize::MAX);
        let serving = builder
            .add_service(points)
            .add_service(CollectionsServer::new(service.clone()))
            .add_service(HealthServer::new(service))
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::select! {
            _ = serving => {}
            _ = stopped => {}
        }
    });
    runtime.shutdown_timeout(PATIENCE);
    // Its shards are closed before the next server opens them.
    state.lock().unwrap_or_else(PoisonError::into_inner).close();
}

/// What the three services share.
#[derive(Clone)]
struct Service {
    state: Arc<Mutex<State>>,
    folder: PathBuf,
}

impl Service {
    /// Answers a request with what `work` makes of it, or with the failure that was planned.
    async fn answer<A, B>(
        &self,
        method: &'static str,
        request: Request<A>,
        work: impl FnOnce(&mut State, A) -> Result<B, Status> + Send + 'static,
    ) -> Result<Response<B>, Status>
    where
        A: Asked + Send + 'static,
        B: state::Told + Send + 'static,
    {
        if let Ok(key) = std::fs::read_to_string(self.folder.join(KEY)) {
            let given = request.metadata().get("api-key");
            if given.is_none_or(|given| given.as_bytes() != key.as_bytes()) {
                return Err(Status::unauthenticated("Invalid API key or JWT"));
            }
        }
        let request = request.into_inner();
        let points = request.points();
        let seen = Seen {
            method: method.into(),
            points,
            bytes: request.encoded_len(),
        };
        faults::note(&self.folder, &seen);
        let act = faults::take(&self.folder, method);
        let mut later = (!request.waits()).then_some(Duration::from_millis(300));
        match act {
            Some(Act::Refuse(code)) => {
                return Err(Status::new(Code::from_i32(code), "planned failure"));
            }
            Some(Act::Busy(seconds)) => {
                let mut status = Status::resource_exhausted("planned failure");
                let headers = status.metadata_mut();
                headers.insert("retry-after", seconds.to_string().parse().expect("digits"));
                return Err(status);
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::HangAbove(most)) if points > most => std::future::pending().await,
            Some(Act::Slow(time)) => tokio::time::sleep(time).await,
            Some(Act::Die) => std::process::abort(),
            Some(Act::Later(time)) => later = Some(time),
            Some(Act::HangAbove(_) | Act::DropAfter | Act::DieAfter) | None => {}
        }
        let state = Arc::clone(&self.state);
        let done = move || {
            work(
                &mut state.lock().unwrap_or_else(PoisonError::into_inner),
                request,
            )
        };
        if let Some(time) = later {
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                let _ = tokio::task::spawn_blocking(done).await;
            });
            return B::acknowledged()
                .map(Response::new)
                .ok_or_else(|| Status::internal("only a write is applied later"));
        }
        let answer = tokio::task::spawn_blocking(done)
            .await
            .unwrap_or_else(|e| Err(Status::internal(format!("Service internal error: {e}"))));
        match act {
            Some(Act::DropAfter) => Err(Status::unavailable("planned failure after the work")),
            Some(Act::DieAfter) => std::process::abort(),
            _ => answer.map(Response::new),
        }
    }
}
