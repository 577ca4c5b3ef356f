//! Stores that are away and pages that fail, by planned faults around the real stores.

use std::path::Path;
use std::time::Duration;

use wiki_sync::engine::alert::Alerts;
use wiki_sync::engine::bounds::DeadBounds;
use wiki_sync::engine::drain::{DrainOptions, drain};
use wiki_sync::engine::report::{DrainReport, VerifyReport};
use wiki_sync::engine::verify::{VerifyOptions, verify};
use wiki_sync::engine::{Parts, Progress, Silent};
use wiki_sync::model::{FailureKind, RetryPolicy, StoreName, StoreSet, Timestamp};
use wiki_sync::outbox::SqliteOutbox;
use wiki_sync::state::{Receipts, StateDir, open_db, open_outbox_db};
use wiki_sync::stores::Store;
use wiki_sync::stores::git::{GitSettings, GitStore};
use wiki_sync::stores::graph::GraphStore;
use wiki_sync::stores::vectors::{VectorSettings, VectorStore};
use wiki_sync::testing::{Faulty, Plan};

use crate::wiki::Wiki;

/// A wiki whose vector store fails as planned; retries and probes wait for milliseconds.
pub(crate) struct Lab {
    pub(crate) wiki: Wiki,
    pub(crate) parts: Parts,
    /// Of the vectors.
    pub(crate) plan: Plan,
    pub(crate) graph: Plan,
    pub(crate) git: Plan,
}

pub(crate) fn lab(pages: &[(&str, &str)]) -> Lab {
    let wiki = Wiki::with(pages);
    // The identity that the fixture keeps in its home is not seen by this process.
    wiki.git(&["config", "user.name", "Tester"]);
    wiki.git(&["config", "user.email", "tester@example.invalid"]);
    let [graph, plan, git] = [(); 3].map(|()| Plan::default());
    Lab {
        parts: parts(&wiki.root(), [&graph, &plan, &git]),
        wiki,
        plan,
        graph,
        git,
    }
}

fn parts(root: &Path, [graph_plan, plan, git_plan]: [&Plan; 3]) -> Parts {
    let state = StateDir::of(root);
    state.create().unwrap();
    let db = open_db(&state.database()).unwrap();
    let vectors =
        VectorStore::open(VectorSettings::embedded("wiki", "repo"), &state, None).unwrap();
    let git = GitStore::open(root, &state, GitSettings::default()).unwrap();
    let stores: Vec<Box<dyn Store>> = vec![
        Box::new(Faulty::around(
            Box::new(GraphStore::open(db, "wiki-output")),
            graph_plan.clone(),
        )),
        Box::new(Faulty::around(Box::new(vectors), plan.clone())),
        Box::new(Faulty::around(Box::new(git), git_plan.clone())),
    ];
    let short = |list: &[u64]| list.iter().copied().map(Duration::from_millis).collect();
    Parts {
        wiki: wiki_sync::wiki::Wiki::open(root, &wiki_sync::wiki::WikiSettings::default()).unwrap(),
        receipts: Receipts::open(&state.database()).unwrap(),
        outbox: Box::new(SqliteOutbox::open(open_outbox_db(&state.outbox()).unwrap())),
        policy: RetryPolicy {
            waits: short(&[10, 30, 90]),
            probes: short(&[10, 30, 90, 270]),
            ..RetryPolicy::default()
        },
        alerts: Alerts::open(
            &state.database(),
            "wiki",
            (Vec::new(), Vec::new()),
            &RetryPolicy::default(),
        )
        .unwrap(),
        dead: DeadBounds::default(),
        state,
        stores,
    }
}

impl Lab {
    pub(crate) fn drain(&mut self) -> DrainReport {
        drain(&mut self.parts, &DrainOptions::default(), &mut Silent).unwrap()
    }

    /// Lets a drain wait for a store until it is back, however late the thread that brings it back gets its turn.
    fn waits_for_stores(&mut self) {
        self.parts.policy.probes = vec![Duration::from_millis(20); 3_000];
    }

    pub(crate) fn verify(&mut self) -> VerifyReport {
        verify(&mut self.parts, &VerifyOptions::default(), &mut Silent).unwrap()
    }

    /// What a store is to do.
    fn plan_of(&self, store: StoreName) -> &Plan {
        match store {
            StoreName::Graph => &self.graph,
            StoreName::Vectors => &self.plan,
            StoreName::Git => &self.git,
        }
    }

