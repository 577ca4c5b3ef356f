use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::{Labels, PagePath};
use crate::state::open_db;

const DIR: &str = "wiki-output";

fn store() -> (tempfile::TempDir, GraphStore) {
    let dir = tempfile::tempdir().expect("a folder");
    let db = open_db(&dir.path().join("wiki.db")).expect("a database");
    (dir, GraphStore::open(db, DIR))
}

/// A store in memory, for the tests that open many.
fn memory_store() -> GraphStore {
    GraphStore::open(
        open_db(std::path::Path::new(":memory:")).expect("a database"),
        DIR,
    )
}

fn page(path: &str, text: &str) -> Arc<Page> {
    let path = PagePath::parse(&format!("{DIR}/{path}")).expect("a page's path");
    Arc::new(Page::new(path, text.into(), Labels::default()))
}

fn put(path: &str, text: &str) -> Change {
    Change::Put(page(path, text))
}

fn remove(path: &str) -> Change {
    Change::Remove(PagePath::parse(&format!("{DIR}/{path}")).expect("a page's path"))
}

fn apply(store: &mut GraphStore, changes: &[Change]) -> Vec<bool> {
    store
        .apply(changes, 1)
        .expect("the store is there")
        .into_iter()
        .map(|outcome| outcome.expect("the graph rejects no page").changed)
        .collect()
}

/// Every row of every table, so that nothing can differ unseen.
fn dump(store: &GraphStore) -> Vec<String> {
    let mut lines = Vec::new();
    for table in [
        "graph_pages",
        "graph_names",
        "graph_tags",
        "graph_links",
        "graph_link_keys",
    ] {
        let mut select = store
            .db
            .prepare(&format!("SELECT * FROM {table}"))
            .expect("a table");
        let columns = select.column_count();
        let rows = select
            .query_map([], |row| {
                let values: Vec<Value> = (0..columns)
                    .map(|i| row.get(i))
                    .collect::<rusqlite::Result<_>>()?;
                Ok(format!("{table} {values:?}"))
            })
            .expect("rows");
        lines.extend(rows.map(|row| row.expect("a row")));
    }
    lines.sort();
    lines
}

/// The links of a page as `target → page (how)`, in order.
fn links_of(store: &GraphStore, path: &str) -> Vec<String> {
    let mut select = store
        .db
        .prepare(
            "SELECT target || ' → ' || coalesce(replace(dst, 'wiki-output/', '') || ' (' || how || ')', leads_to)
                 || iif(ambiguous, ' ambiguous', '')
             FROM graph_links WHERE path = ? ORDER BY ordinal",
        )
        .expect("the table");
    select
        .query_map([format!("{DIR}/{path}")], |row| row.get(0))
        .expect("rows")
        .collect::<rusqlite::Result<_>>()
        .expect("texts")
}

/// Checks what one link of the page `from` resolves to among pages that are there.
fn assert_leads(pages: &[(&str, &str)], from: &str, link: &str, to: &str) {
    let mut store = memory_store();
    let mut changes: Vec<Change> = pages.iter().map(|(path, text)| put(path, text)).collect();
    changes.push(put(from, link));
    apply(&mut store, &changes);
    let links = links_of(&store, from);
    assert_eq!(links.len(), 1, "{link:?} is one link: {links:?}");
    let (_, found) = links[0].split_once(" → ").expect("a link");
    assert_eq!(found, to, "{link:?} in {from} among {pages:?}");
}

