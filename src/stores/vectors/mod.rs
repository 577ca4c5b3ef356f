//! The vectors store: pages cut into sections, each one point in Qdrant.
//!
//! | file | what |
//! |---|---|
//! | `point.rs` | from a page to its points: ids, payload, digests |
//! | `engine.rs` | what an engine must be able to do |
//! | `edge/`, `turn.rs` | Qdrant Edge in this process, and whose turn it is with it |
//! | `search.rs` | from a query to pages |
//! | `unusable.rs` | an engine that is none, with the reason |
//!
//! A put writes the page's points first and deletes its other points after: killed between the two, the page
//! is found twice, never not at all, and the next put takes away what is left over.

// Without an engine nobody calls what all engines share.
#![cfg_attr(not(feature = "edge"), allow(dead_code))]

#[cfg(feature = "edge")]
mod edge;
mod engine;
mod point;
mod search;
#[cfg(all(test, feature = "edge"))]
mod tests;
#[cfg(feature = "edge")]
mod turn;
mod unusable;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use uuid::Uuid;

pub use self::search::Hit;

use self::engine::Engine;

use self::point::{Digests, Meta, Owner, Point, SCHEMA, points_of};
use self::unusable::Unusable;
use super::{Applied, Holding, Identity, Outcome, Store, Tally};
use crate::embed::{PASSAGE_VERSION, bm25};
use crate::model::markdown::PARSER_VERSION;
use crate::model::{Change, Failure, FailureKind, Page, StoreName};
use crate::state::StateDir;

/// The URL of the embedded engine.
pub const EDGE_URL: &str = "edge:";

/// How many points, and pages, are gathered before they are written: what is held in memory at once.
const GATHER_POINTS: usize = 500;
const GATHER_PAGES: usize = 256;

/// Where the vectors are and whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSettings {
    /// `edge:` for the embedded engine.
    pub url: String,
    /// The wiki's id: tells its points from those of other wikis in the same place. Never empty.
    pub wiki_id: String,
    /// The `repo` label of pages that nobody gave one: the name of the repository's folder.
    pub repo_name: String,
    /// How long to wait for one's turn with the embedded engine.
    pub wait: Duration,
}

impl VectorSettings {
    /// Makes the settings of the embedded engine, with half a minute of patience.
    #[must_use]
    pub fn embedded(wiki_id: impl Into<String>, repo_name: impl Into<String>) -> Self {
        Self {
            url: EDGE_URL.into(),
            wiki_id: wiki_id.into(),
            repo_name: repo_name.into(),
            wait: Duration::from_secs(30),
        }
    }
}

/// The vectors of one wiki.
pub struct VectorStore {
    settings: VectorSettings,
    fingerprint: String,
    engine: Box<dyn Engine>,
}

impl fmt::Debug for VectorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorStore")
            .field("settings", &self.settings)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Returns the id of the wiki whose points are in this checkout's embedded store, if there is one: what to
/// go on with when the rest of the state was lost. Of several the one with the highest epoch.
///
/// `None` for an engine that is shared with others, as nothing says which of them is ours.
///
/// # Errors
/// `Busy`, `Refused` and `Down` as with every use of the store.
pub fn adopted_wiki_id(
    url: &str,
    state: &StateDir,
    wait: Duration,
) -> Result<Option<String>, Failure> {
    if url != EDGE_URL {
        return Ok(None);
    }
    let mut engine = open_engine(url, state, wait)?;
    if !engine.ready(false)? {
        return Ok(None);
    }
    let mut last: Option<Meta> = None;
    engine.metas(&mut |point| {
        if let Some(meta) = Meta::from_point(&point)
            && last.as_ref().is_none_or(|last| meta.epoch > last.epoch)
        {
            last = Some(meta);
        }
    })?;
    Ok(last.map(|meta| meta.wiki))
}

fn open_engine(url: &str, state: &StateDir, wait: Duration) -> Result<Box<dyn Engine>, Failure> {
    if url == EDGE_URL {
        #[cfg(feature = "edge")]
        return Ok(Box::new(edge::Edge::new(state, wait)));
        #[cfg(not(feature = "edge"))]
        {
            let _ = (state, wait);
            return Err(Failure::new(
                FailureKind::Refused,
                "this wiki-sync was built without its embedded vector engine",
            )
            .hint("build it with the feature \"edge\""));
        }
    }
    Err(Failure::new(
        FailureKind::Refused,
        format!("vectors.url {url:?} names no vector engine"),
    )
    .hint("set vectors.url to \"edge:\""))
}

