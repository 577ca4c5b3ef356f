//! The content SHA: what makes an unchanged page a no-op.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The SHA-256 of a page's bytes as they are on disk; 64 lower-case hex digits as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentSha([u8; 32]);

impl ContentSha {
    /// Returns the SHA of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for ContentSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0_u8; 64];
        for (i, byte) in self.0.iter().enumerate() {
            text[2 * i] = HEX[usize::from(byte >> 4)];
            text[2 * i + 1] = HEX[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for ContentSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentSha({self})")
    }
}

/// Why a text is not a content SHA.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a SHA-256 in 64 hex digits")]
pub struct NotASha;

impl FromStr for ContentSha {
    type Err = NotASha;

    /// Reads 64 hex digits, upper or lower case.
    fn from_str(text: &str) -> Result<Self, NotASha> {
        let text = text.as_bytes();
        if text.len() != 64 {
            return Err(NotASha);
        }
        let digit = |c: u8| char::from(c).to_digit(16).ok_or(NotASha);
        let mut sha = [0_u8; 32];
        for (i, pair) in text.chunks_exact(2).enumerate() {
            let value = digit(pair[0])? << 4 | digit(pair[1])?;
            sha[i] = u8::try_from(value).expect("two hex digits fit a byte");
        }
        Ok(Self(sha))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_the_standard_one_and_reads_back() {
        let sha = ContentSha::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha.to_string(), text);
        assert_eq!(text.parse(), Ok(sha));
        assert_eq!(text.to_uppercase().parse(), Ok(sha));
    }

    #[test]
    fn anything_but_64_hex_digits_is_refused() {
        for bad in ["", "ba78", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<ContentSha>(), Err(NotASha), "{bad:?}");
        }
    }
}
