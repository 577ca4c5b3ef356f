//! `backlinks` and `neighbors`: what hangs together with a page?

use std::fmt::Write as _;

use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use super::answer::{Answer, Freshness, Room, SHORT, Trouble, clip, stale};
use super::number::{Number, Numbers};
use super::resolve::{in_graph, linked, unfound};
use crate::query::graph::{Direction, More, Row, first_backlinks, near};

/// Links or pages that are returned when nothing is said.
const LIMIT: usize = 50;
/// The most links or pages that are returned.
const MOST: u64 = 500;
/// Steps from a page when nothing is said.
const DEPTH: usize = 1;
/// The most steps from a page.
const DEEPEST: u64 = 5;

/// Which page's backlinks.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct BacklinksArgs {
    /// The page: its path as search tells it, or its name, alias or title.
    page: String,
    /// The most links to return: 1 to 500, 50 by default.
    #[serde(default)]
    #[schemars(extend("default" = LIMIT))]
    limit: Number<1, MOST>,
}

impl Numbers for BacklinksArgs {
    fn adjusted(&self) -> Vec<String> {
        self.limit.adjusted("limit").into_iter().collect()
    }
}

/// A link.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Link {
    /// The page that the link stands in.
    path: String,
    /// Its title.
    title: String,
    /// The link's line in it, counted from 1.
    line: i64,
    /// `wikilink`, `markdown` or `embed`.
    kind: String,
    /// Where it leads, as it is written.
    target: String,
    /// The heading that it leads to, where it names one.
    anchor: Option<String>,
    /// Its visible text, where that is not the target.
    label: Option<String>,
}

/// The links to a page.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Backlinks {
    /// The page that they lead to; where it does not exist, as it was named.
    page: String,
    /// The links, by page and place in it.
    links: Vec<Link>,
    /// How many there are in all.
    total: usize,
    /// Whether there are more than are listed.
    cut: bool,
    /// How far this can be relied upon.
    freshness: Freshness,
}

pub(super) fn backlinks(place: &dyn Place, args: &BacklinksArgs) -> Result<Backlinks, Trouble> {
    let mut db = place.graph()?;
    let page = linked(place, &db, &args.page)?;
    let most = args.limit.or(LIMIT);
    let (rows, total) = first_backlinks(&mut db, place.wiki().pages_dir(), &page, most)
        .map_err(|error| unfound(&page, error))?;
    let (links, _) = Room::default().fit(rows.into_iter().map(link));
    let told = distinct(links.iter().map(|link| link.path.as_str()));
    let stale = stale(place, std::iter::once(page.as_str()).chain(told));
    Ok(Backlinks {
        page,
        cut: total > links.len(),
        links,
        total,
        freshness: Freshness::look(place, stale),
    })
}

fn link(row: Row) -> Link {
    let (target, line) = match row.more {
        More::Link { target, line } => (target, line),
        _ => (String::new(), 0),
    };
    let short = |text: Option<String>| text.map(|text| clip(&text, SHORT));
    Link {
        path: row.path,
        title: clip(&row.title, SHORT),
        line,
        kind: row.kind,
        target: clip(&target, SHORT),
        anchor: short(row.anchor),
        label: short(row.label),
    }
}

/// Passes over what equals the one before it.
fn distinct<'a>(paths: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut last = None;
    paths.filter(move |&path| last.replace(path) != Some(path))
}

impl Answer for Backlinks {
    fn text(&self) -> String {
        let mut text = match (self.total, self.cut) {
            (0, _) => format!("No page links to {}.\n", self.page),
            (total, true) => format!(
                "Links to {}: {total}, of which the first {}:\n",
                self.page,
                self.links.len()
            ),
            (total, false) => format!("Links to {}: {total}\n", self.page),
        };
        for link in &self.links {
            let (path, line, title) = (&link.path, link.line, &link.title);
            let anchor = link.anchor.as_deref();
            let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
            let label = link.label.as_deref();
            let label = label.map_or(String::new(), |label| format!(" as {label:?}"));
            let (kind, target) = (&link.kind, &link.target);
            let _ = writeln!(
                text,
                "- {path}:{line} ({title}): {kind} {target}{anchor}{label}"
            );
        }
        text + &self.freshness.line()
    }
}

