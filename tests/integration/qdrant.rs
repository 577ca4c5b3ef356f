//! The built binary on a Qdrant server: a process of its own that speaks the real protocol, and can be killed.

use std::fs;
use std::path::Path;
use std::thread;

use wiki_sync::testing::qdrant_server::{
    Act, Fault, QdrantServer, SharedServer, serve_until_killed,
};

use crate::doctor::{said, says};
use crate::wiki::{Wiki, certificate};

#[test]
#[ignore = "runs only as the server of the tests here"]
fn server_that_serves_until_killed() {
    serve_until_killed();
}

const SERVES: &str = "qdrant::server_that_serves_until_killed";

pub(crate) fn spawn() -> QdrantServer {
    QdrantServer::spawn(SERVES)
}

/// Uses this server, with probes that come soon.
fn on(server: &QdrantServer, mut wiki: Wiki) -> Wiki {
    for (name, value) in [
        ("WIKI_SYNC_VECTORS_URL", server.url().as_str()),
        ("WIKI_SYNC_VECTORS_TIMEOUT", "20 s"),
        ("WIKI_SYNC_RETRY_PROBES", "0.2, 0.2, 0.2"),
    ] {
        wiki.env.insert(name.into(), value.into());
    }
    wiki
}

/// A name for a collection, on the server that `WIKI_SYNC_TEST_QDRANT_URL` names, else on one of the test's own: for what must
/// be true of every server.
pub(crate) struct Anywhere {
    pub(crate) name: SharedServer,
    _own: Option<QdrantServer>,
}

pub(crate) fn anywhere() -> Anywhere {
    if let Some(name) = SharedServer::set() {
        return Anywhere { name, _own: None };
    }
    let own = spawn();
    Anywhere {
        name: SharedServer::at(own.url(), None),
        _own: Some(own),
    }
}

impl Anywhere {
    pub(crate) fn on(&self, mut wiki: Wiki) -> Wiki {
        let key = self.name.api_key.as_deref();
        for (name, value) in [
            ("URL", Some(self.name.url.as_str())),
            ("COLLECTION", Some(self.name.collection.as_str())),
            ("API_KEY", key),
        ] {
            let name = format!("WIKI_SYNC_VECTORS_{name}");
            wiki.env.extend(value.map(|value| (name, value.to_owned())));
        }
        wiki
    }
}

fn many(count: usize, word: &str) -> Wiki {
    let pages: Vec<_> = (0..count)
        .map(|n| {
            (
                format!("wiki-output/{n:03}.md"),
                sections(4, &format!("{word} page{n}")),
            )
        })
        .collect();
    let pages: Vec<_> = pages
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Wiki::with(&pages)
}

fn sections(count: usize, word: &str) -> String {
    (0..count).fold(String::new(), |text, n| {
        text + &format!("# Part {n}\n\n{word} number{n}\n\n")
    })
}

