// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random labs, workloads and faults by seed, through the driver: data right or the right error,
//! nothing lost or doubled, no hang, no leak.
//!
//! Read first: `docs/torture.md`; then [`Check`], what is looked at, and [`Fault`], what is done.
//!
//! A seed is a whole lab in which everything happens at once: random topologies, engines,
//! channels, transfers, deadlines and cancels; futures and channels dropped in the middle; links
//! that go down, memory that answers badly, bus masters that are switched off. Every task holds
//! what it sees against what it knows, and the diary of faults says what may be wrong.
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
mod ping;
mod run;
mod scene;
mod setup;
pub mod stream;
mod torus;
mod trouble;
mod visitor;
pub mod watched;
mod words;
mod workload;

pub use campaign::{Failure, Summary, Watch, campaign, campaign_twice};
pub use check::{Check, Violation};
pub use fault::{Engines, Fault, FaultCounts};
pub use lab_text::LabText;
pub use run::{Story, run_seed};
pub use setup::{Note, Setup};
pub use torus::{TorusStory, TorusSummary, run_torus, torus_campaign};

/// The lab of a seed, as the text of a lab file.
#[must_use]
pub fn lab_of(seed: u64, setup: &Setup) -> LabText {
    scene::lab_text(seed, setup)
}
