// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nearest-neighbour exchange in a lab's torus, beside what its links can carry.

use crosslane_bench::{BenchError, HaloMeasured, HaloNode, HaloOptions};
use crosslane_driver::network_processor::TorusDimension;
use crosslane_lab::file::HostBuffers;
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_pcie::units::Picoseconds;
use crosslane_torus::{Node, NodeOptions, Place};
use futures_util::future::try_join_all;

use super::MODES;
use super::run::host_of;
use crate::error::ReproduceError;

/// Longest simulated time of a run.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// Payload of a datagram, and its bytes on the wire.
const DATAGRAM_BYTES: [f64; 2] = [128.0, 136.0];
/// Columns between skip sets, and with one (docs/torus-link.md).
const SKIP_COLUMNS: [f64; 2] = [1280.0, 1283.0];
/// What is run: an exchange in the torus of a lab.
#[derive(Clone, Debug)]
pub struct HaloRun<'a> {
    /// A lab with one torus.
    pub lab: &'a Lab,
    /// What is exchanged.
    pub options: HaloOptions,
    /// Everything random comes from it.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct HaloOutcome {
    /// Sizes of the torus.
    pub sizes: Vec<u16>,
    /// What each node has measured.
    pub nodes: Vec<HaloMeasured>,
    /// From the beginning until the slowest node had ended, for each exchange.
    pub exchange: Picoseconds,
    /// Directions in which a node has neighbours.
    pub directions: usize,
    /// Bytes that a node sends in an exchange, and as many come.
    pub node_bytes: u64,
    /// Bytes of the largest face.
    pub face_bytes: u64,
    /// Payload that a torus link carries, bytes per second, one way.
    pub link_rate: f64,
    /// Payload that the host's link carries towards the host, in the engine's writes.
    pub host_rate: f64,
    /// Simulated time at the end.
    pub now: Picoseconds,
}

impl HaloOutcome {
    /// Faces that were compared, and those that were wrong.
    #[must_use]
    pub fn checked(&self) -> (u64, u64) {
        let nodes = self.nodes.iter();
        nodes.fold((0, 0), |(checked, wrong), one| (checked + one.checked, wrong + one.wrong))
    }

    /// Bytes per second of the link with the largest face.
    #[must_use]
    pub fn link_bytes_per_second(&self) -> f64 {
        self.face_bytes as f64 / self.exchange.as_seconds()
    }

    /// Bytes per second that come to each host.
    #[must_use]
    pub fn node_bytes_per_second(&self) -> f64 {
        self.node_bytes as f64 / self.exchange.as_seconds()
    }
}

impl HaloRun<'_> {
    fn name(&self) -> String {
        let nodes = self.lab.file().tori.first().map_or(0, |torus| torus.nodes.len());
        format!("halo, {nodes} nodes")
    }

    /// Runs it, and compares all that has come.
    ///
    /// # Errors
    /// A lab without one torus, and what does not run to its end.
    pub fn run(&self) -> Result<HaloOutcome, ReproduceError> {
        let name = self.name();
        let failed = |problem: String| ReproduceError::experiment(name.as_str(), problem);
        let [torus] = &self.lab.file().tori[..] else {
            return Err(failed(format!("lab {} does not have one torus", self.lab.name())));
        };
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        simulation.set_time_limit(Some(TIME_LIMIT));
        let node_options = NodeOptions { modes: MODES, ..NodeOptions::default() };
        let mut ready = Vec::new();
        for (number, processor) in (0..).zip(&torus.nodes) {
            let (bus, options) = (simulation.bus(host_of(&simulation, processor)?), self.options);
            let (processor, place) = (processor.clone(), self.place(number));
            let prepared = async move {
                let node = Node::open(bus, &processor, place, node_options).await?;
                HaloNode::prepare(node, options).await
            };
            ready.push(simulation.spawn(&format!("node {number}"), prepared));
        }
        let run = async {
            let nodes: Vec<HaloNode<LabBus>> = try_join_all(ready).await?;
            let nodes = nodes.into_iter().zip(0_u32..);
            let exchanges = nodes.map(|(node, number)| {
                let exchange = async move {
                    let measured = node.exchange().await?;
                    Ok::<_, BenchError>((node, measured))
                };
                simulation.spawn(&format!("exchange of node {number}"), exchange)
            });
            let exchanges: Vec<_> = exchanges.collect();
            try_join_all(exchanges).await
        };
        let result = simulation.run(&name, run).map_err(|stuck| failed(stuck.to_string()))?;
        let done = result.map_err(|error: BenchError| failed(error.to_string()))?;
        let nodes: Vec<HaloMeasured> = done.iter().map(|(_, measured)| measured.clone()).collect();
        let (errors, now) = simulation.with_fabric(|fabric| (fabric.errors().len(), fabric.now()));
        if errors > 0 {
            return Err(failed(format!("{errors} errors on the links")));
        }
        Ok(self.outcome(nodes, now))
    }
}

