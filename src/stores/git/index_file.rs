//! The index file itself, read and written entry by entry.
//!
//! Not through libgit2's index: that one drops the extended flags' neighbours it does not know, smudges
//! entries by a diff of its own, and cannot write beside the lock. Here an entry that we do not name goes
//! out as the very bytes that came in. Format: git's `Documentation/gitformat-index`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::cache_tree;
use super::index_entry::{Entry, MODE_COMMIT};
use super::program::Git;
use super::stamp::{SHA_LEN, Stamp};

/// Bytes of an entry before its extended flags and name.
const FIXED_LEN: usize = 62;
/// The name's length as it stands in the flags; longer names say 0xfff.
const NAME_MASK: u16 = 0x0fff;
const EXTENDED: u16 = 0x4000;
/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexError {
    #[error("cannot read the index")]
    Io(#[from] io::Error),
    #[error("the index is {0}, which wiki-sync cannot write")]
    Unsupported(&'static str),
    #[error("the index has a mandatory extension {0:?} that wiki-sync does not know")]
    Extension(String),
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
}

/// The index: its entries in git's order, and the extensions that stay true.
#[derive(Debug, Clone)]
pub(super) struct IndexFile {
    version: u32,
    entries: Vec<Entry>,
    extensions: Vec<([u8; 4], Vec<u8>)>,
    /// `index.skipHash`: the trailer is zeros.
    unhashed: bool,
    /// Who writes it, when it is a flat copy of what only git can write.
    pub(super) keeper: Option<Git>,
}

impl IndexFile {
    /// Reads the index and what tells it from the next; an absent one is empty.
    pub(super) fn read(path: &Path) -> Result<(Self, Option<Stamp>), IndexError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Self::empty(), None)),
            Err(e) => return Err(e.into()),
        };
        let meta = file.metadata()?;
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        let index = Self::parse(&bytes)?;
        let stamp = Stamp::new(&meta, &bytes[bytes.len() - SHA_LEN..]);
        Ok((index, Some(stamp)))
    }

    fn empty() -> Self {
        Self {
            version: 2,
            entries: Vec::new(),
            extensions: Vec::new(),
            unhashed: false,
            keeper: None,
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, IndexError> {
        let Some((body, trailer)) = bytes.split_last_chunk::<SHA_LEN>() else {
            return Err(IndexError::Damaged("it is too short"));
        };
        let unhashed = *trailer == [0; SHA_LEN];
        if !unhashed && <[u8; SHA_LEN]>::from(Sha1::digest(body)) != *trailer {
            return Err(IndexError::Damaged("its checksum is wrong"));
        }
        let mut rest = Reader { bytes: body, at: 0 };
        if rest.take(4)? != b"DIRC" {
            return Err(IndexError::Damaged("it does not start with DIRC"));
        }
        let version = rest.word()?;
        if !(2..=4).contains(&version) {
            return Err(IndexError::Unsupported(
                "of a version other than 2, 3 and 4",
            ));
        }
        let count = rest.word()? as usize;
        let mut index = Self {
            version,
            // A damaged count must not ask for more memory than the file could fill.
            entries: Vec::with_capacity(count.min(body.len() / FIXED_LEN)),
            extensions: Vec::new(),
            unhashed,
            keeper: None,
        };
        for _ in 0..count {
            let before = index.entries.last().map_or(&[][..], |entry| &entry.path);
            let entry = rest.entry(version, before)?;
            index.entries.push(entry);
        }
        while rest.at < body.len() {
            let name: [u8; 4] = rest.take(4)?.try_into().expect("took four");
            let len = rest.word()? as usize;
            let data = rest.take(len)?;
            match &name {
                b"link" => return Err(IndexError::Unsupported("a split index")),
                b"sdir" => return Err(IndexError::Unsupported("a sparse index")),
                b"TREE" | b"REUC" | b"UNTR" | b"FSMN" => {
                    index.extensions.push((name, data.to_vec()));
                }
                // Offsets into the old file; git makes them anew.
                b"EOIE" | b"IEOT" => {}
                _ if name[0].is_ascii_uppercase() => {} // optional by the format's own rule
                _ => {
                    return Err(IndexError::Extension(
                        String::from_utf8_lossy(&name).into_owned(),
                    ));
                }
            }
        }
        Ok(index)
    }

    /// Says whether what [`Stamp`] tells of its file surely tells it from every other: not where no checksum stands in it,
    /// nor where it is a copy.
    pub(super) fn is_known_by_stamp(&self) -> bool {
        self.keeper.is_none() && !self.unhashed
    }

    /// Returns the index as one that git is to write.
    pub(super) fn kept_by(self, git: Git) -> Self {
        Self {
            keeper: Some(git),
            ..self
        }
    }

    /// Returns the entries, in the order of path bytes and stage.
    #[cfg(test)]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entries of a path: none, one of stage 0, or up to three of a conflict.
    pub(super) fn at(&self, path: &str) -> &[Entry] {
        let path = path.as_bytes();
        let start = self.entries.partition_point(|entry| *entry.path < *path);
        let len = self.entries[start..]
            .iter()
            .take_while(|entry| *entry.path == *path)
            .count();
        &self.entries[start..start + len]
    }

    /// Returns the entries below a folder, given without a slash at the end; of the empty path, all.
    pub(super) fn under(&self, folder: &str) -> impl Iterator<Item = &Entry> {
        let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        let prefix = [folder.as_bytes(), slash].concat();
        let start = self.entries.partition_point(|entry| *entry.path < *prefix);
        self.entries[start..]
            .iter()
            .take_while(move |entry| entry.path.starts_with(&prefix))
    }

    /// Puts each path's entries to what is given: one of stage 0, or none.
    pub(super) fn edit(&mut self, mut edits: BTreeMap<Box<[u8]>, Option<Entry>>) {
        let mut same_paths = true;
        for (path, new) in &edits {
            let known = self.entries.binary_search_by(|e| e.path.cmp(path)).is_ok();
            same_paths &= known == new.is_some();
        }
        for (name, data) in &mut self.extensions {
            if name == b"TREE" {
                // Left as it is, git's next commit would write the old tree again.
                *data = cache_tree::invalidate(data, edits.keys().map(|path| &**path));
            }
        }
        self.extensions.retain(|(name, data)| match name {
            b"TREE" => !data.is_empty(),
            // Both go by the set of entries; git makes them anew where they are switched on.
            b"UNTR" | b"FSMN" => same_paths,
            _ => true,
        });
        let mut out = Vec::with_capacity(self.entries.len() + edits.len());
        for entry in self.entries.drain(..) {
            while let Some(next) = edits.first_entry()
                && *next.key() < entry.path
            {
                out.extend(next.remove());
            }
            // An edit stays in the map until a greater path comes, so that all stages are swallowed.
            if !edits.contains_key(&entry.path) {
                out.push(entry);
            }
        }
        out.extend(edits.into_values().flatten());
        self.entries = out;
    }

    /// Says whether some entry other than those `except` may be dirty although its times and size say
    /// clean: written in the same second as the index, or later. Git looks into such a file only because
    /// the index is not newer than it.
    pub(super) fn has_racy(&self, index_second: i64, except: &dyn Fn(&[u8]) -> bool) -> bool {
        self.entries.iter().any(|entry| {
            i64::from(entry.mtime_seconds()) >= index_second
                && entry.mode() != MODE_COMMIT
                && !except(&entry.path)
        })
    }

    /// Returns the file's bytes.
    #[cfg(test)]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.render().0
    }

    /// Returns the file's bytes, and their SHA-1.
    pub(super) fn render(&self) -> (Vec<u8>, [u8; SHA_LEN]) {
        let extended = self.entries.iter().any(|entry| entry.extended != 0);
        let version = match (self.version, extended) {
            (4, _) => 4,
            (_, true) => 3,
            (_, false) => 2,
        };
        let mut out = Vec::with_capacity(self.entries.len() * 120 + 64);
        out.extend(b"DIRC");
        out.extend(u32::to_be_bytes(version));
        push_len(&mut out, self.entries.len());
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            push_entry(&mut out, entry, version, before);
            before = &entry.path;
        }
        for (name, data) in &self.extensions {
            out.extend(name);
            push_len(&mut out, data.len());
            out.extend(data);
        }
        let body = Sha1::new_with_prefix(&out);
        let trailer: [u8; SHA_LEN] = if self.unhashed {
            [0; SHA_LEN]
        } else {
            body.clone().finalize().into()
        };
        out.extend(trailer);
        (out, body.chain_update(trailer).finalize().into())
    }
}

