// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines of a lab: behavioural model or gateware.

use std::path::{Path, PathBuf};

use crosslane_cosim::{Card, CardParameters, CosimError};
use crosslane_device::{Engine, EngineParameters, UNLIMITED_COMPLETIONS};
use crosslane_fabric::Device;
use crosslane_pcie::units::Picoseconds;

use crate::file::EndpointInstance;

/// The implementation of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The behavioural model.
    #[default]
    Model,
    /// The verilated gateware.
    Rtl,
}

/// The choice of engines for a lab.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engines {
    pub kind: EngineKind,
    /// File for the gateware's traces: one for each endpoint, with its name before the extension.
    pub trace: Option<PathBuf>,
}

impl Engines {
    /// Makes the engine of an endpoint.
    pub fn make(
        &self,
        endpoint: &EndpointInstance,
        engine: EngineParameters,
    ) -> Result<Box<dyn Device>, CosimError> {
        if self.kind == EngineKind::Model {
            return Ok(Box::new(Engine::new(engine)));
        }
        let mut card = Card::new(&card_of(endpoint, &engine)?)?;
        if let Some(file) = &self.trace {
            card.trace_to(&file_of(file, &endpoint.name))?;
        }
        Ok(Box::new(card))
    }
}

/// Inserts the endpoint's name: `trace.fst` of fpga1 becomes `trace.fpga1.fst`.
fn file_of(file: &Path, endpoint: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = file.extension().map_or("fst".into(), |ending| ending.to_string_lossy());
    file.with_file_name(format!("{stem}.{endpoint}.{ending}"))
}

/// Returns the gateware configuration that matches an engine's parameters.
fn card_of(
    endpoint: &EndpointInstance,
    engine: &EngineParameters,
) -> Result<CardParameters, CosimError> {
    let not_so = |why: &str| {
        let why = format!("{why}, which the gateware does not have");
        Err(CosimError::NoConfiguration { why, there: "none such".to_owned() })
    };
    if engine.header_on_datapath {
        return not_so("headers go through the datapath");
    }
    if engine.idle_clocks_per_tlp > 0 {
        return not_so("clocks are idle after each TLP");
    }
    if engine.descriptor_gap > Picoseconds::ZERO {
        return not_so("a gap follows each descriptor");
    }
    if engine.push {
        return not_so("descriptors are pushed with the doorbell (key push)");
    }
    if engine.card_memory.is_some() {
        return not_so("the card has a memory");
    }
    // The gateware leaves the count out where there is no limit.
    let limit = |credits| if credits == UNLIMITED_COMPLETIONS { 0 } else { credits };
    let bar1_bytes = endpoint.part.parameters.bars[1].map_or(0, |bar| bar.size_bytes);
    Ok(CardParameters {
        datapath_bytes: engine.datapath_bytes,
        h2c_channels: engine.h2c_channels,
        c2h_channels: engine.c2h_channels,
        peer_channels: engine.peer_channels,
        lanes: engine.lanes,
        tags: engine.tags,
        max_write_bytes: engine.max_write_bytes,
        max_read_bytes: engine.max_read_bytes,
        staging_bytes: engine.staging_bytes,
        lane_fifo_bytes: engine.lane_fifo_bytes,
        lane_window_bytes: bar1_bytes / u64::from(engine.lanes),
        table_descriptors: engine.table_descriptors,
        fetch_batch: engine.fetch_batch,
        completion_header_credits: limit(engine.completion_header_credits),
        completion_data_credits: limit(engine.completion_data_credits),
        packets: engine.packets,
        clock_ps: engine.clock.0,
        timeout_clocks: engine.completion_timeout.0 / engine.clock.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_cosim::CONFIGURATIONS;

    #[test]
    fn labs_of_this_projects_engine_have_a_configuration() {
        for lab in ["rosta:crosslane", "minimal"] {
            let loaded = crate::open(lab).unwrap();
            for endpoint in &loaded.file().endpoints {
                let card = card_of(endpoint, &endpoint.part.engine.unwrap()).unwrap();
                let found = CONFIGURATIONS.iter().find(|it| it.parameters == card);
                assert_eq!(found.map(|it| it.of), Some(lab), "{card:?}");
            }
        }
        let document = crate::open("rosta").unwrap();
        let endpoint = &document.file().endpoints[0];
        let error = card_of(endpoint, &endpoint.part.engine.unwrap()).unwrap_err().to_string();
        assert!(error.contains("headers go through the datapath"), "{error}");
        let pushing = crate::open("pciebench:crosslane").unwrap();
        let endpoint = &pushing.file().endpoints[0];
        let error = card_of(endpoint, &endpoint.part.engine.unwrap()).unwrap_err().to_string();
        assert!(error.contains("descriptors are pushed with the doorbell"), "{error}");
    }

    #[test]
    fn each_endpoint_has_its_own_trace() {
        assert_eq!(file_of(Path::new("a/t.fst"), "fpga1"), Path::new("a/t.fpga1.fst"));
        assert_eq!(file_of(Path::new("t"), "card"), Path::new("t.card.fst"));
    }
}
