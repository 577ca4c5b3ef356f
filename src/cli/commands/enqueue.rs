//! `wiki-sync enqueue`

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::cli::out::count;
use crate::cli::paths;
use crate::engine::spool;
use crate::model::{Failure, FailureKind, Job, Labels, PagePath, StoreName, Timestamp};
use crate::outbox::Enqueued;
use crate::state::Receipts;
use crate::wiki::{Entry, Reading};

/// Announce pages that may have changed or are gone
#[derive(Debug, clap::Args)]
pub(crate) struct EnqueueArgs {
    /// The pages, and folders for all pages below them: relative to the current folder or to the root
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    labels: LabelArgs,
}

/// What a producer says of its pages.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct LabelArgs {
    /// The source repository that the pages describe
    #[arg(long, value_name = "NAME", default_value = "")]
    repo: String,
    /// The commit of that repository
    #[arg(long, value_name = "SHA", default_value = "")]
    commit: String,
}

impl LabelArgs {
    pub(super) fn labels(&self) -> Labels {
        Labels {
            repo: self.repo.clone(),
            commit_sha: self.commit.clone(),
        }
    }
}

#[derive(Serialize)]
struct Done {
    enqueued: u64,
    merged: u64,
    paths: Vec<String>,
}

pub(super) fn run(args: &EnqueueArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let (mut pages, mut folders) = (Vec::new(), Vec::new());
    for typed in &args.paths {
        match meant(&ws, typed)? {
            Named::Page(page) => pages.push(page),
            Named::Folder(folder) => folders.push(folder),
        }
    }
    refuse_unknown(&ws, &pages)?;
    let labels = args.labels.labels();
    let mut enqueued = announce(&ws, &pages, &labels)?;
    for folder in &folders {
        let below = announce_below(&ws, folder, &labels)?;
        if below == Enqueued::default() {
            cx.out
                .note(format_args!("there are no pages below {folder}/"));
        }
        enqueued = sum(enqueued, below);
    }
    let named = pages.iter().map(ToString::to_string);
    let done = Done {
        enqueued: enqueued.new,
        merged: enqueued.merged,
        paths: named.chain(folders).collect(),
    };
    if cx.out.is_json() {
        cx.out.json(&done);
    } else {
        cx.out.say(told(enqueued));
    }
    Ok(Exit::Ok)
}

/// What a path means.
enum Named {
    Page(PagePath),
    /// A folder of the wiki, without a slash at the end.
    Folder(String),
}

/// Returns what `typed` means: a page, or a folder that is there or of whose pages a store was given some.
fn meant(ws: &Workspace, typed: &Path) -> Result<Named, CommandError> {
    let page = paths::page(&ws.wiki, &ws.start, typed);
    if let Ok(page) = &page
        && !ws.wiki.absolute(page).is_dir()
    {
        return Ok(Named::Page(page.clone()));
    }
    let mut folders = paths::folders(&ws.wiki, &ws.start, typed);
    folders.retain(|folder| ws.wiki.is_folder(folder));
    if let Some(there) = folders
        .iter()
        .find(|folder| ws.root.path.join(folder).is_dir())
    {
        return Ok(Named::Folder(there.clone()));
    }
    if ws.state.exists() {
        let receipts = Receipts::open(&ws.state.database())?;
        for folder in folders {
            let (from, to) = below(&folder);
            if !receipts.known_between(&from, &to, 1)?.is_empty() {
                return Ok(Named::Folder(folder));
            }
        }
    }
    page.map(Named::Page)
}

/// Returns the bounds of the paths below a folder: from the first, included, to the second, excluded.
fn below(folder: &str) -> (String, String) {
    // The character after the slash.
    (format!("{folder}/"), format!("{folder}0"))
}

/// So many pages of a folder are announced at a time.
const AT_A_TIME: usize = 1000;

