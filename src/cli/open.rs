//! Opening the wiki and its parts: the one file that knows which implementation stands behind a setting.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::CommandError;
use super::exit::Exit;
use super::log;
use super::out::count;
use super::root::{self, Root};
use crate::config::{Commits, Config, FILE_NAME, Layers};
use crate::engine::Parts;
use crate::engine::alert::{Alerts, TOKEN_VARIABLE};
use crate::engine::announce::announce;
use crate::model::{Failure, FailureKind, Secret, StoreName, Timestamp};
use crate::outbox::{Enqueued, Outbox};
use crate::state::{Receipts, StateDir, Stop};
use crate::stores::git::HeadPages;
use crate::wiki::Wiki;

/// The key, among the lasting values, of the pages' folder that was last worked on.
const PAGES_DIR: &str = "pages_dir";

/// How long an outbox is asked that is only to be read.
#[cfg(any(feature = "mcp", feature = "serve"))]
const ASKED: std::time::Duration = std::time::Duration::from_secs(4);

/// A wiki with its settings: found, but nothing opened and nothing created yet.
pub(crate) struct Workspace {
    /// The folder that page paths are relative to.
    pub(crate) root: Root,
    /// All settings.
    pub(crate) config: Config,
    /// The pages.
    pub(crate) wiki: Wiki,
    /// The state folder, whether it exists or not.
    pub(crate) state: StateDir,
    /// The folder that the user's paths are relative to.
    pub(crate) start: PathBuf,
    /// What stands in for the state folder where there is none and there is to be none.
    stand_in: Option<TempDir>,
}

impl Workspace {
    /// Finds the wiki that `start` is in.
    ///
    /// # Errors
    /// When there is none, or none that we will touch; when a setting cannot be used.
    pub(crate) fn find(start: &Path, flags: &[String]) -> Result<Self, CommandError> {
        let (root, config) = settings(start, flags)?;
        let warnings = config.warnings.clone();
        Self::found(root, config, start).map_err(|error| error.warned(&warnings))
    }

    fn found(root: Option<Root>, config: Config, start: &Path) -> Result<Self, CommandError> {
        log::set(config.log);
        let root = root.ok_or_else(|| no_wiki(start, &config))?;
        let found = Self::at(root, config, start.into())?;
        let pages = found.root.path.join(found.wiki.pages_dir());
        // Once it was there under this name, a missing folder is a wiki without pages.
        if !pages.is_dir() && found.known_pages_dir()?.as_deref() != Some(found.wiki.pages_dir()) {
            return Err(CommandError::new(format!(
                "no folder {:?} in {}",
                found.wiki.pages_dir(),
                found.root.path.display()
            ))
            .hint(format!(
                "`wiki-sync init` or `mkdir {}` makes it; wiki.pages names another folder",
                found.wiki.pages_dir()
            )));
        }
        Ok(found)
    }

    /// Takes the wiki at a known root.
    ///
    /// # Errors
    /// `Refused` when the pages' folder is none that we will touch.
    pub(crate) fn at(root: Root, config: Config, start: PathBuf) -> Result<Self, CommandError> {
        Ok(Self {
            wiki: Wiki::open(&root.path, &config.wiki)?,
            state: StateDir::of(&root.path),
            root,
            config,
            start,
            stand_in: None,
        })
    }

    /// Lets nothing be made by whoever only asks: where there is no state, an empty one elsewhere is looked at, and goes with
    /// this value.
    ///
    /// # Errors
    /// `Down` where no temporary folder can be made.
    pub(crate) fn only_asking(mut self) -> Result<Self, Failure> {
        self.state.check()?;
        if !self.state.path().exists() {
            let folder = tempfile::tempdir().map_err(|e| {
                Failure::from_error(FailureKind::Down, "cannot make a temporary folder", &e)
            })?;
            self.state = StateDir::of(folder.path()).stopping(self.state.stop().clone());
            self.stand_in = Some(folder);
        }
        Ok(self)
    }

    /// Lets a wish to stop end every wait for a lock.
    pub(crate) fn stopping(mut self, stop: &Stop) -> Self {
        self.state = self.state.stopping(stop.clone());
        self
    }

