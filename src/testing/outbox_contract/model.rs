//! A small second outbox in memory, to play random steps against.