impl VectorStore {
    /// Opens the vectors of a wiki. Touches nothing yet: the engine is opened when it is first needed.
    ///
    /// # Errors
    /// `Refused` when the URL names no engine that this build has.
    pub fn open(settings: VectorSettings, state: &StateDir) -> Result<Self, Failure> {
        let engine = open_engine(&settings.url, state, settings.wait)?;
        Ok(Self::over(engine, settings))
    }

    /// Makes the vectors of a wiki whose id cannot be learned, for this reason: each use of them fails with it, and nothing
    /// is touched, while the other stores are served.
    #[must_use]
    pub fn unusable(settings: VectorSettings, why: Failure) -> Self {
        Self::over(Box::new(Unusable(why)), settings)
    }

    fn over(engine: Box<dyn Engine>, settings: VectorSettings) -> Self {
        let fingerprint = format!(
            "parser {PARSER_VERSION}, passage {PASSAGE_VERSION}, bm25 {}, schema {SCHEMA}, repo {}",
            bm25::VERSION,
            settings.repo_name
        );
        Self {
            settings,
            fingerprint,
            engine,
        }
    }

    fn points_of(&self, page: &Page) -> Vec<Point> {
        let owner = Owner {
            wiki: &self.settings.wiki_id,
            repo_name: &self.settings.repo_name,
            fingerprint: &self.fingerprint,
        };
        points_of(page, &owner)
    }

    fn meta(&mut self) -> Result<Option<Meta>, Failure> {
        let id = Meta::point_id(&self.settings.wiki_id);
        let points = self.engine.retrieve(&[id])?;
        Ok(points.first().and_then(Meta::from_point))
    }

    /// Returns the meta point, made anew where there is none; ready for writing.
    fn meta_or_new(&mut self) -> Result<Meta, Failure> {
        self.engine.ready(true)?;
        if let Some(meta) = self.meta()? {
            self.engine.note(&meta)?;
            return Ok(meta);
        }
        self.new_meta()
    }

    /// Makes a meta point with a new id; durable on return.
    fn new_meta(&mut self) -> Result<Meta, Failure> {
        let meta = Meta {
            wiki: self.settings.wiki_id.clone(),
            id: Uuid::new_v4().to_string(),
            epoch: 0,
        };
        self.engine.upsert(vec![meta.to_point(&self.fingerprint)])?;
        self.engine.flush()?;
        self.engine.note(&meta)?;
        Ok(meta)
    }

    /// Makes some of the changes and returns for each whether anything had to be done.
    fn write(&mut self, gathered: Vec<Gathered<'_>>) -> Result<Vec<bool>, Failure> {
        let wiki = self.settings.wiki_id.clone();
        let paths: Vec<&str> = gathered.iter().map(|one| one.path).collect();
        let mut held = HashMap::<String, (Digests, Vec<Uuid>)>::new();
        self.engine.of_pages(&wiki, &paths, &mut |point| {
            let (digests, ids) = held.entry(point.text("path").to_owned()).or_default();
            digests.push(&point);
            ids.push(point.id);
        })?;
        let mut changed = Vec::with_capacity(gathered.len());
        let mut upserts = Vec::new();
        let mut leftover_paths = Vec::new();
        let mut keep = Vec::new();
        for Gathered { path, points } in gathered {
            let (digests, ids) = held.remove(path).unwrap_or_default();
            let same = digests.digest() == Digests::of(&points).digest();
            changed.push(!same);
            if same {
                continue;
            }
            let stays = |id: &Uuid| points.iter().any(|point| point.id == *id);
            if !ids.iter().all(stays) {
                leftover_paths.push(path);
                keep.extend(points.iter().map(|point| point.id));
            }
            upserts.extend(points);
        }
        fail::fail_point!("vectors.before_upsert");
        if !upserts.is_empty() {
            self.engine.upsert(upserts)?;
        }
        fail::fail_point!("vectors.after_upsert");
        if !leftover_paths.is_empty() {
            self.engine.delete_except(&wiki, &leftover_paths, &keep)?;
        }
        fail::fail_point!("vectors.after_delete");
        Ok(changed)
    }
}