fn push_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("an index is smaller than 4 GiB");
    out.extend(len.to_be_bytes());
}

fn push_entry(out: &mut Vec<u8>, entry: &Entry, version: u32, before: &[u8]) {
    let start = out.len();
    for word in entry.words {
        out.extend(word.to_be_bytes());
    }
    out.extend(entry.id);
    let name_len = u16::try_from(entry.path.len()).unwrap_or(NAME_MASK);
    let extended = if entry.extended == 0 { 0 } else { EXTENDED };
    out.extend((entry.flags | extended | name_len.min(NAME_MASK)).to_be_bytes());
    if extended != 0 {
        out.extend(entry.extended.to_be_bytes());
    }
    if version == 4 {
        let shared = before
            .iter()
            .zip(&*entry.path)
            .take_while(|(a, b)| a == b)
            .count();
        push_varint(out, before.len() - shared);
        out.extend(&entry.path[shared..]);
        out.push(0);
    } else {
        out.extend(&*entry.path);
        // One to eight NULs, up to a multiple of eight.
        let len = out.len() - start;
        out.resize(start + (len / 8 + 1) * 8, 0);
    }
}

/// The offset encoding of pack files: 7 bits a byte, most significant first, each continuation adds one.
fn push_varint(out: &mut Vec<u8>, mut value: usize) {
    let mut bytes = [0_u8; 10];
    let mut at = bytes.len() - 1;
    bytes[at] = low_bits(value);
    while value >> 7 != 0 {
        value = (value >> 7) - 1;
        at -= 1;
        bytes[at] = 0x80 | low_bits(value);
    }
    out.extend(&bytes[at..]);
}

