//! A disk that is full or cannot be written, and a clock that goes back: told, and nothing is lost.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wiki_sync::testing::RedisServer;

use crate::wiki::Wiki;

/// A small file system of its own in a folder; goes when it is dropped.
struct Small(PathBuf);

impl Small {
    /// Mounts it; `None` where that is not allowed, which is said.
    fn mount(folder: &Path, size: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder)
            .output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self(folder.to_owned())),
            other => {
                eprintln!("NOT SHOWN: nothing can be mounted here: {other:?}");
                None
            }
        }
    }

    fn free(&self) -> u64 {
        let told = rustix::fs::statvfs(&self.0).unwrap();
        told.f_bavail * told.f_frsize
    }

    /// Leaves only so many bytes free.
    fn fill(&self, left: u64) {
        let ballast = self.0.join(".git/ballast");
        let size = self.free().saturating_sub(left);
        let written = Command::new("head")
            .args(["-c", &size.to_string(), "/dev/zero"])
            .stdout(fs::File::create(ballast).unwrap())
            .status();
        assert!(written.unwrap().success());
    }

    fn empty(&self) {
        fs::remove_file(self.0.join(".git/ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: whatever still has a file open there must not keep the test's folder.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Makes a repository with some pages where the wiki's root is.
fn make(wiki: &Wiki) {
    wiki.git(&["init", "-q", "-b", "main"]);
    wiki.git(&["config", "user.name", "Tester"]);
    wiki.git(&["config", "user.email", "tester@example.invalid"]);
    wiki.git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    for n in 0..20 {
        wiki.write(
            &format!("wiki-output/p{n}.md"),
            format!("# Page {n}\n\nfirst [[p{}]]\n", n / 2),
        );
    }
}

/// Checks that it ended by itself, with words that a person can act on wherever it could not do its work.
#[track_caller]
fn assert_told(what: &str, ended: &Output) -> i32 {
    let (out, err) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    let code = ended
        .status
        .code()
        .unwrap_or_else(|| panic!("{what}: signal {:?}: {err}", ended.status.signal()));
    assert!(
        matches!(code, 0 | 1 | 3 | 4 | 75),
        "{what}: {code} {out}{err}"
    );
    assert!(
        !err.contains("panicked") && !out.contains("panicked"),
        "{what}: {err}"
    );
    code
}

#[test]
fn a_full_disk_under_a_pack_is_told_and_once_there_is_room_one_drain_heals() {
    let wiki = Wiki::bare_folder();
    make(&wiki);
    let packs = wiki.root().join(".git/objects/pack");
    let Some(disk) = Small::mount(&packs, "16k") else {
        return;
    };
    for n in 0..200 {
        wiki.write(
            &format!("wiki-output/many/{n}.md"),
            format!("# Page {n}\n\n{}\n", uuid::Uuid::new_v4()),
        );
    }
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let ended = wiki.binary().args(["drain", "--no-wait"]).output().unwrap();
    assert_ne!(assert_told("no room for a pack", &ended), 0);
    let all = [&*ended.stdout, &ended.stderr].concat();
    let all = String::from_utf8_lossy(&all);
    assert!(
        all.contains("space") && all.contains("objects/pack"),
        "{all}"
    );
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(fs::read_dir(&packs).unwrap().count(), 0, "nothing is left");
    wiki.git(&["fsck", "--strict"]);
    drop(disk);
    wiki.drain();
    wiki.assert_in_sync();
    assert_eq!(fs::read_dir(&packs).unwrap().count(), 2);
}

#[test]
fn a_full_disk_is_told_and_once_there_is_room_one_drain_heals() {
    let wiki = Wiki::bare_folder();
    let Some(disk) = Small::mount(&wiki.root(), "160m") else {
        return;
    };
    make(&wiki);
    wiki.drain();
    wiki.assert_in_sync();
    let mut told = 0;
    for (round, left) in [0, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 60 << 20]
        .into_iter()
        .enumerate()
    {
        for n in 0..20 {
            wiki.write(
                &format!("wiki-output/p{n}.md"),
                format!(
                    "# Page {n}\n\nround {round} {} [[p{}]]\n",
                    "word ".repeat(200),
                    n / 3
                ),
            );
        }
        wiki.remove(&format!("wiki-output/p{round}.md"));
        disk.fill(left);
        for args in [
            &["drain", "--no-wait"][..],
            &["enqueue", "wiki-output/p19.md"],
            &["status"],
            &["verify", "--fast"],
            &["drain", "--no-wait"],
        ] {
            let ended = wiki.binary().args(args).output().unwrap();
            let what = format!("{left} bytes free, {args:?}");
            let code = assert_told(&what, &ended);
            if args[0] == "drain" && code != 0 {
                let all = [&*ended.stdout, &ended.stderr].concat();
                let all = String::from_utf8_lossy(&all).to_lowercase();
                assert!(
                    all.contains("space") || all.contains("full"),
                    "{what}: {code} {all}"
                );
                told += 1;
            }
        }
        disk.empty();
        wiki.drain();
        wiki.assert_in_sync();
    }
    assert!(told >= 4, "{told} drains had no room");
    let letters = wiki.json(0, &["dlq", "list"]);
    assert_eq!(letters, serde_json::json!([]), "no page was to blame");
}

/// Runs the binary where a folder cannot be written; `None` where nothing can be mounted.
fn read_only(wiki: &Wiki, folder: &Path, args: &[&str]) -> Option<Output> {
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99\n\
                  cd \"$1\" && shift && exec \"$@\"";
    let ended = wiki
        .other(Path::new("unshare"))
        .args(["-m", "sh", "-c", script])
        .arg(folder)
        .arg(wiki.root())
        .arg(env!("CARGO_BIN_EXE_wiki-sync"))
        .args(args)
        .output();
    match ended {
        Ok(ended) if ended.status.code() != Some(99) => Some(ended),
        other => {
            eprintln!("NOT SHOWN: nothing can be mounted here: {other:?}");
            None
        }
    }
}

#[test]
fn a_read_only_file_system_is_told_and_nothing_is_lost() {
    for place in ["", ".wiki-sync", ".git"] {
        let wiki = Wiki::small();
        wiki.drain();
        wiki.write("wiki-output/a.md", "# Alpha two\n");
        wiki.write("wiki-output/new.md", "# New\n\n[[a]]\n");
        wiki.remove("wiki-output/b.md");
        let folder = wiki.root().join(place);
        for args in [
            &["drain", "--no-wait"][..],
            &["enqueue", "wiki-output/a.md"],
            &["status"],
            &["doctor"],
            &["verify"],
            &["search", "queue"],
            &["graph", "orphans"],
            &["mv", "wiki-output/a.md", "wiki-output/z.md"],
        ] {
            let Some(ended) = read_only(&wiki, &folder, args) else {
                return;
            };
            let what = format!("{place:?} read-only, {args:?}");
            let code = assert_told(&what, &ended);
            let all = [&*ended.stdout, &ended.stderr].concat();
            let all = String::from_utf8_lossy(&all).to_lowercase();
            if args[0] == "drain" {
                assert_ne!(code, 0, "{what}: {all}");
                assert!(
                    all.contains("read-only") || all.contains("readonly"),
                    "{what}: {code} {all}"
                );
            }
        }
        assert!(
            wiki.root().join("wiki-output/a.md").exists(),
            "{place:?}: nothing was moved"
        );
        wiki.drain();
        wiki.assert_in_sync();
        assert_eq!(
            wiki.json(0, &["dlq", "list"]),
            serde_json::json!([]),
            "{place:?}: no page was to blame"
        );
    }
}

#[test]
fn a_state_on_a_networks_file_system_is_refused_with_the_way_out_and_the_pages_stay_as_they_are() {
    let mut wiki = Wiki::small();
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let planned = "WIKI_SYNC_TEST_PLANNED_AT";
    wiki.env.insert(planned.into(), "state.network".into());
    for args in [
        &["drain"][..],
        &["enqueue", "wiki-output/a.md"],
        &["status"],
        &["verify"],
    ] {
        let ran = wiki.ws(args).code(4);
        for needed in ["lies on NFS", "hint: keep the checkout on a local disk"] {
            assert!(ran.err.contains(needed), "{args:?}: {}", ran.err);
        }
    }
    let doctor = wiki.ws(&["doctor"]);
    assert_told("doctor", &wiki.binary().arg("doctor").output().unwrap());
    assert!(!doctor.out.is_empty(), "{}", doctor.err);
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    wiki.env.remove(planned);
    wiki.drain();
    wiki.assert_in_sync();
}

/// Turns the program's clock: milliseconds in a file.
const CLOCK: &str = "WIKI_SYNC_TEST_CLOCK";
const HOUR_MS: i64 = 3_600_000;

/// At once: nobody reads half a number.
fn turn(clock: &Path, by: i64) {
    let new = clock.with_extension("new");
    fs::write(&new, by.to_string()).unwrap();
    fs::rename(new, clock).unwrap();
}

#[test]
fn a_clock_set_back_by_an_hour_delays_no_retry_and_no_probe() {
    let redis = RedisServer::durable();
    for outbox in ["sqlite:", &redis.url()] {
        let mut wiki = Wiki::small();
        let clock = wiki.root().join(".git/clock");
        for (name, value) in [
            ("WIKI_SYNC_OUTBOX_URL", outbox),
            (CLOCK, clock.to_str().unwrap()),
        ] {
            wiki.env.insert(name.into(), value.into());
        }
        turn(&clock, 0);
        let failing = ("WIKI_SYNC_TEST_FAIL_PAGES", "wiki-output/a.md");
        let ended = wiki
            .binary()
            .args(["drain", "--no-wait"])
            .env(failing.0, failing.1)
            .output();
        assert_eq!(ended.unwrap().status.code(), Some(75), "{outbox}");
        // Redis goes by its own clock.
        if outbox == "sqlite:" {
            assert_eq!(wiki.json(0, &["status"])["outbox"]["delayed"], 1);
            for minutes in [10, 59, 60, 24 * 60] {
                turn(&clock, -minutes * HOUR_MS / 60);
                assert_eq!(
                    wiki.json(0, &["status"])["outbox"]["delayed"],
                    0,
                    "{minutes} minutes"
                );
            }
        }
        assert_eq!(wiki.drain()["processed"], 1, "{outbox}");
        wiki.assert_in_sync();
    }
}

#[test]
fn a_clock_that_goes_back_and_back_keeps_no_outage_up() {
    let mut redis = RedisServer::durable();
    let mut wiki = Wiki::small();
    let clock = wiki.root().join(".git/clock");
    for (name, value) in [
        ("WIKI_SYNC_OUTBOX_URL", redis.url()),
        ("WIKI_SYNC_RETRY_PROBES", vec!["0.5"; 600].join(",")),
        (CLOCK, clock.display().to_string()),
    ] {
        wiki.env.insert(name.into(), value);
    }
    redis.down();
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut back = 0;
            while !over.load(Ordering::Relaxed) {
                back += HOUR_MS;
                turn(&clock, -back);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let drain = wiki
            .other(Path::new("timeout"))
            .args(["120", env!("CARGO_BIN_EXE_wiki-sync"), "drain", "--json"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It is in the midst of its outage.
        while fs::read_to_string(&clock).map_or(0, |back| back.len()) < "-108000000".len() {
            std::thread::sleep(Duration::from_millis(10));
        }
        redis.up();
        let ended = drain.wait_with_output().unwrap();
        over.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    wiki.env.remove(CLOCK);
    wiki.assert_in_sync();
}