    fn holds(&mut self, path: &str, store: StoreName) -> bool {
        let mut stores = self.parts.stores.iter_mut();
        let store = stores.find(|one| one.name() == store).unwrap();
        let inventory = store.inventory().unwrap();
        store.rest();
        inventory.iter().any(|holding| holding.path == path)
    }

    pub(crate) fn attempts(&mut self) -> u32 {
        let pending = self.parts.outbox.pending(100).unwrap();
        pending.iter().map(|job| job.attempts).sum()
    }
}

const THREE: &[(&str, &str)] = &[
    ("wiki-output/a.md", "# A\n\n[[b]]\n"),
    ("wiki-output/b.md", "# B\n"),
    ("wiki-output/c.md", "# C\n"),
];

#[test]
fn a_store_that_is_away_stops_no_other_and_costs_no_attempt() {
    let mut lab = lab(THREE);
    lab.plan.away(FailureKind::Down);
    let report = lab.drain();
    assert_eq!(
        (report.held, report.dlq, report.processed),
        (3, 0, 0),
        "{report:?}"
    );
    assert_eq!(lab.attempts(), 0);
    assert_eq!(
        (report.stores["graph"].applied, report.stores["git"].applied),
        (3, 3)
    );
    assert_eq!(lab.wiki.head_pages().len(), 3);

    // Edits go on reaching the others, however often one drains.
    lab.wiki.write("wiki-output/a.md", "# A two\n");
    let report = lab.drain();
    assert_eq!(
        (report.held, report.stores["git"].applied),
        (3, 1),
        "{report:?}"
    );
    assert_eq!(lab.attempts(), 0);

    lab.plan.back();
    let report = lab.drain();
    assert_eq!(
        (
            report.held,
            report.processed,
            report.stores["vectors"].applied
        ),
        (0, 3, 3),
        "{report:?}"
    );
    assert!(lab.verify().in_sync);
}

#[test]
fn a_store_that_comes_back_while_it_is_probed_is_served_in_the_same_drain() {
    let mut lab = lab(THREE);
    lab.waits_for_stores();
    lab.plan.lose_answers();
    let plan = lab.plan.clone();
    let back = std::thread::spawn(move || {
        while plan.applies() == 0 {
            std::thread::yield_now();
        }
        plan.back();
    });
    let report = lab.drain();
    back.join().unwrap();
    assert_eq!((report.held, report.processed), (0, 3), "{report:?}");
    assert!(report.trouble.is_empty(), "{report:?}");
    assert!(lab.verify().in_sync);
}

#[test]
fn a_lost_answer_is_asked_again_and_changes_nothing_twice() {
    let mut lab = lab(THREE);
    lab.plan.lose_answers();
    let report = lab.drain();
    assert_eq!(report.held, 3, "{report:?}");
    lab.plan.back();
    let report = lab.drain();
    assert_eq!(
        (report.processed, report.stores["vectors"].applied),
        (3, 0),
        "{report:?}"
    );
    assert!(lab.verify().in_sync);
}

#[test]
fn a_page_that_fails_twice_is_tried_three_times_and_holds_up_nobody() {
    let mut lab = lab(THREE);
    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Transient, 2);
    let report = lab.drain();
    assert_eq!(
        (report.processed, report.retried, report.dlq),
        (3, 2, 0),
        "{report:?}"
    );
    assert!(lab.verify().in_sync);
}

#[test]
fn five_hundred_pages_that_fail_at_once_come_back_spread_and_none_too_early() {
    let mut lab = lab(&[]);
    lab.parts.policy = RetryPolicy::default();
    for n in 0..500 {
        let page = format!("wiki-output/{n}.md");
        lab.wiki.write(&page, format!("# {n}\n"));
        lab.graph.fail_page(&page, FailureKind::Transient, u32::MAX);
    }
    let options = DrainOptions {
        wait: false,
        ..DrainOptions::default()
    };
    Timestamp::stop();
    // The least waits of the three retries; each one's herd is spread over a fifth of its wait.
    for wait in [1_000, 3_000, 9_000] {
        let began = Timestamp::now();
        drain(&mut lab.parts, &options, &mut Silent).unwrap();
        let pending = lab.parts.outbox.pending(1_000).unwrap();
        let due = pending.iter().map(|job| job.due.unwrap().0);
        let (first, last) = (due.clone().min().unwrap(), due.max().unwrap());
        assert_eq!(pending.len(), 500);
        assert!(
            first >= began.0 + wait,
            "{wait}: {} too early",
            began.0 + wait - first
        );
        assert!(last - first >= wait * 15 / 100, "{wait}: {}", last - first);
        Timestamp::skip(Duration::from_millis(last.abs_diff(began.0)));
    }
}

