// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of engines through the driver, with the choices of the program that moves data.

use crosslane_driver::{DescriptorSource, Notification};
use crosslane_experiment::{EngineWork, Options, Registration, Scenario, Workload};
use crosslane_fabric::IO_PAGE_BYTES;
use crosslane_host::PageSize;
use crosslane_results::LimitKind;

use super::payloads::{self, Asked};
use super::requesters::{descriptors, windows};
use super::ways::workload_ways;
use super::{Spots, dllps, lever, levers_of};
use crate::explainable::{
    Explainable, Levers, SHORT_BYTES, SHORT_SHARED_BYTES, Short, Transfers, lengthened,
};
use crate::search::Lever;

/// Most transfers in flight of a workload that are tried.
const MANY_TRANSFERS: u64 = 64;
/// Most bytes of these transfers, and thus of host memory.
const MANY_BYTES: u64 = 64 << 20;
/// Bytes of a small page.
const PAGE_BYTES: u64 = 4096;
/// Most descriptors of a ring (docs/engine.md).
const MOST_RING_ENTRIES: u64 = 1 << 16;
/// Fewest and most round trips of a shortened ping-pong. In a lab all are alike, except for the SKP
/// ordered sets and DLLPs that delay some.
const SHORT_ROUND_TRIPS: (u64, u64) = (4, 100);

impl Explainable for EngineWork {
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let Self { workload, flows } = &scenario.work;
        let options = workload.options();
        if let Workload::Latency(_) = workload {
            return with_fewer_rounds(scenario, *options);
        }
        let transfers = Transfers {
            count: options.iterations,
            size_bytes: options.size_bytes,
            outstanding: options.outstanding.into(),
        };
        let is_shared = flows.len() > 1 || matches!(workload, Workload::Chain(_));
        let bytes = if is_shared { SHORT_SHARED_BYTES } else { SHORT_BYTES };
        let with = |(transfers, words): Short<Transfers>| {
            let mut short = scenario.clone();
            let options = short.work.workload.options_mut();
            (options.iterations, options.size_bytes) = (transfers.count, transfers.size_bytes);
            (short, words)
        };
        let held = iotlb_bytes(scenario, options.pages);
        transfers.shortened(bytes, held).into_iter().map(with).collect()
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let ways = workload_ways(scenario)?;
        let workload = &scenario.work.workload;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        if workload.keeps_windows() {
            windows(&mut spots);
        }
        match workload.options().descriptors {
            _ if matches!(workload, Workload::Latency(_)) => {}
            DescriptorSource::CommandPort => {}
            source => descriptors(&mut spots, matches!(source, DescriptorSource::Ring { .. })),
        }
        let mut levers = levers_of(spots);
        levers.extend(payloads::levers(scenario, &ways));
        levers.push(dllps(&ways));
        levers.extend(program(&scenario.work));
        Ok(levers)
    }
}

/// Largest IOTLB, as memory of the pages that it holds, that a shortened run still exceeds: beyond
/// it the run would be too long.
const MOST_HELD_BYTES: u64 = 16 << 20;

fn with_fewer_rounds(
    scenario: &Scenario<EngineWork>,
    options: Options,
) -> Vec<Short<Scenario<EngineWork>>> {
    let most = SHORT_BYTES / options.size_bytes.max(1);
    let least = most.clamp(SHORT_ROUND_TRIPS.0, SHORT_ROUND_TRIPS.1);
    lengthened(|times| {
        let rounds = (least * times).min(options.iterations);
        let mut short = scenario.clone();
        short.work.workload.options_mut().iterations = rounds;
        let words = format!("{rounds} round trips instead of {}", options.iterations);
        (short, (rounds != options.iterations).then_some(words))
    })
}

