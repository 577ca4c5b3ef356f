//! `wiki-sync doctor`

use std::time::Duration;

use serde::Serialize;

use crate::cli::Context;
use crate::cli::checks::checks;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::{self, Workspace};
use crate::cli::out::{Out, Style, clean, count};
use crate::config::FILE_NAME;
use crate::model::{Finding, Level};
use crate::query::doctor::examine;

/// Look at the surroundings (git, hooks, limits, disk, servers, clocks) and say what to do; changes nothing
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {}

/// How long all checks may take together. Longer than any answer is waited for.
const WITHIN: Duration = Duration::from_secs(12);

/// What was found.
#[derive(Serialize)]
struct Diagnosis<'a> {
    /// No fault was found.
    ok: bool,
    faults: u64,
    warnings: u64,
    findings: &'a [Finding],
}

pub(super) fn run(_args: &DoctorArgs, cx: &mut Context) -> Result<Exit, CommandError> {
    let (root, config, broken) = open::settings_as_far_as_they_go(&cx.start, &cx.flags)?;
    let unknown = match &broken {
        Some(broken) => broken.warnings.clone(),
        None => config.warnings.clone(),
    };
    let warned = |error: CommandError| error.warned(&unknown);
    let root = root.ok_or_else(|| warned(open::no_wiki(&cx.start, &config)))?;
    let ws = Workspace::at(root, config, cx.start.clone()).map_err(warned)?;
    let mut found = settings(&ws, &unknown, broken.as_ref());
    let checks = checks(&ws).map_err(|failure| warned(failure.into()))?;
    found.extend(examine(checks, WITHIN));
    if cx.out.is_json() {
        cx.out.json(&Diagnosis {
            ok: Exit::of_doctor(&found) == Exit::Ok,
            faults: number(&found, Level::Fault),
            warnings: number(&found, Level::Warning),
            findings: &found,
        });
    } else {
        print(&mut cx.out, &found);
    }
    Ok(Exit::of_doctor(&found))
}

fn number(found: &[Finding], level: Level) -> u64 {
    found.iter().filter(|one| one.level == level).count() as u64
}

/// What is wrong with the settings: those that are none, or a file that cannot be used at all.
fn settings(ws: &Workspace, unknown: &[String], broken: Option<&CommandError>) -> Vec<Finding> {
    const NAME: &str = "settings";
    let mut found: Vec<_> = unknown
        .iter()
        .map(|warning| {
            let hint = "take it out, or correct its name: `wiki-sync config` lists every setting";
            Finding::warning(NAME, warning, hint)
        })
        .collect();
    if let Some(broken) = broken {
        let mut what = broken.error.clone();
        for cause in &broken.causes {
            what.push_str(": ");
            what.push_str(cause);
        }
        what.push_str("; what follows goes by the settings without that file");
        let hint = format!("correct {FILE_NAME} there: {}", broken.hints.join("; "));
        found.push(Finding::fault(NAME, what, hint));
    }
    if found.is_empty() {
        let file = ws.root.path.join(FILE_NAME);
        let what = if file.exists() {
            FILE_NAME
        } else {
            "the defaults; `wiki-sync init` writes them down"
        };
        found.push(Finding::ok(NAME, what));
    }
    found
}

fn print(out: &mut Out, found: &[Finding]) {
    let width = found.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in found {
        let (word, style) = match one.level {
            Level::Ok => ("ok", Style::Good),
            Level::Note => ("note", Style::Bold),
            Level::Warning => ("warning", Style::Warn),
            Level::Fault => ("fault", Style::Bad),
        };
        let word = out.paint(style, format!("{word:7}")).into_owned();
        // Below what it is about.
        let indent = width + 11;
        let hint = one.hint.as_ref().map_or(String::new(), |hint| {
            format!("\n{:indent$}hint: {}", "", clean(hint))
        });
        let line = format!("{word}  {:width$}  {}{hint}", one.name, clean(&one.what));
        match one.level {
            Level::Ok | Level::Note => out.say(line),
            Level::Warning | Level::Fault => out.trouble(line),
        }
    }
    let faults = number(found, Level::Fault);
    let warnings = number(found, Level::Warning);
    let summary = match (faults, warnings) {
        (0, 0) => out.paint(Style::Good, "all well").into_owned(),
        (0, warnings) => {
            let text = count(warnings, "warning");
            out.paint(Style::Warn, text).into_owned()
        }
        (faults, warnings) => {
            let text = format!("{}, {}", count(faults, "fault"), count(warnings, "warning"));
            out.paint(Style::Bad, text).into_owned()
        }
    };
    out.say(summary);
}
