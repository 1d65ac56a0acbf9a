// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random labs, workloads and faults by seed, through the driver: the data are right or the error
//! is, nothing is lost or doubled, nothing hangs or leaks.
//!
//! Read first: `docs/torture.md`; then [`Check`] for the checkers, and [`Fault`] for the faults.
//!
//! A seed is a whole lab in which everything happens at once: random topologies, engines, channels,
//! transfers, deadlines and cancels; futures and channels dropped in the middle; links that go
//! down, memory with faults, bus masters switched off. Every task compares its observations with
//! what it knows, and the diary of faults explains the errors.
//!
//! ```
//! use crosslane_torture::{Setup, run_seed};
//!
//! let story = run_seed(1, &Setup::default()).unwrap();
//! assert!(story.tlps > 0);
//! assert_eq!(run_seed(1, &Setup::default()).unwrap(), story);
//! ```

#![forbid(unsafe_code)]

mod aimed;
mod calm;
mod campaign;
mod check;
mod endings;
mod fault;
mod generated;
mod lab_text;
mod line;
mod packets;
mod ping;
mod run;
mod scene;
mod setup;
pub mod stream;
mod torus;
mod trouble;
mod vault;
mod visitor;
pub mod watched;
mod words;
mod workload;

pub use campaign::{Count, Failure, SeedOutcome, Summary, campaign, parse_seeds, torus_campaign};
pub use check::{Check, Violation};
pub use fault::{Engines, Fault, FaultCounts};
pub use lab_text::LabText;
pub use run::{Story, run_seed};
pub use setup::{Note, Setup};
pub use torus::{TorusStory, run_torus};

/// Returns the lab of a seed, as the text of a lab file.
pub fn lab_of(seed: u64, setup: &Setup) -> LabText {
    scene::lab_text(seed, setup)
}
