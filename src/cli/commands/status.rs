//! `wiki-sync status`

use super::hooks;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::out::{Out, Style, clean, count, roughly};
use crate::engine::alert::AlertStatus;
use crate::model::{StoreName, Timestamp};
use crate::query::status::{StatusReport, WatchStatus, status};

/// Show where every job and store stands
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {}

pub(super) fn run(_args: &StatusArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let mut parts = ws.parts()?;
    let now = Timestamp::now();
    let mut report = status(&mut parts, now)?;
    // Where git cannot be asked, nothing is known of its hooks, and that is no trouble of the wiki's.
    let hooks = hooks::places(&ws).and_then(|places| hooks::look(&places));
    report.hooks = hooks.ok();
    if cx.out.is_json() {
        cx.out.json(&report);
    } else {
        print(&mut cx.out, &report, now);
    }
    Ok(if report.watch.deaf {
        Exit::NeedsPerson
    } else {
        Exit::Ok
    })
}

fn print(out: &mut Out, report: &StatusReport, now: Timestamp) {
    let pages = count(report.pages, "page");
    let title = if report.fresh {
        out.paint(Style::Good, "fresh").into_owned() + &format!(": {pages}, nothing is owed")
    } else {
        let mut parts = vec![pages];
        parts.extend(owed(report));
        out.paint(Style::Warn, "not fresh").into_owned() + ": " + &parts.join(", ")
    };
    out.line(title);
    let outbox = &report.outbox;
    let oldest = match outbox.oldest {
        Some(since) => format!(" (the oldest is {} old)", age(since, now)),
        None => String::new(),
    };
    out.line(format_args!(
        "outbox   waiting {}, delayed {}, in flight {}, held {}, dead {}{oldest}",
        outbox.waiting, outbox.delayed, outbox.in_flight, outbox.held, outbox.dead
    ));
    if outbox.hints > 0 {
        let hints = count(outbox.hints, "hint");
        out.line(format_args!(
            "hints    {hints} of hooks that could not announce what changed: the next drain looks"
        ));
    }
    for name in StoreName::ALL.map(StoreName::as_str) {
        let Some(store) = report.stores.get(name) else {
            continue;
        };
        let style = if store.state == "up" {
            Style::Good
        } else {
            Style::Bad
        };
        let state = out.paint(style, format!("{:5}", store.state)).into_owned();
        let pages = count(store.pages, "page");
        out.line(format_args!("{name:8} {state} {pages}"));
    }
    print_watch(out, &report.watch, now);
    if let Some(status) = &report.hooks {
        let summary = hooks::summary(out, status);
        let more = if status.runs || status.elsewhere.is_none() {
            ""
        } else {
            "; `wiki-sync hooks status` says what may be done"
        };
        out.line(format_args!("hooks    {summary}{more}"));
    }
    if let Some(alerts) = &report.alerts {
        print_alerts(out, alerts, now);
    }
    if report.unannounced > 0 {
        out.line(format_args!(
            "{} changed and not enqueued yet: `wiki-sync drain` finds them",
            count(report.unannounced, "page")
        ));
    }
    for note in &outbox.notes {
        out.trouble(clean(note));
    }
    if !report.in_flight.is_empty() {
        out.trouble("in flight:");
        out.bounded(&report.in_flight, |job| {
            let whose = match (job.pid, &job.host) {
                (Some(pid), Some(host)) => format!("process {pid} on {}", clean(host)),
                (_, _) => "nobody knows whose".into(),
            };
            let path = clean(&job.path);
            format!("  {path}  {whose}  for {}", age(job.since, now))
        });
    }
    if !report.held.is_empty() {
        out.trouble("held or put back:");
        out.bounded(&report.held, |job| {
            format!(
                "  {}  {}  {}  {}",
                clean(&job.path),
                job.store.unwrap_or("retry"),
                age(job.since, now),
                clean(&job.reason)
            )
        });
    }
    if outbox.dead > 0 {
        let title = format!("dead letters: {}", outbox.dead);
        let title = out.paint(Style::Bad, title).into_owned();
        out.trouble(format_args!("{title}; `wiki-sync dlq list` shows them"));
    }
    out.skipped(&report.skipped);
    out.troubles(&report.trouble);
}

/// Returns what is owed, in few words.
fn owed(report: &StatusReport) -> impl Iterator<Item = String> {
    let outbox = &report.outbox;
    let jobs = outbox.waiting + outbox.delayed + outbox.in_flight + outbox.held;
    let owed = [
        (jobs, "job", "not done"),
        (outbox.dead, "dead letter", "left"),
        (report.unannounced, "page", "not announced"),
    ];
    let owed = owed.into_iter().filter(|(number, ..)| *number > 0);
    owed.map(|(number, what, how)| format!("{} {how}", count(number, what)))
}

fn print_alerts(out: &mut Out, alerts: &AlertStatus, now: Timestamp) {
    let last = match &alerts.last {
        Some(last) => format!(
            ", the last one {} ago{}: {}",
            age(last.at, now),
            if last.delivered {
                ""
            } else {
                " and not delivered"
            },
            clean(&last.title)
        ),
        None => String::new(),
    };
    out.line(format_args!(
        "alerts   by {}{last}",
        alerts.channels.join(", ")
    ));
    if alerts.undelivered > 0 {
        let title = format!("not delivered yet: {}", alerts.undelivered);
        let title = out.paint(Style::Warn, title).into_owned();
        let error = alerts.error.as_deref().unwrap_or("no answer yet");
        out.trouble(format_args!("{title}; {}", clean(error)));
    }
}

fn print_watch(out: &mut Out, watch: &WatchStatus, now: Timestamp) {
    if let (true, Some(pid), Some(mode)) = (watch.running, watch.pid, &watch.mode) {
        let event = match watch.last_event {
            Some(at) => format!(", the last change {} ago", age(at, now)),
            None => String::new(),
        };
        let only = if watch.enqueue_only {
            ", only enqueues"
        } else {
            ""
        };
        out.line(format_args!(
            "watch    process {pid}, by {}{only}{event}",
            clean(mode)
        ));
        if let Some(why) = &watch.why {
            out.trouble(format_args!("  not by events alone: {}", clean(why)));
        }
        if watch.deaf {
            let title = out.paint(Style::Bad, "the watch does nothing").into_owned();
            out.trouble(format_args!(
                "{title}: end it with `kill {pid}` and start `wiki-sync watch` again"
            ));
        }
    }
}

fn age(since: i64, now: Timestamp) -> String {
    roughly(Timestamp(since).until(now))
}
