//! Moves pages in one stroke: the files, the links that lead to them and that they hold, graph, vectors, and one commit.
//!
//! This is the one verb that edits pages, and of them only the targets of links. Everything is planned first, with the
//! graph's own word on where each link leads before and after (`plan.rs`); then a journal is written, and the files are
//! renamed and rewritten one by one (`journal.rs`); at last the stores are brought along as a drain would do it, all pages
//! in one step. All under the checkout's lock.

mod journal;
mod plan;
mod spellings;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use self::journal::{Journal, Write};
pub use self::plan::{LineChange, Move};
use self::plan::{Moves, Rewrite, World};
use self::targets::{check_targets, is_same_file, missing_folders};
use super::apply::Steps;
use super::batch::{Errand, Visit, Work};
use super::drain::{DrainOptions, Run, drain};
use super::opening::lock;
use super::report::{Trouble, trouble};
use super::scan::Scan;
use super::{Parts, Progress, Silent};
use crate::model::{Failure, FailureKind, Job, Labels, PagePath, StoreName, Timestamp};
use crate::outbox::{Claimed, JobId};
use crate::state::FileSeen;
use crate::stores::graph::GraphStore;
use crate::wiki::Reading;

/// How often the stores are brought up to date first, when somebody writes pages beside us.
const ROUNDS: u32 = 3;
/// Pages that a message names at most.
const NAMED: usize = 3;

/// What is to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The page or folder and its new name, in the repository.
    pub asked: Move,
    /// The pages, each with its new place.
    pub pages: BTreeMap<PagePath, PagePath>,
    /// Whether a whole folder moves.
    pub folder: bool,
}

/// What a move did, or would do.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MoveReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The pages moved.
    pub moved: Vec<Move>,
    /// Every line that changes, by page.
    pub changes: Vec<LineChange>,
    /// The commit, in hex.
    pub commit: Option<String>,
    /// What keeps a store from following; the next drain goes on with it.
    pub trouble: Vec<Trouble>,
}

/// What became of a move that was cut short.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// What was asked for then.
    pub asked: Move,
    /// Finished; or `None` when it was taken back, since somebody had changed its pages.
    pub finished: Option<MoveReport>,
    /// Pages that were left as they are, half changed.
    pub left: Vec<String>,
}

/// Says what is known of a move that was cut short.
///
/// # Errors
/// `Down` and `Refused` when its journal cannot be read.
pub fn unfinished(parts: &Parts) -> Result<Option<Move>, Failure> {
    Ok(Journal::read(&parts.state)?.map(|journal| journal.asked))
}

/// Tells of a move that was cut short and is still to be finished: until then links may lead nowhere.
pub(super) fn half_done(parts: &Parts) -> Option<Failure> {
    match unfinished(parts) {
        Ok(None) => None,
        Ok(Some(Move { from, to })) => Some(
            Failure::new(
                FailureKind::Waiting,
                format!("the move of {from:?} to {to:?} was cut short"),
            )
            .hint(format!("`wiki-sync mv '{from}' '{to}'` goes on with it")),
        ),
        Err(failure) => Some(failure),
    }
}

/// Finishes a move that was cut short, or takes it back when its pages have changed since.
///
/// # Errors
/// `Busy` when the checkout's lock is not to be had; as the files' and the stores' own.
pub fn resume(
    parts: &mut Parts,
    options: &DrainOptions,
    progress: &mut dyn Progress,
) -> Result<Option<Resumed>, Failure> {
    if unfinished(parts)?.is_none() {
        return Ok(None);
    }
    let _lock = lock(parts, options, progress)?;
    let Some(journal) = Journal::read(&parts.state)? else {
        return Ok(None);
    };
    let asked = journal.asked.clone();
    if !journal.can_go_on(&parts.wiki)? {
        let left = take_back(parts, &journal)?;
        return Ok(Some(Resumed {
            asked,
            finished: None,
            left,
        }));
    }
    carry_out(parts, &journal)?;
    let report = settle(parts, &journal, options)?;
    Ok(Some(Resumed {
        asked,
        finished: Some(report),
        left: Vec::new(),
    }))
}

