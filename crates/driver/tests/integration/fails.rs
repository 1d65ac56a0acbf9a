// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assertions on calls that fail, for the tests of several crates.
#![allow(dead_code)] // Each crate's tests use their part of this.

use std::fmt::Display;

/// The sentence with which a call has failed.
#[track_caller]
pub fn failure<T>(result: Result<T, impl Display>) -> String {
    result.err().expect("it fails").to_string()
}

/// Asserts that a call has failed with this sentence.
#[track_caller]
pub fn fails<T>(result: Result<T, impl Display>, sentence: &str) {
    assert_eq!(failure(result), sentence);
}

/// Asserts that a call has failed with a sentence that has these words in it.
#[track_caller]
pub fn fails_with<T>(result: Result<T, impl Display>, words: &str) {
    let error = failure(result);
    assert!(error.contains(words), "{error:?}, not {words:?}");
}
