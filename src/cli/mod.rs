//! The command line: the only part that prints, and the only one that reads settings.
//!
//! | file | what |
//! |---|---|
//! | `commands/` | one file per command: its arguments, what it does, its printing |
//! | `open.rs` | which implementation stands behind a setting |
//! | `checks.rs` | what `doctor` looks at |
//! | `root.rs`, `paths.rs` | where the wiki is, and which page a person means |
//! | `error.rs`, `exit.rs` | from an error to its message and exit code |
//! | `out.rs`, `progress.rs` | printing |
//! | `log.rs` | the log on stderr |
//! | `signals.rs` | what asks a long run to stop |
//! | `environment.rs` | what git's hooks must not hand us |

mod checks;
mod commands;
mod environment;
mod error;
mod exit;
mod log;
mod open;
mod out;
mod paths;
mod progress;
mod root;
mod signals;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory as _, Parser};

use self::error::CommandError;
pub use self::exit::Exit;
use self::open::Workspace;
use self::out::{Form, Out};

/// Keeps a Markdown wiki equal in three stores: a graph in SQLite, vectors in Qdrant, files in git.
#[derive(Debug, Parser)]
#[command(name = "wiki-sync", version = VERSION, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: commands::Command,
}

/// The version, with the commit that it was built from where that is known.
const VERSION: &str = env!("WIKI_SYNC_VERSION");

const AFTER_HELP: &str = "\
Exit codes: 0 all well · 1 error · 2 usage · 3 needs a person (drift, dead letters) ·
4 refused (a setting or repository that we will not touch) · 75 jobs held, try later";

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Global {
    /// Work as if started in this folder
    #[arg(short = 'C', long = "root", value_name = "DIR", global = true)]
    root: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    /// Print only troubles, and what was asked for
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Tell on stderr each step of each job; twice: what is asked of stores and servers too
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// Set a setting for this run (`init` writes it into the settings file); may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE", global = true)]
    set: Vec<String>,
}

/// What every command needs.
struct Context {
    /// The folder that we work in: absolute.
    start: PathBuf,
    /// The settings given as flags.
    flags: Vec<String>,
    out: Out,
}

impl Context {
    /// Finds the wiki and warns about settings that are none.
    fn workspace(&mut self) -> Result<Workspace, CommandError> {
        let found = Workspace::find(&self.start, &self.flags)?;
        self.warn(&found.config.warnings);
        Ok(found)
    }

    /// Finds the wiki for a command that only asks: it makes no state where there is none.
    fn workspace_to_ask(&mut self) -> Result<Workspace, CommandError> {
        Ok(self.workspace()?.only_asking()?)
    }

    fn warn(&mut self, warnings: &[String]) {
        for warning in warnings {
            self.out.stderr("warning", warning);
        }
    }
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let mut early = Out::of_process(Form::Full);
    if let Err(error) = environment::scrub() {
        return fail(&mut early, &error).into();
    }
    environment::take_small_pages();
    hush_the_engine();
    #[cfg(feature = "testing")]
    {
        crate::testing::arm_kill_from_env();
        crate::testing::arm_stop_from_env();
    }
    match Cli::try_parse() {
        Ok(cli) => run(cli).into(),
        Err(mut error) => {
            suggest_the_likeliest(&mut error);
            // A closed stdout or stderr is nobody to tell.
            let _ = error.print();
            let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
            ExitCode::from(code)
        }
    }
}

/// Puts the likeliest of the commands that may have been meant first, where the library has it last, and leaves out what is
/// hidden.
fn suggest_the_likeliest(error: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = error.get(kind) else {
        return;
    };
    let all = Cli::command();
    let is_hidden = |name: &str| all.find_subcommand(name).is_some_and(Command::is_hide_set);
    let names: Vec<_> = (names.iter().rev())
        .filter(|name| !is_hidden(name))
        .cloned()
        .collect();
    if names.is_empty() {
        error.remove(kind);
    } else {
        error.insert(kind, ContextValue::Strings(names));
    }
}

/// Qdrant Edge panics where the disk fails; that is caught and told as an error, so its trace is noise.
fn hush_the_engine() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let from_engine = panic
            .location()
            .is_some_and(|place| place.file().contains("qdrant-edge"));
        if !from_engine {
            usual(panic);
        }
    }));
}

fn run(cli: Cli) -> Exit {
    let mut out = Out::of_process(match (cli.global.json, cli.global.quiet) {
        (true, _) => Form::Json,
        (false, true) => Form::Quiet,
        (false, false) => Form::Full,
    });
    log::given(cli.global.verbose, cli.global.quiet);
    let start = match start_folder(cli.global.root) {
        Ok(start) => start,
        Err(error) => return fail(&mut out, &error),
    };
    let mut cx = Context {
        start,
        flags: cli.global.set,
        out,
    };
    let exit = match cli.command.run(&mut cx) {
        Ok(exit) => exit,
        Err(error) => fail(&mut cx.out, &error),
    };
    match cx.out.finish() {
        Ok(()) => exit,
        Err(error) => fail(&mut Out::of_process(Form::Full), &error),
    }
}

fn start_folder(given: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    let folder = match given {
        Some(folder) => folder,
        None => std::env::current_dir()
            .map_err(|e| CommandError::caused("cannot tell the current folder", &e))?,
    };
    folder
        .canonicalize()
        .map_err(|e| CommandError::caused(format!("cannot go to {}", folder.display()), &e))
}

fn fail(out: &mut Out, error: &CommandError) -> Exit {
    for (label, text) in error.lines() {
        out.stderr(label, text);
    }
    error.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_command_line_exits_with_2_and_help_with_0() {
        let code = |args: &[&str]| {
            Cli::try_parse_from(args)
                .expect_err("no command to run")
                .exit_code()
        };
        assert_eq!(code(&["wiki-sync", "--no-such"]), 2);
        assert_eq!(code(&["wiki-sync", "nonsense"]), 2);
        assert_eq!(code(&["wiki-sync", "dlq", "retry"]), 2);
        assert_eq!(code(&["wiki-sync", "dlq", "drop", "1", "--all"]), 2);
        assert_eq!(code(&["wiki-sync", "--help"]), 0);
        assert_eq!(code(&["wiki-sync", "--version"]), 0);
    }
}