#[test]
fn links_lead_where_obsidians_users_expect() {
    type Case<'a> = (&'a [&'a str], &'a str, &'a str, &'a str);
    let nfc = "[[\u{d55c}\u{ae00}]]";
    let nfd = "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.md";
    let cases: &[Case<'_>] = &[
        // E3: whole parts only
        (&["another-todo.md"], "a.md", "[[todo]]", "placeholder"),
        (
            &["another-todo.md", "d/todo.md"],
            "a.md",
            "[[todo]]",
            "d/todo.md (shortest)",
        ),
        (
            &["x/sub/c.md", "xsub/c.md"],
            "a.md",
            "[[sub/c]]",
            "x/sub/c.md (shortest)",
        ),
        // the nearer place first
        (&["x.md", "d/x.md"], "d/a.md", "[[x]]", "d/x.md (folder)"),
        (&["x.md", "e/x.md"], "d/a.md", "[[x]]", "x.md (exact)"),
        (
            &["d/s/x.md", "s/x.md"],
            "d/a.md",
            "[[s/x]]",
            "d/s/x.md (exact)",
        ),
        (
            &["p/q/x.md", "e/x.md"],
            "d/a.md",
            "[[x]]",
            "e/x.md (shortest)",
        ),
        (
            &["f/x.md", "e/x.md"],
            "d/a.md",
            "[[x]]",
            "e/x.md (shortest) ambiguous",
        ),
        (
            &["ff/x.md", "ez/x.md", "g/x.md"],
            "d/a.md",
            "[[x]]",
            "g/x.md (shortest) ambiguous",
        ),
        // a slash in front is the wiki's root
        (&["x.md", "d/x.md"], "d/a.md", "[[/x]]", "x.md (exact)"),
        (&["d/x.md"], "d/a.md", "[[/x]]", "placeholder"),
        // extensions
        (&["x.mdx"], "a.md", "[[x]]", "x.mdx (folder)"),
        (&["x.mdx"], "a.md", "[[x.mdx]]", "x.mdx (folder)"),
        (&["x.mdx"], "a.md", "[[x.md]]", "placeholder"),
        (
            &["x.mdx", "x.md"],
            "a.md",
            "[[x]]",
            "x.md (folder) ambiguous",
        ),
        (
            &["Node.js.md"],
            "a.md",
            "[[Node.js]]",
            "Node.js.md (folder)",
        ),
        (&[], "a.md", "[[Node.js]]", "placeholder"),
        (&[], "a.md", "[[v1.2]]", "placeholder"),
        // files that are no pages
        (&[], "a.md", "[[diagram.PNG]]", "file"),
        (&["png.md"], "a.md", "![x](img/diagram.svg)", "file"),
        (&[], "a.md", "[paper](paper.pdf)", "file"),
        (&[], "a.md", "[code](../src/main.rs)", "file"),
        // case and normal form, only after the exact match
        (&["Config.md"], "a.md", "[[config]]", "Config.md (folded)"),
        (
            &["Config.md", "config.md"],
            "a.md",
            "[[config]]",
            "config.md (folder)",
        ),
        (
            &["CONFIG.md", "Config.md"],
            "a.md",
            "[[config]]",
            "CONFIG.md (folded) ambiguous",
        ),
        (
            &[nfd],
            "a.md",
            nfc,
            "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.md (folded)",
        ),
        (
            &["people/홍길동.md", "people/김철수.md"],
            "a.md",
            "[[홍길동]]",
            "people/홍길동.md (shortest)",
        ),
        (
            &["d/Config.md", "config.md"],
            "d/a.md",
            "[[config]]",
            "d/Config.md (folded)",
        ),
        // dots
        (
            &["x.md", "d/x.md"],
            "d/a.md",
            "[t](../x.md)",
            "x.md (exact)",
        ),
        (&["d/x.md", "x.md"], "a.md", "[t](./x.md)", "x.md (exact)"),
        (&["e/x.md"], "d/a.md", "[t](./x.md)", "placeholder"),
        (&["x.md"], "a.md", "[t](../x.md)", "file"),
        (&["x.md"], "a.md", "[t](../../../../etc/passwd)", "file"),
        (
            &["e/x.md"],
            "d/a.md",
            "[t](../d/../e/x.md)",
            "e/x.md (exact)",
        ),
        // folders
        (&["d/index.md"], "a.md", "[t](d/)", "d/index.md (exact)"),
        (&["d/_index.md"], "a.md", "[t](d/)", "d/_index.md (exact)"),
        (&["d/README.md"], "a.md", "[t](d)", "d/README.md (folder)"),
        (&["d/readme.md"], "a.md", "[t](d/)", "d/readme.md (folded)"),
        (
            &["d/index.md", "d/_index.md"],
            "a.md",
            "[t](d/)",
            "d/index.md (exact)",
        ),
        (&["d/index.md"], "a.md", "[[d]]", "placeholder"),
        (&["index.md"], "d/a.md", "[t](/)", "index.md (exact)"),
        (
            &["index.md", "d/index.md"],
            "d/e/a.md",
            "[t](..)",
            "d/index.md (exact)",
        ),
        // a site's addresses
        (
            &["en/guides/x.mdx"],
            "en/guides/a.mdx",
            "[t](/en/guides/x/#h)",
            "en/guides/x.mdx (exact)",
        ),
        (
            &["astro/guides/x.mdx", "other/guides/x.mdx"],
            "astro/a.mdx",
            "[t](/en/guides/x/)",
            "astro/guides/x.mdx (site)",
        ),
        (
            &["content/docs/x/_index.md"],
            "content/a.md",
            "[t](/docs/x/?tab=1#h)",
            "content/docs/x/_index.md (site)",
        ),
        (
            &["content/docs/x/_index.md"],
            "a.md",
            "[t](/docs/x/)",
            "content/docs/x/_index.md (shortest)",
        ),
        (
            &["index.md", "x.md"],
            "d/a.md",
            "[t](/nowhere/)",
            "placeholder",
        ),
        (&["d/y.md"], "d/x.md", "[t](../y/)", "d/y.md (site)"),
        (&["d/y.md"], "d/x/_index.md", "[t](../y/)", "d/y.md (exact)"),
        (&["d/x/y.md"], "d/x.md", "[t](y/)", "d/x/y.md (site)"),
        // what is written oddly
        (&["a b.md"], "a.md", "[t](a%20b.md)", "a b.md (folder)"),
        (&["x.md"], "a.md", "[[ x ]]", "x.md (folder)"),
        (&["d/x.md"], "a.md", "[[d//x]]", "d/x.md (exact)"),
    ];
    for (pages, from, link, to) in cases {
        let pages: Vec<(&str, &str)> = pages.iter().map(|path| (*path, "text")).collect();
        assert_leads(&pages, from, link, to);
    }
}

