//! The state folder and its databases.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Access;

use crate::model::Finding;
use crate::outbox::dead_letters;
use crate::state::{Checked, StateDir, Version, look};

/// How large a log may be that was not brought into its database: twice what it is cut back to.
const LARGE_LOG: u64 = 128 << 20;
/// How long one database is looked through.
const PATIENCE: Duration = Duration::from_secs(4);

/// Looks at the state folder. `embedded`: the outbox is in it.
#[must_use]
pub fn examine(state: &StateDir, embedded: bool) -> Vec<Finding> {
    const NAME: &str = "state";
    if let Err(failure) = state.check() {
        return vec![Finding::of(
            NAME,
            &failure,
            "move .wiki-sync away: the next drain rebuilds it",
        )];
    }
    if !state.path().exists() {
        let what = "no .wiki-sync yet: the first drain makes it";
        return vec![Finding::ok(NAME, what)];
    }
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let mut found = Vec::new();
    if let Err(e) = rustix::fs::access(state.path(), all) {
        found.push(Finding::fault(
            NAME,
            format!(
                "{} cannot be written: {}",
                state.path().display(),
                std::io::Error::from(e)
            ),
            format!(
                "`ls -ld {}` shows whose it is; `chown -R` it, or run wiki-sync as its owner",
                state.path().display()
            ),
        ));
    }
    let mut paths = vec![state.database()];
    if embedded {
        paths.push(state.outbox());
    }
    found.extend(paths.iter().flat_map(|path| database(path)));
    // What cannot be read was told by now.
    if embedded && let Ok(Some(outbox)) = look(&state.outbox()) {
        found.extend(outbox.dead_letters().ok().and_then(dead_letters));
    }
    if found.is_empty() {
        found.push(Finding::ok(
            NAME,
            "nothing in .wiki-sync yet: the first drain makes it",
        ));
    }
    found
}

fn database(path: &Path) -> Vec<Finding> {
    const NAME: &str = "state";
    const DRAIN: &str = "`wiki-sync drain` says more";
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let database = match look(path) {
        Ok(Some(database)) => database,
        Ok(None) => return Vec::new(),
        Err(failure) => return vec![Finding::of(NAME, &failure, DRAIN)],
    };
    let mut found = Vec::new();
    let log = database.log_size();
    if log > LARGE_LOG {
        found.push(Finding::warning(
            NAME,
            format!("the log of {name} is {} MiB: something has been reading the database for long, so that it cannot be cut", log >> 20),
            format!("`fuser -v {}` shows who; end it, then run `wiki-sync drain`", path.display()),
        ));
    }
    let version = match database.version() {
        Ok(version) => version,
        Err(failure) => return vec![Finding::of(NAME, &failure, DRAIN)],
    };
    let version = match version {
        Version::Ours(version) => format!("schema {version}"),
        Version::Older(version) => {
            format!("schema {version}, which the next drain brings up to date")
        }
    };
    let mib = fs::metadata(path).map_or(0, |meta| meta.len().div_ceil(1 << 20));
    found.push(match database.check(PATIENCE) {
        Ok(Checked::Sound) => Finding::ok(NAME, format!("{name}: sound, {mib} MiB, {version}")),
        Ok(Checked::Unfinished) => Finding::ok(
            NAME,
            format!("{name}: {mib} MiB, {version}; not looked through in the time there was"),
        ),
        Err(failure) => Finding::of(NAME, &failure, DRAIN),
    });
    found
}
