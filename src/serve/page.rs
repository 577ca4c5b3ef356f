//! A page of the wiki: its text, what links to it, its sections and its history.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, PreEscaped, html};
use rusqlite::Connection;
use serde::Deserialize;

use super::breaks;
use super::render::{Lead, MOST_PIECES, Rendered, Wanted, render};
use super::shell::{self, Tab, Trouble, count, encoded, grouped, page_url, time};
use super::{App, Shared, not_found};
use crate::model::markdown::{Document, LinkKind, Readable};
use crate::model::{ContentSha, Failure, PagePath, StoreName};
use crate::query::graph::{self, Row, leads};
use crate::stores::git::{self, Became, History, history};
use crate::stores::graph::{By, Leads};
use crate::wiki::Reading;

/// Bytes of a page that are shown.
const SHOWN: usize = 512 << 10;
/// Links to a page that are shown.
const BACKLINKS: usize = 100;
/// Sections that are shown.
const SECTIONS: usize = 100;
/// Commits that are shown, and how long they are looked for.
const COMMITS: usize = 20;
/// Most characters of what a commit says that are shown.
const SUBJECT: usize = 200;
const FOR_COMMITS: Duration = Duration::from_millis(400);
/// Bytes of a page that is sent as it is.
const RAW: u64 = 256 << 20;
/// Bytes of a file that is shown.
const FILE: u64 = 32 << 20;

/// Which page or file.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    path: String,
}

/// What is known of a page.
struct Known {
    path: PagePath,
    title: String,
    tags: Vec<String>,
    rendered: Rendered,
    /// The text is longer than what is shown.
    is_long: Option<usize>,
    document: Document,
    /// Whether a store holds this text.
    holds: Result<Vec<(StoreName, bool)>, Failure>,
    backlinks: Result<(Vec<Row>, bool), Failure>,
    history: Option<Result<History, Failure>>,
}

/// Shows a page of the wiki.
pub(super) async fn show(State(app): State<Shared>, Query(named): Query<Named>) -> Response {
    let Some(path) = page_named(&app, &named.path) else {
        return no_such(&named.path);
    };
    let told = path.clone();
    let known = app
        .ask(&app.questions, move |app| Ok(know(app, &path)))
        .await;
    match known {
        Ok(Told::Known(known)) => {
            let title = known.title.clone();
            shell::page(Tab::None, &title, &whole(&known)).into_response()
        }
        Ok(Told::Absent) => no_such(told.as_str()),
        Ok(Told::Bad(failure)) => bad(&told, &failure),
        Err(failure) => Trouble(failure).into_response(),
    }
}

/// Returns the page that is named, where it is one by its name.
fn page_named(app: &App, name: &str) -> Option<PagePath> {
    let path = PagePath::parse(name).ok()?;
    app.source.wiki().is_page(path.as_str()).then_some(path)
}

/// Says that no page can be made of what is there, and where more of it stands.
fn bad(path: &PagePath, failure: &Failure) -> Response {
    let content = html! {
        section.notice role="status" {
            h1 { "Not readable" }
            p.path lang="" { (path) }
            p { (failure.reason) }
            @if let Some(hint) = &failure.hint { p.hint { (hint) } }
            p.hint { "What became of it stands among the " a href="/dead" { "dead letters" } ". " (raw_link(path.as_str())) }
        }
    };
    let page = shell::page(Tab::None, "Not readable", &content);
    (StatusCode::UNPROCESSABLE_ENTITY, page).into_response()
}

fn no_such(name: &str) -> Response {
    let shown: String = name.chars().take(200).collect();
    let text = format!("{shown:?} is no page of this wiki.");
    let page = shell::notice("No such page", &text, None);
    (StatusCode::NOT_FOUND, page).into_response()
}

/// What became of a page that is asked for.
enum Told {
    Known(Box<Known>),
    Absent,
    /// It is there, and no page can be made of it.
    Bad(Failure),
}

