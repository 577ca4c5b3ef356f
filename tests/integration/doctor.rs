//! `doctor`: the surroundings as they are, with real parts in them that are wrong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wiki_sync::testing::{EmbeddingServer, Fault, MODEL, RedisServer};

use crate::redis::{LIST, on_redis, until};
use crate::wiki::Wiki;

const LONG: Duration = Duration::from_mins(1);

/// What doctor says of a thing, one line for each finding: level and words.
pub(crate) fn said<'a>(doctor: &'a Value, name: &str) -> Vec<(&'a str, &'a str, &'a str)> {
    let found = doctor["findings"].as_array().expect("a list").iter();
    found
        .filter(|one| one["name"] == name)
        .map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            (text("level"), text("what"), text("hint"))
        })
        .collect()
}

/// Asserts that doctor says this of a thing, and what is to be done.
#[track_caller]
pub(crate) fn says(doctor: &Value, name: &str, level: &str, what: &str, hint: &str) {
    let said = said(doctor, name);
    assert!(
        said.iter()
            .any(|one| one.0 == level && one.1.contains(what) && one.2.contains(hint)),
        "{level} {what:?} {hint:?}: {doctor:#}"
    );
}

/// All files below a folder, with their bytes and modes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                folders.push(path.clone());
                all.insert(path, (meta.permissions().mode(), Vec::new()));
            } else {
                let bytes = fs::read(&path).unwrap();
                all.insert(path, (meta.permissions().mode(), bytes));
            }
        }
    }
    all
}

/// A child that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_wiki_that_is_well_has_no_fault_and_not_a_byte_is_changed() {
    let wiki = Wiki::small();
    // Before there is any state, too.
    let doctor = wiki.json(0, &["doctor"]);
    assert!(!wiki.root().join(".wiki-sync").exists());
    says(&doctor, "state", "ok", "the first drain makes it", "");
    says(&doctor, "vectors", "ok", "nothing is there yet", "");
    wiki.ws(&["hooks", "install"]).code(0);
    wiki.drain();
    // It leaves a log beside the database.
    wiki.write("wiki-output/new.md", "# New\n");
    wiki.ws(&["enqueue", "wiki-output/new.md"]).code(0);
    let before = contents(&wiki.root());
    let doctor = wiki.json(0, &["doctor"]);
    assert_eq!(
        (&doctor["ok"], &doctor["faults"]),
        (&true.into(), &0.into())
    );
    for (name, what) in [
        ("settings", "the defaults"),
        ("pages", "4 pages in 2 folders"),
        ("clock", "as the pages"),
        ("file system", "local"),
        ("state", "wiki.db: sound"),
        ("state", "outbox.db: sound"),
        ("git", "git version"),
        ("git.identity", "Tester <tester@example.invalid>"),
        ("git.state", "nothing is under way"),
        ("hooks", "git runs them"),
        ("vectors", "can be searched"),
        ("embedding", "none"),
        ("watch", "none runs"),
    ] {
        says(&doctor, name, "ok", what, "");
    }
    for one in doctor["findings"].as_array().unwrap() {
        assert!(one["level"] == "ok" || one["hint"].is_string(), "{one}");
    }
    let told = wiki.ws(&["doctor"]).code(0);
    assert!(told.out.contains("ok       git.identity"), "{}", told.out);
    assert!(!told.out.contains('\u{1b}'), "no colours but on a terminal");
    let after = contents(&wiki.root());
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    for (path, file) in &before {
        assert!(after[path] == *file, "{} was changed", path.display());
    }
}

#[test]
fn settings_that_cannot_be_read_are_a_finding_and_all_else_is_looked_at() {
    let wiki = Wiki::small();
    wiki.write("wiki-sync.toml", "[wiki]\npages = \n");
    wiki.ws(&["status"]).code(4);
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "settings",
        "fault",
        "wiki-sync.toml:2: not TOML",
        "correct wiki-sync.toml",
    );
    says(&doctor, "pages", "ok", "3 pages", "");
    says(&doctor, "git", "ok", "git version", "");
    wiki.write("wiki-sync.toml", "[wiki]\npage = \"x\"\n");
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "settings",
        "warning",
        "wiki-sync.toml:2: wiki.page is no setting",
        "`wiki-sync config`",
    );
    // What is no wiki at all is an error as elsewhere, and so is a flag that is none.
    Wiki::bare_folder().ws(&["doctor", "--json"]).code(1);
    wiki.ws(&["doctor", "--set", "x.y=1"]).code(2);
}

