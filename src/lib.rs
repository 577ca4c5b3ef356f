//! Keeps a Markdown wiki equal in three stores: a graph, vectors, and files in git.
//!
//! # The journey of a page
//!
//! ```text
//! file saved ── watch ─┐
//! git commit ── hook ──┤                               ┌─ graph   (SQLite)
//! producer  ── RPUSH ──┼─▶ outbox ──claim──▶ drain ────┼─ vectors (sections → BM25 → Qdrant)
//! stat-walk ── scan  ──┤                     reads     └─ git     (one commit per batch)
//! verify    ── repair ─┘                     the page        │
//!                                                            ▼
//!           ack · retry later · hold while the store is down · dead letter
//! ```
//!
//! Read the modules in this order: [`model`] (what the words mean), [`wiki`] (the pages on disk),
//! [`state`] (what we remember), [`outbox`] (the door in), [`stores`] (the door out), [`engine`] (scan,
//! drain, verify), [`query`] (the read side), `mcp` (the face for language models), `serve` (the one in a browser), [`hooks`] (git's
//! hooks, installed), [`cli`] (the only part that prints).
//!
//! Who may import whom: `cli → mcp, serve → query, engine → outbox, stores, state, wiki → model → nothing`. The outbox
//! and the stores do not know each other's insides. A test checks these directions.

pub mod cli;
pub mod config;
pub mod embed;
pub mod engine;
pub mod hooks;
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
pub mod outbox;
pub mod query;
#[cfg(feature = "serve")]
pub mod serve;
pub mod state;
pub mod stores;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod wiki;
