//! `wiki-sync init`

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::hooks;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::count;
use crate::cli::root::Root;
use crate::config::{Commits, FILE_NAME, KEYS, Key, Origin, template};
use crate::hooks::change::Act;
use crate::model::{Failure, FailureKind};
use crate::state::STATE_DIR;
use crate::stores::git;
use crate::wiki::{Entry, Wiki, WikiSettings};

/// Make what is missing for a wiki here: settings file, pages' folder, state folder, git hooks
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {}

#[derive(Serialize)]
struct Done {
    root: String,
    git: bool,
    created: Vec<String>,
    kept: Vec<String>,
    /// Why the hooks were not installed, where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<String>,
}

/// What the hooks are called among what is made.
const HOOKS: &str = "git hooks";

/// Installs the hooks; says whether anything had to be changed for it.
fn install_hooks(ws: &Workspace) -> Result<bool, CommandError> {
    let plan = hooks::install(ws, &hooks::places(ws)?)?;
    Ok(plan.iter().any(|(_, act)| *act != Act::Keep))
}

pub(super) fn run(_args: &InitArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let (root, config) = open::settings(&cx.start, &cx.flags)?;
    cx.warn(&config.warnings);
    let root = root.unwrap_or_else(|| Root {
        path: cx.start.clone(),
        git: false,
    });
    let at = Workspace::at(root, config, cx.start.clone())?;
    let pages = at.wiki.pages_dir().to_owned();
    let mut done = Done {
        root: at.root.path.display().to_string(),
        git: at.root.git,
        created: Vec::new(),
        kept: Vec::new(),
        hooks: None,
    };
    let mut note = |name: String, made: bool| {
        let list = if made {
            &mut done.created
        } else {
            &mut done.kept
        };
        list.push(name);
    };

    let wrote = write_settings(
        &at.root.path.join(FILE_NAME),
        &template(&at.config, |key| is_stated(&at, key)),
        &template(&at.config, |_| false),
    )?;
    note(FILE_NAME.into(), wrote);

    let folder = at.root.path.join(&pages);
    let missing = !folder.is_dir();
    fs::create_dir_all(&folder)
        .map_err(|e| CommandError::caused(format!("cannot make {}", folder.display()), &e))?;
    note(format!("{pages}/"), missing);

    let missing = !at.state.path().is_dir();
    at.state.create()?;
    note(format!("{STATE_DIR}/"), missing);

    let refused = if at.root.git {
        match install_hooks(&at) {
            Ok(made) => {
                note(HOOKS.into(), made);
                None
            }
            Err(error) => Some(error),
        }
    } else {
        None
    };
    done.hooks = refused.as_ref().map(|error| error.error.clone());

    if cx.out.is_json() {
        cx.out.json(&done);
        return Ok(Exit::Ok);
    }
    print(cx, &at, &done, wrote);
    if let Some(error) = refused {
        cx.out
            .stderr("warning", "git hooks are not installed; all else is");
        for (label, text) in error.lines() {
            let label = if label == "error" { "caused by" } else { label };
            cx.out.stderr(label, text);
        }
    }
    let elsewhere = elsewhere(&at)?;
    for note in elsewhere.told(&pages, elsewhere.is_tracked(&at.root)) {
        cx.out.note(note);
    }
    cx.out.say(if at.wiki.is_empty()? {
        format!("next: write Markdown pages below {pages}/, then run `wiki-sync drain`")
    } else {
        format!("next: `wiki-sync drain` brings the pages below {pages}/ to every store")
    });
    Ok(Exit::Ok)
}

/// Says whether a setting is to stand in the settings file: it was given for this run.
fn is_stated(at: &Workspace, key: &Key) -> bool {
    at.config.origin(key) == Origin::Flag
}

