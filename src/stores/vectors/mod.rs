//! The vectors store.
