//! Many new pages at once: one pack instead of a file for each.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::super::{GitStore, Step};
use super::fixture::Repo;
use crate::model::Change;
use crate::stores::Store as _;

/// Writes so many pages in folders of 25, named and filled after `what`.
fn write_pages(repo: &Repo, what: &str, count: usize) -> Vec<String> {
    let path = |at: usize| format!("wiki-output/{what} {}/page {at}.md", at / 25);
    let paths: Vec<_> = (0..count).map(path).collect();
    for (at, path) in paths.iter().enumerate() {
        repo.write(
            path,
            &format!("# Page {at} of {what}\n{}", "text ".repeat(at)),
        );
    }
    paths
}

/// Brings the pages, all of which must be committed.
#[track_caller]
fn bring(repo: &Repo, store: &mut GitStore, paths: &[String]) {
    let changes: Vec<_> = paths.iter().map(|path| repo.put(path)).collect();
    for outcome in store.apply(&changes, 1).expect("the store is usable") {
        assert!(outcome.expect("it is committed").changed);
    }
}

/// Returns the names of the files of packs.
fn packs(repo: &Repo) -> Vec<String> {
    files(repo.root.join(".git/objects/pack"))
}

fn is_of(name: &str, ending: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, of)| of == ending)
}

fn files(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<_> = entries
        .map(|entry| name(entry.expect("readable")))
        .collect();
    names.sort();
    names
}

/// Returns the kinds of the loose objects.
fn loose(repo: &Repo) -> Vec<String> {
    let objects = repo.root.join(".git/objects");
    let folders = files(objects.clone());
    let folders = folders.iter().filter(|name| name.len() == 2);
    let ids = folders.flat_map(|folder| {
        let names = files(objects.join(folder)).into_iter();
        names.map(move |name| format!("{folder}{name}"))
    });
    let kind = |id: String| repo.git(&["cat-file", "-t", &id]).trim_end().to_owned();
    ids.map(kind).collect()
}

/// Returns the ids in the packs.
fn packed(repo: &Repo) -> Vec<String> {
    let mut ids = Vec::new();
    for index in packs(repo).iter().filter(|name| is_of(name, "idx")) {
        let index = format!(".git/objects/pack/{index}");
        let told = repo.git(&["verify-pack", "-v", &index]);
        let of_objects = told.lines().filter(|line| line.find(' ') == Some(40));
        ids.extend(of_objects.map(|line| line[..40].to_owned()));
    }
    ids
}

/// Asserts that HEAD and the index hold the pages as git itself would store them, and that all is sound.
#[track_caller]
fn holds(repo: &Repo, paths: &[String]) {
    repo.is_sound();
    assert_eq!(repo.status(), [""; 0]);
    // What git makes of the very files, into an index of its own.
    let ours = repo.git(&["rev-parse", "HEAD^{tree}"]);
    repo.git(&["read-tree", "--empty"]);
    repo.git(&["add", "--", ".", ":!.wiki-sync"]);
    assert_eq!(repo.git(&["write-tree"]), ours);
    for path in paths {
        let text = repo.git(&["cat-file", "blob", &format!("HEAD:{path}")]);
        assert!(text == repo.read(path), "{path}");
    }
    let left = packs(repo);
    let known = |name: &String| {
        ["pack", "idx", "rev"]
            .iter()
            .any(|ending| name.starts_with("pack-") && is_of(name, ending))
    };
    assert!(left.iter().all(known), "{left:?}");
}

