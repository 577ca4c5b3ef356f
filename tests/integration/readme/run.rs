//! Running a block's commands in a shell, with real servers where it needs some.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use wiki_sync::testing::qdrant_server::QdrantServer;
use wiki_sync::testing::{EmbeddingServer, MODEL, RedisServer};

use super::blocks::{self, Block};
use crate::wiki::{Ran, Wiki};

/// Where the README's reader works.
const THEIRS: &str = "/home/me/my-repository";

/// What a block needs beside the program, and where it left off.
pub(super) struct Stage {
    wiki: Wiki,
    /// Where the last command left the shell.
    at: PathBuf,
    tools: tempfile::TempDir,
    /// What the README says, and what it is here.
    words: Vec<(String, String)>,
    redis: Option<RedisServer>,
    _embeddings: Option<EmbeddingServer>,
    _qdrant: Option<QdrantServer>,
}

impl Stage {
    fn of(block: &Block) -> Self {
        let all = format!("{}{}", block.before, block.text);
        let mut wiki = if block.is_empty {
            Wiki::bare_folder()
        } else {
            let wiki = Wiki::small();
            wiki.drain();
            wiki
        };
        let mut words = Vec::new();
        let redis = (all.contains(":6379") || all.contains("redis-cli")).then(|| {
            let redis = RedisServer::durable();
            words.push((
                "127.0.0.1:6379".into(),
                format!("127.0.0.1:{}", redis.port()),
            ));
            redis
        });
        let embeddings = all.contains("nomic-embed-text").then(|| {
            let server = EmbeddingServer::start();
            words.push(("nomic-embed-text".into(), MODEL.into()));
            wiki.env
                .insert("WIKI_SYNC_EMBEDDING_URL".into(), server.url());
            server
        });
        let qdrant = all.contains("localhost:6334").then(|| {
            let server = crate::qdrant::spawn();
            let address = server.url().replace("http://", "");
            words.push(("localhost:6334".into(), address));
            server
        });
        let home = if block.is_empty { "/home/me" } else { THEIRS };
        let root = wiki.root().canonicalize().unwrap();
        words.push((home.into(), root.display().to_string()));
        let tools = tempfile::tempdir().unwrap();
        let stage = Self {
            at: root,
            wiki,
            tools,
            words,
            redis,
            _embeddings: embeddings,
            _qdrant: qdrant,
        };
        stage.lay_out(&all);
        stage
    }

    /// Puts programs into the path that lead to what was built, instead of building it again.
    fn lay_out(&self, all: &str) {
        let tool = |name: &str, lines: &str| script(&self.tools.path().join(name), lines);
        let binary = env!("CARGO_BIN_EXE_wiki-sync");
        symlink(binary, self.tools.path().join("wiki-sync")).unwrap();
        tool(
            "cargo",
            &format!(
                "case \"$*\" in\n\
                 'run --release -- '*) shift 3; exec {binary} \"$@\" ;;\n\
                 'install --locked --path .') mkdir -p \"$HOME/.cargo/bin\" && ln -s {binary} \"$HOME/.cargo/bin/\" ;;\n\
                 'uninstall wiki-sync') test ! -e .wiki-sync && test ! -e wiki-sync.toml && ! grep -rqs wiki-sync .git/hooks && rm \"$HOME/.cargo/bin/wiki-sync\" ;;\n\
                 *) echo \"cargo $*: not known here\" >&2; exit 2 ;;\n\
                 esac"
            ),
        );
        // A client that is told of a server starts it, and hangs up.
        tool(
            "claude",
            "[ \"$1 $2 $4\" = 'mcp add --' ] || exit 2; shift 4; exec \"$@\" < /dev/null",
        );
        if let Some(redis) = &self.redis {
            let real = which("redis-cli");
            let port = redis.port();
            tool(
                "redis-cli",
                &format!("exec {} -p {port} \"$@\"", real.display()),
            );
        }
        // A script of ours would start these tests again, or measure for minutes: that it is there and knows its arguments.
        for name in ["test", "bench"] {
            let ours = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("scripts")
                .join(name);
            if all.contains(&format!("scripts/{name}")) {
                let folder = self.wiki.root().join("scripts");
                fs::create_dir_all(&folder).unwrap();
                script(
                    &folder.join(name),
                    &format!("exec {} --help \"$@\"", ours.display()),
                );
            }
        }
    }

    /// Returns what the README says as it is here.
    fn here(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (theirs, here) in &self.words {
            text = text.replace(theirs, here);
        }
        text
    }

    /// Returns what came as the README would say it.
    fn there(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (theirs, here) in &self.words {
            text = text.replace(here, theirs);
        }
        text
    }

    fn shell(&self, script: &str) -> Ran {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.wiki.other(Path::new("timeout"));
        let output = command
            .current_dir(&self.at)
            .args(["-k", "5", "150", "sh", "-u", "-c", script])
            .env("PATH", format!("{}:{path}", self.tools.path().display()))
            .env("NO_COLOR", "1")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn script(path: &Path, lines: &str) {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is installed: scripts/test does it"))
}

/// Runs a block's commands; each must succeed, and print what is shown.
pub(super) fn commands(block: &Block, before: Option<Stage>) -> Stage {
    let mut stage = match before {
        Some(stage) if block.goes_on => stage,
        Some(_) | None => Stage::of(block),
    };
    if !block.before.is_empty() {
        let ran = stage.shell(&format!("set -e\n{}", stage.here(&block.before)));
        assert_eq!(
            ran.code,
            Some(0),
            "README.md:{}, what comes before it: {}{}",
            block.line,
            ran.out,
            ran.err
        );
    }
    let commands = if block.language == "sh" {
        vec![(format!("set -e\n{}", block.text), vec!["…".to_owned()])]
    } else {
        block.commands()
    };
    // Between two commands a line of its own tells the exit code.
    let mut script = String::new();
    for (at, (command, _)) in commands.iter().enumerate() {
        let command = stage.here(command);
        let is_last = at + 1 == commands.len();
        let one = match &block.meanwhile {
            Some(meanwhile) if is_last => format!(
                "{command} > ../said 2>&1 & stays=$!\n{}\nkill -TERM $stays; wait $stays\ncode=$?\ncat ../said\n",
                stage.here(meanwhile)
            ),
            // In this shell, so that `cd` lasts.
            _ if block.language == "console" => format!("{{ {command}\n}} 2>&1\ncode=$?\n"),
            _ => format!("( {command}\n) 2>&1\ncode=$?\n"),
        };
        script += &one;
        script += "printf '\\001%s\\n' \"$code\"\n";
    }
    let place = stage.tools.path().join("place");
    writeln!(script, "pwd -P > {}", place.display()).unwrap();
    let ran = stage.shell(&script);
    let said = stage.there(&ran.out);
    let mut parts = said.split('\u{1}');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (at, (command, shown)) in commands.iter().enumerate() {
        let (code, next) = parts
            .next()
            .and_then(|part| part.split_once('\n'))
            .unwrap_or_else(|| panic!("README.md:{}: {command}: {out} {}", block.line, ran.err));
        let expected = if at + 1 == commands.len() {
            block.exit
        } else {
            0
        };
        let came: Vec<String> = out.lines().map(str::to_owned).collect();
        assert!(
            code == expected.to_string() && blocks::agree(shown, &came),
            "README.md:{}: $ {command}\nexit code {code}, not {expected}, or another output than is shown:\n{out}",
            block.line
        );
        next.clone_into(&mut out);
    }
    stage.at = fs::read_to_string(place).unwrap().trim_end().into();
    stage
}
