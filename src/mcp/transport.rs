//! Messages, one a line. Whatever a line holds, the server reads on: what is no message is answered here, since the SDK
//! would pass over it without a word.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Error, Result,
};
use tokio::sync::{Mutex, Semaphore};

use super::LONGEST_LINE;
use super::line::{Heard, Wrong, heard};

/// Messages that may wait to be written before nothing more is read: a client that does not listen is not heard.
const OWED: u32 = 256;
/// How long the last answers may take when nothing more can come in.
const LAST: Duration = Duration::from_secs(5);

/// Lines in and out.
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    /// What came of a line so far. A read may be called off at any time and goes on here.
    line: Vec<u8>,
    /// The line was too long, and its rest is passed over.
    passing: bool,
    /// A request came.
    began: bool,
    write: Arc<Mutex<W>>,
    owed: Arc<Semaphore>,
}

/// What the next line is.
enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            passing: false,
            began: false,
            write: Arc::new(Mutex::new(write)),
            owed: Arc::new(Semaphore::new(OWED as usize)),
        }
    }

    /// Reads a line, at most as much of it as a message may have. The last one may lack its end.
    async fn line(&mut self) -> Line {
        loop {
            let came = match self.read.fill_buf().await {
                Ok(came) if !came.is_empty() => came,
                // Nothing more can be read, for whatever reason.
                Ok(_) | Err(_) => {
                    let rest = std::mem::take(&mut self.line);
                    return if rest.is_empty() {
                        Line::End
                    } else {
                        Line::Whole(rest)
                    };
                }
            };
            let end = came.iter().position(|&byte| byte == b'\n');
            let part = &came[..end.unwrap_or(came.len())];
            let fits = self.line.len() + part.len() <= LONGEST_LINE;
            if fits && !self.passing {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.read.consume(used);
            let passed = self.passing;
            self.passing = (passed || !fits) && end.is_none();
            if !passed && !fits {
                self.line.clear();
                return Line::TooLong;
            }
            if end.is_some() && !passed {
                return Line::Whole(std::mem::take(&mut self.line));
            }
        }
    }

    /// Writes a message, once those before it are written.
    fn say(&self, message: Result<Vec<u8>>) -> impl Future<Output = Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        let owed = Arc::clone(&self.owed).try_acquire_owned();
        async move {
            let _owed = owed;
            let mut line = message?;
            line.push(b'\n');
            let mut write = write.lock().await;
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    fn answer(&self, wrong: &Wrong) {
        // A client that is gone hears nothing.
        let _saying = tokio::spawn(self.say(Ok(wrong.line())));
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        self.say(serde_json::to_vec(&item).map_err(Error::other))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            drop(self.owed.acquire().await);
            let heard = match self.line().await {
                Line::Whole(line) => heard(&line),
                Line::TooLong => Heard::Wrong(Wrong::too_long()),
                Line::End => {
                    let all = self.owed.acquire_many(OWED);
                    let _ = tokio::time::timeout(LAST, all).await;
                    return None;
                }
            };
            match heard {
                Heard::Message(message) => {
                    // The SDK gives up on a client that begins with anything else, such as a notification.
                    self.began |= matches!(*message, ClientJsonRpcMessage::Request(_));
                    if self.began {
                        return Some(*message);
                    }
                }
                Heard::Wrong(wrong) => self.answer(&wrong),
                Heard::Nothing => {}
            }
        }
    }

    async fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