fn know(app: &App, path: &PagePath) -> Told {
    let source = &*app.source;
    let (mut text, sha) = match source.wiki().read(path) {
        Reading::Page { text, sha, .. } => (text, sha),
        Reading::Absent => return Told::Absent,
        Reading::Bad { failure, .. } => {
            return Told::Bad(failure);
        }
    };
    let length = text.len();
    let is_long = (length > SHOWN).then_some(length);
    text.truncate(text.floor_char_boundary(SHOWN));
    let document = Document::parse(path, &text);
    // A page is there to be read, whatever became of the state.
    let db = source.graph();
    let lead = |wanted: &BTreeSet<Wanted>| match &db {
        Ok(db) => where_to(app, db, path, wanted),
        Err(_) => HashMap::new(),
    };
    let rendered = render(&Readable::of(&text), &document.title, lead);
    let links = db.and_then(|db| graph::links_to(&db, path.as_str(), BACKLINKS + 1));
    let backlinks = links.map(|mut rows| {
        let is_cut = rows.len() > BACKLINKS;
        rows.truncate(BACKLINKS);
        (rows, is_cut)
    });
    let wanted = git::Wanted {
        pages_dir: source.wiki().pages_dir(),
        prefix: path.as_str(),
        commits: COMMITS,
        pages: 1,
        looks: usize::MAX,
        within: FOR_COMMITS,
    };
    let is_it = |other: &str| other == path.as_str();
    let history = source
        .has_history()
        .then(|| history(source.wiki().root(), &wanted, &is_it));
    Told::Known(Box::new(Known {
        title: document.title.clone(),
        tags: document.tags.iter().take(40).cloned().collect(),
        path: path.clone(),
        rendered,
        is_long,
        holds: holds(app, path, sha),
        backlinks,
        history,
        document,
    }))
}

/// Says of each store whether it holds this text, by its receipt.
fn holds(app: &App, path: &PagePath, sha: ContentSha) -> Result<Vec<(StoreName, bool)>, Failure> {
    let receipts = app.source.receipts()?;
    let stores = StoreName::ALL.into_iter();
    stores
        .filter(|store| *store != StoreName::Git || app.source.has_history())
        .map(|store| {
            let receipt = receipts.get(store, path)?;
            Ok((store, receipt.is_some_and(|it| it.sha == Some(sha))))
        })
        .collect()
}

/// Looks up where links lead. What the graph cannot tell leads nowhere.
fn where_to(
    app: &App,
    db: &Connection,
    from: &PagePath,
    wanted: &BTreeSet<Wanted>,
) -> HashMap<Wanted, Lead> {
    let pages_dir = app.source.wiki().pages_dir();
    let mut found = HashMap::new();
    for kind in [LinkKind::Wikilink, LinkKind::Markdown, LinkKind::Embed] {
        let targets = wanted.iter().filter(|(of, _)| *of == kind);
        let targets = targets.map(|(_, target)| target.as_str());
        let Ok(leads) = leads(db, pages_dir, from, kind, targets) else {
            continue;
        };
        for (target, leads) in leads {
            let lead = one_lead(app, from, target, leads);
            found.insert((kind, target.to_owned()), lead);
        }
    }
    found
}

fn one_lead(app: &App, from: &PagePath, target: &str, leads: Leads) -> Lead {
    match leads {
        Leads {
            page: Some(path),
            ambiguous,
            ..
        } => Lead::Page { path, ambiguous },
        Leads { by: By::File, .. } => match picture_at(app, from, target) {
            Some(path) => Lead::File(path.to_string()),
            None => Lead::Other,
        },
        Leads { .. } => Lead::Missing,
    }
}

/// Returns the picture that a target names: from the page's folder, else from the wiki's root.
fn picture_at(app: &App, from: &PagePath, target: &str) -> Option<PagePath> {
    picture_kind(target)?;
    let wiki = app.source.wiki();
    let folders = match target.strip_prefix('/') {
        Some(_) => vec![wiki.pages_dir()],
        None => vec![from.folder(), wiki.pages_dir()],
    };
    folders.into_iter().find_map(|folder| {
        let path = PagePath::parse(&joined(folder, target)?).ok()?;
        wiki.stat(&path).ok().flatten().map(|_| path)
    })
}

