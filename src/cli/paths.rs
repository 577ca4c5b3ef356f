//! From what a person types to a page's path.

use std::path::{Component, Path, PathBuf};

use super::error::CommandError;
use crate::model::{PagePath, Within};
use crate::wiki::Wiki;

/// Returns the page that `typed` means: relative to `start` (the current folder), to the root, or to the pages' folder;
/// the first of them that exists, else the first that could. A path that begins with the pages' folder, as the tool
/// itself prints them, is meant from the root; one that begins with `./` or `../` from the current folder only.
///
/// # Errors
/// When none is a page's path.
pub(crate) fn page(wiki: &Wiki, start: &Path, typed: &Path) -> Result<PagePath, CommandError> {
    let candidates = candidates(wiki, start, typed);
    let there = |path: &&PagePath| wiki.absolute(path).symlink_metadata().is_ok();
    match candidates.iter().find(there).or(candidates.first()) {
        Some(found) => Ok(found.clone()),
        None => Err(no_page(wiki, start, typed)),
    }
}

/// Returns the page that `typed` means as a place to write to: as [`page`], but whatever exists, so that what is written
/// never lands on a page of another folder.
///
/// # Errors
/// As [`page`].
pub(crate) fn place(wiki: &Wiki, start: &Path, typed: &Path) -> Result<PagePath, CommandError> {
    let mut candidates = candidates(wiki, start, typed).into_iter();
    candidates.next().ok_or_else(|| no_page(wiki, start, typed))
}

/// Returns the folders, the pages' own and those below, that `typed` may mean, in the repository, in the order in which [`page`] looks.
pub(crate) fn folders(wiki: &Wiki, start: &Path, typed: &Path) -> Vec<String> {
    let below = format!("{}/", wiki.pages_dir());
    places(wiki, start, typed)
        .into_iter()
        .filter_map(|place| inner(wiki, &place))
        .filter(|path| path.as_str() == wiki.pages_dir() || path.as_str().starts_with(&below))
        .map(|path| path.to_string())
        .collect()
}

/// Returns the part of the wiki that all of `typed` mean, each a page or a folder, be it there or gone: what they mean is
/// looked for as by [`page`].
///
/// # Errors
/// When one leads out of the wiki.
pub(crate) fn within(wiki: &Wiki, start: &Path, typed: &[PathBuf]) -> Result<Within, CommandError> {
    let meant = |typed: &PathBuf| {
        let below = format!("{}/", wiki.pages_dir());
        let inside: Vec<_> = places(wiki, start, typed)
            .into_iter()
            .filter_map(|place| inner(wiki, &place))
            .filter(|path| path.as_str() == wiki.pages_dir() || path.as_str().starts_with(&below))
            .collect();
        let there = |path: &&PagePath| wiki.absolute(path).symlink_metadata().is_ok();
        let found = inside.iter().find(there).or(inside.first()).cloned();
        found.ok_or_else(|| {
            let holds_control = |typed: &str| typed.chars().any(char::is_control);
            let why = match typed.to_str() {
                None => "cannot be in the wiki: it is not UTF-8",
                Some(typed) if holds_control(typed) => {
                    "cannot be in the wiki: it holds a control character"
                }
                Some(_) => "is outside the wiki",
            };
            CommandError::new(format!("{:?} {why}", typed.display())).hint(format!(
                "the wiki is {}/ and what is below it",
                wiki.pages_dir()
            ))
        })
    };
    let paths = typed.iter().map(meant).collect::<Result<Vec<_>, _>>()?;
    Ok(Within::of(paths))
}

