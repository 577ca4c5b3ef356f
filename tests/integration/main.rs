//! The integration tests: the built binary on real repositories, one file per topic, one binary (linking is slow).
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)] // a test may stop at the first surprise

mod alerts;
mod bad_pages;
mod corpus;
#[cfg(all(feature = "edge", feature = "server"))]
mod damage;
mod databases;
mod dice;
mod disk;
mod doctor;
mod embedding;
mod faults;
mod git_beside;
mod git_programs;
mod git_random;
mod git_surroundings;
mod graph;
mod hooks;
mod hooks_install;
mod journey;
mod kills;
mod layers;
mod lost_state;
mod meaning;
mod moves;
mod mv;
mod order;
mod outage;
mod producers;
mod python;
#[cfg(all(feature = "edge", feature = "server"))]
mod qdrant;
#[cfg(all(feature = "edge", feature = "server"))]
mod random;
#[cfg(all(feature = "edge", feature = "server"))]
mod readme;
#[cfg(all(feature = "edge", feature = "server"))]
mod rebuild;
mod redis;
mod redis_faults;
mod redis_workers;
mod schema;
mod scope;
mod signals;
mod spool;
mod status;
mod storm;
mod together;
#[cfg(all(feature = "edge", feature = "server"))]
mod vectors_load;
#[cfg(all(feature = "edge", feature = "server"))]
mod verify;
mod watch;
mod wiki;
