//! The table: what is damaged, how, and what verify must say of it.

use std::fs;

use qdrant_edge::PointId;
use serde_json::json;

use self::Drift::{All, Ghost, Page, Replaced, Stray};
use self::Hurt::{Hand, Sql};
use super::hands::{
    self, GHOST, alter, commit_away, commit_other, copy, other_store, some_id, sqlite,
};
use crate::wiki::Wiki;

const ALL: &[&str] = &["graph", "vectors", "git"];

/// One cell's damage, to a page.
pub(super) struct Damage {
    pub(super) name: &'static str,
    pub(super) hurt: Hurt,
    /// What verify must say of the page.
    pub(super) drift: Drift,
    /// Whether the fast mode can see it.
    pub(super) fast: bool,
}

/// How it is done.
pub(super) enum Hurt {
    /// By this statement in `wiki.db`; `?1` is the page.
    Sql(&'static str),
    Hand(fn(&Wiki, &str)),
}

/// The drift of a damage.
pub(super) enum Drift {
    /// This kind, in these stores.
    Page(&'static str, &'static [&'static str]),
    /// This kind, in these stores, of the page that does not exist.
    Ghost(&'static str, &'static [&'static str]),
    /// What names no page: an orphan under this name, in this store, which repair removes by itself.
    Stray(&'static str, &'static str),
    /// Every page is missing in this store.
    All(&'static str),
    /// This store is another one than its receipts speak of, and holds the same.
    Replaced(&'static str),
}

/// What the cells that are not here would be: an extra collection is another wiki's, or no wiki's, and none of our
/// business, as is a point of another wiki in ours. A receipt for git that is missing is no damage: HEAD is the judge. Rows
/// of the outbox are not about one page in one store, and have a test of their own.
pub(super) const DAMAGES: &[Damage] = &[
    Damage {
        name: "graph row missing",
        hurt: Sql("DELETE FROM graph_pages WHERE path = ?1"),
        drift: Page("stale", &["graph"]),
        fast: false,
    },
    Damage {
        name: "graph row altered",
        hurt: Sql("UPDATE graph_pages SET title = 'x' WHERE path = ?1"),
        drift: Page("stale", &["graph"]),
        fast: false,
    },
    Damage {
        name: "graph row extra, of no page",
        hurt: Sql(
            "INSERT INTO graph_pages SELECT 'wiki-output/ghost.md', key, title, sha, symbol, metadata, derived_by FROM graph_pages WHERE path = ?1",
        ),
        drift: Ghost("orphan", &["graph"]),
        fast: false,
    },
    Damage {
        name: "graph row extra, of no path",
        hurt: Sql(
            "INSERT INTO graph_tags SELECT '../' || path, 0, 'x' FROM graph_pages WHERE path = ?1",
        ),
        drift: Stray("graph", "../"),
        fast: false,
    },
    Damage {
        name: "graph rows all missing",
        hurt: Hand(|wiki, page| {
            for table in ["pages", "names", "tags", "links", "link_keys"] {
                sqlite(
                    wiki,
                    &format!("DELETE FROM graph_{table} WHERE path = ?1"),
                    page,
                );
            }
        }),
        drift: Page("missing", &["graph"]),
        fast: false,
    },
    Damage {
        name: "edge missing",
        hurt: Sql("DELETE FROM graph_links WHERE path = ?1 AND ordinal = 0"),
        drift: Page("stale", &["graph"]),
        fast: false,
    },
    Damage {
        name: "edge altered",
        hurt: Sql(
            "UPDATE graph_links SET dst = 'wiki-output/sub/c.md' WHERE path = ?1 AND ordinal = 0",
        ),
        drift: Page("stale", &["graph"]),
        fast: false,
    },
    Damage {
        name: "edge extra",
        hurt: Sql(
            "INSERT INTO graph_links SELECT path, 99, kind, target, anchor, label, line, wants, leads_to, dst, how, ambiguous FROM graph_links WHERE path = ?1 AND ordinal = 0",
        ),
        drift: Page("stale", &["graph"]),
        fast: false,
    },
    Damage {
        name: "point missing",
        hurt: Hand(|wiki, page| {
            let shard = hands::Shard::open(wiki);
            shard.delete(shard.of(page).id);
        }),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point altered: its text",
        hurt: Hand(|wiki, page| {
            alter(wiki, page, |point| {
                point
                    .payload
                    .insert("text".into(), json!("what nobody wrote"));
            });
        }),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point altered: its vector",
        hurt: Hand(|wiki, page| alter(wiki, page, |point| point.words[0].1 += 1.0)),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point altered: its wiki",
        hurt: Hand(|wiki, page| {
            alter(wiki, page, |point| {
                point.payload.insert("wiki".into(), json!("another"));
            });
        }),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point extra",
        hurt: Hand(|wiki, page| copy(wiki, page, some_id(), |_| ())),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point extra, with a number for an id",
        hurt: Hand(|wiki, page| copy(wiki, page, PointId::NumId(7), |_| ())),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point extra, of no page",
        hurt: Hand(|wiki, page| {
            copy(wiki, page, some_id(), |payload| {
                payload.insert("path".into(), json!(GHOST));
                payload.insert("keys".into(), json!([format!("page:{GHOST}")]));
            });
        }),
        drift: Ghost("orphan", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point extra, with another path than it is looked up by",
        hurt: Hand(|wiki, page| {
            copy(wiki, page, some_id(), |payload| {
                payload.insert("path".into(), json!(GHOST));
            });
        }),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point altered: its path",
        hurt: Hand(|wiki, page| {
            alter(wiki, page, |point| {
                point.payload.insert("path".into(), json!(GHOST));
            });
        }),
        drift: Page("stale", &["vectors"]),
        fast: false,
    },
    Damage {
        name: "point extra, without a path",
        hurt: Hand(|wiki, page| {
            copy(wiki, page, some_id(), |payload| {
                payload.remove("path");
                payload.remove("keys");
            });
        }),
        drift: Stray("vectors", ""),
        fast: false,
    },
    Damage {
        name: "point extra, looked up by no page",
        hurt: Hand(|wiki, page| {
            copy(wiki, page, some_id(), |payload| {
                payload.insert("keys".into(), json!(["tag:x"]));
            });
        }),
        drift: Stray("vectors", ""),
        fast: false,
    },
    Damage {
        name: "collection missing",
        hurt: Hand(|wiki, _| fs::remove_dir_all(wiki.root().join(".wiki-sync/vectors")).unwrap()),
        drift: All("vectors"),
        fast: true,
    },
    Damage {
        name: "collection altered: its id",
        hurt: Hand(|wiki, _| other_store(wiki)),
        drift: Replaced("vectors"),
        fast: false,
    },
    Damage {
        name: "receipt missing",
        hurt: Sql("DELETE FROM receipts WHERE path = ?1 AND store <> 'git'"),
        drift: Page("unproven", &["graph", "vectors"]),
        fast: true,
    },
    Damage {
        name: "receipt altered",
        hurt: Hand(alter_receipts),
        drift: Page("unproven", ALL),
        fast: true,
    },
    Damage {
        name: "receipt extra",
        hurt: Sql(
            "INSERT INTO receipts SELECT 'wiki-output/ghost.md', 'graph', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', '', NULL FROM files WHERE path = ?1",
        ),
        drift: Ghost("unproven", &["graph"]),
        fast: true,
    },
    Damage {
        name: "HEAD entry missing",
        hurt: Hand(commit_away),
        drift: Page("missing", &["git"]),
        fast: true,
    },
    Damage {
        name: "HEAD entry altered",
        hurt: Hand(commit_other),
        drift: Page("stale", &["git"]),
        fast: true,
    },
    Damage {
        name: "HEAD entry extra",
        hurt: Hand(|wiki, _| commit_other(wiki, GHOST)),
        drift: Ghost("orphan", &["git"]),
        fast: true,
    },
    Damage {
        name: "file missing",
        hurt: Hand(Wiki::remove),
        drift: Page("orphan", ALL),
        fast: true,
    },
    Damage {
        name: "file altered",
        hurt: Hand(|wiki, page| wiki.write(page, "# Other\n\nwords that came later, [[b]]\n")),
        drift: Page("stale", ALL),
        fast: true,
    },
    Damage {
        name: "file extra",
        hurt: Hand(|wiki, _| wiki.write(GHOST, "# Ghost\n")),
        drift: Ghost("missing", ALL),
        fast: true,
    },
];

/// Makes the receipts of a page say the worst: that the stores hold what is on disk, when they do not; else something else.
fn alter_receipts(wiki: &Wiki, page: &str) {
    let text = fs::read(wiki.root().join(page)).unwrap();
    let sha = wiki_sync::model::ContentSha::of(&text).to_string();
    let other = "0".repeat(64);
    let sql = format!(
        "UPDATE receipts SET sha = CASE coalesce(sha, '') WHEN '{sha}' THEN '{other}' ELSE '{sha}' END WHERE path = ?1"
    );
    sqlite(wiki, &sql, page);
}
