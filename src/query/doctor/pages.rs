//! The pages' folder: what a watch of it needs of the system, and whether the clocks can be believed.

use std::fs;
use std::path::Path;

use crate::model::{Finding, Timestamp};
use crate::state::{StateDir, look};
use crate::wiki::{Entry, Wiki};

/// How far ahead a page's time may lie: a file server's clock is seldom the same as ours.
const AHEAD_MS: i64 = 60_000;
/// How far behind what was seen last the clock may be.
const BEHIND_MS: i64 = 5_000;
/// What a watch listens to beside the folders: its canary, git's folder, the settings.
const BESIDE: u64 = 4;
/// How many paths are named.
const NAMED: usize = 3;

const LIMITS: &str = "/proc/sys/fs/inotify";

/// What a walk of the folder counted.
#[derive(Default)]
struct Counted {
    pages: u64,
    folders: u64,
    skipped: Named,
    future: Named,
}

/// So many, of which the first few are named.
#[derive(Default)]
struct Named {
    number: u64,
    first: Vec<String>,
}

impl Named {
    fn add(&mut self, one: impl FnOnce() -> String) {
        self.number += 1;
        if self.first.len() < NAMED {
            self.first.push(one());
        }
    }

    /// Returns how many are not named.
    fn more(&self) -> u64 {
        self.number - self.first.len() as u64
    }
}

/// Walks the pages' folder once. `by_events`: a watch is to hear of changes by events.
#[must_use]
pub fn examine(wiki: &Wiki, state: &StateDir, by_events: bool, now: Timestamp) -> Vec<Finding> {
    const NAME: &str = "pages";
    let folder = wiki.root().join(wiki.pages_dir());
    if !folder.is_dir() {
        let what = format!("no folder {}", folder.display());
        let hint = format!(
            "`mkdir {}` makes it; wiki.pages names another",
            wiki.pages_dir()
        );
        return vec![Finding::fault(NAME, what, hint)];
    }
    let counted = match count(wiki, now) {
        Ok(counted) => counted,
        Err(failure) => {
            let hint = "see who may read it: `ls -ld` and `ls -l`";
            return vec![Finding::of(NAME, &failure, hint)];
        }
    };
    let mut found = vec![told(&counted)];
    found.extend(clock(&counted, state, now));
    if by_events {
        found.extend(inotify(counted.folders + BESIDE, Path::new(LIMITS)));
    }
    found
}

fn count(wiki: &Wiki, now: Timestamp) -> Result<Counted, crate::model::Failure> {
    let mut counted = Counted::default();
    let mut folders = 0;
    let latest = now.0.saturating_add(AHEAD_MS).saturating_mul(1_000_000);
    wiki.walk_at(
        wiki.pages_dir(),
        &mut |_| {
            folders += 1;
            true
        },
        &mut |entry| {
            match entry {
                Entry::Page { path, stat } => {
                    counted.pages += 1;
                    if stat.mtime > latest {
                        counted.future.add(|| path.to_string());
                    }
                }
                Entry::Skipped(skipped) => counted
                    .skipped
                    .add(|| format!("{}: {}", skipped.path, skipped.reason)),
                Entry::Blind { folder, failure } => {
                    counted.skipped.add(|| format!("{folder}: {failure}"));
                }
            }
            Ok(())
        },
    )?;
    counted.folders = folders;
    Ok(counted)
}

