//! The read side: status, doctor, questions to the graph, what a search found.

pub mod doctor;
pub mod graph;
pub mod search;
pub mod status;
