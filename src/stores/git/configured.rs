//! Git's configuration as git itself sees it.
//!
//! libgit2 does not know every place that a git was built to read (its system file, `hasconfig:` includes),
//! and an identity or a signature must not depend on that. So git is asked, once for each commit; where there
//! is no git, libgit2's view must do, unless it is known to be incomplete.

use std::collections::{HashMap, HashSet};

use git2::Repository;

use super::program::{Git, NoAnswer};
use super::repo::git_failure;
use crate::model::{Failure, FailureKind};

/// All settings, the last value of each. Sections and names are in lower case, subsections as written.
#[derive(Debug, Default)]
pub(super) struct Configured(HashMap<String, Option<String>>);

impl Configured {
    /// Reads the configuration of the work tree.
    ///
    /// # Errors
    /// `Refused` when git cannot read it, or is not there and libgit2 would miss parts.
    pub(super) fn read(git: &Git, repo: &Repository) -> Result<Self, Failure> {
        const DOING: &str = "cannot read git's configuration";
        match git.run(&["config", "--list", "-z"]) {
            Ok(list) => Ok(Self::parse(&String::from_utf8_lossy(&list))),
            Err(absent @ NoAnswer::Absent(_)) => {
                let own = Self::by_library(repo).map_err(|error| git_failure(DOING, &error))?;
                if own
                    .0
                    .keys()
                    .any(|key| key.starts_with("includeif.hasconfig:"))
                {
                    return Err(absent.failure(DOING, ""));
                }
                Ok(own)
            }
            Err(other) => Err(other.failure(DOING, "see what `git config --list` says")),
        }
    }

    fn parse(list: &str) -> Self {
        let each = list
            .split_terminator('\0')
            .map(|one| match one.split_once('\n') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (one.to_owned(), None),
            });
        Self(each.collect())
    }

    fn by_library(repo: &Repository) -> Result<Self, git2::Error> {
        let config = repo.config()?.snapshot()?;
        let mut all = HashMap::new();
        config.entries(None)?.for_each(|entry| {
            if let Ok(name) = entry.name() {
                let value = entry.has_value().then(|| entry.value_bytes());
                let value = value.map(|value| String::from_utf8_lossy(value).into_owned());
                all.insert(name.to_owned(), value);
            }
        })?;
        Ok(Self(all))
    }

    /// Returns a value that is not blank.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let value = self.0.get(key)?.as_deref()?;
        (!value.trim().is_empty()).then_some(value)
    }

    /// Returns a switch, `false` where nothing is said.
    ///
    /// # Errors
    /// `Refused` when the value is none of git's words for yes and no.
    pub(super) fn switch(&self, key: &str) -> Result<bool, Failure> {
        let Some(Some(value)) = self.0.get(key) else {
            return Ok(self.0.contains_key(key)); // a name without a value means yes
        };
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(true),
            "false" | "no" | "off" | "" => Ok(false),
            number => number
                .parse::<i64>()
                .map(|number| number != 0)
                .map_err(|_| {
                    let reason =
                        format!("git's setting {key} is {value:?}, which is neither yes nor no");
                    Failure::new(FailureKind::Refused, reason).hint(format!(
                        "run `git config {key} true` or `git config {key} false`"
                    ))
                }),
        }
    }

    /// Says whether anything is said of a filter driver.
    pub(super) fn knows_filter(&self, driver: &str) -> bool {
        let section = format!("filter.{driver}.");
        self.0.keys().any(|key| {
            key.strip_prefix(&section)
                .is_some_and(|name| !name.contains('.'))
        })
    }

    /// Returns the drivers that have a program for the way in, each once.
    pub(super) fn filters(&self) -> HashSet<&str> {
        let drivers = self.0.keys().filter_map(|key| {
            let (driver, name) = key.strip_prefix("filter.")?.rsplit_once('.')?;
            (matches!(name, "clean" | "process") && self.text(key).is_some()).then_some(driver)
        });
        drivers.collect()
    }
}
