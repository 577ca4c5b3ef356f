//! The page that a person means by a path or a name.

use std::collections::HashMap;

use rusqlite::Connection;

use super::names::Root;
use super::plan::{How, plan};
use super::resolve::Resolver;
use super::what_if::{By, Leads};
use crate::model::PagePath;
use crate::model::markdown::{LinkKind, target_of};

/// Returns the pages that are equally good answers to a path (from the repository or from the wiki's root) or to
/// any name that a link could use, best first, at most `most`.
pub(crate) fn find_pages(
    db: &Connection,
    pages_dir: &str,
    name: &str,
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let root = Root::new(pages_dir);
    let targets = targets(&root, name.trim());
    find(db, &root, LinkKind::Wikilink, &targets, most)
}

/// Returns the pages that are equally good answers to an address as a Markdown link at the wiki's root could have it: with
/// a site's root or a language in front, a folder's, percent-encoded, with an anchor; best first, at most `most`.
pub(crate) fn find_addressed(
    db: &Connection,
    pages_dir: &str,
    address: &str,
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let Some((target, _)) = target_of(address) else {
        return Ok(Vec::new());
    };
    let root = Root::new(pages_dir);
    let targets = targets(&root, target.trim());
    find(db, &root, LinkKind::Markdown, &targets, most)
}

fn find(
    db: &Connection,
    root: &Root,
    kind: LinkKind,
    targets: &[String],
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let mut resolver = Resolver::with_most(db, most);
    for target in targets {
        let plan = plan(root, &page_at(root), kind, target);
        if let Some((_, found)) = resolver.find(&plan)? {
            let best = found.first().map(|page| page.depth);
            return Ok(found
                .into_iter()
                .take_while(|page| Some(page.depth) == best)
                .map(|page| page.path)
                .collect());
        }
    }
    Ok(Vec::new())
}

/// Returns the key that names the placeholder of a page that does not exist.
pub(crate) fn placeholder_key(pages_dir: &str, name: &str) -> String {
    let root = Root::new(pages_dir);
    let target = root.relative(name.trim()).to_owned();
    plan(&root, &page_at(&root), LinkKind::Wikilink, &target).wants
}

/// Returns where a link of the page `from` to each of the targets leads, by the names as they stand now.
pub(crate) fn leads<'t>(
    db: &Connection,
    pages_dir: &str,
    from: &PagePath,
    kind: LinkKind,
    targets: impl IntoIterator<Item = &'t str>,
) -> rusqlite::Result<HashMap<&'t str, Leads>> {
    leads_from(db, &Root::new(pages_dir), from, kind, targets)
}

pub(super) fn leads_from<'t>(
    db: &Connection,
    root: &Root,
    from: &PagePath,
    kind: LinkKind,
    targets: impl IntoIterator<Item = &'t str>,
) -> rusqlite::Result<HashMap<&'t str, Leads>> {
    let mut resolver = Resolver::new(db);
    let mut leads = HashMap::new();
    for target in targets {
        let to = resolver.resolve(&plan(root, from.as_str(), kind, target))?;
        leads.insert(
            target,
            Leads {
                by: By::of(to.leads_to, to.how.map(How::as_str)),
                page: to.dst,
                ambiguous: to.ambiguous,
            },
        );
    }
    Ok(leads)
}

/// A path from the repository's root is looked for first, then the name as a link at the wiki's root would have
/// it.
fn targets(root: &Root, name: &str) -> Vec<String> {
    let path = name.trim_start_matches("./");
    let mut targets = Vec::new();
    if root.relative(path).len() < path.len() {
        targets.push(format!("/{}", root.relative(path)));
    }
    targets.push(name.to_owned());
    targets
}

/// A page's path at the wiki's root: where the name is looked for from.
fn page_at(root: &Root) -> String {
    match root.as_str() {
        "" => "?.md".into(),
        root => format!("{root}/?.md"),
    }
}
