//! The wiki for language models: an MCP server over stdin and stdout. It reads, and changes nothing.
//!
//! | file | what |
//! |---|---|
//! | here | running the server: its bounds, its end, and what it needs to be given |
//! | `server.rs` | the protocol's side: which tools there are; each call on a thread, within bounds |
//! | `answer.rs` | what every answer has: a structure, a text for reading, and how fresh it is |
//! | `resolve.rs` | from what a model names to a page of the wiki |
//! | `search.rs`, `read.rs`, `links.rs`, `changes.rs`, `status.rs` | the tools: arguments, answer, work |
//! | `number.rs` | the numbers that tools take, and their bounds |
//! | `transport.rs`, `line.rs` | messages, one a line; what is none has an answer too |
//!
//! Everything is opened anew for each call and let go of at its end, so that a server that is open for days holds nothing
//! that others wait for, and tells what is there now. What a call cannot have is told as the tool's error, with the way
//! out, since that is what a model gets to read.

mod answer;
mod changes;
mod line;
mod links;
mod number;
mod read;
mod resolve;
mod search;
mod server;
mod status;
mod transport;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::service::{QuitReason, ServerInitializeError};
use rusqlite::Connection;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

pub use self::answer::Trouble;

use self::server::Server;
use self::transport::Lines;
use crate::model::{Failure, PagePath};
use crate::outbox::{Counts, DeadLetter};
use crate::query::search::{Asked, Found};
use crate::query::status::StatusReport;
use crate::state::{Receipts, StateDir, Stop};
use crate::wiki::Wiki;

/// The longest line that is read, in bytes: a longer message is passed over. No call needs a hundredth of it.
pub const LONGEST_LINE: usize = 1 << 20;
/// How long a call waits for others in all: for those before it, then for its turn with the vectors.
pub const WAIT: Duration = Duration::from_secs(30);

/// A call under way.
#[derive(Debug, Clone)]
pub struct Call {
    /// Wished once nobody waits for the answer any more.
    pub stop: Stop,
    since: Instant,
}

impl Call {
    /// Returns how long it may still wait for others.
    #[must_use]
    pub fn left(&self) -> Duration {
        WAIT.saturating_sub(self.since.elapsed())
    }
}

/// Finds the wiki anew for each call, so that what was moved, mended or set otherwise meanwhile counts.
pub trait Source: Send + Sync + 'static {
    /// Finds the wiki; opens nothing and creates nothing.
    ///
    /// # Errors
    /// When there is none, or its settings cannot be used.
    fn find(&self, call: &Call) -> Result<Box<dyn Place>, Trouble>;
}

/// A wiki, and its parts to be read. Nothing is created, where nothing is.
pub trait Place {
    /// Returns the pages.
    fn wiki(&self) -> &Wiki;

    /// Returns the state folder, be it there or not.
    fn state(&self) -> &StateDir;

    /// Opens the database that holds the graph.
    ///
    /// # Errors
    /// `Waiting` when nothing is indexed yet; as [`crate::state::open_db_to_read`].
    fn graph(&self) -> Result<Connection, Failure>;

    /// Opens the receipts.
    ///
    /// # Errors
    /// As [`Place::graph`].
    fn receipts(&self) -> Result<Receipts, Failure>;

    /// Counts the jobs.
    ///
    /// # Errors
    /// The outbox's.
    fn counts(&self) -> Result<Counts, Failure>;

    /// Returns the dead letters of these pages.
    ///
    /// # Errors
    /// The outbox's.
    fn dead_of(&self, pages: &[PagePath]) -> Result<Vec<DeadLetter>, Failure>;

    /// Searches the vectors, and lets go of them.
    ///
    /// # Errors
    /// As [`Place::graph`], and the vectors'.
    fn search(&self, asked: &Asked<'_>) -> Result<Found, Failure>;

    /// Looks where every job and store stands.
    ///
    /// # Errors
    /// As [`Place::graph`], and those of the parts.
    fn status(&self) -> Result<StatusReport, Failure>;
}

/// Serves the wiki over stdin and stdout until stdin ends or one of the signals comes.
///
/// # Errors
/// When the runtime or the signals cannot be had, or stdout is gone.
pub fn serve(source: impl Source, signals: &[i32]) -> io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        // Those that run, and one each for stdin and stdout.
        .max_blocking_threads(server::AT_ONCE + 2)
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve_until(Server::new(Arc::new(source)), signals));
    // A read of stdin cannot be called off; the process ends without it.
    runtime.shutdown_background();
    served
}

async fn serve_until(server: Server, signals: &[i32]) -> io::Result<()> {
    let mut heard = Vec::new();
    for &number in signals {
        heard.push(signal(SignalKind::from_raw(number))?);
    }
    let any = async move {
        let waits = heard.iter_mut().map(|signal| Box::pin(signal.recv()));
        let mut waits: Vec<_> = waits.collect();
        std::future::poll_fn(|cx| {
            let mut waits = waits.iter_mut();
            let came = waits.any(|wait| wait.as_mut().poll(cx).is_ready());
            if came {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    };
    tokio::select! {
        served = talk(server) => served,
        () = any => Ok(()),
    }
}

async fn talk(server: Server) -> io::Result<()> {
    let lines = Lines::new(tokio::io::stdin(), tokio::io::stdout());
    let running = match server.serve(lines).await {
        Ok(running) => running,
        // Nobody ever asked anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(io::Error::other(error)),
        Ok(_) => Ok(()),
    }
}
