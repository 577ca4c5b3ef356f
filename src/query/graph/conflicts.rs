//! Pages whose paths differ only by case or Unicode normal form: one file where a file system takes them for the same.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;
use serde::Serialize;
use unicode_normalization::{UnicodeNormalization as _, is_nfc, is_nfd};

use super::{More, Row, rows};
use crate::model::Failure;

/// The Unicode normal form that a path is written in. Two that look alike may differ by it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// It has no letters that could be taken apart.
    Plain,
    /// NFC: `é` is one character, as most systems write it.
    Composed,
    /// NFD: `e` and an accent of its own, or the letters of a Korean syllable, as macOS may write it.
    Decomposed,
    /// Of both something.
    Mixed,
}

impl Form {
    fn of(path: &str) -> Self {
        match (is_nfc(path), is_nfd(path)) {
            (true, true) => Self::Plain,
            (true, false) => Self::Composed,
            (false, true) => Self::Decomposed,
            (false, false) => Self::Mixed,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Composed => "composed, NFC",
            Self::Decomposed => "decomposed, NFD",
            Self::Mixed => "partly decomposed",
        })
    }
}

/// What the paths of a conflict differ by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DifferBy {
    /// Case alone.
    Case,
    /// Unicode normal form alone: they look the same.
    Form,
    /// Both.
    #[serde(rename = "case and form")]
    Both,
}

impl fmt::Display for DifferBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Case => "case",
            Self::Form => "Unicode form",
            Self::Both => "case and Unicode form",
        })
    }
}

impl DifferBy {
    fn of(paths: &[&str]) -> Self {
        let composed: BTreeSet<String> = paths.iter().map(|path| path.nfc().collect()).collect();
        let forms: BTreeSet<Form> = paths.iter().map(|path| Form::of(path)).collect();
        let by_case = composed.len() > 1;
        let by_form = composed.len() < paths.len() || forms.len() > 1;
        match (by_case, by_form) {
            (true, true) => Self::Both,
            (false, true) => Self::Form,
            (true | false, false) => Self::Case,
        }
    }
}

/// Returns the pages whose paths differ only by case or Unicode normal form: one row for all that are one name, by the first
/// of them.
///
/// # Errors
/// `Busy`, `Refused` and `Down`, as [`crate::state::db_failure`] sorts them.
pub fn conflicts(db: &Connection) -> Result<Vec<Row>, Failure> {
    let found: Vec<(String, String, String)> = rows(
        db,
        "SELECT key, path, title FROM graph_pages WHERE key IN
             (SELECT key FROM graph_pages GROUP BY key HAVING count(*) > 1)
         ORDER BY key, path",
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        [],
    )?;
    let same_name = found.chunk_by(|(a, ..), (b, ..)| a == b);
    Ok(same_name
        .filter_map(|pages| {
            let paths: Vec<&str> = pages.iter().map(|(_, path, _)| path.as_str()).collect();
            let (_, path, title) = pages.first()?;
            let more = More::Conflict {
                with: paths[1..].iter().map(ToString::to_string).collect(),
                differ_by: DifferBy::of(&paths),
                forms: paths.iter().map(|path| Form::of(path)).collect(),
            };
            Some(Row::node(path.clone(), title.clone(), "conflict", more))
        })
        .collect())
}

/// Tells a conflict in one sentence, so that names which look the same can be told apart.
#[must_use]
pub fn told(path: &str, with: &[String], differ_by: DifferBy, forms: &[Form]) -> String {
    let named = |(path, form): (&str, &Form)| match differ_by {
        DifferBy::Case => path.to_owned(),
        DifferBy::Form | DifferBy::Both => format!("{path} ({form})"),
    };
    let paths = std::iter::once(path).chain(with.iter().map(String::as_str));
    let mut names = paths.zip(forms).map(named);
    let first = names.next().unwrap_or_default();
    let others: Vec<String> = names.collect();
    let others = others.join(", ");
    format!("{first}  differs only by {differ_by} from {others}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    #[test]
    fn names_that_differ_by_case_or_normal_form_are_told_once_with_what_sets_them_apart() {
        let (nfc, nfd) = ("w/\u{e9}.md", "w/e\u{301}.md");
        let (composed, taken_apart) = ("w/한글.md", "w/한글.md".nfd().collect::<String>());
        let upper = "w/E\u{301}T.md";
        let (_dir, db) = graph(&[
            ("w/Finance/a.md", ""),
            ("w/finance/a.md", ""),
            (nfc, ""),
            (nfd, ""),
            (composed, ""),
            (&taken_apart, ""),
            (upper, ""),
            ("w/\u{e9}t.md", ""),
            ("w/a b.md", ""),
            ("w/a-b.md", ""),
        ]);
        let rows = conflicts(&db).expect("readable");
        let sentences: Vec<String> = rows
            .iter()
            .map(|row| match &row.more {
                More::Conflict {
                    with,
                    differ_by,
                    forms,
                } => told(&row.path, with, *differ_by, forms),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            sentences,
            [
                "w/Finance/a.md  differs only by case from w/finance/a.md".to_owned(),
                format!(
                    "{nfd} (decomposed, NFD)  differs only by Unicode form from {nfc} (composed, NFC)"
                ),
                format!(
                    "{upper} (decomposed, NFD)  differs only by case and Unicode form from w/\u{e9}t.md (composed, NFC)"
                ),
                format!(
                    "{taken_apart} (decomposed, NFD)  differs only by Unicode form from {composed} (composed, NFC)"
                ),
            ]
        );
        assert_eq!(
            serde_json::to_value(&rows[1]).expect("JSON"),
            serde_json::json!({"path": nfd, "title": "e\u{301}", "kind": "conflict", "label": null, "anchor": null,
                "with": [nfc], "differ_by": "form", "forms": ["decomposed", "composed"]})
        );
    }
}
