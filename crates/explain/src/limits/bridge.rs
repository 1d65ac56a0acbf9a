// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers: the limits of both adapters and of the network between them, and the choices
//! of the bridge.

use crosslane_bridge::{Mode, ServerOptions};
use crosslane_experiment::{BridgeWork, Scenario, TwoNodes};
use crosslane_fabric::parameters::Parameters;
use crosslane_lab::file::NetworkParameters;
use crosslane_lab::file::parts::NicParameters;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::flows::{Asked, payload_levers};
use super::memories::rate_words;
use super::requesters::descriptors;
use super::ways::{Requester, bridge_ways};
use super::{
    Explainable, Levers, NO_TIME, Short, Spots, Transfers, dllps, lengthened, lever, levers_of,
    lift,
};
use crate::search::Lever;

/// Bytes of a shortened transfer before it is lengthened: the pipeline has to be full most of the
/// time.
const SHORT_BYTES: u64 = 2 << 20;
/// Slots, bytes of a slot, and bytes in flight in the network of a generous server.
const MANY_SLOTS: usize = 64;
const LARGE_SLOT_BYTES: u64 = 1 << 20;
const LARGE_WINDOW_BYTES: u64 = 64 << 20;

impl Explainable for BridgeWork {
    /// Shortens to fewer transfers, then to one that is shorter: each has the bridge for itself.
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let BridgeWork { plan, clients, .. } = &scenario.work;
        let size_bytes = plan.sizes.iter().copied().max().unwrap_or_default();
        let whole = Transfers { count: plan.iterations, size_bytes, outstanding: 1 };
        lengthened(|times| {
            let bytes = (SHORT_BYTES * times).next_multiple_of(4 * *clients as u64);
            let count = (bytes / size_bytes.max(1)).clamp(1, plan.iterations.max(1));
            let size_bytes = size_bytes.min(bytes);
            let mut short = scenario.clone();
            (short.work.plan.iterations, short.work.plan.sizes) = (count, vec![size_bytes]);
            (short, whole.words_of(Transfers { count, size_bytes, ..whole }))
        })
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let ways = bridge_ways(scenario)?;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        adapters(&mut spots);
        descriptors(&mut spots, true);
        let nodes = TwoNodes::find(&scenario.lab)?;
        let mut levers = levers_of(spots);
        levers.extend(payload_levers(scenario, &ways));
        levers.push(dllps(&ways));
        levers.extend(pipeline(&scenario.work, nodes.server()));
        Ok(levers)
    }
}

impl Asked for BridgeWork {
    fn asked_bytes(&self) -> Option<u32> {
        None
    }

    fn ask_for_longest(&mut self) {}
}

