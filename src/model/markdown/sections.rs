//! A page cut at its headings into bounded pieces.

use unicode_normalization::char::is_combining_mark;

use super::Section;
use super::lines::Lines;

/// Longest text of a section, in characters. What is about one thing is rarely longer (median of three real
/// documentations: under 500), and it stays below the 512 tokens that small embedding models read, in Korean
/// too.
pub const MAX_SECTION_CHARS: usize = 1500;

/// Most characters of a heading that stand in a section's trail: headings repeat in every section below them.
pub const MAX_TRAIL_CHARS: usize = 200;

/// A heading at which a page is cut.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    /// 1 to 6.
    pub(super) level: u8,
    /// Its text without markup, not empty.
    pub(super) text: &'a str,
    /// Offset in the file of its first line.
    pub(super) start: usize,
    /// Offset in the file after its last line.
    pub(super) end: usize,
}

/// Cuts what stands from `start` on. A heading with nothing below it, no text and no deeper heading, becomes
/// a section of its own words.
pub(super) fn sections(text: &str, start: usize, cuts: &[Cut<'_>]) -> Vec<Section> {
    let mut lines = Lines::of(text);
    let mut sections = Vec::new();
    let mut trail: Vec<(u8, String)> = Vec::new();
    let first_end = cuts.first().map_or(text.len(), |cut| cut.start);
    split_into(text, start..first_end, &trail, &mut lines, &mut sections);
    for (index, cut) in cuts.iter().enumerate() {
        let next = cuts.get(index + 1);
        while trail.last().is_some_and(|(level, _)| *level >= cut.level) {
            trail.pop();
        }
        trail.push((cut.level, cut.text.chars().take(MAX_TRAIL_CHARS).collect()));
        let end = next.map_or(text.len(), |next| next.start);
        let before = sections.len();
        split_into(text, cut.end..end, &trail, &mut lines, &mut sections);
        let alone = sections.len() == before && next.is_none_or(|next| next.level <= cut.level);
        if alone {
            sections.push(Section {
                trail: texts(&trail),
                text: cut.text.chars().take(MAX_SECTION_CHARS).collect(),
                line: lines.at(cut.start),
            });
        }
    }
    sections
}

/// Adds the pieces of a range that say anything.
fn split_into(
    text: &str,
    range: std::ops::Range<usize>,
    trail: &[(u8, String)],
    lines: &mut Lines<'_>,
    sections: &mut Vec<Section>,
) {
    let mut at = range.start;
    while at < range.end {
        let rest = &text[at..range.end];
        let begin = at + (rest.len() - rest.trim_start().len());
        let rest = text[begin..range.end].trim_end();
        if rest.is_empty() {
            break;
        }
        let len = piece_len(rest);
        let piece = rest[..len].trim_end();
        if piece.contains(char::is_alphanumeric) {
            sections.push(Section {
                trail: texts(trail),
                // A checkout with other line ends is the same text: nothing is to be embedded again.
                text: piece.replace("\r\n", "\n"),
                line: lines.at(begin),
            });
        }
        at = begin + len;
    }
}

fn texts(trail: &[(u8, String)]) -> Vec<String> {
    trail.iter().map(|(_, text)| text.clone()).collect()
}

/// Returns the length in bytes of the first piece, of at most [`MAX_SECTION_CHARS`] characters: up to the
/// last paragraph, line or sentence in the second half, else the last space, else a character's boundary
/// that does not part a letter from its marks.
fn piece_len(text: &str) -> usize {
    let Some((limit, _)) = text.char_indices().nth(MAX_SECTION_CHARS) else {
        return text.len();
    };
    let window = &text[..limit];
    let mut paragraph = None;
    let mut line = None;
    let mut sentence = None;
    let mut space = None;
    let (mut before, mut blank) = (' ', false);
    for (at, char) in window.char_indices() {
        if char == '\n' {
            line = Some(at);
            if blank {
                paragraph = Some(at);
            }
            blank = true;
        } else if !char.is_whitespace() {
            blank = false;
        }
        if char.is_whitespace() {
            space = Some(at);
            if matches!(before, '.' | '!' | '?') {
                sentence = Some(at);
            }
        } else if matches!(before, '。' | '！' | '？') {
            sentence = Some(at);
        }
        before = char;
    }
    let far = |at: &usize| *at >= limit / 2;
    let good = [paragraph, line, sentence].into_iter().flatten().find(far);
    good.or(space)
        .filter(|at| *at > 0)
        .unwrap_or_else(|| letter_boundary(text, limit))
}

/// Returns the last boundary up to `limit` that parts no letter from what belongs to it.
fn letter_boundary(text: &str, limit: usize) -> usize {
    // Longer runs of marks than this are no language.
    const LOOK_BACK: usize = 32;
    let mut at = limit;
    for _ in 0..LOOK_BACK {
        let after = text[at..].chars().next();
        let Some(before) = text[..at].chars().next_back() else {
            break;
        };
        if before != '\u{200D}' && !after.is_some_and(belongs_to_the_letter_before) {
            return at;
        }
        at -= before.len_utf8();
    }
    limit
}

/// Marks, joiners, variation selectors, skin tones, and the vowels and finals of decomposed Hangul.
fn belongs_to_the_letter_before(char: char) -> bool {
    is_combining_mark(char)
        || matches!(
            char,
            '\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{1160}'..='\u{11FF}'
        )
}
