//! The integration tests: the built binary on real repositories, one file per topic, one binary (linking is slow).
//!
//! Nearly all bring pages to every store, so they need an engine for the vectors: the embedded one.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)] // a test may stop at the first surprise

#[cfg(feature = "edge")]
mod alerts;
#[cfg(feature = "edge")]
mod bad_pages;
#[cfg(feature = "edge")]
mod corpus;
#[cfg(all(feature = "edge", feature = "server"))]
mod damage;
#[cfg(feature = "edge")]
mod databases;
#[cfg(feature = "edge")]
mod dice;
#[cfg(feature = "edge")]
mod disk;
#[cfg(feature = "edge")]
mod doctor;
#[cfg(feature = "edge")]
mod embedding;
#[cfg(feature = "edge")]
mod faults;
#[cfg(feature = "edge")]
mod first_steps;
#[cfg(feature = "edge")]
mod git_beside;
#[cfg(feature = "edge")]
mod git_programs;
#[cfg(feature = "edge")]
mod git_random;
#[cfg(feature = "edge")]
mod git_surroundings;
#[cfg(feature = "edge")]
mod graph;
#[cfg(feature = "edge")]
mod hooks;
#[cfg(feature = "edge")]
mod hooks_install;
#[cfg(feature = "edge")]
mod journey;
#[cfg(feature = "edge")]
mod kills;
mod layers;
#[cfg(feature = "edge")]
mod log;
#[cfg(feature = "edge")]
mod lost_state;
#[cfg(all(feature = "edge", feature = "mcp"))]
mod mcp;
#[cfg(feature = "edge")]
mod meaning;
#[cfg(feature = "edge")]
mod messages;
#[cfg(feature = "edge")]
mod moves;
#[cfg(feature = "edge")]
mod mv;
#[cfg(feature = "edge")]
mod order;
#[cfg(feature = "edge")]
mod outage;
mod package;
#[cfg(feature = "edge")]
mod producers;
#[cfg(feature = "edge")]
mod python;
#[cfg(all(feature = "edge", feature = "server"))]
mod qdrant;
#[cfg(all(feature = "edge", feature = "server"))]
mod random;
#[cfg(all(feature = "edge", feature = "server"))]
mod readme;
#[cfg(all(feature = "edge", feature = "server"))]
mod rebuild;
#[cfg(feature = "edge")]
mod redis;
#[cfg(feature = "edge")]
mod redis_faults;
#[cfg(feature = "edge")]
mod redis_workers;
#[cfg(feature = "edge")]
mod schema;
#[cfg(feature = "edge")]
mod scope;
#[cfg(feature = "edge")]
mod search;
#[cfg(all(feature = "edge", feature = "serve"))]
mod serve;
#[cfg(all(feature = "edge", feature = "serve"))]
mod serve_browser;
#[cfg(feature = "edge")]
mod signals;
#[cfg(feature = "edge")]
mod spool;
#[cfg(feature = "edge")]
mod status;
#[cfg(feature = "edge")]
mod storm;
#[cfg(feature = "edge")]
mod terminal;
#[cfg(feature = "edge")]
mod together;
#[cfg(all(feature = "edge", feature = "server"))]
mod vectors_load;
#[cfg(all(feature = "edge", feature = "server"))]
mod verify;
#[cfg(feature = "edge")]
mod watch;
mod wiki;
#[cfg(not(feature = "edge"))]
mod without_engine;
