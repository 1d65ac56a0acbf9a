// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work on standard error, if a terminal is there: simulated time, rate, and
//! what is left. Work of less than two seconds shows nothing.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crosslane::experiment;
use crosslane::lab::PartsReport;
use crosslane::pcie::units::Picoseconds;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt::{Watch, is_asked};
use crate::output::print_hint;

/// Work is shown if it takes longer than this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two reports of bytes that a run is asked for.
const INTERVAL_MS: u64 = 100;

/// The end of a line that is too long for the terminal is cut off.
const TEMPLATE: &str = "{bar:20} {percent:>3} %, {eta} left  {wide_msg}";
const STEPS_TEMPLATE: &str = "{bar:20} {pos} of {len}, {eta} left  {wide_msg}";
const EXPLAINING_TEMPLATE: &str = "{bar:20} {pos} of {len} explained  {wide_msg}";
const TRANSFERRED_TEMPLATE: &str = "{bar:20} {percent:>3} %  {decimal_bytes_per_sec}, {eta} left";

/// A bar on the terminal, shared by the threads that do the work.
struct Line {
    bar: ProgressBar,
    is_watched: bool,
    begin: Instant,
    /// Time of the last report of bytes, milliseconds from the beginning.
    told_ms: AtomicU64,
    /// Simulated time of all work together, microseconds, or the number of runs.
    sum: AtomicU64,
}

impl Line {
    fn new(total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let is_watched = std::io::stderr().is_terminal();
        let (told_ms, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { bar, is_watched, begin: Instant::now(), told_ms, sum }
    }

    /// Shows the bar if the work takes long.
    fn draw(&self) {
        if self.is_watched && self.begin.elapsed() > PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    fn add(&self, more: u64) -> u64 {
        self.sum.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Adds simulated time, and returns all of it.
    fn simulated(&self, more: Picoseconds) -> Picoseconds {
        Picoseconds(self.add(more.0.div_ceil(1_000_000)).saturating_mul(1_000_000))
    }
}

macro_rules! finish {
    ($($shown:ident.$line:tt),*) => {
        $(impl $shown {
            /// Takes it off the terminal.
            pub fn finish(&self) {
                self.$line.bar.finish_and_clear();
            }
        })*
    };
}
finish!(Progress.0, Steps.line, Explaining.0, Transferred.0);

/// Progress of all scenarios of a command together.
pub struct Progress(Line);

impl Progress {
    /// Begins work that is to move this number of bytes.
    pub fn new(total_bytes: u64) -> Self {
        Self(Line::new(total_bytes, TEMPLATE))
    }

    /// Sets the bytes that are to be moved, which were not known before.
    pub fn set_total(&self, bytes: u64) {
        self.0.bar.set_length(bytes);
    }
}

impl experiment::Progress for Progress {
    fn is_due(&self) -> bool {
        let line = &self.0;
        let now_ms = line.begin.elapsed().as_millis() as u64;
        let told_ms = line.told_ms.load(Ordering::Relaxed);
        line.is_watched && now_ms.saturating_sub(told_ms) >= INTERVAL_MS
    }

    fn moved(&self, bytes: u64, simulated: Picoseconds) {
        let line = &self.0;
        if !line.is_watched {
            return;
        }
        line.told_ms.store(line.begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        let simulated = line.simulated(simulated);
        line.draw();
        let moved = line.bar.position() + bytes;
        let rate = moved as f64 / line.begin.elapsed().as_secs_f64().max(1e-3) / 1e6;
        line.bar.set_message(format!("simulated {simulated}, {rate:.1} MB/s of wall time"));
        line.bar.inc(bytes);
    }

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Progress of steps that differ too much for a rate: their number, and the name of the last.
pub struct Steps {
    line: Line,
    what: &'static str,
    /// Ends them early.
    pub watch: Watch,
    /// How runs on several threads went.
    parts: Mutex<Vec<PartsReport>>,
}

impl Steps {
    /// Begins this number of steps, each one of `what` (a plural).
    pub fn new(total: u64, what: &'static str) -> Self {
        let (line, watch) = (Line::new(total, STEPS_TEMPLATE), Watch::begin(total, what));
        Self { line, what, watch, parts: Mutex::default() }
    }

    /// Says on standard error how runs on several threads went.
    pub fn print_parts(&self) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = parts.iter().flat_map(|report| {
            let lines = report.to_string();
            lines.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        lines.for_each(|line| print_hint(&line));
    }

    /// Shows one more, which the watch has counted.
    pub fn shown(&self, step: &str, simulated: Picoseconds) {
        if self.line.is_watched {
            let simulated = self.line.simulated(simulated);
            self.line.draw();
            let message = format!("{}, simulated {simulated}, last {step}", self.what);
            self.line.bar.set_message(message);
            self.line.bar.inc(1);
        }
    }
}

impl experiment::Progress for Steps {
    fn done(&self, step: &str, simulated: Picoseconds) {
        self.watch.done();
        self.shown(step, simulated);
    }

    fn clock(&self) -> Option<fn() -> Duration> {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        Some(|| BEGIN.elapsed())
    }

    fn parted(&self, report: &PartsReport) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(report.clone());
    }

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Progress of the search for the limits of runs: the number of explained ones, and of the runs
/// that this has taken.
pub struct Explaining(Line);

impl Explaining {
    /// Begins the search for this number of runs.
    pub fn new(total: u64) -> Self {
        Self(Line::new(total, EXPLAINING_TEMPLATE))
    }
}

impl experiment::Progress for Explaining {
    fn is_over(&self) -> bool {
        is_asked()
    }

    fn tried(&self) {
        let runs = self.0.add(1);
        if self.0.is_watched {
            self.0.draw();
            self.0.bar.set_message(format!("{runs} runs without one of their limits"));
        }
    }

    fn explained(&self) {
        self.0.bar.inc(1);
    }
}

/// Progress of a transfer on a real network.
pub struct Transferred(Line);

impl Transferred {
    /// Begins a transfer of this number of bytes.
    pub fn new(total_bytes: u64) -> Self {
        Self(Line::new(total_bytes, TRANSFERRED_TEMPLATE))
    }

    /// Shows the bytes that have arrived.
    pub fn set(&self, bytes: u64) {
        self.0.draw();
        self.0.bar.set_position(bytes);
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

    macro_rules! ignored {
        ($($method:ident($($lines:ty)?)),*) => {
            $(fn $method(&self, $(_: $lines)?) -> io::Result<()> {
                Ok(())
            })*
        };
    }

    impl TermLike for Screen {
        ignored!(move_cursor_up(usize), move_cursor_down(usize), flush());
        ignored!(move_cursor_right(usize), move_cursor_left(usize));

        fn width(&self) -> u16 {
            COLUMNS
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\n")
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
