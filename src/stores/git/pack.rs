//! Many new objects at once: one pack and its index instead of a file for each.
//!
//! The objects are first written to memory, in a repository handle of its own, where libgit2 checks them as ever; then to
//! a temporary pack, whole and without deltas (those are left to git's gc), under a name that git's prune takes away.
//! Then the pack and its index are brought to the disk and get their names, the pack first, as by git: the index is what
//! makes a pack seen. All of this before anything refers to them.
//!
//! A `.keep` beside the pack protects it, as one of `git fetch` does, from a `git repack -d` that looked at the refs before
//! ours moved. A note in the work tree's git folder names the pack, so that the next start finds the `.keep` of a killed
//! process, or a pack that did not get its index any more.

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use git2::{ObjectType, OdbLookupFlags, Oid, Repository};
use sha1::{Digest as _, Sha1};
use tempfile::NamedTempFile;

use super::commit::{Halt, VANISHED, again};
use super::journal::{Paths, remove};
use super::plan::Move;
use super::repo::{self, git_failure, io_failure};
use super::stamp::{SHA_LEN, hex};
use crate::model::Failure;

/// From how many new blobs on a pack is written: git's own `transfer.unpackLimit`.
const MANY: usize = 100;
/// More bytes of blobs than this are written one by one: a batch is far below, and offsets stay below 2^31.
const MOST_BYTES: usize = 256 << 20;
/// Before libgit2's own places to write to.
const FIRST: i32 = 1000;
/// What stands in a `.keep` of ours.
const KEEP: &[u8] = b"wiki-sync\n";

/// The new objects of a commit, in memory.
pub(super) struct Bulk {
    /// The repository, whose new objects stay in memory.
    aside: Repository,
    /// The repository as it lies on the disk.
    held: Repository,
    /// Where packs lie.
    folder: PathBuf,
}