#[test]
fn hooks_that_git_passes_over_and_another_program_in_the_path_are_named() {
    let mut wiki = Wiki::small();
    wiki.ws(&["hooks", "install"]).code(0);
    let hook = wiki.root().join(".git/hooks/post-commit");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o644)).unwrap();
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "hooks",
        "fault",
        "post-commit: the hook is not executable",
        "`wiki-sync hooks install`",
    );
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    wiki.write("bin/wiki-sync", "#!/bin/sh\n");
    let path = std::env::var("PATH").unwrap();
    let bin = wiki.root().join("bin");
    wiki.env
        .insert("PATH".into(), format!("{}:{path}", bin.display()));
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "program",
        "warning",
        "the hooks call",
        "bin/wiki-sync hooks install",
    );
}

#[test]
fn hooks_that_another_manager_runs_are_named_with_their_scope() {
    let wiki = Wiki::small();
    wiki.git(&["config", "--global", "core.hooksPath", "~/hooks"]);
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "hooks",
        "warning",
        "scope global",
        "wiki-sync hooks status",
    );
}

#[test]
fn who_commits_and_whose_lock_it_is_are_asked_of_git() {
    let wiki = Wiki::small();
    wiki.git(&["config", "--global", "--unset", "user.email"]);
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "git.identity",
        "fault",
        "does not know who commits",
        "git config user.email",
    );
    wiki.git(&["config", "--global", "user.email", "t@example.invalid"]);
    let lock = wiki.root().join(".git/index.lock");
    File::create_new(&lock).unwrap();
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "git.state", "fault", "it was left behind", "rm '");
    fs::remove_file(&lock).unwrap();
    // One that a git command holds, with its editor open.
    wiki.write("README", "other\n");
    let go = wiki.root().join("go");
    // It ends with the test's folder too.
    let editor = format!(
        "while [ -d '{}' ] && [ ! -e '{}' ]; do sleep 0.05; done; false",
        wiki.root().display(),
        go.display()
    );
    let mut commit = wiki
        .git_command(&["commit", "-a"])
        .env("GIT_EDITOR", format!("sh -c \"{editor}\""))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(LONG, "the lock", || lock.exists());
    let doctor = wiki.json(0, &["doctor"]);
    let whose = format!("process {} (`git commit -a`)", commit.id());
    says(
        &doctor,
        "git.state",
        "warning",
        &whose,
        "wait for it to end",
    );
    File::create_new(&go).unwrap();
    commit.wait().unwrap();
    wiki.git(&["checkout", "-q", "--detach"]);
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "git.state",
        "fault",
        "HEAD is detached",
        "git switch -c",
    );
}

