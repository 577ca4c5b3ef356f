//! A bound on how deep blocks nest.

use std::borrow::Cow;

/// Deepest nesting of quotations and lists that one line may begin. The parser's time for a line grows with
/// the depth it stands in, so a megabyte of `> > > …` with short lines after it would take minutes. A rule
/// `* * * …` of 80 columns still fits.
const MAX_MARKERS: usize = 64;

/// Deepest indentation of a line, in bytes, before its text: what lists nest by over many lines.
const MAX_INDENT: usize = 512;

/// Returns the body with the excess of too deep prefixes made plain text, byte for byte, so that offsets
/// stay. Only for the parser: links and sections are cut from the body itself.
pub(super) fn bounded(body: &str) -> Cow<'_, str> {
    let mut changed: Option<Vec<u8>> = None;
    let mut start = 0;
    for line in body.split_inclusive('\n') {
        if let Some((from, to)) = excess(line.as_bytes()) {
            let bytes = changed.get_or_insert_with(|| body.as_bytes().to_vec());
            bytes[start + from..start + to].fill(b'x');
        }
        start += line.len();
    }
    // Only ASCII was put in the place of ASCII.
    match changed.map(String::from_utf8) {
        Some(Ok(changed)) => Cow::Owned(changed),
        _ => Cow::Borrowed(body),
    }
}

/// Returns where in a line the prefix goes on beyond the bounds; `None` for all but hostile lines.
fn excess(line: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut markers = 0;
    let mut from = None;
    loop {
        let rest = &line[at..];
        let is_marker = !matches!(rest.first(), Some(b' ' | b'\t'));
        let Some(len) = prefix_len(rest) else { break };
        markers += usize::from(is_marker);
        if from.is_none() && (markers > MAX_MARKERS || at >= MAX_INDENT) {
            from = Some(at);
        }
        at += len;
    }
    // A line of blanks alone nests nothing.
    let blank = matches!(line.get(at), None | Some(b'\n' | b'\r')) && markers == 0;
    from.filter(|_| !blank).map(|from| (from, at))
}

/// Returns the length of the blank, `>`, bullet or number at the start.
fn prefix_len(rest: &[u8]) -> Option<usize> {
    let blank_at = |at: usize| matches!(rest.get(at), None | Some(b' ' | b'\t' | b'\n' | b'\r'));
    match rest.first()? {
        b' ' | b'\t' | b'>' => Some(1),
        b'-' | b'+' | b'*' => blank_at(1).then_some(1),
        b'0'..=b'9' => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_marker = matches!(rest.get(digits), Some(b'.' | b')')) && blank_at(digits + 1);
            (digits <= 9 && is_marker).then_some(digits + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_nesting_is_left_alone() {
        for body in [
            "> > - 1. a\n",
            &format!("{}\n", "* ".repeat(39)),
            &format!("{}\nx", " ".repeat(5000)),
            &format!("{}text", " ".repeat(MAX_INDENT)),
            &"x > - ".repeat(1000),
        ] {
            assert!(matches!(bounded(body), Cow::Borrowed(_)), "{body}");
        }
    }

    #[test]
    fn the_excess_becomes_text_of_the_same_length() {
        for prefix in ["> ", ">", "- ", "1. ", "12) "] {
            let body = format!("한\n{}a\n", prefix.repeat(1000));
            let bounded = bounded(&body);
            assert_eq!(bounded.len(), body.len());
            let kept = prefix.repeat(MAX_MARKERS);
            assert!(bounded.starts_with(&format!("한\n{kept}")), "{prefix}");
            assert!(bounded.ends_with("xxxxa\n"), "{prefix}");
        }
        let body = format!("{}- a\n", " ".repeat(1000));
        assert_eq!(bounded(&body)[MAX_INDENT..].trim_matches('x'), "a\n");
    }
}
