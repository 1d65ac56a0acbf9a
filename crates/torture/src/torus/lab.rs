// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The torus of a seed: the shipped lab `torus` with other sizes and constants.

use std::sync::Arc;

use crosslane_cosim::{NETWORK_CONFIGURATIONS, NetworkCardParameters};
use crosslane_device::network_processor::{CableParameters, LineCode, PUT_BAR};
use crosslane_lab::file::LabFile;
use crosslane_lab::file::parts::EndpointPart;
use crosslane_lab::{EngineKind, Lab};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;
use crosslane_torus_link::block::BLOCK_BYTES;
use crosslane_torus_link::frame::{CHANNELS, DATAGRAM_OVERHEAD_BYTES, payload_bytes};

use crate::check::Check;
use crate::lab_text::pick;
use crate::scene::{Stream, stream};

/// Sizes of tori: large enough for every kind of routing, small enough for many seeds.
const SIZES: [&[u16]; 12] = [
    &[2],
    &[2],
    &[2],
    &[3],
    &[4],
    &[5],
    &[2, 2],
    &[3, 2],
    &[4, 3],
    &[2, 2, 2],
    &[3, 1, 2],
    &[2, 2, 2, 2],
];

/// Sizes of tori of gateware: rings, as a card has two links.
const GATEWARE_SIZES: [&[u16]; 4] = [&[2], &[2], &[3], &[4]];
/// Configurations of the gateware.
const CONFIGURATIONS: [&str; 3] = ["two_links", "two_small_dense_links", "two_dense_links"];

/// Line codes, and whether datagrams are long, of one model in four; others have neither.
const DENSE: [(LineCode, bool); 3] =
    [(LineCode::Blocks, true), (LineCode::Blocks, false), (LineCode::Symbols, true)];

/// Shares of bits that arrive wrong.
const ERROR_RATES: [f64; 5] = [0.0, 0.0, 1e-7, 1e-5, 1e-4];

/// Makes the lab of a seed. Line code and datagrams were added later, without changing the streams
/// of other seeds.
pub(super) fn lab(seed: u64, engines: EngineKind) -> Lab {
    let rng = &mut stream(seed, Stream::Lab);
    let cables = &mut stream(seed, Stream::Cables);
    let sizes = match engines {
        EngineKind::Model => pick(rng, &SIZES),
        EngineKind::Rtl => pick(rng, &GATEWARE_SIZES),
    };
    let lab = crosslane_lab::open("torus").and_then(|lab| lab.with_torus(sizes));
    let lab = lab.and_then(|lab| {
        lab.edited(|file| match engines {
            EngineKind::Model if matches!(seed % 8, 1 | 7) => {
                change(rng, file, pick(cables, &DENSE));
            }
            EngineKind::Model => change(rng, file, (LineCode::Symbols, false)),
            EngineKind::Rtl => fit(rng, file, pick(cables, &CONFIGURATIONS)),
        })
    });
    let lab = lab.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
    lab.with_engines(engines)
}

/// Gives cards and cables the sizes of the gateware, and cables any length and errors.
fn fit(rng: &mut Random, file: &mut LabFile, configuration: &str) {
    let found = NETWORK_CONFIGURATIONS.iter().find(|it| it.name == configuration);
    let card: NetworkCardParameters = found.expect("the configuration is listed").parameters;
    let clocks = |count: u64| count * card.clock_ps;
    let word_ps = u64::from(card.lanes) * clocks(card.word_clocks());
    let cable = CableParameters {
        lanes: card.lanes,
        lane_bits_per_second: card.word_bits() * 1_000_000_000_000 / word_ps,
        line_code: if card.blocks { LineCode::Blocks } else { LineCode::Symbols },
        latency: ns(rng.u64(10..500)),
        bit_error_rate: pick(rng, &ERROR_RATES),
        bring_up: ns(0),
        long_datagrams: card.long_datagrams,
        end: crosslane_torus_link::EndParameters {
            channel_datagrams: card.channel_datagrams,
            retry_datagrams: card.retry_datagrams,
            queue_datagrams: card.queue_datagrams,
            acknowledge_datagrams: card.acknowledge_datagrams,
            acknowledge_within_ps: clocks(card.acknowledge_within_clocks),
            retry_timeout_ps: clocks(card.retry_timeout_clocks),
            refresh_ps: clocks(card.refresh_clocks),
        },
    };
    for torus in &mut file.tori {
        torus.parameters = cable;
    }
    let Some(mut part) = file.endpoints.first().map(|endpoint| (*endpoint.part).clone()) else {
        return;
    };
    give_datagrams(&mut part, card.long_datagrams);
    part.parameters.requester.datapath_bytes = card.datapath_bytes;
    part.parameters.requester.clock = Picoseconds(card.clock_ps);
    if let Some(processor) = part.network_processor.as_mut() {
        processor.links = card.links;
        processor.tags = card.tags * u16::from(card.links);
        processor.max_read_bytes = card.max_read_bytes;
        processor.max_write_bytes = card.max_write_bytes;
        processor.staging_bytes = card.staging_bytes;
        processor.put_slots = card.put_slots;
        processor.get_slots = card.get_slots;
        processor.credit_slots = card.credit_slots;
    }
    let part = Arc::new(part);
    for endpoint in &mut file.endpoints {
        endpoint.part = Arc::clone(&part);
    }
}