#[test]
fn from_100_new_pages_on_all_but_the_commit_is_one_pack() {
    let repo = Repo::empty();
    let paths = write_pages(&repo, "many", 100);
    bring(&repo, &mut repo.store(), &paths);
    assert_eq!(loose(&repo), ["commit"]);
    let names = packs(&repo);
    assert_eq!(names.len(), 2, "{names:?}");
    // As git's own: named after its content, and nobody's to write to.
    let pack = repo.root.join(".git/objects/pack").join(&names[1]);
    let mode = fs::metadata(&pack).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o444);
    let bytes = fs::read(&pack).expect("readable");
    let trailer = super::super::stamp::hex(bytes.last_chunk::<20>().expect("long enough"));
    assert_eq!(names[1], format!("pack-{trailer}.pack"));
    // Four folders, wiki-output and the root.
    assert_eq!(packed(&repo).len(), 100 + 6);
    // Git's own index of that pack is the same, byte for byte.
    let copy = repo.root.with_file_name("copy.pack");
    fs::copy(&pack, &copy).expect("copied");
    let named = repo.git(&["index-pack", "--strict", &copy.display().to_string()]);
    assert!(named.contains(&trailer), "{named}");
    let index = fs::read(pack.with_extension("idx")).expect("readable");
    assert!(index == fs::read(copy.with_extension("idx")).expect("readable"));
    holds(&repo, &paths);
}

#[test]
fn below_100_new_pages_there_is_no_pack() {
    let repo = Repo::empty();
    let paths = write_pages(&repo, "few", 99);
    bring(&repo, &mut repo.store(), &paths);
    assert_eq!(packs(&repo), [""; 0]);
    assert_eq!(loose(&repo).len(), 99 + 6 + 1);
    holds(&repo, &paths);
    // What counts is what is new: the first three are there by another name, others twice.
    let mut paths = write_pages(&repo, "others", 99);
    for (at, path) in paths.clone().iter().enumerate() {
        let copy = path.replace("page", "copy");
        let of = if at < 3 {
            format!("wiki-output/few 0/page {at}.md")
        } else {
            path.clone()
        };
        repo.write(&copy, &repo.read(&of));
        paths.push(copy);
    }
    bring(&repo, &mut repo.store(), &paths);
    assert_eq!(packs(&repo), [""; 0]);
    holds(&repo, &paths);
}

#[test]
fn two_large_commits_are_two_packs_and_what_is_there_is_not_packed_again() {
    let elsewhere = Repo::empty();
    elsewhere.write("lent.md", "# Lent\n");
    let lent = elsewhere.git(&["hash-object", "-w", "lent.md"]);
    let repo = Repo::empty();
    let alternates = repo.root.join(".git/objects/info/alternates");
    let objects = elsewhere.root.join(".git/objects");
    fs::write(alternates, format!("{}\n", objects.display())).expect("written");
    let first = write_pages(&repo, "first", 101);
    let own = repo.git(&["hash-object", "-w", &first[7]]);
    bring(&repo, &mut repo.store(), &first);
    let mut second = write_pages(&repo, "second", 101);
    let twin = "wiki-output/second 0/twin.md".to_owned();
    repo.write(&twin, &repo.read(&first[0]));
    let borrower = "wiki-output/second 0/borrower.md".to_owned();
    repo.write(&borrower, "# Lent\n");
    second.extend([twin, borrower]);
    bring(&repo, &mut repo.store(), &second);
    assert_eq!(packs(&repo).len(), 4);
    let mut ids = packed(&repo);
    for known in [own, lent] {
        assert!(!ids.iter().any(|id| *id == known.trim_end()));
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "packed twice");
    let mut left = loose(&repo);
    left.sort();
    assert_eq!(left, ["blob", "commit", "commit"]);
    holds(&repo, &[first, second].concat());
}

