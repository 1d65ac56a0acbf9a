// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same nodes and network with this project's own engine and pipeline, beside the ceiling of
//! the card's link.

use crosslane_bridge::{CardPlace, MemoryPart, ServerOptions, TransferOptions};
use crosslane_experiment::pattern::{compare_memory, fill_memory};
use crosslane_experiment::{DataErrors, DataTlps, LabClient, LinkLoad, TwoNodes, least_ceiling};
use crosslane_fabric::{DirectionId, LinkDirection, LinkId};
use crosslane_host::{PageSize, Rdma, RdmaRegion, Reason, RemoteAccess};
use crosslane_lab::file::parts::RootComplexPart;
use crosslane_lab::{LabRegion, Simulation};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::Table;

use super::bridged::further;
use crate::comparison::Row;
use crate::context::Context;
use crate::error::{ReproduceError, Result};
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
pub(super) const SCENARIOS: u64 = 1;

/// Direction of data.
struct Direction {
    words: &'static str,
    /// The same on the card's link.
    heading: LinkDirection,
    /// Payload of the packets that carry the data.
    payload_bytes: fn(&RootComplexPart) -> u64,
}

/// To the card, by completions as long as the host sends them; and from it, by writes of
/// Max_Payload_Size.
const DIRECTIONS: [Direction; 2] = [
    Direction {
        words: "remote to FPGA",
        heading: LinkDirection::Down,
        payload_bytes: |host| host.parameters.completer.completion_bytes.into(),
    },
    Direction {
        words: "FPGA to remote",
        heading: LinkDirection::Up,
        payload_bytes: |host| host.port.capability.max_payload_bytes.into(),
    },
];

/// A transfer, and the ceiling of its link.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    elapsed: Picoseconds,
    /// Ceiling in bytes per second, less the DLLPs of this run.
    ceiling: f64,
}

/// Returns the link above the card.
fn card_link(simulation: &Simulation, card: &str) -> Option<LinkId> {
    let port = simulation.find_port(card)?;
    simulation.with_fabric(|fabric| fabric.port(port).link)
}

async fn memory(client: &LabClient, bytes: u64) -> Result<MemoryPart<LabRegion>, Reason> {
    let memory = client.rdma().allocate(bytes, PageSize::Huge)?;
    let region = client.register(&memory, RemoteAccess::READ_WRITE).await?;
    Ok(MemoryPart { region, range: 0..bytes })
}

/// Puts and gets data of each size. Returns the points of each of [`DIRECTIONS`].
async fn measure(
    simulation: &Simulation,
    client: &LabClient,
    card: &str,
    payload_bytes: [u64; 2],
    seed: u32,
) -> Result<[Vec<Point>; 2], Reason> {
    let link = card_link(simulation, card).ok_or("no link leads to the card")?;
    let dllps = |direction: Direction| {
        let id = DirectionId { link, heading: direction.heading };
        simulation.with_fabric(|fabric| fabric.counters(id).dllp_bytes)
    };
    let rate = simulation.with_fabric(|fabric| fabric.link(link).parameters.rate);
    let place = CardPlace { card: card.to_owned(), address: 0 };
    let options = TransferOptions::default();
    let mut points = [Vec::new(), Vec::new()];
    for bytes in SIZES {
        let (from, back) = (memory(client, bytes).await?, memory(client, bytes).await?);
        fill_memory(from.region.memory(), bytes, seed)?;
        let before = DIRECTIONS.map(dllps);
        let put = client.put(&from, &place, &options, |_| {}).await?;
        let between = DIRECTIONS.map(dllps);
        let got = client.get(&place, &back, &options, |_| {}).await?;
        let after = DIRECTIONS.map(dllps);
        let mut errors = DataErrors::default();
        compare_memory(back.region.memory(), 0, bytes, seed, &mut errors)?;
        if errors.words > 0 {
            return Err(format!("data of {bytes} B are wrong").into());
        }
        let runs = [(put.elapsed, between[0] - before[0]), (got.elapsed, after[1] - between[1])];
        for (at, (elapsed, dllp_bytes)) in runs.into_iter().enumerate() {
            let tlps = DataTlps {
                tlps: bytes.div_ceil(payload_bytes[at]),
                data_bytes: bytes,
                wire_payload_bytes: bytes,
                header_dw: HEADER_DW,
            };
            let load = LinkLoad { link: (), rate, dllp_bytes, span: elapsed };
            let ceiling = least_ceiling([load], tlps).ok_or("no link is on the way")?;
            let ceiling = ceiling.less_dllps_bytes_per_second;
            points[at].push(Point { bytes, elapsed, ceiling });
        }
    }
    Ok(points)
}

fn run(context: &Context<'_>) -> Result<[Vec<Point>; 2]> {
    context.may_begin()?;
    let name = "bridged, our pipeline";
    let lab = context.variant("crosslane")?;
    let nodes = TwoNodes::find(&lab)?;
    let card = nodes.card().to_owned();
    let host = lab.file().hosts.iter().find(|host| host.name == super::HOST);
    let host = host.ok_or_else(|| ReproduceError::experiment("lab sbdt", "it has no host"))?;
    let payload_bytes = DIRECTIONS.map(|direction| (direction.payload_bytes)(&host.part));
    let (seed, options) = (context.seed, ServerOptions::default());
    let ran = nodes.run(&lab, seed, name, options, 1, async |simulation, clients| {
        let client = clients.first().ok_or("there is no client")?;
        measure(simulation, client, &card, payload_bytes, seed as u32).await
    });
    let (points, now) = ran?;
    context.done(name, now);
    points.map_err(|problem| ReproduceError::experiment(name, problem))
}

pub(super) fn experiment(context: &Context<'_>) -> Result<Experiment> {
    let mut table = Table::headed(" | transfer | MB/s: | ceiling MB/s: | of it %: | wanted %:");
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    for (direction, points) in DIRECTIONS.into_iter().zip(run(context)?) {
        let [small, less, more] = points[..] else { unreachable!("three sizes were run") };
        let times = [(less.bytes, less.elapsed.0), (more.bytes, more.elapsed.0)];
        let whole = WHOLE_BYTES as f64 * 1e12 / further(times, WHOLE_BYTES);
        let at_small = small.bytes as f64 * 1e12 / small.elapsed.0.max(1) as f64;
        for (bytes, rate, ceiling, least) in [
            (small.bytes, at_small, small.ceiling, LEAST_SMALL),
            (WHOLE_BYTES, whole, more.ceiling, LEAST_WHOLE),
        ] {
            let (words, share) = (direction.words, rate / ceiling);
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
