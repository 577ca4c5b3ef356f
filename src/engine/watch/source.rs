//! Where events come from.

use std::time::Duration;

use crate::model::Failure;
use crate::wiki::Wiki;

/// Something that happened below the root; paths are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file was made, written, or moved to this path.
    Changed(String),
    /// A file went from this path. It may be there again.
    Gone(String),
    /// A folder was made or moved here; whatever is in it was not told.
    Folder(String),
    /// A folder went from here, with all that was in it.
    FolderGone(String),
    /// Events were lost: anything may have happened. For people, why.
    Rescan(&'static str),
    /// The canary was heard: events arrive.
    Canary,
    /// No more events will come.
    Broken(String),
}

/// A source of events: hints only. That one is missed costs time, until the next scan; that one comes twice, or for
/// nothing, costs a look at the page.
pub trait Source {
    /// Makes sure that what happens to the files in a folder, not in those below it, is told from now on. Again does
    /// no harm. A folder that is gone or that may not be read is none of its troubles: the scan finds that.
    ///
    /// # Errors
    /// When the system has no room for one more: the reason for people, and what to raise.
    fn arm(&mut self, folder: &str) -> Result<(), Failure>;

    /// Forgets a folder and those below it.
    fn disarm(&mut self, folder: &str);

    /// Makes a file, outside of the wiki, whose making is told as [`Event::Canary`].
    ///
    /// # Errors
    /// When it cannot be made.
    fn sing(&mut self) -> Result<(), Failure>;

    /// Waits up to `wait` for events and adds them to `events`, as many as are there, in bounded number.
    fn next(&mut self, wiki: &Wiki, wait: Duration, events: &mut Vec<Event>);
}

/// Waits; a signal ends it.
pub(super) fn doze(wait: Duration) {
    let wait = rustix::event::Timespec::try_from(wait).ok();
    // Interrupted is what it is for.
    let _ = rustix::event::poll(&mut [], wait.as_ref());
}
