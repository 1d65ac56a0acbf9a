// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a transfer in a lab is not faster: what limits it, and what it would reach without that.

use std::ffi::{CString, c_char, c_int};
use std::fmt::Write;
use std::sync::Arc;

use crosslane::experiment::{EngineWork, FlowEnds, Options, Outcome, Scenario, Workload};
use crosslane::explain::explain;
use crosslane::lab::Lab;

use crate::channel::{CROSSLANE_C2H, CROSSLANE_H2C};
use crate::error::{Failure, Result, c_text, guard};
use crate::handle::{self, Handled};
use crate::structs::{self, sized};

/// Size of a transfer that names none, in bytes.
const DEFAULT_BYTES: u64 = 65_536;
/// Transfers of a run that names no number.
const DEFAULT_TRANSFERS: u32 = 64;
/// Most transfers of a run: more say nothing new.
const MOST_TRANSFERS: u32 = 1 << 20;
/// Steps of a search that names no number: the bottleneck and the next one.
const DEFAULT_STEPS: u32 = 2;

/// The bottlenecks of a run.
pub struct crosslane_why {
    _private: (),
}

/// The run that is explained. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_why_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Bytes of each transfer; 0 for 64 KiB.
    pub bytes: u64,
    /// Random seed of the lab; 0 for 1.
    pub seed: u64,
    /// CROSSLANE_H2C: the card reads host memory; CROSSLANE_C2H: it writes host memory.
    pub kind: u32,
    /// Number of transfers; 0 for 64.
    pub transfers: u32,
    /// Most bottlenecks, each found without those before it; 0 for 2.
    pub steps: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Description of the bottlenecks. The text lives until they are destroyed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_why_info {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Rate of the run, payload bytes per second.
    pub bytes_per_second: f64,
    /// Rate without the first bottleneck; that of the run if nothing that can be lifted limits it.
    pub next_bytes_per_second: f64,
    /// The bottlenecks, one a line, each with the rate without it and those before.
    pub text: *const c_char,
}

sized!(crosslane_why_attr, crosslane_why_info);

/// Object behind a handle on bottlenecks.
struct WhyObject {
    bytes_per_second: f64,
    next_bytes_per_second: f64,
    text: CString,
}

impl Handled for WhyObject {
    type Opaque = crosslane_why;
    const NAME: &'static str = "why";
}

/// Returns a number, or the default for 0.
const fn or(number: u32, default: u32) -> u32 {
    if number == 0 { default } else { number }
}

/// Runs the transfers, and searches.
fn found(lab: &str, endpoint: &str, attr: &crosslane_why_attr) -> Result<WhyObject> {
    let transfers = or(attr.transfers, DEFAULT_TRANSFERS);
    if attr.reserved != 0 || transfers > MOST_TRANSFERS {
        let sentence = format!("{transfers} transfers: {MOST_TRANSFERS} are possible");
        return Err(Failure::argument(sentence));
    }
    let bytes = if attr.bytes == 0 { DEFAULT_BYTES } else { attr.bytes };
    let seed = if attr.seed == 0 { 1 } else { attr.seed };
    let lab = Lab::load(lab)?;
    let ends = FlowEnds::find(&lab, &lab.build_engines(seed)?, &[endpoint])?;
    let options = Options::default().with_size_bytes(bytes).with_iterations(transfers.into());
    let workload = match attr.kind {
        CROSSLANE_H2C => Workload::Read(options),
        CROSSLANE_C2H => Workload::Write(options),
        kind => return Err(Failure::argument(format!("no runs of kind {kind} are explained"))),
    };
    let work = EngineWork { workload, flows: vec![ends] };
    let run = Scenario::new(Arc::new(lab), work);
    let outcome = run.run(&(), None)?;
    let steps = or(attr.steps, DEFAULT_STEPS) as usize;
    let explanation = explain(&run, outcome.figure(), steps, &|_| ())?;
    let value = explanation.figure.value;
    let mut text = String::new();
    for step in &explanation.steps {
        let limits = step.limits.iter().map(|limit| format!("{} ({})", limit.words, limit.lifted));
        let limits: Vec<String> = limits.collect();
        let _ = writeln!(text, "{}: {:.1} MB/s without", limits.join(" and "), step.value / 1e6);
    }
    Ok(WhyObject {
        bytes_per_second: value,
        next_bytes_per_second: explanation.steps.first().map_or(value, |step| step.value),
        text: c_text(text.trim_end()),
    })
}

/// Runs transfers between host memory and a card of a lab, and searches for what limits their rate:
/// by further runs, each without one limit. Takes as long as dozens of runs.
///
/// @param lab  Name or file of the lab, such as rosta:crosslane.
/// @param endpoint  Name of the card's endpoint.
/// @param attr  The run; NULL for the defaults.
/// @param why  Gets the bottlenecks.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `lab` and `endpoint` are NULL or end with a NUL; `attr` and `why` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_why_create(
    lab: *const c_char,
    endpoint: *const c_char,
    attr: *const crosslane_why_attr,
    why: *mut *mut crosslane_why,
) -> c_int {
    guard("crosslane_why_create", || {
        structs::check_place(why, "why")?;
        // SAFETY: as the caller promises.
        let (lab, endpoint, attr) = unsafe {
            let attr = structs::read_or_default(attr)?;
            (structs::text(lab, "lab")?, structs::text(endpoint, "endpoint")?, attr)
        };
        let made = handle::insert(found(&lab, &endpoint, &attr)?)?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(why, "why", made)? };
        Ok(0)
    })
}

/// Destroys a description of bottlenecks.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_why_destroy(why: *mut crosslane_why) -> c_int {
    guard("crosslane_why_destroy", || handle::take::<WhyObject>(why).map(|_| 0))
}

/// Describes bottlenecks.
///
/// @param info  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `info` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_why_describe(
    why: *const crosslane_why,
    info: *mut crosslane_why_info,
) -> c_int {
    guard("crosslane_why_describe", || {
        let object = handle::get::<WhyObject>(why)?;
        let described = crosslane_why_info {
            size: 0,
            bytes_per_second: object.bytes_per_second,
            next_bytes_per_second: object.next_bytes_per_second,
            text: object.text.as_ptr(),
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(info, described)? };
        Ok(0)
    })
}
