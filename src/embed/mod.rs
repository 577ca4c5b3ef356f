//! Text → vectors. Today the sparse ones, [`bm25`]; pure, and the same for every vector store.

pub mod bm25;

/// Changes when [`passage`] would build another text than before: part of the vectors' fingerprint.
pub const PASSAGE_VERSION: &str = "1";

/// A sparse vector: weights at ascending, distinct indices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sparse {
    /// Token ids, ascending, each once.
    pub indices: Vec<u32>,
    /// The weight at each of `indices`; positive and finite.
    pub values: Vec<f32>,
}

impl Sparse {
    /// Says whether no token is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}

/// Builds the text that stands for a section in every embedding: title, heading trail, text, one per line.
///
/// The one place where this is decided, so that words and meaning are found in the same text. A trail
/// that begins with the title itself (the page's own level-1 heading) does not say it again.
#[must_use]
pub fn passage(title: &str, trail: &[String], text: &str) -> String {
    let trail = match trail {
        [first, rest @ ..] if first == title => rest,
        all => all,
    };
    let mut passage = String::with_capacity(title.len() + text.len() + 64);
    for part in std::iter::once(title)
        .chain(trail.iter().map(String::as_str))
        .chain(std::iter::once(text))
        .filter(|part| !part.is_empty())
    {
        if !passage.is_empty() {
            passage.push('\n');
        }
        passage.push_str(part);
    }
    passage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_says_the_title_once_then_the_trail_then_the_text() {
        let trail = |parts: &[&str]| parts.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (title, heads, text, expected) in [
            ("T", &["A", "B"][..], "x", "T\nA\nB\nx"),
            ("T", &["T", "B"], "x", "T\nB\nx"),
            ("T", &[], "x", "T\nx"),
            ("T", &["A"], "", "T\nA"),
            ("", &[], "", ""),
        ] {
            assert_eq!(passage(title, &trail(heads), text), expected);
        }
    }
}
