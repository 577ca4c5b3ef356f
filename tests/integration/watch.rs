//! The watch: whatever happens to the pages is in every store soon after, without help.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wiki::Wiki;

/// How long anything may take before it counts as not happening.
const DEADLINE: Duration = Duration::from_secs(90);

/// A watch that runs on a wiki; killed when dropped.
pub(crate) struct Watch<'w> {
    wiki: &'w Wiki,
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl<'w> Watch<'w> {
    /// Starts one and waits until the first scan is done. The scans on a timer never come.
    pub(crate) fn start(wiki: &'w Wiki) -> Self {
        let watch = Self::start_with(wiki, &[], &[]);
        watch.wait("the first sync", |line| line["event"] == "synced");
        watch
    }

    pub(crate) fn start_with(wiki: &'w Wiki, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = wiki
            .binary()
            .args(["watch", "--json", "--set", "watch.scan_every=1 day"])
            .args(args)
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("each line is JSON");
                kept.lock().unwrap().push(line);
            }
        });
        Self { wiki, child, lines }
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line that it says from now on, or has said.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_after(0, what, wanted)
    }

    /// The same, of the lines after so many.
    #[track_caller]
    pub(crate) fn wait_after(
        &self,
        after: usize,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(line) = self.lines().into_iter().skip(after).find(&wanted) {
                return line;
            }
            assert!(
                Instant::now() < end,
                "{what} never came: {:#?}",
                self.lines()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a page's content was brought to the stores.
    #[track_caller]
    fn wait_for_page(&self, path: &str) -> Value {
        self.wait(path, |line| names(line, path))
    }

    /// Writes a page and waits until it is in: what happened before was seen by then.
    #[track_caller]
    fn sentinel(&self, name: &str) {
        let path = format!("wiki-output/{name}.md");
        self.wiki.write(&path, format!("# {name}\n"));
        self.wait_for_page(&path);
    }

    /// Waits until nothing is owed, and proves it.
    #[track_caller]
    pub(crate) fn in_sync(&self) {
        let end = Instant::now() + DEADLINE;
        loop {
            self.fresh();
            let verify = self.wiki.ws(&["verify", "--json"]).json();
            assert_eq!(verify["drift"], json!([]), "{verify:#}");
            // A late event of what was done is a job more, which finds nothing to do.
            if verify["in_sync"] == true {
                break;
            }
            assert!(Instant::now() < end, "{verify:#}\n{:#?}", self.lines());
        }
        self.wiki.assert_sound();
    }

    #[track_caller]
    fn fresh(&self) {
        let end = Instant::now() + DEADLINE;
        loop {
            // A watch that does not listen everywhere needs a person, and brings all the same.
            let status = self.wiki.ws(&["status", "--json"]).json();
            if status["fresh"] == true {
                return;
            }
            assert!(Instant::now() < end, "{status:#}\n{:#?}", self.lines());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it has said nothing for longer than it takes between two looks.
    fn quiet(&self) {
        let mut said = usize::MAX;
        while said != self.lines().len() {
            said = self.lines().len();
            thread::sleep(Duration::from_secs(3));
        }
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }

    /// Waits until the process stands still.
    fn stands_still(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let end = Instant::now() + DEADLINE;
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(Instant::now() < end, "it goes on");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it with a signal and returns its exit code.
    fn end(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it goes on after {signal}");
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(line: &Value, path: &str) -> bool {
    let pages = line["pages"].as_array();
    pages.is_some_and(|pages| pages.iter().any(|page| page == path))
}

fn commits(wiki: &Wiki) -> usize {
    wiki.git(&["rev-list", "--count", "HEAD"])
        .trim()
        .parse()
        .unwrap()
}

/// A wiki of `count` pages, half of them in `docs/`.
fn many(count: usize) -> Wiki {
    let wiki = Wiki::with(&[]);
    for n in 0..count {
        let folder = if n % 2 == 0 { "" } else { "docs/sub/" };
        wiki.write(
            &format!("wiki-output/{folder}p{n}.md"),
            format!("# Page {n}\n\nsee [[p{}]]\n", (n + 1) % count),
        );
    }
    wiki
}

#[test]
fn a_saved_page_is_one_commit_and_no_further_job() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let before = commits(&wiki);
    wiki.write("wiki-output/a.md", "# Alpha two\n");
    let line = watch.wait_for_page("wiki-output/a.md");
    let line = match line["pages"].as_array().unwrap().len() {
        1 => line,
        // The first sync named it too.
        _ => watch.wait_after(2, "a.md", |line| names(line, "wiki-output/a.md")),
    };
    assert_eq!(
        (&line["processed"], &line["dlq"]),
        (&1.into(), &0.into()),
        "{line}"
    );
    for store in ["graph", "vectors", "git"] {
        assert_eq!(line["stores"][store]["applied"], 1, "{line}");
    }
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]).trim(), line["commit"]);
    for _ in 0..20 {
        wiki.git(&["status"]);
    }
    watch.sentinel("last");
    assert_eq!(commits(&wiki), before + 2);
    let synced = watch.lines();
    let synced = synced
        .iter()
        .filter(|line| line["processed"].as_u64() > Some(0));
    assert_eq!(
        synced.count(),
        3,
        "the first, the edit, the sentinel: {:#?}",
        watch.lines()
    );
    watch.in_sync();
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["watch"]["running"], true, "{status}");
    assert_eq!(status["watch"]["mode"], "events");
    assert!(status["watch"]["last_event"].as_i64() > Some(0));
    assert_eq!(watch.end("-TERM"), Some(0));
    assert_eq!(wiki.json(0, &["status"])["watch"]["running"], false);
}

#[test]
fn pages_in_folders_made_at_once_are_all_seen() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let script = "for n in $(seq 200); do mkdir -p wiki-output/n$n/a/b/c && echo \"# $n\" > wiki-output/n$n/a/b/c/p.md; done";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(wiki.root())
        .status();
    assert!(made.unwrap().success());
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 203);
    assert!(
        !watch.lines().iter().any(|line| line["event"] == "rescan"),
        "by events alone"
    );
}

