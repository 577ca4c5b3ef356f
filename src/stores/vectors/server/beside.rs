//! Building a collection beside the one that is in use, and putting it in its place.
//!
//! What is in use is a version, `<name>-v1`, behind the alias `<name>`; what is built is the next one, which no alias leads to
//! until it is whole. The exchange is one request that the server does whole or not at all, so readers have the one or the other. Cut off
//! before it, the next attempt goes on; cut off after it, what is left is a version that the next attempt removes.
//!
//! A collection is removed only when it is a version, no alias leads to it, our wiki is in it and nobody else: so none
//! that a person made, and no other wiki's points.

use std::collections::BTreeMap;

use qdrant_client::qdrant::{Condition, Filter, GetPoints, ScrollPoints};
use tonic::Status;

use super::super::point::Meta;
use super::super::{Placed, VectorSettings};
use super::collection::{number, version};
use super::link::Link;
use super::{Server, convert};
use crate::model::{Failure, FailureKind};

/// The way out where the collection cannot be exchanged.
const ANOTHER_NAME: &str = "set vectors.collection to a name that is free: the next drain builds the vectors there, and leaves what is here alone";

/// Prepares the collection that is to be built: what an earlier attempt began is gone on with.
///
/// # Errors
/// `Refused` when it could not be put in the place of what is in use; as every use of the server.
pub(in super::super) fn open(settings: &VectorSettings) -> Result<Server, Failure> {
    let VectorSettings {
        url,
        server: of,
        wiki_id,
        ..
    } = settings;
    let mut server = Server::new(url, of, settings.shape.clone())?;
    let name = &of.collection;
    let mut town = Town::look(&mut server.link, wiki_id)?;
    let used = town.used(name)?;
    let mut next = used
        .as_deref()
        .and_then(|used| number(name, used))
        .unwrap_or(0);
    server.collection = loop {
        next += 1;
        let candidate = version(name, next);
        if town.is_free(&candidate)
            || town.is_ours_alone(&candidate)?
            || town.is_empty(&candidate)?
        {
            break candidate;
        }
    };
    server.alias = None;
    Ok(server)
}

/// Removes what was built so far, where it is ours: an empty one may be a person's.
///
/// # Errors
/// As every use of the server.
pub(in super::super) fn clear(settings: &VectorSettings, built: &str) -> Result<(), Failure> {
    let mut link = Link::new(&settings.url, &settings.server)?;
    let mut town = Town::look(&mut link, &settings.wiki_id)?;
    if town.is_ours_alone(built)? {
        town.remove(built)?;
    }
    Ok(())
}

/// Puts the collection `built` in the place of the one that is in use, and removes versions that only we had.
///
/// # Errors
/// `Refused` when another wiki has come to use it meanwhile; as every use of the server.
pub(in super::super) fn put_in_place(
    settings: &VectorSettings,
    built: &str,
) -> Result<Placed, Failure> {
    let VectorSettings {
        url,
        server: of,
        wiki_id: wiki,
        ..
    } = settings;
    let mut link = Link::new(url, of)?;
    let name = &of.collection;
    let mut town = Town::look(&mut link, wiki)?;
    let used = town.used(name)?;
    if used.as_deref() != Some(built) {
        fail::fail_point!("vectors.before_exchange");
        let gone = used.as_ref().map(|_| name.as_str());
        town.link
            .change_aliases(gone, Some((name, built)))
            .map_err(|status| town.link.failure("exchange", &status))?;
        fail::fail_point!("vectors.exchanged");
    }
    let mut town = Town::look(&mut link, wiki)?;
    let versions: Vec<_> = town
        .collections
        .iter()
        .filter(|one| number(name, one).is_some())
        .cloned()
        .collect();
    for one in versions {
        if town.is_ours_alone(&one)? {
            town.remove(&one)?;
        }
    }
    let left = used.filter(|used| used != built);
    let there = link
        .collections()
        .map_err(|status| link.failure("look at", &status))?;
    Ok(Placed {
        left: left.filter(|left| there.contains(left)),
    })
}

