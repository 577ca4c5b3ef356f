//! Random work of a user's in his repository, with drains of the built binary in between.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::dice::Dice;
use crate::wiki::Wiki;

const FILES: [&str; 8] = [
    "wiki-output/a.md",
    "wiki-output/b.md",
    "wiki-output/sub/c.md",
    "wiki-output/sub/d.md",
    "wiki-output/한글.md",
    "wiki-output/picture.png",
    "other.txt",
    "src/more.txt",
];

fn is_page(path: &str) -> bool {
    path.starts_with("wiki-output/") && path != FILES[5]
}

/// Does one thing that a user may do; his commands may fail. Returns what it was.
fn act(wiki: &Wiki, dice: &mut Dice, round: usize) -> String {
    let file = FILES[dice.below(FILES.len())];
    let other = FILES[dice.below(FILES.len())];
    let there = wiki.root().join(file).exists();
    let branch = format!("b{}", dice.below(3));
    let said: Vec<&str> = match dice.below(23) {
        0..=4 => {
            wiki.write(file, format!("# {file} {}\n\n[[a]] [b](b.md)\n", round % 5));
            return format!("write {file}");
        }
        5 if there => {
            wiki.remove(file);
            return format!("delete {file}");
        }
        6 if there => {
            let path = wiki.root().join(file);
            let mode = fs::metadata(&path).unwrap().permissions().mode() ^ 0o111;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            return format!("chmod {file} {mode:o}");
        }
        7 if there => {
            fs::create_dir_all(wiki.root().join(other).parent().unwrap()).unwrap();
            vec!["mv", "-f", file, other]
        }
        8 | 9 => vec!["add", "-A", "--", file],
        10 => vec!["reset", "-q", "--", file],
        11 => vec!["commit", "-qm", "user"],
        12 => vec!["commit", "-qam", "user"],
        13 => vec!["commit", "-q", "--amend", "--no-edit"],
        14 => vec!["checkout", "-q", "-b", &branch],
        15 => vec!["checkout", "-q", &branch],
        16 => vec!["reset", "-q", "--mixed", "HEAD~1"],
        17 => vec!["reset", "-q", "--soft", "HEAD~1"],
        18 if dice.below(3) == 0 => vec!["reset", "-q", "--hard", "HEAD~1"],
        19 => vec!["stash", "-q", "-u"],
        20 => vec!["stash", "pop", "-q"],
        21 => vec!["update-index", "--intent-to-add", "--", file],
        22 => vec!["restore", "--", file],
        _ => vec!["rm", "-q", "--cached", "--ignore-unmatch", "--", file],
    };
    let ran = wiki.try_git(&said);
    format!("git {said:?}: {:?}", ran.code)
}

/// Every index entry with mode, blob, stage and flags, without its stat data.
fn entries(wiki: &Wiki) -> Vec<String> {
    let list = wiki.git(&[
        "-c",
        "core.quotePath=false",
        "ls-files",
        "--stage",
        "-v",
        "--debug",
    ]);
    let mut entries: Vec<String> = Vec::new();
    for line in list.lines() {
        if !line.starts_with("  ") {
            entries.push(line.to_owned());
        } else if let (Some((_, flags)), Some(last)) =
            (line.split_once("flags:"), entries.last_mut())
        {
            last.push_str(flags);
        }
    }
    entries
}

