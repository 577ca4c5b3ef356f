//! The one look at the state, which all who watch it share: twenty streams cost what one does, and none costs nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::overview;
use super::source::Source;
use crate::hooks::status::HooksStatus;
use crate::model::{Failure, Timestamp};
use crate::outbox::{Counts, Outbox};
use crate::query::status::{StatusReport, status, watch_status};

/// How often the queue is counted while somebody looks. That costs the same whatever waits.
const GLANCE: Duration = Duration::from_millis(500);
/// How long a look at all pages is good for where nothing moves: a file that was saved makes no sign that a watch which was
/// killed could miss.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How many times longer than a look at all pages took, the next one is put off: a drain that runs beside loses little.
const REST: u32 = 9;
/// How often the hooks are looked at: that starts programs.
const HOOKS: Duration = Duration::from_mins(1);
/// How long one who asked for a page counts as somebody who looks.
const INTEREST: Duration = Duration::from_secs(3);
/// Points of the picture of what was owed.
const POINTS: usize = 120;

/// The state as it is shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// The overview's changing part.
    pub(super) html: Arc<str>,
    /// When all pages were last looked at.
    pub(super) looked: Looked,
}

/// A point in time, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    /// For how long ago it is.
    pub(super) at: Instant,
    /// For people.
    pub(super) time: Timestamp,
}

impl Looked {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            time: Timestamp::now(),
        }
    }
}

/// What is remembered between two looks.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) hooks: Option<HooksStatus>,
    /// What was owed, oldest first, a number for each look.
    pub(super) owed: VecDeque<u64>,
}

/// The last look, and the way to ask for another.
pub(super) struct Pulse {
    shown: watch::Receiver<Option<Arc<Shown>>>,
    wake: Sender<()>,
}

impl Pulse {
    /// Starts the thread that looks; it ends with this.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(super) fn start(source: Arc<dyn Source>) -> io::Result<Self> {
        let (tell, shown) = watch::channel(None);
        let (wake, woken) = channel();
        // The first look begins before anybody asks.
        let _ = wake.send(());
        let look = move || {
            let looker = Looker {
                source,
                tell,
                memory: Memory::default(),
                outbox: None,
                last: None,
            };
            looker.run(&woken);
        };
        thread::Builder::new().name("pulse".into()).spawn(look)?;
        Ok(Self { shown, wake })
    }

    /// Returns the state and what comes after it.
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<Shown>>> {
        let shown = self.shown.clone();
        let _ = self.wake.send(());
        shown
    }
}

struct Looker {
    source: Arc<dyn Source>,
    tell: watch::Sender<Option<Arc<Shown>>>,
    memory: Memory,
    outbox: Option<Box<dyn Outbox>>,
    /// The last whole look, and when it began.
    last: Option<(Looked, Result<StatusReport, Failure>)>,
}

impl Looker {
    fn run(mut self, woken: &Receiver<()>) {
        let mut asked = Instant::now();
        let mut looked_at: Option<Instant> = None;
        let mut not_before = Instant::now();
        let mut hooks_at: Option<Instant> = None;
        let mut counts = None;
        loop {
            // One receiver is our own.
            let is_watched = self.tell.receiver_count() > 1 || asked.elapsed() < INTEREST;
            let wait = if is_watched { GLANCE } else { HOOKS };
            match woken.recv_timeout(wait) {
                Ok(()) => {
                    asked = Instant::now();
                    while woken.try_recv().is_ok() {}
                }
                Err(RecvTimeoutError::Timeout) if is_watched => {}
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.glance();
            let moved = now != counts;
            counts = now;
            let is_old = looked_at.is_none_or(|at| at.elapsed() >= GOOD_FOR);
            if (moved || is_old) && Instant::now() >= not_before {
                let began = Instant::now();
                self.look();
                let took = began.elapsed();
                looked_at = Some(Instant::now());
                not_before = Instant::now() + (took * REST).max(GLANCE);
                counts = self.glance();
            }
            self.tell(counts);
            if hooks_at.is_none_or(|at| at.elapsed() >= HOOKS) {
                self.memory.hooks = self.source.hooks();
                hooks_at = Some(Instant::now());
                self.tell(counts);
            }
        }
    }

    /// Counts the queue; `None` where it cannot be asked.
    fn glance(&mut self) -> Option<Counts> {
        // One that is open would be asked on where its file was taken away.
        if !self.source.state().exists() {
            self.outbox = None;
            return None;
        }
        let mut outbox = match self.outbox.take() {
            Some(outbox) => outbox,
            None => self.source.outbox().ok()?,
        };
        let counts = outbox.counts(Timestamp::now()).ok()?;
        self.outbox = Some(outbox);
        Some(counts)
    }

    /// Looks at everything, opened for this look alone.
    fn look(&mut self) {
        let looked = Looked::now();
        let report = self
            .source
            .parts()
            .and_then(|mut parts| status(&mut parts, Timestamp::now()));
        // An outbox that was replaced meanwhile would be asked for ever.
        self.outbox = None;
        self.last = Some((looked, report));
    }

    fn tell(&mut self, counts: Option<Counts>) {
        let Some((looked, last)) = &mut self.last else {
            return;
        };
        let html = match last {
            Err(failure) => overview::away(failure).into_string(),
            Ok(report) => {
                let now = Timestamp::now();
                // Costs a look at two files, and a watch that was killed makes no other sign.
                if let Ok(watch) = watch_status(self.source.state(), now) {
                    report.watch = watch;
                }
                if let Some(counts) = counts {
                    report.outbox.waiting = counts.waiting;
                    report.outbox.delayed = counts.delayed;
                    report.outbox.in_flight = counts.in_flight;
                    report.outbox.held = counts.held;
                    report.outbox.dead = counts.dead;
                }
                let owed = &mut self.memory.owed;
                owed.push_back(overview::owed(report));
                if owed.len() > POINTS {
                    owed.pop_front();
                }
                overview::state(report, &self.memory).into_string()
            }
        };
        let looked = *looked;
        self.tell.send_if_modified(|shown| {
            let last = shown.as_deref();
            let same = last.filter(|last| *last.html == *html);
            let is_new = same.is_none_or(|last| last.looked.at != looked.at);
            let html = same.map_or_else(|| html.into(), |last| Arc::clone(&last.html));
            *shown = Some(Arc::new(Shown { html, looked }));
            is_new
        });
    }
}