#[test]
fn aliases_then_titles_are_the_last_resort_of_wikilinks() {
    let alias = "---\naliases: [Zed, \"TCP/IP\"]\n---\ntext";
    let title = "---\ntitle: Zed\n---\ntext";
    let both = [("p.md", alias), ("q.md", title)];
    assert_leads(&both, "a.md", "[[Zed]]", "p.md (alias)");
    assert_leads(&both, "a.md", "[[zed]]", "p.md (alias)");
    assert_leads(&both, "a.md", "[[TCP/IP]]", "p.md (alias)");
    assert_leads(&both[1..], "a.md", "[[Zed]]", "q.md (title)");
    assert_leads(&both[1..], "a.md", "![[zed]]", "q.md (title)");
    assert_leads(&both, "a.md", "[t](Zed)", "placeholder");
    let named = [both[0], ("d/e/zed.md", "text")];
    assert_leads(&named, "a.md", "[[Zed]]", "d/e/zed.md (folded)");
    let twins = [("p.md", alias), ("b/q.md", alias)];
    assert_leads(&twins, "a.md", "[[Zed]]", "p.md (alias) ambiguous");
}

#[test]
fn a_link_follows_pages_that_come_and_go() {
    let mut store = memory_store();
    apply(
        &mut store,
        &[put("d/a.md", "[[x]] and [[Zed]] and [t](../e/)")],
    );
    let expect = |store: &GraphStore, x: &str, zed: &str, e: &str| {
        assert_eq!(
            links_of(store, "d/a.md"),
            [
                format!("x → {x}"),
                format!("Zed → {zed}"),
                format!("../e/ → {e}")
            ]
        );
    };
    expect(&store, "placeholder", "placeholder", "placeholder");
    apply(
        &mut store,
        &[put("q/r/X.md", "# Zed"), put("e/README.md", "")],
    );
    expect(
        &store,
        "q/r/X.md (folded)",
        "q/r/X.md (title)",
        "e/README.md (exact)",
    );
    apply(
        &mut store,
        &[
            put("q/x.md", "---\nalias: Zed\n---\n"),
            put("e/index.md", ""),
        ],
    );
    expect(
        &store,
        "q/x.md (shortest)",
        "q/x.md (alias)",
        "e/index.md (exact)",
    );
    apply(&mut store, &[put("p/x.md", "")]);
    expect(
        &store,
        "p/x.md (shortest) ambiguous",
        "q/x.md (alias)",
        "e/index.md (exact)",
    );
    apply(
        &mut store,
        &[remove("p/x.md"), put("q/x.md", "no alias any more")],
    );
    expect(
        &store,
        "q/x.md (shortest)",
        "q/r/X.md (title)",
        "e/index.md (exact)",
    );
    apply(
        &mut store,
        &[
            remove("q/x.md"),
            put("q/r/X.md", "# Other"),
            remove("e/index.md"),
            remove("e/README.md"),
        ],
    );
    expect(&store, "q/r/X.md (folded)", "placeholder", "placeholder");
}