/// Returns what the paths begin with, as they are shown, that `typed` means: it may be written as any path is. What nothing
/// begins with is taken as it was typed, or for what it would mean.
pub(crate) fn prefix(wiki: &Wiki, start: &Path, typed: &str) -> String {
    let below = format!("{}/", wiki.pages_dir());
    if typed.starts_with(&below) || below.starts_with(typed) {
        return typed.into();
    }
    let end = if typed.ends_with('/') { "/" } else { "" };
    let meant: Vec<String> = places(wiki, start, Path::new(typed))
        .into_iter()
        .filter_map(|place| Some(format!("{}{end}", inner(wiki, &place)?)))
        .filter(|meant| meant.starts_with(&below))
        .collect();
    let is_there = |meant: &&String| {
        let Some((folder, name)) = meant.rsplit_once('/') else {
            return false;
        };
        let entries = wiki.root().join(folder).read_dir();
        entries.is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            name.is_empty() || names.any(|one| one.to_string_lossy().starts_with(name))
        })
    };
    let found = meant.iter().find(is_there).or(meant.first());
    found.cloned().unwrap_or_else(|| typed.into())
}

fn candidates(wiki: &Wiki, start: &Path, typed: &Path) -> Vec<PagePath> {
    places(wiki, start, typed)
        .into_iter()
        .filter_map(|place| inner(wiki, &place))
        .filter(|path| wiki.is_page(path.as_str()))
        .collect()
}

fn places(wiki: &Wiki, start: &Path, typed: &Path) -> Vec<PathBuf> {
    let pages = wiki.root().join(wiki.pages_dir());
    let mut bases = vec![start, wiki.root(), &pages];
    if typed.starts_with(wiki.pages_dir()) {
        bases.swap(0, 1);
    } else if typed.starts_with(".") || typed.starts_with("..") {
        bases.truncate(1);
    }
    bases.into_iter().map(|base| base.join(typed)).collect()
}

fn no_page(wiki: &Wiki, start: &Path, typed: &Path) -> CommandError {
    let why = if typed.to_str().is_none() {
        " (it is not UTF-8)"
    } else if start.join(typed).is_dir() || wiki.root().join(typed).is_dir() {
        " (it is a folder)"
    } else if typed
        .iter()
        .any(|part| part.as_encoded_bytes().starts_with(b".") && part != "." && part != "..")
    {
        " (hidden files and folders are left out)"
    } else {
        ""
    };
    CommandError::new(format!("{:?} is not a page's path{why}", typed.display())).hint(format!(
        "pages lie below {}/ and match wiki.include; `wiki-sync config` shows it",
        wiki.pages_dir()
    ))
}

/// Returns the pages that all of `typed` mean.
///
/// # Errors
/// As [`page`], of the first that is none: then none is returned.
pub(crate) fn pages(
    wiki: &Wiki,
    start: &Path,
    typed: &[PathBuf],
) -> Result<Vec<PagePath>, CommandError> {
    typed.iter().map(|one| page(wiki, start, one)).collect()
}

/// Returns a place's path in the repository.
fn inner(wiki: &Wiki, absolute: &Path) -> Option<PagePath> {
    let plain = without_dots(absolute)?;
    let inner = if let Ok(inner) = plain.strip_prefix(wiki.root()) {
        inner.to_path_buf()
    } else {
        // The same folder by another name: through a symbolic link above the root.
        let real = plain.parent()?.canonicalize().ok()?;
        let real = real.join(plain.file_name()?);
        real.strip_prefix(wiki.root()).ok()?.to_path_buf()
    };
    PagePath::parse(inner.to_str()?).ok()
}