/// Prints what was made and what was there; `wrote`: whether that goes for the settings.
fn print(cx: &mut Context, at: &Workspace, done: &Done, wrote: bool) {
    let stated: Vec<_> = KEYS
        .iter()
        .filter(|key| is_stated(at, key))
        .map(|key| format!("{} = {}", key.full_name(), key.render(&at.config)))
        .collect();
    let about = |name: &str| match name {
        FILE_NAME if !wrote => "settings",
        FILE_NAME if stated.is_empty() => {
            "settings; every line shows a default and is commented out"
        }
        FILE_NAME => {
            "settings: those given with --set; every other line shows a default and is commented out"
        }
        HOOKS => "announce what git changes; `wiki-sync hooks uninstall` takes them out",
        name if name.starts_with(STATE_DIR) => "state; ignores itself and can be lost",
        _ => "the pages",
    };
    cx.out.say(format_args!("wiki at {}", done.root));
    for (what, names) in [("made", &done.created), ("kept", &done.kept)] {
        for name in names {
            cx.out
                .say(format_args!("  {what}  {name:16} {}", about(name)));
        }
    }
    if !stated.is_empty() && !wrote {
        cx.out.stderr(
            "warning",
            &format!(
                "{FILE_NAME} was there and is kept as it is; if it does not say so yet, write into it: {}",
                stated.join("; ")
            ),
        );
    }
    if at.config.git.commit != Commits::Off && !at.root.git {
        let note = "no git repository here: run `git init`, then `wiki-sync init` again for the hooks; or set git.commit = \"off\"";
        cx.out.stderr("warning", note);
    }
}

/// So many Markdown files in a folder are enough.
const MANY: u64 = 1000;
/// So many folders are looked into, for each that lies at the top.
const LOOKED_INTO: u32 = 200;
/// So many folders are named.
const NAMED: usize = 10;

/// Where Markdown lies that is no page.
#[derive(Default)]
struct Elsewhere {
    /// Folders at the top, and how many would be pages in each, counted up to [`MANY`]; those with most of them first.
    folders: Vec<(String, u64)>,
    /// Names of files at the root itself, but for those that tell of a repository and not of its subject: README, CHANGELOG.
    at_root: Vec<String>,
    /// Those.
    of_repository: Vec<String>,
}

/// Returns `1 Markdown file lies` or `2 Markdown files lie`.
fn files(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 Markdown file {one}"),
        MANY.. => format!("{MANY} Markdown files or more {several}"),
        number => format!("{number} Markdown files {several}"),
    }
}

impl Elsewhere {
    /// Says whether git has all of it, so that git can move it.
    fn is_tracked(&self, root: &Root) -> bool {
        let index = git::open_repository(&root.path).ok();
        let index = index.and_then(|repo| repo.index().ok());
        let Some(index) = index.filter(|_| root.git) else {
            return false;
        };
        let folders = self.folders.iter().map(|(name, _)| name);
        let is_there = |name: &String| index.find_prefix(format!("{name}/")).is_ok();
        folders.take(NAMED).all(is_there)
            && (self.at_root.iter()).all(|name| index.get_path(Path::new(name), 0).is_some())
    }

    /// Says where it lies, and how to take it in: one folder is the wiki. `by_git`: git is to move it.
    fn told(&self, pages: &str, by_git: bool) -> Vec<String> {
        let mv = if by_git { "git mv" } else { "mv" };
        let mut told = Vec::new();
        for (folder, number) in self.folders.iter().take(NAMED) {
            told.push(format!(
                "{} in {folder}/: `wiki-sync init --set wiki.pages={folder}` takes those",
                files(*number, "stands", "stand")
            ));
        }
        if let Some(more @ [_, ..]) = self.folders.get(NAMED..) {
            let number = more.iter().map(|(_, number)| number).sum();
            let folders = count(more.len() as u64, "more folder");
            told.push(format!("{} in {folders}", files(number, "stands", "stand")));
        }
        let number = self.at_root.len() as u64;
        if number > 0 {
            let ending = |name: &String| Some(format!("*.{}", name.rsplit_once('.')?.1));
            let endings: BTreeSet<_> = self.at_root.iter().filter_map(ending).collect();
            let moved = |name: &&String| ending(name).is_some_and(|one| endings.contains(&one));
            let back: Vec<_> = (self.of_repository.iter().filter(moved))
                .map(|name| format!("{pages}/{name}"))
                .collect();
            let back = if back.is_empty() {
                String::new()
            } else {
                format!(" && {mv} {} .", back.join(" "))
            };
            let endings: Vec<_> = endings.iter().map(String::as_str).collect();
            told.push(format!(
                "{} at the root, which itself cannot be the wiki: `{mv} -- {} {pages}/{back}` moves {} into its folder",
                files(number, "lies", "lie"),
                endings.join(" "),
                if number == 1 { "it" } else { "them" },
            ));
        }
        let names: Vec<_> = (self.folders.iter().take(NAMED))
            .map(|(name, _)| name.as_str())
            .collect();
        if names.len() + usize::from(number > 0) > 1 {
            told.push(format!(
                "one folder is the wiki: to have more than one of them in it, move them into it, as by `{mv} -- {} {pages}/`",
                names.join(" ")
            ));
        }
        told
    }
}