#[test]
fn the_second_of_two_equal_calls_changes_nothing() {
    let (_dir, mut store) = store();
    let changes = [
        put("a.md", "# A\n[[b]] #tag"),
        put("b.md", "---\naliases: [c]\nsymbol: s\n---\n[[a]]"),
    ];
    assert_eq!(apply(&mut store, &changes), [true, true]);
    let before = dump(&store);
    assert_eq!(apply(&mut store, &changes), [false, false]);
    assert_eq!(apply(&mut store, &[remove("z.md")]), [false]);
    assert_eq!(dump(&store), before);
    assert_eq!(apply(&mut store, &[remove("a.md")]), [true]);
    assert_eq!(
        apply(&mut store, &[remove("a.md"), remove("b.md")]),
        [false, true]
    );
    assert_eq!(dump(&store), [String::new(); 0]);
}

#[test]
fn identity_stays_and_the_epoch_moves_with_the_batch() {
    let (dir, mut store) = store();
    let first = store.identity().expect("an identity");
    assert_eq!(first.epoch, 0);
    store.apply(&[put("a.md", "")], 7).expect("applied");
    drop(store);
    let db = open_db(&dir.path().join("wiki.db")).expect("a database");
    let again = GraphStore::open(db, DIR).identity().expect("an identity");
    assert_eq!((again.id, again.epoch), (first.id.clone(), 7));
    let other = memory_store().identity().expect("an identity");
    assert_ne!(other.id, first.id);
}

