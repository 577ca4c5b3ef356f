//! The read side: status, doctor, search, questions to the graph.

pub mod doctor;
pub mod graph;
pub mod search;
pub mod status;
