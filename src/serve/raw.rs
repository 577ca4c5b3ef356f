//! HTML that stands in a page: of it only plain marks are left, without attributes.
//!
//! The sanitiser behind this would let no harm through. But what it is given must also be cheap: tags with attributes that
//! are never closed are opened again in each paragraph that follows, so that a small page could grow beyond all bounds.

use std::fmt::Write as _;

/// Tags that a reader is shown.
const PLAIN: &[&str] = &[
    "abbr",
    "b",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "dd",
    "del",
    "details",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "figcaption",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "ins",
    "kbd",
    "li",
    "mark",
    "ol",
    "p",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
    "var",
];

/// Tags whose inside is no text.
const NO_TEXT: &[&str] = &[
    "iframe", "math", "noscript", "object", "script", "style", "svg", "template", "textarea",
    "title",
];

/// Tags of one page that are shown; what a page has more is left out.
const MOST: usize = 2_000;

/// What is left of the HTML of one page.
#[derive(Debug, Default)]
pub(super) struct Raw {
    tags: usize,
}

/// A tag of HTML.
struct Tag<'h> {
    name: String,
    closes: bool,
    /// What stands between name and end.
    inside: &'h str,
    /// Where what follows begins.
    end: usize,
}

impl Raw {
    /// Returns what is left of a piece of HTML. `image` shows one by its `src` and `alt`.
    pub(super) fn plain(
        &mut self,
        html: &str,
        image: &mut dyn FnMut(&str, &str) -> String,
    ) -> String {
        let mut left = String::new();
        let mut at = 0;
        while let Some(distance) = html[at..].find('<') {
            escape(&html[at..at + distance], &mut left);
            at += distance;
            let rest = &html[at..];
            if rest.starts_with("<!--") {
                at += rest.find("-->").map_or(rest.len(), |end| end + 3);
                continue;
            }
            let Some(tag) = tag(rest) else {
                // `<!DOCTYPE …>`, `<?…?>`, or a lone `<`.
                let is_markup = rest.starts_with("<!") || rest.starts_with("<?");
                if let Some(end) = rest.find('>').filter(|_| is_markup) {
                    at += end + 1;
                } else {
                    left.push_str("&lt;");
                    at += 1;
                }
                continue;
            };
            at += tag.end;
            if NO_TEXT.contains(&&*tag.name) {
                if !tag.closes && !tag.inside.ends_with('/') {
                    at += closing(&html[at..], &tag.name);
                }
                continue;
            }
            self.tags += 1;
            if self.tags > MOST {
                continue;
            }
            if tag.name == "img" {
                let value = |name| attribute(tag.inside, name).unwrap_or_default();
                left.push_str(&image(&value("src"), &value("alt")));
            } else if PLAIN.contains(&&*tag.name) {
                let slash = if tag.closes { "/" } else { "" };
                let _ = write!(left, "<{slash}{}>", tag.name);
            }
        }
        escape(&html[at..], &mut left);
        left
    }
}

/// Escapes text that may hold entities already.
fn escape(text: &str, into: &mut String) {
    for char in text.chars() {
        match char {
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            other => into.push(other),
        }
    }
}

/// Reads the tag that a text begins with.
fn tag(text: &str) -> Option<Tag<'_>> {
    let after = text.strip_prefix('<')?;
    let (closes, after) = match after.strip_prefix('/') {
        Some(after) => (true, after),
        None => (false, after),
    };
    if !after.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let length = after
        .find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/')
        .unwrap_or(after.len());
    let name = after[..length].to_ascii_lowercase();
    let inside = &after[length..];
    let mut quote = None;
    let end = inside.char_indices().find(|(_, char)| {
        if let Some(open) = quote {
            quote = (*char != open).then_some(open);
            return false;
        }
        quote = matches!(char, '"' | '\'').then_some(*char);
        *char == '>'
    });
    let (end, _) = end?;
    Some(Tag {
        name,
        closes,
        inside: &inside[..end],
        end: text.len() - inside.len() + end + 1,
    })
}

/// Returns where what follows the end of an element begins; the end of the text where it has none.
fn closing(text: &str, name: &str) -> usize {
    let end = text.match_indices("</").find(|(at, _)| {
        let rest = text[at + 2..].get(..name.len());
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(name))
    });
    let Some((at, _)) = end else {
        return text.len();
    };
    text[at..].find('>').map_or(text.len(), |end| at + end + 1)
}

/// Returns the value of an attribute.
fn attribute(inside: &str, wanted: &str) -> Option<String> {
    let mut rest = inside.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c.is_ascii_whitespace() || c == '=' || c == '/')
            .unwrap_or(rest.len());
        let name = &rest[..end];
        rest = rest[end..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            (value, rest) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => after
                    .split_once(|c: char| c.is_ascii_whitespace())
                    .unwrap_or((after, "")),
            };
        } else if end == 0 {
            rest = rest.get(1..).unwrap_or_default();
        }
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.replace("&amp;", "&"));
        }
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(html: &str) -> String {
        let mut image = |src: &str, alt: &str| format!("[{src}|{alt}]");
        Raw::default().plain(html, &mut image)
    }

    #[test]
    fn of_html_only_plain_marks_are_left() {
        for (html, left) in [
            ("<b onclick=x>a</b>", "<b>a</b>"),
            ("<kbd>Ctrl</kbd><br/>", "<kbd>Ctrl</kbd><br>"),
            ("<script>alert(1)</script>x", "x"),
            ("<SCRIPT src=//evil>x</sCript >y", "y"),
            ("<svg onload=x><circle/></svg>z", "z"),
            ("<style>p{}</style>", ""),
            ("<script>never closed", ""),
            ("<a href='javascript:x'>t</a>", "t"),
            ("<div style=\"a>b\"><p>", "<div><p>"),
            ("<!-- a <b> --><!DOCTYPE html><?php x ?>", ""),
            ("<!-- never closed <b>", ""),
            ("1 < 2 > 0 &amp; <3", "1 &lt; 2 &gt; 0 &amp; &lt;3"),
            ("<img src=\"a b.png\" alt='<x>'>", "[a b.png|<x>]"),
            ("<img alt src=x.png/>", "[x.png/|]"),
            ("<b <script>", "<b>"),
            ("<b", "&lt;b"),
            ("<form action=/dead/act><input></form>", ""),
        ] {
            assert_eq!(plain(html), left, "{html}");
        }
    }

    #[test]
    fn no_page_has_more_tags_than_a_reader_needs() {
        let left = plain(&"<b>".repeat(100_000));
        assert_eq!(left.matches("<b>").count(), MOST);
    }
}
