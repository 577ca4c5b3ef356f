//! What `doctor` looks at: each check with the part of the settings that it needs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::commands::hooks::own_path;
use super::environment;
use super::open::{
    CHECKOUT_ID, WIKI_ID, Workspace, git_settings, own_wiki_id, redis_settings, vector_place,
};
use crate::config::Commits;
use crate::embed;
use crate::engine::alert;
use crate::engine::watch::Choice;
use crate::hooks::places;
use crate::model::{Failure, Finding, Timestamp};
use crate::outbox;
use crate::query::doctor::{self, Check};
use crate::state::{Look, look};
use crate::stores::git;
use crate::stores::vectors::{self, Dense};
use crate::wiki::Wiki;

/// How long one answer of a server, or a command of git's, is waited for.
const ANSWER: Duration = Duration::from_secs(4);

/// Returns the checks in the order in which they are told. Nothing is created or changed, here or there.
///
/// # Errors
/// `Refused` when the pages' folder is none that we will touch.
pub(super) fn checks(ws: &Workspace) -> Result<Vec<Check>, Failure> {
    // What cannot be read is told with the databases.
    let known = look(&ws.state.database()).ok().flatten();
    let mut checks = vec![pages(ws)?, disk(ws), databases(ws)];
    checks.extend(redis(ws, known.as_ref()));
    checks.push(repository(ws));
    checks.extend(hooks(ws));
    let dense = Meant::of(ws, known.as_ref());
    checks.push(vectors(ws, known.as_ref(), dense.clone()));
    checks.push(embedding(ws, &dense));
    checks.push(alerts(ws));
    checks.extend(secrets(ws));
    let state = ws.state.clone();
    checks.push(Check::new("watch", move || {
        doctor::watcher::examine(&state, Timestamp::now())
    }));
    Ok(checks)
}

fn meta(known: Option<&Look>, key: &str) -> Option<String> {
    known?.meta(key).ok().flatten()
}

fn by_events(ws: &Workspace) -> bool {
    ws.config.watch.choice != Choice::Poll
}

fn is_embedded(ws: &Workspace) -> bool {
    ws.config.outbox.url == outbox::EMBEDDED
}

fn pages(ws: &Workspace) -> Result<Check, Failure> {
    let wiki = Wiki::open(&ws.root.path, &ws.config.wiki)?;
    let (state, by_events) = (ws.state.clone(), by_events(ws));
    Ok(Check::new("pages", move || {
        doctor::pages::examine(&wiki, &state, by_events, Timestamp::now())
    }))
}

fn disk(ws: &Workspace) -> Check {
    let (root, state, by_events) = (ws.root.path.clone(), ws.state.clone(), by_events(ws));
    let pages = root.join(ws.wiki.pages_dir());
    Check::new("file system", move || {
        doctor::disk::examine(&state, &pages, &root, by_events)
    })
}

fn databases(ws: &Workspace) -> Check {
    let (state, embedded) = (ws.state.clone(), is_embedded(ws));
    Check::new("state", move || {
        doctor::databases::examine(&state, embedded)
    })
}

fn redis(ws: &Workspace, known: Option<&Look>) -> Option<Check> {
    if is_embedded(ws) {
        return None;
    }
    let id = meta(known, CHECKOUT_ID).unwrap_or_default();
    let settings = redis_settings(ws, id);
    Some(Check::new("redis", move || {
        outbox::examine_redis(settings, ANSWER)
    }))
}

fn repository(ws: &Workspace) -> Check {
    if ws.config.git.commit == Commits::Off {
        let what = "git.commit is \"off\": nothing is committed";
        return Check::new("git", move || vec![Finding::ok("git", what)]);
    }
    let (root, state, settings) = (ws.root.path.clone(), ws.state.clone(), git_settings(ws));
    Check::new("git", move || git::examine(&root, &state, settings, ANSWER))
}

fn hooks(ws: &Workspace) -> Option<Check> {
    let git = places::Git {
        root: ws.root.path.clone(),
        configured_by: environment::git_configuration(),
    };
    let program = own_path().unwrap_or_else(|_| "wiki-sync".to_owned());
    let search = std::env::var_os("PATH");
    ws.root.git.then(|| {
        Check::new("hooks", move || {
            doctor::hooks::examine(git, &program, search.as_ref())
        })
    })
}

