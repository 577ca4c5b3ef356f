//! `wiki-sync rebuild`

use std::time::Duration;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open;
use crate::cli::out::{Style, count};
use crate::cli::progress::Bar;
use crate::cli::signals::stop_after_batch;
use crate::engine::rebuild::rebuild;
use crate::state::{CheckoutLock, Receipts};

/// How long a batch of a drain that is at work is waited for: it may embed.
const BATCH: Duration = Duration::from_mins(2);

/// Build a store anew, beside the one that is in use until it is whole
#[derive(Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// The store
    #[arg(value_enum)]
    store: Rebuildable,
}

/// What can be built anew beside the old one: git is no copy of anything, and the graph is rebuilt by every drain that
/// finds it gone.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Rebuildable {
    /// The vectors: after a change of the embedding model
    Vectors,
}

pub(super) fn run(args: &RebuildArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let Rebuildable::Vectors = args.store;
    let ws = cx.workspace()?;
    ws.state.create()?;
    let receipts = Receipts::open(&ws.state.database())?;
    let stop = stop_after_batch(&ws.state, &cx.out)?;
    let mut beside = open::vectors_beside(&ws)?;
    let mut bar = Bar::new(&cx.out);
    let mut built = rebuild(&ws.wiki, &receipts, &mut beside.store, &stop, &mut bar)?;
    drop(bar);
    if !built.stopped {
        // A drain in the middle of a batch would write one half of it to each.
        let _no_drain = CheckoutLock::acquire(&ws.state, BATCH)?;
        built.left = beside.put_in_place()?.left;
    }
    if cx.out.is_json() {
        cx.out.json(&built);
    } else if built.stopped {
        let title = cx.out.paint(Style::Warn, "stopped").into_owned();
        cx.out.trouble(format_args!(
            "{title} after {}; the old vectors stay, `wiki-sync rebuild vectors` goes on",
            count(built.pages, "page")
        ));
    } else {
        let title = cx.out.paint(Style::Good, "rebuilt").into_owned();
        cx.out.say(format_args!(
            "{title}: {}, {} embedded, {} at hand; the next `wiki-sync drain` looks through them once",
            count(built.pages, "page"),
            count(built.embedded, "text"),
            built.cached
        ));
        if let Some(left) = &built.left {
            cx.out.say(format_args!(
                "the collection {left:?} is left as it was: it is none that wiki-sync made for this wiki alone"
            ));
        }
    }
    if !cx.out.is_json() {
        cx.out.troubles(&built.trouble);
    }
    Ok(if built.stopped {
        Exit::Held
    } else if built.trouble.is_empty() {
        Exit::Ok
    } else {
        Exit::NeedsPerson
    })
}