fn paths(text: &str) -> BTreeSet<String> {
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// What is staged, as name and blob.
fn staged(wiki: &Wiki) -> BTreeSet<String> {
    paths(&wiki.git(&["diff", "--cached", "--name-only", "--no-renames", "-z"]))
}

/// What the user's next plain commit would do to the pages beyond what he staged himself.
fn would_revert(wiki: &Wiki, before: &BTreeSet<String>) -> Vec<String> {
    let now = staged(wiki).into_iter();
    now.filter(|path| !before.contains(path)).collect()
}

#[allow(clippy::too_many_lines)] // one story, told in order
fn play(seed: u64, rounds: usize) -> usize {
    let wiki = Wiki::small();
    wiki.write("other.txt", "other\n");
    wiki.git(&["add", "other.txt", "wiki-output/a.md"]);
    wiki.git(&["commit", "-qm", "user"]);
    let mut dice = Dice::of(seed);
    let mut log: Vec<String> = Vec::new();
    let mut made = 0;
    for round in 0..rounds {
        for _ in 0..=dice.below(4) {
            log.push(act(&wiki, &mut dice, round));
        }
        log.push("drain".into());
        let tail = || format!("seed {seed}: {:#?}", &log[log.len().saturating_sub(14)..]);
        let files = || FILES.map(|file| fs::read(wiki.root().join(file)).ok());
        let (before, was_staged, disk) = (entries(&wiki), staged(&wiki), files());
        let head = wiki.git(&["rev-parse", "HEAD"]);
        let ran = wiki.ws(&["drain", "--no-wait", "--allow-mass-delete", "--json"]);
        assert!(
            matches!(ran.code, Some(0 | 75)),
            "{:?} {} {}",
            ran.code,
            ran.err,
            tail()
        );
        assert_eq!(files(), disk, "{}", tail());
        let now = wiki.git(&["rev-parse", "HEAD"]);
        let mut committed = BTreeSet::new();
        if head != now {
            made += 1;
            let range = format!("{}..HEAD", head.trim());
            committed = paths(&wiki.git(&["diff", "--name-only", "--no-renames", "-z", &range]));
            assert!(
                committed.iter().all(|path| is_page(path)),
                "{committed:?} {}",
                tail()
            );
            // A commit holds the pages as they are on disk, and the index with it.
            for path in &committed {
                let held = wiki
                    .try_git(&["cat-file", "-e", &format!("HEAD:{path}")])
                    .code;
                let there = wiki.root().join(path).exists();
                assert_eq!(held == Some(0), there, "{path} {}", tail());
                if there {
                    let blob = wiki.git(&["rev-parse", &format!("HEAD:{path}")]);
                    assert_eq!(wiki.git(&["hash-object", path]), blob, "{path} {}", tail());
                    assert_eq!(
                        wiki.git(&["rev-parse", &format!(":{path}")]),
                        blob,
                        "{path} {}",
                        tail()
                    );
                }
            }
        }
        let others = |entries: Vec<String>| -> Vec<String> {
            let ours = |entry: &String| {
                let name = entry.rsplit_once('\t').map_or("", |(_, rest)| rest);
                committed
                    .iter()
                    .any(|path| name.trim_end().starts_with(path.as_str()))
            };
            entries.into_iter().filter(|entry| !ours(entry)).collect()
        };
        assert_eq!(others(entries(&wiki)), others(before), "{}", tail());
        assert_eq!(would_revert(&wiki, &was_staged), [""; 0], "{}", tail());
        // What is still dirty in the pages is what the user has staged otherwise, or is in conflict.
        if ran.code == Some(0) {
            let dirty = wiki.git(&[
                "diff",
                "HEAD",
                "--name-only",
                "--no-renames",
                "-z",
                "--",
                "wiki-output/*.md",
            ]);
            let untracked = wiki.git(&["ls-files", "--others", "-z", "--", "wiki-output/*.md"]);
            let modes = |path: &String| {
                // A mode that the user changed and did not stage is his.
                let diff = wiki.git(&["diff", "HEAD", "--numstat", "--", path]);
                diff.trim().is_empty() || diff.starts_with("0\t0\t")
            };
            let mut dirty = paths(&format!("{dirty}{untracked}"));
            // A removal that he only staged leaves a file as HEAD has it, which git calls untracked.
            dirty.retain(|path| !modes(path) && !was_staged.contains(path));
            assert_eq!(dirty, BTreeSet::new(), "{}", tail());
        }
        if round % 8 == 7 {
            let fsck = wiki.try_git(&["fsck", "--strict", "--no-dangling"]);
            assert_eq!((fsck.code, fsck.err.as_str()), (Some(0), ""), "{}", tail());
        }
        assert!(!wiki.root().join(".git/index.lock").exists(), "{}", tail());
    }
    made
}

#[test]
fn whatever_the_user_does_between_drains_his_work_stays_and_no_page_is_reverted() {
    let made: usize = (1..=2).map(|seed| play(seed, 16)).sum();
    assert!(made > 8, "only {made} drains committed");
}

#[test]
#[ignore = "twenty stories of thirty rounds: for scripts/test --long"]
fn whatever_the_user_does_between_drains_in_twenty_stories() {
    let made: usize = (100..120).map(|seed| play(seed, 30)).sum();
    assert!(made > 150, "only {made} drains committed");
}
