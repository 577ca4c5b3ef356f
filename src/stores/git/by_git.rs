//! Indexes that only git reads and writes: split, sparse.
//!
//! Git makes a flat copy that is read here, and makes the next index from another copy of the very file, so that
//! it stays split or sparse. Only the copies are git's to write: which index is put in whose place, and when, is
//! decided as for every other (see `commit.rs`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use git2::{Index, Oid, Repository};

use super::index_entry::Entry;
use super::index_file::{IndexError, IndexFile};
use super::journal::{Paths, remove};
use super::program::{Git, NoAnswer, PATIENCE};
use super::repo::{git_failure, index_failure, io_failure};
use super::stamp::Stamp;
use crate::model::{Failure, FailureKind};

/// Reads the index and what tells it from the next. An index that libgit2 cannot read either is replaced in `repo` by
/// its flat copy.
///
/// # Errors
/// As the index's own; `Refused` when git is needed and gives no answer.
pub(super) fn read_index(
    repo: &Repository,
    paths: &Paths,
) -> Result<(IndexFile, Option<Stamp>), Failure> {
    match IndexFile::read(&paths.index) {
        Ok(read) => Ok(read),
        Err(error @ IndexError::Unsupported("a split index" | "a sparse index")) => {
            flat(repo, paths, &error)
        }
        Err(error) => Err(index_failure(&error)),
    }
}

fn flat(
    repo: &Repository,
    paths: &Paths,
    error: &IndexError,
) -> Result<(IndexFile, Option<Stamp>), Failure> {
    let git = Git::at(repo.workdir().unwrap_or(repo.path()), PATIENCE);
    let folder = tempfile::tempdir()
        .map_err(|e| io_failure("make a folder in", &std::env::temp_dir(), &e))?;
    let copy = folder.path().join("index");
    let stamp = copy_of(&paths.index, &copy)?;
    let settings = [("core.splitIndex", "false"), ("index.sparse", "false")];
    let args = ["update-index", "--no-split-index", "--force-write-index"];
    let made = git.run_with(&args, &settings, &[("GIT_INDEX_FILE", &copy)], b"");
    made.map_err(|why| no_answer(&why, error))?;
    let (index, _) = IndexFile::read(&copy).map_err(|e| index_failure(&e))?;
    Index::open(&copy)
        .and_then(|mut copy| repo.set_index(&mut copy))
        .map_err(|e| git_failure("cannot read the flat copy of the index", &e))?;
    Ok((index.kept_by(git), stamp))
}

fn no_answer(why: &NoAnswer, error: &IndexError) -> Failure {
    let own = index_failure(error);
    let needed = why.failure(&own.reason, "");
    let way_out = [needed.hint, own.hint].into_iter().flatten();
    let way_out: Vec<_> = way_out.filter(|hint| !hint.is_empty()).collect();
    Failure::new(needed.kind, needed.reason).hint(way_out.join("; or "))
}

/// Copies an index with its time, by which git tells which entries it must not trust; returns its stamp.
fn copy_of(index: &Path, copy: &Path) -> Result<Option<Stamp>, Failure> {
    let copied = || {
        let before = Stamp::of(index)?;
        fs::copy(index, copy)?;
        let is_same = Stamp::of(index)? == before;
        if let Some(stamp) = &before {
            File::options()
                .append(true)
                .open(copy)?
                .set_modified(stamp.modified())?;
        }
        Ok(is_same.then_some(before))
    };
    match copied().map_err(|e: io::Error| io_failure("copy", index, &e))? {
        Some(stamp) => Ok(stamp),
        None => Err(Failure::new(FailureKind::Busy, "the index keeps changing")),
    }
}

/// Writes to `next` the index with each path's entries put to what is given.
pub(super) fn write_next(
    git: &Git,
    index: &Path,
    next: &Path,
    edits: &BTreeMap<Box<[u8]>, Option<Entry>>,
) -> Result<(), Failure> {
    copy_of(index, next)?;
    let mut lines = Vec::new();
    for (path, entry) in edits {
        let (mode, id) = entry
            .as_ref()
            .map_or((0, Oid::ZERO_SHA1), |entry| (entry.mode(), entry.id()));
        lines.extend(format!("{mode:o} {id}\t").into_bytes());
        lines.extend(&**path);
        lines.push(0);
    }
    let args = ["update-index", "-z", "--index-info"];
    let made = git.run_with(&args, &[], &[("GIT_INDEX_FILE", next)], &lines);
    if made.is_err() {
        remove(&lock_of(next))?;
    }
    made.map(drop).map_err(|why| {
        why.failure(
            "git cannot write the next index",
            "see what `git status` says",
        )
    })
}

/// The lock that git takes on an index that it writes for us.
pub(super) fn lock_of(next: &Path) -> std::path::PathBuf {
    let mut name = next.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
