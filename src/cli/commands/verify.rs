//! `wiki-sync verify`

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::drain::renewed;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::cli::out::{Out, Style, clean, count};
use crate::cli::paths;
use crate::cli::progress::Bar;
use crate::engine::Parts;
use crate::engine::report::VerifyReport;
use crate::engine::verify::{VerifyOptions, repair, verify};
use crate::model::{StoreName, Timestamp};

/// Compare every store with the pages and name each difference
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Believe the receipts and HEAD, and do not read what graph and vectors hold
    #[arg(long)]
    fast: bool,
    /// Only this store. May be given several times
    #[arg(long, value_name = "STORE", value_parser = store())]
    store: Vec<StoreName>,
    /// Only these pages, and what is in these folders
    #[arg(long, value_name = "PATH", num_args = 1..)]
    path: Vec<PathBuf>,
    /// Enqueue exactly the pages that differ; the next drain heals them
    #[arg(long)]
    repair: bool,
}

/// Reads a store's name; the names are known to the help and to completions.
fn store() -> impl TypedValueParser<Value = StoreName> {
    PossibleValuesParser::new(StoreName::ALL.map(StoreName::as_str))
        .try_map(|name| name.parse::<StoreName>())
}

impl VerifyArgs {
    fn options(&self, ws: &Workspace, parts: &Parts) -> Result<VerifyOptions, CommandError> {
        for &asked in &self.store {
            if !parts.stores.iter().any(|store| store.name() == asked) {
                return Err(CommandError::new(format!("this wiki has no store {asked}"))
                    .hint("git.commit is \"off\"; `wiki-sync config` shows where that stands"));
            }
        }
        Ok(VerifyOptions {
            fast: self.fast,
            stores: self.store.clone(),
            within: paths::within(&ws.wiki, &ws.start, &self.path)?,
        })
    }
}

pub(super) fn run(args: &VerifyArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = if args.repair {
        cx.workspace()?
    } else {
        cx.workspace_to_ask()?
    };
    let mut parts = ws.parts()?;
    let options = args.options(&ws, &parts)?;
    let mut bar = Bar::new(&cx.out);
    let mut report = verify(&mut parts, &options, &mut bar)?;
    drop(bar);
    refuse_unknown(&ws, &report)?;
    if args.repair {
        repair(&mut parts, &mut report, Timestamp::now())?;
    }
    if cx.out.is_json() {
        cx.out.json(&report);
    } else {
        print(&mut cx.out, &report, args.repair);
    }
    Ok(Exit::of_verify(&report))
}

/// Refuses a path that is no folder and of which there is nothing anywhere: "in sync" would be the answer to a slip.
fn refuse_unknown(ws: &Workspace, report: &VerifyReport) -> Result<(), CommandError> {
    let is_folder = |path: &&String| ws.root.path.join(path).is_dir();
    match report.unknown.iter().find(|path| !is_folder(path)) {
        Some(path) => Err(CommandError::new(format!(
            "no page {path:?}, neither on disk nor in a store"
        ))
        .hint("paths are relative to the current folder, the root or the pages' folder")),
        None => Ok(()),
    }
}

fn print(out: &mut Out, report: &VerifyReport, is_repaired: bool) {
    let pages = count(report.pages, "page");
    let stores = report.stores.join(", ");
    let is_fast = report.mode == "fast";
    if report.in_sync {
        let title = out.paint(Style::Good, "in sync").into_owned();
        let how = if is_fast {
            "by the receipts of"
        } else {
            "read from"
        };
        let sections = match [report.points, report.dense].map(Option::unwrap_or_default) {
            [0, _] => String::new(),
            [points, 0] => format!("; {}", count(points, "section")),
            [points, dense] => {
                format!("; {}, {dense} with their meaning", count(points, "section"))
            }
        };
        out.say(format_args!("{title}: {pages}, {how} {stores}{sections}"));
    } else {
        let title = out.paint(Style::Bad, "not in sync").into_owned();
        let place = if report.paths.is_empty() {
            "in the folder"
        } else {
            "asked for"
        };
        out.trouble(format_args!("{title}: {pages} {place}"));
    }
    if is_fast {
        out.say("fast: the stores were not read; `wiki-sync verify` does it. Not seen:");
        for unseen in &report.unseen {
            out.say(format_args!("  {unseen}"));
        }
    }
    let (by_repair, by_itself): (Vec<_>, Vec<_>) = (report.replaced.iter().copied())
        .partition(|store| report.unnoticed.contains(store) && !is_repaired);
    if !by_itself.is_empty() {
        let told = format!(
            "new, rebuilt or restored since the last drain: {}; the next `wiki-sync drain` looks through them once",
            by_itself.join(", ")
        );
        if report.in_sync {
            out.say(told);
        } else {
            out.trouble(told);
        }
    }
    if !by_repair.is_empty() {
        out.trouble(format_args!(
            "not the store that its receipts speak of: {}; `wiki-sync verify --repair` has the next drain look through it once",
            by_repair.join(", ")
        ));
    }
    for renewal in &report.renewals {
        let what = ", no damage; the next `wiki-sync drain` writes them anew";
        out.trouble(renewed(renewal, what));
    }
    if !report.drift.is_empty() {
        out.trouble(format_args!(
            "drift: {}; `wiki-sync drain` brings changed pages to their stores, `wiki-sync verify --repair` what was damaged",
            count(report.drift.len() as u64, "difference")
        ));
        out.bounded(&report.drift, |drift| {
            format!(
                "  {:8} {:8} {}",
                drift.store,
                drift.kind.as_str(),
                clean(&drift.path)
            )
        });
    }
    if report.removed > 0 {
        out.trouble(format_args!(
            "removed {} that named no page",
            count(report.removed, "orphan")
        ));
    }
    if report.repaired > 0 {
        out.trouble(format_args!(
            "enqueued {}; `wiki-sync drain` heals them",
            count(report.repaired, "page")
        ));
    }
    if !report.unread.is_empty() {
        out.trouble("could not be read:");
        out.troubles(&report.unread);
    }
    if report.waiting > 0 {
        out.trouble(format_args!(
            "waiting: {}; `wiki-sync drain` brings them to their stores",
            count(report.waiting, "page")
        ));
        out.troubles(&report.held);
    }
    if report.dead > 0 {
        out.trouble(format_args!(
            "dead letters: {}; `wiki-sync dlq list` shows them",
            report.dead
        ));
    }
    out.skipped(&report.skipped);
}
