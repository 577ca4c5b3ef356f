//! `wiki-sync watch`

use std::time::Duration;

use serde::Serialize;

use crate::cli::Context;
use crate::cli::environment;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{Workspace, git_config, ignore_rules, ignored_by_git};
use crate::cli::out::{Out, Style, clean, count};
use crate::cli::progress::Bar;
use crate::cli::signals::stop_after_batch;
use crate::config::FILE_NAME;
use crate::engine::drain::{DrainOptions, Stop};
use crate::engine::report::DrainReport;
use crate::engine::watch::{End, Listener, Mode, Told, WatchOptions, open_source, watch};
use crate::engine::{Parts, Progress};
use crate::model::{Failure, FailureKind, PagePath, StoreName, Timestamp};

/// Bring what is saved to every store, until interrupted
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// Only enqueue what changes; another process drains
    #[arg(long)]
    enqueue_only: bool,
    /// Remove pages even when so many are gone at once that it looks like an accident
    #[arg(long)]
    allow_mass_delete: bool,
}

/// How long a state that is being replaced is waited for.
const REOPEN: Duration = Duration::from_secs(1);
/// Pages named in a line for people.
const NAMED: usize = 3;

pub(super) fn run(args: &WatchArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    environment::be_thrifty()?;
    let ws = cx.workspace()?;
    let stop = stop_after_batch(&ws.state, &cx.out)?;
    let mut ws = ws.stopping(&stop);
    let mut teller = Teller::new(cx);
    loop {
        match watch_once(args, &ws, &stop, &mut teller)? {
            End::Stopped => break,
            End::Again(what) => {
                teller.again(what);
                // With settings that cannot be used it goes on as it was.
                match Workspace::find(&ws.start, &teller.cx.flags) {
                    Ok(found) => {
                        teller.cx.warn(&found.config.warnings);
                        ws = found.stopping(&stop);
                    }
                    Err(error) => teller.refused(&error),
                }
            }
        }
    }
    teller.stopped();
    Ok(Exit::Ok)
}

/// Watches with what the settings say now.
fn watch_once(
    args: &WatchArgs,
    ws: &Workspace,
    stop: &Stop,
    teller: &mut Teller<'_>,
) -> Result<End, CommandError> {
    let mut parts = match open(args, ws) {
        // The database is being replaced, or a neighbour holds it: the next look shows.
        Err(failure) if failure.kind == FailureKind::Busy && !stop.is_wished() => {
            teller.hear(&Told::Trouble(&failure));
            std::thread::sleep(REOPEN);
            open(args, ws)?
        }
        other => other?,
    };
    let settings = ws.config.watch.clone();
    #[cfg(not(feature = "testing"))]
    let source = open_source(&parts, settings.choice);
    #[cfg(feature = "testing")]
    let source = crate::testing::planned_source(open_source(&parts, settings.choice));
    let ignored = ignored_by_git(ws);
    let options = WatchOptions {
        settings,
        drain: DrainOptions {
            stop: stop.clone(),
            allow_mass_delete: args.allow_mass_delete,
            ..DrainOptions::default()
        },
        enqueue_only: args.enqueue_only,
        ignored: &*ignored,
        ignore_rules: ignore_rules(ws),
        git_config: git_config(),
        settings_file: ws.root.path.join(FILE_NAME),
    };
    Ok(watch(&mut parts, source, &options, teller)?)
}

fn open(args: &WatchArgs, ws: &Workspace) -> Result<Parts, Failure> {
    if args.enqueue_only {
        ws.parts_without_stores()
    } else {
        ws.parts()
    }
}

/// Tells what the watch tells: a line for each sync, or a JSON document in a line for each event.
struct Teller<'a> {
    cx: &'a mut Context,
    bar: Bar,
    /// East of Greenwich, in minutes.
    offset: i64,
}

/// An event as it stands in the JSON lines.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    /// Milliseconds since the epoch.
    at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Vec<&'a str>>,
    #[serde(flatten)]
    report: Option<&'a DrainReport>,
}

impl Line<'_> {
    fn new(event: &'static str) -> Self {
        Self {
            event,
            at: Timestamp::now().0,
            mode: None,
            reason: None,
            hint: None,
            jobs: None,
            pages: None,
            report: None,
        }
    }
}

impl<'a> Teller<'a> {
    fn new(cx: &'a mut Context) -> Self {
        let offset = git2::Signature::now("-", "-").map_or(0, |now| now.when().offset_minutes());
        Self {
            bar: Bar::new(&cx.out),
            cx,
            offset: offset.into(),
        }
    }

    fn out(&mut self) -> &mut Out {
        // Whatever progress is shown ends before a line is printed.
        self.bar = Bar::new(&self.cx.out);
        &mut self.cx.out
    }

    /// Prints a line for people, with the time before it.
    fn say(&mut self, text: &str) {
        let clock = clock(Timestamp::now(), self.offset);
        let out = self.out();
        let clock = out.paint(Style::Dim, clock).into_owned();
        out.say(format_args!("{clock}  {text}"));
        out.flush();
    }

    fn again(&mut self, what: &'static str) {
        if self.cx.out.is_json() {
            self.cx.out.json_line(&Line {
                reason: Some(what),
                ..Line::new("reopened")
            });
        } else {
            self.say(&format!("{what}: opening anew"));
        }
    }

