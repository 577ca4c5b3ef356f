//! The files of a move: a journal of what is to be done, and doing or undoing it, each file by itself whole.
//!
//! | step | what holds when the process is killed right after it |
//! |---|---|
//! | journal written | nothing has changed; the next `mv` does it all |
//! | a page renamed | the next `mv` goes on with the other renames and the links |
//! | a page's links rewritten | the next `mv` goes on with the other pages |
//! | stores brought along | only the journal is left, which the next `mv` removes |
//!
//! Whether a file is done shows in the file: by its place, and by its SHA, which the journal names for before and after.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::{Move, Rewrite};
use crate::model::markdown::{Edit, edited, inverse};
use crate::model::{ContentSha, Failure, FailureKind, PagePath};
use crate::state::StateDir;
use crate::wiki::{Reading, Wiki};

/// The journal's name in the state folder.
const NAME: &str = "move.json";

/// What is to be done, and can be told from what is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    /// What was asked for.
    pub(super) asked: Move,
    pub(super) moves: Vec<Move>,
    pub(super) writes: Vec<Write>,
    /// Folders that there were not, those above first.
    pub(super) made: Vec<String>,
    /// Whether a whole folder moves.
    pub(super) folder: bool,
}

/// A page that gets other links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Write {
    /// The page, after the moves.
    path: String,
    old: String,
    new: String,
    edits: Vec<Edit>,
}

impl Write {
    pub(super) fn of(rewrite: &Rewrite) -> Self {
        Self {
            path: rewrite.path.to_string(),
            old: rewrite.old.to_string(),
            new: rewrite.new.to_string(),
            edits: rewrite.edits.clone(),
        }
    }

    pub(super) fn path(&self) -> Result<PagePath, Failure> {
        page(&self.path)
    }
}

/// Where a file stands on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// Nothing is done yet; a page's text.
    Before(String),
    /// All is done; a page's text.
    After(String),
    /// It is neither: somebody else was here.
    Elsewhere,
}

impl Journal {
    fn file(state: &StateDir) -> PathBuf {
        state.path().join(NAME)
    }