impl Bulk {
    /// Returns where the blobs of these moves are to be written, `None` when they are few.
    pub(super) fn of(repo: &Repository, moves: &[Move<'_>]) -> Result<Option<Self>, Failure> {
        let blobs = || moves.iter().filter_map(|page| page.blob.as_deref());
        if blobs().count() < MANY || blobs().map(<[u8]>::len).sum::<usize>() > MOST_BYTES {
            return Ok(None);
        }
        let folder = repo.commondir().join("objects/pack");
        if !folder.is_dir() {
            // `git init` makes it. A handle that was opened without it never sees a pack: the next will.
            let _ = fs::create_dir(&folder);
            return Ok(None);
        }
        let held = repo::anew(repo)?;
        let ours = moves.iter().filter(|page| page.blob.is_some());
        let ids = ours.filter_map(|page| Some(page.after?.id));
        if only_new(&held, ids)?.len() < MANY {
            return Ok(None);
        }
        let aside = repo::anew(repo)?;
        aside
            .odb()
            .and_then(|odb| odb.add_new_mempack_backend(FIRST).map(drop))
            .map_err(|error| git_failure("cannot hold objects in memory", &error))?;
        Ok(Some(Self {
            aside,
            held,
            folder,
        }))
    }

    /// Returns where the objects are to be written and found.
    pub(super) fn repo(&self) -> &Repository {
        &self.aside
    }

    /// Puts those of the objects that are not on the disk there as a pack, durably.
    pub(super) fn place(self, paths: &Paths, ids: impl Iterator<Item = Oid>) -> Result<(), Halt> {
        let failed = |error: git2::Error| git_failure("cannot read an object", &error);
        let new = only_new(&self.held, ids)?;
        if new.is_empty() {
            return Ok(());
        }
        let folder = &self.folder;
        let write = |e: io::Error| io_failure("write a pack in", folder, &e);
        let odb = self.aside.odb().map_err(failed)?;
        let mut pack = Writer::begin(folder, new.len(), level(&self.aside)).map_err(write)?;
        for id in new {
            let object = odb.read(id).map_err(failed)?;
            pack.add(id, object.kind(), object.data()).map_err(write)?;
        }
        let written = pack.finish(folder).map_err(write)?;
        fail::fail_point!("git.pack_written");
        note(paths, &written.name)?;
        match written.name_it(folder) {
            Ok(()) => Ok(()),
            // `git gc --prune=now` takes temporary files, too.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(again(VANISHED)),
            Err(e) => Err(write(e).into()),
        }
    }
}

/// Returns those of the objects that are not there, each once.
fn only_new(held: &Repository, ids: impl Iterator<Item = Oid>) -> Result<Vec<Oid>, Failure> {
    let odb = held
        .odb()
        .map_err(|error| git_failure("cannot read the objects", &error))?;
    let mut known = HashSet::new();
    let new = ids
        .filter(|&id| known.insert(id) && !odb.exists_ext(id, OdbLookupFlags::NO_REFRESH))
        .collect();
    Ok(new)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// How hard pages are deflated where git is not told: 4. What it leaves is 0.7 % more than after zlib's own 6, in much less
/// time; after 1 it would be 20 % more, and for good, since git's gc takes the bytes as they are.
const LEVEL: u32 = 4;

/// Returns how hard git is told to deflate.
fn level(repo: &Repository) -> Compression {
    let said = |name: &str| repo.config().and_then(|config| config.get_i32(name)).ok();
    match said("pack.compression").or_else(|| said("core.compression")) {
        Some(level @ 0..=9) => Compression::new(level.unsigned_abs()),
        Some(_) | None => Compression::new(LEVEL),
    }
}

/// Where an object lies in the pack.
struct Entry {
    id: Oid,
    crc: [u8; 4],
    offset: [u8; 4],
}

/// A pack of version 2 being written.
struct Writer {
    file: BufWriter<NamedTempFile>,
    sha: Sha1,
    offset: u32,
    entries: Vec<Entry>,
    zlib: Compress,
    /// The entry at hand.
    bytes: Vec<u8>,
}

impl Writer {
    fn begin(folder: &Path, count: usize, level: Compression) -> io::Result<Self> {
        let mut pack = Self {
            file: BufWriter::with_capacity(64 << 10, temporary(folder, "tmp_pack_")?),
            sha: Sha1::new(),
            offset: 0,
            entries: Vec::with_capacity(count),
            zlib: Compress::new(level, true),
            bytes: Vec::new(),
        };
        pack.bytes.extend(b"PACK");
        pack.bytes.extend(2_u32.to_be_bytes());
        pack.bytes.extend(small(count)?.to_be_bytes());
        pack.emit()?;
        Ok(pack)
    }

    /// Writes what is in `bytes`.
    fn emit(&mut self) -> io::Result<()> {
        self.sha.update(&self.bytes);
        self.file.write_all(&self.bytes)?;
        self.offset = small(self.offset as usize + self.bytes.len())?;
        self.bytes.clear();
        Ok(())
    }

    fn add(&mut self, id: Oid, kind: ObjectType, data: &[u8]) -> io::Result<()> {
        head(&mut self.bytes, kind, data.len());
        self.zlib.reset();
        loop {
            self.bytes.reserve(data.len() / 2 + 64);
            let done = usize::try_from(self.zlib.total_in()).map_err(io::Error::other)?;
            let status =
                self.zlib
                    .compress_vec(&data[done..], &mut self.bytes, FlushCompress::Finish)?;
            if matches!(status, Status::StreamEnd) {
                break;
            }
        }
        let mut crc = Crc::new();
        crc.update(&self.bytes);
        let (crc, offset) = (crc.sum().to_be_bytes(), self.offset.to_be_bytes());
        self.entries.push(Entry { id, crc, offset });
        self.emit()
    }

    /// Ends the pack, writes its index, and brings both to the disk.
    fn finish(mut self, folder: &Path) -> io::Result<Written> {
        let sha: [u8; SHA_LEN] = self.sha.finalize().into();
        self.file.write_all(&sha)?;
        let pack = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        pack.as_file().sync_all()?;
        let mut index = temporary(folder, "tmp_idx_")?;
        index.write_all(&index_of(self.entries, &sha))?;
        index.as_file().sync_all()?;
        Ok(Written {
            pack,
            index,
            name: format!("pack-{}", hex(&sha)),
        })
    }
}

/// Makes a file with the mode of git's packs under a name that git's prune takes for its own.
fn temporary(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o444))
        .tempfile_in(folder)
}

