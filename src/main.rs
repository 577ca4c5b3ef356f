//! The `wiki-sync` binary: see [`wiki_sync`] for the journey of a page.

use std::process::ExitCode;

/// Gives memory back that is no longer needed; the system's own keeps most of what a first sync of a large wiki took, for
/// as long as a watch runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wiki_sync::cli::main()
}
