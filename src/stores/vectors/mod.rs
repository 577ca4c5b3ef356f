//! The vectors store: pages cut into sections, each one point in Qdrant.
//!
//! | file | what |
//! |---|---|
//! | `point.rs` | from a page to its points: ids, payload, digests |
//! | `engine.rs` | what an engine must be able to do |
//! | `edge/`, `turn.rs` | Qdrant Edge in this process, and whose turn it is with it |
//! | `beside.rs` | building a store anew beside the old one |
//! | `server/` | a Qdrant server, over gRPC |
//! | `meaning.rs` | points get their dense vectors, as far as the provider is there |
//! | `shape.rs` | which dense vectors there are to be, and what a search is limited to |
//! | `search.rs` | from a query to pages |
//! | `unusable.rs` | an engine that is none, with the reason |
//!
//! A put writes the page's points first and deletes its other points after: killed between the two, the page
//! is found twice, never not at all, and the next put takes away what is left over.

// Without an engine nobody calls what all engines share.
#![cfg_attr(not(any(feature = "edge", feature = "server")), allow(dead_code))]

mod beside;
#[cfg(feature = "edge")]
mod edge;
mod engine;
mod meaning;
mod point;
mod search;
#[cfg(feature = "server")]
mod server;
mod shape;
#[cfg(all(test, feature = "edge"))]
mod tests;
#[cfg(feature = "edge")]
mod turn;
mod unusable;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::iter;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use uuid::Uuid;

pub use self::beside::{Beside, Placed};
pub use self::search::{Answer, Hit, Question};
pub use self::shape::{Channel, Dense, Only, Shape};

use self::engine::{Ask, Engine};
use self::meaning::Meaning;
use self::point::{Digests, Meta, Owner, Point, SCHEMA, points_of};
use self::unusable::Unusable;
use super::{Applied, Brought, Deriver, Holding, Identity, Outcome, Store, Tally};
use crate::embed::{self, Embeddings, PASSAGE_VERSION, bm25};
use crate::http;
use crate::model::markdown::PARSER_VERSION;
use crate::model::{Change, Failure, FailureKind, Finding, Page, Secret, StoreName, Within};
use crate::state::{StateDir, Stop};

/// The URL of the embedded engine.
pub const EDGE_URL: &str = "edge:";

/// How many points, and pages, are gathered before they are written: what is held in memory at once.
const GATHER_POINTS: usize = 500;
const GATHER_PAGES: usize = 256;

/// The constant of reciprocal rank fusion: a rank counts `1 / (k + rank)`. Qdrant's own, and the one we measured with.
const RRF_K: usize = 2;

/// The way out where the dense vectors that are there are of no use.
const REBUILD: &str = "`wiki-sync rebuild vectors` builds them anew beside these, which serve searches by words meanwhile; or set the embedding back";

/// How a Qdrant server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The collection, or an alias of one. Several wikis may share it.
    pub collection: String,
    /// The server's API key.
    pub api_key: Option<Secret>,
    /// How long a call may take.
    pub timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            collection: "wiki-sync".into(),
            api_key: None,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Where the vectors are, whose they are, and what they carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSettings {
    /// `edge:` for the embedded engine, `http://host:6334` or `https://…` for a server.
    pub url: String,
    /// The wiki's id: tells its points from those of other wikis in the same place. Never empty.
    pub wiki_id: String,
    /// The `repo` label of pages that nobody gave one: the name of the repository's folder.
    pub repo_name: String,
    /// How long to wait for one's turn with the embedded engine.
    pub wait: Duration,
    /// What the points carry beside their words.
    pub shape: Shape,
    /// What names this checkout among all that write to the same server, also when its state is lost; no two have the
    /// same.
    pub belongs: String,
    /// How a server is used.
    pub server: ServerSettings,
}

