//! Everything outside a page that decides which blob git makes of it, as one short mark.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use git2::{Config, Oid, Repository};
use sha1::{Digest as _, Sha1};

use super::index_entry::Entry;
use super::index_file::IndexFile;
use super::stamp::{Stamp, hex};

/// What git calls the file in each folder.
const FILE: &str = ".gitattributes";

/// The folders whose attributes reach a page, as one state of the index shows them.
#[derive(Debug)]
pub(super) struct Folders {
    /// The index they were taken from.
    stamp: Option<Stamp>,
    /// By folder, the root being the empty path: the blob that the index holds of its attributes.
    folders: BTreeMap<String, Option<Oid>>,
}

impl Folders {
    /// Returns the folders from the root down to `pages_dir`, and those below it that hold something the
    /// index knows.
    pub(super) fn of(index: &IndexFile, stamp: Option<&Stamp>, pages_dir: &str) -> Self {
        let mut folders = BTreeMap::new();
        add_with_those_above(&mut folders, pages_dir);
        let mut last = "";
        for entry in index.under(pages_dir) {
            let path = std::str::from_utf8(&entry.path).unwrap_or_default();
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
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
            folders,
        }
    }

    /// Says whether they were taken from the index with this stamp.
    pub(super) fn are_of(&self, stamp: Option<&Stamp>) -> bool {
        self.stamp.as_ref() == stamp
    }

    /// Returns eight hex digits that change with the attributes and the configuration by which git makes a
    /// page's blob; `None` when nothing is said anywhere. What cannot be read is taken for absent.
    pub(super) fn mark(&self, repo: &Repository, root: &Path) -> Option<String> {
        let mut said = Said::default();
        let config = repo.config().and_then(|mut config| config.snapshot()).ok();
        if let Some(config) = &config {
            said.configured(config);
        }
        said.file("system", &PathBuf::from("/etc/gitattributes"));
        if let Some(path) = config.as_ref().and_then(users_file) {
            said.file("user", &path);
        }
        said.file("info", &repo.commondir().join("info/attributes"));
        for (folder, held) in &self.folders {
            let name = file_in(folder);
            if !said.file(&name, &root.join(&name))
                && let Some(blob) = held.and_then(|id| repo.find_blob(id).ok())
            {
                // As git: what is not in the work tree is read from the index.
                said.add(&name, blob.content());
            }
        }
        if said.filters
            && let Some(config) = &config
        {
            said.programs(config);
        }
        said.mark()
    }
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
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// Returns the file of the user's own attributes: `core.attributesFile`, or where git looks without it.
fn users_file(config: &Config) -> Option<PathBuf> {
    if let Ok(path) = config.get_path("core.attributesFile") {
        return Some(path);
    }
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = folder("XDG_CONFIG_HOME").map_or_else(
        || folder("HOME").map(|home| PathBuf::from(home).join(".config")),
        |xdg| Some(PathBuf::from(xdg)),
    )?;
    Some(base.join("git/attributes"))
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

    /// Adds a file's content; returns whether there is such a file. Only of a file: a pipe would never end.
    fn file(&mut self, name: &str, path: &Path) -> bool {
        let is_file = fs::metadata(path).is_ok_and(|meta| meta.is_file());
        let content = is_file.then(|| fs::read(path).ok()).flatten();
        if let Some(content) = &content {
            self.add(name, content);
        }
        content.is_some()
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

    fn mark(self) -> Option<String> {
        self.anything.then(|| hex(&self.hash.finalize()[..4]))
    }
}