#[test]
fn folders_come_go_and_move_with_all_that_is_in_them() {
    let wiki = many(60);
    let watch = Watch::start(&wiki);
    let at = |path: &str| wiki.root().join(path);
    fs::rename(at("wiki-output/docs"), at("wiki-output/docs2")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 60);
    // The moved folder is watched under its new name.
    wiki.write("wiki-output/docs2/sub/p1.md", "# One\n");
    watch.wait_for_page("wiki-output/docs2/sub/p1.md");
    // Half of the pages leave in one go: seen to happen, so it is meant.
    fs::rename(at("wiki-output/docs2"), at("elsewhere")).unwrap();
    let end = Instant::now() + DEADLINE;
    while wiki.head_pages().len() != 30 {
        assert!(Instant::now() < end, "{:#?}", watch.lines());
        thread::sleep(Duration::from_millis(50));
    }
    // What happens there now is nobody's business.
    fs::write(at("elsewhere/sub/p1.md"), "# Elsewhere\n").unwrap();
    fs::rename(at("elsewhere"), at("wiki-output/back")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 60);
    fs::remove_dir_all(at("wiki-output/back")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 30);
    let copied = Command::new("cp")
        .args(["-r", "wiki-output", "copy"])
        .current_dir(wiki.root())
        .status();
    assert!(copied.unwrap().success());
    fs::rename(at("copy"), at("wiki-output/copy")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 60);
}