fn point_id(wiki: &Wiki, word: &str) -> String {
    let found = wiki.json(0, &["search", word]);
    found[0]["point_id"].as_str().expect("found").to_owned()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_wiki_is_drained_to_a_server_verified_and_searched() {
    let server = anywhere();
    let wiki = server.on(Wiki::small());
    assert_eq!(wiki.drain()["stores"]["vectors"]["applied"], 3);
    wiki.assert_in_sync();
    let found = wiki.json(0, &["search", "아웃박스"]);
    assert_eq!(found[0]["path"], "wiki-output/sub/c.md");
    assert!(!wiki.root().join(".wiki-sync/vectors").exists());
    wiki.remove("wiki-output/sub/c.md");
    wiki.write("wiki-output/b.md", "# Beta\n\nnow of turtles\n");
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(
        wiki.json(0, &["search", "아웃박스"])
            .as_array()
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        wiki.json(0, &["search", "turtles"])[0]["path"],
        "wiki-output/b.md"
    );
}

#[test]
fn doctor_says_how_server_and_collection_stand_and_makes_nothing() {
    let mut server = spawn();
    let wiki = on(&server, Wiki::small());
    for _ in 0..2 {
        let doctor = wiki.json(0, &["doctor"]);
        says(&doctor, "vectors", "ok", "Qdrant 1.18.3 answers", "");
        says(&doctor, "vectors.collection", "ok", "not there yet", "");
    }
    wiki.drain();
    let doctor = wiki.json(0, &["doctor"]);
    says(&doctor, "vectors.collection", "ok", " points", "");
    assert!(said(&doctor, "vectors.model").is_empty(), "{doctor}");
    server.want_key("k");
    let doctor = wiki.json(3, &["doctor"]).to_string();
    assert!(doctor.contains("WIKI_SYNC_VECTORS_API_KEY"), "{doctor}");
    server.down();
    let doctor = wiki.json(3, &["doctor"]);
    says(
        &doctor,
        "vectors",
        "fault",
        "cannot reach",
        "start the Qdrant server",
    );
}

#[test]
fn a_server_that_is_away_from_the_start_stops_no_other_store() {
    let mut server = spawn();
    server.down();
    let wiki = on(&server, Wiki::small());
    let report = wiki.json(75, &["drain"]);
    assert_eq!(report["stores"]["graph"]["applied"], 3);
    assert_eq!(report["stores"]["git"]["applied"], 3);
    assert_eq!((&report["held"], &report["dlq"]), (&3.into(), &0.into()));
    server.up();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_server_that_dies_while_it_is_written_to_costs_no_attempt_and_is_healed() {
    for (method, act) in [
        ("upsert", Act::Die),
        ("upsert", Act::DieAfter),
        ("delete_points", Act::Die),
        ("delete_points", Act::DieAfter),
    ] {
        let mut server = spawn();
        let wiki = on(&server, many(30, "first"));
        wiki.drain();
        for n in 0..30 {
            let path = format!("wiki-output/{n:03}.md");
            wiki.write(&path, sections(3, &format!("second page{n}")));
        }
        server.fault(Fault::once(method, act));
        let report = wiki.json(75, &["drain", "--no-wait"]);
        assert_eq!(
            (&report["dlq"], &report["retried"]),
            (&0.into(), &0.into()),
            "{method} {act:?}"
        );
        server.wait_dead();
        let away = wiki.json(75, &["drain", "--no-wait"]);
        assert_eq!(
            (&away["held"], &away["dead"]),
            (&30.into(), &0.into()),
            "{method} {act:?}: {away}"
        );
        server.up();
        wiki.drain();
        wiki.assert_in_sync();
        let found = wiki.json(0, &["search", "first"]);
        assert!(found.as_array().unwrap().is_empty(), "{method} {act:?}");
    }
}

#[test]
fn a_delete_that_the_server_fails_is_owed_until_it_succeeds_and_leaves_no_orphan() {
    let server = spawn();
    let wiki = on(&server, many(3, "first"));
    wiki.drain();
    let internal = Act::Refuse(tonic::Code::Internal.into());
    server.fault(Fault::always("delete_points", internal));
    wiki.write("wiki-output/000.md", sections(2, "second"));
    wiki.remove("wiki-output/001.md");
    let report = wiki.json(75, &["drain", "--no-wait"]);
    assert_eq!((&report["held"], &report["dlq"]), (&2.into(), &0.into()));
    server.calm();
    wiki.drain();
    wiki.assert_in_sync();
    let found = wiki.json(0, &["search", "page1"]);
    assert!(
        found
            .as_array()
            .unwrap()
            .iter()
            .all(|hit| hit["path"] != "wiki-output/001.md")
    );
}

#[test]
fn a_server_that_is_back_soon_is_waited_for() {
    let mut server = spawn();
    let mut wiki = on(&server, many(10, "word"));
    wiki.drain();
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), "0.5, 1, 5, 20".into());
    wiki.write("wiki-output/000.md", "changed\n");
    server.fault(Fault::once("upsert", Act::Die));
    let report = thread::scope(|scope| {
        let draining = scope.spawn(|| wiki.drain());
        server.wait_dead();
        server.up();
        draining.join().unwrap()
    });
    assert_eq!((&report["dlq"], &report["held"]), (&0.into(), &0.into()));
    wiki.assert_in_sync();
}