/// Tells what a move would change.
///
/// # Errors
/// As [`move_pages`]; `Waiting` also when pages have changed since the last drain.
pub fn foresee(
    parts: &mut Parts,
    graph: &mut GraphStore,
    request: &Request,
    options: &DrainOptions,
    progress: &mut dyn Progress,
) -> Result<MoveReport, Failure> {
    let _lock = lock(parts, options, progress)?;
    let owed = Owed::look(parts)?;
    let rewrites = plan(parts, graph, request, &owed)?;
    Ok(MoveReport {
        dry_run: true,
        moved: moves_of(request),
        changes: lines_of(rewrites),
        ..MoveReport::default()
    })
}

/// Moves pages. What the stores owe is brought to them first.
///
/// # Errors
/// `Rejected` when a page may not have its new name, or a link cannot be written; `Waiting` and `Refused` when git has
/// something against the commit, or a page is not everywhere as it is on disk; `Busy` when somebody changes the pages
/// meanwhile; `Down` when the disk refuses. Then nothing has changed, or the reason says what has.
pub fn move_pages(
    parts: &mut Parts,
    graph: &mut GraphStore,
    request: &Request,
    options: &DrainOptions,
    progress: &mut dyn Progress,
) -> Result<MoveReport, Failure> {
    check_targets(&parts.wiki, request)?;
    let mut round = 0;
    let (_lock, owed) = loop {
        let held = lock(parts, options, progress)?;
        let owed = Owed::look(parts)?;
        if owed.is_nothing() || round == ROUNDS {
            break (held, owed);
        }
        drop(held);
        round += 1;
        drain(parts, options, progress)?;
        if options.stop.is_wished() {
            return Err(Failure::new(
                FailureKind::Busy,
                "stopped before anything moved",
            ));
        }
    };
    let rewrites = plan(parts, graph, request, &owed)?;
    let journal = Journal {
        asked: request.asked.clone(),
        moves: moves_of(request),
        writes: rewrites.iter().map(Write::of).collect(),
        made: missing_folders(&parts.wiki, request),
        folder: request.folder,
    };
    journal.write(&parts.state)?;
    fail::fail_point!("mv.journal");
    if let Err(failure) = carry_out(parts, &journal) {
        let left = take_back(parts, &journal)?;
        let what = match left.as_slice() {
            [] => "nothing was moved".to_owned(),
            left => format!(
                "taken back but for {}, which changed meanwhile",
                left.join(", ")
            ),
        };
        return Err(Failure {
            reason: format!("{}; {what}", failure.reason),
            ..failure
        });
    }
    let report = settle(parts, &journal, options)?;
    Ok(MoveReport {
        changes: lines_of(rewrites),
        ..report
    })
}

/// Plans under the lock, and hears what the stores have against it.
fn plan(
    parts: &mut Parts,
    graph: &mut GraphStore,
    request: &Request,
    owed: &Owed,
) -> Result<Vec<Rewrite>, Failure> {
    check_targets(&parts.wiki, request)?;
    owed.check_graph()?;
    let wiki = &parts.wiki;
    let rewrites = plan::plan(
        graph,
        &World {
            pages_dir: wiki.pages_dir(),
            read: &|path| match wiki.read(path) {
                Reading::Page { text, .. } => Ok(text),
                Reading::Absent => Err(Failure::new(
                    FailureKind::Busy,
                    format!("page {:?} is gone", path.as_str()),
                )),
                Reading::Bad { failure, .. } => Err(failure),
            },
            exists: &|path| wiki.root().join(path).symlink_metadata().is_ok(),
        },
        &Moves {
            pages: request.pages.clone(),
            folder: request
                .folder
                .then(|| (request.asked.from.clone(), request.asked.to.clone())),
        },
    )?;
    let mut concerned: BTreeSet<PagePath> = rewrites
        .iter()
        .map(|rewrite| rewrite.path.clone())
        .collect();
    concerned.extend(request.pages.keys().cloned());
    owed.check_pages(&concerned)?;
    concerned.extend(request.pages.values().cloned());
    let concerned: Vec<_> = concerned.into_iter().collect();
    for store in &mut parts.stores {
        if let Some((_, failure)) = store.objections(&concerned)?.into_iter().next() {
            return Err(failure);
        }
        for (from, to) in &request.pages {
            if let (None, Some(why)) = (store.exempt(from)?, store.exempt(to)?) {
                return Err(Failure::new(
                    FailureKind::Rejected,
                    format!("{:?} would be {why}", to.as_str()),
                ));
            }
        }
    }
    Ok(rewrites)
}

