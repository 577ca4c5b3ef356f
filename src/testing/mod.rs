//! Test doubles, fixtures and contract suites, behind the feature `testing`.

pub mod outbox_contract;