#[test]
fn any_damage_shows_in_the_inventory_and_a_put_heals_it() {
    let pages = [
        page(
            "a.md",
            "---\naliases: [al]\n---\n# A\n[[b|label]] [[nowhere]] #tag",
        ),
        page("b.md", "# B\n[[a#h]]"),
        page("c.md", "# C"),
    ];
    let damages = [
        "DELETE FROM graph_pages WHERE path LIKE '%/a.md'",
        "UPDATE graph_pages SET title = 'x' WHERE path LIKE '%/a.md'",
        "UPDATE graph_pages SET metadata = '{}' WHERE path LIKE '%/a.md'",
        "UPDATE graph_pages SET derived_by = 'old' WHERE path LIKE '%/a.md'",
        "DELETE FROM graph_names WHERE path LIKE '%/a.md' AND kind = 'alias'",
        "UPDATE graph_names SET key = 'other' WHERE path LIKE '%/a.md' AND kind = 'path'",
        "INSERT INTO graph_names SELECT path, 'alias', 'b', 'b', '', 0, 0 FROM graph_pages WHERE path LIKE '%/a.md'",
        "DELETE FROM graph_tags",
        "UPDATE graph_tags SET tag = 'other'",
        "DELETE FROM graph_links WHERE path LIKE '%/a.md' AND ordinal = 1",
        "DELETE FROM graph_links WHERE path LIKE '%/a.md'",
        "UPDATE graph_links SET target = 'c' WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET kind = 'odd' WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET label = NULL WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET line = line + 1 WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET dst = 'wiki-output/c.md' WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET dst = NULL WHERE path LIKE '%/a.md' AND ordinal = 0",
        "UPDATE graph_links SET leads_to = 'page', dst = 'wiki-output/c.md' WHERE path LIKE '%/a.md' AND ordinal = 1",
        "UPDATE graph_links SET ambiguous = 1 WHERE path LIKE '%/a.md' AND ordinal = 0",
        "INSERT INTO graph_links SELECT path, 99, kind, target, anchor, label, line, wants, leads_to, dst, how, ambiguous
         FROM graph_links WHERE path LIKE '%/a.md' AND ordinal = 0",
        "DELETE FROM graph_link_keys WHERE path LIKE '%/a.md'",
        "INSERT INTO graph_link_keys VALUES ('wiki-output/a.md', 5, 'k')",
    ];
    for damage in damages {
        let mut store = memory_store();
        let changes = pages.clone().map(Change::Put);
        apply(&mut store, &changes);
        let sound = dump(&store);
        assert_eq!(inventory(&mut store), expected(&mut store, &pages));
        let rows = store.db.execute(damage, []).expect("damage");
        assert!(rows > 0, "{damage} did nothing");
        let held = inventory(&mut store);
        let wrong: Vec<_> = expected(&mut store, &pages)
            .into_iter()
            .filter(|page| !held.contains(page))
            .collect();
        assert!(
            wrong.iter().any(|(path, _)| path.ends_with("/a.md")),
            "{damage} went unseen"
        );
        // As repair does: each page that differs is put again, in one batch and then alone.
        let again: Vec<Change> = pages
            .iter()
            .filter(|page| wrong.iter().any(|(path, _)| path == page.path.as_str()))
            .map(|page| Change::Put(Arc::clone(page)))
            .collect();
        assert!(apply(&mut store, &again).contains(&true), "{damage}");
        assert_eq!(dump(&store), sound, "{damage} was not healed");
    }
}

#[test]
fn rows_of_a_page_that_is_gone_are_an_orphan_that_a_removal_clears() {
    let mut store = memory_store();
    apply(&mut store, &[put("a.md", "[[b]]"), put("b.md", "")]);
    store
        .db
        .execute("DELETE FROM graph_pages WHERE path LIKE '%/a.md'", [])
        .expect("damage");
    assert_eq!(inventory(&mut store).len(), 2);
    assert_eq!(
        apply(&mut store, &[remove("a.md"), remove("b.md")]),
        [true, true]
    );
    assert_eq!(dump(&store), [String::new(); 0]);
}

#[test]
fn another_wiki_folder_is_another_fingerprint_and_renames_every_page() {
    let mut store = memory_store();
    let changes = [put("d/a.md", "[[/x]]"), put("d/x.md", "")];
    apply(&mut store, &changes);
    assert_eq!(links_of(&store, "d/a.md"), ["/x → placeholder"]);
    let before = store.fingerprint();
    store.root = Root::new("./wiki-output/d/");
    assert_ne!(store.fingerprint(), before);
    assert_eq!(apply(&mut store, &changes), [true, true]);
    assert_eq!(links_of(&store, "d/a.md"), ["/x → d/x.md (exact)"]);
}

fn inventory(store: &mut GraphStore) -> Vec<(String, String)> {
    let held = store.inventory().expect("readable");
    assert!(held.is_sorted_by(|a, b| a.path < b.path));
    held.into_iter()
        .map(|page| (page.path, page.digest))
        .collect()
}

