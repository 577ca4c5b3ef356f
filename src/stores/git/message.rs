//! What a commit says, and who is named as its author.

use std::fmt::Write as _;

use git2::Signature;

use super::moved::{counted, folder};
use super::plan::Move;
use super::tree::Held;
use crate::model::PagePath;

/// The template where none is set.
pub const DEFAULT_MESSAGE: &str = "wiki: {summary}";

/// What may stand in braces in a template.
const FIELDS: [&str; 5] = ["summary", "count", "title", "path", "paths"];
/// How many paths a message lists; the rest is counted.
const LISTED: usize = 20;
/// How much of a title goes into a message, in characters.
const TITLE: usize = 72;
/// How much of a path goes into a message, in characters.
const PATH: usize = 200;

/// Says what is wrong with a template for messages.
///
/// # Errors
/// When it is blank, holds control characters other than line breaks, or names what is no field.
pub fn check_message(template: &str) -> Result<(), String> {
    if template.trim().is_empty() {
        return Err("the message would be empty".into());
    }
    if template.chars().any(|c| c.is_control() && c != '\n') {
        return Err("it holds a control character".into());
    }
    for (_, field) in parts(template) {
        if let Some(field) = field
            && !FIELDS.contains(&field)
        {
            return Err(format!(
                "{{{field}}} is none of {{summary}}, {{count}}, {{title}}, {{path}}, {{paths}}"
            ));
        }
    }
    Ok(())
}

/// Says what is wrong with an author; the empty text means whoever commits.
///
/// # Errors
/// When it is not `Name <mail>`.
pub fn check_author(author: &str) -> Result<(), String> {
    if author.is_empty() || author_of(author).is_some() {
        return Ok(());
    }
    Err("it is not \"Name <mail>\"".into())
}

/// Returns name and mail of `Name <mail>`.
pub(super) fn author_of(author: &str) -> Option<(&str, &str)> {
    let (name, rest) = author.split_once('<')?;
    let (name, mail) = (name.trim(), rest.trim_end().strip_suffix('>')?.trim());
    let is_plain = |text: &str| !text.contains(['<', '>']) && !text.chars().any(char::is_control);
    let is_sound = is_plain(name) && is_plain(mail) && Signature::now(name, mail).is_ok();
    (is_sound && !mail.is_empty()).then_some((name, mail))
}

/// Cuts a template into its literal parts, each with the field after it.
fn parts(template: &str) -> Vec<(&str, Option<&str>)> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, field, after)) = rest.split_once('{').and_then(|(literal, after)| {
        let (field, after) = after.split_once('}')?;
        Some((literal, field, after))
    }) {
        parts.push((literal, Some(field)));
        rest = after;
    }
    parts.push((rest, None));
    parts
}

/// The pages of one commit, for its message.
pub(super) struct Told<'m, 'c> {
    pub(super) moves: &'m [Move<'c>],
    /// Whether they are one page's old and new path.
    pub(super) is_move: bool,
    /// Which of them moved, as places: the old path's, and the new one's.
    pub(super) moved: Vec<(usize, usize)>,
}

