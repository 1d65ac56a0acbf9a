// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs: a fabric built from a lab file and enumerated the way firmware does it.
//!
//! Read first: `labs/minimal.toml` for the format, then [`Lab`].
//!
//! ```
//! let lab = crosslane_lab::open("rosta")?;
//! let running = lab.build(1)?;
//! let fpga = running.hosts[0].tree.find("fpga1").expect("the lab has eight FPGAs");
//! assert_eq!(fpga.max_payload_bytes, 128);
//! # Ok::<(), crosslane_lab::LabError>(())
//! ```

#![forbid(unsafe_code)]

mod board;
mod checked_run;
mod engines;
pub mod enumerate;
pub mod error;
pub mod executor;
pub mod file;
mod items;
pub mod keys;
mod lab;
pub mod parts;
mod progress;
mod shipped;
mod tori;
mod wiring;

pub use checked_run::{CheckedFlows, CheckedRun, Ended, Ending, RunError, TIME_LIMIT};
pub use crosslane_device as device;
pub use engines::EngineKind;
pub use error::{LabError, Position, Problem};
pub use executor::{
    LabBus, LabConnection, LabListener, LabMemory, LabRdma, LabRegion, MemoryInUse, Simulation,
    Stuck, Task, WhyStuck,
};
pub use file::LabFile;
pub use file::constant::{Constant, Provenance, ValueRange};
pub use file::library::{LibraryConstant, LibraryPart, Match, library};
pub use items::Items;
pub use lab::{Lab, RunningHost, RunningLab, open};
pub use parts::{Division, Part, PartsReport};
pub use progress::Progress;
pub use shipped::{ShippedLab, shipped};
