//! `wiki-sync serve`

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;

use super::hooks;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::signals::stop_on_signals;
use crate::config::Commits;
use crate::engine::Parts;
use crate::hooks::status::HooksStatus;
use crate::model::Failure;
use crate::outbox::Outbox;
use crate::query::search::{Asked, SNIPPET, told};
use crate::serve::{Answer, Source, plain, serve};
use crate::state::{Receipts, StateDir};
use crate::stores::vectors::Only;
use crate::wiki::Wiki;

/// Show the wiki in a browser on this machine: its state, search, graph, pages and dead letters
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The port on 127.0.0.1 [default: any that is free]
    #[arg(
        long,
        value_name = "PORT",
        default_value = "0",
        hide_default_value = true
    )]
    port: u16,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
}

/// How long a search waits for its turn with the embedded vectors: a person waits.
const TURN: Duration = Duration::from_secs(3);

pub(super) fn run(args: &ServeArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let stop = stop_on_signals(&ws.state)?;
    let ws = ws.stopping(&stop);
    let opens = !args.no_open && has_display();
    let out = &mut cx.out;
    serve(Arc::new(ws), args.port, &stop, |url| {
        if out.is_json() {
            out.json_line(&json!({ "url": url }));
        } else {
            out.line(url);
            out.note("the address works once; Ctrl-C ends it");
            out.flush();
        }
        if opens && let Err(e) = open_in_browser(url) {
            out.note(format_args!("no browser could be started: {e}"));
        }
    })?;
    Ok(Exit::Ok)
}

/// Says whether a browser could show anything.
fn has_display() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Starts a browser and does not wait for it.
fn open_in_browser(url: &str) -> std::io::Result<()> {
    ::open::that_detached(url)
}

impl Source for Workspace {
    fn wiki(&self) -> &Wiki {
        &self.wiki
    }

    fn state(&self) -> &StateDir {
        &self.state
    }

    fn has_history(&self) -> bool {
        self.root.git && self.config.git.commit != Commits::Off
    }

    fn parts(&self) -> Result<Parts, Failure> {
        self.parts_to_read()
    }

    fn outbox(&self) -> Result<Box<dyn Outbox>, Failure> {
        self.outbox_to_read()
    }

    fn graph(&self) -> Result<Connection, Failure> {
        self.graph_to_read()
    }

    fn receipts(&self) -> Result<Receipts, Failure> {
        self.receipts_to_read()
    }

    fn search(&self, query: &str, limit: usize, only: &Only) -> Result<Answer, Failure> {
        let asked = Asked {
            query,
            limit,
            only: only.clone(),
            turn: Some(TURN),
        };
        self.receipts_to_read()?;
        let mut found = open::search(self, &asked)?;
        for hit in &mut found.hits {
            hit.text = plain(&hit.text);
        }
        let by_words_alone = found.no_meaning.as_ref().map(|why| why.reason.clone());
        Ok(Answer {
            by_words_alone,
            why_nothing: std::mem::take(&mut found.why_nothing),
            hits: told(&self.wiki, query, found, SNIPPET, |of| {
                self.outbox_to_read()?.dead_of(of)
            }),
        })
    }

    fn hooks(&self) -> Option<HooksStatus> {
        hooks::places(self)
            .and_then(|places| hooks::look(&places))
            .ok()
    }
}
