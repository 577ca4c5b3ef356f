//! Installing and uninstalling: first every hook is looked at and what is to be done is planned, then it is done.
//!
//! A hook is replaced by a rename, never written in place: the shell reads a running script bit by bit. A hook that is no
//! shell script, or that git does not run, is kept in `wiki-sync.d/` under its own name (programs look at it) and called
//! from a file of ours; killed in between, it stands in both places and is never lost.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::block::{self, Owner, Parted, SHEBANG};
use super::places::Places;
use super::{Event, HooksError};

/// The folder, beside the hooks, of those that are called from a file of ours.
const CHAINED: &str = "wiki-sync.d";

/// What is done to one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// It is as it is to be.
    Keep,
    /// A file of ours is made.
    Create(Vec<u8>),
    /// The user's script gets our lines, or other ones than it has, or loses them.
    Rewrite(Vec<u8>),
    /// The user's hook moves to `wiki-sync.d/`, with this text where it is not the whole of it, and a file of ours
    /// takes its place.
    Chain {
        /// Its text without lines of ours; `None` to leave it as it is.
        text: Option<Vec<u8>>,
        /// The file of ours.
        file: Vec<u8>,
    },
    /// The user's hook moves back.
    Restore,
    /// A file of ours goes.
    Remove,
}

impl Act {
    /// Returns it as a word: what was done, or is to be.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Keep => "kept",
            Self::Create(_) => "created",
            Self::Rewrite(_) => "changed",
            Self::Chain { .. } => "chained",
            Self::Restore => "restored",
            Self::Remove => "removed",
        }
    }
}

/// What is done to which hook.
pub type Plan = Vec<(Event, Act)>;

/// Installs the hooks, or says what that would do. The second time nothing is left to do.
///
/// # Errors
/// `Refused`, before anything is touched, where the hooks are not ours to install or something is in the way.
pub fn install(places: &Places, program: &str, dry_run: bool) -> Result<Plan, HooksError> {
    places.check_ours(program)?;
    let folder = &places.folder;
    let look = || plan(folder, |event, seen| planned(folder, event, seen, program));
    if dry_run {
        return look();
    }
    fs::create_dir_all(folder).map_err(|e| HooksError::io("make", folder, e))?;
    let _turn = turn(folder)?;
    let plan = look()?;
    carry_out(folder, &plan)?;
    Ok(plan)
}

/// Takes the hooks out again, or says what that would do: the user's own are what they were, byte for byte.
///
/// # Errors
/// `Refused`, before anything is touched, where somebody's lines would be lost.
pub fn uninstall(places: &Places, dry_run: bool) -> Result<Plan, HooksError> {
    let folder = &places.folder;
    let look = || plan(folder, |event, seen| undone(folder, event, seen));
    if dry_run || !folder.is_dir() {
        return look();
    }
    let _turn = turn(folder)?;
    let plan = look()?;
    carry_out(folder, &plan)?;
    // Whatever else is in there is not ours.
    let _ = fs::remove_dir(folder.join(CHAINED));
    Ok(plan)
}

/// Keeps others who install or uninstall here waiting until it is dropped.
fn turn(folder: &Path) -> Result<File, HooksError> {
    let lock = File::open(folder).and_then(|file| file.lock().map(|()| file));
    lock.map_err(|e| HooksError::io("lock", folder, e))
}

/// A hook's file as it stands.
pub(super) enum Seen {
    /// There is none.
    Absent,
    /// A link, wherever it leads.
    Link,
    /// A file, with our lines or without.
    File {
        /// All of it.
        text: Vec<u8>,
        /// The same, taken apart.
        parted: Parted,
        /// Its mode and owner.
        meta: Box<Metadata>,
    },
}

impl Seen {
    pub(super) fn look(path: &Path) -> Result<Self, HooksError> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if is_absence(&e) => return Ok(Self::Absent),
            Err(e) => return Err(HooksError::io("look at", path, e)),
        };
        if meta.is_symlink() {
            return Ok(Self::Link);
        }
        if !meta.is_file() {
            return Err(in_the_way(format!("{} is no file", path.display())));
        }
        let text = fs::read(path).map_err(|e| HooksError::io("read", path, e))?;
        let parted = block::part(&text)
            .map_err(|e| in_the_way(format!("{} holds half a block: {e}", path.display())))?;
        Ok(Self::File {
            text,
            parted,
            meta: Box::new(meta),
        })
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

