//! `wiki-sync init`

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::hooks;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::root::Root;
use crate::config::{Commits, FILE_NAME, KEYS, Key, Origin, template};
use crate::hooks::change::Act;
use crate::model::{Failure, FailureKind};
use crate::state::STATE_DIR;
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
    for (other, pages) in others_with_markdown(&at)? {
        let (stand, files) = match pages {
            1 => ("stands", "1 Markdown file".to_owned()),
            MANY.. => ("stand", format!("{MANY} Markdown files or more")),
            pages => ("stand", format!("{pages} Markdown files")),
        };
        cx.out.note(format_args!(
            "{files} {stand} in {other}/: `wiki-sync init --set wiki.pages={other}` takes those"
        ));
    }
    cx.out.say(format_args!(
        "next: write Markdown pages below {pages}/, then run `wiki-sync drain`"
    ));
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

/// Returns, where there is no page and nobody said where the pages are, the folders at the top, hidden ones and those that git ignores left out, in which there are files that would be
/// pages, and how many, counted up to [`MANY`]; those with most of them first, three at most. Nobody waits for it long: what
/// lies beyond the first folders is not looked at.
///
/// # Errors
/// As [`Wiki::is_empty`].
fn others_with_markdown(at: &Workspace) -> Result<Vec<(String, u64)>, Failure> {
    let is_chosen = KEYS
        .iter()
        .any(|key| key.full_name() == "wiki.pages" && at.config.origin(key) != Origin::Default);
    if is_chosen || !at.wiki.is_empty()? {
        return Ok(Vec::new());
    }
    let ignored = open::ignored_by_git(at);
    let mut found = Vec::new();
    let entries = fs::read_dir(&at.root.path).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_plain = name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder
            || !is_plain
            || name.starts_with('.')
            || name == "node_modules"
            || ignored(&name)
        {
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
            found.push((name, pages));
        }
    }
    found.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
    found.truncate(3);
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
