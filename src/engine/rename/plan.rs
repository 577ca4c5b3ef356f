//! What a move changes in the pages: as few links as must, each so that it leads where it led before. The graph itself
//! says where links lead, before and after. Nothing is written here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::spellings::{Written, relative, spellings};
use crate::model::markdown::{Destinations, Edit, Link};
use crate::model::{Change, ContentSha, Failure, FailureKind, Labels, Page, PagePath};
use crate::stores::graph::{By, GraphStore, Leads, Moved, WhatIf};

/// One page's way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Move {
    /// Where it is.
    pub from: String,
    /// Where it is to be.
    pub to: String,
}

/// What is to become of one page's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The page, after the moves.
    pub(super) path: PagePath,
    /// The SHA of its bytes now.
    pub(super) old: ContentSha,
    /// The SHA of its bytes afterwards.
    pub(super) new: ContentSha,
    pub(super) edits: Vec<Edit>,
    /// The changed lines.
    pub(super) lines: Vec<LineChange>,
}

/// A line of a page that changes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LineChange {
    /// The page, where it is now.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The line now.
    pub before: String,
    /// The line afterwards.
    pub after: String,
}

/// What a plan is made from.
pub(super) struct World<'w> {
    /// The wiki's folder in the repository.
    pub(super) pages_dir: &'w str,
    /// Reads a page as it is on disk.
    pub(super) read: &'w dyn Fn(&PagePath) -> Result<String, Failure>,
    /// Says whether there is anything at a path in the repository.
    pub(super) exists: &'w dyn Fn(&str) -> bool,
}

/// Pages on their way, and how their paths map.
pub(super) struct Moves {
    pub(super) pages: BTreeMap<PagePath, PagePath>,
    /// A folder that moves as a whole.
    pub(super) folder: Option<(String, String)>,
}

impl Moves {
    fn target<'a>(&'a self, page: &'a str) -> &'a str {
        self.pages.get(page).map_or(page, PagePath::as_str)
    }

    /// Where a place in the repository at which there is no page is to be looked for afterwards.
    fn place(&self, place: &str) -> String {
        if let Some((from, to)) = &self.folder
            && let Some(rest) = place.strip_prefix(from.as_str())
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{to}{rest}");
        }
        place.to_owned()
    }
}

/// Returns what must become of which pages so that every link leads where it led before.
///
/// # Errors
/// `Waiting` when the graph does not hold a page as it is on disk; `Rejected` when a link cannot be written so that it
/// leads there; as the graph's own.
pub(super) fn plan(
    graph: &mut GraphStore,
    world: &World<'_>,
    moves: &Moves,
) -> Result<Vec<Rewrite>, Failure> {
    graph.what_if(|what_if| {
        let mut planner = Planner {
            what_if,
            world,
            moves,
        };
        planner.plan()
    })
}

struct Planner<'p, 'g> {
    what_if: &'p mut WhatIf<'g>,
    world: &'p World<'p>,
    moves: &'p Moves,
}

impl Planner<'_, '_> {
    fn plan(&mut self) -> Result<Vec<Rewrite>, Failure> {
        let mut own = Vec::new();
        let mut changes = Vec::new();
        for (from, to) in &self.moves.pages {
            let text = self.read(from, from)?;
            own.push(self.what_if.leads(from.as_str())?);
            changes.push(Change::Remove(from.clone()));
            changes.push(put(to, text));
        }
        let led = self.what_if.apply(&changes)?;
        drop(changes);
        let mut rewrites = Vec::new();
        for ((from, to), before) in self.moves.pages.iter().zip(own) {
            rewrites.extend(self.page(from, to, &before)?);
        }
        let others: BTreeSet<&str> = led.keys().map(|(page, _)| page.as_str()).collect();
        for page in others {
            let path = parse(page)?;
            let before = self.before(page, &led)?;
            rewrites.extend(self.page(&path, &path, &before)?);
        }
        Ok(rewrites)
    }

    /// Reads a page from disk, which must be the one that the graph holds as `held`.
    fn read(&self, path: &PagePath, held: &PagePath) -> Result<String, Failure> {
        let text = (self.world.read)(path)?;
        let held = self.what_if.sha(held.as_str())?;
        if held == Some(ContentSha::of(text.as_bytes()).to_string()) {
            return Ok(text);
        }
        Err(Failure::new(
            FailureKind::Waiting,
            format!(
                "page {:?} is not yet in the graph as it is on disk",
                path.as_str()
            ),
        )
        .hint("run `wiki-sync drain` first"))
    }