/// Returns a number that an index holds as it is.
fn small(number: usize) -> io::Result<u32> {
    let small = i32::try_from(number).map(i32::unsigned_abs);
    small.map_err(|_| io::Error::other("the pack is too large"))
}

/// Adds an entry's head: the kind and the size, four bits and then seven at a time.
fn head(bytes: &mut Vec<u8>, kind: ObjectType, mut size: usize) {
    let kind: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        ObjectType::Blob | ObjectType::Any => 3, // a stored object is never of any kind
    };
    let mut bits = 4;
    let mut byte = kind << 4;
    loop {
        byte |= u8::try_from(size & ((1 << bits) - 1)).expect("at most seven bits");
        size >>= bits;
        if size == 0 {
            bytes.push(byte);
            return;
        }
        bytes.push(byte | 0x80);
        (bits, byte) = (7, 0);
    }
}

/// Renders the index (version 2) of a pack with this trailer.
fn index_of(mut entries: Vec<Entry>, pack: &[u8; SHA_LEN]) -> Vec<u8> {
    entries.sort_unstable_by_key(|entry| entry.id);
    let mut bytes = Vec::with_capacity(1100 + entries.len() * 28);
    bytes.extend(b"\xfftOc");
    bytes.extend(2_u32.to_be_bytes());
    for first in 0..=u8::MAX {
        let upto = entries.partition_point(|entry| entry.id.as_bytes()[0] <= first);
        let upto = u32::try_from(upto).expect("no more than the pack says");
        bytes.extend(upto.to_be_bytes());
    }
    let all = |part: fn(&Entry) -> &[u8]| entries.iter().flat_map(part).copied();
    bytes.extend(all(|entry| entry.id.as_bytes()));
    bytes.extend(all(|entry| &entry.crc));
    bytes.extend(all(|entry| &entry.offset));
    bytes.extend(pack);
    let sha = Sha1::digest(&bytes);
    bytes.extend(sha);
    bytes
}

/// A pack and its index on the disk, still without their names.
struct Written {
    pack: NamedTempFile,
    index: NamedTempFile,
    name: String,
}

impl Written {
    fn name_it(self, folder: &Path) -> io::Result<()> {
        let place = Place::of(folder, &self.name);
        fs::write(&place.keep, KEEP)?;
        self.pack.persist(&place.pack)?;
        fail::fail_point!("git.pack_named");
        self.index.persist(&place.index)?;
        sync_folder(folder)
    }
}

/// The files of a pack.
struct Place {
    pack: PathBuf,
    index: PathBuf,
    keep: PathBuf,
}

impl Place {
    fn of(folder: &Path, name: &str) -> Self {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        Self {
            pack: file("pack"),
            index: file("idx"),
            keep: file("keep"),
        }
    }
}

/// Notes the pack that is being put in its place, instead of one before.
fn note(paths: &Paths, name: &str) -> Result<(), Failure> {
    let_go(paths)?;
    let write = || {
        let mut file = File::create(&paths.pack)?;
        file.write_all(name.as_bytes())?;
        file.sync_all()?;
        sync_folder(&paths.git_dir)
    };
    write().map_err(|e| io_failure("write", &paths.pack, &e))
}

/// Leaves the noted pack to git: nothing keeps it any more, and one without an index goes.
pub(super) fn let_go(paths: &Paths) -> Result<(), Failure> {
    let name = match fs::read_to_string(&paths.pack) {
        Ok(name) => name,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_failure("read", &paths.pack, &e)),
    };
    // A note that was cut off was written before anything got that name.
    let is_whole = name.strip_prefix("pack-").is_some_and(|sha| {
        sha.len() == 2 * SHA_LEN && sha.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if is_whole {
        let place = Place::of(&paths.common_dir.join("objects/pack"), &name);
        if matches!(place.index.try_exists(), Ok(false)) {
            remove(&place.pack)?;
        }
        if fs::read(&place.keep).is_ok_and(|bytes| KEEP.starts_with(&bytes)) {
            remove(&place.keep)?;
        }
    }
    remove(&paths.pack)
}
