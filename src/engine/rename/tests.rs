//! Random wikis, random moves: every link leads where it led, and nothing but destinations has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::plan::{Moves, World, plan};
use crate::model::markdown::{Document, edited, inverse};
use crate::model::{Change, Failure, FailureKind, Labels, Page, PagePath};
use crate::state::open_db;
use crate::stores::Store as _;
use crate::stores::graph::{By, GraphStore, Leads};

/// A small generator: the same seed gives the same wiki.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

type Pages = BTreeMap<PagePath, String>;

const FOLDERS: [&str; 6] = ["", "x/", "x/y/", "z/", "한/", "new folder/"];
const NAMES: [&str; 12] = [
    "a", "b", "c", "한글", "New Page", "index", "README", "n.js", "p(1)", "q#r", "s & t", "[u]",
];
const FILES: [&str; 3] = ["w/img/p.png", "w/x/p.png", "src/main.rs"];

fn random_path(dice: &mut Dice) -> PagePath {
    let end = dice.of(&[".md", ".md", ".md", ".markdown"]);
    let path = format!("w/{}{}{end}", dice.of(&FOLDERS), dice.of(&NAMES));
    PagePath::parse(&path).expect("a path")
}

fn percent(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string");
        }
    }
    out
}

/// A link of any syntax, from a page to one of the pages, to none, or to a file.
fn random_link(dice: &mut Dice, from: &PagePath, pages: &[PagePath], at: usize) -> String {
    let to = match dice.below(8) {
        0 => "w/x/nowhere.md".to_owned(),
        1 => dice.of(&FILES).to_owned(),
        _ => pages[dice.below(pages.len())].to_string(),
    };
    let below = to.strip_prefix("w/").unwrap_or("../src/main.rs");
    let up = "../".repeat(from.as_str().matches('/').count() - 1);
    let stem = PagePath::parse(&to).expect("a path").stem().to_owned();
    let bare = below.rsplit_once('/').map_or(below, |(_, name)| name);
    let target = match dice.below(7) {
        0 => format!("/{below}"),
        1 => below.to_owned(),
        2 => stem,
        3 => bare.to_owned(),
        4 => below.trim_end_matches(".md").to_owned(),
        _ if up.is_empty() => format!("./{below}"),
        _ => format!("{up}{below}"),
    };
    let anchor = dice.of(&["", "", "#머리", "#h"]);
    let wiki = target
        .replace('[', "\\[")
        .replace(']', "\\]")
        .replace('#', "\\#");
    match dice.below(9) {
        0 => format!("[[{wiki}{anchor}]]"),
        1 => format!("[[{wiki}]]"),
        2 => format!("[[{wiki}{anchor}|label {at}]]"),
        3 => format!("![[{wiki}]]"),
        4 => format!("[label](<{}{anchor}>)", target.replace('#', "%23")),
        5 => format!("![pic]({})", percent(&target)),
        6 => format!(
            "[label {at}][r{at}]\n\n[r{at}]: {}{anchor} \"t\"\n\n",
            percent(&target)
        ),
        7 => format!(
            "\n\n| a | [[{wiki}\\|l]] | [[{wiki}]] |\n|---|---|---|\n| [x]({}) | `[[{wiki}]]` | |\n\n",
            percent(&target)
        ),
        _ => format!("[label]({}{anchor})", percent(&target)),
    }
}

fn random_wiki(dice: &mut Dice) -> Pages {
    let paths: BTreeSet<PagePath> = (0..4 + dice.below(7)).map(|_| random_path(dice)).collect();
    let paths: Vec<_> = paths.into_iter().collect();
    let mut pages = Pages::new();
    for path in &paths {
        let mut text = match dice.below(4) {
            0 => format!("---\naliases: [al{}]\n---\n", dice.below(3)),
            1 => format!("# Title {}\n", dice.below(3)),
            _ => String::new(),
        };
        for at in 0..dice.below(6) {
            text.push_str(&random_link(dice, path, &paths, at));
            text.push_str(dice.of(&[" ", "\n", "\r\n", " **x** ", "\n```\n[[a]]\n```\n", "\n> "]));
        }
        pages.insert(path.clone(), text);
    }
    pages
}

fn random_moves(dice: &mut Dice, pages: &Pages) -> Moves {
    let paths: Vec<&PagePath> = pages.keys().collect();
    if dice.below(4) == 0 {
        for (from, to) in [("w/x", "w/moved"), ("w/x/y", "w/yy"), ("w/z", "w/x/z2")] {
            let inside = |path: &&&PagePath| path.as_str().starts_with(&format!("{from}/"));
            let moved: BTreeMap<PagePath, PagePath> = paths
                .iter()
                .filter(inside)
                .map(|path| {
                    let new = format!("{to}{}", &path.as_str()[from.len()..]);
                    ((*path).clone(), PagePath::parse(&new).expect("a path"))
                })
                .collect();
            if !moved.is_empty() {
                return Moves {
                    pages: moved,
                    folder: Some((from.into(), to.into())),
                };
            }
        }
    }
    let from = paths[dice.below(paths.len())].clone();
    let to = std::iter::repeat_with(|| random_path(dice))
        .find(|to| !pages.contains_key(to))
        .expect("there are more names than pages");
    Moves {
        pages: BTreeMap::from([(from, to)]),
        folder: None,
    }
}

fn graph_of(pages: &Pages) -> GraphStore {
    let db = open_db(Path::new(":memory:")).expect("a database");
    let mut graph = GraphStore::open(db, "w");
    let puts: Vec<Change> = pages
        .iter()
        .map(|(path, text)| {
            let page = Page::new(path.clone(), text.clone(), Labels::default());
            Change::Put(Arc::new(page))
        })
        .collect();
    graph.apply(&puts, 1).expect("applied");
    graph
}