/// Gives a card datagrams of this length, and a put aperture with room for them.
fn give_datagrams(part: &mut EndpointPart, are_long: bool) {
    if let Some(processor) = part.network_processor.as_mut() {
        processor.long_datagrams = are_long;
    }
    if let Some(bar) = part.parameters.bars[PUT_BAR].as_mut().filter(|_| are_long) {
        bar.size_bytes *= 2;
    }
}

fn change(rng: &mut Random, file: &mut LabFile, (line_code, are_long): (LineCode, bool)) {
    let cable = cable(rng, line_code, are_long);
    for torus in &mut file.tori {
        torus.parameters = cable;
    }
    let Some(mut part) = file.endpoints.first().map(|endpoint| (*endpoint.part).clone()) else {
        return;
    };
    give_datagrams(&mut part, are_long);
    if let Some(processor) = part.network_processor.as_mut() {
        processor.tags = rng.u16(1..=64);
        processor.max_read_bytes = pick(rng, &[128, 256, 512]);
        processor.max_write_bytes = pick(rng, &[128, 256, 512]);
        let (longest, shortest) = (processor.payload_bytes(), payload_bytes(false) as u32);
        let ends = 2 * (longest - shortest);
        processor.staging_bytes = processor.max_read_bytes + ends + rng.u32(2 * shortest..8192);
        processor.put_slots = pick(rng, &[1, 2, 8, 16]);
        processor.get_slots = rng.u16(4..=64);
        processor.credit_slots = rng.u16(4..=64);
        processor.request_interval = ns(rng.u64(0..20));
        processor.receive_latency = ns(rng.u64(0..100));
        processor.send_latency = ns(rng.u64(0..100));
    }
    let part = Arc::new(part);
    for endpoint in &mut file.endpoints {
        endpoint.part = Arc::clone(&part);
    }
}

/// Makes a cable whose times are in the proportions that `docs/torus-link.md`, *Budget*, demands.
fn cable(rng: &mut Random, line_code: LineCode, long_datagrams: bool) -> CableParameters {
    let lanes = pick(rng, &[1, 4, 8]);
    let lane_bits_per_second = pick(rng, &[2_500_000_000, 5_000_000_000]);
    let latency = ns(rng.u64(10..500));
    let mut cable = CableParameters {
        lanes,
        lane_bits_per_second,
        line_code,
        latency,
        bit_error_rate: pick(rng, &ERROR_RATES),
        bring_up: ns(rng.u64(100..5000)),
        long_datagrams,
        end: crosslane_torus_link::EndParameters {
            channel_datagrams: pick(rng, &[1, 2, 3, 8, 32, 64]),
            retry_datagrams: pick(rng, &[1, 2, 8, 32, 127]),
            queue_datagrams: pick(rng, &[1, 2, 8]),
            acknowledge_datagrams: pick(rng, &[1, 2, 8, 16]),
            acknowledge_within_ps: 0,
            retry_timeout_ps: 0,
            refresh_ps: 0,
        },
    };
    let bytes = (payload_bytes(long_datagrams) + DATAGRAM_OVERHEAD_BYTES) as u64;
    let datagram_ps = match line_code {
        LineCode::Symbols => bytes / u64::from(lanes) * cable.symbol_ps(),
        LineCode::Blocks => bytes / BLOCK_BYTES as u64 * cable.block_ps(),
    };
    let acknowledged = u64::from(cable.end.acknowledge_datagrams);
    let round_ps = (acknowledged + 3) * datagram_ps + 2 * latency.0;
    cable.end.acknowledge_within_ps = (acknowledged + 4) * datagram_ps;
    cable.end.retry_timeout_ps =
        rng.u64(2..5) * (round_ps + cable.end.acknowledge_within_ps + 64 * datagram_ps);
    cable.end.refresh_ps = rng.u64(2..5) * round_ps;
    cable
}

/// Returns a time within which all leave that can wait in a link's queues: longer than usual if
/// fewer datagrams are in flight than one acknowledgement covers, so that each few wait for theirs.
pub(super) fn word_within(cable: &CableParameters) -> Picoseconds {
    let end = &cable.end;
    if end.retry_datagrams >= end.acknowledge_datagrams {
        return Picoseconds(0);
    }
    let queued = CHANNELS as u64 * u64::from(end.queue_datagrams);
    let windows = queued.div_ceil(u64::from(end.retry_datagrams));
    // A few datagrams, the wait of their acknowledgement, which is as long, and the latency.
    Picoseconds(2 * windows * (end.acknowledge_within_ps + cable.latency.0))
}

fn ns(time: u64) -> Picoseconds {
    Picoseconds::from_ns(time)
}
