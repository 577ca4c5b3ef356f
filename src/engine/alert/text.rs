//! The words of an alert: short, plain, without anything that a page's name or an error could smuggle in.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Event, Subject};
use crate::model::{FailureKind, StoreName, Timestamp};
use crate::outbox::DeadLetter;

/// The longest text in UTF-16 code units: what Telegram takes in one message.
const LONGEST_TEXT: usize = 4096;
/// The longest title, in characters.
const LONGEST_TITLE: usize = 200;
/// The longest list in it, in the same units: leaves room for a title, what comes after, and "late".
const LONGEST_LIST: usize = 3500;
/// Dead letters that a digest lists.
const MOST_LISTED: usize = 10;
/// The longest page path in a list, in characters; its end says most.
const LONGEST_PATH: usize = 120;
/// The longest reason, in characters.
const LONGEST_REASON: usize = 200;
/// The longest name of a wiki, in characters.
const LONGEST_NAME: usize = 60;
/// An alert older than this says so when it is told.
const LATE: Duration = Duration::from_mins(5);

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// `store_down`, `store_back`, `drain_down`, `drain_back`, `dead_letter`, `dead_letters_nearly_full` or
    /// `dead_letters_trimmed`.
    pub kind: String,
    /// The store it is about, where it is about one.
    pub store: Option<String>,
    /// One line.
    pub title: String,
    /// The whole, the title first.
    pub text: String,
    /// How many dead letters it is about; else 1.
    pub count: u64,
    /// When it happened.
    pub at: Timestamp,
}

impl Message {
    fn new(
        kind: &str,
        store: Option<StoreName>,
        count: u64,
        at: Timestamp,
        title: &str,
        body: &str,
    ) -> Self {
        let title = head(&plain(title), LONGEST_TITLE);
        let text = clip(format!("{title}\n{body}"));
        Self {
            kind: kind.into(),
            store: store.map(|store| store.as_str().into()),
            title,
            text,
            count,
            at,
        }
    }

    /// Returns the text as it is told at `now`: one that is late says so.
    #[must_use]
    pub fn text_at(&self, now: Timestamp) -> String {
        let age = self.at.until(now);
        if age < LATE {
            return self.text.clone();
        }
        clip(format!("(late, from {} ago) {}", roughly(age), self.text))
    }
}

/// Says what happened to the wiki of this name. `since`: when it began.
pub(super) fn of_event(wiki: &str, event: &Event, since: Timestamp, now: Timestamp) -> Message {
    let wiki = name(wiki);
    let lasted = roughly(since.until(now));
    match event {
        Event::Away { subject, failure } => {
            let reason = head(&plain(&failure.reason), LONGEST_REASON * 2);
            let hint = match &failure.hint {
                Some(hint) => format!("\nHint: {}", head(&plain(hint), LONGEST_REASON)),
                None => String::new(),
            };
            match *subject {
                Subject::Store(store) => {
                    let (what, then) = if failure.kind == FailureKind::Refused {
                        (
                            "refuses its work",
                            "Its jobs are held until that is changed.",
                        )
                    } else {
                        (
                            "is away",
                            "Its jobs are held; the next drain goes on once it is back.",
                        )
                    };
                    Message::new(
                        "store_down",
                        Some(store),
                        1,
                        now,
                        &format!("wiki {wiki}: {store} {what}"),
                        &format!("{reason}{hint}\n{then}\nNext: wiki-sync status"),
                    )
                }
                Subject::Drain => Message::new(
                    "drain_down",
                    None,
                    1,
                    now,
                    &format!("wiki {wiki}: no drain can run"),
                    &format!("{reason}{hint}\nNext: wiki-sync status"),
                ),
            }
        }
        Event::Back { subject } => match *subject {
            Subject::Store(store) => Message::new(
                "store_back",
                Some(store),
                1,
                now,
                &format!("wiki {wiki}: {store} is back"),
                &format!("after {lasted}\nNext: wiki-sync status"),
            ),
            Subject::Drain => Message::new(
                "drain_back",
                None,
                1,
                now,
                &format!("wiki {wiki}: drains run again"),
                &format!("after {lasted}\nNext: wiki-sync status"),
            ),
        },
        Event::NearlyFull { count, max } => Message::new(
            "dead_letters_nearly_full",
            None,
            *count,
            now,
            &format!("wiki {wiki}: the oldest dead letters will soon be dropped"),
            &format!(
                "{count} of at most {max} (dead.max), or close to dead.max_age\nNext: wiki-sync dlq list"
            ),
        ),
        Event::Trimmed { count, oldest } => Message::new(
            "dead_letters_trimmed",
            None,
            *count,
            now,
            &match count {
                1 => format!("wiki {wiki}: dropping the oldest dead letter"),
                _ => format!("wiki {wiki}: dropping the {count} oldest dead letters"),
            },
            &format!(
                "to keep dead.max and dead.max_age; the oldest is of {}\nTold once while it goes on.\nNext: wiki-sync dlq list",
                tail(&plain(oldest), LONGEST_PATH)
            ),
        ),
    }
}

