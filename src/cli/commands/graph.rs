//! `wiki-sync graph`

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::at_least_one;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open;
use crate::cli::out::{Style, clean, count};
use crate::model::StoreName;
use crate::query::graph::export::{Format, write};
use crate::query::graph::{
    self, Direction, FindError, More, Net, Row, Through, conflict_told, did_you_mean,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum GraphCommand {
    /// List the links to a page
    Backlinks {
        /// The page: its path, name, alias or title
        page: String,
    },
    /// List what is around a page
    Neighbors {
        /// The page: its path, name, alias or title
        page: String,
        /// Follow links this many steps
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one::<u32>)]
        depth: u32,
        /// Which way to follow links
        #[arg(long, value_enum, default_value_t = Way::Both)]
        way: Way,
        /// Follow shared tags and symbols too
        #[arg(long)]
        tags: bool,
    },
    /// Show a shortest way by links from one page to another
    Path {
        /// The page to start from
        from: String,
        /// The page to come to
        to: String,
        /// Walk links against their direction too
        #[arg(long)]
        either_way: bool,
        /// Walk over shared tags and symbols too; implies --either-way
        #[arg(long)]
        tags: bool,
    },
    /// List the links that lead to no page, or could lead to several
    Broken,
    /// List the pages that no other page links to
    Orphans,
    /// List the pages whose paths differ only by case or Unicode form
    Conflicts,
    /// List the pages that most other pages link to
    Hubs {
        /// List at most this many
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = at_least_one::<usize>)]
        limit: usize,
    },
    /// List the pages by what hangs together, whatever the links' direction
    Components,
    /// Write the whole graph for other programs
    Export {
        /// The form of the file
        #[arg(long, value_enum, default_value_t = ExportForm::Json)]
        format: ExportForm,
        /// Write to this file instead of stdout
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Which way links are followed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Way {
    /// To the pages that it links to
    Out,
    /// To the pages that link to it
    In,
    /// Both
    Both,
}

/// In which form the graph is written.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ExportForm {
    /// Node-link JSON, as `networkx.node_link_graph(json.load(file))` reads it
    Json,
    /// For `networkx.read_graphml`, Gephi and others
    Graphml,
    /// Graphviz
    Dot,
}

impl From<FindError> for CommandError {
    fn from(error: FindError) -> Self {
        let text = error.to_string();
        let near = match error {
            FindError::Failed(failure) => return failure.into(),
            FindError::None { near, .. } => near,
            FindError::Several { .. } => Vec::new(),
        };
        let near = did_you_mean(&near).into_iter();
        near.fold(Self::new(text), Self::hint)
            .hint("give its whole path; a new page is known after `wiki-sync drain`")
    }
}

pub(super) fn run(command: &GraphCommand, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = cx.workspace_to_ask()?;
    let mut db = open::graph_db(&ws)?;
    if let Some(lack) = ws.lack(StoreName::Graph)? {
        cx.out.note(lack);
    }
    let page =
        |db: &Connection, name| graph::find_page(db, ws.wiki.pages_dir(), &name_of(&ws, name));
    let (rows, noun) = match command {
        GraphCommand::Backlinks { page } => (
            graph::backlinks(&db, ws.wiki.pages_dir(), &name_of(&ws, page))?,
            "backlink",
        ),
        GraphCommand::Broken => (graph::broken(&db)?, "broken link"),
        GraphCommand::Orphans => (graph::orphans(&db)?, "orphan"),
        GraphCommand::Conflicts => (graph::conflicts(&db)?, "conflict"),
        GraphCommand::Neighbors {
            page: name,
            depth,
            way,
            tags,
        } => {
            let start = page(&db, name)?;
            let direction = match way {
                Way::Out => Direction::Out,
                Way::In => Direction::In,
                Way::Both => Direction::Both,
            };
            let net = Net::load(&mut db)?;
            let rows = net.neighbors(&start, *depth, direction, through(*tags));
            (rows, "neighbor")
        }
        GraphCommand::Path {
            from,
            to,
            either_way,
            tags,
        } => {
            let (from, to) = (page(&db, from)?, page(&db, to)?);
            let direction = if *either_way || *tags {
                Direction::Both
            } else {
                Direction::Out
            };
            let net = Net::load(&mut db)?;
            let way = net.path(&from, &to, direction, through(*tags));
            if way.is_none() {
                let hint = match direction {
                    Direction::Both => "",
                    Direction::Out | Direction::In => "; --either-way walks links backwards too",
                };
                cx.out.note(format_args!(
                    "no chain of links leads from {} to {}{hint}",
                    clean(&from),
                    clean(&to)
                ));
            }
            (way.unwrap_or_default(), "page")
        }
        GraphCommand::Hubs { limit } => (Net::load(&mut db)?.hubs(*limit), "page"),
        GraphCommand::Components => {
            components(&Net::load(&mut db)?.components(), cx);
            return Ok(Exit::Ok);
        }
        GraphCommand::Export { format, output } => {
            let net = Net::load(&mut db)?;
            return export(&net, *format, output.as_deref(), cx);
        }
    };
    if cx.out.is_json() {
        cx.out.json(&rows);
        return Ok(Exit::Ok);
    }
    let is_far = |row: &Row| matches!(row.more, More::Near { distance, .. } if distance > 1);
    let is_far = rows.iter().any(is_far);
    for row in &rows {
        if let More::Conflict {
            with,
            differ_by,
            forms,
        } = &row.more
        {
            let told = conflict_told(&row.path, with, *differ_by, forms);
            cx.out.line(clean(&told));
            continue;
        }
        let place = match &row.more {
            More::Link { line, .. } | More::Broken { line, .. } => {
                format!("{}:{line}", clean(&row.path))
            }
            _ => clean(&row.path).into_owned(),
        };
        let place = cx.out.paint(Style::Bold, place).into_owned();
        cx.out.line(format_args!("{place}  {}", about(row, is_far)));
    }
    cx.out.say(count(rows.len() as u64, noun));
    Ok(Exit::Ok)
}

