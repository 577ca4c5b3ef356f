//! From what a model names to a page of the wiki. No path leads out of it.

use rusqlite::Connection;

use super::Place;
use super::answer::{SHORT, Trouble, clip};
use crate::model::PagePath;
use crate::query::graph::{FindError, did_you_mean, find_page, linked_page};

/// The longest name of a page, in bytes: paths are no longer on any system that we know.
pub(super) const NAME: usize = 4_096;

/// What is typed behind a page's name without its extension.
const EXTENSION: &str = ".md";

/// Checks a name's length and returns it without what surrounds it: spaces, `[[` and `]]`.
pub(super) fn name(page: &str) -> Result<&str, Trouble> {
    let name = page.trim();
    let name = name
        .strip_prefix("[[")
        .and_then(|name| name.strip_suffix("]]"))
        .unwrap_or(name);
    if name.is_empty() {
        return Err(Trouble::new("no page is named").hint(HOW));
    }
    if name.len() > NAME {
        return Err(Trouble::new(format!("the page's name has more than {NAME} bytes")).hint(HOW));
    }
    Ok(name)
}

const HOW: &str = "name a page by its path as search tells it, or by its name, alias or title; search finds pages";

/// Returns the page that a name means and that is on disk: by its path from the repository's root, from the pages' folder,
/// else by the graph.
pub(super) fn page_on_disk(place: &dyn Place, named: &str) -> Result<PagePath, Trouble> {
    let name = name(named)?;
    if let Some(page) = by_path(place, name) {
        return Ok(page);
    }
    let found = match place.graph() {
        Ok(db) => by_name(place, &db, name)?,
        Err(failure) => {
            return Err(none(name).hint(format!(
                "only paths can be read now: {}",
                super::answer::told(&failure)
            )));
        }
    };
    // What the graph holds is no page any more when it left the scope, or never was one in a damaged graph.
    match PagePath::parse(&found) {
        Ok(page) if place.wiki().is_page(page.as_str()) => Ok(page),
        Ok(_) | Err(_) => Err(none(name)),
    }
}

/// Returns the path of the page in the graph that a name means, as far as the disk or the graph knows one.
pub(super) fn in_graph(place: &dyn Place, db: &Connection, named: &str) -> Result<String, Trouble> {
    let name = name(named)?;
    match by_path(place, name) {
        Some(page) => by_name(place, db, page.as_str()),
        None => by_name(place, db, name),
    }
}

/// Returns what links lead to: the path of a page, as [`in_graph`]; where they lead to none, the name.
pub(super) fn linked(place: &dyn Place, db: &Connection, named: &str) -> Result<String, Trouble> {
    let name = name(named)?;
    let name = by_path(place, name).map_or_else(|| name.into(), |page| page.to_string());
    match linked_page(db, place.wiki().pages_dir(), &name) {
        Ok(page) => Ok(page.unwrap_or(name)),
        Err(error) => Err(unfound(&name, error)),
    }
}

fn by_path(place: &dyn Place, name: &str) -> Option<PagePath> {
    let wiki = place.wiki();
    let pages_dir = wiki.pages_dir();
    let below = name.trim_start_matches("./").trim_start_matches('/');
    [
        name.to_owned(),
        format!("{pages_dir}/{below}"),
        format!("{name}{EXTENSION}"),
        format!("{pages_dir}/{below}{EXTENSION}"),
    ]
    .iter()
    .filter_map(|path| PagePath::parse(path).ok())
    .find(|path| wiki.is_page(path.as_str()) && matches!(wiki.stat(path), Ok(Some(_))))
}

fn by_name(place: &dyn Place, db: &Connection, name: &str) -> Result<String, Trouble> {
    find_page(db, place.wiki().pages_dir(), name).map_err(|error| unfound(name, error))
}

/// Tells why a name is not one page.
pub(super) fn unfound(name: &str, error: FindError) -> Trouble {
    match error {
        FindError::Failed(failure) => failure.into(),
        several @ FindError::Several { .. } => {
            Trouble::new(several.to_string()).hint("give the whole path of one of them")
        }
        FindError::None { near, .. } => {
            let near = did_you_mean(&near).into_iter();
            near.fold(none(name), Trouble::hint)
        }
    }
}

fn none(name: &str) -> Trouble {
    Trouble::new(format!("the wiki has no page {:?}", clip(name, SHORT))).hint(HOW)
}
