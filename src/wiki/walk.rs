//! Walking the pages' folder.

use std::fs;
use std::io;
use std::path::Path;

use super::{FileStat, Wiki};
use crate::model::{Failure, FailureKind, PagePath, Within};

/// What a walk meets, in the order of the paths' bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A page.
    Page {
        /// Its path.
        path: PagePath,
        /// Its stat.
        stat: FileStat,
    },
    /// Something that looks like a page and is none.
    Skipped(Skipped),
    /// A folder that cannot be read: what is in it is unknown, so nothing of it must be taken as gone.
    Blind {
        /// Its path, without a slash at the end.
        folder: String,
        /// Why.
        failure: Failure,
    },
}

/// Says whether a path lies below a folder.
#[must_use]
pub fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Something that looks like a page and is none, or is not to be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Skipped {
    /// Its path; what is not UTF-8 in it is replaced.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// What is in a folder: its path (a folder's with a slash at the end), its kind, the entry itself, and why it is not to
/// be looked at.
type Inside = (
    String,
    fs::FileType,
    Option<fs::DirEntry>,
    Option<&'static str>,
);

impl Wiki {
    /// Lists a folder in the order of the whole paths below it.
    fn list(&self, entries: fs::ReadDir, name: &str) -> io::Result<Vec<Inside>> {
        let mut inside = Vec::new();
        for entry in entries {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let file_name = entry.file_name();
            let Some(text) = file_name.to_str() else {
                let shown = format!("{name}/{}", file_name.to_string_lossy());
                if kind.is_dir() || self.is_page(&shown) {
                    inside.push((shown, kind, None, Some("its name is not UTF-8")));
                }
                continue;
            };
            // A folder sorts as if its name ended in `/`, which is the order of whole paths.
            let path = format!("{name}/{text}{}", if kind.is_dir() { "/" } else { "" });
            inside.push((path, kind, Some(entry), None));
        }
        inside.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(inside)
    }

    /// Visits every page and everything that only looks like one, in the order of the paths' bytes.
    ///
    /// Reads one folder at a time, so memory does not grow with the wiki but with its largest folder. A
    /// missing pages' folder is an empty wiki.
    ///
    /// # Errors
    /// `Down` when the pages' folder itself cannot be read, or `visit` fails. A folder in it that cannot be read is
    /// told as [`Entry::Blind`].
    pub fn walk(&self, visit: &mut dyn FnMut(Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let top = self.root.join(&self.settings.pages);
        match fs::symlink_metadata(&top) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(unreadable(&top, &e)),
            Ok(_) => {
                let entries = fs::read_dir(&top).map_err(|e| unreadable(&top, &e))?;
                self.walk_folder(entries, &top, &self.settings.pages, &mut |_| true, visit)
            }
        }
    }

    /// Walks as [`Wiki::walk`] does, from a folder in the wiki downward. Before a folder is listed, `enter` is asked
    /// whether to: so a watch that it sets misses nothing. A folder that is missing, ignored, or no folder of the wiki
    /// is empty; no link is followed on the way to it.
    ///
    /// # Errors
    /// As [`Wiki::walk`], for the folder given.
    pub fn walk_at(
        &self,
        folder: &str,
        enter: &mut dyn FnMut(&str) -> bool,
        visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let top = self.root.join(folder);
        let way = self.way_to(folder);
        if !(way.map_err(|e| unreadable(&top, &e))? && enter(folder)) {
            return Ok(());
        }
        match fs::read_dir(&top) {
            Ok(entries) => self.walk_folder(entries, &top, folder, enter, visit),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(unreadable(&top, &e)),
        }
    }

    /// Walks as [`Wiki::walk`] does, and visits only what is meant. Folders in which nothing is are not looked into; one on
    /// the way that cannot be, and what stands in its place, is told.
    ///
    /// # Errors
    /// As [`Wiki::walk`].
    pub fn walk_within(
        &self,
        within: &Within,
        visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if within.is_everything() {
            return self.walk(visit);
        }
        self.walk_at(
            &self.settings.pages,
            &mut |folder| within.reaches(folder),
            &mut |entry| {
                let is_meant = match &entry {
                    Entry::Page { path, .. } => within.contains(path.as_str()),
                    Entry::Skipped(Skipped { path, .. }) | Entry::Blind { folder: path, .. } => {
                        within.reaches(path)
                    }
                };
                if is_meant { visit(entry) } else { Ok(()) }
            },
        )
    }

    /// Says whether a folder belongs to the wiki and is there, with neither a link nor another repository on the way.
    fn way_to(&self, folder: &str) -> io::Result<bool> {
        if !self.is_folder(folder) {
            return Ok(false);
        }
        let mut at = self.root.clone();
        for part in folder.split('/') {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(e),
            }
            let inside = at.strip_prefix(self.root.join(&self.settings.pages));
            if inside.is_ok_and(|inside| !inside.as_os_str().is_empty())
                && fs::symlink_metadata(at.join(".git")).is_ok()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says whether there is no page at all.
    ///
    /// # Errors
    /// As [`Wiki::walk`].
    pub fn is_empty(&self) -> Result<bool, Failure> {
        let mut found = false;
        let walked = self.walk(&mut |entry| {
            found |= matches!(entry, Entry::Page { .. });
            // Any failure ends the walk.
            if found {
                Err(Failure::new(FailureKind::Busy, "there is one"))
            } else {
                Ok(())
            }
        });
        if found {
            Ok(false)
        } else {
            walked.map(|()| true)
        }
    }

    fn walk_folder(
        &self,
        entries: fs::ReadDir,
        folder: &Path,
        name: &str,
        enter: &mut dyn FnMut(&str) -> bool,
        visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let inside = match self.list(entries, name) {
            Ok(inside) => inside,
            // Gone between opening and reading: the next walk will tell.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => {
                return visit(Entry::Blind {
                    folder: name.into(),
                    failure: unreadable(folder, &e),
                });
            }
        };
        for (path, kind, entry, trouble) in inside {
            let (Some(entry), None) = (entry, trouble) else {
                skip(visit, &path, trouble.unwrap_or_default())?;
                continue;
            };
            if kind.is_dir() {
                let name = path.trim_end_matches('/');
                let inner = self.below_pages(name).unwrap_or_default();
                if self.ignores(inner) {
                    continue;
                }
                if self.include.is_match(inner) {
                    skip(visit, name, "it is a folder")?;
                }
                let below = entry.path();
                if fs::symlink_metadata(below.join(".git")).is_ok() {
                    skip(visit, name, "it is a repository of its own")?;
                    continue;
                }
                if !enter(name) {
                    continue;
                }
                match fs::read_dir(&below) {
                    Ok(entries) => self.walk_folder(entries, &below, name, enter, visit)?,
                    // Gone between listing and looking: the next walk will tell.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => visit(Entry::Blind {
                        folder: name.into(),
                        failure: unreadable(&below, &e),
                    })?,
                }
            } else if kind.is_symlink() && !self.is_page_here(&path) {
                // Whoever made it sees pages below it.
                let leads_to_folder = fs::metadata(entry.path()).is_ok_and(|to| to.is_dir());
                if leads_to_folder && self.is_folder(&path) {
                    skip(visit, &path, "it is a symbolic link to a folder")?;
                }
            } else if self.is_page_here(&path) {
                let Ok(page) = PagePath::parse(&path) else {
                    skip(visit, &path, "its name holds a control character")?;
                    continue;
                };
                if kind.is_symlink() {
                    skip(visit, &path, "it is a symbolic link")?;
                } else if kind.is_file() {
                    match entry.metadata() {
                        Ok(meta) => visit(Entry::Page {
                            path: page,
                            stat: FileStat::of(&meta),
                        })?,
                        // Gone between listing and looking: the next walk will tell.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        Err(e) => return Err(unreadable(&entry.path(), &e)),
                    }
                } else {
                    skip(visit, &path, "it is not a regular file")?;
                }
            }
        }
        Ok(())
    }
}

fn skip(
    visit: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    path: &str,
    reason: &str,
) -> Result<(), Failure> {
    visit(Entry::Skipped(Skipped {
        path: path.into(),
        reason: reason.into(),
    }))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::from_error(
        FailureKind::Down,
        &format!("cannot read {}", path.display()),
        error,
    )
}
