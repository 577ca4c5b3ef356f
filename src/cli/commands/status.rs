//! `wiki-sync status`

use std::time::{Duration, Instant};

use super::drain::{renewed, seconds};
use super::hooks;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::cli::out::{Out, Style, clean, count, roughly};
use crate::engine::alert::AlertStatus;
use crate::model::{Failure, FailureKind, StoreName, Timestamp};
use crate::outbox::Outbox;
use crate::query::status::{StatusReport, WatchStatus, status};

/// Show where every job and store stands
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Wait until every store holds every page, but no longer than this [default: 60]; exit code 75 when it is not so
    /// in time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", value_parser = seconds)]
    wait_fresh: Option<Duration>,
}

/// How often it is looked whether nothing waits any more. That costs the same whatever waits.
const POLL: Duration = Duration::from_millis(200);
/// How much longer than a look at all pages took, the next one is put off.
const REST: u32 = 4;

pub(super) fn run(args: &StatusArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    // Whoever waits for others' work waits for their state too.
    let ws = match args.wait_fresh {
        Some(_) => cx.workspace()?,
        None => cx.workspace_to_ask()?,
    };
    let looked = match args.wait_fresh {
        Some(within) => wait_fresh(&ws, within),
        None => look(&ws).map(|report| (report, false)),
    };
    let (mut report, is_late) = looked.map_err(|failure| and_kept(&ws, failure))?;
    let now = Timestamp::now();
    // Where git cannot be asked, nothing is known of its hooks, and that is no trouble of the wiki's.
    let hooks = hooks::places(&ws).and_then(|places| hooks::look(&places));
    report.hooks = hooks.ok();
    if cx.out.is_json() {
        cx.out.json(&report);
    } else {
        print(&mut cx.out, &report, now);
    }
    if let Some(within) = args.wait_fresh.filter(|_| is_late) {
        let within = within.as_secs_f64();
        let told = format!("not fresh within {within} s, the time that --wait-fresh was given");
        cx.out.stderr("warning", &told);
    }
    Ok(match args.wait_fresh {
        Some(_) => Exit::of_waiting(&report),
        None if report.watch.trouble(now).is_some() => Exit::NeedsPerson,
        None => Exit::Ok,
    })
}

/// Tells also what is kept for an outbox that cannot be asked.
fn and_kept(ws: &Workspace, failure: Failure) -> CommandError {
    let error = CommandError::from(failure);
    match ws.state.kept_jobs() {
        Ok(kept) if !kept.is_empty() => error.hint(format!(
            "{} kept here meanwhile; the next drain announces what is kept",
            count(kept.len() as u64, "job")
        )),
        Ok(_) | Err(_) => error,
    }
}

/// Looks at everything, opened for this look alone: nobody waits for us between two.
fn look(ws: &Workspace) -> Result<StatusReport, Failure> {
    status(&mut ws.parts()?, Timestamp::now())
}

