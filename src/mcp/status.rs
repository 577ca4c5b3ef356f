//! `status`: is the index up to date, and what is wrong?

use std::fmt::Write as _;

use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use super::answer::{Answer, Freshness, REASON, Room, Trouble, clip};
use super::number::Numbers;
use crate::model::{StoreName, Timestamp};
use crate::query::status::StatusReport;

/// Entries of each list that are told.
const MOST: usize = 20;

/// It takes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

impl Numbers for Args {}

/// A store.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct StoreOut {
    /// `graph` (links), `vectors` (search) or `git` (history).
    store: &'static str,
    /// `up` or `down`.
    state: &'static str,
    /// Pages it holds.
    pages: u64,
    /// Pages that it does not hold as they are on disk. null: it could not be asked.
    behind: Option<u64>,
}

/// A page, or a store, and what is wrong with it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars", inline)]
struct Wrong {
    /// The page, where it is one page's trouble.
    path: Option<String>,
    /// The store, where it is one store's.
    store: Option<&'static str>,
    /// How many pages it is about, where it is about several.
    pages: Option<u64>,
    /// What is wrong.
    reason: String,
    /// What can be done.
    hint: Option<String>,
}

impl Wrong {
    fn new(reason: &str) -> Self {
        Self {
            path: None,
            store: None,
            pages: None,
            reason: clip(reason, REASON),
            hint: None,
        }
    }
}

/// Where everything stands.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Status {
    /// Whether every store holds every page as it is on disk, and nothing is wrong.
    fresh: bool,
    /// Pages on disk.
    pages: u64,
    /// Pages that have changed and that no job is there for yet.
    unannounced: u64,
    /// Jobs to index a page that are not done.
    jobs: u64,
    /// Pages that could not be indexed.
    dead_letters: u64,
    /// Each store.
    stores: Vec<StoreOut>,
    /// What is wrong, at most 20 of each kind.
    wrong: Vec<Wrong>,
    /// How far this can be relied upon.
    freshness: Freshness,
}

pub(super) fn run(place: &dyn Place, _args: &Args) -> Result<Status, Trouble> {
    let report = place.status()?;
    let outbox = &report.outbox;
    let queued = outbox.waiting + outbox.delayed + outbox.in_flight + outbox.held;
    let jobs = queued + outbox.spooled + outbox.hints;
    let stores = StoreName::ALL.iter().filter_map(|name| {
        let store = report.stores.get(name.as_str())?;
        Some(StoreOut {
            store: name.as_str(),
            state: store.state,
            pages: store.pages,
            behind: store.behind,
        })
    });
    let behind = jobs + report.unannounced;
    Ok(Status {
        fresh: report.fresh,
        pages: report.pages,
        unannounced: report.unannounced,
        jobs,
        dead_letters: outbox.dead,
        stores: stores.collect(),
        wrong: Room::default().fit(wrong(&report)).0,
        freshness: Freshness::found(report.fresh, behind, report.unannounced, place),
    })
}

fn wrong(report: &StatusReport) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Some(trouble) = report.watch.trouble(Timestamp::now()) {
        wrong.push(Wrong {
            hint: trouble.hint,
            ..Wrong::new(&trouble.what)
        });
    }
    wrong.extend(report.trouble.iter().take(MOST).map(|trouble| Wrong {
        path: trouble.path.clone(),
        store: trouble.store,
        hint: trouble.hint.as_deref().map(|hint| clip(hint, REASON)),
        ..Wrong::new(&trouble.reason)
    }));
    wrong.extend(report.holds.iter().take(MOST).map(|hold| Wrong {
        store: hold.store,
        pages: Some(hold.jobs),
        ..Wrong::new(&format!("waits: {}", hold.reason))
    }));
    wrong.extend(report.dead_letters.iter().take(MOST).map(|dead| Wrong {
        store: dead.store,
        pages: Some(dead.letters),
        hint: Some("`wiki-sync dlq list` names the pages; mend them".into()),
        ..Wrong::new(&format!("could not be indexed: {}", dead.reason))
    }));
    wrong.extend(report.skipped.iter().take(MOST).map(|skipped| Wrong {
        path: Some(clip(&skipped.path, REASON)),
        ..Wrong::new(&format!("left out: {}", skipped.reason))
    }));
    wrong
}

impl Answer for Status {
    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} pages on disk, {} jobs not done, {} pages changed and not announced, {} that could not be indexed.\n",
            if self.fresh { "Fresh" } else { "Not fresh" },
            self.pages,
            self.jobs,
            self.unannounced,
            self.dead_letters
        );
        for store in &self.stores {
            let behind = match store.behind {
                Some(behind) => format!("{behind} behind"),
                None => "how many it lacks is not known".into(),
            };
            let (name, state, pages) = (store.store, store.state, store.pages);
            let _ = writeln!(text, "- {name}: {state}, {pages} pages, {behind}");
        }
        for wrong in &self.wrong {
            let whose = wrong.path.as_deref().or(wrong.store);
            let whose = whose.map_or(String::new(), |whose| format!("{whose}: "));
            let pages = wrong
                .pages
                .map_or(String::new(), |n| format!(" ({n} pages)"));
            let hint = wrong.hint.as_deref();
            let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
            let _ = writeln!(text, "! {whose}{}{pages}{hint}", wrong.reason);
        }
        text + &self.freshness.line()
    }
}
