// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run was not faster, in plain sentences with figures.

use crosslane_driver::ChannelKind;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;

use crate::measured::{ChannelReport, Measured, Workload};

/// Shares below this are not worth a word.
const LEAST_SHARE: f64 = 0.001;

/// What one direction of a link did while the data moved: from a lab's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// `fpga1 -> rc47a.p1`.
    pub name: String,
    /// Its rate.
    pub rate: LinkRate,
    /// How long it was counted.
    pub span: Picoseconds,
    /// Bytes of DLLPs.
    pub dllp_bytes: u64,
    /// Idle time with its reason, such as `no credit`.
    pub idle: Vec<(String, Picoseconds)>,
}

impl LinkUse {
    /// Share of the time in which it was idle, 0 to 1.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        share(self.idle.iter().map(|(_, time)| time.0).sum(), self.span)
    }

    /// Share of the time that DLLPs took, 0 to 1.
    #[must_use]
    pub fn dllp_share(&self) -> f64 {
        let seconds = self.span.as_seconds();
        if seconds > 0.0 {
            self.dllp_bytes as f64 / self.rate.bytes_per_second() / seconds
        } else {
            0.0
        }
    }
}

/// Why a run was not faster: one or two sentences with shares of the time in which data moved,
/// the largest first. `link` is the busiest direction on the data's way where its counters are
/// known; without it the engine's counters alone are used, and the sentence says so.
#[must_use]
pub fn why_not_faster(measured: &Measured, link: Option<&LinkUse>) -> Vec<String> {
    let engine = engine_losses(measured);
    let Some(link) = link else { return vec![by_engine_alone(&engine)] };
    let mut sentences = Vec::new();
    let idle = link.idle_share();
    if idle < LEAST_SHARE {
        sentences.push(format!("{} was never idle: the link is the limit", link.name));
    } else {
        let parts = idle_parts(idle, engine, link);
        sentences.push(format!("{} was idle {} of the time{parts}", link.name, percent(idle)));
    }
    let dllps = link.dllp_share();
    if dllps >= LEAST_SHARE {
        sentences.push(format!(
            "DLLPs for the traffic in the other direction took {} of the time",
            percent(dllps)
        ));
    }
    sentences
}

