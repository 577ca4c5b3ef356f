//! A throw-away wiki in a real repository, and the built binary to work on it.

// Without an engine few tests are left to use it.
#![cfg_attr(not(feature = "edge"), allow(dead_code))]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What a run of the binary gave.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("output is UTF-8"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("no JSON ({e}): {} {}", self.out, self.err))
    }

    /// Checks the exit code and returns the output.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "out: {}\nerr: {}",
            self.out,
            self.err
        );
        self
    }
}

/// A repository with a wiki in it, and a home of its own.
pub(crate) struct Wiki {
    dir: tempfile::TempDir,
    pub(crate) env: BTreeMap<String, String>,
}

impl Wiki {
    /// An empty folder, no repository.
    pub(crate) fn bare_folder() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("wiki-sync-test-")
            .tempdir()
            .unwrap();
        fs::create_dir_all(dir.path().join("repo")).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self {
            dir,
            env: BTreeMap::new(),
        }
    }

    /// A repository with one commit and an identity, and `wiki-output/` with these pages.
    pub(crate) fn with(pages: &[(&str, &str)]) -> Self {
        let wiki = Self::bare_folder();
        fs::write(
            wiki.dir.path().join("home/.gitconfig"),
            "[user]\n\tname = Tester\n\temail = tester@example.invalid\n[init]\n\tdefaultBranch = main\n",
        )
        .unwrap();
        fs::create_dir(wiki.root().join("wiki-output")).unwrap();
        wiki.git(&["init", "-q"]);
        fs::write(wiki.root().join("README"), "x\n").unwrap();
        wiki.git(&["add", "README"]);
        wiki.git(&["commit", "-qm", "start"]);
        for (path, text) in pages {
            wiki.write(path, text);
        }
        wiki
    }

    /// Three pages that link to each other, one of them Korean.
    pub(crate) fn small() -> Self {
        Self::with(&[
            (
                "wiki-output/a.md",
                "---\ntitle: Alpha\ntags: [x]\n---\n# Alpha\n\nSee [[b]] and [[sub/c|C]].\n\n## Queue\n\nRedis list as outbox.\n",
            ),
            ("wiki-output/b.md", "# Beta\n\nBack to [Alpha](a.md).\n"),
            (
                "wiki-output/sub/c.md",
                "# 감마\n\n아웃박스 패턴은 여러 저장소를 결국 일관되게 맞춘다. [[없는 페이지]]\n",
            ),
        ])
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// Leaves the folder on disk, for whoever looks into it, and returns it.
    pub(crate) fn keep(self) -> PathBuf {
        self.dir.keep()
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root());
        for (name, _) in std::env::vars() {
            if name.starts_with("GIT_") || name.starts_with("WIKI_SYNC") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.dir.path().join("home"))
            .env("XDG_CONFIG_HOME", self.dir.path().join("home/.config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(&self.env);
        command
    }

    /// Returns another program as a command, in the same surroundings.
    pub(crate) fn other(&self, program: &Path) -> Command {
        self.command(program)
    }

    /// Runs git and returns what it printed; it must succeed.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let ran = Ran::of(self.command(Path::new("git")).args(args).output().unwrap());
        assert_eq!(ran.code, Some(0), "git {args:?}: {}", ran.err);
        ran.out
    }

    /// Returns git as a command, to be started beside others.
    pub(crate) fn git_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(Path::new("git"));
        command.args(args);
        command
    }

    /// Runs git, whatever comes of it.
    pub(crate) fn try_git(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(Path::new("git")).args(args).output().unwrap())
    }

    /// Returns the binary as a command, ready to be given arguments.
    pub(crate) fn binary(&self) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_wiki-sync")))
    }

    pub(crate) fn ws(&self, args: &[&str]) -> Ran {
        Ran::of(self.binary().args(args).output().unwrap())
    }

    /// Runs the binary with `--json`; it must exit with `code`.
    #[track_caller]
    pub(crate) fn json(&self, code: i32, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        self.ws(&args).code(code).json()
    }

    /// Drains; everything must be in sync afterwards.
    #[track_caller]
    pub(crate) fn drain(&self) -> Value {
        self.json(0, &["drain"])
    }

    /// Runs the binary and lets it be killed at a point; returns whether it was.
    pub(crate) fn killed_at(&self, point: &str, args: &[&str]) -> bool {
        Self::killed(self.binary().args(args), point)
    }

    /// Runs a drain whose stores are touched one after another, in the order of their names in `verify`'s head, and kills it
    /// after so many of them.
    pub(crate) fn killed_after_stores(&self, stores: usize) -> bool {
        let mut drain = self.binary();
        drain.arg("drain");
        drain.env("WIKI_SYNC_TEST_PLANNED_AT", "drain.one_by_one");
        Self::killed(&mut drain, &format!("drain.applied#{stores}"))
    }

    fn killed(command: &mut Command, point: &str) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        let output = command
            .env("WIKI_SYNC_TEST_KILL_AT", point)
            .output()
            .unwrap();
        output.status.signal() == Some(9)
    }

    /// Checks that every store holds the pages, the repository is sound and clean, and no lock is left.
    #[track_caller]
    pub(crate) fn assert_in_sync(&self) {
        let verify = self.ws(&["verify", "--json"]);
        assert_eq!(verify.code, Some(0), "{} {}", verify.out, verify.err);
        assert_eq!(verify.json()["in_sync"], true);
        self.assert_sound();
    }

    /// Checks that the repository is sound and clean, and no lock is left.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(
            self.git(&["status", "--porcelain"]),
            "",
            "work tree is clean"
        );
        let fsck = self.try_git(&["fsck", "--strict", "--no-dangling"]);
        assert_eq!((fsck.code, fsck.err.as_str()), (Some(0), ""), "fsck");
        assert!(
            !self.root().join(".git/index.lock").exists(),
            "no lock is left"
        );
        assert!(
            !self.root().join(".git/wiki-sync-journal").exists(),
            "no journal is left"
        );
    }

    /// The pages HEAD holds.
    pub(crate) fn head_pages(&self) -> Vec<String> {
        let list = self.git(&["ls-tree", "-r", "-z", "--name-only", "HEAD", "wiki-output"]);
        list.split_terminator('\0').map(str::to_owned).collect()
    }
}

/// Makes a certificate for this machine, which nobody trusts yet; returns the files of it and of its key.
pub(crate) fn certificate(folder: &Path) -> [String; 2] {
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &at("key"), "-out", &at("cert")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    [at("cert"), at("key")]
}
