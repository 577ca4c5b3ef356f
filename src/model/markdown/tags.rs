//! `#tag` in a body.

use unicode_normalization::char::is_combining_mark;

use super::spans::Spans;

/// Longest tag, in characters; a longer run is none.
const MAX_CHARS: usize = 100;

/// Finds the tags of a body in order, without `#`. A tag is made of letters, digits, `_`, `-` and `/`, with at
/// least one letter, after a space, an opening bracket, a quotation mark or the like; nothing in a masked
/// place is one, nor is a colour that stands as a value.
pub(super) fn find<'a>(body: &'a str, masks: &Spans) -> impl Iterator<Item = &'a str> {
    body.match_indices('#').filter_map(move |(at, _)| {
        let before = body[..at].chars().next_back();
        if before.is_some_and(|char| !may_stand_before(char)) {
            return None;
        }
        let rest = &body[at + 1..];
        let mut len = 0;
        for (count, char) in rest.chars().enumerate() {
            if !is_tag_char(char) {
                break;
            }
            if count == MAX_CHARS {
                return None;
            }
            len += char.len_utf8();
        }
        let tag = rest[..len].trim_end_matches('/');
        let counts = tag.contains(char::is_alphabetic)
            && masks.around(at).is_none()
            && !is_colour(tag, before, rest[len..].chars().next());
        counts.then_some(tag)
    })
}

/// Says whether it is a colour of CSS by its form and by what stands around it: `#f4f4f4;`, `"#fff"`. By its form alone
/// `#face` would be one.
fn is_colour(tag: &str, before: Option<char>, after: Option<char>) -> bool {
    let has_form =
        matches!(tag.len(), 3 | 4 | 6 | 8) && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_quoted = matches!(before, Some('"' | '\'')) && before == after;
    has_form && (after == Some(';') || is_quoted)
}

fn is_tag_char(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '-' | '/') || is_combining_mark(char)
}

/// Not `/`, `&`, `{`, `=` and the like: `https://host/#a`, `&#39;`, `{#id}`, `href=#a` hold no tags.
fn may_stand_before(char: char) -> bool {
    char.is_whitespace() || "([\"'“‘「『（【《,;、，。*_~>|".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_a_text() {
        for (text, expected) in [
            ("#tag and (#other), #a/b-c_d.", "tag other a/b-c_d"),
            ("#한글 #태그/하위 #日本語", "한글 태그/하위 日本語"),
            ("#e\u{301}te\u{301}", "e\u{301}te\u{301}"),
            ("#2024 #y2024 #1-2 #_ #/", "y2024"),
            ("C# a#b https://host/#frag &#39; {#id} href=#y", ""),
            ("## Heading #closing ##", "closing"),
            ("#trailing/ **#bold**", "trailing bold"),
            ("color: #f4f4f4; a { color: #FFF; }", ""),
            ("c = \"#1b1b1f\" or '#ff000080' or ['#abc', \"#face\"]", ""),
            (
                "#face #abc, (#ff0000) #cafe. \"#cafe au lait\"",
                "face abc ff0000 cafe cafe",
            ),
            (
                "#bread; #beef-stew; '#deed-box'",
                "bread beef-stew deed-box",
            ),
        ] {
            let found: Vec<&str> = find(text, &Spans::default()).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn no_tag_in_a_masked_place() {
        let masks = Spans::of(std::iter::once(3..8).collect());
        let found: Vec<&str> = find("#a `#b ` #c", &masks).collect();
        assert_eq!(found, ["a", "c"]);
    }
}