/// Says whether a file tells of the repository it lies in: README, CHANGELOG, LICENSE.
fn is_of_repository(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    !stem.chars().any(char::is_lowercase) && stem.chars().any(char::is_uppercase)
}

/// Returns, where there is no page and nobody said where the pages are, where else there are files that would be pages: at the
/// root, and in the folders at the top, hidden ones and those that git ignores left out. Nobody waits for it long: what
/// lies beyond the first folders is not looked at.
///
/// # Errors
/// As [`Wiki::is_empty`].
fn elsewhere(at: &Workspace) -> Result<Elsewhere, Failure> {
    let is_chosen = KEYS
        .iter()
        .any(|key| key.full_name() == "wiki.pages" && at.config.origin(key) != Origin::Default);
    let mut found = Elsewhere::default();
    if is_chosen || !at.wiki.is_empty()? {
        return Ok(found);
    }
    let ignored = open::ignored_by_git(at);
    let pages = at.wiki.pages_dir();
    let is_page = at.wiki.page_test();
    let entries = fs::read_dir(&at.root.path).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_plain = name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let kind = entry.file_type();
        if name.starts_with('.') || name == "node_modules" || ignored(&name) {
            continue;
        }
        if kind.as_ref().is_ok_and(fs::FileType::is_file) {
            // As it would be in the pages' folder.
            if is_page(&format!("{pages}/{name}")) {
                let names = if is_of_repository(&name) {
                    &mut found.of_repository
                } else {
                    &mut found.at_root
                };
                names.push(name);
            }
            continue;
        }
        if !kind.is_ok_and(|kind| kind.is_dir()) || !is_plain {
            continue;
        }
        let settings = WikiSettings {
            pages: name.clone(),
            ..at.config.wiki.clone()
        };
        let Ok(wiki) = Wiki::open(&at.root.path, &settings) else {
            continue;
        };
        let (mut pages, mut left) = (0, LOOKED_INTO);
        let mut enter = |folder: &str| {
            left = left.saturating_sub(1);
            left > 0 && !ignored(folder)
        };
        // What cannot be read is no place for a wiki.
        let _ = wiki.walk_at(&name, &mut enter, &mut |entry| {
            pages += u64::from(matches!(entry, Entry::Page { .. }));
            if pages < MANY {
                Ok(())
            } else {
                Err(Failure::new(FailureKind::Busy, "these are enough"))
            }
        });
        if pages > 0 {
            found.folders.push((name, pages));
        }
    }
    let by_number = |(a, many): &(String, u64), (b, more): &(String, u64)| {
        more.cmp(many).then_with(|| a.cmp(b))
    };
    found.folders.sort_by(by_number);
    found.of_repository.sort();
    Ok(found)
}

/// Writes the settings file where there is none, or where there is the one that an `init` without settings wrote (`untouched`),
/// in which nothing is the user's; returns whether it did.
fn write_settings(path: &Path, text: &str, untouched: &str) -> Result<bool, CommandError> {
    if text == untouched || !fs::read_to_string(path).is_ok_and(|there| there == untouched) {
        return write_new(path, text);
    }
    fs::write(path, text)
        .map_err(|e| CommandError::caused(format!("cannot write {}", path.display()), &e))?;
    Ok(true)
}

/// Writes a file that does not exist yet; returns whether it did not.
fn write_new(path: &Path, text: &str) -> Result<bool, CommandError> {
    let made = fs::File::create_new(path).and_then(|mut file| {
        use io::Write as _;
        file.write_all(text.as_bytes())
    });
    match made {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(CommandError::caused(
            format!("cannot write {}", path.display()),
            &e,
        )),
    }
}
