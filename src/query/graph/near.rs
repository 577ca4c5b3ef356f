//! What is around a page, asked of the database step by step: whatever the wiki's size, only as much is read as is told.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{Direction, More, Row, failed};
use crate::model::Failure;

const PLACEHOLDER: &str = "placeholder:";

/// Returns the pages and placeholders at most `depth` links away from a page, nearest first, then by path, at most `most` of
/// them; and whether that were not all. As [`super::Net::neighbors`], without loading the graph.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`crate::state::db_failure`] sorts them.
pub fn near(
    db: &mut Connection,
    start: &str,
    depth: u32,
    direction: Direction,
    most: usize,
) -> Result<(Vec<Row>, bool), Failure> {
    walk(db, start, depth, direction, most).map_err(|e| failed(&e))
}

fn walk(
    db: &mut Connection,
    start: &str,
    depth: u32,
    direction: Direction,
    most: usize,
) -> rusqlite::Result<(Vec<Row>, bool)> {
    let snapshot = db.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let mut reached = HashSet::from([start.to_owned()]);
    let mut frontier = vec![start.to_owned()];
    let mut rows = Vec::new();
    for distance in 1..=depth {
        // By the node reached, the first that leads to it.
        let mut next = BTreeMap::<String, &str>::new();
        let room = most - rows.len();
        // Of the nodes around a hub those that are told are among the first so many.
        let first = reached.len() + room + 1;
        for from in &frontier {
            for node in steps(&snapshot, from, direction, first)? {
                if !reached.contains(&node) {
                    next.entry(node).or_insert(from);
                }
            }
        }
        let is_last = next.is_empty();
        let cut = next.len() > room;
        for (node, through) in next.iter().take(room) {
            let (kind, title) = about(&snapshot, node)?;
            let more = More::Near {
                distance,
                through: (*through).to_owned(),
            };
            rows.push(Row::node(node.clone(), title, kind, more));
        }
        if cut {
            return Ok((rows, true));
        }
        if is_last {
            break;
        }
        frontier = next.into_keys().collect();
        reached.extend(frontier.iter().cloned());
    }
    Ok((rows, false))
}

/// Returns the nodes one link away: those out of it or into it, of each the first `most` by path.
fn steps(
    db: &Transaction<'_>,
    from: &str,
    direction: Direction,
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    const OUT: &str = "SELECT DISTINCT coalesce(dst, 'placeholder:' || wants) FROM graph_links
         WHERE path = ?1 AND leads_to IN ('page', 'placeholder') ORDER BY 1 LIMIT ?2";
    const IN: &str = "SELECT DISTINCT path FROM graph_links WHERE dst = ?1 ORDER BY 1 LIMIT ?2";
    const IN_TO_PLACEHOLDER: &str = "SELECT DISTINCT path FROM graph_links
         WHERE leads_to = 'placeholder' AND wants = ?1 ORDER BY 1 LIMIT ?2";
    let (out, back) = match direction {
        Direction::Out => (true, false),
        Direction::In => (false, true),
        Direction::Both => (true, true),
    };
    let mut asks = Vec::new();
    if let Some(wants) = from.strip_prefix(PLACEHOLDER) {
        asks.extend(back.then_some((IN_TO_PLACEHOLDER, wants)));
    } else {
        asks.extend(out.then_some((OUT, from)));
        asks.extend(back.then_some((IN, from)));
    }
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut nodes = Vec::new();
    for (sql, of) in asks {
        let mut select = db.prepare_cached(sql)?;
        for node in select.query_map(params![of, most], |row| row.get(0))? {
            nodes.push(node?);
        }
    }
    Ok(nodes)
}

/// Returns a node's kind and title.
fn about(db: &Transaction<'_>, node: &str) -> rusqlite::Result<(&'static str, String)> {
    let (kind, sql, of) = match node.strip_prefix(PLACEHOLDER) {
        Some(wants) => (
            "placeholder",
            "SELECT min(target) FROM graph_links WHERE leads_to = 'placeholder' AND wants = ?1",
            wants,
        ),
        None => (
            "page",
            "SELECT coalesce((SELECT title FROM graph_pages WHERE path = ?1), ?1)",
            node,
        ),
    };
    let title = db.prepare_cached(sql)?.query_row([of], |row| row.get(0))?;
    Ok((kind, title))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::graph::{Net, Through, tests::graph};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn it_is_what_the_whole_graph_says_as_far_as_there_is_room(
            links in prop::collection::vec((0..8_usize, 0..10_usize), 0..20),
            depth in 1..4_u32,
            way in 0..3_usize,
            most in 1..12_usize,
        ) {
            // The last two are linked to and do not exist.
            let name = |number: usize| format!("p{number}");
            let texts: Vec<(String, String)> = (0..8)
                .map(|page| {
                    let own = links.iter().filter(|(from, _)| *from == page);
                    let text = own.map(|(_, to)| format!("[[{}]] ", name(*to)));
                    (format!("w/{}.md", name(page)), text.collect())
                })
                .collect();
            let pages: Vec<_> = texts.iter().map(|(path, text)| (&**path, &**text)).collect();
            let (_dir, mut db) = graph(&pages);
            let way = [Direction::Out, Direction::In, Direction::Both][way];
            let all = Net::load(&mut db).expect("loaded").neighbors("w/p0.md", depth, way, Through::Links);
            let (found, cut) = near(&mut db, "w/p0.md", depth, way, most).expect("read");
            prop_assert_eq!(cut, all.len() > most);
            prop_assert_eq!(&found[..], &all[..all.len().min(most)]);
        }
    }
}
