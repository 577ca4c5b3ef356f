//! Damage is seen and healed.

use super::*;

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
    assert!(dump(&store).is_empty());
}
