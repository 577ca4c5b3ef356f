//! What the pages of a random story are called, and what stands in them.

use crate::dice::Dice;

pub(super) const FOLDERS: [&str; 5] = ["", "sub/", "sub/deep/", "Other/", "한글 폴더/"];

/// Some differ only by case or normal form.
const NAMES: [&str; 14] = [
    "a.md",
    "b.md",
    "Note.md",
    "note.md",
    "index.md",
    "with space.md",
    "caf\u{e9}.md",
    "cafe\u{301}.md",
    "한글.md",
    "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.md",
    "x.mdx",
    "100% #1.md",
    "p.q.md",
    "공지사항.md",
];

const WORDS: [&str; 12] = [
    "queue",
    "outbox",
    "drain",
    "turtle",
    "아웃박스",
    "저장소",
    "lease",
    "graph",
    "zebra",
    "결국",
    "commit",
    "page",
];

/// The user's, and no page.
pub(super) const PICTURE: &str = "wiki-output/picture.png";

pub(super) fn is_page(path: &str) -> bool {
    path.starts_with("wiki-output/") && path != PICTURE
}

/// Every word that a page may hold.
pub(super) fn words() -> &'static [&'static str] {
    &WORDS
}

pub(super) fn path(dice: &mut Dice) -> String {
    let (folder, name) = (*dice.one_of(&FOLDERS), *dice.one_of(&NAMES));
    format!("wiki-output/{folder}{name}")
}

/// Front matter, mostly with something in it that graph or vectors keep.
pub(super) fn front_matter(dice: &mut Dice) -> String {
    let mut lines = vec!["---".to_owned()];
    if dice.below(2) == 0 {
        lines.push(format!("title: {} {}", dice.one_of(&WORDS), dice.below(3)));
    }
    if dice.below(3) == 0 {
        lines.push(format!("aliases: [{}, a]", dice.one_of(&WORDS)));
    }
    if dice.below(3) == 0 {
        lines.push(format!(
            "tags: [{}, t{}]",
            dice.one_of(&WORDS),
            dice.below(3)
        ));
    }
    for key in ["repo", "commit", "lang", "symbol"] {
        if dice.below(4) == 0 {
            lines.push(format!("{key}: {key}{}", dice.below(3)));
        }
    }
    lines.push("---\n".into());
    lines.join("\n")
}

/// A link in one of the forms there are, to a page that may exist.
fn link(dice: &mut Dice) -> String {
    let (folder, name) = (*dice.one_of(&FOLDERS), *dice.one_of(&NAMES));
    let bare = name.rsplit_once('.').map_or(name, |(bare, _)| bare);
    match dice.below(7) {
        0 => format!("[[{bare}]]"),
        1 => format!("[[{folder}{bare}|label]]"),
        2 => format!("![[{bare}#Part 1]]"),
        3 => format!("[text](<{folder}{name}>)"),
        4 => format!("[up](../{})", name.replace(' ', "%20")),
        5 => format!("[[{}]]", bare.to_uppercase()),
        _ => format!("[[{}]]", dice.one_of(&WORDS)),
    }
}

pub(super) fn body(dice: &mut Dice) -> String {
    let mut text = String::new();
    for part in 0..dice.below(4) {
        text.extend(["# Part ", &part.to_string(), "\n\n"]);
        for _ in 0..=dice.below(4) {
            text += *dice.one_of(&WORDS[..]);
            text += " ";
        }
        for _ in 0..dice.below(4) {
            text += &link(dice);
            text += "\n";
        }
        text += "\n";
    }
    text
}

/// Toggles the case of a path's last part, or writes it in the other normal form.
pub(super) fn other_spelling(path: &str, dice: &mut Dice) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let turned: String = if dice.below(2) == 0 {
        let upper = name.to_uppercase();
        if upper == name {
            name.to_lowercase()
        } else {
            upper
        }
    } else {
        use unicode_normalization::UnicodeNormalization as _;
        let nfd: String = name.nfd().collect();
        if nfd == name {
            name.nfc().collect()
        } else {
            nfd
        }
    };
    format!("{folder}/{turned}")
}