#[test]
fn a_redis_that_loses_jobs_and_whoever_else_takes_them_are_named() {
    let server = RedisServer::with(&[
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory",
        "200mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ]);
    let wiki = on_redis(&server, Wiki::small());
    let other = Killed(
        server
            .client()
            .args(["BLPOP", LIST, "0"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    until(LONG, "the other consumer", || {
        server.cli(&["CLIENT", "LIST"]).contains("cmd=blpop")
    });
    let before = server.cli(&["KEYS", "*"]);
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "redis", "ok", "redis ", "");
    says(
        &doctor,
        "redis.memory",
        "fault",
        "allkeys-lru",
        "CONFIG SET maxmemory-policy noeviction",
    );
    says(
        &doctor,
        "redis.persistence",
        "warning",
        "keeps nothing over a restart",
        "appendonly yes",
    );
    says(&doctor, "redis.keys", "ok", LIST, "");
    says(&doctor, "redis.clock", "ok", "the same time", "");
    says(
        &doctor,
        "redis.consumers",
        "warning",
        "takes from a list by BLPOP",
        "CLIENT KILL ID",
    );
    assert_eq!(server.cli(&["KEYS", "*"]), before, "no key is made");
    drop(other);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    until(LONG, "the other consumer's end", || {
        !server.cli(&["CLIENT", "LIST"]).contains("cmd=blpop")
    });
    let doctor = wiki.json(0, &["doctor"]);
    for name in ["redis.memory", "redis.persistence", "redis.consumers"] {
        assert_eq!(said(&doctor, name)[0].0, "ok", "{doctor:#}");
    }
    // Nothing waits, and yet it takes nothing.
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "redis.memory",
        "warning",
        "nearly full",
        "raise it",
    );
    server.cli(&["CONFIG", "SET", "maxmemory", "200mb"]);
    server.cli(&["SET", LIST, "a text"]);
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "redis.keys", "fault", "is a string", "RENAME");
}

#[test]
fn what_redis_does_not_let_us_see_is_a_note() {
    let server = RedisServer::start();
    server.cli(&[
        "ACL", "SETUSER", "small", "on", ">pw", "~*", "+@all", "-info", "-client", "-config",
    ]);
    let mut wiki = Wiki::small();
    let url = format!("redis://small:pw@127.0.0.1:{}/0", server.port());
    wiki.env.insert("WIKI_SYNC_OUTBOX_URL".into(), url);
    let doctor = wiki.json(0, &["doctor"]);
    says(&doctor, "redis", "note", "INFO", "ACL SETUSER");
    says(
        &doctor,
        "redis.consumers",
        "note",
        "CLIENT LIST",
        "ACL SETUSER",
    );
    let told = doctor.to_string();
    assert!(!told.contains("pw@") && !told.contains(":pw"), "{told}");
    wiki.env.insert(
        "WIKI_SYNC_OUTBOX_URL".into(),
        format!("redis://small:wrong@127.0.0.1:{}/0", server.port()),
    );
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "redis", "fault", "WRONGPASS", "user and password");
}

#[test]
fn servers_that_never_answer_hide_nothing_but_themselves() {
    // Whoever connects is taken by the system, and never heard.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = hole.local_addr().unwrap();
    let mut wiki = Wiki::small();
    for (name, value) in [
        ("OUTBOX_URL", format!("redis://{at}/0")),
        ("VECTORS_URL", format!("http://{at}")),
        ("EMBEDDING_PROVIDER", "openai".into()),
        ("EMBEDDING_URL", format!("http://{at}/v1")),
        ("EMBEDDING_MODEL", "m".into()),
        ("ALERT_TELEGRAM_BASE_URL", format!("http://{at}")),
        ("ALERT_TELEGRAM_CHAT_ID", "-1".into()),
        ("ALERT_TELEGRAM_TOKEN", "12:SECRET".into()),
    ] {
        wiki.env.insert(format!("WIKI_SYNC_{name}"), value);
    }
    let began = Instant::now();
    let doctor = wiki.json(3, &["doctor"]);
    // 12 s by design; a minute also where the machine has much else to do.
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    for name in ["redis", "vectors", "embedding", "alerts"] {
        says(&doctor, name, "fault", "", " ");
    }
    says(&doctor, "git", "ok", "git version", "");
    says(&doctor, "pages", "ok", "3 pages", "");
    assert!(!doctor.to_string().contains("SECRET"), "{doctor}");
}

#[test]
fn the_provider_is_asked_for_one_text_and_its_answer_looked_at() {
    let server = EmbeddingServer::start();
    let mut wiki = Wiki::small();
    for (name, value) in [
        ("PROVIDER", "openai"),
        ("URL", server.url().as_str()),
        ("MODEL", MODEL),
    ] {
        wiki.env
            .insert(format!("WIKI_SYNC_EMBEDDING_{name}"), value.into());
    }
    let doctor = wiki.json(0, &["doctor"]);
    says(&doctor, "embedding", "ok", "answers in", "");
    assert_eq!(server.asked().len(), 1);
    server.always(Some(Fault::Nan));
    let doctor = wiki.json(3, &["doctor"]);
    assert_eq!(said(&doctor, "embedding")[0].0, "fault", "{doctor:#}");
    server.always(None);
    wiki.drain();
    // The same name, and another model behind it.
    server.always(Some(Fault::Length(7)));
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "embedding",
        "fault",
        "7 numbers",
        "embedding.model",
    );
    // Another model, of a server that is away.
    wiki.env.insert(
        "WIKI_SYNC_EMBEDDING_URL".into(),
        "http://127.0.0.1:1/v1".into(),
    );
    wiki.env
        .insert("WIKI_SYNC_EMBEDDING_MODEL".into(), "another".into());
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "vectors.model",
        "fault",
        "cannot be compared",
        "rebuild vectors",
    );
}

