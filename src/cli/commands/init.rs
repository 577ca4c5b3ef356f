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
use crate::config::{Commits, FILE_NAME, Origin, template};
use crate::hooks::change::Act;
use crate::state::STATE_DIR;

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

    let stated = |key: &crate::config::Key| at.config.origin(key) == Origin::Flag;
    let file = at.root.path.join(FILE_NAME);
    note(
        FILE_NAME.into(),
        write_new(&file, &template(&at.config, stated))?,
    );

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
    let about = |name: &str| match name {
        FILE_NAME => "settings; every line shows a default and is commented out",
        HOOKS => "announce what git changes; `wiki-sync hooks uninstall` takes them out",
        name if name.starts_with(STATE_DIR) => "state; ignores itself and can be lost",
        _ => "the pages",
    };
    cx.out.say(format_args!("wiki at {}", done.root));
    for name in &done.created {
        cx.out
            .say(format_args!("  made  {name:16} {}", about(name)));
    }
    for name in &done.kept {
        cx.out
            .say(format_args!("  kept  {name:16} {}", about(name)));
    }
    if at.config.git.commit != Commits::Off && !at.root.git {
        let note = "no git repository here: run `git init`, or set git.commit = \"off\"";
        cx.out.stderr("warning", note);
    }
    if let Some(error) = refused {
        cx.out
            .stderr("warning", "git hooks are not installed; all else is");
        for (label, text) in error.lines() {
            let label = if label == "error" { "caused by" } else { label };
            cx.out.stderr(label, text);
        }
    }
    cx.out.say(format_args!(
        "next: write Markdown pages below {pages}/, then run `wiki-sync drain`"
    ));
    Ok(Exit::Ok)
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