#[test]
fn the_whole_wiki_vanishing_is_held_and_its_return_mends_it() {
    let wiki = many(8);
    let watch = Watch::start(&wiki);
    let head = wiki.git(&["rev-parse", "HEAD"]);
    let at = |path: &str| wiki.root().join(path);
    fs::rename(at("wiki-output"), at("away")).unwrap();
    let held = watch.wait("held", |line| line["event"] == "held");
    assert_eq!(held["held"], 8, "{held}");
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    fs::rename(at("away"), at("wiki-output")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
    // Page by page it is no better.
    for page in wiki.head_pages() {
        wiki.remove(&page);
    }
    watch.wait_after(watch.lines().len(), "held", |line| line["event"] == "held");
    assert_eq!(wiki.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_burst_of_two_thousand_pages_is_in_sync_afterwards() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    for n in 0..2_000 {
        wiki.write(
            &format!("wiki-output/d{}/p{n}.md", n % 20),
            format!("# {n}\n"),
        );
    }
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 2_003);
}

#[test]
fn whatever_git_does_to_the_work_tree_is_in_sync_afterwards() {
    let wiki = many(30);
    let watch = Watch::start(&wiki);
    wiki.git(&["switch", "-qc", "other"]);
    for n in 0..10 {
        wiki.write(
            &format!("wiki-output/p{}.md", n * 2),
            format!("# Other {n}\n"),
        );
        wiki.remove(&format!("wiki-output/docs/sub/p{}.md", n * 2 + 1));
    }
    watch.in_sync();
    for branch in ["main", "other", "main", "other"] {
        wiki.git(&["switch", "-q", branch]);
        watch.in_sync();
    }
    // A change that git puts away before we see it, and gives back.
    wiki.write("wiki-output/p0.md", "# Stashed\n");
    wiki.git(&["stash", "-q"]);
    wiki.try_git(&["stash", "pop", "-q"]);
    watch.fresh();
    wiki.git(&["reset", "-q", "--hard", "HEAD~1"]);
    watch.in_sync();
    wiki.git(&["reset", "-q", "--soft", "HEAD~1"]);
    watch.fresh();
    wiki.git(&["checkout", "-q", "main"]);
    watch.in_sync();
}

fn rebase(steps: u32) {
    let wiki = many(20);
    let watch = Watch::start(&wiki);
    let start = wiki.git(&["rev-parse", "HEAD"]);
    wiki.git(&["switch", "-qc", "topic"]);
    for n in 0..steps {
        wiki.write(
            &format!("wiki-output/p{}.md", n % 10 * 2),
            format!("# Topic {n}\n"),
        );
        wiki.git(&["commit", "-qam", &format!("topic {n}")]);
    }
    wiki.git(&["switch", "-qc", "base", start.trim()]);
    wiki.write("other.txt", "x\n");
    wiki.git(&["add", "other.txt"]);
    wiki.git(&["commit", "-qm", "base"]);
    watch.in_sync();
    let rebased = wiki.try_git(&["rebase", "-q", "base", "topic"]);
    assert_eq!(rebased.code, Some(0), "no lock in its way: {}", rebased.err);
    watch.in_sync();
    let log = wiki.git(&["log", "--format=%s", "base..topic"]);
    assert_eq!(
        log.lines().count(),
        steps as usize,
        "its commits and no others: {log}"
    );
}

#[test]
fn a_rebase_meets_no_lock_and_is_in_sync_afterwards() {
    rebase(15);
}

#[test]
#[ignore = "a rebase of 100 commits, five times: for scripts/test --long"]
fn a_rebase_of_a_hundred_commits_meets_no_lock() {
    for _ in 0..5 {
        rebase(100);
    }
}

#[test]
fn noise_on_one_page_does_not_hold_up_another() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let stop = Arc::new(AtomicBool::new(false));
    let noisy = wiki.root().join("wiki-output/noise.md");
    let noise = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                fs::write(&noisy, format!("# Noise {n}\n")).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
    // They go in while the noise goes on.
    watch.sentinel("quiet");
    watch.sentinel("quiet too");
    assert!(!noise.is_finished());
    stop.store(true, Ordering::Relaxed);
    noise.join().unwrap();
    watch.in_sync();
}

#[test]
fn a_merge_under_way_is_waited_for() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    wiki.git(&["switch", "-qc", "side"]);
    wiki.write("wiki-output/a.md", "# Side\n");
    wiki.git(&["commit", "-qam", "side"]);
    wiki.git(&["switch", "-q", "main"]);
    watch.in_sync();
    wiki.write("wiki-output/a.md", "# Main\n");
    watch.in_sync();
    assert_eq!(wiki.try_git(&["merge", "-q", "side"]).code, Some(1));
    wiki.write("wiki-output/a.md", "# Both\n");
    wiki.write("wiki-output/b.md", "# Meanwhile\n");
    let held = watch.wait("held", |line| line["held"].as_u64() > Some(0));
    assert!(held["trouble"].to_string().contains("merge"), "{held}");
    wiki.git(&["add", "wiki-output/a.md"]);
    wiki.git(&["commit", "-qm", "merged"]);
    watch.in_sync();
    assert_eq!(
        wiki.git(&["show", "HEAD:wiki-output/b.md"]),
        "# Meanwhile\n"
    );
}

