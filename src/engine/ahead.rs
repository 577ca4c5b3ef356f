//! A walk of the pages on a thread of its own, ahead of whoever compares them.

use std::iter::Flatten;
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{IntoIter, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use crate::model::{Failure, FailureKind, Within};
use crate::wiki::{Entry, Wiki};

/// How many entries are handed over at a time.
const HANDFUL: usize = 1_000;
/// How many handfuls the walk may be ahead: about as many as there is time for until git has told what HEAD holds.
const AHEAD: usize = 32;

/// A walk under way: it waits for the folders while the other thread asks git and the receipts. Dropping it ends the walk.
pub(super) struct Ahead<'s> {
    entries: Flatten<IntoIter<Vec<Entry>>>,
    walker: ScopedJoinHandle<'s, Result<(), Failure>>,
}

impl<'s> Ahead<'s> {
    /// Begins to walk as [`Wiki::walk_within`] does.
    pub(super) fn begin(scope: &'s Scope<'s, '_>, wiki: &'s Wiki, within: &'s Within) -> Self {
        let (tell, told) = sync_channel::<Vec<Entry>>(AHEAD);
        let walker = scope.spawn(move || {
            let mut some = Vec::with_capacity(HANDFUL);
            let tell = |some| {
                let sent = tell.send(some);
                // Why nobody listens any more, he says himself.
                sent.map_err(|_| Failure::new(FailureKind::Busy, "the comparison has ended"))
            };
            wiki.walk_within(within, &mut |entry| {
                some.push(entry);
                if some.len() < HANDFUL {
                    return Ok(());
                }
                tell(mem::replace(&mut some, Vec::with_capacity(HANDFUL)))
            })?;
            tell(some)
        });
        Self {
            entries: told.into_iter().flatten(),
            walker,
        }
    }

    /// Says, after the last entry, whether that was all.
    ///
    /// # Errors
    /// As the walk's own.
    pub(super) fn end(self) -> Result<(), Failure> {
        drop(self.entries);
        self.walker
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Iterator for Ahead<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.entries.next()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;
    use crate::wiki::WikiSettings;

    /// More pages than the walk may be ahead of whoever listens.
    const PAGES: usize = HANDFUL * AHEAD + 3_000;

    fn many() -> (tempfile::TempDir, Wiki) {
        let root = tempfile::tempdir().expect("a folder");
        for folder in 0..PAGES / 1_000 {
            let folder = root.path().join(format!("wiki-output/{folder}"));
            fs::create_dir_all(&folder).expect("made");
            for page in 0..1_000 {
                fs::write(folder.join(format!("{page}.md")), "").expect("written");
            }
        }
        let wiki = Wiki::open(root.path(), &WikiSettings::default()).expect("a wiki");
        (root, wiki)
    }

    #[test]
    fn it_meets_what_the_walk_meets_in_its_order_and_ends_when_nobody_listens() {
        let (_root, wiki) = many();
        let mut walked = Vec::new();
        wiki.walk(&mut |entry| {
            walked.push(entry);
            Ok(())
        })
        .expect("walked");
        assert_eq!(walked.len(), PAGES);
        let everything = Within::everything();
        let met = thread::scope(|scope| {
            let mut ahead = Ahead::begin(scope, &wiki, &everything);
            let met: Vec<_> = ahead.by_ref().collect();
            ahead.end().map(|()| met)
        });
        assert!(met.expect("walked") == walked, "the same in the same order");
        // Else the scope would never end.
        let first = thread::scope(|scope| Ahead::begin(scope, &wiki, &everything).next());
        assert_eq!(first.as_ref(), walked.first());
    }

    #[test]
    fn a_walk_that_fails_says_so_at_its_end() {
        let root = tempfile::tempdir().expect("a folder");
        let wiki = Wiki::open(root.path(), &WikiSettings::default()).expect("a wiki");
        fs::write(root.path().join("wiki-output"), "no folder").expect("written");
        let everything = Within::everything();
        let (met, ended) = thread::scope(|scope| {
            let mut ahead = Ahead::begin(scope, &wiki, &everything);
            (ahead.by_ref().count(), ahead.end())
        });
        assert_eq!(met, 0);
        assert_eq!(
            ended.map_err(|failure| failure.kind),
            Err(FailureKind::Down)
        );
    }
}
