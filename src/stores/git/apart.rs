//! One commit for each page: which changes go together.

use std::collections::{BTreeMap, HashMap};

use git2::{Delta, DiffFindOptions, Oid, Repository};

use super::GitStore;
use super::batch::Ground;
use super::commit::{Committer, Halt};
use super::filter::Tools;
use super::plan::Plan;
use crate::model::Change;

/// The most pages of one batch that get a commit each.
const MOST: usize = 100;

/// Changes that go into one commit.
pub(super) struct Set {
    /// Their places among all changes.
    pub(super) whose: Vec<usize>,
    /// Whether they are one page's old and new path.
    pub(super) is_move: bool,
}

impl GitStore {
    /// Divides the changes into sets, in the order in which they can be committed: what goes makes room for what
    /// comes. What changes nothing, and what cannot be committed, comes first.
    pub(super) fn sets(
        &mut self,
        repo: &Repository,
        tools: &Tools,
        changes: &[Change],
    ) -> Result<Vec<Set>, Halt> {
        let (ground, mut plan) = self.look(repo, tools, changes)?;
        let one = |whose: Vec<usize>| Set {
            whose,
            is_move: false,
        };
        let moved = if plan.moves.len() > MOST {
            None
        } else {
            Some(self.moved(repo, &ground, &mut plan)?)
        };
        self.keep_index(ground.index, ground.stamp);
        let Some(moved) = moved else {
            return Ok(vec![one((0..changes.len()).collect())]);
        };
        let rest = (0..changes.len()).filter(|at| plan.moves.iter().all(|page| page.change != *at));
        let mut sets = vec![one(rest.collect())];
        let (mut moves, mut puts) = (Vec::new(), Vec::new());
        for page in &plan.moves {
            let at = page.change;
            if moved.values().any(|new| *new == at) {
                continue; // with its old path
            }
            match (moved.get(&at), page.after) {
                (Some(&new), _) => moves.push(Set {
                    whose: vec![at, new],
                    is_move: true,
                }),
                (None, None) => sets.push(one(vec![at])),
                (None, Some(_)) => puts.push(one(vec![at])),
            }
        }
        sets.append(&mut moves);
        sets.append(&mut puts);
        sets.retain(|set| !set.whose.is_empty());
        Ok(sets)
    }

    /// Returns which page came from where, as places among the changes: what `git log --follow` would take for a
    /// rename.
    fn moved(
        &self,
        repo: &Repository,
        ground: &Ground<'_>,
        plan: &mut Plan<'_>,
    ) -> Result<BTreeMap<usize, usize>, Halt> {
        let comes = plan.moves.iter().any(|page| page.in_head.is_none());
        let goes = plan.moves.iter().any(|page| page.after.is_none());
        if !(comes && goes) {
            return Ok(BTreeMap::new());
        }
        let committer = Committer {
            repo,
            paths: &ground.paths,
            head: &ground.head,
            index: ground.index.clone(),
            stamp: ground.stamp.clone(),
            watch: &*self.watch,
            is_placed: false,
        };
        // Written for the comparison alone; git's gc takes what no commit comes to hold.
        let Some(root) = committer.write_root(plan, &ground.tree, &mut Vec::new())? else {
            return Ok(BTreeMap::new());
        };
        let at: HashMap<&[u8], usize> = plan
            .moves
            .iter()
            .map(|page| (page.path.as_str().as_bytes(), page.change))
            .collect();
        let mut moved = BTreeMap::new();
        for (old, new) in renames(repo, ground, root).unwrap_or_default() {
            if let (Some(&old), Some(&new)) = (at.get(&*old), at.get(&*new)) {
                moved.insert(old, new);
            }
        }
        Ok(moved)
    }
}

/// A file's old and new path.
type Rename = (Vec<u8>, Vec<u8>);

fn renames(repo: &Repository, ground: &Ground<'_>, root: Oid) -> Result<Vec<Rename>, git2::Error> {
    let new = repo.find_tree(root)?;
    let mut diff = repo.diff_tree_to_tree(ground.tree.root(), Some(&new), None)?;
    diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
    let renamed = diff
        .deltas()
        .filter(|delta| delta.status() == Delta::Renamed);
    Ok(renamed
        .filter_map(|delta| {
            let old = delta.old_file().path_bytes()?.to_vec();
            Some((old, delta.new_file().path_bytes()?.to_vec()))
        })
        .collect())
}