#[test]
fn an_editors_save_is_one_change_and_never_a_removal() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let dances = [
        // vim with a backup, emacs, JetBrains, Syncthing, sed -i, VS Code, Obsidian.
        "mv p.md p.md~; echo '# 1' > p.md; rm p.md~",
        "ln -s me@host.1 .#p.md; mv p.md p.md~; echo '# 2' > p.md; rm .#p.md; echo x > '#p.md#'; rm '#p.md#' p.md~",
        "echo '# 3' > p.md___jb_tmp___; mv p.md p.md___jb_old___; mv p.md___jb_tmp___ p.md; rm p.md___jb_old___",
        "echo '# 4' > .syncthing.p.md.tmp; mv .syncthing.p.md.tmp p.md",
        "sed -i 's/4/5/' p.md; sed -i 's/5/6/' p.md",
        ": > p.md; echo '# 7' > p.md",
        "rm p.md; echo '# 8' > p.md",
        "echo '# 9' > 4913.md; rm 4913.md; echo '# 9' > p.md",
    ];
    wiki.write("wiki-output/p.md", "# 0\n");
    watch.wait_for_page("wiki-output/p.md");
    for (n, dance) in dances.iter().enumerate() {
        let after = watch.lines().len();
        let danced = Command::new("sh")
            .args(["-ec", dance])
            .current_dir(wiki.root().join("wiki-output"))
            .status();
        assert!(danced.unwrap().success());
        let line = watch.wait_after(after, dance, |line| line["event"] == "synced");
        assert_eq!(
            line["pages"],
            json!(["wiki-output/p.md"]),
            "{n} {dance}: {line}"
        );
        assert_eq!(line["stores"]["graph"]["removed"], 0, "{dance}: {line}");
    }
    watch.in_sync();
    assert_eq!(wiki.git(&["log", "--diff-filter=D", "--format=%s"]), "");
    assert_eq!(wiki.git(&["show", "HEAD:wiki-output/p.md"]), "# 9\n");
}

#[test]
fn links_out_of_the_wiki_and_in_circles_lead_nowhere() {
    let wiki = Wiki::small();
    symlink(".", wiki.root().join("wiki-output/loop")).unwrap();
    symlink("/etc", wiki.root().join("wiki-output/etc")).unwrap();
    let watch = Watch::start(&wiki);
    symlink("..", wiki.root().join("wiki-output/sub/up")).unwrap();
    symlink("a.md", wiki.root().join("wiki-output/link.md")).unwrap();
    watch.sentinel("last");
    assert_eq!(wiki.head_pages().len(), 4);
    assert_eq!(wiki.json(0, &["verify"])["pages"], 4);
}

#[test]
fn a_page_that_git_ignores_wakes_nobody() {
    let wiki = Wiki::small();
    wiki.write(".gitignore", "wiki-output/build/\nwiki-output/draft-*.md\n");
    wiki.git(&["add", ".gitignore"]);
    wiki.git(&["commit", "-qm", "ignore"]);
    let watch = Watch::start(&wiki);
    wiki.write("wiki-output/build/x.md", "# X\n");
    wiki.write("wiki-output/draft-1.md", "# Draft\n");
    wiki.write("wiki-output/.trash/y.md", "# Y\n");
    watch.sentinel("last");
    let lines = watch.lines();
    for path in ["build/x.md", "draft-1.md", ".trash/y.md"] {
        let path = format!("wiki-output/{path}");
        assert!(
            !lines.iter().any(|line| names(line, &path)),
            "{path}: {lines:#?}"
        );
    }
}

#[test]
fn what_git_ignores_no_longer_is_brought_and_listened_to_from_then_on() {
    let wiki = Wiki::small();
    wiki.write(".gitignore", "build/\n");
    wiki.write("wiki-output/build/x.md", "# X\n");
    wiki.write("wiki-output/sub/.gitignore", "later/\n");
    wiki.write("wiki-output/sub/later/y.md", "# Y\n");
    wiki.write(".git/info/exclude", "private/\n");
    wiki.write("wiki-output/private/z.md", "# Z\n");
    let watch = Watch::start(&wiki);
    watch.fresh();
    for (rules, page) in [
        (".gitignore", "build/x"),
        ("wiki-output/sub/.gitignore", "sub/later/y"),
        (".git/info/exclude", "private/z"),
    ] {
        let path = format!("wiki-output/{page}.md");
        let held = |wiki: &Wiki| wiki.head_pages().contains(&path);
        assert!(!held(&wiki), "{path}");
        wiki.write(rules, "");
        let end = Instant::now() + DEADLINE;
        while !held(&wiki) {
            assert!(Instant::now() < end, "{path}: {:#?}", watch.lines());
            thread::sleep(Duration::from_millis(50));
        }
        let after = watch.lines().len();
        wiki.write(&path, "# Written later\n");
        watch.wait_after(after, &path, |line| names(line, &path));
    }
    watch.fresh();
    assert_eq!(wiki.json(0, &["verify"])["in_sync"], true);
}

/// Returns how many folders and files the system tells the watch of.
fn watches(watch: &Watch<'_>) -> usize {
    let process = format!("/proc/{}", watch.child.id());
    let open = fs::read_dir(format!("{process}/fd")).unwrap().flatten();
    let inotify = open.filter(|fd| {
        fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("inotify"))
    });
    let told = inotify.map(|fd| {
        let name = fd.file_name();
        let told = fs::read_to_string(format!("{process}/fdinfo/{}", name.display())).unwrap();
        told.lines()
            .filter(|line| line.starts_with("inotify"))
            .count()
    });
    told.sum()
}