fn many(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn told(counted: &Counted) -> Finding {
    const NAME: &str = "pages";
    let what = format!(
        "{} in {}",
        many(counted.pages, "page"),
        many(counted.folders, "folder")
    );
    if counted.skipped.number == 0 {
        return Finding::ok(NAME, what);
    }
    let skipped = counted.skipped.first.join("; ");
    let more = match counted.skipped.more() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Finding::note(
        NAME,
        format!("{what}; skipped: {skipped}{more}"),
        "`wiki-sync verify` lists them all; wiki.ignore takes out what is not meant to be a page",
    )
}

fn clock(counted: &Counted, state: &StateDir, now: Timestamp) -> Vec<Finding> {
    const NAME: &str = "clock";
    const SET: &str = "set the clock: `timedatectl` says whether NTP is on";
    let mut found = Vec::new();
    // What is wrong with the database is told with the databases.
    let seen = look(&state.database()).ok().flatten();
    if let Some(seen) = seen.and_then(|seen| seen.last_seen().ok().flatten())
        && seen > now.0.saturating_add(BEHIND_MS)
    {
        let seconds = (seen - now.0) / 1000;
        let what = format!(
            "it is {seconds} s before the time at which pages were looked at last: it was set back"
        );
        found.push(Finding::warning(NAME, what, SET));
    }
    if counted.future.number > 0 {
        let mut pages = counted.future.first.join(", ");
        if counted.future.more() > 0 {
            pages.push_str(", …");
        }
        let what = format!(
            "{} changed in the future ({pages}): each scan reads what is, as a change in it would not show",
            many(counted.future.number, "page")
        );
        let first = counted.future.first.first().map_or("", String::as_str);
        let hint =
            format!("if the clock is right, `touch '{first}'` gives a page the present time");
        found.push(Finding::warning(NAME, what, hint));
    }
    if found.is_empty() {
        found.push(Finding::ok(NAME, "as the pages and the state have it"));
    }
    found
}

/// Compares what a watch needs with what the system allows and others use already. Nothing where there is no inotify.
fn inotify(needed: u64, limits: &Path) -> Option<Finding> {
    const NAME: &str = "inotify";
    let limit = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(limits.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let watches = limit("max_user_watches")?;
    let instances = limit("max_user_instances")?;
    let used = used();
    let raise = |name: &str, to: u64| {
        format!(
            "`sysctl fs.inotify.{name}={to}` (and a line in /etc/sysctl.d/ to keep it); else watch.mode = \"poll\""
        )
    };
    Some(if needed > watches {
        let what = format!(
            "a watch of the pages needs {needed} watches, and a user may have {watches}: some folders would be looked at again and again"
        );
        let hint = raise("max_user_watches", (needed * 2).max(524_288));
        Finding::fault(NAME, what, hint)
    } else if needed + used.watches > watches {
        let what = format!(
            "a watch of the pages needs {needed} watches; {} of {watches} are in use",
            used.watches
        );
        let hint = raise("max_user_watches", (watches * 2).max(524_288));
        Finding::warning(NAME, what, hint)
    } else if used.instances >= instances {
        let what = format!(
            "all {instances} instances that a user may have are in use: a watch cannot listen"
        );
        Finding::warning(
            NAME,
            what,
            raise("max_user_instances", instances.max(64) * 2),
        )
    } else {
        let what = format!(
            "a watch needs {needed} of {watches} watches and 1 of {instances} instances; in use: {} and {}",
            used.watches, used.instances
        );
        Finding::ok(NAME, what)
    })
}

/// What is in use already, as far as this user's own processes show it.
#[derive(Debug, Default, Clone, Copy)]
struct Used {
    watches: u64,
    instances: u64,
}

fn used() -> Used {
    let mut used = Used::default();
    let Ok(processes) = fs::read_dir("/proc") else {
        return used;
    };
    let own = rustix::process::getuid().as_raw();
    for process in processes.flatten() {
        let path = process.path();
        let is_own =
            fs::metadata(&path).is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == own);
        let Ok(files) = fs::read_dir(path.join("fd")) else {
            continue;
        };
        for file in files.flatten().filter(|_| is_own) {
            let is_inotify =
                fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:inotify");
            if !is_inotify {
                continue;
            }
            used.instances += 1;
            let info = path.join("fdinfo").join(file.file_name());
            let info = fs::read_to_string(info).unwrap_or_default();
            used.watches += info.matches("inotify wd:").count() as u64;
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Level;

    #[test]
    fn a_limit_that_is_too_low_is_named_with_the_sysctl_that_raises_it() {
        let limits = tempfile::tempdir().expect("a folder");
        let set = |watches: &str, instances: &str| {
            for (name, value) in [
                ("max_user_watches", watches),
                ("max_user_instances", instances),
            ] {
                fs::write(limits.path().join(name), format!("{value}\n")).expect("written");
            }
        };
        set("10", "128");
        let finding = inotify(11, limits.path()).expect("there are limits");
        assert_eq!(finding.level, Level::Fault);
        let hint = finding.hint.expect("a hint");
        assert!(
            hint.starts_with("`sysctl fs.inotify.max_user_watches=524288`"),
            "{hint}"
        );
        set("100000000", "0");
        let finding = inotify(11, limits.path()).expect("there are limits");
        assert_eq!(finding.level, Level::Warning);
        assert!(
            finding
                .hint
                .expect("a hint")
                .contains("max_user_instances=128")
        );
        set("100000000", "100000000");
        assert_eq!(inotify(11, limits.path()).expect("there").level, Level::Ok);
        assert!(
            inotify(11, Path::new("/no/such")).is_none(),
            "no inotify here"
        );
    }
}
