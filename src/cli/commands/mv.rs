//! `wiki-sync mv`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drain::seconds;
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Out, Style, clean, count};
use crate::cli::paths;
use crate::cli::progress::Bar;
use crate::config::Commits;
use crate::engine::drain::DrainOptions;
use crate::engine::rename::{self, Move, MoveReport, Request};
use crate::model::PagePath;
use crate::query::graph::find_page;
use crate::wiki::{Entry, is_below};

/// Move a page, or a folder of pages, with the links to it: in the files, in every store, and in one commit
#[derive(Debug, clap::Args)]
pub(crate) struct MvArgs {
    /// The page or folder: a path, or a page's name, alias or title
    old: PathBuf,
    /// Its new path, or an existing folder to move it into
    new: PathBuf,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait this many seconds for a drain of this checkout
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    lock_wait: Duration,
}

pub(super) fn run(args: &MvArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let mut ws = cx.workspace()?;
    if ws.config.git.commit == Commits::Page {
        // A move is one commit.
        ws.config.git.commit = Commits::Batch;
    }
    let mut parts = ws.parts()?;
    let options = DrainOptions {
        wait: false,
        lock_wait: args.lock_wait,
        ..DrainOptions::default()
    };
    let mut bar = Bar::new(&cx.out);
    if args.dry_run {
        if let Some(Move { from, to }) = rename::unfinished(&parts)? {
            return Err(
                CommandError::new(format!("the move of {from:?} to {to:?} was cut short"))
                    .hint(format!("`wiki-sync mv '{from}' '{to}'` goes on with it")),
            );
        }
    } else if let Some(resumed) = rename::resume(&mut parts, &options, &mut bar)? {
        let Move { from, to } = &resumed.asked;
        match resumed.finished {
            Some(report) if means(&ws, &args.old, from) => {
                drop(bar);
                // Which lines it changed was told to nobody who is still there.
                if !cx.out.is_json() && report.changes.is_empty() {
                    cx.out.say(format_args!(
                        "the move of {} to {}, which was cut short, is finished",
                        clean(from),
                        clean(to)
                    ));
                    return Ok(exit(&report));
                }
                return Ok(told(&mut cx.out, &report));
            }
            Some(_) => cx.out.note(format_args!(
                "the move of {from} to {to}, which was cut short, is finished"
            )),
            None if resumed.left.is_empty() => cx.out.note(format_args!(
                "the move of {from} to {to}, which was cut short, is taken back: its pages have changed since"
            )),
            None => {
                return Err(CommandError::new(format!(
                    "the move of {from:?} to {to:?} was cut short, and pages have changed since"
                ))
                .hint(format!(
                    "all is taken back but in these, which are as you left them: {}; look at their links, then move again",
                    resumed.left.join(", ")
                )));
            }
        }
    }
    let request = request(&ws, args)?;
    let mut graph = open::graph_store(&ws)?;
    let act = if args.dry_run {
        rename::foresee
    } else {
        rename::move_pages
    };
    let report = act(&mut parts, &mut graph, &request, &options, &mut bar)?;
    drop(bar);
    Ok(told(&mut cx.out, &report))
}

/// Says whether `typed` may mean a path of the repository.
fn means(ws: &Workspace, typed: &Path, path: &str) -> bool {
    let folders = paths::folders(&ws.wiki, &ws.start, typed);
    let page = paths::place(&ws.wiki, &ws.start, typed);
    let page = page.is_ok_and(|page| page.as_str() == path);
    page || folders.iter().any(|folder| folder == path) || typed.to_str() == Some(path)
}

/// What is to be moved.
enum Old {
    Page(PagePath),
    Folder(String),
}

fn request(ws: &Workspace, args: &MvArgs) -> Result<Request, CommandError> {
    match old(ws, &args.old)? {
        Old::Page(from) => {
            let to = page_target(ws, &from, &args.new)?;
            Ok(Request {
                asked: Move {
                    from: from.to_string(),
                    to: to.to_string(),
                },
                pages: BTreeMap::from([(from, to)]),
                folder: false,
            })
        }
        Old::Folder(from) => folder_request(ws, from, &args.new),
    }
}

/// Finds what is to be moved: at a path, else by a name in the graph.
fn old(ws: &Workspace, typed: &Path) -> Result<Old, CommandError> {
    let there = |path: &PagePath| ws.wiki.absolute(path).symlink_metadata().is_ok();
    let page = paths::page(&ws.wiki, &ws.start, typed);
    if let Ok(page) = &page
        && there(page)
    {
        return Ok(Old::Page(page.clone()));
    }
    if let Some(folder) = existing_folder(ws, typed) {
        return Ok(Old::Folder(folder));
    }
    let name = match &page {
        Ok(page) => page.to_string(),
        Err(_) => typed.to_string_lossy().into_owned(),
    };
    let db = open::graph_db(ws)?;
    let found = find_page(&db, ws.wiki.pages_dir(), &name)?;
    PagePath::parse(&found)
        .map(Old::Page)
        .map_err(|e| CommandError::caused("the graph names no page", &e))
}

