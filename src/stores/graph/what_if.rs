//! What would become of the links if pages changed: asked in a transaction that is always rolled back.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior};

use super::find::leads_from;
use super::links::StoredLink;
use super::names::Root;
use super::plan::How;
use super::rows::Derived;
use super::{GraphStore, apply_batch};
use crate::model::markdown::LinkKind;
use crate::model::{Change, Failure, PagePath};
use crate::state::db_failure;
use crate::stores::Store as _;

const DOING: &str = "cannot ask the graph what would be";

/// What a link leads by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// It leads to no page yet.
    Nothing,
    /// It leads to a file that is no page, or out of the wiki.
    File,
    /// The page's path, or the last parts of it.
    Path,
    /// The address that a site generator would give the page.
    Site,
    /// An alias of the page, or its title.
    Text,
}

impl By {
    pub(super) fn of(leads_to: &str, how: Option<&str>) -> Self {
        let is = |known: &[How]| known.iter().any(|known| how == Some(known.as_str()));
        match leads_to {
            "file" => Self::File,
            _ if is(&[How::Site]) => Self::Site,
            _ if is(&[How::Alias, How::Title]) => Self::Text,
            _ if how.is_some() => Self::Path,
            _ => Self::Nothing,
        }
    }
}

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leads {
    /// The page, where there is one.
    pub page: Option<String>,
    /// What it leads by.
    pub by: By,
    /// Whether other pages are as good.
    pub ambiguous: bool,
}

/// Links that lead elsewhere than before: by page and place among its links.
pub type Moved = BTreeMap<(String, usize), Leads>;

/// A graph in which pages may be changed for a look.
#[derive(Debug)]
pub struct WhatIf<'g> {
    db: &'g Transaction<'g>,
    root: &'g Root,
    fingerprint: &'g str,
}

impl GraphStore {
    /// Lets `ask` change pages and look at the links; whatever it did is undone on return.
    ///
    /// # Errors
    /// Those of `ask`; `Busy`, `Refused` and `Down`, as [`db_failure`] sorts them.
    pub fn what_if<T>(
        &mut self,
        ask: impl FnOnce(&mut WhatIf<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let fingerprint = self.fingerprint();
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|e| db_failure(DOING, &e))?;
        let answer = ask(&mut WhatIf {
            db: &tx,
            root: &self.root,
            fingerprint: &fingerprint,
        });
        tx.rollback().map_err(|e| db_failure(DOING, &e))?;
        answer
    }
}

impl WhatIf<'_> {
    /// Makes changes; returns each link of a page that is not among them and now leads elsewhere, with where it led.
    ///
    /// # Errors
    /// `Busy`, `Refused` and `Down`; so for every method here.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Moved, Failure> {
        let steps: Vec<_> = changes
            .iter()
            .map(|change| match change {
                Change::Put(page) => (
                    page.path.as_str(),
                    Some(Derived::of(page, self.root, self.fingerprint)),
                ),
                Change::Remove(path) => (path.as_str(), None),
            })
            .collect();
        let mut moved = Vec::new();
        apply_batch(self.db, self.root, &steps, &mut |link| {
            moved.push(link);
        })
        .map_err(|e| db_failure(DOING, &e))?;
        let mut led = Moved::new();
        for link in moved {
            let leads = leads_of(&link);
            led.insert((link.path, ordinal(link.ordinal)), leads);
        }
        Ok(led)
    }

    /// Returns where each link of a page leads, in the order in which they stand.
    ///
    /// # Errors
    /// As [`WhatIf::apply`].
    pub fn leads(&self, page: &str) -> Result<Vec<Leads>, Failure> {
        let links = StoredLink::of_page(self.db, page).map_err(|e| db_failure(DOING, &e))?;
        Ok(links.iter().map(leads_of).collect())
    }

    /// Returns the SHA of the text that the graph has a page from.
    ///
    /// # Errors
    /// As [`WhatIf::apply`].
    pub fn sha(&self, page: &str) -> Result<Option<String>, Failure> {
        self.db
            .prepare_cached("SELECT sha FROM graph_pages WHERE path = ?1")
            .and_then(|mut select| select.query_row([page], |row| row.get(0)).optional())
            .map_err(|e| db_failure(DOING, &e))
    }

    /// Returns where a link of the page `from` to each of the targets would lead.
    ///
    /// # Errors
    /// As [`WhatIf::apply`].
    pub fn resolve<'t>(
        &self,
        from: &PagePath,
        kind: LinkKind,
        targets: impl IntoIterator<Item = &'t str>,
    ) -> Result<HashMap<&'t str, Leads>, Failure> {
        leads_from(self.db, self.root, from, kind, targets).map_err(|e| db_failure(DOING, &e))
    }
}

fn leads_of(link: &StoredLink) -> Leads {
    Leads {
        page: link.dst.clone(),
        by: By::of(&link.leads_to, link.how.as_deref()),
        ambiguous: link.ambiguous != 0,
    }
}

fn ordinal(stored: i64) -> usize {
    usize::try_from(stored).unwrap_or(usize::MAX)
}
