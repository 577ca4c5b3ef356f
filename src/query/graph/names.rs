//! What a name or a tag may have meant, asked of the names as they stand: by an index, or of so many at most.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, params};
use unicode_normalization::UnicodeNormalization as _;

use super::{failed, rows};
use crate::model::Failure;
use crate::model::markdown::fold_key;

/// The most names that are suggested.
const SUGGESTED: usize = 3;

/// How much like a name another one must be to be suggested, from 0 to 1.
const ALIKE: f64 = 0.65;

/// How many pages are too many for comparing their names one by one: then those alone are suggested that begin as the name
/// does.
const COMPARED: u32 = 10_000;

/// The most names that are looked at of those that begin so, of each kind.
const BEGINNINGS: i64 = 50;

/// The most different tags that are looked at, the first ones by their bytes.
const TAGS: i64 = 10_000;

/// The most tags of pages that are counted to tell the most used ones.
const COUNTED: i64 = 100_000;

/// A page that may have been meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The name by which it is near: its title, an alias, or how its path ends.
    pub name: String,
    /// Its path.
    pub path: String,
}

impl Near {
    /// Tells it for people: the name, where the path does not end so, and the path.
    fn told(&self) -> String {
        let Self { name, path } = self;
        if path.contains(name.as_str()) {
            path.clone()
        } else {
            format!("{name:?} ({path})")
        }
    }
}

/// Asks, for people, whether one of these was meant; `None` without any.
#[must_use]
pub fn did_you_mean(near: &[Near]) -> Option<String> {
    let near: Vec<String> = near.iter().map(Near::told).collect();
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(", or ")))
}

/// Returns the pages that have this very name, with the key of links: those with the title first, then those with the
/// alias, then those whose paths end so without their extension; at most `most`.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`crate::state::db_failure`] sorts them.
pub fn called(db: &Connection, name: &str, most: usize) -> Result<Vec<String>, Failure> {
    let key = fold_key(name.trim());
    let most_rows = i64::try_from(most).unwrap_or(i64::MAX);
    let mut found: Vec<String> = Vec::new();
    for kind in ["title", "alias", "path"] {
        let sql = "SELECT path FROM graph_names WHERE kind = ?1 AND key = ?2
             ORDER BY name, ext, depth, length, path LIMIT ?3";
        let pages: Vec<String> = rows(db, sql, |row| row.get(0), params![kind, key, most_rows])?;
        found.extend(pages);
    }
    let mut seen = BTreeSet::new();
    found.retain(|page| seen.insert(page.clone()));
    found.truncate(most);
    Ok(found)
}

/// Returns pages that may have been meant by a name that no page has, the most alike first.
///
/// # Errors
/// As [`called`].
pub fn near_names(db: &Connection, name: &str) -> Result<Vec<Near>, Failure> {
    let wanted = Wanted::of(last_part(name));
    if wanted.key.is_empty() {
        return Ok(Vec::new());
    }
    // By path: how alike, and by which name.
    let mut near = BTreeMap::<String, (f64, String)>::new();
    let mut take = |name: String, path: String| {
        let alike = wanted.alike(&name);
        if alike >= ALIKE && near.get(&path).is_none_or(|(known, _)| alike > *known) {
            near.insert(path, (alike, name));
        }
    };
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    for kind in ["title", "alias", "path"] {
        let sql = "SELECT name, path FROM graph_names
             WHERE kind = ?1 AND key >= ?2 AND key < ?2 || char(1114111)
             ORDER BY key, name, ext, depth, length, path LIMIT ?3";
        let values = params![kind, wanted.key, BEGINNINGS];
        let found: Vec<(String, String)> = rows(db, sql, pair, values)?;
        for (name, path) in found {
            take(name, path);
        }
    }
    let sql = "SELECT title, path FROM graph_pages LIMIT ?1";
    let all: Vec<(String, String)> = rows(db, sql, pair, [COMPARED])?;
    if all.len() < COMPARED as usize {
        for (title, path) in all {
            take(last_part(&path).to_owned(), path.clone());
            take(title, path);
        }
        let sql = "SELECT name, path FROM graph_names WHERE kind = 'alias' LIMIT ?1";
        let aliases: Vec<(String, String)> = rows(db, sql, pair, [COMPARED])?;
        for (alias, path) in aliases {
            take(alias, path);
        }
    }
    let mut near: Vec<_> = near.into_iter().collect();
    // Those of equal worth stand by path.
    near.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    let near = near.into_iter().take(SUGGESTED);
    Ok(near.map(|(path, (_, name))| Near { name, path }).collect())
}

/// Returns how a tag may be spelled in pages: without `#` in front, in any case and Unicode form.
///
/// # Errors
/// As [`called`].
pub fn spellings(db: &Connection, tag: &str) -> Result<Vec<String>, Failure> {
    let tag = bare(tag);
    let key = fold_key(tag);
    let mut spellings: BTreeSet<String> = [tag.into(), tag.nfc().collect(), tag.nfd().collect()]
        .into_iter()
        .chain(
            some_tags(db)?
                .into_iter()
                .filter(|one| fold_key(one) == key),
        )
        .collect();
    spellings.insert(key);
    Ok(spellings.into_iter().collect())
}