    /// Returns the pages' folder that was last worked on here, if any was.
    fn known_pages_dir(&self) -> Result<Option<String>, Failure> {
        if !self.state.exists() {
            return Ok(None);
        }
        Receipts::open(&self.state.database())?.known_meta(PAGES_DIR)
    }

    /// Says so where there is no page at all.
    ///
    /// # Errors
    /// As [`Wiki::is_empty`].
    pub(crate) fn without_pages(&self) -> Result<Option<String>, Failure> {
        let none = format!("there are no pages below {}/ yet", self.wiki.pages_dir());
        Ok(self.wiki.is_empty()?.then_some(none))
    }

    /// Says what an answer from this store may lack, for people: that it holds nothing yet, or that jobs wait.
    ///
    /// # Errors
    /// As those of the parts.
    pub(crate) fn lack(&self, store: StoreName) -> Result<Option<String>, Failure> {
        let pages = Receipts::open(&self.state.database())?.count(store)?;
        // An answer is no worse for a queue that is away.
        let counts = self
            .outbox()
            .and_then(|mut outbox| outbox.counts(Timestamp::now()))
            .unwrap_or_default();
        // Pages that went in without their meaning are held, and have no receipt yet.
        if pages == 0 && counts.held + counts.in_flight == 0 {
            return Ok(Some(match self.without_pages()? {
                Some(none) => none,
                None => "no page is indexed yet: `wiki-sync drain` does it".into(),
            }));
        }
        let is_there = || match wired::vectors(self)?.is_there() {
            // Of another model: words were found in it.
            Err(failure) if failure.kind == FailureKind::Refused => Ok(true),
            other => other,
        };
        if store == StoreName::Vectors && !is_there()? {
            return Ok(Some(
                "what the vectors held is lost: `wiki-sync drain` builds it anew".into(),
            ));
        }
        let waiting = counts.waiting + counts.delayed + counts.in_flight + counts.held;
        Ok((waiting > 0).then(|| {
            let wait = if waiting == 1 { "waits" } else { "wait" };
            format!(
                "{} {wait}, so this may be incomplete: `wiki-sync drain` goes on",
                count(waiting, "job")
            )
        }))
    }

    /// Opens the outbox.
    ///
    /// # Errors
    /// As the outbox's own.
    pub(crate) fn outbox(&self) -> Result<Box<dyn Outbox>, Failure> {
        self.state.create()?;
        wired::outbox(self, None)
    }

    /// Returns what HEAD holds of the pages.
    ///
    /// # Errors
    /// As [`HeadPages::read`].
    pub(crate) fn head_pages(&self) -> Result<HeadPages, Failure> {
        HeadPages::read(&self.root.path, self.wiki.pages_dir())
    }

    /// Announces how HEAD's pages differ from those last seen.
    ///
    /// # Errors
    /// As [`announce`].
    pub(crate) fn announce_head(&self, head: &HeadPages) -> Result<Enqueued, Failure> {
        let mut outbox = self.outbox()?;
        let mut receipts = Receipts::open(&self.state.database())?;
        let (wiki, state) = (&self.wiki, &self.state);
        let now = Timestamp::now();
        announce(head, wiki, state, &mut receipts, outbox.as_mut(), now)
    }

    /// Opens everything that drain, verify and status work on.
    ///
    /// # Errors
    /// As those of the parts.
    pub(crate) fn parts(&self) -> Result<Parts, Failure> {
        let mut parts = self.parts_without_stores()?;
        let graph = wired::graph(self)?;
        #[cfg(feature = "testing")]
        let graph = crate::testing::fail_pages_from_env(graph);
        parts.stores = vec![graph, wired::vectors(self)?];
        // Without a repository too: the store then says what is missing, and the others are served.
        if self.config.git.commit != Commits::Off {
            parts.stores.push(wired::git(self)?);
        }
        Ok(parts)
    }

    /// Opens what announcing pages takes.
    ///
    /// # Errors
    /// As those of the parts.
    pub(crate) fn parts_without_stores(&self) -> Result<Parts, Failure> {
        let outbox = self.outbox()?;
        let mut receipts = Receipts::open(&self.state.database())?;
        receipts.set_meta(PAGES_DIR, self.wiki.pages_dir())?;
        self.parts_of(outbox, receipts)
    }

