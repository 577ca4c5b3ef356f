//! The integration tests: the built binary on real repositories, one file per topic, one binary (linking is slow).
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)] // a test may stop at the first surprise

mod alerts;
mod bad_pages;
mod corpus;
mod damage;
mod embedding;
mod faults;
mod git_surroundings;
mod journey;
mod kills;
mod layers;
mod lost_state;
mod moves;
mod redis;
mod scope;
mod signals;
mod storm;
mod together;
mod wiki;
