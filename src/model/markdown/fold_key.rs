//! The key on which names are matched.

use caseless::Caseless as _;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Returns the key on which names (of pages, headings, tags, aliases) are matched: NFC, Unicode's default
/// case folding, and NFC again, since folding may take a composed letter apart.
///
/// Two spellings that differ only by case or by normal form (a name typed on macOS and the same name typed
/// on Linux) have the same key. Nothing else is folded: spaces, hyphens and accents keep their meaning, so
/// this is no slug. The key of a key is the key itself.
#[must_use]
pub fn fold_key(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let folded: String = text.nfc().default_case_fold().collect();
    if is_nfc(&folded) {
        folded
    } else {
        folded.nfc().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_name_have_one_key() {
        let decomposed: String = "한글 페이지".nfd().collect();
        for (a, b) in [
            ("한글 페이지", decomposed.as_str()),
            ("Étude", "e\u{301}TUDE"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("İ", "i\u{307}"),
            ("README", "ReadMe"),
            ("\u{1E9E}", "ss"),
        ] {
            assert_eq!(fold_key(a), fold_key(b), "{a} and {b}");
        }
    }

    #[test]
    fn different_names_keep_different_keys() {
        for (a, b) in [
            ("a b", "a-b"),
            ("e", "é"),
            ("홍길동", "김철수"),
            ("한글", "하늘"),
            ("page", "page "),
        ] {
            assert_ne!(fold_key(a), fold_key(b), "{a} and {b}");
        }
    }

    proptest! {
        #[test]
        fn the_key_is_composed_and_the_same_for_both_normal_forms(text in "\\PC{0,40}") {
            let key = fold_key(&text);
            prop_assert!(is_nfc(&key));
            prop_assert_eq!(fold_key(&text.nfd().collect::<String>()), key.clone());
            prop_assert_eq!(fold_key(&key), key);
        }
    }
}
