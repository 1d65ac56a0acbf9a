// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines of a lab: behavioural model or gateware.

use std::path::{Path, PathBuf};

use crosslane_cosim::{
    Card, CardMemory, CardParameters, CosimError, MOST_NODES, NETWORK_CONFIGURATIONS, NetworkCard,
    NetworkCardParameters,
};
use crosslane_device::network_processor::{LineCode, NetworkProcessor, NetworkProcessorParameters};
use crosslane_device::{
    Copying, Engine, EngineParameters, PUSH_BAR, PUSH_BYTES, UNLIMITED_COMPLETIONS, WINDOW_BAR,
};
use crosslane_fabric::Device;
use crosslane_pcie::units::Picoseconds;

use crate::board::Board;
use crate::file::{EndpointInstance, LabFile, TorusInstance};

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
        let memory = engine.card_memory.map(|it| Box::new(Board::new(it)) as Box<dyn CardMemory>);
        let mut card = Card::new(&card_of(endpoint, &engine)?, memory)?;
        if let Some(file) = &self.trace {
            card.trace_to(&file_of(file, &endpoint.name))?;
        }
        Ok(Box::new(card))
    }

    /// Makes the network processor of an endpoint.
    pub fn make_network(
        &self,
        lab: &LabFile,
        endpoint: &EndpointInstance,
        processor: NetworkProcessorParameters,
    ) -> Result<Box<dyn Device>, CosimError> {
        if self.kind == EngineKind::Model {
            return Ok(Box::new(NetworkProcessor::new(processor)));
        }
        let torus = lab.tori.iter().find(|torus| torus.nodes.contains(&endpoint.name));
        let mut card = NetworkCard::new(&network_card_of(endpoint, &processor, torus)?)?;
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

/// Returns the gateware configuration that matches a network processor's parameters and those of
/// its cables.
fn network_card_of(
    endpoint: &EndpointInstance,
    processor: &NetworkProcessorParameters,
    torus: Option<&TorusInstance>,
) -> Result<NetworkCardParameters, CosimError> {
    let not_so = |why: String| {
        let why = format!("{why}, which the gateware does not have");
        let models = NETWORK_CONFIGURATIONS.iter();
        let there: Vec<String> =
            models.map(|it| format!("{} (as in {})", it.name, it.of)).collect();
        Err(CosimError::NoConfiguration { why, there: there.join(", ") })
    };
    let Some(torus) = torus else { return not_so("no torus joins its links".to_owned()) };
    let (cable, requester) = (&torus.parameters, &endpoint.part.parameters.requester);
    let clock_ps = requester.clock.0;
    if torus.nodes.len() > MOST_NODES as usize {
        let nodes = torus.nodes.len();
        return not_so(format!("the torus has {nodes} nodes, more than {MOST_NODES}"));
    }
    if torus.share.is_some() {
        return not_so("the torus is divided among processes".to_owned());
    }
    let (what, takes_ps) = match cable.line_code {
        LineCode::Symbols => ("a symbol", cable.symbol_ps()),
        LineCode::Blocks => ("an eighth of a block", cable.block_ps() * u64::from(cable.lanes) / 8),
    };
    if takes_ps != clock_ps {
        return not_so(format!("{what} of a lane takes {takes_ps} ps and a clock {clock_ps} ps"));
    }
    let links = u16::from(processor.links);
    if !processor.tags.is_multiple_of(links) {
        return not_so(format!("{} tags are shared by {links} links", processor.tags));
    }
    let clocks = |span_ps: u64| span_ps / clock_ps;
    Ok(NetworkCardParameters {
        datapath_bytes: requester.datapath_bytes,
        links: processor.links,
        put_slots: processor.put_slots,
        get_slots: processor.get_slots,
        credit_slots: processor.credit_slots,
        tags: processor.tags / links,
        max_read_bytes: processor.max_read_bytes,
        staging_bytes: processor.staging_bytes,
        max_write_bytes: processor.max_write_bytes,
        lanes: cable.lanes,
        blocks: cable.line_code == LineCode::Blocks,
        long_datagrams: processor.long_datagrams,
        channel_datagrams: cable.end.channel_datagrams,
        queue_datagrams: cable.end.queue_datagrams,
        retry_datagrams: cable.end.retry_datagrams,
        acknowledge_datagrams: cable.end.acknowledge_datagrams,
        acknowledge_within_clocks: clocks(cable.end.acknowledge_within_ps),
        retry_timeout_clocks: clocks(cable.end.retry_timeout_ps),
        refresh_clocks: clocks(cable.end.refresh_ps),
        nodes: MOST_NODES,
        clock_ps,
        timeout_clocks: clocks(processor.completion_timeout.0),
    })
}

/// Bytes of the card's memory that the gateware reads ahead.
const READ_AHEAD_BYTES: u32 = 8192;

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
    let bars = &endpoint.part.parameters.bars;
    if engine.push && bars[PUSH_BAR].is_none_or(|bar| bar.size_bytes != PUSH_BYTES) {
        return not_so("the push aperture, BAR 4, is not of 4 KiB");
    }
    if let Some(memory) = &engine.card_memory {
        if memory.copying == Copying::InTurn {
            return not_so("bursts of the card's memory are read and written in turn");
        }
        if memory.read_ahead_bytes != READ_AHEAD_BYTES {
            let bytes = memory.read_ahead_bytes;
            return not_so(&format!("the engine reads {bytes} B of the card's memory ahead"));
        }
    }
    let window = bars[WINDOW_BAR].filter(|_| engine.card_memory.is_some());
    // The gateware leaves the count out where there is no limit.
    let limit = |credits| if credits == UNLIMITED_COMPLETIONS { 0 } else { credits };
    let bar1_bytes = bars[1].map_or(0, |bar| bar.size_bytes);
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
        push: engine.push,
        memory: engine.card_memory.is_some(),
        window_bits: window.map_or(0, |bar| bar.size_bytes.ilog2()),
        clock_ps: engine.clock.0,
        timeout_clocks: engine.completion_timeout.0 / engine.clock.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane_cosim::CONFIGURATIONS;
    use crosslane_device::CardMemoryParameters;

    #[test]
    fn labs_of_this_projects_engine_have_a_configuration() {
        let labs = ["rosta:crosslane", "minimal", "pciebench:crosslane"];
        for lab in labs.into_iter().chain(["rosta:memory", "kc705:crosslane"]) {
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
        let board = crate::open("kc705").unwrap();
        let endpoint = &board.file().endpoints[0];
        let engine = endpoint.part.engine.unwrap();
        let own = EngineParameters { header_on_datapath: false, ..engine };
        let error = card_of(endpoint, &own).unwrap_err().to_string();
        assert!(error.contains("are read and written in turn"), "{error}");
        let memory = engine.card_memory.map(|memory| CardMemoryParameters {
            copying: Copying::Overlapped,
            read_ahead_bytes: 16_384,
            ..memory
        });
        let error = card_of(endpoint, &EngineParameters { card_memory: memory, ..own });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("reads 16384 B of the card's memory ahead"), "{error}");
        let pushing = crate::open("pciebench:crosslane").unwrap();
        let constant = "variant.crosslane.part.nfp.bar4.size_bytes";
        let larger = pushing.with_constant(constant, 8192.into()).unwrap();
        let endpoint = &larger.file().endpoints[0];
        let error = card_of(endpoint, &endpoint.part.engine.unwrap()).unwrap_err().to_string();
        assert!(error.contains("the push aperture, BAR 4, is not of 4 KiB"), "{error}");
    }

    #[test]
    fn own_network_processors_have_a_configuration() {
        let card_of = |lab: &crate::Lab| {
            let (file, endpoint) = (lab.file(), &lab.file().endpoints[0]);
            let processor = endpoint.part.network_processor.unwrap();
            network_card_of(endpoint, &processor, file.tori.first())
        };
        let lab = crate::open("nget:crosslane").unwrap();
        let configuration = &NETWORK_CONFIGURATIONS[0];
        assert_eq!(card_of(&lab), Ok(configuration.parameters));
        let with_errors = lab.with_constant("part.cable.bit_error_rate", 1e-6).unwrap();
        assert_eq!(card_of(&with_errors), Ok(configuration.parameters));
        // Larger tori of such cards are routed.
        let larger = |sizes: &[u16]| card_of(&lab.with_torus(sizes).unwrap());
        assert_eq!(larger(&[4, 4, 4]), Ok(configuration.parameters));
        let error = larger(&[5, 13]).unwrap_err().to_string();
        assert!(error.contains("the torus has 65 nodes, more than 64"), "{error}");
        let dense = crate::open("nget:dense").unwrap();
        assert_eq!(card_of(&dense), Ok(NETWORK_CONFIGURATIONS[1].parameters));
        for (lab, wanted) in [
            (
                crate::open("torus:dense").unwrap(),
                "an eighth of a block of a lane takes 1650 ps and a clock 4000 ps",
            ),
            (crate::open("nget").unwrap(), "a symbol of a lane takes 2000 ps and a clock 4000 ps"),
            (crate::open("torus").unwrap(), "a symbol of a lane takes 2000 ps and a clock 4000 ps"),
        ] {
            let error = card_of(&lab).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn each_endpoint_has_its_own_trace() {
        assert_eq!(file_of(Path::new("a/t.fst"), "fpga1"), Path::new("a/t.fpga1.fst"));
        assert_eq!(file_of(Path::new("t"), "card"), Path::new("t.card.fst"));
    }
}
