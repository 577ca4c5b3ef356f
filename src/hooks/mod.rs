//! Git's hooks: where git looks for them, our lines in them, and the proof that git will run them.
//!
//! | file | what |
//! |---|---|
//! | `/hooks/` | the lines themselves, in the shell's language |
//! | [`block`] | our lines in the text of a hook: put in, found, taken out again. Pure |
//! | [`places`] | asks git where it looks for hooks, and who said so |
//! | [`change`] | installs and uninstalls |
//! | [`status`] | says whether git will run them, and why not |
//!
//! What a hook announces is decided in `engine::announce`; nothing here knows of pages.

pub mod block;
pub mod change;
pub mod places;
pub mod status;

use std::fmt;
use std::io;
use std::path::Path;

/// A moment at which git runs a hook of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// After a commit, an amended one and a picked one too.
    Commit,
    /// After a merge or a pull.
    Merge,
    /// After another branch or commit was checked out.
    Checkout,
    /// After a rebase.
    Rewrite,
    /// After each patch of `git am`.
    ApplyPatch,
}

impl Event {
    /// All of them. There is none for `reset` and `stash`: what those change, the scan finds.
    pub const ALL: [Self; 5] = [
        Self::Commit,
        Self::Merge,
        Self::Checkout,
        Self::Rewrite,
        Self::ApplyPatch,
    ];

    /// Returns the hook's name, which is its file's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "post-commit",
            Self::Merge => "post-merge",
            Self::Checkout => "post-checkout",
            Self::Rewrite => "post-rewrite",
            Self::ApplyPatch => "post-applypatch",
        }
    }

    /// Returns the event of a hook's name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why hooks could not be installed, taken out or looked at.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// They are somebody else's to install, or something is in the way that we will not touch.
    #[error("{reason}")]
    Refused {
        /// What is in the way.
        reason: String,
        /// The ways out, one a line.
        hints: Vec<String>,
    },
    /// Git could not be asked.
    #[error("cannot ask git: {0}")]
    Git(String),
    /// The file system said no.
    #[error("cannot {doing}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// What it said.
        source: io::Error,
    },
}

impl HooksError {
    fn io(doing: &str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing: format!("{doing} {}", path.display()),
            source,
        }
    }
}