/// The dense vectors that the settings mean.
#[derive(Clone)]
struct Meant {
    /// The model's fingerprint.
    model: Option<String>,
    /// How many numbers a vector has, where some were made.
    dimension: Option<usize>,
}

impl Meant {
    fn of(ws: &Workspace, known: Option<&Look>) -> Self {
        let model = embed::fingerprint(&ws.config.embedding);
        let both = known.zip(model.as_deref());
        let dimension = both.and_then(|(known, model)| known.dimension(model).ok().flatten());
        Self {
            model,
            dimension: dimension.and_then(|dimension| dimension.try_into().ok()),
        }
    }
}

fn vectors(ws: &Workspace, known: Option<&Look>, meant: Meant) -> Check {
    let (place, state) = (vector_place(ws), ws.state.clone());
    let wiki_id = meta(known, WIKI_ID);
    Check::new("vectors", move || {
        let mut settings = match place {
            Ok(settings) => settings,
            Err(failure) => {
                let hint = "correct vectors.api_key_file";
                return vec![Finding::of("vectors", &failure, hint)];
            }
        };
        settings.wiki_id = wiki_id.unwrap_or_else(|| own_wiki_id(&settings.belongs));
        settings.server.timeout = settings.server.timeout.min(ANSWER);
        let Meant { model, dimension } = meant;
        let dense = dimension.zip(model.clone());
        settings.shape.dense = dense.map(|(dimension, model)| Dense { dimension, model });
        vectors::examine(settings, &state, model)
    })
}

fn embedding(ws: &Workspace, meant: &Meant) -> Check {
    let (choice, dimension) = (ws.config.embedding.clone(), meant.dimension);
    let key = if choice.is_on {
        ws.secret(embed::KEY_VARIABLE, "embedding.key_file", &choice.key_file)
    } else {
        Ok(None)
    };
    Check::new("embedding", move || {
        // A model may have to be loaded first.
        vec![embed::examine(&choice, key, dimension, 2 * ANSWER)]
    })
}

fn alerts(ws: &Workspace) -> Check {
    let channels = ws.config.alert.channels(ws.telegram_token(), &ws.root.path);
    Check::new("alerts", move || alert::examine(&channels, ANSWER))
}

/// Looks at the files that hold secrets, where the settings name any: whether others can read them, and whether git keeps
/// them.
fn secrets(ws: &Workspace) -> Option<Check> {
    let config = &ws.config;
    let named = [
        ("embedding.key_file", &config.embedding.key_file),
        ("vectors.api_key_file", &config.vectors.api_key_file),
        ("alert.telegram.token_file", &config.alert.token_file),
    ];
    let named: Vec<_> = named
        .into_iter()
        .filter(|(_, file)| !file.is_empty())
        .map(|(key, file)| (key, file.clone()))
        .collect();
    let root = ws.root.path.clone();
    (!named.is_empty()).then(|| {
        Check::new(SECRETS, move || {
            let found = named
                .iter()
                .flat_map(|(key, file)| secret_file(&root, key, file));
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                return vec![Finding::ok(SECRETS, "in files that are nobody else's")];
            }
            found
        })
    })
}

/// What a finding about secrets is called.
const SECRETS: &str = "secrets";

/// Looks at one file with a secret. That it is not there is told by whoever needs it.
fn secret_file(root: &Path, key: &str, file: &str) -> Vec<Finding> {
    let path = root.join(file);
    let mut found = Vec::new();
    let mode = std::fs::metadata(&path).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        found.push(Finding::warning(
            SECRETS,
            format!(
                "{key} {file:?} can be read by others (mode {:03o})",
                mode & 0o777
            ),
            format!("chmod 600 {file}"),
        ));
    }
    let is_kept = git::open_repository(root).is_ok_and(|repo| {
        let top = repo.workdir().and_then(|top| top.canonicalize().ok());
        let inside = top.zip(path.canonicalize().ok()).and_then(|(top, path)| {
            let inside = path.strip_prefix(top).ok()?;
            Some(inside.to_path_buf())
        });
        let index = inside.zip(repo.index().ok());
        index.is_some_and(|(inside, index)| index.get_path(&inside, 0).is_some())
    });
    if is_kept {
        found.push(Finding::warning(
            SECRETS,
            format!("{key} {file:?} is in git: whoever has the repository has the secret"),
            format!("git rm --cached {file}, name it in .gitignore, and have the secret changed"),
        ));
    }
    found
}