fn leads(graph: &mut GraphStore, page: &PagePath) -> Vec<Leads> {
    graph
        .what_if(|what_if| what_if.leads(page.as_str()))
        .expect("readable")
}

/// What is left of a text without its links and definitions.
fn without_links(path: &PagePath, text: &str) -> String {
    let mut left = text.to_owned();
    for link in Document::parse(path, text).links.iter().rev() {
        if left.get(link.range.clone()).is_some() {
            left.replace_range(link.range.clone(), "@");
        }
    }
    let lines = left.split_inclusive('\n');
    lines
        .map(|line| {
            if line.starts_with("[r") {
                "definition\n"
            } else {
                line
            }
        })
        .collect()
}

/// Returns whether the story moved anything that had links to be rewritten.
#[allow(clippy::too_many_lines)] // one story, told in order
fn play(seed: u64) -> Option<usize> {
    let mut dice = Dice(seed);
    let pages = random_wiki(&mut dice);
    let moves = random_moves(&mut dice, &pages);
    let mut before = graph_of(&pages);
    let world = World {
        pages_dir: "w",
        read: &|path| {
            let text = pages.get(path).cloned();
            text.ok_or_else(|| Failure::new(FailureKind::Busy, "no such page"))
        },
        exists: &|path| FILES.contains(&path) || pages.keys().any(|page| page.as_str() == path),
    };
    let story = || format!("seed {seed}: {:?} in {pages:#?}", moves.pages);
    let rewrites = match plan(&mut before, &world, &moves) {
        Ok(rewrites) => rewrites,
        // A wikilink has no way to name every page.
        Err(failure) if failure.kind == FailureKind::Rejected => return None,
        Err(failure) => panic!("{failure:?}, {}", story()),
    };
    let mut after_pages: Pages = pages
        .iter()
        .map(|(path, text)| {
            let path = moves.pages.get(path).unwrap_or(path);
            (path.clone(), text.clone())
        })
        .collect();
    for rewrite in &rewrites {
        let text = after_pages.get_mut(&rewrite.path).expect("a page");
        let new = edited(text, &rewrite.edits).expect("the edits fit");
        assert_eq!(
            edited(&new, &inverse(&rewrite.edits)).as_ref(),
            Some(&*text)
        );
        assert_ne!(new, *text, "{}", story());
        *text = new;
    }
    let mut after = graph_of(&after_pages);
    let moved = |page: &str| -> String {
        let moved = moves.pages.get(page).map(ToString::to_string);
        moved.unwrap_or_else(|| page.to_owned())
    };
    for (path, text) in &pages {
        let to = moves.pages.get(path).unwrap_or(path);
        let new_text = &after_pages[to];
        let (old, new) = (Document::parse(path, text), Document::parse(to, new_text));
        let (old_leads, new_leads) = (leads(&mut before, path), leads(&mut after, to));
        assert_eq!(old_leads.len(), new_leads.len(), "{}", story());
        for (at, (was, is)) in old_leads.iter().zip(&new_leads).enumerate() {
            let (link, new_link) = (&old.links[at], &new.links[at]);
            let case = || format!("{link:?} -> {new_link:?}: {was:?} -> {is:?}, {}", story());
            if let Some(page) = &was.page {
                assert_eq!(is.page.as_ref(), Some(&moved(page)), "{}", case());
                assert!(was.ambiguous || !is.ambiguous, "{}", case());
                assert!(was.by == By::Text || is.by != By::Text, "{}", case());
                // As every reader of Markdown reads it.
                let literal = |page: &PagePath, target: &str| {
                    let mut at: Vec<&str> = page.folder().split('/').collect();
                    for part in target.split('/').filter(|part| *part != ".") {
                        if part == ".." {
                            at.pop();
                        } else {
                            at.push(part);
                        }
                    }
                    at.join("/")
                };
                let markdown = !text[link.range.clone()].contains("[[");
                if markdown && literal(path, &link.target) == *page {
                    assert_eq!(literal(to, &new_link.target), moved(page), "{}", case());
                }
            } else {
                let found = is.page.as_ref();
                let by_its_new_name =
                    |page: &String| moves.pages.values().any(|to| to.as_str() == page);
                assert!(found.is_none_or(by_its_new_name), "{}", case());
            }
            assert_eq!(link.anchor, new_link.anchor, "{}", case());
            assert_eq!(link.kind, new_link.kind, "{}", case());
            let label = link.label.as_ref();
            assert!(
                label.is_none_or(
                    |label| new_link.label.as_ref() == Some(label) || new_link.target == *label
                ),
                "{}",
                case()
            );
        }
        assert_eq!(
            without_links(path, text),
            without_links(to, new_text),
            "{}",
            story()
        );
    }
    Some(rewrites.len())
}

fn play_all(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let mut refused = 0;
    let mut rewritten = 0;
    for seed in seeds {
        match play(seed) {
            Some(rewrites) => rewritten += u64::from(rewrites > 0),
            None => refused += 1,
        }
    }
    assert!(
        rewritten * 2 > count,
        "{rewritten} of {count} had links to rewrite"
    );
    assert!(refused * 20 < count, "{refused} of {count} were refused");
}

#[test]
fn every_link_leads_where_it_led_whatever_moves() {
    play_all(0..150);
}

#[test]
#[ignore = "four thousand random wikis: for scripts/test --long"]
fn every_link_leads_where_it_led_whatever_moves_in_four_thousand_wikis() {
    play_all(1_000..5_000);
}