/// Returns the memory that the watch has, in MiB.
fn resident(watch: &Watch<'_>) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", watch.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap();
    kib / 1024
}

/// Fills a folder that git ignores, one that the settings ignore and a hidden one, and shows that the watch knows none
/// of what is in them.
fn assert_ignored_folders_cost_nothing(files: usize) {
    let wiki = Wiki::small();
    wiki.write(".gitignore", "node_modules/\n");
    wiki.write(
        "wiki-sync.toml",
        "[wiki]\nignore = [\"**/.*\", \"**/out\"]\n",
    );
    let watch = Watch::start(&wiki);
    watch.sentinel("before");
    let (folders, memory) = (watches(&watch), resident(&watch));
    assert!(folders > 1, "{folders}");
    for n in 0..files {
        for ignored in ["node_modules", "out", ".cache"] {
            wiki.write(
                &format!("wiki-output/{ignored}/{}/f{n}.md", n / 100),
                "# F\n",
            );
        }
    }
    let after = watch.lines().len();
    watch.sentinel("after");
    assert_eq!(watches(&watch), folders);
    let grown = resident(&watch).saturating_sub(memory);
    assert!(grown < 20, "{grown} MiB more, from {memory}");
    let told = &watch.lines()[after..];
    assert!(
        told.iter().all(|line| line["event"] == "synced"),
        "{told:#?}"
    );
}

#[test]
fn folders_that_are_ignored_cost_no_watches_and_no_memory() {
    assert_ignored_folders_cost_nothing(1_000);
}

#[test]
#[ignore = "for scripts/test --long"]
fn a_hundred_thousand_files_in_ignored_folders_cost_no_watches_and_no_memory() {
    assert_ignored_folders_cost_nothing(100_000);
}

#[test]
fn what_changed_unheard_while_the_machine_slept_is_found() {
    let wiki = Wiki::small();
    // Who writes under a name outside of the wiki makes no event in it.
    let outside = wiki.root().join(".git/outside.md");
    fs::write(&outside, "# Before\n").unwrap();
    fs::hard_link(&outside, wiki.root().join("wiki-output/linked.md")).unwrap();
    let slept = [("WIKI_SYNC_TEST_PLANNED_AT", "watch.slept")];
    let watch = Watch::start_with(&wiki, &[], &slept);
    watch.wait_for_page("wiki-output/linked.md");
    let after = watch.lines().len();
    fs::write(&outside, "# While it slept\n").unwrap();
    watch.wait_after(after, "the page", |line| {
        names(line, "wiki-output/linked.md")
    });
    let told = watch.wait("the rescan", |line| line["event"] == "rescan");
    assert!(told["reason"].as_str().unwrap().contains("slept"), "{told}");
    watch.in_sync();
}

#[test]
fn on_a_networks_file_system_it_looks_unless_events_are_asked_for() {
    let wiki = Wiki::small();
    let network = [("WIKI_SYNC_TEST_PLANNED_AT", "watch.network")];
    let looks = Watch::start_with(&wiki, &["--set", "watch.poll_every=1 s"], &network);
    let told = looks.wait("the start", |line| line["event"] == "started");
    assert_eq!(told["mode"], "polling", "{told}");
    assert!(
        told["reason"].as_str().unwrap().contains("is on NFS"),
        "{told}"
    );
    assert!(
        told["hint"].as_str().unwrap().contains("watch.mode"),
        "{told}"
    );
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["watch"]["mode"], "polling", "{status}");
    assert!(
        status["watch"]["why"].as_str().unwrap().contains("NFS"),
        "{status}"
    );
    looks.sentinel("looked/at");
    looks.in_sync();
    assert_eq!(looks.end("-INT"), Some(0));
    let hears = Watch::start_with(&wiki, &["--set", "watch.mode=events"], &network);
    let told = hears.wait("the start", |line| line["event"] == "started");
    assert_eq!(told["mode"], "events", "{told}");
    hears.sentinel("heard");
}

#[test]
fn a_pages_folder_on_another_file_system_is_opened_anew() {
    let wiki = Wiki::small();
    // Whatever is mounted makes no event.
    let mounted = [("WIKI_SYNC_TEST_PLANNED_AT", "watch.mounted")];
    let watch = Watch::start_with(&wiki, &[], &mounted);
    let told = watch.wait("the reopening", |line| line["event"] == "reopened");
    let reason = told["reason"].as_str().unwrap();
    assert!(reason.contains("another file system"), "{told}");
    watch.sentinel("mounted");
}