    fn parts_of(&self, outbox: Box<dyn Outbox>, receipts: Receipts) -> Result<Parts, Failure> {
        Ok(Parts {
            wiki: Wiki::open(&self.root.path, &self.config.wiki)?,
            state: self.state.clone(),
            receipts,
            outbox,
            stores: Vec::new(),
            policy: self.config.retry.clone(),
            alerts: self.alerts()?,
            dead: self.config.dead.clone(),
        })
    }

    /// Opens the receipts to be read, where a drain has been.
    ///
    /// # Errors
    /// `Waiting` where none has; as [`Receipts::open_to_read`].
    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(crate) fn receipts_to_read(&self) -> Result<Receipts, Failure> {
        self.state.check()?;
        let receipts = Receipts::open_to_read(&self.state.database())?;
        if receipts.known_meta(WIKI_ID)?.is_none() {
            let why = "nothing is indexed here yet";
            return Err(Failure::new(FailureKind::Waiting, why).hint("run `wiki-sync drain`"));
        }
        Ok(receipts)
    }

    /// Opens the database that holds the graph, to be read.
    ///
    /// # Errors
    /// As [`crate::state::open_db_to_read`].
    pub(crate) fn graph_to_read(&self) -> Result<rusqlite::Connection, Failure> {
        self.state.check()?;
        crate::state::open_db_to_read(&self.state.database())
    }

    /// Opens the outbox to be asked, for a few seconds at most; makes none.
    ///
    /// # Errors
    /// `Waiting` when there is none yet; as the outbox's own.
    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(crate) fn outbox_to_read(&self) -> Result<Box<dyn Outbox>, Failure> {
        self.state.check()?;
        if self.config.outbox.url != crate::outbox::EMBEDDED {
            // Whose outbox it is stands in the state.
            self.receipts_to_read()?;
        } else if !self.state.outbox().exists() {
            let why = "there is no outbox here yet";
            return Err(Failure::new(FailureKind::Waiting, why).hint("run `wiki-sync drain`"));
        }
        wired::outbox(self, Some(ASKED))
    }

    /// Opens everything to be looked at: nothing is made, and nothing is mended.
    ///
    /// # Errors
    /// `Waiting` where no drain has been; as those of the parts.
    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(crate) fn parts_to_read(&self) -> Result<Parts, Failure> {
        let receipts = self.receipts_to_read()?;
        let mut parts = self.parts_of(self.outbox_to_read()?, receipts)?;
        parts.stores = vec![wired::graph_to_read(self)?, wired::vectors(self)?];
        if self.config.git.commit != Commits::Off {
            parts.stores.push(wired::git_to_read(self)?);
        }
        Ok(parts)
    }

    fn alerts(&self) -> Result<Alerts, Failure> {
        let settings = &self.config.alert;
        let channels = settings.channels(self.telegram_token(), &self.root.path);
        let folder = self.root.path.file_name().unwrap_or_default();
        Alerts::open(
            &self.state.database(),
            &folder.to_string_lossy(),
            channels,
            &self.config.retry,
        )
    }

    /// Reads the bot's token: from the environment, else from its file.
    pub(super) fn telegram_token(&self) -> Result<Option<Secret>, Failure> {
        let file = &self.config.alert.token_file;
        self.secret(TOKEN_VARIABLE, "alert.telegram.token_file", file)
    }

    /// Reads a secret: from an environment variable, else from the file that a setting names.
    pub(super) fn secret(
        &self,
        variable: &str,
        key: &str,
        file: &str,
    ) -> Result<Option<Secret>, Failure> {
        if let Ok(secret) = std::env::var(variable)
            && !secret.trim().is_empty()
        {
            return Ok(Some(Secret::new(&secret)));
        }
        if file.is_empty() {
            return Ok(None);
        }
        let path = self.root.path.join(file);
        let read = regular_file(&path).and_then(|()| std::fs::read_to_string(&path));
        match read {
            Ok(secret) => Ok(Some(Secret::new(&secret))),
            Err(e) => Err(Failure::from_error(
                FailureKind::Refused,
                &format!("cannot read {key} {file:?}"),
                &e,
            )
            .hint(format!(
                "put it there, name another file, or set {variable}"
            ))),
        }
    }
}