/// Which way links are followed.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
#[serde(rename_all = "lowercase")]
enum Way {
    Out,
    In,
    #[default]
    Both,
}

/// Around which page.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct NeighborsArgs {
    /// The page: its path as search tells it, or its name, alias or title.
    page: String,
    /// How many links away at most: 1 to 5, 1 by default.
    #[serde(default)]
    #[schemars(extend("default" = DEPTH))]
    depth: Number<1, DEEPEST>,
    /// "out": pages that it links to; "in": pages that link to it; "both", by default.
    #[serde(default)]
    direction: Way,
    /// The most pages to return: 1 to 500, 50 by default.
    #[serde(default)]
    #[schemars(extend("default" = LIMIT))]
    limit: Number<1, MOST>,
}

impl Numbers for NeighborsArgs {
    fn adjusted(&self) -> Vec<String> {
        let adjusted = [self.depth.adjusted("depth"), self.limit.adjusted("limit")];
        adjusted.into_iter().flatten().collect()
    }
}

/// A page near another one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Neighbor {
    /// The page; of a placeholder its name with "placeholder:" in front.
    path: String,
    /// Its title.
    title: String,
    /// `page`, or `placeholder` (linked to, and does not exist).
    kind: String,
    /// How many links away it is.
    distance: u32,
    /// The page by which it was reached.
    through: String,
}

/// What is around a page.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Around {
    /// The page.
    page: String,
    /// The pages around it, nearest first, then by path.
    neighbors: Vec<Neighbor>,
    /// Whether there are more than are listed.
    cut: bool,
    /// How far this can be relied upon.
    freshness: Freshness,
}

pub(super) fn neighbors(place: &dyn Place, args: &NeighborsArgs) -> Result<Around, Trouble> {
    let mut db = place.graph()?;
    let page = in_graph(place, &db, &args.page)?;
    let depth = u32::try_from(args.depth.or(DEPTH)).unwrap_or(u32::MAX);
    let direction = match args.direction {
        Way::Out => Direction::Out,
        Way::In => Direction::In,
        Way::Both => Direction::Both,
    };
    let (rows, more) = near(&mut db, &page, depth, direction, args.limit.or(LIMIT))?;
    let neighbors = rows.into_iter().map(|row| {
        let (distance, through) = match row.more {
            More::Near { distance, through } => (distance, through),
            _ => (0, String::new()),
        };
        Neighbor {
            path: row.path,
            title: clip(&row.title, SHORT),
            kind: row.kind,
            distance,
            through,
        }
    });
    let (neighbors, cut) = Room::default().fit(neighbors);
    // Its own links are told too.
    let told = neighbors.iter().map(|near| near.path.as_str());
    let stale = stale(place, std::iter::once(page.as_str()).chain(told));
    Ok(Around {
        page,
        neighbors,
        cut: cut || more,
        freshness: Freshness::look(place, stale),
    })
}

impl Answer for Around {
    fn text(&self) -> String {
        let mut text = if self.neighbors.is_empty() {
            format!("Nothing is around {}.\n", self.page)
        } else {
            let more = if self.cut { ", and more" } else { "" };
            format!("Around {}: {}{more}\n", self.page, self.neighbors.len())
        };
        for near in &self.neighbors {
            let (path, title, distance) = (&near.path, &near.title, near.distance);
            let missing = if near.kind == "page" {
                ""
            } else {
                " [does not exist]"
            };
            let through = if distance > 1 {
                format!(", by {}", near.through)
            } else {
                String::new()
            };
            let _ = writeln!(
                text,
                "- {path} ({title}){missing}: {distance} away{through}"
            );
        }
        text + &self.freshness.line()
    }
}
