//! Pages that changed and are not handed on yet. Pure: the time comes in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::PagePath;

/// More pages than this are one look at the whole wiki.
const MOST: usize = 10_000;

/// How long a page must be left alone before it is handed on, and how long it is waited for at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Since its last change.
    pub quiet: Duration,
    /// Since its first one.
    pub ceiling: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(400),
            ceiling: Duration::from_secs(3),
        }
    }
}

#[derive(Debug)]
struct Page {
    first: Instant,
    last: Instant,
    /// Whether it was seen to go, last.
    gone: bool,
}

/// What is to be looked at now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// The whole wiki.
    pub(super) all: bool,
    /// Pages, in no order, each with whether it was seen to go.
    pub(super) pages: Vec<(PagePath, bool)>,
}

/// The set of them. Bounded: too many become one wish for all.
///
/// A page is due when it was left alone for the quiet window and no other page joined the set for as long, so that what
/// is saved together is handed on together; at the latest at its ceiling, so that noise on one page, or pages that go on
/// joining, hold up none.
#[derive(Debug)]
pub(super) struct Pending {
    windows: Windows,
    pages: HashMap<PagePath, Page>,
    /// When a page last joined.
    joined: Option<Instant>,
    /// When all was first and last wished for.
    all: Option<(Instant, Instant)>,
}

impl Pending {
    pub(super) fn new(windows: Windows) -> Self {
        Self {
            windows: Windows {
                ceiling: windows.ceiling.max(windows.quiet),
                ..windows
            },
            pages: HashMap::new(),
            joined: None,
            all: None,
        }
    }

    /// Notes that something happened to a page; `gone` when it was seen to go.
    pub(super) fn note(&mut self, path: PagePath, gone: bool, now: Instant) {
        if self.pages.len() >= MOST && !self.pages.contains_key(&path) {
            self.pages.clear();
            self.joined = None;
            self.note_all(now);
            return;
        }
        let joined = &mut self.joined;
        let page = self.pages.entry(path).or_insert_with(|| {
            *joined = Some(now);
            Page {
                first: now,
                last: now,
                gone,
            }
        });
        // Where the clock of the events stands still, it is not set back.
        page.last = page.last.max(now);
        page.gone = gone;
    }

    /// Notes that anything may have happened to any page.
    pub(super) fn note_all(&mut self, now: Instant) {
        let first = self.all.map_or(now, |(first, _)| first);
        self.all = Some((first, now));
    }