/// Takes `.` and `..` out by the text alone, as the pages' folder holds no symbolic links that count.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::wiki::WikiSettings;

    #[test]
    fn a_path_is_relative_to_the_current_folder_or_to_the_root() {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let root = temp.path().canonicalize().expect("it exists");
        fs::create_dir_all(root.join("wiki-output/sub")).expect("folders");
        fs::write(root.join("wiki-output/a.md"), "# A\n").expect("a page");
        let wiki = Wiki::open(&root, &WikiSettings::default()).expect("a wiki");
        let of = |start: &str, typed: &str| {
            page(&wiki, &root.join(start), Path::new(typed))
                .map(|path| path.to_string())
                .ok()
        };
        let a = Some("wiki-output/a.md".into());
        assert_eq!(of("", "wiki-output/a.md"), a);
        assert_eq!(of("", "./wiki-output/sub/../a.md"), a);
        assert_eq!(of("wiki-output", "a.md"), a);
        assert_eq!(of("wiki-output/sub", "../a.md"), a);
        assert_eq!(of("wiki-output/sub", "wiki-output/a.md"), a, "it exists");
        assert_eq!(of("", &root.join("wiki-output/a.md").to_string_lossy()), a);
        assert_eq!(
            of("wiki-output/sub", "new.md"),
            Some("wiki-output/sub/new.md".into())
        );
        assert_eq!(of("", "a.md"), a, "it exists in the pages' folder");
        assert_eq!(
            of("wiki-output/sub", "wiki-output/new.md"),
            Some("wiki-output/new.md".into()),
            "as the tool prints it"
        );
        let place_of = |start: &str, typed: &str| {
            place(&wiki, &root.join(start), Path::new(typed))
                .map(|path| path.to_string())
                .ok()
        };
        // A write goes where it is told, whatever exists elsewhere.
        let sub = Some("wiki-output/sub/a.md".to_owned());
        assert_eq!(place_of("wiki-output/sub", "a.md"), sub);
        assert_eq!(place_of("wiki-output/sub", "./a.md"), sub);
        assert_eq!(place_of("wiki-output/sub", "../a.md"), a);
        assert_eq!(place_of("", "a.md"), a);
        assert_eq!(place_of("", "./a.md"), None);
        for outside in [
            "../a.md",
            "/etc/passwd",
            "wiki-output/../../x.md",
            "wiki-output",
            "wiki-output/a.txt",
            "wiki-output/.hidden.md",
            "",
        ] {
            assert_eq!(of("", outside), None, "{outside:?}");
        }
    }

    #[test]
    fn a_part_of_the_wiki_is_a_page_or_a_folder_there_or_gone_and_nothing_outside() {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let root = temp.path().canonicalize().expect("it exists");
        fs::create_dir_all(root.join("wiki-output/sub")).expect("folders");
        fs::write(root.join("wiki-output/a.md"), "# A\n").expect("a page");
        let wiki = Wiki::open(&root, &WikiSettings::default()).expect("a wiki");
        let of = |start: &str, typed: &[&str]| {
            let typed: Vec<_> = typed.iter().map(PathBuf::from).collect();
            let within = within(&wiki, &root.join(start), &typed).ok()?;
            Some(within.paths().map(str::to_owned).collect::<Vec<_>>())
        };
        let some = |paths: &[&str]| Some(paths.iter().map(ToString::to_string).collect());
        assert_eq!(
            of("", &["a.md", "sub/"]),
            some(&["wiki-output/a.md", "wiki-output/sub"])
        );
        assert_eq!(of("wiki-output", &["gone"]), some(&["wiki-output/gone"]));
        assert_eq!(
            of("", &["wiki-output/gone.md"]),
            some(&["wiki-output/gone.md"])
        );
        assert_eq!(of("", &["wiki-output", "a.md"]), some(&["wiki-output"]));
        assert_eq!(of("wiki-output/sub", &["."]), some(&["wiki-output/sub"]));
        for outside in ["..", "../x", "/etc", "wiki-output/../../x.md"] {
            assert_eq!(of("", &["a.md", outside]), None, "{outside:?}");
        }
    }

    #[test]
    fn one_bad_path_refuses_them_all() {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let root = temp.path().canonicalize().expect("it exists");
        let wiki = Wiki::open(&root, &WikiSettings::default()).expect("a wiki");
        let typed = ["wiki-output/a.md", "../../b.md"].map(PathBuf::from);
        let error = pages(&wiki, &root, &typed).expect_err("refused");
        assert!(error.error.contains("../../b.md"), "{error:?}");
    }
}
