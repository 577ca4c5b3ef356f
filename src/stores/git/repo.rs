//! Opening the repository, and everything for which we leave it alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::{Config, ErrorCode, ObjectType, Oid, Repository, RepositoryOpenFlags, Signature};

use super::configured::Configured;
use super::index_file::IndexError;
use super::{moving, work_tree};
use crate::model::{Failure, FailureKind};

/// Files of a work tree's git folder that stand while git is in the middle of something, and what it is.
const OPERATIONS: [(&str, &str); 8] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply/applying", "git am"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert"),
    ("BISECT_LOG", "a bisect"),
];

/// Opens the repository whose work tree is `root`, and no other: neither the environment nor a folder
/// above is asked.
///
/// # Errors
/// `Refused` where there is none that we can use, `Down` when it cannot be read.
pub fn open(root: &Path) -> Result<Repository, Failure> {
    if fs::symlink_metadata(root.join(".git")).is_err() {
        return Err(no_repository(root));
    }
    let nobody: [&std::ffi::OsStr; 0] = [];
    let repo = Repository::open_ext(root, RepositoryOpenFlags::NO_SEARCH, nobody)
        .map_err(|error| cannot_open(root, &error))?;
    work_tree::settle(&repo, root).map_err(|error| cannot_open(root, &error))?;
    let Some(workdir) = repo.workdir() else {
        return Err(bare(root));
    };
    if canonical(workdir) != canonical(root) {
        return Err(refused(
            format!(
                "the repository at {} has its work tree at {}",
                root.display(),
                workdir.display()
            ),
            "run wiki-sync there, or set git.commit = \"off\"",
        ));
    }
    Ok(repo)
}

/// Opens the repository again: a handle goes on seeing a pack that it has opened and that is gone.
pub(super) fn anew(repo: &Repository) -> Result<Repository, Failure> {
    open(repo.workdir().unwrap_or_else(|| repo.path()))
}

fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn refused(reason: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Refused, reason).hint(hint)
}

fn bare(root: &Path) -> Failure {
    refused(
        format!("{} is a bare repository: it has no pages", root.display()),
        "run wiki-sync in a clone with a work tree",
    )
}

fn no_repository(root: &Path) -> Failure {
    if ["HEAD", "objects", "refs"]
        .iter()
        .all(|name| root.join(name).exists())
    {
        return bare(root);
    }
    let above = Repository::discover(root)
        .ok()
        .and_then(|repo| work_tree::work_tree(&repo, root));
    match above {
        Some(top) => refused(
            format!(
                "{} is not the top of its repository, which is {}",
                root.display(),
                top.display()
            ),
            format!("run wiki-sync in {}", top.display()),
        ),
        None => refused(
            format!("{} is in no git repository", root.display()),
            "run `git init`, or set git.commit = \"off\"",
        ),
    }
}

/// Sorts an error at opening: formats that libgit2 does not read are named with the way out.
fn cannot_open(root: &Path, error: &git2::Error) -> Failure {
    if error.code() == ErrorCode::Owner {
        return refused(
            format!(
                "the repository at {} belongs to another user",
                root.display()
            ),
            format!(
                "run wiki-sync as its owner, or `git config --global --add safe.directory {}`",
                root.display()
            ),
        );
    }
    let config = Config::open(&common_dir_of(root).join("config"));
    let extension = |name: &str| {
        let config = config.as_ref().ok()?;
        config.get_string(&format!("extensions.{name}")).ok()
    };
    let off = "set git.commit = \"off\": the other stores are kept all the same";
    if let Some(format) = extension("refstorage").filter(|format| format != "files") {
        return refused(
            format!("the repository keeps its refs as {format:?}, which wiki-sync cannot write"),
            format!("run `git refs migrate --ref-format=files`, or {off}"),
        );
    }
    if let Some(format) = extension("objectformat").filter(|format| format != "sha1") {
        return refused(
            format!("the repository's objects are {format:?}, which wiki-sync cannot write"),
            off,
        );
    }
    if error.message().contains("unsupported extension") {
        return refused(
            format!("wiki-sync cannot use this repository: {}", error.message()),
            off,
        );
    }
    git_failure(
        &format!("cannot open the repository at {}", root.display()),
        error,
    )
}