/// Joins a relative path to a folder; `None` where it leads out at the top.
fn joined(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the media type of a picture by its name; of what is none we show no file.
fn picture_kind(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    Some(match end.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// Sends a page as it is on disk, to be saved: what a browser would make of it nobody knows.
pub(super) async fn raw(State(app): State<Shared>, Query(named): Query<Named>) -> Response {
    let Some(path) = page_named(&app, &named.path) else {
        return no_such(&named.path);
    };
    let (_, name) = path.as_str().rsplit_once('/').unwrap_or_default();
    let save = format!("attachment; filename*=UTF-8''{}", encoded(name));
    let read = move |app: &App| Ok(app.source.wiki().read_file(&path, RAW));
    match app.ask(&app.questions, read).await {
        Ok(Ok(Some(bytes))) => {
            let kind = "text/markdown; charset=utf-8".to_owned();
            ([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, save)], bytes).into_response()
        }
        Ok(Ok(None) | Err(_)) => no_such(&named.path),
        Err(failure) => Trouble(failure).into_response(),
    }
}

/// Sends a picture of the wiki.
pub(super) async fn file(State(app): State<Shared>, Query(named): Query<Named>) -> Response {
    let (Some(kind), Ok(path)) = (picture_kind(&named.path), PagePath::parse(&named.path)) else {
        return not_found();
    };
    let read = move |app: &App| Ok(app.source.wiki().read_file(&path, FILE));
    match app.ask(&app.questions, read).await {
        Ok(Ok(Some(bytes))) => {
            // A drawing may hold scripts: opened by itself, it may not run them.
            let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
            let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)];
            (headers, bytes).into_response()
        }
        Ok(Ok(None) | Err(_)) => not_found(),
        Err(failure) => Trouble(failure).into_response(),
    }
}

fn whole(known: &Known) -> Markup {
    let path = known.path.as_str();
    html! {
        article.page {
            header {
                p.path lang="" { (path) }
                h1 lang="" { (known.title) }
                p.chips {
                    @match &known.holds {
                        Ok(holds) => @for (store, holds) in holds { (chip(*store, *holds)) },
                        Err(failure) => span.chip.busy { (failure.reason) @if let Some(hint) = &failure.hint { ": " (hint) } },
                    }
                    @for tag in &known.tags {
                        a.tag lang="" href={ "/search?q=" (encoded(tag)) "&tag=" (encoded(tag)) } { "#" (tag) }
                    }
                }
            }
            div.columns {
                div.prose lang="" {
                    (PreEscaped(&known.rendered.html))
                    @if let Some(length) = known.is_long {
                        p.remark.busy { "The page has " (grouped((length as u64).div_ceil(1 << 10))) " KiB; of its first " (SHOWN >> 10) " is shown what a browser can bear. " (raw_link(path)) }
                    } @else if known.rendered.is_cut {
                        p.remark.busy { "The end of this page is not shown: it has more than " (grouped(MOST_PIECES as u64)) " paragraphs, cells and marks, too many for a browser. " (raw_link(path)) }
                    }
                }
                aside {
                    figure.near {
                        canvas data-graph={ "/graph/data?depth=1&page=" (encoded(path)) } data-small role="img" aria-label="What is linked with this page" {}
                        figcaption { a href={ "/graph?page=" (encoded(path)) } { "Around this page" } }
                    }
                    @if known.rendered.outline.len() > 1 { (outline(&known.rendered.outline)) }
                    (backlinks(&known.backlinks))
                    (sections(known))
                    @if let Some(history) = &known.history { (commits(history)) }
                }
            }
        }
    }
}

fn raw_link(path: &str) -> Markup {
    html! { a href={ "/raw?path=" (encoded(path)) } download { "Save it whole" } }
}

fn chip(store: StoreName, holds: bool) -> Markup {
    let says = match (store, holds) {
        (StoreName::Graph, true) => "the graph holds this",
        (StoreName::Vectors, true) => "the vectors hold this",
        (StoreName::Git, true) => "git holds this",
        (StoreName::Graph, false) => "the graph does not have this yet",
        (StoreName::Vectors, false) => "the vectors do not have this yet",
        (StoreName::Git, false) => "git does not have this yet",
    };
    html! { span class={ "chip " (if holds { "good" } else { "busy" }) } { (says) } }
}

