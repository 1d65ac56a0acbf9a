// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No MPI: its place in a build without it.

use std::sync::Arc;

use crosslane_lab::parts::{Arrived, Carrier, Gone};

/// The processes that a launcher has started together: none in this build.
#[derive(Debug)]
pub enum World {}

impl World {
    /// Joins no processes.
    ///
    /// # Errors
    /// Always: this build is without MPI.
    pub fn begin(_is_over: fn() -> bool) -> Result<Arc<Self>, Gone> {
        let why = "is not in this build; `cargo build --release -p crosslane-cli --features mpi` \
                   makes one with it";
        Err(Gone { who: "MPI".to_owned(), why: why.to_owned() })
    }

    /// Whether this process speaks for all of them.
    pub fn speaks(&self) -> bool {
        match *self {}
    }

    /// Leaves the others, which may have to know why.
    pub fn leave(&self, _why: &str) {
        match *self {}
    }
}

impl Carrier for World {
    fn rank(&self) -> usize {
        match *self {}
    }

    fn names(&self) -> &[String] {
        match *self {}
    }

    fn swap(&self, _messages: Vec<Vec<u8>>) -> Result<Arrived, Gone> {
        match *self {}
    }
}
