//! Giving links other targets: nothing changes but the path in a destination, and a wikilink without a label gets what
//! it showed as its label.

use std::collections::BTreeMap;
use std::ops::Range;

use super::destination;
use super::parse::with_common_line_ends;
use super::spell::{self, Syntax};
use super::walk::{self, FoundLink};
use super::{Document, Link, LinkKind, front_matter, nesting};
use crate::model::PagePath;

/// A piece of a text and what is to stand in its place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Edit {
    /// Offset of the piece, in bytes.
    pub at: usize,
    /// What stands there.
    pub old: String,
    /// What is to stand there.
    pub new: String,
}

/// Returns the text with the edits made; they are in the order of their offsets and do not overlap. `None` when the text
/// does not hold what they are made for.
#[must_use]
pub fn edited(text: &str, edits: &[Edit]) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 64);
    let mut from = 0;
    for edit in edits {
        let rest = text.get(edit.at..)?.strip_prefix(edit.old.as_str())?;
        out.push_str(text.get(from..edit.at)?);
        out.push_str(&edit.new);
        from = text.len() - rest.len();
    }
    out.push_str(&text[from..]);
    Some(out)
}

/// Returns the edits that take these back.
#[must_use]
pub fn inverse(edits: &[Edit]) -> Vec<Edit> {
    let mut shift = 0_isize;
    let mut back = Vec::with_capacity(edits.len());
    for edit in edits {
        back.push(Edit {
            at: edit.at.saturating_add_signed(shift),
            old: edit.new.clone(),
            new: edit.old.clone(),
        });
        shift += edit.new.len().cast_signed() - edit.old.len().cast_signed();
    }
    back
}

/// A link that cannot be given the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the link in line {line} cannot be written so that it leads to {target:?}")]
pub struct Unwritable {
    /// Line in the file, from 1.
    pub line: usize,
    /// The target.
    pub target: String,
}

/// Where a destination stands.
#[derive(Debug, Clone)]
struct Spot {
    /// The target as it is written: without anchor, query and the blanks around it.
    range: Range<usize>,
    syntax: Syntax,
    /// Of a wikilink that shows its target: where a label may be put in, and the label.
    label: Option<(usize, String)>,
    in_table: bool,
}

/// A page with the places of its links' destinations.
#[derive(Debug)]
pub struct Destinations<'t> {
    path: &'t PagePath,
    text: &'t str,
    document: Document,
    /// One for each link of the document; `None` where it could not be told for certain.
    spots: Vec<Option<Spot>>,
}

impl<'t> Destinations<'t> {
    /// Finds the destinations of a page's links.
    #[must_use]
    pub fn of(path: &'t PagePath, text: &'t str) -> Self {
        let document = Document::parse(path, text);
        let common = with_common_line_ends(text);
        let (_, start) = front_matter::read(&common, &mut Vec::new());
        let bounded = nesting::bounded(&common[start..]);
        let walked = walk::walk(&bounded);
        let found: BTreeMap<(usize, usize), &FoundLink> = walked
            .links
            .iter()
            .map(|link| ((start + link.range.start, start + link.range.end), link))
            .collect();
        let in_table = |at: usize| {
            let after = walked
                .tables
                .partition_point(|table| start + table.start <= at);
            after > 0 && at < start + walked.tables[after - 1].end
        };
        let spots = document
            .links
            .iter()
            .map(|link| {
                let spot = match found.get(&(link.range.start, link.range.end)) {
                    Some(found) => markdown_spot(&common, start, found, link),
                    None => wikilink_spot(&common, link),
                };
                spot.map(|spot| Spot {
                    in_table: in_table(spot.range.start),
                    ..spot
                })
            })
            .collect();
        Self {
            path,
            text,
            document,
            spots,
        }
    }

    /// Returns the page as it is parsed.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the offset at which a link's destination stands: one for all links by the same definition. `None` where
    /// it could not be told.
    #[must_use]
    pub fn place(&self, link: usize) -> Option<usize> {
        Some(self.spots.get(link)?.as_ref()?.range.start)
    }

