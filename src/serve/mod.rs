//! The local viewer: the wiki's state in a browser on this machine.
//!
//! | file | what |
//! |---|---|
//! | `gate.rs` | who may ask: token, cookie, `Host`, `Origin`; what an answer lets a browser do |
//! | `wire.rs` | the connections: how many, and for how long |
//! | `words.rs` | what is said where there is nothing to show |
//! | `source.rs` | what is asked of the wiki, opened by `cli` |
//! | `pulse.rs` | the one look at the state that all who watch it share |
//! | `shell.rs` | what every page has around it |
//! | `overview.rs`, `search.rs`, `page.rs`, `graph.rs`, `dead.rs` | one page each |
//! | `render.rs`, `raw.rs`, `breaks.rs` | Markdown → HTML that does no harm |
//! | `layout.rs` | where the graph's nodes are drawn |
//! | `assets/` | styles and scripts, embedded as they are |
//!
//! It reads. The only writes are those of `dlq retry` and `dlq drop`, which a form asks for. Every answer is bounded, and so
//! is the number of questions at a time; whatever waits for a disk or a lock does so on a thread of its own.

mod assets;
mod breaks;
mod dead;
mod gate;
mod graph;
mod layout;
mod overview;
mod page;
mod pulse;
mod raw;
mod render;
mod search;
mod shell;
mod source;
mod wire;
mod words;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use self::render::plain;
pub use self::source::{Answer, Source};

use self::gate::Gate;
use self::layout::Desk;
use self::pulse::Pulse;
use crate::model::{Failure, FailureKind};
use crate::state::Stop;

/// Questions that are answered at a time.
const AT_A_TIME: usize = 4;
/// How long a question waits until it is its turn.
const PATIENCE: Duration = Duration::from_secs(15);
/// Streams of the state that there are at most.
const STREAMS: usize = 64;
/// Most bytes of a form.
const FORM: usize = 64 << 10;

/// What all requests share.
struct App {
    gate: Arc<Gate>,
    source: Arc<dyn Source>,
    pulse: Pulse,
    desk: Desk,
    questions: Semaphore,
    /// One search at a time: there is one turn with the vectors.
    searches: Semaphore,
    streams: Arc<Semaphore>,
}

type Shared = Arc<App>;

impl App {
    /// Answers a question on a thread that may wait for disks and locks.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        turn: &Semaphore,
        question: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let busy = || Failure::new(FailureKind::Busy, "too many questions at a time");
        let Ok(Ok(_turn)) = timeout(PATIENCE, turn.acquire()).await else {
            return Err(busy().hint("ask again in a moment"));
        };
        let app = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || question(&app)).await;
        answer.unwrap_or_else(|_| {
            Err(
                Failure::new(FailureKind::Transient, "the question could not be answered")
                    .hint("the reason stands where `wiki-sync serve` was started"),
            )
        })
    }
}

/// Serves the viewer on this machine until a stop is wished; port 0 is any that is free. `told` hears the address to open,
/// which works once.
///
/// # Errors
/// `Refused` when the port is taken, `Down` when the system gives no port, no random bytes or no threads.
pub fn serve(
    source: Arc<dyn Source>,
    port: u16,
    stop: &Stop,
    told: impl FnOnce(&str),
) -> Result<(), Failure> {
    let listener = listen(port)?;
    let down = |e: &io::Error| Failure::from_error(FailureKind::Down, "cannot serve", e);
    let port = listener.local_addr().map_err(|e| down(&e))?.port();
    let gate = Arc::new(Gate::new(port).map_err(|e| down(&e))?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2 * AT_A_TIME)
        .thread_name("serve")
        .enable_all()
        .build()
        .map_err(|e| down(&e))?;
    let app = Arc::new(App {
        pulse: Pulse::start(Arc::clone(&source)).map_err(|e| down(&e))?,
        desk: Desk::new(source.state()),
        gate: Arc::clone(&gate),
        source,
        questions: Semaphore::new(AT_A_TIME),
        searches: Semaphore::new(1),
        streams: Arc::new(Semaphore::new(STREAMS)),
    });
    told(&gate.url());
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            ended = wire::serve(listener, router(app)) => ended,
            () = wished(stop) => Ok(()),
        }
    });
    // Streams never end, and whoever waits for a lock only reads.
    runtime.shutdown_background();
    served.map_err(|e| down(&e))
}

fn listen(port: u16) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|e| {
        let doing = format!("cannot listen on 127.0.0.1:{port}");
        let failure = Failure::from_error(FailureKind::Refused, &doing, &e);
        failure.hint("another program has this port; without --port any free one is taken")
    })
}

async fn wished(stop: &Stop) {
    const LOOK: Duration = Duration::from_millis(50);
    while !stop.is_wished() {
        tokio::time::sleep(LOOK).await;
    }
}

fn router(app: Shared) -> Router {
    let gate = Arc::clone(&app.gate);
    Router::new()
        .route("/", get(overview::show))
        .route("/events", get(overview::events))
        .route("/search", get(search::show))
        .route("/search/hits", get(search::hits))
        .route("/page", get(page::show))
        .route("/file", get(page::file))
        .route("/raw", get(page::raw))
        .route("/graph", get(graph::show))
        .route("/graph/data", get(graph::data))
        .route("/graph/positions", get(graph::positions))
        .route("/dead", get(dead::show))
        .route("/dead/act", post(dead::act))
        .route("/assets/{name}", get(assets::asset))
        .fallback(async || not_found())
        .layer(from_fn(gate::whole))
        .layer(DefaultBodyLimit::max(FORM))
        .layer(from_fn(words::ours))
        .layer(from_fn_with_state(gate, gate::guard))
        .with_state(app)
}

fn not_found() -> Response {
    let page = shell::notice("Not found", "There is nothing at this address.", None);
    (StatusCode::NOT_FOUND, page).into_response()
}
