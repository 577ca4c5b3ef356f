//! `wiki-sync hooks install`, `uninstall`, `status`

use serde::Serialize;

use crate::cli::Context;
use crate::cli::environment;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Out, Style, clean};
use crate::cli::root::Root;
use crate::hooks::change::{Act, Plan};
use crate::hooks::places::{Git, Places, program};
use crate::hooks::status::HooksStatus;
use crate::hooks::{self, HooksError};

/// What to do with the hooks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum HooksCommand {
    /// Put our lines into the repository's hooks; the second time nothing changes
    Install(ChangeArgs),
    /// Take them out again: the user's own hooks are what they were
    Uninstall(ChangeArgs),
    /// Show whether git will run them, and why not
    Status,
}

/// How to change the hooks.
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// What became of one hook.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    name: &'static str,
    act: &'static str,
}

#[derive(Serialize)]
struct Changed {
    dry_run: bool,
    folder: String,
    hooks: Vec<Done>,
}

pub(super) fn run(command: &HooksCommand, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = match command {
        HooksCommand::Install(_) => cx.workspace()?,
        // Also where the pages are gone.
        HooksCommand::Uninstall(_) | HooksCommand::Status => {
            let (root, config) = open::settings(&cx.start, &cx.flags)?;
            cx.warn(&config.warnings);
            let path = cx.start.clone();
            let root = root.unwrap_or(Root { path, git: false });
            Workspace::at(root, config, cx.start.clone())?
        }
    };
    let places = places(&ws)?;
    let (plan, args) = match command {
        HooksCommand::Install(args) if args.dry_run => {
            (hooks::change::install(&places, &own_path()?, true)?, args)
        }
        HooksCommand::Install(args) => (install(&ws, &places)?, args),
        HooksCommand::Uninstall(args) => (hooks::change::uninstall(&places, args.dry_run)?, args),
        HooksCommand::Status => {
            let status = look(&places)?;
            if cx.out.is_json() {
                cx.out.json(&status);
            } else {
                print(&mut cx.out, &status);
            }
            return Ok(Exit::Ok);
        }
    };
    let changed = Changed {
        dry_run: args.dry_run,
        folder: places.folder.display().to_string(),
        hooks: done(&plan),
    };
    if cx.out.is_json() {
        cx.out.json(&changed);
        return Ok(Exit::Ok);
    }
    let title = if args.dry_run {
        "would change hooks in"
    } else {
        "hooks in"
    };
    cx.out.say(format_args!("{title} {}", changed.folder));
    for hook in &changed.hooks {
        let about = about(hook.act);
        cx.out
            .say(format_args!("  {:8}  {:15}  {about}", hook.act, hook.name));
    }
    Ok(Exit::Ok)
}

/// Says what an act means for the user.
fn about(act: &str) -> &'static str {
    match act {
        "created" => "a file of ours",
        "changed" => "only our lines in it",
        "chained" => "yours is in wiki-sync.d/ and runs as before",
        "restored" => "yours is back in its place",
        "removed" => "it was a file of ours",
        _ => "as it was",
    }
}

fn done(plan: &Plan) -> Vec<Done> {
    let one = |(event, act): &(hooks::Event, Act)| Done {
        name: event.name(),
        act: act.word(),
    };
    plan.iter().map(one).collect()
}

/// Asks git where the hooks of this wiki belong.
pub(super) fn places(ws: &Workspace) -> Result<Places, HooksError> {
    if !ws.root.git {
        return Err(HooksError::Refused {
            reason: format!("{} is in no git repository", ws.root.path.display()),
            hints: vec!["run `git init`; without git, nothing has hooks".to_owned()],
        });
    }
    Places::ask(Git {
        root: ws.root.path.clone(),
        configured_by: environment::git_configuration(),
    })
}

/// Looks whether git will run the hooks.
pub(super) fn look(places: &Places) -> Result<HooksStatus, HooksError> {
    // What cannot be called is told by an install; here it is only named.
    let program = own_path().unwrap_or_else(|_| "wiki-sync".to_owned());
    hooks::status::status(places, &program)
}

pub(in crate::cli) fn own_path() -> Result<String, HooksError> {
    let called = std::env::args_os().next().unwrap_or_default();
    program(&called, std::env::var_os("PATH").as_deref())
}

/// Installs the hooks, and sees HEAD as it is now, so that the first of them compares with that.
pub(super) fn install(ws: &Workspace, places: &Places) -> Result<Plan, CommandError> {
    let plan = hooks::change::install(places, &own_path()?, false)?;
    // Else the next drain does it: nothing is lost but a moment at the first commit.
    let _ = ws.head_pages().and_then(|head| ws.announce_head(&head));
    Ok(plan)
}

fn print(out: &mut Out, status: &HooksStatus) {
    out.line(summary(out, status));
    let folder = match &status.elsewhere {
        Some(_) => &status.runs_from,
        None => &status.folder,
    };
    out.line(format_args!("folder  {}", clean(folder)));
    for hook in &status.hooks {
        let state = match (hook.installed, hook.runs) {
            (true, true) => out.paint(Style::Good, "runs").into_owned(),
            (true, false) => out.paint(Style::Bad, "does not run").into_owned(),
            (false, _) => out.paint(Style::Warn, "not installed").into_owned(),
        };
        let why = match &hook.why {
            Some(why) => format!("  {}", clean(why)),
            None => String::new(),
        };
        out.line(format_args!("{:15}  {state}{why}", hook.name));
    }
    for hint in &status.hints {
        out.line(format_args!("hint: {}", clean(hint)));
    }
}

/// Returns in one line whether git will run the hooks.
pub(super) fn summary(out: &Out, status: &HooksStatus) -> String {
    if status.runs {
        return out
            .paint(Style::Good, "installed, and git runs them")
            .into_owned();
    }
    let none = !status.hooks.iter().any(|hook| hook.installed);
    if let (true, Some(setting)) = (none, &status.elsewhere) {
        let what = if setting.is_off {
            setting.effect()
        } else {
            "git runs the hooks of another folder, and nothing of ours is seen there"
        };
        return format!(
            "not installed: core.hooksPath = {:?} ({}): {what}",
            setting.value,
            clean(&setting.origin)
        );
    }
    if none {
        return "not installed: `wiki-sync hooks install` does it".into();
    }
    let why = status.hooks.iter().find(|hook| !hook.runs);
    let why = why.map_or(String::new(), |hook| {
        let why = hook.why.as_deref().unwrap_or("not installed");
        format!(": {}: {}", hook.name, clean(why))
    });
    out.paint(Style::Bad, format!("not all of them run{why}"))
        .into_owned()
}
