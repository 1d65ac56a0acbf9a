// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short messages from gpu1 to gpu2, and the terms of their time.

use crosslane_driver::network_processor::{Modes, TorusDimension};
use crosslane_experiment::{OneWayOptions, SendWay, host_of, one_way};
use crosslane_fabric::parameters::PortParameters;
use crosslane_host::Reason;
use crosslane_lab::Lab;
use crosslane_lab::file::HostBuffers;
use crosslane_pcie::link::{LinkRate, TLP_FRAMING_BYTES};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus::{Coordinates, Direction, Node, NodeOptions};

use crate::context::{Context, TIME_LIMIT};
use crate::error::Result;

/// Messages of a run.
const ROUNDS: u32 = 16;
/// Time after which a message has failed.
const TIMEOUT: Picoseconds = Picoseconds::from_ns(1_000_000);
/// Bytes of a datagram on the link.
const DATAGRAM_BYTES: u64 = 136;
/// Bytes of a datagram's payload, and of a full line of stores.
const LINE_BYTES: u64 = 64;

/// Returns the time of messages of one size from fpga1 to fpga2 in a lab, ns.
pub(super) fn one_way_ns(
    context: &Context<'_>,
    lab: &Lab,
    way: SendWay,
    bytes: u64,
) -> Result<f64> {
    let name = format!("{way} of {bytes} B to a neighbour");
    let found = context.run_verified(&name, lab, async |simulation| {
        let open = async |at: usize| {
            let dimension = TorusDimension { size: 2, position: at as u16, is_open: true };
            let options = NodeOptions::default().with_modes(Modes::FASTEST);
            let name = ["fpga1", "fpga2"][at];
            let bus = simulation.bus(host_of(simulation, name)?);
            Ok::<_, Reason>(Node::open(bus, name, Coordinates::new(&[dimension]), options).await?)
        };
        let (from, to) = (open(0).await?, open(1).await?);
        from.links_up(TIME_LIMIT).await?;
        to.links_up(TIME_LIMIT).await?;
        let seed = context.seed as u32;
        let options = OneWayOptions::new(bytes, way)
            .with_rounds(ROUNDS)
            .with_seed(seed)
            .with_timeout(TIMEOUT);
        Ok::<_, Reason>(one_way(&from, &to, Direction::Up(0), &options).await?)
    })?;
    Ok(found.typical().as_ns())
}

/// The terms of a message's time.
pub(super) struct Terms {
    /// Each term with its name, ns.
    pub terms: Vec<(String, f64)>,
}

impl Terms {
    pub fn sum_ns(&self) -> f64 {
        self.terms.iter().map(|(_, ns)| ns).sum()
    }
}

/// Constants of the lab that affect a message.
struct Way<'a> {
    host: [&'a PortParameters; 2],
    card: &'a PortParameters,
    rate: LinkRate,
    flight_ns: f64,
    header_dw: u32,
}

impl Way<'_> {
    /// Returns the time of TLPs on the host's link.
    fn wire_ns(&self, header_dw: u32, payloads: &[u64]) -> f64 {
        let overhead = u64::from(TLP_FRAMING_BYTES + 4 * header_dw);
        let bytes: u64 = payloads.iter().map(|payload| payload + overhead).sum();
        bytes as f64 / self.rate.bytes_per_second() * 1e9 + self.flight_ns
    }

    /// Returns the terms of a host's port, the link, and the card's port.
    fn down(&self, what: &str, wire_ns: f64) -> Vec<(String, f64)> {
        vec![
            (format!("{what}: host's port"), self.host[0].transmit_latency.as_ns()),
            (format!("{what}: wire"), wire_ns),
            (format!("{what}: card's port"), self.card.receive_latency.as_ns()),
        ]
    }

    fn up(&self, what: &str, host: usize, wire_ns: f64) -> Vec<(String, f64)> {
        vec![
            (format!("{what}: card's port"), self.card.transmit_latency.as_ns()),
            (format!("{what}: wire"), wire_ns),
            (format!("{what}: host's port"), self.host[host].receive_latency.as_ns()),
        ]
    }
}

/// Returns the terms of a message of up to 64 B, from the lab's constants alone.
pub(super) fn terms(lab: &Lab, way: SendWay, bytes: u64) -> Terms {
    let file = lab.file();
    let [near, far] = [&file.hosts[0], &file.hosts[1]];
    let card = &file.endpoints[0].part;
    let processor = card.network_processor.expect("fpga1 is a network processor");
    let cable = &file.tori[0].parameters;
    let link = file.links[0].parameters;
    let cpu = &near.part.parameters.cpu;
    let meets = Way {
        host: [&near.part.port, &far.part.port],
        card: &card.port,
        rate: link.rate,
        flight_ns: link.flight.as_ns(),
        header_dw: if near.buffers == HostBuffers::Below4Gib { 3 } else { 4 },
    };
    let stores = |bytes: u64| {
        let each = cpu.combining.map_or(cpu.uncached_store, |combining| combining.store);
        let count = bytes.div_ceil(u64::from(cpu.widest_store_bytes));
        (format!("{count} stores into combining buffers"), count as f64 * each.as_ns())
    };
    let mut terms = Vec::new();
    match way {
        SendWay::Put => {
            // Control word and data: one full line, and the rest in writes of 8 B.
            let whole = bytes + 8;
            terms.push(stores(whole));
            let full = std::iter::repeat_n(LINE_BYTES, (whole / LINE_BYTES) as usize);
            let left = whole % LINE_BYTES;
            let rest = std::iter::repeat_n(8, left.div_ceil(8) as usize);
            let payloads: Vec<u64> = full.chain(rest).collect();
            terms.extend(meets.down("put", meets.wire_ns(4, &payloads)));
        }
        SendWay::Get => {
            terms.push(stores(LINE_BYTES));
            terms.extend(meets.down("request", meets.wire_ns(4, &[LINE_BYTES])));
            terms.push(("request in the engine".into(), processor.request_latency.as_ns()));
            terms.extend(meets.up("read", 0, meets.wire_ns(meets.header_dw, &[0])));
            let completer = near.part.parameters.completer;
            terms.push(("host memory, read".into(), completer.read_latency.as_ns()));
            terms.extend(meets.down("completion", meets.wire_ns(3, &[bytes])));
            terms.push(("datagram in the engine".into(), processor.send_latency.as_ns()));
        }
    }
    let columns = DATAGRAM_BYTES / u64::from(cable.lanes);
    let datagram_ns = (columns * cable.symbol_ps()) as f64 / 1e3;
    terms.push(("datagram on the torus link".into(), datagram_ns));
    terms.push(("transceiver, cable, transceiver".into(), cable.latency.as_ns()));
    terms.push(("datagram in the far engine".into(), processor.receive_latency.as_ns()));
    let payloads = [bytes, 8];
    terms.extend(meets.up("data, notification", 1, meets.wire_ns(meets.header_dw, &payloads)));
    let completer = far.part.parameters.completer;
    terms.push(("far host's memory".into(), completer.write_latency.as_ns()));
    Terms { terms }
}
