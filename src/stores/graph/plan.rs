//! What a link's target may mean: the places to look, best first. Pure.

use std::collections::BTreeSet;

use super::names::{INDEX_NAMES, Root, folder_key, is_index, root_key, split_extension};
use crate::model::markdown::{LinkKind, fold_key};

/// How a link's page was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum How {
    /// At the path written, relative to the page's folder or the wiki's root.
    Exact,
    /// By its name, in the page's own folder.
    Folder,
    /// By its name or last parts anywhere; the path with the fewest parts.
    Shortest,
    /// At the path that a site generator would serve: the site's root is a folder above the page, a
    /// language in front is not part of the path, a page's address is a folder.
    Site,
    /// At one of these places, by case-insensitive match.
    Folded,
    /// By an alias.
    Alias,
    /// By the title.
    Title,
}

impl How {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Folder => "folder",
            Self::Shortest => "shortest",
            Self::Site => "site",
            Self::Folded => "folded",
            Self::Alias => "alias",
            Self::Title => "title",
        }
    }
}

/// One name to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    /// The path without extension, or its last parts.
    pub(super) name: String,
    /// The page's extension where one is written.
    pub(super) ext: Option<&'static str>,
}

/// One place to look; all its forms are tried in order as they are written, then all of them folded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) how: How,
    /// Whether the form is the whole path below the wiki's root; else its last parts are enough.
    pub(super) whole: bool,
    pub(super) forms: Vec<Form>,
}

/// Where a link may lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Places to look, best first.
    pub(super) steps: Vec<Step>,
    /// The text to look for among aliases, then titles, when no place holds a page.
    pub(super) text: Option<String>,
    /// The key of the name that the target asks for: names the placeholder.
    pub(super) wants: String,
    /// Whether a target that is no page is a file, or outside the wiki; else it is a placeholder.
    pub(super) file: bool,
}

/// Files that people link as `[[drawing.png]]`: attachments, as Obsidian has them. Other text after a dot is
/// part of a page's name there (`[[Node.js]]`).
const ATTACHMENTS: [&str; 54] = [
    "apng",
    "avif",
    "bmp",
    "gif",
    "heic",
    "ico",
    "jpeg",
    "jpg",
    "png",
    "psd",
    "svg",
    "tif",
    "tiff",
    "webp",
    "3gp",
    "aac",
    "flac",
    "m4a",
    "mp3",
    "oga",
    "ogg",
    "opus",
    "wav",
    "avi",
    "mkv",
    "mov",
    "mp4",
    "mpg",
    "ogv",
    "webm",
    "base",
    "canvas",
    "csv",
    "doc",
    "docx",
    "epub",
    "excalidraw",
    "htm",
    "html",
    "json",
    "ods",
    "odt",
    "pdf",
    "ppt",
    "pptx",
    "rtf",
    "tsv",
    "txt",
    "xls",
    "xlsx",
    "xml",
    "yaml",
    "yml",
    "zip",
];

/// Bytes of a target at most; a longer one names no page. Linux's `PATH_MAX`.
const MAX_TARGET: usize = 4096;

/// Folders above a page that may be a site's root, from the top: a site's root is near the top, and a hostile
/// path may have thousands of parts.
const SITE_ROOTS: usize = 8;

/// Returns where a link of the page at `path` may lead.
pub(super) fn plan(root: &Root, path: &str, kind: LinkKind, target: &str) -> Plan {
    let target = target.trim();
    if target.len() > MAX_TARGET {
        return Plan {
            steps: Vec::new(),
            text: None,
            wants: String::new(),
            file: true,
        };
    }
    plan_target(&Source::of(root, path), kind, target)
}

/// Where the link stands.
struct Source<'p> {
    /// Parts of the folder below the wiki's root.
    folder: Vec<&'p str>,
    /// The name that a site generator makes a folder of; none for a page that stands for its folder.
    stem: Option<&'p str>,
}

impl<'p> Source<'p> {
    fn of(root: &Root, path: &'p str) -> Self {
        let (whole, _) = split_extension(root.relative(path));
        let mut folder: Vec<&str> = whole.split('/').collect();
        let stem = folder.pop().filter(|stem| !is_index(stem));
        Self { folder, stem }
    }
}