/// Does to the files what the journal says and is not done yet.
fn carry_out(parts: &mut Parts, journal: &Journal) -> Result<(), Failure> {
    let mut labels = Vec::new();
    for one in &journal.moves {
        let (from, to) = (parse(&one.from)?, parse(&one.to)?);
        let carried = parts.receipts.labels(&from)?;
        if !carried.is_empty() {
            labels.push((to, carried));
        }
    }
    // Before the files: whoever finds a page at its new place finds its labels too.
    parts.receipts.note_labels(&labels)?;
    journal.forward(&parts.wiki)
}

/// Brings the stores along and removes the journal. From here on nothing is taken back: the files are as they are to be,
/// and a drain goes on with whatever is left.
fn settle(
    parts: &mut Parts,
    journal: &Journal,
    options: &DrainOptions,
) -> Result<MoveReport, Failure> {
    let report = bring(parts, journal, options).unwrap_or_else(|failure| MoveReport {
        trouble: vec![trouble(None, None, &failure)],
        ..MoveReport::default()
    });
    fail::fail_point!("mv.applied");
    Journal::remove(&parts.state)?;
    fail::fail_point!("mv.journal_removed");
    Ok(MoveReport {
        moved: journal.moves.clone(),
        ..report
    })
}

fn take_back(parts: &mut Parts, journal: &Journal) -> Result<Vec<String>, Failure> {
    let left = journal.backward(&parts.wiki);
    let mut labels = Vec::new();
    for one in &journal.moves {
        let to = parse(&one.to)?;
        if !parts.receipts.labels(&to)?.is_empty() && !left.contains(&one.to) {
            labels.push((to, Labels::default()));
        }
    }
    parts.receipts.note_labels(&labels)?;
    Journal::remove(&parts.state)?;
    Ok(left)
}

/// Brings the pages of a move to every store, all in one step; what a store does not take is left to the next drain.
fn bring(
    parts: &mut Parts,
    journal: &Journal,
    options: &DrainOptions,
) -> Result<MoveReport, Failure> {
    let mut paths = BTreeSet::new();
    for one in &journal.moves {
        paths.extend([parse(&one.from)?, parse(&one.to)?]);
    }
    for write in &journal.writes {
        paths.insert(write.path()?);
    }
    let commits = |parts: &Parts| -> u64 {
        let tallies = parts.stores.iter().map(|store| store.tally().commits);
        tallies.sum()
    };
    let before = commits(parts);
    let mut errands = Vec::new();
    let mut owed = Vec::new();
    for path in paths {
        let work = match parts.wiki.read(&path) {
            Reading::Page {
                text,
                sha,
                stat,
                seen_at,
            } => {
                let labels = parts.receipts.labels(&path)?;
                let page = crate::model::Page::new(path.clone(), text, labels);
                Work::Put {
                    page: Arc::new(page),
                    seen: FileSeen { stat, seen_at, sha },
                }
            }
            Reading::Absent => Work::Remove,
            // Somebody writes it at this moment: the next drain sees what it becomes.
            Reading::Bad { .. } => {
                owed.push(path);
                continue;
            }
        };
        errands.push(Errand {
            claim: Claimed {
                id: JobId(String::new()),
                token: 0,
                job: Job::for_page(path, None),
                recoveries: 0,
            },
            work,
            letter: None,
            outcomes: parts.stores.iter().map(|_| None).collect(),
        });
    }
    let mut run = Run::new(options, parts);
    let mut silent = Silent;
    let mut steps = Steps::new(&mut silent, 0, 0);
    Visit::new(&mut run, parts).apply(&mut errands, |_| true, &mut steps)?;
    let names: Vec<StoreName> = parts.stores.iter().map(|store| store.name()).collect();
    for errand in &errands {
        for (name, outcome) in names.iter().zip(&errand.outcomes) {
            if let Some(Err(failure)) = outcome {
                run.note(Some(*name), Some(&errand.claim.job.path), failure);
                owed.push(errand.claim.job.path.clone());
            }
        }
    }
    owed.dedup();
    if !owed.is_empty() {
        let jobs: Vec<_> = owed
            .into_iter()
            .map(|path| Job::for_page(path, None))
            .collect();
        parts.outbox.enqueue(&jobs, Timestamp::now())?;
    }
    let commit = if commits(parts) > before {
        parts.stores.iter().find_map(|store| store.tally().commit)
    } else {
        None
    };
    Ok(MoveReport {
        commit,
        trouble: run.report.trouble,
        ..MoveReport::default()
    })
}

