//! Reading and writing single values: sizes, switches, lists, lists of seconds.

use std::time::Duration;

use toml::de::DeValue;

use super::Config;

/// Where a setting's value lives in [`Config`], which also says of what type it is.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    /// A text.
    Text(fn(&mut Config) -> &mut String),
    /// A list of texts.
    Texts(fn(&mut Config) -> &mut Vec<String>),
    /// A size in bytes, at least 1.
    Size(fn(&mut Config) -> &mut u64),
    /// A switch.
    Flag(fn(&mut Config) -> &mut bool),
    /// One of a few words.
    Word {
        /// The words.
        words: &'static [&'static str],
        /// Returns the present one's place among them.
        get: fn(&Config) -> usize,
        /// Sets it by its place.
        set: fn(&mut Config, usize),
    },
    /// A list of seconds.
    Waits(fn(&mut Config) -> &mut Vec<Duration>),
    /// A whole number, at least 1.
    Count(fn(&mut Config) -> &mut u64),
    /// A whole number, which may be 0.
    Number(fn(&mut Config) -> &mut u64),
    /// A length of time.
    Span(fn(&mut Config) -> &mut Duration),
    /// A length of time as a whole number of milliseconds, at least 1.
    Millis(fn(&mut Config) -> &mut Duration),
    /// A text that may be written as a whole number.
    Id(fn(&mut Config) -> &mut String),
}

impl Slot {
    /// Sets the value from TOML, as it stands in the file.
    ///
    /// # Errors
    /// What was wanted, when it is something else.
    pub(super) fn set_toml(self, config: &mut Config, value: &DeValue<'_>) -> Result<(), String> {
        let wanted = || format!("{} is not {}", describe(value), self.wanted());
        match self {
            Self::Text(at) => *at(config) = value.as_str().ok_or_else(wanted)?.into(),
            Self::Texts(at) => {
                let list = value.as_array().ok_or_else(wanted)?;
                *at(config) = list
                    .iter()
                    .map(|item| item.get_ref().as_str().map(Into::into))
                    .collect::<Option<_>>()
                    .ok_or_else(wanted)?;
            }
            Self::Size(at) => {
                let text = number(value).or_else(|| value.as_str().map(Into::into));
                *at(config) = text.as_deref().and_then(parse_size).ok_or_else(wanted)?;
            }
            Self::Flag(at) => *at(config) = value.as_bool().ok_or_else(wanted)?,
            Self::Word { words, set, .. } => {
                let word = value.as_str().ok_or_else(wanted)?;
                let place = words.iter().position(|&w| w == word).ok_or_else(wanted)?;
                set(config, place);
            }
            Self::Waits(at) => {
                let list = value.as_array().ok_or_else(wanted)?;
                *at(config) = list
                    .iter()
                    .map(|item| number(item.get_ref()).as_deref().and_then(parse_seconds))
                    .collect::<Option<_>>()
                    .ok_or_else(wanted)?;
            }
            Self::Count(at) => {
                let text = number(value);
                *at(config) = text.as_deref().and_then(parse_count).ok_or_else(wanted)?;
            }
            Self::Number(at) => {
                let text = number(value);
                *at(config) = text.as_deref().and_then(parse_number).ok_or_else(wanted)?;
            }
            Self::Millis(at) => {
                let text = number(value);
                *at(config) = text.as_deref().and_then(parse_millis).ok_or_else(wanted)?;
            }
            Self::Span(at) => {
                let text = value.as_str();
                *at(config) = text.and_then(parse_span).ok_or_else(wanted)?;
            }
            Self::Id(at) => {
                let text = value.as_str().map(Into::into).or_else(|| number(value));
                *at(config) = text.ok_or_else(wanted)?;
            }
        }
        Ok(())
    }

