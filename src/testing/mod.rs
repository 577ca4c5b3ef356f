//! Test doubles, fixtures and contract suites, behind the feature `testing`.
