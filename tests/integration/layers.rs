//! Who may import whom: the directions that the README's architecture page promises.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each part of the program with what it may import from the others. `cli` and `testing` may import anything.
const MAY: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("http", &["model"]),
    ("hooks", &[]),
    ("wiki", &["model"]),
    ("state", &["model", "wiki"]),
    ("outbox", &["model", "state"]),
    ("embed", &["model", "http", "state"]),
    ("stores", &["model", "http", "state", "embed"]),
    (
        "engine",
        &["model", "http", "wiki", "state", "outbox", "stores"],
    ),
    (
        "query",
        &[
            "model", "wiki", "state", "outbox", "stores", "engine", "hooks",
        ],
    ),
    (
        "mcp",
        &["model", "wiki", "state", "outbox", "stores", "query"],
    ),
    (
        "serve",
        &[
            "model", "wiki", "state", "outbox", "stores", "engine", "query", "hooks",
        ],
    ),
    // Settings are made of each part's own.
    (
        "config",
        &["model", "wiki", "embed", "engine", "outbox", "stores"],
    ),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Tests may reach for doubles and fixtures.
            if !path.ends_with("tests") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs")
            && !["tests.rs", "hostile.rs"]
                .iter()
                .any(|test| path.ends_with(test))
        {
            found.push(path);
        }
    }
}

/// What follows `crate::` in the file's code, comments left out.
fn imports(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split("crate::").skip(1))
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
        })
        .collect()
}

#[test]
fn imports_go_only_in_the_promised_directions() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let parts: BTreeSet<_> = MAY
        .iter()
        .map(|(part, _)| *part)
        .chain(["cli", "testing"])
        .collect();
    let mut looked = 0;
    for (part, may) in MAY {
        let mut files = Vec::new();
        sources(&src.join(part), &mut files);
        for file in files {
            looked += 1;
            let text = fs::read_to_string(&file).unwrap();
            for import in imports(&text) {
                assert!(
                    import == *part || may.contains(&import) || !parts.contains(import),
                    "{} imports {import}, which {part} may not",
                    file.display()
                );
            }
        }
    }
    assert!(looked > 50, "the sources are found");
}

#[test]
fn only_the_command_line_prints() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (part, _) in MAY {
        let mut files = Vec::new();
        sources(&src.join(part), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in ["println!", "eprintln!"] {
                assert!(!code.contains(word), "{} holds {word}", file.display());
            }
        }
    }
}
