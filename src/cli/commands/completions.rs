//! `wiki-sync completions`

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::exit::Exit;
use crate::cli::{Cli, Context, VERSION};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const NAME: &str = "wiki-sync";

pub(super) fn run(args: &CompletionsArgs, cx: &mut Context) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), NAME, &mut script);
    let script = String::from_utf8_lossy(&script);
    cx.out.line(match args.shell {
        Shell::Bash => with_labels_that_match(&script),
        _ => script.into_owned(),
    });
    Exit::Ok
}

/// Returns the command line as it is offered: completions do not leave out what is hidden.
fn offered() -> Command {
    let whole = Cli::command();
    let below = whole.get_subcommands().filter(|below| !below.is_hide_set());
    Command::new(NAME)
        .version(VERSION)
        .args(whole.get_arguments().cloned())
        .subcommands(below.cloned())
}

/// Mends what bash is given: `clap_complete` 4.6 writes a hyphen of the program's name as `__` where it says which command
/// was typed, and as `__subcmd__` in the labels that are compared with it, so that no label ever matches
/// (<https://github.com/clap-rs/clap/issues/6421>). Where it writes both alike, nothing is changed.
fn with_labels_that_match(script: &str) -> String {
    let typed = NAME.replace('-', "__");
    let compared = NAME.replace('-', "__subcmd__");
    script.trim_end().replace(
        &format!("{compared}__subcmd__"),
        &format!("{typed}__subcmd__"),
    )
}