/// Says that no folder upward is a wiki's.
pub(crate) fn no_wiki(start: &Path, config: &Config) -> CommandError {
    CommandError::new(format!(
        "no wiki in {} or in a folder above it",
        start.display()
    ))
    .hint(format!(
        "go to a git repository with a folder {:?}, or run `wiki-sync init` where the wiki is to be",
        config.wiki.pages
    ))
}

/// Does as [`settings`], but goes on without a settings file that cannot be used, and returns what is wrong with it.
///
/// # Errors
/// As [`settings`], of everything else.
pub(crate) fn settings_as_far_as_they_go(
    start: &Path,
    flags: &[String],
) -> Result<(Option<Root>, Config, Option<CommandError>), CommandError> {
    let broken = match settings(start, flags) {
        Ok((root, config)) => return Ok((root, config, None)),
        Err(broken) => broken,
    };
    let config = Config::from_layers(&Layers {
        file: None,
        environment: environment()?,
        flags,
    })?;
    let root = root::find(start, &config.wiki.pages);
    let root = root.map_err(|error| error.warned(&broken.warnings))?;
    Ok((root, config, Some(broken)))
}

/// Finds the root and lays the settings over one another. Without a root there is no file's layer.
///
/// # Errors
/// As [`root::find`], and when a setting cannot be used.
pub(crate) fn settings(
    start: &Path,
    flags: &[String],
) -> Result<(Option<Root>, Config), CommandError> {
    let mut layers = Layers {
        file: None,
        environment: environment()?,
        flags,
    };
    let early = Config::from_layers(&layers)?;
    let warned = |error: CommandError| error.warned(&early.warnings);
    let root = root::find(start, &early.wiki.pages).map_err(warned)?;
    let text = match &root {
        Some(root) => read_file(&root.path.join(FILE_NAME)).map_err(warned)?,
        None => None,
    };
    layers.file = text.as_deref();
    Ok((root, Config::from_layers(&layers)?))
}

/// Makes sure that what is opened is a file: a FIFO would never end.
fn regular_file(path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(std::io::Error::other("it is not a file"))
    }
}

/// Returns the settings file's text; `None` where there is none.
fn read_file(path: &Path) -> Result<Option<String>, CommandError> {
    let read = |path: &Path| {
        regular_file(path)?;
        std::fs::read(path)
    };
    let refused = |error: CommandError| {
        let hint = "settings are a text file in UTF-8; moved away, the defaults hold, and `wiki-sync init` writes them down";
        Err(error.exit(Exit::Refused).hint(hint))
    };
    match read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => refused(CommandError::new(format!(
                "{} is not UTF-8",
                path.display()
            ))),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => {
            let doing = format!("cannot read {}", path.display());
            refused(CommandError::caused(doing, &e))
        }
    }
}

fn environment() -> Result<Vec<(String, String)>, CommandError> {
    let mut ours = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with("WIKI_SYNC_")) else {
            continue;
        };
        let value = value
            .into_string()
            .map_err(|_| CommandError::new(format!("environment variable {name} is not UTF-8")))?;
        ours.push((name.into(), value));
    }
    Ok(ours)
}

pub(super) use wired::{
    CHECKOUT_ID, WIKI_ID, git_settings, own_wiki_id, redis_settings, vector_place,
};
pub(crate) use wired::{
    git_config, graph_db, graph_store, ignore_rules, ignored_by_git, search, vectors_beside,
};

/// What stands behind the settings today.
mod wired {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use uuid::Uuid;

    use super::Workspace;
    use crate::config::{Commits, VECTORS_KEY_VARIABLE};
    use crate::embed::{self, Embeddings};
    use crate::model::{ContentSha, Failure, FailureKind};
    use crate::outbox::{self, Clock, Outbox, Owner, RedisSettings};
    use crate::query::search::{Asked, Found, called_first, meant, why_nothing};
    use crate::state::{Receipts, StateDir, open_db};
    use crate::stores::Store;
    use crate::stores::git::{self, GitSettings, GitStore};
    use crate::stores::graph::GraphStore;
    use crate::stores::vectors::{
        Beside, Only, Question, ServerSettings, VectorSettings, VectorStore, adopted_wiki_id,
    };

    /// How long a search waits for the provider.
    const QUERY: Duration = Duration::from_secs(10);

