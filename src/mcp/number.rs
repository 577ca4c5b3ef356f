//! The numbers that a tool takes. One rule for all: beyond its bounds a number counts as the nearest one within, and the
//! answer says so. The model has its answer at once, and learns the bounds as it goes.

use std::borrow::Cow;
use std::fmt;

use rmcp::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The largest number that is one in every language's JSON.
pub(super) const ANY: u64 = (1 << 53) - 1;

/// A whole number from `LEAST` to `MOST`, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Number<const LEAST: u64, const MOST: u64> {
    taken: Option<u64>,
    /// What was asked for instead.
    beyond: Option<String>,
}

/// Arguments, with numbers among them or without.
pub(super) trait Numbers {
    /// Says of each that was not taken as it was asked for.
    fn adjusted(&self) -> Vec<String> {
        Vec::new()
    }
}

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    /// Returns it, where it was given.
    pub(super) fn get(&self) -> Option<usize> {
        self.taken.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Returns it, or what stands for it where it was not given.
    pub(super) fn or(&self, default: usize) -> usize {
        self.get().unwrap_or(default)
    }

    /// Says that it is not what was asked for, if it is not.
    pub(super) fn adjusted(&self, name: &str) -> Option<String> {
        let (asked, taken) = (self.beyond.as_ref()?, self.taken?);
        let bounds = if MOST == ANY {
            format!("at least {LEAST}")
        } else {
            format!("from {LEAST} to {MOST}")
        };
        Some(format!("{name} is {bounds}: {taken} was used for {asked}"))
    }

    fn within(asked: u64, said: impl fmt::Display) -> Self {
        let taken = asked.clamp(LEAST, MOST);
        Self {
            taken: Some(taken),
            beyond: (taken != asked).then(|| said.to_string()),
        }
    }

    fn nearest(taken: u64, said: impl fmt::Display) -> Self {
        Self {
            taken: Some(taken),
            beyond: Some(said.to_string()),
        }
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Number<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole<const LEAST: u64, const MOST: u64>;

        impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Whole<LEAST, MOST> {
            type Value = Number<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number, {LEAST} or more")?;
                if MOST == ANY {
                    return Ok(());
                }
                write!(f, ", {MOST} at most")
            }

            fn visit_u64<E: de::Error>(self, asked: u64) -> Result<Self::Value, E> {
                Ok(Number::within(asked, asked))
            }

            fn visit_i64<E: de::Error>(self, asked: i64) -> Result<Self::Value, E> {
                Ok(match u64::try_from(asked) {
                    Ok(number) => Number::within(number, asked),
                    Err(_) => Number::nearest(LEAST, asked),
                })
            }

            /// As some write a whole number, and those that no integer holds.
            fn visit_f64<E: de::Error>(self, asked: f64) -> Result<Self::Value, E> {
                if asked < 0.0 {
                    return Ok(Number::nearest(LEAST, asked));
                }
                if asked.fract() != 0.0 {
                    return Err(E::invalid_value(de::Unexpected::Float(asked), &self));
                }
                Ok(match format!("{asked}").parse::<u64>() {
                    Ok(number) => Number::within(number, asked),
                    Err(_) => Number::nearest(MOST, format_args!("{asked:e}")),
                })
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Number::default())
            }
        }

        deserializer.deserialize_any(Whole)
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for Number<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({"type": "integer", "minimum": LEAST});
        if MOST != ANY {
            schema.insert("maximum".into(), MOST.into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_its_bounds_is_the_nearest_within_and_says_so() {
        let of = |asked: &str| {
            let number: Result<Number<1, 50>, _> = serde_json::from_str(asked);
            number.map(|number| (number.get(), number.adjusted("limit")))
        };
        for asked in ["1", "50", "7", "7.0"] {
            let (taken, adjusted) = of(asked).expect(asked);
            assert_eq!(
                (taken, adjusted),
                (asked.trim_end_matches(".0").parse().ok(), None)
            );
        }
        assert_eq!(of("null").expect("nothing"), (None, None));
        for (asked, taken, said) in [
            ("0", 1, "0"),
            ("-3", 1, "-3"),
            ("-9223372036854775808", 1, "-9223372036854775808"),
            ("-0.5", 1, "-0.5"),
            ("51", 50, "51"),
            ("18446744073709551615", 50, "18446744073709551615"),
            ("1e300", 50, "1e300"),
        ] {
            let told = format!("limit is from 1 to 50: {taken} was used for {said}");
            assert_eq!(of(asked).expect(asked), (Some(taken), Some(told)));
        }
        for bad in ["2.5", "\"7\"", "[7]", "true"] {
            let why = of(bad).expect_err(bad).to_string();
            assert!(
                why.contains("a whole number, 1 or more, 50 at most"),
                "{why}"
            );
        }
    }
}
