//! Words without an end, which a browser may take minutes for.
//!
//! A browser shapes a run of text as a whole up to where it may break it. Of 300,000 letters with nothing between them that is
//! cheap; of as many combining marks, or of Thai, whose words it finds by a dictionary, Chromium took more than a minute, and
//! under a second with a place to break every 500 characters.

use maud::{Markup, PreEscaped};

/// Characters after which a word may be broken.
const LONGEST: usize = 500;

/// Gives long words of HTML, as the sanitiser writes it, places to break.
pub(super) fn html(html: &str) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 64);
    let mut run = 0;
    let mut rest = html;
    while let Some(char) = rest.chars().next() {
        let length = match char {
            '<' => tag(rest),
            // An entity is one character.
            '&' => rest.find(';').map_or(1, |end| end + 1),
            char => char.len_utf8(),
        };
        if char.is_ascii_whitespace() {
            run = 0;
        } else if char != '<' {
            if run == LONGEST {
                out.push_str("<wbr>");
                run = 0;
            }
            run += 1;
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// Shows a text, whatever it is.
pub(super) fn text(text: &str) -> Markup {
    PreEscaped(html(&maud::html! { (text) }.into_string()))
}

/// Returns the length of the tag that a text begins with.
fn tag(text: &str) -> usize {
    let mut is_quoted = false;
    let end = text.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'>' && !is_quoted
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_an_end_may_be_broken_and_no_other() {
        let usual = format!("<p title=\"a>b\">{}</p>&amp;", "some words ".repeat(500));
        assert_eq!(html(&usual), usual);
        for letter in ["a", "\u{301}", "ภ", "한", "&lt;", "<b>x</b>"] {
            let long = letter.repeat(2_000);
            let broken = html(&format!("<p>{long}</p>"));
            assert_eq!(broken.matches("<wbr>").count(), 3, "{letter}");
            assert_eq!(broken.replace("<wbr>", ""), format!("<p>{long}</p>"));
        }
        let attribute = format!("<a href=\"{}\">", "x".repeat(2_000));
        assert_eq!(html(&attribute), attribute);
        assert_eq!(
            text(&"<".repeat(501))
                .into_string()
                .matches("<wbr>")
                .count(),
            1
        );
    }
}