#[test]
fn the_fourth_failure_makes_a_dead_letter_that_rests_until_the_page_changes() {
    let mut lab = lab(THREE);
    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Transient, u32::MAX);
    let report = lab.drain();
    assert_eq!(
        (report.processed, report.retried, report.dlq, report.dead),
        (2, 3, 1, 1),
        "{report:?}"
    );
    let letters = lab.parts.outbox.dead().unwrap();
    assert_eq!(
        (letters[0].death.attempts, letters[0].death.stores),
        (4, StoreName::Vectors.into())
    );
    let applies = lab.plan.applies();
    let report = lab.drain();
    assert_eq!(
        (report.dlq, report.retried, report.dead),
        (0, 0, 1),
        "{report:?}"
    );
    assert_eq!(lab.plan.applies(), applies, "not tried again");

    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Transient, 0);
    lab.wiki.write("wiki-output/b.md", "# B two\n");
    let report = lab.drain();
    assert_eq!((report.processed, report.dead), (1, 0), "{report:?}");
    assert!(lab.verify().in_sync);
}

#[test]
fn an_event_does_not_wake_a_resting_dead_letter() {
    let mut lab = lab(THREE);
    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
    assert_eq!(lab.drain().dlq, 1);
    let job = wiki_sync::model::Job::for_page(
        wiki_sync::model::PagePath::parse("wiki-output/b.md").unwrap(),
        None,
    );
    lab.parts.outbox.enqueue(&[job], Timestamp::now()).unwrap();
    let applies = lab.plan.applies();
    let report = lab.drain();
    assert_eq!(
        (report.merged, report.dlq, report.dead),
        (1, 0, 1),
        "{report:?}"
    );
    assert_eq!(lab.plan.applies(), applies);
}

/// Hears what is waited for.
#[derive(Default)]
struct Waits(Vec<String>);

