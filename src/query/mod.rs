//! The read side: status, search, questions to the graph.

pub mod graph;
pub mod status;