/// Finds the folder with the repository's own config without opening the repository.
fn common_dir_of(root: &Path) -> PathBuf {
    let dot_git = root.join(".git");
    let Ok(text) = fs::read_to_string(&dot_git) else {
        return dot_git; // a folder
    };
    let git_dir = root.join(text.trim().trim_start_matches("gitdir:").trim());
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common.trim()),
        Err(_) => git_dir,
    }
}

/// Sorts a git error into its kind. None of them judges one page.
pub(super) fn git_failure(doing: &str, error: &git2::Error) -> Failure {
    let kind = match error.code() {
        ErrorCode::Locked | ErrorCode::Modified => FailureKind::Busy,
        // An object that is not there, a disk that is full, whatever else: the store is away.
        _ => FailureKind::Down,
    };
    Failure::from_error(kind, doing, error)
}

/// Sorts an error of the file system inside the git folder.
pub(super) fn io_failure(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::from_error(
        FailureKind::Down,
        &format!("cannot {doing} {}", path.display()),
        error,
    )
}

/// Sorts an index that cannot be used.
pub(super) fn index_failure(error: &IndexError) -> Failure {
    let kind = match error {
        IndexError::Io(_) => FailureKind::Down,
        IndexError::Unsupported(_) | IndexError::Extension(_) | IndexError::Damaged(_) => {
            FailureKind::Refused
        }
    };
    let failure = Failure::from_error(kind, "", error);
    match error {
        IndexError::Io(_) => failure,
        IndexError::Unsupported("a split index") => failure.hint(
            "run `git update-index --no-split-index` (and unset core.splitIndex), or set git.commit = \"off\"",
        ),
        IndexError::Unsupported("a sparse index") => failure
            .hint("run `git sparse-checkout reapply --no-sparse-index`, or set git.commit = \"off\""),
        IndexError::Unsupported(_) | IndexError::Extension(_) => {
            failure.hint("set git.commit = \"off\": the other stores are kept all the same")
        }
        IndexError::Damaged(_) => {
            failure.hint("run `git status`; if git says the same: `rm .git/index && git reset`")
        }
    }
}

/// Where HEAD stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The ref that a commit moves: a branch, or `HEAD` itself when it is detached.
    pub(super) name: String,
    /// The commit; `None` on a branch without any.
    pub(super) commit: Option<Oid>,
}

impl Head {
    pub(super) fn is_detached(&self) -> bool {
        self.name == "HEAD"
    }

    /// Reads HEAD anew.
    pub(super) fn read(repo: &Repository) -> Result<Self, Failure> {
        let failed = |error: git2::Error| git_failure("cannot read HEAD", &error);
        let mut name = String::from("HEAD");
        // Git follows five.
        for _ in 0..5 {
            let reference = match repo.find_reference(&name) {
                Ok(reference) => reference,
                Err(error) if error.code() == ErrorCode::NotFound && name != "HEAD" => {
                    return Ok(Self { name, commit: None });
                }
                Err(error) => return Err(failed(error)),
            };
            if let Some(target) = reference.symbolic_target().map_err(failed)? {
                target.clone_into(&mut name);
                continue;
            }
            return Ok(Self {
                name,
                commit: reference.target(),
            });
        }
        Err(refused(
            format!("HEAD leads in circles at {name}"),
            "check out a branch",
        ))
    }
}

/// Says what git is in the middle of, by the files in the work tree's own git folder.
pub(super) fn operation(repo: &Repository) -> Option<&'static str> {
    let git_dir = repo.path();
    OPERATIONS
        .into_iter()
        .find(|(file, _)| git_dir.join(file).exists())
        .map(|(_, name)| name)
        .or_else(|| is_message_open(repo).then_some("a git commit (its message is still open)"))
}

