//! Scan.
