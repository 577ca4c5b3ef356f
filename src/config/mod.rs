//! Settings: defaults, then `wiki-sync.toml`, then the environment, then flags; the later layer wins.
//!
//! Pure: `cli` reads the file and the environment and hands them in.

mod keys;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

pub use keys::{KEYS, Key, reference, template};

use crate::embed::{self, EmbeddingSettings};
use crate::engine::alert::{self, AlertSettings};
use crate::engine::bounds::DeadBounds;
use crate::engine::watch::WatchSettings;
use crate::model::RetryPolicy;
use crate::stores::git::DEFAULT_MESSAGE;
use crate::wiki::WikiSettings;

/// The settings file's name, at the repository's root.
pub const FILE_NAME: &str = "wiki-sync.toml";

/// What every variable of ours begins with.
const PREFIX: &str = "WIKI_SYNC_";

/// The environment variable of the API key of a Qdrant server. A secret, so no setting.
pub const VECTORS_KEY_VARIABLE: &str = "WIKI_SYNC_VECTORS_API_KEY";

/// Variables of the test suite, which are no settings.
const TEST_PREFIX: &str = "WIKI_SYNC_TEST_";

/// How pages are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commits {
    /// One commit for each batch of pages.
    Batch,
    /// One commit for each page.
    Page,
    /// None: git is left alone.
    Off,
}

/// What is told on stderr beside what a command says. Section `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Nothing.
    #[default]
    Off,
    /// Each step of each job.
    Info,
    /// What is asked of stores and servers, too.
    Debug,
}

/// How git is used. Section `[git]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitChoice {
    /// How pages are committed.
    pub commit: Commits,
    /// The template of a commit's message.
    pub message: String,
    /// `Name <mail>` of the author; empty: whoever commits.
    pub author: String,
    /// Whether a detached HEAD is committed on.
    pub allow_detached: bool,
}

/// Where jobs wait. Section `[outbox]`.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboxChoice {
    /// The outbox; may hold a password.
    pub url: String,
    /// Redis: the list that producers write to.
    pub key: String,
    /// Redis: the list of the dead letters' raw lines.
    pub dead_key: String,
    /// Redis: use a server that may throw jobs away.
    pub allow_eviction: bool,
}

impl Default for OutboxChoice {
    fn default() -> Self {
        Self {
            url: "sqlite:".into(),
            key: "deep-wiki:outbox".into(),
            dead_key: "deep-wiki:outbox:dlq".into(),
            allow_eviction: false,
        }
    }
}

impl fmt::Debug for OutboxChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxChoice")
            .field("key", &self.key)
            .field("dead_key", &self.dead_key)
            .finish_non_exhaustive()
    }
}

/// Where sections are indexed. Section `[vectors]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorsChoice {
    /// The engine.
    pub url: String,
    /// A server's collection, or an alias of one.
    pub collection: String,
    /// The file that holds a server's API key; none when empty.
    pub api_key_file: String,
    /// How long a call to a server may take.
    pub timeout: Duration,
}

impl Default for VectorsChoice {
    fn default() -> Self {
        Self {
            url: "edge:".into(),
            collection: "wiki-sync".into(),
            api_key_file: String::new(),
            timeout: Duration::from_secs(30),
        }
    }
}

/// How words and meaning are weighed. Section `[search]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchChoice {
    /// How much a rank by words counts.
    pub words_weight: u64,
    /// How much a rank by meaning counts.
    pub meaning_weight: u64,
}

impl Default for SearchChoice {
    fn default() -> Self {
        Self {
            words_weight: 1,
            meaning_weight: 1,
        }
    }
}

/// All settings, each from the highest layer that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which files are pages.
    pub wiki: WikiSettings,
    /// Where jobs wait.
    pub outbox: OutboxChoice,
    /// Where sections are indexed.
    pub vectors: VectorsChoice,
    /// Which provider embeds.
    pub embedding: EmbeddingSettings,
    /// How words and meaning are weighed.
    pub search: SearchChoice,
    /// How git is used.
    pub git: GitChoice,
    /// When a failed job is tried again.
    pub retry: RetryPolicy,
    /// How the pages are watched.
    pub watch: WatchSettings,
    /// How many dead letters there may be, and how old.
    pub dead: DeadBounds,
    /// Who is told of incidents, and how.
    pub alert: AlertSettings,
    /// What is told beside the output.
    pub log: LogLevel,
    origins: BTreeMap<String, Origin>,
    /// What was set and is no setting, one line each; never dropped silently.
    pub warnings: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            wiki: WikiSettings::default(),
            outbox: OutboxChoice::default(),
            vectors: VectorsChoice::default(),
            embedding: EmbeddingSettings::default(),
            search: SearchChoice::default(),
            git: GitChoice {
                commit: Commits::Batch,
                message: DEFAULT_MESSAGE.into(),
                author: String::new(),
                allow_detached: false,
            },
            retry: RetryPolicy::default(),
            watch: WatchSettings::default(),
            dead: DeadBounds::default(),
            alert: AlertSettings::default(),
            log: LogLevel::default(),
            origins: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

