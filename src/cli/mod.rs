//! The command line: the only part that prints.

use std::process::ExitCode;

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