    /// Says whether a link is written in double brackets.
    #[must_use]
    pub fn is_wikilink(&self, link: usize) -> bool {
        let spot = self.spots.get(link).and_then(Option::as_ref);
        spot.is_some_and(|spot| spot.syntax == Syntax::Wikilink)
    }

    /// Returns the line, from 1, in which an offset stands.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        super::lines::Lines::of(&with_common_line_ends(self.text)).at(at)
    }

    /// Returns the edits that give the destinations at these places these targets, and the text with them made. The
    /// outcome is parsed again: but for these targets it is the page that it was, with every label as it was shown.
    ///
    /// # Errors
    /// [`Unwritable`] when the syntax has no way to write a target there.
    pub fn rewrite(
        &self,
        targets: &BTreeMap<usize, String>,
    ) -> Result<(Vec<Edit>, String), Unwritable> {
        let mut edits = Vec::new();
        for (place, target) in targets {
            let spots = || self.spots.iter().flatten();
            let Some(spot) = spots().find(|spot| spot.range.start == *place) else {
                return Err(self.unwritable(*place, target));
            };
            let old = &self.text[spot.range.clone()];
            let new = spell::target(target, spot.syntax, old, spot.in_table);
            if new != old {
                edits.push(Edit {
                    at: spot.range.start,
                    old: old.to_owned(),
                    new,
                });
            }
            if let Some((at, label)) = &spot.label {
                let bar = if spot.in_table { "\\|" } else { "|" };
                edits.push(Edit {
                    at: *at,
                    old: String::new(),
                    new: format!("{bar}{label}"),
                });
            }
        }
        let text = edited(self.text, &edits).unwrap_or_default();
        match self.first_difference(targets, &text) {
            None => Ok((edits, text)),
            Some(link) => {
                let place = self.place(link).unwrap_or_default();
                let target = targets.get(&place).cloned().unwrap_or_default();
                Err(self.unwritable(self.document.links[link].range.start, &target))
            }
        }
    }

    fn unwritable(&self, at: usize, target: &str) -> Unwritable {
        Unwritable {
            line: self.line(at),
            target: target.to_owned(),
        }
    }

    /// Returns the first link that is not as it should be in the new text; the last one when the difference is in
    /// something else.
    fn first_difference(&self, targets: &BTreeMap<usize, String>, text: &str) -> Option<usize> {
        let new = Document::parse(self.path, text);
        let (before, after) = (&self.document.links, &new.links);
        for (at, old) in before.iter().enumerate() {
            let place = self.place(at);
            let wanted = place.and_then(|place| targets.get(&place));
            let shown = |link: &Link| link.label.clone().unwrap_or_else(|| link.target.clone());
            let same = after.get(at).is_some_and(|link| {
                let labelled = match wanted {
                    Some(_) if self.is_wikilink(at) && old.kind == LinkKind::Wikilink => {
                        // What it showed, anchor and all, is what it shows.
                        old.label == link.label || old.label.is_none()
                    }
                    Some(_) => shown(old) == shown(link) || old.label == link.label,
                    None => old.label == link.label,
                };
                labelled
                    && (old.kind, &old.anchor, old.line) == (link.kind, &link.anchor, link.line)
                    && link.target == *wanted.unwrap_or(&old.target)
            });
            if !same {
                return Some(at);
            }
        }
        let rest = new.title == self.document.title
            && new.headings == self.document.headings
            && new.tags == self.document.tags
            && new.front_matter == self.document.front_matter
            && before.len() == after.len();
        (!rest).then(|| before.len().saturating_sub(1))
    }
}

