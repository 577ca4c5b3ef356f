//! What a search puts first, and what it says where nothing is found.

use serde_json::{Value, json};

use crate::wiki::Wiki;

const FOLDER: &str = "wiki-output/";

/// A wiki in which the page called 시작 is the worst answer to that word, by words alone.
fn wiki() -> Wiki {
    let many = |n: usize| {
        let at = format!("wiki-output/guides/{n:02}.md");
        let text = format!(
            "---\ntags: [Guide]\nlang: ko\n---\n# 시작 안내 {n}\n\n시작 시작 시작 시작. 시작한다 {n}\n"
        );
        (at, text)
    };
    let long = "다른 말이 아주 많이 있는 긴 글이다. ".repeat(60);
    let named = [
        (
            "start.md",
            format!("---\ntags: [한글]\nlang: en\n---\n# 시작\n\n{long}\n"),
        ),
        (
            "alias.md",
            "---\naliases: [시작]\n---\n# Something else\n\nno such word\n".into(),
        ),
        ("deep/시작.md", format!("# 처음\n\n{long} 시작\n")),
        ("smile.md", "# 😀\n\nonly a face\n".into()),
    ];
    let named = named.map(|(at, text)| (format!("{FOLDER}{at}"), text));
    let pages: Vec<_> = (0..20).map(many).chain(named).collect();
    let pages: Vec<_> = pages.iter().map(|(at, text)| (&**at, &**text)).collect();
    let wiki = Wiki::with(&pages);
    wiki.drain();
    wiki
}

fn paths(hits: &Value) -> Vec<&str> {
    let hits = hits.as_array().unwrap().iter();
    hits.map(|hit| hit["path"].as_str().unwrap().trim_start_matches(FOLDER))
        .collect()
}

#[test]
fn pages_whose_title_alias_or_file_name_is_the_query_come_first() {
    let wiki = wiki();
    let search = |args: &[&str]| wiki.json(0, &[&["search"], args].concat());
    let all = search(&["시작", "-n", "50"]);
    let found = paths(&all);
    assert_eq!(found.len(), 23, "each once: {found:?}");
    let mut first = found[..3].to_vec();
    assert_eq!(first.pop(), Some("alias.md"), "the word is not in it");
    first.sort_unstable();
    assert_eq!(first, ["deep/시작.md", "start.md"]);
    let scores: Vec<f64> = (0..23).map(|n| all[n]["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // What follows is what was found without: the same pages, in the same order, with the same scores.
    let plain = search(&["시작 시작", "-n", "50"]);
    let rest = |hits: &Value| -> Vec<Value> {
        let is_named = |hit: &&Value| !paths(&json!([hit]))[0].starts_with("guides/");
        let hits = hits.as_array().unwrap().iter();
        hits.filter(|hit| !is_named(hit)).cloned().collect()
    };
    assert_eq!(rest(&all), rest(&plain));
    assert!(!paths(&plain)[..3].contains(&"start.md"), "{plain}");
    // Whatever the number of pages and the normal form of the name.
    let nfd = "\u{1109}\u{1175}\u{110c}\u{1161}\u{11a8}";
    for query in ["시작", nfd, " 시작 "] {
        assert_eq!(paths(&search(&[query, "-n", "2"])), found[..2], "{query:?}");
    }
    assert_eq!(paths(&search(&["deep/시작"]))[0], "deep/시작.md");
    // Only among the pages that were asked for.
    assert_eq!(paths(&search(&["시작", "--tag", "한글"])), ["start.md"]);
    let guides = search(&["시작", "--path-prefix", "guides/"]);
    assert!(
        paths(&guides)
            .iter()
            .all(|path| path.starts_with("guides/"))
    );
    // A name that has no word in it.
    assert_eq!(paths(&search(&["😀"])), ["smile.md"]);
    let told = wiki.ws(&["search", "😀"]).code(0).out;
    assert!(told.ends_with("\n1 page, by name\n"), "{told}");
}

#[test]
fn a_tag_is_meant_in_any_spelling_and_what_no_page_has_is_said() {
    let wiki = wiki();
    for tag in [
        "#한글",
        "한글",
        "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}",
    ] {
        let hits = wiki.json(0, &["search", "다른 말", "--tag", tag]);
        assert_eq!(paths(&hits), ["start.md"], "{tag:?}");
    }
    let hits = wiki.json(0, &["search", "안내", "--tag", "guide", "-n", "50"]);
    assert_eq!(paths(&hits).len(), 20);
    for (flags, said) in [
        (
            &["--tag", "#guides"][..],
            "no page has the tag \"guides\"; did you mean Guide?",
        ),
        (
            &["--tag", "zzz"],
            "no page has the tag \"zzz\"; often used are Guide, 한글",
        ),
        (
            &["--tag", "한글"],
            "it is in other pages, not in those with tag \"한글\"",
        ),
        (
            &["--path-prefix", "nowhere/"],
            "no page's path begins with \"wiki-output/nowhere/\"",
        ),
        (
            &["--lang", "kr"],
            "the best pages for it have no lang \"kr\"; they have ko",
        ),
        (
            &["--repo", "none"],
            "the best pages for it have no repo \"none\"; they have ",
        ),
    ] {
        let told = wiki.ws(&[&["search", "안내"], flags].concat()).code(0);
        assert!(told.err.contains(said), "{flags:?}: {}", told.err);
        assert_eq!(told.out, "nothing found\n", "{flags:?}");
    }
    let told = wiki.ws(&["search", "xyzzy", "--lang", "ko"]).code(0);
    assert_eq!(
        (told.out.as_str(), told.err.as_str()),
        ("nothing found\n", "")
    );
}
