//! Looking again and again, where events do not come.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::source::{Event, doze};
use crate::model::{Failure, PagePath};
use crate::wiki::{Entry, FileStat, Wiki, is_below};

/// A look may take this part of the time, in percent; a slow one is made less often.
const SHARE_PERCENT: u32 = 1;

/// What of the wiki is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// All of it.
    All,
    /// The files in these folders, each by itself.
    Folders(BTreeSet<String>),
}

/// Compares the files' stats with those of the last look.
#[derive(Debug)]
pub(super) struct Poll {
    scope: Scope,
    every: Duration,
    seen: HashMap<PagePath, (FileStat, u64)>,
    /// Counts the looks; what was not met in the last one is gone.
    look: u64,
    next: Instant,
}

impl Poll {
    /// Looks at nothing yet, from now on every `every`.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            scope: Scope::Folders(BTreeSet::new()),
            every,
            seen: HashMap::new(),
            look: 0,
            next: Instant::now() + every,
        }
    }

    /// Looks at the whole wiki from now on. What is there now is the beginning; nothing is told of it.
    ///
    /// # Errors
    /// When the pages' folder cannot be read.
    pub(super) fn take_all(&mut self, wiki: &Wiki) -> Result<(), Failure> {
        self.scope = Scope::All;
        self.compare(wiki, &mut Vec::new())
    }

    /// Looks at the files in a folder too. What is there now is the beginning.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(super) fn take(&mut self, wiki: &Wiki, folder: &str) -> Result<(), Failure> {
        if let Scope::Folders(folders) = &mut self.scope
            && folders.insert(folder.into())
        {
            let (look, seen) = (self.look, &mut self.seen);
            wiki.walk_at(folder, &mut |at| at == folder, &mut |entry| {
                if let Entry::Page { path, stat } = entry {
                    seen.insert(path, (stat, look));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Forgets a folder and those below it.
    pub(super) fn drop_folder(&mut self, folder: &str) {
        if let Scope::Folders(folders) = &mut self.scope {
            folders.retain(|at| at != folder && !is_below(at, folder));
            self.seen.retain(|path, _| !is_below(path.as_str(), folder));
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(&self.scope, Scope::Folders(folders) if folders.is_empty())
    }

    /// Returns when the next look is.
    pub(super) fn next_look(&self) -> Option<Instant> {
        (!self.is_idle()).then_some(self.next)
    }

    /// Looks, if it is time.
    ///
    /// # Errors
    /// When the pages' folder cannot be read: then nothing is known.
    pub(super) fn look(&mut self, wiki: &Wiki, events: &mut Vec<Event>) -> Result<(), Failure> {
        let began = Instant::now();
        if self.is_idle() || began < self.next {
            return Ok(());
        }
        let compared = self.compare(wiki, events);
        let pause = began.elapsed() * 100 / SHARE_PERCENT;
        self.next = Instant::now() + self.every.max(pause);
        compared
    }

    /// Waits for the next look, at most `wait`, and looks.
    ///
    /// # Errors
    /// As [`Poll::look`].
    pub(super) fn next(
        &mut self,
        wiki: &Wiki,
        wait: Duration,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let left = self.next.saturating_duration_since(Instant::now());
        doze(left.min(wait));
        self.look(wiki, events)
    }

    fn compare(&mut self, wiki: &Wiki, events: &mut Vec<Event>) -> Result<(), Failure> {
        self.look += 1;
        let (look, seen) = (self.look, &mut self.seen);
        let mut blind = Vec::new();
        let mut visit = |entry| {
            match entry {
                Entry::Page { path, stat } => {
                    let before = seen.insert(path.clone(), (stat, look));
                    if before.is_none_or(|(before, _)| before != stat) {
                        events.push(Event::Changed(path.as_str().into()));
                    }
                }
                Entry::Blind { folder, .. } => blind.push(folder),
                Entry::Skipped(_) => {}
            }
            Ok(())
        };
        let mut new = Vec::new();
        match &self.scope {
            Scope::All => wiki.walk(&mut visit)?,
            Scope::Folders(folders) => {
                for folder in folders {
                    let mut enter = |at: &str| {
                        if at != folder && !folders.contains(at) {
                            // Armed already, mostly; who hears of it arms it, or hands it back to us.
                            new.push(at.to_owned());
                        }
                        at == folder
                    };
                    wiki.walk_at(folder, &mut enter, &mut visit)?;
                }
            }
        }
        let known = |path: &PagePath| blind.iter().any(|folder| is_below(path.as_str(), folder));
        self.seen.retain(|path, (_, at)| {
            let stays = *at == look || known(path);
            if !stays {
                events.push(Event::Gone(path.as_str().into()));
            }
            stays
        });
        events.extend(new.into_iter().map(Event::Folder));
        Ok(())
    }
}