    /// Sets the value from text, as it stands in an environment variable or a flag. A list is written
    /// as in TOML or with commas.
    ///
    /// # Errors
    /// What was wanted, when it is something else.
    pub(super) fn set_text(self, config: &mut Config, text: &str) -> Result<(), String> {
        let wanted = || format!("{text:?} is not {}", self.wanted());
        let trimmed = text.trim();
        match self {
            Self::Texts(_) | Self::Waits(_) if trimmed.starts_with('[') => {
                let value = DeValue::parse(trimmed).map_err(|_| wanted())?;
                return self.set_toml(config, value.get_ref());
            }
            Self::Text(at) => *at(config) = text.into(),
            Self::Id(at) => *at(config) = trimmed.into(),
            Self::Count(at) => *at(config) = parse_count(trimmed).ok_or_else(wanted)?,
            Self::Number(at) => *at(config) = parse_number(trimmed).ok_or_else(wanted)?,
            Self::Span(at) => *at(config) = parse_span(trimmed).ok_or_else(wanted)?,
            Self::Millis(at) => *at(config) = parse_millis(trimmed).ok_or_else(wanted)?,
            Self::Texts(at) => *at(config) = split_list(trimmed),
            Self::Size(at) => *at(config) = parse_size(trimmed).ok_or_else(wanted)?,
            Self::Flag(at) => *at(config) = parse_flag(trimmed).ok_or_else(wanted)?,
            Self::Word { words, set, .. } => {
                let place = words.iter().position(|&w| w == trimmed);
                set(config, place.ok_or_else(wanted)?);
            }
            Self::Waits(at) => {
                *at(config) = split_list(trimmed)
                    .iter()
                    .map(|item| parse_seconds(item))
                    .collect::<Option<_>>()
                    .ok_or_else(wanted)?;
            }
        }
        Ok(())
    }

