//! The graph: the whole wiki, or what is around a page.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::layout::{Place, at_once, folder};
use super::shell::{self, Tab, Trouble, encoded, page_url};
use super::{App, Shared};
use crate::model::Failure;
use crate::query::graph::map::Map;

/// Nodes around a page that are drawn.
const NEAR: usize = 150;
/// Steps from it.
const DEPTH: u32 = 2;
/// Groups that have a name; the rest are one.
const GROUPS: usize = 40;

/// Which part of the graph.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    page: Option<String>,
    depth: Option<u32>,
}

/// The graph as the script draws it.
#[derive(Debug, Serialize)]
struct Drawing {
    /// By which the places are asked for until they are final; empty where they are.
    key: String,
    done: bool,
    left_out: usize,
    /// The page in the middle.
    focus: Option<u32>,
    /// Pages; of those that are missing how they are written.
    ids: Vec<String>,
    titles: Vec<String>,
    /// How many of the nodes are pages; the rest are missing.
    pages: usize,
    /// Names of the groups, and each page's.
    folders: Vec<String>,
    folder: Vec<usize>,
    tags: Vec<String>,
    tag: Vec<usize>,
    /// Pairs of nodes.
    links: Vec<u32>,
    /// Places in tenths.
    places: Vec<i32>,
}

/// Places that may not be final.
#[derive(Debug, Serialize)]
struct Places {
    done: bool,
    places: Vec<i32>,
}

/// The layout that is asked about.
#[derive(Debug, Deserialize)]
pub(super) struct Key {
    key: String,
}

/// Shows the page that the script draws on.
pub(super) async fn show(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    let Some(page) = asked.page.clone() else {
        let content = frame("/graph/data", None, &html! {});
        return shell::page(Tab::Graph, "Graph", &content).into_response();
    };
    let around = app
        .ask(&app.questions, move |app| part(app, &page, 1))
        .await;
    match around {
        Ok(None) => {
            let text = "The graph has no such page yet: the next drain brings it in.";
            let page = shell::notice("Not in the graph", text, None);
            (StatusCode::NOT_FOUND, page).into_response()
        }
        Ok(Some((map, focus))) => {
            let spot = &map.spots[focus as usize];
            let data = format!("/graph/data?page={}", encoded(&spot.id));
            let content = frame(&data, Some((&spot.id, &spot.title)), &list(&map, focus));
            shell::page(Tab::Graph, &spot.title, &content).into_response()
        }
        Err(failure) => Trouble(failure).into_response(),
    }
}

/// Returns what is around a page, and which node it is; `None` where the graph does not have it.
fn part(app: &App, page: &str, depth: u32) -> Result<Option<(Map, u32)>, Failure> {
    let plan = app.desk.plan(&*app.source)?;
    let Some(focus) = plan.map.page(page) else {
        return Ok(None);
    };
    let part = plan.map.around(focus, depth, NEAR);
    Ok(part.page(page).map(|focus| (part, focus)))
}

fn frame(data: &str, page: Option<(&str, &str)>, list: &Markup) -> Markup {
    let label = match page {
        Some((_, title)) => format!("What is around {title}"),
        None => "The whole wiki: pages and the links between them".into(),
    };
    html! {
        section.graph aria-label=(label) {
            div.tools {
                @match page {
                    Some((id, title)) => {
                        h1 lang="" { "Around " a href=(page_url(id)) { (title) } }
                        a.button href="/graph" { "Whole wiki" }
                    },
                    None => h1 { "Graph" },
                }
                label.unseen for="graph-find" { "Find a page in the graph" }
                input type="search" id="graph-find" placeholder="Find in the graph" autocomplete="off" lang="";
                label { "Colour by " select id="graph-colour" { option value="folder" { "folder" } option value="tag" { "tag" } } }
                span.zoom role="group" aria-label="Zoom" {
                    button type="button" data-zoom="in" aria-label="Nearer" { "+" }
                    button type="button" data-zoom="out" aria-label="Farther" { "−" }
                    button type="button" data-zoom="all" aria-label="Show all" { "⤢" }
                }
            }
            div.stage {
                canvas data-graph=(data) tabindex="0" role="application" aria-label={ (label) ". Arrows move, plus and minus zoom, 0 shows all." } {}
                div.tip hidden role="status" {}
                ul.key aria-label="Colours" {}
                p.said role="status" { "Drawing …" }
            }
            noscript { p.remark { "The picture is drawn by a script of this page." } }
        }
        (list)
    }
}