    /// Where the links of a page that stays led before the moves.
    fn before(&self, page: &str, led: &Moved) -> Result<Vec<Leads>, Failure> {
        let mut leads = self.what_if.leads(page)?;
        for (ordinal, leads) in leads.iter_mut().enumerate() {
            if let Some(old) = led.get(&(page.to_owned(), ordinal)) {
                *leads = old.clone();
            }
        }
        Ok(leads)
    }

    /// Decides what becomes of a page's links. `before`: where they led.
    fn page(
        &mut self,
        from: &PagePath,
        to: &PagePath,
        before: &[Leads],
    ) -> Result<Option<Rewrite>, Failure> {
        let after = self.what_if.leads(to.as_str())?;
        let suspects = before.iter().zip(&after).enumerate();
        let text = self.read(from, to)?;
        let destinations = Destinations::of(to, &text);
        let links = &destinations.document().links;
        if links.len() != before.len() || after.len() != before.len() {
            return Err(Failure::new(
                FailureKind::Busy,
                format!("page {:?} changed meanwhile", from.as_str()),
            ));
        }
        // By place, since all links by one definition move together.
        let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut wrong = BTreeSet::new();
        for (ordinal, (old, new)) in suspects {
            let place = destinations.place(ordinal);
            places
                .entry(place.unwrap_or(usize::MAX))
                .or_default()
                .push(ordinal);
            let wiki = destinations.is_wikilink(ordinal);
            if self.must_change(from, to, &links[ordinal], wiki, old, new) {
                let unknown = || unwritable(from, links[ordinal].line, &links[ordinal].target);
                wrong.insert(place.ok_or_else(unknown)?);
            }
        }
        let mut targets = BTreeMap::new();
        for place in wrong {
            let whose = &places[&place];
            let target = self.target(from, to, links, whose, before, &destinations)?;
            targets.insert(place, target);
        }
        if targets.is_empty() {
            return Ok(None);
        }
        let (edits, new_text) = destinations
            .rewrite(&targets)
            .map_err(|e| unwritable(from, e.line, &e.target))?;
        let lines = changed_lines(from, &text, &new_text);
        let rewrite = Rewrite {
            path: to.clone(),
            old: ContentSha::of(text.as_bytes()),
            new: ContentSha::of(new_text.as_bytes()),
            edits,
            lines,
        };
        self.prove(from, to, new_text, before, links)?;
        Ok(Some(rewrite))
    }

    /// Puts the new text and looks at each of its links once more.
    fn prove(
        &mut self,
        from: &PagePath,
        to: &PagePath,
        text: String,
        before: &[Leads],
        links: &[Link],
    ) -> Result<(), Failure> {
        self.what_if.apply(&[put(to, text)])?;
        let after = self.what_if.leads(to.as_str())?;
        for ((old, new), link) in before.iter().zip(&after).zip(links) {
            if old.page.is_some() && !self.holds(old, new) {
                return Err(unwritable(from, link.line, &link.target));
            }
        }
        if after.len() == before.len() {
            Ok(())
        } else {
            Err(unwritable(from, 1, "all its links"))
        }
    }

    /// Whether a link that led to a page leads to it still: as surely as before, and by its path if it was by that, since
    /// an alias or a title is nothing to other readers. One that led to none may find the page at its new name.
    fn holds(&self, old: &Leads, new: &Leads) -> bool {
        match &old.page {
            Some(page) => {
                new.page.as_deref() == Some(self.moves.target(page))
                    && (old.ambiguous || !new.ambiguous)
                    && (old.by == By::Text || new.by != By::Text)
            }
            None => true,
        }
    }

    fn must_change(
        &self,
        from: &PagePath,
        to: &PagePath,
        link: &Link,
        wikilink: bool,
        old: &Leads,
        new: &Leads,
    ) -> bool {
        if let Some(page) = &old.page {
            let literal = !wikilink && is_path(from, &link.target, page);
            let stays = is_path(to, &link.target, self.moves.target(page));
            return !self.holds(old, new) || literal && !stays;
        }
        from != to && self.place_target(from, to, link, wikilink, old).is_some()
    }

