//! The overview: the three stores side by side, what waits, and who sees to it. Pictures before numbers.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, PreEscaped, html};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;

use super::Shared;
use super::pulse::{Memory, Shown};
use super::shell::{self, Tab, count, grouped, time};
use crate::model::{Failure, FailureKind, StoreName, Timestamp};
use crate::query::status::{StatusReport, StoreStatus};

/// How long a page waits for a younger look than the last one.
const FOR_A_LOOK: Duration = Duration::from_millis(40);
/// Entries of a list that are shown.
const MOST: usize = 8;

/// Shows the overview as it was seen last; a stream brings what comes after.
pub(super) async fn show(State(app): State<Shared>) -> Html<String> {
    let mut shown = app.pulse.watch();
    let is_young = |shown: &Shown| shown.looked.at.elapsed() < Duration::from_secs(1);
    let seen = shown.borrow_and_update().clone();
    if !seen.as_deref().is_some_and(is_young) {
        let _ = timeout(FOR_A_LOOK, shown.changed()).await;
    }
    let seen = shown.borrow().clone();
    let state = if let Some(shown) = &seen {
        PreEscaped(shown.html.to_string())
    } else {
        html! { p.looking { "Looking at the wiki …" } }
    };
    let looked = seen.map_or(0, |shown| shown.looked.time.0);
    let content = html! {
        h1.unseen { "Overview" }
        div.state data-stream="/events" { (state) }
        p.looked hidden[looked == 0] { "Last look at all pages: " (time(looked)) span hidden { " · wiki-sync does not answer" } }
        noscript { p.hint { "Without scripts this page stays as it is: load it again to see what moved." } }
    };
    shell::page(Tab::Overview, "Overview", &content)
}