impl VectorSettings {
    /// Says whether others write to the same place: it is a server.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.url != EDGE_URL
    }

    /// Makes the settings of the embedded engine, with half a minute of patience.
    #[must_use]
    pub fn embedded(wiki_id: impl Into<String>, repo_name: impl Into<String>) -> Self {
        Self {
            url: EDGE_URL.into(),
            wiki_id: wiki_id.into(),
            repo_name: repo_name.into(),
            wait: Duration::from_secs(30),
            shape: Shape::default(),
            belongs: String::new(),
            server: ServerSettings::default(),
        }
    }
}

/// The vectors of one wiki.
pub struct VectorStore {
    settings: VectorSettings,
    fingerprint: String,
    /// The fingerprint of points that lack their dense vector for now.
    lesser: String,
    /// The fingerprint of the model that makes dense vectors, also while it is not known how many numbers they have.
    model: Option<String>,
    /// What makes them.
    meaning: Option<Meaning>,
    /// Pages whose meaning was taken off, since no provider is set.
    stripped: u64,
    /// How many points there were at the last look at all of them, and how many had a meaning.
    sections: Option<[u64; 2]>,
    engine: Box<dyn Engine>,
    brought: Brought,
    stop: Stop,
}

impl fmt::Debug for VectorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorStore")
            .field("settings", &self.settings)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Returns the id of the wiki whose points are there, if there is one: what to go on with when the rest of the state was
/// lost. On a server it is the wiki that belongs to this checkout; an embedded store belongs to nobody else. Of several
/// the one with the highest epoch.
///
/// # Errors
/// `Busy`, `Refused` and `Down` as with every use of the store.
pub fn adopted_wiki_id(
    settings: &VectorSettings,
    state: &StateDir,
) -> Result<Option<String>, Failure> {
    let mut engine = open_engine(settings, state)?;
    if !engine.ready(false)? {
        return Ok(None);
    }
    let mut last: Option<Meta> = None;
    engine.metas(&mut |point| {
        if let Some(meta) = Meta::from_point(&point)
            && (!settings.is_shared() || meta.belongs == settings.belongs)
            && last.as_ref().is_none_or(|last| meta.epoch > last.epoch)
        {
            last = Some(meta);
        }
    })?;
    Ok(last.map(|meta| meta.wiki))
}

/// What a finding of ours is called.
const EXAMINED: &str = "vectors";

/// Looks at the vectors of a wiki for `doctor`: whether they are there and as they are to be; changes nothing. `model` is the
/// fingerprint of the one that the settings name; the wiki's id may be empty, where it is not known.
#[must_use]
pub fn examine(settings: VectorSettings, state: &StateDir, model: Option<String>) -> Vec<Finding> {
    let engine = match open_engine(&settings, state) {
        Ok(engine) => engine,
        Err(failure) => return vec![Finding::of(EXAMINED, &failure, "correct vectors.url")],
    };
    let mut store = VectorStore::over(engine, settings, None);
    store.model = model;
    let (mut found, readable) = store.engine.examine();
    let glanced = store.engine.glance(&store.settings.wiki_id);
    let meta = match glanced {
        None if readable => store.meta(),
        glanced => Ok(glanced),
    };
    let whose = meta.and_then(|meta| meta.map_or(Ok(()), |meta| store.check(&meta)));
    if let Err(failure) = whose {
        found.push(Finding::of("vectors.model", &failure, REBUILD));
    }
    if !store.settings.is_shared() && beside::is_left(state) {
        found.push(Finding::note(
            EXAMINED,
            ".wiki-sync/vectors.new is left from a rebuild that was cut off",
            "`wiki-sync rebuild vectors` goes on with it, or begins anew; else remove the folder",
        ));
    }
    found
}

/// Dense vectors as they were found.
struct Found {
    dimension: usize,
    distance: String,
}

/// Returns the refusal of a collection whose dense vectors are not those that are wanted.
fn unfit_shape(place: &str, found: &Found, wanted: &Dense) -> Failure {
    let Found {
        dimension,
        distance,
    } = found;
    Failure::new(
        FailureKind::Refused,
        format!(
            "{place} have {dimension} dimensions ({distance}), and the model {} makes vectors of {} (Dot or Cosine)",
            embed::model_name(&wanted.model),
            wanted.dimension
        ),
    )
    .hint(REBUILD)
}

