//! The graph in memory, for questions that walk: what is around a page, the way from one to another, what is
//! linked most, what hangs together.
//!
//! Loaded whole from the database in one read transaction: 14,000 pages with 77,000 edges take about a fifth
//! of a second. Nodes and edges are those of the views `graph_nodes` and `graph_edges`.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::unionfind::UnionFind;
use petgraph::visit::{EdgeRef as _, NodeIndexable as _};
use rusqlite::{Connection, TransactionBehavior};

use super::{More, Row, failed};
use crate::model::Failure;

/// A node: a page, or what pages have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Unique: a page's path, else the name with the kind in front.
    pub(super) id: String,
    /// `page`, `placeholder`, `tag` or `symbol`.
    pub(super) kind: String,
    pub(super) title: String,
}

/// An edge from a page to a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// `wikilink`, `markdown`, `embed`, `tag` or `symbol`.
    pub(super) kind: String,
    pub(super) label: Option<String>,
    pub(super) anchor: Option<String>,
}

impl Edge {
    fn is_link(&self) -> bool {
        self.kind != "tag" && self.kind != "symbol"
    }
}

/// Which way links are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a page to those it links to.
    Out,
    /// From a page to those that link to it.
    In,
    /// Both.
    Both,
}

/// Which edges are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Links alone.
    Links,
    /// Links, tags and symbols: pages that share a tag are two steps apart.
    All,
}

/// The whole graph, in memory.
#[derive(Debug, Default)]
pub struct Net {
    pub(super) graph: DiGraph<Node, Edge>,
    by_id: HashMap<String, NodeIndex>,
}

impl Net {
    /// Loads the graph: one state of it, also while a drain writes.
    ///
    /// # Errors
    /// `Busy`, `Refused` and `Down`, as [`crate::state::db_failure`] sorts them.
    pub fn load(db: &mut Connection) -> Result<Self, Failure> {
        Self::read(db).map_err(|e| failed(&e))
    }

