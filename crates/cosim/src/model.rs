// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocked circuits, and the models that are built in.

use std::path::Path;

use crate::configurations::{CONFIGURATIONS, CardParameters, Configuration};
use crate::error::CosimError;
use crate::pins::{Inputs, Outputs};

/// Circuit with the ports of `crosslane_card`.
pub trait Model: Send {
    /// Runs one clock. `outputs` are sampled before its edge.
    fn clock(&mut self, inputs: &Inputs, outputs: &mut Outputs);

    /// Writes a trace of the circuit to a file from now on.
    ///
    /// # Errors
    /// Returns an error if the models are built without traces or the file cannot be written.
    fn trace_to(&mut self, file: &Path) -> Result<(), CosimError>;
}

/// Whether this program contains models of the gateware.
pub const fn is_built() -> bool {
    cfg!(feature = "rtl")
}

/// Returns the model for these parameters.
///
/// # Errors
/// Returns an error if no such model is built.
pub(crate) fn model_for(parameters: &CardParameters) -> Result<Box<dyn Model>, CosimError> {
    if !is_built() {
        return Err(CosimError::NotBuilt);
    }
    let found = CONFIGURATIONS.iter().find(|it| it.parameters == *parameters);
    found.and_then(built).ok_or_else(|| none_for(parameters))
}

/// Returns the model of a configuration if it is built.
#[cfg(feature = "rtl")]
pub(crate) fn built(configuration: &Configuration) -> Option<Box<dyn Model>> {
    crate::verilated::Verilated::new(configuration.name)
        .map(|model| Box::new(model) as Box<dyn Model>)
}

/// Returns the model of a configuration if it is built.
#[cfg(not(feature = "rtl"))]
pub(crate) fn built(_configuration: &Configuration) -> Option<Box<dyn Model>> {
    None
}

/// Returns the error that names the differences and the models that exist.
fn none_for(parameters: &CardParameters) -> CosimError {
    let there: Vec<String> = CONFIGURATIONS
        .iter()
        .filter(|it| built(it).is_some())
        .map(|it| format!("{} (as in {})", it.name, it.of))
        .collect();
    let nearest = CONFIGURATIONS
        .iter()
        .map(|it| (differences(parameters, &it.parameters), it.name))
        .min_by_key(|(differences, _)| differences.len());
    let why =
        nearest.map_or_else(String::new, |(differences, name)| match differences.is_empty() {
            true => format!("{name} was left out of the build"),
            false => format!("{}, unlike {name}", differences.join(", ")),
        });
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    CosimError::NoConfiguration { why, there }
}

/// Returns each parameter of `wanted` that differs in `other`.
fn differences(wanted: &CardParameters, other: &CardParameters) -> Vec<String> {
    let values = |p: &CardParameters| {
        [
            ("datapath_bytes", u64::from(p.datapath_bytes)),
            ("h2c_channels", p.h2c_channels.into()),
            ("c2h_channels", p.c2h_channels.into()),
            ("peer_channels", p.peer_channels.into()),
            ("lanes", p.lanes.into()),
            ("tags", p.tags.into()),
            ("max_write_bytes", p.max_write_bytes.into()),
            ("max_read_bytes", p.max_read_bytes.into()),
            ("staging_bytes", p.staging_bytes.into()),
            ("lane_fifo_bytes", p.lane_fifo_bytes.into()),
            ("the window of a lane, bytes,", p.lane_window_bytes),
            ("table_descriptors", p.table_descriptors.into()),
            ("fetch_batch", p.fetch_batch.into()),
            ("completion_header_credits", p.completion_header_credits.into()),
            ("completion_data_credits", p.completion_data_credits.into()),
            ("clock (ps)", p.clock_ps),
            ("completion time-out (clocks)", p.timeout_clocks),
        ]
    };
    let pairs = values(wanted).into_iter().zip(values(other));
    pairs
        .filter(|(own, other)| own.1 != other.1)
        .map(|((name, own), (_, other))| format!("{name} is {own} instead of {other}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_model_for_is_told_by_what_is_different() {
        let parameters = CardParameters { tags: 5, ..CONFIGURATIONS[1].parameters };
        let error = none_for(&parameters).to_string();
        assert!(error.contains("tags is 5 instead of 64, unlike gen3x4"), "{error}");
        let error = model_for(&parameters).err().map(|error| error.to_string()).unwrap();
        assert_eq!(error.contains("--features rtl"), !is_built(), "{error}");
    }
}
