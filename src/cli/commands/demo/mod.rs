//! `wiki-sync demo`

mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use git2::Repository;
use serde::Serialize;

use self::pages::{DELETED, EDITED, PAGES, RENAMED};
use super::{enqueue, search};
use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Out, Style, count};
use crate::cli::paths;
use crate::cli::root::Root;
use crate::config::Config;
use crate::engine::Silent;
use crate::engine::drain::{DrainOptions, drain};
use crate::engine::verify::{VerifyOptions, verify};
use crate::model::{Labels, StoreName};
use crate::query::graph::{self, More};
use crate::query::search::Hit;

/// Show the whole journey on a small wiki in a temporary git repository
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Leave the wiki where it is and say where
    #[arg(long)]
    keep: bool,
}

/// What was done, and where things stand after it.
#[derive(Debug, Serialize)]
struct Step {
    step: &'static str,
    told: Vec<String>,
}

pub(super) fn run(args: &DemoArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let begun = Instant::now();
    let temp = tempfile::Builder::new()
        .prefix("wiki-sync-demo-")
        .tempdir()
        .map_err(|e| CommandError::caused("cannot make a temporary folder", &e))?;
    let root = temp
        .path()
        .canonicalize()
        .map_err(|e| CommandError::caused("cannot look at the temporary folder", &e))?;
    let (kept, _temp) = if args.keep {
        (Some(temp.keep()), None)
    } else {
        (None, Some(temp))
    };
    let mut journey = Journey {
        root,
        steps: Vec::new(),
    };
    let walked = journey.walk(&mut cx.out);
    let seconds = begun.elapsed().as_secs_f64();
    let folder = kept.as_ref().map(|path| path.display().to_string());
    if cx.out.is_json() {
        cx.out.json(&serde_json::json!({
            "ok": walked.is_ok(),
            "seconds": seconds,
            "folder": folder,
            "steps": journey.steps,
        }));
    } else {
        if walked.is_ok() {
            let done = cx.out.paint(Style::Good, "all as it must be").into_owned();
            cx.out.say(format_args!("\n{done}, in {seconds:.1} s"));
        }
        if let Some(folder) = folder {
            cx.out.line(format_args!("the wiki is left in {folder}"));
        }
    }
    walked.map(|()| Exit::Ok)
}

struct Journey {
    root: PathBuf,
    steps: Vec<Step>,
}

impl Journey {
    fn walk(&mut self, out: &mut Out) -> Result<(), CommandError> {
        let told = self.make_wiki()?;
        self.tell(out, "make a wiki in a new git repository", told);

        let told = self.announce()?;
        self.tell(out, "enqueue every page", told);

        let told = self.drain_and_verify(8, 8)?;
        self.tell(out, "drain", told);

        let told = self.drain_and_verify(0, 8)?;
        self.tell(out, "drain again: nothing to do", told);

        let told = vec![
            self.search("merging two jobs", "wiki-output/outbox.md")?,
            self.search("아웃박스 저장소", "wiki-output/용어집.md")?,
        ];
        self.tell(out, "search in English and Korean", told);

        let mut told = self.backlinks(
            "wiki-output/outbox.md",
            &[
                "wiki-output/architecture/drain.md",
                "wiki-output/guides/first-steps.md",
                "wiki-output/index.md",
                "wiki-output/용어집.md",
            ],
        )?;
        told.extend(self.broken(&["Runbook", "장애 대응"])?);
        self.tell(out, "ask the graph", told);

        self.write(EDITED)?;
        let (from, to) = RENAMED;
        self.change("rename", || {
            fs::rename(self.root.join(from), self.root.join(to))
        })?;
        self.change("delete", || fs::remove_file(self.root.join(DELETED)))?;
        let stale = self.hits("producer")?;
        expect(
            stale.first().is_some_and(|hit| hit.stale),
            "a search before the drain says that the edited page has changed",
        )?;
        let told = vec![
            format!("edited   {}", EDITED.0),
            format!("renamed  {from} to {to}"),
            format!("deleted  {DELETED}"),
            "a search now says of the edited page: changed since it was indexed".into(),
        ];
        self.tell(out, "edit, rename and delete, announced by nobody", told);

        let told = self.drain_and_verify(4, 7)?;
        self.tell(out, "drain: the scan finds them", told);

        let mut told = vec![
            self.search("lighthouse", "wiki-output/outbox.md")?,
            self.search("first steps", to)?,
        ];
        told.extend(self.broken(&["Architecture/stores", "Runbook", "stores", "장애 대응"])?);
        self.tell(out, "the stores have followed", told);

        let told = self.log()?;
        self.tell(out, "git log", told);
        Ok(())
    }

    fn tell(&mut self, out: &mut Out, step: &'static str, told: Vec<String>) {
        if !out.is_json() {
            let title = format!("{}. {step}", self.steps.len() + 1);
            let title = out.paint(Style::Bold, title).into_owned();
            out.say(title);
            for line in &told {
                out.say(format_args!("   {line}"));
            }
            out.flush();
        }
        self.steps.push(Step { step, told });
    }

    /// Opens the wiki as each command does; with the defaults, whatever is set outside.
    fn open(&self) -> Result<Workspace, CommandError> {
        let root = Root {
            path: self.root.clone(),
            git: true,
        };
        Workspace::at(root, Config::default(), self.root.clone())
    }