    fn read(db: &mut Connection) -> rusqlite::Result<Self> {
        let snapshot = db.transaction_with_behavior(TransactionBehavior::Deferred)?;
        let mut net = Self::default();
        let mut nodes =
            snapshot.prepare("SELECT node, kind, name FROM graph_nodes ORDER BY node")?;
        let mut rows = nodes.query([])?;
        while let Some(row) = rows.next()? {
            net.add_node(Node {
                id: row.get(0)?,
                kind: row.get(1)?,
                title: row.get(2)?,
            });
        }
        let mut edges =
            snapshot.prepare("SELECT source, target, kind, label, anchor FROM graph_edges")?;
        let mut rows = edges.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            // A damaged database may hold an edge without its node; `verify` names it.
            let source = net.by_id.get(row.get_ref(0)?.as_str()?).copied();
            let target = net.by_id.get(row.get_ref(1)?.as_str()?).copied();
            if let (Some(source), Some(target)) = (source, target) {
                let edge = Edge {
                    kind: row.get(2)?,
                    label: row.get(3)?,
                    anchor: row.get(4)?,
                };
                found.push((source, target, edge));
            }
        }
        found.sort_unstable();
        for (source, target, edge) in found {
            net.graph.add_edge(source, target, edge);
        }
        Ok(net)
    }

    fn add_node(&mut self, node: Node) {
        let id = node.id.clone();
        let index = self.graph.add_node(node);
        self.by_id.insert(id, index);
    }

    /// Says whether there is such a node.
    #[must_use]
    pub fn holds(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns the nodes at most `depth` steps away from `start`, nearest first, then by path; nothing when there is
    /// no such node.
    #[must_use]
    pub fn neighbors(
        &self,
        start: &str,
        depth: u32,
        direction: Direction,
        through: Through,
    ) -> Vec<Row> {
        let Some(&start) = self.by_id.get(start) else {
            return Vec::new();
        };
        let mut reached = vec![false; self.graph.node_count()];
        reached[start.index()] = true;
        let mut rows = Vec::new();
        let mut frontier = vec![start];
        for distance in 1..=depth {
            let mut next = Vec::new();
            for &from in &frontier {
                for step in self.steps(from, direction, through) {
                    if !std::mem::replace(&mut reached[step.to.index()], true) {
                        next.push(step.to);
                        let node = &self.graph[step.to];
                        let more = More::Near {
                            distance,
                            through: self.graph[from].id.clone(),
                        };
                        rows.push(row(node, more));
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            // Nodes stand in the order of their ids.
            next.sort_unstable();
            frontier = next;
        }
        rows.sort_by(|a, b| (distance(a), &a.path).cmp(&(distance(b), &b.path)));
        rows
    }

    /// Returns a shortest way from one node to another, both included; of several the one whose paths come first.
    /// `None` when there is none.
    #[must_use]
    pub fn path(
        &self,
        from: &str,
        to: &str,
        direction: Direction,
        through: Through,
    ) -> Option<Vec<Row>> {
        let (&from, &to) = (self.by_id.get(from)?, self.by_id.get(to)?);
        // Each node's step from the one before it, by node.
        let mut came = HashMap::<NodeIndex, Step<'_>>::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                break;
            }
            for step in self.steps(node, direction, through) {
                if step.to != from && !came.contains_key(&step.to) {
                    queue.push_back(step.to);
                    came.insert(step.to, step);
                }
            }
        }
        let mut steps = Vec::new();
        let mut node = to;
        while node != from {
            let step = came.get(&node)?;
            steps.push(step);
            node = step.from;
        }
        steps.reverse();
        let mut rows: Vec<Row> = Vec::with_capacity(steps.len() + 1);
        for (distance, step) in (0..).zip(steps) {
            let edge = step.edge.weight();
            rows.push(Row {
                kind: edge.kind.clone(),
                label: edge.label.clone(),
                anchor: edge.anchor.clone(),
                ..row(
                    &self.graph[step.from],
                    More::Step {
                        distance,
                        against: step.against,
                    },
                )
            });
        }
        let last = More::Step {
            distance: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            against: false,
        };
        rows.push(row(&self.graph[to], last));
        Some(rows)
    }

    /// Returns the pages that most others link to, at most `limit`; then those that link to most, then by path. A page
    /// that links twice counts once, and one that links to itself does not count.
    #[must_use]
    pub fn hubs(&self, limit: usize) -> Vec<Row> {
        let pages = self.pages().filter_map(|page| {
            let count = |direction| {
                let others = self.steps(page, direction, Through::Links).into_iter();
                let others: BTreeSet<_> = others
                    .map(|step| step.to)
                    .filter(|&other| other != page && self.is_page(other))
                    .collect();
                u32::try_from(others.len()).unwrap_or(u32::MAX)
            };
            let (links_in, links_out) = (count(Direction::In), count(Direction::Out));
            (links_in + links_out > 0).then_some((page, links_in, links_out))
        });
        let mut pages: Vec<_> = pages.collect();
        pages.sort_by_key(|&(page, links_in, links_out)| (Reverse((links_in, links_out)), page));
        let hub = |(page, links_in, links_out)| {
            let more = More::Hub {
                links_in,
                links_out,
            };
            row(&self.graph[page], more)
        };
        pages.into_iter().take(limit).map(hub).collect()
    }

    /// Returns every page with the component it belongs to: pages that hang together by links, whatever their
    /// direction. The largest component comes first, of equal ones that with the first path.
    #[must_use]
    pub fn components(&self) -> Vec<Row> {
        let mut sets = UnionFind::<usize>::new(self.graph.node_bound());
        for edge in self.graph.edge_references() {
            if edge.weight().is_link() && self.is_page(edge.source()) && self.is_page(edge.target())
            {
                sets.union(edge.source().index(), edge.target().index());
            }
        }
        let mut members = HashMap::<usize, Vec<NodeIndex>>::new();
        for page in self.pages() {
            members
                .entry(sets.find(page.index()))
                .or_default()
                .push(page);
        }
        let mut components: Vec<Vec<NodeIndex>> = members.into_values().collect();
        components.sort_by_key(|pages| (Reverse(pages.len()), pages.first().copied()));
        let mut rows = Vec::new();
        for (component, pages) in (1..).zip(components) {
            let size = u32::try_from(pages.len()).unwrap_or(u32::MAX);
            rows.extend(
                pages
                    .into_iter()
                    .map(|page| row(&self.graph[page], More::Member { component, size })),
            );
        }
        rows
    }

    fn pages(&self) -> impl Iterator<Item = NodeIndex> {
        self.graph.node_indices().filter(|&node| self.is_page(node))
    }

    fn is_page(&self, node: NodeIndex) -> bool {
        self.graph[node].kind == "page"
    }

    /// Returns the steps from a node, by the id of the node that they lead to.
    fn steps(&self, from: NodeIndex, direction: Direction, through: Through) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for (wanted, against) in [(Outgoing, false), (Incoming, true)] {
            let skipped = match direction {
                Direction::Out => against,
                Direction::In => !against,
                // A tag leads nowhere: it is passed by going out to it and against the edge to the next page.
                Direction::Both => false,
            };
            if skipped {
                continue;
            }
            let edges = self.graph.edges_directed(from, wanted);
            steps.extend(
                edges
                    .filter(|edge| through == Through::All || edge.weight().is_link())
                    .map(|edge| Step {
                        from,
                        to: if against {
                            edge.source()
                        } else {
                            edge.target()
                        },
                        against,
                        edge,
                    }),
            );
        }
        steps.sort_by_key(|step| (step.to, step.against, step.edge.id()));
        steps
    }
}

/// A step over an edge.
struct Step<'a> {
    from: NodeIndex,
    to: NodeIndex,
    against: bool,
    edge: EdgeReference<'a, Edge>,
}

fn row(node: &Node, more: More) -> Row {
    Row::node(node.id.clone(), node.title.clone(), &node.kind, more)
}