#[test]
fn a_repository_that_comes_while_it_watches_is_looked_at_from_then_on() {
    let wiki = Wiki::small();
    wiki.write("wiki-sync.toml", "");
    let (git, away) = (wiki.root().join(".git"), wiki.root().join(".git-away"));
    fs::rename(&git, &away).unwrap();
    let watch = Watch::start_with(&wiki, &[], &[]);
    watch.wait("the first pass", |line| {
        line["stores"]["graph"]["applied"] == 3
    });
    fs::rename(&away, &git).unwrap();
    watch.wait("the rescan", |line| line["reason"] == "HEAD moved");
    watch.fresh();
    let after = watch.lines().len();
    wiki.git(&["commit", "-q", "--allow-empty", "-m", "more"]);
    watch.wait_after(after, "the rescan", |line| line["reason"] == "HEAD moved");
    watch.fresh();
    assert_eq!(wiki.head_pages().len(), 3);
}

#[test]
fn a_page_that_one_store_refuses_is_told_with_those_that_took_it() {
    let wiki = Wiki::small();
    wiki.git(&["checkout", "-q", "--detach"]);
    let watch = Watch::start_with(&wiki, &[], &[]);
    watch.wait("the first pass", |line| line["held"] == 3);
    let after = watch.lines().len();
    wiki.write("wiki-output/a.md", "# A, on a detached HEAD\n");
    let told = watch.wait_after(after, "the page", |line| names(line, "wiki-output/a.md"));
    assert_eq!(told["event"], "held", "{told}");
    assert_eq!(told["stores"]["graph"]["applied"], 1, "{told}");
    wiki.git(&["checkout", "-q", "-"]);
    watch.in_sync();
}

#[test]
fn one_watch_is_enough_and_a_killed_one_is_in_nobodys_way() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let second = wiki.ws(&["watch"]).code(75);
    let pid = watch.child.id().to_string();
    assert!(
        second.err.contains(&pid) && second.err.contains("hint:"),
        "{}",
        second.err
    );
    watch.end("-KILL");
    wiki.write("wiki-output/a.md", "# While nobody watched\n");
    wiki.remove("wiki-output/b.md");
    let watch = Watch::start(&wiki);
    watch.in_sync();
    for (signal, path) in [("-INT", "a"), ("-HUP", "c")] {
        assert_eq!(Watch::start(&many(2)).end(signal), Some(0), "{path}");
    }
}

#[test]
fn jobs_that_others_enqueue_are_taken() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    wiki.ws(&["enqueue", "wiki-output/a.md"]).code(0);
    watch.wait("the job", |line| line["unchanged"] == 1);
    let mut put = wiki.binary();
    let put = put
        .args(["put", "wiki-output/put.md"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = put.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"# Put\n").unwrap();
    assert!(child.wait().unwrap().success());
    watch.wait_for_page("wiki-output/put.md");
    watch.in_sync();
}

#[test]
fn with_enqueue_only_another_process_drains() {
    let wiki = Wiki::small();
    let watch = Watch::start_with(&wiki, &["--enqueue-only"], &[]);
    let first = watch.wait("the first look", |line| line["event"] == "enqueued");
    assert_eq!(first["jobs"], 3);
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["processed"], 3);
    wiki.write("wiki-output/new/n.md", "# New\n");
    wiki.remove("wiki-output/b.md");
    let end = Instant::now() + DEADLINE;
    while wiki.json(0, &["status"])["outbox"]["waiting"] != 2 {
        assert!(Instant::now() < end, "{:#?}", watch.lines());
    }
    assert_eq!(wiki.json(0, &["drain", "--no-scan"])["processed"], 2);
    wiki.assert_in_sync();
    assert_eq!(wiki.json(0, &["status"])["watch"]["enqueue_only"], true);
}

