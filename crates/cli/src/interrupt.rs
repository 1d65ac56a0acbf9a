// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C: long work ends early and shows what it has, and no half-written file stays behind.
//!
//! The first signal asks work that has something to show to end; it leaves or finishes what it is
//! at. Any other signal ends the program at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crosslane::experiment::parallel;
use crosslane::results::Interrupted;
use crosslane_report::output::end_without_unfinished;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{CommandError, Result};
use crate::output::print_hint;

/// Exit codes of programs that signals end are above this, as shells count.
const BY_SIGNAL: i32 = 128;

/// The signal that has asked work to end; 0: none has.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// Whether some work would show what it has, and how many of its steps are done.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static DONE: AtomicU64 = AtomicU64::new(0);
/// Whether other processes have to learn that this one ends.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Notices signals from now on. Without a thread for that they do what they always do.
pub fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        let handle = signals.handle();
        let spawned = thread.spawn(move || signals.forever().for_each(noticed));
        if spawned.is_err() {
            handle.close();
        }
    });
}

/// Asks work to end by the first signal, from now on, whether or not it has something to show:
/// other processes take part in it.
pub fn share() {
    IS_SHARED.store(true, Ordering::SeqCst);
    listen();
}

fn noticed(signal: i32) {
    if IS_SHARED.load(Ordering::SeqCst) && !is_asked() {
        // The launcher sends the signal to all of them.
        return ASKED.store(signal, Ordering::SeqCst);
    }
    let has_something = IS_WATCHED.load(Ordering::SeqCst) && DONE.load(Ordering::SeqCst) > 0;
    if has_something && !is_asked() {
        ASKED.store(signal, Ordering::SeqCst);
        print_hint("interrupted; Ctrl-C again ends it without what there is so far");
        return;
    }
    // Work is not told of this, or it might still end in time to give a file its name.
    end_without_unfinished(|| signal_hook::low_level::exit(BY_SIGNAL + signal));
}

/// Whether work that is watched has to end.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::SeqCst) != 0
}

/// Steps of a command that shows what it has where it is interrupted. One at a time.
pub struct Watch {
    total: u64,
    what: &'static str,
}

impl Watch {
    /// Begins to watch a run of this number of steps, each one of `what` (a plural).
    pub fn begin(total: u64, what: &'static str) -> Self {
        listen();
        DONE.store(0, Ordering::SeqCst);
        IS_WATCHED.store(true, Ordering::SeqCst);
        Self { total, what }
    }

    /// One more is done.
    pub fn done(&self) {
        DONE.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs cases, on all of the machine's cores if several are made at once; returns the result of
    /// each that was run to its end before an interruption. `run` returns none if it was
    /// interrupted.
    ///
    /// # Errors
    /// That of a case.
    pub fn each<C: Sync, T: Send, E: Send>(
        &self,
        cases: &[C],
        at_once: bool,
        run: impl Fn(&C) -> Result<Option<T>, E> + Sync,
    ) -> Result<Vec<Option<T>>, E> {
        let one = |case: &C| {
            if is_asked() {
                return Ok(None);
            }
            let made = run(case)?;
            if made.is_some() {
                self.done();
            }
            Ok(made)
        };
        match at_once {
            true => parallel::try_map(cases, one),
            false => cases.iter().map(one).collect(),
        }
    }

    /// Returns how far the work came, if it was interrupted.
    pub fn interrupted(&self) -> Option<Interrupted> {
        let done = DONE.load(Ordering::SeqCst);
        is_asked().then_some(Interrupted { done, of: self.total })
    }

    /// The end of a command whose work was interrupted; `more` is said behind how far it came.
    ///
    /// # Errors
    /// [`CommandError::Interrupted`], if it was.
    pub fn end(&self, more: &str) -> Result<()> {
        let signal = ASKED.load(Ordering::SeqCst);
        if signal == 0 {
            return Ok(());
        }
        let (done, total, what) = (DONE.load(Ordering::SeqCst), self.total, self.what);
        let sentence = format!("interrupted after {done} of {total} {what}{more}");
        let code = u8::try_from(BY_SIGNAL + signal).unwrap_or(1);
        Err(CommandError::Interrupted { sentence, code })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        IS_WATCHED.store(false, Ordering::SeqCst);
    }
}

/// The cases that were run, with what they have given.
pub fn kept<C, T>(cases: Vec<C>, made: Vec<Option<T>>) -> (Vec<C>, Vec<T>) {
    cases.into_iter().zip(made).filter_map(|(case, made)| Some((case, made?))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_stay_beside_what_they_gave() {
        let made = vec![Some(10), None, Some(30)];
        assert_eq!(kept(vec!['a', 'b', 'c'], made), (vec!['a', 'c'], vec![10, 30]));
    }
}
