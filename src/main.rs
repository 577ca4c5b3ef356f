//! The `wiki-sync` binary: see [`wiki_sync`] for the journey of a page.

use std::process::ExitCode;

fn main() -> ExitCode {
    wiki_sync::cli::main()
}
