//! Search: hybrid, as one types.

use std::fmt::Write as _;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::Shared;
use super::shell::{self, Tab, count, encoded, page_url};
use super::source::Answer;
use crate::model::{Failure, FailureKind};
use crate::query::graph::some_tags;
use crate::query::search::Hit;
use crate::stores::vectors::Only;

/// Pages that are shown at first, and how many more each time.
const HITS: usize = 20;
/// Pages that are shown at most.
const MOST: usize = 200;
/// Most characters of a query, and of each filter.
const LONGEST: usize = 1000;
/// Tags that are offered.
const TAGS: usize = 200;

/// What is looked for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    q: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    tag: String,
    #[serde(default)]
    repo: String,
    #[serde(default)]
    lang: String,
    /// How many pages to show.
    #[serde(default)]
    n: usize,
}

impl Asked {
    /// Cuts what is too long for a question.
    fn bounded(mut self) -> Self {
        for text in [
            &mut self.q,
            &mut self.path,
            &mut self.tag,
            &mut self.repo,
            &mut self.lang,
        ] {
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                text.truncate(end);
            }
        }
        self
    }

    fn only(&self) -> Only {
        let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        Only {
            prefix: given(&self.path),
            tags: given(&self.tag).into_iter().collect(),
            repo: given(&self.repo),
            lang: given(&self.lang),
            ..Only::default()
        }
    }

    /// How many pages are shown.
    fn shown(&self) -> usize {
        self.n.clamp(HITS, MOST)
    }

    /// The address that shows more.
    fn more(&self) -> String {
        let mut url = String::from("/search?");
        for (name, value) in [
            ("q", &self.q),
            ("path", &self.path),
            ("tag", &self.tag),
            ("repo", &self.repo),
            ("lang", &self.lang),
        ] {
            if !value.is_empty() {
                write!(url, "{name}={}&", encoded(value)).expect("writing to a string cannot fail");
            }
        }
        let n = self.shown() + HITS;
        format!("{url}n={n}#hit-{}", self.shown() + 1)
    }

    fn is_filtered(&self) -> bool {
        [&self.path, &self.tag, &self.repo, &self.lang]
            .iter()
            .any(|text| !text.trim().is_empty())
    }
}

/// Shows the page, with what is found where something is asked.
pub(super) async fn show(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    let asked = asked.bounded();
    let tags = app
        .ask(&app.questions, |app| some_tags(&app.source.graph()?, TAGS))
        .await;
    let tags = tags.unwrap_or_default();
    let found = find(&app, &asked).await;
    let content = html! {
        h1.unseen { "Search" }
        form.search action="/search" role="search" data-search="/search/hits" {
            label.unseen for="q" { "Search the wiki" }
            input type="search" id="q" name="q" value=(asked.q) maxlength=(LONGEST) autocomplete="off" autofocus
                placeholder="Words, or what it is about" aria-controls="hits" lang="";
            details.filters open[asked.is_filtered()] {
                summary { "Filters" }
                div {
                    (filter("path", "Path begins with", &asked.path, None))
                    (filter("tag", "Tag", &asked.tag, Some("tags")))
                    (filter("repo", "Repo", &asked.repo, None))
                    (filter("lang", "Lang", &asked.lang, None))
                    datalist id="tags" { @for tag in &tags { option value=(tag) {} } }
                }
            }
            noscript { button { "Search" } }
        }
        div.hits id="hits" aria-live="polite" { (answer(&asked, &found)) }
    };
    shell::page(Tab::Search, "Search", &content).into_response()
}

fn filter(name: &str, label: &str, value: &str, list: Option<&str>) -> Markup {
    html! {
        label { (label) input type="text" name=(name) value=(value) list=[list] autocomplete="off" lang=""; }
    }
}

/// Answers with what is found alone, for the script.
pub(super) async fn hits(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    let asked = asked.bounded();
    let found = find(&app, &asked).await;
    let status = match &found {
        // The script asks again.
        Err(failure) if failure.kind == FailureKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Ok(_) | Err(_) => StatusCode::OK,
    };
    (status, Html(answer(&asked, &found).into_string())).into_response()
}

async fn find(app: &Shared, asked: &Asked) -> Result<Answer, Failure> {
    let (query, only) = (asked.q.trim().to_owned(), asked.only());
    // One more than is shown tells whether there are more.
    let limit = asked.shown() + 1;
    if query.is_empty() {
        return Ok(Answer::default());
    }
    app.ask(&app.searches, move |app| {
        app.source.search(&query, limit, &only)
    })
    .await
}