pub(super) fn is_executable(meta: &Metadata) -> bool {
    meta.mode() & 0o111 != 0
}

fn in_the_way(reason: String) -> HooksError {
    HooksError::Refused {
        reason,
        hints: vec!["mend it or move it away, then do it again".to_owned()],
    }
}

fn plan(
    folder: &Path,
    mut act: impl FnMut(Event, Seen) -> Result<Act, HooksError>,
) -> Result<Plan, HooksError> {
    Event::ALL
        .into_iter()
        .map(|event| Ok((event, act(event, Seen::look(&folder.join(event.name()))?)?)))
        .collect()
}

/// Plans what installing does to one hook.
fn planned(folder: &Path, event: Event, seen: Seen, program: &str) -> Result<Act, HooksError> {
    let ours = block::render(event, program.as_bytes(), Owner::Ours);
    let file = block::insert(SHEBANG, &ours);
    let (now, Parted { rest, block: found }, meta) = match seen {
        Seen::Absent => return Ok(Act::Create(file)),
        Seen::Link => return chain(folder, event, None, file),
        Seen::File { text, parted, meta } => (text, parted, meta),
    };
    let owner = found.as_ref().map(|block| block.owner);
    if owner == Some(Owner::Ours) && (is_executable(&meta) || rest == SHEBANG) {
        let text = block::insert(&rest, &ours);
        let same = now == text && is_executable(&meta);
        return Ok(if same { Act::Keep } else { Act::Rewrite(text) });
    }
    // A hook that is not executable was switched off: our lines must not switch it on.
    if !block::is_shell(&rest) || !is_executable(&meta) {
        return chain(folder, event, found.map(|_| rest), file);
    }
    let text = block::insert(
        &rest,
        &block::render(event, program.as_bytes(), Owner::User),
    );
    Ok(if now == text {
        Act::Keep
    } else {
        Act::Rewrite(text)
    })
}

/// Plans to chain, where no other hook stands in that place.
fn chain(
    folder: &Path,
    event: Event,
    text: Option<Vec<u8>>,
    file: Vec<u8>,
) -> Result<Act, HooksError> {
    let hook = folder.join(event.name());
    let place = folder.join(CHAINED).join(event.name());
    if fs::symlink_metadata(&place).is_ok() && !is_put_aside(&hook, &place) {
        return Err(in_the_way(format!(
            "{} and {} are two hooks of somebody's, and there is a place for one",
            hook.display(),
            place.display()
        )));
    }
    Ok(Act::Chain { text, file })
}

