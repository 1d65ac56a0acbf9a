// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same nodes and network with this project's own engine and pipeline, beside the ceiling of
//! the card's link.

use crosslane_bridge::{CardPlace, MemoryPart, ServerOptions, TransferOptions};
use crosslane_driver::pattern_word;
use crosslane_experiment::{DataTlps, LabClient, LinkLoad, TwoNodes, least_ceiling};
use crosslane_fabric::{DirectionId, LinkDirection, LinkId};
use crosslane_host::{DmaMemory, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane_lab::{LabRegion, Simulation};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::Table;
use rayon::prelude::*;

use super::bridged::further;
use crate::comparison::Row;
use crate::context::Context;
use crate::error::ReproduceError;
use crate::experiment::{Experiment, paragraphs, size_words};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Size of the small transfer, and the two sizes from which 512 MiB is extrapolated.
const SIZES: [u64; 3] = [256 * KIB, 32 * MIB, 64 * MIB];
const WHOLE_BYTES: u64 = 512 * MIB;
/// Least share of the ceiling, at 512 MiB and at 256 KiB.
const LEAST_WHOLE: f64 = 0.97;
const LEAST_SMALL: f64 = 0.485;
/// Header of a TLP below 4 GiB, double words.
const HEADER_DW: u32 = 3;

/// Number of scenarios of this module.
pub(super) const SCENARIOS: u64 = 2;

/// Direction of data, to the card or from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToCard,
    FromCard,
}

impl Direction {
    const ALL: [Self; 2] = [Self::ToCard, Self::FromCard];

    const fn words(self) -> &'static str {
        match self {
            Self::ToCard => "remote to FPGA",
            Self::FromCard => "FPGA to remote",
        }
    }

    /// Returns the payload of the packets that carry the data: for completions as long as the host
    /// sends them, for writes Max_Payload_Size.
    fn payload_bytes(self, context: &Context<'_>) -> Result<u64, ReproduceError> {
        let lab = context.variant("crosslane")?;
        let host = lab.file().hosts.iter().find(|host| host.name == super::HOST);
        let host = host.ok_or_else(|| ReproduceError::experiment("lab sbdt", "it has no host"))?;
        Ok(match self {
            Self::ToCard => host.part.parameters.completer.completion_bytes.into(),
            Self::FromCard => host.part.port.capability.max_payload_bytes.into(),
        })
    }

    const fn heading(self) -> LinkDirection {
        match self {
            Self::ToCard => LinkDirection::Down,
            Self::FromCard => LinkDirection::Up,
        }
    }
}

/// A transfer, and the ceiling of its link.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    elapsed: Picoseconds,
    /// Ceiling in bytes per second, less the DLLPs of this run.
    ceiling: f64,
}

fn words_of(seed: u32, bytes: u64) -> Vec<u8> {
    (0..bytes / 4).flat_map(|n| pattern_word(seed, n as u32).to_le_bytes()).collect()
}

/// Returns the link above the card.
fn card_link(simulation: &Simulation, card: &str) -> Option<LinkId> {
    let port = simulation.find_port(card)?;
    simulation.with_fabric(|fabric| {
        let index = fabric.links().iter().position(|link| link.lower == port)?;
        Some(LinkId(index as u32))
    })
}

async fn memory(client: &LabClient, bytes: u64) -> Result<MemoryPart<LabRegion>, String> {
    let memory = client.rdma().allocate(bytes, PageSize::Huge).map_err(|e| e.to_string())?;
    let registered = client.register(&memory, RemoteAccess::READ_WRITE).await;
    Ok(MemoryPart { region: registered.map_err(|e| e.to_string())?, range: 0..bytes })
}

