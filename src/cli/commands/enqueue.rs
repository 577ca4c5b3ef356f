//! `wiki-sync enqueue`

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::cli::out::count;
use crate::cli::paths;
use crate::engine::spool;
use crate::model::{Failure, Job, Labels, PagePath, StoreName, Timestamp};
use crate::outbox::Enqueued;
use crate::state::Receipts;
use crate::wiki::Reading;

/// Announce pages that may have changed or are gone
#[derive(Debug, clap::Args)]
pub(crate) struct EnqueueArgs {
    /// The pages: relative to the current folder or to the root
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
    let pages = paths::pages(&ws.wiki, &ws.start, &args.paths)?;
    refuse_unknown(&ws, &pages)?;
    let enqueued = announce(&ws, &pages, &args.labels.labels())?;
    let done = Done {
        enqueued: enqueued.new,
        merged: enqueued.merged,
        paths: pages.iter().map(ToString::to_string).collect(),
    };
    if cx.out.is_json() {
        cx.out.json(&done);
    } else {
        cx.out.say(told(enqueued));
    }
    Ok(Exit::Ok)
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
