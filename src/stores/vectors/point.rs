//! Points: what stands in Qdrant for a page, the same for every engine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::shape::folders;
use crate::embed::{self, Sparse, bm25};
use crate::model::{ContentSha, Page};

/// The name of the sparse vector that each point has.
pub(super) const BM25: &str = "bm25";

/// The name of the dense vector that points have where an embedding provider is set.
pub(super) const DENSE: &str = "dense";

/// The `commit_sha` of a page that nobody gave one.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// The `lang` of a page that names none.
const LANG: &str = "md";

/// The longest label, in bytes. A longer one is no label: each point of the page repeats it, twice.
const MAX_LABEL: usize = 1000;

/// How many tags of a page its points carry. Each point repeats them.
const MAX_TAGS: usize = 100;

/// The payload fields that deletes, look-ups and searches filter on; each gets a keyword index, without which a server in
/// strict mode refuses.
#[cfg(any(test, feature = "server"))]
pub(super) const INDEXED: [&str; 7] = ["folders", "kind", "lang", "path", "repo", "tags", "wiki"];

/// A point: one section of one page, or a wiki's meta point (see [`Meta`]).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) id: Uuid,
    pub(super) payload: Map<String, Value>,
    /// `None` for the meta point. A section without tokens has an empty one all the same: an engine may
    /// leave the old vector where an upsert names none. Read back, an empty one may be `None`.
    pub(super) bm25: Option<Sparse>,
    /// The meaning of the section, of length 1, made by the model that the payload's `fingerprint` names; `None` for the meta
    /// point, without a provider, and while it is away.
    pub(super) dense: Option<Vec<f32>>,
}

/// What a point is about beside the page: whose it is and how it was made.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) wiki: String,
    pub(super) repo_name: String,
    pub(super) fingerprint: String,
}

/// The four parts of the point key `repo@commit_sha::lang::symbol_path`.
struct Key {
    repo: String,
    commit_sha: String,
    lang: String,
    symbol_path: String,
}

impl Key {
    /// Takes each part from front matter, else from the last job, else the default.
    fn of(page: &Page, repo_name: &str) -> Self {
        let matter = &page.document().front_matter;
        let pick = |first: &Option<String>, second: &str, last: &str| {
            first
                .as_deref()
                .into_iter()
                .chain([second])
                .find(|text| !text.is_empty() && text.len() <= MAX_LABEL)
                .unwrap_or(last)
                .to_owned()
        };
        Self {
            repo: pick(&matter.repo, &page.labels.repo, repo_name),
            commit_sha: pick(&matter.commit, &page.labels.commit_sha, NO_COMMIT),
            lang: pick(&matter.lang, "", LANG),
            symbol_path: pick(&matter.symbol, "", page.path.without_extension()),
        }
    }

    fn text(&self) -> String {
        let Self {
            repo,
            commit_sha,
            lang,
            symbol_path,
        } = self;
        format!("{repo}@{commit_sha}::{lang}::{symbol_path}")
    }
}

/// Returns the id of a section's point: the UUID (version 5), in the URL namespace, of the point key, `#`, the
/// section's number, and, each on a line of its own, the wiki's id and the page's path.
///
/// The last two keep apart what shares a key: two pages whose front matter names the same symbol, and two
/// wikis in one collection.
fn point_id(key: &str, section: usize, wiki: &str, path: &str) -> Uuid {
    let name = format!("{key}#{section}\n{wiki}\n{path}");
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes())
}

/// Stands for a point that is known by a number and no UUID: none of ours, but it may say that it is. No UUID that is
/// made of something begins with eight zeros.
pub(super) fn numbered(number: u64) -> Uuid {
    Uuid::from_u64_pair(0, number)
}

/// Returns the number that [`numbered`] took.
pub(super) fn number_of(id: Uuid) -> Option<u64> {
    let (zeros, number) = id.as_u64_pair();
    (zeros == 0).then_some(number)
}