/// Lists the neighbours, for whoever does not look at pictures.
fn list(map: &Map, focus: u32) -> Markup {
    let others = map.links.iter().filter_map(|&(from, to)| match focus {
        it if it == from => Some((to, "→")),
        it if it == to => Some((from, "←")),
        _ => None,
    });
    html! {
        details.fold.neighbours {
            summary { "Neighbours as a list" }
            ul.links lang="" {
                @for (other, way) in others {
                    @let spot = &map.spots[other as usize];
                    li {
                        span.what aria-label=(if way == "→" { "links to" } else { "linked from" }) { (way) } " "
                        @if spot.is_missing { span.broken { (spot.title) } } @else { a href=(page_url(&spot.id)) { (spot.title) } }
                    }
                }
            }
        }
    }
}

/// Sends the graph with its places.
pub(super) async fn data(State(app): State<Shared>, Query(asked): Query<Asked>) -> Response {
    match app
        .ask(&app.questions, move |app| drawing(app, &asked))
        .await
    {
        Ok(Some(drawing)) => Json(drawing).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, "no such page in the graph").into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.reason).into_response(),
    }
}

fn drawing(app: &App, asked: &Asked) -> Result<Option<Drawing>, Failure> {
    let pages_dir = app.source.wiki().pages_dir();
    if let Some(page) = &asked.page {
        let depth = asked.depth.unwrap_or(DEPTH).clamp(1, DEPTH);
        let part = part(app, page, depth)?;
        return Ok(part.map(|(map, focus)| {
            let places = at_once(&map, pages_dir);
            drawn(&map, &places, pages_dir, Some(focus))
        }));
    }
    let plan = app.desk.plan(&*app.source)?;
    app.desk.refine(&plan);
    let layout = plan.drawn();
    let mut drawing = drawn(&plan.map, &layout.places, pages_dir, None);
    if !layout.is_done {
        drawing.key.clone_from(&plan.key);
        drawing.done = false;
    }
    Ok(Some(drawing))
}

fn drawn(map: &Map, places: &[Place], pages_dir: &str, focus: Option<u32>) -> Drawing {
    let pages = map.spots.partition_point(|spot| !spot.is_missing);
    let folders = (0..pages).map(|at| folder(map, at, pages_dir).unwrap_or_default());
    let (folders, folder) = grouped(folders);
    let tags = map.spots[..pages].iter();
    let (tags, tag) = grouped(tags.map(|spot| spot.tag.as_deref().unwrap_or_default()));
    Drawing {
        key: String::new(),
        done: true,
        left_out: map.left_out,
        focus,
        ids: map.spots.iter().map(|spot| spot.id.clone()).collect(),
        titles: map
            .spots
            .iter()
            .map(|spot| spot.title.chars().take(80).collect())
            .collect(),
        pages,
        folders,
        folder,
        tags,
        tag,
        links: map
            .links
            .iter()
            .flat_map(|&(from, to)| [from, to])
            .collect(),
        places: tenths(places),
    }
}

/// Returns the names of groups, the largest first, and which each is in; those beyond [`GROUPS`] share the number after the last.
fn grouped<'n>(names: impl Iterator<Item = &'n str> + Clone) -> (Vec<String>, Vec<usize>) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for name in names.clone() {
        *sizes.entry(name).or_default() += 1;
    }
    let mut groups: Vec<_> = sizes.into_iter().collect();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    groups.truncate(GROUPS);
    let numbers: HashMap<_, _> = groups.iter().map(|(name, _)| *name).zip(0..).collect();
    let of_each = names.map(|name| numbers.get(name).copied().unwrap_or(groups.len()));
    let of_each = of_each.collect();
    (
        groups.iter().map(|(name, _)| (*name).to_owned()).collect(),
        of_each,
    )
}

#[allow(clippy::cast_possible_truncation)] // places on a screen
fn tenths(places: &[Place]) -> Vec<i32> {
    let numbers = places.iter().flatten();
    numbers
        .map(|number| (number * 10.0).round() as i32)
        .collect()
}

/// Sends how far the places have come.
pub(super) async fn positions(State(app): State<Shared>, Query(asked): Query<Key>) -> Response {
    let Some(plan) = app.desk.of_key(&asked.key) else {
        return (StatusCode::GONE, "the graph has changed").into_response();
    };
    let drawn = plan.drawn();
    Json(Places {
        done: drawn.is_done,
        places: tenths(&drawn.places),
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_by_size_and_the_rest_share_a_number() {
        let (names, of_each) = grouped(["b", "a", "b", "c"].into_iter());
        assert_eq!(
            (names, of_each),
            (vec!["b".into(), "a".into(), "c".into()], vec![0, 1, 0, 2])
        );
        let many: Vec<String> = (0..50).map(|n| format!("{n:02}")).collect();
        let (names, of_each) = grouped(many.iter().map(String::as_str));
        assert_eq!((names.len(), of_each[49]), (GROUPS, GROUPS));
    }
}
