//! The graph as it is drawn: pages and the targets that are missing, with the links between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::failed;
use crate::model::Failure;

/// A node of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The page's path; of a missing target its key, as it was written or nearly so.
    pub id: String,
    /// The page's title; of a missing target how it is written.
    pub title: String,
    /// No page yet: a link leads here and finds nothing.
    pub is_missing: bool,
    /// The first of the page's tags.
    pub tag: Option<String>,
}

/// The graph as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// The nodes by id, those that are missing last.
    pub spots: Vec<Spot>,
    /// Which nodes are linked, each pair once, sorted; the first of a pair has the link, or one of them.
    pub links: Vec<(u32, u32)>,
    /// Nodes that were left out, since there are more than were asked for.
    pub left_out: usize,
}

/// Returns a text that changes whenever the graph may have; empty where there is none.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`crate::state::db_failure`] sorts them.
pub fn version(db: &Connection) -> Result<String, Failure> {
    let sql = "SELECT group_concat(value, ':') FROM (SELECT value FROM graph_meta ORDER BY key)";
    let version: Option<Option<String>> = db
        .query_row(sql, [], |row| row.get(0))
        .optional()
        .map_err(|e| failed(&e))?;
    Ok(version.flatten().unwrap_or_default())
}

impl Map {
    /// Loads it: one state of the graph, also while a drain writes. Of more than `most` nodes those with the most links.
    ///
    /// # Errors
    /// As [`version`].
    pub fn load(db: &mut Connection, most: usize) -> Result<Self, Failure> {
        Self::read(db)
            .map(|map| map.bounded(most))
            .map_err(|e| failed(&e))
    }