fn plan_target(source: &Source<'_>, kind: LinkKind, target: &str) -> Plan {
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    let dotted = |part: Option<&&str>| matches!(part, Some(&("." | "..")));
    let as_folder = target.ends_with('/') || parts.is_empty() || dotted(parts.last());
    let (_, ext) = split_extension(parts.last().copied().unwrap_or_default());
    let ext = if as_folder || ext.is_empty() {
        None
    } else {
        Some(ext)
    };
    let file =
        !as_folder && ext.is_none() && is_file(kind, parts.last().copied().unwrap_or_default());
    // An address without extension is a page or its folder; in a wikilink only a slash at the end says so.
    let or_folder = kind == LinkKind::Markdown && ext.is_none() && !file;
    let mut steps = Steps {
        list: Vec::new(),
        as_folder,
        or_folder,
        ext,
    };
    let mut text = None;
    let wants;
    if target.starts_with('/') {
        wants = below(&[], &parts);
        if let Some(parts) = &wants {
            steps.whole(How::Exact, parts);
            if kind == LinkKind::Markdown {
                site_steps(&mut steps, source, parts);
            }
        }
    } else if dotted(parts.first()) {
        let here = below(&source.folder, &parts);
        if let Some(here) = &here {
            steps.whole(How::Exact, here);
        }
        let site = or_folder.then(|| source.as_folder(&parts)).flatten();
        if let Some(site) = &site {
            steps.whole(How::Site, site);
        }
        wants = here.or(site);
    } else {
        if let Some(here) = below(&source.folder, &parts) {
            let how = if parts.len() == 1 && !as_folder {
                How::Folder
            } else {
                How::Exact
            };
            steps.whole(how, &here);
        }
        wants = below(&[], &parts);
        if let Some(parts) = &wants {
            steps.whole(How::Exact, parts);
        }
        if or_folder && let Some(site) = source.as_folder(&parts) {
            steps.whole(How::Site, &site);
        }
        if let Some(parts) = &wants {
            steps.suffix(parts);
        }
        if kind != LinkKind::Markdown && !target.is_empty() {
            text = Some(target.to_owned());
        }
    }
    Plan {
        file: file || steps.list.is_empty(),
        steps: steps.list,
        text,
        wants: wants_key(wants.as_deref(), target),
    }
}

impl Source<'_> {
    /// Resolves an address as a browser would from this page's own address, which is a folder.
    fn as_folder<'a>(&'a self, parts: &[&'a str]) -> Option<Vec<&'a str>> {
        let mut base = self.folder.clone();
        base.push(self.stem?);
        below(&base, parts)
    }
}

/// Adds the places where a site's address from its root (`/en/guides/x/`) may stand.
fn site_steps(steps: &mut Steps, source: &Source<'_>, parts: &[&str]) {
    let roots = || (0..=source.folder.len().min(SITE_ROOTS)).map(|n| &source.folder[..n]);
    for root in roots().skip(1) {
        steps.whole(How::Site, &[root, parts].concat());
    }
    if parts.len() > 1 {
        steps.suffix(parts);
    }
    if let Some((language, rest)) = parts.split_first()
        && is_language(language)
        // The front page of a language may be any language's: `/ja/` must not lead to the English one.
        && !rest.is_empty()
    {
        // Not anywhere else: a page that is not translated yet must not lead to another language's.
        for root in roots() {
            steps.whole(How::Site, &[root, rest].concat());
        }
    }
}

/// The places under construction, with what the target says of its last part.
struct Steps {
    list: Vec<Step>,
    as_folder: bool,
    or_folder: bool,
    ext: Option<&'static str>,
}

impl Steps {
    fn whole(&mut self, how: How, parts: &[&str]) {
        self.push(how, true, parts);
    }

    fn suffix(&mut self, parts: &[&str]) {
        if !parts.is_empty() {
            self.push(How::Shortest, false, parts);
        }
    }