fn existing_folder(ws: &Workspace, typed: &Path) -> Option<String> {
    let mut folders = paths::folders(&ws.wiki, &ws.start, typed).into_iter();
    folders.find(|folder| {
        let meta = ws.root.path.join(folder).symlink_metadata();
        meta.is_ok_and(|meta| meta.is_dir())
    })
}

fn page_target(ws: &Workspace, from: &PagePath, typed: &Path) -> Result<PagePath, CommandError> {
    let as_folder = typed.to_string_lossy().ends_with('/');
    let folder = match existing_folder(ws, typed) {
        None if as_folder => paths::folders(&ws.wiki, &ws.start, typed)
            .into_iter()
            .next(),
        found => found,
    };
    if let Some(folder) = folder {
        let inside = format!("{folder}/{}", from.file_name());
        return PagePath::parse(&inside)
            .map_err(|e| CommandError::caused("no page can be there", &e));
    }
    paths::place(&ws.wiki, &ws.start, typed).map_err(|error| {
        if typed.extension().is_none() {
            error.hint("a page's name has its ending: `.md`")
        } else {
            error
        }
    })
}

fn folder_request(ws: &Workspace, from: String, typed: &Path) -> Result<Request, CommandError> {
    let refused = |why: String| Err(CommandError::new(why));
    if from == ws.wiki.pages_dir() {
        return refused(format!("{from:?} is the whole wiki"));
    }
    let to = match existing_folder(ws, typed) {
        Some(folder) => {
            let name = from
                .rsplit_once('/')
                .map_or(from.as_str(), |(_, name)| name);
            format!("{folder}/{name}")
        }
        None => match paths::folders(&ws.wiki, &ws.start, typed)
            .into_iter()
            .next()
        {
            Some(folder) => folder,
            None => {
                return refused(format!(
                    "{:?} is no folder below {}/",
                    typed.display(),
                    ws.wiki.pages_dir()
                ));
            }
        },
    };
    if to == from || is_below(&to, &from) {
        return refused(format!("{from:?} cannot be moved into itself"));
    }
    let mut pages = BTreeMap::new();
    ws.wiki.walk(&mut |entry| {
        if let Entry::Page { path, .. } = entry
            && let Some(rest) = path.as_str().strip_prefix(from.as_str())
            && rest.starts_with('/')
            && let Ok(target) = PagePath::parse(&format!("{to}{rest}"))
        {
            pages.insert(path, target);
        }
        Ok(())
    })?;
    Ok(Request {
        asked: Move { from, to },
        pages,
        folder: true,
    })
}

/// Prints what was done, or would be, and returns the exit code.
fn told(out: &mut Out, report: &MoveReport) -> Exit {
    if out.is_json() {
        out.json(report);
    } else {
        print(out, report);
    }
    exit(report)
}

fn exit(report: &MoveReport) -> Exit {
    if report.trouble.is_empty() {
        Exit::Ok
    } else if report.trouble.iter().any(|one| one.kind == "refused") {
        Exit::Refused
    } else {
        Exit::Held
    }
}

/// Pages named at most when they were moved.
const MOST_MOVED: usize = 10;

fn print(out: &mut Out, report: &MoveReport) {
    let (verb, links) = if report.dry_run {
        ("would move", "would change")
    } else {
        ("moved", "changed")
    };
    // What was done is in the commit; what would be done is nowhere else.
    let most = if report.dry_run {
        usize::MAX
    } else {
        MOST_MOVED
    };
    for Move { from, to } in report.moved.iter().take(most) {
        out.say(format_args!("{verb} {} to {}", clean(from), clean(to)));
    }
    if report.moved.len() > most {
        let more = report.moved.len() - most;
        out.say(format_args!("… and {more} more"));
    }
    let pages: BTreeSet<_> = report.changes.iter().map(|change| &change.path).collect();
    let shown = if report.dry_run {
        &report.changes[..]
    } else {
        &[]
    };
    for change in shown {
        let place = format!("{}:{}", clean(&change.path), change.line);
        let place = out.paint(Style::Bold, place).into_owned();
        out.say(place);
        for (mark, line, style) in [
            ('-', &change.before, Style::Bad),
            ('+', &change.after, Style::Good),
        ] {
            let line = format!("  {mark} {}", clean(line));
            let line = out.paint(style, line).into_owned();
            out.say(line);
        }
    }
    let commit = match &report.commit {
        Some(commit) => format!("; commit {commit:.10}"),
        None => String::new(),
    };
    if report.changes.is_empty() {
        out.say(format_args!("no link changes{commit}"));
    } else {
        out.say(format_args!(
            "{} in {} {links}{commit}",
            count(report.changes.len() as u64, "line"),
            count(pages.len() as u64, "page"),
        ));
    }
    out.troubles(&report.trouble);
    if !report.trouble.is_empty() {
        out.trouble("the files are moved; `wiki-sync drain` brings the rest to the stores");
    }
}