/// Returns a tag without what a person puts around it.
#[must_use]
pub fn bare(tag: &str) -> &str {
    tag.trim().trim_start_matches('#')
}

/// Says, for people, that no page has any of these spellings of a tag, and which tags there are instead; `None` where one
/// has.
///
/// # Errors
/// As [`called`].
pub fn no_such_tag(
    db: &Connection,
    tag: &str,
    spellings: &[String],
) -> Result<Option<String>, Failure> {
    let sql = "SELECT 1 FROM graph_tags WHERE tag = ?1 LIMIT 1";
    for spelling in spellings {
        if !rows(db, sql, |row| row.get::<_, i64>(0), [spelling])?.is_empty() {
            return Ok(None);
        }
    }
    let wanted = Wanted::of(tag);
    let mut near: Vec<(f64, String)> = some_tags(db)?
        .into_iter()
        .map(|tag| (wanted.alike(&tag), tag))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near: Vec<String> = near
        .into_iter()
        .take(SUGGESTED)
        .map(|(_, tag)| tag)
        .collect();
    if !near.is_empty() {
        let near = near.join(", ");
        return Ok(Some(format!(
            "no page has the tag {tag:?}; did you mean {near}?"
        )));
    }
    let sql = "SELECT tag FROM (SELECT tag FROM graph_tags LIMIT ?1)
         GROUP BY tag ORDER BY count(*) DESC, tag LIMIT 5";
    let most_used: Vec<String> = rows(db, sql, |row| row.get(0), [COUNTED])?;
    Ok(Some(if most_used.is_empty() {
        "no page has a tag".into()
    } else {
        let most_used = most_used.join(", ");
        format!("no page has the tag {tag:?}; often used are {most_used}")
    }))
}

/// Says whether any page's path begins so.
///
/// # Errors
/// As [`called`].
pub fn any_begins(db: &Connection, prefix: &str) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM graph_pages WHERE path >= ?1 AND path < ?1 || char(1114111) LIMIT 1";
    let ask = || {
        let mut ask = db.prepare_cached(sql)?;
        ask.query_row([prefix], |_| Ok(())).optional()
    };
    Ok(ask().map_err(|e| failed(&e))?.is_some())
}

/// Returns different tags, by skipping from one to the next: one may stand in every page.
fn some_tags(db: &Connection) -> Result<Vec<String>, Failure> {
    let sql = "WITH RECURSIVE each_tag (tag) AS (
             SELECT min(tag) FROM graph_tags
             UNION ALL
             SELECT (SELECT min(tag) FROM graph_tags WHERE tag > each_tag.tag) FROM each_tag
             WHERE each_tag.tag IS NOT NULL
         ) SELECT tag FROM each_tag WHERE tag IS NOT NULL LIMIT ?1";
    rows(db, sql, |row| row.get(0), [TAGS])
}

/// A name that others are compared with.
struct Wanted {
    key: String,
    /// Its key taken apart, so that of a Korean syllable one letter may be wrong.
    letters: Vec<char>,
}

impl Wanted {
    fn of(name: &str) -> Self {
        let key = fold_key(name);
        Self {
            letters: key.nfd().collect(),
            key,
        }
    }

    /// Returns how much a name is like this one, from 0 to 1.
    fn alike(&self, name: &str) -> f64 {
        let key = fold_key(name);
        if key == self.key {
            return 1.0;
        }
        let letters: Vec<char> = key.nfd().collect();
        // One of which the other is a part; a single letter is a part of too much.
        let (short, long) = if letters.len() < self.letters.len() {
            (&key, &self.key)
        } else {
            (&self.key, &key)
        };
        let is_part = short.nfd().nth(1).is_some() && long.contains(short.as_str());
        let longer = letters.len().max(self.letters.len());
        let shorter = letters.len().min(self.letters.len());
        if is_part {
            // A little less than what has one letter wrong; the more of it, the better.
            return ALIKE + 0.2 * share(shorter, longer);
        }
        if share(shorter, longer) < ALIKE {
            return 0.0;
        }
        let wrong = strsim::generic_levenshtein(&self.letters, &letters);
        1.0 - share(wrong, longer)
    }
}

fn share(part: usize, whole: usize) -> f64 {
    let number = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    number(part) / number(whole.max(1))
}

