//! Events of the Linux kernel, one watch for each folder of the wiki.
//!
//! Not through the `notify` crate, which elsewhere does this job: on Linux it also asks for each opening and closing of a
//! file, so that a scan, a search or a backup that reads the pages floods it (and a flood is a lost event, which is a
//! scan); it follows links; and it takes a watch off by path, which takes off the watch of a folder that was moved to
//! another place of the wiki in the meantime.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
};
use rustix::io::Errno;

use super::source::{Event, Source};
use crate::model::{Failure, FailureKind};
use crate::wiki::{Wiki, is_below};

/// Bytes of events read at a time: some hundreds.
const BUFFER: usize = 64 << 10;
/// Reads before whoever asked gets his turn.
const READS: usize = 8;

/// Names made and gone, in a folder that is watched for them only.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);
/// What can change a page. Reading is not among it.
const PAGES: WatchFlags = NAMES
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::EXCL_UNLINK);

/// What a watch is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A folder of the wiki.
    Folder(String),
    /// A folder above the pages' folder: whether this name in it comes or goes.
    Above(String),
    /// Where the canary sings.
    Cage,
}

/// The kernel's events.
#[derive(Debug)]
pub(super) struct Inotify {
    fd: OwnedFd,
    root: PathBuf,
    pages_dir: String,
    cage: PathBuf,
    places: HashMap<i32, Place>,
    folders: BTreeMap<String, i32>,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Inotify {
    /// Opens a source for the wiki; nothing of it is armed yet. `cage` is a folder of our own, for the canary.
    ///
    /// # Errors
    /// `Down` when the kernel has no more of them for this user, or the cage cannot be made.
    pub(super) fn open(wiki: &Wiki, cage: &Path) -> Result<Self, Failure> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|e| limit("cannot listen to the file system", e))?;
        let mut source = Self {
            fd,
            root: wiki.root().into(),
            pages_dir: wiki.pages_dir().into(),
            cage: cage.into(),
            places: HashMap::new(),
            folders: BTreeMap::new(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
        };
        fs::create_dir_all(cage).map_err(|e| uncaged(cage, &e))?;
        let wd = add_watch(&source.fd, cage, NAMES)
            .map_err(|e| limit(&format!("cannot watch {}", cage.display()), e))?;
        source.places.insert(wd, Place::Cage);
        source.arm_above()?;
        Ok(source)
    }

    /// Watches the folders above the pages' folder, as far as they are there, for its coming and going.
    fn arm_above(&mut self) -> Result<(), Failure> {
        let mut at = self.root.clone();
        for part in self.pages_dir.clone().split('/') {
            match add_watch(&self.fd, &at, NAMES) {
                Ok(wd) => drop(self.places.insert(wd, Place::Above(part.into()))),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
                Err(e) => return Err(limit(&format!("cannot watch {}", at.display()), e)),
            }
            at.push(part);
        }
        Ok(())
    }

    fn forget(&mut self, wd: i32) {
        if let Some(Place::Folder(folder)) = self.places.remove(&wd)
            && self.folders.get(&folder) == Some(&wd)
        {
            self.folders.remove(&folder);
        }
    }

    /// Reads what is there once; says whether there may be more.
    fn read(&mut self, events: &mut Vec<Event>) -> bool {
        let mut raw = Vec::new();
        let mut reader = Reader::new(&self.fd, &mut self.buffer);
        let ended = loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    raw.push((event.wd(), event.events(), name.map(str::to_owned)));
                }
                Err(e) => break e,
            }
            if reader.is_buffer_empty() {
                break Errno::AGAIN;
            }
        };
        let any = !raw.is_empty();
        for (wd, flags, name) in raw {
            self.translate(wd, flags, name, events);
        }
        if !matches!(ended, Errno::AGAIN | Errno::INTR) {
            let why = io::Error::from(ended);
            events.push(Event::Broken(format!(
                "the kernel's events cannot be read: {why}"
            )));
        }
        any
    }

    fn translate(
        &mut self,
        wd: i32,
        flags: ReadFlags,
        name: Option<String>,
        events: &mut Vec<Event>,
    ) {
        // Looked at before anything else: it comes without a place.
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            push(
                events,
                Event::Rescan("more happened than the kernel could keep"),
            );
            return;
        }
        if flags.contains(ReadFlags::UNMOUNT) {
            push(events, Event::Rescan("a file system was unmounted"));
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.forget(wd);
            return;
        }
        let (Some(place), Some(name)) = (self.places.get(&wd), name) else {
            return;
        };
        let is_folder = flags.contains(ReadFlags::ISDIR);
        let came = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let went = flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        match place {
            Place::Cage => push(events, Event::Canary),
            Place::Above(next) if *next == name => {
                let pages_dir = self.pages_dir.clone();
                if came {
                    // A limit shows again when the folder itself is armed.
                    let _ = self.arm_above();
                    push(events, Event::Folder(pages_dir));
                } else if went {
                    push(events, Event::FolderGone(pages_dir));
                }
            }
            Place::Above(_) => {}
            Place::Folder(folder) => {
                let path = format!("{folder}/{name}");
                let event = match (is_folder, went) {
                    (true, true) => Event::FolderGone(path),
                    (true, false) if came => Event::Folder(path),
                    // A folder's own attributes.
                    (true, false) => return,
                    (false, true) => Event::Gone(path),
                    (false, false) => Event::Changed(path),
                };
                push(events, event);
            }
        }
    }
}