/// Says whether the second place holds this very hook: chaining was begun and cut short.
fn is_put_aside(hook: &Path, place: &Path) -> bool {
    match (fs::read_link(hook), fs::read_link(place)) {
        (Ok(aim), Ok(kept)) => from_below(aim) == kept,
        (Err(_), Err(_)) => fs::read(hook)
            .and_then(|text| Ok(text == fs::read(place)?))
            .unwrap_or(false),
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// Returns a link's aim as it is from a folder further down.
fn from_below(aim: PathBuf) -> PathBuf {
    if aim.is_absolute() {
        aim
    } else {
        Path::new("..").join(aim)
    }
}

/// Plans what uninstalling does to one hook.
fn undone(folder: &Path, event: Event, seen: Seen) -> Result<Act, HooksError> {
    let place = folder.join(CHAINED).join(event.name());
    let is_chained = fs::symlink_metadata(&place).is_ok();
    let (rest, found) = match seen {
        Seen::Absent if is_chained => return Ok(Act::Restore),
        Seen::Absent | Seen::Link => return Ok(Act::Keep),
        Seen::File { parted, .. } => (parted.rest, parted.block),
    };
    Ok(match found.map(|block| block.owner) {
        None => Act::Keep,
        Some(Owner::Ours) if rest == SHEBANG && is_chained => Act::Restore,
        Some(Owner::Ours) if rest == SHEBANG => Act::Remove,
        Some(Owner::Ours) if is_chained => {
            return Err(in_the_way(format!(
                "{} holds lines that were added to it, and would give way to {}",
                folder.join(event.name()).display(),
                place.display()
            )));
        }
        Some(Owner::Ours | Owner::User) => Act::Rewrite(rest),
    })
}

fn carry_out(folder: &Path, plan: &Plan) -> Result<(), HooksError> {
    for (event, act) in plan {
        let path = folder.join(event.name());
        let place = folder.join(CHAINED).join(event.name());
        match act {
            Act::Keep => {}
            Act::Create(text) => replace(&path, text, None)?,
            Act::Rewrite(text) => {
                let meta = fs::metadata(&path).map_err(|e| HooksError::io("look at", &path, e))?;
                let ours = block::part(text).is_ok_and(|parted| {
                    parted.block.is_some_and(|block| block.owner == Owner::Ours)
                });
                // One of ours that lost its mode gets it back.
                replace(
                    &path,
                    text,
                    (!ours || is_executable(&meta)).then_some(&meta),
                )?;
            }
            Act::Chain { text, file } => {
                put_aside(&path, &place, text.as_deref())?;
                fail::fail_point!("hooks.aside");
                replace(&path, file, None)?;
            }
            Act::Restore => put_back(&place, &path)?,
            Act::Remove => {
                fs::remove_file(&path).map_err(|e| HooksError::io("remove", &path, e))?;
            }
        }
        fail::fail_point!("hooks.step");
    }
    Ok(())
}

/// Puts a text in a hook's place, with the mode and owner of the file that stood there.
fn replace(path: &Path, text: &[u8], like: Option<&Metadata>) -> Result<(), HooksError> {
    let failed = |e: io::Error| HooksError::io("write", path, e);
    let folder = path.parent().unwrap_or(path);
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    new.write_all(text).map_err(failed)?;
    let mode = like.map_or(0o755, |meta| meta.mode() & 0o7777);
    if let Some(meta) = like {
        // Only root may, and only for root it matters.
        let _ = chown(new.path(), Some(meta.uid()), Some(meta.gid()));
    }
    new.as_file()
        .set_permissions(Permissions::from_mode(mode))
        .map_err(failed)?;
    new.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

/// Makes a hook stand in the second place too: the file itself, or with another text; a link with the same aim.
fn put_aside(path: &Path, place: &Path, text: Option<&[u8]>) -> Result<(), HooksError> {
    let failed = |e: io::Error| HooksError::io("keep", path, e);
    let folder = place.parent().unwrap_or(place);
    fs::create_dir_all(folder).map_err(|e| HooksError::io("make", folder, e))?;
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    if let Some(text) = text {
        return replace(place, text, Some(&meta));
    }
    if fs::symlink_metadata(place).is_ok() {
        // Begun and cut short: it is this very hook.
        fs::remove_file(place).map_err(failed)?;
    }
    if meta.is_symlink() {
        let aim = fs::read_link(path).map_err(failed)?;
        return symlink(from_below(aim), place).map_err(failed);
    }
    fs::hard_link(path, place)
        .or_else(|_| fs::copy(path, place).map(|_| ()))
        .map_err(failed)
}

/// Moves a hook back from the second place.
fn put_back(place: &Path, path: &Path) -> Result<(), HooksError> {
    let failed = |e: io::Error| HooksError::io("put back", path, e);
    let Ok(aim) = fs::read_link(place) else {
        return fs::rename(place, path).map_err(failed);
    };
    let aim: PathBuf = match aim.strip_prefix("..") {
        Ok(aim) => aim.into(),
        Err(_) => aim,
    };
    let link = path.with_extension("wiki-sync-new");
    let _ = fs::remove_file(&link);
    symlink(aim, &link)
        .and_then(|()| fs::rename(&link, path))
        .and_then(|()| fs::remove_file(place))
        .map_err(failed)
}
