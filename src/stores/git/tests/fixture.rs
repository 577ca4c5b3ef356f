//! A real repository in a temporary folder, and git's own word on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Change, Failure, FailureKind, Labels, Page, PagePath};
use crate::state::StateDir;
use crate::stores::git::{GitSettings, GitStore};
use crate::stores::{Applied, Outcome, Store};

/// A repository with a work tree.
pub(super) struct Repo {
    pub(super) root: PathBuf,
    home: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Repo {
    /// Makes an empty repository with an identity.
    pub(super) fn empty() -> Self {
        let repo = Self::bare_folder();
        repo.git(&["init", "-q", "-b", "main"]);
        repo.set("user.name", "Someone");
        repo.set("user.email", "someone@example.com");
        repo.set("commit.gpgsign", "false");
        repo
    }

    /// Makes a folder without a repository.
    pub(super) fn bare_folder() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder
            .path()
            .canonicalize()
            .expect("it is there")
            .join("repo");
        let home = folder.path().join("home");
        for path in [&root, &home] {
            fs::create_dir(path).expect("a folder");
        }
        Self {
            root,
            home,
            _folder: Some(folder),
        }
    }

    /// Makes a repository whose first commit holds two pages and another file.
    pub(super) fn with_pages() -> Self {
        let repo = Self::empty();
        repo.write("wiki-output/a.md", "# A\n");
        repo.write("wiki-output/b.md", "# B\n");
        repo.write("other.txt", "other\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "first"]);
        repo
    }

    /// The same repository seen from another work tree.
    pub(super) fn at(&self, root: PathBuf) -> Self {
        Self {
            root,
            home: self.home.clone(),
            _folder: None,
        }
    }

    pub(super) fn set(&self, key: &str, value: &str) {
        self.git(&["config", key, value]);
    }

    fn command(&self, args: &[&str]) -> Output {
        self.prepare(args).output().expect("git runs")
    }

    /// Starts git with this editor; whoever calls it waits for its end.
    pub(super) fn spawn(&self, args: &[&str], editor: &str) -> Child {
        let mut command = self.prepare(args);
        command.env("GIT_EDITOR", editor).stdout(Stdio::null());
        command.spawn().expect("git starts")
    }

    fn prepare(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.root)
            .env("HOME", &self.home)
            .env_remove("XDG_CONFIG_HOME")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_EDITOR", "true")
            .args(["-c", "core.quotePath=false"])
            .args(args);
        command
    }

