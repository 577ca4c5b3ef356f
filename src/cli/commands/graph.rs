//! `wiki-sync graph`

use serde::Serialize;

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open;
use crate::cli::out::{Style, clean, count};
use crate::model::{Failure, StoreName};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GraphCommand {
    /// List the links to a page
    Backlinks {
        /// The page: its path, name, alias or title
        page: String,
    },
    /// List the links that lead to no page, or could lead to several
    Broken,
    /// List the pages that no other page links to
    Orphans,
    /// List the pages whose paths differ only by case or Unicode form
    Conflicts,
}

/// A row of an answer: a link with the page it stands in, or a page.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) kind: String,
    pub(crate) label: Option<String>,
    pub(crate) anchor: Option<String>,
    /// The target as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<i64>,
    /// Whether several pages are equally good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ambiguous: Option<bool>,
    /// The page that an ambiguous link was decided to lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leads_to: Option<String>,
}

/// Why there is no answer.
pub(crate) enum GraphError {
    /// The name is not one page's.
    NotOnePage(String),
    /// The graph could not be read.
    Failed(Failure),
}

impl From<Failure> for GraphError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<GraphError> for CommandError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::NotOnePage(why) => Self::new(why)
                .hint("give its whole path; a new page is known after `wiki-sync drain`"),
            GraphError::Failed(failure) => failure.into(),
        }
    }
}

pub(super) fn run(command: &GraphCommand, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace()?;
    let (rows, noun, unit) = match command {
        GraphCommand::Backlinks { page } => {
            (open::backlinks(&ws, &name_of(&ws, page))?, "backlink", true)
        }
        GraphCommand::Broken => (open::broken(&ws)?, "broken link", true),
        GraphCommand::Orphans => (open::orphans(&ws)?, "orphan", false),
        GraphCommand::Conflicts => (open::conflicts(&ws)?, "conflict", false),
    };
    if let Some(lack) = ws.lack(StoreName::Graph)? {
        cx.out.note(lack);
    }
    if cx.out.is_json() {
        cx.out.json(&rows);
        return Ok(Exit::Ok);
    }
    for row in &rows {
        let place = match row.line {
            Some(line) if unit => format!("{}:{line}", clean(&row.path)),
            Some(_) | None => clean(&row.path).into_owned(),
        };
        let place = cx.out.paint(Style::Bold, place).into_owned();
        cx.out
            .line(format_args!("{place}  {}", about(row, command)));
    }
    cx.out.say(count(rows.len() as u64, noun));
    Ok(Exit::Ok)
}

/// A path typed in the current folder is known to the graph by its path from the root.
fn name_of(ws: &open::Workspace, typed: &str) -> String {
    match crate::cli::paths::page(&ws.wiki, &ws.start, typed.as_ref()) {
        Ok(path) => path.to_string(),
        Err(_) => typed.into(),
    }
}

fn about(row: &Row, command: &GraphCommand) -> String {
    let title = clean(&row.title);
    let anchor = row
        .anchor
        .as_deref()
        .map_or(String::new(), |a| format!("#{a}"));
    let target = row.target.as_deref().unwrap_or_default();
    let shown = format!("{target}{anchor}");
    let link = match row.kind.as_str() {
        "wikilink" => format!("[[{shown}]]"),
        "embed" => format!("![[{shown}]]"),
        _ => format!("({shown})"),
    };
    match command {
        GraphCommand::Backlinks { .. } => format!("{title}  {}", clean(&link)),
        GraphCommand::Broken => {
            let why = match &row.leads_to {
                Some(page) => format!("could lead to several pages; taken for {}", clean(page)),
                None if row.ambiguous == Some(true) => "could lead to several pages".into(),
                None => "leads to no page".into(),
            };
            format!("{} {why}", clean(&link))
        }
        GraphCommand::Orphans => title.into_owned(),
        GraphCommand::Conflicts => format!("differs only by case or form from {}", clean(target)),
    }
}
