//! Where git looks for hooks: asked of git itself, since any of five kinds of files may have moved the place.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Event, HooksError, block};

/// Asks git about one work tree.
#[derive(Debug, Clone)]
pub struct Git {
    /// The work tree's root.
    pub root: PathBuf,
    /// The variables by which the user's own git is configured (`GIT_CONFIG_*`), which this process may have been
    /// started without.
    pub configured_by: Vec<(OsString, OsString)>,
}

impl Git {
    /// Runs git with these arguments and returns what it printed; `None` when it exits with `nothing`.
    fn ask(&self, args: &[&str], nothing: Option<i32>) -> Result<Option<Vec<u8>>, HooksError> {
        let ran = Command::new("git")
            .args(args)
            .current_dir(&self.root)
            .envs(self.configured_by.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| HooksError::Git(format!("`git` does not start: {e}")))?;
        if ran.status.success() {
            return Ok(Some(ran.stdout));
        }
        if ran.status.code() == nothing && ran.stderr.is_empty() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let said = said.lines().next().unwrap_or("it says nothing");
        Err(HooksError::Git(format!("git {}: {said}", args.join(" "))))
    }

    fn path(&self, args: &[&str]) -> Result<PathBuf, HooksError> {
        let mut printed = self.ask(args, None)?.unwrap_or_default();
        if printed.last() == Some(&b'\n') {
            printed.pop();
        }
        Ok(self.root.join(OsString::from_vec(printed)))
    }

    /// Returns the folder from which git will run hooks here, by its own word.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub fn runs_from(&self) -> Result<PathBuf, HooksError> {
        self.path(&["rev-parse", "--git-path", "hooks"])
    }
}

/// The value of `core.hooksPath` that counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HooksPath {
    /// The value as it is written.
    pub value: String,
    /// `system`, `global`, `local`, `worktree` or `command`.
    pub scope: String,
    /// The file, as git names it.
    pub origin: String,
    /// Whether it leads to no folder (`/dev/null`, nothing): git then runs no hook at all.
    pub is_off: bool,
}

impl HooksPath {
    /// Says what the setting does.
    #[must_use]
    pub fn effect(&self) -> &'static str {
        if self.is_off {
            "hooks are switched off there"
        } else {
            "git runs no hook of the repository's own folder"
        }
    }
}

/// Where this repository's hooks belong.
#[derive(Debug, Clone)]
pub struct Places {
    /// Who is asked.
    pub git: Git,
    /// The folder of the repository's own hooks, shared by all its work trees.
    pub folder: PathBuf,
    /// The setting that leads git elsewhere, where one does.
    pub elsewhere: Option<HooksPath>,
}

impl Places {
    /// Asks git.
    ///
    /// # Errors
    /// When git cannot be asked; when the folder of the hooks is a link that leads out of the repository.
    pub fn ask(git: Git) -> Result<Self, HooksError> {
        let common = git.path(&["rev-parse", "--git-common-dir"])?;
        let common = fs::canonicalize(&common).unwrap_or(common);
        let folder = common.join("hooks");
        let elsewhere = hooks_path(&git)?.and_then(|mut setting| {
            let path = expanded(&git).unwrap_or_else(|| setting.value.clone().into());
            let path = git.root.join(path);
            setting.is_off = setting.value.is_empty() || (path.exists() && !path.is_dir());
            (setting.is_off || resolved(&path) != resolved(&folder)).then_some(setting)
        });
        Ok(Self {
            git,
            folder,
            elsewhere,
        })
    }

    /// Refuses where hooks are not ours to install: git looks elsewhere, or the folder is not the repository's own.
    ///
    /// # Errors
    /// `Refused`, naming the setting, its scope and file, with the lines to paste.
    pub fn check_ours(&self, program: &str) -> Result<(), HooksError> {
        if let Some(setting) = &self.elsewhere {
            return Err(HooksError::Refused {
                reason: format!(
                    "core.hooksPath = {:?} (scope {}, {}): {}",
                    setting.value,
                    setting.scope,
                    setting.origin,
                    setting.effect()
                ),
                hints: self.ways_out(setting, program),
            });
        }
        let real = resolved(&self.folder);
        let common = self.folder.parent().unwrap_or(&self.folder);
        if !real.starts_with(common) {
            return Err(HooksError::Refused {
                reason: format!(
                    "the folder {} is a link to {}, which is not this repository's alone",
                    self.folder.display(),
                    real.display()
                ),
                hints: lines_to_paste(&real.display().to_string(), program),
            });
        }
        Ok(())
    }