    /// Runs git, which must succeed, and returns what it printed.
    #[track_caller]
    pub(super) fn git(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs git, which may fail; returns whether it succeeded.
    pub(super) fn try_git(&self, args: &[&str]) -> bool {
        self.command(args).status.success()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    /// Writes a program outside the work tree and returns its path.
    pub(super) fn program(&self, name: &str, script: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub(super) fn delete(&self, path: &str) {
        fs::remove_file(self.root.join(path)).expect("it is there");
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).expect("it is there")
    }

    /// Opens the store; a foreign lock is waited for no longer than `wait`.
    pub(super) fn store_waiting(&self, wait: Duration) -> GitStore {
        self.store_with(GitSettings {
            lock_wait: wait,
            ..GitSettings::default()
        })
    }

    pub(super) fn store_with(&self, settings: GitSettings) -> GitStore {
        GitStore::open(&self.root, &StateDir::of(&self.root), settings).expect("opens")
    }

    pub(super) fn store(&self) -> GitStore {
        self.store_waiting(Duration::from_millis(60))
    }

    /// Returns the change that brings the page as it is on disk.
    pub(super) fn put(&self, path: &str) -> Change {
        let text = fs::read_to_string(self.root.join(path)).expect("it is there");
        page(path, &text)
    }

    /// Returns what the disk shows of the paths.
    pub(super) fn changes(&self, paths: &[&str]) -> Vec<Change> {
        let change = |path: &&str| match fs::symlink_metadata(self.root.join(path)) {
            Ok(meta) if meta.is_file() => self.put(path),
            _ => remove(path),
        };
        paths.iter().map(change).collect()
    }

    /// Applies what the disk shows of the paths.
    pub(super) fn apply(&self, paths: &[&str]) -> Result<Vec<Outcome>, Failure> {
        self.store().apply(&self.changes(paths), 1)
    }

    /// Applies one page, which must come to an outcome, and returns it.
    #[track_caller]
    pub(super) fn apply_one(&self, path: &str) -> Outcome {
        let mut outcomes = self.apply(&[path]).expect("the store is usable");
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }

    /// Applies one page, which must be committed.
    #[track_caller]
    pub(super) fn commits(&self, path: &str) {
        let applied = self.apply_one(path).expect("it is committed");
        assert!(applied.changed, "{path} was not changed");
    }

    /// Applies one page, which must fail with the kind, and returns the failure.
    #[track_caller]
    pub(super) fn fails(&self, path: &str, kind: FailureKind) -> Failure {
        let before = self.head();
        let failure = match self.apply(&[path]) {
            Ok(mut outcomes) => outcomes.remove(0).expect_err("it fails"),
            Err(failure) => failure,
        };
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert_eq!(self.head(), before, "HEAD moved");
        self.is_sound();
        failure
    }

    pub(super) fn head(&self) -> String {
        if self.try_git(&["rev-parse", "-q", "--verify", "HEAD"]) {
            self.git(&["rev-parse", "HEAD"])
        } else {
            String::new()
        }
    }

    /// Returns what HEAD's commit changed, as `M path` lines.
    pub(super) fn changed_by_head(&self) -> Vec<String> {
        self.git(&[
            "show",
            "--format=",
            "--name-status",
            "--no-renames",
            "-m",
            "HEAD",
        ])
        .lines()
        .map(|line| line.replace('\t', " "))
        .collect()
    }

    /// Returns every index entry with mode, blob, stage and flags (not the stat data), by path.
    pub(super) fn entries(&self) -> Vec<String> {
        let flags = self.git(&["ls-files", "-s", "-v", "--debug"]);
        flags
            .lines()
            .filter(|line| !line.starts_with("  ") || line.contains("flags:"))
            .map(|line| line.rsplit("size:").next().unwrap_or(line).to_owned())
            .map(|line| line.rsplit("\tflags:").next().unwrap_or(&line).to_owned())
            .collect::<Vec<_>>()
            .chunks(2)
            .map(|pair| pair.join(" flags:"))
            .collect()
    }

    /// Returns the entries of all paths but one.
    pub(super) fn entries_but(&self, paths: &[&str]) -> Vec<String> {
        let mut entries = self.entries();
        entries.retain(|entry| {
            !paths
                .iter()
                .any(|path| entry.contains(&format!("\t{path} ")))
        });
        entries
    }

    pub(super) fn status(&self) -> Vec<String> {
        self.git(&["status", "--porcelain", "-uall", "--", ".", ":!.wiki-sync"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn lock(&self) -> PathBuf {
        PathBuf::from(
            self.git(&[
                "rev-parse",
                "--path-format=absolute",
                "--git-path",
                "index.lock",
            ])
            .trim_end(),
        )
    }

    /// Asserts that the repository is sound and that nothing of ours lies about.
    #[track_caller]
    pub(super) fn is_sound(&self) {
        let git_dir = self.git(&["rev-parse", "--absolute-git-dir"]);
        let git_dir = Path::new(git_dir.trim_end());
        for left in [
            "wiki-sync-index",
            "wiki-sync-index.new",
            "wiki-sync-index.new.lock",
            "wiki-sync-journal",
            "wiki-sync-journal.new",
            "wiki-sync-pack",
        ] {
            assert!(!git_dir.join(left).exists(), "{left} was left");
        }
        let fsck = self.command(&["fsck", "--strict", "--no-dangling"]);
        let said = String::from_utf8_lossy(&fsck.stderr).into_owned();
        assert!(fsck.status.success(), "{said}");
        assert!(
            !said.contains("error") && !said.contains("warning"),
            "{said}"
        );
    }
}

pub(super) fn page(path: &str, text: &str) -> Change {
    let path = PagePath::parse(path).expect("a page's path");
    Change::Put(Arc::new(Page::new(path, text.into(), Labels::default())))
}

pub(super) fn remove(path: &str) -> Change {
    Change::Remove(PagePath::parse(path).expect("a page's path"))
}

pub(super) const NOTHING: Applied = Applied {
    changed: false,
    mark: None,
};