    fn refused(&mut self, error: &CommandError) {
        if self.cx.out.is_json() {
            self.cx.out.json_line(&Line {
                reason: Some(&error.error),
                ..Line::new("trouble")
            });
        }
        let out = self.out();
        for (label, text) in error.lines() {
            out.stderr(label, text);
        }
        out.stderr("hint", "until then it goes on as it was");
        std::thread::sleep(REOPEN);
    }

    fn stopped(&mut self) {
        if self.cx.out.is_json() {
            self.cx.out.json_line(&Line::new("stopped"));
        } else {
            self.say("stopped");
        }
    }

    fn json(&mut self, told: &Told<'_>) {
        let line = match told {
            Told::Started { mode, why } => with_mode(Line::new("started"), *mode, *why),
            Told::Mode { mode, why } => with_mode(Line::new("mode"), *mode, *why),
            Told::Rescan { why } => Line {
                reason: Some(why),
                ..Line::new("rescan")
            },
            Told::Synced { report, pages } => Line {
                pages: Some(pages.iter().map(PagePath::as_str).collect()),
                report: Some(report),
                ..Line::new(if did_anything(report) {
                    "synced"
                } else {
                    "held"
                })
            },
            Told::Enqueued { jobs } => Line {
                jobs: Some(*jobs),
                ..Line::new("enqueued")
            },
            Told::Trouble(failure) => Line {
                reason: Some(&failure.reason),
                hint: failure.hint.as_deref(),
                ..Line::new("trouble")
            },
        };
        self.cx.out.json_line(&line);
    }

    fn synced(&mut self, report: &DrainReport, pages: &[PagePath]) {
        let mut parts = Vec::new();
        if !pages.is_empty() {
            let first = pages.iter().take(NAMED).map(|page| clean(page.as_str()));
            let first: Vec<_> = first.collect();
            let changed = report.processed.saturating_sub(report.unchanged);
            let more = changed.saturating_sub(first.len() as u64);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            parts.push(first.join(", ") + &more);
        } else if report.processed > 0 {
            parts.push(format!("{} unchanged", count(report.processed, "page")));
        } else if report.scanned > 0 && report.trouble.is_empty() {
            parts.push(format!(
                "{}, nothing is owed",
                count(report.scanned, "page")
            ));
        }
        let removed = report.stores.values().map(|store| store.removed).max();
        if let Some(removed) = removed.filter(|&removed| removed > 0) {
            parts.push(format!("{} removed", count(removed, "page")));
        }
        let mut stores = Vec::new();
        for name in StoreName::ALL.map(StoreName::as_str) {
            let Some(store) = report.stores.get(name) else {
                continue;
            };
            if store.applied + store.removed > 0 {
                stores.push(match &report.commit {
                    Some(commit) if name == "git" => format!("{name} {commit:.7}"),
                    Some(_) | None => name.to_owned(),
                });
            }
        }
        if !stores.is_empty() {
            parts.push(stores.join(" "));
        }
        for (number, what) in [
            (report.held, "held"),
            (report.retried, "to be tried again"),
            (report.dlq, "given up"),
        ] {
            if number > 0 {
                let text = format!("{what}: {}", count(number, "job"));
                parts.push(self.cx.out.paint(Style::Warn, text).into_owned());
            }
        }
        if !parts.is_empty() {
            parts.push(format!("{:.2} s", report.seconds));
            self.say(&parts.join("  "));
        }
        let out = self.out();
        out.troubles(&report.trouble);
        out.flush();
    }
}

/// Whether any job ended.
fn did_anything(report: &DrainReport) -> bool {
    report.processed + report.dlq + report.forgotten > 0 || report.held == 0
}

fn with_mode<'l>(line: Line<'l>, mode: Mode, why: Option<&'l Failure>) -> Line<'l> {
    Line {
        mode: Some(mode),
        reason: why.map(|why| why.reason.as_str()),
        hint: why.and_then(|why| why.hint.as_deref()),
        ..line
    }
}

impl Listener for Teller<'_> {
    fn hear(&mut self, told: &Told<'_>) {
        if self.cx.out.is_json() {
            self.json(told);
            return;
        }
        match told {
            Told::Started { mode, why } | Told::Mode { mode, why } => {
                let verb = match told {
                    Told::Started { .. } => "watching",
                    _ => "watching on",
                };
                self.say(&format!("{verb} by {}; Ctrl-C ends it", mode.as_str()));
                if let Some(why) = why {
                    let hint = why.hint.as_deref().unwrap_or("changes are noticed later");
                    let out = self.out();
                    out.stderr("warning", &why.reason);
                    out.stderr("hint", hint);
                }
            }
            Told::Rescan { why } => self.say(&format!("looking at all pages: {why}")),
            Told::Synced { report, pages } => self.synced(report, pages),
            Told::Enqueued { jobs } => self.say(&format!("enqueued {}", count(*jobs, "job"))),
            Told::Trouble(failure) => {
                let out = self.out();
                out.stderr("warning", &format!("{}; it is tried again", failure.reason));
            }
        }
    }

    fn progress(&mut self) -> &mut dyn Progress {
        &mut self.bar
    }
}

/// Returns the time of day, so many minutes east of Greenwich.
fn clock(now: Timestamp, offset: i64) -> String {
    let seconds = (now.0.div_euclid(1000) + offset * 60).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_the_local_one() {
        let noon = Timestamp(12 * 3_600_000 + 4_000);
        assert_eq!(clock(noon, 0), "12:00:04");
        assert_eq!(clock(noon, 9 * 60), "21:00:04");
        assert_eq!(clock(noon, -13 * 60), "23:00:04");
    }
}
