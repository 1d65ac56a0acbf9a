// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocked circuits, and the models that are built in.

use std::path::Path;

use crate::configurations::{
    CONFIGURATIONS, CardParameters, Configuration, NETWORK_CONFIGURATIONS, NetworkCardParameters,
};
use crate::error::CosimError;
use crate::memory::{CardMemory, WithMemory};
use crate::pins::{Inputs, MemoryInputs, MemoryOutputs, NetworkInputs, NetworkOutputs, Outputs};

/// Circuit with the ports of `crosslane_card`, or with those of another module.
pub trait Model<I = Inputs, O = Outputs>: Send {
    /// Runs one clock. `outputs` are sampled before its edge.
    fn clock(&mut self, inputs: &I, outputs: &mut O);

    /// Writes a trace of the circuit to a file from now on.
    ///
    /// # Errors
    /// Returns an error if the models are built without traces or the file cannot be written.
    fn trace_to(&mut self, file: &Path) -> Result<(), CosimError>;

    /// Reads the card's memory without taking time. Returns false if there is none, or not all of
    /// it exists.
    fn peek_memory(&self, _address: u64, _out: &mut [u8]) -> bool {
        false
    }
}

/// Whether this program contains models of the gateware.
pub const fn is_built() -> bool {
    cfg!(feature = "rtl")
}

/// Returns the model for these parameters, with the card's memory if they have one.
///
/// # Errors
/// Returns an error if no such model is built.
pub(crate) fn model_for(
    parameters: &CardParameters,
    memory: Option<Box<dyn CardMemory>>,
) -> Result<Box<dyn Model>, CosimError> {
    if !is_built() {
        return Err(CosimError::NotBuilt);
    }
    let found = CONFIGURATIONS.iter().find(|it| it.parameters == *parameters);
    let model = match memory {
        Some(memory) => found.and_then(|it| built_with_memory(it.name)).map(|circuit| {
            let (bytes, clock_ps) = (parameters.datapath_bytes, parameters.clock_ps);
            Box::new(WithMemory::new(circuit, memory, bytes, clock_ps)) as Box<dyn Model>
        }),
        None => found.and_then(built),
    };
    model.ok_or_else(|| none_for(parameters))
}

/// Circuit with the ports of `crosslane_card_with_memory`.
pub(crate) type MemoryModel = dyn Model<MemoryInputs, MemoryOutputs>;

/// Circuit with the ports of `crosslane_network_card`.
pub(crate) type NetworkModel = dyn Model<NetworkInputs, NetworkOutputs>;

/// Returns the model of a network processor for these parameters.
///
/// # Errors
/// Returns an error if no such model is built.
pub(crate) fn network_model_for(
    parameters: &NetworkCardParameters,
) -> Result<Box<NetworkModel>, CosimError> {
    if !is_built() {
        return Err(CosimError::NotBuilt);
    }
    let found = NETWORK_CONFIGURATIONS.iter().find(|it| it.parameters == *parameters);
    found.and_then(|it| built_network(it.name)).ok_or_else(|| {
        let all = NETWORK_CONFIGURATIONS.iter();
        let there =
            list(all.filter(|it| built_network(it.name).is_some()).map(|it| (it.name, it.of)));
        let nearest = NETWORK_CONFIGURATIONS
            .iter()
            .map(|it| (network_differences(parameters, &it.parameters), it.name));
        CosimError::NoConfiguration { why: nearest_of(nearest), there }
    })
}

/// Returns the model of a configuration if it is built.
#[cfg(feature = "rtl")]
pub(crate) fn built(configuration: &Configuration) -> Option<Box<dyn Model>> {
    crate::verilated::card(configuration.name).map(|model| Box::new(model) as Box<dyn Model>)
}

/// Returns the model of a card with memory by its name if it is built.
#[cfg(feature = "rtl")]
fn built_with_memory(name: &str) -> Option<Box<MemoryModel>> {
    crate::verilated::card_with_memory(name).map(|model| Box::new(model) as Box<MemoryModel>)
}

/// Returns the model of a card with memory by its name if it is built.
#[cfg(not(feature = "rtl"))]
fn built_with_memory(_name: &str) -> Option<Box<MemoryModel>> {
    None
}

/// Returns the model of a network processor by its name if it is built.
#[cfg(feature = "rtl")]
fn built_network(name: &str) -> Option<Box<NetworkModel>> {
    crate::verilated::network(name).map(|model| Box::new(model) as Box<NetworkModel>)
}

