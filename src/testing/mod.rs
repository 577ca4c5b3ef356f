//! Test doubles, fixtures and contract suites, behind the feature `testing`.

#[cfg(feature = "testing")]
mod faulty;
#[cfg(feature = "testing")]
mod kill;
pub mod outbox_contract;
#[cfg(test)]
mod protocol;
mod redis_server;
#[cfg(feature = "testing")]
mod source;

#[cfg(feature = "testing")]
pub use faulty::{Faulty, Plan, fail_pages_from_env};
#[cfg(feature = "testing")]
pub use kill::{arm_kill_from_env, arm_stop_from_env};
pub use redis_server::RedisServer;
#[cfg(feature = "testing")]
pub use source::planned_source;