/// Streams the state: what is shown now, then each change, and when it was looked at.
pub(super) async fn events(State(app): State<Shared>) -> Response {
    let Ok(place) = Arc::clone(&app.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many streams").into_response();
    };
    let shown = WatchStream::new(app.pulse.watch());
    let mut last: Option<Arc<str>> = None;
    let events = shown.filter_map(move |shown| {
        let _ = &place;
        let shown = shown?;
        let looked = shown.looked.time.0.to_string();
        // A state that stays the same is not sent again.
        let is_same = last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, &shown.html));
        let event = if is_same {
            Event::default().event("looked").data(looked)
        } else {
            last = Some(Arc::clone(&shown.html));
            Event::default().id(looked).data(&*shown.html)
        };
        Some(Ok::<_, Infallible>(event))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// How much is to be done.
pub(super) fn owed(report: &StatusReport) -> u64 {
    let outbox = &report.outbox;
    outbox.waiting
        + outbox.delayed
        + outbox.in_flight
        + outbox.held
        + outbox.spooled
        + report.unannounced
}

/// Shows that nothing could be looked at.
pub(super) fn away(failure: &Failure) -> Markup {
    let (tone, title) = match failure.kind {
        FailureKind::Waiting => ("busy", "There is no state yet"),
        _ => ("bad", "The state cannot be read"),
    };
    html! {
        section class={ "headline " (tone) } role="status" {
            (dot()) div {
                h2 { (title) }
                p { (failure.reason) }
                @if let Some(hint) = &failure.hint { p.hint { (hint) } }
            }
        }
    }
}

fn dot() -> Markup {
    html! { svg.dot viewBox="0 0 20 20" aria-hidden="true" { circle cx="10" cy="10" r="9" {} circle.in cx="10" cy="10" r="5" {} } }
}

/// Shows the state.
pub(super) fn state(report: &StatusReport, memory: &Memory) -> Markup {
    html! {
        (headline(report))
        section.stores aria-label="Stores" {
            @for name in StoreName::ALL {
                @if let Some(store) = report.stores.get(name.as_str()) {
                    (store_card(name, store, report.pages))
                }
            }
        }
        div.pair {
            (outbox_card(report, memory))
            (helpers_card(report, memory))
        }
        (needs(report))
    }
}

fn headline(report: &StatusReport) -> Markup {
    let owed = owed(report);
    let down = report.stores.values().any(|store| store.state == "down");
    let is_watched = report.watch.running && !report.watch.deaf;
    let wrong = report.watch.trouble(Timestamp::now());
    let (tone, title, text) = if let Some(wrong) = wrong.filter(|_| report.fresh) {
        let text = format!(
            "All {} were in their places at the last look. But {}.",
            count(report.pages, "page"),
            wrong.what
        );
        ("busy", "In sync, and not watched", text)
    } else if report.fresh {
        let text = format!("{}, and nothing is owed.", count(report.pages, "page"));
        ("good", "Everything is in sync", text)
    } else if down {
        let text = "What it owes is kept, and done once it is there again.".into();
        ("bad", "A store is away", text)
    } else if owed > 0 {
        let how = if is_watched {
            "The watch brings them to every store."
        } else {
            "The next drain brings them to every store."
        };
        let what = format!("{} on the way. {how}", count(owed, "change"));
        ("busy", "Catching up", what)
    } else if report.outbox.dead > 0 {
        let text = waiting_letters(report.outbox.dead);
        ("bad", "A person is needed", text)
    } else {
        let text = "Everything is in its place, and something is to be known.".into();
        ("busy", "In sync, with a remark", text)
    };
    html! {
        section class={ "headline " (tone) } role="status" {
            (dot())
            div { h2 { (title) } p { (text) } }
        }
    }
}

fn waiting_letters(dead: u64) -> String {
    if dead == 1 {
        "A dead letter waits for you.".into()
    } else {
        format!("{} dead letters wait for you.", grouped(dead))
    }
}

fn store_card(name: StoreName, store: &StoreStatus, pages: u64) -> Markup {
    let behind = store.behind.unwrap_or(0);
    // What a dead letter is about is not behind, and not there either, as it is.
    let dead = match store.state {
        "down" => 0,
        _ => store.dead.min(pages),
    };
    let held = pages.saturating_sub(behind + dead).min(store.pages);
    let (tone, says) = match (store.state, store.behind) {
        ("down", _) => ("bad", "away".to_owned()),
        (_, None) => ("busy", "cannot be asked".into()),
        (_, Some(0)) if dead > 0 => ("bad", format!("{} not taken", grouped(dead))),
        (_, Some(0)) if held < pages => {
            ("good", format!("in sync but for {}", grouped(pages - held)))
        }
        (_, Some(0)) => ("good", "in sync".into()),
        (_, Some(behind)) => ("busy", format!("{} behind", grouped(behind))),
    };
    let (title, what, icon) = match name {
        StoreName::Graph => ("Graph", "who links to whom", GRAPH),
        StoreName::Vectors => ("Vectors", "what is about what", VECTORS),
        StoreName::Git => ("Files in git", "what it says, and said", GIT),
    };
    let label = format!("{title}: {says}, {held} of {pages} pages");
    html! {
        article class={ "card store " (tone) } {
            (ring([held, dead], pages, &label, icon))
            h3 { (title) }
            p.state-word { (says) }
            p.numbers { b { (grouped(held)) } " of " (count(pages, "page")) }
            p.what {
                @if let Some(since) = store.oldest.filter(|_| behind > 0) {
                    "oldest change " (time(since))
                } @else { (what) }
            }
        }
    }
}

/// What stands within the rings, drawn in a square of 24.
const GRAPH: &str = r#"<path d="M7 7 17 9M7 7l3 10M17 9l-7 8"/><circle cx="7" cy="7" r="2.6"/><circle cx="17" cy="9" r="2.6"/><circle cx="10" cy="17" r="2.6"/>"#;
const VECTORS: &str = r#"<path d="M5 19V5M5 19h14M5 19 16 8M16 8h-4M16 8v4"/><circle cx="9" cy="9" r="1"/><circle cx="17" cy="15" r="1"/>"#;
const GIT: &str = r#"<path d="M8 6v12M8 12c6 0 8-1 8-4"/><circle cx="8" cy="5" r="2.4"/><circle cx="8" cy="19" r="2.4"/><circle cx="16" cy="7" r="2.4"/>"#;

/// Draws how much of a whole there is, and how much of it a person must see to.
fn ring([part, dead]: [u64; 2], whole: u64, label: &str, icon: &'static str) -> Markup {
    /// What is missing shows, however little it is.
    const LEAST: u64 = 15;
    // In thousandths, so that equal states are equal texts.
    let thousandths = |number: u64| (number * 1000).checked_div(whole).unwrap_or(0);
    let dead = match dead {
        0 => 0,
        dead => thousandths(dead).max(LEAST),
    };
    let most = if part < whole {
        1000 - LEAST - dead
    } else {
        1000
    };
    let share = thousandths(part).min(most);
    html! {
        svg.ring viewBox="0 0 120 120" role="img" aria-label=(label) {
            circle.track cx="60" cy="60" r="50" {}
            @if share > 0 {
                circle.held cx="60" cy="60" r="50" pathLength="1000" stroke-dasharray={ (share) " 1000" } transform="rotate(-90 60 60)" {}
            }
            @if dead > 0 {
                circle.dead cx="60" cy="60" r="50" pathLength="1000" stroke-dasharray={ (dead) " 1000" } stroke-dashoffset={ "-" (1000 - dead) } transform="rotate(-90 60 60)" {}
            }
            g.icon transform="translate(36 36) scale(2)" { (PreEscaped(icon)) }
        }
    }
}

fn outbox_card(report: &StatusReport, memory: &Memory) -> Markup {
    let outbox = &report.outbox;
    let parts = [
        (
            "waiting",
            outbox.waiting + outbox.spooled,
            "may be taken now",
        ),
        ("in flight", outbox.in_flight, "in a worker's hands"),
        ("delayed", outbox.delayed, "to be tried again"),
        ("held", outbox.held, "wait for a store, or for you"),
        (
            "unseen",
            report.unannounced,
            "changed, and nobody said so yet",
        ),
        ("dead", outbox.dead, "dead letters"),
    ];
    let all: u64 = parts.iter().map(|(_, number, _)| number).sum();
    html! {
        section.card.outbox aria-labelledby="outbox-title" {
            h3 id="outbox-title" { "Outbox" }
            (bar(&parts, all))
            dl.legend {
                @for (name, number, what) in parts {
                    div class={ "part p-" (class_of(name)) @if number == 0 { " none" } } title=(what) {
                        dt { (name) }
                        dd {
                            @if name == "dead" && number > 0 { a href="/dead" { (grouped(number)) } }
                            @else { (grouped(number)) }
                        }
                    }
                }
            }
            @if let Some(oldest) = outbox.oldest.filter(|_| all > 0) {
                p.what { "the oldest since " (time(oldest)) }
            }
            (spark(memory))
        }
    }
}

fn class_of(name: &str) -> String {
    name.replace(' ', "-")
}

/// Draws the parts of the queue as one bar.
fn bar(parts: &[(&str, u64, &str)], all: u64) -> Markup {
    let mut at = 0;
    let shown = parts.iter().filter(|(_, number, _)| *number > 0);
    let shown = shown.map(|(name, number, _)| {
        let from = at;
        let width = (number * 1000).checked_div(all).unwrap_or(0).max(12);
        at += width;
        (class_of(name), from, width)
    });
    let shown: Vec<_> = shown.collect();
    let label = if all == 0 {
        "nothing waits".to_owned()
    } else {
        let named = parts.iter().filter(|(_, number, _)| *number > 0);
        let named = named.map(|(name, number, _)| format!("{number} {name}"));
        named.collect::<Vec<_>>().join(", ")
    };
    html! {
        svg.bar-picture viewBox={ "0 0 " (at.max(1000)) " 26" } preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.track x="0" y="0" width=(at.max(1000)) height="26" {}
            @for (class, from, width) in shown {
                rect class={ "p-" (class) } x=(from) y="0" width=(width) height="26" {}
            }
        }
    }
}

