//! The job: a pointer to a page that may have changed, and its form on the wire.

use serde::{Deserialize, Serialize};

use super::{ContentSha, PagePath, PathError};

/// What a producer says of a page beside its path; both may be empty.
///
/// They become part of the point key `repo@commit_sha::lang::symbol_path`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Labels {
    /// The source repository the page describes (not the wiki's own).
    pub repo: String,
    /// The commit of that repository.
    pub commit_sha: String,
}

impl Labels {
    /// Says whether neither label is given, as in the jobs of hook, watch and scan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.repo.is_empty() && self.commit_sha.is_empty()
    }
}

/// "Page P may have changed": a pointer, not a payload, so jobs may be merged, repeated and reordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The page.
    pub path: PagePath,
    /// The content that whoever enqueued saw, a hint only: the drain reads the page when it gets there.
    pub sha: Option<ContentSha>,
    /// What the producer says of the page.
    pub labels: Labels,
    /// Attempts that have failed so far.
    pub retry: u32,
}

/// Why a line is not a job.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Not JSON, not an object, or a field of the wrong type.
    #[error("line is not a job")]
    Json(#[from] serde_json::Error),
    /// The path is not a page's path.
    #[error("job names no page")]
    Path(#[from] PathError),
}

/// The five fields of the ancestor's contract, in its order. Unknown fields are ignored.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(default)]
    sha: std::borrow::Cow<'a, str>,
    output_path: std::borrow::Cow<'a, str>,
    #[serde(default)]
    repo: std::borrow::Cow<'a, str>,
    #[serde(default)]
    commit_sha: std::borrow::Cow<'a, str>,
    #[serde(default)]
    retry: u32,
}

impl Job {
    /// Makes a job as hook, watch and scan do: without labels, fresh.
    #[must_use]
    pub fn for_page(path: PagePath, sha: Option<ContentSha>) -> Self {
        Self {
            path,
            sha,
            labels: Labels::default(),
            retry: 0,
        }
    }

    /// Reads one line `{"sha", "output_path", "repo", "commit_sha", "retry"}`; only `output_path` is required.
    ///
    /// A `sha` that is not 64 hex digits counts as absent (it is a hint).
    ///
    /// # Errors
    /// [`JobError`] when the line is not JSON of that shape or the path is not a page's path.
    pub fn from_line(line: &str) -> Result<Self, JobError> {
        let line: Line<'_> = serde_json::from_str(line)?;
        Ok(Self {
            path: PagePath::parse(&line.output_path)?,
            sha: line.sha.parse().ok(),
            labels: Labels {
                repo: line.repo.into_owned(),
                commit_sha: line.commit_sha.into_owned(),
            },
            retry: line.retry,
        })
    }

    /// Returns the job as one line of JSON, the five fields in the contract's order.
    ///
    /// # Panics
    /// Never: five plain fields always serialise.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(&Line {
            sha: self
                .sha
                .map(|sha| sha.to_string())
                .unwrap_or_default()
                .into(),
            output_path: self.path.as_str().into(),
            repo: self.labels.repo.as_str().into(),
            commit_sha: self.labels.commit_sha.as_str().into(),
            retry: self.retry,
        })
        .expect("five plain fields always serialise")
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ancestors_line_reads_and_writes_the_same() {
        let line = format!(
            r#"{{"sha":"{}","output_path":"wiki-output/a.md","repo":"demo","commit_sha":"c0","retry":2}}"#,
            ContentSha::of(b"x")
        );
        let job = Job::from_line(&line).expect("a job");
        assert_eq!((job.path.as_str(), job.retry), ("wiki-output/a.md", 2));
        assert_eq!(job.to_line(), line);
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
        let job = Job::from_line(r#"{"output_path":"a.md","priority":9}"#).expect("a job");
        assert_eq!(
            job,
            Job::for_page(PagePath::parse("a.md").expect("ok"), None)
        );
    }

    /// Writes a text as Python's `json.dumps` does: all that is not ASCII as UTF-16, escaped.
    fn dumped(text: &str) -> String {
        let mut out = String::from("\"");
        for unit in text.encode_utf16() {
            match u8::try_from(unit) {
                Ok(b'"') => out.push_str("\\\""),
                Ok(b'\\') => out.push_str("\\\\"),
                Ok(byte @ b' '..=b'~') => out.push(char::from(byte)),
                Ok(_) | Err(_) => write!(out, "\\u{unit:04x}").expect("it grows"),
            }
        }
        out + "\""
    }

    /// A path that is one, and one of odd parts.
    fn paths() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => "[a-zA-Z0-9가-힣 é\u{301}.#%_-]{1,12}",
            1 => any::<String>(),
        ];
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/") + ".md")
    }

    proptest! {
        #[test]
        fn a_job_comes_back_as_it_went_also_from_the_ancestors_hand(
            path in paths(),
            sha in prop::option::of(any::<[u8; 8]>()),
            (repo, commit_sha) in any::<(String, String)>(),
            retry in any::<u32>(),
        ) {
            let Ok(path) = PagePath::parse(&path) else {
                return Ok(());
            };
            let sha = sha.map(|seed| ContentSha::of(&seed));
            let job = Job { path, sha, labels: Labels { repo, commit_sha }, retry };
            let line = job.to_line();
            prop_assert!(!line.contains(['\n', '\r', '\0']));
            prop_assert_eq!(&Job::from_line(&line).expect("a job"), &job);
            let theirs = format!(
                "{{\"sha\": {}, \"output_path\": {}, \"repo\": {}, \"commit_sha\": {}, \"retry\": {retry}}}",
                dumped(&sha.map(|sha| sha.to_string()).unwrap_or_default()),
                dumped(job.path.as_str()), dumped(&job.labels.repo), dumped(&job.labels.commit_sha),
            );
            prop_assert_eq!(&Job::from_line(&theirs).expect("a job"), &job);
        }

        #[test]
        fn any_line_is_a_job_or_an_error(line in prop_oneof![
            any::<String>(),
            paths().prop_map(|path| format!("{{\"output_path\":{path:?}}}")),
            r#"[{}\[\]":,0-9a-z\\ue+.-]{0,60}"#,
            (any::<String>(), r"-?[0-9]{0,12}(\.[0-9])?(e[0-9]{1,3})?").prop_map(|(text, number)| {
                let text = serde_json::to_string(&text).expect("a text");
                format!("{{\"output_path\":{text},\"retry\":{number},\"sha\":{text}}}")
            }),
        ]) {
            if let Ok(job) = Job::from_line(&line) {
                prop_assert_eq!(Job::from_line(&job.to_line()).expect("a job"), job);
            }
        }
    }

    #[test]
    fn junk_is_refused() {
        for bad in [
            "",
            "not json {",
            "[]",
            "{}",
            "null",
            r#"{"output_path":5}"#,
            r#"{"output_path":"a.md","retry":-1}"#,
            r#"{"output_path":"../../etc/passwd"}"#,
            r#"{"output_path":""}"#,
        ] {
            assert!(Job::from_line(bad).is_err(), "{bad:?}");
        }
    }
}
