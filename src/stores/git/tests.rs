//! Judged by the real git command line.

mod citizen;
mod crash;
mod fixture;
mod random;
mod stored;
