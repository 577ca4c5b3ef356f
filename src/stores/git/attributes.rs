//! Everything outside a page that decides which blob git makes of it, as one short mark.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{Config, Oid, Repository};
use sha1::{Digest as _, Sha1};

use super::index_entry::Entry;
use super::index_file::IndexFile;
use super::plan::Move;
use super::stamp::{Stamp, hex};

/// What git calls the file in each folder.
const FILE: &str = ".gitattributes";

/// The folders whose attributes reach a page, as one state of the index shows them.
#[derive(Debug)]
pub(super) struct Folders {
    /// The index they were taken from.
    stamp: Option<Stamp>,
    /// By folder, the root being the empty path: the blob that the index holds of its attributes.
    held: BTreeMap<String, Option<Oid>>,
    /// What the last look at all of them found.
    found: Option<Found>,
}

/// What was said everywhere at one moment.
#[derive(Debug)]
struct Found {
    mark: Option<String>,
    /// What is said outside the folders.
    around: Digest,
    /// By folder that says anything: what.
    folders: BTreeMap<String, Digest>,
    /// The programs behind filters, where some attribute names one.
    programs: Option<Digest>,
}

type Digest = [u8; 20];

impl Folders {
    /// Returns the folders from the root down to `pages_dir`, and those below it that hold something the
    /// index knows.
    pub(super) fn of(index: &IndexFile, stamp: Option<&Stamp>, pages_dir: &str) -> Self {
        let mut folders = BTreeMap::new();
        add_with_those_above(&mut folders, pages_dir);
        let mut last = "";
        for entry in index.under(pages_dir) {
            let path = std::str::from_utf8(&entry.path).unwrap_or_default();
            let folder = folder_of(path);
            if folder != last {
                add_with_those_above(&mut folders, folder);
                last = folder;
            }
        }
        for (folder, held) in &mut folders {
            let entries = index.at(&file_in(folder));
            *held = entries
                .iter()
                .find(|entry| entry.stage() == 0)
                .map(Entry::id);
        }
        Self {
            stamp: stamp.cloned(),
            held: folders,
            found: None,
        }
    }

    /// Says whether they were taken from the index with this stamp.
    pub(super) fn are_of(&self, stamp: Option<&Stamp>) -> bool {
        self.stamp.as_ref() == stamp
    }

    /// Takes them for those of the index that we have made of the one they were taken from. What went may have been the
    /// last of its folder: then `None`.
    pub(super) fn follow(mut self, moves: &[Move<'_>], stamp: Option<&Stamp>) -> Option<Self> {
        let same = |page: &Move<'_>| page.after.is_some() && !page.path.as_str().ends_with(FILE);
        self.stamp = stamp.cloned();
        moves.iter().all(same).then_some(self)
    }

    /// Returns eight hex digits that change with the attributes and the configuration by which git makes a
    /// page's blob; `None` when nothing is said anywhere. What cannot be read is taken for absent.
    pub(super) fn mark(&mut self, repo: &Repository, root: &Path) -> Option<String> {
        let config = snapshot(repo);
        let mut said = around(repo, config.as_ref());
        let mut found = Found {
            mark: None,
            around: said.digest(),
            folders: BTreeMap::new(),
            programs: None,
        };
        for (folder, held) in &self.held {
            if let Some(content) = content_in(repo, root, folder, *held) {
                found
                    .folders
                    .insert(folder.clone(), Sha1::digest(&content).into());
                said.add(&file_in(folder), &content);
            }
        }
        if said.filters
            && let Some(config) = &config
        {
            found.programs = Some(programs(config));
            said.programs(config);
        }
        found.mark = said.mark();
        self.found.insert(found).mark.clone()
    }

    /// Returns the same, after a look at no more than what reaches these pages: the rest of the wiki is as the last look
    /// at all found it, and has no part in their blobs.
    pub(super) fn mark_for<'p>(
        &mut self,
        repo: &Repository,
        root: &Path,
        pages: impl Iterator<Item = &'p str>,
    ) -> Option<String> {
        let mut reach = BTreeMap::new();
        for page in pages {
            add_with_those_above(&mut reach, folder_of(page));
        }
        // The index knows nothing in a folder that came.
        for (folder, held) in &mut reach {
            *held = *self.held.entry(folder.clone()).or_default();
        }
        let config = snapshot(repo);
        let is_as_found = |found: &Found| {
            let here = |(folder, held): (&String, &Option<Oid>)| {
                let content = content_in(repo, root, folder, *held);
                let digest: Option<Digest> = content.map(|content| Sha1::digest(&content).into());
                found.folders.get(folder) == digest.as_ref()
            };
            let programs = |known| config.as_ref().map(programs) == Some(known);
            around(repo, config.as_ref()).digest() == found.around
                && found.programs.is_none_or(programs)
                && reach.iter().all(here)
        };
        match &self.found {
            Some(found) if is_as_found(found) => found.mark.clone(),
            Some(_) | None => self.mark(repo, root),
        }
    }
}

