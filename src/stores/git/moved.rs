//! Which pages of a commit moved: what its message calls a move, and a folder's.
//!
//! A page that came may be one that went when it is the same blob, or when most of its lines are the same: a move
//! rewrites the links in it.

use std::collections::{HashMap, HashSet};

use git2::{Oid, Repository};

use super::plan::Move;
use crate::model::PagePath;

/// How many pages on a side are compared by their lines with all of the other side; of more, each with those of its name.
const FEW: usize = 8;
/// How many pages are compared by their lines in all, and how long one may be: a message is worth no more.
const MOST: usize = 200;
const LONGEST: usize = 256 << 10;

/// Returns which pages moved, as places among `moves`: the old one's, and the new one's.
pub(super) fn pairs(repo: &Repository, moves: &[Move<'_>]) -> Vec<(usize, usize)> {
    let places = |is: &dyn Fn(&Move<'_>) -> bool| -> Vec<usize> {
        (0..moves.len()).filter(|&at| is(&moves[at])).collect()
    };
    let mut old = places(&|page| page.after.is_none() && page.in_head.is_some());
    let mut new = places(&|page| page.after.is_some() && page.in_head.is_none());
    if old.is_empty() || new.is_empty() {
        return Vec::new();
    }
    let mut pairs = same(moves, &old, &new);
    let paired: HashSet<usize> = pairs
        .iter()
        .flat_map(|&(one, other)| [one, other])
        .collect();
    old.retain(|at| !paired.contains(at));
    new.retain(|at| !paired.contains(at));
    pairs.extend(alike(repo, moves, &old, new));
    pairs.sort_unstable_by_key(|&(old, _)| moves[old].path);
    pairs
}

/// Pairs pages of the same blob; of several that are the same, those of one name first.
fn same(moves: &[Move<'_>], old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let mut by_blob: HashMap<Oid, Vec<usize>> = HashMap::new();
    for &at in new {
        if let Some(held) = moves[at].after {
            by_blob.entry(held.id).or_default().push(at);
        }
    }
    let mut pairs = Vec::new();
    for by_name in [true, false] {
        for &at in old {
            let known = |&(old, _): &(usize, usize)| old == at;
            let candidates = moves[at].in_head.and_then(|held| by_blob.get_mut(&held.id));
            let Some(candidates) = candidates.filter(|_| !pairs.iter().any(known)) else {
                continue;
            };
            let fits = |&new: &usize| !by_name || name(moves[new].path) == name(moves[at].path);
            if let Some(place) = candidates.iter().position(fits) {
                pairs.push((at, candidates.remove(place)));
            }
        }
    }
    pairs
}

/// Pairs pages most of whose lines are the same.
fn alike(
    repo: &Repository,
    moves: &[Move<'_>],
    old: &[usize],
    mut new: Vec<usize>,
) -> Vec<(usize, usize)> {
    let is_few = old.len() <= FEW && new.len() <= FEW;
    let mut pairs = Vec::new();
    for &at in old.iter().take(MOST) {
        let before = moves[at].in_head.map(|held| repo.find_blob(held.id));
        let Some(Ok(before)) = before else { continue };
        let before = match std::str::from_utf8(before.content()) {
            Ok(text) if text.len() <= LONGEST => text,
            Ok(_) | Err(_) => continue,
        };
        let mut best: Option<(usize, usize)> = None;
        for (place, &candidate) in new.iter().enumerate() {
            if !is_few && name(moves[candidate].path) != name(moves[at].path) {
                continue;
            }
            let text = moves[candidate].page.map_or("", |page| page.text.as_str());
            if text.len() > LONGEST {
                continue;
            }
            let shared = shared(before, text);
            if shared >= 50 && best.is_none_or(|(most, _)| shared > most) {
                best = Some((shared, place));
            }
        }
        if let Some((_, place)) = best {
            pairs.push((at, new.remove(place)));
        }
    }
    pairs
}

/// Returns how many of the lines of the longer text are in the other, in percent; blank ones do not count.
fn shared(one: &str, other: &str) -> usize {
    let lines =
        |text: &'_ str| -> usize { text.lines().filter(|line| !line.trim().is_empty()).count() };
    let mut there: HashMap<&str, usize> = HashMap::new();
    for line in one.lines().filter(|line| !line.trim().is_empty()) {
        *there.entry(line).or_default() += 1;
    }
    let mut both = 0;
    for line in other.lines() {
        if let Some(left) = there.get_mut(line).filter(|left| **left > 0) {
            *left -= 1;
            both += 1;
        }
    }
    both * 100 / lines(one).max(lines(other)).max(1)
}

fn name(path: &PagePath) -> &str {
    path.as_str().rsplit('/').next().unwrap_or_default()
}

/// Returns the folder that all of these pages, two at least, lay in and the one that they are in now, the rest of each path
/// being the same; `None` where they moved otherwise.
pub(super) fn folder<'m>(
    pairs: &[(usize, usize)],
    moves: &'m [Move<'_>],
) -> Option<(&'m str, &'m str)> {
    let mut folders = pairs
        .iter()
        .map(|&(old, new)| before_same(moves[old].path.as_str(), moves[new].path.as_str()));
    let first = folders.next()??;
    (pairs.len() > 1 && folders.all(|next| next == Some(first))).then_some(first)
}

/// Takes off what two paths have in common at their end, in whole parts; `None` where that is nothing or all of one.
fn before_same<'p>(mut old: &'p str, mut new: &'p str) -> Option<(&'p str, &'p str)> {
    let mut any = false;
    while let (Some((old_folder, old_part)), Some((new_folder, new_part))) =
        (old.rsplit_once('/'), new.rsplit_once('/'))
        && old_part == new_part
    {
        (old, new, any) = (old_folder, new_folder, true);
    }
    any.then_some((old, new))
}

/// Returns how many pages of a commit came, changed and went without a move; what there is none of is left out.
pub(super) fn counted(
    moves: &[Move<'_>],
    pairs: &[(usize, usize)],
) -> impl Iterator<Item = (&'static str, usize)> {
    let mut counts = [("add", 0), ("update", 0), ("remove", 0)];
    let paired: HashSet<usize> = pairs.iter().flat_map(|&(old, new)| [old, new]).collect();
    for (at, page) in moves.iter().enumerate() {
        let which = match (page.in_head, page.after) {
            (None, Some(_)) => 0,
            (Some(_), Some(_)) => 1,
            (_, None) => 2,
        };
        counts[which].1 += usize::from(!paired.contains(&at));
    }
    counts.into_iter().filter(|(_, count)| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_paths_have_in_common_at_their_end_is_taken_off_in_whole_parts() {
        for (old, new, folders) in [
            ("w/a/x.md", "w/b/x.md", Some(("w/a", "w/b"))),
            ("w/a/s/x.md", "w/b/s/x.md", Some(("w/a", "w/b"))),
            ("w/a/x.md", "w/x.md", Some(("w/a", "w"))),
            ("w/a/x.md", "w/a/y.md", None),
            ("w/x.md", "w/bx.md", None),
        ] {
            assert_eq!(before_same(old, new), folders, "{old} {new}");
        }
    }

    #[test]
    fn texts_share_the_lines_of_the_longer_one() {
        assert_eq!(shared("a\nb\n\n", "b\na"), 100);
        assert_eq!(shared("a\nb\n", "a\nc\n"), 50);
        assert_eq!(shared("a\n", "a\na\na\na\n"), 25);
        assert_eq!(shared("", ""), 0);
    }
}
