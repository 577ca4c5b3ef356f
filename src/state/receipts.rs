//! Receipts: what was applied to which store, written ahead.

/// A receipt.
#[derive(Debug)]
pub struct Receipt;
/// What was seen of a file.
#[derive(Debug)]
pub struct FileSeen;
/// All receipts.
#[derive(Debug)]
pub struct Receipts;
