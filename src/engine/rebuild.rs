//! Building a store anew beside the one that is in use.

use std::sync::Arc;

use serde::Serialize;

use super::Progress;
use super::report::{Trouble, gather, trouble};
use crate::model::{Change, Failure, FailureKind, Page, PagePath};
use crate::state::{Receipts, Stop};
use crate::stores::Store;
use crate::wiki::{Entry, Reading, Wiki};

/// How many pages, and bytes of them, are brought to the store at a time.
const PAGES: usize = 100;
const BYTES: usize = 8 << 20;

/// What was built.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rebuilt {
    /// Pages that it holds.
    pub pages: u64,
    /// Texts embedded by a provider.
    pub embedded: u64,
    /// Texts whose embedding was at hand.
    pub cached: u64,
    /// Why pages are not held, or not whole: one entry per reason.
    pub trouble: Vec<Trouble>,
    /// It was told to stop before everything was done: what was built is gone on with the next time.
    pub stopped: bool,
    /// What was in use before and was left as it was.
    pub left: Option<String>,
}

/// Brings every page to a store that nobody uses yet. What it holds already stays; what is no page any longer goes.
///
/// A page that changes meanwhile is brought to it by the first drain afterwards, which does not know the store.
///
/// # Errors
/// When the store, or what it needs, cannot be used; what was built so far stays.
pub fn rebuild(
    wiki: &Wiki,
    receipts: &Receipts,
    store: &mut dyn Store,
    stop: &Stop,
    progress: &mut dyn Progress,
) -> Result<Rebuilt, Failure> {
    store.heed(stop);
    let mut total = 0;
    wiki.walk(&mut |entry| {
        total += u64::from(matches!(entry, Entry::Page { .. }));
        Ok(())
    })?;
    let mut build = Build {
        epoch: store.identity()?.epoch,
        store,
        stop,
        built: Rebuilt::default(),
        changes: Vec::new(),
        bytes: 0,
    };
    wiki.walk(&mut |entry| {
        let Entry::Page { path, .. } = entry else {
            return Ok(());
        };
        match wiki.read(&path) {
            Reading::Page { text, .. } => {
                let labels = receipts.labels(&path)?;
                build.bytes += text.len();
                let page = Page::new(path, text, labels);
                build.changes.push(Change::Put(Arc::new(page)));
            }
            // Gone meanwhile.
            Reading::Absent => {}
            Reading::Bad { failure, .. } => build.note(&path, &failure),
        }
        if build.changes.len() >= PAGES || build.bytes >= BYTES {
            build.flush()?;
            progress.at("building", build.built.pages, total);
        }
        Ok(())
    })?;
    build.flush()?;
    if !build.built.stopped {
        let held = build.store.inventory()?;
        let paths = held
            .iter()
            .filter_map(|one| PagePath::parse(&one.path).ok());
        let gone = paths
            .filter(|path| !wiki.is_page(path.as_str()) || matches!(wiki.stat(path), Ok(None)));
        build.changes = gone.map(Change::Remove).collect();
        build.flush()?;
        // An earlier attempt may have left one that is known.
        build.store.renew()?;
    }
    let tally = build.store.tally();
    Ok(Rebuilt {
        embedded: tally.embedded.unwrap_or_default(),
        cached: tally.cached.unwrap_or_default(),
        ..build.built
    })
}

/// A store that is built, and what is to be brought to it next.
struct Build<'a> {
    store: &'a mut dyn Store,
    epoch: i64,
    stop: &'a Stop,
    built: Rebuilt,
    changes: Vec<Change>,
    bytes: usize,
}

impl Build<'_> {
    fn note(&mut self, path: &PagePath, failure: &Failure) {
        let new = trouble(Some(self.store.name()), Some(path.to_string()), failure);
        gather(&mut self.built.trouble, new);
    }

    /// Brings to the store what was gathered, until all of it was reached.
    fn flush(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        while !self.changes.is_empty() {
            if self.stop.is_wished() {
                self.built.stopped = true;
                self.changes.clear();
                return Ok(());
            }
            let changes = std::mem::take(&mut self.changes);
            self.epoch += 1;
            let outcomes = self.store.apply(&changes, self.epoch)?;
            for (change, outcome) in changes.into_iter().zip(outcomes) {
                match outcome {
                    Ok(_) => self.built.pages += u64::from(matches!(change, Change::Put(_))),
                    Err(failure) => match failure.kind {
                        FailureKind::Busy => self.changes.push(change),
                        FailureKind::Transient | FailureKind::Rejected => {
                            self.note(change.path(), &failure);
                        }
                        FailureKind::Down | FailureKind::Refused | FailureKind::Waiting => {
                            // Of the store, and not of this page.
                            return Err(self.store.lack().unwrap_or(failure));
                        }
                    },
                }
            }
        }
        Ok(())
    }
}