impl HaloRun<'_> {
    /// Where a node is in the torus.
    fn place(&self, number: u16) -> Place {
        let torus = &self.lab.file().tori[0].torus;
        let positions = torus.position(number);
        let dimensions = torus.dimensions().iter().zip(positions).map(|(dimension, position)| {
            TorusDimension { size: dimension.size, position, is_open: !dimension.wraps }
        });
        Place::new(&dimensions.collect::<Vec<_>>())
    }

    fn outcome(&self, nodes: Vec<HaloMeasured>, now: Picoseconds) -> HaloOutcome {
        let file = self.lab.file();
        let torus = &file.tori[0];
        let cable = &torus.parameters;
        let lanes_rate = f64::from(cable.lanes) * cable.lane_bits_per_second as f64;
        // 8b/10b.
        let bytes_rate = lanes_rate * 0.8 / 8.0;
        let [payload, whole] = DATAGRAM_BYTES;
        let [between, with_skip] = SKIP_COLUMNS;
        let begun = nodes.iter().map(|node| node.begun).min().unwrap_or_default();
        let ended = nodes.iter().filter_map(|node| node.ended.last().copied()).max();
        let elapsed = ended.unwrap_or(begun).since(begun);
        let exchanges = u64::from(self.options.exchanges.max(1));
        let dimensions = torus.torus.dimensions();
        let sizes = dimensions.iter().map(|dimension| dimension.size).collect();
        let bytes: Vec<u64> = (self.place(0).directions())
            .map(|direction| self.options.face_bytes(direction.dimension().into()))
            .collect();
        HaloOutcome {
            sizes,
            exchange: Picoseconds(elapsed.0 / exchanges),
            directions: bytes.len(),
            node_bytes: bytes.iter().sum(),
            face_bytes: bytes.iter().copied().max().unwrap_or(0),
            link_rate: bytes_rate * payload / whole * between / with_skip,
            host_rate: self.host_rate(),
            nodes,
            now,
        }
    }

    /// What the link of the first node carries in writes to its host.
    fn host_rate(&self) -> f64 {
        let file = self.lab.file();
        let name = &file.tori[0].nodes[0];
        let link = file.links.iter().find(|link| link.lower == *name);
        let endpoint = file.endpoints.iter().find(|endpoint| endpoint.name == *name);
        let host = link.and_then(|link| file.hosts.iter().find(|host| host.name == link.upper));
        let (Some(link), Some(endpoint), Some(host)) = (link, endpoint, host) else { return 0.0 };
        let payload = endpoint.part.parameters.requester.max_write_bytes;
        let most = u32::from(host.part.port.capability.max_payload_bytes);
        let most = most.min(endpoint.part.port.capability.max_payload_bytes.into());
        let header_dw = match host.buffers {
            HostBuffers::Below4Gib => 3,
            HostBuffers::Above4Gib => 4,
        };
        let payload = payload.min(most).min(DATAGRAM_BYTES[0] as u32);
        write_ceiling_bytes_per_second(link.parameters.rate, header_dw, payload)
    }
}
