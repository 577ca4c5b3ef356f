//! What is told becomes what happened; and the real system with real files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use notify::event::{CreateKind, Flag, RemoveKind};
use notify::{Event as Told, EventKind};

use super::{Events, Translate};
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

    fn events(&self) -> Box<dyn Source> {
        Box::new(Events::open(&self.wiki, &self.cage()).expect("events"))
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
    let mut ears = place.ears(place.events());
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
    let mut ears = place.ears(place.events());
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
    let mut ears = place.ears(place.events());
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
    let mut ears = place.ears(place.events());
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
    let mut ears = place.ears(place.events());
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

fn translate(root: &Path, pages_dir: &str) -> Translate {
    Translate {
        root: root.into(),
        pages_dir: pages_dir.into(),
        cage: root.join(".wiki-sync/canary"),
    }
}

#[test]
fn lost_events_are_seen_although_they_come_without_a_path() {
    let told = Told::new(EventKind::Other).set_flag(Flag::Rescan);
    assert!(told.paths.is_empty());
    let events = translate(Path::new("/nowhere"), "w").all(Ok(told));
    assert!(matches!(events[..], [Event::Rescan(_)]), "{events:?}");
}

#[test]
fn the_disk_and_not_the_kind_of_an_event_says_what_is_there() {
    let root = TempDir::new().expect("a folder");
    fs::create_dir_all(root.path().join("a/w")).expect("made");
    fs::write(root.path().join("a/w/there.md"), "x").expect("written");
    let translate = translate(root.path(), "a/w");
    let told = |kind, name: &str| {
        let told = Told::new(kind).add_path(root.path().join(name));
        translate.all(Ok(told))
    };
    assert_eq!(
        told(EventKind::Remove(RemoveKind::File), "a/w/there.md"),
        [Event::Changed("a/w/there.md".into())]
    );
    assert_eq!(
        told(EventKind::Create(CreateKind::File), "a/w/gone.md")[0],
        Event::Gone("a/w/gone.md".into())
    );
    // What is above the pages comes with them.
    assert_eq!(
        told(EventKind::Create(CreateKind::Folder), "a"),
        [Event::Folder("a/w".into())]
    );
    for elsewhere in ["elsewhere.md", "a/elsewhere.md", ""] {
        assert!(told(EventKind::Create(CreateKind::File), elsewhere).is_empty());
    }
}
