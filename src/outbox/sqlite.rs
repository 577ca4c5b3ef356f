//! The embedded outbox: a table in `wiki.db`.

/// The outbox in SQLite.
#[derive(Debug)]
pub struct SqliteOutbox;
