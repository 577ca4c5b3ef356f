//! Search: from a query to pages, best first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::VectorStore;
use super::engine::Ask;
use super::point::Point;
use super::shape::{Channel, Only};
use crate::embed::{Vector, bm25};
use crate::model::Failure;

/// How many sections are asked for at first for each page wanted. Pages have about ten; that two of ten
/// hits belong to one page is common, that all do is not.
const SECTIONS_PER_PAGE: usize = 4;

/// How many sections are asked for at most.
const MOST_SECTIONS: usize = 10_000;

/// How many pages are read at a time for their first section.
const AT_ONCE: usize = 50;

/// A page that was found, with its best section.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The page, as the store names it.
    pub path: String,
    /// Its title.
    pub title: String,
    /// The headings above the section, outermost first, its own last.
    pub heading: Vec<String>,
    /// The score of the section: BM25's, a cosine, or of both fused; more is better, and only within one answer.
    pub score: f32,
    /// The section's text, Markdown.
    pub text: String,
    /// The SHA of the page that was indexed, in hex.
    pub page_sha: String,
    /// The id of the section's point.
    pub point_id: String,
    /// The section's number in the page, from 0.
    pub section: usize,
    /// The page's label `repo`.
    pub repo: String,
    /// Its label `lang`.
    pub lang: String,
}

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The words, as a person typed them.
    pub text: &'a str,
    /// What they mean: the query's dense vector, of length 1; `None` without a provider, or while it is away.
    pub meaning: Option<&'a [f32]>,
    /// How much the ranks by words and by meaning count.
    pub weights: [f32; 2],
    /// Which pages are looked at.
    pub only: Only,
    /// The most pages that are wanted.
    pub limit: usize,
}

impl<'a> Question<'a> {
    /// Asks for these words in all pages.
    #[must_use]
    pub fn words(text: &'a str, limit: usize) -> Self {
        Self {
            text,
            meaning: None,
            weights: [1.0, 1.0],
            only: Only::default(),
            limit,
        }
    }
}

/// What was found, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The pages, best first.
    pub hits: Vec<Hit>,
    /// What was searched: a channel that is not named here had no part in the answer.
    pub channels: Vec<Channel>,
}

impl VectorStore {
    /// Returns the pages that share words with `query`, best section first, at most `limit`, one hit a page.
    ///
    /// # Errors
    /// As [`VectorStore::ask`].
    pub fn search(&mut self, query: &str, limit: usize) -> Result<Vec<Hit>, Failure> {
        Ok(self.ask(&Question::words(query, limit))?.hits)
    }

    /// Returns the vector of what a query means, within this time; `None` without a provider, and where no point can have
    /// one to compare it with.
    ///
    /// # Errors
    /// The provider's failure.
    pub fn meaning_of(&self, query: &str, within: Duration) -> Result<Option<Vector>, Failure> {
        let Some(meaning) = &self.meaning else {
            return Ok(None);
        };
        // Asked also where there is nothing to compare it with: why there is nothing is the provider's to say.
        let vector = meaning.embeddings.query(query, within)?;
        Ok(vector.filter(|_| self.settings.shape.dense.is_some()))
    }

    /// Returns the pages about what is asked, best section first, one hit a page.
    ///
    /// Equal scores are ordered by path, then section. Nothing is found by a query without words or meaning, nor in a
    /// store that is not there; none is created. Waits its turn where a drain has the shard, and then keeps
    /// it until the store is dropped or [`yield_turn`](crate::stores::Store::yield_turn) finds that somebody waits.
    ///
    /// # Errors
    /// `Busy` when the turn does not come in time, `Refused` and `Down` as with every use of the store. `Refused` too when
    /// there is a meaning or a provider, and the points are of another model than the settings name.
    pub fn ask(&mut self, question: &Question<'_>) -> Result<Answer, Failure> {
        match self.ask_once(question) {
            // Exchanged for a newer version at this moment.
            Err(_) if self.engine.is_gone() => self.ask_once(question),
            other => other,
        }
    }

    /// Returns these pages, as far as `question.only` admits them, each with its best section, best first; a page in which
    /// nothing of what is asked was found with its first section and the score 0. At most `question.limit`.
    ///
    /// # Errors
    /// As [`VectorStore::ask`].
    pub fn best_of(
        &mut self,
        question: &Question<'_>,
        pages: &[String],
    ) -> Result<Vec<Hit>, Failure> {
        let among = Question {
            only: Only {
                pages: pages.to_vec(),
                ..question.only.clone()
            },
            ..question.clone()
        };
        let mut hits = self.ask(&among)?.hits;
        let found: HashSet<&str> = hits.iter().map(|hit| hit.path.as_str()).collect();
        let others = pages.iter().map(String::as_str);
        let others: Vec<&str> = others.filter(|path| !found.contains(path)).collect();
        for some in others.chunks(question.limit.clamp(1, AT_ONCE)) {
            if hits.len() >= question.limit {
                break;
            }
            let first = match self.first_sections(some, &question.only) {
                Err(_) if self.engine.is_gone() => self.first_sections(some, &question.only)?,
                other => other?,
            };
            hits.extend(first);
        }
        hits.truncate(question.limit);
        Ok(hits)
    }

