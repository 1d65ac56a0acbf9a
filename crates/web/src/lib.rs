// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab in a browser: the simulator as WebAssembly, which answers questions about labs, JSON
//! for JSON. There are no threads, no clock and no files in it; the same crate, natively, gives the
//! same answers.
//!
//! Read first: [`Question`], which lists all that can be asked, then [`answer()`]. `page/` is the
//! page that asks, and `page/src/answers.ts` has the types of the answers.

mod answer;
mod failure;
mod lab;
mod question;
mod trace;
#[cfg(target_family = "wasm")]
mod wasm;

pub use answer::{MAX_QUESTION_BYTES, Run, answer, failed, told};
pub use failure::{Failure, Place};
pub use lab::{ChangeText, LabText};
pub use question::{Dump, PlotAxis, Question, TraceWish, Work};
pub use trace::{MAX_EVENTS, Traced, Values};