fn low_bits(value: usize) -> u8 {
    u8::try_from(value & 0x7f).expect("seven bits")
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const SHORT: IndexError = IndexError::Damaged("it ends too early");

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
        let end = self.at.checked_add(len).ok_or(SHORT)?;
        let part = self.bytes.get(self.at..end).ok_or(SHORT)?;
        self.at = end;
        Ok(part)
    }

    fn word(&mut self) -> Result<u32, IndexError> {
        let four = self.take(4)?.try_into().expect("took four");
        Ok(u32::from_be_bytes(four))
    }

    fn short(&mut self) -> Result<u16, IndexError> {
        let two = self.take(2)?.try_into().expect("took two");
        Ok(u16::from_be_bytes(two))
    }

    fn until_nul(&mut self) -> Result<&'a [u8], IndexError> {
        let rest = self.bytes.get(self.at..).ok_or(SHORT)?;
        let len = rest.iter().position(|&byte| byte == 0).ok_or(SHORT)?;
        self.take(len)
    }

    fn varint(&mut self) -> Result<usize, IndexError> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = (value + 1)
                .checked_mul(128)
                .ok_or(IndexError::Damaged("a name's length is absurd"))?
                + usize::from(byte & 0x7f);
        }
        Ok(value)
    }

    fn entry(&mut self, version: u32, before: &[u8]) -> Result<Entry, IndexError> {
        let start = self.at;
        let mut words = [0; 10];
        for word in &mut words {
            *word = self.word()?;
        }
        let id = self.take(SHA_LEN)?.try_into().expect("took twenty");
        let flags = self.short()?;
        let extended = if flags & EXTENDED == 0 {
            0
        } else {
            self.short()?
        };
        let path = if version == 4 {
            let strip = self.varint()?;
            let keep = before
                .len()
                .checked_sub(strip)
                .ok_or(IndexError::Damaged("a name is cut before its start"))?;
            let path = [&before[..keep], self.until_nul()?].concat();
            self.take(1)?;
            path.into()
        } else {
            let path: Box<[u8]> = match flags & NAME_MASK {
                NAME_MASK => self.until_nul()?.into(),
                len => self.take(usize::from(len))?.into(),
            };
            let len = self.at - start;
            self.take((len / 8 + 1) * 8 - len)?;
            path
        };
        Ok(Entry {
            words,
            id,
            flags: flags & !(NAME_MASK | EXTENDED),
            extended,
            path,
        })
    }
}
