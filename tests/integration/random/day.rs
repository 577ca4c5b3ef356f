//! A day of work in fast motion: a watch runs, and all that may happen to it and around it does. What is kept stays bounded.

use std::fs;
use std::path::Path;
use std::time::Duration;

use wiki_sync::testing::{EmbeddingServer, MODEL};

use super::{Behind, Story, embedded};
use crate::redis::LIST;

const HOURS: usize = 24;
/// What the user, his producers and git do in an hour, and how often he saves one of a few pages.
const ACTS: usize = 16;
const SAVES: usize = 160;
/// A pause between two saves, so that there is an hour for the watch to be in.
const PAUSE: Duration = Duration::from_millis(10);
/// The most dead letters, and pages that are no text in one hour.
const LETTERS: u64 = 20;
const BAD: usize = 30;

/// What is kept, in bytes and counts.
#[derive(Debug, Clone, Copy)]
struct Kept {
    state: u64,
    files: usize,
    logs: u64,
    memory: u64,
}

impl Story {
    fn day(&mut self) {
        let mut provider = EmbeddingServer::start();
        for (name, value) in [
            ("WIKI_SYNC_EMBEDDING_PROVIDER", "openai".to_owned()),
            ("WIKI_SYNC_EMBEDDING_URL", provider.url()),
            ("WIKI_SYNC_EMBEDDING_MODEL", MODEL.to_owned()),
            ("WIKI_SYNC_EMBEDDING_CACHE", "256 KiB".to_owned()),
            ("WIKI_SYNC_DEAD_MAX", LETTERS.to_string()),
        ] {
            self.wiki.env.insert(name.into(), value);
        }
        let mut first: Option<Kept> = None;
        let mut fresh = 0;
        for hour in 0..HOURS {
            self.log.push(format!("hour {hour}"));
            self.watch();
            for _ in 0..ACTS {
                let said = self.act();
                self.log.push(said);
                for n in 0..SAVES / ACTS {
                    let page = self.dice.below(40);
                    let said = self.save(
                        &format!("wiki-output/day/n{page}.md"),
                        &format!("# Note {page}\n\nhour {hour} save {n} [[n{}]]\n", n * 3),
                    );
                    assert!(said.starts_with("save"), "{said}");
                    std::thread::sleep(PAUSE);
                }
                let said = self.happens(&mut provider);
                self.log.push(said);
            }
            // The user looks at something else for a while. What he left staged or half merged may wait for him.
            let ran = self.wiki.ws(&["status", "--wait-fresh", "15"]);
            fresh += usize::from(ran.code == Some(0));
            self.log.push(format!("fresh: {:?}", ran.code));
            if hour % 6 == 5 {
                provider.up_if_down();
                let kept = self.evening();
                self.log.push(format!("{kept:?}"));
                eprintln!("hour {hour}: {kept:?}");
                match first {
                    None => first = Some(kept),
                    Some(first) => bounded(&first, &kept),
                }
            }
        }
        assert!(self.kills >= HOURS / 4, "{} kills", self.kills);
        let log = self.wiki.git(&["log", "--all", "--reflog", "--format=%s"]);
        let ours = log
            .lines()
            .filter(|line| line.starts_with("wiki: "))
            .count();
        eprintln!(
            "{} kills, {ours} commits of ours, {fresh} hours ended fresh",
            self.kills
        );
        // Four evenings make one each, and a move of ours one.
        assert!(ours > HOURS, "the watch did next to nothing");
    }

    /// Sees to it that a watch runs.
    fn watch(&mut self) {
        let runs = self
            .beside
            .as_mut()
            .is_some_and(|watch| watch.try_wait().unwrap().is_none());
        if !runs {
            self.end_beside();
            self.beside = Some(self.start(&["watch"]));
        }
    }