impl Progress for Waits {
    fn at(&mut self, _what: &'static str, _done: u64, _total: u64) {}

    fn waits(&mut self, why: &str) {
        self.0.push(why.to_owned());
    }
}

#[test]
fn whoever_looks_on_is_told_once_what_a_drain_waits_for() {
    let mut lab = lab(THREE);
    lab.plan.away(FailureKind::Down);
    let mut told = Waits::default();
    let report = drain(&mut lab.parts, &DrainOptions::default(), &mut told).unwrap();
    assert_eq!(report.held, 3);
    assert_eq!(told.0, [report.trouble[0].reason.clone()]);
}

/// Hears of progress, and moves the wiki away once some of the first group is done.
struct Vanish {
    from: std::path::PathBuf,
    to: std::path::PathBuf,
}

impl Progress for Vanish {
    fn at(&mut self, what: &'static str, done: u64, _total: u64) {
        if what == "syncing" && done > 0 && self.from.exists() {
            std::fs::rename(&self.from, &self.to).unwrap();
        }
    }
}

#[test]
fn a_wiki_that_vanishes_in_the_middle_of_a_drain_is_not_taken_for_deleted() {
    let mut lab = lab(&[]);
    let page = |n: u32| format!("wiki-output/p{n}.md");
    for n in 0..1_050 {
        lab.wiki.write(&page(n), format!("# Page {n}\n"));
    }
    lab.drain();
    for n in 0..1_050 {
        lab.wiki.write(&page(n), format!("# Page {n} again\n"));
    }
    let folder = lab.wiki.root().join("wiki-output");
    let aside = lab.wiki.root().join("aside");
    let mut vanish = Vanish {
        from: folder.clone(),
        to: aside.clone(),
    };
    let report = drain(&mut lab.parts, &DrainOptions::default(), &mut vanish).unwrap();
    // Those of the first group are looked at once more where it was not quite done.
    assert_eq!(report.held + report.processed, 1_050, "{report:?}");
    assert!(report.held >= 50, "{report:?}");
    assert_eq!(report.stores["git"].removed, 0, "{report:?}");
    assert_eq!(lab.wiki.head_pages().len(), 1_050);
    std::fs::rename(&aside, &folder).unwrap();
    lab.drain();
    assert!(lab.verify().in_sync);
}

#[test]
fn a_store_replaced_by_an_empty_one_while_it_was_away_is_filled_again() {
    let mut lab = lab(THREE);
    lab.drain();
    lab.waits_for_stores();
    lab.plan.away(FailureKind::Down);
    lab.wiki.write("wiki-output/a.md", "# A two\n");
    for store in &mut lab.parts.stores {
        store.rest();
    }
    let root = lab.wiki.root();
    let plan = lab.plan.clone();
    let before = plan.asked();
    // It is found away, comes back empty between two probes, and owes every page, not just the edited one.
    let replace = std::thread::spawn(move || {
        while plan.asked() < before + 3 {
            std::thread::yield_now();
        }
        std::fs::remove_dir_all(root.join(".wiki-sync/vectors")).unwrap();
        plan.back();
    });
    let report = lab.drain();
    replace.join().unwrap();
    assert_eq!(report.held, 0, "{report:?}");
    assert!(lab.verify().in_sync, "{:?}", lab.verify());
}

#[test]
fn a_hold_for_one_store_lets_a_reverted_page_reach_the_others() {
    let mut lab = lab(THREE);
    lab.drain();
    lab.plan.away(FailureKind::Down);
    lab.wiki.write("wiki-output/a.md", "# A two\n");
    assert_eq!(lab.drain().held, 1);
    // HEAD goes back, the file stays: git owes the same text again while the job is held for the vectors.
    lab.wiki.git(&["reset", "-q", "--soft", "HEAD~1"]);
    lab.wiki.git(&["reset", "-q"]);
    let report = lab.drain();
    assert_eq!(
        (report.held, report.stores["git"].applied),
        (1, 1),
        "{report:?}"
    );
    // And a page that is removed and comes back while its job is held.
    lab.wiki.remove("wiki-output/b.md");
    lab.drain();
    lab.wiki.write("wiki-output/b.md", "# B\n");
    lab.drain();
    assert_eq!(lab.wiki.head_pages().len(), 3);
    lab.plan.back();
    lab.drain();
    assert!(lab.verify().in_sync);
}

#[test]
fn an_outage_counts_as_attempts_for_whoever_wants_the_ancestors_way() {
    let mut lab = lab(THREE);
    lab.parts.policy.outage_counts = true;
    lab.drain();
    lab.plan.away(FailureKind::Down);
    lab.wiki.write("wiki-output/a.md", "# A two\n");
    let report = lab.drain();
    assert_eq!(
        (report.retried, report.dlq, report.held),
        (3, 1, 0),
        "{report:?}"
    );
}

#[test]
fn a_page_that_one_store_rejects_reaches_the_others_when_they_are_back() {
    for back_in_the_same_drain in [false, true] {
        let mut lab = lab(THREE);
        lab.graph
            .fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
        lab.plan.away(FailureKind::Down);
        if back_in_the_same_drain {
            lab.waits_for_stores();
            let plan = lab.plan.clone();
            let back = std::thread::spawn(move || {
                while plan.asked() < 3 {
                    std::thread::yield_now();
                }
                plan.back();
            });
            let report = lab.drain();
            back.join().unwrap();
            assert_eq!(
                (report.dlq, report.held, report.dead),
                (1, 0, 1),
                "{report:?}"
            );
        } else {
            let report = lab.drain();
            assert_eq!(
                (report.dlq, report.held, report.dead),
                (1, 3, 1),
                "{report:?}"
            );
            // Again and again: no further letter, no attempt, no visit of the store that rejects.
            let applies = lab.graph.applies();
            for _ in 0..3 {
                let report = lab.drain();
                assert_eq!(
                    (report.dlq, report.held, report.dead),
                    (0, 3, 1),
                    "{report:?}"
                );
            }
            assert_eq!((lab.attempts(), lab.graph.applies()), (0, applies));
            lab.plan.back();
            let report = lab.drain();
            assert_eq!((report.held, report.dead), (0, 1), "{report:?}");
        }
        let verify = lab.verify();
        assert_eq!((verify.drift.len(), verify.dead), (0, 1), "{verify:?}");
        assert!(lab.holds("wiki-output/b.md", StoreName::Vectors));
        assert!(!lab.holds("wiki-output/b.md", StoreName::Graph));
        assert_eq!(lab.wiki.head_pages().len(), 3);
        let letters = lab.parts.outbox.dead().unwrap();
        assert_eq!(letters[0].death.stores, StoreName::Graph.into());

        lab.graph
            .fail_page("wiki-output/b.md", FailureKind::Rejected, 0);
        lab.wiki.write("wiki-output/b.md", "# B two\n");
        lab.drain();
        assert!(lab.verify().in_sync);
    }
}

#[test]
fn a_resting_letter_of_one_store_keeps_the_page_from_no_other_that_was_lost() {
    let mut lab = lab(THREE);
    lab.graph
        .fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
    lab.drain();
    for store in &mut lab.parts.stores {
        store.rest();
    }
    std::fs::remove_dir_all(lab.wiki.root().join(".wiki-sync/vectors")).unwrap();
    let report = lab.drain();
    assert_eq!(
        (report.stores["vectors"].applied, report.dlq),
        (3, 0),
        "{report:?}"
    );
    assert!(lab.holds("wiki-output/b.md", StoreName::Vectors));
}

#[test]
fn a_page_that_two_stores_reject_has_one_letter_that_rests() {
    let mut lab = lab(THREE);
    for plan in [&lab.graph, &lab.plan] {
        plan.fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
    }
    let report = lab.drain();
    assert_eq!(
        (report.dlq, report.dead, report.held, report.waiting),
        (1, 1, 0, 0),
        "{report:?}"
    );
    let letters = lab.parts.outbox.dead().unwrap();
    let death = &letters[0].death;
    let both = StoreSet::from(StoreName::Graph).with(StoreName::Vectors);
    assert_eq!((letters.len(), death.stores), (1, both));
    assert!(
        death.reason.contains("graph: ") && death.reason.contains("vectors: "),
        "{}",
        death.reason
    );
    let asked = (lab.graph.applies(), lab.plan.applies());
    let report = lab.drain();
    assert_eq!((report.dlq, report.dead), (0, 1), "{report:?}");
    assert_eq!((lab.graph.applies(), lab.plan.applies()), asked);
}

/// Each store has its own say, whichever two of the three refuse the page and whether at once or by the fourth attempt.
#[test]
fn a_page_that_two_stores_reject_reaches_the_third_when_it_is_back() {
    for (away, kinds) in [
        (StoreName::Git, [FailureKind::Rejected; 2]),
        (
            StoreName::Vectors,
            [FailureKind::Rejected, FailureKind::Transient],
        ),
        (StoreName::Graph, [FailureKind::Transient; 2]),
    ] {
        let mut lab = lab(THREE);
        let refusing: Vec<_> = StoreName::ALL.into_iter().filter(|&s| s != away).collect();
        for (&store, kind) in refusing.iter().zip(kinds) {
            lab.plan_of(store)
                .fail_page("wiki-output/b.md", kind, u32::MAX);
        }
        lab.plan_of(away).away(FailureKind::Down);
        // Again and again: one letter, no attempt of those that wait, and nobody who refused is asked again.
        let mut asked = None;
        for round in 0..3 {
            let report = lab.drain();
            assert_eq!(
                (report.dead, report.held),
                (1, 3),
                "{away} {round} {report:?}"
            );
            assert_eq!(lab.attempts(), 0, "{away} {round}");
            let letters = lab.parts.outbox.dead().unwrap();
            let stores: StoreSet = refusing.iter().copied().collect();
            assert_eq!(letters[0].death.stores, stores, "{away} {round}");
            let applies: Vec<_> = refusing.iter().map(|&s| lab.plan_of(s).applies()).collect();
            assert!(asked.is_none_or(|asked| asked == applies), "{away} {round}");
            asked = Some(applies);
        }
        lab.plan_of(away).back();
        let report = lab.drain();
        assert_eq!((report.dead, report.held), (1, 0), "{away} {report:?}");
        assert!(lab.holds("wiki-output/b.md", away), "{away}");
        for &store in &refusing {
            assert!(!lab.holds("wiki-output/b.md", store), "{away}: {store}");
        }
        let verify = lab.verify();
        assert_eq!((verify.drift.len(), verify.dead), (0, 1), "{verify:?}");
        // The third has its own say too; then all have had theirs, and the letter rests.
        let version = lab.parts.outbox.dead().unwrap().remove(0).death.version;
        lab.wiki.write("wiki-output/b.md", "# B two\n");
        lab.plan_of(away)
            .fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
        let report = lab.drain();
        assert_eq!((report.dead, report.held), (1, 0), "{away} {report:?}");
        let death = lab.parts.outbox.dead().unwrap().remove(0).death;
        assert_eq!(death.stores, StoreName::ALL.into_iter().collect());
        assert_ne!(death.version, version);
        for name in StoreName::ALL {
            assert!(death.reason.contains(&format!("{name}: ")), "{death:?}");
        }
        let report = lab.drain();
        assert_eq!((report.dlq, report.enqueued), (0, 0), "{away} {report:?}");
        for store in StoreName::ALL {
            lab.plan_of(store)
                .fail_page("wiki-output/b.md", FailureKind::Rejected, 0);
        }
        lab.wiki.write("wiki-output/b.md", "# B three\n");
        lab.drain();
        assert!(lab.verify().in_sync, "{away}");
    }
}

#[test]
fn a_removal_that_a_store_rejects_rests_too() {
    let mut lab = lab(THREE);
    lab.drain();
    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Rejected, u32::MAX);
    lab.wiki.remove("wiki-output/b.md");
    let report = lab.drain();
    assert_eq!((report.dlq, report.dead), (1, 1), "{report:?}");
    let applies = lab.plan.applies();
    let report = lab.drain();
    assert_eq!(
        (report.dlq, report.enqueued, report.dead),
        (0, 0, 1),
        "{report:?}"
    );
    assert_eq!(lab.plan.applies(), applies);
    lab.plan
        .fail_page("wiki-output/b.md", FailureKind::Rejected, 0);
    lab.wiki.write("wiki-output/b.md", "# B is back\n");
    lab.drain();
    assert!(lab.verify().in_sync);
}

