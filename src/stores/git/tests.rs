//! Judged by the real git command line.

mod attributes;
mod beside;
mod citizen;
mod crash;
mod fixture;
mod head;
mod large;
mod random;
mod stored;