/// A change with the points that the store is to hold of the page afterwards: none when it is removed.
struct Gathered<'a> {
    path: &'a str,
    points: Vec<Point>,
}

impl Store for VectorStore {
    fn name(&self) -> StoreName {
        StoreName::Vectors
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn identity(&mut self) -> Result<Identity, Failure> {
        // A drain that has nothing to do shall not open the engine to learn that it is still there.
        let meta = match self.engine.glance(&self.settings.wiki_id) {
            Some(meta) => meta,
            None => self.meta_or_new()?,
        };
        Ok(Identity {
            id: meta.id,
            epoch: meta.epoch,
        })
    }

    fn renew(&mut self) -> Result<Identity, Failure> {
        self.engine.ready(true)?;
        let Meta { id, epoch, .. } = self.new_meta()?;
        Ok(Identity { id, epoch })
    }

    fn apply(&mut self, changes: &[Change], epoch: i64) -> Result<Vec<Outcome>, Failure> {
        let mut meta = self.meta_or_new()?;
        let mut done = Vec::with_capacity(changes.len());
        let mut gathered = Vec::new();
        let mut points = 0;
        for change in changes {
            let one = Gathered {
                path: change.path().as_str(),
                points: match change {
                    Change::Put(page) => self.points_of(page),
                    Change::Remove(_) => Vec::new(),
                },
            };
            points += one.points.len();
            gathered.push(one);
            if points >= GATHER_POINTS || gathered.len() >= GATHER_PAGES {
                done.extend(self.write(std::mem::take(&mut gathered))?);
                points = 0;
            }
        }
        if !gathered.is_empty() {
            done.extend(self.write(gathered)?);
        }
        self.engine.flush()?;
        fail::fail_point!("vectors.flushed");
        meta.epoch = epoch;
        self.engine.upsert(vec![meta.to_point(&self.fingerprint)])?;
        self.engine.flush()?;
        fail::fail_point!("vectors.epoch");
        // Edge leaves out, in silence, an operation whose number it thinks it has seen: so it would be with
        // all of them if its log of operations were lost or set back.
        if self.meta()?.as_ref() != Some(&meta) {
            return Err(Failure::new(
                FailureKind::Refused,
                "the vectors do not take what is written to them",
            )
            .hint("move .wiki-sync/vectors away: the next drain rebuilds it from the files"));
        }
        self.engine.note(&meta)?;
        self.engine.tidy()?;
        let outcome = |changed| {
            Ok(Applied {
                changed,
                mark: None,
            })
        };
        Ok(done.into_iter().map(outcome).collect())
    }

    fn inventory(&mut self) -> Result<Vec<Holding>, Failure> {
        if !self.engine.ready(false)? {
            return Ok(Vec::new());
        }
        let mut pages = BTreeMap::<String, Digests>::new();
        self.engine.scroll(&self.settings.wiki_id, &mut |point| {
            let path = point.text("path");
            match pages.get_mut(path) {
                Some(digests) => digests.push(&point),
                None => pages.entry(path.to_owned()).or_default().push(&point),
            }
        })?;
        Ok(pages
            .into_iter()
            .map(|(path, digests)| Holding {
                path,
                digest: digests.digest(),
            })
            .collect())
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        Ok(Some(Digests::of(&self.points_of(page)).digest()))
    }

    fn is_there(&mut self) -> Result<bool, Failure> {
        Ok(self.engine.glance(&self.settings.wiki_id).is_some() || self.engine.ready(false)?)
    }

    /// No provider is asked, so none has embedded anything.
    fn tally(&self) -> Tally {
        Tally {
            embedded: Some(0),
            cached: Some(0),
            ..Tally::default()
        }
    }

    fn yield_turn(&mut self) {
        self.engine.yield_turn();
    }

    fn rest(&mut self) {
        self.engine.rest();
    }

    fn park(&mut self) {
        self.engine.park();
    }
}
