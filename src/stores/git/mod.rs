//! The git store.