#[test]
fn a_page_of_no_bytes_and_one_of_millions_are_packed() {
    for level in ["0", "1", "-1", "9", "77"] {
        let repo = Repo::empty();
        repo.set("pack.compression", level);
        let mut paths = write_pages(&repo, "many", 100);
        let mut seed = 1_u64;
        let mut noise = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:x}", seed >> 32)
        };
        let noise: String = (0..400_000).map(|_| noise()).collect();
        for (name, text) in [
            ("empty", ""),
            ("noise", &*noise),
            ("blank", &" ".repeat(4 << 20)),
            ("fifteen", &"x".repeat(15)),
            ("sixteen", &"x".repeat(16)),
            ("2047", &"x".repeat(2047)),
            ("2048", &"x".repeat(2048)),
        ] {
            let path = format!("wiki-output/{name}.md");
            repo.write(&path, text);
            paths.push(path);
        }
        bring(&repo, &mut repo.store(), &paths);
        assert_eq!(packs(&repo).len(), 2, "level {level}");
        if level != "77" {
            holds(&repo, &paths);
        }
    }
}

#[test]
fn where_there_is_no_folder_for_packs_the_objects_are_loose_as_ever() {
    let repo = Repo::with_pages();
    let folder = repo.root.join(".git/objects/pack");
    fs::remove_dir(&folder).expect("empty");
    let paths = write_pages(&repo, "many", 100);
    bring(&repo, &mut repo.store(), &paths);
    holds(&repo, &paths);
    let loose_now = loose(&repo).len();
    assert!(loose_now > 100);
    // It was made for the next.
    let more = write_pages(&repo, "more", 100);
    bring(&repo, &mut repo.store(), &more);
    assert_eq!(loose(&repo).len(), loose_now + 1);
    holds(&repo, &more);
    // A file in its place.
    let repo = Repo::with_pages();
    let folder = repo.root.join(".git/objects/pack");
    fs::remove_dir(&folder).expect("empty");
    fs::write(&folder, "a file").expect("written");
    bring(&repo, &mut repo.store(), &write_pages(&repo, "many", 100));
    assert_eq!(repo.status(), [""; 0]);
}

#[test]
fn a_linked_work_tree_puts_its_pack_where_all_see_it() {
    let main = Repo::with_pages();
    let beside = main.root.with_file_name("beside");
    main.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "other",
        &beside.display().to_string(),
    ]);
    let repo = main.at(beside);
    let paths = write_pages(&repo, "many", 100);
    bring(&repo, &mut repo.store(), &paths);
    assert_eq!(packs(&main).len(), 2);
    repo.is_sound();
    assert_eq!(repo.status(), [""; 0]);
    main.is_sound();
}

#[test]
fn pages_that_are_converted_and_an_index_that_git_writes_go_with_a_pack() {
    let repo = Repo::with_pages();
    repo.set("core.autocrlf", "input");
    repo.git(&["update-index", "--split-index"]);
    let paths = write_pages(&repo, "many", 100);
    for path in &paths {
        repo.write(path, &format!("# {path}\r\nof two lines\r\n"));
    }
    bring(&repo, &mut repo.store(), &paths);
    assert_eq!(packs(&repo).len(), 2);
    repo.is_sound();
    assert_eq!(repo.status(), [""; 0]);
    let text = repo.git(&["show", &format!("HEAD:{}", paths[42])]);
    assert_eq!(text, format!("# {}\nof two lines\n", paths[42]));
}

#[test]
fn killed_after_any_step_the_next_start_leaves_the_pack_to_git() {
    for step in [
        Step::Packed,
        Step::Objects,
        Step::Journal,
        Step::Linked,
        Step::RefMoved,
        Step::IndexPlaced,
    ] {
        let repo = Repo::with_pages();
        let paths = write_pages(&repo, "many", 110);
        let changes: Vec<_> = paths.iter().map(|path| repo.put(path)).collect();
        let mut store = repo.store();
        store.watch = Box::new(move |at| at != step);
        store.apply(&changes, 1).expect_err("killed");
        drop(store);
        assert!(repo.try_git(&["fsck", "--strict"]), "{step:?}");
        // Kept while the commit is under way.
        repo.git(&["repack", "-adq"]);
        let kept = packs(&repo).iter().any(|name| is_of(name, "keep"));
        assert!(kept, "{step:?}");
        repo.store().recover().expect("recovers");
        let kept = packs(&repo).iter().any(|name| is_of(name, "keep"));
        assert!(!kept, "{step:?}");
        // One pack for the user's, and ours; what no commit came to hold goes with git's gc.
        let moved = matches!(step, Step::RefMoved | Step::IndexPlaced);
        repo.git(&["gc", "-q", "--prune=now"]);
        let blob = repo.git(&["hash-object", &paths[0]]);
        assert_eq!(repo.try_git(&["cat-file", "-e", blob.trim_end()]), moved);
        // A page that changed meanwhile.
        repo.write(&paths[3], "# another\n");
        repo.store()
            .apply(&changes_of(&repo, &paths), 1)
            .expect("usable");
        repo.git(&["add", "--", ".", ":!.wiki-sync"]);
        assert_eq!(repo.status(), [""; 0], "{step:?}");
        holds(&repo, &paths);
    }
}

