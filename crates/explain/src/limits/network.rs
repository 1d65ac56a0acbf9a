// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of network processors: gets, and exchanges in a torus, with the limits of the processors,
//! their cables, and the choices of their driver.

use crosslane_driver::network_processor::{Buffers, Requests};
use crosslane_experiment::{
    GetWork, HaloOptions, MAX_IN_FLIGHT, NgetOptions, Scenario, SoakOptions,
};
use crosslane_fabric::parameters::Parameters;
use crosslane_host::{Mapping, Waiting};
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::ways::{Requester, network_ways};
use super::{
    Explainable, Levers, NO_TIME, SHORT_BYTES, Short, Spots, lengthened, lever, levers_of, lift,
};
use crate::search::Lever;

/// Fewest loops of a shortened run of gets.
const SHORT_LOOPS: u64 = 16;
/// Most lanes of a cable, and the highest rate of each, bits per second.
const MOST_LANES: u8 = 8;
const MOST_LANE_BITS: u64 = 5_000_000_000;

impl Explainable for GetWork {
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let NgetOptions { size_bytes, in_flight, per_loop, loops, .. } = scenario.work.options;
        let each = size_bytes * u64::from(per_loop);
        let least = SHORT_LOOPS.max(4 * u64::from(in_flight) / u64::from(per_loop));
        lengthened(|times| {
            let fewer = (SHORT_BYTES * times / each.max(1)).max(least * times).min(loops);
            let mut short = scenario.clone();
            short.work.options.loops = fewer;
            let words = format!("{fewer} loops instead of {loops}");
            (short, (fewer != loops).then_some(words))
        })
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let processors = [scenario.work.processor.as_str()];
        let ways = network_ways(&scenario.lab, scenario.seed, &processors, (false, true))?;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        processors_of(&mut spots);
        let mut levers = levers_of(spots);
        levers.extend(driver(&scenario.work));
        Ok(levers)
    }
}

impl Explainable for HaloOptions {
    /// Shortens the number of exchanges: all are alike.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let exchanges = scenario.work.exchanges;
        let mut short = scenario.clone();
        short.work.exchanges = 1;
        match exchanges {
            0 | 1 => vec![(short, None)],
            2.. => vec![
                (short, Some(format!("1 exchange instead of {exchanges}"))),
                (scenario.clone(), None),
            ],
        }
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let nodes = scenario.lab.file().tori.iter().flat_map(|torus| &torus.nodes);
        let nodes: Vec<&str> = nodes.map(String::as_str).collect();
        let ways = network_ways(&scenario.lab, scenario.seed, &nodes, (true, true))?;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        processors_of(&mut spots);
        cables(&mut spots);
        Ok(levers_of(spots))
    }
}

impl Explainable for SoakOptions {
    /// A test is as long as it is: nothing is shortened.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        vec![(scenario.clone(), None)]
    }

    /// Nothing but the cables limits it: generators and checkers are within the links.
    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let nodes = scenario.lab.file().tori.iter().flat_map(|torus| &torus.nodes);
        let nodes: Vec<&str> = nodes.map(String::as_str).collect();
        let ways = network_ways(&scenario.lab, scenario.seed, &nodes, (true, true))?;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        cables(&mut spots);
        Ok(levers_of(spots))
    }
}

/// Staging memory and times of network processors.
fn processors_of(spots: &mut Spots<'_>) {
    for requester in spots.ways.requesters() {
        let Requester::Processor(index) = requester else { continue };
        let Some(processor) = spots.file.endpoints[index].part.network_processor else { continue };
        let mut add = |kind, words, lifted, role, edit: fn(&mut _)| {
            let spot = spots.endpoint(index, kind, words, lifted, move |part| {
                part.network_processor.iter_mut().for_each(edit);
            });
            spot.role = role;
        };
        let none = || "none".to_owned();
        let (bytes, most) = (processor.staging_bytes, processor.fastest().staging_bytes);
        if bytes < most {
            let bytes = size_words(bytes.into());
            let words = format!("the staging memory of {bytes} for each channel of {{}}");
            let lifted = size_words(most.into());
            add(LimitKind::Staging, words, lifted, "", |p| lift!(p => staging_bytes));
        }
        let interval = processor.request_interval;
        if interval > NO_TIME {
            let words = format!("the {interval} from one request of {{}} to the next");
            add(LimitKind::DescriptorGap, words, none(), "", |p| lift!(p => request_interval));
        }
        let sum = processor.request_latency + processor.send_latency + processor.receive_latency;
        if sum > NO_TIME {
            let words = format!("the {sum} within {{}}, for request and datagram");
            add(
                LimitKind::EndpointLatency,
                words,
                none(),
                "network processor",
                |p| lift!(p => request_latency, send_latency, receive_latency),
            );
        }
    }
}

/// Rate, length and bit errors of the cables of tori.
fn cables(spots: &mut Spots<'_>) {
    for (index, torus) in spots.file.tori.iter().enumerate() {
        let cable = torus.parameters;
        let mut add = |kind, words: String, lifted: String, edit: fn(&mut _)| {
            spots.add(kind, "the torus", words, lifted, move |file| {
                edit(&mut file.tori[index].parameters);
            });
        };
        let (none, gbits) = (|| "none".to_owned(), |bits: u64| bits as f64 / 1e9);
        let rate = gbits(cable.lane_bits_per_second);
        let words = format!("the cables of {{}}, x{} at {rate:.1} Gb/s", cable.lanes);
        if cable.lane_bits_per_second < MOST_LANE_BITS {
            let lifted = format!("{:.1} Gb/s", gbits(MOST_LANE_BITS));
            add(LimitKind::LinkGeneration, words, lifted, |cable| {
                cable.lane_bits_per_second = MOST_LANE_BITS;
            });
        } else if cable.lanes < MOST_LANES {
            let lifted = format!("x{MOST_LANES}");
            add(LimitKind::LinkWidth, words, lifted, |cable| cable.lanes = MOST_LANES);
        }
        if cable.latency > NO_TIME {
            let words = format!("the {} of flight on the cables of {{}}", cable.latency);
            add(LimitKind::Flight, words, none(), |cable| cable.latency = NO_TIME);
        }
        if cable.bit_error_rate > 0.0 {
            let one_in = 1.0 / cable.bit_error_rate;
            let words = format!("bit errors on the cables of {{}}, one in {one_in:.0}");
            add(LimitKind::BitErrors, words, none(), |cable| cable.bit_error_rate = 0.0);
        }
    }
}

/// Choices of the program and its driver.
fn driver(case: &GetWork) -> Vec<Lever<GetWork>> {
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
        levers.push(lever::<GetWork>(LimitKind::Outstanding, said, |case| {
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
        levers.push(lever::<GetWork>(kind, said, |case| {
            case.work.modes.requests = Requests::Stores(Mapping::WriteCombined);
        }));
    }
    if case.modes.buffers == Buffers::Copied {
        let said = (name, format!("the copy of the data of each get of {name}"), "none");
        levers.push(lever::<GetWork>(LimitKind::Processor, said, |case| {
            case.work.modes.buffers = Buffers::Mapped;
        }));
    }
    if case.modes.waiting != Waiting::Polling {
        let words = format!("how notifications of {name} are detected");
        levers.push(lever::<GetWork>(LimitKind::Notification, (name, words, "polling"), |case| {
            case.work.modes.waiting = Waiting::Polling;
        }));
    }
    levers
}
