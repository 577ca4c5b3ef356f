//! A real Redis server of a test's own.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// A `redis-server` on a free port, in a folder of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    folder: tempfile::TempDir,
    port: u16,
    file: Option<std::path::PathBuf>,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Panics
    /// When `redis-server` is not there or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server that writes every change to disk before it answers, so that a restart loses nothing.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn durable() -> Self {
        Self::with(&[
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ])
    }

    /// Starts a server with these arguments.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn with(arguments: &[&str]) -> Self {
        Self::started(None, arguments)
    }

    fn started(file: Option<&Path>, arguments: &[&str]) -> Self {
        // Another process may take the port between our looking and the server's start.
        for _ in 0..20 {
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let mut server = Self {
                folder: tempfile::tempdir().expect("a folder"),
                port,
                file: file.map(Path::to_path_buf),
                arguments: arguments.iter().map(ToString::to_string).collect(),
                child: None,
            };
            if server.try_up() {
                return server;
            }
        }
        panic!("redis-server does not start");
    }

    /// Starts a server with a settings file.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn with_file(file: &Path) -> Self {
        Self::started(Some(file), &[])
    }

    /// Starts the server again after [`Self::down`].
    ///
    /// # Panics
    /// When it does not start.
    pub fn up(&mut self) {
        assert!(self.try_up(), "redis-server does not start again");
    }

    fn try_up(&mut self) -> bool {
        self.begin_up();
        let port = self.port;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let child = self.child.as_mut().expect("just started");
            if child.try_wait().expect("a child").is_some() {
                return false;
            }
            // Any answer will do (it may ask for a password), but it must have read its data.
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                let pong = self.cli(&["PING"]);
                if !pong.is_empty() && !pong.contains("LOADING") {
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Starts the server again without waiting until it has read its data.
    ///
    /// # Panics
    /// When `redis-server` is not there.
    pub fn begin_up(&mut self) {
        let child = Command::new("redis-server")
            .args(&self.file)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--enable-debug-command", "yes"])
            .arg("--dir")
            .arg(self.folder.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed: scripts/test does it");
        self.child = Some(child);
    }

    /// Kills the server, as a machine that loses power does.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of ours");
            child.wait().expect("it ends");
        }
    }

    /// Sends a signal to the server: `-STOP`, `-CONT`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: &str) {
        let child = self.child.as_ref().expect("it runs");
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "{signal} is sent"
        );
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of its socket.
    #[must_use]
    pub fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns `redis-cli` to this server, ready to be given a command.
    #[must_use]
    pub fn client(&self) -> Command {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &self.port.to_string()]);
        client
    }

    /// Sends a command as `redis-cli` does, and returns what that prints.
    ///
    /// # Panics
    /// When `redis-cli` is not there.
    #[expect(
        clippy::must_use_candidate,
        reason = "most commands are sent for what they do"
    )]
    pub fn cli(&self, command: &[&str]) -> String {
        let output = self.client().args(command).output().expect("redis-cli");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
