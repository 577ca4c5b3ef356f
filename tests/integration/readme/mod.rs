//! The README does what it says: each of its blocks is run by the built binary, in an empty home, and what it shows is compared.
//!
//! A comment in front of a block says what a reader cannot see, and the test must know:
//!
//! - `<!-- test: empty -->`: it begins in an empty folder; all others begin in a small wiki that was drained.
//! - `<!-- test: goes on -->`: it begins where the block before it ended.
//! - `<!-- test: before … -->`: these lines of shell are run before it.
//! - `<!-- test: while … -->`: its last command stays; these lines are run meanwhile, then it is ended.
//! - `<!-- test: exit N -->`: the exit code of its last command, where that is not 0.
//! - `<!-- test: skip REASON -->`: it is not run. [`SKIPPED`] counts those.

mod blocks;
mod run;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use self::blocks::Block;

const README: &str = include_str!("../../../README.md");

/// How many blocks cannot be run.
const SKIPPED: usize = 0;

#[test]
fn every_block_of_the_readme_does_what_it_shows() {
    let blocks = blocks::of(README);
    let mut ran: BTreeMap<&str, usize> = BTreeMap::new();
    let mut skipped = 0;
    let mut stage = None;
    for block in &blocks {
        if block.skip.is_some() {
            skipped += 1;
            continue;
        }
        *ran.entry(&block.language).or_default() += 1;
        match block.language.as_str() {
            "sh" | "console" => stage = Some(run::commands(block, stage.take())),
            "toml" => settings(block),
            "conf" => redis_conf(block),
            "ini" => unit(block),
            "xml" => property_list(block),
            "json" => clients(block),
            // Those are run by `the_queries_of_the_readme_answer_whoever_opens_the_database_to_read`; these are pictures.
            "sql" | "text" => {}
            other => panic!(
                "README.md:{}: nobody knows how to run ```{other}",
                block.line
            ),
        }
    }
    eprintln!("{ran:?}");
    assert_eq!(skipped, SKIPPED, "a block that is not run needs a reason");
    for language in ["sh", "console", "toml", "conf", "ini", "xml"] {
        assert!(ran.contains_key(language), "{language}: {ran:?}");
    }
}

/// A settings file is taken as it stands.
fn settings(block: &Block) {
    let wiki = crate::wiki::Wiki::small();
    wiki.write("wiki-sync.toml", &block.text);
    let ran = wiki.ws(&["config"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(0), ""),
        "README.md:{}",
        block.line
    );
    assert!(
        ran.out.contains("wiki-sync.toml"),
        "README.md:{}: nothing of it counts: {}",
        block.line,
        ran.out
    );
}

/// A Redis server starts with it, and doctor has no complaint about what it keeps.
fn redis_conf(block: &Block) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redis.conf");
    fs::write(&file, &block.text).unwrap();
    let server = wiki_sync::testing::RedisServer::with_file(&file);
    let mut wiki = crate::wiki::Wiki::small();
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), server.url());
    wiki.drain();
    let findings = wiki.ws(&["doctor", "--json"]).json();
    let complaints: Vec<_> = findings["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["name"].as_str().unwrap().starts_with("redis"))
        .filter(|finding| finding["level"] != "ok")
        .collect();
    assert!(
        complaints.is_empty(),
        "README.md:{}: {complaints:#?}",
        block.line
    );
}

/// Systemd finds nothing wrong with it.
fn unit(block: &Block) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wiki-sync.service");
    let text = block
        .text
        .replace("/home/me/my-repository", "/tmp")
        .replace(
            "/home/me/.cargo/bin/wiki-sync",
            env!("CARGO_BIN_EXE_wiki-sync"),
        );
    assert_ne!(text, block.text, "README.md:{}", block.line);
    fs::write(&file, text).unwrap();
    let Ok(judged) = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output()
    else {
        eprintln!("NOT SHOWN: that systemd takes the unit; there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&judged.stderr).into_owned();
    if said.contains("Failed to initialize manager") {
        eprintln!("NOT SHOWN: that systemd takes the unit: {said}");
        return;
    }
    // Other units of the machine are no business of ours.
    let of_ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("wiki-sync"))
        .collect();
    assert!(of_ours.is_empty(), "README.md:{}: {said}", block.line);
}

