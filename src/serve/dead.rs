//! The dead letters: why, as what they came, and the two things to be done.

use axum::Form;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::breaks;
use super::shell::{self, Tab, Trouble, count, grouped, page_url, time};
use super::{App, Shared};
use crate::model::{Failure, StoreName, Timestamp};
use crate::outbox::{DeadLetter, Which};

/// Letters that are shown at a time.
const SHOWN: usize = 50;
/// Bytes of a raw line that are shown.
const LINE: usize = 64 << 10;

/// Which letters to show, and what was done before.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    /// How many of the newest to leave out.
    #[serde(default)]
    after: usize,
    /// The letter whose line is shown whole.
    whole: Option<i64>,
    retried: Option<u64>,
    dropped: Option<u64>,
}

/// What a form asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Act {
    csrf: String,
    what: What,
    /// The letter; all of them, where none is named and `all` is.
    id: Option<i64>,
    all: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Retry,
    Drop,
}

/// The letters as they are shown.
struct Letters {
    shown: Vec<DeadLetter>,
    all: usize,
    /// The line that is shown whole.
    whole: Option<(i64, String, bool)>,
}

/// Shows the dead letters, newest first.
pub(super) async fn show(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    let (after, whole) = (asked.after, asked.whole);
    match app
        .ask(&app.questions, move |app| letters(app, after, whole))
        .await
    {
        Ok(letters) => {
            let content = content(&letters, &asked, app.gate.csrf());
            shell::page(Tab::Dead, "Dead letters", &content).into_response()
        }
        Err(failure) => Trouble(failure).into_response(),
    }
}

fn letters(app: &App, after: usize, whole: Option<i64>) -> Result<Letters, Failure> {
    let mut outbox = app.source.outbox()?;
    let mut shown = outbox.dead()?;
    let all = shown.len();
    shown.reverse();
    shown.drain(..after.min(all));
    shown.truncate(SHOWN);
    let line = match whole {
        Some(id) => outbox.dead_line(id)?.map(|line| (id, line)),
        None => None,
    };
    let whole = line.map(|(id, line)| {
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE)]);
        (id, text.into_owned(), line.len() > LINE)
    });
    Ok(Letters { shown, all, whole })
}

/// Puts letters back or drops them, as `dlq` does, and shows what is left.
pub(super) async fn act(State(app): State<Shared>, Form(act): Form<Act>) -> Response {
    if !app.gate.is_ours(&act.csrf) {
        let text = "The form is not of this run: load the page again.";
        let page = shell::notice("Refused", text, None);
        return (StatusCode::FORBIDDEN, page).into_response();
    }
    let which = match (act.id, act.all.as_deref()) {
        (Some(id), None) => Which::Ids(vec![id]),
        (None, Some("yes")) => Which::All,
        (_, _) => {
            let page = shell::notice("Not understood", "The form names no letter.", None);
            return (StatusCode::BAD_REQUEST, page).into_response();
        }
    };
    let done = app.ask(&app.questions, move |app| {
        let mut outbox = app.source.outbox()?;
        match act.what {
            What::Retry => outbox.retry_dead(&which, Timestamp::now()),
            What::Drop => outbox.drop_dead(&which),
        }
    });
    match done.await {
        Ok(number) => {
            let what = match act.what {
                What::Retry => "retried",
                What::Drop => "dropped",
            };
            Redirect::to(&format!("/dead?{what}={number}")).into_response()
        }
        Err(failure) => Trouble(failure).into_response(),
    }
}

fn content(letters: &Letters, asked: &Asked, csrf: &str) -> Markup {
    html! {
        header.page-head {
            h1 { "Dead letters" }
            p.what { "Pages that could not be brought in, and lines that are no jobs. Once a page was edited, the next drain takes it again." }
        }
        @if let Some(number) = asked.retried {
            p.remark.good role="status" { (count(number, "job")) " put back; the watch, or the next " code { "wiki-sync drain" } ", tries." }
        }
        @if let Some(number) = asked.dropped {
            p.remark.good role="status" { (count(number, "letter")) " dropped. A page that is still broken comes back at the next drain." }
        }
        @if letters.all == 0 {
            section.empty {
                svg viewBox="0 0 64 48" aria-hidden="true" { rect x="4" y="6" width="56" height="36" rx="4" {} path d="M4 10l28 20L60 10" {} }
                p { "No dead letters." }
            }
        } @else {
            div.acts {
                span.what { (count(letters.all as u64, "letter")) }
                (form(csrf, "retry", None, "Retry all", true))
                (sure("Drop all …", "They are forgotten for good.", &form(csrf, "drop", None, "Yes, drop all", false)))
            }
            ol.letters {
                @for letter in &letters.shown { li { (one(letter, letters, csrf)) } }
            }
            nav.more aria-label="More letters" {
                @if asked.after > 0 { a href={ "/dead?after=" (asked.after.saturating_sub(SHOWN)) } { "Newer" } }
                @if asked.after + letters.shown.len() < letters.all { a href={ "/dead?after=" (asked.after + SHOWN) } { "Older" } }
            }
        }
    }
}

