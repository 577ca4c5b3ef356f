//! Pages that git sends through a program on the way in: a filter (LFS, git-crypt), another encoding.
//!
//! One `git hash-object --stdin-paths` makes the blobs of a whole batch, so a filter that speaks git's
//! long-running protocol is started once; a plain `clean` command git starts for each page, as `git add` does.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Oid, Repository};
use tempfile::TempDir;

use super::configured::Configured;
use super::disk::{changed_since, read_same, stat_of};
use super::program::{Conversation, Git, NoAnswer};
use super::tree::are_there;
use crate::model::{ContentSha, Failure, FailureKind, Page};

/// How many failures of one program in a row are taken as said of all pages of the batch.
const GIVES_UP: u32 = 3;

/// Which program stands between a page and its blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Program {
    /// A filter driver, by its name.
    Filter(String),
    /// A conversion from this encoding, by git itself.
    Encoding(String),
}

/// Git as a program, and what it was asked for one batch: nothing is started before something needs it.
pub(super) struct Tools {
    root: PathBuf,
    pub(super) git: Git,
    configured: OnceCell<Configured>,
    filters: RefCell<Filters>,
}

impl Tools {
    /// Names git in a work tree. A program gets `wait` for a page or a commit; blobs that a filter makes are
    /// written when `writes`, else only named.
    pub(super) fn new(root: &Path, wait: Duration, writes: bool) -> Self {
        Self {
            root: root.to_path_buf(),
            git: Git::at(root, wait),
            configured: OnceCell::new(),
            filters: RefCell::new(Filters {
                writes,
                ..Filters::default()
            }),
        }
    }

    /// Returns git's configuration as it was at the first call.
    pub(super) fn configured(&self, repo: &Repository) -> Result<&Configured, Failure> {
        if let Some(known) = self.configured.get() {
            return Ok(known);
        }
        let read = Configured::read(&self.git, repo)?;
        Ok(self.configured.get_or_init(|| read))
    }

    /// Forgets every blob made when the fingerprint is another than the last time: attributes or filters have
    /// changed.
    pub(super) fn begin(&self, fingerprint: &str) {
        let mut filters = self.filters.borrow_mut();
        if filters.fingerprint != fingerprint {
            *filters = Filters {
                fingerprint: fingerprint.to_owned(),
                writes: filters.writes,
                ..Filters::default()
            };
        }
    }

    /// Returns the blob that a program makes of a page.
    ///
    /// # Errors
    /// `Refused` when the program is not configured, fails, or takes too long: a page is never stored
    /// without it, also where git would (a filter that is not `required`). `Busy` when the file is no longer
    /// what was read.
    pub(super) fn blob(
        &self,
        repo: &Repository,
        page: &Page,
        program: &Program,
    ) -> Result<Oid, Failure> {
        let path = page.path.as_str();
        let mut filters = self.filters.borrow_mut();
        if let Some((sha, blob)) = filters.made.get(path)
            && *sha == page.sha
            // A prune beside us takes what nothing refers to yet.
            && (!filters.writes || are_there(repo, &[*blob]))
        {
            return Ok(*blob);
        }
        let file = self.root.join(path);
        // Git reads the file itself: it must be the page's before, and untouched after.
        let (before, _) = read_same(&file, page)?;
        let blob = filters.blob(&self.git, self.configured(repo)?, repo, path, program)?;
        match fs::symlink_metadata(&file) {
            Ok(after) if stat_of(&after) == stat_of(&before) => {}
            Ok(_) | Err(_) => return Err(changed_since(path)),
        }
        filters.made.insert(path.to_owned(), (page.sha, blob));
        Ok(blob)
    }
}

/// Makes blobs by git's own filters.
#[derive(Default)]
struct Filters {
    /// The attributes and settings that all of this stands under.
    fingerprint: String,
    /// Whether blobs are written, or only named.
    writes: bool,
    running: Option<Conversation>,
    /// Where blobs go that are only named. Git is stricter with what it writes, so it always does.
    aside: Option<TempDir>,
    /// By page: the content and the blob made of it. A batch may be tried often.
    made: HashMap<String, (ContentSha, Oid)>,
    /// By program: how often it failed in a row, and the last failure.
    failed: HashMap<Program, (u32, NoAnswer)>,
}