/// Returns the memory that the IOTLBs of the flows' hosts hold, bytes; 0 without an IOTLB, or if it
/// holds so much that walks do not matter.
fn iotlb_bytes(case: &Scenario<EngineWork>, pages: PageSize) -> u64 {
    let hosts = &case.lab.file().hosts;
    let held = case.work.flows.iter().filter_map(|flow| {
        let iommu = hosts.get(flow.host)?.part.parameters.iommu?;
        let page_bytes = match pages {
            PageSize::Small => IO_PAGE_BYTES,
            PageSize::Huge => iommu.largest_page_bytes,
        };
        Some(u64::from(iommu.iotlb_entries).saturating_mul(page_bytes))
    });
    held.filter(|bytes| *bytes <= MOST_HELD_BYTES).max().unwrap_or(0)
}

impl Asked for EngineWork {
    fn asked_bytes(&self) -> Option<u32> {
        self.workload.options().payload_bytes
    }

    /// A ping-pong message is a power of two, or a whole number of payloads.
    fn can_have(&self, payload_bytes: u32) -> bool {
        let message = self.workload.options().size_bytes;
        !matches!(self.workload, Workload::Latency(_))
            || message.is_power_of_two()
            || message.is_multiple_of(payload_bytes.into())
    }

    fn ask_for_longest(&mut self) {
        let options = self.workload.options_mut();
        (options.payload_bytes, options.oversize) = (None, false);
    }
}

/// The choices of the host's program.
fn program(case: &EngineWork) -> Vec<Lever<EngineWork>> {
    let (Some(flow), options) = (case.flows.first(), case.workload.options()) else {
        return Vec::new();
    };
    if let Workload::Latency(_) = case.workload {
        return Vec::new();
    }
    let host = flow.memory.name.as_str();
    let choose = |kind, words: String, lifted: &str, set: fn(&mut Options)| {
        lever::<EngineWork>(kind, (host, words, lifted), move |run| {
            set(run.work.workload.options_mut());
        })
    };
    let mut levers = Vec::new();
    if options.notification != Notification::Poll {
        let words = format!("interrupts, by which {host} learns of completions");
        levers.push(choose(LimitKind::Notification, words, "polling", |options| {
            options.notification = Notification::Poll;
        }));
    }
    if options.system_call {
        let words = format!("the system call on {host} for each transfer");
        levers.push(choose(LimitKind::SystemCall, words, "none", |options| {
            options.system_call = false;
        }));
    }
    if options.registration == Registration::Within {
        let words = format!("memory of {host} that is registered within each transfer");
        levers.push(choose(LimitKind::Registration, words, "registered before", |options| {
            options.registration = Registration::Before;
        }));
    }
    levers.extend(outstanding(case, options, host));
    levers
}

fn outstanding(case: &EngineWork, options: &Options, host: &str) -> Option<Lever<EngineWork>> {
    let one_at_a_time = options.registration == Registration::Within
        || options.descriptors == DescriptorSource::CommandPort
        || matches!(case.workload, Workload::Chain(_));
    let now = u64::from(options.outstanding);
    let many = (MANY_BYTES / options.size_bytes).clamp(2, MANY_TRANSFERS).min(options.iterations);
    if one_at_a_time || many <= now {
        return None;
    }
    let each = match options.pages {
        PageSize::Small => options.size_bytes.div_ceil(PAGE_BYTES) + 1,
        PageSize::Huge => 2,
    };
    let needed = (many * each).next_power_of_two().min(MOST_RING_ENTRIES) as u32;
    let words = match now {
        1 => format!("one transfer at a time, which {host} posts"),
        _ => format!("the {now} transfers at once that {host} posts"),
    };
    let lifted = format!("{many} at once");
    let said = (host, words, lifted.as_str());
    Some(lever::<EngineWork>(LimitKind::Outstanding, said, move |run| {
        let options = run.work.workload.options_mut();
        options.outstanding = many as u32;
        if let DescriptorSource::Ring { entries } = &mut options.descriptors {
            *entries = needed.max(*entries);
        }
    }))
}