fn snapshot(repo: &Repository) -> Option<Config> {
    repo.config().and_then(|mut config| config.snapshot()).ok()
}

/// What is said outside the folders of the work tree.
fn around(repo: &Repository, config: Option<&Config>) -> Said {
    let mut said = Said::default();
    if let Some(config) = config {
        said.configured(config);
    }
    let files = [
        ("system", Some(PathBuf::from("/etc/gitattributes"))),
        ("user", config.and_then(users_file)),
        ("info", Some(repo.commondir().join("info/attributes"))),
    ];
    for (name, path) in files {
        if let Some(content) = path.and_then(|path| file(&path)) {
            said.add(name, &content);
        }
    }
    said
}

/// Returns what a folder says. As git: what is not in the work tree is read from the index.
fn content_in(repo: &Repository, root: &Path, folder: &str, held: Option<Oid>) -> Option<Vec<u8>> {
    let content = file(&root.join(file_in(folder)))
        .or_else(|| Some(repo.find_blob(held?).ok()?.content().to_vec()));
    content.filter(|content| !content.trim_ascii().is_empty())
}

/// Returns a file's content. Only of a file: a pipe would never end.
fn file(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file.then(|| fs::read(path).ok()).flatten()
}

/// Returns a digest of the programs behind filters.
fn programs(config: &Config) -> Digest {
    let mut said = Said::default();
    said.programs(config);
    said.digest()
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn file_in(folder: &str) -> String {
    if folder.is_empty() {
        FILE.to_owned()
    } else {
        format!("{folder}/{FILE}")
    }
}

fn add_with_those_above(folders: &mut BTreeMap<String, Option<Oid>>, mut folder: &str) {
    // Those above a folder that is known are known.
    while folders.insert(folder.to_owned(), None).is_none() && !folder.is_empty() {
        folder = folder_of(folder);
    }
}

/// Returns the file of the user's own attributes: `core.attributesFile`, or where git looks without it.
fn users_file(config: &Config) -> Option<PathBuf> {
    if let Ok(path) = config.get_path("core.attributesFile") {
        return Some(path);
    }
    Some(persons_config()?.join("git/attributes"))
}

/// Returns the folder of a person's settings, where git looks for its own: `$XDG_CONFIG_HOME`, else `~/.config`.
#[must_use]
pub fn persons_config() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    folder("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(folder("HOME")?).join(".config")))
}

/// What was said so far, hashed.
#[derive(Default)]
struct Said {
    hash: Sha1,
    anything: bool,
    /// Whether some attribute names a filter.
    filters: bool,
}

impl Said {
    fn add(&mut self, name: &str, content: &[u8]) {
        if content.trim_ascii().is_empty() {
            return;
        }
        self.anything = true;
        self.filters |= content.windows(7).any(|word| word == b"filter=");
        for part in [name.as_bytes(), content] {
            self.hash.update((part.len() as u64).to_be_bytes());
            self.hash.update(part);
        }
    }

    /// Adds the settings by which line ends are converted; those that say what holds anyway say nothing.
    fn configured(&mut self, config: &Config) {
        if let Ok(value) = config.get_string("core.autocrlf") {
            let value = value.to_ascii_lowercase();
            if value == "input" {
                self.add("core.autocrlf", b"input");
            } else if config.get_bool("core.autocrlf").unwrap_or(false) {
                self.add("core.autocrlf", b"true");
            }
        }
        if let Ok(value) = config.get_string("core.eol") {
            let value = value.to_ascii_lowercase();
            if value != "native" {
                self.add("core.eol", value.as_bytes());
            }
        }
    }

    /// Adds the programs behind filters, of which another may make another blob.
    fn programs(&mut self, config: &Config) {
        let mut programs = BTreeMap::new();
        let Ok(entries) = config.entries(Some(r"^filter\..*\.(clean|process|required)$")) else {
            return;
        };
        let _ = entries.for_each(|entry| {
            if entry.has_value()
                && let Ok(name) = entry.name()
            {
                programs.insert(name.to_owned(), entry.value_bytes().to_vec());
            }
        });
        for (name, program) in programs {
            self.add(&name, &program);
        }
    }

    fn digest(&self) -> Digest {
        self.hash.clone().finalize().into()
    }

    fn mark(self) -> Option<String> {
        self.anything.then(|| hex(&self.hash.finalize()[..4]))
    }
}