/// Finds the destination of a Markdown link: in its own parentheses or in its definition.
fn markdown_spot(text: &str, start: usize, found: &FoundLink, link: &Link) -> Option<Spot> {
    let from = if let Some(span) = &found.definition {
        let span = start + span.start..start + span.end;
        span.start + after_label(&text[span])?
    } else {
        let rest = start + found.text_end;
        rest + text.get(rest..link.range.end)?.find("](")? + 2
    };
    // The destination may stand on the next line, there behind the marks of a quotation.
    let mut at = from;
    let mut new_line = false;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'\n' => new_line = true,
            b' ' | b'\t' | b'\r' => {}
            b'>' if new_line => {}
            _ => break,
        }
        at += 1;
    }
    let (raw, syntax) = match text.get(at..)?.strip_prefix('<') {
        Some(inner) => (at + 1..at + 1 + angle_len(inner)?, Syntax::Angle),
        None => (at..at + raw_len(&text[at..]), Syntax::Bare),
    };
    let written = &text[raw.clone()];
    // As the parser reads it, or it was not found.
    if destination::of_markdown(&destination::unescaped(written))?
        != (link.target.clone(), link.anchor.clone())
    {
        return None;
    }
    let path = &written[..destination::markdown_path_len(written)];
    Some(Spot {
        range: trimmed(text, raw.start..raw.start + path.len()),
        syntax,
        label: None,
        in_table: false,
    })
}

/// Returns where a definition's label and colon end.
fn after_label(definition: &str) -> Option<usize> {
    let bytes = definition.as_bytes();
    let mut at = definition.find('[')? + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b']' if bytes.get(at + 1) == Some(&b':') => return Some(at + 2),
            b']' => return None,
            _ => at += 1,
        }
    }
}

/// Returns the length of what stands before the closing `>`.
fn angle_len(inner: &str) -> Option<usize> {
    let bytes = inner.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'>' => return Some(at),
            b'\\' => at += 2,
            b'\n' => return None,
            _ => at += 1,
        }
    }
}

/// Returns the length of a destination without angle brackets: to a blank, or a `)` that closes more than was opened.
fn raw_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut open = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if bytes.get(at + 1).is_some_and(u8::is_ascii_punctuation) => at += 1,
            b'(' => open += 1,
            b')' => match open.checked_sub(1) {
                Some(less) => open = less,
                None => break,
            },
            byte if byte.is_ascii_whitespace() || byte.is_ascii_control() => break,
            _ => {}
        }
        at += 1;
    }
    at.min(text.len())
}

/// Finds the target of a wikilink.
fn wikilink_spot(text: &str, link: &Link) -> Option<Spot> {
    let whole = &text[link.range.clone()];
    let embed = whole.starts_with('!');
    let inside = whole.strip_prefix('!').unwrap_or(whole);
    let inside = inside.strip_prefix("[[")?.strip_suffix("]]")?;
    let start = link.range.end - 2 - inside.len();
    let pipe = pipe_of(inside);
    let raw = &inside[..pipe.unwrap_or(inside.len())];
    let raw = match pipe {
        Some(_) => raw.strip_suffix('\\').unwrap_or(raw),
        None => raw,
    };
    if destination::of_wikilink(raw)? != (link.target.clone(), link.anchor.clone()) {
        return None;
    }
    let target = &raw[..destination::wikilink_target_len(raw)];
    let shows_target = pipe.is_none() && !embed;
    Some(Spot {
        range: trimmed(text, start..start + target.len()),
        syntax: Syntax::Wikilink,
        label: shows_target.then(|| (start + inside.len(), raw.trim().to_owned())),
        in_table: false,
    })
}

/// Returns where the target ends and the label begins, as `wikilinks::find` has it.
fn pipe_of(inside: &str) -> Option<usize> {
    let bytes = inside.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'|' => return Some(at),
            b'\\' if matches!(bytes.get(at + 1), Some(b'[' | b']' | b'\\')) => at += 2,
            _ => at += 1,
        }
    }
}

