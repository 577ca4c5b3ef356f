//! What every page has around it, and the small pieces that several pages show.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::model::{Failure, FailureKind, Timestamp};

/// The pages of the viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Search,
    Graph,
    Dead,
    /// A page of the wiki, or a notice.
    None,
}

const TABS: [(Tab, &str, &str, &str); 4] = [
    (Tab::Overview, "/", "Overview", "g o"),
    (Tab::Search, "/search", "Search", "g s"),
    (Tab::Graph, "/graph", "Graph", "g g"),
    (Tab::Dead, "/dead", "Dead letters", "g d"),
];

/// Puts a page's content into the frame that all have.
pub(super) fn page(tab: Tab, title: &str, content: &Markup) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · wiki-sync" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/app.js" defer {}
                @if matches!(tab, Tab::Graph | Tab::None) {
                    script src="/assets/graph.js" defer {}
                }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.bar {
                    a.brand href="/" { (mark()) span { "wiki-sync" } }
                    nav aria-label="Viewer" {
                        @for (each, to, name, keys) in TABS {
                            a href=(to) aria-current=[(each == tab).then_some("page")] title=(keys) { (name) }
                        }
                    }
                    @if tab != Tab::Search {
                        form.find action="/search" role="search" {
                            input type="search" name="q" id="find" placeholder="Search" aria-label="Search the wiki" autocomplete="off" maxlength="1000";
                            kbd aria-hidden="true" { "/" }
                        }
                    }
                    button.keys type="button" data-keys hidden aria-label="Keyboard shortcuts" { "?" }
                }
                main id="main" tabindex="-1" { (content) }
                (keyboard())
            }
        }
    };
    Html(page.into_string())
}

fn keyboard() -> Markup {
    let keys = [
        ("/", "search"),
        ("g o", "overview"),
        ("g s", "search page"),
        ("g g", "graph"),
        ("g d", "dead letters"),
        ("↑ ↓ Enter", "through what was found"),
        ("+ − 0 arrows", "in the graph: zoom, whole, move"),
        ("?", "this help"),
        ("Esc", "close"),
    ];
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keyboard" }
            dl {
                @for (key, what) in keys {
                    dt { @for one in key.split(' ') { kbd { (one) } " " } }
                    dd { (what) }
                }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// Three circles that are one: the sign of the program.
fn mark() -> Markup {
    PreEscaped(
        r#"<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="8" r="5"/><circle cx="8" cy="15" r="5"/><circle cx="16" cy="15" r="5"/></svg>"#
            .into(),
    )
}

/// Returns a whole page that says one thing.
pub(super) fn notice(title: &str, text: &str, hint: Option<&str>) -> Html<String> {
    page(Tab::None, title, &notice_box(title, text, hint))
}

fn notice_box(title: &str, text: &str, hint: Option<&str>) -> Markup {
    html! {
        section.notice role="status" {
            h1 { (title) }
            p { (text) }
            @if let Some(hint) = hint { p.hint { (hint) } }
        }
    }
}

/// A failure, as a page.
pub(super) struct Trouble(pub(super) Failure);

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let Failure { kind, reason, hint } = self.0;
        let (status, title) = match kind {
            FailureKind::Down => (StatusCode::SERVICE_UNAVAILABLE, "Away"),
            FailureKind::Busy | FailureKind::Waiting => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            FailureKind::Refused => (StatusCode::INTERNAL_SERVER_ERROR, "Refused"),
            FailureKind::Transient => (StatusCode::INTERNAL_SERVER_ERROR, "Failed"),
            FailureKind::Rejected => (StatusCode::UNPROCESSABLE_ENTITY, "Not readable"),
        };
        (status, notice(title, &reason, hint.as_deref())).into_response()
    }
}

/// Shows a point in time; a script makes it relative.
pub(super) fn time(at: i64) -> Markup {
    let utc = Timestamp(at).utc();
    html! { time data-at=(at) title=(utc) { (utc) } }
}

/// Shows a number with what is counted.
pub(super) fn count(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(number))
}

/// Shows a number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// Encodes a value for a query, or a fragment.
pub(super) fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for &byte in value.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(byte.into());
        } else {
            write!(text, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    text
}

/// Returns the address of a page of the wiki.
pub(super) fn page_url(path: &str) -> String {
    format!("/page?path={}", encoded(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_page_is_called_its_address_is_one_of_ours() {
        for (path, url) in [
            ("w/a b.md", "/page?path=w/a%20b.md"),
            ("w/\"><script>.md", "/page?path=w/%22%3E%3Cscript%3E.md"),
            ("w/100%&x=1#y.md", "/page?path=w/100%25%26x%3D1%23y.md"),
            ("http://evil/x.md", "/page?path=http%3A//evil/x.md"),
            ("w/한.md", "/page?path=w/%ED%95%9C.md"),
        ] {
            assert_eq!(page_url(path), url);
        }
    }

    #[test]
    fn numbers_are_read_in_threes() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1\u{2009}000")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(count(1, "page"), "1 page");
        assert_eq!(count(1_234_567, "page"), "1\u{2009}234\u{2009}567 pages");
    }

    #[test]
    fn what_a_page_shows_is_escaped() {
        let page = notice("<b>", "\"><script>", Some("&")).0;
        assert!(
            !page.contains("<b>") && page.contains("&quot;&gt;&lt;script&gt;"),
            "{page}"
        );
    }
}
