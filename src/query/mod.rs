//! The read side: status, doctor, questions to the graph.

pub mod doctor;
pub mod graph;
pub mod status;
