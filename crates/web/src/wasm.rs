// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The module's exports and imports. A question is written into memory that
//! [`crosslane_room`] gives, and its answer read from where [`crosslane_answer`] says, until the
//! next call. A panic ends the instance: its message goes to [`page::crosslane_panicked`].

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

use crosslane::experiment::Progress;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::DirectionLoad;

use crate::answer;

/// Functions of the page.
mod page {
    // SAFETY: numbers only; the two addresses are of memory that lives during the call, and the
    // page writes no more than that many bytes.
    unsafe extern "C" {
        /// Hears that bytes have moved, and in which simulated time, picoseconds.
        pub safe fn crosslane_moved(bytes: f64, picoseconds: f64);
        /// Hears of the loads of links since the last call, a list in JSON.
        pub safe fn crosslane_loaded(at: *const u8, bytes: usize);
        /// Hears that a run of the search for limits is done.
        pub safe fn crosslane_tried();
        /// Whether it is time to hear of bytes again.
        pub safe fn crosslane_is_due() -> u32;
        /// Whether the run has to end.
        pub safe fn crosslane_is_over() -> u32;
        /// Fills memory with random bytes.
        pub safe fn crosslane_random(at: *mut u8, bytes: usize);
        /// Hears the message of a panic.
        pub safe fn crosslane_panicked(at: *const u8, bytes: usize);
    }
}

/// The page as observer of runs.
struct Page;

impl Progress for Page {
    fn is_due(&self) -> bool {
        page::crosslane_is_due() != 0
    }

    fn moved(&self, bytes: u64, simulated: Picoseconds) {
        page::crosslane_moved(bytes as f64, simulated.0 as f64);
    }

    fn loaded(&self, loads: &[DirectionLoad]) {
        let loads = serde_json::to_string(loads).expect("plain data can be written as JSON");
        page::crosslane_loaded(loads.as_ptr(), loads.len());
    }

    fn tried(&self) {
        page::crosslane_tried();
    }

    fn is_over(&self) -> bool {
        page::crosslane_is_over() != 0
    }
}

thread_local! {
    static QUESTION: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns memory for a question of that many bytes.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn crosslane_room(bytes: usize) -> *mut u8 {
    QUESTION.with_borrow_mut(|question| {
        question.clear();
        question.resize(bytes, 0);
        question.as_mut_ptr()
    })
}

/// Answers the question, and returns the place of the answer.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn crosslane_answer() -> *const u8 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            let message = panic.to_string();
            page::crosslane_panicked(message.as_ptr(), message.len());
        }));
    });
    let question = QUESTION.take();
    let answer = answer(&String::from_utf8_lossy(&question), &Page);
    ANSWER.with_borrow_mut(|kept| {
        *kept = answer;
        kept.as_ptr()
    })
}

/// Returns the bytes of the last answer.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn crosslane_answer_bytes() -> usize {
    ANSWER.with_borrow(String::len)
}

/// The random numbers of crate `getrandom`, which has no others here.
// SAFETY: the name and type that `getrandom` asks for; its memory lives during the call.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    at: *mut u8,
    bytes: usize,
) -> Result<(), getrandom::Error> {
    page::crosslane_random(at, bytes);
    Ok(())
}