    /// The key of the wiki's id among the lasting values.
    pub(in crate::cli) const WIKI_ID: &str = "wiki_id";
    /// The key of the root at which that id was last used on a server.
    const WIKI_ROOT: &str = "wiki_root";
    /// The key of the checkout's id among the lasting values.
    pub(in crate::cli) const CHECKOUT_ID: &str = "checkout_id";

    pub(super) fn outbox(
        ws: &Workspace,
        within: Option<Duration>,
    ) -> Result<Box<dyn Outbox>, Failure> {
        let longest_wait = ws.config.retry.longest_wait();
        outbox::open(
            &ws.config.outbox.url,
            &ws.state.outbox(),
            longest_wait,
            || {
                let id = Receipts::open(&ws.state.database())?
                    .meta(CHECKOUT_ID, || Uuid::new_v4().to_string())?;
                Ok(RedisSettings {
                    within,
                    ..redis_settings(ws, id)
                })
            },
        )
    }

    pub(in crate::cli) fn redis_settings(ws: &Workspace, id: String) -> RedisSettings {
        let choice = &ws.config.outbox;
        RedisSettings {
            url: choice.url.clone(),
            key: choice.key.clone(),
            dead_key: choice.dead_key.clone(),
            allow_eviction: choice.allow_eviction,
            owner: Owner::of(&ws.root.path, id),
            clock: Clock::Server,
            longest_wait: ws.config.retry.longest_wait(),
            within: None,
        }
    }

    /// Returns a test for what git ignores: what the watch leaves to the scan. Nothing, where git is left alone or the
    /// pages' folder itself is ignored. It goes by what the rules say when it is asked.
    pub(crate) fn ignored_by_git(ws: &Workspace) -> Box<dyn Fn(&str) -> bool> {
        let Some(repo) = repo_that_ignores(ws) else {
            return Box::new(|_| false);
        };
        let pages_dir = ws.wiki.pages_dir().to_owned();
        let is_ignored = move |path: &str| repo.is_path_ignored(path).unwrap_or(false);
        Box::new(move |path| is_ignored(path) && !is_ignored(&pages_dir))
    }

    /// Returns the files, there or not, that say what git ignores: all but those below the pages' folder.
    pub(crate) fn ignore_rules(ws: &Workspace) -> Vec<PathBuf> {
        let Some(repo) = repo_that_ignores(ws) else {
            return Vec::new();
        };
        let mut rules = vec![repo.commondir().join("info/exclude")];
        let named = repo
            .config()
            .and_then(|all| all.get_path("core.excludesFile"));
        rules.extend(
            named
                .ok()
                .or_else(|| Some(git::persons_config()?.join("git/ignore"))),
        );
        let pages = ws.root.path.join(ws.wiki.pages_dir());
        let above = pages
            .ancestors()
            .take_while(|at| at.starts_with(&ws.root.path));
        rules.extend(above.map(|at| at.join(".gitignore")));
        rules
    }