fn answer(asked: &Asked, found: &Result<Answer, Failure>) -> Markup {
    let answer = match found {
        Ok(answer) => answer,
        Err(failure) => {
            return html! {
                p.remark.busy { (failure.reason) @if let Some(hint) = &failure.hint { " — " (hint) } }
            };
        }
    };
    if asked.q.trim().is_empty() {
        return html! { p.remark { "Type to search. Words are found as they are written; with an embedding provider, what they mean too." } };
    }
    let by = answer
        .hits
        .first()
        .map(|hit| match hit.channels.as_slice() {
            [] => "name".into(),
            channels => channels.join(" and "),
        });
    let words = words(&asked.q);
    let shown = answer.hits.len().min(asked.shown());
    let has_more = answer.hits.len() > shown;
    html! {
        p.remark {
            @match by {
                Some(by) => { @if has_more { "The best " } (count(shown as u64, "page")) ", by " (by) },
                None => { "Nothing found." @for why in &answer.why_nothing { " — " (why) } },
            }
        }
        @if let Some(why) = &answer.by_words_alone { p.remark.busy { "Searched by words alone: " (why) } }
        ol {
            @for (at, hit) in answer.hits[..shown].iter().enumerate() { li id={ "hit-" (at + 1) } { (one(hit, &words)) } }
        }
        @if has_more {
            @if shown < MOST { p.further { a.button href=(asked.more()) { "Show more" } } }
            @else { p.remark { "There are more: other words, or a filter, narrow it down." } }
        }
    }
}

fn one(hit: &Hit, words: &[String]) -> Markup {
    let heading = hit.heading.strip_prefix(&hit.title).unwrap_or(&hit.heading);
    let heading = heading.trim_start_matches(" > ");
    html! {
        a.hit href=(page_url(&hit.path)) lang="" {
            h2 { (marked(&hit.title, words)) @if !heading.is_empty() { span.trail { (heading) } } }
            p.path { (hit.path) }
            @if !hit.snippet.is_empty() { p.snippet { (marked(&hit.snippet, words)) } }
        }
        @if hit.deleted { span.chip.bad { "deleted since it was indexed" } }
        @else if hit.rejected { span.chip.bad { "changed since it was indexed, and rejected as it is now: " a href="/dead" { "dead letters" } } }
        @else if hit.stale { span.chip.busy { "changed since it was indexed" } }
    }
}

/// The words of a query that are worth a mark, in small letters.
fn words(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| word.chars().count() > 1 || !word.is_ascii());
    let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.take(32).collect()
}

/// Marks the words in a text.
fn marked(text: &str, words: &[String]) -> Markup {
    let chars: Vec<char> = text.chars().collect();
    // One for one, so that places in both are the same.
    let lower: Vec<char> = chars
        .iter()
        .map(|c| c.to_lowercase().next().unwrap_or(*c))
        .collect();
    let mut is_marked = vec![false; chars.len()];
    for word in words {
        let word: Vec<char> = word.chars().collect();
        for at in 0..=lower.len().saturating_sub(word.len()) {
            let end = at + word.len();
            if lower.get(at..end) == Some(&word[..]) {
                is_marked[at..end].fill(true);
            }
        }
    }
    let mut runs: Vec<(bool, String)> = Vec::new();
    for (char, mark) in chars.into_iter().zip(is_marked) {
        match runs.last_mut() {
            Some((last, run)) if *last == mark => run.push(char),
            _ => runs.push((mark, char.into())),
        }
    }
    html! {
        @for (mark, run) in runs {
            @if mark { mark { (run) } } @else { (run) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_found_are_marked_and_everything_is_escaped() {
        let shown = marked("The <b>Outbox</b> 아웃박스를", &words("outbox 아웃박스 b"));
        assert_eq!(
            shown.into_string(),
            "The &lt;b&gt;<mark>Outbox</mark>&lt;/b&gt; <mark>아웃박스</mark>를"
        );
        assert_eq!(marked("", &words("x")).into_string(), "");
        marked("İstanbul", &words("i̇stanbul"));
    }

    #[test]
    fn a_question_is_bounded() {
        let asked = Asked {
            q: "긴".repeat(5000),
            ..Asked::default()
        };
        assert_eq!(asked.bounded().q.chars().count(), LONGEST);
    }
}
