//! The keys: the two lists of the wire, and ours beside them.

use crate::model::{Failure, FailureKind, StoreName};

/// A key. The order is that of `KEYS` in `commit.lua`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// Which checkout this outbox serves.
    Owner,
    /// The number of the last change that this outbox sent; expires.
    Sent,
    /// The lines of producers.
    List,
    /// The dead letters' raw lines.
    DeadList,
    /// By path: the page's entry that is in no worker's hands.
    Waiting,
    /// By path: the page's entry that is.
    InFlight,
    /// What may be claimed. The score is the entry's place in the order, as in the four that follow.
    ///
    /// A waiting entry stands in exactly one of these five, or, while its page is in flight, in none.
    Ready,
    /// What waits for its time.
    Delayed,
    /// What is held for the graph.
    HeldGraph,
    /// What is held for the vectors.
    HeldVectors,
    /// What is held for git.
    HeldGit,
    /// By path: how the page's dead letter died.
    Letters,
    /// By number: how a line that named no page died.
    Junk,
    /// The last numbers given out.
    Last,
}

impl Key {
    pub(super) const ALL: [Self; 14] = [
        Self::Owner,
        Self::Sent,
        Self::List,
        Self::DeadList,
        Self::Waiting,
        Self::InFlight,
        Self::Ready,
        Self::Delayed,
        Self::HeldGraph,
        Self::HeldVectors,
        Self::HeldGit,
        Self::Letters,
        Self::Junk,
        Self::Last,
    ];

    /// The orders in which waiting entries stand.
    pub(super) const ORDERS: [Self; 5] = [
        Self::Ready,
        Self::Delayed,
        Self::HeldGraph,
        Self::HeldVectors,
        Self::HeldGit,
    ];

    /// The orders of those that wait for something: all but the ready ones.
    pub(super) const LATER: [Self; 4] = [
        Self::Delayed,
        Self::HeldGraph,
        Self::HeldVectors,
        Self::HeldGit,
    ];

    /// Returns where what is held for a store stands.
    pub(super) const fn held_for(store: StoreName) -> Self {
        match store {
            StoreName::Graph => Self::HeldGraph,
            StoreName::Vectors => Self::HeldVectors,
            StoreName::Git => Self::HeldGit,
        }
    }

    /// Returns its place in `KEYS`.
    pub(super) const fn place(self) -> usize {
        self as usize + 1
    }

    /// Returns the type it has, in Redis's words.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Owner | Self::Sent => "string",
            Self::List | Self::DeadList => "list",
            Self::Waiting | Self::InFlight | Self::Letters | Self::Junk | Self::Last => "hash",
            Self::Ready | Self::Delayed | Self::HeldGraph | Self::HeldVectors | Self::HeldGit => {
                "zset"
            }
        }
    }
}

/// All keys' names.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    names: [String; Key::ALL.len()],
}

impl Keys {
    /// Names the keys around the two lists, ours in the slot of the first; `sender` is this outbox.
    ///
    /// # Errors
    /// `Refused` when the lists cannot be told apart or have no name.
    pub(super) fn around(list: &str, dead: &str, sender: &str) -> Result<Self, Failure> {
        if list.is_empty() || dead.is_empty() || list == dead {
            return Err(Failure::new(
                FailureKind::Refused,
                "outbox.key and outbox.dead_key must be two different names",
            )
            .hint("take both settings away: the defaults are what producers know"));
        }
        // A name with a hash tag of its own decides the slot by that.
        let tagged = list
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .is_some_and(|(tag, _)| !tag.is_empty());
        let front = if tagged {
            list.to_owned()
        } else {
            format!("{{{list}}}")
        };
        let names = Key::ALL.map(|key| match key {
            Key::List => list.to_owned(),
            Key::DeadList => dead.to_owned(),
            Key::Owner => format!("{front}:owner"),
            Key::Sent => format!("{front}:sent:{sender}"),
            Key::Waiting => format!("{front}:waiting"),
            Key::InFlight => format!("{front}:in-flight"),
            Key::Ready => format!("{front}:ready"),
            Key::Delayed => format!("{front}:delayed"),
            Key::HeldGraph => format!("{front}:held:graph"),
            Key::HeldVectors => format!("{front}:held:vectors"),
            Key::HeldGit => format!("{front}:held:git"),
            Key::Letters => format!("{front}:letters"),
            Key::Junk => format!("{front}:junk"),
            Key::Last => format!("{front}:last"),
        });
        let ours = |key: &Key| !matches!(key, Key::List | Key::DeadList);
        let mut ours = Key::ALL.into_iter().filter(ours);
        if ours.any(|key| names[key as usize] == dead)
            || dead.starts_with(&format!("{front}:sent:"))
        {
            return Err(Failure::new(
                FailureKind::Refused,
                format!("outbox.dead_key {dead:?} is a key that wiki-sync keeps beside outbox.key"),
            )
            .hint("set outbox.dead_key to a name of its own"));
        }
        Ok(Self { names })
    }

    /// Returns the refusal of a key that is not ours.
    pub(super) fn wrong_type(&self, name: &str, is: &str) -> Failure {
        let setting = if name == self.name(Key::DeadList) {
            "outbox.dead_key"
        } else {
            "outbox.key"
        };
        Failure::new(
            FailureKind::Refused,
            format!("the key {name:?} is a {is}, which is not ours"),
        )
        .hint(format!(
            "another program uses a key of this name: set {setting} to a name of its own, or move that key away (RENAME)"
        ))
    }

    /// Returns a key's name.
    pub(super) fn name(&self, key: Key) -> &str {
        &self.names[key as usize]
    }

    /// Returns all names, in the order of `KEYS`.
    pub(super) fn all(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_keys_share_the_lists_slot() {
        for (list, owner) in [
            ("deep-wiki:outbox", "{deep-wiki:outbox}:owner"),
            ("{wiki}:outbox", "{wiki}:outbox:owner"),
            ("a{}b", "{a{}b}:owner"),
        ] {
            let keys = Keys::around(list, "dead", "me").expect("two names");
            assert_eq!(keys.name(Key::Owner), owner);
            assert_eq!(keys.name(Key::List), list);
        }
    }

    #[test]
    fn keys_stand_in_their_own_order() {
        for (place, key) in (1..).zip(Key::ALL) {
            assert_eq!(key.place(), place, "{key:?}");
        }
    }

    #[test]
    fn lists_that_cannot_be_told_apart_are_refused() {
        for (list, dead) in [("a", "a"), ("", "b"), ("a", "")] {
            let failure = Keys::around(list, dead, "me").expect_err("refused");
            assert_eq!(failure.kind, FailureKind::Refused);
        }
        for dead in ["{a}:owner", "{a}:letters", "{a}:sent:another", "{a}:last"] {
            let failure = Keys::around("a", dead, "me").expect_err("refused");
            assert_eq!(failure.kind, FailureKind::Refused, "{dead}");
        }
        Keys::around("a", "{a}:dlq", "me").expect("a name of its own");
    }

    #[test]
    fn a_key_of_another_program_is_told_by_its_own_setting() {
        let keys = Keys::around("a", "b", "me").expect("two names");
        for (name, setting) in [("a", "set outbox.key "), ("b", "set outbox.dead_key ")] {
            let hint = keys.wrong_type(name, "set").hint.expect("a hint");
            assert!(hint.contains(setting), "{hint}");
        }
    }
}
