//! Git's hooks: whether git runs them, and whether they call the program that is called by hand.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::hooks::HooksError;
use crate::hooks::places::{Git, Places};
use crate::hooks::status::{HooksStatus, status};
use crate::model::Finding;

const NAME: &str = "hooks";
const PROGRAM: &str = "program";
const INSTALL: &str = "`wiki-sync hooks install`";
const ASK: &str = "`wiki-sync hooks status` says more";

/// Asks git about its hooks. `program` is what an install would write into them, `search` the folders of the `PATH`.
#[must_use]
pub fn examine(git: Git, program: &str, search: Option<&OsString>) -> Vec<Finding> {
    let asked = Places::ask(git).and_then(|places| status(&places, program));
    let status = match asked {
        Ok(status) => status,
        Err(HooksError::Refused { reason, hints }) => {
            let hint = hints.into_iter().next().unwrap_or_else(|| ASK.into());
            return vec![Finding::warning(NAME, reason, hint)];
        }
        Err(e) => {
            let hint = "see what `git rev-parse --git-path hooks` says";
            return vec![Finding::fault(NAME, e.to_string(), hint)];
        }
    };
    let mut found = vec![whether_they_run(&status)];
    found.extend(programs(&status, search));
    found
}

fn whether_they_run(status: &HooksStatus) -> Finding {
    if status.runs {
        return Finding::ok(NAME, "installed, and git runs them");
    }
    let any = status.hooks.iter().any(|hook| hook.installed);
    if let (false, Some(setting)) = (any, &status.elsewhere) {
        let what = format!(
            "not installed: core.hooksPath = {:?} (scope {}, {}): {}",
            setting.value,
            setting.scope,
            setting.origin,
            setting.effect()
        );
        let hint = status.hints.first().map_or(ASK, String::as_str);
        return Finding::warning(NAME, what, format!("{hint}; {ASK}"));
    }
    if !any {
        let what = "not installed: what git changes is found by the next scan";
        return Finding::note(NAME, what, INSTALL);
    }
    let why: Vec<_> = status
        .hooks
        .iter()
        .filter(|hook| !hook.runs)
        .map(|hook| {
            let why = hook.why.as_deref().unwrap_or("not installed");
            format!("{}: {why}", hook.name)
        })
        .collect();
    let is_elsewhere = status.elsewhere.is_some();
    let hint = match status.hints.first() {
        Some(hint) if is_elsewhere => format!("{hint}; {ASK}"),
        Some(_) | None => format!("{INSTALL} puts it right, or says what is in the way"),
    };
    Finding::fault(
        NAME,
        format!("git does not run all of them: {}", why.join("; ")),
        hint,
    )
}

/// Compares the programs that the hooks call with the one that is found in the `PATH`, and with this one.
fn programs(status: &HooksStatus, search: Option<&OsString>) -> Option<Finding> {
    let own = std::env::current_exe().ok()?;
    let own = fs::canonicalize(&own).unwrap_or(own);
    let in_path = search.and_then(|search| {
        std::env::split_paths(search)
            .map(|folder| folder.join("wiki-sync"))
            .find(|path| path.is_file())
    });
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut called: Vec<PathBuf> = status
        .hooks
        .iter()
        .filter_map(|hook| hook.program.as_deref().map(PathBuf::from))
        .collect();
    called.dedup();
    let by_hand = in_path.as_deref().map_or_else(|| own.clone(), real);
    if let Some(other) = called.iter().find(|path| real(path) != by_hand) {
        let what = format!(
            "the hooks call {}, and by hand {} is called",
            other.display(),
            by_hand.display()
        );
        let hint = format!(
            "`{} hooks install` from the one that is to be used",
            by_hand.display()
        );
        return Some(Finding::warning(PROGRAM, what, hint));
    }
    Some(match in_path {
        Some(path) if real(&path) != own => Finding::warning(
            PROGRAM,
            format!(
                "the PATH holds {}, and this is {}",
                path.display(),
                own.display()
            ),
            "remove one of the two, or call the other by its path",
        ),
        Some(path) => Finding::ok(PROGRAM, path.display().to_string()),
        None => Finding::note(
            PROGRAM,
            format!("{}; not in the PATH", own.display()),
            format!(
                "`ln -s {} ~/.local/bin/`, or call it by its path",
                own.display()
            ),
        ),
    })
}
