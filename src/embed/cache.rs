//! Vectors that a provider gave, in `wiki.db`, by the SHA of the text and the fingerprint of how they were made.
//!
//! Bounded in bytes: what was of use longest ago goes first. Nothing here looks at all rows.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use sha2::{Digest as _, Sha256};

use super::Vector;
use crate::model::{ContentSha, Failure, FailureKind, Timestamp};
use crate::state::{db_failure, open_db, with_write};

const DAY_MS: i64 = 86_400_000;

/// The most vectors that one transaction drops: others wait for it.
const MOST_DROPPED: i64 = 4096;

/// How many vectors are dropped before it is looked whether there are still too many: they are not of one length.
const STEP: i64 = 32;

/// The vectors of one fingerprint.
#[derive(Debug)]
pub(super) struct Cache {
    db: Connection,
    fingerprint: String,
    bound: i64,
    clock: fn() -> Timestamp,
}

impl Cache {
    /// Opens the vectors of a fingerprint. `bound`: the most bytes, of all fingerprints together.
    ///
    /// # Errors
    /// As [`open_db`].
    pub(super) fn open(database: &Path, fingerprint: String, bound: u64) -> Result<Self, Failure> {
        Ok(Self {
            db: open_db(database)?,
            fingerprint,
            bound: i64::try_from(bound).unwrap_or(i64::MAX),
            clock: Timestamp::now,
        })
    }

    /// Returns how many numbers the vectors have, when there were any.
    ///
    /// # Errors
    /// As [`db_failure`] sorts them; the same for the methods below.
    pub(super) fn dimension(&self) -> Result<Option<usize>, Failure> {
        let model = model(&self.db, &self.fingerprint).map_err(|e| unread(&e))?;
        Ok(model.map(|(_, dimension)| dimension))
    }

    /// Returns the vector of each text that has one. Damaged ones count as none.
    pub(super) fn get(&mut self, texts: &[ContentSha]) -> Result<Vec<Option<Vector>>, Failure> {
        let today = self.today();
        let found = self.read(texts, today).map_err(|e| unread(&e))?;
        let Some(Found { vectors, stale }) = found else {
            return Ok(vec![None; texts.len()]);
        };
        if !stale.is_empty() {
            with_write(&mut self.db, "cannot note the use of embeddings", |tx| {
                let mut touch =
                    tx.prepare_cached("UPDATE embeddings SET used = ?2 WHERE rowid = ?1")?;
                for row in &stale {
                    touch.execute([*row, today])?;
                }
                Ok(())
            })?;
        }
        Ok(vectors)
    }

    fn read(&self, texts: &[ContentSha], today: i64) -> rusqlite::Result<Option<Found>> {
        let Some((model, dimension)) = model(&self.db, &self.fingerprint)? else {
            return Ok(None);
        };
        let mut select = self.db.prepare_cached(
            "SELECT rowid, used, vector, digest FROM embeddings WHERE model = ?1 AND section = ?2",
        )?;
        let mut found = Found {
            vectors: Vec::with_capacity(texts.len()),
            stale: Vec::new(),
        };
        for text in texts {
            let section = text.to_string();
            let row = select.query_row(params![model, section], |row| {
                let bytes = row.get_ref(2)?.as_blob()?;
                let is_whole = row.get_ref(3)?.as_blob()? == digest(model, &section, bytes);
                let vector = is_whole.then(|| from_bytes(bytes)).flatten();
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, vector))
            });
            let vector = match row.optional()? {
                Some((row, used, Some(vector))) if vector.len() == dimension => {
                    if used != today {
                        found.stale.push(row);
                    }
                    Some(vector)
                }
                Some(_) | None => None,
            };
            found.vectors.push(vector);
        }
        Ok(Some(found))
    }

    /// Keeps the vectors of some texts, durably, in one transaction, and drops the oldest that are too many.
    ///
    /// # Errors
    /// `Refused` when they have another number of numbers than those before.
    pub(super) fn put(&mut self, vectors: &[(ContentSha, &Vector)]) -> Result<(), Failure> {
        let Some((_, first)) = vectors.first() else {
            return Ok(());
        };
        let dimension = first.len();
        let (today, bound) = (self.today(), self.bound);
        let fingerprint = self.fingerprint.as_str();
        let before = with_write(&mut self.db, "cannot keep embeddings", |tx| {
            tx.execute(
                "INSERT INTO embedding_models (fingerprint, dimension) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![fingerprint, u32::try_from(dimension).unwrap_or(u32::MAX)],
            )?;
            let Some((model, before)) = model(tx, fingerprint)? else {
                return Err(rusqlite::Error::QueryReturnedNoRows);
            };
            if before == dimension {
                insert(tx, model, vectors, today)?;
                drop_oldest(tx, bound)?;
            }
            Ok(before)
        })?;
        if before != dimension {
            return Err(Failure::new(
                FailureKind::Refused,
                format!("the model gave vectors of {before} numbers before, and gives {dimension} now"),
            )
            .hint("another model stands behind its name: set embedding.model to the one it was; or name the new one otherwise, and run `wiki-sync rebuild vectors`"));
        }
        Ok(())
    }

    fn today(&self) -> i64 {
        (self.clock)().0.div_euclid(DAY_MS)
    }
}

