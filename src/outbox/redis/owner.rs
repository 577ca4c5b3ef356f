//! Whose outbox it is. A missing file means remove, so two checkouts on one outbox would empty each other's stores.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::{Failure, FailureKind};
use crate::outbox::worker::host;

/// A checkout, as it stands in the owner key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// An id that the checkout keeps in its state; lost with it.
    pub id: String,
    /// The machine's name.
    pub host: String,
    /// The repository's root.
    pub root: String,
}

impl Owner {
    /// Names the checkout at `root` on this machine.
    #[must_use]
    pub fn of(root: &Path, id: String) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        Self {
            id,
            host: host(),
            root: root.to_string_lossy().into_owned(),
        }
    }

    /// Says whether it is the same checkout as the one that is written there: in its place, whose state may have been
    /// lost; or moved, with its state. A copy of a checkout that is still there is another one.
    fn is(&self, written: &Self) -> bool {
        let same_place = self.host == written.host && self.root == written.root;
        let is_copy = self.host == written.host && Path::new(&written.root).exists();
        same_place || (self.id == written.id && !is_copy)
    }

    /// Returns it as the owner key holds it.
    pub(super) fn mark(&self) -> String {
        serde_json::to_string(self).expect("three texts always serialise")
    }

    /// Checks that this checkout may use an outbox with this mark.
    ///
    /// # Errors
    /// `Refused`, naming whose it is and the way out.
    pub(super) fn may_use(&self, mark: &[u8], key: &str) -> Result<(), Failure> {
        let written = serde_json::from_slice::<Self>(mark).ok();
        if written.as_ref().is_some_and(|written| self.is(written)) {
            return Ok(());
        }
        let whose = match written {
            Some(written) => format!("the checkout {} on {}", written.root, written.host),
            None => "somebody whose mark cannot be read".into(),
        };
        Err(Failure::new(
            FailureKind::Refused,
            format!("this outbox belongs to {whose}"),
        )
        .hint(format!(
            "give each checkout an outbox.key and an outbox.dead_key of its own; if that checkout is gone: redis-cli DEL '{key}'"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_known_by_its_place_or_its_id_and_a_copy_is_another() {
        let here = tempfile::tempdir().expect("a folder");
        let there = tempfile::tempdir().expect("a folder");
        let me = Owner::of(here.path(), "id".into());
        let other = |id: &str, host: &str, root: &Path| Owner {
            id: id.into(),
            host: host.into(),
            root: root.to_string_lossy().into_owned(),
        };
        let gone = Path::new("/gone/for/good");
        for (written, same) in [
            (me.clone(), true),
            (
                Owner {
                    id: "lost".into(),
                    ..me.clone()
                },
                true,
            ),
            (other("id", &me.host, gone), true),
            (other("id", "another machine", there.path()), true),
            (other("id", &me.host, there.path()), false),
            (other("else", &me.host, gone), false),
            (other("else", "another machine", here.path()), false),
        ] {
            let told = me.may_use(written.mark().as_bytes(), "{k}:owner");
            assert_eq!(told.is_ok(), same, "{written:?}");
        }
        let failure = me.may_use(b"junk", "{k}:owner").expect_err("refused");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.hint.expect("a hint").contains("DEL '{k}:owner'"));
    }
}
