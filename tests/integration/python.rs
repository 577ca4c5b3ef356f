//! The Python that `scripts/test` has put in place, with the packages that the tests set against us.

use std::path::PathBuf;

const PYTHON: &str = "WIKI_SYNC_TEST_PYTHON";

/// Returns the Python that has the packages; where nobody promised one, says loudly what is not shown.
pub(crate) fn python(what: &str) -> Option<PathBuf> {
    let python = std::env::var_os(PYTHON);
    if python.is_none() {
        eprintln!(
            "NOT SHOWN: {what}. {PYTHON} is not set: run scripts/test, which installs Python's packages, or read there why it could not"
        );
    }
    python.map(Into::into)
}