    /// Returns the present value as TOML.
    pub(super) fn render(self, config: &Config) -> String {
        // A copy, since one accessor serves reading and writing.
        let mut config = config.clone();
        match self {
            Self::Text(at) | Self::Id(at) => quote(at(&mut config)),
            Self::Count(at) | Self::Number(at) => at(&mut config).to_string(),
            Self::Span(at) => quote(&render_span(*at(&mut config))),
            Self::Millis(at) => at(&mut config).as_millis().to_string(),
            Self::Texts(at) => {
                let items: Vec<_> = at(&mut config).iter().map(|text| quote(text)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Size(at) => quote(&render_size(*at(&mut config))),
            Self::Flag(at) => at(&mut config).to_string(),
            Self::Word { words, get, .. } => quote(words[get(&config)]),
            Self::Waits(at) => {
                let waits = at(&mut config).iter();
                let items: Vec<_> = waits.map(|wait| wait.as_secs_f64().to_string()).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }

    /// Says in a few words what kind of value it takes.
    fn wanted(self) -> String {
        match self {
            Self::Text(_) => "a text".into(),
            Self::Texts(_) => "a list of texts".into(),
            Self::Size(_) => "a size such as \"16 MiB\"".into(),
            Self::Flag(_) => "true or false".into(),
            Self::Word { words, .. } => {
                let words: Vec<_> = words.iter().map(|&word| quote(word)).collect();
                words.join(" or ")
            }
            Self::Waits(_) => "a list of seconds such as [1, 3, 9]".into(),
            Self::Count(_) => "a whole number, at least 1".into(),
            Self::Number(_) => "a whole number".into(),
            Self::Span(_) => "a length of time such as \"90 days\"".into(),
            Self::Millis(_) => "a whole number of milliseconds, at least 1".into(),
            Self::Id(_) => "a number or a text".into(),
        }
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match (value.as_str(), number(value), value.as_bool()) {
        (Some(text), ..) => quote(text),
        (_, Some(number), _) => number,
        (.., Some(flag)) => flag.to_string(),
        _ => format!("this {}", value.type_str()),
    }
}

/// Returns a number as it is written, without `_`.
fn number(value: &DeValue<'_>) -> Option<String> {
    let text = match value {
        DeValue::Integer(int) if int.radix() == 10 => int.as_str(),
        DeValue::Float(float) => float.as_str(),
        _ => return None,
    };
    Some(text.replace('_', ""))
}

/// Returns the text as a TOML string.
fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Reads `true`, `1`, `yes`, `on` and their opposites.
fn parse_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads a size in bytes: a whole number and perhaps a unit (`16 MiB`, `500kB`, `4096`). `None` when it
/// is none, zero, or too large.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let unit = unit.trim();
    let (_, factor) = UNITS
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(factor).filter(|&size| size > 0)
}

fn render_size(size: u64) -> String {
    [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, bits)| size.trailing_zeros() >= *bits)
        .map_or_else(
            || format!("{size} B"),
            |(unit, bits)| format!("{} {unit}", size >> bits),
        )
}

fn parse_count(text: &str) -> Option<u64> {
    parse_number(text).filter(|&count| count > 0)
}

fn parse_number(text: &str) -> Option<u64> {
    let number: u64 = text.replace('_', "").parse().ok()?;
    // What SQLite can count.
    i64::try_from(number).is_ok().then_some(number)
}

/// Units of time, the largest first, in seconds.
const TIMES: [(&str, &str, u64); 4] = [
    ("days", "d", 86_400),
    ("h", "hours", 3600),
    ("min", "m", 60),
    ("s", "seconds", 1),
];

/// The longest length of time that can be set: a hundred years.
const LONGEST_SPAN: u64 = 100 * 366 * 86_400;

/// Reads a length of time: a whole number and its unit (`90 days`, `12 h`, `30 min`, `10 s`). `None` when it is none,
/// zero, or too long.
fn parse_span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim();
    let (.., seconds) = TIMES.into_iter().find(|(name, other, _)| {
        [*name, *other].contains(&unit) || (*name == "days" && unit == "day")
    })?;
    let seconds = number.checked_mul(seconds)?;
    (1..=LONGEST_SPAN)
        .contains(&seconds)
        .then(|| Duration::from_secs(seconds))
}

fn render_span(span: Duration) -> String {
    let seconds = span.as_secs();
    TIMES
        .into_iter()
        .find(|(.., unit)| seconds.is_multiple_of(*unit))
        .map_or_else(String::new, |(name, _, unit)| {
            format!("{} {name}", seconds / unit)
        })
}

fn parse_millis(text: &str) -> Option<Duration> {
    parse_count(text)
        .map(Duration::from_millis)
        .filter(|&wait| wait <= LONGEST_WAIT)
}

/// The longest wait that can be set: a week.
const LONGEST_WAIT: Duration = Duration::from_hours(7 * 24);

fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    let wait = Duration::try_from_secs_f64(seconds).ok()?;
    (wait <= LONGEST_WAIT).then_some(wait)
}

/// Splits at commas that stand outside braces (`**/*.{md,mdx}` is one glob); empty items are left out.
fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0_u32;
    text.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|item| !item.is_empty())
    .map(Into::into)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("4096", Some(4096)),
            ("16 MiB", Some(16 << 20)),
            ("16mib", Some(16 << 20)),
            ("500kB", Some(500_000)),
            ("1_000", Some(1000)),
            ("1 GiB", Some(1 << 30)),
            ("0", None),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1.5 MiB", None),
            ("16 MiBs", None),
            ("99999999999 GiB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn a_written_size_reads_back_the_same() {
        for size in [1, 1023, 1024, 1_000_000, 16 << 20, 3 << 30, u64::MAX] {
            assert_eq!(parse_size(&render_size(size)), Some(size));
        }
        assert_eq!(render_size(16 << 20), "16 MiB");
    }

    #[test]
    fn lengths_of_time_are_read_and_written_the_same() {
        for (text, seconds) in [
            ("90 days", Some(90 * 86_400)),
            ("1 day", Some(86_400)),
            ("12h", Some(43_200)),
            ("5 min", Some(300)),
            ("1 s", Some(1)),
            ("90", None),
            ("0 days", None),
            ("-1 s", None),
            ("99999999999 days", None),
            ("days", None),
        ] {
            let span = parse_span(text);
            assert_eq!(span.map(|span| span.as_secs()), seconds, "{text:?}");
            if let Some(span) = span {
                assert_eq!(parse_span(&render_span(span)), Some(span), "{text:?}");
            }
        }
        assert_eq!(render_span(Duration::from_hours(90 * 24)), "90 days");
    }

    #[test]
    fn waits_are_seconds_that_can_be_waited_for() {
        assert_eq!(parse_seconds("9"), Some(Duration::from_secs(9)));
        assert_eq!(parse_seconds("0.5"), Some(Duration::from_millis(500)));
        for bad in ["-1", "nan", "inf", "1e300", "", "1 s", "9999999"] {
            assert_eq!(parse_seconds(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn commas_inside_braces_belong_to_the_glob() {
        assert_eq!(
            split_list("**/*.{md,mdx}, a.txt,,"),
            ["**/*.{md,mdx}", "a.txt"]
        );
        assert!(split_list("").is_empty());
    }
}
