//! Databases that are damaged, another's or newer: refused with the way out, never with SQL, and left as they are.

use std::fs;
use std::path::PathBuf;

use crate::wiki::{Ran, Wiki};

const BOTH: [&str; 2] = ["wiki.db", "outbox.db"];

/// A wiki in sync, and where this database of it lies.
fn synced(name: &str) -> (Wiki, PathBuf) {
    let wiki = Wiki::small();
    wiki.drain();
    let path = wiki.root().join(".wiki-sync").join(name);
    assert!(path.is_file(), "{name}");
    (wiki, path)
}

fn sql(path: &std::path::Path, sql: &str) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(sql).unwrap();
}

/// Checks that it is an error that a person can act on.
fn assert_refused(ran: Ran, name: &str, says: &str) {
    let ran = ran.code(4);
    assert!(ran.out.is_empty(), "{}", ran.out);
    for needed in ["error: ", "hint: ", ".wiki-sync", says] {
        assert!(ran.err.contains(needed), "{name}: {needed:?}: {}", ran.err);
    }
    for sql in ["SELECT", "INSERT", "CREATE", "UPDATE", " at offset "] {
        assert!(!ran.err.contains(sql), "{name}: {}", ran.err);
    }
}

/// The way out that the hint names: the file and its log are moved away, and a drain heals.
fn move_away(wiki: &Wiki, name: &str) {
    for rest in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(wiki.root().join(format!(".wiki-sync/{name}{rest}")));
    }
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    for name in BOTH {
        let (wiki, path) = synced(name);
        let text = "this is no database\n".repeat(400);
        fs::write(&path, &text).unwrap();
        for command in [&["drain"][..], &["status"], &["verify"], &["dlq", "list"]] {
            if name == "outbox.db" || command[0] != "dlq" {
                assert_refused(wiki.ws(command), name, "is no database");
            }
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        move_away(&wiki, name);
    }
}

#[test]
fn an_enqueue_needs_its_own_database_only() {
    let (wiki, path) = synced("wiki.db");
    fs::write(&path, "this is no database\n".repeat(400)).unwrap();
    wiki.ws(&["enqueue", "wiki-output/a.md"]).code(0);
    wiki.ws(&["dlq", "list"]).code(0);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    for name in BOTH {
        for theirs in [
            // Never numbered, as most are.
            "CREATE TABLE jobs (mine TEXT); INSERT INTO jobs VALUES ('precious')",
            "CREATE TABLE jobs (mine TEXT); PRAGMA user_version = 1",
            "CREATE TABLE jobs (mine TEXT); PRAGMA user_version = 7; PRAGMA application_id = 7",
        ] {
            let (wiki, path) = synced(name);
            for rest in ["-wal", "-shm"] {
                let _ = fs::remove_file(wiki.root().join(format!(".wiki-sync/{name}{rest}")));
            }
            fs::remove_file(&path).unwrap();
            sql(&path, theirs);
            let before = fs::read(&path).unwrap();
            assert_refused(wiki.ws(&["drain"]), name, "was not made by wiki-sync");
            assert_eq!(fs::read(&path).unwrap(), before, "{name} {theirs}");
            move_away(&wiki, name);
        }
    }
}

#[test]
fn each_database_in_the_others_place_is_refused() {
    let (wiki, path) = synced("wiki.db");
    let (wiki_db, outbox_db) = (path.clone(), path.with_file_name("outbox.db"));
    let aside = path.with_file_name("aside");
    for file in BOTH {
        sql(
            &path.with_file_name(file),
            "PRAGMA wal_checkpoint(TRUNCATE)",
        );
    }
    fs::rename(&wiki_db, &aside).unwrap();
    fs::rename(&outbox_db, &wiki_db).unwrap();
    fs::rename(&aside, &outbox_db).unwrap();
    assert_refused(wiki.ws(&["drain"]), "both", "was not made by wiki-sync");
    assert_refused(
        wiki.ws(&["enqueue", "wiki-output/a.md"]),
        "outbox.db",
        "was not made by wiki-sync",
    );
}