    /// Returns when the next thing is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let pages = self.pages.values().map(|page| self.due(page));
        pages.chain(self.all_due()).min()
    }

    /// Takes what is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Due {
        if self.all_due().is_some_and(|due| due <= now) {
            self.all = None;
            // What is seen of all is seen of each; that one was seen to go is kept.
            let pages = self.pages.drain();
            let pages = pages.map(|(path, page)| (path, page.gone)).collect();
            self.joined = None;
            return Due { all: true, pages };
        }
        let due: Vec<PagePath> = self
            .pages
            .iter()
            .filter(|(_, page)| self.due(page) <= now)
            .map(|(path, _)| path.clone())
            .collect();
        let take = |path| self.pages.remove_entry(&path);
        let taken = due.into_iter().filter_map(take);
        Due {
            all: false,
            pages: taken.map(|(path, page)| (path, page.gone)).collect(),
        }
    }

    /// Puts back what could not be handed on; it is due again after the quiet window.
    pub(super) fn put_back(&mut self, due: Due, now: Instant) {
        if due.all {
            self.note_all(now);
        }
        for (path, gone) in due.pages {
            if !self.pages.contains_key(&path) {
                self.note(path, gone, now);
            }
        }
    }

    fn due(&self, page: &Page) -> Instant {
        let Windows { quiet, ceiling } = self.windows;
        let joined = self.joined.unwrap_or(page.last);
        (page.last.max(joined) + quiet).min(page.first + ceiling)
    }

    fn all_due(&self) -> Option<Instant> {
        let Windows { quiet, ceiling } = self.windows;
        self.all
            .map(|(first, last)| (last + quiet).min(first + ceiling))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const QUIET: Duration = Duration::from_millis(400);
    const CEILING: Duration = Duration::from_secs(3);

    fn page(name: &str) -> PagePath {
        PagePath::parse(&format!("w/{name}.md")).expect("a path")
    }

    /// A set that ran from its beginning; times are in milliseconds since then.
    struct Play {
        began: Instant,
        pending: Pending,
    }

    impl Play {
        fn new() -> Self {
            Self {
                began: Instant::now(),
                pending: Pending::new(Windows::default()),
            }
        }

        fn at(&self, ms: u64) -> Instant {
            self.began + Duration::from_millis(ms)
        }

        fn note(&mut self, name: &str, ms: u64) {
            let at = self.at(ms);
            self.pending.note(page(name), false, at);
        }

        fn due_at(&self) -> Option<u128> {
            let due = self.pending.next_due();
            due.map(|due| (due - self.began).as_millis())
        }

        fn take(&mut self, ms: u64) -> Vec<String> {
            let at = self.at(ms);
            let due = self.pending.take_due(at);
            let mut names: Vec<_> = due.pages.iter().map(|(path, _)| path.to_string()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn a_page_is_due_when_it_was_left_alone_for_the_quiet_window() {
        let mut play = Play::new();
        play.note("a", 0);
        play.note("a", 300);
        assert_eq!(play.due_at(), Some(700));
        assert!(play.take(699).is_empty());
        assert_eq!(play.take(700), ["w/a.md"]);
        assert_eq!(play.due_at(), None);
    }

    #[test]
    fn noise_on_one_page_holds_up_neither_itself_nor_another() {
        let mut play = Play::new();
        let mut taken = Vec::new();
        for ms in (0..10_000).step_by(50) {
            play.note("noise", ms);
            if ms == 1_000 {
                play.note("p", ms);
            }
            taken.extend(play.take(ms).into_iter().map(|name| (name, ms)));
        }
        let when = |name: &str| -> Vec<_> {
            let of = taken.iter().filter(|(of, _)| of == name);
            of.map(|(_, ms)| *ms).collect()
        };
        assert_eq!(when("w/p.md"), [1_400]);
        assert_eq!(when("w/noise.md"), [3_000, 6_050, 9_100]);
    }

    #[test]
    fn what_is_saved_together_is_handed_on_together() {
        let mut play = Play::new();
        for (n, ms) in (0..20).zip((0..).step_by(100)) {
            play.note(&n.to_string(), ms);
        }
        assert!(play.take(2_000).is_empty(), "pages were still joining");
        assert_eq!(play.take(2_300).len(), 20);
    }

    #[test]
    fn too_many_pages_are_one_look_at_all() {
        let mut play = Play::new();
        for n in 0..=MOST {
            play.note(&n.to_string(), 0);
        }
        let at = play.at(400);
        let due = play.pending.take_due(at);
        assert!(due.all && due.pages.is_empty());
        assert_eq!(play.due_at(), None);
    }

    #[test]
    fn a_wish_for_all_is_quieted_too_and_keeps_what_was_seen_to_go() {
        let mut play = Play::new();
        let at = |ms| play.began + Duration::from_millis(ms);
        play.pending.note(page("a"), true, at(100));
        for ms in (0..=5_000).step_by(100) {
            play.pending.note_all(at(ms));
        }
        assert_eq!(play.pending.take_due(at(400)), Due::default());
        let due = play.pending.take_due(at(3_000));
        assert_eq!((due.all, due.pages), (true, vec![(page("a"), true)]));
    }

    proptest! {
        /// However pages come: each change is handed on after it happened, and within its ceiling.
        #[test]
        fn every_change_is_handed_on_within_the_ceiling(
            steps in prop::collection::vec((0_u8..6, 0_u64..900), 1..200),
        ) {
            let mut play = Play::new();
            let mut now = 0;
            let mut owed: BTreeMap<String, u64> = BTreeMap::new();
            let mut seen = BTreeSet::new();
            for (which, wait) in steps {
                let end = now + wait;
                // As the loop does: it wakes when something is due.
                while let Some(due) = play.due_at().map(|due| u64::try_from(due).expect("small")) {
                    if due > end {
                        break;
                    }
                    now = now.max(due);
                    for name in play.take(now) {
                        let since = owed.remove(&name).expect("only what changed");
                        let waited = Duration::from_millis(now - since);
                        prop_assert!(waited <= CEILING, "{waited:?} is late");
                        prop_assert!(waited >= QUIET);
                    }
                }
                now = end;
                let name = which.to_string();
                play.note(&name, now);
                owed.entry(format!("w/{name}.md")).or_insert(now);
                seen.insert(name);
            }
            let rest: BTreeSet<_> = play.take(now + 3_000).into_iter().collect();
            prop_assert_eq!(rest, owed.keys().cloned().collect::<BTreeSet<_>>());
        }
    }
}