#[cfg(not(all(feature = "edge", feature = "server")))]
fn not_built(what: &str, feature: &str) -> Failure {
    Failure::new(
        FailureKind::Refused,
        format!("this wiki-sync was built without {what}"),
    )
    .hint(format!("build it with the feature {feature:?}"))
}

fn open_engine(settings: &VectorSettings, state: &StateDir) -> Result<Box<dyn Engine>, Failure> {
    let VectorSettings { url, .. } = settings;
    if url == EDGE_URL {
        #[cfg(feature = "edge")]
        return Ok(Box::new(edge::Edge::new(
            state,
            settings.wait,
            settings.shape.clone(),
        )));
        #[cfg(not(feature = "edge"))]
        return Err(not_built("its embedded vector engine", "edge"));
    }
    if url.starts_with("http://") || url.starts_with("https://") {
        #[cfg(feature = "server")]
        return Ok(Box::new(server::Server::new(
            url,
            &settings.server,
            settings.shape.clone(),
        )?));
        #[cfg(not(feature = "server"))]
        return Err(not_built("the client of a Qdrant server", "server"));
    }
    let _ = state;
    Err(Failure::new(
        FailureKind::Refused,
        format!("vectors.url: {}", no_engine(url)),
    ))
}

fn no_engine(url: &str) -> String {
    format!(
        "{url:?} names no vector engine: it is \"edge:\", or a Qdrant server's gRPC port, \"http://host:6334\""
    )
}

/// Says what is wrong with the URL of an engine, whether or not this build has it.
///
/// # Errors
/// When it names none.
pub fn check_url(url: &str) -> Result<(), String> {
    if url == EDGE_URL {
        return Ok(());
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(no_engine(url));
    }
    // Not shown: what cannot be taken apart may hold anything.
    http::parse(url)
        .map(drop)
        .map_err(|_| "cannot be read; it looks like \"http://host:6334\"".into())
}

/// Takes the shape that the provider's vectors have, as far as it is known.
fn take_shape(settings: &mut VectorSettings, embeddings: Option<&Embeddings>) {
    if let Some(embeddings) = embeddings {
        settings.shape.dense = embeddings.dimension().map(|dimension| Dense {
            dimension,
            model: embeddings.fingerprint(),
        });
    }
}

impl VectorStore {
    /// Opens the vectors of a wiki. Touches nothing yet: the engine is opened when it is first needed. With `embeddings`
    /// the points get dense vectors; the shape's are then those.
    ///
    /// # Errors
    /// `Refused` when the URL names no engine that this build has.
    pub fn open(
        mut settings: VectorSettings,
        state: &StateDir,
        embeddings: Option<Embeddings>,
    ) -> Result<Self, Failure> {
        take_shape(&mut settings, embeddings.as_ref());
        let engine = open_engine(&settings, state)?;
        Ok(Self::over(engine, settings, embeddings))
    }

    /// Makes the vectors of a wiki which cannot be used, for this reason: each use of them fails with it, and nothing
    /// is touched, while the other stores are served. `model`: the fingerprint of the one that the settings name.
    #[must_use]
    pub fn unusable(settings: VectorSettings, model: Option<String>, why: Failure) -> Self {
        let mut store = Self::over(Box::new(Unusable(why)), settings, None);
        // What they derive is known all the same: no receipt and no dead letter is of another.
        store.take_model(model);
        store
    }

    fn over(
        engine: Box<dyn Engine>,
        settings: VectorSettings,
        embeddings: Option<Embeddings>,
    ) -> Self {
        let lesser = format!(
            "parser {PARSER_VERSION}, passage {PASSAGE_VERSION}, bm25 {}, schema {SCHEMA}{REPO_OF}{}",
            bm25::VERSION,
            settings.repo_name
        );
        let shaped = settings.shape.dense.as_ref().map(|dense| &dense.model);
        let model = embeddings
            .as_ref()
            .map(Embeddings::fingerprint)
            .or_else(|| shaped.cloned());
        let mut store = Self {
            settings,
            fingerprint: lesser.clone(),
            lesser,
            model: None,
            meaning: embeddings.map(Meaning::new),
            stripped: 0,
            sections: None,
            engine,
            brought: Brought::default(),
            stop: Stop::default(),
        };
        store.take_model(model);
        store
    }