#[test]
fn a_server_that_hangs_ends_no_later_than_its_time() {
    let server = spawn();
    let mut wiki = on(&server, Wiki::small());
    wiki.drain();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_TIMEOUT".into(), "1 s".into());
    wiki.write("wiki-output/b.md", "changed\n");
    server.fault(Fault::always("", Act::Hang));
    // It ends at all: a test that hangs is ended from outside.
    let report = wiki.json(75, &["drain"]);
    assert_eq!((&report["held"], &report["dlq"]), (&1.into(), &0.into()));
    let search = wiki.ws(&["search", "x"]).code(75);
    assert!(search.err.contains("no answer in 1 s"), "{}", search.err);
    server.calm();
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_server_that_answers_and_does_no_work_keeps_no_drain_for_good() {
    let server = spawn();
    let mut wiki = on(&server, Wiki::small());
    wiki.drain();
    // A round takes longer than the wait for the next probe.
    wiki.env
        .insert("WIKI_SYNC_RETRY_PROBES".into(), "0.001, 0.001".into());
    wiki.env
        .insert("WIKI_SYNC_VECTORS_TIMEOUT".into(), "1 s".into());
    wiki.write("wiki-output/b.md", "changed\n");
    for act in [Act::Refuse(13), Act::Hang] {
        server.fault(Fault::always("upsert", act));
        // It ends at all: a test that hangs is ended from outside.
        for args in [
            &["drain", "--no-wait"][..],
            &["drain"],
            &["drain", "--timeout", "0.5"],
        ] {
            let report = wiki.json(75, args);
            assert_eq!((&report["held"], &report["dlq"]), (&1.into(), &0.into()));
        }
        server.calm();
    }
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn killed_between_upsert_delete_and_receipt_leaves_no_orphan() {
    let server = anywhere();
    let wiki = server.on(many(12, "first"));
    wiki.drain();
    for (round, point) in [
        "vectors.before_upsert",
        "vectors.after_upsert",
        "vectors.after_delete",
        "vectors.flushed",
        "vectors.epoch",
    ]
    .into_iter()
    .enumerate()
    {
        for n in 0..6 {
            let path = format!("wiki-output/{n:03}.md");
            wiki.write(
                &path,
                sections(1 + (round + n) % 4, &format!("round{round}")),
            );
        }
        assert!(wiki.killed_at(point, &["drain"]), "{point} is passed");
        // What was applied is taken back: the old receipts must not vouch for it.
        wiki.write("wiki-output/000.md", sections(4, "first page0"));
        wiki.drain();
        wiki.assert_in_sync();
    }
}

#[test]
fn a_collection_that_was_dropped_is_noticed_by_a_drain_with_nothing_to_do_and_filled_again() {
    let server = anywhere();
    let wiki = server.on(Wiki::small());
    wiki.drain();
    assert_eq!(server.name.remove(), 1);
    assert_eq!(wiki.drain()["stores"]["vectors"]["applied"], 3);
    wiki.assert_in_sync();
}

#[test]
fn a_collection_restored_from_an_older_snapshot_is_noticed_and_healed() {
    let mut server = spawn();
    let wiki = on(&server, many(6, "first"));
    wiki.drain();
    let kept = tempfile::tempdir().unwrap();
    server.down();
    copy(&server.collections(), kept.path());
    server.up();
    wiki.remove("wiki-output/001.md");
    wiki.write("wiki-output/000.md", sections(2, "second"));
    wiki.drain();
    server.down();
    fs::remove_dir_all(server.collections()).unwrap();
    copy(kept.path(), &server.collections());
    server.up();
    assert_eq!(
        wiki.json(0, &["search", "page1"])[0]["path"],
        "wiki-output/001.md"
    );
    wiki.drain();
    wiki.assert_in_sync();
    assert!(
        wiki.json(0, &["search", "page1"])
            .as_array()
            .unwrap()
            .iter()
            .all(|hit| hit["path"] != "wiki-output/001.md")
    );
}

#[test]
fn two_wikis_share_a_collection_and_leave_each_others_points_alone() {
    let server = anywhere();
    let one = server.on(many(5, "one"));
    let two = server.on(many(5, "two"));
    one.drain();
    two.drain();
    for n in 0..5 {
        one.remove(&format!("wiki-output/{n:03}.md"));
    }
    one.json(0, &["drain", "--allow-mass-delete"]);
    one.assert_in_sync();
    two.assert_in_sync();
    assert!(
        two.json(0, &["search", "one"])
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(two.json(0, &["search", "two"]).as_array().unwrap().len(), 5);
}

#[test]
fn a_lost_state_finds_its_points_again_and_a_copy_of_a_checkout_takes_none() {
    let server = anywhere();
    let wiki = server.on(many(3, "word"));
    wiki.drain();
    let id = point_id(&wiki, "page0");
    fs::remove_dir_all(wiki.root().join(".wiki-sync")).unwrap();
    wiki.remove("wiki-output/001.md");
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(point_id(&wiki, "page0"), id, "the same wiki");
    assert_eq!(
        wiki.json(0, &["search", "page1"]).as_array().unwrap().len(),
        0
    );

    let copied = server.on(Wiki::bare_folder());
    copy(
        &wiki.root().parent().unwrap().join("home"),
        &copied.root().parent().unwrap().join("home"),
    );
    copy(&wiki.root(), &copied.root());
    copied.remove("wiki-output/002.md");
    copied.drain();
    copied.assert_in_sync();
    assert_ne!(point_id(&copied, "page0"), id, "another wiki");
    wiki.assert_in_sync();
    assert_eq!(
        wiki.json(0, &["search", "page2"])[0]["path"],
        "wiki-output/002.md"
    );
}

#[test]
fn a_key_is_read_from_the_environment_or_a_file_and_never_shown() {
    let server = spawn();
    server.want_key("a-secret-key");
    let mut wiki = on(&server, Wiki::small());
    let refused = wiki.ws(&["drain", "--no-wait"]).code(4);
    assert!(
        refused.out.contains("WIKI_SYNC_VECTORS_API_KEY"),
        "{}{}",
        refused.out,
        refused.err
    );
    fs::write(wiki.root().join(".git/key"), "a-secret-key\n").unwrap();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_API_KEY_FILE".into(), ".git/key".into());
    wiki.drain();
    wiki.env
        .insert("WIKI_SYNC_VECTORS_API_KEY".into(), "another-key".into());
    let wrong = wiki.ws(&["search", "x"]).code(4);
    let config = wiki.ws(&["config", "--json"]).code(0);
    for text in [
        &refused.out,
        &refused.err,
        &wrong.out,
        &wrong.err,
        &config.out,
        &config.err,
    ] {
        assert!(
            !text.contains("another-key") && !text.contains("a-secret-key"),
            "{text}"
        );
    }
}

/// Every byte that is kept of a wiki's state.
fn kept(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() {
            kept(&path)
        } else {
            fs::read(&path).unwrap()
        });
    }
    bytes
}

#[test]
fn a_server_behind_tls_is_asked_only_when_its_certificate_is_trusted_and_its_key_is_kept_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key] = certificate(folder.path());
    let server = QdrantServer::spawn_tls(SERVES, [Path::new(&cert), Path::new(&key)]);
    server.want_key("a-secret-key");
    let mut wiki = on(&server, Wiki::small());
    wiki.env
        .insert("WIKI_SYNC_VECTORS_API_KEY".into(), "a-secret-key".into());
    let strange = wiki.ws(&["drain", "--no-wait"]).code(75);
    assert!(strange.out.contains("certificate"), "{}", strange.out);
    assert!(server.seen().is_empty(), "nothing was said to a stranger");
    wiki.env.insert("SSL_CERT_FILE".into(), cert);
    let drained = wiki.ws(&["drain", "--json"]).code(0);
    wiki.assert_in_sync();
    let found = wiki.ws(&["search", "아웃박스", "--json"]).code(0);
    assert_eq!(found.json()[0]["path"], "wiki-output/sub/c.md");
    // By the same port without TLS, and by a name that the certificate does not have.
    for url in [
        server.url().replace("https", "http"),
        server.url().replace("localhost", "127.0.0.2"),
    ] {
        wiki.env.insert("WIKI_SYNC_VECTORS_URL".into(), url);
        let failed = wiki.ws(&["search", "x"]).code(75);
        assert!(!failed.err.contains("a-secret-key"), "{}", failed.err);
    }
    let state = kept(&wiki.root().join(".wiki-sync"));
    let told = [
        &strange.out,
        &strange.err,
        &drained.out,
        &drained.err,
        &found.err,
    ];
    let secret = b"a-secret-key";
    for bytes in told.map(String::as_bytes).into_iter().chain([&state[..]]) {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    }
}