/// Draws what was owed at the last looks.
fn spark(memory: &Memory) -> Markup {
    let most = memory.owed.iter().copied().max().unwrap_or(0);
    if most == 0 || memory.owed.len() < 2 {
        return html! {};
    }
    let first = 120 - memory.owed.len();
    let mut points = String::new();
    for (at, owed) in memory.owed.iter().enumerate() {
        // Of 40, with a little room above and below.
        let height = 38 - owed * 36 / most;
        let _ = write!(points, "{},{height} ", (first + at) * 4);
    }
    html! {
        figure.spark {
            svg viewBox="0 0 480 40" preserveAspectRatio="none" role="img" aria-label={ "what was owed in the last minute, at most " (most) } {
                polyline points=(points.trim_end()) {}
            }
            figcaption { "owed, the last minute · at most " (grouped(most)) }
        }
    }
}

fn helpers_card(report: &StatusReport, memory: &Memory) -> Markup {
    let watch = &report.watch;
    let wrong = watch.trouble(Timestamp::now());
    let (tone, says) = match (&wrong, watch.running, &watch.mode) {
        (Some(_), ..) => ("bad", "not well".to_owned()),
        (None, true, Some(mode)) => ("good", format!("by {mode}")),
        (None, true, None) => ("good", "runs".into()),
        (None, false, _) => ("off", "does not run".into()),
    };
    html! {
        section.card.helpers aria-labelledby="helpers-title" {
            h3 id="helpers-title" { "Who sees to it" }
            ul.lamps {
                li class=(tone) {
                    (lamp()) b { "Watch" } span { (says) }
                    @if let Some(wrong) = wrong {
                        p.what { (wrong.what) }
                        @if let Some(hint) = wrong.hint { p.hint { (hint) } }
                    } @else if let Some(at) = watch.last_event {
                        p.what { "last change " (time(at)) }
                    } @else if !watch.running {
                        p.what { code { "wiki-sync watch" } " brings in what is saved" }
                    }
                }
                @if let Some(hooks) = &memory.hooks {
                    @let tone = if hooks.runs { "good" } else if hooks.installed { "bad" } else { "off" };
                    li class=(tone) {
                        (lamp()) b { "Git hooks" }
                        span { (if hooks.runs { "installed" } else if hooks.installed { "do not run" } else { "not installed" }) }
                        @if let Some(why) = hooks.hooks.iter().find_map(|hook| hook.why.as_ref()).filter(|_| !hooks.runs) {
                            p.what { (why) }
                        }
                    }
                }
                @if let Some(alerts) = &report.alerts {
                    li class=(if alerts.undelivered > 0 { "bad" } else { "good" }) {
                        (lamp()) b { "Alerts" } span { "by " (alerts.channels.join(", ")) }
                        @if alerts.undelivered > 0 { p.what { (grouped(alerts.undelivered)) " not delivered yet" } }
                    }
                }
                @for job in report.in_flight.iter().take(3) {
                    li class=(if job.ended { "bad" } else { "good" }) {
                        (lamp()) b { (if job.ended { "Left by a process that has ended" } else { "At work" }) } span.path lang="" { (job.path) }
                        @if let Some(pid) = job.pid { p.what { "process " (pid) ", since " (time(job.since)) } }
                    }
                }
            }
        }
    }
}

