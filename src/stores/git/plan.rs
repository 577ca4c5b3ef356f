//! What is to become of each change: nothing, a place in the commit, or a failure of its own.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use git2::{ObjectType, Oid, Repository};

use super::convert::{self, Stored};
use super::disk::{OnDisk, changed_since, on_disk, read_same};
use super::filter::Tools;
use super::index_entry::{Entry, MODE_COMMIT, MODE_EXECUTABLE, MODE_FILE};
use super::index_file::IndexFile;
use super::repo::git_failure;
use super::tree::{HeadTree, Held};
use crate::model::{Change, Failure, FailureKind, Page, PagePath};
use crate::stores::{Applied, Outcome};

/// One page's part in the commit.
pub(super) struct Move<'c> {
    /// Which of the changes it is.
    pub(super) change: usize,
    pub(super) path: &'c PagePath,
    /// The page; `None` when it goes.
    pub(super) page: Option<&'c Page>,
    /// What HEAD holds of it.
    pub(super) in_head: Option<Held>,
    /// What the index held of it when it was read.
    pub(super) before: Option<Held>,
    /// What HEAD and index are to hold.
    pub(super) after: Option<Held>,
    /// The blob's bytes, to be written; `None` when git has written it.
    pub(super) blob: Option<Cow<'c, [u8]>>,
    /// The file as it was when its content was compared, and when that was.
    pub(super) seen: Option<(Metadata, SystemTime)>,
}

impl Move<'_> {
    /// Returns the entry that the index is to hold.
    pub(super) fn entry(&self) -> Option<Entry> {
        let stat = self.seen.as_ref().map(|(stat, _)| stat);
        self.after
            .map(|held| Entry::new(self.path.as_str(), held.mode, held.id, stat))
    }
}

/// All changes sorted: those with an outcome already, and those for the commit.
pub(super) struct Plan<'c> {
    /// One per change; `None` while it is in `moves`.
    pub(super) outcomes: Vec<Option<Outcome>>,
    pub(super) moves: Vec<Move<'c>>,
}

impl Plan<'_> {
    /// Takes the pages at or below `path` out of the commit, each with the failure.
    pub(super) fn drop_at(&mut self, path: &str, failure: &Failure) {
        let outcomes = &mut self.outcomes;
        self.moves.retain(|page| {
            let rest = page.path.as_str().strip_prefix(path);
            let hit = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if hit {
                outcomes[page.change] = Some(Err(failure.clone()));
            }
            !hit
        });
    }
}

/// What a plan is made from.
pub(super) struct Planner<'r, 'i> {
    pub(super) root: &'i Path,
    pub(super) repo: &'r Repository,
    pub(super) tools: &'i Tools,
    pub(super) index: &'i IndexFile,
    pub(super) head: HeadTree<'r>,
    /// What is wrong with a folder of the work tree, once looked at.
    pub(super) folders: HashMap<String, Option<&'static str>>,
    /// Whether a path is a page's.
    pub(super) is_page: &'i dyn Fn(&str) -> bool,
    /// Whether nothing is said anywhere by which a page's blob would be other than its bytes. To ask libgit2 costs as much as
    /// there are pages: it reads the index for it.
    pub(super) is_plain: bool,
}

/// A change sorted.
enum Sorted<'c> {
    Done(Applied),
    Move(Box<Move<'c>>),
}

