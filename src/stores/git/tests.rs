//! Judged by the real git command line.

mod beside;
mod citizen;
mod crash;
mod fixture;
mod large;
mod random;
mod stored;
