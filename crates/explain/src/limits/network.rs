// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of network processors, their cables, and the choices of their driver.

use crosslane_driver::network_processor::{Buffers, Requests};
use crosslane_experiment::{GetWork, HaloOptions, MAX_IN_FLIGHT, Scenario};
use crosslane_host::{Mapping, Waiting};
use crosslane_lab::LabFile;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::choices::lever;
use super::requesters::edit_part;
use super::ways::{Requester, Ways, network_ways};
use super::{Spot, levers_of, of_lab};
use crate::error::ExplainError;
use crate::search::Lever;

/// Largest staging memory of a network processor, bytes (docs/network-processor.md).
const LARGE_STAGING_BYTES: u32 = 1 << 16;
/// Most lanes of a cable, and the highest rate of each, bits per second.
const MOST_LANES: u8 = 8;
const MOST_LANE_BITS: u64 = 5_000_000_000;

/// Lists the limits of gets.
pub(crate) fn of_gets(
    case: &Scenario<GetWork>,
    first: &Scenario<GetWork>,
) -> Result<Vec<Lever<Scenario<GetWork>>>, ExplainError> {
    let processors = [case.work.processor.as_str()];
    let ways = network_ways(&case.lab, case.seed, &processors, (false, true))?;
    let mut spots = of_lab(&case.lab, &first.lab, &ways);
    spots.extend(processors_of(case.lab.file(), &ways));
    let mut levers = levers_of(spots);
    levers.extend(driver(&case.work));
    Ok(levers)
}

/// Lists the limits of exchanges in a torus.
pub(crate) fn of_exchanges(
    case: &Scenario<HaloOptions>,
    first: &Scenario<HaloOptions>,
) -> Result<Vec<Lever<Scenario<HaloOptions>>>, ExplainError> {
    let file = case.lab.file();
    let nodes = file.tori.iter().flat_map(|torus| &torus.nodes).map(String::as_str);
    let nodes: Vec<&str> = nodes.collect();
    let ways = network_ways(&case.lab, case.seed, &nodes, (true, true))?;
    let mut spots = of_lab(&case.lab, &first.lab, &ways);
    spots.extend(processors_of(file, &ways));
    spots.extend(cables(file));
    Ok(levers_of(spots))
}

/// Staging memory and times of network processors.
fn processors_of(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = Vec::new();
    for requester in ways.requesters() {
        let Requester::Processor(index) = requester else { continue };
        let endpoint = &file.endpoints[index];
        let (Some(processor), name) = (endpoint.part.network_processor, &endpoint.name) else {
            continue;
        };
        if processor.staging_bytes < LARGE_STAGING_BYTES {
            let bytes = size_words(processor.staging_bytes.into());
            let words = format!("the staging memory of {bytes} for each channel of {{}}");
            let lifted = size_words(LARGE_STAGING_BYTES.into());
            spots.push(Spot::new(LimitKind::Staging, name, words, lifted, move |file| {
                edit_part(file, index, |part| {
                    let processor = part.network_processor.iter_mut();
                    processor.for_each(|it| it.staging_bytes = LARGE_STAGING_BYTES);
                });
            }));
        }
        let interval = processor.request_interval;
        if interval > Picoseconds::ZERO {
            let words = format!("the {interval} from one request of {{}} to the next");
            spots.push(Spot::new(LimitKind::DescriptorGap, name, words, "none", move |file| {
                edit_part(file, index, |part| {
                    let processor = part.network_processor.iter_mut();
                    processor.for_each(|it| it.request_interval = Picoseconds::ZERO);
                });
            }));
        }
        let sum = processor.request_latency + processor.send_latency + processor.receive_latency;
        if sum > Picoseconds::ZERO {
            let words = format!("the {sum} within {{}}, for request and datagram");
            let spot = Spot::new(LimitKind::EndpointLatency, name, words, "none", move |file| {
                edit_part(file, index, |part| {
                    part.network_processor.iter_mut().for_each(|it| {
                        it.request_latency = Picoseconds::ZERO;
                        it.send_latency = Picoseconds::ZERO;
                        it.receive_latency = Picoseconds::ZERO;
                    });
                });
            });
            spots.push(spot.in_role("network processor"));
        }
    }
    spots
}

