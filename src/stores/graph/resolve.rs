//! Finding the page that a link means, in the names as they stand in the database.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::{Connection, ToSql, params};

use super::names::NameKind;
use super::plan::{Form, How, Plan, last_two};
use crate::model::markdown::fold_key;

/// Answers remembered at most; then all are forgotten. Some MB.
const MEMO: usize = 20_000;

/// A page that a name may mean. Ordered best first: fewest parts, shortest path, path's bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) depth: i64,
    length: i64,
    pub(super) path: String,
}

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolution {
    pub(super) leads_to: &'static str,
    pub(super) dst: Option<String>,
    pub(super) how: Option<How>,
    pub(super) ambiguous: bool,
}

/// The spelling after ?3 of the names with a key.
pub(super) const NEXT_SPELLING: &str =
    "SELECT min(name) FROM graph_names WHERE kind = ?1 AND key = ?2 AND name > ?3";

/// What is asked of the names: kind, exact name, key, extension where one is written, number of parts where
/// the name is the whole path.
type Question = (NameKind, String, Option<&'static str>, Option<i64>);

/// Looks names up. Remembers the answers: use it only while no name changes.
pub(super) struct Resolver<'db> {
    db: &'db Connection,
    /// Pages that an answer has at most.
    most: usize,
    best: Best,
    endings: HashMap<String, bool>,
    spellings: HashMap<(NameKind, String), Rc<[String]>>,
    answers: HashMap<Question, Rc<[Candidate]>>,
}

/// Returns the query for the best `most` pages; parameters: kind, key, name, depth, extension.
///
/// The number stands in the text: SQLite prepares a statement anew whenever a bound `LIMIT` is bound again.
fn best(ext: &str, depth: &str, most: usize) -> String {
    format!(
        "SELECT * FROM (SELECT path, depth, length FROM graph_names
         WHERE kind = ?1 AND key = ?2 AND name = ?3 AND ext = {ext} {depth}
         ORDER BY depth, length, path LIMIT {most})"
    )
}

/// Returns the query for the best pages of each extension: one step down the index for each, however many
/// pages there are.
fn best_of_any(depth: &str, most: usize) -> String {
    ["''", "'md'", "'mdx'", "'markdown'"]
        .map(|ext| best(ext, depth, most))
        .join(" UNION ALL ")
}

/// The queries for the best pages.
struct Best {
    any: String,
    any_whole: String,
    ext: String,
    ext_whole: String,
}

impl Best {
    fn new(most: usize) -> Self {
        let whole = "AND depth = ?4";
        Self {
            any: best_of_any("", most),
            any_whole: best_of_any(whole, most),
            ext: best("?5", "", most),
            ext_whole: best("?5", whole, most),
        }
    }
}

impl<'db> Resolver<'db> {
    /// Makes a resolver of links: two pages are enough for a tie to show.
    pub(super) fn new(db: &'db Connection) -> Self {
        Self::with_most(db, 2)
    }

    /// Makes a resolver that returns up to `most` pages, so that they can be listed.
    pub(super) fn with_most(db: &'db Connection, most: usize) -> Self {
        Self {
            db,
            most,
            best: Best::new(most),
            endings: HashMap::new(),
            spellings: HashMap::new(),
            answers: HashMap::new(),
        }
    }

    /// Returns where a link leads.
    pub(super) fn resolve(&mut self, plan: &Plan) -> rusqlite::Result<Resolution> {
        if let Some((how, found)) = self.find(plan)? {
            let mut found = found.into_iter();
            let best = found.next();
            let tie = found.next();
            return Ok(Resolution {
                leads_to: "page",
                ambiguous: matches!((&best, &tie), (Some(a), Some(b)) if a.depth == b.depth),
                dst: best.map(|page| page.path),
                how: Some(how),
            });
        }
        Ok(Resolution {
            leads_to: if plan.file { "file" } else { "placeholder" },
            dst: None,
            how: None,
            ambiguous: false,
        })
    }

    /// Returns the best pages of the first place that holds any, best first, and how they were found.
    pub(super) fn find(&mut self, plan: &Plan) -> rusqlite::Result<Option<(How, Vec<Candidate>)>> {
        for step in &plan.steps {
            for folded in [false, true] {
                for form in &step.forms {
                    let found = self.path(form, step.whole, folded)?;
                    if !found.is_empty() {
                        let how = if folded { How::Folded } else { step.how };
                        return Ok(Some((how, found)));
                    }
                }
            }
        }
        let Some(text) = &plan.text else {
            return Ok(None);
        };
        for (kind, how) in [(NameKind::Alias, How::Alias), (NameKind::Title, How::Title)] {
            for folded in [false, true] {
                let found = self.names(kind, text, None, None, folded)?;
                if !found.is_empty() {
                    return Ok(Some((how, found)));
                }
            }
        }
        Ok(None)
    }