    fn read(db: &mut Connection) -> rusqlite::Result<Self> {
        let snapshot = db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let mut spots = Vec::new();
        let mut numbers: HashMap<(bool, String), u32> = HashMap::new();
        let sql = "SELECT path, title, (SELECT tag FROM graph_tags AS t WHERE t.path = p.path AND ordinal = 0), 0
             FROM graph_pages AS p
             UNION ALL
             SELECT wants, min(target), NULL, 1 FROM graph_links WHERE leads_to = 'placeholder' GROUP BY wants
             ORDER BY 4, 1";
        let mut nodes = snapshot.prepare(sql)?;
        let mut rows = nodes.query([])?;
        while let Some(row) = rows.next()? {
            let spot = Spot {
                id: row.get(0)?,
                title: row.get(1)?,
                is_missing: row.get(3)?,
                tag: row.get(2)?,
            };
            let number = u32::try_from(spots.len()).unwrap_or(u32::MAX);
            numbers.insert((spot.is_missing, spot.id.clone()), number);
            spots.push(spot);
        }
        let sql = "SELECT path, coalesce(dst, wants), leads_to = 'placeholder' FROM graph_links
             WHERE leads_to IN ('page', 'placeholder')";
        let mut edges = snapshot.prepare(sql)?;
        let mut rows = edges.query([])?;
        let mut links = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let from = numbers.get(&(false, row.get(0)?)).copied();
            let to = numbers.get(&(row.get(2)?, row.get(1)?)).copied();
            // A damaged database may hold a link without its page; `verify` names it.
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                links
                    .entry((from.min(to), from.max(to)))
                    .or_insert((from, to));
            }
        }
        let mut links: Vec<_> = links.into_values().collect();
        links.sort_unstable();
        Ok(Self {
            spots,
            links,
            left_out: 0,
        })
    }

    /// Returns how many links each node has.
    #[must_use]
    pub fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.spots.len()];
        for &(from, to) in &self.links {
            degrees[from as usize] += 1;
            degrees[to as usize] += 1;
        }
        degrees
    }

    /// Returns the number of a page's node.
    #[must_use]
    pub fn page(&self, path: &str) -> Option<u32> {
        let pages = self.spots.partition_point(|spot| !spot.is_missing);
        let found = self.spots[..pages].binary_search_by(|spot| spot.id.as_str().cmp(path));
        found.ok().and_then(|at| u32::try_from(at).ok())
    }

    /// Returns the part around a node: at most `most` nodes, the nearest first, of those as far away the ones with the most
    /// links, up to `depth` steps.
    #[must_use]
    pub fn around(&self, start: u32, depth: u32, most: usize) -> Self {
        let degrees = self.degrees();
        let mut near = vec![Vec::new(); self.spots.len()];
        for &(from, to) in &self.links {
            near[from as usize].push(to);
            near[to as usize].push(from);
        }
        let mut kept = BTreeSet::from([start]);
        let mut seen = kept.clone();
        let mut frontier = VecDeque::from([start]);
        for _ in 0..depth {
            let mut next = BTreeSet::new();
            for spot in frontier.drain(..) {
                let others = near[spot as usize].iter().copied();
                next.extend(others.filter(|other| !seen.contains(other)));
            }
            seen.extend(&next);
            let mut next: Vec<_> = next.into_iter().collect();
            next.sort_by_key(|&spot| (Reverse(degrees[spot as usize]), spot));
            next.truncate(most.saturating_sub(kept.len()));
            kept.extend(&next);
            frontier.extend(next);
        }
        let mut part = self.part(&kept);
        part.left_out = seen.len() - kept.len();
        part
    }

    fn bounded(self, most: usize) -> Self {
        if self.spots.len() <= most {
            return self;
        }
        let degrees = self.degrees();
        let mut all: Vec<_> = (0..)
            .zip(&degrees)
            .map(|(at, n)| (Reverse(*n), at))
            .collect();
        all.sort_unstable();
        let kept = all.into_iter().take(most).map(|(_, at)| at).collect();
        let mut part = self.part(&kept);
        part.left_out = self.spots.len() - most;
        part
    }

    /// Returns these nodes and the links among them.
    fn part(&self, kept: &BTreeSet<u32>) -> Self {
        let numbers: HashMap<u32, u32> = kept.iter().copied().zip(0..).collect();
        let links = self
            .links
            .iter()
            .filter_map(|(from, to)| Some((*numbers.get(from)?, *numbers.get(to)?)));
        Self {
            links: links.collect(),
            spots: kept
                .iter()
                .map(|&at| self.spots[at as usize].clone())
                .collect(),
            left_out: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    fn map(pages: &[(&str, &str)], most: usize) -> Map {
        let (_dir, mut db) = graph(pages);
        assert!(!version(&db).expect("read").is_empty());
        Map::load(&mut db, most).expect("loaded")
    }

    const PAGES: &[(&str, &str)] = &[
        (
            "w/a.md",
            "---\ntags: [t, u]\n---\n[[b]] [[b]] [[gone]] [[a]]",
        ),
        ("w/b.md", "[[a]] [[c]]"),
        ("w/c.md", "[[Gone]]"),
        ("w/d.md", ""),
    ];

    fn ids(map: &Map) -> Vec<&str> {
        map.spots.iter().map(|spot| spot.id.as_str()).collect()
    }

    #[test]
    fn pages_and_missing_targets_are_nodes_and_two_of_them_have_one_link() {
        let map = map(PAGES, 99);
        assert_eq!(ids(&map), ["w/a.md", "w/b.md", "w/c.md", "w/d.md", "gone"]);
        assert_eq!(map.links, [(0, 1), (0, 4), (1, 2), (2, 4)]);
        assert_eq!(map.spots[0].tag.as_deref(), Some("t"));
        assert!(map.spots[4].is_missing && map.page("gone").is_none());
        assert_eq!(map.page("w/c.md"), Some(2));
    }

    #[test]
    fn a_part_holds_the_nearest_and_says_what_it_leaves_out() {
        let map = map(PAGES, 99);
        let one = map.around(0, 1, 99);
        assert_eq!(ids(&one), ["w/a.md", "w/b.md", "gone"]);
        assert_eq!((one.links.len(), one.left_out), (2, 0));
        let two = map.around(0, 1, 2);
        assert_eq!((ids(&two), two.left_out), (vec!["w/a.md", "w/b.md"], 1));
    }

    #[test]
    fn of_too_many_nodes_those_with_the_most_links_are_kept() {
        let map = map(PAGES, 3);
        assert_eq!(map.left_out, 2);
        assert!(!ids(&map).contains(&"w/d.md"));
    }
}
