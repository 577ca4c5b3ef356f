//! The connections: how many there are, and how long one may say nothing.
//!
//! Whoever can reach this machine's ports can open connections, cookie or not. Each costs a place, so there is a number of
//! them, and one on which no whole request arrives is closed, be it new, half sent, or left open after an answer: a browser
//! opens another by itself. Answers may take as long as they like: a stream of the state never ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time. A browser has six of its own for one host; a window that is seen holds one of them for its stream.
const CONNECTIONS: usize = 256;
/// How long a request's head may take, from the moment at which it could begin.
pub(super) const HEAD: Duration = Duration::from_secs(15);
/// After an accept that failed, mostly for want of file descriptors.
const AGAIN: Duration = Duration::from_millis(200);

/// Answers whoever comes, without an end.
pub(super) async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _place = place;
            // What is sent in small pieces is sent at once.
            let _ = stream.set_nodelay(true);
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // One that breaks off is nobody's trouble.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