fn outline(outline: &[(u8, String, String)]) -> Markup {
    html! {
        details.fold open {
            summary { "On this page" }
            ol.outline lang="" {
                @for (level, text, id) in outline {
                    li class={ "l" (level) } { a href={ "#" (encoded(id)) } { (text) } }
                }
            }
        }
    }
}

fn backlinks(links: &Result<(Vec<Row>, bool), Failure>) -> Markup {
    let (rows, is_cut) = match links {
        Ok((rows, is_cut)) => (rows, *is_cut),
        Err(failure) => return html! { p.remark.busy { (failure.reason) } },
    };
    let mut pages: Vec<(&Row, u64)> = Vec::new();
    for row in rows {
        match pages.last_mut() {
            Some((last, number)) if last.path == row.path => *number += 1,
            _ => pages.push((row, 1)),
        }
    }
    html! {
        details.fold open {
            summary { "Linked from " span.number { (pages.len()) @if is_cut { "+" } } }
            @if pages.is_empty() { p.what { "No page links here." } }
            ul.links lang="" {
                @for (row, number) in pages {
                    li {
                        a href=(page_url(&row.path)) title=(row.path) { (row.title) }
                        @if number > 1 { " " span.what { "× " (number) } }
                    }
                }
            }
        }
    }
}

fn sections(known: &Known) -> Markup {
    let all = &known.document.sections;
    let holds = known.holds.iter().flatten();
    let mut vectors = holds.filter(|(store, _)| *store == StoreName::Vectors);
    let is_indexed = vectors.any(|(_, holds)| *holds);
    html! {
        details.fold {
            summary { "Sections " span.number { (all.len()) } }
            p.what {
                @if is_indexed { "As the vector store holds them: each is one point." }
                @else { "As the vector store will hold them; it has an earlier text, or none." }
            }
            ol.sections lang="" {
                @for section in all.iter().take(SECTIONS) {
                    li {
                        details {
                            summary {
                                span { (section.trail.last().map_or("(before the first heading)", String::as_str)) }
                                span.what { "line " (section.line) ", " (count(section.text.chars().count() as u64, "character")) }
                            }
                            @if section.trail.len() > 1 { p.trail { (section.trail.join(" › ")) } }
                            pre { (breaks::text(&section.text)) }
                        }
                    }
                }
            }
            @if all.len() > SECTIONS { p.what { "… and " (grouped((all.len() - SECTIONS) as u64)) " more" } }
        }
    }
}

fn commits(history: &Result<History, Failure>) -> Markup {
    html! {
        details.fold open {
            summary { "History" }
            @match history {
                Err(failure) => p.what { (failure.reason) },
                Ok(history) => {
                    @if history.commits.is_empty() { p.what { "Not committed yet." } }
                    ol.commits {
                        @for one in &history.commits {
                            li {
                                span lang="" { (one.subject.chars().take(SUBJECT).collect::<String>()) }
                                p.what { (time(one.at.0)) " · " span lang="" { (one.author) } " · " code { (one.id.get(..8).unwrap_or_default()) } @if one.pages.iter().any(|(_, became)| *became == Became::Removed) { " · removed" } }
                            }
                        }
                    }
                    @if history.cut { p.what { "Older ones: " code { "git log" } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_and_never_leads_out_at_the_top() {
        for (folder, target, expected) in [
            ("w/a", "i.png", Some("w/a/i.png")),
            ("w/a", "../i.png", Some("w/i.png")),
            ("w", "./x/../i.png", Some("w/i.png")),
            ("w", "/i.png", Some("w/i.png")),
            ("w/a", "../../../etc/x.png", None),
            ("w", "..\\i.png", Some("w/..\\i.png")),
        ] {
            assert_eq!(joined(folder, target).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn only_pictures_are_sent() {
        for name in ["a.html", "a.md", "a", "a.js", ".env", "a.png.html"] {
            assert_eq!(picture_kind(name), None, "{name}");
        }
        assert_eq!(picture_kind("a.PNG"), Some("image/png"));
    }
}