/// Returns the model of a network processor by its name if it is built.
#[cfg(not(feature = "rtl"))]
fn built_network(_name: &str) -> Option<Box<NetworkModel>> {
    None
}

/// Returns the model of a configuration if it is built.
#[cfg(not(feature = "rtl"))]
pub(crate) fn built(_configuration: &Configuration) -> Option<Box<dyn Model>> {
    None
}

/// Returns the error that names the differences and the models that exist.
fn none_for(parameters: &CardParameters) -> CosimError {
    let is_there = |it: &&Configuration| match it.parameters.memory {
        true => built_with_memory(it.name).is_some(),
        false => built(it).is_some(),
    };
    let there = list(CONFIGURATIONS.iter().filter(is_there).map(|it| (it.name, it.of)));
    let nearest =
        CONFIGURATIONS.iter().map(|it| (differences(parameters, &it.parameters), it.name));
    CosimError::NoConfiguration { why: nearest_of(nearest), there }
}

/// Lists the names of models and their labs.
fn list<'a>(models: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let there: Vec<String> = models.map(|(name, of)| format!("{name} (as in {of})")).collect();
    if there.is_empty() { "none".to_owned() } else { there.join(", ") }
}

/// Describes the differences from the model that has the fewest.
fn nearest_of<'a>(models: impl Iterator<Item = (Vec<String>, &'a str)>) -> String {
    let nearest = models.min_by_key(|(differences, _)| differences.len());
    nearest.map_or_else(String::new, |(differences, name)| match differences.is_empty() {
        true => format!("{name} was left out of the build"),
        false => format!("{}, unlike {name}", differences.join(", ")),
    })
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
            ("packets", p.packets.into()),
            ("push", p.push.into()),
            ("memory", p.memory.into()),
            ("bits of the window into memory", p.window_bits.into()),
            ("clock (ps)", p.clock_ps),
            ("completion time-out (clocks)", p.timeout_clocks),
        ]
    };
    different(values(wanted), values(other))
}

/// Returns each parameter of a network processor `wanted` that differs in `other`.
fn network_differences(
    wanted: &NetworkCardParameters,
    other: &NetworkCardParameters,
) -> Vec<String> {
    let values = |p: &NetworkCardParameters| {
        [
            ("datapath_bytes", u64::from(p.datapath_bytes)),
            ("links", p.links.into()),
            ("put_slots", p.put_slots.into()),
            ("get_slots", p.get_slots.into()),
            ("credit_slots", p.credit_slots.into()),
            ("tags of each link", p.tags.into()),
            ("max_read_bytes", p.max_read_bytes.into()),
            ("staging_bytes", p.staging_bytes.into()),
            ("max_write_bytes", p.max_write_bytes.into()),
            ("lanes", p.lanes.into()),
            ("64b/66b", p.blocks.into()),
            ("long_datagrams", p.long_datagrams.into()),
            ("channel_datagrams", p.channel_datagrams.into()),
            ("queue_datagrams", p.queue_datagrams.into()),
            ("retry_datagrams", p.retry_datagrams.into()),
            ("acknowledge_datagrams", p.acknowledge_datagrams.into()),
            ("acknowledge_within (clocks)", p.acknowledge_within_clocks),
            ("retry_timeout (clocks)", p.retry_timeout_clocks),
            ("refresh (clocks)", p.refresh_clocks),
            ("clock (ps)", p.clock_ps),
            ("completion time-out (clocks)", p.timeout_clocks),
        ]
    };
    different(values(wanted), values(other))
}

/// Describes the values that differ.
fn different<const N: usize>(own: [(&str, u64); N], other: [(&str, u64); N]) -> Vec<String> {
    let pairs = own.into_iter().zip(other).filter(|(own, other)| own.1 != other.1);
    pairs.map(|((name, own), (_, other))| format!("{name} is {own} instead of {other}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_model_for_is_told_by_what_is_different() {
        let parameters = CardParameters { tags: 5, ..CONFIGURATIONS[1].parameters };
        let error = none_for(&parameters).to_string();
        assert!(error.contains("tags is 5 instead of 64, unlike gen3x4"), "{error}");
        let error = model_for(&parameters, None).err().map(|error| error.to_string()).unwrap();
        assert_eq!(error.contains("--features rtl"), !is_built(), "{error}");
    }
}
