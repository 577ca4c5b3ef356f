//! A commit object made by git, signed as the user has it configured (gpg, ssh, x509).

use git2::{Oid, Repository, Signature};

use super::program::Git;
use super::repo::git_failure;
use crate::model::{Failure, FailureKind};

/// What a commit is made of.
pub(super) struct Draft<'d> {
    pub(super) tree: Oid,
    pub(super) parent: Option<Oid>,
    pub(super) author: &'d Signature<'d>,
    pub(super) committer: &'d Signature<'d>,
    pub(super) message: &'d str,
}

const DOING: &str = "cannot sign the commit (commit.gpgsign is set)";
const HINT: &str = "see what `git commit-tree -S -m test HEAD^{tree}` says (a passphrase must be known to the agent; `git config user.signingKey` names the key); to do without, run `git config commit.gpgsign false` in this repository";

/// Writes the commit, signed; no reference moves.
///
/// # Errors
/// `Refused` when it could not be signed.
pub(super) fn signed_commit(
    git: &Git,
    repo: &Repository,
    draft: &Draft<'_>,
) -> Result<Oid, Failure> {
    let tree = draft.tree.to_string();
    let parent = draft.parent.map(|id| id.to_string());
    let mut args = vec!["commit-tree", "-S", "-F", "-"];
    if let Some(parent) = &parent {
        args.extend(["-p", parent]);
    }
    args.push(&tree);
    let mut variables = Vec::new();
    for (who, [name, mail, date]) in [
        (
            draft.author,
            ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"],
        ),
        (
            draft.committer,
            [
                "GIT_COMMITTER_NAME",
                "GIT_COMMITTER_EMAIL",
                "GIT_COMMITTER_DATE",
            ],
        ),
    ] {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        variables.push((name, text(who.name_bytes())));
        variables.push((mail, text(who.email_bytes())));
        variables.push((date, date_of(who)));
    }
    let answer = git
        .run_with(&args, &[], &variables, draft.message.as_bytes())
        .map_err(|why| why.failure(DOING, HINT))?;
    let answer = String::from_utf8_lossy(&answer);
    let refused =
        |why: &str| Failure::new(FailureKind::Refused, format!("{DOING}: {why}")).hint(HINT);
    let id = Oid::from_str(answer.trim()).map_err(|_| refused("git named no commit"))?;
    let commit = repo
        .find_commit(id)
        .map_err(|error| git_failure("cannot read the signed commit", &error))?;
    let is_as_drafted = commit.tree_id() == draft.tree && commit.parent_ids().eq(draft.parent);
    if !is_as_drafted {
        return Err(refused("git made another commit than it was told"));
    }
    if commit.header_field_bytes("gpgsig").is_err() {
        return Err(refused("git made it without a signature"));
    }
    Ok(id)
}

/// Returns when somebody signs, as git reads it: seconds since the epoch and the offset.
fn date_of(who: &Signature<'_>) -> String {
    let when = who.when();
    let minutes = when.offset_minutes().unsigned_abs();
    let (hours, minutes) = (minutes / 60, minutes % 60);
    format!("@{} {}{hours:02}{minutes:02}", when.seconds(), when.sign())
}