/// All collections of a server as we found them, and what of each is ours.
struct Town<'a> {
    link: &'a mut Link,
    wiki: &'a str,
    collections: Vec<String>,
    aliases: BTreeMap<String, String>,
}

impl<'a> Town<'a> {
    fn look(link: &'a mut Link, wiki: &'a str) -> Result<Self, Failure> {
        let found = link
            .aliases()
            .and_then(|aliases| Ok((aliases, link.collections()?)));
        let (aliases, collections) =
            found.map_err(|status| link.failure("look around", &status))?;
        Ok(Self {
            link,
            wiki,
            collections,
            aliases,
        })
    }

    fn is_free(&self, name: &str) -> bool {
        !self.aliases.contains_key(name) && !self.collections.iter().any(|one| one == name)
    }

    /// Returns the collection that stands behind a name, if there is one.
    ///
    /// # Errors
    /// `Refused` when nothing can be put in its place.
    fn used(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let refused = |reason| Err(Failure::new(FailureKind::Refused, reason).hint(ANOTHER_NAME));
        let Some(used) = self.aliases.get(name).cloned() else {
            if self.is_free(name) {
                return Ok(None);
            }
            let place = self.link.place();
            return refused(format!(
                "{place} is no alias, so that no other collection can take its place while it is read"
            ));
        };
        if self.has_others(&used)? {
            let place = self.link.place();
            return refused(format!(
                "{place} holds points of others too, which an exchange would take from them"
            ));
        }
        Ok(Some(used))
    }

    /// Says whether a collection is a version that nobody uses, made for this wiki alone.
    fn is_ours_alone(&mut self, collection: &str) -> Result<bool, Failure> {
        let is_used = self.aliases.values().any(|of| of == collection);
        let is_there = self.collections.iter().any(|one| one == collection);
        Ok(is_there && !is_used && self.has_us(collection)? && !self.has_others(collection)?)
    }

    /// Says whether a collection has no point and no alias: so is one that was made, and what made it was killed.
    fn is_empty(&mut self, collection: &str) -> Result<bool, Failure> {
        let is_used = self
            .aliases
            .iter()
            .any(|(alias, of)| of == collection || alias == collection);
        Ok(!is_used && !self.has_points(collection, None)?)
    }

    fn has_others(&mut self, collection: &str) -> Result<bool, Failure> {
        let others = Filter::must_not([Condition::matches("wiki", self.wiki.to_owned())]);
        self.has_points(collection, Some(&others))
    }

    fn has_points(&mut self, collection: &str, filter: Option<&Filter>) -> Result<bool, Failure> {
        let answer = self.link.call(|line| {
            let request = ScrollPoints {
                collection_name: collection.into(),
                filter: filter.cloned(),
                limit: Some(1),
                with_payload: Some(false.into()),
                with_vectors: Some(false.into()),
                ..ScrollPoints::default()
            };
            async move { line.points().scroll(request).await }
        });
        Ok(!self.told(answer)?.result.is_empty())
    }

    fn has_us(&mut self, collection: &str) -> Result<bool, Failure> {
        let id = Meta::point_id(self.wiki);
        let answer = self.link.call(|line| {
            let request = GetPoints {
                collection_name: collection.into(),
                ids: vec![convert::id(id)],
                with_payload: Some(false.into()),
                with_vectors: Some(false.into()),
                ..GetPoints::default()
            };
            async move { line.points().get(request).await }
        });
        Ok(!self.told(answer)?.result.is_empty())
    }

    fn remove(&mut self, collection: &str) -> Result<(), Failure> {
        let removed = self.link.delete_collection(collection);
        removed.map_err(|status| self.link.failure("remove a version of", &status))
    }

    fn told<T>(&self, answer: Result<T, Status>) -> Result<T, Failure> {
        answer.map_err(|status| self.link.failure("look at what is in", &status))
    }
}