/// Returns a page's points, one per section, in order. A page without text has one, with its title.
pub(super) fn points_of(page: &Page, owner: &Owner) -> Vec<Point> {
    let document = page.document();
    let key = Key::of(page, &owner.repo_name);
    let point_key = key.text();
    let tags = &document.tags[..document.tags.len().min(MAX_TAGS)];
    let page_sha = page.sha.to_string();
    let count = document.sections.len().max(1);
    let point = |section: usize, trail: &[String], text: &str| {
        let passage = embed::passage(&document.title, trail, text);
        let payload = json!({
            "repo": key.repo,
            "commit_sha": key.commit_sha,
            "lang": key.lang,
            "symbol_path": key.symbol_path,
            "point_key": point_key,
            "wiki": owner.wiki,
            "path": page.path.as_str(),
            "folders": folders(page.path.as_str()),
            "title": document.title,
            "heading": trail,
            "section": section,
            "sections": count,
            "page_sha": page_sha,
            "section_sha": ContentSha::of(passage.as_bytes()).to_string(),
            "fingerprint": owner.fingerprint,
            "text": text,
            "tags": tags,
        });
        Point {
            id: point_id(&point_key, section, &owner.wiki, page.path.as_str()),
            payload: object(payload),
            bm25: Some(bm25::document(&document.title, &passage)),
            dense: None,
        }
    };
    if document.sections.is_empty() {
        return vec![point(0, &[], "")];
    }
    document
        .sections
        .iter()
        .enumerate()
        .map(|(number, section)| point(number, &section.trail, &section.text))
        .collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

impl Point {
    /// Returns a text of the payload; empty when it is not there.
    pub(super) fn text(&self, field: &str) -> &str {
        self.payload
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    /// Returns the section's number in the page, from 0.
    pub(super) fn section(&self) -> usize {
        let section = self.payload.get("section").and_then(Value::as_u64);
        section.and_then(|n| n.try_into().ok()).unwrap_or(0)
    }

    /// Returns the headings above the section, outermost first, its own last.
    pub(super) fn heading(&self) -> Vec<&str> {
        let heading = self.payload.get("heading").and_then(Value::as_array);
        heading
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Returns the text that stands for the section in every embedding.
    pub(super) fn passage(&self) -> String {
        let trail: Vec<String> = self.heading().into_iter().map(Into::into).collect();
        embed::passage(self.text("title"), &trail, self.text("text"))
    }

    /// Says whether it is a wiki's meta point and no section.
    pub(super) fn is_meta(&self) -> bool {
        self.payload.contains_key("kind")
    }

    /// Returns a hash over all that the point holds: id, payload (whatever the order of its fields), the weights of its
    /// words to the bit, and whether there is a dense vector.
    ///
    /// Not that vector's numbers: what text they stand for and which model made them is in the payload (`section_sha`,
    /// `fingerprint`), so that a page can be compared without a provider; and an engine may round them.
    pub(super) fn hash(&self) -> [u8; 16] {
        self.hash_when(self.dense.is_some())
    }

    /// Returns that hash as it is with or without a dense vector.
    fn hash_when(&self, is_dense: bool) -> [u8; 16] {
        // Gathered first: the hasher is slow with many small pieces.
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend(self.id.as_bytes());
        let fields: BTreeMap<&String, &Value> = self.payload.iter().collect();
        for (name, value) in fields {
            bytes.extend(name.as_bytes());
            bytes.push(0);
            serde_json::to_writer(&mut bytes, value).expect("a JSON value always serialises");
            bytes.push(0);
        }
        if let Some(vector) = &self.bm25 {
            for (index, value) in vector.indices.iter().zip(&vector.values) {
                bytes.extend(index.to_le_bytes());
                bytes.extend(value.to_bits().to_le_bytes());
            }
        }
        bytes.push(u8::from(is_dense));
        let whole: [u8; 32] = Sha256::digest(&bytes).into();
        *whole
            .first_chunk()
            .expect("the half of 32 bytes is 16 bytes")
    }
}

/// The points of one page, as hashes: what a digest is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Digests(Vec<[u8; 16]>);

impl Digests {
    pub(super) fn of(points: &[Point]) -> Self {
        Self(points.iter().map(Point::hash).collect())
    }

    /// Takes each point as it is with or without a dense vector.
    pub(super) fn when(points: &[Point], is_dense: impl Fn(&Point) -> bool) -> Self {
        let hash = |point: &Point| point.hash_when(is_dense(point));
        Self(points.iter().map(hash).collect())
    }

    pub(super) fn push(&mut self, point: &Point) {
        self.0.push(point.hash());
    }

    /// Returns one digest of all, in hex; the order in which they came does not matter.
    pub(super) fn digest(&self) -> String {
        let mut hashes = self.0.clone();
        hashes.sort_unstable();
        let mut hasher = Sha256::new();
        for hash in &hashes {
            hasher.update(hash);
        }
        hasher
            .finalize()
            .iter()
            .fold(String::with_capacity(64), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
                hex
            })
    }
}

/// A wiki's meta point: which store this is, at which epoch, and of whose points. Without vectors, so never found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) wiki: String,
    pub(super) id: String,
    pub(super) epoch: i64,
    /// The checkout whose points these are, as [`VectorSettings`](super::VectorSettings) names it.
    #[serde(default)]
    pub(super) belongs: String,
    /// The layout of its points.
    #[serde(default)]
    pub(super) schema: u32,
    /// The model of their dense vectors; stays when no provider is set any longer, as some of its vectors may.
    #[serde(default)]
    pub(super) model: Option<String>,
}

/// What the meta point's `kind` is.
pub(super) const META: &str = "meta";

/// Raised when the layout of points changes; part of the fingerprint.
pub(super) const SCHEMA: u32 = 2;

impl Meta {
    /// Returns the id of a wiki's meta point.
    pub(super) fn point_id(wiki: &str) -> Uuid {
        Uuid::new_v5(
            &Uuid::NAMESPACE_URL,
            format!("wiki-sync/meta/{wiki}").as_bytes(),
        )
    }

    pub(super) fn to_point(&self, fingerprint: &str) -> Point {
        let mut payload = object(json!({
            "kind": META,
            "wiki": self.wiki,
            "id": self.id,
            "epoch": self.epoch,
            "belongs": self.belongs,
            "schema": self.schema,
            "fingerprint": fingerprint,
        }));
        if let Some(model) = &self.model {
            payload.insert("model".into(), Value::from(model.as_str()));
        }
        Point {
            id: Self::point_id(&self.wiki),
            payload,
            bm25: None,
            dense: None,
        }
    }

    /// Reads a meta point; `None` when the point is none.
    pub(super) fn from_point(point: &Point) -> Option<Self> {
        let number = |field: &str| point.payload.get(field).and_then(Value::as_i64);
        let model = point.text("model");
        (point.text("kind") == META).then(|| Self {
            wiki: point.text("wiki").into(),
            id: point.text("id").into(),
            epoch: number("epoch").unwrap_or(0),
            belongs: point.text("belongs").into(),
            schema: number("schema")
                .and_then(|schema| schema.try_into().ok())
                .unwrap_or(0),
            model: (!model.is_empty()).then(|| model.into()),
        })
    }
}