/// Returns the last part of a path or an address, without extension and anchor.
fn last_part(name: &str) -> &str {
    let name = name.trim();
    let name = name.split_once('#').map_or(name, |(name, _)| name);
    let name = name.trim_end_matches('/');
    let name = name.rsplit_once('/').map_or(name, |(_, last)| last);
    let extension = [".md", ".mdx", ".markdown"].into_iter();
    let mut stems = extension.filter_map(|extension| name.strip_suffix(extension));
    stems.next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    fn near(db: &Connection, name: &str) -> Vec<String> {
        let near = near_names(db, name).expect("read");
        near.into_iter()
            .map(|near| format!("{} {}", near.name, near.path))
            .collect()
    }

    #[test]
    fn a_page_is_called_by_its_title_alias_and_file_name_in_any_case_and_form() {
        let (_dir, db) = graph(&[
            ("w/guides/start.md", "# 시작\n"),
            ("w/b.md", "---\naliases: [Start, 시작]\n---\n"),
            ("w/시작.md", "# other\n"),
            ("w/시작하기.md", "# 시작하기\n"),
        ]);
        let called = |name: &str| called(&db, name, 9).expect("read");
        let all = ["w/guides/start.md", "w/b.md", "w/시작.md"];
        assert_eq!(called("시작"), all);
        assert_eq!(called(&format!(" {} ", "시작".nfd())), all);
        assert_eq!(called("START"), ["w/b.md", "w/guides/start.md"]);
        assert_eq!(called("guides/start"), ["w/guides/start.md"]);
        assert!(called("시").is_empty() && called("").is_empty());
        assert_eq!(super::called(&db, "시작", 2).expect("read"), all[..2]);
    }

    #[test]
    fn near_a_name_are_names_that_begin_so_hold_it_or_differ_by_a_letter() {
        let (_dir, db) = graph(&[
            ("w/guides/content.md", "# 콘텐츠 컬렉션\n"),
            ("w/guides/deploy.md", "# 배포\n"),
            ("w/x.md", "---\naliases: [콘텐츠]\n---\n# 다른\n"),
        ]);
        assert_eq!(
            near(&db, "콘텐쓰"),
            ["콘텐츠 w/x.md"],
            "a letter of a syllable"
        );
        assert_eq!(
            near(&db, "콘텐츠 컬"),
            ["콘텐츠 컬렉션 w/guides/content.md", "콘텐츠 w/x.md"]
        );
        assert_eq!(
            near(&db, "/ko/guides/deplyo/#top"),
            ["deploy w/guides/deploy.md"]
        );
        assert_eq!(
            near(&db, "guides/contents.md"),
            ["content w/guides/content.md"]
        );
        assert!(near(&db, "nothing of the kind").is_empty());
        assert!(near(&db, "/").is_empty());
    }

    #[test]
    fn a_tag_is_meant_in_any_spelling_and_others_are_told_where_none_is() {
        let nfd: String = "한글".nfd().collect();
        let text = format!("#{nfd} #Rust #ruby");
        let (_dir, db) = graph(&[
            ("w/a.md", "#한글 #rust"),
            ("w/b.md", &text),
            ("w/c.md", "#rust"),
        ]);
        for tag in ["한글", "#한글", &nfd] {
            let spellings = spellings(&db, tag).expect("read");
            assert_eq!(spellings, [nfd.as_str(), "한글"], "{tag}");
            assert_eq!(no_such_tag(&db, bare(tag), &spellings), Ok(None));
        }
        assert_eq!(
            spellings(&db, "RUST").expect("read"),
            ["RUST", "Rust", "rust"]
        );
        let told = |tag: &str| {
            let spellings = spellings(&db, tag).expect("read");
            no_such_tag(&db, tag, &spellings)
                .expect("read")
                .unwrap_or_default()
        };
        assert_eq!(
            told("rusty"),
            "no page has the tag \"rusty\"; did you mean Rust, rust?"
        );
        assert_eq!(
            told("zzz"),
            "no page has the tag \"zzz\"; often used are rust, Rust, ruby, 한글, 한글"
                .replacen("한글", &nfd, 1)
        );
        let (_dir, db) = graph(&[("w/a.md", "x")]);
        assert_eq!(
            no_such_tag(&db, "x", &[]),
            Ok(Some("no page has a tag".into()))
        );
        assert_eq!(any_begins(&db, "w/"), Ok(true));
        assert_eq!(any_begins(&db, "w/b"), Ok(false));
    }

    #[test]
    fn names_and_tags_are_looked_up_by_an_index() {
        let (_dir, db) = graph(&[]);
        for (sql, index) in [
            (
                "SELECT path FROM graph_names WHERE kind = 'title' AND key = 'x' ORDER BY name, ext, depth, length, path LIMIT 9",
                "graph_names_by_key",
            ),
            (
                "SELECT name, path FROM graph_names WHERE kind = 'title' AND key >= 'x' AND key < 'x' || char(1114111) ORDER BY key, name, ext, depth, length, path LIMIT 9",
                "graph_names_by_key",
            ),
            (
                "SELECT min(tag) FROM graph_tags WHERE tag > 'x'",
                "graph_tags_by_tag",
            ),
            (
                "SELECT 1 FROM graph_pages WHERE path >= 'x' AND path < 'x' || char(1114111) LIMIT 1",
                "PRIMARY KEY",
            ),
        ] {
            let mut explain = db
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .expect("a query");
            let plan = explain
                .query_map([], |row| row.get("detail"))
                .expect("a plan");
            let plan: Vec<String> = plan.collect::<rusqlite::Result<_>>().expect("its steps");
            let plan = plan.join("; ");
            assert!(
                plan.contains("SEARCH") && plan.contains(index),
                "{sql}: {plan}"
            );
            assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }
}