    /// Takes the model that makes dense vectors.
    fn take_model(&mut self, model: Option<String>) {
        if let Some(model) = &model {
            self.fingerprint = format!("{}{DENSE_OF}{model}", self.lesser);
        }
        self.model = model;
    }

    fn points_of(&self, page: &Page) -> Vec<Point> {
        points_of(page, &self.owner())
    }

    fn owner(&self) -> Owner {
        Owner {
            wiki: self.settings.wiki_id.clone(),
            repo_name: self.settings.repo_name.clone(),
            fingerprint: self.fingerprint.clone(),
        }
    }

    fn meta(&mut self) -> Result<Option<Meta>, Failure> {
        let id = Meta::point_id(&self.settings.wiki_id);
        let points = self.engine.retrieve(&[id])?;
        Ok(points.first().and_then(Meta::from_point))
    }

    /// Returns the meta point, made anew where there is none; ready for writing.
    fn meta_or_new(&mut self) -> Result<Meta, Failure> {
        self.engine.ready(true)?;
        if let Some(found) = self.meta()? {
            self.check(&found)?;
            // Before any point is written: of which model they are must not be learned too late; and by whom it belongs
            // to, a checkout that was moved is found if its state is lost.
            let meta = self.ours(found.clone());
            if meta != found {
                self.write_meta(&meta)?;
            }
            self.engine.note(&meta)?;
            return Ok(meta);
        }
        self.new_meta(None)
    }

    /// Makes a meta point with a new id; durable on return.
    fn new_meta(&mut self, before: Option<Meta>) -> Result<Meta, Failure> {
        let meta = self.ours(Meta {
            id: Uuid::new_v4().to_string(),
            epoch: 0,
            ..before.unwrap_or_default()
        });
        self.write_meta(&meta)?;
        self.engine.note(&meta)?;
        Ok(meta)
    }

    /// Returns the meta as it must stand before we write: it belongs to us, and names our model.
    fn ours(&self, meta: Meta) -> Meta {
        let dense = self.settings.shape.dense.as_ref();
        Meta {
            wiki: self.settings.wiki_id.clone(),
            belongs: self.settings.belongs.clone(),
            schema: SCHEMA,
            model: dense.map(|dense| dense.model.clone()).or(meta.model),
            ..meta
        }
    }

    /// Says in the store that all of a batch is in it; returns the meta that says so. `meta`: that of its beginning.
    fn vouch(&mut self, meta: Meta, epoch: i64) -> Result<Meta, Failure> {
        // What was written before others took its place would be missing in them, and their epoch would say that it is not.
        if self.meta()?.is_none_or(|now| now.id != meta.id) {
            return Err(Failure::new(
                FailureKind::Down,
                "the vectors were exchanged for others while they were written",
            )
            .hint("it is tried again"));
        }
        // The model may have become known meanwhile.
        let meta = self.ours(Meta { epoch, ..meta });
        self.write_meta(&meta)?;
        fail::fail_point!("vectors.epoch");
        // Edge leaves out, in silence, an operation whose number it thinks it has seen: so it would be with
        // all of them if its log of operations were lost or set back.
        if self.meta()?.as_ref() != Some(&meta) {
            return Err(Failure::new(
                FailureKind::Refused,
                "the vectors do not take what is written to them",
            )
            .hint(if self.settings.is_shared() {
                "look at the server's log; another vectors.collection begins anew"
            } else {
                "move .wiki-sync/vectors away: the next drain rebuilds it from the files"
            }));
        }
        Ok(meta)
    }