fn lamp() -> Markup {
    html! { svg.lamp viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="4" {} } }
}

/// Shows what a person should know and do.
fn needs(report: &StatusReport) -> Markup {
    let letters = &report.dead_letters;
    // Of a page that is dead its letter tells.
    let skipped = report.skipped.iter();
    let skipped: Vec<_> = skipped
        .filter(|it| !report.rejected.contains(&it.path))
        .collect();
    let nothing = report.trouble.is_empty()
        && report.holds.is_empty()
        && letters.is_empty()
        && report.outbox.notes.is_empty()
        && skipped.is_empty();
    if nothing {
        return html! {};
    }
    html! {
        section.card.needs aria-labelledby="needs-title" {
            h3 id="needs-title" { "To be known" }
            ul.reasons {
                @for trouble in report.trouble.iter().take(MOST) {
                    li.bad {
                        b { (trouble.store.unwrap_or("trouble")) }
                        span { (trouble.reason) }
                        @if let Some(hint) = &trouble.hint { p.hint { (hint) } }
                    }
                }
                @for hold in report.holds.iter().take(MOST) {
                    li.busy {
                        b { (hold.store.unwrap_or("again")) }
                        span { (count(hold.jobs, "job")) ", since " (time(hold.since)) ": " (hold.reason) }
                    }
                }
                @for letter in letters.iter().take(MOST) {
                    li.bad {
                        b { a href="/dead" { "dead" } }
                        span { (count(letter.letters, "letter")) ", since " (time(letter.oldest)) ": " (letter.reason) }
                    }
                }
                @for note in report.outbox.notes.iter().take(MOST) {
                    li.busy { b { "outbox" } span { (note) } }
                }
                @for skipped in skipped.iter().take(MOST) {
                    li.busy { b { "skipped" } span { span.path lang="" { (skipped.path) } ": " (skipped.reason) } }
                }
                @if skipped.len() > MOST {
                    li { b {} span { "… and " (grouped((skipped.len() - MOST) as u64)) " more are skipped" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::report::Skipped;

    fn report() -> StatusReport {
        let store = |behind| StoreStatus {
            state: "up",
            pages: 10,
            behind: Some(behind),
            dead: 0,
            oldest: None,
        };
        StatusReport {
            fresh: true,
            pages: 10,
            stores: [
                ("graph", store(0)),
                ("vectors", store(0)),
                ("git", store(0)),
            ]
            .into(),
            ..StatusReport::default()
        }
    }

    #[test]
    fn the_state_is_told_by_pictures_that_have_names() {
        let mut report = report();
        let html = state(&report, &Memory::default()).into_string();
        assert!(html.contains("Everything is in sync"), "{html}");
        assert!(
            html.contains(r#"aria-label="Vectors: in sync, 10 of 10 pages""#),
            "{html}"
        );
        report.fresh = false;
        report.outbox.waiting = 3;
        report.stores.get_mut("vectors").expect("there").behind = Some(3);
        let html = state(&report, &Memory::default()).into_string();
        assert!(
            html.contains(r#"aria-label="Vectors: 3 behind, 7 of 10 pages""#),
            "{html}"
        );
        assert!(html.contains(r#"aria-label="3 waiting""#), "{html}");
        assert!(html.contains("Catching up"), "{html}");
    }

    #[test]
    fn where_a_person_is_needed_no_ring_is_whole() {
        let mut report = report();
        report.fresh = false;
        report.outbox.dead = 1;
        report.skipped = vec![Skipped {
            path: "w/bad.md".into(),
            reason: "is not UTF-8".into(),
        }];
        report.rejected = ["w/bad.md".to_owned()].into();
        for store in report.stores.values_mut() {
            store.dead = 1;
        }
        let html = state(&report, &Memory::default()).into_string();
        assert!(html.contains("A person is needed"), "{html}");
        assert!(html.contains("1 not taken, 9 of 10 pages"), "{html}");
        assert_eq!(html.matches("circle class=\"dead\"").count(), 3, "{html}");
        assert!(!html.contains("1000 1000"), "{html}");
        assert!(!html.contains(">skipped<"), "said by its letter: {html}");
    }

    #[test]
    fn a_watch_that_was_killed_is_told_above_all() {
        let mut report = report();
        report.watch.gone = true;
        let html = state(&report, &Memory::default()).into_string();
        assert!(!html.contains("Everything is in sync"), "{html}");
        assert!(html.contains("In sync, and not watched"), "{html}");
    }

    #[test]
    fn an_unchanged_state_is_the_same_text() {
        let report = report();
        let memory = Memory::default();
        let one = state(&report, &memory).into_string();
        assert_eq!(one, state(&report, &memory).into_string());
    }
}
