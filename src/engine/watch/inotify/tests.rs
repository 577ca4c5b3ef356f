//! The real kernel, real files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Inotify;
use crate::engine::watch::ears::Ears;
use crate::engine::watch::source::{Event, Source};
use crate::wiki::{Wiki, WikiSettings};

struct Place {
    root: TempDir,
    wiki: Wiki,
}

impl Place {
    fn new() -> Self {
        let root = TempDir::new().expect("a folder");
        fs::create_dir(root.path().join("wiki-output")).expect("made");
        let wiki = Wiki::open(root.path(), &WikiSettings::default()).expect("a wiki");
        Self { root, wiki }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    fn cage(&self) -> std::path::PathBuf {
        self.path(".wiki-sync/canary")
    }

    fn ears(&self, source: Box<dyn Source>) -> Ears {
        let mut ears = Ears::new(Ok(source), Duration::from_secs(1));
        ears.open_all(&self.wiki, &|_| false).expect("opened");
        ears
    }

    fn inotify(&self) -> Box<dyn Source> {
        Box::new(Inotify::open(&self.wiki, &self.cage()).expect("events"))
    }
}

/// Listens as the watcher does, until all the files were heard of.
fn hear(place: &Place, ears: &mut Ears, wanted: &[&str]) {
    let mut missing: BTreeSet<_> = wanted.iter().map(|&path| path.to_owned()).collect();
    let end = Instant::now() + Duration::from_secs(20);
    let mut events = Vec::new();
    while !missing.is_empty() {
        assert!(Instant::now() < end, "not heard: {missing:?}");
        ears.next(&place.wiki, Duration::from_millis(100), &mut events);
        for event in events.drain(..) {
            match event {
                Event::Changed(path) => drop(missing.remove(&path)),
                Event::Folder(folder) => {
                    let met = &mut |path: crate::model::PagePath| {
                        missing.remove(path.as_str());
                    };
                    ears.open_folder(&place.wiki, &|_| false, &folder, met)
                        .expect("opened");
                }
                Event::FolderGone(folder) => ears.close_folder(&folder),
                Event::Gone(_) | Event::Rescan(_) | Event::Canary | Event::Broken(_) => {}
            }
        }
    }
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, "# x\n").expect("written");
}

#[test]
fn a_page_in_folders_made_at_once_is_heard_of() {
    let place = Place::new();
    let mut ears = place.ears(place.inotify());
    for n in 0..200 {
        let path = format!("wiki-output/{n}/a/b/c/p.md");
        write(&place.path(&path));
        hear(&place, &mut ears, &[&path]);
    }
}

#[test]
fn a_folder_moved_within_the_wiki_is_heard_under_its_new_name() {
    let place = Place::new();
    write(&place.path("wiki-output/docs/sub/a.md"));
    let mut ears = place.ears(place.inotify());
    for (from, to) in [("docs", "docs2"), ("docs2", "docs3"), ("docs3", "docs")] {
        let path = |name: &str| place.path(&format!("wiki-output/{name}"));
        fs::rename(path(from), path(to)).expect("moved");
        let page = format!("wiki-output/{to}/sub/a.md");
        hear(&place, &mut ears, &[&page]);
        // Armed again: an edit is heard by itself.
        write(&place.path(&page));
        hear(&place, &mut ears, &[&page]);
    }
}

#[test]
fn a_folder_that_was_moved_before_its_going_was_heard_stays_watched() {
    let place = Place::new();
    write(&place.path("wiki-output/old/a.md"));
    let mut ears = place.ears(place.inotify());
    // Both are told at once, and by then the folder has its new name.
    fs::create_dir(place.path("wiki-output/new")).expect("made");
    fs::rename(
        place.path("wiki-output/old"),
        place.path("wiki-output/new/old"),
    )
    .expect("moved");
    hear(&place, &mut ears, &["wiki-output/new/old/a.md"]);
    for _ in 0..3 {
        let mut rest = Vec::new();
        ears.next(&place.wiki, Duration::from_millis(50), &mut rest);
        for event in rest {
            if let Event::FolderGone(folder) = event {
                ears.close_folder(&folder);
            }
        }
    }
    write(&place.path("wiki-output/new/old/a.md"));
    hear(&place, &mut ears, &["wiki-output/new/old/a.md"]);
}

#[test]
fn reading_hidden_folders_and_links_are_not_heard_of() {
    let place = Place::new();
    for path in [
        "wiki-output/a.md",
        "wiki-output/.obsidian/x.md",
        "wiki-output/.git/y.md",
    ] {
        write(&place.path(path));
    }
    fs::create_dir(place.path("outside")).expect("made");
    std::os::unix::fs::symlink("..", place.path("wiki-output/up")).expect("linked");
    std::os::unix::fs::symlink("../outside", place.path("wiki-output/out")).expect("linked");
    let mut ears = place.ears(place.inotify());
    for path in [
        "wiki-output/.obsidian/x.md",
        "wiki-output/.git/y.md",
        "outside/z.md",
        ".wiki-sync/s.md",
    ] {
        write(&place.path(path));
    }
    fs::read(place.path("wiki-output/a.md")).expect("read");
    place.wiki.walk(&mut |_| Ok(())).expect("walked");
    let mut events = Vec::new();
    // What comes after them all.
    write(&place.path("wiki-output/last.md"));
    let end = Instant::now() + Duration::from_secs(20);
    let last = Event::Changed("wiki-output/last.md".into());
    while !events.contains(&last) {
        assert!(Instant::now() < end, "{events:?}");
        ears.next(&place.wiki, Duration::from_millis(100), &mut events);
    }
    assert!(events.iter().all(|event| *event == last), "{events:?}");
}

#[test]
fn the_pages_folder_that_comes_again_is_watched_again() {
    let place = Place::new();
    let mut ears = place.ears(place.inotify());
    for n in 0..3 {
        fs::remove_dir_all(place.path("wiki-output")).expect("removed");
        let page = format!("wiki-output/p{n}.md");
        write(&place.path(&page));
        hear(&place, &mut ears, &[&page]);
        let page = format!("wiki-output/q{n}.md");
        write(&place.path(&page));
        hear(&place, &mut ears, &[&page]);
    }
}