#[test]
fn a_token_without_a_chat_is_told_and_never_shown() {
    let mut wiki = Wiki::small();
    let token = "WIKI_SYNC_ALERT_TELEGRAM_TOKEN";
    wiki.env.insert(token.into(), "12:SECRET".into());
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "alerts",
        "fault",
        "chat_id is not set",
        "alert.telegram.chat_id",
    );
    assert!(!doctor.to_string().contains("SECRET"), "{doctor}");
    wiki.env.remove(token);
    let command = "[\"no-such-program\"]";
    wiki.env
        .insert("WIKI_SYNC_ALERT_COMMAND".into(), command.into());
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "alerts", "fault", "no-such-program", "chmod +x");
}

#[test]
fn clocks_that_disagree_are_named() {
    let wiki = Wiki::small();
    wiki.drain();
    let page = File::options()
        .append(true)
        .open(wiki.root().join("wiki-output/b.md"))
        .unwrap();
    let hour = std::time::SystemTime::now() + Duration::from_hours(1);
    page.set_modified(hour).unwrap();
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "clock",
        "warning",
        "wiki-output/b.md",
        "touch 'wiki-output/b.md'",
    );
}

#[test]
fn a_log_that_a_reader_keeps_from_being_cut_is_named() {
    let wiki = Wiki::small();
    wiki.drain();
    let state = wiki.root().join(".wiki-sync");
    // While it is open, the log stays.
    let reader = rusqlite::Connection::open(state.join("wiki.db")).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
        .unwrap();
    let log = File::options().write(true).open(state.join("wiki.db-wal"));
    log.unwrap().set_len(129 << 20).unwrap();
    let doctor = wiki.json(0, &["doctor"]);
    says(
        &doctor,
        "state",
        "warning",
        "the log of wiki.db is 129 MiB",
        "fuser -v",
    );
}

#[test]
fn damaged_state_is_named_with_what_to_move_away() {
    let wiki = Wiki::small();
    wiki.drain();
    let state = wiki.root().join(".wiki-sync");
    // A shard that somebody has open is left alone.
    let lock = File::options()
        .read(true)
        .write(true)
        .open(state.join("vectors.lock"))
        .unwrap();
    lock.lock().unwrap();
    let doctor = wiki.json(0, &["doctor"]);
    says(&doctor, "vectors", "ok", "has them open", "");
    drop(lock);
    let path = state.join("wiki.db");
    let mut bytes = fs::read(&path).unwrap();
    for byte in &mut bytes[8192..] {
        *byte = 0x55;
    }
    fs::write(&path, bytes).unwrap();
    let mut segments: Vec<_> = fs::read_dir(state.join("vectors/segments"))
        .unwrap()
        .collect();
    let segment = segments.pop().unwrap().unwrap().path();
    for (file, (_, bytes)) in contents(&segment) {
        if file.is_file() && !bytes.is_empty() {
            let mut file = File::create(file).unwrap();
            file.write_all(b"damaged").unwrap();
        }
    }
    let before = contents(&state);
    let doctor = wiki.json(3, &["doctor"]);
    says(&doctor, "state", "fault", "is damaged", "away");
    says(
        &doctor,
        "vectors",
        "fault",
        &format!(
            "cannot open the vectors in {}",
            state.join("vectors").display()
        ),
        "`wiki-sync rebuild vectors`",
    );
    assert!(
        !doctor.to_string().contains("wiki-sync-doctor-"),
        "no path of our own: {doctor:#}"
    );
    assert!(before == contents(&state), "nothing is changed");
}
