//! What links lead to.

use super::*;

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

/// Pages that are there, the page with the link, the link, and where it leads.
const CASES: &[&str] = &[
    // E3: whole parts only
    "another-todo.md | a.md | [[todo]] | placeholder",
    "another-todo.md, d/todo.md | a.md | [[todo]] | d/todo.md (shortest)",
    "x/sub/c.md, xsub/c.md | a.md | [[sub/c]] | x/sub/c.md (shortest)",
    // the nearer place first
    "x.md, d/x.md | d/a.md | [[x]] | d/x.md (folder)",
    "x.md, e/x.md | d/a.md | [[x]] | x.md (exact)",
    "d/s/x.md, s/x.md | d/a.md | [[s/x]] | d/s/x.md (exact)",
    "p/q/x.md, e/x.md | d/a.md | [[x]] | e/x.md (shortest)",
    "f/x.md, e/x.md | d/a.md | [[x]] | e/x.md (shortest) ambiguous",
    "ff/x.md, ez/x.md, g/x.md | d/a.md | [[x]] | g/x.md (shortest) ambiguous",
    // a slash in front is the wiki's root
    "x.md, d/x.md | d/a.md | [[/x]] | x.md (exact)",
    "d/x.md | d/a.md | [[/x]] | placeholder",
    // extensions
    "x.mdx | a.md | [[x]] | x.mdx (folder)",
    "x.mdx | a.md | [[x.mdx]] | x.mdx (folder)",
    "x.mdx | a.md | [[x.md]] | placeholder",
    "x.mdx, x.md | a.md | [[x]] | x.md (folder) ambiguous",
    "Node.js.md | a.md | [[Node.js]] | Node.js.md (folder)",
    "- | a.md | [[Node.js]] | placeholder",
    "- | a.md | [[v1.2]] | placeholder",
    // files that are no pages
    "- | a.md | [[diagram.PNG]] | file",
    "png.md | a.md | ![x](img/diagram.svg) | file",
    "- | a.md | [paper](paper.pdf) | file",
    "- | a.md | [code](../src/main.rs) | file",
    // case and normal form, only after the exact match
    "Config.md | a.md | [[config]] | Config.md (folded)",
    "Config.md, config.md | a.md | [[config]] | config.md (folder)",
    "CONFIG.md, Config.md | a.md | [[config]] | CONFIG.md (folded) ambiguous",
    "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.md | a.md | [[\u{d55c}\u{ae00}]] | \u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.md (folded)",
    "people/홍길동.md, people/김철수.md | a.md | [[홍길동]] | people/홍길동.md (shortest)",
    "d/Config.md, config.md | d/a.md | [[config]] | d/Config.md (folded)",
    // dots
    "x.md, d/x.md | d/a.md | [t](../x.md) | x.md (exact)",
    "d/x.md, x.md | a.md | [t](./x.md) | x.md (exact)",
    "e/x.md | d/a.md | [t](./x.md) | placeholder",
    "x.md | a.md | [t](../x.md) | file",
    "x.md | a.md | [t](../../../../etc/passwd) | file",
    "e/x.md | d/a.md | [t](../d/../e/x.md) | e/x.md (exact)",
    // folders
    "d/index.md | a.md | [t](d/) | d/index.md (exact)",
    "d/_index.md | a.md | [t](d/) | d/_index.md (exact)",
    "d/README.md | a.md | [t](d) | d/README.md (folder)",
    "d/readme.md | a.md | [t](d/) | d/readme.md (folded)",
    "d/index.md, d/_index.md | a.md | [t](d/) | d/index.md (exact)",
    "d/index.md | a.md | [[d]] | placeholder",
    "index.md | d/a.md | [t](/) | index.md (exact)",
    "index.md, d/index.md | d/e/a.md | [t](..) | d/index.md (exact)",
    // a site's addresses
    "en/guides/x.mdx | en/guides/a.mdx | [t](/en/guides/x/#h) | en/guides/x.mdx (exact)",
    "astro/guides/x.mdx, other/guides/x.mdx | astro/a.mdx | [t](/en/guides/x/) | astro/guides/x.mdx (site)",
    "content/docs/x/_index.md | content/a.md | [t](/docs/x/?tab=1#h) | content/docs/x/_index.md (site)",
    "content/docs/x/_index.md | a.md | [t](/docs/x/) | content/docs/x/_index.md (shortest)",
    "index.md, x.md | d/a.md | [t](/nowhere/) | placeholder",
    "d/y.md | d/x.md | [t](../y/) | d/y.md (site)",
    "d/y.md | d/x/_index.md | [t](../y/) | d/y.md (exact)",
    "d/x/y.md | d/x.md | [t](y/) | d/x/y.md (site)",
    "en/x/y.md | ko/a.md | [t](/ko/x/y/) | placeholder",
    "en/x/y.md | en/a.md | [t](/en/x/y) | en/x/y.md (exact)",
    // what is written oddly
    "what?.md | a.md | [t](what%3F.md) | what?.md (folder)",
    "a b.md | a.md | [t](a%20b.md) | a b.md (folder)",
    "x.md | a.md | [[ x ]] | x.md (folder)",
    "d/x.md | a.md | [[d//x]] | d/x.md (exact)",
];

#[test]
fn links_lead_where_obsidians_users_expect() {
    for case in CASES {
        let [pages, from, link, to] = case
            .split(" | ")
            .collect::<Vec<_>>()
            .try_into()
            .expect("four columns");
        let pages: Vec<(&str, &str)> = pages
            .split(", ")
            .filter(|path| *path != "-")
            .map(|path| (path, "text"))
            .collect();
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

#[test]
fn hostile_depth_and_length_stay_cheap() {
    let deep = format!("{}x.md", "a/".repeat(1800));
    let long = "b/".repeat(100_000);
    let text = format!("[t](/en/c/d/) [[{long}]] {}", "[t](/en/e/f/) ".repeat(2000));
    let mut store = memory_store();
    apply(&mut store, &[put(&deep, &text), put("e/f.md", "")]);
    let links = links_of(&store, &deep);
    assert_eq!(links.len(), 2002);
    assert_eq!(links[2001], "/en/e/f/ → e/f.md (site)");
    assert!(links[1].ends_with("→ file"));
}