/// What an idle link waited for: what the engine says, then what the link itself says of its
/// receiver, and what is left of the idle time.
fn idle_parts(idle: f64, engine: Vec<Loss>, link: &LinkUse) -> String {
    let mut losses: Vec<Loss> = engine;
    for (reason, time) in &link.idle {
        if !matches!(reason.as_str(), "nothing to send" | "requester gap") {
            let loss = share(time.0, link.span);
            losses.push(Loss { share: loss, words: format!("{reason} at its receiver") });
        }
    }
    losses.retain(|loss| loss.share >= LEAST_SHARE);
    losses.sort_by(|a, b| b.share.total_cmp(&a.share));
    let known: f64 = losses.iter().map(|loss| loss.share).sum();
    if idle - known >= LEAST_SHARE {
        let words = "between TLPs, at the sender's own pace".to_owned();
        losses.push(Loss { share: idle - known, words });
    }
    let parts: Vec<String> = losses.iter().map(Loss::phrase).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

fn by_engine_alone(losses: &[Loss]) -> String {
    let parts: Vec<String> = losses.iter().map(Loss::phrase).collect();
    if parts.is_empty() {
        "the engine was never idle, by its own counters: the link is the limit".to_owned()
    } else {
        format!("the engine was idle, by its own counters, {}", parts.join(", "))
    }
}

/// A share of the time that was lost, and to what.
#[derive(Clone, Debug, PartialEq)]
struct Loss {
    share: f64,
    words: String,
}

impl Loss {
    fn phrase(&self) -> String {
        format!("{} {}", percent(self.share), self.words)
    }
}

/// What the engine's counters say of the channel that sets the pace, the largest first.
fn engine_losses(measured: &Measured) -> Vec<Loss> {
    // Through cards it is the first engine's reads that set the pace.
    let kind = match measured.workload {
        Workload::Write => ChannelKind::C2h,
        Workload::PeerWrite => ChannelKind::Peer,
        Workload::Read | Workload::Chain | Workload::Loopback => ChannelKind::H2c,
    };
    let Some(channel) = measured.channels.iter().find(|channel| channel.kind == kind) else {
        return Vec::new();
    };
    let counters = &channel.counters;
    let clocks = counters.last_clocks.saturating_sub(counters.first_clocks);
    if clocks == 0 {
        return Vec::new();
    }
    let losses = [
        (u64::from(counters.gap_clocks), "in the gap after a descriptor"),
        (channel.no_descriptor_clocks(), "without a descriptor"),
        (u64::from(counters.no_data_clocks), "without data in the stream"),
        (u64::from(counters.no_tag_clocks), "for want of a tag or of staging room"),
        (u64::from(counters.no_credit_clocks), "for want of the peer's credit"),
    ];
    let mut losses: Vec<Loss> = losses
        .into_iter()
        .map(|(lost, words)| Loss { share: lost as f64 / clocks as f64, words: words.to_owned() })
        .filter(|loss| loss.share >= LEAST_SHARE)
        .collect();
    losses.sort_by(|a, b| b.share.total_cmp(&a.share));
    losses
}

impl ChannelReport {
    /// Clocks without a descriptor while data moved. The engine counts them from the reset of
    /// its counters on, so the time before the first TLP and behind the last is taken off.
    #[must_use]
    pub fn no_descriptor_clocks(&self) -> u64 {
        let moving = self.counters.last_clocks.saturating_sub(self.counters.first_clocks);
        let around = self.counted_clocks.saturating_sub(moving);
        u64::from(self.counters.no_descriptor_clocks).saturating_sub(around)
    }
}

fn share(part_ps: u64, span: Picoseconds) -> f64 {
    part_ps as f64 / span.0.max(1) as f64
}

/// `9.6 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::DataErrors;
    use crosslane_driver::{ChannelCounters, Plan};
    use crosslane_pcie::link::{Generation, Width};

    fn measured(counters: ChannelCounters) -> Measured {
        Measured {
            name: "fpga1 -> host".to_owned(),
            workload: Workload::Write,
            size_bytes: 4096,
            iterations: 1,
            bytes: 4096,
            latencies: vec![Picoseconds(4_000_000)],
            started: Picoseconds(0),
            ended: Picoseconds(4_000_000),
            hardware: None,
            channels: vec![ChannelReport {
                device: "fpga1".to_owned(),
                kind: ChannelKind::C2h,
                counters,
                clock: Picoseconds(4000),
                counted_clocks: 1300,
            }],
            lanes: Vec::new(),
            post_to_first_tlp: None,
            registration: None,
            plan: Plan {
                path: Vec::new(),
                max_payload_bytes: 128,
                expected_bytes_per_second: 0.0,
                slowest_link: String::new(),
                through_root_complex: false,
                refused: Vec::new(),
            },
            data_errors: DataErrors::default(),
        }
    }

    fn link(idle: &[(&str, u64)], dllp_bytes: u64) -> LinkUse {
        LinkUse {
            name: "fpga1 -> sw".to_owned(),
            rate: LinkRate {
                generation: Generation::from_number(2).unwrap(),
                width: Width::new(4).unwrap(),
            },
            span: Picoseconds(4_000_000),
            dllp_bytes,
            idle: idle.iter().map(|(why, ps)| ((*why).to_owned(), Picoseconds(*ps))).collect(),
        }
    }

    const MOVING: ChannelCounters = ChannelCounters {
        bytes: 4096,
        tlps: 32,
        fetched: 1,
        first_clocks: 200,
        last_clocks: 1200,
        no_descriptor_clocks: 310,
        no_data_clocks: 0,
        no_tag_clocks: 0,
        link_clocks: 0,
        no_credit_clocks: 0,
        gap_clocks: 96,
    };

    #[test]
    fn an_idle_link_is_explained_by_the_engine_and_by_the_link() {
        let idle = [("nothing to send", 440_000), ("no credit", 40_000)];
        let sentences = why_not_faster(&measured(MOVING), Some(&link(&idle, 160)));
        assert_eq!(
            sentences,
            [
                "fpga1 -> sw was idle 12.0 % of the time: 9.6 % in the gap after a descriptor, \
                 1.0 % without a descriptor, 1.0 % no credit at its receiver, 0.4 % between TLPs, \
                 at the sender's own pace",
                "DLLPs for the traffic in the other direction took 2.0 % of the time"
            ]
        );
    }

    #[test]
    fn a_full_link_is_the_limit() {
        let sentences = why_not_faster(&measured(MOVING), Some(&link(&[], 0)));
        assert_eq!(sentences, ["fpga1 -> sw was never idle: the link is the limit"]);
    }

    #[test]
    fn without_the_link_the_sentence_says_whose_counters_they_are() {
        let sentences = why_not_faster(&measured(MOVING), None);
        assert_eq!(
            sentences,
            ["the engine was idle, by its own counters, 9.6 % in the gap after a descriptor, \
              1.0 % without a descriptor"]
        );
    }
}
