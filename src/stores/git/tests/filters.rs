//! Pages that git sends through a program on the way in.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::fixture::Repo;
use crate::model::{Change, FailureKind};
use crate::stores::Store as _;
use crate::stores::git::GitSettings;

/// A filter that speaks git's long-running protocol, for text of ASCII; it notes each start in the file `$1` and
/// answers for names with `bad` that it failed.
const LONG_RUNNING: &str = r#"
echo started >> "$1"
packet() {
    len=$(dd bs=1 count=4 2>/dev/null)
    [ -n "$len" ] || exit 0
    if [ "$len" = 0000 ]; then got=; return 1; fi
    got=$(dd bs=1 count=$((0x$len - 4)) 2>/dev/null)
}
say() { printf '%04x%s\n' $((${#1} + 5)) "$1"; }
end() { printf 0000; }
while packet; do :; done
say git-filter-server; say version=2; end
while packet; do :; done
say capability=clean; end
while :; do
    status=success
    while packet; do case $got in *bad*) status=error ;; esac; done
    text=
    while packet; do text="$text$got"; done
    say "status=$status"; end
    if [ $status = success ]; then
        say "$(printf '%s' "$text" | tr a-z A-Z)"; end; end
    fi
done
"#;

/// Asserts that git's object store does not hold the page as it is on disk.
#[track_caller]
fn is_not_raw(repo: &Repo, path: &str) {
    let raw = repo.git(&["hash-object", "--no-filters", path]);
    assert!(
        !repo.try_git(&["cat-file", "-e", raw.trim_end()]),
        "{path} is there raw"
    );
}

#[test]
fn a_page_behind_a_filter_is_stored_as_its_program_makes_it() {
    for required in ["true", "false"] {
        let repo = Repo::with_pages();
        repo.set("filter.up.clean", "tr a-z A-Z");
        repo.set("filter.up.smudge", "tr A-Z a-z");
        repo.set("filter.up.required", required);
        repo.write(".gitattributes", "*.md filter=up\nb.md -filter\n");
        repo.git(&["add", ".gitattributes"]);
        repo.git(&["commit", "-qm", "attributes"]);
        let odd = "wiki-output/\"sub\\ 한글/-x y.md";
        repo.write("wiki-output/a.md", "# secret\n");
        repo.write("wiki-output/b.md", "# no secret\n");
        repo.write(odd, "# odd\n");
        let paths = ["wiki-output/a.md", "wiki-output/b.md", odd];
        let outcomes = repo.apply(&paths).expect("usable");
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let held = |path: &str| repo.git(&["cat-file", "blob", &format!("HEAD:{path}")]);
        assert_eq!(paths.map(held), ["# SECRET\n", "# no secret\n", "# ODD\n"]);
        is_not_raw(&repo, "wiki-output/a.md");
        assert_eq!(repo.status(), [""; 0]);
        let Change::Put(page) = repo.put("wiki-output/a.md") else {
            unreachable!("a put")
        };
        let expected = repo.store().expected(&page).expect("usable");
        assert_eq!(
            expected.as_deref(),
            Some(repo.git(&["rev-parse", "HEAD:wiki-output/a.md"]).trim_end())
        );
        let again = repo.apply(&paths).expect("usable");
        assert!(again.iter().all(|o| o.as_ref().is_ok_and(|a| !a.changed)));
        repo.is_sound();
    }
}

#[test]
fn a_filter_that_fails_costs_its_own_pages_and_stores_none_of_them_raw() {
    for (required, program) in [
        ("true", "exit 1"),
        ("false", "exit 1"),
        ("false", "no-such-program-anywhere"),
    ] {
        let repo = Repo::with_pages();
        repo.set("filter.up.clean", program);
        repo.set("filter.up.required", required);
        repo.write(".gitattributes", "a.md filter=up\nc?.md filter=up\n");
        repo.write("wiki-output/a.md", "# secret\n");
        for at in 0..9 {
            repo.write(&format!("wiki-output/c{at}.md"), "# more\n");
        }
        let failure = repo.fails("wiki-output/a.md", FailureKind::Refused);
        assert!(failure.reason.contains("filter \"up\""), "{failure}");
        assert!(
            failure
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains("filter.up"))
        );
        is_not_raw(&repo, "wiki-output/a.md");
        repo.write("wiki-output/b.md", "# no secret\n");
        let mut paths: Vec<String> = (0..9).map(|at| format!("wiki-output/c{at}.md")).collect();
        paths.push("wiki-output/b.md".into());
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let outcomes = repo.apply(&paths).expect("usable");
        for (path, outcome) in paths.iter().zip(&outcomes).take(9) {
            let failure = outcome.as_ref().expect_err("held");
            assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
            assert!(failure.reason.contains(path), "{failure}");
        }
        assert!(outcomes[9].is_ok());
        assert_eq!(repo.changed_by_head(), ["M wiki-output/b.md"]);
    }
}

#[test]
fn one_page_that_its_filter_refuses_does_not_stop_the_others() {
    let repo = Repo::with_pages();
    let starts = repo.root.join("../starts");
    let program = repo.program("long-running", LONG_RUNNING);
    let process = format!("{program} {}", starts.display());
    repo.set("filter.up.process", &process);
    repo.write(".gitattributes", "*.md filter=up\n");
    let paths = ["a", "bad", "c"].map(|name| format!("wiki-output/{name}.md"));
    for path in &paths {
        repo.write(path, "# words\n");
    }
    let outcomes = repo
        .apply(&paths.each_ref().map(String::as_str))
        .expect("usable");
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    let failure = outcomes[1].as_ref().expect_err("held");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(
        repo.changed_by_head(),
        ["M wiki-output/a.md", "A wiki-output/c.md"]
    );
    is_not_raw(&repo, "wiki-output/bad.md");
}

#[test]
fn a_long_running_filter_is_started_once_for_a_batch() {
    let repo = Repo::with_pages();
    let starts = repo.root.join("../starts");
    let program = repo.program("long-running", LONG_RUNNING);
    repo.set(
        "filter.up.process",
        &format!("{program} {}", starts.display()),
    );
    repo.set("filter.up.required", "true");
    repo.write(".gitattributes", "*.md filter=up\n");
    let paths: Vec<_> = (0..30).map(|at| format!("wiki-output/p{at}.md")).collect();
    for path in &paths {
        repo.write(path, &format!("# words of {path}\n"));
    }
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let outcomes = repo.apply(&paths).expect("usable");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(fs::read_to_string(&starts).expect("started"), "started\n");
    assert_eq!(
        repo.git(&["cat-file", "blob", "HEAD:wiki-output/p7.md"]),
        "# WORDS OF WIKI-OUTPUT/P7.MD\n"
    );
    repo.is_sound();
}

#[test]
fn a_filter_that_is_named_and_not_configured_is_refused_with_the_way_out() {
    let repo = Repo::with_pages();
    for (driver, way_out) in [
        ("lfs", "git lfs install"),
        ("git-crypt", "git-crypt unlock"),
        ("other", "git config filter.other.clean"),
    ] {
        // Whoever runs the tests may have set one up.
        if repo.try_git(&["config", "--get-regexp", &format!("^filter[.]{driver}[.]")]) {
            continue;
        }
        repo.write(".gitattributes", &format!("*.md filter={driver}\n"));
        repo.write("wiki-output/a.md", "# secret\n");
        let failure = repo.fails("wiki-output/a.md", FailureKind::Refused);
        assert!(failure.reason.contains("not configured"), "{failure}");
        assert!(
            failure.hint.as_ref().is_some_and(|h| h.contains(way_out)),
            "{failure:?}"
        );
        is_not_raw(&repo, "wiki-output/a.md");
    }
}

#[test]
fn a_filter_that_hangs_is_ended_with_all_that_it_started() {
    let repo = Repo::with_pages();
    let pid = repo.root.join("../pid");
    let hangs = format!("sleep 1000 & echo $! > {}\nwait\n", pid.display());
    let program = repo.program("hangs", &hangs);
    repo.set("filter.up.clean", &program);
    repo.write(".gitattributes", "*.md filter=up\n");
    repo.write("wiki-output/a.md", "# secret\n");
    repo.write("wiki-output/b.md", "# secret too\n");
    let mut store = repo.store_with(GitSettings {
        program_wait: Duration::from_secs(2),
        ..GitSettings::default()
    });
    let changes = repo.changes(&["wiki-output/a.md", "wiki-output/b.md"]);
    for outcome in store.apply(&changes, 1).expect("usable") {
        let failure = outcome.expect_err("held");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.reason.contains("ended after 2 s"), "{failure}");
        assert!(failure.reason.contains("filter \"up\""), "{failure}");
    }
    let pid = fs::read_to_string(&pid).expect("it ran");
    let state = Path::new("/proc").join(pid.trim()).join("stat");
    let end = Instant::now() + Duration::from_mins(1);
    // Dead, though nobody may have buried it yet.
    while fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < end, "it lives");
        std::thread::sleep(Duration::from_millis(10));
    }
    is_not_raw(&repo, "wiki-output/a.md");
}

#[test]
fn a_page_edited_while_its_filter_runs_is_left_for_its_next_job() {
    let repo = Repo::with_pages();
    let file = repo.root.join("wiki-output/a.md");
    let edits = format!("cat; echo more >> {}\n", file.display());
    repo.set("filter.up.clean", &repo.program("edits", &edits));
    repo.write(".gitattributes", "*.md filter=up\n");
    repo.write("wiki-output/a.md", "# A, second\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Busy);
    assert!(failure.reason.contains("changed since"), "{failure}");
}
