//! The progress bar: on stderr, only for a person who is looking, only when it takes long enough.

use std::fmt::Write;
use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::out::{Out, roughly};
use crate::engine::Progress;

/// What ends sooner than this shows no bar: it would only flicker.
const PATIENCE: Duration = Duration::from_millis(400);

/// How often what is shown is drawn anew.
const TICK: Duration = Duration::from_millis(100);

/// A progress bar that takes itself away at the end.
pub(crate) struct Bar {
    wanted: bool,
    /// When something first began that nothing ended yet.
    begun: Option<Instant>,
    shown: Option<Shown>,
}

/// What is shown now.
struct Shown {
    what: &'static str,
    /// Whether its end is known.
    has_end: bool,
    bar: ProgressBar,
}

impl Shown {
    /// Shows something from where it is. It is drawn by the clock alone, so that nothing half said is ever seen.
    fn new(what: &'static str, done: u64, total: u64) -> Self {
        let has_end = total > 0;
        let bar =
            ProgressBar::with_draw_target(has_end.then_some(total), ProgressDrawTarget::hidden())
                .with_style(style(has_end))
                .with_message(what)
                .with_position(done);
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        bar.enable_steady_tick(TICK);
        Self { what, has_end, bar }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Bar {
    /// Makes a bar, or something silent where nobody is looking.
    pub(crate) fn new(out: &Out) -> Self {
        Self {
            wanted: out.wants_progress(),
            begun: None,
            shown: None,
        }
    }
}

impl Progress for Bar {
    fn at(&mut self, what: &'static str, done: u64, total: u64) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if !self.wanted || (self.shown.is_none() && begun.elapsed() < PATIENCE) {
            return;
        }
        let same = |shown: &&mut Shown| shown.what == what && shown.has_end == (total > 0);
        if let Some(shown) = self.shown.as_mut().filter(same) {
            if shown.has_end && shown.bar.length() != Some(total) {
                shown.bar.set_length(total);
            }
            shown.bar.set_position(done);
        } else {
            // The old one goes first.
            self.shown = None;
            self.shown = Some(Shown::new(what, done, total));
        }
    }

    fn over(&mut self) {
        self.shown = None;
        self.begun = None;
    }

    fn waits(&mut self, why: &str) {
        if self.wanted {
            self.shown = None;
            let _ = writeln!(std::io::stderr(), "waiting: {why}");
        }
    }
}

/// A bar where the end is known, else a count. How long it takes is told once that can be known.
fn style(has_end: bool) -> ProgressStyle {
    let template = if has_end {
        "{msg:10} [{bar:30}] {pos}/{len}{left}"
    } else {
        "{msg:10} {pos}"
    };
    let left = |state: &ProgressState, text: &mut dyn Write| {
        let seconds = state.eta().as_secs();
        if state.pos() > 0 && seconds > 0 {
            let _ = write!(text, "  {} left", roughly(state.eta()));
        }
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("left", left)
        .progress_chars("=> ")
}