    /// Reads the journal that a killed process left.
    ///
    /// # Errors
    /// `Down` when it is there and cannot be read; `Refused` when it is damaged.
    pub(super) fn read(state: &StateDir) -> Result<Option<Self>, Failure> {
        let file = Self::file(state);
        let doing = format!("cannot read {}", file.display());
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Failure::from_error(FailureKind::Down, &doing, &e)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Failure::from_error(FailureKind::Refused, &doing, &e).hint(
                "it tells of a move that was cut short; remove it, and look at `git status` for what was done",
            )
        })
    }

    /// Brings the journal to the disk, whole.
    ///
    /// # Errors
    /// `Down` when the disk refuses.
    pub(super) fn write(&self, state: &StateDir) -> Result<(), Failure> {
        let file = Self::file(state);
        let new = file.with_extension("new");
        let bytes = serde_json::to_vec(self).expect("plain fields always serialise");
        let write = || {
            let mut open = File::create(&new)?;
            open.write_all(&bytes)?;
            open.sync_all()?;
            fs::rename(&new, &file)?;
            File::open(state.path())?.sync_all()
        };
        write().map_err(|e| {
            Failure::from_error(
                FailureKind::Down,
                &format!("cannot write {}", file.display()),
                &e,
            )
        })
    }

    /// Removes the journal.
    ///
    /// # Errors
    /// `Down` when the disk refuses.
    pub(super) fn remove(state: &StateDir) -> Result<(), Failure> {
        let file = Self::file(state);
        match fs::remove_file(&file) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Failure::from_error(
                FailureKind::Down,
                &format!("cannot remove {}", file.display()),
                &e,
            )),
        }
    }

    /// Says whether every file is as it was, or as it is to be.
    pub(super) fn can_go_on(&self, wiki: &Wiki) -> Result<bool, Failure> {
        for one in &self.moves {
            if move_stands(wiki, one)? == Standing::Elsewhere {
                return Ok(false);
            }
        }
        for write in &self.writes {
            if self.write_stands(wiki, write)? == Standing::Elsewhere {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does what is not done yet.
    ///
    /// # Errors
    /// `Busy` when a file is neither as it was nor as it is to be, and as [`Wiki::rename`] and [`Wiki::replace`].
    pub(super) fn forward(&self, wiki: &Wiki) -> Result<(), Failure> {
        for one in &self.moves {
            match move_stands(wiki, one)? {
                Standing::Before(_) => {
                    wiki.rename(&page(&one.from)?, &page(&one.to)?)?;
                    fail::fail_point!("mv.renamed");
                }
                Standing::After(_) => {}
                Standing::Elsewhere => return Err(changed(&one.from)),
            }
        }
        for write in &self.writes {
            match self.write_stands(wiki, write)? {
                Standing::Before(text) => {
                    let new = edited(&text, &write.edits).ok_or_else(|| changed(&write.path))?;
                    wiki.replace(
                        &write.path()?,
                        ContentSha::of(text.as_bytes()),
                        new.as_bytes(),
                    )?;
                    fail::fail_point!("mv.written");
                }
                Standing::After(_) => {}
                Standing::Elsewhere => return Err(changed(&write.path)),
            }
        }
        if self.folder {
            self.sweep(wiki);
        }
        Ok(())
    }

    /// Undoes what was done, as far as nobody else has changed it since; returns the files left as they are.
    pub(super) fn backward(&self, wiki: &Wiki) -> Vec<String> {
        let mut left = Vec::new();
        for write in self.writes.iter().rev() {
            let undo = || match self.write_stands(wiki, write)? {
                Standing::After(text) => {
                    let old = edited(&text, &inverse(&write.edits))
                        .ok_or_else(|| changed(&write.path))?;
                    wiki.replace(
                        &write.path()?,
                        ContentSha::of(text.as_bytes()),
                        old.as_bytes(),
                    )
                }
                Standing::Before(_) => Ok(()),
                Standing::Elsewhere => Err(changed(&write.path)),
            };
            if undo().is_err() {
                left.push(write.path.clone());
            }
        }
        for one in self.moves.iter().rev() {
            // A page that somebody has changed at its new place stays there.
            let undo = || match move_stands(wiki, one)? {
                Standing::After(_) if !left.contains(&one.to) => {
                    wiki.rename(&page(&one.to)?, &page(&one.from)?)
                }
                Standing::Before(_) | Standing::After(_) => Ok(()),
                Standing::Elsewhere => Err(changed(&one.to)),
            };
            if undo().is_err() && !left.contains(&one.to) {
                left.push(one.to.clone());
            }
        }
        for folder in self.made.iter().rev() {
            // One that is not empty stays.
            let _ = fs::remove_dir(wiki.root().join(folder));
        }
        left
    }

    /// A page that is yet to be renamed is looked at where it is.
    fn write_stands(&self, wiki: &Wiki, write: &Write) -> Result<Standing, Failure> {
        let mut path = write.path()?;
        if let Some(one) = self.moves.iter().find(|one| one.to == write.path)
            && matches!(move_stands(wiki, one)?, Standing::Before(_))
        {
            path = page(&one.from)?;
        }
        Ok(match wiki.read(&path) {
            Reading::Page { text, sha, .. } if sha.to_string() == write.old => {
                Standing::Before(text)
            }
            Reading::Page { text, sha, .. } if sha.to_string() == write.new => {
                Standing::After(text)
            }
            Reading::Page { .. } | Reading::Absent | Reading::Bad { .. } => Standing::Elsewhere,
        })
    }

    /// Removes the folders that the move has emptied.
    fn sweep(&self, wiki: &Wiki) {
        let mut folders: Vec<&str> = self
            .moves
            .iter()
            .flat_map(|one| {
                let ends = one.from.match_indices('/').map(|(at, _)| at);
                ends.map(|end| &one.from[..end])
                    .filter(|folder| folder.starts_with(self.asked.from.as_str()))
            })
            .collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders.iter().rev() {
            // One that holds anything else stays.
            let _ = fs::remove_dir(wiki.root().join(folder));
        }
    }
}

fn move_stands(wiki: &Wiki, one: &Move) -> Result<Standing, Failure> {
    let there = |path: &str| -> Result<bool, Failure> {
        let path = page(path)?;
        let stat = wiki.stat(&path);
        stat.map(|stat| stat.is_some()).map_err(|e| {
            let doing = format!("cannot look at page {:?}", path.as_str());
            Failure::from_error(FailureKind::Down, &doing, &e)
        })
    };
    let text = String::new;
    Ok(match (there(&one.from)?, there(&one.to)?) {
        (true, false) => Standing::Before(text()),
        (false, true) => Standing::After(text()),
        // One file by two spellings, where the file system folds case: renaming it again does no harm.
        (true, true) if super::is_same_file(wiki, &one.from, &one.to) => Standing::Before(text()),
        (true, true) | (false, false) => Standing::Elsewhere,
    })
}

fn page(path: &str) -> Result<PagePath, Failure> {
    PagePath::parse(path)
        .map_err(|e| Failure::from_error(FailureKind::Refused, "the journal names no page", &e))
}

fn changed(path: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("page {path:?} changed meanwhile"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiki::WikiSettings;

    const TEXTS: [(&str, &str); 3] = [
        ("wiki-output/a.md", "a [b](b.md)\n"),
        ("wiki-output/b.md", "b\n"),
        ("wiki-output/c.md", "c [b](b.md)\n"),
    ];

    fn write(path: &str, text: &str) -> Write {
        let edits = vec![Edit {
            at: 6,
            old: "b.md".into(),
            new: "n/d/b.md".into(),
        }];
        let new = edited(text, &edits).expect("they fit");
        Write {
            path: path.into(),
            old: ContentSha::of(text.as_bytes()).to_string(),
            new: ContentSha::of(new.as_bytes()).to_string(),
            edits,
        }
    }

    fn prepared() -> (tempfile::TempDir, Wiki, Journal) {
        let temp = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(temp.path().join("wiki-output")).expect("a folder");
        for (path, text) in TEXTS {
            fs::write(temp.path().join(path), text).expect("a page");
        }
        let wiki = Wiki::open(temp.path(), &WikiSettings::default()).expect("a wiki");
        let asked = Move {
            from: "wiki-output/b.md".into(),
            to: "wiki-output/n/d/b.md".into(),
        };
        let journal = Journal {
            moves: vec![asked.clone()],
            asked,
            writes: vec![write(TEXTS[0].0, TEXTS[0].1), write(TEXTS[2].0, TEXTS[2].1)],
            made: vec!["wiki-output/n".into(), "wiki-output/n/d".into()],
            folder: false,
        };
        (temp, wiki, journal)
    }

    #[test]
    fn what_fails_half_way_is_taken_back_to_the_byte() {
        let (temp, wiki, journal) = prepared();
        // The last page changes after it was planned for.
        let last = temp.path().join(TEXTS[2].0);
        fs::write(&last, "somebody's\n").expect("a page");
        let failure = journal.forward(&wiki).expect_err("it stops there");
        assert_eq!(failure.kind, FailureKind::Busy);
        assert!(
            temp.path().join("wiki-output/n/d/b.md").exists(),
            "it was half done"
        );
        assert_eq!(journal.backward(&wiki), ["wiki-output/c.md"]);
        for (path, text) in &TEXTS[..2] {
            let held = fs::read_to_string(temp.path().join(path)).expect("it is back");
            assert_eq!(held, *text);
        }
        assert_eq!(
            fs::read_to_string(last).expect("it is there"),
            "somebody's\n"
        );
        assert!(!temp.path().join("wiki-output/n").exists());
    }

    #[test]
    fn each_step_may_be_repeated_forward_and_backward() {
        let (temp, wiki, journal) = prepared();
        for _ in 0..2 {
            journal.forward(&wiki).expect("done");
            assert!(journal.can_go_on(&wiki).expect("readable"));
        }
        let text = fs::read_to_string(temp.path().join(TEXTS[0].0)).expect("a page");
        assert_eq!(text, "a [b](n/d/b.md)\n");
        for _ in 0..2 {
            assert_eq!(journal.backward(&wiki), [""; 0]);
            assert!(journal.can_go_on(&wiki).expect("readable"));
        }
        let text = fs::read_to_string(temp.path().join(TEXTS[0].0)).expect("a page");
        assert_eq!(text, TEXTS[0].1);
    }

    #[test]
    fn a_new_name_that_somebody_takes_meanwhile_is_not_written_over() {
        let (temp, wiki, _journal) = prepared();
        let (from, to) = (page(TEXTS[0].0).expect("ok"), page(TEXTS[1].0).expect("ok"));
        let failure = wiki.rename(&from, &to).expect_err("it is there");
        assert_eq!(failure.kind, FailureKind::Rejected);
        let held = fs::read_to_string(temp.path().join(TEXTS[1].0)).expect("it is there");
        assert_eq!(held, TEXTS[1].1);
    }
}