/// What the stores do not hold as it is on disk.
struct Owed {
    graph: Vec<PagePath>,
    pages: BTreeSet<PagePath>,
    /// Stores that could not be asked.
    unasked: Option<Failure>,
}

impl Owed {
    fn look(parts: &mut Parts) -> Result<Self, Failure> {
        let dead = parts.outbox.dead()?;
        let mut owed = Self {
            graph: Vec::new(),
            pages: BTreeSet::new(),
            unasked: None,
        };
        let mut scan = Scan {
            wiki: &parts.wiki,
            receipts: &parts.receipts,
            stores: &mut parts.stores,
            dead: &dead,
            removed: 0,
        };
        let findings = scan.run(
            &mut |job, stores| {
                if stores.iter().any(|(store, _)| *store == StoreName::Graph) {
                    owed.graph.push(job.path.clone());
                }
                if !stores.is_empty() {
                    owed.pages.insert(job.path);
                }
                Ok(())
            },
            &mut |_| (),
        )?;
        owed.unasked = findings
            .unasked
            .into_iter()
            .next()
            .map(|(_, failure)| failure);
        Ok(owed)
    }

    fn is_nothing(&self) -> bool {
        self.pages.is_empty() && self.unasked.is_none()
    }

    /// Without every page in the graph, nobody knows all links.
    fn check_graph(&self) -> Result<(), Failure> {
        if let Some(failure) = &self.unasked {
            return Err(failure.clone());
        }
        if self.graph.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self
            .graph
            .iter()
            .take(NAMED)
            .map(PagePath::as_str)
            .collect();
        let more = match self.graph.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Failure::new(
            FailureKind::Waiting,
            format!(
                "the links of pages that changed are not known yet: {}{more}",
                named.join(", ")
            ),
        )
        .hint("run `wiki-sync drain` first"))
    }

    /// What a page owes to git would get into the move's commit.
    fn check_pages(&self, concerned: &BTreeSet<PagePath>) -> Result<(), Failure> {
        match concerned.iter().find(|path| self.pages.contains(*path)) {
            None => Ok(()),
            Some(path) => Err(Failure::new(
                FailureKind::Waiting,
                format!(
                    "page {:?} has changes that not every store holds",
                    path.as_str()
                ),
            )
            .hint("`wiki-sync drain` brings them there, or says what keeps it")),
        }
    }
}

fn moves_of(request: &Request) -> Vec<Move> {
    let pages = request.pages.iter();
    pages
        .map(|(from, to)| Move {
            from: from.to_string(),
            to: to.to_string(),
        })
        .collect()
}

fn lines_of(rewrites: Vec<Rewrite>) -> Vec<LineChange> {
    let mut lines: Vec<_> = rewrites
        .into_iter()
        .flat_map(|rewrite| rewrite.lines)
        .collect();
    lines.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    lines
}

fn parse(path: &str) -> Result<PagePath, Failure> {
    PagePath::parse(path)
        .map_err(|e| Failure::from_error(FailureKind::Refused, "the journal names no page", &e))
}
