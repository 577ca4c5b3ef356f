//! The read side: status, search, questions to the graph.

pub mod status;