    /// Writes the meta point; durable on return.
    fn write_meta(&mut self, meta: &Meta) -> Result<(), Failure> {
        let unfit = self.engine.upsert(vec![meta.to_point(&self.fingerprint)])?;
        if let Some(unfit) = unfit.into_iter().next() {
            return Err(Failure {
                kind: FailureKind::Refused,
                ..unfit.why
            });
        }
        self.engine.flush()
    }

    /// Wants dense vectors of the provider's dimension once that is known; the engine is to be made ready again then.
    fn learn(&mut self) -> bool {
        let Some(meaning) = &self.meaning else {
            return false;
        };
        let Some(dimension) = meaning.embeddings.dimension() else {
            return false;
        };
        if self.settings.shape.dense.is_some() {
            return false;
        }
        let dense = Dense {
            dimension,
            model: meaning.embeddings.fingerprint(),
        };
        self.settings.shape.dense = Some(dense.clone());
        self.engine.want(dense);
        true
    }

    /// Refuses points that we cannot go on with: another model's, or a newer program's.
    fn check(&self, meta: &Meta) -> Result<(), Failure> {
        let refused =
            |reason, hint: &str| Err(Failure::new(FailureKind::Refused, reason).hint(hint));
        if meta.schema > SCHEMA {
            let reason = format!(
                "the vectors were written by a newer wiki-sync (layout {}, and this one knows {SCHEMA})",
                meta.schema
            );
            return refused(reason, "use the newer one");
        }
        match (&self.model, &meta.model) {
            (Some(wanted), Some(there)) if wanted != there => {
                let (there, wanted) = embed::difference(there, wanted);
                let reason = format!(
                    "the vectors were made with {there}, and the settings name {wanted}: they cannot be compared"
                );
                refused(reason, REBUILD)
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Makes some of the changes and returns what became of each.
    fn write(&mut self, mut gathered: Vec<Gathered<'_>>) -> Result<Vec<Outcome>, Failure> {
        let wiki = self.settings.wiki_id.clone();
        let paths: Vec<&str> = gathered.iter().map(|one| one.path).collect();
        let mut held = HashMap::<String, Held>::new();
        self.engine.of_pages(&wiki, &paths, &mut |point| {
            let held = held.entry(point.text("path").to_owned()).or_default();
            held.digests.push(&point);
            held.ids.push((point.id, point.dense.is_some()));
            held.is_meant |= point.text("fingerprint").contains(DENSE_OF);
        })?;
        // What is whole is told before anything is asked of a provider.
        for one in &mut gathered {
            let held = held.entry(one.path.to_owned()).or_default();
            one.is_owed = held.digests.digest() != self.digest(&one.points);
        }
        let lacks = self.give_meaning(&mut gathered)?;
        let mut outcomes = Vec::with_capacity(gathered.len());
        let mut upserts = Vec::new();
        let mut page_of = HashMap::new();
        let mut leftovers = Vec::new();
        let mut meaningless = Vec::new();
        for (at, one) in gathered.into_iter().enumerate() {
            let held = held.remove(one.path).unwrap_or_default();
            let changed = one.is_owed && held.digests.digest() != Digests::of(&one.points).digest();
            outcomes.push(Ok(Applied {
                changed,
                mark: None,
            }));
            if !changed {
                continue;
            }
            let points = one.points;
            if held.is_meant && self.model.is_none() && !points.is_empty() {
                self.stripped += 1;
            }
            let new: HashMap<Uuid, bool> = points
                .iter()
                .map(|point| (point.id, point.dense.is_some()))
                .collect();
            if held.ids.iter().any(|(id, _)| !new.contains_key(id)) {
                leftovers.push(at);
            }
            let old = held.ids.into_iter();
            meaningless.extend(
                old.filter(|(id, dense)| *dense && new.get(id) == Some(&false))
                    .map(|(id, _)| id),
            );
            page_of.extend(new.into_keys().map(|id| (id, at)));
            upserts.extend(points);
        }
        fail::fail_point!("vectors.before_upsert");
        if !upserts.is_empty() {
            for unfit in self.engine.upsert(upserts)? {
                if let Some(&at) = page_of.get(&unfit.id) {
                    outcomes[at] = Err(unfit.why);
                }
            }
        }
        fail::fail_point!("vectors.after_upsert");
        if !meaningless.is_empty() {
            self.engine.forget_dense(&meaningless)?;
        }
        // A page that was not taken whole keeps its old points: found by its old text rather than not at all.
        leftovers.retain(|&at| outcomes[at].is_ok());
        if !leftovers.is_empty() {
            let is_leftover: HashSet<usize> = leftovers.iter().copied().collect();
            let kept = page_of.iter().filter(|(_, at)| is_leftover.contains(at));
            let keep: Vec<Uuid> = kept.map(|(&id, _)| id).collect();
            let paths: Vec<&str> = leftovers.into_iter().map(|at| paths[at]).collect();
            self.engine.delete_except(&wiki, &paths, &keep)?;
        }
        fail::fail_point!("vectors.after_delete");
        for (at, why) in lacks {
            if outcomes[at].is_ok() {
                outcomes[at] = Err(why);
            }
        }
        Ok(outcomes)
    }

    /// Returns the digest of a page's points as they are to be once each has its dense vector.
    fn digest(&self, points: &[Point]) -> String {
        digest(points, self.meaning.is_some())
    }

    /// Gives the points that are owed their dense vectors; returns, by the page's place, why some get none.
    fn give_meaning(
        &mut self,
        gathered: &mut [Gathered<'_>],
    ) -> Result<HashMap<usize, Failure>, Failure> {
        let Some(meaning) = &mut self.meaning else {
            return Ok(HashMap::new());
        };
        let owed = gathered.iter_mut().enumerate();
        let mut owed: Vec<_> = owed
            .filter(|(_, one)| one.is_owed && !one.points.is_empty())
            .map(|(at, one)| (at, &mut one.points))
            .collect();
        if owed.is_empty() {
            return Ok(HashMap::new());
        }
        // Others may want the engine while a provider is waited for.
        let engine = &mut self.engine;
        let lacks = meaning.give(&mut owed, &mut || engine.rest())?;
        for (at, points) in owed {
            if lacks.contains_key(&at) {
                let wanted = |point: &&mut Point| point.dense.is_none();
                for point in points.iter_mut().filter(wanted) {
                    let lesser = self.lesser.as_str().into();
                    point.payload.insert("fingerprint".into(), lesser);
                }
            }
        }
        if self.learn() {
            self.meta_or_new()?;
        } else {
            self.engine.ready(true)?;
        }
        Ok(lacks)
    }
}

/// Returns the digest of a page's points as they are to be; `with_meaning`: once each has its dense vector.
fn digest(points: &[Point], with_meaning: bool) -> String {
    let is_dense = |point: &Point| {
        if with_meaning {
            Meaning::is_wanted(point)
        } else {
            point.dense.is_some()
        }
    };
    Digests::when(points, is_dense).digest()
}

/// Cuts a fingerprint into that of the derivation, the repository's name, and that of the model.
fn cut(fingerprint: &str) -> (&str, &str, Option<&str>) {
    let (derived, rest) = fingerprint.split_once(REPO_OF).unwrap_or((fingerprint, ""));
    match rest.split_once(DENSE_OF) {
        Some((name, model)) => (derived, name, Some(model)),
        None => (derived, rest, None),
    }
}

/// Stands in a fingerprint before the repository's name.
const REPO_OF: &str = ", repo ";

/// Stands in a fingerprint before that of the model.
const DENSE_OF: &str = ", dense ";

/// What the engine holds of a page before it is written.
#[derive(Default)]
struct Held {
    digests: Digests,
    /// The points, and whether they have a dense vector.
    ids: Vec<(Uuid, bool)>,
    /// Whether dense vectors were made for it, be it that they are not looked at.
    is_meant: bool,
}

/// A change with the points that the store is to hold of the page afterwards: none when it is removed.
struct Gathered<'a> {
    path: &'a str,
    points: Vec<Point>,
    /// Whether the store does not hold it as it is to be.
    is_owed: bool,
}

/// Makes the points of the changes, some changes at a time.
fn gather<'a>(mut changes: &'a [Change], owner: &Owner) -> impl Iterator<Item = Vec<Gathered<'a>>> {
    iter::from_fn(move || {
        let mut gathered = Vec::new();
        let mut points = 0;
        while points < GATHER_POINTS && gathered.len() < GATHER_PAGES {
            let Some((change, rest)) = changes.split_first() else {
                break;
            };
            changes = rest;
            let one = Gathered {
                path: change.path().as_str(),
                points: match change {
                    Change::Put(page) => points_of(page, owner),
                    Change::Remove(_) => Vec::new(),
                },
                is_owed: true,
            };
            points += one.points.len();
            gathered.push(one);
        }
        (!gathered.is_empty()).then_some(gathered)
    })
}

impl Store for VectorStore {
    fn name(&self) -> StoreName {
        StoreName::Vectors
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn otherwise(&self, before: &str) -> String {
        let (derived, name, model) = cut(before);
        let (now_derived, now_name, now_model) = cut(&self.fingerprint);
        if derived != now_derived {
            return "another wiki-sync wrote them, which cut or indexed pages in another way"
                .into();
        }
        if name != now_name {
            return format!(
                "this checkout is a copy, or was renamed: its folder's name is in the key of each section, it was {name:?} and is {now_name:?}"
            );
        }
        match (model, now_model) {
            (Some(_), None) => "embedding.provider is none: their meaning is taken off".into(),
            (None, Some(model)) => {
                format!("they have no meaning yet by {}", embed::model_name(model))
            }
            (Some(before), Some(now)) => {
                let (before, now) = embed::difference(before, now);
                format!("their meaning is by {before}, and the settings name {now}")
            }
            (None, None) => "they were written in another way".into(),
        }
    }

    fn identity(&mut self) -> Result<Identity, Failure> {
        // A drain that has nothing to do shall not open the engine to learn that it is still there.
        // What is amiss is said by the engine itself, which also knows the dimension.
        let glanced = self.engine.glance(&self.settings.wiki_id);
        let meta = match glanced.filter(|meta| self.check(meta).is_ok()) {
            Some(meta) => meta,
            None => self.meta_or_new()?,
        };
        Ok(Identity {
            id: meta.id,
            epoch: meta.epoch,
        })
    }

    fn renew(&mut self) -> Result<Identity, Failure> {
        let before = self.meta_or_new()?;
        let Meta { id, epoch, .. } = self.new_meta(Some(before))?;
        Ok(Identity { id, epoch })
    }

    fn apply(&mut self, changes: &[Change], epoch: i64) -> Result<Vec<Outcome>, Failure> {
        if let Some(meaning) = &mut self.meaning {
            meaning.begin();
        }
        let meta = self.meta_or_new()?;
        let owner = self.owner();
        let mut done = thread::scope(|scope| {
            // The next points are made while these are written.
            let (send, receive) = mpsc::sync_channel(1);
            scope.spawn(move || gather(changes, &owner).try_for_each(|some| send.send(some)));
            let mut done = Vec::with_capacity(changes.len());
            for some in receive {
                if self.stop.is_wished() {
                    break;
                }
                let many = some.len();
                done.extend(self.write(some)?);
                self.brought.add(many);
            }
            Ok::<_, Failure>(done)
        })?;
        // Told to stop, what was not begun is left.
        let left = || {
            Err(Failure::new(
                FailureKind::Busy,
                "told to stop before it was begun",
            ))
        };
        done.resize_with(changes.len(), left);
        self.engine.flush()?;
        fail::fail_point!("vectors.flushed");
        let meta = self.vouch(meta, epoch)?;
        self.engine.note(&meta)?;
        self.engine.tidy()?;
        Ok(done)
    }

    fn find_identity(&mut self, inside: bool) -> Result<Option<Identity>, Failure> {
        let wiki = self.settings.wiki_id.as_str();
        let noted = if inside {
            None
        } else {
            self.engine.glance(wiki)
        };
        let meta = match noted {
            None if self.engine.ready(false)? => self.meta()?,
            noted => noted,
        };
        Ok(meta.map(|meta| Identity {
            id: meta.id,
            epoch: meta.epoch,
        }))
    }

    fn holdings(&mut self, within: &Within) -> Result<Vec<Holding>, Failure> {
        if !self.engine.ready(false)? {
            return Ok(Vec::new());
        }
        let mut pages = BTreeMap::<String, Digests>::new();
        let mut take = |point: &Point| {
            let path = point.text("path");
            match pages.get_mut(path) {
                Some(digests) => digests.push(point),
                None => pages.entry(path.to_owned()).or_default().push(point),
            }
        };
        let wiki = &self.settings.wiki_id;
        if within.is_everything() {
            let mut some = None;
            let [mut points, mut meant] = [0, 0];
            self.engine.scroll(wiki, &mut |mut point| {
                take(&point);
                points += 1;
                meant += u64::from(point.dense.is_some());
                if some.is_none() {
                    some = point.bm25.take();
                }
            })?;
            self.sections = Some([points, meant]);
            // What searches go by is kept beside the points, and can be damaged while they are not.
            if let Some(words) = &some {
                self.engine.query(&Ask {
                    wiki,
                    words: Some(words),
                    meaning: None,
                    weights: [1.0, 1.0],
                    only: &Only::default(),
                    limit: 1,
                })?;
            }
        } else {
            // A damaged point may say that it lies below itself.
            let mut seen = HashSet::new();
            let mut take = |point: Point| {
                if within.contains(point.text("path")) && seen.insert(point.id) {
                    take(&point);
                }
            };
            let named: Vec<&str> = within.paths().collect();
            for some in named.chunks(GATHER_PAGES) {
                self.engine.of_pages(wiki, some, &mut take)?;
                self.engine.of_folders(wiki, some, &mut take)?;
            }
        }
        Ok(pages
            .into_iter()
            .map(|(path, digests)| Holding {
                path,
                digest: digests.digest(),
            })
            .collect())
    }

    fn purge(&mut self, names: &[&str]) -> Result<(), Failure> {
        if names.is_empty() || !self.engine.ready(false)? {
            return Ok(());
        }
        let mut ids = Vec::new();
        self.engine.scroll(&self.settings.wiki_id, &mut |point| {
            if names.contains(&point.text("path")) {
                ids.push(point.id);
            }
        })?;
        self.engine.delete(&ids)?;
        self.engine.flush()
    }

    fn expected(&mut self, page: &Page) -> Result<Option<String>, Failure> {
        Ok(Some(self.digest(&self.points_of(page))))
    }

    fn deriver(&self) -> Option<Deriver> {
        let (owner, with_meaning) = (self.owner(), self.meaning.is_some());
        Some(Box::new(move |page| {
            digest(&points_of(page, &owner), with_meaning)
        }))
    }

    fn is_there(&mut self) -> Result<bool, Failure> {
        Ok(self.engine.glance(&self.settings.wiki_id).is_some() || self.engine.ready(false)?)
    }

    fn tally(&self) -> Tally {
        let counts = self.meaning.as_ref().map(Meaning::counts);
        let counts = counts.unwrap_or_default();
        Tally {
            embedded: Some(counts.embedded),
            cached: Some(counts.cached),
            shortened: counts.shortened,
            stripped: self.stripped,
            sections: self.sections,
            ..Tally::default()
        }
    }

    fn waits_for_others(&self) -> bool {
        self.meaning.is_some()
    }

    fn lack(&self) -> Option<Failure> {
        self.meaning.as_ref()?.lack().cloned()
    }

    fn probe_lack(&mut self) -> Result<(), Failure> {
        self.engine.rest();
        self.meaning.as_mut().map_or(Ok(()), Meaning::probe)
    }

    fn brought(&self) -> Brought {
        self.brought.clone()
    }

    fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
        if let Some(meaning) = &mut self.meaning {
            meaning.heed(stop);
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
