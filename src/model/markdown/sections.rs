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
    let end = range.start + text[range.clone()].trim_end().len();
    let mut at = range.start;
    while at < end {
        let rest = text[at..end].trim_start();
        let begin = end - rest.len();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization as _;

    use super::*;
    use crate::model::PagePath;
    use crate::model::markdown::Document;

    fn parse(text: &str) -> Vec<Section> {
        Document::parse(&PagePath::parse("w/page.md").expect("valid"), text).sections
    }

    /// `trail/trail: text @line`, one per section.
    fn shown(text: &str) -> Vec<String> {
        let shown = |section: Section| {
            format!(
                "{}: {} @{}",
                section.trail.join("/"),
                section.text,
                section.line
            )
        };
        parse(text).into_iter().map(shown).collect()
    }

    #[test]
    fn a_page_is_cut_at_its_headings() {
        for (text, expected) in [
            (
                "before\n\n# A\n\none\n\n## B\ntwo\n\n# C\nthree\n",
                vec![": before @1", "A: one @5", "A/B: two @8", "C: three @11"],
            ),
            (
                "### Deep\nx\n# A\ny\n### B\nz\n## C\nw",
                vec!["Deep: x @2", "A: y @4", "A/B: z @6", "A/C: w @8"],
            ),
            ("Setext\n===\nx\n", vec!["Setext: x @3"]),
            ("# A\n```\n# no\n```\n", vec!["A: ```\n# no\n``` @2"]),
            ("> # Q\n> x\n\n- # L\n", vec![": > # Q\n> x\n\n- # L @1"]),
            ("---\ntitle: T\n---\n\ntext", vec![": text @5"]),
            (
                "import X from 'x'\n\n<X client:load />\n\n# A\n<Y>\nz\n</Y>",
                vec![
                    ": import X from 'x'\n\n<X client:load /> @1",
                    "A: <Y>\nz\n</Y> @6",
                ],
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_heading_without_text_is_a_section_only_when_it_stands_alone() {
        for (text, expected) in [
            ("# A\n## B\nx", vec!["A/B: x @3"]),
            ("# A\n\n## B\n\n## C\n", vec!["A/B: B @3", "A/C: C @5"]),
            ("# A\n# B\n***\n---\n", vec!["A: A @1", "B: B @2"]),
            ("# A\n##\n", vec!["A: A @1"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn every_page_has_a_section() {
        for text in ["", "\n\n", "---\n---\n", "***\n", "\u{FEFF}", "#\n", "\r"] {
            assert_eq!(shown(text), [": page @1"], "{text:?}");
        }
        assert_eq!(shown("---\ntitle: T\n---\n"), [": T @1"]);
    }

    #[test]
    fn long_text_is_split_where_a_reader_would() {
        let paragraph = |n: usize| format!("{}.", "word ".repeat(n).trim());
        let a = paragraph(200);
        let texts = |text: &str| -> Vec<String> {
            parse(text)
                .into_iter()
                .map(|section| section.text)
                .collect()
        };
        let text = format!("{a}\n\n{a}\n\n{a}");
        assert_eq!(
            texts(&text),
            [a.clone(), a.clone(), a.clone()],
            "paragraphs"
        );
        let text = format!("{a}\r\n{a}");
        assert_eq!(texts(&text), [a.clone(), a.clone()], "lines");
        let text = format!("{a} {a}");
        assert_eq!(texts(&text), [a.clone(), a.clone()], "sentences");
        let korean = "가나다라마 ".repeat(500);
        assert!(
            texts(&korean).iter().all(|text| text.ends_with('마')),
            "words"
        );
        let no_space = "あ".repeat(4000);
        let lengths: Vec<usize> = texts(&no_space).iter().map(|t| t.chars().count()).collect();
        assert_eq!(lengths, [1500, 1500, 1000]);
    }

    #[test]
    fn no_cut_parts_a_letter_from_its_marks() {
        for letter in [
            "한",
            "e\u{301}\u{323}",
            "👩\u{200D}👩\u{200D}👧a",
            "👍\u{1F3FD}b",
        ] {
            let letter: String = letter.nfd().collect();
            for shift in 0..4 {
                let text = format!("{}{}", "x".repeat(shift), letter.repeat(2000));
                for section in parse(&text).iter().skip(1) {
                    let first = section.text.chars().next().expect("not empty");
                    assert!(!belongs_to_the_letter_before(first), "{letter} {shift}");
                }
            }
        }
    }

    #[test]
    fn lines_of_split_pieces_are_theirs() {
        let text = (1..=3000).fold(String::new(), |text, i| text + &format!("line {i} of it\n"));
        let sections = parse(&text);
        assert!(sections.len() > 20);
        for section in sections {
            let expected = format!("line {} of it", section.line);
            assert!(section.text.starts_with(&expected), "{}", section.line);
        }
    }

    #[test]
    fn a_trail_is_bounded() {
        let text = format!("# {}\n{}", "h".repeat(100_000), "## b\nx\n".repeat(100));
        let sections = parse(&text);
        assert_eq!(sections.len(), 100);
        assert_eq!(sections[99].trail[0].len(), MAX_TRAIL_CHARS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_word_is_lost_and_no_piece_too_long(
            words in proptest::collection::vec("[a-z가-힣\u{301}]{1,40}|\n|\r\n|\n\n|x{1600}|。", 0..300)
        ) {
            let text = words.join(" ");
            let sections = parse(&text);
            let letters = |text: &str| -> String {
                text.chars().filter(|char| char.is_alphanumeric()).collect()
            };
            let kept: String = sections.iter().map(|section| letters(&section.text)).collect();
            let expected = letters(&text);
            prop_assert_eq!(&kept, if expected.is_empty() { "page" } else { &expected });
            for section in &sections {
                prop_assert!(section.text.chars().count() <= MAX_SECTION_CHARS);
                prop_assert!(!section.text.trim().is_empty());
            }
        }
    }
}
