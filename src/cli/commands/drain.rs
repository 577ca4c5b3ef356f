//! `wiki-sync drain`

use std::time::Duration;

use super::at_least_one;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::out::{Out, Style, clean, count};
use crate::cli::progress::Bar;
use crate::cli::signals::stop_after_batch;
use crate::engine::drain::{DrainOptions, Stop, drain};
use crate::engine::report::{DrainReport, Renewal, StoreReport};
use crate::model::StoreName;

/// Find changed pages and bring them to every store
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(crate) struct DrainArgs {
    /// Do not look for pages that nobody announced
    #[arg(long)]
    no_scan: bool,
    /// Do what is due now; do not wait for retries and stores that are away
    #[arg(long)]
    no_wait: bool,
    /// Take at most this many jobs
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    max_jobs: Option<u64>,
    /// Wait this many seconds for new jobs once the queue is empty
    #[arg(long, value_name = "S", default_value = "0", value_parser = seconds)]
    timeout: Duration,
    /// Remove pages even when so many are gone at once that it looks like an accident
    #[arg(long)]
    allow_mass_delete: bool,
    /// Commit on a detached HEAD too, where no branch keeps the commits
    #[arg(long)]
    allow_detached: bool,
    /// Wait this many seconds for another drain of this checkout
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    lock_wait: Duration,
}

/// Reads a number of seconds, at most a year.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 365.0 * 86_400.0;
    match text.parse() {
        Ok(seconds) if (0.0..=YEAR).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) | Err(_) => Err("not a number of seconds".into()),
    }
}

impl DrainArgs {
    fn options(&self, stop: Stop) -> DrainOptions {
        DrainOptions {
            stop,
            scan: !self.no_scan,
            wait: !self.no_wait,
            max_jobs: self.max_jobs,
            timeout: self.timeout,
            allow_mass_delete: self.allow_mass_delete,
            lock_wait: self.lock_wait,
        }
    }
}

pub(super) fn run(args: &DrainArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let stop = stop_after_batch(&ws.state, &cx.out)?;
    let mut ws = ws.stopping(&stop);
    ws.config.git.allow_detached |= args.allow_detached;
    let mut parts = ws.parts()?;
    let mut bar = Bar::new(&cx.out);
    let report = drain(&mut parts, &args.options(stop), &mut bar)?;
    drop(bar);
    cx.warn(&parts.outbox.notes());
    let nothing_seen = report.scanned == 0 && !args.no_scan;
    let unseen = nothing_seen && report.stopped;
    if cx.out.is_json() {
        cx.out.json(&report);
    } else {
        let is_empty = nothing_seen && !report.stopped;
        let none = if is_empty { ws.without_pages()? } else { None };
        print(&mut cx.out, &report, unseen, none.as_deref());
    }
    let cut_off = if report.stopped { report.waiting } else { 0 };
    let owed = report.delayed + cut_off + u64::from(unseen);
    Ok(Exit::of_drain(&report, owed))
}

/// Says why no job ended although some are there; `None` where some did.
fn why_none(report: &DrainReport) -> Option<String> {
    if report.processed > 0 || report.held == 0 {
        return None;
    }
    let mut stores: Vec<_> = report.trouble.iter().filter_map(|why| why.store).collect();
    stores.sort_unstable();
    stores.dedup();
    (!stores.is_empty()).then(|| {
        let each = if report.held == 1 {
            "it waits"
        } else {
            "each waits"
        };
        format!("0 jobs done: {each} for {}", stores.join(" and "))
    })
}

