//! How far long work has come: a bar on a terminal, otherwise a line now and then.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::output;

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Progress of one piece of work.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Progress {
    /// Starts to tell how far `what` has come. Bytes are shown in larger units.
    pub(super) fn start(what: &'static str, in_bytes: bool) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let template = if in_bytes {
                "{prefix} [{bar:30}] {bytes}/{total_bytes} {eta} {msg}"
            } else {
                "{prefix} [{bar:30}] {human_pos}/{human_len} {per_sec} {eta} {msg}"
            };
            let style = ProgressStyle::with_template(template)
                .expect("the templates above are valid")
                .progress_chars("=> ");
            ProgressBar::new(0).with_style(style).with_prefix(what)
        });
        Self { what, bar, last_line: Instant::now() }
    }

    /// Tells that `done` of `total` is done; a total of 0 is unknown.
    pub(super) fn update(&mut self, done: u64, total: u64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(total.max(done));
            bar.set_position(done);
            if self.last_line.elapsed() >= LINE_EVERY / 10 {
                bar.set_message(message());
                self.last_line = Instant::now();
            }
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let of_total = if total > 0 { format!(" of {total}") } else { String::new() };
            output::note(format_args!("{}: {done}{of_total} {}", self.what, message()));
        }
    }

    /// Clears the bar.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
