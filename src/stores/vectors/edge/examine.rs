//! A look at the shard for `doctor`. Opening a shard changes its files, so a copy of it is opened.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use qdrant_edge::{
    EdgeShard, NamedQuery, OperationError, QueryEnum, QueryRequest, ScoringQuery, ScrollRequest,
    VectorInternal, WithPayloadInterface, WithVector,
};

use super::super::EXAMINED as NAME;
use super::super::point::BM25;
use super::super::turn::Whose;
use super::Edge;
use super::convert::{point_of, sparse};
use super::shard::{
    RESERVE, damaged, dense_there, folder_size, has_shard, load, needs_space, one_line, said,
};
use crate::model::{Failure, FailureKind, Finding};

/// Up to which size a shard is copied to be opened.
const COPIED: u64 = 256 << 20;
/// How many points are looked at for one with words.
const SOME: usize = 10;
/// How much is copied at a time. What holds only zeros is left out, as Edge does: its files are mostly holes.
const BLOCK: usize = 64 << 10;

impl Edge {
    /// Says whether the shard can be searched, and who has it open.
    pub(super) fn looked_at(&mut self) -> Vec<Finding> {
        if !has_shard(&self.dir) {
            return vec![Finding::ok(
                NAME,
                "embedded; nothing is there yet, the next drain makes it",
            )];
        }
        let mut found = Vec::new();
        let dense = match dense_there(&self.dir, self.shape.dense.as_ref()) {
            Ok((dense, _)) => dense,
            Err(failure) => return vec![Finding::of(NAME, &failure, REMOVE)],
        };
        // Held until the copy is made: nobody writes meanwhile.
        let turn = match self.turn.whose() {
            Ok(Whose::Nobodys(turn)) => turn,
            Ok(Whose::Theirs(pid)) => {
                let who = match pid {
                    Some(pid) => format!("process {pid}"),
                    None => "another process".into(),
                };
                found.push(Finding::ok(
                    NAME,
                    format!("embedded; {who} has them open, and so they were not opened"),
                ));
                return found;
            }
            Err(failure) => return vec![Finding::of(NAME, &failure, REMOVE)],
        };
        let size = folder_size(&self.dir);
        let mib = (size >> 20).max(1);
        if size > COPIED {
            let what = format!(
                "embedded; {mib} MiB, too many to be opened in passing: `wiki-sync verify` reads them"
            );
            return vec![Finding::ok(NAME, what)];
        }
        let opened = copy(&self.dir, size).and_then(|copy| {
            drop(turn);
            let loaded = load(copy.path(), dense);
            let loaded = loaded.map_err(|failure| self.not_of_the_copy(copy.path(), failure))?;
            let Some(shard) = loaded else {
                return Ok(false);
            };
            let asked = catch_unwind(AssertUnwindSafe(|| search(&shard)));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(shard)));
            let reason = match asked {
                Ok(Ok(())) => return Ok(true),
                Ok(Err(error)) => one_line(&error.to_string()),
                Err(panic) => said(&*panic),
            };
            let text = format!(
                "cannot search the vectors in {}: {reason}",
                self.dir.display()
            );
            Err(damaged(text, &self.dir))
        });
        found.push(match opened {
            Ok(true) => Finding::ok(
                NAME,
                format!("embedded; {mib} MiB, and they can be searched"),
            ),
            Ok(false) => Finding::note(
                NAME,
                "embedded; an earlier wiki-sync wrote them, and nothing is looked up in them",
                "`wiki-sync drain` builds them anew from the files",
            ),
            Err(failure) if failure.kind == FailureKind::Refused => {
                Finding::of(NAME, &failure, REMOVE)
            }
            // Of the copy's own troubles nothing follows for the shard.
            Err(failure) => Finding::note(
                NAME,
                format!("embedded; {mib} MiB, not opened: {failure}"),
                "`wiki-sync verify` reads them",
            ),
        });
        found
    }

    /// Tells what is wrong with a copy as what it is: wrong with the shard.
    fn not_of_the_copy(&self, copy: &Path, failure: Failure) -> Failure {
        let (copy, own) = (copy.display().to_string(), self.dir.display().to_string());
        Failure {
            reason: failure.reason.replace(&copy, &own),
            hint: failure.hint.map(|hint| hint.replace(&copy, &own)),
            ..failure
        }
    }
}

const REMOVE: &str = "`wiki-sync rebuild vectors` builds them anew from the files; or move .wiki-sync/vectors away: the next drain does";

/// Searches by the words of some point.
fn search(shard: &EdgeShard) -> Result<(), OperationError> {
    let request = ScrollRequest {
        offset: None,
        limit: Some(SOME),
        filter: None,
        with_payload: Some(WithPayloadInterface::Bool(true)),
        with_vector: WithVector::Selector([BM25.into()].into_iter().collect()),
        order_by: None,
    };
    let (records, _) = shard.scroll(request)?;
    let words = records.into_iter().find_map(|record| point_of(record).bm25);
    let Some(words) = words else { return Ok(()) };
    let request = QueryRequest {
        filter: None,
        prefetches: Vec::new(),
        query: Some(ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery {
            query: VectorInternal::Sparse(sparse(words)),
            using: Some(BM25.into()),
        }))),
        score_threshold: None,
        limit: 1,
        offset: 0,
        params: None,
        with_vector: WithVector::Bool(false),
        with_payload: WithPayloadInterface::Bool(true),
    };
    shard.query(request).map(|_| ())
}

/// Copies a shard to a temporary folder of the same name as is told of it.
fn copy(dir: &Path, size: u64) -> Result<tempfile::TempDir, Failure> {
    let wrong = |e: &io::Error| {
        Failure::from_error(
            FailureKind::Down,
            "cannot copy the vectors to look at them",
            e,
        )
    };
    let temporary = tempfile::Builder::new()
        .prefix("wiki-sync-doctor-")
        .tempdir()
        .map_err(|e| wrong(&e))?;
    needs_space(temporary.path(), RESERVE + 2 * size)?;
    copy_folder(dir, temporary.path()).map_err(|e| wrong(&e))?;
    Ok(temporary)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir(&to)?;
            copy_folder(&entry.path(), &to)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &to)?;
        }
    }
    Ok(())
}

/// Copies a file; what is zeros becomes a hole.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = File::create_new(to)?;
    let mut block = vec![0; BLOCK];
    let mut length = 0;
    loop {
        let read = from.read(&mut block)?;
        if read == 0 {
            return to.set_len(length);
        }
        length += read as u64;
        if block[..read].iter().all(|&byte| byte == 0) {
            to.seek(SeekFrom::Start(length))?;
        } else {
            to.write_all(&block[..read])?;
        }
    }
}