/// It is JSON, and each command in it is one of ours that starts, and ends when nobody talks to it.
fn clients(block: &Block) {
    fn commands(value: &Value, found: &mut Vec<Vec<String>>) {
        if let Some(command) = value["command"].as_str() {
            let args = value["args"].as_array().into_iter().flatten();
            let args = args.map(|arg| arg.as_str().unwrap().to_owned());
            found.push([command.to_owned()].into_iter().chain(args).collect());
        }
        for inner in value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values)
        {
            commands(inner, found);
        }
    }
    let wiki = crate::wiki::Wiki::small();
    wiki.drain();
    let root = wiki.root().display().to_string();
    let text = block
        .text
        .replace("/home/me/my-repository", &root)
        .replace("${workspaceFolder}", &root);
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("README.md:{}: {e}", block.line));
    let mut found = Vec::new();
    commands(&value, &mut found);
    for command in found {
        assert_eq!(command[0], "wiki-sync", "README.md:{}", block.line);
        let ended = wiki
            .other(Path::new("timeout"))
            .args(["60", env!("CARGO_BIN_EXE_wiki-sync")])
            .args(&command[1..])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(
            ended.status.code(),
            Some(0),
            "README.md:{}: {command:?}: {said}",
            block.line
        );
    }
}

/// It is a property list, and starts a watch.
fn property_list(block: &Block) {
    let script = "import plistlib, sys\n\
                  job = plistlib.load(sys.stdin.buffer)\n\
                  assert job['ProgramArguments'][1:] == ['watch'], job\n\
                  assert job['Label'] and job['WorkingDirectory'], job\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wiki-sync.plist");
    fs::write(&file, &block.text).unwrap();
    let read = Command::new("python3")
        .args(["-c", script])
        .stdin(fs::File::open(file).unwrap())
        .output();
    let Ok(read) = read else {
        eprintln!("NOT SHOWN: that the property list is one; there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "README.md:{}: {said}", block.line);
}

#[test]
fn every_test_that_the_readme_names_is_one() {
    let (_, chapter) = README
        .split_once("## How it keeps its promises")
        .expect("the chapter");
    let chapter = chapter.split_once("\n## ").unwrap().0;
    let rows: Vec<&str> = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter(|row| row.contains('`'))
        .collect();
    assert!(rows.len() > 15, "{rows:#?}");
    let mut sources = Vec::new();
    for folder in ["src", "tests"] {
        read_all(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
            &mut sources,
        );
    }
    for row in rows {
        let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").collect();
        let names: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(
                sources.iter().any(|source| has_test(source, name)),
                "no test is called {name}"
            );
        }
    }
}

/// Says whether a source has a test of that name, as a function or in a list of a macro that declares them.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_function = |at: usize| {
        lines[at]
            .strip_prefix("fn ")
            .is_some_and(|rest| rest.starts_with(&format!("{name}(")))
            && lines[at.saturating_sub(4)..at].contains(&"#[test]")
    };
    let is_listed = |at: usize| {
        let line = lines[at].strip_prefix(name);
        line.is_some_and(|rest| rest.starts_with(" { ") || rest == " {" || rest.starts_with(": "))
    };
    (0..lines.len()).any(|at| is_function(at) || is_listed(at))
}

fn read_all(folder: &Path, sources: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, sources);
        } else if path.extension().is_some_and(|end| end == "rs") {
            sources.push(fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_place_that_the_readme_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for line in README.lines().filter(|line| line.starts_with('|')) {
        for name in line.split('`').skip(1).step_by(2) {
            let is_place = ["src/", "tests/", "hooks/", "scripts/", "benches/"]
                .iter()
                .any(|folder| name.starts_with(folder));
            if is_place {
                seen += 1;
                assert!(root.join(name).exists(), "{name} is not there: {line}");
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn every_link_within_the_readme_leads_to_a_chapter() {
    let anchors: Vec<String> = README
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter_map(|c| match c {
                ' ' => Some('-'),
                _ if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            });
            kept.collect()
        })
        .collect();
    let links: Vec<&str> = README
        .split("](#")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(anchor, _)| anchor)
        .collect();
    assert!(links.len() > 5, "{links:?}");
    for link in links {
        assert!(anchors.iter().any(|anchor| anchor == link), "#{link}");
    }
}