/// The layer a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The settings file.
    File {
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of this run.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line } => write!(f, "{FILE_NAME}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag => f.write_str("--set"),
        }
    }
}

/// A value that cannot be used, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct ConfigError {
    /// Where it stands.
    pub origin: Origin,
    /// The setting and what is wrong with it.
    pub reason: String,
    /// What else was set and is no setting, as in [`Config::warnings`].
    pub warnings: Vec<String>,
}

impl ConfigError {
    fn new(origin: Origin, reason: String) -> Self {
        Self {
            origin,
            reason,
            warnings: Vec::new(),
        }
    }
}

/// What the layers above the defaults hold.
#[derive(Debug, Clone, Default)]
pub struct Layers<'a> {
    /// The text of the settings file.
    pub file: Option<&'a str>,
    /// Environment variables; those that do not begin with `WIKI_SYNC_` are passed over.
    pub environment: Vec<(String, String)>,
    /// `section.key=value`.
    pub flags: &'a [String],
}

impl Config {
    /// Lays the layers over the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] when a value cannot be used, or the file is not TOML. An unknown setting is a
    /// warning, except in a flag.
    pub fn from_layers(layers: &Layers<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        // All of them, whatever is wrong with one: a name that is none may be why.
        let file = layers.file.map_or(Ok(()), |text| config.lay_file(text));
        let environment = config.lay_environment(&layers.environment);
        let flags = config.lay_flags(layers.flags);
        match file.and(environment).and(flags) {
            Ok(()) => Ok(config),
            Err(error) => Err(ConfigError {
                warnings: config.warnings,
                ..error
            }),
        }
    }

    /// Returns where the value of a setting comes from.
    #[must_use]
    pub fn origin(&self, key: &Key) -> Origin {
        let origin = self.origins.get(&key.full_name());
        origin.cloned().unwrap_or(Origin::Default)
    }

