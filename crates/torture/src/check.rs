// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checkers of a seed, each with a name that a failure reports.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Once;

use crosslane_driver::DriverError;
use crosslane_fabric::ErrorRecord;
use crosslane_lab::Ending;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// A checker.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    IntoStaticStr,
    VariantArray,
    Serialize,
    Deserialize,
)]
pub enum Check {
    /// Each word of a stream carries its position: finds lost, doubled, misplaced and wrong words,
    /// and words written beside a transfer.
    #[strum(to_string = "data")]
    Data,
    /// An error occurs only if a fault allows it, and is of the kind that this fault must give.
    #[strum(to_string = "right error")]
    RightError,
    /// All data of a completed transfer are there; a failed one reports exactly the bytes moved.
    #[strum(to_string = "whole")]
    Whole,
    /// Every future ends by its deadline, or by the bound that its faults set.
    #[strum(to_string = "no hang")]
    NoHang,
    /// Devices access only memory that is pinned for them at that moment.
    #[strum(to_string = "pins")]
    Pins,
    /// No tag of an engine is in use at the end.
    #[strum(to_string = "tags")]
    Tags,
    /// Credits of links and receive queues, replay buffers and TLPs are all back at the end.
    #[strum(to_string = "credits")]
    Credits,
    /// All host memory is freed, and none stays pinned.
    #[strum(to_string = "buffers")]
    Buffers,
    /// TLPs pass each other only as the ordering table allows.
    #[strum(to_string = "ordering")]
    Ordering,
    /// The driver's counters and the engine's registers agree.
    #[strum(to_string = "registers")]
    Registers,
    /// The same seed gives the same run, bit for bit.
    #[strum(to_string = "determinism")]
    Determinism,
    /// Every lab that can be written can be built, enumerated and opened.
    #[strum(to_string = "setup")]
    Setup,
    /// No assertion of driver, engine, fabric or lab fails.
    #[strum(to_string = "assertion")]
    Assertion,
}

impl Check {
    /// All checkers, in order.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns its name.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Ends the seed with this checker's finding.
    pub(crate) fn fail(self, what: String) -> ! {
        panic_any(Violation { check: self, what })
    }
}

/// A checker's finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        let words: std::collections::BTreeSet<_> =
            Check::ALL.iter().map(|check| check.word()).collect();
        assert_eq!(words.len(), Check::ALL.len());
    }
}
