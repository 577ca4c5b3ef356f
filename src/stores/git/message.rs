//! What a commit says.

use std::fmt::Write as _;

use super::plan::Move;

/// How many paths a message lists; the rest is counted.
const LISTED: usize = 20;

fn verb_and_letter(page: &Move<'_>) -> (&'static str, char) {
    match (page.in_head, page.after) {
        (_, None) => ("remove", 'D'),
        (None, Some(_)) => ("add", 'A'),
        (Some(_), Some(_)) => ("update", 'M'),
    }
}

/// Returns the first line: `wiki: update wiki-output/a.md`, or `wiki: sync 7 pages`.
pub(super) fn subject(pages: &[Move<'_>]) -> String {
    match pages {
        [page] => format!("wiki: {} {}", verb_and_letter(page).0, page.path),
        pages => format!("wiki: sync {} pages", pages.len()),
    }
}

/// Returns the whole message; of several pages it lists the first 20, each with A, M or D.
pub(super) fn message(pages: &[Move<'_>]) -> String {
    let mut text = subject(pages);
    text.push('\n');
    if pages.len() < 2 {
        return text;
    }
    text.push('\n');
    let mut sorted: Vec<_> = pages.iter().collect();
    sorted.sort_by_key(|page| page.path);
    for page in sorted.iter().take(LISTED) {
        writeln!(text, "{} {}", verb_and_letter(page).1, page.path)
            .expect("writing to a string cannot fail");
    }
    if pages.len() > LISTED {
        writeln!(text, "and {} more", pages.len() - LISTED)
            .expect("writing to a string cannot fail");
    }
    text
}