/// Waits until all is fresh or no waiting helps, for so long at most, and returns the last look, and whether the time ran out.
///
/// As long as jobs wait, they alone are counted, which costs nothing; only when none does are the pages looked at.
fn wait_fresh(ws: &Workspace, within: Duration) -> Result<(StatusReport, bool), Failure> {
    let end = Instant::now() + within;
    let mut next_look = Instant::now();
    let mut outbox = None;
    loop {
        let is_last = Instant::now() >= end;
        let looked = if is_last || Instant::now() >= next_look && is_idle(ws, &mut outbox)? {
            let began = Instant::now();
            let looked = look(ws);
            next_look = Instant::now() + (began.elapsed() * REST).max(POLL);
            Some(looked)
        } else {
            None
        };
        match looked {
            Some(Ok(report)) => {
                let only_a_person = report.outbox.dead > 0
                    && report.unannounced == 0
                    && report.holds.is_empty()
                    && report.outbox.in_flight + report.outbox.waiting + report.outbox.delayed == 0;
                let is_over = report.fresh || only_a_person;
                if is_over || is_last {
                    return Ok((report, !is_over));
                }
            }
            Some(Err(failure)) if is_last || !may_pass(&failure) => return Err(failure),
            Some(Err(_)) | None => {}
        }
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Says whether no job waits, is in hand or held. An outbox that is away for now says nothing.
fn is_idle(ws: &Workspace, open: &mut Option<Box<dyn Outbox>>) -> Result<bool, Failure> {
    let mut outbox = match open.take() {
        Some(outbox) => outbox,
        None => match ws.outbox() {
            Ok(outbox) => outbox,
            Err(failure) if may_pass(&failure) => return Ok(false),
            Err(failure) => return Err(failure),
        },
    };
    match outbox.counts(Timestamp::now()) {
        Ok(counts) => {
            // One that was replaced meanwhile would be asked for ever, so whatever is idle is opened anew.
            let is_idle = counts.waiting + counts.delayed + counts.in_flight + counts.held == 0;
            *open = (!is_idle).then_some(outbox);
            Ok(is_idle)
        }
        Err(failure) if may_pass(&failure) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn may_pass(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Down | FailureKind::Busy)
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
    if outbox.spooled > 0 {
        let jobs = count(outbox.spooled, "job");
        out.line(format_args!(
            "spool    {jobs} that the outbox could not take: the next drain hands them over"
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
        let lag = match (store.behind, store.oldest) {
            (Some(0), _) => String::new(),
            (Some(behind), Some(since)) => {
                format!(
                    ", {behind} behind (the oldest job is {} old)",
                    age(since, now)
                )
            }
            (Some(behind), None) => format!(", {behind} behind"),
            (None, _) => ", how many it lacks is not known".into(),
        };
        out.line(format_args!("{name:8} {state} {pages}{lag}"));
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
    let changed = report.unannounced.saturating_sub(report.outdated);
    if changed > 0 {
        out.line(format_args!(
            "{} changed and not enqueued yet: `wiki-sync drain` finds them",
            count(changed, "page")
        ));
    }
    for renewal in &report.renewals {
        out.trouble(renewed(
            renewal,
            " to be written anew by the next `wiki-sync drain`",
        ));
    }
    for note in &outbox.notes {
        out.trouble(clean(note));
    }
    print_in_flight(out, report, now);
    print_holds(out, report, now);
    print_letters(out, report, now);
    out.skipped(&report.skipped);
    out.troubles(&report.trouble);
}

/// Prints whose hands jobs are in.
fn print_in_flight(out: &mut Out, report: &StatusReport, now: Timestamp) {
    if report.in_flight.is_empty() {
        return;
    }
    out.trouble("in flight:");
    out.bounded(&report.in_flight, |job| {
        let (path, time) = (clean(&job.path), age(job.since, now));
        match (job.pid, &job.host) {
            (Some(pid), Some(_)) if job.ended => format!(
                "  {path}  taken {time} ago by process {pid}, which has ended: the next `wiki-sync drain` goes on with it"
            ),
            (Some(pid), Some(host)) => {
                format!("  {path}  process {pid} on {}  for {time}", clean(host))
            }
            (_, _) => format!("  {path}  nobody knows whose  for {time}"),
        }
    });
}

/// Prints what is held, why, since when, and when it is tried again.
fn print_holds(out: &mut Out, report: &StatusReport, now: Timestamp) {
    if report.holds.is_empty() {
        return;
    }
    out.trouble("held or put back:");
    let by_watch = report.watch.running && !report.watch.enqueue_only && !report.watch.deaf;
    out.bounded(&report.holds, |hold| {
        let next = match hold.next {
            Some(at) if at <= now.0 => "due now".into(),
            Some(at) => format!("again in {}", roughly(now.until(Timestamp(at)))),
            None if by_watch => "again when the watch finds it free".into(),
            None => "again at the next `wiki-sync drain`".into(),
        };
        format!(
            "  {:8} {}, since {}, {next}: {}",
            hold.store.unwrap_or("retry"),
            count(hold.jobs, "job"),
            age(hold.since, now),
            clean(&hold.reason)
        )
    });
}

/// Prints the dead letters by their reasons.
fn print_letters(out: &mut Out, report: &StatusReport, now: Timestamp) {
    if report.outbox.dead > 0 {
        let title = format!("dead letters: {}", report.outbox.dead);
        let title = out.paint(Style::Bad, title).into_owned();
        out.trouble(format_args!("{title}; `wiki-sync dlq list` shows them"));
        out.bounded(&report.dead_letters, |dead| {
            format!(
                "  {:8} {}, since {}: {}",
                dead.store.unwrap_or("all"),
                count(dead.letters, "letter"),
                age(dead.oldest, now),
                clean(&dead.reason)
            )
        });
    }
}

/// Returns what is owed, in few words.
fn owed(report: &StatusReport) -> impl Iterator<Item = String> {
    let outbox = &report.outbox;
    let changed = report.unannounced.saturating_sub(report.outdated);
    let jobs = outbox.waiting + outbox.delayed + outbox.in_flight + outbox.held;
    let owed = [
        (jobs, "job", "not done"),
        (outbox.spooled, "job", "in the spool"),
        (outbox.dead, "dead letter", "left"),
        (changed, "page", "not announced"),
        (report.outdated, "unchanged page", "to be written anew"),
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
        if let Some(why) = watch.why.as_ref().filter(|_| !watch.degraded) {
            out.trouble(format_args!("  not by events alone: {}", clean(why)));
        }
    }
    if let Some(trouble) = watch.trouble(now) {
        let what = out.paint(Style::Bad, clean(&trouble.what)).into_owned();
        let hint = trouble.hint.unwrap_or_default();
        out.trouble(format_args!("{what}\n    hint: {}", clean(&hint)));
    }
}

fn age(since: i64, now: Timestamp) -> String {
    roughly(Timestamp(since).until(now))
}
