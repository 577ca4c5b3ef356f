//! All that we hear by: events, and looking again and again for what they do not reach.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::poll::Poll;
use super::source::{Event, Source};
use crate::model::Failure;
use crate::wiki::{Entry, Wiki};

/// How long the canary may take to be heard.
const CANARY: Duration = Duration::from_secs(2);
/// How often it sings.
const SONG: Duration = Duration::from_mins(1);

/// How changes are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// The system tells of them.
    #[serde(rename = "events")]
    Events,
    /// It tells of some; the folders it has no room for are looked at again and again.
    #[serde(rename = "events+polling")]
    Both,
    /// The pages are looked at again and again.
    #[serde(rename = "polling")]
    Polling,
}

impl Mode {
    /// Returns the word that stands in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Both => "events+polling",
            Self::Polling => "polling",
        }
    }
}

/// The ears.
pub(super) struct Ears {
    source: Option<Box<dyn Source>>,
    poll: Poll,
    /// Why not by events alone.
    pub(super) why: Option<Failure>,
    /// The song that was not heard yet.
    sung: Option<Instant>,
    next_song: Instant,
}

/// Which folders are none of ours, by path.
pub(super) type Ignored<'a> = &'a dyn Fn(&str) -> bool;

impl Ears {
    /// Listens to the source, or, where there is none, looks; `why` says why.
    pub(super) fn new(source: Result<Box<dyn Source>, Failure>, every: Duration) -> Self {
        let (source, why) = match source {
            Ok(source) => (Some(source), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            source,
            poll: Poll::new(every),
            why,
            sung: None,
            next_song: Instant::now(),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match (&self.source, self.poll.is_idle()) {
            (None, _) => Mode::Polling,
            (Some(_), true) => Mode::Events,
            (Some(_), false) => Mode::Both,
        }
    }

    /// Listens to a folder and all below it, and hands the pages that are in it to `met`. Each folder is armed before it
    /// is listed, so that a page is met, told, or both.
    ///
    /// # Errors
    /// When the folder cannot be read, or `met` fails.
    pub(super) fn open_folder(
        &mut self,
        wiki: &Wiki,
        ignored: Ignored<'_>,
        folder: &str,
        met: &mut dyn FnMut(crate::model::PagePath),
    ) -> Result<(), Failure> {
        let Self { source, why, .. } = self;
        let mut unarmed = Vec::new();
        let mut enter = |at: &str| {
            if ignored(at) {
                return false;
            }
            if let Some(source) = source
                && let Err(failure) = source.arm(at)
            {
                why.get_or_insert(failure);
                unarmed.push(at.to_owned());
            }
            true
        };
        let walked = wiki.walk_at(folder, &mut enter, &mut |entry| {
            if let Entry::Page { path, .. } = entry {
                met(path);
            }
            Ok(())
        });
        for at in unarmed {
            self.poll.take(wiki, &at)?;
        }
        walked
    }

    /// Listens to the whole wiki.
    ///
    /// # Errors
    /// When the pages' folder cannot be read.
    pub(super) fn open_all(&mut self, wiki: &Wiki, ignored: Ignored<'_>) -> Result<(), Failure> {
        if self.source.is_none() {
            return self.poll.take_all(wiki);
        }
        self.arm_all(wiki, ignored)
    }

    /// Makes sure that it listens to every folder that is there, where it listens.
    ///
    /// # Errors
    /// When the pages' folder cannot be read.
    pub(super) fn arm_all(&mut self, wiki: &Wiki, ignored: Ignored<'_>) -> Result<(), Failure> {
        if self.source.is_none() {
            return Ok(());
        }
        self.open_folder(wiki, ignored, wiki.pages_dir(), &mut |_| ())
    }

    /// Forgets a folder and those below it.
    pub(super) fn close_folder(&mut self, folder: &str) {
        if let Some(source) = &mut self.source {
            source.disarm(folder);
        }
        self.poll.drop_folder(folder);
    }

    /// Waits up to `wait` for events and adds them to `events`. When the canary is not heard in time the source is deaf:
    /// from then on the pages are looked at.
    pub(super) fn next(&mut self, wiki: &Wiki, wait: Duration, events: &mut Vec<Event>) {
        self.sing();
        let wait = self.wait(wait);
        let before = events.len();
        let looked = match &mut self.source {
            Some(source) => {
                source.next(wiki, wait, events);
                self.poll.look(wiki, events)
            }
            None => self.poll.next(wiki, wait, events),
        };
        if let Err(failure) = looked {
            // Nothing is known of the pages: the scan will say so, or find them there again.
            self.why = Some(failure);
        }
        let heard = events.len() > before;
        let mut broken = None;
        events.retain(|event| match event {
            Event::Canary => {
                self.sung = None;
                false
            }
            Event::Broken(why) => {
                broken = Some(why.clone());
                false
            }
            Event::Rescan(_) => {
                // The canary may be among what was lost.
                self.sung = None;
                true
            }
            Event::Changed(_) | Event::Gone(_) | Event::Folder(_) | Event::FolderGone(_) => true,
        });
        // As long as anything is heard the canary may be behind it.
        if !heard && self.sung.is_some_and(|sung| sung.elapsed() >= CANARY) {
            broken = Some("no events arrive here".into());
        }
        if let Some(why) = broken {
            self.lose(wiki, why, events);
        }
    }

    fn sing(&mut self) {
        let now = Instant::now();
        if let Some(source) = &mut self.source
            && self.sung.is_none()
            && now >= self.next_song
        {
            // A full disk makes nobody deaf.
            if source.sing().is_ok() {
                self.sung = Some(now);
            }
            self.next_song = now + SONG;
        }
    }

    fn wait(&self, wait: Duration) -> Duration {
        let now = Instant::now();
        let look = self.poll.next_look();
        let deaf = self.sung.map(|sung| sung + CANARY);
        let song = self.source.as_ref().map(|_| self.next_song);
        let next = [look, deaf, song].into_iter().flatten().min();
        next.map_or(wait, |next| wait.min(next.saturating_duration_since(now)))
    }

    fn lose(&mut self, wiki: &Wiki, why: String, events: &mut Vec<Event>) {
        self.source = None;
        self.sung = None;
        let why = Failure::new(crate::model::FailureKind::Down, why);
        self.why = Some(match self.poll.take_all(wiki) {
            Ok(()) => why,
            Err(failure) => failure,
        });
        events.push(Event::Rescan("events were lost"));
    }
}