    /// Returns the files, there or not, in which git is configured beside a repository's own.
    pub(crate) fn git_config() -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".gitconfig"));
        let xdg = git::persons_config().map(|config| config.join("git/config"));
        let system = Some(PathBuf::from("/etc/gitconfig"));
        [home, xdg, system].into_iter().flatten().collect()
    }

    fn repo_that_ignores(ws: &Workspace) -> Option<git2::Repository> {
        let commits = ws.root.git && ws.config.git.commit != Commits::Off;
        git::open_repository(&ws.root.path).ok().filter(|_| commits)
    }

    pub(super) fn graph(ws: &Workspace) -> Result<Box<dyn Store>, Failure> {
        Ok(Box::new(graph_store(ws)?))
    }

    /// Opens the graph, to be asked what would be.
    pub(crate) fn graph_store(ws: &Workspace) -> Result<GraphStore, Failure> {
        Ok(GraphStore::open(graph_db(ws)?, ws.wiki.pages_dir()))
    }

    pub(super) fn vectors(ws: &Workspace) -> Result<Box<dyn Store>, Failure> {
        Ok(Box::new(vector_store(ws, None)?))
    }

    pub(super) fn git(ws: &Workspace) -> Result<Box<dyn Store>, Failure> {
        let settings = git_settings(ws);
        Ok(Box::new(GitStore::open(
            &ws.root.path,
            &ws.state,
            settings,
        )?))
    }

    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(super) fn graph_to_read(ws: &Workspace) -> Result<Box<dyn Store>, Failure> {
        let graph = GraphStore::open(ws.graph_to_read()?, ws.wiki.pages_dir());
        Ok(Box::new(graph))
    }

    #[cfg(any(feature = "mcp", feature = "serve"))]
    pub(super) fn git_to_read(ws: &Workspace) -> Result<Box<dyn Store>, Failure> {
        let settings = GitSettings {
            only_reads: true,
            ..git_settings(ws)
        };
        Ok(Box::new(GitStore::open(
            &ws.root.path,
            &ws.state,
            settings,
        )?))
    }

    pub(in crate::cli) fn git_settings(ws: &Workspace) -> GitSettings {
        let choice = &ws.config.git;
        GitSettings {
            pages_dir: ws.wiki.pages_dir().into(),
            is_page: ws.wiki.page_test(),
            allow_detached: choice.allow_detached,
            apart: choice.commit == Commits::Page,
            message: choice.message.clone(),
            author: choice.author.clone(),
            ..GitSettings::default()
        }
    }

    /// Opens the vectors; `turn` is how long to wait for one's turn with the embedded ones, where not as usual.
    fn vector_store(ws: &Workspace, turn: Option<Duration>) -> Result<VectorStore, Failure> {
        let settings = vector_settings(ws).map(|mut settings| {
            settings.wait = turn.unwrap_or(settings.wait);
            settings
        });
        match settings {
            Ok(settings) => VectorStore::open(settings, &ws.state, embeddings(ws)?),
            // Whose points they are only they can tell, and they cannot be read; or the key cannot. The others go on
            // without them.
            Err(why) => {
                let settings = VectorSettings::embedded(String::new(), repo_name(ws));
                let model = embed::fingerprint(&ws.config.embedding);
                Ok(VectorStore::unusable(settings, model, why))
            }
        }
    }

    fn repo_name(ws: &Workspace) -> String {
        let folder = ws.root.path.file_name().unwrap_or_default();
        folder.to_string_lossy().into()
    }

    /// Returns where the vectors are, without whose they are.
    pub(in crate::cli) fn vector_place(ws: &Workspace) -> Result<VectorSettings, Failure> {
        let choice = &ws.config.vectors;
        let mut settings = VectorSettings {
            url: choice.url.clone(),
            ..VectorSettings::embedded(String::new(), repo_name(ws))
        };
        if !settings.is_shared() {
            return Ok(settings);
        }
        let Owner { host, root, .. } = Owner::of(&ws.root.path, String::new());
        // Machines made from one image may have one name.
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let place = format!("{host}\n{machine}\n{root}");
        settings.belongs = ContentSha::of(place.as_bytes()).to_string();
        settings.server = ServerSettings {
            collection: choice.collection.clone(),
            api_key: ws.secret(
                VECTORS_KEY_VARIABLE,
                "vectors.api_key_file",
                &choice.api_key_file,
            )?,
            timeout: choice.timeout,
        };
        Ok(settings)
    }

    fn vector_settings(ws: &Workspace) -> Result<VectorSettings, Failure> {
        let mut settings = vector_place(ws)?;
        let mut receipts = Receipts::open(&ws.state.database())?;
        if !settings.is_shared() {
            settings.wiki_id = wiki_id(&mut receipts, &settings, &ws.state)?;
            return Ok(settings);
        }
        let Owner { root, .. } = Owner::of(&ws.root.path, String::new());
        // A copy of a checkout that is still there, state and all, is another one: else each would take the other's
        // points for its own.
        let is_copy = receipts
            .known_meta(WIKI_ROOT)?
            .is_some_and(|of| of != root && StateDir::of(Path::new(&of)).database().exists());
        if is_copy {
            receipts.set_meta(WIKI_ID, &own_wiki_id(&settings.belongs))?;
        }
        settings.wiki_id = wiki_id(&mut receipts, &settings, &ws.state)?;
        receipts.set_meta(WIKI_ROOT, &root)?;
        Ok(settings)
    }

    /// Opens vectors beside those that are in use, to be built.
    pub(crate) fn vectors_beside(ws: &Workspace) -> Result<Beside, Failure> {
        Beside::open(vector_settings(ws)?, &ws.state, embeddings(ws)?)
    }

    /// Opens what gives dense vectors, where the settings name a provider.
    fn embeddings(ws: &Workspace) -> Result<Option<Embeddings>, Failure> {
        let choice = &ws.config.embedding;
        if !choice.is_on {
            return Ok(None);
        }
        let key = ws.secret(embed::KEY_VARIABLE, "embedding.key_file", &choice.key_file);
        embed::open(choice, key, &ws.state.database())
    }

    /// Returns the wiki's id, from the state, else from the points themselves, else a new one.
    fn wiki_id(
        receipts: &mut Receipts,
        settings: &VectorSettings,
        state: &StateDir,
    ) -> Result<String, Failure> {
        if let Some(id) = receipts.known_meta(WIKI_ID)? {
            return Ok(id);
        }
        // The database was lost: the points that are there keep their wiki's id, else they would be
        // nobody's and stay for good.
        let id = match adopted_wiki_id(settings, state) {
            Ok(Some(id)) => id,
            Ok(None) if !settings.is_shared() => Uuid::new_v4().to_string(),
            Ok(None) => own_wiki_id(&settings.belongs),
            // A server that is away stops no other store. Its points have this id, unless the checkout was moved.
            Err(_) if settings.is_shared() => own_wiki_id(&settings.belongs),
            Err(failure) => return Err(failure),
        };
        receipts.meta(WIKI_ID, || id)
    }

    /// Returns the id of the wiki of a checkout on a server: the same again when its state was lost.
    pub(in crate::cli) fn own_wiki_id(belongs: &str) -> String {
        let name = format!("wiki-sync/wiki/{belongs}");
        Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
    }

    /// Returns the pages about what is asked, best first; by words alone where their meaning cannot be had.
    pub(crate) fn search(ws: &Workspace, asked: &Asked<'_>) -> Result<Found, Failure> {
        ws.state.create()?;
        let mut store = vector_store(ws, asked.turn)?;
        let (meaning, mut no_meaning) = match store.meaning_of(asked.query, QUERY) {
            Ok(None) if ws.config.embedding.is_on && embed::says_anything(asked.query) => {
                let why = "this model has embedded nothing yet";
                (None, Some(Failure::new(FailureKind::Waiting, why)))
            }
            Ok(meaning) => (meaning, None),
            Err(failure) => (None, Some(failure)),
        };
        let choice = &ws.config.search;
        let weights = [choice.words_weight, choice.meaning_weight];
        // Names and tags are asked of the graph. A search is no worse for one that cannot be read.
        let db = ws.graph_to_read().ok();
        let meant = db.as_ref().map(|db| meant(db, &asked.only));
        let mut question = Question {
            meaning: meaning.as_deref(),
            // Small numbers, and only their ratio counts.
            weights: weights.map(|weight| f32::from(u16::try_from(weight).unwrap_or(u16::MAX))),
            only: meant
                .and_then(Result::ok)
                .unwrap_or_else(|| asked.only.clone()),
            ..Question::words(asked.query, asked.limit)
        };
        let answer = match store.ask(&question) {
            // Vectors of another model: words are the same for all.
            Err(failure) if failure.kind == FailureKind::Refused && ws.config.embedding.is_on => {
                drop(store);
                no_meaning = Some(failure);
                question.meaning = None;
                store = VectorStore::open(vector_settings(ws)?, &ws.state, None)?;
                store.ask(&question)?
            }
            other => other?,
        };
        let mut hits = answer.hits;
        let mut why_not = Vec::new();
        if let Some(db) = &db {
            hits = called_first(db, &mut store, &question, hits)?;
            if hits.is_empty() && asked.only != Only::default() {
                why_not = why_nothing(db, &mut store, &question, &asked.only).unwrap_or_default();
            }
        }
        Ok(Found {
            hits,
            why_nothing: why_not,
            channels: answer.channels,
            no_meaning,
        })
    }

    /// Opens the database that holds the graph, for reading.
    pub(crate) fn graph_db(ws: &Workspace) -> Result<rusqlite::Connection, Failure> {
        ws.state.create()?;
        open_db(&ws.state.database())
    }
}
