//! Printing: results to stdout, everything else to stderr.
//!
//! A closed stdout (`| head`) is no error: the command does its work to the end and says nothing more.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use serde::Serialize;

use super::error::CommandError;
use super::log;
use crate::engine::report::{Skipped, Trouble};

/// Lines of one kind that are printed for people before "… and N more".
const MOST_LINES: usize = 10;

/// How a text is to stand out on a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// Names and headings.
    Bold,
    /// What is secondary.
    Dim,
    /// All well.
    Good,
    /// To be looked at.
    Warn,
    /// Gone wrong.
    Bad,
}

/// Where a command's output goes, and in which form.
pub(crate) struct Out {
    sink: Box<dyn Write>,
    failed: Option<io::Error>,
    form: Form,
    colour: bool,
    colour_err: bool,
}

/// In which form the result is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Full,
    /// For people: only troubles, and what was asked for.
    Quiet,
    /// One JSON document.
    Json,
}

impl Out {
    /// Makes the output of this process. Colours only on a terminal, and not with `NO_COLOR`.
    pub(crate) fn of_process(form: Form) -> Self {
        Self {
            sink: Box::new(io::BufWriter::new(io::stdout())),
            failed: None,
            form,
            colour: wants_colour(&io::stdout()),
            colour_err: wants_colour(&io::stderr()),
        }
    }

    /// Says whether the result is to be one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Says whether somebody is looking who wants to be told how it goes.
    pub(crate) fn is_watched(&self) -> bool {
        self.form != Form::Quiet && io::stderr().is_terminal()
    }

    /// Says whether somebody is looking who wants to see how far a long run is.
    pub(crate) fn wants_progress(&self) -> bool {
        self.form == Form::Full && io::stderr().is_terminal() && !log::is_on()
    }

