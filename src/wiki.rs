//! The pages on disk.