    fn path(&mut self, form: &Form, whole: bool, folded: bool) -> rusqlite::Result<Vec<Candidate>> {
        if !self.any_ends_in(last_two(&form.name))? {
            return Ok(Vec::new());
        }
        let depth = whole.then(|| form.name.split('/').count());
        let depth = depth.map(|depth| i64::try_from(depth).unwrap_or(i64::MAX));
        self.names(NameKind::Path, &form.name, form.ext, depth, folded)
    }

    /// Says whether any page's path ends so. One answer spares a link most of its places, which end alike.
    fn any_ends_in(&mut self, name: &str) -> rusqlite::Result<bool> {
        if let Some(known) = self.endings.get(name) {
            return Ok(*known);
        }
        let any = !self.spellings(NameKind::Path, &fold_key(name))?.is_empty();
        forget(&mut self.endings);
        self.endings.insert(name.to_owned(), any);
        Ok(any)
    }

    /// Returns the best pages of this name, or of all its spellings.
    fn names(
        &mut self,
        kind: NameKind,
        name: &str,
        ext: Option<&'static str>,
        depth: Option<i64>,
        folded: bool,
    ) -> rusqlite::Result<Vec<Candidate>> {
        let key = fold_key(name);
        let spellings = self.spellings(kind, &key)?;
        let mut found = Vec::new();
        for spelling in &*spellings {
            if folded || spelling == name {
                found.extend_from_slice(&self.answer(kind, &key, spelling, ext, depth)?);
            }
        }
        found.sort_unstable();
        found.truncate(self.most);
        Ok(found)
    }

    /// Returns the spellings that names with this key have, by skipping from one to the next: `README` may
    /// stand thousands of times.
    fn spellings(&mut self, kind: NameKind, key: &str) -> rusqlite::Result<Rc<[String]>> {
        let question = (kind, key.to_owned());
        if let Some(known) = self.spellings.get(&question) {
            return Ok(Rc::clone(known));
        }
        let mut next = self.db.prepare_cached(NEXT_SPELLING)?;
        let mut list: Vec<String> = Vec::new();
        loop {
            let after = list.last().map_or("", String::as_str);
            match next.query_row(params![kind.as_str(), key, after], |row| row.get(0))? {
                Some(name) => list.push(name),
                None => break,
            }
        }
        let list: Rc<[String]> = list.into();
        forget(&mut self.spellings);
        self.spellings.insert(question, Rc::clone(&list));
        Ok(list)
    }

    fn answer(
        &mut self,
        kind: NameKind,
        key: &str,
        name: &str,
        ext: Option<&'static str>,
        depth: Option<i64>,
    ) -> rusqlite::Result<Rc<[Candidate]>> {
        let question = (kind, name.to_owned(), ext, depth);
        if let Some(known) = self.answers.get(&question) {
            return Ok(Rc::clone(known));
        }
        let sql = match (ext, depth) {
            (None, None) => &self.best.any,
            (None, Some(_)) => &self.best.any_whole,
            (Some(_), None) => &self.best.ext,
            (Some(_), Some(_)) => &self.best.ext_whole,
        };
        let mut select = self.db.prepare_cached(sql)?;
        // Each query has the parameters up to the last that it uses.
        let kind = kind.as_str();
        let values: [&dyn ToSql; 5] = [&kind, &key, &name, &depth, &ext];
        let wanted = &values[..select.parameter_count()];
        let mut found = select
            .query_map(wanted, |row| {
                Ok(Candidate {
                    path: row.get(0)?,
                    depth: row.get(1)?,
                    length: row.get(2)?,
                })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        found.sort_unstable();
        found.truncate(self.most);
        let found: Rc<[Candidate]> = found.into();
        forget(&mut self.answers);
        self.answers.insert(question, Rc::clone(&found));
        Ok(found)
    }
}

/// Keeps a memo bounded.
fn forget<K, V>(memo: &mut HashMap<K, V>) {
    if memo.len() >= MEMO {
        memo.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::open_db;

    #[test]
    fn every_look_up_is_a_search_in_an_index_however_many_pages_share_the_name() {
        let db = open_db(std::path::Path::new(":memory:")).expect("a database");
        let best = Best::new(2);
        let queries = [
            best.any.as_str(),
            &best.any_whole,
            &best.ext,
            &best.ext_whole,
            NEXT_SPELLING,
        ];
        for sql in queries {
            let mut explain = db
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .expect("a query");
            let steps: Vec<String> = explain
                .raw_query()
                .mapped(|row| row.get("detail"))
                .collect::<rusqlite::Result<_>>()
                .expect("a plan");
            assert!(
                steps
                    .iter()
                    .any(|step| step.contains("SEARCH graph_names USING COVERING INDEX")),
                "{sql}: {steps:?}"
            );
            for step in &steps {
                assert!(!step.contains("SCAN graph_names"), "{sql}: {steps:?}");
                assert!(!step.contains("TEMP B-TREE"), "{sql}: {steps:?}");
            }
        }
    }
}
