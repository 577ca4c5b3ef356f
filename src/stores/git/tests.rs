//! Judged by the real git command line.

mod attributes;
mod beside;
mod by_git;
mod citizen;
mod crash;
mod filters;
mod fixture;
mod head;
mod large;
mod pack;
mod policy;
mod random;
mod refusals;
mod signing;
mod stored;
mod waits;
