//! The protocol: what is sent, and what must be true of an answer before it is believed.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::embed::settings::{LARGEST_DIMENSION, Role};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<Cow<'a, str>>,
    // Some servers refuse to be told what is the default anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_type: Option<&'a str>,
}

/// What is wanted of every answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Whether base64 is asked for, and so accepted.
    pub(super) base64: bool,
    /// Asked for when it is not zero.
    pub(super) dimensions: u64,
}

/// Returns the body of a request for the vectors of `texts`.
pub(super) fn body(role: &Role, wanted: Wanted, texts: &[&str]) -> String {
    let prefix = role.prefix.as_str();
    let input = texts.iter().map(|&text| match prefix {
        "" => Cow::Borrowed(text),
        prefix => Cow::Owned(format!("{prefix}{text}")),
    });
    let body = Body {
        model: &role.model,
        input: input.collect(),
        encoding_format: wanted.base64.then_some("base64"),
        dimensions: Some(wanted.dimensions).filter(|&set| set > 0),
        input_type: role.input_type.as_deref(),
    };
    serde_json::to_string(&body).expect("texts and numbers always serialise")
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Numbers,
}

/// A vector as a list of numbers, or the bytes of its 32-bit floats, the low one first, in base64.
enum Numbers {
    List(Vec<f64>),
    Base64(Vec<f64>),
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers or base64")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Numbers, A::Error> {
                let mut list = Vec::new();
                while let Some(number) = seq.next_element()? {
                    list.push(number);
                }
                Ok(Numbers::List(list))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Numbers, E> {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                let (floats, []) = bytes.as_chunks::<4>() else {
                    return Err(E::custom("not whole floats"));
                };
                let floats = floats.iter().map(|&bytes| f32::from_le_bytes(bytes).into());
                Ok(Numbers::Base64(floats.collect()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Reads the vectors of an answer for `count` texts, in the texts' order and each of length 1.
///
/// `dimension` is how many numbers each must have; where it is not known yet, all must have as many.
///
/// # Errors
/// What is wrong with the answer: not of this shape, another number of vectors, an index that is missing, doubled or
/// out of range, a wrong or changing number of numbers, one that is not finite, or nothing but zeros.
pub(super) fn read(
    bytes: &[u8],
    count: usize,
    wanted: Wanted,
    dimension: Option<usize>,
) -> Result<Vec<Vec<f32>>, String> {
    let answer: Answer =
        serde_json::from_slice(bytes).map_err(|_| "its answer holds no vectors of numbers")?;
    let given = answer.data.len();
    if given != count {
        return Err(format!("it gave {given} vectors for {count} texts"));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    let mut dimension = dimension;
    for (place, item) in answer.data.into_iter().enumerate() {
        let numbers = match item.embedding {
            Numbers::List(numbers) => numbers,
            Numbers::Base64(numbers) if wanted.base64 => numbers,
            Numbers::Base64(_) => return Err("it gave base64 unasked".into()),
        };
        let length = numbers.len();
        if length != *dimension.get_or_insert(length) {
            return Err(wrong_length(length, dimension.unwrap_or_default(), wanted));
        }
        if length == 0 || length as u64 > LARGEST_DIMENSION {
            return Err(format!("it gave a vector of {length} numbers"));
        }
        // Servers that number nothing keep the order.
        let index = item.index.unwrap_or(place);
        match vectors.get_mut(index) {
            Some(slot @ None) => *slot = Some(normalise(&numbers)?),
            Some(Some(_)) | None => {
                return Err(format!(
                    "it numbered {count} vectors wrongly (index {index})"
                ));
            }
        }
    }
    // As many as there are places, and none twice: none is left empty.
    Ok(vectors.into_iter().flatten().collect())
}

fn wrong_length(length: usize, dimension: usize, wanted: Wanted) -> String {
    if wanted.dimensions > 0 {
        format!("it gave a vector of {length} numbers, and embedding.dimensions says {dimension}")
    } else {
        format!("it gave a vector of {length} numbers, and gave {dimension} before")
    }
}

/// Raised when [`normalise`] would make another vector of the same numbers: part of the fingerprint.
pub(super) const NORMALISATION: u32 = 1;

/// Returns the vector with length 1.
fn normalise(numbers: &[f64]) -> Result<Vec<f32>, String> {
    if !numbers.iter().all(|number| number.is_finite()) {
        return Err("it gave a vector with numbers that are none".into());
    }
    // Divided by the largest first, no square is too large or too small for an f64.
    let largest = numbers.iter().fold(0.0_f64, |max, n| max.max(n.abs()));
    if largest == 0.0 {
        return Err("it gave a vector of zeros".into());
    }
    let scaled = numbers.iter().map(|n| n / largest);
    let length = scaled.clone().map(|n| n * n).sum::<f64>().sqrt();
    // Of the size of 1 at the most: an f32 loses nothing that matters.
    #[allow(clippy::cast_possible_truncation)]
    Ok(scaled.map(|n| (n / length) as f32).collect())
}

/// Returns what a server says of an error, in its own words, as far as it says anything; and whether it says that there
/// is no money left, which no waiting mends.
pub(super) fn words(bytes: &[u8]) -> (Option<String>, bool) {
    let told: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let places = [
        &told["error"]["message"],
        &told["error"],
        &told["message"],
        &told["detail"],
    ];
    let words = places.into_iter().find_map(Value::as_str);
    let code = told["error"]["code"].as_str();
    (
        words.filter(|words| !words.is_empty()).map(Into::into),
        code == Some("insufficient_quota"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Wanted = Wanted {
        base64: false,
        dimensions: 0,
    };

    fn role() -> Role {
        Role {
            model: "m".into(),
            prefix: String::new(),
            input_type: None,
        }
    }

    #[test]
    fn a_request_holds_only_what_is_wanted() {
        assert_eq!(
            body(&role(), PLAIN, &["a\n", "\"b\""]),
            r#"{"model":"m","input":["a\n","\"b\""]}"#
        );
        let role = Role {
            prefix: "query: ".into(),
            input_type: Some("query".into()),
            ..role()
        };
        let wanted = Wanted {
            base64: true,
            dimensions: 2,
        };
        assert_eq!(
            body(&role, wanted, &["한글"]),
            r#"{"model":"m","input":["query: 한글"],"encoding_format":"base64","dimensions":2,"input_type":"query"}"#
        );
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts_and_of_length_one() {
        let shuffled = r#"{"data":[{"index":1,"embedding":[0,5]},{"index":0,"embedding":[3,-4]}]}"#;
        assert_eq!(
            read(shuffled.as_bytes(), 2, PLAIN, None),
            Ok(vec![vec![0.6, -0.8], vec![0.0, 1.0]])
        );
        let unnumbered =
            r#"{"object":"list","data":[{"embedding":[1e-300,0]},{"embedding":[0,-1e300]}]}"#;
        assert_eq!(
            read(unnumbered.as_bytes(), 2, PLAIN, Some(2)),
            Ok(vec![vec![1.0, 0.0], vec![0.0, -1.0]])
        );
    }

    #[test]
    fn base64_is_read_when_it_was_asked_for() {
        let bytes: Vec<u8> = [3.0_f32, 4.0]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        let answer = format!(
            r#"{{"data":[{{"index":0,"embedding":"{}"}}]}}"#,
            STANDARD.encode(bytes)
        );
        let asked = Wanted {
            base64: true,
            ..PLAIN
        };
        assert_eq!(
            read(answer.as_bytes(), 1, asked, None),
            Ok(vec![vec![0.6, 0.8]])
        );
        let numbers = br#"{"data":[{"embedding":[3,4]}]}"#;
        assert_eq!(read(numbers, 1, asked, None), Ok(vec![vec![0.6, 0.8]]));
        assert_eq!(
            read(answer.as_bytes(), 1, PLAIN, None),
            Err("it gave base64 unasked".into())
        );
    }

    #[test]
    fn an_answer_that_cannot_be_right_is_not_believed() {
        for (answer, words) in [
            ("", "no vectors"),
            ("<html>", "no vectors"),
            ("{}", "no vectors"),
            (
                r#"{"data":[{"embedding":[1,NaN]},{"embedding":[1,2]}]}"#,
                "no vectors",
            ),
            (
                r#"{"data":[{"embedding":[1,null]},{"embedding":[1,2]}]}"#,
                "no vectors",
            ),
            (
                r#"{"data":[{"embedding":[1,1e999]},{"embedding":[1,2]}]}"#,
                "no vectors",
            ),
            (
                r#"{"data":[{"embedding":"AAA"},{"embedding":[1,2]}]}"#,
                "no vectors",
            ),
            (r#"{"data":[{"embedding":[1,2]}]}"#, "1 vectors for 2 texts"),
            (
                r#"{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}"#,
                "wrongly",
            ),
            (
                r#"{"data":[{"index":1,"embedding":[1,2]},{"index":2,"embedding":[1,2]}]}"#,
                "wrongly",
            ),
            (
                r#"{"data":[{"embedding":[1,2]},{"embedding":[1,2,3]}]}"#,
                "3 numbers, and gave 2 before",
            ),
            (
                r#"{"data":[{"embedding":[]},{"embedding":[]}]}"#,
                "0 numbers",
            ),
            (
                r#"{"data":[{"embedding":[0,0]},{"embedding":[1,2]}]}"#,
                "zeros",
            ),
        ] {
            let error = read(answer.as_bytes(), 2, PLAIN, None).expect_err(answer);
            assert!(error.contains(words), "{answer}: {error}");
        }
        let asked = Wanted {
            dimensions: 3,
            ..PLAIN
        };
        assert_eq!(
            read(br#"{"data":[{"embedding":[1,2]}]}"#, 1, asked, Some(3)),
            Err("it gave a vector of 2 numbers, and embedding.dimensions says 3".into())
        );
    }

    #[test]
    fn a_servers_words_are_found_wherever_it_puts_them() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"too\nlong","code":null}}"#,
                Some("too\nlong"),
            ),
            (r#"{"error":"no model"}"#, Some("no model")),
            (r#"{"message":"x"}"#, Some("x")),
            (r#"{"detail":"y"}"#, Some("y")),
            (r#"{"error":{"message":""}}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(words(body.as_bytes()).0.as_deref(), expected, "{body}");
        }
        assert!(words(br#"{"error":{"code":"insufficient_quota"}}"#).1);
    }
}
