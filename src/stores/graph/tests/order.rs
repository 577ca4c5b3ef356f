//! The order in which pages arrive does not matter.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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
            prop_assert_eq!(store.check_resolution(), Ok(Vec::new()));
        }
        let pages: Vec<_> = pages.iter().map(|(path, text)| page(path, text)).collect();
        let mut fresh = memory_store();
        let all: Vec<Change> = pages.iter().cloned().map(Change::Put).collect();
        apply(&mut fresh, &all);
        prop_assert_eq!(dump(&store), dump(&fresh));
        prop_assert_eq!(inventory(&mut store), expected(&mut fresh, &pages));
    }
}

#[test]
fn an_alias_that_becomes_the_title_is_followed_by_the_links_that_it_answers() {
    let (_dir, mut store) = store();
    apply(&mut store, &[put("e.md", "---\naliases: [y]\n---\n")]);
    apply(&mut store, &[put("index.md", "[[y]]\n")]);
    apply(&mut store, &[put("e.md", "---\ntitle: y\n---\n")]);
    assert_eq!(store.check_resolution(), Ok(vec![]));
}
