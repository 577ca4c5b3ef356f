//! What the words mean: pure values, no I/O and no clock.
//!
//! Everything here can be tested with tables. Nothing in this folder may import from outside it.

mod failure;
mod finding;
mod identity;
mod job;
pub mod markdown;
mod page;
mod path;
mod retry;
mod secret;
mod sha;
mod store_name;
mod time;
mod within;

pub use failure::{Failure, FailureKind, causes};
pub use finding::{Finding, Level};
pub use identity::Identity;
pub use job::{Job, JobError, Labels};
pub use page::{Change, Page};
pub use path::{PagePath, PathError};
pub use retry::{RetryPolicy, Verdict};
pub use secret::Secret;
pub use sha::ContentSha;
pub use store_name::{NoSuchStore, StoreName, StoreSet};
pub use time::Timestamp;
pub use within::Within;