#[test]
fn a_settings_file_that_is_none_is_refused_with_the_way_out_and_nothing_waits_for_it() {
    let wiki = Wiki::small();
    let file = wiki.root().join("wiki-sync.toml");
    for what in ["bytes", "folder", "loop", "fifo"] {
        match what {
            "bytes" => std::fs::write(&file, b"# \xff\n").unwrap(),
            "folder" => std::fs::create_dir(&file).unwrap(),
            "loop" => std::os::unix::fs::symlink("wiki-sync.toml", &file).unwrap(),
            _ => {
                let made = wiki
                    .other(std::path::Path::new("mkfifo"))
                    .arg(&file)
                    .status();
                assert!(made.unwrap().success());
            }
        }
        for command in ["drain", "status", "config"] {
            let ran = wiki.ws(&[command]).code(4);
            assert!(
                ran.err.contains("wiki-sync.toml") && ran.err.contains("hint:"),
                "{what}: {}",
                ran.err
            );
        }
        if what == "folder" {
            std::fs::remove_dir(&file).unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
    }
    wiki.drain();
}

/// Does something once, when a verify has read the graph and goes on to the vectors.
struct Meanwhile<F: FnMut()>(Option<F>);

impl<F: FnMut()> Progress for Meanwhile<F> {
    fn at(&mut self, what: &'static str, _done: u64, _total: u64) {
        if what == "reading the vectors"
            && let Some(mut work) = self.0.take()
        {
            work();
        }
    }
}

#[test]
fn what_a_drain_brings_in_while_a_verify_reads_is_no_drift() {
    let mut lab = lab(THREE);
    lab.drain();
    let (wiki, mine) = (&lab.wiki, &mut lab.parts);
    for store in &mut mine.stores {
        store.rest();
    }
    let mut theirs = parts(&wiki.root(), [&lab.graph, &lab.plan, &lab.git]);
    let mut meanwhile = Meanwhile(Some(|| {
        wiki.write("wiki-output/a.md", "# Another\n");
        drain(&mut theirs, &DrainOptions::default(), &mut Silent).unwrap();
        for store in &mut theirs.stores {
            store.rest();
        }
    }));
    let report = verify(mine, &VerifyOptions::default(), &mut meanwhile).unwrap();
    assert!(meanwhile.0.is_none());
    assert_eq!((report.drift, report.in_sync), (Vec::new(), true));
}

#[test]
fn what_is_announced_while_a_verify_reads_waits_and_what_only_changes_differs() {
    for (announced, waiting, drift) in [(true, 1, 0), (false, 0, 3)] {
        let mut lab = lab(THREE);
        lab.drain();
        let Lab { wiki, parts, .. } = &mut lab;
        let mut meanwhile = Meanwhile(Some(|| {
            wiki.write("wiki-output/a.md", "# Another\n");
            if announced {
                wiki.ws(&["enqueue", "wiki-output/a.md"]).code(0);
            }
        }));
        let report = verify(parts, &VerifyOptions::default(), &mut meanwhile).unwrap();
        assert_eq!(
            (report.waiting, report.drift.len()),
            (waiting, drift),
            "{report:?}"
        );
    }
}