/// Says that these letters died; one by itself, many as a digest.
pub(super) fn of_letters(wiki: &str, letters: &[&DeadLetter], now: Timestamp) -> Message {
    let wiki = name(wiki);
    let line = |letter: &DeadLetter| {
        let path = letter.path.as_ref().map_or_else(
            || "(a line that names no page)".into(),
            |path| tail(&plain(path.as_str()), LONGEST_PATH),
        );
        let stores = letter.death.stores;
        let store = if stores.is_empty() {
            String::new()
        } else {
            format!(" ({stores})")
        };
        let reason = head(&plain(&letter.death.reason), LONGEST_REASON);
        format!("{path}{store}: {reason}")
    };
    let count = letters.len() as u64;
    if let [letter] = letters {
        return Message::new(
            "dead_letter",
            letter.death.stores.only(),
            1,
            now,
            &format!("wiki {wiki}: 1 page could not be synced"),
            &format!("{}\nNext: wiki-sync dlq show {}", line(letter), letter.id),
        );
    }
    let mut body = String::new();
    let mut listed = 0;
    for letter in letters.iter().take(MOST_LISTED) {
        let line = format!("- {}\n", line(letter));
        if units(&body) + units(&line) > LONGEST_LIST {
            break;
        }
        body.push_str(&line);
        listed += 1;
    }
    if letters.len() > listed {
        let more = letters.len() - listed;
        writeln!(body, "and {more} more").expect("writing to a string cannot fail");
    }
    body.push_str("Next: wiki-sync dlq list");
    let title = format!("wiki {wiki}: {count} pages could not be synced");
    Message::new("dead_letter", None, count, now, &title, &body)
}

fn name(wiki: &str) -> String {
    head(&plain(wiki), LONGEST_NAME)
}

/// Returns foreign text as one line without control characters and without those that turn the direction of
/// writing, which could make it read as something else.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                '\u{fffd}'
            }
            c => c,
        })
        .collect()
}

/// Returns the beginning of a text, marked where it was cut.
fn head(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Returns the end of a text, marked where it was cut.
fn tail(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.into();
    }
    ['…']
        .into_iter()
        .chain(text.chars().skip(length - most + 1))
        .collect()
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Cuts to what Telegram takes.
fn clip(text: String) -> String {
    let mut units = 0;
    let over = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units >= LONGEST_TEXT
    });
    match over {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::alert::tests::letter;
    use crate::model::{Failure, StoreSet};

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn one_dead_letter_is_told_with_its_page_reason_and_next_command() {
        let one = letter(7, "wiki-output/한글.md", "v1");
        let told = of_letters("내 위키", &[&one], NOW);
        assert_eq!(
            told.text,
            "wiki 내 위키: 1 page could not be synced\n\
             wiki-output/한글.md: not UTF-8\n\
             Next: wiki-sync dlq show 7"
        );
        assert_eq!((told.kind.as_str(), told.count), ("dead_letter", 1));
        let mut by_two = letter(7, "a.md", "v");
        by_two.death.stores = StoreSet::from(StoreName::Git).with(StoreName::Graph);
        let told = of_letters("w", &[&by_two], NOW);
        assert!(
            told.text.contains("a.md (graph, git): not"),
            "{}",
            told.text
        );
    }

    #[test]
    fn many_are_one_digest_of_ten_lines() {
        let letters: Vec<_> = (0..13)
            .map(|n| letter(n, &format!("wiki-output/{n}.md"), "v"))
            .collect();
        let told = of_letters("w", &letters.iter().collect::<Vec<_>>(), NOW);
        assert_eq!(told.count, 13);
        assert_eq!(told.text.matches("\n- ").count(), 10);
        assert!(told.text.ends_with("and 3 more\nNext: wiki-sync dlq list"));
    }

    #[test]
    fn no_text_is_longer_than_telegram_takes_or_says_more_than_it_should() {
        let mut worst = letter(1, &format!("wiki-output/{}.md", "𝒳".repeat(900)), "v");
        worst.death.reason = "\u{1b}[31m\u{202e}\n# *b* ".repeat(800);
        let letters = vec![&worst; 40];
        let told = of_letters(&"w\n".repeat(500), &letters, NOW);
        assert!(told.text.encode_utf16().count() <= 4096);
        assert!(told.title.chars().count() <= 200);
        assert!(!told.title.contains('\n'));
        assert!(!told.text.contains(['\u{1b}', '\u{202e}']));
        assert!(told.text.ends_with("Next: wiki-sync dlq list"));
        assert!(clip("𝒳".repeat(5000)).encode_utf16().count() <= 4096);
    }

    #[test]
    fn an_outage_is_told_with_how_long_it_lasted() {
        let subject = Subject::Store(StoreName::Vectors);
        let failure = Failure::new(FailureKind::Down, "cannot reach host:6334: refused");
        let down = of_event("w", &Event::Away { subject, failure }, NOW, NOW);
        assert_eq!(down.title, "wiki w: vectors is away");
        assert_eq!(down.store.as_deref(), Some("vectors"));
        assert!(down.text.contains("host:6334: refused"));
        let later = NOW.plus(Duration::from_mins(12));
        let back = of_event("w", &Event::Back { subject }, NOW, later);
        assert!(back.text.contains("vectors is back\nafter 12 min\n"));
    }

    #[test]
    fn a_late_alert_says_so() {
        let told = of_letters("w", &[&letter(1, "a.md", "v")], NOW);
        assert_eq!(told.text_at(NOW), told.text);
        let late = told.text_at(NOW.plus(Duration::from_hours(3)));
        assert!(late.starts_with("(late, from 3 h ago) wiki w: 1 page"));
    }
}