/// Adds an event, unless the same one was just added.
fn push(events: &mut Vec<Event>, event: Event) {
    if events.last() != Some(&event) {
        events.push(event);
    }
}

impl Source for Inotify {
    fn arm(&mut self, folder: &str) -> Result<(), Failure> {
        let path = self.root.join(folder);
        let wd = match add_watch(&self.fd, &path, PAGES) {
            Ok(wd) => wd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
            Err(e) => return Err(limit(&format!("cannot watch {}", path.display()), e)),
        };
        // The same folder under another name before: it was moved here, and that is not told yet.
        self.forget(wd);
        if let Some(old) = self.folders.insert(folder.into(), wd)
            && old != wd
        {
            // Another folder that was here before and may live on elsewhere, outside of the wiki.
            self.places.remove(&old);
            let _ = remove_watch(&self.fd, old);
        }
        self.places.insert(wd, Place::Folder(folder.into()));
        Ok(())
    }

    fn disarm(&mut self, folder: &str) {
        let below = self
            .folders
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded))
            // Between a folder and what is below it others may sort: `a`, `a-b`, `a/c`.
            .take_while(|(path, _)| path.starts_with(folder))
            .filter(|(path, _)| *path == folder || is_below(path, folder));
        let gone: Vec<_> = below.map(|(path, &wd)| (path.clone(), wd)).collect();
        for (path, wd) in gone {
            self.folders.remove(&path);
            self.places.remove(&wd);
            // It is gone already where the folder was removed.
            let _ = remove_watch(&self.fd, wd);
        }
    }

    fn sing(&mut self) -> Result<(), Failure> {
        let canary = self.cage.join("canary");
        fs::write(&canary, "")
            .and_then(|()| fs::remove_file(&canary))
            .map_err(|e| uncaged(&self.cage, &e))
    }

    fn next(&mut self, _wiki: &Wiki, wait: Duration, events: &mut Vec<Event>) {
        let wait = Timespec::try_from(wait).ok();
        let ready = {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            poll(&mut fds, wait.as_ref())
        };
        // Interrupted, too, there is nothing to read.
        if !matches!(ready, Ok(1..)) {
            return;
        }
        for _ in 0..READS {
            if !self.read(events) {
                return;
            }
        }
    }
}

fn uncaged(cage: &Path, error: &io::Error) -> Failure {
    let doing = format!("cannot write to {}", cage.display());
    Failure::from_error(FailureKind::Down, &doing, error)
}

/// Returns what a refused watch means, with the number to raise.
fn limit(doing: &str, error: Errno) -> Failure {
    let (reason, name) = match error {
        Errno::NOSPC => ("inotify watch limit reached", "max_user_watches"),
        Errno::MFILE => ("inotify instance limit reached", "max_user_instances"),
        other => {
            return Failure::from_error(FailureKind::Down, doing, &io::Error::from(other));
        }
    };
    let now = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap_or_default();
    let now = match now.trim() {
        "" => String::new(),
        now => format!(" ({now})"),
    };
    Failure::new(FailureKind::Down, format!("{doing}: {reason}{now}"))
        .hint(format!("raise it: `sysctl fs.inotify.{name}=1048576`"))
}

#[cfg(test)]
mod tests;
