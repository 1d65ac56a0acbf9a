// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This machine: its PCI functions, causes of low speed, and its cards as a lab.
//!
//! Read first: [`Machine`] and its [`Tree`]; then [`diagnose_card`] for the doctor, [`list`] and
//! [`describe()`] for descriptions, [`export`] for a lab and [`import()`] for another's,
//! [`test_cards`] for the acceptance of cards, and [`bind`], [`reload`] and [`set_max_payload`] for
//! changes. Outcomes are plain data of [`results::machine`](crosslane_results::machine).
//!
//! ```no_run
//! use crosslane::machine::{DoctorOptions, Machine, diagnose_card};
//!
//! let card = "03:00.0".parse()?;
//! let options = DoctorOptions::default();
//! let diagnosis = diagnose_card(&Machine::this(), card, &options, &())?;
//! for finding in &diagnosis.findings {
//!     println!("{} {}: {}", finding.severity.word(), finding.what, finding.found);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod binding;
mod describe;
mod doctor;
mod findings;
mod rates;
mod test;

pub use crate::import::{ImportError, Imported, export, import};
pub use binding::{PathError, bind, reload, set_max_payload, unbind};
pub use crosslane_twin::{DumpError, Exported, HOST};
pub use crosslane_vfio::sysfs::{
    Address, BindOptions, CardReady, Machine, PciFunction, ReloadOptions, SysfsError, Tree,
    VFIO_PCI,
};
pub use describe::{describe, list, path_from_root};
pub use doctor::{DoctorError, DoctorOptions, diagnose_card, diagnose_machine};
pub use findings::{examine_card, examine_machine};
pub use rates::{PredictionError, PredictionProgress, measure, predict};
pub use test::{TestError, TestOptions, test_cards};