/// Prints what was done; `unseen`: it was stopped before all pages were looked at, so that what is owed is not known;
/// `none`: that there is no page.
fn print(out: &mut Out, report: &DrainReport, unseen: bool, none: Option<&str>) {
    print_stores(out, report);
    let processed = || {
        let jobs = count(report.processed, "job");
        format!("processed {jobs} ({} unchanged)", report.unchanged)
    };
    let mut parts = vec![why_none(report).unwrap_or_else(processed)];
    if report.scanned > 0 {
        parts.insert(0, format!("scanned {}", count(report.scanned, "page")));
    }
    for (number, what) in [(report.retried, "tried again"), (report.dlq, "given up")] {
        if number > 0 {
            parts.push(format!("{what} {number}"));
        }
    }
    out.say(format_args!(
        "{} in {:.2} s",
        parts.join(", "),
        report.seconds
    ));
    for renewal in &report.renewals {
        out.say(renewed(renewal, " brought anew"));
    }
    out.skipped(&report.skipped);
    if !report.warnings.is_empty() {
        let title = format!("not understood: {}", report.warnings.len());
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title}; the pages were brought in without it"
        ));
        out.bounded(&report.warnings, |one| {
            let message = clean(&one.message).into_owned();
            format!("  {}:{}: {message}", clean(&one.path), one.line)
        });
    }
    if report.forgotten > 0 {
        out.trouble(format_args!(
            "{} no longer count as pages by wiki.pages, wiki.include and wiki.ignore; graph and vectors have forgotten them",
            count(report.forgotten, "file")
        ));
    }
    if report.waiting > 0 || report.stopped {
        let jobs = count(report.waiting, "job");
        let title = match (report.stopped, unseen) {
            (false, _) => format!("{jobs} left"),
            (true, true) => "interrupted before all pages were looked at".into(),
            (true, false) if report.waiting == 0 => "interrupted".into(),
            (true, false) => format!("interrupted: {jobs} left"),
        };
        let title = out.paint(Style::Warn, title).into_owned();
        let more = if report.waiting > 0 || unseen {
            "; `wiki-sync drain` goes on"
        } else {
            ""
        };
        out.trouble(format_args!("{title}{more}"));
    }
    if report.held > 0 {
        let title = format!("held: {}", count(report.held, "job"));
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title}; `wiki-sync status` shows which, `wiki-sync drain` goes on"
        ));
    }
    if report.delayed > 0 {
        let title = format!("delayed: {}", count(report.delayed, "job"));
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title} to be tried again later; `wiki-sync drain` goes on"
        ));
    }
    if report.dead > 0 {
        let title = format!("dead letters: {}", report.dead);
        let title = out.paint(Style::Bad, title).into_owned();
        out.trouble(format_args!("{title}; `wiki-sync dlq list` shows them"));
    }
    if report.trimmed > 0 {
        let title = format!("dropped: {}", count(report.trimmed, "dead letter"));
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title}, the oldest beyond dead.max or dead.max_age"
        ));
    }
    out.troubles(&report.trouble);
    let owed = report.held + report.dead + report.waiting + report.delayed;
    if owed == 0 && !unseen && report.trouble.is_empty() {
        let done = out.paint(Style::Good, "nothing is owed").into_owned();
        let none = none.map_or(String::new(), |none| format!(": {none}"));
        out.say(format_args!("{done}{none}"));
    }
}

/// Says that a store gets unchanged pages anew, and why.
pub(super) fn renewed(renewal: &Renewal, what: &str) -> String {
    format!(
        "{:8} {}{what}: {}",
        renewal.store,
        count(renewal.pages, "unchanged page"),
        clean(&renewal.reason)
    )
}

/// Prints what was done to each store.
fn print_stores(out: &mut Out, report: &DrainReport) {
    for name in StoreName::ALL.map(StoreName::as_str) {
        let Some(store) = report.stores.get(name) else {
            continue;
        };
        let commit = match &report.commit {
            Some(commit) if name == "git" && report.commits > 1 => {
                format!("   {} commits, the last is {commit:.10}", report.commits)
            }
            Some(commit) if name == "git" => format!("   commit {commit:.10}"),
            Some(_) | None => String::new(),
        };
        let texts = match [store.embedded, store.cached].map(Option::unwrap_or_default) {
            [0, 0] => String::new(),
            [embedded, cached] => {
                format!("   {} embedded, {cached} at hand", count(embedded, "text"))
            }
        };
        out.say(format_args!(
            "{name:8} {:>6} applied {:>6} removed{commit}{texts}",
            store.applied, store.removed
        ));
        print_meaning(out, store);
    }
}

/// Prints what became of the meaning of pages that were brought in.
fn print_meaning(out: &mut Out, store: &StoreReport) {
    if let Some(pages @ 1..) = store.stripped {
        let title = format!("meaning taken off: {}", count(pages, "page"));
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title}, as embedding.provider is none; with it again `wiki-sync drain` brings it back, and what is kept is not embedded anew"
        ));
    }
    if let Some(texts @ 1..) = store.shortened {
        let title = format!("too long for the model: {}", count(texts, "text"));
        let title = out.paint(Style::Warn, title).into_owned();
        out.trouble(format_args!(
            "{title}; found by the meaning of the beginning alone, and by all words"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_numbers_that_can_be_waited_for() {
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["-1", "nan", "inf", "", "1s", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad:?}");
        }
    }
}