/// Puts and gets data of each size; times one of the two.
async fn measure(
    simulation: &Simulation,
    client: &LabClient,
    card: &str,
    (direction, payload_bytes): (Direction, u64),
    seed: u32,
) -> Result<Vec<Point>, String> {
    let link = card_link(simulation, card).ok_or("no link leads to the card")?;
    let id = DirectionId { link, heading: direction.heading() };
    let dllps = || simulation.with_fabric(|fabric| fabric.counters(id).dllp_bytes);
    let rate = simulation.with_fabric(|fabric| fabric.link(link).parameters.rate);
    let place = CardPlace { card: card.to_owned(), address: 0 };
    let options = TransferOptions::default();
    let mut points = Vec::new();
    for bytes in SIZES {
        let (from, back) = (memory(client, bytes).await?, memory(client, bytes).await?);
        let data = words_of(seed, bytes);
        from.region.memory().write(0, &data).map_err(|e| e.to_string())?;
        let before = dllps();
        let put = client.put(&from, &place, &options, |_| {}).await.map_err(|e| e.to_string())?;
        let between = dllps();
        let got = client.get(&place, &back, &options, |_| {}).await.map_err(|e| e.to_string())?;
        let after = dllps();
        let mut found = vec![0; bytes as usize];
        back.region.memory().read(0, &mut found).map_err(|e| e.to_string())?;
        if found != data {
            return Err(format!("data of {bytes} B are wrong"));
        }
        let (elapsed, dllp_bytes) = match direction {
            Direction::ToCard => (put.elapsed, between - before),
            Direction::FromCard => (got.elapsed, after - between),
        };
        let tlps = DataTlps {
            tlps: bytes.div_ceil(payload_bytes),
            data_bytes: bytes,
            wire_payload_bytes: bytes,
            header_dw: HEADER_DW,
        };
        let load = LinkLoad { link: (), rate, dllp_bytes, span: elapsed };
        let ceiling = least_ceiling([load], tlps).ok_or("no link is on the way")?;
        let ceiling = ceiling.less_dllps_bytes_per_second;
        points.push(Point { bytes, elapsed, ceiling });
    }
    Ok(points)
}

fn run(context: &Context<'_>, direction: Direction) -> Result<Vec<Point>, ReproduceError> {
    context.may_begin()?;
    let name = format!("bridged, our pipeline, {}", direction.words());
    let lab = context.variant("crosslane")?;
    let nodes = TwoNodes::find(&lab)?;
    let card = nodes.card().to_owned();
    let heading = (direction, direction.payload_bytes(context)?);
    let (seed, options) = (context.seed, ServerOptions::default());
    let ran = nodes.run(&lab, seed, &name, options, 1, async |simulation, clients| {
        let client = clients.first().ok_or("there is no client")?;
        measure(simulation, client, &card, heading, seed as u32).await
    });
    let (points, now) = ran?;
    context.done(&name, now);
    points.map_err(|problem| ReproduceError::experiment(name.as_str(), problem))
}

pub(super) fn experiment(context: &Context<'_>) -> Result<Experiment, ReproduceError> {
    let curves: Result<Vec<Vec<Point>>, ReproduceError> =
        Direction::ALL.into_par_iter().map(|direction| run(context, direction)).collect();
    let mut table = Table::headed(" | transfer | MB/s: | ceiling MB/s: | of it %: | wanted %:");
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    for (direction, points) in Direction::ALL.into_iter().zip(curves?) {
        let [small, less, more] = points[..] else { unreachable!("three sizes were run") };
        let times = [(less.bytes, less.elapsed.0), (more.bytes, more.elapsed.0)];
        let whole = WHOLE_BYTES as f64 * 1e12 / further(times, WHOLE_BYTES);
        let at_small = small.bytes as f64 * 1e12 / small.elapsed.0.max(1) as f64;
        for (bytes, rate, ceiling, least) in [
            (small.bytes, at_small, small.ceiling, LEAST_SMALL),
            (WHOLE_BYTES, whole, more.ceiling, LEAST_WHOLE),
        ] {
            let (words, share) = (direction.words(), rate / ceiling);
            table.row([
                words.to_owned(),
                size_words(bytes),
                format!("{:.0}", rate / 1e6),
                format!("{:.0}", ceiling / 1e6),
                format!("{:.1}", 100.0 * share),
                format!("{:.1}", 100.0 * least),
            ]);
            let size = size_words(bytes);
            let quantity = format!("our pipeline, {words}");
            rows.push(Row::simulated(quantity, &size, "MB/s", rate / 1e6));
            let quantity = format!("our pipeline, share of the ceiling, {words}");
            rows.push(Row::simulated(quantity, &size, "1", share));
            if share < least {
                missed.push(format!("{words}, {size}: {share:.3} of the ceiling, {least} wanted"));
            }
        }
    }
    if !missed.is_empty() {
        return Err(ReproduceError::experiment("our pipeline", missed.join("; ")));
    }
    let text = paragraphs([
        "The same nodes, adapters and network, with this project's engine on the card and its own \
         pipeline: eight slots of 1 MiB, several reads in flight, chunks posted behind each other, \
         small ones first and last, completions seen in memory. The paper's way to wait is not \
         in it: no chunk pays for a report.",
        "The ceiling is the card's link less SKP, for packets as the host sends them (completions \
         of 128 B) or takes them (writes of 256 B), less the DLLPs of the run.",
    ]);
    Ok(Experiment {
        title: "Our own pipeline beside the ceiling",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    })
}