fn through(tags: bool) -> Through {
    if tags { Through::All } else { Through::Links }
}

/// Pages of a component that are shown to people.
const SHOWN: usize = 3;

fn components(rows: &[Row], cx: &mut Context) {
    if cx.out.is_json() {
        cx.out.json(&rows);
        return;
    }
    let number = |row: &Row| match row.more {
        More::Member { component, .. } => component,
        _ => 0,
    };
    let mut alone = 0;
    let mut together = 0;
    for pages in rows.chunk_by(|a, b| number(a) == number(b)) {
        if pages.len() == 1 {
            alone += 1;
            continue;
        }
        together += 1;
        let shown: Vec<_> = pages
            .iter()
            .take(SHOWN)
            .map(|row| clean(&row.path))
            .collect();
        let more = if pages.len() > SHOWN { ", …" } else { "" };
        cx.out.line(format_args!(
            "{}  {}{more}",
            count(pages.len() as u64, "page"),
            shown.join(", ")
        ));
    }
    cx.out.say(format_args!(
        "{}, and {} without a link to or from another",
        count(together, "component"),
        count(alone, "page")
    ));
}

fn export(
    net: &Net,
    form: ExportForm,
    output: Option<&Path>,
    cx: &mut Context,
) -> Result<Exit, CommandError> {
    let format = match form {
        ExportForm::Json => Format::Json,
        ExportForm::Graphml => Format::Graphml,
        ExportForm::Dot => Format::Dot,
    };
    let Some(output) = output else {
        cx.out.write(|sink| write(net, format, sink));
        return Ok(Exit::Ok);
    };
    let path = cx.start.join(output);
    let save = || {
        let mut file = BufWriter::new(File::create(&path)?);
        write(net, format, &mut file)?;
        file.flush()
    };
    save().map_err(|e| CommandError::caused(format!("cannot write {}", path.display()), &e))?;
    Ok(Exit::Ok)
}

/// A path typed in the current folder is known to the graph by its path from the root.
fn name_of(ws: &open::Workspace, typed: &str) -> String {
    match crate::cli::paths::page(&ws.wiki, &ws.start, typed.as_ref()) {
        Ok(path) => path.to_string(),
        Err(_) => typed.into(),
    }
}

/// Tells what a row says; `is_far` says whether any node is more than a step away.
fn about(row: &Row, is_far: bool) -> String {
    let title = clean(&row.title);
    match &row.more {
        More::Nothing {} | More::Member { .. } | More::Conflict { .. } => title.into_owned(),
        More::Link { target, .. } => format!("{title}  {}", link(row, target)),
        More::Broken {
            target,
            ambiguous,
            leads_to,
            ..
        } => {
            let why = match leads_to {
                Some(page) => format!("could lead to several pages; taken for {}", clean(page)),
                None if *ambiguous => "could lead to several pages".into(),
                None => "leads to no page".into(),
            };
            format!("{} {why}", link(row, target))
        }
        // Of the first step it is known by whom, and when there is no other, that it is the first.
        More::Near { distance: 1, .. } if !is_far => title.into_owned(),
        More::Near { distance: 1, .. } => format!("{title}  1 step"),
        More::Near { distance, through } => {
            let steps = count(u64::from(*distance), "step");
            format!("{title}  {steps}, by {}", clean(through))
        }
        More::Step { against, .. } => {
            let way = match row.kind.as_str() {
                "page" | "placeholder" | "tag" | "symbol" => return title.into_owned(),
                _ if *against => "is linked from",
                _ => "links to",
            };
            format!("{title}  {way}")
        }
        More::Hub {
            links_in,
            links_out,
        } => format!("{title}  {links_in} in, {links_out} out"),
    }
}

/// Shows a link about as it is written.
fn link(row: &Row, target: &str) -> String {
    let anchor = row
        .anchor
        .as_deref()
        .map_or(String::new(), |a| format!("#{a}"));
    let shown = format!("{target}{anchor}");
    let link = match row.kind.as_str() {
        "wikilink" => format!("[[{shown}]]"),
        "embed" => format!("![[{shown}]]"),
        _ => format!("({shown})"),
    };
    clean(&link).into_owned()
}