    /// Something befalls it, or nothing.
    fn happens(&mut self, provider: &mut EmbeddingServer) -> String {
        match self.dice.below(24) {
            0 | 1 => {
                // Killed or told to end.
                self.end_beside();
                self.watch();
                "the watch begins anew".into()
            }
            2 => {
                provider.down();
                "the provider is away".into()
            }
            3 | 4 => {
                provider.up_if_down();
                "the provider is there".into()
            }
            5 | 6 => {
                self.behind.comes_right();
                "all comes right".into()
            }
            7 => match self.behind {
                // Whatever waits for the shard waits for long.
                Behind::Embedded { .. } => "nothing".into(),
                Behind::Servers { .. } => self.behind.goes_wrong(&self.wiki, &mut self.dice),
            },
            8 => self.rebase(),
            9 => self.restart_redis(),
            10 => {
                for n in 0..BAD {
                    self.wiki
                        .write(&format!("wiki-output/bad/b{n}.md"), b"\xff\xfe no text");
                }
                format!("{BAD} pages that are no text")
            }
            _ => "nothing".into(),
        }
    }

    fn rebase(&mut self) -> String {
        let name = format!("topic{}", self.dice.below(3));
        let ran = [
            &["checkout", "-q", "-B", &name][..],
            &["commit", "-qam", "on it"],
            &["rebase", "-q", "main"],
        ]
        .map(|args| self.wiki.try_git(args).code);
        if ran[2] != Some(0) {
            let _ = self.wiki.try_git(&["rebase", "--abort"]);
        }
        format!("rebase of {name}: {ran:?}")
    }

    fn restart_redis(&mut self) -> String {
        if let Behind::Servers {
            redis,
            is_redis_up: true,
            ..
        } = &mut self.behind
        {
            redis.down();
            redis.up();
            return "redis begins anew".into();
        }
        "no redis".into()
    }

    /// The day's work is done for now: all comes right, all is equal, and what is kept is weighed.
    fn evening(&mut self) -> Kept {
        self.behind.comes_right();
        self.watch();
        let _ = self.wiki.ws(&["status", "--wait-fresh", "30"]);
        let memory = self.beside.as_ref().map_or(0, |watch| resident(watch.id()));
        self.quiet();
        let state = self.at(".wiki-sync");
        let mut kept = Kept {
            state: 0,
            files: 0,
            logs: 0,
            memory,
        };
        weigh(&state, &mut kept);
        let status = self.wiki.ws(&["status", "--json"]).json();
        assert!(
            status["outbox"]["dead"].as_u64().unwrap() <= LETTERS,
            "{status}"
        );
        let spool = state.join("spool");
        assert!(
            fs::metadata(&spool).map_or(0, |meta| meta.len()) == 0,
            "all was handed over"
        );
        if let Behind::Servers { redis, .. } = &self.behind {
            let ours = redis.cli(&["KEYS", &format!("*{LIST}*")]);
            // Each process leaves one of these, which expires.
            let (passing, staying): (Vec<_>, Vec<_>) =
                ours.lines().partition(|key| key.contains(":sent:"));
            assert!(staying.len() < 20, "{staying:?}");
            for key in passing {
                assert_ne!(redis.cli(&["TTL", key]), "-1", "{key} stays for ever");
            }
        }
        kept
    }
}

/// Checks that what is kept depends on what there is and not on how often it changed. The factors are generous.
fn bounded(first: &Kept, now: &Kept) {
    const MIB: u64 = 1 << 20;
    assert!(now.state <= first.state * 2 + 32 * MIB, "{first:?} {now:?}");
    assert!(now.files <= first.files * 2 + 100, "{first:?} {now:?}");
    // SQLite cuts them at 64 MiB when nobody reads.
    assert!(now.logs <= 128 * MIB, "{now:?}");
    assert!(
        now.memory <= first.memory * 2 + 128 * MIB,
        "{first:?} {now:?}"
    );
}

fn weigh(folder: &Path, kept: &mut Kept) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            weigh(&entry.path(), kept);
            continue;
        }
        kept.files += 1;
        kept.state += meta.len();
        let name = entry.file_name();
        if name.to_string_lossy().ends_with("-wal") {
            kept.logs += meta.len();
        }
    }
}

/// Returns the bytes of memory that a process has.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

fn tell(seed: u64, behind: Behind) {
    super::told(seed, HOURS, behind, Story::day);
}

#[test]
#[ignore = "a day of work, twice: for scripts/test --long"]
fn a_day_of_work_leaves_all_equal_and_nothing_grown() {
    tell(31, embedded());
}

#[test]
#[ignore = "a day of work, twice: for scripts/test --long"]
fn a_day_of_work_with_redis_and_qdrant_leaves_all_equal_and_nothing_grown() {
    tell(32, Behind::servers());
}