    fn change(
        &self,
        what: &str,
        work: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<(), CommandError> {
        work().map_err(|e| {
            CommandError::caused(format!("cannot {what} in {}", self.root.display()), &e)
        })
    }

    fn write(&self, (path, text): (&str, &str)) -> Result<(), CommandError> {
        let file = self.root.join(path);
        let folder = file.parent().unwrap_or(Path::new("."));
        self.change("write a page", || {
            fs::create_dir_all(folder)?;
            fs::write(&file, text)
        })
    }

    fn make_wiki(&self) -> Result<Vec<String>, CommandError> {
        let failed = |e: git2::Error| CommandError::caused("cannot make a git repository", &e);
        let make = || {
            let repository = Repository::init(&self.root)?;
            let mut config = repository.config()?;
            // Its own settings, so that the demo is the same whatever the user's are.
            config.set_str("user.name", "wiki-sync demo")?;
            config.set_str("user.email", "demo@example.invalid")?;
            config.set_bool("commit.gpgsign", false)?;
            config.set_bool("core.autocrlf", false)
        };
        make().map_err(failed)?;
        for page in PAGES {
            self.write(page)?;
        }
        Ok(PAGES
            .iter()
            .map(|(path, text)| format!("{:>4} bytes  {path}", text.len()))
            .collect())
    }

    fn announce(&self) -> Result<Vec<String>, CommandError> {
        let ws = self.open()?;
        let typed: Vec<PathBuf> = PAGES.iter().map(|(path, _)| path.into()).collect();
        let pages = paths::pages(&ws.wiki, &ws.start, &typed)?;
        let enqueued = enqueue::announce(&ws, &pages, &Labels::default())?;
        expect(enqueued.new == 8, "eight jobs wait in the outbox")?;
        Ok(vec![enqueue::told(enqueued)])
    }

    /// Drains, then reads every store: all must hold exactly `pages`.
    fn drain_and_verify(&self, processed: u64, pages: u64) -> Result<Vec<String>, CommandError> {
        let mut parts = self.open()?.parts()?;
        let report = drain(&mut parts, &DrainOptions::default(), &mut Silent)?;
        if let Some(trouble) = report.trouble.first() {
            return Err(CommandError::new(trouble.reason.clone()));
        }
        let mut told = vec![format!(
            "processed {} in {:.2} s",
            count(report.processed, "job"),
            report.seconds
        )];
        let stores = StoreName::ALL.map(StoreName::as_str);
        for name in stores {
            if let Some(store) = report.stores.get(name)
                && store.applied + store.removed > 0
            {
                told.push(format!(
                    "{name:8} {} applied, {} removed",
                    store.applied, store.removed
                ));
            }
        }
        expect(
            report.processed == processed,
            &format!("the drain processes {}", count(processed, "job")),
        )?;
        let found = verify(&mut parts, &VerifyOptions::default(), &mut Silent)?;
        expect(found.in_sync, "verify finds every store in sync")?;
        expect(found.pages == pages, &format!("there are {pages} pages"))?;
        told.push(format!(
            "verify: in sync, {pages} pages in each of {}",
            stores.join(", ")
        ));
        Ok(told)
    }

    fn hits(&self, query: &str) -> Result<Vec<Hit>, CommandError> {
        Ok(search::hits(&self.open()?, query, 3)?)
    }

    fn search(&self, query: &str, best: &str) -> Result<String, CommandError> {
        let hits = self.hits(query)?;
        let first = hits.first().map(|hit| hit.path.as_str());
        expect(
            first == Some(best),
            &format!("the best page for {query:?} is {best}, not {first:?}"),
        )?;
        Ok(format!("{query:?} finds {best}"))
    }

    fn backlinks(&self, page: &str, from: &[&str]) -> Result<Vec<String>, CommandError> {
        let ws = self.open()?;
        let rows = graph::backlinks(&open::graph_db(&ws)?, ws.wiki.pages_dir(), page)?;
        let mut found: Vec<_> = rows.iter().map(|row| row.path.as_str()).collect();
        found.dedup();
        expect(
            found == from,
            &format!("the pages that link to {page} are {from:?}, not {found:?}"),
        )?;
        Ok(vec![format!("{page} is linked from {}", found.join(", "))])
    }

    fn broken(&self, targets: &[&str]) -> Result<Vec<String>, CommandError> {
        let rows = graph::broken(&open::graph_db(&self.open()?)?)?;
        let links: Vec<(&str, &str)> = rows
            .iter()
            .filter_map(|row| match &row.more {
                More::Broken { target, .. } => Some((row.path.as_str(), target.as_str())),
                _ => None,
            })
            .collect();
        let mut found: Vec<_> = links.iter().map(|(_, target)| *target).collect();
        found.sort_unstable();
        expect(
            found == targets,
            &format!("the broken links are {targets:?}, not {found:?}"),
        )?;
        Ok(links
            .iter()
            .map(|(path, target)| format!("broken: {path} links to {target:?}"))
            .collect())
    }

    fn log(&self) -> Result<Vec<String>, CommandError> {
        let failed = |e: git2::Error| CommandError::caused("cannot read the history", &e);
        let read = || {
            let repository = Repository::open(&self.root)?;
            let mut walk = repository.revwalk()?;
            walk.push_head()?;
            walk.map(|id| {
                let commit = repository.find_commit(id?)?;
                let hex = commit.id().to_string();
                let subject = commit
                    .summary()
                    .ok()
                    .flatten()
                    .unwrap_or_default()
                    .to_owned();
                Ok(format!("{} {subject}", &hex[..10]))
            })
            .collect::<Result<Vec<_>, git2::Error>>()
        };
        let log = read().map_err(failed)?;
        expect(
            log.len() >= 2,
            "each drain that changed pages made a commit",
        )?;
        Ok(log)
    }
}

/// Ends the demo when something is not as it must be.
fn expect(holds: bool, what: &str) -> Result<(), CommandError> {
    if holds {
        return Ok(());
    }
    Err(CommandError::new(format!("not as it must be: {what}"))
        .hint("`wiki-sync demo --keep` leaves the wiki for a closer look"))
}
