//! BM25 as sparse vectors: the document side holds the saturated term frequency, the query side ones; the
//! inverse document frequency is the store's part (Qdrant's IDF modifier), since only it knows all points.
//!
//! A token's index is the 32-bit `MurmurHash3` of its bytes. Two tokens may share one: among half a million
//! distinct tokens about 30 pairs do, and a collision only lets a page be found by one wrong word. In
//! return nothing has to be stored, and any process derives the same vectors.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::Sparse;

/// Changes when a text would get another vector than before: part of the vectors' fingerprint.
pub const VERSION: &str = "1";

/// How fast more of the same word stops counting. The textbook's value.
const K1: f64 = 1.2;

/// How much a long section is held back. The textbook's value.
const B: f64 = 0.75;

/// The length, in tokens, of a section that is held back neither more nor less. A constant, since a mean
/// that moves would change every vector with every page. Measured over the three shared corpora, sections
/// of documentation have 90 (English) to 130 (Korean bigrams) tokens; MRR@10 falls from .80 to .77 (English) and .69
/// to .66 (Korean) when this is 256 instead.
const MEAN_TOKENS: f64 = 100.0;

/// Returns the vector of a section: its passage (see [`super::passage`]), in which the words of the title count twice.
/// (English MRR@10 .80 instead of .78; Korean the same.)
#[must_use]
pub fn document(title: &str, passage: &str) -> Sparse {
    let mut counts = BTreeMap::<u32, f64>::new();
    let mut length = 0.0;
    for text in [title, passage] {
        each_token(text, |token| {
            *counts.entry(index(token)).or_default() += 1.0;
            length += 1.0;
        });
    }
    let norm = K1 * (1.0 - B + B * length / MEAN_TOKENS);
    let mut vector = Sparse::default();
    for (index, count) in counts {
        vector.indices.push(index);
        // A weight of the size of 1 loses nothing that matters as an f32.
        #[allow(clippy::cast_possible_truncation)]
        vector
            .values
            .push((count * (K1 + 1.0) / (count + norm)) as f32);
    }
    vector
}

/// Returns the vector of a query: one at each of its tokens.
#[must_use]
pub fn query(text: &str) -> Sparse {
    let mut indices = Vec::new();
    each_token(text, |token| indices.push(index(token)));
    indices.sort_unstable();
    indices.dedup();
    Sparse {
        values: vec![1.0; indices.len()],
        indices,
    }
}

/// Calls `found` with each token of `text`: whole words of scripts that put spaces between words, pairs
/// of neighbouring characters of those that do not, and of Hangul, where endings stick to the word.
///
/// Compatibility forms are folded first (NFKC: full-width letters, decomposed Hangul, ligatures), case too. A single
/// character between other scripts is a token of its own. No word is left out: what stands everywhere
/// weighs next to nothing by its document frequency.
pub fn each_token(text: &str, mut found: impl FnMut(&str)) {
    let mut run = String::new();
    let mut kind = Kind::Gap;
    each_folded(text, |c| {
        let next = match Kind::of(c) {
            // A mark belongs to the character before it.
            Kind::Mark if kind == Kind::Gap => Kind::Gap,
            Kind::Mark => kind,
            other => other,
        };
        if next != kind {
            emit(&run, kind, &mut found);
            run.clear();
            kind = next;
        }
        if kind != Kind::Gap {
            run.push(c);
        }
    });
    emit(&run, kind, &mut found);
}

/// Calls `each` with every character of the text's NFKC form in lower case.
///
/// ASCII, most of a wiki, is its own NFKC form: only its last character before another may become one with that, and
/// none becomes one with what stands before it. So Unicode's tables are asked for the
/// rest alone.
fn each_folded(text: &str, mut each: impl FnMut(char)) {
    let mut rest = text;
    loop {
        let ascii = rest.bytes().take_while(u8::is_ascii).count();
        let alone = if ascii == rest.len() {
            ascii
        } else {
            ascii.saturating_sub(1)
        };
        for byte in rest[..alone].bytes() {
            each(char::from(byte.to_ascii_lowercase()));
        }
        if alone == rest.len() {
            return;
        }
        let end = rest[ascii..].bytes().take_while(|byte| !byte.is_ascii());
        let (other, after) = rest.split_at(ascii + end.count());
        other[alone..]
            .nfkc()
            .flat_map(char::to_lowercase)
            .for_each(&mut each);
        rest = after;
    }
}

