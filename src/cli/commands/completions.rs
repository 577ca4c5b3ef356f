//! `wiki-sync completions`

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::exit::Exit;
use crate::cli::{Cli, Context};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, cx: &mut Context) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wiki-sync", &mut script);
    cx.out.line(String::from_utf8_lossy(&script).trim_end());
    Exit::Ok
}
