// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assertions on calls that fail, for the tests of several crates.
#![allow(dead_code)] // Each crate's tests use their part of this.

use std::fmt::Display;

/// Asserts that a call has failed with this sentence.
#[track_caller]
pub fn fails<T>(result: Result<T, impl Display>, sentence: &str) {
    let error = result.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(sentence));
}

/// Asserts that a call has failed with a sentence that has these words in it.
#[track_caller]
pub fn fails_with<T>(result: Result<T, impl Display>, words: &str) {
    let error = result.err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains(words)), "{error:?}, not {words:?}");
}