impl Filters {
    /// Returns the blob that git makes of the file at `path`.
    fn blob(
        &mut self,
        git: &Git,
        configured: &Configured,
        repo: &Repository,
        path: &str,
        program: &Program,
    ) -> Result<Oid, Failure> {
        if let Program::Filter(driver) = program
            && !configured.knows_filter(driver)
        {
            return Err(unknown(path, driver));
        }
        if let Some((times, why)) = self.failed.get(program)
            && (*times >= GIVES_UP || !matches!(why, NoAnswer::Failed(_)))
        {
            return Err(failed(path, program, why));
        }
        match self.ask(git, configured, repo, path) {
            Ok(blob) => {
                self.failed.remove(program);
                Ok(blob)
            }
            Err(why) => {
                self.running = None;
                let failure = failed(path, program, &why);
                let times = self.failed.get(program).map_or(0, |(times, _)| *times);
                self.failed.insert(program.clone(), (times + 1, why));
                Err(failure)
            }
        }
    }

    fn ask(
        &mut self,
        git: &Git,
        configured: &Configured,
        repo: &Repository,
        path: &str,
    ) -> Result<Oid, NoAnswer> {
        if self.running.is_none() {
            let mut variables = Vec::new();
            let objects = repo.commondir().join("objects");
            if !self.writes {
                let aside = tempfile::tempdir()
                    .map_err(|e| NoAnswer::Failed(format!("no temporary folder: {e}")))?;
                let aside = self.aside.insert(aside).path();
                variables = vec![
                    ("GIT_OBJECT_DIRECTORY", aside),
                    ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects),
                ];
            }
            // Git stores a page raw when a filter fails that is not required.
            let required: Vec<_> = configured
                .filters()
                .into_iter()
                .map(|driver| format!("filter.{driver}.required"))
                .collect();
            let required: Vec<_> = required
                .iter()
                .map(|name| (name.as_str(), "true"))
                .collect();
            self.running = Some(git.converse(
                &["hash-object", "-w", "--stdin-paths"],
                &required,
                &variables,
            )?);
        }
        let running = self.running.as_mut().expect("just set");
        let answer = running.ask(&quoted(path))?;
        Oid::from_str(&answer)
            .map_err(|_| NoAnswer::Failed(format!("git answered {answer:?}, which is no blob")))
    }
}

/// Returns the path as git reads it from a line. A path holds no control characters.
fn quoted(path: &str) -> String {
    if path.starts_with('"') {
        format!("\"{}\"", path.replace('\\', r"\\").replace('"', "\\\""))
    } else {
        path.to_owned()
    }
}

fn unknown(path: &str, driver: &str) -> Failure {
    let way_out = match driver {
        "lfs" => "run `git lfs install`".to_owned(),
        "git-crypt" => "run `git-crypt unlock`".to_owned(),
        other => format!("set `git config filter.{other}.clean`"),
    };
    Failure::new(
        FailureKind::Refused,
        format!("page {path:?} goes through the filter {driver:?}, which is not configured here"),
    )
    .hint(format!(
        "{way_out}, or say `{path} -filter` in .gitattributes"
    ))
}

fn failed(path: &str, program: &Program, why: &NoAnswer) -> Failure {
    match program {
        Program::Filter(driver) => why.failure(
            &format!("the filter {driver:?} gave nothing for page {path:?}"),
            format!("see what `git hash-object --path={path} {path}` says; mend filter.{driver}, or say `{path} -filter` in .gitattributes"),
        ),
        Program::Encoding(encoding) => why.failure(
            &format!("page {path:?} cannot be read as {encoding:?}, its working-tree encoding"),
            format!("pages are UTF-8: say `{path} -working-tree-encoding` in .gitattributes"),
        ),
    }
}