    fn lay_file(&mut self, text: &str) -> Result<(), ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let line = |at: usize| {
            let before = &text.as_bytes()[..at.min(text.len())];
            before.split(|&byte| byte == b'\n').count()
        };
        let table = DeTable::parse(text).map_err(|e| {
            let origin = Origin::File {
                line: line(e.span().map_or(0, |span| span.start)),
            };
            ConfigError::new(origin, format!("not TOML: {}", e.message()))
        })?;
        self.lay_table("", table.get_ref(), &line)
    }

    /// Lays a table of the file, whose keys stand in `section` (empty at the top).
    fn lay_table(
        &mut self,
        section: &str,
        table: &DeTable<'_>,
        line: &dyn Fn(usize) -> usize,
    ) -> Result<(), ConfigError> {
        let mut laid = Ok(());
        for (name, value) in table {
            let origin = Origin::File {
                line: line(name.span().start),
            };
            let full = match section {
                "" => name.get_ref().to_string(),
                section => format!("{section}.{}", name.get_ref()),
            };
            let one = match (find(&full), value.get_ref().as_table()) {
                (Some(key), _) => self.set(key, origin, &Given::Toml(value.get_ref())),
                (None, Some(inner)) if is_section(&full) => self.lay_table(&full, inner, line),
                (None, Some(_)) => {
                    let sections = KEYS.iter().map(|key| key.section.to_owned());
                    let near = nearest(&full, sections).map(|near| format!("[{near}]"));
                    self.warn_unknown(&origin, &format!("[{full}]"), near);
                    Ok(())
                }
                (None, None) => {
                    self.warn_unknown(&origin, &full, nearest_key(&full));
                    Ok(())
                }
            };
            laid = laid.and(one);
        }
        laid
    }

    fn lay_environment(&mut self, variables: &[(String, String)]) -> Result<(), ConfigError> {
        let mut laid = Ok(());
        for (name, value) in variables {
            let mut others = embed::VARIABLES.iter().chain(&alert::VARIABLES);
            if !name.starts_with(PREFIX)
                || name.starts_with(TEST_PREFIX)
                || others.any(|other| other == name)
                || name == VECTORS_KEY_VARIABLE
            {
                continue;
            }
            let origin = Origin::Variable(name.clone());
            if let Some(key) = KEYS.iter().find(|key| key.variable() == *name) {
                laid = laid.and(self.set(key, origin, &Given::Text(value)));
                continue;
            }
            // Without what all of them begin with, which would make any two alike.
            let own = |name: &str| name.replacen(PREFIX, "", 1);
            let near = nearest(&own(name), KEYS.iter().map(|key| own(&key.variable())));
            let near = near.map(|near| format!("{PREFIX}{near}"));
            let what = format!("environment variable {name}");
            self.warnings.push(no_setting(&what, near));
        }
        laid
    }

    fn lay_flags(&mut self, flags: &[String]) -> Result<(), ConfigError> {
        for flag in flags {
            let wrong = |reason| ConfigError::new(Origin::Flag, reason);
            let Some((name, value)) = flag.split_once('=') else {
                return Err(wrong(format!("{flag:?} is not section.key=value")));
            };
            let name = name.trim();
            let key = find(name).ok_or_else(|| wrong(no_setting(name, nearest_key(name))))?;
            self.set(key, Origin::Flag, &Given::Text(value))?;
        }
        Ok(())
    }

    fn set(&mut self, key: &Key, origin: Origin, given: &Given<'_>) -> Result<(), ConfigError> {
        let set = match given {
            Given::Toml(value) => key.slot.set_toml(self, value),
            Given::Text(text) => key.slot.set_text(self, text),
        };
        if let Err(reason) = set.and_then(|()| key.check.map_or(Ok(()), |check| check(self))) {
            let reason = format!("{}: {reason}", key.full_name());
            return Err(ConfigError::new(origin, reason));
        }
        self.origins.insert(key.full_name(), origin);
        Ok(())
    }

    fn warn_unknown(&mut self, origin: &Origin, what: &str, near: Option<String>) {
        self.warnings
            .push(format!("{origin}: {}", no_setting(what, near)));
    }
}

enum Given<'a> {
    Toml(&'a DeValue<'a>),
    Text(&'a str),
}

/// Whether settings stand in a section, or in one below it.
fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| {
        let below = key.section.strip_prefix(name);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Says that something is no setting, and which one may have been meant.
fn no_setting(what: &str, near: Option<String>) -> String {
    match near {
        Some(near) => format!("{what} is no setting; did you mean {near}?"),
        None => format!("{what} is no setting"),
    }
}

/// Returns the setting that is called almost so; else the only one of that name in another section.
fn nearest_key(full_name: &str) -> Option<String> {
    nearest(full_name, KEYS.iter().map(Key::full_name)).or_else(|| {
        let name = full_name.rsplit('.').next();
        let mut same = KEYS.iter().filter(|key| Some(key.name) == name);
        let first = same.next()?.full_name();
        same.next().is_none().then_some(first)
    })
}

/// How much like a name another one must be to be suggested, from 0 to 1: one letter in four may be wrong.
const ALIKE: f64 = 0.75;

/// Returns the name that is most like this one, if any is.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = names.map(|other| (strsim::normalized_damerau_levenshtein(name, &other), other));
    let best = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(alike, _)| *alike >= ALIKE)
        .map(|(_, name)| name)
}