/// Takes the blanks off both ends of a range.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start().len());
    start..start + piece.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives each link of a text this target and returns the text.
    fn rewritten(text: &str, target: &str) -> Result<String, Unwritable> {
        let path = PagePath::parse("wiki/page.md").expect("valid");
        let destinations = Destinations::of(&path, text);
        let targets: BTreeMap<usize, String> = (0..destinations.document().links.len())
            .map(|link| destinations.place(link).expect("it is found"))
            .map(|place| (place, target.to_owned()))
            .collect();
        let (edits, new) = destinations.rewrite(&targets)?;
        assert_eq!(edited(text, &edits).as_ref(), Some(&new));
        assert_eq!(edited(&new, &inverse(&edits)).as_deref(), Some(text));
        Ok(new)
    }

    #[test]
    fn only_the_path_of_a_destination_changes() {
        for (before, after) in [
            ("[[a]]", "[[n/새 b.md|a]]"),
            ("[[ a # h ]]", "[[ n/새 b.md # h |a # h]]"),
            ("![[a|400]] ![[a]]", "![[n/새 b.md|400]] ![[n/새 b.md]]"),
            ("[[a#^x|l]]", "[[n/새 b.md#^x|l]]"),
            ("[x](a.md \"a.md\")", "[x](n/새%20b.md \"a.md\")"),
            (
                "[a.md]( a.md?q=a.md#a.md )",
                "[a.md]( n/새%20b.md?q=a.md#a.md )",
            ),
            ("[x](%EA%B0%80.md)", "[x](n/%EC%83%88%20b.md)"),
            ("[x](<a b.md#h>)", "[x](<n/새 b.md#h>)"),
            ("[x](<a%20b.md>)", "[x](<n/새%20b.md>)"),
            ("[x](a\\(1\\).md)", "[x](n/새%20b.md)"),
            ("[x](a(1).md)", "[x](n/새%20b.md)"),
            ("[![i](i.png)](a.md)", "[![i](n/새%20b.md)](n/새%20b.md)"),
            (
                "[x][r] [r] [r][]\n\n[r]:\n  a.md\n",
                "[x][r] [r] [r][]\n\n[r]:\n  n/새%20b.md\n",
            ),
            ("> [x](\n> a.md)\n", "> [x](\n> n/새%20b.md)\n"),
            ("a\rb [x](a.md)\rc", "a\rb [x](n/새%20b.md)\rc"),
            (
                "---\nt: '[[a]]'\n---\n`[[a]]` [x](a.md) <!-- [[a]] -->",
                "---\nt: '[[a]]'\n---\n`[[a]]` [x](n/새%20b.md) <!-- [[a]] -->",
            ),
            (
                "|a|\n|-|\n|[[a]] [[a\\|l]] [x](a.md)|\n",
                "|a|\n|-|\n|[[n/새 b.md\\|a]] [[n/새 b.md\\|l]] [x](n/새%20b.md)|\n",
            ),
            (
                "[[1]](a.md) [x](http://h/a.md) [y](#a)",
                "[[1]](n/새%20b.md) [x](http://h/a.md) [y](#a)",
            ),
            ("# See [[a]]\n", "# See [[n/새 b.md|a]]\n"),
        ] {
            assert_eq!(rewritten(before, "n/새 b.md").as_deref(), Ok(after));
        }
    }

    #[test]
    fn names_with_the_syntax_in_them_are_escaped() {
        for target in [
            "a#b.md",
            "a|b.md",
            "a[b].md",
            "a&amp;b.md",
            "a\\b.md",
            "50%25 (x).md",
            "a`b$c{{d}}.md",
        ] {
            for text in [
                "[[a]]",
                "[[a|l]]",
                "[x](a)",
                "[x](<a>)",
                "[x][r]\n\n[r]: a\n",
                "|a|\n|-|\n|[[a]] [x](a) [x](<a>)|\n",
            ] {
                assert!(rewritten(text, target).is_ok(), "{target} in {text}");
            }
        }
    }

    #[test]
    fn a_target_that_no_brackets_can_hold_is_refused_and_not_mangled() {
        for target in ["a\nb", "https://host/x"] {
            let refused = rewritten("a\n[[a]]", target).expect_err("it cannot be written");
            assert_eq!((refused.line, refused.target.as_str()), (2, target));
        }
    }
}
