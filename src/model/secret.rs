//! Tokens, keys and URLs that hold one.

use std::fmt;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text, without white space around it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// Returns a text with every appearance of the secret hidden.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.into();
        }
        text.replace(&self.0, "***")
    }

    /// Returns the secret itself, to be sent and not to be shown.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