/// Asks once more, without a script.
fn sure(says: &str, what: &str, form: &Markup) -> Markup {
    html! { details.sure { summary { (says) } p { (what) } (form) } }
}

fn form(csrf: &str, what: &str, id: Option<i64>, says: &str, is_main: bool) -> Markup {
    html! {
        form method="post" action="/dead/act" {
            input type="hidden" name="csrf" value=(csrf);
            input type="hidden" name="what" value=(what);
            @match id {
                Some(id) => input type="hidden" name="id" value=(id);,
                None => input type="hidden" name="all" value="yes";,
            }
            button.main[is_main] { (says) }
        }
    }
}

fn one(letter: &DeadLetter, letters: &Letters, csrf: &str) -> Markup {
    let stores: Vec<_> = letter.death.stores.iter().map(StoreName::as_str).collect();
    let whole = letters.whole.as_ref().filter(|(id, ..)| *id == letter.id);
    // The reason is one line: an error and its causes, outermost first.
    let chain: Vec<_> = letter.death.reason.split(": ").collect();
    html! {
        article.card.letter id={ "letter-" (letter.id) } aria-labelledby={ "name-" (letter.id) } {
            header {
                h2 id={ "name-" (letter.id) } lang="" {
                    @match &letter.path {
                        Some(path) => a href=(page_url(path.as_str())) { (path) },
                        None => "A line that is no job",
                    }
                }
                p.what {
                    "no. " (letter.id) " · " (time(letter.dead_at.0)) " · " (count(letter.death.attempts.into(), "attempt")) " · "
                    @if stores.is_empty() { "came to no store" } @else { "refused by " (stores.join(", ")) }
                }
            }
            ol.chain lang="" { @for part in chain { li { (part) } } }
            details open[whole.is_some()] {
                summary { "The job as it came, " (grouped(letter.size)) " bytes" }
                @match whole {
                    Some((_, line, is_cut)) => { pre lang="" { (breaks::text(line)) @if *is_cut { " …" } } },
                    None => {
                        pre lang="" { (breaks::text(&letter.head)) @if !letter.is_whole() { " …" } }
                        @if !letter.is_whole() { a href={ "/dead?whole=" (letter.id) "#letter-" (letter.id) } { "Show it whole" } }
                    },
                }
            }
            div.acts {
                @if letter.path.is_some() { (form(csrf, "retry", Some(letter.id), "Retry", true)) }
                (sure("Drop …", "It is forgotten for good.", &form(csrf, "drop", Some(letter.id), "Yes, drop it", false)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PagePath, StoreSet};
    use crate::outbox::Death;

    #[test]
    fn a_letter_is_shown_escaped_with_its_chain() {
        let letter = DeadLetter {
            id: 7,
            path: PagePath::parse("w/\"><script>.md").ok(),
            death: Death {
                stores: StoreSet::NONE,
                reason: "cannot read: <b>bad</b>".into(),
                attempts: 4,
                version: String::new(),
                fingerprint: String::new(),
            },
            dead_at: Timestamp(0),
            size: 5000,
            head: "<script>alert(1)</script>".into(),
        };
        let letters = Letters {
            shown: vec![letter],
            all: 1,
            whole: None,
        };
        let html = content(&letters, &Asked::default(), "secret").into_string();
        assert!(
            !html.contains("<script") && !html.contains("<b>bad"),
            "{html}"
        );
        assert!(
            html.contains("<li>cannot read</li><li>&lt;b&gt;bad&lt;/b&gt;</li>"),
            "{html}"
        );
        assert!(html.contains("/dead?whole=7"), "{html}");
        assert_eq!(html.matches("value=\"secret\"").count(), 4);
        // Neither drop is a single click.
        assert_eq!(html.matches("<details class=\"sure\">").count(), 2);
    }
}
