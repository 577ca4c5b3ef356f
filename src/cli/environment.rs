//! What git hands to its hooks must not lead us elsewhere; and how the allocator is told to be thrifty.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::error::CommandError;

/// Starts this program again without any `GIT_*` variable, if there is one; returns when there is none.
///
/// A hook is run with `GIT_DIR`, `GIT_INDEX_FILE`, author names and dates of the commit under way; with them
/// we would commit to another repository or index, or in someone else's name. Another process image is the
/// only way to be rid of them for libraries too.
///
/// # Errors
/// When the program cannot be started again.
pub(crate) fn scrub() -> Result<(), CommandError> {
    let theirs = foreign(std::env::vars_os().map(|(name, _)| name));
    if theirs.is_empty() {
        return Ok(());
    }
    let mut again = this_program()?;
    for name in theirs {
        if let Some(value) = std::env::var_os(&name)
            && name.as_bytes().starts_with(CONFIGURATION)
        {
            again.env(aside(&name), value);
        }
        again.env_remove(name);
    }
    // Returns only when it fails.
    let error = again.exec();
    Err(CommandError::caused(
        "cannot start again without git's environment variables",
        &error,
    )
    .hint("unset every GIT_* variable before the call"))
}

/// Takes memory from the system in small pages. mimalloc asks for pages of 2 MiB, each of which the system clears when it is
/// first touched: most of what a process that is soon over never uses. A first sync of 768 pages took 0.88 of the time
/// and 0.74 of the memory without, one of 14,386 as long and 0.9 of the memory.
pub(crate) fn take_small_pages() {
    // Only for speed, so where it is forbidden, nothing is lost.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// How the allocator gives memory back: at once, and what was never used is not taken. For a process that rests most of its
/// time; one that is soon over is quicker without. Read by mimalloc as a process starts.
const THRIFT: [(&str, &str); 2] = [
    ("MIMALLOC_PURGE_DELAY", "0"),
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
];

/// Starts this program again with an allocator that keeps no memory for later; returns when it is so, or was set otherwise
/// by the user.
///
/// # Errors
/// When the program cannot be started again.
pub(crate) fn be_thrifty() -> Result<(), CommandError> {
    if THRIFT
        .iter()
        .any(|(name, _)| std::env::var_os(name).is_some())
    {
        return Ok(());
    }
    let error = this_program()?.envs(THRIFT).exec();
    Err(CommandError::caused(
        "cannot start again with less memory",
        &error,
    ))
}

/// Returns the call of this very program, as it was called.
fn this_program() -> Result<Command, CommandError> {
    // By its own name, which is what `top` shows; by the link where the file was replaced meanwhile.
    let program = match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        Ok(_) => "/proc/self/exe".into(),
        Err(e) => {
            return Err(CommandError::caused(
                "cannot find this program's own file",
                &e,
            ));
        }
    };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    again.args(args);
    Ok(again)
}

/// Returns the variables by which the user's own git is configured, as he set them: for asking that git about itself.
pub(crate) fn git_configuration() -> Vec<(OsString, OsString)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.as_bytes().strip_prefix(ASIDE)?;
            Some((OsStr::from_bytes(name).to_owned(), value))
        })
        .collect()
}

/// How the variables begin that configure git, and lead it nowhere.
const CONFIGURATION: &[u8] = b"GIT_CONFIG";
/// What their names begin with while they are put aside.
const ASIDE: &[u8] = b"ASIDE_FROM_WIKI_SYNC_";

fn aside(name: &OsStr) -> OsString {
    OsString::from_vec([ASIDE, name.as_bytes()].concat())
}

fn foreign(names: impl Iterator<Item = OsString>) -> Vec<OsString> {
    names
        .filter(|name| name.as_bytes().starts_with(b"GIT_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_gits_is_taken_away_and_no_other() {
        let names = [
            "GIT_DIR",
            "PATH",
            "GIT_INDEX_FILE",
            "GITHUB_TOKEN",
            "LEGIT_X",
        ];
        assert_eq!(
            foreign(names.into_iter().map(Into::into)),
            ["GIT_DIR", "GIT_INDEX_FILE"]
        );
    }
}