fn emit(run: &str, kind: Kind, found: &mut impl FnMut(&str)) {
    match kind {
        Kind::Gap | Kind::Mark => {}
        Kind::Word => found(run),
        Kind::Dense => {
            let starts = || run.char_indices().map(|(at, _)| at);
            let ends = starts().skip(2).chain(std::iter::once(run.len()));
            if starts().nth(1).is_none() {
                return found(run);
            }
            for (start, end) in starts().zip(ends) {
                found(&run[start..end]);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Between tokens.
    Gap,
    /// A character of a word.
    Word,
    /// A character of a script that is cut into pairs.
    Dense,
    /// A mark on the character before it.
    Mark,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | '0'..='9' | '_' => Self::Word,
            '\0'..='\x7f' => Self::Gap,
            '\u{1100}'..='\u{11ff}' // Hangul letters
            | '\u{3131}'..='\u{318f}'
            | '\u{ac00}'..='\u{d7ff}' // Hangul syllables
            | '\u{3005}'..='\u{3007}' // 々〆〇
            | '\u{3041}'..='\u{3096}' // Hiragana
            | '\u{30a1}'..='\u{30fa}' // Katakana
            | '\u{30fc}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}' // Han
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
            | '\u{0e01}'..='\u{0e3a}' // Thai
            | '\u{0e40}'..='\u{0e4e}'
            | '\u{0e81}'..='\u{0ece}' // Lao
            | '\u{1000}'..='\u{1049}' // Burmese
            | '\u{1780}'..='\u{17d3}' // Khmer
            => Self::Dense,
            c if is_combining_mark(c) => Self::Mark,
            c if c.is_alphanumeric() => Self::Word,
            _ => Self::Gap,
        }
    }
}

/// Returns a token's index: `MurmurHash3` (x86, 32 bits, seed 0) of its bytes.
fn index(token: &str) -> u32 {
    let mix = |k: u32| {
        k.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    };
    let (blocks, tail) = token.as_bytes().as_chunks::<4>();
    let mut hash = 0_u32;
    for block in blocks {
        hash ^= mix(u32::from_le_bytes(*block));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u32::from_le_bytes(block));
    }
    // The length enters modulo 2^32, as the algorithm has it.
    #[allow(clippy::cast_possible_truncation)]
    {
        hash ^= token.len() as u32;
    }
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_folded_in_pieces_is_the_same_as_folded_whole(
            text in "([ -~]|e\u{301}|\u{338}|=\u{338}|\u{1100}\u{1161}|\u{11a8}|ﬁ|Ⅷ|İ|Σ|한|\\PC){0,30}"
        ) {
            let mut pieces = String::new();
            each_folded(&text, |c| pieces.push(c));
            let whole: String = text.nfkc().flat_map(char::to_lowercase).collect();
            prop_assert_eq!(pieces, whole);
        }
    }

    fn tokens(text: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        each_token(text, |token| tokens.push(token.into()));
        tokens
    }

    #[test]
    fn words_of_spaced_scripts_stay_whole_and_other_runs_become_pairs() {
        for (text, expected) in [
            ("Hello, World_2!", &["hello", "world_2"][..]),
            ("Ünïcode ÉTÉ", &["ünïcode", "été"]),
            ("e\u{301}te\u{301}", &["été"]),
            ("데이터베이스", &["데이", "이터", "터베", "베이", "이스"]),
            ("Astro를 써요", &["astro", "를", "써요"]),
            ("東京タワー", &["東京", "京タ", "タワ", "ワー"]),
            ("가", &["가"]),
            ("ＦＵＬＬ　ｗｉｄｔｈ", &["full", "width"]),
            ("हिन्दी भाषा", &["हिन्दी", "भाषा"]),
            ("привет мир", &["привет", "мир"]),
            ("\u{301}", &[]),
            ("... --- !!!", &[]),
            ("", &[]),
        ] {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn decomposed_hangul_is_the_same_as_composed() {
        let decomposed: String = "한글 페이지".nfd().collect();
        assert_ne!(decomposed, "한글 페이지");
        assert_eq!(tokens(&decomposed), tokens("한글 페이지"));
    }

    #[test]
    fn the_index_is_murmur3() {
        // Reference values of MurmurHash3_x86_32 with seed 0.
        for (token, expected) in [
            ("", 0),
            ("a", 0x3c25_69b2),
            ("abc", 0xb3dd_93fa),
            ("abcd", 0x43ed_676a),
            ("Hello, world!", 0xc036_3e43),
        ] {
            assert_eq!(index(token), expected, "{token:?}");
        }
    }

    #[test]
    fn a_word_said_more_often_weighs_more_but_never_more_than_k1_plus_one() {
        let weight = |text: &str| document("", text).values[0];
        assert!(weight("a") < weight("a a") && weight("a a") < weight("a a a a"));
        assert!(weight(&"a ".repeat(10_000)) < 2.2);
        let long = document("", &format!("a {}", "b ".repeat(300)));
        let at = long
            .indices
            .iter()
            .position(|&i| i == index("a"))
            .expect("there");
        assert!(
            long.values[at] < weight("a"),
            "a word of a long section weighs less"
        );
    }

    #[test]
    fn a_query_holds_each_token_once_in_ascending_order() {
        let vector = query("b a B 데이터 a");
        assert_eq!(vector.values, [1.0; 4]);
        assert!(vector.indices.is_sorted());
        assert!(query("?!").is_empty());
    }

    #[test]
    fn words_of_the_title_count_twice() {
        assert_eq!(
            document("a", "a").values,
            document("", "a a").values,
            "title and passage"
        );
    }
}
