//! A progress bar on standard error: for people who wait, and only for them.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work doesn't flash a bar.
const PATIENCE: Duration = Duration::from_millis(500);
/// Steps of the bar.
const STEPS: u64 = 1000;

/// Shows how far some work has come once it takes longer than half a second and standard error is a terminal.
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    /// Begins with nothing done; `what` stands before the bar.
    pub fn new(what: &str) -> Self {
        let bar = io::stderr().is_terminal().then(|| hidden_bar(what));
        Progress { bar, started: Instant::now() }
    }

    /// `fraction` of the work is done (0 to 1); `message` stands after the bar.
    pub fn set(&self, fraction: f64, message: impl FnOnce() -> String) {
        let Some(bar) = &self.bar else { return };
        if self.started.elapsed() < PATIENCE {
            return;
        }
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.set_message(message());
        bar.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}

impl Drop for Progress {
    /// The bar vanishes: what remains on the screen is the result.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn hidden_bar(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3} %  {msg}  {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
    bar.set_prefix(what.to_owned());
    bar
}
