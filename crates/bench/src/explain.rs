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
    sentences(measured.workload, &measured.channels, link)
}

fn sentences(
    workload: Workload,
    channels: &[ChannelReport],
    link: Option<&LinkUse>,
) -> Vec<String> {
    let engine = engine_losses(workload, channels);
    let Some(link) = link else { return vec![by_engine_alone(&engine)] };
    let mut sentences = Vec::new();
    let idle = link.idle_share();
    let engine_share: f64 = engine.iter().map(|loss| loss.share).sum();
    if idle < LEAST_SHARE {
        sentences.push(format!("{} was never idle: the link is the limit", link.name));
    } else if engine_share > idle + LEAST_SHARE {
        // What had been asked for still came in while the engine could not ask for more, so its
        // waiting is no part of the link's idle time.
        let waited: Vec<String> = engine.iter().map(Loss::phrase).collect();
        sentences.push(format!(
            "{} was idle {} of the time; the engine waited {}",
            link.name,
            percent(idle),
            waited.join(", ")
        ));
    } else {
        let parts = idle_parts(idle, engine, link);
        sentences.push(format!("{} was idle {} of the time{parts}", link.name, percent(idle)));
    }
    sentences.extend(partial_lines(workload, channels, link));
    let dllps = link.dllp_share();
    if dllps >= LEAST_SHARE {
        sentences.push(format!(
            "DLLPs for the traffic in the other direction took {} of the time",
            percent(dllps)
        ));
    }
    sentences
}

/// Bytes of a line of host memory.
const LINE_BYTES: f64 = 64.0;

/// Whether host memory was busy with parts of its lines, which cost it more than whole ones.
fn partial_lines(workload: Workload, channels: &[ChannelReport], link: &LinkUse) -> Option<String> {
    let busy = link.idle.iter().find(|(reason, _)| reason == "receiver busy")?.1;
    let writer = channels.iter().find(|channel| channel.kind == ChannelKind::C2h)?;
    let payload = writer.tlp_bytes();
    let is_slow = share(busy.0, link.span) >= LEAST_SHARE;
    (workload == Workload::Write && is_slow && payload < LINE_BYTES).then(|| {
        format!(
            "writes of {payload:.0} B are parts of the {LINE_BYTES:.0} B lines of host memory, \
             which takes each of them as long as a line or longer"
        )
    })
}

/// What an idle link waited for: what the engine says, then what the link itself says of its
/// receiver, and what is left of the idle time.
fn idle_parts(idle: f64, engine: Vec<Loss>, link: &LinkUse) -> String {
    let mut losses: Vec<Loss> = engine;
    for (reason, time) in &link.idle {
        let words = match reason.as_str() {
            // The engine has said more of these.
            "nothing to send" | "requester gap" | "no tag" => continue,
            "no credit" => "for credits on their way back",
            "receiver busy" => "because what takes the data was busy",
            "replay buffer" => "because the replay buffer was full",
            other => other,
        };
        losses.push(Loss { share: share(time.0, link.span), words: words.to_owned() });
    }
    losses.retain(|loss| loss.share >= LEAST_SHARE);
    // The engine and the link count over times that differ a little; no part exceeds the whole.
    losses.iter_mut().for_each(|loss| loss.share = loss.share.min(idle));
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
fn engine_losses(workload: Workload, channels: &[ChannelReport]) -> Vec<Loss> {
    // Through cards it is the first engine's reads that set the pace.
    let kind = match workload {
        Workload::Write => ChannelKind::C2h,
        Workload::PeerWrite => ChannelKind::Peer,
        Workload::Read | Workload::Chain | Workload::Loopback => ChannelKind::H2c,
    };
    let Some(channel) = channels.iter().find(|channel| channel.kind == kind) else {
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
        (u64::from(counters.no_tag_clocks), "because no more reads may be in flight"),
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
    use crosslane_driver::ChannelCounters;
    use crosslane_pcie::link::{Generation, Width};

    fn sentences_of(link: Option<&LinkUse>) -> Vec<String> {
        let channel = ChannelReport {
            device: "fpga1".to_owned(),
            kind: ChannelKind::C2h,
            counters: MOVING,
            clock: Picoseconds(4000),
            counted_clocks: 1300,
        };
        sentences(Workload::Write, &[channel], link)
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
        let said = sentences_of(Some(&link(&idle, 160)));
        assert_eq!(
            said,
            [
                "fpga1 -> sw was idle 12.0 % of the time: 9.6 % in the gap after a descriptor, \
                 1.0 % without a descriptor, 1.0 % for credits on their way back, 0.4 % between \
                 TLPs, at the sender's own pace",
                "DLLPs for the traffic in the other direction took 2.0 % of the time"
            ]
        );
    }

    #[test]
    fn an_engine_that_waits_longer_than_the_link_is_idle_is_told_apart() {
        let said = sentences_of(Some(&link(&[("nothing to send", 40_000)], 0)));
        assert_eq!(
            said,
            ["fpga1 -> sw was idle 1.0 % of the time; the engine waited 9.6 % in the gap after a \
              descriptor, 1.0 % without a descriptor"]
        );
    }

    #[test]
    fn parts_of_lines_are_named() {
        let channel = ChannelReport {
            device: "fpga1".to_owned(),
            kind: ChannelKind::C2h,
            counters: ChannelCounters { tlps: 512, ..MOVING },
            clock: Picoseconds(4000),
            counted_clocks: 1300,
        };
        let link = link(&[("receiver busy", 2_000_000)], 0);
        let said = sentences(Workload::Write, &[channel], Some(&link));
        assert!(said[0].contains("50.0 % because what takes the data was busy"), "{said:?}");
        assert!(said[1].starts_with("writes of 8 B are parts of the 64 B lines"), "{said:?}");
    }

    #[test]
    fn a_full_link_is_the_limit() {
        let said = sentences_of(Some(&link(&[], 0)));
        assert_eq!(said, ["fpga1 -> sw was never idle: the link is the limit"]);
    }

    #[test]
    fn without_the_link_the_sentence_says_whose_counters_they_are() {
        let said = sentences_of(None);
        assert_eq!(
            said,
            ["the engine was idle, by its own counters, 9.6 % in the gap after a descriptor, \
              1.0 % without a descriptor"]
        );
    }
}
