// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is looked at in a seed, each with a name, so that a failure says which look found it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Once;

/// A checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Each word of a stream says where it belongs: lost, doubled, misplaced and wrong ones are
    /// seen, and words beside a transfer.
    Data,
    /// An error comes only where a fault allows it, and is of the kind that this fault must give.
    RightError,
    /// A completed transfer is wholly there; a failed one says exactly what was moved.
    Whole,
    /// Every future ends by its deadline, or by the bound of what was done to it.
    NoHang,
    /// Devices touch no memory but what is pinned for them at that moment.
    Pins,
    /// No tag of an engine is in use at the end.
    Tags,
    /// Credits of links and lanes, replay buffers and TLPs are all back at the end.
    Credits,
    /// Host memory that was taken is given back, and nothing stays pinned.
    Buffers,
    /// TLPs pass each other only where the ordering table lets them.
    Ordering,
    /// What the driver counts and what the engine's registers say agree.
    Registers,
    /// The same seed gives the same run, bit for bit.
    Determinism,
    /// A lab that can be written can be built, enumerated and opened.
    Setup,
    /// An assertion of driver, engine, fabric or lab.
    Assertion,
}

impl Check {
    /// All of them.
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

    /// Its name.
    #[must_use]
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

    /// Ends the seed: this checker has found something.
    pub(crate) fn fail(self, what: String) -> ! {
        panic_any(Violation { check: self, what })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a checker has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who has found it.
    pub check: Check,
    /// What, in a sentence.
    pub what: String,
}

/// Ends the seed with what a checker has found, where a condition does not hold.
macro_rules! check {
    ($check:expr, $holds:expr, $($what:tt)+) => {
        if !$holds {
            $check.fail(format!($($what)+));
        }
    };
}
pub(crate) use check;

thread_local! {
    /// Whether panics of this thread are caught, and need not be told of.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    /// Where the last of them was.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on panics of seeds are told to whoever runs the seed, and not on standard error.
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

/// Runs something; a checker that fails in it, or a panic, is its error.
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