fn distance(row: &Row) -> u32 {
    match row.more {
        More::Near { distance, .. } => distance,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{graph, paths};
    use super::*;

    fn net(pages: &[(&str, &str)]) -> Net {
        let (_dir, mut db) = graph(pages);
        Net::load(&mut db).expect("loaded")
    }

    fn chain() -> Net {
        net(&[
            ("w/a.md", "---\ntags: [t]\n---\n[[b|to b]] [[gone]]"),
            ("w/b.md", "[[c#Part]] [[b]]"),
            ("w/c.md", "[[a]]"),
            ("w/d.md", "[[c]] [[c|again]]"),
            ("w/e.md", "#t"),
        ])
    }

    #[test]
    fn neighbors_are_told_by_distance_and_by_whom_they_were_reached() {
        let net = chain();
        let near = |depth, direction, through| {
            net.neighbors("w/a.md", depth, direction, through)
                .into_iter()
                .map(|row| match row.more {
                    More::Near { distance, through } => {
                        format!("{distance} {} {through}", row.path)
                    }
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        let links = Through::Links;
        assert_eq!(
            near(1, Direction::Out, links),
            ["1 placeholder:gone w/a.md", "1 w/b.md w/a.md"]
        );
        assert_eq!(near(1, Direction::In, links), ["1 w/c.md w/a.md"]);
        assert_eq!(
            near(9, Direction::Both, links),
            [
                "1 placeholder:gone w/a.md",
                "1 w/b.md w/a.md",
                "1 w/c.md w/a.md",
                "2 w/d.md w/c.md"
            ]
        );
        let all = near(2, Direction::Both, Through::All);
        assert!(all.contains(&"1 tag:t w/a.md".into()), "{all:?}");
        assert!(all.contains(&"2 w/e.md tag:t".into()), "{all:?}");
        assert_eq!(near(0, Direction::Both, links), [""; 0]);
        assert!(
            net.neighbors("w/x.md", 1, Direction::Both, links)
                .is_empty()
        );
    }

    #[test]
    fn a_way_follows_the_links_and_names_each() {
        let net = chain();
        let way = |from, to, direction| {
            Some(
                net.path(from, to, direction, Through::Links)?
                    .into_iter()
                    .map(|row| {
                        let against = matches!(row.more, More::Step { against: true, .. });
                        let label = row.label.or(row.anchor).unwrap_or_default();
                        let turned = if against { " against" } else { "" };
                        format!("{} {} {label}{turned}", row.path, row.kind)
                    })
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            way("w/a.md", "w/c.md", Direction::Out).expect("a way"),
            [
                "w/a.md wikilink to b",
                "w/b.md wikilink Part",
                "w/c.md page "
            ]
        );
        assert_eq!(way("w/a.md", "w/d.md", Direction::Out), None);
        assert_eq!(
            way("w/a.md", "w/d.md", Direction::Both).expect("a way"),
            [
                "w/a.md wikilink  against",
                "w/c.md wikilink  against",
                "w/d.md page "
            ]
        );
        assert_eq!(
            way("w/a.md", "w/a.md", Direction::Out).expect("no step"),
            ["w/a.md page "]
        );
        assert_eq!(way("w/a.md", "w/x.md", Direction::Both), None);
    }

    #[test]
    fn hubs_count_each_linking_page_once_and_none_for_itself() {
        let hubs: Vec<_> = chain()
            .hubs(3)
            .into_iter()
            .map(|row| match row.more {
                More::Hub {
                    links_in,
                    links_out,
                } => (row.path, links_in, links_out),
                other => panic!("{other:?}"),
            })
            .collect();
        let hub = |path: &str, links_in, links_out| (path.to_owned(), links_in, links_out);
        assert_eq!(
            hubs,
            [
                hub("w/c.md", 2, 1),
                hub("w/a.md", 1, 1),
                hub("w/b.md", 1, 1)
            ]
        );
    }

    #[test]
    fn components_hang_together_by_links_whatever_their_direction() {
        let rows = chain().components();
        assert_eq!(
            paths(&rows),
            ["w/a.md", "w/b.md", "w/c.md", "w/d.md", "w/e.md"]
        );
        let numbers: Vec<_> = rows
            .iter()
            .map(|row| match row.more {
                More::Member { component, size } => (component, size),
                _ => (0, 0),
            })
            .collect();
        assert_eq!(numbers, [(1, 4), (1, 4), (1, 4), (1, 4), (2, 1)]);
    }

    #[test]
    fn an_edge_whose_node_is_missing_is_left_out() {
        let (_dir, mut db) = graph(&[("w/a.md", "[[b]]"), ("w/b.md", "")]);
        db.execute("DELETE FROM graph_pages WHERE path = 'w/b.md'", [])
            .expect("damaged");
        let net = Net::load(&mut db).expect("loaded");
        assert_eq!((net.graph.node_count(), net.graph.edge_count()), (1, 0));
    }
}