#[test]
fn with_enqueue_only_folders_whose_coming_was_lost_are_listened_to_afterwards() {
    let wiki = Wiki::small();
    let watch = Watch::start_with(&wiki, &["--enqueue-only"], &[]);
    watch.wait("the first look", |line| line["event"] == "enqueued");
    lose_events(&watch, &["wiki-output/lost/l.md"]);
    watch.wait("the rescan", |line| line["event"] == "rescan");
    let path = "wiki-output/lost/l.md";
    let end = Instant::now() + DEADLINE;
    while !wiki.head_pages().iter().any(|page| page == path) {
        assert!(Instant::now() < end, "{:#?}", watch.lines());
        wiki.ws(&["drain", "--no-scan"]).code(0);
    }
    // The commit is one more reason to look at all pages; what is written after that look must be heard.
    watch.wait("the look", |line| line["reason"] == "HEAD moved");
    watch.quiet();
    let after = watch.lines().len();
    wiki.write("wiki-output/lost/again.md", "# Again\n");
    watch.wait_after(after, "the page", |line| line["event"] == "enqueued");
    wiki.ws(&["drain", "--no-scan"]).code(0);
    wiki.assert_in_sync();
}

#[test]
fn a_system_that_tells_nothing_is_noticed_and_looked_at_instead() {
    let wiki = Wiki::small();
    let watch = Watch::start_with(
        &wiki,
        &["--set", "watch.poll_every=1 s"],
        &[("WIKI_SYNC_TEST_WATCH", "null")],
    );
    let told = watch.wait("the mode", |line| line["event"] == "mode");
    assert_eq!(told["mode"], "polling", "{told}");
    watch.sentinel("polled");
    fs::create_dir_all(wiki.root().join("wiki-output/x/y")).unwrap();
    watch.sentinel("x/y/deep");
    wiki.remove("wiki-output/a.md");
    watch.in_sync();
    assert_eq!(wiki.json(3, &["status"])["watch"]["mode"], "polling");
}

#[test]
fn folders_beyond_the_systems_limit_are_looked_at_instead() {
    let wiki = Wiki::small();
    let watch = Watch::start_with(
        &wiki,
        &["--set", "watch.poll_every=1 s"],
        &[("WIKI_SYNC_TEST_WATCH", "limit:1")],
    );
    let told = watch.wait("the start", |line| line["event"] == "started");
    assert_eq!(told["mode"], "events+polling", "{told}");
    assert!(
        told["hint"]
            .as_str()
            .unwrap()
            .contains("fs.inotify.max_user_watches"),
        "{told}"
    );
    for name in ["top", "sub/s", "sub/new/n", "other/o"] {
        watch.sentinel(name);
    }
    fs::remove_dir_all(wiki.root().join("wiki-output/sub")).unwrap();
    watch.in_sync();
    assert_eq!(wiki.json(3, &["status"])["watch"]["mode"], "events+polling");
}

#[test]
fn what_is_saved_between_listening_and_the_first_scan_is_seen() {
    let wiki = Wiki::small();
    let watch = Watch::start_with(&wiki, &[], &[("WIKI_SYNC_TEST_STOP_AT", "watch.armed")]);
    watch.stands_still();
    wiki.write("wiki-output/between/b.md", "# Between\n");
    watch.signal("-CONT");
    watch.wait_for_page("wiki-output/between/b.md");
    watch.in_sync();
}

/// Lets more happen than the system keeps, and then writes pages that are old by their times.
fn lose_events(watch: &Watch<'_>, pages: &[&str]) {
    let wiki = watch.wiki;
    watch.signal("-STOP");
    watch.stands_still();
    // Two pages in turn, as it keeps the same event but once.
    let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .map_or(16_384, |most| most.trim().parse().unwrap());
    for n in 0..most / 2 {
        wiki.write(
            ["wiki-output/a.md", "wiki-output/b.md"][n % 2],
            format!("# {n}\n"),
        );
    }
    for path in pages {
        wiki.write(path, format!("# Lost {path}\n"));
        let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = File::options()
            .write(true)
            .open(wiki.root().join(path))
            .unwrap();
        file.set_modified(old).unwrap();
    }
    watch.signal("-CONT");
}

#[test]
fn lost_events_are_made_good_by_a_scan_whatever_the_pages_times() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    let lost: Vec<_> = (0..30)
        .map(|n| format!("wiki-output/lost/l{n}.md"))
        .collect();
    lose_events(&watch, &lost.iter().map(String::as_str).collect::<Vec<_>>());
    watch.wait("the rescan", |line| line["event"] == "rescan");
    watch.in_sync();
    assert_eq!(wiki.head_pages().len(), 33);
    // It listens as before.
    watch.sentinel("lost/again");
}