    /// Returns these pages with their first section, as far as they are admitted, in their order.
    fn first_sections(&mut self, pages: &[&str], only: &Only) -> Result<Vec<Hit>, Failure> {
        if !self.engine.ready(false)? {
            return Ok(Vec::new());
        }
        let mut first = HashMap::<String, Hit>::new();
        let wiki = &self.settings.wiki_id;
        self.engine.of_pages(wiki, pages, &mut |point| {
            let path = point.text("path");
            if only.admits_point(&point)
                && point.section() < first.get(path).map_or(usize::MAX, |hit| hit.section)
            {
                first.insert(path.to_owned(), hit(0.0, &point));
            }
        })?;
        Ok(pages
            .iter()
            .filter_map(|&path| first.remove(path))
            .collect())
    }

    fn ask_once(&mut self, question: &Question<'_>) -> Result<Answer, Failure> {
        let words = bm25::query(question.text);
        let words = (!words.is_empty()).then_some(&words);
        if question.limit == 0
            || (words.is_none() && question.meaning.is_none())
            || !self.engine.ready(false)?
        {
            return Ok(Answer::default());
        }
        let meaning = question
            .meaning
            .filter(|_| self.settings.shape.dense.is_some() && self.engine.has_dense());
        if words.is_none() && meaning.is_none() {
            return Ok(Answer::default());
        }
        if (meaning.is_some() || self.meaning.is_some())
            && let Some(meta) = self.meta()?
        {
            self.check(&meta)?;
        }
        let channels = [
            words.map(|_| Channel::Words),
            meaning.map(|_| Channel::Meaning),
        ];
        let mut limit = question
            .limit
            .saturating_mul(SECTIONS_PER_PAGE)
            .clamp(50, MOST_SECTIONS);
        loop {
            let found = self.engine.query(&Ask {
                wiki: &self.settings.wiki_id,
                words,
                meaning,
                weights: question.weights,
                only: &question.only,
                limit,
            })?;
            let all = found.len() < limit || limit == MOST_SECTIONS;
            let worst = found.last().map_or(0.0, |(score, _)| *score);
            let mut hits = by_page(found, &question.only);
            // Sections as good as the worst one may have been cut off: not until their score is
            // passed is the order of the first pages certain.
            let certain = hits
                .get(question.limit - 1)
                .is_some_and(|hit| hit.score > worst);
            if all || certain {
                hits.truncate(question.limit);
                return Ok(Answer {
                    hits,
                    channels: channels.into_iter().flatten().collect(),
                });
            }
            limit = limit.saturating_mul(4).min(MOST_SECTIONS);
        }
    }
}

fn by_page(found: Vec<(f32, Point)>, only: &Only) -> Vec<Hit> {
    let mut best = HashMap::<String, Hit>::new();
    let admitted = found
        .into_iter()
        .filter(|(_, point)| only.admits(point.text("path")));
    for (score, point) in admitted {
        let hit = hit(score, &point);
        match best.entry(hit.path.clone()) {
            Entry::Vacant(free) => {
                free.insert(hit);
            }
            Entry::Occupied(mut other) => {
                let known = other.get();
                if hit.score > known.score
                    || (hit.score.total_cmp(&known.score).is_eq() && hit.section < known.section)
                {
                    other.insert(hit);
                }
            }
        }
    }
    let mut hits: Vec<Hit> = best.into_values().collect();
    hits.sort_unstable_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.path.cmp(&b.path))
    });
    hits
}

fn hit(score: f32, point: &Point) -> Hit {
    let heading = point.payload.get("heading").and_then(|v| v.as_array());
    Hit {
        path: point.text("path").into(),
        title: point.text("title").into(),
        heading: heading
            .into_iter()
            .flatten()
            .filter_map(|part| part.as_str().map(Into::into))
            .collect(),
        score,
        text: point.text("text").into(),
        page_sha: point.text("page_sha").into(),
        point_id: point.id.to_string(),
        section: point.section(),
        repo: point.text("repo").into(),
        lang: point.text("lang").into(),
    }
}
