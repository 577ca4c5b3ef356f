//! Scan, drain, verify.
