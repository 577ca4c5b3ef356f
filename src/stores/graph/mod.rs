//! The graph store.
