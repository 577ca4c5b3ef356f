//! A page as the drain read it, and what is to be done with it.

use std::sync::Arc;
use std::sync::OnceLock;

use super::markdown::Document;
use super::{ContentSha, Labels, PagePath};

/// A page as it was read once: every store gets the same text, whatever happens on disk meanwhile.
#[derive(Debug)]
pub struct Page {
    /// Its identity.
    pub path: PagePath,
    /// The SHA of its bytes.
    pub sha: ContentSha,
    /// Its bytes, which are valid UTF-8 without NUL.
    pub text: String,
    /// The labels of the last job that carried any.
    pub labels: Labels,
    document: OnceLock<Document>,
}

impl Page {
    /// Makes a page of its text; the SHA is the text's.
    #[must_use]
    pub fn new(path: PagePath, text: String, labels: Labels) -> Self {
        Self {
            sha: ContentSha::of(text.as_bytes()),
            path,
            text,
            labels,
            document: OnceLock::new(),
        }
    }

    /// Returns the page parsed as Markdown; parsed at the first call, so that a page which only git
    /// still owes is never parsed.
    pub fn document(&self) -> &Document {
        self.document
            .get_or_init(|| Document::parse(&self.path, &self.text))
    }
}

/// One page's change for a store: the caller has decided between presence and absence.
#[derive(Debug, Clone)]
pub enum Change {
    /// The store is to hold this page.
    Put(Arc<Page>),
    /// The store is to hold nothing of this page.
    Remove(PagePath),
}

impl Change {
    /// Returns the page's path.
    #[must_use]
    pub fn path(&self) -> &PagePath {
        match self {
            Self::Put(page) => &page.path,
            Self::Remove(path) => path,
        }
    }
}
