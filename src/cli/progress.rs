//! The progress bar: on stderr, only for a person who is looking, only when it takes long enough.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::out::Out;
use crate::engine::Progress;

/// What ends sooner than this shows no bar: it would only flicker.
const PATIENCE: Duration = Duration::from_millis(400);

/// A progress bar that takes itself away at the end.
pub(crate) struct Bar {
    wanted: bool,
    begun: Instant,
    shown: Option<ProgressBar>,
    what: &'static str,
}

impl Bar {
    /// Makes a bar, or something silent where nobody is looking.
    pub(crate) fn new(out: &Out) -> Self {
        Self {
            wanted: out.wants_progress(),
            begun: Instant::now(),
            shown: None,
            what: "",
        }
    }
}

impl Progress for Bar {
    fn at(&mut self, what: &'static str, done: u64, total: u64) {
        if !self.wanted || (self.shown.is_none() && self.begun.elapsed() < PATIENCE) {
            return;
        }
        let bar = self.shown.get_or_insert_with(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10))
        });
        if self.what != what {
            self.what = what;
            bar.set_style(style(total));
            bar.set_message(what);
            bar.reset();
        }
        bar.set_length(total);
        bar.set_position(done);
    }

    fn waits(&mut self, why: &str) {
        if self.wanted {
            let _ = writeln!(std::io::stderr(), "waiting: {why}");
        }
    }
}

/// A bar where the end is known, else a count.
fn style(total: u64) -> ProgressStyle {
    let template = if total == 0 {
        "{msg:10} {pos}"
    } else {
        "{msg:10} [{bar:30}] {pos}/{len} {eta}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