    fn push(&mut self, how: How, whole: bool, parts: &[&str]) {
        let written = parts.join("/");
        let name = match self.ext {
            Some(_) => split_extension(&written).0,
            None => &written,
        };
        let page = (!parts.is_empty()).then(|| Form {
            name: name.to_owned(),
            ext: self.ext,
        });
        let folder = INDEX_NAMES.map(|index| Form {
            name: if name.is_empty() {
                index.to_owned()
            } else {
                format!("{name}/{index}")
            },
            ext: None,
        });
        let forms: Vec<Form> = if self.as_folder || parts.is_empty() {
            folder.into_iter().chain(page).collect()
        } else if self.or_folder {
            page.into_iter().chain(folder).collect()
        } else {
            page.into_iter().collect()
        };
        let known = |step: &Step| step.whole == whole && step.forms == forms;
        if !self.list.iter().any(known) {
            self.list.push(Step { how, whole, forms });
        }
    }
}

/// Follows `parts` from the folder `base`, both below the wiki's root; `None` when it leads out of the wiki.
fn below<'a>(base: &[&'a str], parts: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut place = base.to_vec();
    for part in parts {
        match *part {
            "." => {}
            ".." => {
                place.pop()?;
            }
            part => place.push(part),
        }
    }
    Some(place)
}

fn wants_key(parts: Option<&[&str]>, target: &str) -> String {
    let written = parts.map_or_else(|| target.to_owned(), |parts| parts.join("/"));
    fold_key(match split_extension(&written).0 {
        "" => INDEX_NAMES[0],
        name => name,
    })
}

fn is_file(kind: LinkKind, name: &str) -> bool {
    let Some((stem, ext)) = name.rsplit_once('.') else {
        return false;
    };
    match kind {
        LinkKind::Wikilink => {
            !stem.is_empty()
                && ATTACHMENTS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(ext))
        }
        // Up to 10 letters and digits, so that no sentence with a full stop counts; not `v1.2`.
        LinkKind::Markdown | LinkKind::Embed => {
            !ext.is_empty()
                && ext.len() <= 10
                && ext.bytes().all(|c| c.is_ascii_alphanumeric())
                && ext.bytes().any(|c| c.is_ascii_alphabetic())
        }
    }
}

/// Says whether a path's first part looks like a language that a site generator puts in front: `en`,
/// `pt-br`, `zh_CN`, `zh-hant`.
fn is_language(part: &str) -> bool {
    let letters = |text: &str, range: std::ops::RangeInclusive<usize>| {
        range.contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphabetic())
    };
    match part.split_once(['-', '_']) {
        Some((language, region)) => letters(language, 2..=3) && letters(region, 2..=4),
        None => letters(part, 2..=2),
    }
}

impl Plan {
    /// Returns the keys under which the link waits: each page that could answer one of the places, or is
    /// called so by alias or title, has one of them when it comes, goes or is renamed.
    ///
    /// | key | is called up by |
    /// |---|---|
    /// | `b/c` | every page whose path ends in these two parts |
    /// | `c` | every page whose path ends in this part, or with this alias or title |
    /// | `/c` | the page `c` at the wiki's root |
    /// | `b/` | every page that stands for a folder named `b` |
    /// | `/` | the page that stands for the wiki's root |
    ///
    /// Two parts are enough to keep links to `a/index` and `b/index` apart, and cheap to store.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let mut paths: BTreeSet<(bool, &str)> = BTreeSet::new();
        let mut keys: BTreeSet<String> = BTreeSet::new();
        for step in &self.steps {
            for form in &step.forms {
                let two = last_two(&form.name);
                let (parent, last) = match two.split_once('/') {
                    Some((parent, last)) => (Some(parent), last),
                    None => (None, two),
                };
                match parent {
                    Some(parent) if is_index(last) => {
                        keys.insert(folder_key(parent));
                    }
                    None if is_index(last) && step.whole => {
                        keys.insert(folder_key(""));
                    }
                    Some(_) => {
                        paths.insert((false, two));
                    }
                    None => {
                        paths.insert((step.whole, last));
                    }
                }
            }
        }
        for (at_root, name) in &paths {
            // A link that waits for `c` need not wait for `b/c` and `/c` besides.
            let wider = last_part(name);
            if (*at_root || wider != *name) && paths.contains(&(false, wider)) {
                continue;
            }
            keys.insert(if *at_root {
                root_key(name)
            } else {
                fold_key(name)
            });
        }
        if let Some(text) = &self.text {
            keys.insert(fold_key(text));
        }
        keys
    }
}

/// Returns the last two parts of a path, or the one there is.
pub(super) fn last_two(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    slashes.nth(1).map_or(path, |at| &path[at + 1..])
}

fn last_part(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}