impl Told<'_, '_> {
    /// Returns the whole message by a template; one of a single line is followed by the paths. A message that
    /// would be empty, or that a page's words would turn into a comment, gets what the default has in front.
    pub(super) fn message(&self, template: &str) -> String {
        let body = if template.contains('\n') {
            ""
        } else {
            "\n\n{paths}"
        };
        let mut text = String::new();
        for (literal, field) in parts(&format!("{template}{body}")) {
            text.push_str(literal);
            text.push_str(&field.map_or_else(String::new, |field| self.field(field)));
        }
        let text = text.trim();
        let text = if text.is_empty() || text == self.list().trim() {
            format!("wiki: {}\n\n{text}", self.summary())
        } else if text.starts_with('#') && !template.trim_start().starts_with('#') {
            format!("wiki: {text}")
        } else {
            text.to_owned()
        };
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    fn field(&self, field: &str) -> String {
        match field {
            "summary" => self.summary(),
            "count" => self.moves.len().to_string(),
            "title" => self.first_and(|page| {
                let title = page.page.map_or("", |page| page.document().title.trim());
                let title = clean(title, TITLE);
                if title.is_empty() {
                    clean(page.path.stem(), TITLE)
                } else {
                    title
                }
            }),
            "path" => self.first_and(|page| path(page.path)),
            "paths" => self.list(),
            _ => String::new(), // `check_message` has refused it
        }
    }

    /// Returns `update wiki-output/a.md`, `move wiki-output/a.md to wiki-output/b.md, update 1 page`,
    /// `move wiki-output/guides/ to wiki-output/handbook/ (100 pages)`, or `add 1, update 3, remove 2 pages`.
    fn summary(&self) -> String {
        if let [page] = self.moves {
            return format!("{} {}", verb_and_letter(page).0, path(page.path));
        }
        let by_git;
        let mut moved = &*self.moved;
        // Git knows better than we do what is alike.
        if let ([one, _], true) = (self.moves, self.is_move) {
            by_git = [if one.after.is_none() { (0, 1) } else { (1, 0) }];
            moved = &by_git;
        }
        let mut said = Vec::new();
        let mut counts = Vec::new();
        match (moved, folder(moved, self.moves)) {
            ([], _) => {}
            ([(old, new)], _) => {
                let [old, new] = [old, new].map(|&at| path(self.moves[at].path));
                said.push(format!("move {old} to {new}"));
            }
            (moved, Some((old, new))) => {
                let [old, new] = [old, new].map(|folder| clean(folder, PATH));
                said.push(format!("move {old}/ to {new}/ ({} pages)", moved.len()));
            }
            (moved, None) => counts.push(("move", moved.len())),
        }
        counts.extend(counted(self.moves, moved));
        let last = counts.last().map_or(0, |(_, last)| *last);
        let pages = if last == 1 { "page" } else { "pages" };
        let counts: Vec<_> = counts
            .iter()
            .map(|(verb, number)| format!("{verb} {number}"))
            .collect();
        if !counts.is_empty() {
            said.push(format!("{} {pages}", counts.join(", ")));
        }
        said.join(", ")
    }

    /// Whether they are one page's old and new path.
    fn is_one_move(&self) -> bool {
        self.is_move || (self.moves.len() == 2 && self.moved.len() == 1)
    }

    /// Returns what is said of the first page that stays, and how many more there are. A move is one page.
    fn first_and(&self, say: impl Fn(&Move<'_>) -> String) -> String {
        let first = self.moves.iter().find(|page| page.page.is_some());
        let Some(first) = first.or(self.moves.first()) else {
            return String::new();
        };
        match self.moves.len() {
            more if more > 1 && !self.is_one_move() => {
                format!("{} and {} more", say(first), more - 1)
            }
            _ => say(first),
        }
    }

    /// Returns the first 20 paths, each with A, M or D; nothing when there is but one.
    fn list(&self) -> String {
        let mut text = String::new();
        if self.moves.len() < 2 {
            return text;
        }
        let mut sorted: Vec<_> = self.moves.iter().collect();
        sorted.sort_by_key(|page| page.path);
        for page in sorted.iter().take(LISTED) {
            writeln!(text, "{} {}", verb_and_letter(page).1, path(page.path))
                .expect("writing to a string cannot fail");
        }
        if self.moves.len() > LISTED {
            writeln!(text, "and {} more", self.moves.len() - LISTED)
                .expect("writing to a string cannot fail");
        }
        text
    }
}

fn verb_and_letter(page: &Move<'_>) -> (&'static str, char) {
    match (page.in_head, page.after) {
        (_, None) => ("remove", 'D'),
        (None, Some(Held { .. })) => ("add", 'A'),
        (Some(_), Some(_)) => ("update", 'M'),
    }
}

fn path(path: &PagePath) -> String {
    clean(path.as_str(), PATH)
}

/// Returns a page's word as it may stand in a line of a message: without line breaks, control characters and those
/// that turn the direction of writing, and not longer than `most` characters.
fn clean(text: &str, most: usize) -> String {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let plain: String = text
        .chars()
        .filter(|&c| !turns(c))
        .map(|c| if breaks(c) { ' ' } else { c })
        .collect();
    let plain = plain.trim();
    if plain.chars().count() <= most {
        return plain.to_owned();
    }
    let cut: String = plain.chars().take(most - 1).collect();
    format!("{}…", cut.trim_end())
}
