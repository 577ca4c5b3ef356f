//! Damage behind our back: {graph row, edge, point, collection, receipt, HEAD entry, file, outbox row} × {missing, altered,
//! extra} × {before, during, after a drain}. Verify names it exactly, repair and a drain heal it, a second verify is
//! clean, and nothing else has changed.

pub(crate) mod hands;
mod lost;
mod server;
mod table;
mod world;

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use self::hands::{GHOST, outbox, sqlite};
use self::table::Drift::{All, Ghost, Page, Replaced, Stray};
use self::table::Hurt::{Hand, Sql};
use self::table::{DAMAGES, Drift};
use crate::wiki::Wiki;

/// The page that is damaged while another one is drained. No page links to it, so that none is resolved anew.
const STILL: &str = "wiki-output/d.md";
/// The page that is edited before and during a drain.
const EDITED: &str = "wiki-output/e.md";

/// When the damage is done.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// A page is edited and announced.
    Before,
    /// Its drain was killed between two stores.
    During,
    /// All is in sync.
    After,
}

fn page(word: &str) -> String {
    format!("---\ntags: [x]\n---\n# {word}\n\n[[b]] and [[a]]\n\n## More\n\n{word} again.\n")
}

fn small() -> Wiki {
    small_on(BTreeMap::new())
}

fn small_on(variables: BTreeMap<String, String>) -> Wiki {
    let mut wiki = Wiki::small();
    wiki.env.extend(variables);
    wiki.write(STILL, page("Delta"));
    wiki.write(EDITED, page("Epsilon"));
    wiki.drain();
    wiki
}

impl Moment {
    fn come(self, wiki: &Wiki, text: &str) {
        if self == Self::After {
            return;
        }
        wiki.write(EDITED, text);
        wiki.ws(&["enqueue", EDITED]).code(0);
        if self == Self::During {
            assert!(wiki.killed_after_stores(2));
        }
    }
}

impl Drift {
    /// The drift that verify must name, in its order; nothing of the page that waits.
    fn expected(&self, page: &str, owed: Option<&str>) -> Value {
        let pages = |path: &str, kind: &str, stores: &[&str]| -> Vec<Value> {
            let mut stores = stores.to_vec();
            stores.sort_unstable();
            let stores = stores.into_iter();
            stores
                .map(|store| json!({"path": path, "store": store, "kind": kind}))
                .collect()
        };
        let drift: Vec<Value> = match self {
            Page(kind, stores) => pages(page, kind, stores),
            Ghost(kind, stores) => pages(GHOST, kind, stores),
            Stray(store, "") => pages("", "orphan", &[store]),
            Stray(store, front) => pages(&format!("{front}{page}"), "orphan", &[store]),
            All(store) => ["a.md", "b.md", "d.md", "e.md", "sub/c.md"]
                .iter()
                .flat_map(|name| pages(&format!("wiki-output/{name}"), "missing", &[store]))
                .collect(),
            Replaced(_) => Vec::new(),
        };
        drift
            .into_iter()
            .filter(|one| owed.is_none_or(|owed| one["path"] != owed))
            .collect()
    }
}