/// Announces the pages below a folder: those that are there, and those that stores were given and that are gone.
fn announce_below(ws: &Workspace, folder: &str, labels: &Labels) -> Result<Enqueued, CommandError> {
    let mut enqueued = Enqueued::default();
    let mut some = Vec::new();
    let mut refused = None;
    let walked = ws.wiki.walk_at(folder, &mut |_| true, &mut |entry| {
        match entry {
            Entry::Page { path, .. } => some.push(path),
            Entry::Skipped(_) => {}
            Entry::Blind { failure, .. } => return Err(failure),
        }
        if some.len() < AT_A_TIME {
            return Ok(());
        }
        match announce(ws, &std::mem::take(&mut some), labels) {
            Ok(more) => {
                enqueued = sum(enqueued, more);
                Ok(())
            }
            Err(error) => {
                refused = Some(error);
                Err(Failure::new(FailureKind::Busy, "told by what was refused"))
            }
        }
    });
    let rest = |error: CommandError| {
        error.hint(format!(
            "not all pages below {folder}/ are announced: run it again"
        ))
    };
    if let Some(error) = refused {
        return Err(rest(error));
    }
    walked.map_err(|failure| rest(failure.into()))?;
    enqueued = sum(enqueued, announce(ws, &some, labels)?);
    if !ws.state.exists() {
        return Ok(enqueued);
    }
    let receipts = Receipts::open(&ws.state.database())?;
    let (mut from, to) = below(folder);
    loop {
        let known = receipts.known_between(&from, &to, AT_A_TIME)?;
        let Some(last) = known.last() else {
            return Ok(enqueued);
        };
        // Nothing lies between a path and the same with a NUL after it.
        from = format!("{}\0", last.path);
        let gone: Vec<_> = known
            .iter()
            .filter_map(|known| PagePath::parse(&known.path).ok())
            .filter(|path| ws.wiki.is_page(path.as_str()))
            .filter(|path| ws.wiki.absolute(path).symlink_metadata().is_err())
            .collect();
        let more = announce(ws, &gone, labels).map_err(rest)?;
        enqueued = sum(enqueued, more);
    }
}

fn sum(one: Enqueued, other: Enqueued) -> Enqueued {
    Enqueued {
        new: one.new + other.new,
        merged: one.merged + other.merged,
    }
}

/// Refuses a page that is neither there nor known to have been: a typing error, most likely.
fn refuse_unknown(ws: &Workspace, pages: &[PagePath]) -> Result<(), CommandError> {
    let gone: Vec<_> = pages
        .iter()
        .filter(|path| ws.wiki.absolute(path).symlink_metadata().is_err())
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    ws.state.create()?;
    let receipts = Receipts::open(&ws.state.database())?;
    for path in gone {
        let mut known = false;
        for store in StoreName::ALL {
            known |= receipts.get(store, path)?.is_some();
        }
        if !known {
            return Err(CommandError::new(format!(
                "there is no page {:?}, and no store was ever given one",
                path.as_str()
            ))
            .hint("nothing was enqueued; look at the path"));
        }
    }
    Ok(())
}

/// Puts one job for each page into the outbox, all or none; where that takes none for now, they are kept beside it, and
/// the error says so.
pub(super) fn announce(
    ws: &Workspace,
    pages: &[PagePath],
    labels: &Labels,
) -> Result<Enqueued, CommandError> {
    let job = |path: &PagePath| {
        let sha = match ws.wiki.read(path) {
            Reading::Page { sha, .. } => Some(sha),
            // The drain will see for itself what is the matter.
            Reading::Absent | Reading::Bad { .. } => None,
        };
        Job {
            labels: labels.clone(),
            ..Job::for_page(path.clone(), sha)
        }
    };
    let jobs: Vec<_> = pages.iter().map(job).collect();
    enqueue(ws, &jobs).map_err(|failure| keep(ws, &jobs, failure))
}

fn enqueue(ws: &Workspace, jobs: &[Job]) -> Result<Enqueued, Failure> {
    if jobs.is_empty() {
        return Ok(Enqueued::default());
    }
    let mut outbox = ws.outbox()?;
    let now = Timestamp::now();
    spool::hand_over(&ws.state, outbox.as_mut(), now)?;
    outbox.enqueue(jobs, now)
}

/// Keeps jobs that the outbox cannot take for now, and says whether it could. What only another setting helps is for a
/// person to do again.
fn keep(ws: &Workspace, jobs: &[Job], failure: Failure) -> CommandError {
    let error = CommandError::from(failure);
    if error.exit != Exit::Held {
        return error;
    }
    match ws.state.keep_jobs(jobs) {
        Ok(()) => error.hint(format!(
            "{} kept here; the next drain announces what is kept",
            count(jobs.len() as u64, "job")
        )),
        Err(failure) => error.hint(format!(
            "not kept here either: {failure}; the next drain's scan finds changed pages, but --repo and --commit must be said again"
        )),
    }
}

/// Returns what an enqueue did, in words.
pub(super) fn told(enqueued: Enqueued) -> String {
    let waiting = match enqueued.merged {
        0 => String::new(),
        merged => format!("; {} waiting already", count(merged, "job")),
    };
    format!("enqueued {}{waiting}", count(enqueued.new, "job"))
}