/// Says whether somebody has an editor open on a commit message here.
///
/// A plain `git commit` holds no lock meanwhile, but fails at its end when HEAD has moved. Git wrote the
/// message's file and has not moved HEAD since; that it was not simply given up shows by the process.
fn is_message_open(repo: &Repository) -> bool {
    let modified =
        |name: &str| fs::metadata(repo.path().join(name)).and_then(|meta| meta.modified());
    let Ok(written) = modified("COMMIT_EDITMSG") else {
        return false;
    };
    if modified("logs/HEAD").is_ok_and(|moved| moved >= written) {
        return false;
    }
    moving::is_committing(repo)
}

/// The failure while git is in the middle of something.
pub(super) fn waits_for(operation: &str) -> Failure {
    Failure::new(
        FailureKind::Waiting,
        format!("{operation} is under way in this work tree"),
    )
    .hint(format!(
        "finish {operation} or abort it; then run `wiki-sync drain`, where no `wiki-sync watch` does it"
    ))
}

/// Returns author and committer as git would name them; `author` (name and mail) instead of the user's.
pub(super) fn signatures(
    configured: &Configured,
    author: Option<(&str, &str)>,
) -> Result<(Signature<'static>, Signature<'static>), Failure> {
    let of = |who: &str| {
        let value = |what: &str| {
            let own = configured.text(&format!("{who}.{what}"));
            own.or_else(|| configured.text(&format!("user.{what}")))
        };
        Signature::now(value("name")?, value("email")?).ok()
    };
    let author = match author {
        Some((name, mail)) => Signature::now(name, mail).ok(),
        None => of("author"),
    };
    author.zip(of("committer")).ok_or_else(|| {
        refused(
            "git does not know who commits here",
            "run `git config user.name \"Your Name\"` and `git config user.email you@example.com`",
        )
    })
}

/// Says whether the user signs his commits.
pub(super) fn signs(configured: &Configured) -> Result<bool, Failure> {
    configured.switch("commit.gpgsign")
}

/// Says whether git is configured to bring loose objects to the disk before it goes on: by
/// `core.fsync`, whose default leaves them out, or by the older `core.fsyncObjectFiles`.
pub(super) fn syncs_loose_objects(repo: &Repository) -> bool {
    let Ok(config) = repo.config() else {
        return false;
    };
    let Ok(list) = config.get_string("core.fsync") else {
        return config.get_bool("core.fsyncObjectFiles").unwrap_or(false);
    };
    list.split(',')
        .map(str::trim)
        .fold(false, |on, word| match word.trim_start_matches('-') {
            "none" => false,
            "loose-object" | "objects" | "committed" | "added" | "all" => !word.starts_with('-'),
            _ => on,
        })
}

/// Writes an object into the store of loose objects, brought to the disk when `sync`.
pub(super) fn write_object(
    repo: &Repository,
    kind: ObjectType,
    bytes: &[u8],
    sync: bool,
) -> Result<Oid, Failure> {
    let failed = |error: git2::Error| git_failure("cannot write an object", &error);
    let id = repo
        .odb()
        .map_err(failed)?
        .write(kind, bytes)
        .map_err(failed)?;
    if sync {
        sync_object(repo, id)?;
    }
    Ok(id)
}

/// Brings a loose object to the disk; one that lies in a pack is there.
pub(super) fn sync_object(repo: &Repository, id: Oid) -> Result<(), Failure> {
    let hex = id.to_string();
    let path = repo
        .commondir()
        .join("objects")
        .join(&hex[..2])
        .join(&hex[2..]);
    match fs::File::open(&path) {
        Ok(file) => file
            .sync_all()
            .map_err(|error| io_failure("bring to the disk", &path, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_failure("open", &path, &error)),
    }
}