#[test]
fn settings_and_state_that_are_replaced_are_opened_anew() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    wiki.write(
        "wiki-sync.toml",
        "[wiki]\ninclude = [\"**/*.md\", \"**/*.txt\"]\n",
    );
    wiki.write("wiki-output/t.txt", "text\n");
    watch.wait("the reopening", |line| line["event"] == "reopened");
    watch.wait_for_page("wiki-output/t.txt");
    // What cannot be used is told, and it goes on as it was.
    let before = watch.lines().len();
    wiki.write("wiki-sync.toml", "[wiki]\nmax_page = \"much\"\n");
    let told = watch.wait_after(before, "the trouble", |line| line["event"] == "trouble");
    assert!(told["reason"].as_str().unwrap().contains("much"), "{told}");
    watch.sentinel("on");
    wiki.write("wiki-sync.toml", "");
    let state = wiki.root().join(".wiki-sync");
    fs::rename(&state, wiki.root().join(".wiki-sync-old")).unwrap();
    let after = watch.lines().len();
    watch.wait_after(after, "the reopening", |line| line["event"] == "reopened");
    watch.sentinel("anew");
    fs::remove_file(wiki.root().join("wiki-sync.toml")).unwrap();
    watch.fresh();
}

#[test]
fn a_watch_that_does_nothing_is_told_by_status() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    watch.in_sync();
    watch.signal("-STOP");
    watch.stands_still();
    assert_eq!(wiki.json(0, &["status"])["watch"]["deaf"], false);
    let path = wiki.root().join(".wiki-sync/watch.beat");
    let mut beat: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    beat["beat"] = 1.into();
    fs::write(&path, beat.to_string()).unwrap();
    let status = wiki.json(3, &["status"]);
    assert_eq!(status["watch"]["deaf"], true, "{status}");
    let told = wiki.ws(&["status"]).code(3);
    assert!(told.out.contains("kill"), "{}", told.out);
    watch.signal("-CONT");
}

#[test]
fn a_person_is_told_while_the_watch_goes_on() {
    let wiki = Wiki::small();
    let told = wiki.root().join("told");
    let command = format!(
        "[alert]\ncommand = [\"sh\", \"-c\", \"cat >> '{}'\"]\n",
        told.display()
    );
    wiki.write("wiki-sync.toml", command);
    let watch = Watch::start(&wiki);
    wiki.write("wiki-output/bad.md", b"\xff\xfe");
    watch.wait("the dead letter", |line| line["dlq"] == 1);
    let end = Instant::now() + DEADLINE;
    while !fs::read_to_string(&told)
        .unwrap_or_default()
        .contains("bad.md")
    {
        assert!(Instant::now() < end, "nobody was told");
        thread::sleep(Duration::from_millis(20));
    }
    // Mended, its letter goes by itself.
    wiki.write("wiki-output/bad.md", "# Good\n");
    watch.wait_for_page("wiki-output/bad.md");
    assert_eq!(wiki.json(0, &["status"])["outbox"]["dead"], 0);
}

#[test]
fn a_drain_that_waits_for_its_turn_hears_the_signal() {
    let wiki = Wiki::small();
    // It makes the state folder.
    wiki.json(0, &["enqueue", "a.md"]);
    for name in ["vectors.lock", "drain.lock"] {
        let lock = File::create(wiki.root().join(".wiki-sync").join(name)).unwrap();
        lock.lock().unwrap();
        let mut drain = wiki
            .binary()
            .args(["drain"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It waits: it has opened the lock, and nothing comes of it.
        let opened = format!("/proc/{}/fd", drain.id());
        let end = Instant::now() + DEADLINE;
        let waits = || {
            let mut open = fs::read_dir(&opened).unwrap().flatten();
            open.any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path.ends_with(name)))
        };
        while !waits() {
            assert!(Instant::now() < end && drain.try_wait().unwrap().is_none());
        }
        let kill = Command::new("kill").arg(drain.id().to_string()).status();
        assert!(kill.unwrap().success());
        let told = Instant::now();
        assert!(drain.wait().unwrap().code().is_some(), "it ended by itself");
        assert!(
            told.elapsed() < Duration::from_secs(15),
            "half a minute is its patience"
        );
    }
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
#[ignore = "20,000 pages, in and out: for scripts/test --long"]
fn a_burst_of_twenty_thousand_pages_is_in_sync_afterwards() {
    let wiki = Wiki::small();
    let watch = Watch::start(&wiki);
    for n in 0..20_000 {
        wiki.write(
            &format!("wiki-output/d{}/p{n}.md", n % 50),
            format!("# {n}\n"),
        );
    }
    let end = Instant::now() + DEADLINE * 10;
    while wiki.head_pages().len() != 20_003 {
        assert!(Instant::now() < end, "{:#?}", watch.lines());
        thread::sleep(Duration::from_millis(500));
    }
    watch.in_sync();
}
