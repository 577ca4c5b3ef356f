//! Whether pages may have the names that they are to get.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use super::Request;
use crate::model::markdown::fold_key;
use crate::model::{Failure, FailureKind, PagePath};
use crate::wiki::Wiki;

/// Checks that the pages are there, and that nothing has their new names, nor one that differs only by case or Unicode
/// form.
///
/// # Errors
/// `Rejected`, with the name that is in the way.
pub(super) fn check_targets(wiki: &Wiki, request: &Request) -> Result<(), Failure> {
    let rejected = |reason: String| Failure::new(FailureKind::Rejected, reason);
    if request.pages.is_empty() {
        return Err(rejected(format!("no page is in {:?}", request.asked.from)));
    }
    for (from, to) in &request.pages {
        if from == to {
            return Err(rejected(format!("{:?} is where it is", from.as_str())));
        }
        if !wiki.is_page(to.as_str()) {
            return Err(
                rejected(format!("{:?} is not a page's path", to.as_str())).hint(format!(
                    "pages lie below {}/ and match wiki.include",
                    wiki.pages_dir()
                )),
            );
        }
        match wiki.stat(from) {
            Ok(Some(_)) => {}
            Ok(None) => {
                return Err(rejected(format!(
                    "{:?} is no regular file of this wiki",
                    from.as_str()
                ))
                .hint("symbolic links and nested repositories are left alone"));
            }
            Err(e) => {
                let doing = format!("cannot look at page {:?}", from.as_str());
                return Err(Failure::from_error(FailureKind::Down, &doing, &e));
            }
        }
    }
    // Of a folder that is new, nothing in it can be in the way.
    if request.folder {
        return free(wiki, &request.asked.from, &request.asked.to);
    }
    for (from, to) in &request.pages {
        free(wiki, from.as_str(), to.as_str())?;
    }
    Ok(())
}

/// Goes down to a new name and makes sure that it is new, and that the folders on its way are folders.
fn free(wiki: &Wiki, from: &str, to: &str) -> Result<(), Failure> {
    let rejected = |reason: String| Err(Failure::new(FailureKind::Rejected, reason));
    let mut ends: Vec<usize> = to.match_indices('/').map(|(at, _)| at).collect();
    ends.push(to.len());
    let mut above = "";
    for end in ends {
        let (at, is_last) = (&to[..end], end == to.len());
        let here = wiki.root().join(at);
        let name = at.rsplit_once('/').map_or(at, |(_, name)| name);
        let listed = listed_like(wiki, above, name)?;
        above = at;
        let exact = listed.iter().any(|other| other == name);
        if exact && !is_last {
            let meta = fs::symlink_metadata(&here);
            if !meta.is_ok_and(|meta| meta.is_dir()) {
                return rejected(format!("{at:?} is not a folder"));
            }
            if fs::symlink_metadata(here.join(".git")).is_ok() {
                return rejected(format!("{at:?} is a repository of its own"));
            }
            continue;
        }
        if exact {
            return rejected(format!("{at:?} is there already"));
        }
        let folder = at.strip_suffix(name).unwrap_or_default();
        let in_the_way = listed
            .iter()
            .map(|other| format!("{folder}{other}"))
            .find(|other| other != from);
        if let Some(other) = in_the_way {
            return rejected(format!(
                "{at:?} would differ from {other:?} only by case or Unicode form"
            ));
        }
        // Nothing is below what is not there.
        return Ok(());
    }
    Ok(())
}

/// Returns the names in a folder that are the name, or differ from it only by case or Unicode form.
fn listed_like(wiki: &Wiki, folder: &str, name: &str) -> Result<Vec<String>, Failure> {
    let at = wiki.root().join(folder);
    let failed = |e: io::Error| {
        Failure::from_error(
            FailureKind::Down,
            &format!("cannot read {}", at.display()),
            &e,
        )
    };
    let key = fold_key(name);
    let mut like = Vec::new();
    for entry in fs::read_dir(&at).map_err(failed)? {
        let entry = entry.map_err(failed)?.file_name();
        if let Some(entry) = entry.to_str()
            && (entry == name || fold_key(entry) == key)
        {
            like.push(entry.to_owned());
        }
    }
    Ok(like)
}

/// Returns the folders that the move has to make, those above first.
pub(super) fn missing_folders(wiki: &Wiki, request: &Request) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    for to in request.pages.values().map(PagePath::as_str) {
        for (end, _) in to.match_indices('/') {
            let folder = &to[..end];
            if fs::symlink_metadata(wiki.root().join(folder)).is_err() {
                missing.push(folder.to_owned());
            }
        }
    }
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Says whether two spellings are one file.
pub(super) fn is_same_file(wiki: &Wiki, one: &str, other: &str) -> bool {
    let look = |path: &str| fs::symlink_metadata(wiki.root().join(path));
    match (look(one), look(other)) {
        (Ok(one), Ok(other)) => {
            (one.dev(), one.ino()) == (other.dev(), other.ino()) && one.nlink() == 1
        }
        (Err(_), _) | (_, Err(_)) => false,
    }
}
