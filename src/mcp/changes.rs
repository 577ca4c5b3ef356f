//! `recent_changes`: what was changed lately?

use std::fmt::Write as _;
use std::time::Duration;

use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use super::answer::{Answer, Freshness, Room, SHORT, Trouble, clip};
use super::number::{Number, Numbers};
use super::resolve::NAME;
use super::search::from_root;
use crate::stores::git::{Became, Wanted, history};

/// Commits that are returned when nothing is said.
const LIMIT: usize = 20;
/// The most commits that are returned.
const MOST: u64 = 100;
/// Pages that are named of each commit.
const PAGES: usize = 30;
/// The most commits that are looked at, and how long.
const LOOKS: usize = 10_000;
const WITHIN: Duration = Duration::from_secs(3);

/// Which changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The most commits to return: 1 to 100, 20 by default.
    #[serde(default)]
    #[schemars(extend("default" = LIMIT))]
    limit: Number<1, MOST>,
    /// Only changes of pages whose path begins so: a page's path, or a folder such as "wiki-output/guides/".
    path_prefix: Option<String>,
}

impl Numbers for Args {
    fn adjusted(&self) -> Vec<String> {
        self.limit.adjusted("limit").into_iter().collect()
    }
}

/// A page that was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Page {
    /// The page.
    path: String,
    /// `added`, `changed` or `removed`. A moved page is removed and added.
    change: &'static str,
}

/// A commit.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Change {
    /// Its id.
    commit: String,
    /// When it was made.
    time: String,
    /// Who wrote it.
    author: String,
    /// The first line of its message.
    subject: String,
    /// Pages that it changed, at most 30.
    pages: Vec<Page>,
    /// How many pages it changed in all.
    total_pages: usize,
}

/// The latest changes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Changes {
    /// Commits that changed pages, the newest first.
    commits: Vec<Change>,
    /// Whether there may be older ones.
    cut: bool,
    /// How far the index can be relied upon; the history itself is as it is in git.
    freshness: Freshness,
}

pub(super) fn run(place: &dyn Place, args: &Args) -> Result<Changes, Trouble> {
    let wiki = place.wiki();
    let prefix = args.path_prefix.as_deref().unwrap_or_default();
    let prefix = from_root(wiki.pages_dir(), prefix);
    let wanted = Wanted {
        pages_dir: wiki.pages_dir(),
        prefix: &prefix,
        commits: args.limit.or(LIMIT),
        pages: PAGES,
        looks: LOOKS,
        within: WITHIN,
    };
    let found = history(wiki.root(), &wanted, &|path| wiki.is_page(path))?;
    let commits = found.commits.into_iter().map(|commit| Change {
        commit: commit.id,
        time: commit.at.utc(),
        author: clip(&commit.author, SHORT),
        subject: clip(&commit.subject, SHORT),
        total_pages: commit.total,
        pages: commit.pages.into_iter().map(page).collect(),
    });
    let (commits, cut) = Room::default().fit(commits);
    Ok(Changes {
        commits,
        cut: cut || found.cut,
        freshness: Freshness::look(place, 0),
    })
}

fn page((path, became): (String, Became)) -> Page {
    Page {
        path: clip(&path, NAME),
        change: match became {
            Became::Added => "added",
            Became::Changed => "changed",
            Became::Removed => "removed",
        },
    }
}

impl Answer for Changes {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.commits.is_empty() {
            text.push_str("No commit changed such pages.\n");
        }
        for commit in &self.commits {
            let id = clip(&commit.commit, 10);
            let id = id.trim_end_matches('…');
            let (time, author, subject) = (&commit.time, &commit.author, &commit.subject);
            let _ = writeln!(text, "{time}  {id}  {author}: {subject}");
            for page in &commit.pages {
                let _ = writeln!(text, "  {:8} {}", page.change, page.path);
            }
            let more = commit.total_pages - commit.pages.len();
            if more > 0 {
                let _ = writeln!(text, "  and {more} more pages");
            }
        }
        if self.cut {
            text.push_str("(There may be older ones: raise limit, or give a path_prefix.)\n");
        }
        text + &self.freshness.line()
    }
}