/// What was found of some texts.
struct Found {
    vectors: Vec<Option<Vector>>,
    /// The rows whose day of use is another one.
    stale: Vec<i64>,
}

fn unread(error: &rusqlite::Error) -> Failure {
    db_failure("cannot read embeddings", error)
}

/// Returns a fingerprint's number, and how many numbers its vectors have.
fn model(db: &Connection, fingerprint: &str) -> rusqlite::Result<Option<(i64, usize)>> {
    db.prepare_cached("SELECT id, dimension FROM embedding_models WHERE fingerprint = ?1")?
        .query_row([fingerprint], |row| {
            let dimension: u32 = row.get(1)?;
            Ok((row.get(0)?, dimension as usize))
        })
        .optional()
}

fn insert(
    tx: &Transaction<'_>,
    model: i64,
    vectors: &[(ContentSha, &Vector)],
    today: i64,
) -> rusqlite::Result<()> {
    let mut put = tx.prepare_cached(
        "INSERT INTO embeddings (model, section, used, vector, digest) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET used = excluded.used, vector = excluded.vector, digest = excluded.digest",
    )?;
    for (text, vector) in vectors {
        let section = text.to_string();
        let bytes = to_bytes(vector);
        let digest = digest(model, &section, &bytes);
        put.execute(params![model, section, today, bytes, digest])?;
    }
    Ok(())
}

/// Drops what was of use longest ago while there is too much, as far as one transaction may.
fn drop_oldest(tx: &Transaction<'_>, bound: i64) -> rusqlite::Result<()> {
    let size = || -> rusqlite::Result<i64> {
        tx.prepare_cached("SELECT bytes FROM embeddings_size")?
            .query_row([], |row| row.get(0))
    };
    let mut left = MOST_DROPPED;
    while left > 0 && size()? > bound {
        let dropped = tx
            .prepare_cached(
                "DELETE FROM embeddings WHERE rowid IN
                 (SELECT rowid FROM embeddings ORDER BY used, rowid LIMIT ?1)",
            )?
            .execute([STEP])?;
        if dropped == 0 {
            break;
        }
        left -= STEP;
    }
    Ok(())
}

/// Returns a digest over a row, short since only damage is to be noticed.
fn digest(model: i64, section: &str, bytes: &[u8]) -> [u8; 8] {
    let mut hasher = Sha256::new();
    hasher.update(model.to_le_bytes());
    hasher.update(section);
    hasher.update(bytes);
    let whole: [u8; 32] = hasher.finalize().into();
    *whole
        .first_chunk()
        .expect("a quarter of 32 bytes is 8 bytes")
}

fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Option<Vector> {
    let (numbers, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    Some(numbers.iter().map(|&n| f32::from_le_bytes(n)).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static DAY: Cell<i64> = const { Cell::new(0) };
    }

    fn day(day: i64) {
        DAY.set(day);
    }

    struct Fixture {
        folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().expect("a folder"),
            }
        }

        fn cache(&self, fingerprint: &str, bound: u64) -> Cache {
            let database = self.folder.path().join("wiki.db");
            let cache = Cache::open(&database, fingerprint.into(), bound).expect("a database");
            Cache {
                clock: || Timestamp(DAY.get() * DAY_MS),
                ..cache
            }
        }
    }

    fn sha(text: &str) -> ContentSha {
        ContentSha::of(text.as_bytes())
    }

    fn put(cache: &mut Cache, texts: &[&str], vector: &[f32]) -> Result<(), Failure> {
        let vector = vector.to_vec();
        let rows: Vec<_> = texts.iter().map(|text| (sha(text), &vector)).collect();
        cache.put(&rows)
    }

    fn has(cache: &mut Cache, text: &str) -> bool {
        cache.get(&[sha(text)]).expect("read")[0].is_some()
    }

    const ROOM: u64 = 1 << 20;

    #[test]
    fn a_vector_comes_back_to_the_bit_after_a_restart_and_only_for_its_text_and_model() {
        let fixture = Fixture::new();
        let vector = [0.6, -0.8, f32::MIN_POSITIVE];
        let mut cache = fixture.cache("A", ROOM);
        assert_eq!(cache.dimension(), Ok(None));
        put(&mut cache, &["x"], &vector).expect("kept");
        drop(cache);
        let mut cache = fixture.cache("A", ROOM);
        assert_eq!(
            cache.get(&[sha("y"), sha("x")]),
            Ok(vec![None, Some(vector.to_vec())])
        );
        assert_eq!(cache.dimension(), Ok(Some(3)));
        let mut other = fixture.cache("B", ROOM);
        assert_eq!(
            (other.get(&[sha("x")]), other.dimension()),
            (Ok(vec![None]), Ok(None))
        );
    }

    #[test]
    fn a_model_whose_vectors_change_their_length_is_refused_and_nothing_of_it_kept() {
        let fixture = Fixture::new();
        let mut cache = fixture.cache("A", ROOM);
        put(&mut cache, &["x"], &[1.0, 0.0]).expect("kept");
        let failure = put(&mut cache, &["y"], &[1.0, 0.0, 0.0]).expect_err("another length");
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(
            failure.reason.contains("2 numbers before, and gives 3"),
            "{failure:?}"
        );
        assert!(has(&mut cache, "x") && !has(&mut cache, "y"));
    }

    #[test]
    fn what_was_damaged_is_none_until_it_is_put_again() {
        let fixture = Fixture::new();
        let mut cache = fixture.cache("A", ROOM);
        for damage in [
            "UPDATE embeddings SET vector = x'0000803f'",
            "UPDATE embeddings SET vector = x'00'",
            "UPDATE embeddings SET vector = zeroblob(8)",
            "UPDATE embeddings SET digest = x''",
            "UPDATE embeddings SET section = (SELECT hex(zeroblob(32))) WHERE 1",
            "UPDATE embedding_models SET dimension = 3",
        ] {
            put(&mut cache, &["x"], &[0.0, 1.0]).expect("kept");
            assert!(has(&mut cache, "x"));
            cache.db.execute_batch(damage).expect(damage);
            assert!(!has(&mut cache, "x"), "{damage}");
        }
    }

    #[test]
    fn what_was_of_use_longest_ago_goes_first_and_the_bound_holds() {
        let fixture = Fixture::new();
        // 32 rows of 8 + 200 bytes, which are dropped at a time, and 10 more.
        let bound = 42 * 208;
        let mut cache = fixture.cache("A", bound);
        let names: Vec<_> = (0..42).map(|n| n.to_string()).collect();
        for name in &names {
            day(1);
            put(&mut cache, &[name], &[0.0, 1.0]).expect("kept");
        }
        assert!(
            names.iter().all(|name| has(&mut cache, name)),
            "all have room"
        );
        day(2);
        assert!(has(&mut cache, "0"), "it is of use again");
        day(3);
        put(&mut cache, &["new"], &[0.0, 1.0]).expect("kept");
        assert!(has(&mut cache, "new") && has(&mut cache, "0"));
        // Looked for without touching the rest.
        let left: i64 = cache
            .db
            .query_row("SELECT count(*) FROM embeddings", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(left, 43 - 32);
        assert!(!has(&mut cache, "1") && !has(&mut cache, "32") && has(&mut cache, "33"));
        let told: (i64, i64) = cache
            .db
            .query_row(
                "SELECT bytes, (SELECT sum(length(vector) + 200) FROM embeddings) FROM embeddings_size",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .expect("sizes");
        assert_eq!(told.0, told.1, "the size is known without adding up");
    }

    #[test]
    fn the_oldest_are_found_by_an_index() {
        let fixture = Fixture::new();
        let cache = fixture.cache("A", ROOM);
        for (query, index) in [
            (
                "SELECT rowid FROM embeddings ORDER BY used, rowid LIMIT 32",
                "embeddings_by_use",
            ),
            (
                "SELECT vector FROM embeddings WHERE model = 1 AND section = 'x'",
                "sqlite_autoindex",
            ),
        ] {
            let plan: String = cache
                .db
                .query_row(&format!("EXPLAIN QUERY PLAN {query}"), [], |row| row.get(3))
                .expect("a plan");
            assert!(
                plan.contains(index) && !plan.contains("TEMP B-TREE"),
                "{plan}"
            );
        }
    }
}
