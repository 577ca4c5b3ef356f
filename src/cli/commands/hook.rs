//! `wiki-sync hook`: what the installed hooks call. Git waits for it, so its time is bounded; whatever goes wrong, the hook
//! that called leaves a hint.

use std::process;
use std::time::Duration;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::hooks::Event;
use crate::outbox::EMBEDDED;

/// How long all of it may take. Far more than reading two trees does on a busy machine.
const ALL: Duration = Duration::from_secs(1);
/// How long an outbox on a server may take to answer.
const SERVER: Duration = Duration::from_millis(50);
/// How long the embedded one may: a neighbour writes for some milliseconds, and so many pages may have changed.
const DATABASE: Duration = Duration::from_millis(250);

/// Announce what HEAD has changed since it was last seen (called by the installed hooks)
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct HookArgs {
    /// The hook's name
    #[arg(value_parser = event)]
    event: Event,
    /// What git handed to the hook
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _args: Vec<std::ffi::OsString>,
}

fn event(name: &str) -> Result<Event, String> {
    Event::of_name(name).ok_or_else(|| "not the name of a hook of ours".into())
}

pub(super) fn run(args: &HookArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    give_up_after(ALL);
    let ws = Workspace::find(&cx.start, &cx.flags)?;
    if !ws.state.path().is_dir() {
        return Ok(Exit::Ok);
    }
    let head = ws.head_pages()?;
    if head.is_rebasing() && args.event != Event::Rewrite {
        return Err(CommandError::new("a rebase is under way"));
    }
    give_up_after(if ws.config.outbox.url == EMBEDDED {
        DATABASE
    } else {
        SERVER
    });
    ws.announce_head(&head)?;
    // The last one to close the database tidies it up, and git waits: that is for a drain to do.
    process::exit(0)
}

/// Ends the process when it still runs after this time. Killed at any moment, nothing is lost.
fn give_up_after(limit: Duration) {
    // A busy machine says nothing of what is tested.
    if cfg!(feature = "testing") && std::env::var_os("WIKI_SYNC_TEST_UNHURRIED").is_some() {
        return;
    }
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        process::exit(1);
    });
}