#[test]
fn a_newer_database_is_refused_with_both_numbers() {
    for name in BOTH {
        let (wiki, path) = synced(name);
        sql(&path, "PRAGMA user_version = 99");
        assert_refused(wiki.ws(&["drain"]), name, "(schema 99; this one knows ");
        let hint = wiki.ws(&["drain"]).err;
        assert!(hint.contains("upgrade wiki-sync, or move"), "{hint}");
        move_away(&wiki, name);
    }
}

/// Databases as the first version made them, byte for byte the statements of then.
#[test]
fn databases_of_the_first_version_are_brought_forward_by_whoever_opens_them() {
    let schema = |parts: &[&str], id: u32| {
        format!(
            "{} PRAGMA application_id = {id}; PRAGMA user_version = 1; PRAGMA journal_mode = WAL;",
            parts.concat()
        )
    };
    let old_wiki = schema(
        &[
            include_str!("../../src/state/schema/001_state.sql"),
            include_str!("../../src/state/schema/001_graph.sql"),
            include_str!("../../src/state/schema/001_alerts.sql"),
            include_str!("../../src/state/schema/001_embeddings.sql"),
        ],
        0x7773_796e,
    );
    let old_outbox = schema(
        &[include_str!("../../src/state/schema/001_outbox.sql")],
        0x7773_796f,
    );
    for command in [
        &["drain"][..],
        &["status"],
        &["graph", "orphans"],
        &["dlq", "list"],
    ] {
        let wiki = Wiki::small();
        let state = wiki.root().join(".wiki-sync");
        fs::create_dir(&state).unwrap();
        fs::write(state.join(".gitignore"), "*\n").unwrap();
        sql(&state.join("wiki.db"), &old_wiki);
        sql(
            &state.join("outbox.db"),
            &format!(
                "{old_outbox} INSERT INTO jobs (path, state, sha, repo, commit_sha, attempts, enqueued_at, due_at)
                 VALUES ('wiki-output/a.md', 'ready', '', 'demo', 'c1', 0, 1, 1);"
            ),
        );
        wiki.ws(command).code(0);
        wiki.drain();
        wiki.assert_in_sync();
        let labelled = wiki.json(0, &["search", "outbox", "--repo", "demo"]);
        assert_eq!(labelled[0]["path"], "wiki-output/a.md", "{labelled}");
    }
}

#[test]
fn a_table_that_is_missing_or_another_is_told_without_sql() {
    for (name, damage) in [
        ("wiki.db", "DROP TABLE receipts"),
        ("wiki.db", "ALTER TABLE receipts RENAME COLUMN sha TO hash"),
        ("outbox.db", "DROP TABLE jobs"),
        ("outbox.db", "DROP INDEX jobs_by_due"),
        ("outbox.db", "DROP TABLE dead_letters"),
    ] {
        let (wiki, path) = synced(name);
        sql(&path, damage);
        wiki.write("wiki-output/a.md", "# Alpha two\n");
        assert_refused(wiki.ws(&["drain"]), damage, "no such ");
        move_away(&wiki, name);
    }
}

/// A transaction that reads first and then writes fails at once when a neighbour wrote in between; `BEGIN IMMEDIATE` waits.
#[test]
fn no_transaction_that_writes_begins_deferred() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![src.clone()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            looked += 1;
            assert!(!text.contains(".transaction()"), "{}", path.display());
            // Those only read: what a file says of itself; questions to the graph.
            let is_reader =
                path.ends_with("state/db.rs") || path.starts_with(src.join("query/graph"));
            assert!(
                is_reader || !text.contains("Behavior::Deferred"),
                "{}",
                path.display()
            );
        }
    }
    assert!(looked > 100, "{looked}");
}

#[test]
fn a_database_with_damaged_pages_is_told() {
    for name in BOTH {
        let (wiki, path) = synced(name);
        sql(&path, "PRAGMA wal_checkpoint(TRUNCATE)");
        let mut bytes = fs::read(&path).unwrap();
        // All but the header, which says what it is.
        bytes[100..].fill(0x55);
        fs::write(&path, bytes).unwrap();
        let ran = wiki.ws(&["drain"]).code(4);
        assert!(
            ran.err.contains(name) && ran.err.contains("hint: move"),
            "{}",
            ran.err
        );
        move_away(&wiki, name);
    }
}
