//! What goes wrong around the stores, and comes right again.

use std::fs::File;
use std::time::Duration;

use wiki_sync::testing::RedisServer;
use wiki_sync::testing::qdrant_server::{Act, Fault, QdrantServer};

use crate::dice::Dice;
use crate::wiki::Wiki;

/// What stands behind the wiki.
pub(super) enum Behind {
    /// SQLite and Edge, in the state folder.
    Embedded {
        /// The shard's lock, while another process has it.
        shard: Option<File>,
    },
    /// Servers of their own.
    Servers {
        redis: Box<RedisServer>,
        is_redis_up: bool,
        qdrant: Box<QdrantServer>,
        is_qdrant_up: bool,
    },
}

impl Behind {
    pub(super) fn servers() -> Self {
        Self::Servers {
            redis: Box::new(RedisServer::durable()),
            is_redis_up: true,
            qdrant: Box::new(crate::qdrant::spawn()),
            is_qdrant_up: true,
        }
    }

    /// Settings that lead to it.
    pub(super) fn env(&self) -> Vec<(String, String)> {
        let mut env = vec![("WIKI_SYNC_RETRY_PROBES", "0.1, 0.1".into())];
        if let Self::Servers { redis, qdrant, .. } = self {
            env.push(("WIKI_SYNC_OUTBOX_URL", redis.url()));
            env.push(("WIKI_SYNC_VECTORS_URL", qdrant.url()));
        }
        env.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Whether a producer can push a line now.
    pub(super) fn redis(&self) -> Option<&RedisServer> {
        match self {
            Self::Servers {
                redis,
                is_redis_up: true,
                ..
            } => Some(redis),
            Self::Servers { .. } | Self::Embedded { .. } => None,
        }
    }

    /// Whether a drain would wait for minutes: told to stop, it ends at once.
    pub(super) fn makes_wait(&self) -> bool {
        matches!(self, Self::Embedded { shard: Some(_) })
    }

    /// Lets something go wrong, and says what.
    pub(super) fn goes_wrong(&mut self, wiki: &Wiki, dice: &mut Dice) -> String {
        match self {
            Self::Embedded { shard: Some(_) } => "the shard is still another's".into(),
            Self::Embedded { shard } => {
                let state = wiki.root().join(".wiki-sync");
                std::fs::create_dir_all(&state).unwrap();
                let lock = File::options()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(state.join("vectors.lock"))
                    .unwrap();
                lock.lock().unwrap();
                *shard = Some(lock);
                "another process has the shard".into()
            }
            Self::Servers {
                redis,
                is_redis_up,
                qdrant,
                is_qdrant_up,
            } => match dice.below(12) {
                0 | 1 => {
                    redis.down();
                    *is_redis_up = false;
                    "redis is down".into()
                }
                2 => {
                    redis.down();
                    redis.up();
                    *is_redis_up = true;
                    "redis is killed and started".into()
                }
                3 | 4 => {
                    qdrant.down();
                    *is_qdrant_up = false;
                    "qdrant is down".into()
                }
                other => {
                    let method = *dice.one_of(&["", "upsert", "delete_points", "upsert"]);
                    let (act, times) = match other {
                        5 => (Act::Hang, usize::MAX),
                        6 => (Act::Refuse(13), usize::MAX),
                        7 => (Act::Refuse(14), 1 + dice.below(4)),
                        8 => (Act::DropAfter, 1 + dice.below(4)),
                        9 => (Act::Later(Duration::from_millis(200)), 1),
                        10 => (Act::Slow(Duration::from_millis(300)), 5),
                        // It is a process of its own, and is found dead when all is to be calm again.
                        _ => (*dice.one_of(&[Act::Die, Act::DieAfter]), 1),
                    };
                    // Only a write can be answered before it is done.
                    let method = match act {
                        Act::Later(_) | Act::DropAfter if method.is_empty() => "upsert",
                        _ => method,
                    };
                    let after = dice.below(6);
                    qdrant.fault(Fault {
                        method: method.into(),
                        after,
                        times,
                        act,
                    });
                    format!("qdrant: {act:?} of {method:?} after {after}, {times} times")
                }
            },
        }
    }

    /// Everything works again.
    pub(super) fn comes_right(&mut self) {
        match self {
            Self::Embedded { shard } => *shard = None,
            Self::Servers {
                redis,
                is_redis_up,
                qdrant,
                is_qdrant_up,
            } => {
                if !std::mem::replace(is_redis_up, true) {
                    redis.up();
                }
                qdrant.calm();
                // It may have died of a fault without our hearing of it.
                if !std::mem::replace(is_qdrant_up, true) || !qdrant.is_alive() {
                    qdrant.down();
                    qdrant.up();
                }
            }
        }
    }
}