/// Limits of the adapters, and of the networks between them.
fn adapters(spots: &mut Spots<'_>) {
    let file = spots.file;
    let mut names: Vec<&str> = Vec::new();
    for requester in spots.ways.requesters() {
        let Requester::Nic(index) = requester else { continue };
        let Some(nic) = file.endpoints[index].part.nic else { continue };
        names.push(&file.endpoints[index].name);
        let mut add = |kind, words: String, lifted: String, edit: fn(&mut NicParameters)| {
            let spot = spots.endpoint(index, kind, words, lifted, move |part| {
                part.nic.iter_mut().for_each(edit);
            });
            spot.role = "adapter";
        };
        let best = nic.fastest();
        let (reads, most) = (nic.outstanding_reads, best.outstanding_reads);
        if reads < most {
            let words = match reads {
                1 => "one RDMA read of {} at a time".to_owned(),
                _ => format!("the {reads} RDMA reads of {{}} at once"),
            };
            let lifted = format!("{most} at once");
            add(LimitKind::Outstanding, words, lifted, |p| lift!(p => outstanding_reads));
        }
        if nic.request_interval > NO_TIME {
            let interval = nic.request_interval;
            let words = format!("the {interval} from one work request of {{}} to the next");
            add(
                LimitKind::DescriptorGap,
                words,
                "none".to_owned(),
                |p| lift!(p => request_interval),
            );
        }
        let latency = nic.request_latency + nic.packet_latency;
        if latency > NO_TIME {
            let words = format!("the {latency} within {{}}, for request and packet");
            add(
                LimitKind::EndpointLatency,
                words,
                "none".to_owned(),
                |p| lift!(p => request_latency, packet_latency),
            );
        }
        let least = nic.send_buffer_bytes.min(nic.receive_buffer_bytes);
        let most = best.send_buffer_bytes.min(best.receive_buffer_bytes);
        if least < most {
            let words =
                format!("the buffers of {{}} for the network, {}", size_words(least.into()));
            add(
                LimitKind::Staging,
                words,
                size_words(most.into()),
                |p| lift!(p => send_buffer_bytes, receive_buffer_bytes),
            );
        }
    }
    for (index, network) in file.networks.iter().enumerate() {
        if !names.contains(&network.first.as_str()) || !names.contains(&network.second.as_str()) {
            continue;
        }
        let (place, p) = (format!("{} <-> {}", network.first, network.second), network.parameters);
        let mut add = |kind, words: String, lifted: String, edit: fn(&mut NetworkParameters)| {
            spots.add(kind, &place, words, lifted, move |file| {
                edit(&mut file.networks[index].parameters);
            });
        };
        let rate = rate_words(p.bits_per_second as f64 / 8.0);
        let twice = NetworkParameters { bits_per_second: p.bits_per_second * 2, ..p };
        if twice.check().is_ok() {
            let words = format!("the network {{}}, {rate}");
            add(LimitKind::Link, words, "twice its rate".to_owned(), |p| p.bits_per_second *= 2);
        }
        if p.latency > NO_TIME {
            let words = format!("the {} of flight in the network {{}}", p.latency);
            add(LimitKind::Flight, words, "none".to_owned(), |p| lift!(p => latency));
        }
        let longest = p.fastest().mtu_bytes;
        if p.mtu_bytes < longest {
            let words = format!("packets of {} B in the network {{}}", p.mtu_bytes);
            add(
                LimitKind::MaxPayload,
                words,
                size_words(longest.into()),
                |p| lift!(p => mtu_bytes),
            );
        }
    }
}

/// Choices of the bridge.
fn pipeline(work: &BridgeWork, host: &str) -> Vec<Lever<BridgeWork>> {
    let server = &work.server;
    let mut levers = Vec::new();
    if work.plan.modes.contains(&Mode::Naive) {
        let words = "the steps of a naive transfer, one after the other".to_owned();
        let said = (host, words, "pipelined");
        levers.push(lever::<BridgeWork>(LimitKind::InTurn, said, |run| {
            run.work.plan.modes = vec![Mode::Pipelined];
        }));
        return levers;
    }
    let mut choose = |kind, words: String, lifted: &str, set: fn(&mut ServerOptions)| {
        levers.push(lever::<BridgeWork>(kind, (host, words, lifted), move |run| {
            set(&mut run.work.server);
        }));
    };
    if server.pace > NO_TIME {
        let words = format!("the delay of each stage to {} for each KiB", server.pace);
        choose(LimitKind::DescriptorGap, words, "none", |server| server.pace = NO_TIME);
    }
    let (slots, bytes) = (server.slots, server.slot_bytes);
    if slots < MANY_SLOTS {
        let words = match slots {
            1 => format!("the one slot of each ring on {host}"),
            _ => format!("the {slots} slots of each ring on {host}"),
        };
        choose(LimitKind::Staging, words, &format!("{MANY_SLOTS} slots"), |server| {
            server.slots = MANY_SLOTS;
        });
    }
    if bytes < LARGE_SLOT_BYTES {
        let words = format!("chunks of {} at most, a slot on {host}", size_words(bytes));
        choose(LimitKind::PieceLength, words, &size_words(LARGE_SLOT_BYTES), |server| {
            server.slot_bytes = LARGE_SLOT_BYTES;
        });
    }
    let window = server.window_bytes;
    if window < LARGE_WINDOW_BYTES {
        let words = format!("the {} in flight in the network for a client", size_words(window));
        choose(LimitKind::Outstanding, words, &size_words(LARGE_WINDOW_BYTES), |server| {
            server.window_bytes = LARGE_WINDOW_BYTES;
        });
    }
    levers
}