/// Lets something happen the first time that a commit comes to this step; returns how often one came there.
fn once_at(store: &mut GitStore, step: Step, act: impl Fn() + Send + 'static) -> Arc<AtomicU32> {
    let times = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&times);
    store.watch = Box::new(move |at| {
        if at == step && seen.fetch_add(1, Ordering::Relaxed) == 0 {
            act();
        }
        true
    });
    times
}

fn changes_of(repo: &Repo, paths: &[String]) -> Vec<Change> {
    paths.iter().map(|path| repo.put(path)).collect()
}

#[test]
fn gc_beside_us_takes_nothing_from_a_commit() {
    for (step, args) in [
        (Step::Packed, &["gc", "-q", "--prune=now"][..]),
        (Step::Packed, &["repack", "-adq"]),
        (Step::Objects, &["gc", "-q", "--prune=now"]),
        (Step::Journal, &["repack", "-adq"]),
        (Step::Checked, &["repack", "-adq"]),
        (Step::RefMoved, &["gc", "-q", "--prune=now"]),
        (Step::RefMoved, &["repack", "-adq"]),
    ] {
        let repo = Repo::with_pages();
        let paths = write_pages(&repo, "many", 110);
        let beside = repo.at(repo.root.clone());
        let mut store = repo.store_waiting(Duration::from_mins(1));
        let times = once_at(&mut store, step, move || {
            beside.git(args);
        });
        bring(&repo, &mut store, &paths);
        assert_ne!(times.load(Ordering::Relaxed), 0, "{step:?}");
        holds(&repo, &paths);
    }
}

#[test]
fn a_pack_that_is_gone_before_the_branch_moves_is_written_again() {
    for taken in ["idx", "pack"] {
        let repo = Repo::with_pages();
        let paths = write_pages(&repo, "many", 110);
        let beside = repo.at(repo.root.clone());
        let mut store = repo.store_waiting(Duration::from_mins(1));
        let times = once_at(&mut store, Step::Linked, move || {
            for name in packs(&beside) {
                if is_of(&name, "idx") || is_of(&name, taken) {
                    let path = beside.root.join(".git/objects/pack").join(name);
                    fs::remove_file(path).expect("there");
                }
            }
        });
        bring(&repo, &mut store, &paths);
        assert_eq!(times.load(Ordering::Relaxed), 2, "it was begun anew");
        holds(&repo, &paths);
    }
}

#[test]
fn a_keep_that_is_not_ours_stays() {
    let repo = Repo::with_pages();
    repo.git(&["repack", "-adq"]);
    let pack = packs(&repo)[0].clone();
    let name = pack.split('.').next().expect("a name");
    let keep = repo.root.join(format!(".git/objects/pack/{name}.keep"));
    for note in [name, "pack-", "", "../../../HEAD"] {
        fs::write(&keep, "the user's").expect("written");
        fs::write(repo.root.join(".git/wiki-sync-pack"), note).expect("written");
        repo.store().recover().expect("recovers");
        assert!(keep.exists());
        repo.is_sound();
    }
}
