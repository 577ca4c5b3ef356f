//! The read side.

pub mod graph;
