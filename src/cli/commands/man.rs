//! `wiki-sync man`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::out::count;
use crate::cli::{Cli, Context, VERSION};

/// Write the man pages into a folder, one for each command
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; made when it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &ManArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let folder = cx.start.join(&args.folder);
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    fs::create_dir_all(&folder)
        .and_then(|()| write(&command, &folder, &mut pages))
        .map_err(|e| CommandError::caused(format!("cannot write to {}", folder.display()), &e))?;
    if cx.out.is_json() {
        cx.out.json(&pages);
    } else {
        let pages = count(pages.len() as u64, "man page");
        cx.out.say(format_args!("{pages} in {}", folder.display()));
    }
    Ok(Exit::Ok)
}

/// Writes the page of a command, and those of the commands below it.
fn write(command: &Command, folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    let page = Man::new(command.clone())
        .source(format!("wiki-sync {VERSION}"))
        .manual("wiki-sync");
    pages.push(page.generate_to(folder)?);
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        write(below, folder, pages)?;
    }
    Ok(())
}
