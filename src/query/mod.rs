//! The read side.
