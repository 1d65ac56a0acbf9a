// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checkers of a seed, each with a name that a failure reports.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Once;

use crosslane_driver::DriverError;
use crosslane_fabric::ErrorRecord;
use crosslane_lab::Ending;

/// A checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Each word of a stream carries its position: finds lost, doubled, misplaced and wrong words,
    /// and words written beside a transfer.
    Data,
    /// An error occurs only if a fault allows it, and is of the kind that this fault must give.
    RightError,
    /// All data of a completed transfer are there; a failed one reports exactly the bytes moved.
    Whole,
    /// Every future ends by its deadline, or by the bound that its faults set.
    NoHang,
    /// Devices access only memory that is pinned for them at that moment.
    Pins,
    /// No tag of an engine is in use at the end.
    Tags,
    /// Credits of links and receive queues, replay buffers and TLPs are all back at the end.
    Credits,
    /// All host memory is freed, and none stays pinned.
    Buffers,
    /// TLPs pass each other only as the ordering table allows.
    Ordering,
    /// The driver's counters and the engine's registers agree.
    Registers,
    /// The same seed gives the same run, bit for bit.
    Determinism,
    /// Every lab that can be written can be built, enumerated and opened.
    Setup,
    /// No assertion of driver, engine, fabric or lab fails.
    Assertion,
}

impl Check {
    /// All checkers.
    pub const ALL: [Self; 13] = [
        Self::Data,
        Self::RightError,
        Self::Whole,
        Self::NoHang,
        Self::Pins,
        Self::Tags,
        Self::Credits,
        Self::Buffers,
        Self::Ordering,
        Self::Registers,
        Self::Determinism,
        Self::Setup,
        Self::Assertion,
    ];

    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::RightError => "right error",
            Self::Whole => "whole",
            Self::NoHang => "no hang",
            Self::Pins => "pins",
            Self::Tags => "tags",
            Self::Credits => "credits",
            Self::Buffers => "buffers",
            Self::Ordering => "ordering",
            Self::Registers => "registers",
            Self::Determinism => "determinism",
            Self::Setup => "setup",
            Self::Assertion => "assertion",
        }
    }

    /// Ends the seed with this checker's finding.
    pub(crate) fn fail(self, what: String) -> ! {
        panic_any(Violation { check: self, what })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A checker's finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker.
    pub check: Check,
    /// The finding, a sentence.
    pub what: String,
}

/// Takes a seed's run apart: the result of its program, and the errors that ports detected. A run
/// without end, and a program that failed, are findings.
pub(crate) fn ended<T>(ending: Ending<T, DriverError>) -> (T, Vec<ErrorRecord>) {
    let program = ending.program.unwrap_or_else(|stuck| Check::NoHang.fail(stuck.to_string()));
    let value = program.unwrap_or_else(|error| Check::RightError.fail(error.to_string()));
    if let Some(stuck) = ending.left {
        Check::NoHang.fail(stuck.to_string());
    }
    (value, ending.errors)
}

/// Ends the seed with a checker's finding if a condition does not hold.
macro_rules! check {
    ($check:expr, $holds:expr, $($what:tt)+) => {
        if !$holds {
            $check.fail(format!($($what)+));
        }
    };
}
pub(crate) use check;

thread_local! {
    /// Whether panics of this thread are caught, and need no message.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// Position of the last of them in the source.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of seeds off standard error from now on: the runner of the seed reports them.
fn keep_quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                before(info);
                return;
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PLACE.with_borrow_mut(|last| *last = place);
        }));
    });
}

fn violation(payload: Box<dyn Any + Send>) -> Violation {
    let payload = match payload.downcast::<Violation>() {
        Ok(violation) => return *violation,
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    let what = PLACE.with_borrow(|place| format!("{place}: {text}"));
    Violation { check: Check::Assertion, what }
}

/// Runs a function; a failing checker or a panic in it becomes the error.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Violation> {
    keep_quiet();
    let before = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_CAUGHT.set(before);
    result.map_err(violation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_named() {
        assert_eq!(caught(|| 7), Ok(7));
        let lost = Violation { check: Check::Data, what: "word 7 is lost".to_owned() };
        assert_eq!(caught(|| check!(Check::Data, 1 > 2, "word {} is lost", 7)), Err(lost));
        let panic = caught(|| panic!("one is not {}", 2)).unwrap_err();
        assert_eq!(panic.check, Check::Assertion);
        assert!(panic.what.contains("check.rs:") && panic.what.ends_with("one is not 2"));
    }

    #[test]
    fn words_are_all_different() {
        let words: std::collections::BTreeSet<_> = Check::ALL.map(Check::word).into();
        assert_eq!(words.len(), Check::ALL.len());
    }
}
