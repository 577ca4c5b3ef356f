//! `wiki-sync search`

use super::at_least_one;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Style, clean, count};
use crate::cli::paths;
use crate::model::{Failure, PagePath, StoreName};
use crate::query::search::{Asked, Hit, SNIPPET, told};
use crate::stores::vectors::Only;

/// Find pages by words, and by meaning where an embedding provider is set
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// Show at most this many pages
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = at_least_one::<usize>)]
    limit: usize,
    /// Only pages whose path begins so: as it is shown, or from the current or the pages' folder
    #[arg(long, value_name = "PREFIX")]
    path_prefix: Option<String>,
    /// Only pages with this tag, in any case and Unicode form
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only pages with this label `repo`
    #[arg(long, value_name = "REPO")]
    repo: Option<String>,
    /// Only pages with this label `lang`
    #[arg(long, value_name = "LANG")]
    lang: Option<String>,
}

const NOTHING: &str = "nothing found";

pub(super) fn run(args: &SearchArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace_to_ask()?;
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return Err(CommandError::new("the query is empty").exit(Exit::Usage));
    }
    let prefix = args.path_prefix.as_deref();
    let prefix = prefix.map(|typed| paths::prefix(&ws.wiki, &ws.start, typed));
    let asked = Asked {
        query: &query,
        limit: args.limit,
        only: Only {
            prefix,
            tags: args.tag.iter().cloned().collect(),
            repo: args.repo.clone(),
            lang: args.lang.clone(),
            ..Only::default()
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
    let channels: Vec<_> = found.channels.iter().map(|one| one.as_str()).collect();
    let channels = match channels.as_slice() {
        // Neither words nor meaning are in the query; a page is called so.
        [] => "name".into(),
        channels => channels.join(" and "),
    };
    for why in &found.why_nothing {
        cx.out.note(clean(why));
    }
    let hits = told(&ws.wiki, &query, found, SNIPPET, |of| {
        ws.outbox()?.dead_of(of)
    });
    if let Some(lack) = ws.lack(StoreName::Vectors)? {
        cx.out.note(lack);
    }
    if cx.out.is_json() {
        if hits.is_empty() {
            cx.out.note(NOTHING);
        }
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
        let (mark, what_next) = if hit.deleted {
            ("deleted since it was indexed", "`wiki-sync drain` follows")
        } else if hit.rejected {
            (
                "changed since it was indexed, and rejected as it is now",
                "`wiki-sync dlq list` says why",
            )
        } else if hit.stale {
            ("changed since it was indexed", "`wiki-sync drain` follows")
        } else {
            continue;
        };
        let mark = cx.out.paint(Style::Warn, mark).into_owned();
        cx.out.line(format_args!("    {mark}: {what_next}"));
    }
    if hits.is_empty() {
        cx.out.say(NOTHING);
    } else {
        let pages = count(hits.len() as u64, "page");
        cx.out.say(format_args!("{pages}, by {channels}"));
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
    let found = open::search(ws, &asked)?;
    let letters = |of: &[PagePath]| ws.outbox()?.dead_of(of);
    Ok(told(&ws.wiki, query, found, SNIPPET, letters))
}