    /// Returns the target of a moved page's link to what is no page: a file, or a page that does not exist yet. `None`
    /// where what is written says the same at the new place.
    fn place_target(
        &self,
        from: &PagePath,
        to: &PagePath,
        link: &Link,
        wikilink: bool,
        old: &Leads,
    ) -> Option<String> {
        let target = link.target.trim();
        if target.starts_with('/') || from.folder() == to.folder() {
            return None;
        }
        let first = target.split('/').next()?;
        let dotted = matches!(first, "." | "..");
        let place = join(from.folder(), target)?;
        let there = (self.world.exists)(&place);
        if !dotted {
            // Of the others only a file's address in a Markdown link is meant from the page's folder.
            let at_root = join(self.world.pages_dir, target)?;
            if wikilink || old.by != By::File || (!there && (self.world.exists)(&at_root)) {
                return None;
            }
        }
        let place = if there {
            place
        } else {
            self.moves.place(&place)
        };
        if join(to.folder(), target).as_ref() == Some(&place) {
            return None;
        }
        let mut way = relative(&parts(to.folder()), &parts(&place));
        if dotted && !way.starts_with("..") {
            way.insert_str(0, "./");
        }
        if target.ends_with('/') && !way.ends_with('/') {
            way.push('/');
        }
        (!way.is_empty()).then_some(way)
    }

    /// Picks the target for the links at one place.
    fn target(
        &self,
        from: &PagePath,
        to: &PagePath,
        links: &[Link],
        whose: &[usize],
        before: &[Leads],
        destinations: &Destinations<'_>,
    ) -> Result<String, Failure> {
        let first = whose[0];
        let link = &links[first];
        let wikilink = destinations.is_wikilink(first);
        let Some(led_to) = &before[first].page else {
            let target = self.place_target(from, to, link, wikilink, &before[first]);
            return target.ok_or_else(|| unwritable(from, link.line, &link.target));
        };
        let written = Written {
            wikilink,
            target: &link.target,
            page: from,
            led_to,
            by_site: before[first].by == By::Site,
        };
        let list = spellings(written, to, self.moves.target(led_to), self.world.pages_dir);
        let mut good: BTreeSet<&str> = list.iter().map(String::as_str).collect();
        for &which in whose {
            let leads =
                self.what_if
                    .resolve(to, links[which].kind, list.iter().map(String::as_str))?;
            good.retain(|target| self.holds(&before[which], &leads[target]));
            if !wikilink && is_path(from, &links[which].target, led_to) {
                good.retain(|target| is_path(to, target, self.moves.target(led_to)));
            }
        }
        let best = list.iter().find(|target| good.contains(target.as_str()));
        best.cloned()
            .ok_or_else(|| unwritable(from, link.line, &link.target))
    }
}

fn put(path: &PagePath, text: String) -> Change {
    Change::Put(Arc::new(Page::new(path.clone(), text, Labels::default())))
}

fn parse(path: &str) -> Result<PagePath, Failure> {
    PagePath::parse(path)
        .map_err(|e| Failure::from_error(FailureKind::Refused, "the graph names no page", &e))
}

fn unwritable(page: &PagePath, line: usize, target: &str) -> Failure {
    Failure::new(
        FailureKind::Rejected,
        format!(
            "the link to {target:?} in line {line} of {:?} cannot be written so that it leads where it does",
            page.as_str()
        ),
    )
    .hint("change that link by hand first; nothing was moved")
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Follows a relative address from a folder of the repository; `None` when it leads out of the repository.
fn join(folder: &str, target: &str) -> Option<String> {
    let mut at = parts(folder);
    for part in parts(target) {
        match part {
            "." => {}
            ".." => {
                at.pop()?;
            }
            part => at.push(part),
        }
    }
    Some(at.join("/"))
}

/// Whether a target of a page is the very path of another one from its folder: then it leads there for every reader of
/// Markdown, and is to go on doing so.
fn is_path(page: &PagePath, target: &str, of: &str) -> bool {
    !target.starts_with('/') && join(page.folder(), target).as_deref() == Some(of)
}

/// Returns the lines that differ; edits never add or take away a line.
fn changed_lines(path: &PagePath, before: &str, after: &str) -> Vec<LineChange> {
    let lines = before.lines().zip(after.lines()).zip(1..);
    lines
        .filter(|((before, after), _)| before != after)
        .map(|((before, after), line)| LineChange {
            path: path.to_string(),
            line,
            before: before.to_owned(),
            after: after.to_owned(),
        })
        .collect()
}