fn expected(store: &mut GraphStore, pages: &[Arc<Page>]) -> Vec<(String, String)> {
    let mut expected: Vec<_> = pages
        .iter()
        .map(|page| {
            let digest = store.expected(page).expect("derivable").expect("held");
            (page.path.to_string(), digest)
        })
        .collect();
    expected.sort();
    expected
}

// Few names over many pages, so that every rule meets every other.

fn any_folder() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "", "d/", "D/", "e/", "d/e/", "d/x/", "en/d/"])
        .prop_map(String::from)
}

fn any_stem() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "x", "x", "X", "y", "index", "_index", "README", "readme", "d", "e", "\u{e9}", "e\u{301}",
        "\u{c9}", "n.js",
    ])
    .prop_map(String::from)
}

fn any_path() -> impl Strategy<Value = String> {
    let ext = prop::sample::select(vec![".md", ".md", ".md", ".mdx", ".markdown"]);
    (any_folder(), any_stem(), ext).prop_map(|(folder, stem, ext)| format!("{folder}{stem}{ext}"))
}

fn any_target() -> impl Strategy<Value = String> {
    let front = prop::sample::select(vec!["", "", "", "/", "./", "../", "../../", "/en/"]);
    let back = prop::sample::select(vec!["", "", "", ".md", ".mdx", "/", "/..", ".png"]);
    (front, any_folder(), any_stem(), back)
        .prop_map(|(front, folder, stem, back)| format!("{front}{folder}{stem}{back}"))
}

fn any_link() -> impl Strategy<Value = String> {
    (0..4_u8, any_target()).prop_map(|(kind, target)| match kind {
        0 | 1 => format!("[[{target}]]"),
        2 => format!("[t]({target})"),
        _ => format!("![[{target}]]"),
    })
}

fn any_text() -> impl Strategy<Value = String> {
    let title = prop::option::of(any_stem());
    let alias = prop::sample::select(vec![
        "x", "X", "y", "n.js", "x.md", "d/e/x", "D/x", "\u{e9}",
    ]);
    let aliases = prop::collection::vec(alias, 0..3);
    let links = prop::collection::vec(any_link(), 0..5);
    (title, aliases, links).prop_map(|(title, aliases, links)| {
        let title = title.map_or(String::new(), |title| format!("title: \"{title}\"\n"));
        let aliases: Vec<String> = aliases.iter().map(|alias| format!("\"{alias}\"")).collect();
        format!(
            "---\n{title}aliases: [{}]\n---\n{}\n",
            aliases.join(", "),
            links.join("\n\n")
        )
    })
}

/// A page put (new or edited) or removed.
fn any_change() -> impl Strategy<Value = (String, Option<String>)> {
    (any_path(), prop::option::weighted(0.75, any_text()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_the_end_is_that_of_a_fresh_build(
        batches in prop::collection::vec(prop::collection::vec(any_change(), 1..8), 1..12)
    ) {
        let mut store = memory_store();
        let mut pages = BTreeMap::new();
        for batch in batches {
            // The same page never stands twice in a batch.
            let batch: BTreeMap<_, _> = batch.into_iter().collect();
            let changes: Vec<Change> = batch
                .iter()
                .rev()
                .map(|(path, text)| match text {
                    Some(text) => put(path, text),
                    None => remove(path),
                })
                .collect();
            apply(&mut store, &changes);
            for (path, text) in batch {
                match text {
                    Some(text) => pages.insert(path, text),
                    None => pages.remove(&path),
                };
            }
            prop_assert_eq!(store.check_resolution().expect("readable"), [String::new(); 0]);
        }
        let pages: Vec<_> = pages.iter().map(|(path, text)| page(path, text)).collect();
        let mut fresh = memory_store();
        let all: Vec<Change> = pages.iter().cloned().map(Change::Put).collect();
        apply(&mut fresh, &all);
        prop_assert_eq!(dump(&store), dump(&fresh));
        prop_assert_eq!(inventory(&mut store), expected(&mut fresh, &pages));
    }
}
