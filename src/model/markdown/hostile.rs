//! Tests of the whole with texts that nobody means well by.

use proptest::prelude::*;

use super::{Document, MAX_SECTION_CHARS};
use crate::model::PagePath;

fn parse(text: &str) -> Document {
    Document::parse(&PagePath::parse("w/page.md").expect("valid"), text)
}

/// Checks what holds of every text.
fn check(text: &str) -> Result<(), TestCaseError> {
    let document = parse(text);
    let ends = text.replace("\r\n", "\n").replace('\r', "\n");
    let line_count = ends.matches('\n').count() + 1;
    let line_of = |offset: usize| {
        let before = text[..offset].replace("\r\n", "\n");
        before.matches(['\n', '\r']).count() + 1
    };
    let mut last = 0;
    for link in &document.links {
        let written = text.get(link.range.clone());
        prop_assert!(
            written.is_some_and(|written| written.len() >= 3),
            "{link:?}"
        );
        prop_assert!(!link.target.trim().is_empty());
        prop_assert_eq!(link.line, line_of(link.range.start), "{:?}", link);
        prop_assert!(link.range.start >= last);
        last = link.range.start;
    }
    for heading in &document.headings {
        prop_assert!((1..=6).contains(&heading.level) && !heading.text.is_empty());
        prop_assert!((1..=line_count).contains(&heading.line));
    }
    prop_assert!(!document.sections.is_empty());
    let lines: Vec<usize> = document.sections.iter().map(|s| s.line).collect();
    prop_assert!(lines.is_sorted(), "{lines:?}");
    let headings: Vec<&str> = document.headings.iter().map(|h| &*h.text).collect();
    for section in &document.sections {
        prop_assert!(!section.text.trim().is_empty());
        prop_assert!(section.text.chars().count() <= MAX_SECTION_CHARS);
        prop_assert!(section.trail.len() <= 6);
        // Of a long heading the trail has the beginning.
        let is_headed = |text: &String| headings.iter().any(|whole| whole.starts_with(&**text));
        prop_assert!(section.trail.iter().all(is_headed), "{section:?}");
        let whole_lines = ends.split('\n').skip(section.line - 1);
        let rest = whole_lines.collect::<Vec<_>>().join("\n");
        let stands_there = rest.contains(&*section.text)
            && rest
                .split('\n')
                .next()
                .unwrap_or_default()
                .contains(section.text.split('\n').next().unwrap_or_default());
        let of_heading = section
            .trail
            .last()
            .is_some_and(|heading| section.text.starts_with(&**heading));
        prop_assert!(
            stands_there || of_heading || section.text == document.title,
            "{section:?}"
        );
    }
    for warning in &document.warnings {
        prop_assert!((1..=line_count).contains(&warning.line), "{warning:?}");
        prop_assert!(!warning.message.contains('\n'));
    }
    Ok(())
}

/// Pieces of which Markdown pages are made, so that random texts reach deep.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        4 => prop::sample::select(vec![
            "[[", "]]", "[", "]", "(", ")", "![", "|", "\\", "\\|", "#", "# ", "## ", "`", "```\n", "~~~",
            "<!--", "-->", "<div>", "</div>", "<", ">", "> ", "- ", "1. ", "    ", "\t", "---\n", "...\n",
            "===\n", "$", "$$", "*", "**", "_", "~~", "&amp;", "&", ";", "[^1]", "[^1]: ", "[a]: b\n", "%20",
            "%FF", "a: b\n", "title: ", "tags: [", "- [ ] ", "| a | b |\n|---|---|\n", "{#id}", "://", "?",
            "'", "\"", "!", "{", "}", "&a", "*a", "@",
        ]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["\n", "\n\n", "\r\n", "\r", " ", "\u{FEFF}", "\0", "\u{2028}"])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec!["a", "b", "Page", "한글", "é", "e\u{301}", "🎉", "7"])
            .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let start = prop::sample::select(vec!["", "---\n", "\u{FEFF}---\n", "\u{FEFF}", "---\r\n"]);
    (start, prop::collection::vec(fragment, 0..60))
        .prop_map(|(start, all)| start.to_owned() + &all.concat())
}