/// Rate, length and bit errors of the cables of tori.
fn cables(file: &LabFile) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (index, torus) in file.tori.iter().enumerate() {
        let cable = torus.parameters;
        let place = "the torus";
        let lanes =
            format!("x{} at {:.1} Gb/s", cable.lanes, cable.lane_bits_per_second as f64 / 1e9);
        if cable.lane_bits_per_second < MOST_LANE_BITS {
            let words = format!("the cables of {{}}, {lanes}");
            let lifted = format!("{:.1} Gb/s", MOST_LANE_BITS as f64 / 1e9);
            let kind = LimitKind::LinkGeneration;
            spots.push(Spot::new(kind, place, words, lifted, move |file| {
                file.tori[index].parameters.lane_bits_per_second = MOST_LANE_BITS;
            }));
        } else if cable.lanes < MOST_LANES {
            let words = format!("the cables of {{}}, {lanes}");
            let lifted = format!("x{MOST_LANES}");
            let spot = Spot::new(LimitKind::LinkWidth, place, words, lifted, move |file| {
                file.tori[index].parameters.lanes = MOST_LANES;
            });
            spots.push(spot);
        }
        if cable.latency > Picoseconds::ZERO {
            let words = format!("the {} of flight on the cables of {{}}", cable.latency);
            spots.push(Spot::new(LimitKind::Flight, place, words, "none", move |file| {
                file.tori[index].parameters.latency = Picoseconds::ZERO;
            }));
        }
        if cable.bit_error_rate > 0.0 {
            let words = format!(
                "bit errors on the cables of {{}}, one in {:.0}",
                1.0 / cable.bit_error_rate
            );
            spots.push(Spot::new(LimitKind::BitErrors, place, words, "none", move |file| {
                file.tori[index].parameters.bit_error_rate = 0.0;
            }));
        }
    }
    spots
}

/// Choices of the program and its driver.
fn driver(case: &GetWork) -> Vec<Lever<Scenario<GetWork>>> {
    let name = case.processor.as_str();
    let mut levers = Vec::new();
    let in_flight = case.options.in_flight;
    if in_flight < MAX_IN_FLIGHT {
        let words = match in_flight {
            1 => format!("one get of {name} at a time"),
            _ => format!("the {in_flight} gets of {name} at once"),
        };
        let lifted = format!("{MAX_IN_FLIGHT} at once");
        let said = (name, words, lifted.as_str());
        levers.push(lever(LimitKind::Outstanding, said, |case: &mut Scenario<GetWork>| {
            case.work.options.in_flight = MAX_IN_FLIGHT;
        }));
    }
    let requests = match case.modes.requests {
        Requests::SystemCall => Some((LimitKind::SystemCall, "the system call for each get")),
        Requests::Stores(Mapping::Uncached) => {
            Some((LimitKind::UncachedStores, "uncached stores of each request"))
        }
        Requests::Stores(Mapping::WriteCombined) => None,
    };
    if let Some((kind, words)) = requests {
        let said = (name, format!("{words} of {name}"), "write combining");
        levers.push(lever(kind, said, |case: &mut Scenario<GetWork>| {
            case.work.modes.requests = Requests::Stores(Mapping::WriteCombined);
        }));
    }
    if case.modes.buffers == Buffers::Copied {
        let said = (name, format!("the copy of the data of each get of {name}"), "none");
        levers.push(lever(LimitKind::Processor, said, |case: &mut Scenario<GetWork>| {
            case.work.modes.buffers = Buffers::Mapped;
        }));
    }
    if case.modes.waiting != Waiting::Polling {
        let words = format!("how notifications of {name} are detected");
        levers.push(lever(LimitKind::Notification, (name, words, "polling"), |case| {
            let case: &mut Scenario<GetWork> = case;
            case.work.modes.waiting = Waiting::Polling;
        }));
    }
    levers
}
