//! `wiki-sync verify`

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::out::{Out, Style, clean, count};
use crate::cli::progress::Bar;
use crate::engine::report::{DriftKind, VerifyReport};
use crate::engine::verify::{repair, verify};
use crate::model::Timestamp;

/// Compare every store with the pages and name each difference
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Enqueue exactly the pages that differ; the next drain heals them
    #[arg(long)]
    repair: bool,
}

pub(super) fn run(args: &VerifyArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let mut parts = ws.parts()?;
    let mut bar = Bar::new(&cx.out);
    let mut report = verify(&mut parts, &mut bar)?;
    drop(bar);
    if args.repair {
        report.repaired = repair(&mut parts, &report, Timestamp::now())?;
    }
    let stores: Vec<_> = parts
        .stores
        .iter()
        .map(|store| store.name().as_str())
        .collect();
    if cx.out.is_json() {
        cx.out.json(&report);
    } else {
        print(&mut cx.out, &report, &stores);
    }
    Ok(Exit::of_verify(&report))
}

fn print(out: &mut Out, report: &VerifyReport, stores: &[&str]) {
    let pages = count(report.pages, "page");
    if report.in_sync {
        let title = out.paint(Style::Good, "in sync").into_owned();
        out.say(format_args!(
            "{title}: {pages}, read from {}",
            stores.join(", ")
        ));
    } else {
        let title = out.paint(Style::Bad, "not in sync").into_owned();
        out.trouble(format_args!("{title}: {pages} in the folder"));
    }
    if !report.drift.is_empty() {
        out.trouble(format_args!(
            "drift: {}; `wiki-sync drain` brings changed pages to their stores, `wiki-sync verify --repair` what was damaged",
            count(report.drift.len() as u64, "difference")
        ));
        out.bounded(&report.drift, |drift| {
            let kind = match drift.kind {
                DriftKind::Missing => "missing",
                DriftKind::Stale => "stale",
                DriftKind::Orphan => "orphan",
            };
            format!("  {:8} {kind:8} {}", drift.store, clean(&drift.path))
        });
    }
    if report.repaired > 0 {
        out.trouble(format_args!(
            "enqueued {}; `wiki-sync drain` heals them",
            count(report.repaired, "page")
        ));
    }
    if !report.unread.is_empty() {
        out.trouble("stores that could not be read:");
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