/// What may stand between two `---`, valid or not. Nothing of it hides what follows from Markdown, should it be read as that.
fn metadata() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "title: ", "tags: ", "aliases:\n", "repo: ", "commit: ", "lang: ", "symbol: ", "a: ", "  b: ", "- ", "  - ", "[", "]",
            "{", "}", ",", ": ", ":", "&a ", "*a", "<<: *a", "|\n", ">-\n", "!!binary ", "!t ", "%YAML 1.1\n", "...\n", "? ", "#",
            "'", "\"", "\\", "@", "null", "~1", "1e999", "0x7f", "yes", "2020-01-01", "\t",
        ]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["\n", "\n\n", "\r\n", " ", "\u{FEFF}", "\0", "\u{85}", "\u{2028}"]).prop_map(str::to_owned),
        2 => "[a-z가-힣\u{301}]{1,12}",
        1 => "[^`~<$]{0,8}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn any_text_is_parsed(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn any_markdown_is_parsed(text in fragments()) {
        check(&text)?;
    }

    #[test]
    fn whatever_stands_in_the_metadata_the_page_is_kept(yaml in metadata()) {
        let text = format!("---\n{yaml}\n---\n\n# Heading of it\n\nwords of it\n");
        check(&text)?;
        let document = parse(&text);
        let kept = |section: &super::Section| {
            section.text.contains("words of it") && section.trail.iter().any(|heading| heading == "Heading of it")
        };
        prop_assert!(document.sections.iter().any(kept), "{:?}", document.sections);
    }
}

/// 2,000, or what proptest's own variable says.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

/// Texts of about a megabyte, each of a kind that has made a parser slow or deep. A quadratic one would
/// take minutes here; the bound is loose for slow machines.
#[test]
fn a_hostile_megabyte_takes_seconds() {
    const SIZE: usize = 1 << 20;
    let filled = |unit: &str| unit.repeat(SIZE / unit.len());
    let after = |start: String, unit: &str| start + &unit.repeat(SIZE / unit.len());
    let texts = [
        filled("["),
        filled("[["),
        filled("[[a|b"),
        filled("[[a]]"),
        filled("!["),
        filled("[a]("),
        filled("x <!-- "),
        filled("`a``"),
        filled("*a_ "),
        filled("$a{"),
        filled("# a\n"),
        filled("#\n"),
        filled("\r"),
        filled("---\n"),
        filled("a"),
        filled("\u{301}"),
        filled("[^a]: b[^a]\n\n"),
        after("> ".repeat(SIZE / 4), "a\nb\n"),
        after("- ".repeat(SIZE / 4), "a\nb\n"),
        after("- ".repeat(SIZE / 4), "\n"),
        after("# a\n".into(), "\n"),
        after("```\n".into(), "[[a]]\n"),
        after("---\n".into(), "a: *b\n"),
        after("---\n".into(), "a: *b\n") + "---\n",
        after("|a|b|\n|-|-|\n".into(), "|[[a|b]]|`c`|\n"),
        format!("[[{}]]", filled("&amp;")),
        format!("{}x{}", "![".repeat(SIZE / 8), "](y.md)".repeat(SIZE / 8)),
        format!(
            "[r]: {}\n\n{}",
            "b".repeat(SIZE / 2),
            "[r]".repeat(SIZE / 6)
        ),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let document = parse(&text);
        let seconds = start.elapsed().as_secs();
        let beginning: String = text.chars().take(20).collect();
        assert!(seconds < 30, "{beginning:?} took {seconds} s");
        assert!(!document.sections.is_empty(), "{beginning:?}");
    }
}