/// Goes through all damages to a page, one after the other in one wiki: each must be healed before the next.
fn heals(moment: Moment, page: &str) {
    let wiki = small();
    for (nth, damage) in DAMAGES.iter().enumerate() {
        let cell = format!("{}, {moment:?}, {page}", damage.name);
        let before = world::look(&wiki);
        moment.come(&wiki, &self::page(&format!("Epsilon{nth}")));
        match damage.hurt {
            Sql(sql) => sqlite(&wiki, sql, page),
            Hand(hurt) => hurt(&wiki, page),
        }
        let owed = (moment != Moment::After).then_some(EDITED);
        if moment == Moment::After {
            let fast = wiki.ws(&["verify", "--fast", "--json"]);
            let code = if damage.fast { 3 } else { 0 };
            assert_eq!(fast.code, Some(code), "{cell}: {} {}", fast.out, fast.err);
        }
        let named = wiki.ws(&["verify", "--repair", "--json"]);
        let report = named.json();
        let drift = damage.drift.expected(page, owed);
        assert_eq!(report["drift"], drift, "{cell}: {report}");
        let replaced = match damage.drift {
            Replaced(store) => json!([store]),
            _ => json!([]),
        };
        assert_eq!(report["replaced"], replaced, "{cell}: {report}");
        assert_eq!(
            report["waiting"],
            u64::from(owed.is_some()),
            "{cell}: {report}"
        );
        let code = match (drift.as_array().unwrap().is_empty(), owed) {
            (false, _) => 3,
            (true, Some(_)) => 75,
            (true, None) => 0,
        };
        assert_eq!(named.code, Some(code), "{cell}");
        // Without a scan: what repair enqueued must be enough. Another store is looked through by a scan.
        let drain = match damage.drift {
            Replaced(_) => &["drain", "--json"][..],
            _ => &["drain", "--no-scan", "--json"],
        };
        let drained = wiki.ws(drain);
        assert_eq!(
            drained.code,
            Some(0),
            "{cell}: {} {}",
            drained.out,
            drained.err
        );
        let clean = wiki.ws(&["verify", "--json"]);
        assert_eq!(clean.code, Some(0), "{cell}: {} {}", clean.out, clean.err);
        assert_eq!(clean.json()["replaced"], json!([]), "{cell}");
        let fast = wiki.ws(&["verify", "--fast", "--json"]);
        assert_eq!(fast.code, Some(0), "{cell}: {} {}", fast.out, fast.err);
        assert_eq!(wiki.git(&["status", "--porcelain"]), "", "{cell}");
        let changed: &[&str] = if damage.name.starts_with("file") {
            &[EDITED, STILL, GHOST]
        } else {
            &[EDITED]
        };
        let after = world::look(&wiki);
        let but = if moment == Moment::After && !damage.name.starts_with("file") {
            &[][..]
        } else {
            changed
        };
        assert_eq!(world::differences(&before, &after, but), [""; 0], "{cell}");
        if damage.name.starts_with("file") {
            wiki.write(STILL, self::page("Delta"));
            wiki.write(EDITED, self::page("Epsilon"));
            let _ = fs::remove_file(wiki.root().join(GHOST));
            wiki.drain();
        }
    }
}

#[test]
fn damage_after_a_drain_is_named_exactly_and_healed() {
    heals(Moment::After, STILL);
}

#[test]
fn damage_before_a_drain_to_a_page_that_does_not_wait_is_named_exactly_and_healed() {
    heals(Moment::Before, STILL);
}

#[test]
fn damage_before_a_drain_to_the_page_that_waits_is_healed_by_it() {
    heals(Moment::Before, EDITED);
}

#[test]
fn damage_between_the_stores_of_a_drain_to_another_page_is_named_exactly_and_healed() {
    heals(Moment::During, STILL);
}

#[test]
fn damage_between_the_stores_of_a_drain_to_its_page_is_healed() {
    heals(Moment::During, EDITED);
}

/// A damage of the outbox: its SQL, and what verify says: the drift and how many pages wait.
type Row = (
    Moment,
    &'static str,
    &'static [(&'static str, &'static str)],
    u64,
);

#[test]
fn rows_of_the_outbox_that_are_damaged_cost_work_and_no_truth() {
    const MISSING: &str = "DELETE FROM jobs WHERE path = ?1";
    const ALTERED: &str = "UPDATE jobs SET path = 'wiki-output/d.md' WHERE path = ?1";
    const EXTRA: &str =
        "INSERT INTO jobs (path, state, sha, repo, commit_sha, attempts, enqueued_at, due_at)
        SELECT 'wiki-output/ghost.md', 'ready', '', '', '', 0, 0, 0 WHERE ?1 <> ''";
    const STALE: &[(&str, &str)] = &[("git", "stale"), ("graph", "stale"), ("vectors", "stale")];
    // After a drain there is no row that could be missing or altered.
    let rows: &[Row] = &[
        (Moment::Before, MISSING, STALE, 0),
        (Moment::Before, ALTERED, STALE, 1),
        (Moment::Before, EXTRA, &[], 2),
        (Moment::During, MISSING, &[("git", "stale")], 0),
        (Moment::During, ALTERED, &[("git", "stale")], 1),
        (Moment::During, EXTRA, &[], 2),
        (Moment::After, EXTRA, &[], 1),
    ];
    let wiki = small();
    for (nth, (moment, sql, drift, waiting)) in rows.iter().enumerate() {
        let before = world::look(&wiki);
        moment.come(&wiki, &page(&format!("Epsilon{nth}")));
        outbox(&wiki, sql, EDITED);
        let report = wiki.ws(&["verify", "--repair", "--json"]).json();
        let expected: Vec<Value> = drift
            .iter()
            .map(|(store, kind)| json!({"path": EDITED, "store": store, "kind": kind}))
            .collect();
        assert_eq!(report["drift"], json!(expected), "{moment:?} {sql}");
        assert_eq!(report["waiting"], *waiting, "{moment:?} {sql}");
        wiki.json(0, &["drain", "--no-scan"]);
        wiki.assert_in_sync();
        let after = world::look(&wiki);
        let differences = world::differences(&before, &after, &[EDITED]);
        assert_eq!(differences, [""; 0], "{moment:?} {sql}");
    }
}