    /// Prints a line of the result.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.write(|sink| writeln!(sink, "{text}"));
    }

    /// Prints a line that tells how it went; not with `--quiet`.
    pub(crate) fn say(&mut self, text: impl Display) {
        if self.form != Form::Quiet {
            self.line(text);
        }
    }

    /// Prints what must not go unseen: with the result, or with `--quiet` to stderr.
    pub(crate) fn trouble(&mut self, text: impl Display) {
        if self.form == Form::Quiet {
            let _ = writeln!(io::stderr(), "{text}");
        } else {
            self.line(text);
        }
    }

    /// Prints the result as one JSON document.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(e) => self.failed = Some(e.into()),
        }
    }

    /// Prints a result that is written piece by piece.
    pub(crate) fn write(&mut self, result: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(e) = result(&mut self.sink)
        {
            self.failed = Some(e);
        }
    }

    /// Prints one JSON document as one line, and shows it at once.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(text),
            Err(e) => self.failed = Some(e.into()),
        }
        self.flush();
    }

    /// Shows what was printed so far.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(e) = self.sink.flush()
        {
            self.failed = Some(e);
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    /// When some of it could not be written, for another reason than that nobody listens any more.
    pub(crate) fn finish(mut self) -> Result<(), CommandError> {
        self.flush();
        match self.failed {
            Some(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(CommandError::caused("cannot write to stdout", &e))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the text in a style, plain where there are no colours.
    pub(crate) fn paint<'a>(&self, style: Style, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        painted(self.colour, style, text.into())
    }

    /// Prints `label: text` to stderr, for warnings and errors.
    pub(crate) fn stderr(&mut self, label: &str, text: &str) {
        // What the command printed before comes before it on a shared terminal too.
        self.flush();
        let style = match label {
            "error" => Style::Bad,
            "warning" => Style::Warn,
            _ => Style::Bold,
        };
        let label = painted(self.colour_err, style, label.into());
        // Where stderr is gone too, there is nobody to tell.
        let _ = writeln!(io::stderr(), "{label}: {}", clean(text));
    }

    /// Prints what looks like pages and is none.
    pub(crate) fn skipped(&mut self, skipped: &[Skipped]) {
        if skipped.is_empty() {
            return;
        }
        let title = format!("skipped: {}", skipped.len());
        let title = self.paint(Style::Warn, title).into_owned();
        self.trouble(format_args!(
            "{title} (wiki.ignore takes out what is not meant to be a page)"
        ));
        self.bounded(skipped, |one| {
            format!("  {}: {}", clean(&one.path), clean(&one.reason))
        });
    }

    /// Prints a remark beside the answer, on stderr, so that it is in no script's way.
    pub(crate) fn note(&self, text: impl Display) {
        if self.form != Form::Quiet {
            let _ = writeln!(io::stderr(), "note: {text}");
        }
    }

    /// Prints troubles, each with what to do.
    pub(crate) fn troubles(&mut self, troubles: &[Trouble]) {
        self.bounded(troubles, |one| {
            let whose = match (one.store, one.pages) {
                (Some(store), _) => format!("{store} "),
                // It concerns neither a store nor a page: an alert that was not delivered.
                (None, 0) => String::new(),
                (None, _) => "page ".into(),
            };
            let pages = match one.pages {
                0 => String::new(),
                pages => format!(" ({})", count(pages, "page")),
            };
            // A reason mostly names its page already.
            let path = match &one.path {
                Some(path) if one.pages <= 1 && !one.reason.contains(path.as_str()) => {
                    format!(" {}:", clean(path))
                }
                Some(_) | None => String::new(),
            };
            let hint = match &one.hint {
                Some(hint) => format!("\n    hint: {}", clean(hint)),
                None => String::new(),
            };
            format!(
                "  {whose}{}{pages}:{path} {}{hint}",
                one.kind,
                clean(&one.reason)
            )
        });
    }

    /// Prints a line for each of the first few, and how many more there are.
    pub(crate) fn bounded<T>(&mut self, items: &[T], line: impl Fn(&T) -> String) {
        for item in items.iter().take(MOST_LINES) {
            self.trouble(line(item));
        }
        if items.len() > MOST_LINES {
            let more = items.len() - MOST_LINES;
            self.trouble(format_args!("  … and {more} more (--json shows all)"));
        }
    }
}

/// Says whether colours are wanted there.
pub(crate) fn wants_colour(there: &impl io::IsTerminal) -> bool {
    there.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn painted(colour: bool, style: Style, text: Cow<'_, str>) -> Cow<'_, str> {
    if !colour {
        return text;
    }
    let code = match style {
        Style::Bold => 1,
        Style::Dim => 2,
        Style::Good => 32,
        Style::Warn => 33,
        Style::Bad => 31,
    };
    Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
}

/// Returns foreign text without control characters, which could move a terminal's cursor or colour it.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        Cow::Owned(text.chars().map(plain).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns a number with its noun: `1 page`, `2 pages`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a length of time in its largest unit: `3 min`.
pub(crate) fn roughly(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed(io::ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn out(kind: io::ErrorKind) -> Out {
        Out {
            sink: Box::new(Closed(kind)),
            failed: None,
            form: Form::Full,
            colour: false,
            colour_err: false,
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is_one() {
        let mut pipe = out(io::ErrorKind::BrokenPipe);
        pipe.line("one");
        pipe.line("two");
        assert!(pipe.finish().is_ok());
        let mut disk = out(io::ErrorKind::StorageFull);
        disk.line("one");
        assert!(disk.finish().is_err());
    }

    #[test]
    fn foreign_text_cannot_speak_to_the_terminal() {
        assert_eq!(clean("a\u{1b}[31m\u{7}b"), "a\u{fffd}[31m\u{fffd}b");
        assert_eq!(clean("한글"), "한글");
    }

    #[test]
    fn times_are_told_in_their_largest_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (7200, "2 h"),
            (3 * 86_400, "3 days"),
        ] {
            assert_eq!(roughly(Duration::from_secs(seconds)), text);
        }
    }
}