fn find(full_name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.full_name() == full_name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(file: &str, env: &[(&str, &str)], flags: &[&str]) -> Result<Config, ConfigError> {
        let flags: Vec<_> = flags.iter().map(|&flag| flag.into()).collect();
        Config::from_layers(&Layers {
            file: Some(file),
            environment: env
                .iter()
                .map(|&(name, value)| (name.into(), value.into()))
                .collect(),
            flags: &flags,
        })
    }

    fn error(file: &str, env: &[(&str, &str)], flags: &[&str]) -> String {
        let error = config(file, env, flags).expect_err("a bad value");
        error.to_string()
    }

    /// Settings files: lines with real names and values of all kinds, and any text at all.
    fn files() -> impl Strategy<Value = String> {
        let names: Vec<String> = KEYS.iter().map(Key::full_name).collect();
        let value = prop::sample::select(vec![
            "1",
            "-1",
            "0.5",
            "1e400",
            "99999999999999999999",
            "true",
            "\"\"",
            "\"x\"",
            "\"10 MiB\"",
            "\"-1 s\"",
            "[]",
            "[1, 3]",
            "[\"**/*.md\"]",
            "[\"[\"]",
            "{}",
            "{ a = 1 }",
            "1979-05-27",
            "nan",
            "\"\\u0000\"",
            "\"redis://u:p@h\"",
            "'../..'",
            "\"http://h:1\"",
            "\"none\"",
            "\"Name <mail>\"",
            "\"{oops}\"",
            "]",
            "",
        ]);
        let line = prop_oneof![
            6 => (prop::sample::select(names), value.clone()).prop_map(|(name, value)| format!("{name} = {value}")),
            2 => (prop::sample::select(vec!["wiki", "git", "alert.telegram", "retry", "no"])).prop_map(|name| format!("[{name}]")),
            2 => ("[a-z_.]{0,12}", value).prop_map(|(name, value)| format!("{name} = {value}")),
            1 => any::<String>(),
        ];
        prop_oneof![
            1 => any::<String>(),
            9 => prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n")),
        ]
    }

    proptest! {
        #[test]
        fn any_settings_are_read_or_refused_with_their_place(file in files()) {
            match config(&file, &[], &[]) {
                Ok(config) => {
                    for warning in config.warnings {
                        prop_assert!(warning.starts_with("wiki-sync.toml:"), "{warning}");
                    }
                }
                Err(ConfigError { origin: Origin::File { line }, reason, .. }) => {
                    let lines = file.matches('\n').count() + 1;
                    prop_assert!((1..=lines).contains(&line), "line {line} of {lines}: {reason}");
                    prop_assert!(!reason.is_empty());
                }
                Err(other) => prop_assert!(false, "{other} has no place in the file"),
            }
        }

        #[test]
        fn any_variable_or_flag_is_read_or_refused_by_name(at in 0..KEYS.len(), value in any::<String>()) {
            let name = KEYS[at].full_name();
            if let Err(error) = config("", &[(&KEYS[at].variable(), &value)], &[]) {
                prop_assert_eq!(&error.origin, &Origin::Variable(KEYS[at].variable()));
                prop_assert!(error.reason.contains(&name), "{}", error);
            }
            if let Err(error) = config("", &[], &[&format!("{name}={value}")]) {
                prop_assert_eq!(error.origin, Origin::Flag);
            }
        }
    }

    #[test]
    fn the_later_layer_wins_and_each_value_knows_its_layer() {
        let file = "[wiki]\npages = \"from-file\"\nmax_page = 10\n[git]\ncommit = \"off\"\n";
        let env = [
            ("WIKI_SYNC_WIKI_PAGES", "from-env"),
            ("WIKI_SYNC_GIT_ALLOW_DETACHED", "yes"),
            ("HOME", "/nowhere"),
        ];
        let config =
            config(file, &env, &["wiki.pages=from-flag", "retry.waits=0.5, 2"]).expect("all good");
        assert_eq!(config.wiki.pages, "from-flag");
        assert_eq!(config.wiki.max_page, 10);
        assert!(config.git.commit == Commits::Off && config.git.allow_detached);
        assert_eq!(
            config.retry.waits,
            [Duration::from_millis(500), Duration::from_secs(2)]
        );
        let origins: Vec<_> = KEYS
            .iter()
            .map(|key| format!("{} {}", key.full_name(), config.origin(key)))
            .collect();
        assert_eq!(
            origins,
            [
                "wiki.pages --set",
                "wiki.include default",
                "wiki.ignore default",
                "wiki.max_page wiki-sync.toml:3",
                "outbox.url default",
                "outbox.key default",
                "outbox.dead_key default",
                "outbox.allow_eviction default",
                "vectors.url default",
                "vectors.collection default",
                "vectors.api_key_file default",
                "vectors.timeout default",
                "embedding.provider default",
                "embedding.url default",
                "embedding.model default",
                "embedding.query_model default",
                "embedding.dimensions default",
                "embedding.query_prefix default",
                "embedding.passage_prefix default",
                "embedding.query_input_type default",
                "embedding.passage_input_type default",
                "embedding.encoding default",
                "embedding.key_file default",
                "embedding.batch default",
                "embedding.batch_bytes default",
                "embedding.concurrency default",
                "embedding.timeout default",
                "embedding.cache default",
                "search.words_weight default",
                "search.meaning_weight default",
                "git.commit wiki-sync.toml:5",
                "git.message default",
                "git.author default",
                "git.allow_detached WIKI_SYNC_GIT_ALLOW_DETACHED",
                "retry.waits --set",
                "retry.probes default",
                "retry.outage default",
                "watch.mode default",
                "watch.quiet_ms default",
                "watch.ceiling_ms default",
                "watch.scan_every default",
                "watch.poll_every default",
                "dead.max default",
                "dead.max_age default",
                "alert.command default",
                "alert.telegram.chat_id default",
                "alert.telegram.token_file default",
                "alert.telegram.base_url default",
                "alert.webhook.url default",
                "log.level default",
            ]
        );
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }

    #[test]
    fn a_bad_value_is_named_with_the_place_where_it_stands() {
        for (file, expected) in [
            (
                "[wiki]\n\nmax_page = \"16 MiBs\"\n",
                "wiki-sync.toml:3: wiki.max_page: \"16 MiBs\" is not a size such as \"16 MiB\"",
            ),
            (
                "[wiki]\npages = 5\n",
                "wiki-sync.toml:2: wiki.pages: 5 is not a text",
            ),
            (
                "[wiki]\npages = \"../x\"\n",
                "wiki-sync.toml:2: wiki.pages: path \"../x\" has a part \"..\" that could lead out of the wiki",
            ),
            (
                "git.commit = \"none\"\n",
                "wiki-sync.toml:1: git.commit: \"none\" is not \"batch\" or \"page\" or \"off\"",
            ),
            (
                "[retry]\nwaits = [1, -3]\n",
                "wiki-sync.toml:2: retry.waits: this array is not a list of seconds such as [1, 3, 9]",
            ),
            (
                "[wiki]\ninclude = []\n",
                "wiki-sync.toml:2: wiki.include: the list is empty: no file would be a page",
            ),
        ] {
            assert_eq!(error(file, &[], &[]), expected);
        }
        assert_eq!(
            error("", &[("WIKI_SYNC_GIT_ALLOW_DETACHED", "maybe")], &[]),
            "WIKI_SYNC_GIT_ALLOW_DETACHED: git.allow_detached: \"maybe\" is not true or false"
        );
        assert_eq!(
            error("", &[], &["wiki.page=x"]),
            "--set: wiki.page is no setting; did you mean wiki.pages?"
        );
        assert_eq!(
            error("", &[], &["wiki.pages"]),
            "--set: \"wiki.pages\" is not section.key=value"
        );
        assert!(error("[wiki]\npages = \n", &[], &[]).starts_with("wiki-sync.toml:2: not TOML: "));
    }

    #[test]
    fn unknown_settings_are_warned_about_with_their_place() {
        let env = [
            ("WIKI_SYNC_WIKI_PAGE", "x"),
            ("WIKI_SYNC_TEST_QDRANT_URL", "x"),
        ];
        let config = config("pages = 1\n[wiki]\npage = 2\n[wki]\na = 3\n", &env, &[])
            .expect("only warnings");
        let mut warnings = config.warnings;
        warnings.sort();
        assert_eq!(
            warnings,
            [
                "environment variable WIKI_SYNC_WIKI_PAGE is no setting; did you mean WIKI_SYNC_WIKI_PAGES?",
                "wiki-sync.toml:1: pages is no setting; did you mean wiki.pages?",
                "wiki-sync.toml:3: wiki.page is no setting; did you mean wiki.pages?",
                "wiki-sync.toml:4: [wki] is no setting; did you mean [wiki]?",
            ]
        );
    }

    #[test]
    fn every_setting_written_out_reads_back_the_same() {
        let defaults = Config::default();
        let text = template(&defaults, |_| true);
        let mut read = config(&text, &[], &[]).expect("the template is good");
        assert_eq!(read.origins.len(), KEYS.len());
        read.origins.clear();
        assert_eq!(read, defaults);
        for key in KEYS {
            let flag = format!("{}={}", key.full_name(), key.render(&defaults));
            let flag = flag.replace('"', if flag.contains('[') { "\"" } else { "" });
            let mut read = config("", &[], &[&flag]).expect(&flag);
            read.origins.clear();
            assert_eq!(read, defaults, "{flag}");
        }
    }
}