impl Planner<'_, '_> {
    /// Sorts the changes.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub(super) fn plan<'c>(&mut self, changes: &'c [Change]) -> Result<Plan<'c>, Failure> {
        let mut plan = Plan {
            outcomes: vec![None; changes.len()],
            moves: Vec::new(),
        };
        let mut removed: HashSet<&str> = HashSet::new();
        // Removals first: what they take away is no obstacle to a page in its place.
        for removals in [true, false] {
            for (at, change) in changes.iter().enumerate() {
                let sorted = match change {
                    Change::Remove(path) if removals => self.remove(at, path)?,
                    Change::Put(page) if !removals => self.put(at, page, &removed)?,
                    Change::Remove(_) | Change::Put(_) => continue,
                };
                match sorted {
                    Ok(Sorted::Done(applied)) => plan.outcomes[at] = Some(Ok(applied)),
                    Ok(Sorted::Move(page)) => {
                        if page.after.is_none() {
                            removed.insert(page.path.as_str());
                        }
                        plan.moves.push(*page);
                    }
                    Err(failure) => plan.outcomes[at] = Some(Err(failure)),
                }
            }
        }
        Ok(plan)
    }

    fn put<'c>(
        &mut self,
        at: usize,
        page: &'c Page,
        removed: &HashSet<&str>,
    ) -> Result<Result<Sorted<'c>, Failure>, Failure> {
        let path = page.path.as_str();
        if let Some(why) = self.folder_trouble(page.path.folder()) {
            return Ok(Err(rejected(path, why)));
        }
        let in_head = self.head.at(path)?;
        if in_head.is_none() && !is_tracked(self.index, path) && is_ignored(self.repo, path)? {
            return Ok(Ok(Sorted::Done(Applied {
                changed: false,
                mark: None,
            })));
        }
        let blob = if self.is_plain {
            let bytes = Cow::Borrowed(page.text.as_bytes());
            hash(&bytes).map(|id| (id, Some(bytes)))
        } else {
            blob_of(self.repo, self.index, self.tools, page)
        };
        let (id, blob) = match blob {
            Ok(blob) => blob,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(held) = in_head
            && held.is_regular()
            && held.id == id
        {
            return Ok(Ok(Sorted::Done(Applied {
                changed: false,
                mark: Some(id.to_string()),
            })));
        }
        if let Some(failure) = self.entry_trouble(path) {
            return Ok(Err(failure));
        }
        if let Some(failure) = self.obstacle(path, in_head, removed)? {
            return Ok(Err(failure));
        }
        let seen = match read_same(&self.root.join(path), page) {
            Ok(seen) => seen,
            Err(failure) => return Ok(Err(failure)),
        };
        // A folder in its place is emptied by the batch, as `obstacle` has seen.
        let in_head = in_head.filter(|held| !held.is_folder());
        let entry = self.index.at(path).first();
        let before = entry.map(held_of);
        let mode = [before, in_head]
            .into_iter()
            .flatten()
            .find(|held| held.is_regular())
            .map_or_else(|| self.mode_on_disk(&seen.0), |held| held.mode);
        let after = Some(Held { mode, id });
        let staged = before != in_head && !entry.is_some_and(Entry::is_intent_to_add);
        if staged && before != after {
            return Ok(Err(staged_otherwise(path, before)));
        }
        Ok(Ok(Sorted::Move(Box::new(Move {
            change: at,
            path: &page.path,
            page: Some(page),
            in_head,
            before,
            after,
            blob,
            seen: Some(seen),
        }))))
    }

    fn remove<'c>(
        &mut self,
        at: usize,
        page: &'c PagePath,
    ) -> Result<Result<Sorted<'c>, Failure>, Failure> {
        let path = page.as_str();
        let in_head = self.head.at(path)?.filter(|held| held.is_regular());
        let Some(held) = in_head else {
            return Ok(Ok(Sorted::Done(Applied {
                changed: false,
                mark: None,
            })));
        };
        if let Some(why) = self.folder_trouble(page.folder()) {
            return Ok(Err(waiting(
                format!("page {path:?} is gone, but {why}"),
                "commit that change yourself; the next drain takes the page",
            )));
        }
        match on_disk(self.root, page) {
            Ok(OnDisk::Nothing) => {}
            Ok(OnDisk::File) => return Ok(Err(changed_since(path))),
            Ok(OnDisk::Other) => {
                return Ok(Err(waiting(
                    format!("something that is no file stands in the place of page {path:?}"),
                    "commit that change yourself; the next drain takes the page",
                )));
            }
            Err(error) => {
                return Ok(Err(Failure::from_error(
                    FailureKind::Transient,
                    &format!("cannot look for page {path:?}"),
                    &error,
                )));
            }
        }
        // Rightly not on disk: it lies outside the sparse checkout.
        if self.index.at(path).iter().any(Entry::is_skip_worktree) {
            return Ok(Ok(Sorted::Done(Applied {
                changed: false,
                mark: None,
            })));
        }
        if let Some(failure) = self.entry_trouble(path) {
            return Ok(Err(failure));
        }
        let entry = self.index.at(path).first();
        let before = entry.map(held_of);
        let staged = before != Some(held) && !entry.is_some_and(Entry::is_intent_to_add);
        // No entry at all: the user staged the removal himself.
        if staged && before.is_some() {
            return Ok(Err(staged_otherwise(path, before)));
        }
        Ok(Ok(Sorted::Move(Box::new(Move {
            change: at,
            path: page,
            page: None,
            in_head,
            before,
            after: None,
            blob: None,
            seen: None,
        }))))
    }

    /// Says what of the user's keeps us from a page that is yet to change: a place of its own in a conflict, or
    /// another content staged than HEAD holds.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub(super) fn objection(&mut self, page: &PagePath) -> Result<Option<Failure>, Failure> {
        let path = page.as_str();
        if let Some(why) = self.folder_trouble(page.folder()) {
            return Ok(Some(rejected(path, why)));
        }
        if let Some(failure) = self.entry_trouble(path) {
            return Ok(Some(failure));
        }
        let in_head = self.head.at(path)?.filter(|held| !held.is_folder());
        let entry = self.index.at(path).first();
        let before = entry.map(held_of);
        let staged = before != in_head && !entry.is_some_and(Entry::is_intent_to_add);
        Ok(staged.then(|| staged_otherwise(path, before)))
    }

    /// Says what keeps us from a page's entry in the index.
    fn entry_trouble(&self, path: &str) -> Option<Failure> {
        let entries = self.index.at(path);
        if entries.iter().any(|entry| entry.stage() != 0) {
            return Some(waiting(
                format!("page {path:?} is in conflict"),
                format!("resolve it and run `git add -- '{path}'`"),
            ));
        }
        let entry = entries.first()?;
        if entry.is_skip_worktree() {
            return Some(waiting(
                format!("page {path:?} is marked skip-worktree (sparse checkout)"),
                format!(
                    "run `git sparse-checkout add`, or `git update-index --no-skip-worktree -- '{path}'`"
                ),
            ));
        }
        entry.is_assume_unchanged().then(|| {
            waiting(
                format!("page {path:?} is marked assume-unchanged"),
                format!("run `git update-index --no-assume-unchanged -- '{path}'`"),
            )
        })
    }

    /// Says what HEAD or the index hold in a page's place, or in the place of a folder above it, that the
    /// batch does not take away.
    fn obstacle(
        &mut self,
        path: &str,
        in_head: Option<Held>,
        removed: &HashSet<&str>,
    ) -> Result<Option<Failure>, Failure> {
        let submodule = |at: &str| rejected(path, &format!("{at:?} is a submodule"));
        if in_head.is_some_and(|held| held.mode == MODE_COMMIT) {
            return Ok(Some(submodule(path)));
        }
        for (end, _) in path.match_indices('/') {
            let above = &path[..end];
            let entries = self.index.at(above);
            let held = self.head.at(above)?.filter(|held| !held.is_folder());
            if held.is_some_and(|held| held.mode == MODE_COMMIT)
                || entries.iter().any(|entry| entry.mode() == MODE_COMMIT)
            {
                return Ok(Some(submodule(above)));
            }
            if (held.is_some() || !entries.is_empty()) && !removed.contains(above) {
                return Ok(Some(self.in_the_way(path, above)));
            }
        }
        if self
            .index
            .at(path)
            .iter()
            .any(|entry| entry.mode() == MODE_COMMIT)
        {
            return Ok(Some(submodule(path)));
        }
        let below = self.index.under(path).find(|entry| {
            let path = std::str::from_utf8(&entry.path);
            !path.is_ok_and(|path| removed.contains(path))
        });
        Ok(below.map(|entry| self.in_the_way(path, &String::from_utf8_lossy(&entry.path))))
    }

    /// A page in the way will get its own job; anything else is for the user to commit.
    fn in_the_way(&self, path: &str, other: &str) -> Failure {
        let reason = format!("page {path:?} takes the place of {other:?}, which git still holds");
        if (self.is_page)(other) {
            Failure::new(FailureKind::Busy, reason)
        } else {
            waiting(
                reason,
                format!("commit the removal of '{other}'; the next drain takes the page"),
            )
        }
    }

    fn mode_on_disk(&self, stat: &Metadata) -> u32 {
        let trusted = self
            .repo
            .config()
            .and_then(|config| config.get_bool("core.filemode"))
            .unwrap_or(true);
        if trusted && stat.mode() & 0o100 != 0 {
            MODE_EXECUTABLE
        } else {
            MODE_FILE
        }
    }

    /// Says why nothing in a folder of the work tree can be this repository's page.
    fn folder_trouble(&mut self, folder: &str) -> Option<&'static str> {
        if folder.is_empty() {
            return None;
        }
        if let Some(known) = self.folders.get(folder) {
            return *known;
        }
        let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
        let trouble = self.folder_trouble(above).or_else(|| {
            let here = self.root.join(folder);
            match fs::symlink_metadata(&here) {
                Ok(meta) if meta.is_symlink() => Some("a folder on its path is a symbolic link"),
                Ok(_) if fs::symlink_metadata(here.join(".git")).is_ok() => {
                    Some("a folder on its path is a repository of its own")
                }
                Ok(_) | Err(_) => None,
            }
        });
        self.folders.insert(folder.to_owned(), trouble);
        trouble
    }
}

