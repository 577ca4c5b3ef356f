//! `wiki-sync search`

use std::time::Duration;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Style, clean, count};
use crate::model::{Failure, StoreName};
use crate::query::search::{Hit, told};
use crate::stores::vectors::{Answer, Only};

/// Find pages by words, and by meaning where an embedding provider is set
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// Show at most this many pages
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    limit: usize,
    /// Only pages whose path, as it is shown, begins so
    #[arg(long, value_name = "PREFIX")]
    path_prefix: Option<String>,
    /// Only pages with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only pages with this label `repo`
    #[arg(long, value_name = "REPO")]
    repo: Option<String>,
    /// Only pages with this label `lang`
    #[arg(long, value_name = "LANG")]
    lang: Option<String>,
}

/// What is asked of the vectors store.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) query: &'a str,
    pub(crate) limit: usize,
    pub(crate) only: Only,
    /// How long to wait for one's turn with the embedded vectors; `None`: as long as any command.
    pub(crate) turn: Option<Duration>,
}

/// What it found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) answer: Answer,
    /// Why it was not searched by meaning although a provider is set.
    pub(crate) no_meaning: Option<Failure>,
}

pub(super) fn run(args: &SearchArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return Err(CommandError::new("the query is empty").exit(Exit::Usage));
    }
    let asked = Asked {
        query: &query,
        limit: args.limit,
        only: Only {
            prefix: args.path_prefix.clone(),
            tag: args.tag.clone(),
            repo: args.repo.clone(),
            lang: args.lang.clone(),
        },
        turn: None,
    };
    let found = open::search(&ws, &asked)?;
    if let Some(why) = &found.no_meaning {
        let way_out = why.hint.as_deref().map(|hint| format!("; {hint}"));
        cx.out.note(format_args!(
            "searched by words alone: {}{}",
            why.reason,
            way_out.unwrap_or_default()
        ));
    }
    let hits = told(&ws.wiki, &query, found.answer);
    if let Some(lack) = ws.lack(StoreName::Vectors)? {
        cx.out.note(lack);
    }
    if cx.out.is_json() {
        cx.out.json(&hits);
        return Ok(Exit::Ok);
    }
    for hit in &hits {
        let path = cx.out.paint(Style::Bold, clean(&hit.path)).into_owned();
        let heading = if hit.heading.is_empty() || hit.heading == hit.title {
            clean(&hit.title).into_owned()
        } else if hit.heading.starts_with(&hit.title) {
            clean(&hit.heading).into_owned()
        } else {
            format!("{} > {}", clean(&hit.title), clean(&hit.heading))
        };
        cx.out
            .line(format_args!("{path}  {heading}  {:.2}", hit.score));
        if !hit.snippet.is_empty() {
            cx.out.line(format_args!("    {}", clean(&hit.snippet)));
        }
        let mark = match (hit.deleted, hit.stale) {
            (true, _) => "deleted since it was indexed",
            (false, true) => "changed since it was indexed",
            (false, false) => continue,
        };
        let mark = cx.out.paint(Style::Warn, mark).into_owned();
        cx.out
            .line(format_args!("    {mark}: `wiki-sync drain` follows"));
    }
    if hits.is_empty() {
        cx.out.say("nothing found");
    } else {
        let pages = count(hits.len() as u64, "page");
        let by = hits[0].channels.join(" and ");
        cx.out.say(format_args!("{pages}, by {by}"));
    }
    Ok(Exit::Ok)
}

/// Returns the hits, best first, each compared with the page as it is on disk now.
pub(super) fn hits(ws: &Workspace, query: &str, limit: usize) -> Result<Vec<Hit>, Failure> {
    let asked = Asked {
        query,
        limit,
        only: Only::default(),
        turn: None,
    };
    Ok(told(&ws.wiki, query, open::search(ws, &asked)?.answer))
}
