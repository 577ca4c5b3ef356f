//! `wiki-sync mcp`

use std::path::PathBuf;

use rusqlite::Connection;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::signals;
use crate::mcp::{Call, Place, Source, Trouble, serve};
use crate::model::{Failure, PagePath, Timestamp};
use crate::outbox::{Counts, DeadLetter};
use crate::query::search::{Asked, Found};
use crate::query::status::{StatusReport, status};
use crate::state::{Receipts, StateDir};
use crate::wiki::Wiki;

/// Serve the wiki to a language model: an MCP server over stdin and stdout, which only reads
///
/// Started by the model's client. Ends when stdin does.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {}

/// Finds the wiki for each call.
struct Finder {
    start: PathBuf,
    flags: Vec<String>,
}

/// The wiki of one call.
struct Here(Workspace, Call);

pub(super) fn run(_args: &McpArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    // Said now, where the client shows it, and not only at the first call.
    cx.workspace()?;
    let finder = Finder {
        start: cx.start.clone(),
        flags: cx.flags.clone(),
    };
    serve(finder, &signals::heard())
        .map_err(|e| CommandError::caused("the MCP server ended", &e))?;
    Ok(Exit::Ok)
}

impl Source for Finder {
    fn find(&self, call: &Call) -> Result<Box<dyn Place>, Trouble> {
        let found = Workspace::find(&self.start, &self.flags)?;
        Ok(Box::new(Here(found.stopping(&call.stop), call.clone())))
    }
}

impl Place for Here {
    fn wiki(&self) -> &Wiki {
        &self.0.wiki
    }

    fn state(&self) -> &StateDir {
        &self.0.state
    }

    fn graph(&self) -> Result<Connection, Failure> {
        self.0.graph_to_read()
    }

    fn receipts(&self) -> Result<Receipts, Failure> {
        self.0.receipts_to_read()
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let mut outbox = self.0.outbox_to_read()?;
        outbox.counts(Timestamp::now())
    }

    fn dead_of(&self, pages: &[PagePath]) -> Result<Vec<DeadLetter>, Failure> {
        self.0.outbox_to_read()?.dead_of(pages)
    }

    fn search(&self, asked: &Asked<'_>) -> Result<Found, Failure> {
        self.0.receipts_to_read()?;
        let turn = asked.turn.unwrap_or(self.1.left());
        open::search(
            &self.0,
            &Asked {
                turn: Some(turn),
                only: asked.only.clone(),
                ..*asked
            },
        )
    }

    fn status(&self) -> Result<StatusReport, Failure> {
        status(&mut self.0.parts_to_read()?, Timestamp::now())
    }
}

impl From<CommandError> for Trouble {
    fn from(error: CommandError) -> Self {
        let causes = error.causes.iter().map(|cause| format!(": {cause}"));
        let trouble = Self::new(error.error.clone() + &causes.collect::<String>());
        error.hints.into_iter().fold(trouble, Self::hint)
    }
}