/// A blob, and its bytes when they are ours to write.
type Blob<'c> = (Oid, Option<Cow<'c, [u8]>>);

/// Returns the blob that git makes of a page.
pub(super) fn blob_of<'c>(
    repo: &Repository,
    index: &IndexFile,
    tools: &Tools,
    page: &'c Page,
) -> Result<Blob<'c>, Failure> {
    match stored_of(repo, index, page)? {
        Stored::Bytes(bytes) => Ok((hash(&bytes)?, Some(bytes))),
        Stored::By(program) => Ok((tools.blob(repo, page, &program)?, None)),
    }
}

/// Returns what git stores of a page.
pub(super) fn stored_of<'c>(
    repo: &Repository,
    index: &IndexFile,
    page: &'c Page,
) -> Result<Stored<'c>, Failure> {
    let path = page.path.as_str();
    let in_index = || {
        let entry = index.at(path).iter().find(|entry| entry.stage() == 0)?;
        Some(repo.find_blob(entry.id()).ok()?.content().to_vec())
    };
    convert::to_git(repo, path, &page.text, &in_index)
}

/// Returns the id of a blob with these bytes.
pub(super) fn hash(bytes: &[u8]) -> Result<Oid, Failure> {
    Oid::hash_object(ObjectType::Blob, bytes)
        .map_err(|error| git_failure("cannot hash a page", &error))
}

/// Says whether the index knows the path (intent-to-add counts: the user wants it tracked).
pub(super) fn is_tracked(index: &IndexFile, path: &str) -> bool {
    !index.at(path).is_empty()
}

/// Says whether git ignores the path.
pub(super) fn is_ignored(repo: &Repository, path: &str) -> Result<bool, Failure> {
    repo.is_path_ignored(path)
        .map_err(|error| git_failure("cannot read .gitignore", &error))
}

pub(super) fn held_of(entry: &Entry) -> Held {
    Held {
        mode: entry.mode(),
        id: entry.id(),
    }
}

fn waiting(reason: String, hint: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Waiting, reason).hint(hint)
}

fn rejected(path: &str, why: &str) -> Failure {
    Failure::new(
        FailureKind::Rejected,
        format!("page {path:?} cannot be committed: {why}"),
    )
}

fn staged_otherwise(path: &str, staged: Option<Held>) -> Failure {
    let reason = match staged {
        Some(_) => format!("page {path:?} is staged with other content"),
        None => format!("page {path:?} is staged for removal, but the file is there"),
    };
    waiting(
        reason,
        format!("commit it, or run `git add -- '{path}'` or `git restore --staged -- '{path}'`"),
    )
}
