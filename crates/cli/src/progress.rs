// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work on standard error, if a terminal is there: simulated time, rate, and
//! what is left. Work of less than two seconds shows nothing.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crosslane::pcie::units::Picoseconds;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt::{Watch, is_asked};

/// Work is shown if it takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// The end of a line that is too long for the terminal is cut off.
const TEMPLATE: &str = "{bar:20} {percent:>3} %, {eta} left  {wide_msg}";

/// Progress of all scenarios of a command together. Shared by the threads that run them.
pub struct Progress {
    bar: ProgressBar,
    watched: bool,
    begin: Instant,
    /// Simulated time of all scenarios together, microseconds.
    simulated_us: AtomicU64,
}

impl Progress {
    /// Of work that is to move so many bytes.
    #[must_use]
    pub fn new(total_bytes: u64) -> Self {
        let watched = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, watched, begin: Instant::now(), simulated_us: AtomicU64::new(0) }
    }

    /// Sets the bytes that are to be moved, which were not known before.
    pub fn set_total(&self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    /// Takes it off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl crosslane::experiment::Progress for Progress {
    fn is_watched(&self) -> bool {
        self.watched
    }

    fn done(&self, bytes: u64, simulated: Picoseconds) {
        if !self.watched {
            return;
        }
        let us = simulated.0.div_ceil(1_000_000);
        let us = self.simulated_us.fetch_add(us, Ordering::Relaxed) + us;
        let elapsed = self.begin.elapsed();
        if elapsed > PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let moved = self.bar.position() + bytes;
        let rate = moved as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
        let simulated = Picoseconds(us.saturating_mul(1_000_000));
        self.bar.set_message(format!("simulated {simulated}, {rate:.1} MB/s of wall time"));
        self.bar.inc(bytes);
    }

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Progress of steps that differ too much for a rate: how many are done, and what was the last.
pub struct Steps {
    bar: ProgressBar,
    watched: bool,
    begin: Instant,
    /// Simulated time of all steps together, microseconds.
    simulated_us: AtomicU64,
    what: &'static str,
    /// Ends them early.
    pub watch: Watch,
}

const STEPS_TEMPLATE: &str = "{bar:20} {pos} of {len}, {eta} left  {wide_msg}";

impl Steps {
    /// Of so many steps, each one of `what` (a plural).
    #[must_use]
    pub fn new(total: u64, what: &'static str) -> Self {
        let watched = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(STEPS_TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        let (begin, simulated_us) = (Instant::now(), AtomicU64::new(0));
        Self { bar, watched, begin, simulated_us, what, watch: Watch::begin(total, what) }
    }

    /// One more has been done, in so much simulated time.
    pub fn done(&self, step: &str, simulated: Picoseconds) {
        self.watch.done();
        self.shown(step, simulated);
    }

    /// Shows one more, which the watch has counted.
    pub fn shown(&self, step: &str, simulated: Picoseconds) {
        if !self.watched {
            return;
        }
        let us = simulated.0.div_ceil(1_000_000);
        let us = self.simulated_us.fetch_add(us, Ordering::Relaxed) + us;
        if self.begin.elapsed() > PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let simulated = Picoseconds(us.saturating_mul(1_000_000));
        self.bar.set_message(format!("{}, simulated {simulated}, last {step}", self.what));
        self.bar.inc(1);
    }

    /// Takes it off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Steps can be interrupted; their bytes are not shown.
impl crosslane::experiment::Progress for Steps {
    fn is_watched(&self) -> bool {
        false
    }

    fn done(&self, _bytes: u64, _simulated: Picoseconds) {}

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Progress of the search for what holds runs: how many are explained, and how many runs that has
/// taken. Shared by the threads that search.
pub struct Explaining {
    bar: ProgressBar,
    watched: bool,
    begin: Instant,
    runs: AtomicU64,
}

const EXPLAINING_TEMPLATE: &str = "{bar:20} {pos} of {len} explained  {wide_msg}";

impl Explaining {
    /// Of so many runs.
    #[must_use]
    pub fn new(total: u64) -> Self {
        let watched = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(EXPLAINING_TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, watched, begin: Instant::now(), runs: AtomicU64::new(0) }
    }

    /// One more run has been made without something.
    pub fn run(&self) {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.watched {
            return;
        }
        if self.begin.elapsed() > PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(format!("{runs} runs without one of their limits"));
    }

    /// One more run is explained.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Takes it off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

const TRANSFERRED_TEMPLATE: &str = "{bar:20} {percent:>3} %  {decimal_bytes_per_sec}, {eta} left";

/// Progress of a transfer on a real network.
pub struct Transferred {
    bar: ProgressBar,
    begin: Instant,
    watched: bool,
}

impl Transferred {
    /// Of so many bytes.
    #[must_use]
    pub fn new(total_bytes: u64) -> Self {
        let watched = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TRANSFERRED_TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, begin: Instant::now(), watched }
    }

    /// Shows the bytes that have arrived.
    pub fn set(&self, bytes: u64) {
        if self.watched && self.begin.elapsed() > PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(bytes);
    }

    /// Takes it off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    const COLUMNS: u16 = 80;

    /// A terminal that keeps what is written on it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn push(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            COLUMNS
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.push(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.push(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.push("\n")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bars_are_no_wider_than_the_terminal() {
        for template in [TEMPLATE, STEPS_TEMPLATE, EXPLAINING_TEMPLATE, TRANSFERRED_TEMPLATE] {
            let screen = Screen::default();
            let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
            let bar = ProgressBar::with_draw_target(Some(1_000_000), target);
            bar.set_style(ProgressStyle::with_template(template).unwrap().progress_chars("=> "));
            bar.set_position(123_456);
            bar.set_message("scenarios, simulated 12.345 ms, last p2p_write_rate ".repeat(4));
            bar.abandon();
            let text = screen.0.lock().unwrap().clone();
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!((30..=usize::from(COLUMNS)).contains(&longest), "{longest}: {text:?}");
        }
    }
}