    /// Returns what may be done where a setting leads git elsewhere: the lines to paste there, and how to be rid of it.
    pub(super) fn ways_out(&self, setting: &HooksPath, program: &str) -> Vec<String> {
        let value = &setting.value;
        let here = |name: &str| self.git.root.join(name).exists();
        let mut hints = if setting.is_off {
            Vec::new()
        } else if value.contains(".husky") {
            lines_to_paste(".husky", program)
        } else if ["lefthook.yml", "lefthook.yaml", ".lefthook.yml"]
            .iter()
            .any(|name| here(name))
        {
            let mut hints = vec!["add to lefthook.yml, and run `lefthook install`:".to_owned()];
            hints.extend(Event::ALL.map(|event| {
                let run = yaml(&block::one_line(event, program));
                format!("{event}: {{commands: {{wiki-sync: {{run: {run}}}}}}}")
            }));
            hints
        } else if here(".pre-commit-config.yaml") {
            let entry = yaml(&format!(
                "sh -c {}",
                yaml(&block::one_line(Event::Commit, program))
            ));
            vec![format!(
                "add to repos in .pre-commit-config.yaml: {{repo: local, hooks: [{{id: wiki-sync, name: wiki-sync, entry: {entry}, language: system, always_run: true, pass_filenames: false, stages: [post-commit, post-merge, post-checkout, post-rewrite]}}]}}"
            )]
        } else {
            lines_to_paste(value, program)
        };
        let unset = match setting.scope.as_str() {
            scope @ ("system" | "global" | "local" | "worktree") => {
                format!("if it is not needed: `git config --{scope} --unset core.hooksPath`")
            }
            _ => "if it is not needed, take it out of the command line or environment".to_owned(),
        };
        let or = if hints.is_empty() { "" } else { "or, " };
        hints.push(format!("{or}{unset}"));
        hints
    }
}

/// Returns the lines that do the same from another folder's hooks.
fn lines_to_paste(folder: &str, program: &str) -> Vec<String> {
    let folder = folder.trim_end_matches('/');
    let line = |event| block::one_line(event, program);
    Event::ALL
        .map(|event| format!("add to {folder}/{event}: {}", line(event)))
        .into()
}

/// Returns the text as a quoted scalar of YAML.
fn yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the value of `core.hooksPath` that counts, the last one.
fn hooks_path(git: &Git) -> Result<Option<HooksPath>, HooksError> {
    let args = [
        "config",
        "--show-scope",
        "--show-origin",
        "-z",
        "--get-all",
        "core.hooksPath",
    ];
    let Some(printed) = git.ask(&args, Some(1))? else {
        return Ok(None);
    };
    let words: Vec<_> = printed
        .split(|&byte| byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    Ok(words.chunks_exact(3).last().map(|setting| HooksPath {
        scope: setting[0].to_string(),
        origin: setting[1].to_string(),
        value: setting[2].to_string(),
        is_off: false,
    }))
}

/// Returns the same as a path: git expands `~/` and `%(prefix)/`.
fn expanded(git: &Git) -> Option<PathBuf> {
    let args = ["config", "--type=path", "-z", "--get", "core.hooksPath"];
    let mut printed = git.ask(&args, Some(1)).ok()??;
    printed.pop();
    Some(PathBuf::from(OsString::from_vec(printed)))
}

/// Returns the path without links, also of a folder that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => fs::canonicalize(parent)
            .unwrap_or_else(|_| parent.to_path_buf())
            .join(name),
        _ => path.to_path_buf(),
    })
}

/// Returns the path by which this program is to be called: as it was called, where that leads to it (a link outlives
/// the version behind it), else its own file's.
///
/// # Errors
/// When its own file cannot be found, or its path cannot stand in a hook.
pub fn program(called: &OsStr, search: Option<&OsStr>) -> Result<String, HooksError> {
    let own = std::env::current_exe()
        .map_err(|e| HooksError::io("find", Path::new("this program"), e))?;
    let leads_here =
        |path: &PathBuf| path.is_absolute() && fs::canonicalize(path).is_ok_and(|real| real == own);
    let called = if called.as_bytes().contains(&b'/') {
        std::path::absolute(called).ok()
    } else {
        search.and_then(|search| {
            std::env::split_paths(search)
                .map(|folder| folder.join(called))
                .find(|path| path.is_file())
        })
    };
    let path = called.filter(leads_here).unwrap_or(own);
    match path.to_str() {
        Some(text) if !text.contains(['\n', '\r']) && path.is_file() => Ok(text.to_owned()),
        _ => Err(HooksError::Refused {
            reason: format!("{} cannot be called from a hook", path.display()),
            hints: vec!["put wiki-sync where its path is plain text on one line".to_owned()],
        }),
    }
}
